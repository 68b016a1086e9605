//! No confinement. Named by operators only, says so on every axis, and is never confirmed.

use super::{
    Absent, Backend, BackendName, Host, Mechanism, Prepared, Unenforceable, backend::covering,
};
use crate::{
    axis::{Axes, Coverage},
    policy::Policy,
};

/// The backend that confines nothing.
#[derive(Clone, Copy, Debug)]
pub struct Noop;

impl Backend for Noop {
    fn name(&self) -> BackendName {
        BackendName::Noop
    }

    fn probe(&self) -> Result<Host, Absent> {
        Ok(Host { landlock_abi: 0 })
    }

    fn prepare(&self, policy: &Policy) -> Result<Prepared, Unenforceable> {
        let axes = Axes::from_fn(|_| Coverage::Ignored);
        covering(
            policy,
            Prepared {
                axes,
                backend: self.name(),
                mechanism: Mechanism::Unconfined,
            },
        )
    }
}
