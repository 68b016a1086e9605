//! Rehearses a guard with sample events, bare and confined, before settings are changed.

use std::{
    env,
    io::Write,
    path::Path,
    process::{Command, Stdio},
};

use serde::Deserialize;

use crate::{
    contract::{Envelope, adopt::Adopted},
    hooks::Registered,
    model::Event,
};

/// The rehearsal of a guard as its runtime would run it.
pub(super) struct Rehearsal<'a> {
    pub(super) argv: &'a [String],
    /// The project in which the guard is rehearsed.
    pub(super) project: &'a Path,
    pub(super) hook: &'a Registered,
    /// The runtime's name.
    pub(super) name: &'a str,
    pub(super) profile: &'a str,
    pub(super) runtime: Adopted,
    /// The directory in which the guard starts.
    pub(super) starts_in: &'a Path,
}

/// The output of `--rehearse --json`.
#[derive(Deserialize)]
#[serde(untagged)]
enum Rehearsed {
    Ended {
        bare: GuardEnd,
        confined: GuardEnd,
        differences: Vec<String>,
    },
    Failed {
        error: Failed,
    },
}

#[derive(Deserialize)]
struct GuardEnd {
    stops: bool,
}

#[derive(Deserialize)]
struct Failed {
    message: String,
}

impl Rehearsal<'_> {
    /// Runs the guard with each sample. Returns remarks.
    ///
    /// # Errors
    ///
    /// Fails where the guard decides differently when confined, or could not be run.
    pub(super) fn run(&self) -> Result<Vec<String>, String> {
        let mut differences = Vec::new();
        let samples = self.runtime.samples(self.project);
        let count = samples.len();
        for sample in samples {
            let told = sample.to_string();
            match self.once(told.clone().into_bytes())? {
                Rehearsed::Failed { error } => return Err(error.message),
                Rehearsed::Ended { bare, confined, .. } if bare.stops != confined.stops => {
                    let (without, with) = match bare.stops {
                        true => ("stops", "lets pass"),
                        false => ("lets pass", "stops"),
                    };
                    return Err(format!(
                        "it {without} without hookjail what it {with} under profile {}: {told}",
                        self.profile
                    ));
                }
                Rehearsed::Ended {
                    differences: new, ..
                } => {
                    differences.extend(
                        new.into_iter()
                            .filter(|it| !differences.contains(it))
                            .collect::<Vec<_>>(),
                    );
                }
            }
        }
        let found = if differences.is_empty() {
            "the same bare and confined".to_owned()
        } else {
            differences.join("; ")
        };
        Ok(vec![format!("rehearsed with {count} events: {found}")])
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "hookjail itself, as each rehearsal has a private daemon, which is started before any thread"
    )]
    fn once(&self, event: Vec<u8>) -> Result<Rehearsed, String> {
        let mode = self.runtime.mode();
        let event = Event {
            json: event.into(),
            point: self.hook.point.clone(),
            raw: false,
        };
        let envelope = Envelope {
            cwd: self.starts_in.display().to_string(),
            session: "rehearsal".to_owned(),
            ..Envelope::default()
        };
        let payload = mode
            .stdin(&event, &envelope)
            .map_err(|error| error.to_string())?;
        let broken = |error: &dyn std::fmt::Display| format!("it cannot be rehearsed: {error}");
        let program = env::current_exe().map_err(|error| broken(&error))?;
        let mut command = Command::new(program);
        command
            .args([
                "--json",
                "run",
                "--as",
                self.name,
                "--rehearse",
                "--profile",
                self.profile,
            ])
            .args(["--point", &self.hook.point, "--"])
            .args(self.argv)
            .current_dir(self.starts_in)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        for name in self.runtime.project_variables() {
            command.env(name, self.project);
        }
        let mut child = command.spawn().map_err(|error| broken(&error))?;
        if let Some(mut stdin) = child.stdin.take() {
            // A hook need not read its stdin.
            drop(stdin.write_all(&payload));
        }
        let output = child.wait_with_output().map_err(|error| broken(&error))?;
        serde_json::from_slice(&output.stdout).map_err(|error| broken(&error))
    }
}
