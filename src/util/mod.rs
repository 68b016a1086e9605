//! Tools for any daemon: shares and turns among uids, swappable values, trusted files.

pub(crate) mod heavy;
pub mod presence;
pub mod shares;
pub mod swap;
pub(crate) mod trusted_file;
pub(crate) mod turns;
