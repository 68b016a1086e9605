//! The configuration as its file spells it: names, defaults and the schema, nothing of what the values must be.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::IgnoredAny};

use crate::{
    contract::hook_file::contracts,
    hooks::valve::OnLimit,
    journal::append::Settings,
    policy::units::{Size, Span},
    sandbox::{BackendName, DEFAULT_UID_RANGE, RunAs, RuntimeKind},
};

/// The configuration as the file spells it. Every key may be left out; unknown keys are errors.
#[derive(Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "Configuration of hookjail")]
pub(super) struct ConfigFile {
    /// What the journal keeps.
    pub(super) audit: AuditEntry,
    /// What confines hooks.
    pub(super) backends: BackendsEntry,
    /// What is asked of the operator.
    pub(super) consent: ConsentEntry,
    /// What makes containers.
    pub(super) container: ContainerEntry,
    /// What the operator says about a command, or a hook that runs whenever its lifecycle point comes.
    pub(super) hook: Vec<HookEntry>,
    /// Limits of all hooks.
    pub(super) hooks: HooksEntry,
    /// Which hooks may be posted to a URL.
    pub(super) http: HttpEntry,
    /// Which commands of infer's hooks run.
    #[serde(rename = "infer")]
    pub(super) lists: ListsEntry,
    /// Files with more hooks.
    pub(super) hooks_file: Vec<HooksFileEntry>,
    /// Where what the daemon counts is read.
    pub(super) metrics: MetricsEntry,
    /// Where things are.
    pub(super) paths: PathsEntry,
    /// Which profiles there are.
    pub(super) profiles: ProfilesEntry,
    /// Calls without a daemon.
    pub(super) run: RunEntry,
    /// What is taken out of texts.
    pub(super) secret: Vec<SecretEntry>,
    /// Who is listened to.
    pub(super) server: ServerEntry,
}

/// What makes containers.
#[derive(Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ContainerEntry {
    /// The control group (version 2) below which each run gets its own: an absolute path.
    pub(super) control_group: Option<PathBuf>,
    /// Which command line the runtime understands, where its name does not say it.
    pub(super) kind: Option<RuntimeKind>,
    /// The system that hooks find instead of the host's: the absolute path of an unpacked image.
    pub(super) root: Option<PathBuf>,
    /// The digest of the root, as `hookjail root-digest` prints it.
    pub(super) root_digest: Option<String>,
    /// An OCI runtime's program: an absolute path.
    pub(super) runtime: Option<PathBuf>,
}

/// What the journal keeps beside the facts of a run.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct AuditEntry {
    /// Of which texts it keeps the beginning. Registered secrets are taken out first.
    pub(super) capture: Vec<CaptureChoice>,
    /// How much of each: 256 B to 256 KiB.
    pub(super) capture_max: Size,
    /// When records reach the disk: `always`, `never`, or at the latest after a duration of 10ms to 1h.
    pub(super) fsync: String,
    /// How many older files are kept; 0 = all.
    pub(super) keep_files: usize,
    /// How large a file becomes before the next one is begun: 64 KiB to 1 TiB.
    pub(super) rotate_bytes: Size,
    /// Who may read the records of everybody's requests besides the daemon's own user.
    pub(super) readers: Vec<UserEntry>,
}

impl Default for AuditEntry {
    fn default() -> Self {
        let Settings {
            fsync: _,
            keep_files,
            rotate_bytes,
        } = Settings::default();
        Self {
            capture: Vec::new(),
            capture_max: Size(4 * 1024),
            fsync: "never".to_owned(),
            keep_files,
            readers: Vec::new(),
            rotate_bytes: Size(rotate_bytes),
        }
    }
}

/// A text of a run.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum CaptureChoice {
    /// What the hook reads on stdin.
    Event,
    /// What it writes to stderr.
    Stderr,
    /// What it writes to stdout.
    Stdout,
}

/// A secret that is taken out of texts: where its value is, or what it looks like. One of `credential`, `env`, `file` and
/// `pattern` must be given.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SecretEntry {
    /// A file in `$CREDENTIALS_DIRECTORY`.
    pub(super) credential: Option<String>,
    /// A variable of the daemon's environment.
    pub(super) env: Option<String>,
    /// A file, by its absolute path.
    pub(super) file: Option<PathBuf>,
    /// What stands in its place: `[redacted:NAME]`. 1 to 32 of `A-Z a-z 0-9 - _`.
    #[schemars(regex(pattern = "^[A-Za-z0-9_-]{1,32}$"))]
    pub(super) name: String,
    /// A regular expression without look-around and back references, for what has no fixed value.
    pub(super) pattern: Option<String>,
}

/// What confines hooks.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct BackendsEntry {
    /// In order of preference.
    #[schemars(length(min = 1))]
    pub(super) order: Vec<BackendName>,
    /// The same for one profile, by its name, and for those that extend it.
    pub(super) profiles: BTreeMap<String, Vec<BackendName>>,
}

impl Default for BackendsEntry {
    fn default() -> Self {
        Self {
            order: BackendName::DEFAULT_ORDER.to_vec(),
            profiles: BTreeMap::new(),
        }
    }
}

/// What is asked of the operator.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ConsentEntry {
    /// Whether `HOOKJAIL_ACCEPT_HOOKS=1`, and runtimes' own variables like it, may accept commands that nobody allowed.
    pub(super) accept_hooks: bool,
    /// Who may answer besides the daemon's own user.
    pub(super) operators: Vec<UserEntry>,
    /// How long a question stays open: up to 1 h.
    pub(super) wait: Span,
}

impl Default for ConsentEntry {
    fn default() -> Self {
        Self {
            accept_hooks: true,
            operators: Vec::new(),
            wait: Span(Duration::from_secs(60)),
        }
    }
}

/// What the operator says about a command; a hook where it has `contract` and `point`.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HookEntry {
    /// Whether what it says decides, or advises only.
    #[schemars(extend("enum" = ["advisory", "policy", null]))]
    pub(super) kind: Option<String>,
    /// What becomes of it once one before it has stopped what comes next.
    #[schemars(extend("enum" = ["run", "skip", null]))]
    pub(super) after_block: Option<String>,
    /// The arguments of a `builtin`.
    #[serde(default)]
    pub(super) args: Vec<String>,
    /// One of docker-agent's built-in hooks, in the place of `command`.
    pub(super) builtin: Option<String>,
    /// Program and arguments; of a hook also one string, as its contract reads it.
    pub(super) command: Option<CommandWords>,
    /// Whose rules hold.
    pub(super) contract: Option<String>,
    /// Whether the hook runs when its point comes. Default: true.
    pub(super) enabled: Option<bool>,
    /// Variables, beyond what the profile lists.
    #[serde(default)]
    pub(super) env: BTreeMap<String, String>,
    /// Which events of the point. Default: all.
    #[serde(default)]
    pub(super) matcher: String,
    /// The contract's mode, where it has several.
    #[serde(default)]
    pub(super) mode: String,
    /// For replies, logs and the journal.
    #[serde(default)]
    pub(super) name: String,
    /// What a failure does, beyond what the contract says.
    #[schemars(extend("enum" = ["contract", "closed", "open", null]))]
    pub(super) on_failure: Option<String>,
    /// When it runs, in the contract's spelling.
    pub(super) point: Option<String>,
    /// Base Coat's order; lower is earlier, default 50.
    pub(super) priority: Option<f64>,
    /// The profile it runs under in a dispatch; default the contract's.
    pub(super) profile: Option<String>,
    /// Profiles that only the operator can grant.
    #[serde(default)]
    pub(super) profiles: Vec<String>,
    /// reyn's scheme without a command, in the place of `command`: `message`, `wake`, `push_when`, `session`.
    pub(super) template_push: Option<serde_json::Map<String, serde_json::Value>>,
    /// The wall time where a request names none.
    #[serde(default)]
    pub(super) timeout: Option<Span>,
    /// Where it starts, absolute, inside a grant.
    pub(super) working_dir: Option<PathBuf>,
}

/// A file with hooks in the form of the system whose it is.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HooksFileEntry {
    /// The agent whose hooks they are.
    pub(super) agent: Option<String>,
    /// Where relative working directories in it start.
    pub(super) base: Option<PathBuf>,
    /// Whose form it has.
    #[schemars(extend("enum" = contracts()))]
    pub(super) contract: String,
    /// The command that judges in the place of docker-agent's models, program first.
    pub(super) judge: Option<Vec<String>>,
    /// Where it is, absolute.
    pub(super) path: PathBuf,
    /// The plugin whose hooks they are.
    pub(super) plugin: Option<String>,
    /// The profile that they run under; default the contract's.
    pub(super) profile: Option<String>,
    /// What holds for some of them.
    #[serde(default)]
    pub(super) rule: Vec<RuleEntry>,
    /// The skill whose hooks they are.
    pub(super) skill: Option<String>,
    /// The user whose file it is, for whose requests alone its hooks run; default the operator.
    pub(super) user: Option<UserEntry>,
}

/// What holds for some hooks of a file: at least one of `command`, `name` and `point`, and one of the others.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RuleEntry {
    /// Those with this command: the line as the file has it, a list's words as one line.
    pub(super) command: Option<String>,
    /// Whether what they say decides, or advises only.
    #[schemars(extend("enum" = ["advisory", "policy", null]))]
    pub(super) kind: Option<String>,
    /// Those with this name, as `hookjail hooks list` shows it.
    pub(super) name: Option<String>,
    /// What a failure does, in the place of what the file says.
    #[schemars(extend("enum" = ["contract", "closed", "open", null]))]
    pub(super) on_failure: Option<String>,
    /// Those at this point, in the contract's spelling.
    pub(super) point: Option<String>,
    /// The profile that they run under, in the place of what the file says.
    pub(super) profile: Option<String>,
    /// The wall time, in the place of what the file says.
    pub(super) timeout: Option<Span>,
}

/// Which hooks may be posted to a URL.
#[derive(Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct HttpEntry {
    /// The URLs, each with all that lies below it.
    pub(super) allow: Vec<String>,
    /// The variables that headers may have, each with the name of the `[[secret]]` that it stands for.
    pub(super) variables: BTreeMap<String, String>,
}

/// The keys of [`ListsEntry`] that can be wrong.
pub(super) const LISTED: &str = "infer.listed";
pub(super) const LISTS_FILE: &str = "infer.file";

/// Which commands of infer's hooks run: regular expressions, by the agent's mode.
#[derive(Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ListsEntry {
    /// In every mode.
    pub(super) all: Option<Vec<String>>,
    /// In `auto`.
    pub(super) auto: Option<Vec<String>>,
    /// infer's own configuration, for the lists that are not said here: `tools.bash.mode.MODE.allow`.
    pub(super) file: Option<PathBuf>,
    /// What it is to be on a list: to be let through, or consent too where the entry names a program.
    #[schemars(extend("enum" = ["consent", "gate", null]))]
    pub(super) listed: Option<String>,
    /// In `plan`.
    pub(super) plan: Option<Vec<String>>,
    /// In `standard`.
    pub(super) standard: Option<Vec<String>>,
}

/// Program and arguments, or a command line for a shell.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(
    untagged,
    expecting = "program and arguments as a list, or a command line as a string"
)]
pub(super) enum CommandWords {
    Argv(Vec<String>),
    Line(String),
}

/// Limits of all hooks.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct HooksEntry {
    /// No hook runs of its own accord.
    pub(super) disabled: bool,
    /// The largest event: 1 KiB to 256 MiB.
    pub(super) event_max: Size,
    /// How many hooks run at once.
    #[schemars(range(min = 1, max = 16384))]
    pub(super) max_concurrent: usize,
    /// How many turns in a row hooks may open under reyn; 0: any number.
    pub(super) max_hook_driven_turns: u32,
    /// How many requests wait for a place.
    pub(super) max_queued: usize,
    /// What runtimes are told to do at that cap.
    #[schemars(extend("enum" = ["warn", "ask_user", "abort"]))]
    pub(super) on_hook_turn_limit: String,
    /// Gone. It is read to be refused with what to use instead.
    #[schemars(skip)]
    #[serde(skip_serializing)]
    pub(super) read_audit_log: Option<IgnoredAny>,
    /// As whom a root daemon's hooks run: `caller`, or `pool` for a uid of their own.
    #[schemars(extend("enum" = ["caller", "pool"]))]
    pub(super) run_as: String,
    /// The same for one profile, by its name, and for those that extend it.
    #[schemars(extend("additionalProperties" = { "enum": ["caller", "pool"] }))]
    pub(super) run_as_profiles: BTreeMap<String, String>,
    /// Threads that start hooks, for each set of filters.
    #[schemars(range(min = 1, max = 64))]
    pub(super) spawners: usize,
    /// The first and the last uid of a root daemon's hooks.
    pub(super) uid_range: [u32; 2],
    /// At or below which directories a request may bind a workspace.
    pub(super) workspace_roots: Option<Vec<PathBuf>>,
}

impl Default for HooksEntry {
    fn default() -> Self {
        Self {
            disabled: false,
            event_max: Size(16 * 1024 * 1024),
            max_concurrent: 256,
            max_hook_driven_turns: 25,
            max_queued: 1024,
            on_hook_turn_limit: OnLimit::default().as_str().to_owned(),
            read_audit_log: None,
            run_as: RunAs::default().as_str().to_owned(),
            run_as_profiles: BTreeMap::new(),
            spawners: 4,
            uid_range: [*DEFAULT_UID_RANGE.start(), *DEFAULT_UID_RANGE.end()],
            workspace_roots: None,
        }
    }
}

/// Where what the daemon counts is read.
#[derive(Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct MetricsEntry {
    /// The address at which Prometheus scrapes: a loopback address with a port, such as `127.0.0.1:9464` or `[::1]:9464`. Default:
    /// none.
    pub(super) listen: Option<String>,
}

/// Where things are.
#[derive(Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct PathsEntry {
    /// Scratch directories.
    pub(super) runtime: Option<PathBuf>,
    /// Allowlist and journal.
    pub(super) state: Option<PathBuf>,
}

/// Where profiles are.
#[derive(Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ProfilesEntry {
    /// The profiles that are served, by name. Default: all.
    pub(super) allow: Option<Vec<String>>,
    /// Directories, read in order.
    pub(super) dirs: Vec<PathBuf>,
}

/// Calls without a daemon.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RunEntry {
    /// Whether `hookjail run`, `dispatch` and `learn` may serve themselves.
    pub(super) private: bool,
}

impl Default for RunEntry {
    fn default() -> Self {
        Self { private: true }
    }
}

/// A user, or a group's members.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(
    untagged,
    expecting = "a uid, the name of a user, or the name of a group with `@` before it"
)]
pub(super) enum UserEntry {
    /// A user's number.
    Uid(u32),
    /// A user's name, or `@` and a group's.
    Name(String),
}

/// Who is listened to.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ServerEntry {
    /// Where the operator steers the daemon. Default: beside `socket`.
    pub(super) admin_socket: Option<PathBuf>,
    /// Who may ask besides the daemon's own user. Default: the members of the group `hookjail`, where the daemon runs as root and
    /// the group exists.
    pub(super) callers: Option<Vec<UserEntry>>,
    /// How long running hooks get at shutdown.
    pub(super) drain: Span,
    /// How many bytes all requests in work may hold, their messages and what is kept of their hooks' output. Default: 512 MiB,
    /// or four times `hooks.event_max`, if that is more.
    pub(super) max_bytes_in_flight: Option<Size>,
    /// How many connections those who may ask have in all.
    #[schemars(range(min = 1, max = 65536))]
    pub(super) max_connections: usize,
    /// Where the daemon listens.
    pub(super) socket: Option<PathBuf>,
    /// The socket's mode.
    #[schemars(extend("enum" = ["0600", "0660"]))]
    pub(super) socket_mode: String,
}

impl Default for ServerEntry {
    fn default() -> Self {
        let drain = Span(Duration::from_secs(10));
        Self {
            admin_socket: None,
            callers: None,
            drain,
            max_bytes_in_flight: None,
            max_connections: 4096,
            socket: None,
            socket_mode: "0600".to_owned(),
        }
    }
}
