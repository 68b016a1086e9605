//! Tools for any daemon: shares and turns among uids, swappable values, paths, trusted files, lines of a log that are few.

pub(crate) mod diff;
pub(crate) mod heavy;
pub(crate) mod keyed_toml;
pub(crate) mod listing;
pub(crate) mod outermost;
pub(crate) mod pem;
pub(crate) mod presence;
pub(crate) mod seldom;
pub(crate) mod shares;
pub(crate) mod swap;
pub(crate) mod trusted_file;
pub(crate) mod turns;
pub(crate) mod way;
