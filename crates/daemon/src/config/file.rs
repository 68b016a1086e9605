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
    /// Options of a command: `command`, `profile`, `profiles` and `timeout`. With `contract` and `point`, which need each
    /// other, a hook of a lifecycle point. Default: none.
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
    /// Hook config of a runtime, in its own format. Default: none.
    pub(crate) hooks_file: Vec<HooksFileEntry>,
    /// Metrics for Prometheus.
    pub(crate) metrics: MetricsEntry,
    /// Listener for clients of other machines: TLS with certificates on both sides.
    pub(crate) network: NetworkEntry,
    /// Notices of hooks to the person at the machine.
    pub(crate) notify: NotifyEntry,
    /// Directories of the daemon.
    pub paths: PathsEntry,
    /// Profiles, and where they are read from.
    pub profiles: ProfilesEntry,
    /// Calls without a daemon.
    pub run: RunEntry,
    /// Value to redact: at most 64, each with one of `credential`, `env`, `file` and `pattern`. Default: none.
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
    /// The runtime's command line, where the program's name does not identify it. Default: by the program's name.
    pub(crate) kind: Option<RuntimeKind>,
    /// Root file system that hooks see: the absolute path of an unpacked image. Root or the daemon's user owns all of it, and
    /// alone may write it. Default: the host's system.
    pub(crate) root: Option<PathBuf>,
    /// Digest of the root: `sha256:` and 64 hexadecimal digits, as `hookjail root-digest DIR` prints them. Required with
    /// `container.root`.
    pub(crate) root_digest: Option<String>,
    /// Program of the OCI runtime: an absolute path, not a link. Root or the daemon's user owns the file, and alone may write
    /// it. Required where a list of backends names `container`.
    pub(crate) runtime: Option<PathBuf>,
}

/// Settings of the journal.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct AuditEntry {
    /// Texts whose beginning the journal keeps, after redaction of registered secrets.
    pub(crate) capture: Vec<CaptureChoice>,
    /// Maximum kept bytes of each of these texts: 256 B to 256 KiB.
    #[serde(deserialize_with = "value::size::<_, 256, { 256 << 10 }>")]
    pub(crate) capture_max: Size,
    /// Time at which records are synced to disk: `"always"`, `"never"`, or at the latest after a duration of 10ms to 1h.
    #[serde(
        deserialize_with = "audit::fsync",
        serialize_with = "audit::fsync_word"
    )]
    #[schemars(with = "String")]
    pub(crate) fsync: Fsync,
    /// Days for which records are kept, also beyond `audit.keep_files`. No file is removed whose newest record is younger. 0:
    /// none.
    pub(crate) keep_days: u32,
    /// Older files of the journal that are kept. 0: all. By default the journal has 1 GiB at most, some 350,000 hooks.
    pub(crate) keep_files: usize,
    /// Maximum size of a file of the journal: 64 KiB to 1 TiB.
    #[serde(deserialize_with = "audit::rotate_bytes")]
    pub(crate) rotate_bytes: Size,
    /// Readers of all records besides the daemon's own user, listed as in `server.callers`. Callers read the records of their
    /// own requests.
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
    /// File in `$CREDENTIALS_DIRECTORY` with the value, where systemd puts a unit's `LoadCredential=`.
    pub(crate) credential: Option<String>,
    /// Variable of the daemon's environment with the value.
    pub(crate) env: Option<String>,
    /// Absolute path of a file with the value; one final line break is left out. The entry does not hide the file from hooks;
    /// profiles do.
    pub(crate) file: Option<PathBuf>,
    /// Name in the replacement `[redacted:NAME]`, each once: 1 to 32 of `A-Z a-z 0-9 - _`.
    #[schemars(regex(pattern = "^[A-Za-z0-9_-]{1,32}$"))]
    pub(crate) name: String,
    /// Regular expression of the values, without look-around and back references, matched against the text as written.
    pub(crate) pattern: Option<String>,
}

/// Backends, in the operator's order.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct BackendsEntry {
    /// Backends in order of preference, at least one and none twice. `container` and `landlock` are on Linux alone, `seatbelt`
    /// on macOS alone.
    #[schemars(length(min = 1))]
    #[serde(deserialize_with = "backends::order")]
    pub(crate) order: Vec<BackendName>,
    /// Lists like `backends.order` by profile, each for that profile and those that extend it.
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
    /// Whether variables of the environment, such as `HOOKJAIL_ACCEPT_HOOKS=1`, may accept commands without a consent. With
    /// `false`, one that is set is an error.
    pub(crate) accept_hooks: bool,
    /// Users who may answer for the operator besides the daemon's own user, listed as in `server.callers`.
    pub(crate) operators: Vec<UserEntry>,
    /// Whether `ConsentService` takes answers, and gives, lists and revokes consents. With `false` only `hookjail allow` gives
    /// them, as the daemon's user.
    pub(crate) runtime: bool,
    /// Time for which a question to the operator stays open, up to 1 h; then the run is denied.
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
    /// Whether the hook decides. An `advisory` one stops, asks, allows and rewrites nothing, even where it fails or is refused.
    /// Its decision becomes a warning, and its texts count. `advisory` with `on_failure = "closed"` is an error. Default:
    /// `"policy"`.
    #[schemars(extend("enum" = ["advisory", "policy", null]))]
    pub(crate) kind: Option<String>,
    /// Whether a sequential hook also runs after one that blocked. With `run` it does, and its verdict decides nothing.
    /// Default: `"skip"`.
    #[schemars(extend("enum" = ["run", "skip", null]))]
    pub(crate) after_block: Option<String>,
    /// Arguments of `builtin`.
    #[serde(default)]
    pub(crate) args: Vec<String>,
    /// Built-in hook of docker-agent instead of `command`. One that reads or writes more than the event is a command, by
    /// default under `strict`.
    pub(crate) builtin: Option<String>,
    /// List of program and arguments, spelled as requests spell it. Of a hook also a string, for the contract's shell or split
    /// into words.
    pub(crate) command: Option<CommandWords>,
    /// Contract of the hook, whose rules apply. Needs `point`.
    pub(crate) contract: Option<String>,
    /// Whether the hook runs. Default: `true`.
    pub(crate) enabled: Option<bool>,
    /// Variables beyond those that the hook's profile lists.
    #[serde(default)]
    pub(crate) env: BTreeMap<String, String>,
    /// Events of the point at which the hook runs, as the contract writes them. Default: all.
    #[serde(default)]
    pub(crate) matcher: String,
    /// Mode of the contract, where it has several.
    #[serde(default)]
    pub(crate) mode: String,
    /// Name in replies, logs and the journal. Default: `hook[N]`, N from 0.
    #[serde(default)]
    pub(crate) name: String,
    /// Effect of a failure, where it differs from the contract's. `open` is an error where a tool call or permission is
    /// decided. Default: `"contract"`.
    #[schemars(extend("enum" = ["contract", "closed", "open", null]))]
    pub(crate) on_failure: Option<String>,
    /// Lifecycle point, in the contract's spelling. Needs `contract`.
    pub(crate) point: Option<String>,
    /// Base Coat's order; lower is earlier. Default: `50`.
    pub(crate) priority: Option<f64>,
    /// Profile in a dispatch, granted by this entry. Default: the contract's.
    pub(crate) profile: Option<String>,
    /// Profiles with `granted_by = "operator"` that the command may run under, besides those of its consents.
    #[serde(default)]
    pub(crate) profiles: Vec<String>,
    /// reyn's scheme instead of `command`: a table of `message`, `wake`, `push_when`, `session`.
    pub(crate) template_push: Option<serde_json::Map<String, serde_json::Value>>,
    /// Wall time of a hook in a dispatch, and of the command where a request names none.
    #[serde(default)]
    pub(crate) timeout: Option<Span>,
    /// Working directory at the start: absolute, inside a grant.
    pub(crate) working_dir: Option<PathBuf>,
}

/// A hook file in its runtime's own format.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HooksFileEntry {
    /// Agent that owns the hooks, where the file names no owner. Excludes `plugin` and `skill`. Default: the operator.
    pub(crate) agent: Option<String>,
    /// Base of relative working directories in the file: an absolute path. If set, also of relative paths in its commands.
    /// Default: the file's directory.
    pub(crate) base: Option<PathBuf>,
    /// Contract whose format the file has.
    #[schemars(extend("enum" = contracts()))]
    pub(crate) contract: String,
    /// Command that replaces a judging model of contract `docker_agent`: a list of program and arguments.
    pub(crate) judge: Option<Vec<String>>,
    /// Absolute path of the file.
    pub(crate) path: PathBuf,
    /// Plugin that owns the hooks, where the file names no owner. Excludes `agent` and `skill`. Hooks of an infer plugin are
    /// named `PLUGIN:NAME`; hooks of Claude Code and Codex get the plugin's directory. Default: the operator.
    pub(crate) plugin: Option<String>,
    /// Profile of the file's hooks, unless the file names one. Grants a profile with `granted_by = "operator"`; each command
    /// still needs a consent. Default: the contract's.
    pub(crate) profile: Option<String>,
    /// Settings of some of the file's hooks. Default: none.
    #[serde(default)]
    pub(crate) rule: Vec<RuleEntry>,
    /// Skill that owns the hooks, where the file names no owner. Excludes `agent` and `plugin`. Default: the operator.
    pub(crate) skill: Option<String>,
    /// User whose own file it is, by uid or name. The hooks run in that user's dispatches alone. Default: the operator, for
    /// all.
    pub(crate) user: Option<UserEntry>,
}

/// Settings of some hooks of a file: at least one of `command`, `name` and `point`, and one of the others.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RuleEntry {
    /// Selects hooks with this command: the line as the file has it; a list's words as one line, quoted where they must be.
    pub(crate) command: Option<String>,
    /// Whether the hooks decide, as `hook.kind`.
    #[schemars(extend("enum" = ["advisory", "policy", null]))]
    pub(crate) kind: Option<String>,
    /// Selects hooks with this name, as `hookjail hooks list` shows it.
    pub(crate) name: Option<String>,
    /// Effect of a failure, as `hook.on_failure`. `open` needs a `point`.
    #[schemars(extend("enum" = ["contract", "closed", "open", null]))]
    pub(crate) on_failure: Option<String>,
    /// Selects hooks at this point, in the contract's spelling.
    pub(crate) point: Option<String>,
    /// Profile of the hooks, granted by the rule as by `hooks_file.profile`.
    pub(crate) profile: Option<String>,
    /// Wall time of the hooks.
    pub(crate) timeout: Option<Span>,
}

/// Egress allowlist of hooks that are posted to a URL.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct HttpEntry {
    /// URLs to which HTTP hooks may post, each with everything below it: of `http` or `https`, without user, query and
    /// fragment.
    pub(crate) allow: Vec<String>,
    /// Variables allowed in headers of HTTP hooks, each with the `name` of a `[[secret]]` that is no `pattern`.
    pub(crate) variables: BTreeMap<String, String>,
}

/// Allowlists of infer's hooks: regular expressions, by the agent's mode.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ListsEntry {
    /// Regular expressions of the commands that infer's hooks run in every mode of the agent. Default: read-only commands.
    pub(crate) all: Option<Vec<String>>,
    /// Regular expressions of further commands in the mode `auto`. Default: everything.
    pub(crate) auto: Option<Vec<String>>,
    /// Absolute path of infer's own configuration, for lists that these keys do not set: `tools.bash.mode.MODE.allow`.
    #[serde(deserialize_with = "value::some_path")]
    pub(crate) file: Option<PathBuf>,
    /// Whether an entry that names a program is consent to its commands, or only a gate. Default: `"gate"`.
    #[schemars(extend("enum" = ["consent", "gate", null]))]
    #[serde(deserialize_with = "value::listed")]
    pub(crate) listed: Option<String>,
    /// Regular expressions of further commands in the mode `plan`.
    pub(crate) plan: Option<Vec<String>>,
    /// Regular expressions of further commands in the mode `standard`.
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
    /// Maximum runs of each uid a minute.
    #[schemars(range(min = 1))]
    #[serde(deserialize_with = "value::calls_per_minute")]
    pub(crate) calls_per_minute: Option<u64>,
    /// Cgroup (version 2) below which each run gets its own: an absolute path, `"none"`, or `"auto"` for the one that the
    /// service manager delegates to the daemon, if any.
    #[serde(deserialize_with = "value::cgroup")]
    #[schemars(with = "String")]
    pub(crate) cgroup: CgroupPlace,
    /// Processor time of each uid's hooks a minute, more than 0: of their first processes and the children that these waited
    /// for.
    #[serde(deserialize_with = "value::cpu_per_minute")]
    pub(crate) cpu_per_minute: Option<Span>,
    /// Disables configured hooks: none runs, and no hook config is read. Requests that bring their hook are served.
    pub disabled: bool,
    /// Size of the largest event: 1 KiB to 256 MiB.
    #[serde(deserialize_with = "value::size::<_, 1024, { 256 << 20 }>")]
    pub(crate) event_max: Size,
    /// Maximum bytes that starts and ends of each uid's runs add to the journal a minute: at least 1 KiB.
    #[serde(deserialize_with = "value::journal_per_minute")]
    pub(crate) journal_per_minute: Option<Size>,
    /// Maximum number of hooks that run at once, divided among uids.
    #[schemars(range(min = 1, max = 16384))]
    #[serde(deserialize_with = "value::number::<_, 1, 16384>")]
    pub(crate) max_concurrent: usize,
    /// Maximum of consecutive turns that hooks may open under reyn, by the loop valve. 0: no limit.
    pub max_hook_driven_turns: u32,
    /// Maximum number of requests that wait for a place, divided among uids.
    pub(crate) max_queued: usize,
    /// Recommendation of the reply at `hooks.max_hook_driven_turns`.
    #[serde(deserialize_with = "value::on_hook_turn_limit")]
    #[schemars(with = "String", extend("enum" = ["warn", "ask_user", "abort"]))]
    pub on_hook_turn_limit: OnLimit,
    /// User of a root daemon's hooks: the caller, or with `pool` a uid of the run's own.
    #[serde(deserialize_with = "value::run_as")]
    #[schemars(with = "String", extend("enum" = ["caller", "pool"]))]
    pub(crate) run_as: RunAs,
    /// Values like `hooks.run_as` by profile, each for that profile and those that extend it; the nearest decides.
    #[serde(deserialize_with = "value::run_as_profiles")]
    #[schemars(with = "BTreeMap<String, String>", extend("additionalProperties" = { "enum": ["caller", "pool"] }))]
    pub(crate) run_as_profiles: BTreeMap<ProfileName, RunAs>,
    /// Threads that start hooks, for each caller and set of filters.
    #[schemars(range(min = 1, max = 64))]
    #[serde(deserialize_with = "value::number::<_, 1, 64>")]
    pub spawners: usize,
    /// First and last uid of a root daemon's hooks, without 0: one uid for each running hook. Callers share none while there
    /// are enough: at least `hooks.max_concurrent` for each. Nothing else assigns the default range.
    #[serde(deserialize_with = "value::uid_range")]
    pub(crate) uid_range: [u32; 2],
    /// Directories at or below which a request may bind a workspace. With `[]`, none can be bound. Default: by the daemon's
    /// user.
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
    /// Address where Prometheus scrapes metrics: a loopback address and a port, such as `127.0.0.1:9464` or `[::1]:9464`. Port
    /// 0 is any free one, which the log has.
    #[serde(deserialize_with = "value::loopback")]
    #[schemars(with = "Option<String>")]
    pub(crate) listen: Option<SocketAddr>,
}

/// Traces for an OpenTelemetry collector.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct TracesEntry {
    /// OpenTelemetry collector that takes traces, as OTLP over gRPC: `http://`, a loopback address and a port, such as
    /// `http://127.0.0.1:4317` or `http://[::1]:4317`.
    #[serde(deserialize_with = "traces::endpoint", serialize_with = "traces::url")]
    #[schemars(with = "Option<String>")]
    pub(crate) endpoint: Option<SocketAddr>,
    /// Share of recorded traces among all that begin in the daemon. Callers decide about theirs.
    #[schemars(range(min = 0.0, max = 1.0))]
    #[serde(deserialize_with = "traces::sample_ratio")]
    pub(crate) sample_ratio: f64,
    /// The `service.name` of the spans: 1 to 255 bytes, no control characters.
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

/// Listener for clients of other machines: TLS with certificates on both sides.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct NetworkEntry {
    /// PEM file with the daemon's certificate, and with all between it and its authority.
    #[serde(deserialize_with = "value::some_plain_path")]
    pub(crate) certificate: Option<PathBuf>,
    /// PEM file with the authorities of clients' certificates. An authority may issue other certificates too: only listed names
    /// are served.
    #[serde(deserialize_with = "value::some_plain_path")]
    pub(crate) client_ca: Option<PathBuf>,
    /// Name in certificates, with the user of this host that its holder is.
    pub(crate) clients: Vec<NetworkClientEntry>,
    /// PEM file with lists of revoked certificates, one for each authority between a client's certificate and `client_ca`. With
    /// a list past its `nextUpdate` no client of that authority is served.
    #[serde(deserialize_with = "value::some_plain_path")]
    pub(crate) crl: Option<PathBuf>,
    /// PEM file with the private key of `certificate`, readable to its owner and group alone.
    #[serde(deserialize_with = "value::some_plain_path")]
    pub(crate) key: Option<PathBuf>,
    /// Address and port, such as `0.0.0.0:7443`. Without the key nothing listens.
    pub(crate) listen: Option<String>,
    /// Whether to serve without TLS, on a loopback address. Every process of this machine can connect, hooks with network
    /// access too.
    pub(crate) plaintext: bool,
    /// User of this host that every client is without TLS, by uid or name.
    pub(crate) plaintext_user: Option<UserEntry>,
}

/// Notices of hooks to the person at the machine.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct NotifyEntry {
    /// Program that shows notices of hooks: its absolute path and arguments, to which title and text are added. Runs
    /// unconfined, as the daemon's user, for at most 5 s. Default: `notify-send` of the daemon's `PATH`, if only root can
    /// change it, where a bus of the session is found; root: none.
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
    /// Directory of scratch directories. Default: root: `/run/hookjail`; others: `$XDG_RUNTIME_DIR/hookjail` if that directory
    /// exists, else `run` in the state.
    #[serde(deserialize_with = "value::path", serialize_with = "value::shown")]
    #[schemars(with = "Option<PathBuf>")]
    pub runtime: PathBuf,
    /// Directory of the allowlist and the journal. Default: root: `/var/lib/hookjail`; others: `$XDG_STATE_HOME/hookjail`, else
    /// `~/.local/state/hookjail`.
    #[serde(deserialize_with = "value::path", serialize_with = "value::shown")]
    #[schemars(with = "Option<PathBuf>")]
    pub state: PathBuf,
}

/// Where profiles are.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProfilesEntry {
    /// Names of the profiles that are served, which must exist. Others are refused as missing. Default: all.
    #[serde(deserialize_with = "value::some_profiles")]
    #[schemars(with = "Option<Vec<String>>")]
    pub(crate) allow: Option<Vec<ProfileName>>,
    /// Directories of profiles, which must exist, read in order. A later profile replaces an earlier or shipped one of its
    /// name. Default: root: `/etc/hookjail/profiles`; others: `$XDG_CONFIG_HOME/hookjail/profiles`, else
    /// `~/.config/hookjail/profiles`; none where that is missing.
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
    /// Rules as in a profile's `egress`: the hosts that profiles may reach. A profile with `network = "outbound"`, or with a
    /// rule outside of these, is not served. They bound HTTP hooks too. Default: any host.
    pub allow: Option<Vec<Egress>>,
    /// Absolute path of a PEM file with further trusted authorities: for a proxy by TLS, and for requests of profiles.
    pub ca: Option<PathBuf>,
    /// Hosts that are connected to without the proxy, by rules as in `egress.allow`. This machine and addresses that are not
    /// public are always among them.
    pub direct: Vec<Egress>,
    /// Proxy to named hosts: `http://HOST:PORT` or `https://HOST:PORT`. Used with `CONNECT`, and for rules with ` http` by
    /// whole URLs.
    pub proxy: Option<String>,
    /// The `name` of a `[[secret]]` that is no `pattern`: the secret `USER:PASSWORD` that the proxy requires. A hook's own is
    /// left out.
    pub proxy_secret: Option<String>,
}

/// Calls without a daemon.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct RunEntry {
    /// Whether `hookjail run`, `dispatch` and `learn` may serve themselves where no daemon answers, and programs by `hookjail
    /// serve --private`.
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
    /// Socket where the operator administers the daemon, with mode 0600; not `server.socket`. Default: beside `server.socket`,
    /// with `-admin` in its name: `/run/hookjail/hookjail-admin.sock`.
    #[serde(
        deserialize_with = "value::some_path",
        serialize_with = "value::some_shown"
    )]
    pub admin_socket: Option<PathBuf>,
    /// Permitted callers besides the daemon's own user: uids, names of users, `@` with the name of a group. Default: root:
    /// `["@hookjail"]` where that group exists; others: `[]`.
    pub(crate) callers: Option<Vec<UserEntry>>,
    /// Time for running hooks at shutdown. With the shipped units well below `TimeoutStopSec` (30 s).
    pub drain: Span,
    /// Memory of requests in progress, with their messages and the kept output of their hooks, divided among uids. At least 16
    /// MiB and four times `hooks.event_max`. Default: `"512MiB"`, or four times `hooks.event_max` if that is more.
    pub(crate) max_bytes_in_flight: Option<Size>,
    /// Maximum number of connections of permitted callers, divided among uids.
    #[schemars(range(min = 1, max = 65536))]
    #[serde(deserialize_with = "value::number::<_, 1, 65536>")]
    pub(crate) max_connections: usize,
    /// Socket where the daemon listens. A socket that systemd passes wins. Default: root: `/run/hookjail/hookjail.sock`;
    /// others: `$XDG_RUNTIME_DIR/hookjail/hookjail.sock`.
    #[serde(
        deserialize_with = "value::some_path",
        serialize_with = "value::some_shown"
    )]
    pub(crate) socket: Option<PathBuf>,
    /// Mode of the callers' socket.
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
