//! Decides whether a hook may run.
//!
//! A consent is bound to bytes: [`digest`] says what the bytes are, [`allowlist`] keeps what was consented to.

pub mod allowlist;
pub mod digest;
