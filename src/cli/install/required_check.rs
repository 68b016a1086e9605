//! Puts required hooks into settings, and names settings that lack one.

use std::{
    collections::BTreeSet,
    io::{self, IsTerminal},
    path::{Path, PathBuf},
    process::ExitCode,
};

use serde_json::json;

use hookjail_client::{Failure, output};

use super::{
    super::{Context, success},
    InstallArgs, agreed,
    edit::Edit,
    plan::Planned,
    report::{code, count},
    required::{RequiredLines, RequiredState},
    settings::{self, SettingsFile},
    sources::{Elsewhere, Unread},
};
use hookjail_daemon::config::Config;

impl InstallArgs {
    /// Names each settings file in which a required hook is missing or was changed.
    pub(super) fn check(
        &self,
        context: &Context,
        config: &Config,
        project: &Path,
        lines: &RequiredLines<'_>,
    ) -> Result<ExitCode, Failure> {
        let (files, unread) = self.settings(context, config, project);
        let mut all: Vec<(PathBuf, Result<RequiredState, String>)> = Vec::new();
        for file in &files {
            let state = lines.state(file).map_err(|failure| failure.message);
            all.push((file.path.clone(), state));
        }
        all.extend(unread.into_iter().map(|it| (it.file, Err(it.why))));
        if all.is_empty() {
            return Err(settings::none_found(self.runtime.runtime, context, project));
        }
        let is_whole = |state: &Result<RequiredState, String>| {
            state.as_ref().is_ok_and(RequiredState::is_whole)
        };
        let mend = format!("hookjail install {}", self.runtime.name);
        if context.call.json {
            let files: Vec<_> = all
                .iter()
                .map(|(path, state)| as_json(path, state))
                .collect();
            output::json_line(&json!({
                "files": files,
                "mend": mend,
                "required": lines.names(),
            }));
        } else {
            for (path, state) in &all {
                for problem in problems(state) {
                    output::line(&format!("{}: {problem}", path.display()));
                }
            }
            output::line(&match all.iter().all(|(_, state)| is_whole(state)) {
                true => format!("required hooks are in place: {}", lines.names().join(", ")),
                false => format!("repair these settings: {mend}"),
            });
        }
        Ok(success(all.iter().all(|(_, state)| is_whole(state))))
    }

    /// Puts the required hooks into each settings file, after a question.
    ///
    /// # Errors
    ///
    /// Fails where the answer is no, and where a file cannot be changed.
    pub(super) fn require(
        &self,
        context: &Context,
        config: &Config,
        project: &Path,
        lines: &RequiredLines<'_>,
    ) -> Result<(), Failure> {
        if self.shell_prefix || self.local {
            let message = "required hooks have lines of their own; install without --shell-prefix and --local";
            return Err(Failure::new(message));
        }
        let (files, _) = self.settings(context, config, project);
        let mut edits: Vec<(&SettingsFile, Edit)> = Vec::new();
        for file in &files {
            if let Some(edit) = lines.edit(file)? {
                if let Some(why) = file.why_kept() {
                    let path = file.path.display();
                    let message = format!("required hooks cannot be put into `{path}`: {why}");
                    return Err(Failure::new(message));
                }
                edits.push((file, edit));
            }
        }
        if edits.is_empty() {
            return Ok(());
        }
        let names = lines.names().join(", ");
        for (file, _) in &edits {
            output::stderr(&format!("required  {names} in {}", file.path.display()));
        }
        if self.dry_run {
            return Ok(());
        }
        if !self.yes {
            if context.call.json || !io::stdin().is_terminal() {
                let message = "nothing was changed; pass --yes to put required hooks there, or --dry-run to only show them";
                return Err(Failure::new(message));
            }
            if !agreed("Put these required hooks there? [y/N] ")? {
                return Err(Failure::new("nothing was changed"));
            }
        }
        for (file, edit) in &edits {
            file.write(std::slice::from_ref(edit), true)?;
        }
        Ok(())
    }

    /// Returns the exit code of a report; for `--check` a failure where a hook is not confined.
    pub(super) fn code(&self, planned: &[Planned], elsewhere: &Elsewhere) -> ExitCode {
        match self.check && count(planned, elsewhere) > 0 {
            true => ExitCode::FAILURE,
            false => code(planned, elsewhere),
        }
    }

    /// Reads the settings files, and why others cannot be read.
    fn settings(
        &self,
        context: &Context,
        config: &Config,
        project: &Path,
    ) -> (Vec<SettingsFile>, BTreeSet<Unread>) {
        let mut unread = BTreeSet::new();
        let files = settings::files(
            self.runtime.runtime,
            self.settings.as_deref(),
            context,
            config,
            (project, &mut unread),
        );
        (files, unread)
    }
}

/// Returns what is wrong with a file, a line each.
fn problems(state: &Result<RequiredState, String>) -> Vec<String> {
    match state {
        Err(why) => vec![why.clone()],
        Ok(RequiredState {
            changed,
            disabled,
            missing,
        }) => {
            let missing = missing
                .iter()
                .map(|name| format!("required hook `{name}` is missing"));
            let changed = changed
                .iter()
                .map(|name| format!("required hook `{name}` was changed"));
            let disabled = disabled
                .iter()
                .map(|why| format!("its hooks do not run as required: {why}"));
            missing.chain(changed).chain(disabled).collect()
        }
    }
}

fn as_json(path: &Path, state: &Result<RequiredState, String>) -> serde_json::Value {
    match state {
        Err(why) => json!({ "error": why, "path": path }),
        Ok(state) => json!({
            "changed": state.changed,
            "disabled": state.disabled,
            "missing": state.missing,
            "path": path,
        }),
    }
}
