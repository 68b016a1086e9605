//! `hookjail state`: the files of hooks that outlast their runs.

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde_json::json;

use hookjail_client::{Failure, output, program::current_directory};
use hookjail_sandbox::{StateEntry, StateOwner, StateStore};

use super::Context;
use hookjail_base::model::plain;

/// List and clear the files that hooks keep between runs
#[derive(Debug, Args)]
pub(super) struct StateArgs {
    #[command(subcommand)]
    command: StateCommand,
}

#[derive(Debug, Subcommand)]
enum StateCommand {
    /// Remove directories with all their files; hooks begin anew
    Clear {
        /// Every directory
        #[arg(long, conflicts_with_all = ["ids", "project", "session"])]
        all: bool,
        #[command(flatten)]
        which: WhichState,
    },
    /// List the directories, the least recently used first
    List {
        #[command(flatten)]
        which: WhichState,
    },
    /// Print the paths of directories [default: directories of the current project, and of hooks without one]
    Path {
        #[command(flatten)]
        which: WhichState,
    },
}

/// A selection of directories.
#[derive(Debug, Args)]
struct WhichState {
    /// Only these, by the names that `list` shows
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// Only those of this project
    #[arg(long, value_name = "DIR")]
    project: Option<PathBuf>,
    /// Only those of this session
    #[arg(long, value_name = "ID")]
    session: Option<String>,
}

impl WhichState {
    const fn is_empty(&self) -> bool {
        self.ids.is_empty() && self.project.is_none() && self.session.is_none()
    }

    /// Returns the chosen directories of a store.
    fn choose(&self, store: &StateStore) -> Result<Vec<StateEntry>, Failure> {
        let all = store.list()?;
        let exists = |id: &&String| !all.iter().any(|entry| entry.id == **id);
        if let Some(id) = self.ids.iter().find(exists) {
            let message = format!("no directory is named `{id}`; `hookjail state list` shows them");
            return Err(Failure::usage(message));
        }
        let project = self.project.as_ref().map(|project| {
            let real = project.canonicalize();
            real.unwrap_or_else(|_| project.clone())
                .display()
                .to_string()
        });
        let chosen = all.into_iter().filter(|entry| {
            let owner = &entry.owner;
            (self.ids.is_empty() || self.ids.contains(&entry.id))
                && project.as_ref().is_none_or(|it| *it == owner.project)
                && self.session.as_ref().is_none_or(|it| *it == owner.session)
        });
        Ok(chosen.collect())
    }
}

impl StateArgs {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        let store = StateStore::of_daemon(&context.load()?.paths.state);
        match self.command {
            StateCommand::Clear { all, which } => {
                if which.is_empty() && !all {
                    let message = "no directory is named; name some, or give `--all`";
                    return Err(Failure::usage(message));
                }
                let chosen = which.choose(&store)?;
                // Before the removal: sizes are counted there.
                show(&chosen, context.call.json, |entry| {
                    format!("removing {}", entry.path.display())
                });
                for entry in &chosen {
                    store.clear(entry)?;
                }
            }
            StateCommand::List { which } => {
                show(&which.choose(&store)?, context.call.json, listed);
            }
            StateCommand::Path { mut which } => {
                let mut chosen = Vec::new();
                if which.is_empty() {
                    let without = |entry: &StateEntry| entry.owner.project.is_empty();
                    chosen.extend(store.list()?.into_iter().filter(without));
                    which.project = Some(current_directory()?);
                }
                chosen.extend(which.choose(&store)?);
                show(&chosen, context.call.json, |entry| {
                    entry.path.display().to_string()
                });
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Prints directories, each on a line.
fn show(entries: &[StateEntry], as_json: bool, line: impl Fn(&StateEntry) -> String) {
    if as_json {
        let entries: Vec<_> = entries.iter().map(as_value).collect();
        output::json_line(&json!({ "state": entries }));
        return;
    }
    for entry in entries {
        output::text(&format!("{}\n", plain(&line(entry))));
    }
}

fn listed(entry: &StateEntry) -> String {
    let StateOwner {
        hook,
        profile,
        project,
        session,
        uid: _,
    } = &entry.owner;
    let (files, bytes) = entry.size();
    let mut owner = String::new();
    for (name, value) in [("project", project), ("session", session), ("hook", hook)] {
        if !value.is_empty() {
            owner.push_str(&format!("  {name} {value}"));
        }
    }
    format!(
        "{}  {profile:<14} {files:>6} files {bytes:>11} bytes  used {}{owner}",
        entry.id,
        used(entry)
    )
}

fn used(entry: &StateEntry) -> String {
    let used = Timestamp::try_from(entry.used).unwrap_or(Timestamp::UNIX_EPOCH);
    used.strftime("%Y-%m-%dT%H:%MZ").to_string()
}

fn as_value(entry: &StateEntry) -> serde_json::Value {
    let (files, bytes) = entry.size();
    json!({
        "bytes": bytes,
        "files": files,
        "hook": entry.owner.hook,
        "id": entry.id,
        "path": entry.path,
        "profile": entry.owner.profile,
        "project": entry.owner.project,
        "session": entry.owner.session,
        "uid": entry.owner.uid,
        "used": used(entry),
    })
}
