//! Confinement: asks backends what they enforce here, has it proved, and starts hooks under it.
//!
//! Only [`Sandbox::confine`] makes a [`Confined`], from a child that executed the hook after its report covered the plan.
//! Nothing in a request can turn a report that is short into a run.

mod attest;
mod audit_log;
mod backend;
mod confine;
mod confirm;
pub mod container;
mod denials;
mod grants;
mod ground;
mod identity;
pub mod linux;
mod means;
mod nesting;
mod noop;
mod order;
mod pools;
mod scratch;
pub mod seatbelt;
#[cfg(test)]
mod tests;

pub use self::{
    attest::Status,
    backend::{Absent, Backend, BackendName, Claims, Host, Mechanism, Prepared, Unenforceable},
    confine::{Confined, End, Ended, Evidence, Sandbox, SandboxParts, Setup},
    confirm::{AxisProof, Confirmation, Leg, PassedOver, Selected, Standing, Unconfirmed},
    container::{Container, Runtime, RuntimeKind},
    denials::{Blocked, Denied, Known},
    grants::{KnownPlaces, Opened, starts_in},
    identity::{DEFAULT_UID_RANGE, Identities},
    noop::Noop,
    order::Order,
    scratch::InstanceDir,
};
