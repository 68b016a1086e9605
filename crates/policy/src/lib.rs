//! Profiles and their resolved form: profile files → [`Policy`] → plan. Synchronous, and without syscalls but to
//! read files.

#![forbid(unsafe_code)]

pub mod declaration;
pub mod egress;
mod entries;
pub mod environment;
pub mod explain;
pub mod forbidden;
pub mod git_paths;
pub mod hidden;
pub mod located;
mod names;
pub mod narrow;
pub mod profile;
pub mod registry;
pub mod requests;
pub mod rights;
mod start;
pub mod state;
pub mod tokens;
mod transcripts;
pub mod ways;
mod wider;
mod workspace_roots;

use hookjail_base::model::{
    OnOutputLimit, ProfileName,
    axis::{Axes, Demand},
};

pub use self::profile::grants::grantable;
pub use self::{
    entries::Entries, names::NamePattern, profile::references::References, registry::Registry,
    start::starts_in, workspace_roots::WorkspaceRoots,
};
use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A profile, resolved: inheritance applied, every key present, validated whole.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Its purpose, in one line.
    pub description: String,
    /// SHA-256 of the resolved profile but for its name and description, lower-case hex. Equal digests mean equal
    /// profiles. A policy that a request narrowed keeps its profile's digest, so this is no key for what a run may do.
    pub digest: String,
    /// The demand on each axis.
    pub demands: Axes<Demand>,
    /// The hosts that the hook can reach, where its network is [`Network::Named`].
    pub egress: Arc<EgressRules>,
    /// The hook's environment.
    pub environment: Arc<Environment>,
    /// The files that the hook can reach.
    pub files: Files,
    /// Whether a request may name it, or only the operator's configuration.
    pub granted_by: GrantedBy,
    /// Resource limits.
    pub limits: Limits,
    /// Its own name, and then those of the profiles that it extends, the nearest first.
    pub line: Arc<[ProfileName]>,
    /// Whether the hook may change modes, owners, times and extended attributes.
    pub metadata: Metadata,
    /// Its name.
    pub name: ProfileName,
    /// The hook's access to the network.
    pub network: Network,
    /// Whether notices are shown for which the hook's programs ask.
    pub notify: bool,
    /// Whether registered secrets are redacted in a reply's parts that the hook wrote.
    pub redact_output: bool,
    /// The new tasks that the hook may start.
    pub spawn: Spawn,
    /// How long files last that the hook makes at [`Files::state`]; `None` = they cannot be made.
    pub state: Option<StateScope>,
    /// Limits of the run's duration.
    pub time: Time,
    /// The umask.
    pub umask: u32,
    /// The file system and the processes that the hook sees.
    pub view: HookView,
    /// The number of interpreters that wait ahead for each command.
    pub warm: u32,
    /// The hook's default start directory.
    pub working_dir: WorkingDir,
}

impl Policy {
    /// Returns whether a hook can run under it only with a workspace.
    pub fn needs_workspace(&self) -> bool {
        self.files.named.iter().any(|grant| {
            matches!(
                grant.place,
                GrantPlace::Workspace {
                    if_bound: false,
                    ..
                }
            )
        })
    }
}

/// The environment of a hook. `TMPDIR` is always the scratch directory.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Environment {
    /// Names a request may set: exact, or a prefix followed by `*`.
    pub allow: Vec<String>,
    /// Whether a request's `PATH` goes before `path`, within directories that hooks may execute.
    pub caller_path: bool,
    /// `HOME`; `None` = the scratch directory.
    pub home: Option<PathBuf>,
    /// `PATH`, also for finding programs named without a slash: absolute directories.
    pub path: Vec<PathBuf>,
    /// Variables the profile sets, `LANG` among them.
    pub set: BTreeMap<String, String>,
}

/// The files that a hook can reach.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Files {
    /// The directory of all caches, where a grant or a variable names `${cache}`. Bound, they name the run's own below it.
    pub cache: Option<PathBuf>,
    /// Names of files and directories of the workspace that are there and cannot be opened, wherever they lie in it.
    pub hidden: Vec<NamePattern>,
    /// Granted beside the system's: a request can narrow these.
    pub named: Vec<GrantSpec>,
    /// Paths of the workspace that stay read-only within writable grants.
    pub read_only: Vec<ReadOnly>,
    /// Directories of the machine in whose places a view shows files of hooks that last.
    pub state: Vec<PathBuf>,
    /// Grants that programs need to run at all. An entry marked `optional` may be absent from a host.
    pub system: Arc<[GrantSpec]>,
    /// Places among what is granted whose files are closed where they hold a token. A `*` stands for one name.
    pub tokens: Vec<PathBuf>,
    /// Places of transcripts: paths whose last names are `*`. Bound, the paths of an event's own, which may be missing.
    pub transcripts: Vec<PathBuf>,
    /// Paths of the workspace that stay as they are within writable grants, there or not.
    pub unchanged: Vec<ReadOnly>,
}

impl Files {
    /// Returns whether a run under it needs mounts in its workspace.
    pub const fn keep(&self) -> bool {
        !self.hidden.is_empty() || self.keep_unchanged()
    }

    /// Returns the paths that a hook may write, and what lies below them.
    pub fn written(&self) -> impl Iterator<Item = &Path> {
        self.named.iter().filter_map(|grant| match &grant.place {
            GrantPlace::Path(path) if !grant.access.is_read_only() => Some(path.as_path()),
            GrantPlace::Entries(_)
            | GrantPlace::Path(_)
            | GrantPlace::Source { .. }
            | GrantPlace::Workspace { .. } => None,
        })
    }

    /// Returns whether something of the workspace stays unchanged within writable grants.
    pub const fn keep_unchanged(&self) -> bool {
        !self.read_only.is_empty() || !self.unchanged.is_empty()
    }
}

/// One granted path, before it is opened.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct GrantSpec {
    /// The granted access.
    pub access: Access,
    /// Whether the file is created where it is absent.
    pub create: bool,
    /// Whether a host without it is acceptable (`/lib64` on some distributions).
    pub optional: bool,
    /// The location.
    pub place: GrantPlace,
}

impl GrantSpec {
    /// Returns the grant as a profile spells it, path included.
    #[must_use]
    pub fn entry(&self, path: &str) -> String {
        let path = toml::Value::String(path.to_owned());
        let mut entry = format!("{{ path = {path}, access = \"{}\"", self.access);
        for (key, is_set) in [("create", self.create), ("optional", self.optional)] {
            if is_set {
                entry.push_str(&format!(", {key} = true"));
            }
        }
        entry.push_str(" }");
        entry
    }
}

/// Protection of a path of the workspace within a run, the weakest first.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Keep {
    /// The path keeps its name.
    Name,
    /// The path stays read-only, with everything below it.
    Unchanged,
    /// An empty directory lies in its place.
    Empty,
    /// The path cannot be opened.
    Hidden,
}

/// A path below the workspace that stays read-only.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct ReadOnly {
    /// The path below `${workspace}`.
    pub below: PathBuf,
    /// Whether the path is a directory, which is created where it is missing and its parent exists.
    pub directory: bool,
}

impl fmt::Display for ReadOnly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = if self.directory { "/" } else { "" };
        write!(f, "${{workspace}}/{}{end}", self.below.display())
    }
}

/// The location of a grant.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum GrantPlace {
    /// Entries of a directory, each where it exists. Only of the system, and read-only.
    Entries(Entries),
    /// An absolute path without `.` and `..`.
    Path(PathBuf),
    /// `${source}`, or a path below it: of the tree that a worktree was made from. Never writable.
    Source {
        /// The path below `${source}`; empty for the tree itself.
        below: PathBuf,
        /// Whether the grant is dropped, instead of the request refused, without a source.
        if_bound: bool,
    },
    /// `${workspace}`, or a path below it.
    Workspace {
        /// The path below `${workspace}`; empty for the workspace itself.
        below: PathBuf,
        /// Whether the grant is dropped, instead of the request refused, without a workspace.
        if_bound: bool,
    },
}

impl fmt::Display for GrantPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (reference, below) = match self {
            Self::Entries(entries) => return entries.fmt(f),
            Self::Path(path) => return write!(f, "{}", path.display()),
            Self::Source { below, .. } => ("${source}", below),
            Self::Workspace { below, .. } => ("${workspace}", below),
        };
        if below.as_os_str().is_empty() {
            return f.write_str(reference);
        }
        write!(f, "{reference}/{}", below.display())
    }
}

/// The access to a granted path.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, JsonSchema, Ord, PartialEq, PartialOrd, Serialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// Read, list and execute.
    Execute,
    /// Read and list.
    Read,
    /// Read, list, execute, write, make, rename and remove; never pipes, sockets or devices.
    Write,
    /// Read and write one existing file.
    WriteFile,
}

impl Access {
    /// Returns its name as profiles and reports spell it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Execute => "execute",
            Self::Read => "read",
            Self::Write => "write",
            Self::WriteFile => "write-file",
        }
    }

    /// Returns whether the access is read-only.
    pub const fn is_read_only(self) -> bool {
        match self {
            Self::Execute | Self::Read => true,
            Self::Write | Self::WriteFile => false,
        }
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The hooks that share files outside of their workspace, as long as these last: hooks of one caller under one profile.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, JsonSchema, Ord, PartialEq, PartialOrd, Serialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum StateScope {
    /// Runs of one command.
    Hook,
    /// Hooks of one workspace.
    Project,
    /// Hooks of one session in one workspace.
    Session,
}

impl StateScope {
    /// Returns its name as profiles and reports spell it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hook => "hook",
            Self::Project => "project",
            Self::Session => "session",
        }
    }
}

/// Requests that can select a profile.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum GrantedBy {
    /// Any request.
    Anyone,
    /// Only where the operator grants the profile, by a consent under it or a `[[hook]]` that names it.
    Operator,
}

/// Resource limits of one run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// RLIMIT_AS in bytes, a backstop where no cgroup limits memory; `None` = no limit.
    pub address_space: Option<u64>,
    /// The cgroup's limit on processor time for all processes of the run, thousandths of a processor; `None` = no limit.
    pub cpus: Option<u32>,
    /// RLIMIT_FSIZE in bytes.
    pub file_size: u64,
    /// The cgroup's memory limit for all processes of the run, bytes; `None` = no limit.
    pub memory: Option<u64>,
    /// The action on a hook that prints more than `output_bytes`.
    pub on_output_limit: OnOutputLimit,
    /// RLIMIT_NOFILE.
    pub open_files: u64,
    /// Captured bytes a stream.
    pub output_bytes: u64,
    /// Limits of the scratch directory, which is then a file system in memory of the run's own; `None` = those of its disk.
    pub scratch: Option<ScratchLimits>,
    /// RLIMIT_NPROC where the hook has its own uid, and its cgroup's limit.
    pub tasks: u64,
}

impl Limits {
    /// The largest size of a scratch directory in memory that follows from `file_size`, which may be meant for disks.
    const MOST_OF_FILE_SIZE: u64 = 1 << 30;

    /// Returns the limits of a scratch directory that is in memory in any case, as it is in containers.
    pub fn scratch_in_memory(&self) -> ScratchLimits {
        let of_file_size = || ScratchLimits::of_size(self.file_size.min(Self::MOST_OF_FILE_SIZE));
        (self.scratch).unwrap_or_else(of_file_size)
    }
}

/// Limits of a run's scratch directory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ScratchLimits {
    /// Bytes of all its files together.
    pub bytes: u64,
    /// Number of its files, directories, links and further names.
    pub files: u64,
}

impl ScratchLimits {
    /// The least size, a page of the largest kind: no size at all means no limit to the kernel.
    pub const MIN_BYTES: u64 = 64 << 10;
    /// The largest size and number that are exact in every kernel's arithmetic, and far beyond any host's memory.
    pub const MAX_BYTES: u64 = 1 << 40;
    /// The largest number of files.
    pub const MAX_FILES: u64 = 1 << 32;

    /// Returns the limits of a size alone: as many files as fill it with a page each.
    pub fn of_size(bytes: u64) -> Self {
        const PAGE: u64 = 4 << 10;
        let bytes = bytes.clamp(Self::MIN_BYTES, Self::MAX_BYTES);
        Self {
            bytes,
            files: bytes / PAGE,
        }
    }
}

impl fmt::Display for ScratchLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} in {} files",
            hookjail_base::util::units::Size(self.bytes),
            self.files
        )
    }
}

/// Whether a hook may change modes, owners, times and extended attributes.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metadata {
    /// Changed as far as the hook's user may. The umask is the request's, by default 022.
    Change,
    /// Never changed. The umask is 077.
    Keep,
}

impl Metadata {
    /// Returns its name as profiles spell it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Change => "change",
            Self::Keep => "keep",
        }
    }

    /// Returns the umask of a hook, if its caller asks for one. A hook that cannot change a mode later leaves files for its own
    /// user alone.
    pub const fn umask(self, requested: Option<u32>) -> u32 {
        match (self, requested) {
            (Self::Change, Some(requested)) => requested,
            (Self::Change, None) => 0o022,
            (Self::Keep, _) => 0o077,
        }
    }
}

/// Network access of a hook.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Network {
    /// TCP to the hosts of `egress`, by connections that the daemon makes.
    Named,
    /// No connection.
    None,
    /// TCP and UDP clients over IPv4 and IPv6; no listening, no other family.
    Outbound,
}

impl Network {
    /// Returns its name as profiles spell it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Named => "named",
            Self::None => "none",
            Self::Outbound => "outbound",
        }
    }

    /// Returns whether a hook can send something to another host.
    pub const fn sends(self) -> bool {
        match self {
            Self::Named | Self::Outbound => true,
            Self::None => false,
        }
    }
}

/// The hosts that a hook can reach, and limits of its connections.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct EgressRules {
    /// The hosts.
    pub allowed: Vec<egress::Egress>,
    /// The bytes that a run sends at most; `None` = no limit.
    pub bytes: Option<u64>,
    /// The connections of a run at most.
    pub connections: u32,
    /// The requests that the daemon makes by TLS in the hook's place: limits of the rules that speak [`egress::Speaks::Https`].
    pub requests: Vec<requests::RequestRule>,
    /// The source of the hosts.
    pub source: HostSource,
    /// The ways of the daemon to the hosts.
    pub ways: Arc<ways::Ways>,
}

/// The source of the hosts that a hook reaches.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum HostSource {
    /// The hook itself: any host, for `hookjail learn --network`.
    Hook,
    /// The configuration's `http.allow`. Names may resolve to addresses of private networks (RFC 1918, RFC 4193).
    HttpAllow,
    /// The profile.
    #[default]
    Profile,
}

impl Default for EgressRules {
    fn default() -> Self {
        Self {
            allowed: Vec::new(),
            bytes: None,
            connections: 256,
            requests: Vec::new(),
            source: HostSource::default(),
            ways: Arc::default(),
        }
    }
}

/// File system and processes that a hook sees.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Hash, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum HookView {
    /// The machine's processes and directories. The hook stays in one process group.
    #[default]
    Machine,
    /// A view of the run's own: a mount namespace and a process tree. `/proc`, `/tmp`, `/var/tmp` and `/dev/shm` are the run's,
    /// and verified scripts lie at their own paths.
    Own,
}

/// Directories for temporary files that all users of a machine share. A view of its own covers each that exists.
pub const SHARED: [&str; 3] = ["/dev/shm", "/tmp", "/var/tmp"];

impl HookView {
    /// Returns its name as profiles spell it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Machine => "machine",
            Self::Own => "own",
        }
    }
}

/// Processes and threads that a hook may start.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spawn {
    /// Processes that end with the run, without a view in the same process group.
    Processes,
    /// No new process.
    Threads,
}

impl Spawn {
    /// Returns its name as profiles spell it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Processes => "processes",
            Self::Threads => "threads",
        }
    }
}

/// Limits of a run's duration.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Time {
    /// The time where neither request nor hook nor contract sets one.
    pub default: Duration,
    /// The longest time; a request for more is refused.
    pub maximum: Duration,
}

/// The working directory where the request names none.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkingDir {
    /// The scratch directory.
    Scratch,
    /// The workspace.
    Workspace,
}
