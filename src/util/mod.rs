//! What any daemon needs, and nothing of it is about hooks: shares and turns among uids, values that are replaced while they are read.

pub(crate) mod heavy;
pub mod presence;
pub mod shares;
pub mod swap;
pub(crate) mod trusted_file;
pub(crate) mod turns;
