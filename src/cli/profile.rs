//! `hookjail profile`: list, show and validate profiles.

use std::{path::PathBuf, process::ExitCode, sync::Arc};

use clap::{Args, Subcommand};
use serde_json::json;

use hookjail_base::{model::ProfileName, util::nearest::did_you_mean};
use hookjail_client::{Failure, output};
use hookjail_policy::{Policy, Registry};

use super::{Context, schema};
use hookjail_daemon::{daemon::Assembly, schema::Form};

/// Lists, shows and validates profiles.
#[derive(Debug, Args)]
pub(super) struct ProfileArgs {
    #[command(subcommand)]
    command: ProfileCommand,
}

#[derive(Debug, Subcommand)]
enum ProfileCommand {
    /// List the profiles
    List,
    /// Print the JSON Schema of profile files
    Schema,
    /// Show a profile with everything it inherits
    Show {
        /// Its name
        name: String,
    },
    /// Check directories of profiles
    Validate {
        /// Directories with `NAME.toml` files
        #[arg(required = true)]
        directories: Vec<PathBuf>,
    },
}

impl ProfileArgs {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        match self.command {
            ProfileCommand::List => {
                let registry = Assembly::registry(&context.load()?)?;
                list(&registry, context.call.json);
                for (name, why) in registry.broken() {
                    output::stderr(&format!("hookjail: `{name}` is not served: {why}"));
                }
            }
            ProfileCommand::Schema => {
                return schema::print(&Form::Profile.schema(), context.call.json);
            }
            ProfileCommand::Show { name } => {
                let registry = Assembly::registry(&context.load()?)?;
                let policy = find(&registry, &name)?;
                if context.call.json {
                    output::json_line(&json!({
                        "name": policy.name.as_str(),
                        "description": policy.description,
                        "digest": policy.digest,
                        "toml": policy.to_toml(),
                    }));
                } else {
                    output::document(&policy.to_toml());
                }
            }
            ProfileCommand::Validate { directories } => {
                let directories: Vec<_> = directories
                    .iter()
                    .map(|path| {
                        path.canonicalize().map_err(|error| {
                            Failure::new(format!("cannot use `{}`: {error}", path.display()))
                        })
                    })
                    .collect::<Result<_, _>>()?;
                let references = context.environment().references();
                let registry = Registry::load_with(&directories, &[], &[], &references)?;
                let broken: Vec<_> = registry.broken().map(|(_, why)| why).collect();
                if !broken.is_empty() {
                    let problem = format!("cannot load: {}", broken.join("\n"));
                    return Err(Failure::new(problem));
                }
                list(&registry, context.call.json);
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Returns a profile by its name.
///
/// # Errors
///
/// Fails where there is no such profile; the message lists all.
pub(super) fn find(registry: &Registry, name: &str) -> Result<Arc<Policy>, Failure> {
    let found = ProfileName::parse(name).and_then(|name| registry.find(&name).cloned());
    found.ok_or_else(|| {
        if registry.broken().any(|(broken, _)| broken == name) {
            return Failure::new(registry.absence(name));
        }
        let names: Vec<_> = registry.iter().map(|policy| policy.name.as_str()).collect();
        let meant = did_you_mean(name, names.iter().copied());
        let names = names.join(", ");
        Failure::usage(format!(
            "unknown profile `{name}`{meant}; use one of {names}"
        ))
    })
}

fn list(registry: &Registry, as_json: bool) {
    for policy in registry.iter() {
        if as_json {
            output::json_line(&json!({
                "name": policy.name.as_str(),
                "description": policy.description,
                "digest": policy.digest,
            }));
        } else {
            output::text(&format!(
                "{:<14} {}\n",
                policy.name.as_str(),
                policy.description
            ));
        }
    }
}
