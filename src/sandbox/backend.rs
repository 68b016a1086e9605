//! What a backend is: it asks the host and translates policies. It starts nothing.

use std::fmt;

use crate::{
    axis::{Axes, Axis, Coverage},
    policy::Policy,
};

/// A backend's name.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum BackendName {
    /// Landlock and seccomp.
    Landlock,
    /// No confinement at all; named by operators only.
    Noop,
}

impl BackendName {
    /// Parses a name as configuration spells it.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Landlock, Self::Noop]
            .into_iter()
            .find(|name| name.as_str() == text)
    }

    /// Whether it confines at all.
    pub const fn confines(self) -> bool {
        match self {
            Self::Landlock => true,
            Self::Noop => false,
        }
    }

    /// Returns the name as configuration, replies and records spell it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Landlock => "landlock",
            Self::Noop => "noop",
        }
    }
}

impl fmt::Display for BackendName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// This host does not have what a backend needs.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{why}")]
pub struct Absent {
    /// The one thing that an operator can do about it.
    pub fix: String,
    /// What is missing.
    pub why: String,
}

/// A required axis that a backend cannot enforce.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("axis `{axis}` cannot be enforced by `{backend}` on this host: {gap}")]
pub struct Unenforceable {
    /// The axis.
    pub axis: Axis,
    /// The backend.
    pub backend: BackendName,
    /// What is missing.
    pub gap: String,
}

/// What a backend can do on this host, whatever the policy.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Host {
    /// The kernel's Landlock ABI; 0 where the backend does not use Landlock.
    pub landlock_abi: u32,
}

/// A policy, translated: what each axis gets, and by what means.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// What is done about each axis.
    pub axes: Axes<Coverage>,
    /// Who does it.
    pub backend: BackendName,
    /// How.
    pub mechanism: Mechanism,
}

/// How a child is confined.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Mechanism {
    /// A Landlock domain and stacked seccomp filters.
    Landlock(super::linux::FilterSpec),
    /// Not at all.
    Unconfined,
}

/// A mechanism that confines: asks the host once, translates policies, runs nothing.
pub trait Backend: fmt::Debug + Send + Sync {
    /// Returns its name.
    fn name(&self) -> BackendName;

    /// Asks this host what the mechanism can do here.
    ///
    /// # Errors
    ///
    /// Says what is missing and how to get it.
    fn probe(&self) -> Result<Host, Absent>;

    /// Translates a policy into means.
    ///
    /// # Errors
    ///
    /// Names a required axis that it cannot enforce on this host.
    fn prepare(&self, policy: &Policy) -> Result<Prepared, Unenforceable>;
}

/// Returns the translation if it covers what the policy requires; every backend ends its `prepare` with this.
///
/// # Errors
///
/// Names the first required axis that is not enforced.
pub(super) fn covering(policy: &Policy, prepared: Prepared) -> Result<Prepared, Unenforceable> {
    let uncovered = prepared.axes.iter().find_map(|(axis, coverage)| {
        let gap = match (policy.demands.of(axis), coverage) {
            (crate::axis::Demand::Wanted, _) | (_, Coverage::Enforced { .. }) => return None,
            (_, Coverage::Degraded { gap, .. }) => (*gap).to_owned(),
            (_, Coverage::Ignored) => "nothing is done about it".to_owned(),
        };
        Some(Unenforceable {
            axis,
            backend: prepared.backend,
            gap,
        })
    });
    match uncovered {
        Some(unenforceable) => Err(unenforceable),
        None => Ok(prepared),
    }
}
