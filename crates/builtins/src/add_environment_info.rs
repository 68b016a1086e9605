//! `add_environment_info`: adds the working directory and system at the start of a session.
//!
//! The runtime connects over a socket of this machine, so its system and processor are the daemon's own. The user's
//! shell, which the runtime's newest code names too, is left out, as the daemon has no access to it.

use hookjail_contract::{Findings, plain};

use crate::look::Place;

/// Returns working directory, repository and system as context. A repository whose root is above the workspace does not
/// count.
pub(crate) fn findings(place: &Place) -> Findings {
    let path = plain(&place.path().to_string_lossy(), &[]);
    let repository = if place.is_below(".git") { "Yes" } else { "No" };
    let system = match std::env::consts::OS {
        "linux" => "Linux",
        "macos" => "MacOS",
        other => other,
    };
    // Go's name, except `x64`, which is the runtime's own.
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
