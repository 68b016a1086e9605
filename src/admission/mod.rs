//! Decides who may ask and whether a hook may run.
//!
//! A consent is bound to bytes: [`digest`] says what the bytes are, [`allowlist`] keeps what was consented to.

pub mod allowlist;
mod approved;
mod consent;
pub mod digest;
mod gate;
mod hashing;
mod interpreter;
mod peer;
pub mod pending;
mod places;
mod program;

pub use self::{
    consent::{ConsentRule, Consents, Operator, revoke},
    gate::{Admitted, Call, Configuration, Gate, GateParts, OperatorHook, Purpose, Rules},
    peer::Peer,
    program::{Kept, Opened, OpenedFor, Program, Script},
};

pub(crate) use self::{
    interpreter::{is_interpreter, shell_line},
    program::only_roots,
};
