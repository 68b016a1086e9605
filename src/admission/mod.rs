//! Decides who may ask and whether a hook may run.
//!
//! A consent is bound to bytes: [`digest`] says what the bytes are, [`allowlist`] keeps what was consented to.

pub mod allowlist;
pub mod digest;
mod gate;
mod peer;
mod program;

pub use self::{
    gate::{Admitted, Call, ConsentRule, Gate, GateParts, OperatorHook},
    peer::Peer,
    program::{OpenedFor, Program, Script},
};
