//! Values that every part of hookjail shares: requests' fields, JSON as it was written, the words of commands, refusals, redaction,
//! tools of a daemon.
//!
//! Pure, but for reading files that a daemon trusts ([`util::trusted_file`]) and threads for large work ([`util::heavy`]).

#![forbid(unsafe_code)]
#![expect(
    missing_docs,
    reason = "inner to hookjail: a variant that names itself has no sentence about that"
)]

pub mod interpreter;
pub mod model;
pub mod notices;
pub mod redact;
pub mod refusal;
pub mod util;
