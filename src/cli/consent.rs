//! `hookjail consent`: allow commands, list and revoke what is allowed.

use std::{ffi::OsString, process::ExitCode};

use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde_json::json;

use super::{Context, Failure, assemble::Assembly, output, program::resolve_program};
use crate::{
    admission::{
        OpenedFor, Program,
        allowlist::{Allowlist, Entry, command_line},
        digest::DigestCache,
    },
    config::Config,
    request::ProfileName,
};

/// Allows commands, lists and revokes what is allowed.
#[derive(Debug, Args)]
pub(super) struct Consent {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Allow a command, bound to what its files contain now
    Allow {
        /// The profile it may run under
        #[arg(long, default_value = "strict")]
        profile: String,
        /// When the consent ends, for example 2030-01-31T12:00:00Z
        #[arg(long, value_name = "TIME")]
        until: Option<Timestamp>,
        /// The command
        #[arg(
            required = true,
            trailing_var_arg = true,
            allow_hyphen_values = true,
            value_name = "CMD"
        )]
        command: Vec<OsString>,
    },
    /// List what is allowed
    List,
    /// Take a consent back
    Revoke {
        /// The command, as `list` shows it or as words
        #[arg(
            required = true,
            trailing_var_arg = true,
            allow_hyphen_values = true,
            value_name = "CMD"
        )]
        command: Vec<OsString>,
    },
}

impl Consent {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        let config = context.load()?;
        match self.command {
            Command::Allow {
                profile,
                until,
                command,
            } => allow(&config, context, &profile, until, command),
            Command::List => list(&config, context),
            Command::Revoke { command } => revoke(&config, context, &command),
        }
    }
}

fn allow(
    config: &Config,
    context: &Context,
    profile: &str,
    until: Option<Timestamp>,
    argv: Vec<OsString>,
) -> Result<ExitCode, Failure> {
    let registry = Assembly::registry(config)?;
    let policy = ProfileName::parse(profile).and_then(|name| registry.find(&name).cloned());
    let policy = policy.ok_or_else(|| Failure::new(format!("there is no profile `{profile}`")))?;
    let argv = resolve_program(argv)?;
    let command = command_line(&argv).ok_or_else(|| Failure::new("the command is not UTF-8"))?;
    let program = Program::open(
        Program::find(&argv, &policy.environment.path)?,
        &argv,
        &DigestCache::default(),
        OpenedFor::Oneself,
    )?;
    let approved_by = format!("uid {} by `hookjail consent allow`", nix::unistd::getuid());
    let mut entry = Entry::new(
        command.clone(),
        program.digests.clone(),
        profile.to_owned(),
        approved_by,
    );
    entry.expires_at = until;
    Allowlist::record(&config.allowlist(), entry)?;
    let digests: Vec<_> = program
        .digests
        .iter()
        .map(|digest| json!({ "path": digest.path, "role": digest.role.name(), "sha256": digest.sha256 }))
        .collect();
    if context.json {
        output::json_line(&json!({ "command": command, "profile": profile, "digests": digests }));
    } else {
        output::stdout(format!("allowed under profile {profile}: {command}\n").as_bytes());
        for digest in &program.digests {
            output::stdout(
                format!(
                    "  {:<12} {}  {}\n",
                    digest.role.name(),
                    digest.sha256,
                    digest.path
                )
                .as_bytes(),
            );
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn list(config: &Config, context: &Context) -> Result<ExitCode, Failure> {
    let allowlist = Allowlist::load(&config.allowlist())?;
    for entry in allowlist.entries() {
        if context.json {
            output::json_line(&serde_json::to_value(entry)?);
        } else {
            let profile = entry.profile.as_deref().unwrap_or("-");
            let end = entry
                .expires_at
                .map_or_else(String::new, |end| format!(" until {end}"));
            output::stdout(
                format!(
                    "{profile:<14} {}  since {}{end}\n",
                    entry.command, entry.approved_at
                )
                .as_bytes(),
            );
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn revoke(config: &Config, context: &Context, words: &[OsString]) -> Result<ExitCode, Failure> {
    // One word is the command as `list` shows it; it may be several words, quoted.
    let command = match words {
        [line] => line.to_str().map(str::to_owned),
        _ => command_line(words),
    };
    let command = command.ok_or_else(|| Failure::new("the command is not UTF-8"))?;
    let revoked = Allowlist::revoke(&config.allowlist(), &command)?;
    if context.json {
        output::json_line(&json!({ "command": command, "revoked": revoked }));
    } else {
        output::stdout(format!("revoked: {revoked}\n").as_bytes());
    }
    Ok(if revoked > 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
