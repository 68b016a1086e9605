//! The axes: the dimensions of a policy, which every backend must cover.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Dimension of a policy.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Serialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Axis {
    /// CPU time.
    Cpu,
    /// Device nodes and their ioctls.
    Devices,
    /// Environment variables and inherited file descriptors.
    Environment,
    /// Execution of files.
    Execute,
    /// Signals, abstract and pathname sockets, SysV objects, message queues, keyrings.
    Ipc,
    /// Memory.
    Memory,
    /// Existence, size, mode and times of files, and changing modes and times.
    Metadata,
    /// Sockets of every family.
    Network,
    /// The kept size of stdout and stderr.
    Output,
    /// Number of processes and threads.
    Pids,
    /// Reading of files and listing of directories.
    Read,
    /// New processes.
    Spawn,
    /// Wall time, the end of the whole process tree included.
    Time,
    /// Writing, creating, renaming and removing of files.
    Write,
}

impl Axis {
    /// Every axis, in the order in which reports list them.
    pub const ALL: [Self; 14] = [
        Self::Read,
        Self::Write,
        Self::Execute,
        Self::Network,
        Self::Spawn,
        Self::Ipc,
        Self::Metadata,
        Self::Devices,
        Self::Environment,
        Self::Memory,
        Self::Pids,
        Self::Cpu,
        Self::Output,
        Self::Time,
    ];

    /// Returns the axis's name as profiles, logs and reports spell it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Devices => "devices",
            Self::Environment => "environment",
            Self::Execute => "execute",
            Self::Ipc => "ipc",
            Self::Memory => "memory",
            Self::Metadata => "metadata",
            Self::Network => "network",
            Self::Output => "output",
            Self::Pids => "pids",
            Self::Read => "read",
            Self::Spawn => "spawn",
            Self::Time => "time",
            Self::Write => "write",
        }
    }
}

impl fmt::Display for Axis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One value for each axis. There is no `Default` and there are no optional fields: a new axis must have a value
/// everywhere before the crate compiles.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(missing_docs, reason = "each field is the axis of its name")]
pub struct Axes<T> {
    pub cpu: T,
    pub devices: T,
    pub environment: T,
    pub execute: T,
    pub ipc: T,
    pub memory: T,
    pub metadata: T,
    pub network: T,
    pub output: T,
    pub pids: T,
    pub read: T,
    pub spawn: T,
    pub time: T,
    pub write: T,
}

impl<T> Axes<T> {
    /// Returns the value of one axis.
    pub const fn get(&self, axis: Axis) -> &T {
        match axis {
            Axis::Cpu => &self.cpu,
            Axis::Devices => &self.devices,
            Axis::Environment => &self.environment,
            Axis::Execute => &self.execute,
            Axis::Ipc => &self.ipc,
            Axis::Memory => &self.memory,
            Axis::Metadata => &self.metadata,
            Axis::Network => &self.network,
            Axis::Output => &self.output,
            Axis::Pids => &self.pids,
            Axis::Read => &self.read,
            Axis::Spawn => &self.spawn,
            Axis::Time => &self.time,
            Axis::Write => &self.write,
        }
    }

    /// Creates a value for every axis.
    pub fn from_fn(mut f: impl FnMut(Axis) -> T) -> Self {
        Self {
            cpu: f(Axis::Cpu),
            devices: f(Axis::Devices),
            environment: f(Axis::Environment),
            execute: f(Axis::Execute),
            ipc: f(Axis::Ipc),
            memory: f(Axis::Memory),
            metadata: f(Axis::Metadata),
            network: f(Axis::Network),
            output: f(Axis::Output),
            pids: f(Axis::Pids),
            read: f(Axis::Read),
            spawn: f(Axis::Spawn),
            time: f(Axis::Time),
            write: f(Axis::Write),
        }
    }

    /// Iterates over all axes in the order of [`Axis::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = (Axis, &T)> {
        Axis::ALL.into_iter().map(|axis| (axis, self.get(axis)))
    }
}

/// A profile's demand on an axis.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Demand {
    /// A run is refused if the axis is not enforced.
    Required,
    /// A missing enforcement is only reported.
    Wanted,
}

/// A backend's treatment of one axis.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Coverage {
    /// The axis holds except for `gap`.
    Degraded {
        /// The mechanism that enforces the rest.
        by: &'static str,
        /// The missing part.
        gap: &'static str,
    },
    /// The axis holds as the profile declares it.
    Enforced {
        /// The mechanism that enforces it.
        by: &'static str,
    },
    /// The backend does not enforce it.
    Ignored,
}
