//! `hookjail consent revoke`: takes consents back, to one command, within a directory, or all.

use std::{
    collections::BTreeSet,
    env,
    ffi::OsString,
    io::{self, IsTerminal},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use serde_json::json;

use hookjail_base::model::command_line;
use hookjail_client::{
    Failure, output,
    program::{current_directory, spellings},
};
use hookjail_daemon::{
    config::Config,
    consent::{
        self as admission,
        allowlist::{Allowlist, Entry, typed},
    },
    daemon::Assembly,
};
use hookjail_sandbox::{program::Program, rootfs::View};

use super::{
    super::{Context, install::agreed, show::counted, success},
    entries, later, show_table,
};

/// The consents to take back.
#[derive(Debug, Args)]
pub(super) struct RevokeArgs {
    /// Every consent
    #[arg(long, conflicts_with_all = ["within", "command"])]
    all: bool,
    /// The consents for this directory or one below it, and those whose program or script lies there
    #[arg(long, conflicts_with = "command", value_name = "DIR")]
    within: Option<PathBuf>,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    /// The command, as `list` shows it or as it was allowed
    #[arg(required_unless_present_any = ["all", "within"], trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,
}

impl RevokeArgs {
    pub(super) fn run(&self, config: &Config, context: &Context) -> Result<ExitCode, Failure> {
        match (self.all, &self.within) {
            (true, _) => self.several(config, context, |_| true),
            (false, Some(directory)) => {
                let spelled = current_directory()?.join(directory);
                // A directory that is gone has consents still.
                let real = spelled.canonicalize().unwrap_or_else(|_| spelled.clone());
                self.several(config, context, |entry| {
                    is_within(entry, &spelled) || is_within(entry, &real)
                })
            }
            (false, None) => one(config, context, &self.command),
        }
    }

    /// Takes back the consents of which something holds, after a question.
    fn several(
        &self,
        config: &Config,
        context: &Context,
        is_meant: impl Fn(&Entry) -> bool,
    ) -> Result<ExitCode, Failure> {
        let mut meant = entries(config)?;
        meant.extend(later(config)?);
        meant.retain(is_meant);
        if !context.call.json {
            show_table(config, &meant)?;
        }
        if !meant.is_empty() && !self.yes {
            if context.call.json || !io::stdin().is_terminal() {
                let message = "nothing was revoked: `--yes` revokes what is shown, `hookjail consent list` only shows";
                return Err(Failure::new(message));
            }
            let consents = counted(meant.len(), "consent");
            if !agreed(&format!("Revoke {consents}? [y/N] "))? {
                return Err(Failure::new("nothing was revoked"));
            }
        }
        let lists = config.own_allowlists.values().filter(|it| it.exists());
        let lists = [config.allowlist()].into_iter().chain(lists.cloned());
        let mut revoked = 0;
        if !meant.is_empty() {
            for list in lists {
                revoked += Allowlist::revoke_those(&list, |entry| meant.contains(entry))?;
            }
        }
        if context.call.json {
            output::json_line(&json!({ "consents": meant, "revoked": revoked }));
        } else {
            output::line(&format!("revoked: {revoked}"));
            if meant.is_empty() {
                output::stderr(
                    "hookjail: nothing is allowed there; `hookjail consent list` shows what is",
                );
            }
        }
        Ok(success(revoked > 0))
    }
}

/// Returns whether a consent is limited to a directory or one below it, or binds a file there.
fn is_within(entry: &Entry, directory: &Path) -> bool {
    let is_below = |path: &Path| path.starts_with(directory);
    let mut files = entry.digests.iter().map(|digest| &digest.path);
    if files.any(|path| is_below(Path::new(path))) {
        return true;
    }
    if entry.working_dir_scope.as_deref().is_some_and(is_below) {
        return true;
    }
    // A runtime's own consent binds no file.
    let words = shlex::split(&entry.command).filter(|_| entry.is_unbound());
    let mut words = words.into_iter().flatten();
    words.any(|word| is_below(Path::new(&word)))
}

/// Returns the spellings of a typed command in the allowlist, by this directory and by those of entries.
fn written(config: &Config, words: &[OsString]) -> Result<BTreeSet<String>, Failure> {
    let list = Allowlist::load(&config.allowlist())?;
    let scopes = list.entries().iter();
    let scopes = scopes.filter_map(|entry| entry.working_dir_scope.clone());
    let directories: BTreeSet<_> = scopes.chain(env::current_dir()).collect();
    let directories: Vec<_> = directories.into_iter().collect();
    let mut commands: Vec<_> = vec![words.to_vec()];
    if let Some(root) = Assembly::root(config)? {
        // Each profile has its own `PATH` in the container's root.
        for policy in Assembly::registry(config)?.iter() {
            let view = View::new(Some(&root), &policy.files);
            if let Ok(path) = Program::find(words, &policy.environment.path, view) {
                let mut argv = words.to_vec();
                argv[0] = path.into_os_string();
                commands.push(argv);
            }
        }
    }
    let spelled = commands
        .iter()
        .flat_map(|argv| spellings(argv, &directories));
    Ok(spelled.filter_map(|argv| command_line(&argv)).collect())
}

/// Takes back every consent to a command.
fn one(config: &Config, context: &Context, words: &[OsString]) -> Result<ExitCode, Failure> {
    // A single argument is the command as `list` shows it, which may have several quoted words.
    let command = match words {
        [line] => line.to_str().map(str::to_owned),
        _ => command_line(words),
    };
    let command = command.ok_or_else(|| Failure::new("the command is not UTF-8"))?;
    let mut revoked = 0;
    for command in written(config, words)?.into_iter().chain([command.clone()]) {
        let of_runtimes = config.own_allowlists.values().map(PathBuf::as_path);
        revoked += admission::revoke(&config.allowlist(), of_runtimes, &command)?;
    }
    if context.call.json {
        output::json_line(&json!({ "command": command, "revoked": revoked }));
    } else {
        output::text(&format!("revoked: {revoked}\n"));
        if revoked == 0 {
            output::stderr(&format!(
                "hookjail: nothing was allowed as `{}`; `hookjail consent list` shows what is",
                typed(&command)
            ));
        }
    }
    Ok(success(revoked > 0))
}
