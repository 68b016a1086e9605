//! The configuration as its file spells it: names, defaults and the schema. Values are checked where they are read.

use std::{
    collections::BTreeMap, net::SocketAddr, ops::RangeInclusive, path::PathBuf, time::Duration,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use hookjail_base::{
    model::ProfileName,
    util::units::{Size, Span},
};
use hookjail_contract::{WrittenLists, hook_file::contracts};
use hookjail_journal::append::{Fsync, Settings};
use hookjail_policy::egress::Egress;
use hookjail_sandbox::{
    BackendName, CgroupPlace, DEFAULT_UID_RANGE, HookUsers, RunAs, RuntimeKind,
};

use super::{audit, backends, notify, traces, value};
use crate::{
    hooks::{lists::Listing, valve::OnLimit},
    pipeline::RateLimits,
};

/// The configuration as the file spells it. Every key may be left out; unknown keys are errors.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "Configuration of hookjail")]
pub struct ConfigFile {
    /// Settings of the journal.
    pub(crate) audit: AuditEntry,
    /// Backends, in the operator's order.
    pub backends: BackendsEntry,
    /// Consents to commands.
    pub consent: ConsentEntry,
    /// Settings of the backend `container`.
    pub(crate) container: ContainerEntry,
    /// Settings of one command; a hook of a lifecycle point where it has `contract` and `point`.
    pub(crate) hook: Vec<HookEntry>,
    /// Settings of all hooks.
    pub hooks: HooksEntry,
    /// The hosts of all profiles.
    pub egress: EgressEntry,
    /// Egress allowlist of hooks that are posted to a URL.
    pub(crate) http: HttpEntry,
    /// Allowlists of infer's hooks.
    #[serde(rename = "infer")]
    pub(crate) lists: ListsEntry,
    /// Hook files of runtimes.
    pub(crate) hooks_file: Vec<HooksFileEntry>,
    /// Metrics for Prometheus.
    pub(crate) metrics: MetricsEntry,
    /// Listener for clients of other hosts.
    pub(crate) network: NetworkEntry,
    /// Notices of hooks to the person at the machine.
    pub(crate) notify: NotifyEntry,
    /// Directories of the daemon.
    pub paths: PathsEntry,
    /// Profiles, and where they are read from.
    pub profiles: ProfilesEntry,
    /// Calls without a daemon.
    pub run: RunEntry,
    /// Secrets that are redacted from texts.
    pub(crate) secret: Vec<SecretEntry>,
    /// Sockets, callers and limits of the daemon.
    pub server: ServerEntry,
    /// Traces for an OpenTelemetry collector.
    pub(crate) traces: TracesEntry,
}

/// Settings of the backend `container`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ContainerEntry {
    /// The command line that the runtime understands, where its name does not identify the runtime.
    pub(crate) kind: Option<RuntimeKind>,
    /// The root file system of containers: the absolute path of an unpacked image. Default: the host's.
    pub(crate) root: Option<PathBuf>,
    /// The digest of the root, as `hookjail root-digest` prints it.
    pub(crate) root_digest: Option<String>,
    /// An OCI runtime's program: an absolute path.
    pub(crate) runtime: Option<PathBuf>,
}

/// Settings of the journal.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct AuditEntry {
    /// Texts whose beginning is recorded, after redaction of registered secrets. Default: none.
    pub(crate) capture: Vec<CaptureChoice>,
    /// The most bytes recorded of each text: 256 B to 256 KiB.
    #[serde(deserialize_with = "value::size::<_, 256, { 256 << 10 }>")]
    pub(crate) capture_max: Size,
    /// When records are synced to the disk: `always`, `never`, or at the latest after a duration of 10ms to 1h.
    #[serde(
        deserialize_with = "audit::fsync",
        serialize_with = "audit::fsync_word"
    )]
    #[schemars(with = "String")]
    pub(crate) fsync: Fsync,
    /// The age in days of its newest record below which no older file is removed; 0 = files of any age are.
    pub(crate) keep_days: u32,
    /// The number of older files that are kept; 0 = all.
    pub(crate) keep_files: usize,
    /// The size at which a file is rotated: 64 KiB to 1 TiB.
    #[serde(deserialize_with = "audit::rotate_bytes")]
    pub(crate) rotate_bytes: Size,
    /// Users who may read the records of all requests, beside the daemon's own user.
    pub(crate) readers: Vec<UserEntry>,
}

impl Default for AuditEntry {
    fn default() -> Self {
        let Settings {
            fsync,
            keep_files,
            keep_younger: _,
            rotate_bytes,
        } = Settings::default();
        Self {
            capture: Vec::new(),
            capture_max: Size(4 * 1024),
            fsync,
            keep_days: 0,
            keep_files,
            readers: Vec::new(),
            rotate_bytes: Size(rotate_bytes),
        }
    }
}

/// A text of a run.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CaptureChoice {
    /// The hook's stdin.
    Event,
    /// The hook's stderr.
    Stderr,
    /// The hook's stdout.
    Stdout,
}

/// A secret that is redacted from texts: the source of its value, or its pattern. One of `credential`, `env`, `file` and
/// `pattern` must be given.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SecretEntry {
    /// A file in `$CREDENTIALS_DIRECTORY`.
    pub(crate) credential: Option<String>,
    /// A variable of the daemon's environment.
    pub(crate) env: Option<String>,
    /// A file, by its absolute path.
    pub(crate) file: Option<PathBuf>,
    /// The name in its replacement `[redacted:NAME]`: 1 to 32 of `A-Z a-z 0-9 - _`.
    #[schemars(regex(pattern = "^[A-Za-z0-9_-]{1,32}$"))]
    pub(crate) name: String,
    /// A regular expression without look-around and back references, for what has no fixed value.
    pub(crate) pattern: Option<String>,
}

/// Backends, in the operator's order.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct BackendsEntry {
    /// Backends in order of preference.
    #[schemars(length(min = 1))]
    #[serde(deserialize_with = "backends::order")]
    pub(crate) order: Vec<BackendName>,
    /// The same for a profile, by its name, and for the profiles that extend it.
    #[serde(deserialize_with = "backends::profiles")]
    #[schemars(with = "BTreeMap<String, Vec<BackendName>>")]
    pub(crate) profiles: BTreeMap<ProfileName, Vec<BackendName>>,
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
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct ConsentEntry {
    /// Whether `HOOKJAIL_ACCEPT_HOOKS=1`, and runtimes' own variables like it, may accept commands without a consent.
    pub(crate) accept_hooks: bool,
    /// Users who may answer questions, beside the daemon's own user.
    pub(crate) operators: Vec<UserEntry>,
    /// Whether operators may answer, allow and revoke at run time, by `ConsentService`.
    pub(crate) runtime: bool,
    /// The time for which a question stays open: up to 1 h.
    #[serde(deserialize_with = "value::consent_wait")]
    pub wait: Span,
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
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HookEntry {
    /// Whether its output decides (`policy`) or only advises (`advisory`).
    #[schemars(extend("enum" = ["advisory", "policy", null]))]
    pub(crate) kind: Option<String>,
    /// Whether it runs after an earlier hook has blocked.
    #[schemars(extend("enum" = ["run", "skip", null]))]
    pub(crate) after_block: Option<String>,
    /// The arguments of a `builtin`.
    #[serde(default)]
    pub(crate) args: Vec<String>,
    /// One of docker-agent's built-in hooks, in the place of `command`.
    pub(crate) builtin: Option<String>,
    /// Program and arguments; for a hook also one string, as its contract reads it.
    pub(crate) command: Option<CommandWords>,
    /// The contract whose rules hold.
    pub(crate) contract: Option<String>,
    /// Whether the hook runs at its point. Default: true.
    pub(crate) enabled: Option<bool>,
    /// Environment variables beyond those that the profile allows.
    #[serde(default)]
    pub(crate) env: BTreeMap<String, String>,
    /// The matcher of its events. Default: all of the point.
    #[serde(default)]
    pub(crate) matcher: String,
    /// The contract's mode, where it has several.
    #[serde(default)]
    pub(crate) mode: String,
    /// The name in replies, logs and the journal.
    #[serde(default)]
    pub(crate) name: String,
    /// The effect of a failure, where it differs from the contract's.
    #[schemars(extend("enum" = ["contract", "closed", "open", null]))]
    pub(crate) on_failure: Option<String>,
    /// The lifecycle point, in the contract's spelling.
    pub(crate) point: Option<String>,
    /// Base Coat's order; lower is earlier, default 50.
    pub(crate) priority: Option<f64>,
    /// The profile of its runs in a dispatch. Default: the contract's.
    pub(crate) profile: Option<String>,
    /// Profiles that only the operator can grant.
    #[serde(default)]
    pub(crate) profiles: Vec<String>,
    /// reyn's scheme without a command, in the place of `command`: `message`, `wake`, `push_when`, `session`.
    pub(crate) template_push: Option<serde_json::Map<String, serde_json::Value>>,
    /// The wall-time limit where a request names none.
    #[serde(default)]
    pub(crate) timeout: Option<Span>,
    /// The working directory: absolute, inside a grant.
    pub(crate) working_dir: Option<PathBuf>,
}

/// A hook file in its runtime's own format.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HooksFileEntry {
    /// The agent that the hooks belong to.
    pub(crate) agent: Option<String>,
    /// The base of relative working directories in it.
    pub(crate) base: Option<PathBuf>,
    /// The contract whose format it has.
    #[schemars(extend("enum" = contracts()))]
    pub(crate) contract: String,
    /// The command that judges in place of docker-agent's models, program first.
    pub(crate) judge: Option<Vec<String>>,
    /// Its absolute path.
    pub(crate) path: PathBuf,
    /// The plugin that the hooks belong to.
    pub(crate) plugin: Option<String>,
    /// The profile of its hooks. Default: the contract's.
    pub(crate) profile: Option<String>,
    /// Settings of some of its hooks.
    #[serde(default)]
    pub(crate) rule: Vec<RuleEntry>,
    /// The skill that the hooks belong to.
    pub(crate) skill: Option<String>,
    /// The user who owns the file; its hooks run in that user's dispatches only. Default: the operator, for all.
    pub(crate) user: Option<UserEntry>,
}

/// Settings of some hooks of a file: at least one of `command`, `name` and `point`, and one of the others.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RuleEntry {
    /// Selects hooks with this command: the line as in the file, a list's words as one line.
    pub(crate) command: Option<String>,
    /// Whether their output decides (`policy`) or only advises (`advisory`).
    #[schemars(extend("enum" = ["advisory", "policy", null]))]
    pub(crate) kind: Option<String>,
    /// Selects hooks with this name, as `hookjail hooks list` shows it.
    pub(crate) name: Option<String>,
    /// The effect of a failure, instead of the file's.
    #[schemars(extend("enum" = ["contract", "closed", "open", null]))]
    pub(crate) on_failure: Option<String>,
    /// Selects hooks at this point, in the contract's spelling.
    pub(crate) point: Option<String>,
    /// The profile of their runs, instead of the file's.
    pub(crate) profile: Option<String>,
    /// The wall-time limit, instead of the file's.
    pub(crate) timeout: Option<Span>,
}

/// Egress allowlist of hooks that are posted to a URL.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct HttpEntry {
    /// The allowed URLs, each with everything below it.
    pub(crate) allow: Vec<String>,
    /// The variables allowed in headers, each with the name of its `[[secret]]`.
    pub(crate) variables: BTreeMap<String, String>,
}

/// Allowlists of infer's hooks: regular expressions, by the agent's mode.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ListsEntry {
    /// In every mode.
    pub(crate) all: Option<Vec<String>>,
    /// In `auto`.
    pub(crate) auto: Option<Vec<String>>,
    /// infer's own configuration file, for lists that are missing here: `tools.bash.mode.MODE.allow`.
    #[serde(deserialize_with = "value::some_path")]
    pub(crate) file: Option<PathBuf>,
    /// The meaning of an entry: only a gate, or also consent where it names a program.
    #[schemars(extend("enum" = ["consent", "gate", null]))]
    #[serde(deserialize_with = "value::listed")]
    pub(crate) listed: Option<String>,
    /// In `plan`.
    pub(crate) plan: Option<Vec<String>>,
    /// In `standard`.
    pub(crate) standard: Option<Vec<String>>,
}

impl ListsEntry {
    /// Returns the lists, with further entries for every mode.
    pub(crate) fn listing(&self, append: String) -> Listing {
        Listing {
            append,
            are_consent: self.listed.as_deref() == Some("consent"),
            file: self.file.clone(),
            written: WrittenLists {
                all: self.all.clone(),
                auto: self.auto.clone(),
                plan: self.plan.clone(),
                standard: self.standard.clone(),
            },
        }
    }
}

/// Program and arguments, or a command line for a shell.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(
    untagged,
    expecting = "program and arguments as a list, or a command line as a string"
)]
pub(crate) enum CommandWords {
    Argv(Vec<String>),
    Line(String),
}

/// Settings of all hooks.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct HooksEntry {
    /// The most calls of one uid a minute.
    #[schemars(range(min = 1))]
    #[serde(deserialize_with = "value::calls_per_minute")]
    pub(crate) calls_per_minute: Option<u64>,
    /// The cgroup (version 2) below which each run gets its own: `auto` for the one that the service manager delegates to the daemon,
    /// if any, `none`, or an absolute path.
    #[serde(deserialize_with = "value::cgroup")]
    #[schemars(with = "String")]
    pub(crate) cgroup: CgroupPlace,
    /// The processor time that the hooks of one uid have a minute: their first processes and the children that these
    /// waited for.
    #[serde(deserialize_with = "value::cpu_per_minute")]
    pub(crate) cpu_per_minute: Option<Span>,
    /// Disables all hooks in dispatches.
    pub disabled: bool,
    /// The largest event: 1 KiB to 256 MiB.
    #[serde(deserialize_with = "value::size::<_, 1024, { 256 << 20 }>")]
    pub(crate) event_max: Size,
    /// The most bytes that the starts and ends of one uid's runs add to the journal a minute: 1 KiB at least.
    #[serde(deserialize_with = "value::journal_per_minute")]
    pub(crate) journal_per_minute: Option<Size>,
    /// The most hooks that run at once.
    #[schemars(range(min = 1, max = 16384))]
    #[serde(deserialize_with = "value::number::<_, 1, 16384>")]
    pub(crate) max_concurrent: usize,
    /// The most turns in a row that hooks may open under reyn; 0 = no limit.
    pub max_hook_driven_turns: u32,
    /// The most requests in the queue.
    pub(crate) max_queued: usize,
    /// The instruction to runtimes at `max_hook_driven_turns`.
    #[serde(deserialize_with = "value::on_hook_turn_limit")]
    #[schemars(with = "String", extend("enum" = ["warn", "ask_user", "abort"]))]
    pub on_hook_turn_limit: OnLimit,
    /// The user of a root daemon's hooks: `caller`, or `pool` for a uid of its own for each.
    #[serde(deserialize_with = "value::run_as")]
    #[schemars(with = "String", extend("enum" = ["caller", "pool"]))]
    pub(crate) run_as: RunAs,
    /// The same for a profile, by its name, and for the profiles that extend it.
    #[serde(deserialize_with = "value::run_as_profiles")]
    #[schemars(with = "BTreeMap<String, String>", extend("additionalProperties" = { "enum": ["caller", "pool"] }))]
    pub(crate) run_as_profiles: BTreeMap<ProfileName, RunAs>,
    /// The number of threads that start hooks, for each caller and set of filters.
    #[schemars(range(min = 1, max = 64))]
    #[serde(deserialize_with = "value::number::<_, 1, 64>")]
    pub spawners: usize,
    /// The first and the last uid of the pool for a root daemon's hooks.
    #[serde(deserialize_with = "value::uid_range")]
    pub(crate) uid_range: [u32; 2],
    /// Directories at or below which a request may bind a workspace.
    #[serde(deserialize_with = "value::some_paths")]
    pub(crate) workspace_roots: Option<Vec<PathBuf>>,
}

impl Default for HooksEntry {
    fn default() -> Self {
        Self {
            calls_per_minute: None,
            cgroup: CgroupPlace::Auto,
            cpu_per_minute: None,
            disabled: false,
            event_max: Size(16 * 1024 * 1024),
            journal_per_minute: None,
            max_concurrent: 256,
            max_hook_driven_turns: 25,
            max_queued: 1024,
            on_hook_turn_limit: OnLimit::default(),
            run_as: RunAs::default(),
            run_as_profiles: BTreeMap::new(),
            spawners: 4,
            uid_range: [*DEFAULT_UID_RANGE.start(), *DEFAULT_UID_RANGE.end()],
            workspace_roots: None,
        }
    }
}

impl HooksEntry {
    /// Returns the size of the largest event, bytes.
    pub fn event_bytes(&self) -> usize {
        self.event_max.to_usize()
    }

    /// Returns the rates of each caller.
    pub(crate) fn rates(&self) -> RateLimits {
        RateLimits {
            calls: self.calls_per_minute,
            cpu: self.cpu_per_minute.map(|Span(time)| time),
            journal: self.journal_per_minute.map(|Size(bytes)| bytes),
        }
    }

    /// Returns as whom a root daemon's hooks run.
    pub(crate) fn users(&self) -> HookUsers {
        HookUsers {
            default: self.run_as,
            profiles: self.run_as_profiles.clone(),
        }
    }

    /// Returns the uids of a root daemon's hooks.
    pub(crate) const fn uids(&self) -> RangeInclusive<u32> {
        let [first, last] = self.uid_range;
        first..=last
    }
}

/// Metrics for Prometheus.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct MetricsEntry {
    /// The listen address: a loopback address with a port, such as `127.0.0.1:9464` or `[::1]:9464`. Default:
    /// none.
    #[serde(deserialize_with = "value::loopback")]
    #[schemars(with = "Option<String>")]
    pub(crate) listen: Option<SocketAddr>,
}

/// Traces for an OpenTelemetry collector.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct TracesEntry {
    /// The collector, which takes OTLP over gRPC: `http://` and a loopback address with a port, such as `http://127.0.0.1:4317`.
    /// Default: none.
    #[serde(deserialize_with = "traces::endpoint", serialize_with = "traces::url")]
    #[schemars(with = "Option<String>")]
    pub(crate) endpoint: Option<SocketAddr>,
    /// The share of traces that is recorded, of those that begin in the daemon. Callers decide about theirs.
    #[schemars(range(min = 0.0, max = 1.0))]
    #[serde(deserialize_with = "traces::sample_ratio")]
    pub(crate) sample_ratio: f64,
    /// The `service.name` of the spans.
    #[serde(deserialize_with = "traces::service_name")]
    pub(crate) service_name: String,
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
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct NetworkEntry {
    /// PEM file with the daemon's certificate and its intermediate ones.
    #[serde(deserialize_with = "value::some_plain_path")]
    pub(crate) certificate: Option<PathBuf>,
    /// PEM file with the certificate authorities of clients.
    #[serde(deserialize_with = "value::some_plain_path")]
    pub(crate) client_ca: Option<PathBuf>,
    /// Names in certificates, each with the user of this host that its holder is.
    pub(crate) clients: Vec<NetworkClientEntry>,
    /// PEM file with lists of revoked client certificates.
    #[serde(deserialize_with = "value::some_plain_path")]
    pub(crate) crl: Option<PathBuf>,
    /// PEM file with the private key of `certificate`, readable to its owner and group alone.
    #[serde(deserialize_with = "value::some_plain_path")]
    pub(crate) key: Option<PathBuf>,
    /// Address and port, such as `0.0.0.0:7443`. Default: none.
    pub(crate) listen: Option<String>,
    /// Serve without TLS, on a loopback address: every local process can connect, hooks with network access too.
    pub(crate) plaintext: bool,
    /// The user that every client is without TLS.
    pub(crate) plaintext_user: Option<UserEntry>,
}

/// Notices of hooks to the person at the machine.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct NotifyEntry {
    /// The program that shows a notice: its absolute path and its arguments, to which title and text are added. Default:
    /// `notify-send`, where a user's daemon finds it and a bus of the session.
    #[serde(deserialize_with = "notify::command")]
    pub(crate) command: Option<Vec<String>>,
    /// Whether notices are shown.
    pub(crate) enabled: bool,
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
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NetworkClientEntry {
    /// DNS name or URI among the subject alternative names of a certificate.
    pub(crate) name: String,
    /// User of this host, by uid or name. Not root.
    pub(crate) user: UserEntry,
}

/// Directories of the daemon.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct PathsEntry {
    /// The directory of scratch directories.
    #[serde(deserialize_with = "value::path", serialize_with = "value::shown")]
    #[schemars(with = "Option<PathBuf>")]
    pub runtime: PathBuf,
    /// The directory of the allowlist and the journal.
    #[serde(deserialize_with = "value::path", serialize_with = "value::shown")]
    #[schemars(with = "Option<PathBuf>")]
    pub state: PathBuf,
}

/// Where profiles are.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProfilesEntry {
    /// The names of the profiles that are served. Default: all.
    #[serde(deserialize_with = "value::some_profiles")]
    #[schemars(with = "Option<Vec<String>>")]
    pub(crate) allow: Option<Vec<ProfileName>>,
    /// Directories of profiles, read in order. Default: `profiles` beside the default configuration, if it is there.
    #[serde(deserialize_with = "value::some_paths")]
    #[schemars(with = "Option<Vec<PathBuf>>")]
    pub(crate) dirs: Option<Vec<PathBuf>>,
}

impl ProfilesEntry {
    /// Returns the directories of profiles, in the order in which they are read.
    pub fn dirs(&self) -> &[PathBuf] {
        self.dirs.as_deref().unwrap_or_default()
    }
}

/// The hosts that hooks of any profile may reach, and the ways there.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct EgressEntry {
    /// Rules of `egress`, inside which each rule of a profile must lie. Default: any host.
    pub allow: Option<Vec<Egress>>,
    /// A file with authorities that the daemon trusts beside the machine's, as a proxy may need it. Default: none.
    pub ca: Option<PathBuf>,
    /// The hosts that are connected to without the proxy, beside this machine and addresses that are not public.
    pub direct: Vec<Egress>,
    /// The proxy that connects to hosts: `http://HOST:PORT` or `https://HOST:PORT`. Default: none.
    pub proxy: Option<String>,
    /// The `name` of the `[[secret]]` `USER:PASSWORD` that the proxy requires. Default: none.
    pub proxy_secret: Option<String>,
}

/// Calls without a daemon.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct RunEntry {
    /// Whether `hookjail run`, `dispatch` and `learn` may run hooks without a daemon.
    pub private: bool,
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
pub(crate) enum UserEntry {
    /// A uid.
    Uid(u32),
    /// A user name, or `@` and a group name.
    Name(String),
}

/// Sockets, callers and limits of the daemon.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServerEntry {
    /// The socket of the admin service. Default: beside `socket`.
    #[serde(
        deserialize_with = "value::some_path",
        serialize_with = "value::some_shown"
    )]
    pub admin_socket: Option<PathBuf>,
    /// Users who may call, beside the daemon's own user. Default: the members of the group `hookjail`, where the daemon runs as root and
    /// the group exists.
    pub(crate) callers: Option<Vec<UserEntry>>,
    /// The time that running hooks have at shutdown.
    pub drain: Span,
    /// The most bytes that all requests in work hold: their messages, and the kept output of their hooks. Default: 512 MiB,
    /// or four times `hooks.event_max`, if that is more.
    pub(crate) max_bytes_in_flight: Option<Size>,
    /// The most connections of all callers together.
    #[schemars(range(min = 1, max = 65536))]
    #[serde(deserialize_with = "value::number::<_, 1, 65536>")]
    pub(crate) max_connections: usize,
    /// The socket of callers.
    #[serde(
        deserialize_with = "value::some_path",
        serialize_with = "value::some_shown"
    )]
    pub(crate) socket: Option<PathBuf>,
    /// The mode of the callers' socket.
    #[serde(
        deserialize_with = "value::socket_mode",
        serialize_with = "value::octal"
    )]
    #[schemars(with = "String", extend("enum" = ["0600", "0660"]))]
    pub(crate) socket_mode: u32,
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
            socket_mode: 0o600,
        }
    }
}
