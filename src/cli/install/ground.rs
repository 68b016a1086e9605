//! Whether this host can confine hooks under the profile that hooks are to get.

use std::{env, process::Command};

use serde::Deserialize;

use super::settings::Empty;
use crate::cli::Context;

/// The profile for hosts without mount namespaces. Under this profile hooks are confined alike, but can change what git, agents and editors run.
pub(super) const WITHOUT_NAMESPACES: &str = "develop-open-git";

/// A host that does not confine hooks under a profile.
#[derive(Debug)]
pub(super) struct Unconfirmed {
    /// The failure, its cause and its remedy.
    pub(super) why: String,
}

#[derive(Deserialize)]
struct Status {
    profiles: Vec<Profile>,
}

#[derive(Deserialize)]
struct Profile {
    #[serde(default)]
    confirmed: bool,
    #[serde(default)]
    reason: String,
}

/// Tests a profile on this host. `None` where it is confirmed, or could not be tested.
#[expect(
    clippy::disallowed_methods,
    reason = "hookjail itself, whose self-tests need a process that has no threads yet"
)]
pub(super) fn unconfirmed(context: &Context, profile: &str) -> Option<Unconfirmed> {
    // Self-tests need directories, and `--dry-run` leaves none behind.
    let directory = Empty::new().ok()?;
    let mut command = Command::new(env::current_exe().ok()?);
    for name in ["XDG_CACHE_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"] {
        command.env(name, directory.path().join(name));
    }
    command.args(["--json", "doctor", "--profile", profile]);
    if let Some(config) = &context.call.config {
        command.arg("--config").arg(config);
    }
    let output = command.output().ok()?;
    let status: Status = serde_json::from_slice(&output.stdout).ok()?;
    let profile = status.profiles.into_iter().next()?;
    (!profile.confirmed).then_some(Unconfirmed {
        why: profile.reason,
    })
}
