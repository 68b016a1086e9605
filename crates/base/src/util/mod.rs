//! Tools for any daemon: shares and turns among uids, swappable values, paths, trusted files, lines of a log that are few, units.

pub mod attempt;
pub mod diff;
pub mod heavy;
pub mod journald;
pub mod keyed_toml;
pub mod listing;
pub mod nearest;
pub mod outermost;
pub mod pem;
pub mod presence;
pub mod seldom;
pub mod shares;
pub mod swap;
pub mod trusted_file;
pub mod turns;
pub mod units;
pub mod user_paths;
pub mod way;
