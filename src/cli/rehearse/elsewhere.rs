//! Rehearsals in processes of their own: each has a private daemon, which is started before any thread.

use std::{
    env,
    fmt::Display,
    io::Write,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use serde::Deserialize;

use hookjail_base::util::units::Span;

use super::{Comparison, NO_LAYER};

/// A hook that is rehearsed.
pub(in crate::cli) struct Rehearsed<'a> {
    pub(in crate::cli) argv: &'a [String],
    /// The configuration file, if it is not a usual one.
    pub(in crate::cli) config: Option<&'a Path>,
    /// Variables that name directories.
    pub(in crate::cli) environment: Vec<(&'static str, &'a Path)>,
    /// Whether the hook also runs without confinement.
    pub(in crate::cli) is_compared: bool,
    /// Whether it writes to a layer over the workspace.
    pub(in crate::cli) is_layered: bool,
    /// The declaration whose needs are the profile, where no directory of profiles has that.
    pub(in crate::cli) needs: Option<&'a Path>,
    pub(in crate::cli) point: &'a str,
    pub(in crate::cli) profile: &'a str,
    /// The runtime's name.
    pub(in crate::cli) runtime: &'a str,
    /// The directory in which the hook starts.
    pub(in crate::cli) starts_in: &'a Path,
    /// The timer of each run.
    pub(in crate::cli) timeout: Duration,
    /// The workspace; `None` = the project of the directory in which the hook starts.
    pub(in crate::cli) workspace: Option<&'a Path>,
}

/// A line that `--rehearse --json` prints.
#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Ended(Box<Comparison>),
    Failed { error: Failed },
}

#[derive(Deserialize)]
struct Failed {
    message: String,
    reason: Option<String>,
}

/// The reason why a hook could not be run.
pub(in crate::cli) enum Unrehearsed {
    Failed(String),
    /// No layer can be made over the workspace, and nothing ran.
    NoLayer(String),
}

impl From<String> for Unrehearsed {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

impl From<Failed> for Unrehearsed {
    fn from(Failed { message, reason }: Failed) -> Self {
        match reason.as_deref() {
            Some(NO_LAYER) => Self::NoLayer(message),
            Some(_) | None => Self::Failed(message),
        }
    }
}

impl Rehearsed<'_> {
    /// Runs the hook with each payload.
    ///
    /// # Errors
    ///
    /// Returns why the hook could not be run.
    pub(in crate::cli) fn run(&self, payloads: &[String]) -> Result<Vec<Comparison>, Unrehearsed> {
        if !(self.is_layered && self.is_compared) {
            return self.run_once(payloads, self.is_compared);
        }
        // Each kind of runs has a layer of its own.
        let mut runs = self.run_once(payloads, false)?;
        if runs.iter().all(|run| run.leaves.is_empty()) {
            let bare = self.run_once(payloads, true)?;
            for (run, bare) in runs.iter_mut().zip(bare) {
                run.bare = bare.bare;
            }
        }
        Ok(runs)
    }

    #[expect(clippy::disallowed_methods, reason = "hookjail itself, not a hook")]
    fn run_once(&self, payloads: &[String], bare: bool) -> Result<Vec<Comparison>, Unrehearsed> {
        let program = env::current_exe().map_err(|error| broken(&error))?;
        let mut command = Command::new(program);
        if let Some(file) = self.config {
            command.arg("--config").arg(file);
        }
        command
            .args(["--json", "run", "--as", self.runtime])
            .args(["--rehearse", "--payloads", "--profile", self.profile])
            .args(bare.then_some("--bare"))
            .args(self.is_layered.then_some("--layer"));
        if let Some(file) = self.needs {
            command.arg("--needs").arg(file);
        }
        if let Some(workspace) = self.workspace {
            command.arg("--workspace").arg(workspace);
        }
        command
            .args(["--timeout", &Span(self.timeout).to_string()])
            .args(["--point", self.point, "--"])
            .args(self.argv)
            .current_dir(self.starts_in)
            .envs(self.environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().map_err(|error| broken(&error))?;
        let stdin = serde_json::to_vec(payloads).map_err(|error| broken(&error))?;
        if let Some(mut pipe) = child.stdin.take() {
            pipe.write_all(&stdin).map_err(|error| broken(&error))?;
        }
        let output = child.wait_with_output().map_err(|error| broken(&error))?;
        let lines = serde_json::Deserializer::from_slice(&output.stdout).into_iter();
        let runs = lines.map(|line| match line.map_err(|error| broken(&error))? {
            Line::Ended(comparison) => Ok(*comparison),
            Line::Failed { error } => Err(error.into()),
        });
        let runs = runs.collect::<Result<Vec<_>, Unrehearsed>>()?;
        match runs.len() == payloads.len() {
            true => Ok(runs),
            false => Err(broken(&output.status).into()),
        }
    }
}

/// Returns the message of a rehearsal that cannot be held.
pub(in crate::cli) fn broken(error: &dyn Display) -> String {
    format!("cannot be rehearsed: {error}")
}
