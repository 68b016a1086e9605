//! Decides whether a hook may run: allowlist, environment, or an operator's answer.
//!
//! A consent is bound to file contents: [`digest`] hashes them, [`allowlist`] stores the consents.

pub(crate) mod allowlist;
mod approved;
pub(crate) mod decide;
pub(crate) mod digest;
pub(crate) mod hashing;
pub(crate) mod interpreter;
mod own_place;
pub(crate) mod pending;
mod program;
mod sought;

pub use self::decide::{ConsentRule, Operator};
pub(crate) use self::{
    decide::{Consents, OwnSettings, revoke},
    program::{ContentGuard, Opened, OpenedFor, Program, Script},
};

pub(crate) use self::{
    interpreter::{is_interpreter, shell_line},
    program::{only_roots, roots_alone},
    sought::misleading,
};
