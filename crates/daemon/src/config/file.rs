//! The configuration as its file spells it: names, defaults and the schema, nothing of what the values must be.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use hookjail_base::util::units::{Size, Span};
use hookjail_contract::hook_file::contracts;
use hookjail_journal::append::Settings;
use hookjail_sandbox::{BackendName, DEFAULT_UID_RANGE, RunAs, RuntimeKind};

use crate::hooks::valve::OnLimit;

/// The configuration as the file spells it. Every key may be left out; unknown keys are errors.
#[derive(Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "Configuration of hookjail")]
pub(super) struct ConfigFile {
    /// Settings of the journal.
    pub(super) audit: AuditEntry,
    /// Backends, in the operator's order.
    pub(super) backends: BackendsEntry,
    /// Consents to commands.
    pub(super) consent: ConsentEntry,
    /// Settings of the backend `container`.
    pub(super) container: ContainerEntry,
    /// Settings of one command; a hook of a lifecycle point where it has `contract` and `point`.
    pub(super) hook: Vec<HookEntry>,
    /// Settings of all hooks.
    pub(super) hooks: HooksEntry,
    /// Egress allowlist of hooks that are posted to a URL.
    pub(super) http: HttpEntry,
    /// Allowlists of infer's hooks.
    #[serde(rename = "infer")]
    pub(super) lists: ListsEntry,
    /// Hook files of runtimes.
    pub(super) hooks_file: Vec<HooksFileEntry>,
    /// Metrics for Prometheus.
    pub(super) metrics: MetricsEntry,
    /// Listener for clients of other hosts.
    pub(super) network: NetworkEntry,
    /// Notices of hooks to the person at the machine.
    pub(super) notify: NotifyEntry,
    /// Directories of the daemon.
    pub(super) paths: PathsEntry,
    /// Profiles, and where they are read from.
    pub(super) profiles: ProfilesEntry,
    /// Calls without a daemon.
    pub(super) run: RunEntry,
    /// Secrets that are redacted from texts.
    pub(super) secret: Vec<SecretEntry>,
    /// Sockets, callers and limits of the daemon.
    pub(super) server: ServerEntry,
    /// Traces for an OpenTelemetry collector.
    pub(super) traces: TracesEntry,
}

/// Settings of the backend `container`.
#[derive(Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ContainerEntry {
    /// The command line that the runtime understands, where its name does not tell.
    pub(super) kind: Option<RuntimeKind>,
    /// The root file system of containers: the absolute path of an unpacked image. Default: the host's.
    pub(super) root: Option<PathBuf>,
    /// The digest of the root, as `hookjail root-digest` prints it.
    pub(super) root_digest: Option<String>,
    /// An OCI runtime's program: an absolute path.
    pub(super) runtime: Option<PathBuf>,
}

/// Settings of the journal.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct AuditEntry {
    /// Texts whose beginning is recorded, after redaction of registered secrets. Default: none.
    pub(super) capture: Vec<CaptureChoice>,
    /// The most bytes recorded of each text: 256 B to 256 KiB.
    pub(super) capture_max: Size,
    /// When records are synced to the disk: `always`, `never`, or at the latest after a duration of 10ms to 1h.
    pub(super) fsync: String,
    /// The number of older files that are kept; 0 = all.
    pub(super) keep_files: usize,
    /// The size at which a file is rotated: 64 KiB to 1 TiB.
    pub(super) rotate_bytes: Size,
    /// Users who may read the records of all requests, beside the daemon's own user.
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
    /// The hook's stdin.
    Event,
    /// The hook's stderr.
    Stderr,
    /// The hook's stdout.
    Stdout,
}

/// A secret that is redacted from texts: the source of its value, or its pattern. One of `credential`, `env`, `file` and
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
    /// The name in its replacement `[redacted:NAME]`: 1 to 32 of `A-Z a-z 0-9 - _`.
    #[schemars(regex(pattern = "^[A-Za-z0-9_-]{1,32}$"))]
    pub(super) name: String,
    /// A regular expression without look-around and back references, for what has no fixed value.
    pub(super) pattern: Option<String>,
}

/// Backends, in the operator's order.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct BackendsEntry {
    /// Backends in order of preference.
    #[schemars(length(min = 1))]
    pub(super) order: Vec<BackendName>,
    /// The same for a profile, by its name, and for the profiles that extend it.
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

/// Consents to commands.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ConsentEntry {
    /// Whether `HOOKJAIL_ACCEPT_HOOKS=1`, and runtimes' own variables like it, may accept commands that nobody allowed.
    pub(super) accept_hooks: bool,
    /// Users who may answer questions, beside the daemon's own user.
    pub(super) operators: Vec<UserEntry>,
    /// Whether operators may answer, allow and revoke at run time, by `ConsentService`.
    pub(super) runtime: bool,
    /// The time for which a question stays open: up to 1 h.
    pub(super) wait: Span,
}

impl Default for ConsentEntry {
    fn default() -> Self {
        Self {
            accept_hooks: true,
            operators: Vec::new(),
            runtime: true,
            wait: Span(Duration::from_secs(60)),
        }
    }
}

/// Settings of one command; a hook of a lifecycle point where it has `contract` and `point`.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HookEntry {
    /// Whether its output decides (`policy`) or only advises (`advisory`).
    #[schemars(extend("enum" = ["advisory", "policy", null]))]
    pub(super) kind: Option<String>,
    /// Whether it runs after an earlier hook has blocked.
    #[schemars(extend("enum" = ["run", "skip", null]))]
    pub(super) after_block: Option<String>,
    /// The arguments of a `builtin`.
    #[serde(default)]
    pub(super) args: Vec<String>,
    /// One of docker-agent's built-in hooks, in the place of `command`.
    pub(super) builtin: Option<String>,
    /// Program and arguments; for a hook also one string, as its contract reads it.
    pub(super) command: Option<CommandWords>,
    /// The contract whose rules hold.
    pub(super) contract: Option<String>,
    /// Whether the hook runs at its point. Default: true.
    pub(super) enabled: Option<bool>,
    /// Environment variables beyond those that the profile allows.
    #[serde(default)]
    pub(super) env: BTreeMap<String, String>,
    /// The matcher of its events. Default: all of the point.
    #[serde(default)]
    pub(super) matcher: String,
    /// The contract's mode, where it has several.
    #[serde(default)]
    pub(super) mode: String,
    /// The name in replies, logs and the journal.
    #[serde(default)]
    pub(super) name: String,
    /// The effect of a failure, where it differs from the contract's.
    #[schemars(extend("enum" = ["contract", "closed", "open", null]))]
    pub(super) on_failure: Option<String>,
    /// The lifecycle point, in the contract's spelling.
    pub(super) point: Option<String>,
    /// Base Coat's order; lower is earlier, default 50.
    pub(super) priority: Option<f64>,
    /// The profile of its runs in a dispatch. Default: the contract's.
    pub(super) profile: Option<String>,
    /// Profiles that only the operator can grant.
    #[serde(default)]
    pub(super) profiles: Vec<String>,
    /// reyn's scheme without a command, in the place of `command`: `message`, `wake`, `push_when`, `session`.
    pub(super) template_push: Option<serde_json::Map<String, serde_json::Value>>,
    /// The wall-time limit where a request names none.
    #[serde(default)]
    pub(super) timeout: Option<Span>,
    /// The working directory: absolute, inside a grant.
    pub(super) working_dir: Option<PathBuf>,
}

/// A hook file in its runtime's own format.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HooksFileEntry {
    /// The agent that the hooks belong to.
    pub(super) agent: Option<String>,
    /// The base of relative working directories in it.
    pub(super) base: Option<PathBuf>,
    /// The contract whose format it has.
    #[schemars(extend("enum" = contracts()))]
    pub(super) contract: String,
    /// The command that judges in place of docker-agent's models, program first.
    pub(super) judge: Option<Vec<String>>,
    /// Its absolute path.
    pub(super) path: PathBuf,
    /// The plugin that the hooks belong to.
    pub(super) plugin: Option<String>,
    /// The profile of its hooks. Default: the contract's.
    pub(super) profile: Option<String>,
    /// Settings of some of its hooks.
    #[serde(default)]
    pub(super) rule: Vec<RuleEntry>,
    /// The skill that the hooks belong to.
    pub(super) skill: Option<String>,
    /// The user who owns the file; its hooks run in that user's dispatches only. Default: the operator, for all.
    pub(super) user: Option<UserEntry>,
}

/// Settings of some hooks of a file: at least one of `command`, `name` and `point`, and one of the others.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RuleEntry {
    /// Selects hooks with this command: the line as in the file, a list's words as one line.
    pub(super) command: Option<String>,
    /// Whether their output decides (`policy`) or only advises (`advisory`).
    #[schemars(extend("enum" = ["advisory", "policy", null]))]
    pub(super) kind: Option<String>,
    /// Selects hooks with this name, as `hookjail hooks list` shows it.
    pub(super) name: Option<String>,
    /// The effect of a failure, instead of the file's.
    #[schemars(extend("enum" = ["contract", "closed", "open", null]))]
    pub(super) on_failure: Option<String>,
    /// Selects hooks at this point, in the contract's spelling.
    pub(super) point: Option<String>,
    /// The profile of their runs, instead of the file's.
    pub(super) profile: Option<String>,
    /// The wall-time limit, instead of the file's.
    pub(super) timeout: Option<Span>,
}

/// Egress allowlist of hooks that are posted to a URL.
#[derive(Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct HttpEntry {
    /// The allowed URLs, each with everything below it.
    pub(super) allow: Vec<String>,
    /// The variables allowed in headers, each with the name of its `[[secret]]`.
    pub(super) variables: BTreeMap<String, String>,
}

/// The keys of [`ListsEntry`] that can be wrong.
pub(super) const LISTED: &str = "infer.listed";
pub(super) const LISTS_FILE: &str = "infer.file";

/// Allowlists of infer's hooks: regular expressions, by the agent's mode.
#[derive(Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ListsEntry {
    /// In every mode.
    pub(super) all: Option<Vec<String>>,
    /// In `auto`.
    pub(super) auto: Option<Vec<String>>,
    /// infer's own configuration file, for lists that are missing here: `tools.bash.mode.MODE.allow`.
    pub(super) file: Option<PathBuf>,
    /// The meaning of an entry: only a gate, or also consent where it names a program.
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

/// Settings of all hooks.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct HooksEntry {
    /// The cgroup (version 2) below which each run gets its own: `auto` for the one that the service manager delegates to the daemon,
    /// if any, `none`, or an absolute path.
    pub(super) cgroup: String,
    /// Disables all hooks in dispatches.
    pub(super) disabled: bool,
    /// The largest event: 1 KiB to 256 MiB.
    pub(super) event_max: Size,
    /// The most hooks that run at once.
    #[schemars(range(min = 1, max = 16384))]
    pub(super) max_concurrent: usize,
    /// The most turns in a row that hooks may open under reyn; 0 = no limit.
    pub(super) max_hook_driven_turns: u32,
    /// The most requests in the queue.
    pub(super) max_queued: usize,
    /// The instruction to runtimes at `max_hook_driven_turns`.
    #[schemars(extend("enum" = ["warn", "ask_user", "abort"]))]
    pub(super) on_hook_turn_limit: String,
    /// The user of a root daemon's hooks: `caller`, or `pool` for a uid of its own for each.
    #[schemars(extend("enum" = ["caller", "pool"]))]
    pub(super) run_as: String,
    /// The same for a profile, by its name, and for the profiles that extend it.
    #[schemars(extend("additionalProperties" = { "enum": ["caller", "pool"] }))]
    pub(super) run_as_profiles: BTreeMap<String, String>,
    /// The number of threads that start hooks, for each caller and set of filters.
    #[schemars(range(min = 1, max = 64))]
    pub(super) spawners: usize,
    /// The first and the last uid of the pool for a root daemon's hooks.
    pub(super) uid_range: [u32; 2],
    /// Directories at or below which a request may bind a workspace.
    pub(super) workspace_roots: Option<Vec<PathBuf>>,
}

impl Default for HooksEntry {
    fn default() -> Self {
        Self {
            cgroup: "auto".to_owned(),
            disabled: false,
            event_max: Size(16 * 1024 * 1024),
            max_concurrent: 256,
            max_hook_driven_turns: 25,
            max_queued: 1024,
            on_hook_turn_limit: OnLimit::default().as_str().to_owned(),
            run_as: RunAs::default().as_str().to_owned(),
            run_as_profiles: BTreeMap::new(),
            spawners: 4,
            uid_range: [*DEFAULT_UID_RANGE.start(), *DEFAULT_UID_RANGE.end()],
            workspace_roots: None,
        }
    }
}

/// Metrics for Prometheus.
#[derive(Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct MetricsEntry {
    /// The listen address: a loopback address with a port, such as `127.0.0.1:9464` or `[::1]:9464`. Default:
    /// none.
    pub(super) listen: Option<String>,
}

/// Traces for an OpenTelemetry collector.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct TracesEntry {
    /// The collector, which takes OTLP over gRPC: `http://` and a loopback address with a port, such as `http://127.0.0.1:4317`.
    /// Default: none.
    pub(super) endpoint: Option<String>,
    /// The share of traces that is recorded, of those that begin in the daemon. Callers decide about theirs.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub(super) sample_ratio: f64,
    /// The `service.name` of the spans.
    pub(super) service_name: String,
}

impl Default for TracesEntry {
    fn default() -> Self {
        Self {
            endpoint: None,
            sample_ratio: 1.0,
            service_name: "hookjail".to_owned(),
        }
    }
}

/// Listener for clients of other hosts: TLS with certificates on both sides.
#[derive(Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct NetworkEntry {
    /// PEM file with the daemon's certificate and its intermediate ones.
    pub(super) certificate: Option<PathBuf>,
    /// PEM file with the certificate authorities of clients.
    pub(super) client_ca: Option<PathBuf>,
    /// Names in certificates, each with the user of this host that its holder is.
    pub(super) clients: Vec<NetworkClientEntry>,
    /// PEM file with lists of revoked client certificates.
    pub(super) crl: Option<PathBuf>,
    /// PEM file with the private key of `certificate`, readable to its owner and group alone.
    pub(super) key: Option<PathBuf>,
    /// Address and port, such as `0.0.0.0:7443`. Default: none.
    pub(super) listen: Option<String>,
    /// Serve without TLS, on a loopback address: every local process can connect, hooks with network access too.
    pub(super) plaintext: bool,
    /// The user that every client is without TLS.
    pub(super) plaintext_user: Option<UserEntry>,
}

/// Notices of hooks to the person at the machine.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct NotifyEntry {
    /// The program that shows a notice: its absolute path and its arguments, to which title and text are added. Default:
    /// `notify-send`, where a user's daemon finds it and a bus of the session.
    pub(super) command: Option<Vec<String>>,
    /// Whether notices are shown.
    pub(super) enabled: bool,
}

impl Default for NotifyEntry {
    fn default() -> Self {
        Self {
            command: None,
            enabled: true,
        }
    }
}

/// A client over the network.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NetworkClientEntry {
    /// DNS name or URI among the subject alternative names of a certificate.
    pub(super) name: String,
    /// User of this host, by uid or name. Not root.
    pub(super) user: UserEntry,
}

/// Directories of the daemon.
#[derive(Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct PathsEntry {
    /// The directory of scratch directories.
    pub(super) runtime: Option<PathBuf>,
    /// The directory of the allowlist and the journal.
    pub(super) state: Option<PathBuf>,
}

/// Where profiles are.
#[derive(Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ProfilesEntry {
    /// The names of the profiles that are served. Default: all.
    pub(super) allow: Option<Vec<String>>,
    /// Directories of profiles, read in order.
    pub(super) dirs: Vec<PathBuf>,
}

/// Calls without a daemon.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RunEntry {
    /// Whether `hookjail run`, `dispatch` and `learn` may run hooks without a daemon.
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
    /// A uid.
    Uid(u32),
    /// A user name, or `@` and a group name.
    Name(String),
}

/// Sockets, callers and limits of the daemon.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ServerEntry {
    /// The socket of the admin service. Default: beside `socket`.
    pub(super) admin_socket: Option<PathBuf>,
    /// Users who may call, beside the daemon's own user. Default: the members of the group `hookjail`, where the daemon runs as root and
    /// the group exists.
    pub(super) callers: Option<Vec<UserEntry>>,
    /// The time that running hooks have at shutdown.
    pub(super) drain: Span,
    /// The most bytes that all requests in work hold: their messages, and the kept output of their hooks. Default: 512 MiB,
    /// or four times `hooks.event_max`, if that is more.
    pub(super) max_bytes_in_flight: Option<Size>,
    /// The most connections of all callers together.
    #[schemars(range(min = 1, max = 65536))]
    pub(super) max_connections: usize,
    /// The socket of callers.
    pub(super) socket: Option<PathBuf>,
    /// The mode of the callers' socket.
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
