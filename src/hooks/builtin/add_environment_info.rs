//! `add_environment_info`: adds the working directory and system at the start of a session.
//!
//! The runtime connects over a socket of this machine, so its system and processor are the daemon's own. Its shell is
//! left out: its runtime's newest code names that too, and it is not known here.

use super::findings::Place;
use crate::contract::{Findings, plain};

/// Returns working directory, repository and system as context. A repository that begins above the workspace is none
/// here.
pub(super) fn findings(place: &Place) -> Findings {
    let path = plain(&place.path().to_string_lossy(), &[]);
    let repository = if place.is_below(".git") { "Yes" } else { "No" };
    let system = match std::env::consts::OS {
        "linux" => "Linux",
        "macos" => "MacOS",
        other => other,
    };
    // As Go calls them, and the runtime the first.
    let processor = match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    };
    let lines = [
        "<env>".to_owned(),
        format!("Working directory: {path}"),
        format!("Is directory a git repo: {repository}"),
        format!("Operating System: {system}"),
        format!("CPU Architecture: {processor}"),
        "</env>".to_owned(),
    ];
    let about = "Here is useful information about the environment you are running in:";
    Findings {
        context: vec![format!("{about}\n\t{}", lines.join("\n\t"))],
        ..Findings::default()
    }
}
