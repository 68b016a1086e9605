//! Files of profiles that commands write for the user.

use std::path::{Path, PathBuf};

use hookjail_base::util::trusted_file;
use hookjail_client::Failure;
use hookjail_daemon::config::Config;
use hookjail_proto as pb;

use super::{Context, admin};

/// Returns the directory into which profiles are written: the last that is read.
pub(super) fn directory(config: &Config, context: &Context) -> PathBuf {
    let named = config.profiles.dirs().last().cloned();
    let usual = named.or_else(|| context.call.paths.profiles());
    usual.unwrap_or_else(|| PathBuf::from("profiles"))
}

/// Writes the file of a profile, whole or not at all.
///
/// # Errors
///
/// Fails where it or its directory cannot be written.
pub(super) fn write(file: &Path, text: &str) -> Result<(), Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::new(format!("cannot write `{}`: {error}", file.display()))
    };
    let parent = file.parent().unwrap_or(file);
    trusted_file::directory(parent).map_err(|error| failed(&error))?;
    trusted_file::replace(file, text.as_bytes(), 0o600).map_err(|error| failed(&error))
}

/// Has a running daemon of this user read its profiles again. Returns whether there is one.
///
/// # Errors
///
/// Fails where the daemon refuses.
pub(super) fn reload(context: &Context) -> Result<bool, Failure> {
    let socket = admin::socket_of_running(context, None)?;
    let is_there = socket.exists();
    if is_there {
        admin::ask(&socket, async |client| {
            client.reload(pb::ReloadRequest {}).await
        })?;
    }
    Ok(is_there)
}
