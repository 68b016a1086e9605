//! Decides whether a hook may run: allowlist, environment, or an operator's answer.
//!
//! A consent is bound to bytes: [`digest`] says what the bytes are, [`allowlist`] keeps what was consented to.

pub mod allowlist;
mod approved;
pub(crate) mod decide;
pub mod digest;
pub(crate) mod hashing;
pub(crate) mod interpreter;
pub mod pending;
mod program;

pub use self::{
    decide::{ConsentRule, Consents, Operator, OwnSettings, revoke},
    program::{ContentGuard, Opened, OpenedFor, Program, Script},
};

pub(crate) use self::{
    interpreter::{is_interpreter, shell_line},
    program::only_roots,
};
