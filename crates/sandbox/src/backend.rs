//! Backends: probe the host, translate policies, and start confined children.

use std::{borrow::Cow, fmt, pin::Pin};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use hookjail_base::{
    model::axis::{Axes, Axis, Coverage, Demand},
    refusal::Stop,
};
use hookjail_policy::Policy;

use crate::{
    host::FilterSpec,
    run::{Started, runner::Runner, task::Task},
};

/// A backend's name.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct BackendName(&'static str);

/// Every backend, the systems that have it (empty = all), and a short description. A new one is a folder and a line here.
const BACKENDS: [(BackendName, &str, &str); 4] = [
    (
        BackendName::CONTAINER,
        "Linux",
        "A container, made by an OCI runtime. Only operators name it.",
    ),
    (BackendName::LANDLOCK, "Linux", "Landlock and seccomp."),
    (
        BackendName::NOOP,
        "",
        "No confinement at all. Only operators name it.",
    ),
    (
        BackendName::SEATBELT,
        "macOS",
        "A Seatbelt profile, on macOS.",
    ),
];

impl BackendName {
    /// Containers, made by an OCI runtime.
    pub const CONTAINER: Self = Self("container");
    /// Landlock and seccomp.
    pub const LANDLOCK: Self = Self("landlock");
    /// No confinement at all.
    pub const NOOP: Self = Self("noop");
    /// Seatbelt profiles.
    pub const SEATBELT: Self = Self("seatbelt");

    /// Default order of backends; empty on systems without confinement, where the operator must name `noop`.
    pub const DEFAULT_ORDER: &[Self] = if cfg!(target_os = "linux") {
        &[Self::LANDLOCK]
    } else if cfg!(target_os = "macos") {
        &[Self::SEATBELT]
    } else {
        &[]
    };

    /// Creates the name of an unlisted backend, for a test.
    #[cfg(test)]
    pub(crate) const fn of_test(name: &'static str) -> Self {
        Self(name)
    }

    /// Parses a name as configuration spells it.
    pub fn parse(text: &str) -> Option<Self> {
        let names = BACKENDS.map(|(name, ..)| name);
        names.into_iter().find(|name| name.0 == text)
    }

    /// Returns whether the backend confines at all.
    pub fn confines(self) -> bool {
        self != Self::NOOP
    }

    /// Returns the systems that have the backend, for display; `None` where this one does.
    pub fn elsewhere(self) -> Option<&'static str> {
        let (_, systems, _) = BACKENDS.into_iter().find(|(name, ..)| *name == self)?;
        let is_here = [
            ("Linux", cfg!(target_os = "linux")),
            ("macOS", cfg!(target_os = "macos")),
        ]
        .into_iter()
        .all(|(system, is_this)| system != systems || is_this);
        (!is_here).then_some(systems)
    }

    /// Returns the name as configuration, replies and records spell it.
    pub const fn as_str(self) -> &'static str {
        self.0
    }
}

impl<'de> Deserialize<'de> for BackendName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| {
            let names = BACKENDS.map(|(name, ..)| format!("`{name}`")).join(", ");
            D::Error::custom(format!("unknown variant `{text}`, expected one of {names}"))
        })
    }
}

impl Serialize for BackendName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0)
    }
}

impl JsonSchema for BackendName {
    fn schema_name() -> Cow<'static, str> {
        "BackendName".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let known = BACKENDS.map(|(name, _, does)| {
            json_schema!({ "const": name.0, "description": does, "type": "string" })
        });
        json_schema!({ "description": "A backend's name.", "oneOf": known })
    }
}

impl fmt::Display for BackendName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a backend is missing on this host.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{why}")]
pub struct Absent {
    /// Remedy for the operator.
    pub fix: String,
    /// The missing facility or right.
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
    /// The missing part.
    pub gap: String,
}

/// Abilities of a backend on this host, regardless of the policy.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Host {
    /// The kernel's Landlock ABI; 0 where the backend does not use Landlock.
    pub landlock_abi: u32,
}

/// A backend's claims about each axis that backends enforce.
///
/// The runner enforces the other axes, and no backend can claim them. Under every backend the runner builds the environment,
/// closes descriptors, bounds output and ends the tree at the deadline. There is no `Default`: a backend answers every axis.
#[derive(Clone, Debug, Eq, PartialEq)]
#[expect(missing_docs, reason = "each field is the axis of its name")]
pub struct Claims {
    pub cpu: Coverage,
    pub devices: Coverage,
    pub execute: Coverage,
    pub ipc: Coverage,
    pub memory: Coverage,
    pub metadata: Coverage,
    pub network: Coverage,
    pub pids: Coverage,
    pub read: Coverage,
    pub spawn: Coverage,
    pub write: Coverage,
}

impl Claims {
    /// No claim on any axis.
    pub const NONE: Self = Self {
        cpu: Coverage::Ignored,
        devices: Coverage::Ignored,
        execute: Coverage::Ignored,
        ipc: Coverage::Ignored,
        memory: Coverage::Ignored,
        metadata: Coverage::Ignored,
        network: Coverage::Ignored,
        pids: Coverage::Ignored,
        read: Coverage::Ignored,
        spawn: Coverage::Ignored,
        write: Coverage::Ignored,
    };

    /// Returns the coverage of every axis.
    ///
    /// Without a confining backend the runner's axes do not hold either: a hook can leave its process group, and with
    /// it the deadline.
    fn axes(self) -> Axes<Coverage> {
        let runner = if self == Self::NONE {
            Coverage::Ignored
        } else {
            Coverage::Enforced { by: "runner" }
        };
        let Self {
            cpu,
            devices,
            execute,
            ipc,
            memory,
            metadata,
            network,
            pids,
            read,
            spawn,
            write,
        } = self;
        Axes {
            cpu,
            devices,
            environment: runner.clone(),
            execute,
            ipc,
            memory,
            metadata,
            network,
            output: runner.clone(),
            pids,
            read,
            spawn,
            time: runner,
            write,
        }
    }
}

/// Returns whether backends enforce an axis; the runner enforces the others.
pub(crate) const fn is_claimed(axis: Axis) -> bool {
    match axis {
        Axis::Environment | Axis::Output | Axis::Time => false,
        Axis::Cpu
        | Axis::Devices
        | Axis::Execute
        | Axis::Ipc
        | Axis::Memory
        | Axis::Metadata
        | Axis::Network
        | Axis::Pids
        | Axis::Read
        | Axis::Spawn
        | Axis::Write => true,
    }
}

/// A translated policy: coverage of each axis, and facts about it.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// Set by [`Prepared::covering`] only, so that no backend claims an axis of the runner.
    axes: Axes<Coverage>,
    /// The backend.
    pub backend: BackendName,
    /// Filters of its hooks; `None` = none.
    pub filters: Option<FilterSpec>,
    /// The Landlock ABI in use; 0 where the backend does not use Landlock.
    pub landlock_abi: u32,
}

impl Prepared {
    /// Returns the translation if it covers the policy's requirements. Every backend ends its `prepare` with this.
    ///
    /// # Errors
    ///
    /// Names the first required axis that is not enforced.
    pub fn covering(
        policy: &Policy,
        backend: BackendName,
        claims: Claims,
    ) -> Result<Self, Unenforceable> {
        let axes = claims.axes();
        let uncovered = axes.iter().find_map(|(axis, coverage)| {
            let gap = match (policy.demands.get(axis), coverage) {
                (Demand::Wanted, _) | (_, Coverage::Enforced { .. }) => return None,
                (_, Coverage::Degraded { gap, .. }) => (*gap).to_owned(),
                (_, Coverage::Ignored) => "nothing is done about it".to_owned(),
            };
            Some(Unenforceable { axis, backend, gap })
        });
        match uncovered {
            Some(unenforceable) => Err(unenforceable),
            None => Ok(Self {
                axes,
                backend,
                filters: None,
                landlock_abi: 0,
            }),
        }
    }

    /// Sets its hooks' filters and their Landlock ABI; 0 = without Landlock.
    #[cfg(target_os = "linux")]
    #[must_use]
    pub const fn with_filters(mut self, filters: FilterSpec, landlock_abi: u32) -> Self {
        self.filters = Some(filters);
        self.landlock_abi = landlock_abi;
        self
    }

    /// Returns the coverage of each axis.
    pub const fn axes(&self) -> &Axes<Coverage> {
        &self.axes
    }

    /// Returns whether any axis is enforced.
    pub fn confines(&self) -> bool {
        self.axes
            .iter()
            .any(|(_, coverage)| *coverage != Coverage::Ignored)
    }
}

/// Future of [`Backend::start`].
pub type Starting<'a> = Pin<Box<dyn Future<Output = Result<Started, Stop>> + Send + 'a>>;

/// A confinement mechanism: probes the host once, translates policies, starts children.
///
/// `docs/backends.md` describes how to write one.
pub trait Backend: fmt::Debug + Send + Sync {
    /// Returns the backend's name.
    fn name(&self) -> BackendName;

    /// Probes the mechanism's abilities on this host.
    ///
    /// # Errors
    ///
    /// Names the missing mechanism and the remedy.
    fn probe(&self) -> Result<Host, Absent>;

    /// Translates a policy.
    ///
    /// # Errors
    ///
    /// Names a required axis that the backend cannot enforce on this host.
    fn prepare(&self, policy: &Policy) -> Result<Prepared, Unenforceable>;

    /// Starts a child under its task's policy, which [`Backend::prepare`] has translated.
    ///
    /// # Errors
    ///
    /// Refuses where any part of confinement cannot be applied or confirmed. Nothing of a hook has run then, or its
    /// tree is dead and the refusal has `released`.
    fn start<'a>(&'a self, runner: &'a Runner, task: Task<'a>) -> Starting<'a>;

    /// Returns whether the backend itself limits the number of tasks. The self-test then probes that limit.
    fn counts_tasks(&self) -> bool {
        false
    }

    /// Returns whether a child's stdin can stay open for what it waits for.
    fn lets_wait(&self) -> bool {
        false
    }

    /// Returns whether its probes share no memory with the daemon. The self-test then uses memory in them, and otherwise in processes
    /// that are in the cgroups of runs.
    fn has_own_memory(&self) -> bool {
        false
    }
}
