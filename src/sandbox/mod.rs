//! Confinement: asks backends what they enforce here, has it proved, and starts hooks under it.
//!
//! Only [`Sandbox::confine`] makes a [`Confined`], from a child that executed the hook after its report covered the plan.
//! Nothing in a request can turn a report that is short into a run.

mod attest;
mod backend;
mod confine;
mod confirm;
mod grants;
mod ground;
mod identity;
pub mod linux;
mod means;
mod noop;
mod scratch;

pub use self::{
    attest::Status,
    backend::{Absent, Backend, BackendName, Host, Mechanism, Prepared, Unenforceable},
    confine::{Confined, End, Ended, Evidence, Sandbox, SandboxParts, Setup},
    confirm::{AxisProof, Confirmation, Leg, Unconfirmed},
    grants::{KnownPlaces, Opened},
    identity::{DEFAULT_UID_RANGE, Identities},
    noop::Noop,
    scratch::InstanceDir,
};
