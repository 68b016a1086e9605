//! The daemon's configuration: one TOML file, read whole or not at all.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read},
    net::SocketAddr,
    ops::RangeInclusive,
    path::{Path, PathBuf},
    time::Duration,
};

use schemars::{Schema, SchemaGenerator};

use hookjail_base::{
    model::{ProfileName, Users},
    notices::Means,
    redact::secret::Registration,
    util::{
        keyed_toml,
        trusted_file::{self, Untrusted},
        units::Size,
    },
};
use hookjail_contract::{WrittenLists, hook_file::Switches};
use hookjail_journal::{Capture, append::Settings};
use hookjail_policy::{References, WorkspaceRoots};
use hookjail_sandbox::{CgroupPlace, HookUsers, Order, RunAs, Runtime};

use self::{
    audit::capture,
    file::{ConfigFile, ConsentEntry, HooksEntry, LISTED, LISTS_FILE, ListsEntry, ServerEntry},
    managed::Managed,
    places::Places,
};
pub use self::{
    env::ProcessEnv,
    source::ConfigSource,
    view::{Origin, Setting},
};
pub(crate) use self::{
    network::{Access, Network, Tls},
    traces::Traces,
};

use crate::hooks::{
    Registered,
    http::{Egress, decide},
    lists::Listing,
    load::{self, HooksFile, LoadError, Loaded},
    valve::OnLimit,
};

mod audit;
mod backends;
mod container;
mod env;
mod file;
mod hook;
mod http;
mod managed;
mod network;
mod notify;
mod places;
mod secret;
mod source;
mod traces;
mod users;
mod view;

/// Returns the schema of a configuration file.
pub(crate) fn schema(generator: SchemaGenerator) -> Schema {
    generator.into_root_schema_for::<ConfigFile>()
}

/// A command with operator's settings.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct ConfiguredHook {
    /// Program and arguments.
    pub command: Vec<String>,
    /// Profiles that only an operator can grant.
    pub profiles: Vec<ProfileName>,
    /// Its wall time where a request names none.
    pub timeout: Option<Duration>,
}

/// The configuration, checked.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where the operator steers the daemon; `None` where there is no socket either.
    pub admin_socket: Option<PathBuf>,
    /// The profiles that are served; `None` = all.
    pub(crate) allowed_profiles: Option<Vec<ProfileName>>,
    /// How the journal is kept.
    pub(crate) audit: Settings,
    /// Who may request runs, besides the daemon's own user.
    pub callers: Users,
    /// What of events and output the journal keeps.
    pub(crate) capture: Capture,
    /// Which backends a profile may run on.
    pub backends: Order,
    /// What makes containers.
    pub(crate) container: Option<Runtime>,
    /// Where the cgroups of runs are made.
    pub(crate) cgroup: CgroupPlace,
    /// How long a question to the operator may stay open.
    pub consent_wait: Duration,
    /// The most memory for requests in work: messages and kept output, bytes.
    pub(crate) bytes_in_flight: usize,
    /// The most connections of authorised uids in all.
    pub(crate) connections: usize,
    /// How long running hooks get at shutdown.
    pub drain: Duration,
    /// The largest event, bytes.
    pub event_bytes: usize,
    /// The file it was read from.
    pub file: Option<PathBuf>,
    /// Operator's settings of commands.
    pub(crate) hooks: Vec<ConfiguredHook>,
    /// Whether hooks at lifecycle points are disabled, those of files included.
    pub hooks_disabled: bool,
    /// The files with more hooks, in the order in which they register.
    pub(crate) hooks_files: Vec<HooksFile>,
    /// Which hooks may be posted to a URL.
    pub(crate) http: Egress,
    /// Which commands of hooks run, by the agent's mode, where their runtime has lists of them.
    pub lists: Listing,
    /// How many hooks run at once.
    pub(crate) max_concurrent: usize,
    /// How many turns in a row hooks may open; 0 = any number.
    pub max_hook_driven_turns: u32,
    /// How many requests wait.
    pub(crate) max_queued: usize,
    /// Where metrics are served; `None`: nowhere.
    pub(crate) metrics: Option<SocketAddr>,
    /// Where clients of other hosts connect; `None`: nowhere.
    pub(crate) network: Option<Network>,
    /// How notices of hooks are shown.
    pub(crate) notify: Means,
    /// The action of runtimes at that limit.
    pub on_hook_turn_limit: OnLimit,
    /// The runtimes' own allowlists, by contract; each counts for hooks of its contract.
    pub own_allowlists: BTreeMap<&'static str, PathBuf>,
    /// Users that may answer for the operator, besides the daemon's own; `None`: no user, and not the daemon's own.
    pub(crate) operators: Option<Users>,
    /// Whether a call may be served without a daemon.
    pub private_runs: bool,
    /// Directories with profiles of the operator's.
    pub profile_dirs: Vec<PathBuf>,
    /// Names and texts of profiles without a file, which `hookjail learn` tries. No configuration file has any.
    pub proposed_profiles: Vec<(String, String)>,
    /// The directory of hooks' files that last, where it is not the usual one below `state`.
    pub hook_state: Option<PathBuf>,
    /// The values of `${home}` and `${cache}` in profiles.
    pub references: References,
    /// Who may read the records of everybody's requests, besides the daemon's own user.
    pub(crate) readers: Users,
    /// The hooks that run whenever their points come.
    pub registered: Vec<Registered>,
    /// The secrets that are taken out of texts.
    pub(crate) secrets: Vec<Registration>,
    /// As whom a root daemon's hooks run.
    pub(crate) run_as: HookUsers,
    /// Where scratch directories are made.
    pub runtime: PathBuf,
    /// Where the socket is; `None` where neither the file nor the environment say.
    pub(crate) socket: Option<PathBuf>,
    /// The socket's mode.
    pub(crate) socket_mode: u32,
    /// Threads that start hooks, for each caller and set of filters.
    pub spawners: usize,
    /// Where allowlist and journal are.
    pub state: PathBuf,
    /// Where traces of calls go; `None`: nowhere.
    pub(crate) traces: Option<Traces>,
    /// The uids of a root daemon's hooks.
    pub(crate) uid_range: RangeInclusive<u32>,
    /// Below which directories a workspace may lie.
    pub workspace_roots: WorkspaceRoots,
}

/// The longest that a question to the operator may stay open.
const MAX_CONSENT_WAIT: Duration = Duration::from_secs(3600);

/// The default limit of memory for requests in work, bytes.
const BYTES_IN_FLIGHT: usize = 512 * 1024 * 1024;

/// The least value of `server.max_bytes_in_flight`, bytes.
const MIN_BYTES_IN_FLIGHT: usize = 16 * 1024 * 1024;

/// The least number of largest events that fit into that memory, so that one caller can always send one.
const EVENTS_IN_FLIGHT: usize = 4;

/// Loading the configuration failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot load the configuration `{path}`")]
pub struct ConfigError {
    path: PathBuf,
    #[source]
    cause: ConfigProblem,
}

/// The problem with a configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigProblem {
    /// A value is not acceptable.
    #[error("`{key}` {problem}")]
    Key {
        /// The key.
        key: &'static str,
        /// The problem, with the accepted values.
        problem: String,
    },
    /// A path has no default.
    #[error("`{key}` has no default here because `{variable}` is not set; set one of them")]
    NoPlace {
        /// The key.
        key: &'static str,
        /// The environment variable.
        variable: &'static str,
    },
    /// The file cannot be read.
    #[error(transparent)]
    Read(#[from] io::Error),
    /// The file is not TOML, or has an unknown key.
    #[error("{0}")]
    Syntax(String),
    /// Other users could have changed the file.
    #[error(transparent)]
    Untrusted(#[from] Untrusted),
}

impl ConfigProblem {
    fn key(key: &'static str, problem: impl Into<String>) -> Self {
        Self::Key {
            key,
            problem: problem.into(),
        }
    }

    /// Adds the name of that of several entries which has it.
    fn in_entry(self, name: &str) -> Self {
        self.with(&format!(" (of `{name}`)"))
    }

    /// Adds a text to the problem of a key.
    fn with(mut self, more: &str) -> Self {
        if let Self::Key { problem, .. } = &mut self {
            problem.push_str(more);
        }
        self
    }
}

impl Config {
    /// Returns configured hooks, then those of named files; none where hooks are disabled.
    ///
    /// # Errors
    ///
    /// Fails where a file cannot be read; the error names file, entry and field.
    pub fn all_hooks(&self, switches: &Switches) -> Result<Loaded, LoadError> {
        if self.hooks_disabled {
            return Ok(Loaded {
                disabled: vec!["`hooks.disabled` is true".to_owned()],
                ..Loaded::default()
            });
        }
        let mut loaded = load::load(&self.hooks_files, switches)?;
        decide(&mut loaded, &self.http, |name| std::env::var_os(name));
        loaded.hooks.splice(0..0, self.registered.iter().cloned());
        Ok(loaded)
    }

    /// Loads a file; without one, the defaults.
    ///
    /// # Errors
    ///
    /// Fails for a file that other users can write, an unknown key, or a value out of range.
    pub(crate) fn load(path: Option<&Path>, environment: &ProcessEnv) -> Result<Self, ConfigError> {
        let shown = path.unwrap_or_else(|| Path::new("(defaults)")).to_owned();
        let managed = Managed::load(Path::new(managed::FILE))?;
        let read = || -> Result<Self, ConfigProblem> {
            let text = path.map(read).transpose()?.unwrap_or_default();
            let parsed = Self::narrowed(&text, managed.as_ref(), environment)?;
            Ok(Self {
                file: path.map(Path::to_owned),
                ..parsed
            })
        };
        read().map_err(|cause| ConfigError { path: shown, cause })
    }

    /// Makes it the configuration of a daemon that serves its own user alone, at one socket, and lets no hook outlast it.
    fn private_at(self, socket: &Path) -> Self {
        Self {
            admin_socket: None,
            callers: Users::default(),
            drain: Duration::ZERO,
            metrics: None,
            network: None,
            operators: self.operators.as_ref().map(|_| Users::default()),
            readers: Users::default(),
            socket: Some(socket.to_owned()),
            socket_mode: 0o600,
            ..self
        }
    }

    /// Parses a configuration that another narrows.
    fn narrowed(
        text: &str,
        managed: Option<&Managed>,
        environment: &ProcessEnv,
    ) -> Result<Self, ConfigProblem> {
        // First as it is: its errors name lines.
        let file = deserialize(text)?;
        let Some(managed) = managed else {
            return Self::of(file, environment);
        };
        let table = managed.narrow(read_table(text)?)?;
        Self::of(deserialize(&table.to_string())?, environment)
    }

    /// Parses a configuration.
    ///
    /// # Errors
    ///
    /// Names the key that is wrong.
    pub fn parse(text: &str, environment: &ProcessEnv) -> Result<Self, ConfigProblem> {
        Self::of(deserialize(text)?, environment)
    }

    fn of(file: ConfigFile, environment: &ProcessEnv) -> Result<Self, ConfigProblem> {
        let ConfigFile {
            audit,
            backends,
            consent,
            container,
            hook,
            hooks,
            http,
            lists,
            hooks_file,
            metrics,
            network,
            notify,
            paths,
            profiles,
            run,
            secret,
            server,
            traces,
        } = file;
        let capture = capture(&audit)?;
        let secrets = self::secret::read(secret)?;
        let http = self::http::read(http, &secrets)?;
        let backends = self::backends::read(backends)?;
        let container = self::container::read(container, &backends)?;
        in_range(&consent, &hooks, &server)?;
        if !consent.accept_hooks
            && (environment.accept_hooks || !environment.own_accepts.is_empty())
        {
            let problem = "is false, and a variable of the environment says otherwise: unset HOOKJAIL_ACCEPT_HOOKS, and those of runtimes like it";
            return Err(ConfigProblem::key("consent.accept_hooks", problem));
        }
        let allowed_profiles = allowed(profiles.allow.as_deref())?;
        let run_as = self::hook::users(&hooks.run_as, &hooks.run_as_profiles)?;
        let cgroup = self::hook::cgroup(&hooks.cgroup)?;
        let on_hook_turn_limit = OnLimit::parse(&hooks.on_hook_turn_limit).ok_or_else(|| {
            let problem = "must be `warn`, `ask_user` or `abort`";
            ConfigProblem::key("hooks.on_hook_turn_limit", problem)
        })?;
        let socket_mode = match server.socket_mode.as_str() {
            "0600" => 0o600,
            "0660" => 0o660,
            other => {
                let problem = format!("is `{other}`; it can be `0600` or `0660`");
                return Err(ConfigProblem::key("server.socket_mode", problem));
            }
        };
        let sockets = (server.socket, server.admin_socket);
        let roots = (
            hooks.workspace_roots,
            run_as.values().any(|it| *it == RunAs::Caller),
        );
        let places = Places::read(paths, profiles.dirs, sockets, roots, environment)?;
        let event_bytes = usize::try_from(hooks.event_max.0).unwrap_or(usize::MAX);
        let bytes_in_flight = bytes_in_flight(server.max_bytes_in_flight, event_bytes)?;
        let [first, last] = hooks.uid_range;
        let mut statements = Vec::new();
        let mut registered = Vec::new();
        for (index, entry) in hook.into_iter().enumerate() {
            let (statement, hook) = self::hook::read(index, entry)?;
            statements.extend(statement);
            registered.extend(hook);
        }
        let hooks_files = hooks_file.into_iter().map(self::hook::file);
        let hooks_files = hooks_files.collect::<Result<_, _>>()?;
        let callers = match &server.callers {
            Some(entries) => users::read("server.callers", entries)?,
            None => users::usual(environment.paths.root),
        };
        Ok(Self {
            admin_socket: places.admin_socket,
            allowed_profiles,
            callers,
            readers: users::read("audit.readers", &audit.readers)?,
            audit: audit.read()?,
            backends,
            operators: match users::read("consent.operators", &consent.operators)? {
                operators if consent.runtime => Some(operators),
                _ => None,
            },
            consent_wait: consent.wait.0,
            bytes_in_flight,
            connections: server.max_connections,
            cgroup,
            container,
            capture,
            drain: server.drain.0,
            event_bytes,
            file: None,
            hooks: statements,
            hooks_disabled: hooks.disabled,
            hooks_files,
            http,
            lists: listing(lists, environment.switches.listed())?,
            max_concurrent: hooks.max_concurrent,
            max_hook_driven_turns: hooks.max_hook_driven_turns,
            max_queued: hooks.max_queued,
            metrics: metrics.listen.as_deref().map(local).transpose()?,
            network: self::network::read(network)?,
            notify: self::notify::read(notify, environment)?,
            on_hook_turn_limit,
            own_allowlists: environment.own_allowlists(),
            private_runs: run.private,
            profile_dirs: places.profile_dirs,
            proposed_profiles: Vec::new(),
            hook_state: None,
            references: environment.references(),
            registered,
            run_as,
            runtime: places.runtime,
            secrets,
            socket: places.socket,
            socket_mode,
            spawners: hooks.spawners,
            state: places.state,
            traces: self::traces::read(traces)?,
            uid_range: first..=last,
            workspace_roots: places.workspace_roots,
        })
    }

    /// Names the differing keys that take effect only after a restart.
    pub(crate) fn needs_restart(&self, other: &Self) -> Vec<&'static str> {
        let Self {
            admin_socket,
            allowed_profiles: _,
            audit,
            backends,
            bytes_in_flight,
            callers: _,
            capture: _,
            cgroup,
            connections,
            consent_wait,
            container,
            drain,
            event_bytes,
            file: _,
            hooks: _,
            hooks_disabled: _,
            hooks_files: _,
            http: _,
            lists: _,
            max_concurrent,
            max_hook_driven_turns,
            max_queued,
            metrics,
            network,
            notify,
            on_hook_turn_limit,
            operators: _,
            // No daemon's.
            private_runs: _,
            profile_dirs: _,
            proposed_profiles: _,
            hook_state: _,
            readers: _,
            registered: _,
            // From the environment, which does not change.
            own_allowlists: _,
            references: _,
            run_as,
            runtime,
            secrets: _,
            socket,
            socket_mode,
            spawners,
            state,
            traces,
            uid_range,
            workspace_roots: _,
        } = self;
        let keys = [
            ("audit", *audit == other.audit),
            ("backends.order", backends.default == other.backends.default),
            (
                "backends.profiles",
                backends.profiles == other.backends.profiles,
            ),
            ("consent.wait", *consent_wait == other.consent_wait),
            ("container", *container == other.container),
            ("hooks.cgroup", *cgroup == other.cgroup),
            ("hooks.event_max", *event_bytes == other.event_bytes),
            (
                "hooks.max_concurrent",
                *max_concurrent == other.max_concurrent,
            ),
            (
                "hooks.max_hook_driven_turns",
                *max_hook_driven_turns == other.max_hook_driven_turns,
            ),
            ("hooks.max_queued", *max_queued == other.max_queued),
            (
                "hooks.on_hook_turn_limit",
                *on_hook_turn_limit == other.on_hook_turn_limit,
            ),
            ("hooks.run_as", run_as.default == other.run_as.default),
            (
                "hooks.run_as_profiles",
                run_as.profiles == other.run_as.profiles,
            ),
            ("hooks.spawners", *spawners == other.spawners),
            ("hooks.uid_range", *uid_range == other.uid_range),
            ("metrics.listen", *metrics == other.metrics),
            (
                "network.listen",
                network.as_ref().map(|it| it.listen) == other.network.as_ref().map(|it| it.listen),
            ),
            (
                "network.plaintext",
                network.as_ref().map(Network::is_plaintext)
                    == other.network.as_ref().map(Network::is_plaintext),
            ),
            ("notify", *notify == other.notify),
            ("paths.runtime", *runtime == other.runtime),
            ("paths.state", *state == other.state),
            ("server.admin_socket", *admin_socket == other.admin_socket),
            ("server.drain", *drain == other.drain),
            (
                "server.max_bytes_in_flight",
                *bytes_in_flight == other.bytes_in_flight,
            ),
            ("server.max_connections", *connections == other.connections),
            ("server.socket", *socket == other.socket),
            ("server.socket_mode", *socket_mode == other.socket_mode),
            ("traces", *traces == other.traces),
        ];
        let changed = keys.into_iter().filter(|(_, same)| !same);
        changed.map(|(key, _)| key).collect()
    }

    /// Returns the allowlist's path.
    pub fn allowlist(&self) -> PathBuf {
        self.state.join("allowlist.json")
    }

    /// Returns the directory of settings as they were before `install` changed them.
    pub fn former_settings(&self) -> PathBuf {
        self.state.join("settings")
    }

    /// Returns the journal's directory.
    pub fn journal(&self) -> PathBuf {
        self.state.join("audit")
    }
}

fn deserialize(text: &str) -> Result<ConfigFile, ConfigProblem> {
    keyed_toml::read(text)
        .map_err(|error| ConfigProblem::Syntax(error.to_string().trim_end().to_owned()))
}

/// Reads the names of profiles that are served.
fn allowed(names: Option<&[String]>) -> Result<Option<Vec<ProfileName>>, ConfigProblem> {
    let read = |name: &String| {
        ProfileName::parse(name).ok_or_else(|| {
            let problem = format!("`{name}` is no name of a profile");
            ConfigProblem::key("profiles.allow", problem)
        })
    };
    names
        .map(|names| names.iter().map(read).collect())
        .transpose()
}

fn read_table(text: &str) -> Result<toml::Table, ConfigProblem> {
    text.parse()
        .map_err(|error: toml::de::Error| ConfigProblem::Syntax(error.to_string()))
}

/// Checks the numbers that have a range.
fn in_range(
    consent: &ConsentEntry,
    hooks: &HooksEntry,
    server: &ServerEntry,
) -> Result<(), ConfigProblem> {
    let [first, last] = hooks.uid_range;
    let checks = [
        (
            "hooks.uid_range",
            first != 0 && first <= last && last != u32::MAX,
            format!("[{first}, {last}] is no range of uids without 0"),
        ),
        (
            "hooks.max_concurrent",
            (1..=16 * 1024).contains(&hooks.max_concurrent),
            "must be 1 to 16384".to_owned(),
        ),
        (
            "consent.wait",
            !consent.wait.0.is_zero() && consent.wait.0 <= MAX_CONSENT_WAIT,
            "must be more than 0 and at most 1h".to_owned(),
        ),
        (
            "hooks.spawners",
            (1..=64).contains(&hooks.spawners),
            "must be 1 to 64".to_owned(),
        ),
        (
            "hooks.event_max",
            (1024..=256 * 1024 * 1024).contains(&hooks.event_max.0),
            "must be 1KiB to 256MiB".to_owned(),
        ),
        (
            "server.max_connections",
            (1..=64 * 1024).contains(&server.max_connections),
            "must be 1 to 65536".to_owned(),
        ),
    ];
    let mut wrong = checks.into_iter().filter(|(_, is_right, _)| !is_right);
    match wrong.next() {
        Some((key, _, problem)) => Err(ConfigProblem::key(key, problem)),
        None => Ok(()),
    }
}

/// Returns the limit of memory for requests in work, bytes.
fn bytes_in_flight(written: Option<Size>, event_bytes: usize) -> Result<usize, ConfigProblem> {
    let least = event_bytes * EVENTS_IN_FLIGHT;
    let Some(size) = written else {
        return Ok(least.max(BYTES_IN_FLIGHT));
    };
    usize::try_from(size.0)
        .ok()
        .filter(|bytes| *bytes >= least.max(MIN_BYTES_IN_FLIGHT))
        .ok_or_else(|| {
            let problem = "must be 16MiB at least, and four times `hooks.event_max`";
            ConfigProblem::key("server.max_bytes_in_flight", problem)
        })
}

/// Returns the address at which metrics are served.
///
/// Whoever can connect can read, so nobody does from elsewhere, where the daemon could not tell who it is.
fn local(written: &str) -> Result<SocketAddr, ConfigProblem> {
    let problem = match written.parse::<SocketAddr>() {
        Ok(address) if address.ip().is_loopback() => return Ok(address),
        Ok(address) => format!(
            "is `{written}`, and only loopback addresses are listened at, because whoever reaches the address can read: say `127.0.0.1:{port}` or `[::1]:{port}`, and let a proxy of this host or a sidecar pass it on",
            port = address.port()
        ),
        Err(_) => format!(
            "is `{written}`, which is no address with a port, such as `127.0.0.1:9464` or `[::1]:9464`"
        ),
    };
    Err(ConfigProblem::key("metrics.listen", problem))
}

/// Returns the default path of a daemon's admin socket: beside its socket.
pub fn admin_beside(socket: &Path) -> PathBuf {
    let mut name = socket.file_stem().unwrap_or_default().to_owned();
    name.push("-admin");
    let beside = socket.with_file_name(name);
    match socket.extension() {
        Some(extension) => beside.with_extension(extension),
        None => beside,
    }
}

fn listing(written: ListsEntry, append: String) -> Result<Listing, ConfigProblem> {
    let are_consent = match written.listed.as_deref() {
        None | Some("gate") => false,
        Some("consent") => true,
        Some(other) => {
            let problem = format!("is `{other}`; it can be `gate` or `consent`");
            return Err(ConfigProblem::key(LISTED, problem));
        }
    };
    let file = written.file;
    if let Some(path) = file.as_ref().filter(|path| !path.is_absolute()) {
        let problem = format!("`{}` is not an absolute path", path.display());
        return Err(ConfigProblem::key(LISTS_FILE, problem));
    }
    Ok(Listing {
        append,
        are_consent,
        file,
        written: WrittenLists {
            all: written.all,
            auto: written.auto,
            plan: written.plan,
            standard: written.standard,
        },
    })
}

/// Returns what a word stands for, of all words that can be.
///
/// # Errors
///
/// Names the words.
fn choice<T, const N: usize>(word: &str, all: [(&str, T); N]) -> Result<T, String> {
    let known: Vec<_> = all.iter().map(|(known, _)| format!("`{known}`")).collect();
    let mut all = all.into_iter();
    match (all.find(|(known, _)| *known == word), known.split_last()) {
        (Some((_, value)), _) => Ok(value),
        (None, Some((last, others))) => {
            let others = others.join(", ");
            Err(format!("is `{word}`; it can be {others} or {last}"))
        }
        (None, None) => Err(format!("is `{word}`")),
    }
}

fn not_plain(path: &Path) -> String {
    format!(
        "`{}` is not an absolute path without `.` and `..`",
        path.display()
    )
}

fn read(path: &Path) -> Result<String, ConfigProblem> {
    let mut file = trusted_file::open_own_or_roots(path, File::options().read(true))?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use hookjail_base::util::user_paths::UserPaths;

    use super::*;
    use hookjail_sandbox::BackendName;

    fn at_home() -> ProcessEnv {
        let path = |text: &str| Some(PathBuf::from(text));
        ProcessEnv {
            paths: UserPaths {
                home: path("/home/u"),
                xdg_runtime: path("/run/user/1"),
                ..UserPaths::default()
            },
            ..ProcessEnv::default()
        }
    }

    fn at_home_of_root() -> ProcessEnv {
        let mut environment = at_home();
        environment.paths.root = true;
        environment
    }

    fn problem(text: &str) -> String {
        Config::parse(text, &at_home()).unwrap_err().to_string()
    }

    #[test]
    fn workspaces_lie_in_the_home_unless_the_file_names_roots() {
        let roots = |text: &str, environment: &ProcessEnv| {
            Config::parse(text, environment).unwrap().workspace_roots
        };
        let home = WorkspaceRoots {
            homes: vec!["/home/u".into()],
            ..WorkspaceRoots::default()
        };
        assert_eq!(roots("", &at_home()), home);
        let none = WorkspaceRoots::default();
        assert_eq!(roots("[hooks]\nworkspace_roots = []", &at_home()), none);
        let named = WorkspaceRoots {
            named: vec!["/srv".into()],
            ..WorkspaceRoots::default()
        };
        let srv = "[hooks]\nworkspace_roots = [\"/srv\"]";
        assert_eq!(roots(srv, &at_home()), named);
        let root = at_home_of_root();
        assert_eq!(roots("", &root), none);
        let callers = WorkspaceRoots {
            homes_of_callers: true,
            ..WorkspaceRoots::default()
        };
        let caller = "[hooks]\nrun_as = \"caller\"";
        assert_eq!(roots(caller, &root), callers);
        let srv = format!("{caller}\nworkspace_roots = [\"/srv\"]");
        assert_eq!(roots(&srv, &root), named);
    }

    #[test]
    fn the_systems_unit_has_room_for_all_tasks_that_hooks_may_have() {
        let unit = include_str!("../../../../systemd/hookjail.service");
        let most: Option<u64> = unit
            .lines()
            .find_map(|line| line.strip_prefix("TasksMax=")?.parse().ok());
        let profile = include_str!("../../../../sandbox-profiles/strict.toml");
        let profile: toml::Table = profile.parse().unwrap();
        let of_each = profile["limits"]["tasks"].as_integer().unwrap();
        let hooks = Config::parse("", &at_home()).unwrap().max_concurrent;

        let of_hooks = u64::try_from(of_each).unwrap() * hooks as u64;
        assert!(most.is_some_and(|most| most > of_hooks), "{most:?}");
    }

    #[test]
    fn a_backend_of_another_system_is_refused_with_the_systems_name() {
        for text in [
            "[backends]\norder = [\"landlock\", \"seatbelt\"]",
            "[backends.profiles]\nopen = [\"seatbelt\"]",
        ] {
            let problem = problem(text);
            assert!(
                problem.contains("names `seatbelt`, which only macOS has"),
                "{problem}"
            );
        }
    }

    #[test]
    fn metrics_are_served_on_loopback_addresses_alone() {
        let text = |listen: &str| format!("[metrics]\nlisten = \"{listen}\"");
        let listen = |text: &str| Config::parse(text, &at_home()).unwrap().metrics;
        assert_eq!(listen(""), None);
        assert_eq!(listen("[metrics]"), None);
        for address in ["127.0.0.1:9464", "127.8.9.10:1", "[::1]:9464"] {
            assert_eq!(listen(&text(address)), Some(address.parse().unwrap()));
        }
        for address in [
            "0.0.0.0:9464",
            "[::]:9464",
            "192.0.2.1:9464",
            "10.0.0.1:9464",
            "[::ffff:192.0.2.1]:9464",
            "[::ffff:127.0.0.1]:9464",
            "[fe80::1]:9464",
        ] {
            let problem = problem(&text(address));
            assert!(
                problem.contains(&format!("`metrics.listen` is `{address}`")),
                "{problem}"
            );
            assert!(problem.contains("say `127.0.0.1:9464`"), "{problem}");
            assert!(
                problem.contains("a proxy of this host or a sidecar"),
                "{problem}"
            );
        }
        for address in [
            "",
            "9464",
            ":9464",
            "localhost:9464",
            "127.0.0.1",
            "/run/metrics",
        ] {
            let problem = problem(&text(address));
            assert!(problem.contains("no address with a port"), "{problem}");
        }
    }

    #[test]
    fn it_works_without_a_configuration() {
        let config = Config::parse("", &at_home()).unwrap();
        assert_eq!(config.state, Path::new("/home/u/.local/state/hookjail"));
        assert_eq!(
            config.socket,
            Some(PathBuf::from("/run/user/1/hookjail/hookjail.sock"))
        );
        assert_eq!(config.backends.default, [BackendName::LANDLOCK]);
        assert!(config.backends.profiles.is_empty());
    }

    #[test]
    fn the_admin_socket_is_beside_the_socket() {
        assert_eq!(
            admin_beside(Path::new("/run/hookjail/hookjail.sock")),
            Path::new("/run/hookjail/hookjail-admin.sock")
        );
        assert_eq!(
            admin_beside(Path::new("/x/sock")),
            Path::new("/x/sock-admin")
        );
    }

    #[test]
    fn what_a_running_daemon_cannot_follow_is_named() {
        let config = |text: &str| Config::parse(text, &at_home()).unwrap();
        let before = config("");
        let after = config(
            "[server]\ncallers = [7]\nsocket = \"/x/sock\"\n[hooks]\ndisabled = true\nspawners = 1\n\
             [profiles]\ndirs = [\"/x\"]\n[metrics]\nlisten = \"127.0.0.1:1\"\n\
             [traces]\nendpoint = \"http://127.0.0.1:2\"",
        );
        assert_eq!(before.needs_restart(&before), [""; 0]);
        assert_eq!(
            before.needs_restart(&after),
            [
                "hooks.spawners",
                "metrics.listen",
                "server.admin_socket",
                "server.socket",
                "traces"
            ]
        );
    }

    #[test]
    fn root_uses_the_systems_places() {
        let config = Config::parse("", &at_home_of_root()).unwrap();
        assert_eq!(config.state, Path::new("/var/lib/hookjail"));
        assert_eq!(
            config.socket,
            Some(PathBuf::from("/run/hookjail/hookjail.sock"))
        );
    }

    #[test]
    fn wrong_keys_and_values_are_named() {
        for (text, expected) in [
            ("sever = 1", "sever"),
            ("[metrics]\nport = 9464", "metrics"),
            ("[metrics]\nlisten = 9464", "metrics.listen"),
            ("[traces]\nurl = \"http://127.0.0.1:1\"", "traces"),
            ("[traces]\nendpoint = \"x\"", "traces.endpoint"),
            ("[traces]\nsample_ratio = 2", "traces.sample_ratio"),
            ("[traces]\nservice_name = \"\"", "traces.service_name"),
            ("[server]\nsoket = \"/x\"", "soket"),
            ("[server]\nsocket_mode = \"0666\"", "server.socket_mode"),
            ("[server]\nsocket = \"x\"", "server.socket"),
            ("[consent]\nwait = \"0s\"", "consent.wait"),
            ("[consent]\nwait = \"2h\"", "consent.wait"),
            ("[consent]\nuid = [1]", "consent"),
            ("[server]\nadmin_socket = \"x\"", "server.admin_socket"),
            (
                "[server]\nsocket = \"/x\"\nadmin_socket = \"/x\"",
                "server.admin_socket",
            ),
            ("[backends]\norder = []", "backends.order"),
            ("[backends]\norder = [\"docker\"]", "backends.order"),
            (
                "[backends]\norder = [\"noop\", \"landlock\", \"noop\"]",
                "backends.order",
            ),
            ("[backends]\norder = [\"container\"]", "container.runtime"),
            ("[container]\nruntime = \"crun\"", "container.runtime"),
            ("[container]\nruntime = \"/usr/bin/oci\"", "container.kind"),
            ("[container]\nkind = \"runc\"", "container.kind"),
            ("[container]\nkind = \"docker\"", "container.kind"),
            ("[hooks]\ncgroup = \"hooks\"", "hooks.cgroup"),
            ("[hooks]\ncgroup = \"/sys/../hooks\"", "hooks.cgroup"),
            (
                "[container]\nruntime = \"/usr/bin/docker\"",
                "container.runtime",
            ),
            ("[container]\nroot = \"/srv/root\"", "container.root_digest"),
            ("[container]\nroot = \"debian:12\"", "container.root"),
            ("[container]\nroot = \"root\"", "container.root"),
            (
                "[container]\nroot_digest = \"sha256:0\"",
                "container.root_digest",
            ),
            ("[backends.profiles]\nopen = []", "backends.profiles"),
            (
                "[backends.profiles]\nopen = [\"docker\"]",
                "backends.profiles.open",
            ),
            (
                "[backends.profiles]\n\"A b\" = [\"noop\"]",
                "backends.profiles",
            ),
            ("[hooks]\nrun_as = \"root\"", "hooks.run_as"),
            ("[hooks]\nuid_range = [0, 10]", "hooks.uid_range"),
            ("[hooks]\nuid_range = [10, 9]", "hooks.uid_range"),
            (
                "[hooks]\non_hook_turn_limit = \"stop\"",
                "hooks.on_hook_turn_limit",
            ),
            (
                "[[hook]]\ncontract = \"reyn\"\npoint = \"p\"\ntemplate_push = { message = \" \" }",
                "hook.template_push",
            ),
            ("[hooks]\nmax_concurrent = 0", "hooks.max_concurrent"),
            ("[audit]\ncapture = [\"environment\"]", "audit.capture"),
            ("[audit]\ncapture_max = \"1MiB\"", "audit.capture_max"),
            ("[audit]\ncapture_max = 255", "audit.capture_max"),
            ("[[secret]]\nname = \"a\"", "secret.file"),
            ("[[secret]]\nname = \"a\"\nvalue = \"x\"", "value"),
            ("[[secret]]\nname = \"A b\"\nenv = \"X\"", "secret.name"),
            (
                "[[secret]]\nname = \"a\"\nenv = \"X\"\nfile = \"/x\"",
                "secret.file",
            ),
            ("[[secret]]\nname = \"a\"\nfile = \"x\"", "secret.file"),
            ("[[secret]]\nname = \"a\"\nenv = \"A=B\"", "secret.env"),
            (
                "[[secret]]\nname = \"a\"\ncredential = \"../x\"",
                "secret.credential",
            ),
            (
                "[[secret]]\nname = \"a\"\npattern = \"(\"",
                "secret.pattern",
            ),
            (
                "[[secret]]\nname = \"a\"\npattern = \"(?=x)\"",
                "secret.pattern",
            ),
            (
                "[[secret]]\nname = \"a\"\npattern = \"x*\"",
                "secret.pattern",
            ),
            (
                "[[secret]]\nname = \"a\"\nenv = \"X\"\n[[secret]]\nname = \"a\"\nenv = \"Y\"",
                "secret.name",
            ),
            ("[hooks]\nevent_max = \"1GiB\"", "hooks.event_max"),
            ("[server]\ndrain = \"soon\"", "server.drain"),
            ("[audit]\nfsync = \"sometimes\"", "audit.fsync"),
            ("[audit]\nfsync = \"1ms\"", "audit.fsync"),
            ("[audit]\nrotate_bytes = 1", "audit.rotate_bytes"),
            ("[audit]\nkeep = 1", "audit.keep"),
            (
                "[[hook]]\ncontract = \"docker_agent\"\npoint = \"turn_start\"\nbuiltin = \"add_date\"\nargs = [\"x\"]",
                "hook.args",
            ),
            (
                "[[hook]]\ncontract = \"docker_agent\"\npoint = \"turn_start\"\ncommand = \"x\"\nargs = [\"x\"]",
                "hook.args",
            ),
            (
                "[[hook]]\ncontract = \"docker_agent\"\npoint = \"turn_end\"\nbuiltin = \"add_git_diff\"",
                "hook.point",
            ),
            (
                "[[hook]]\ncontract = \"docker_agent\"\npoint = \"turn_start\"\nbuiltin = \"add_context\"",
                "hook.builtin",
            ),
            (
                "[[hook]]\ncontract = \"docker_agent\"\npoint = \"turn_start\"\nbuiltin = \"add_date\"\ncommand = \"x\"",
                "hook.builtin",
            ),
            (
                "[[hook]]\ncontract = \"loom\"\npoint = \"tool.pre\"\nbuiltin = \"add_date\"",
                "hook.builtin",
            ),
            (
                "[[hook]]\ncontract = \"docker_agent\"\npoint = \"turn_start\"\nbuiltin = \"safer_shell\"",
                "hook.point",
            ),
            ("[[hook]]\nbuiltin = \"add_date\"", "hook.point"),
            ("[[hook]]\ncommand = []", "hook.command"),
            ("[[hook]]\ncommand = 7", "hook[0].command"),
            ("[[hook]]\ncommand = \"x\"", "hook.command"),
            (
                "[[hook]]\ncommand = [\"x\"]\npoint = \"p\"",
                "hook.contract",
            ),
            (
                "[[hook]]\ncommand = [\"x\"]\ncontract = \"loom\"",
                "hook.point",
            ),
            (
                "[[hook]]\ncommand = [\"x\"]\ncontract = \"loom\"\npoint = \"tool.during\"",
                "tool.during",
            ),
            ("[[hook]]\ncommand = [\"x\"]\nmatcher = \"y\"", "hook.point"),
            (
                "[[hook]]\ncommand = [\"x\"]\ncontract = \"loom\"\npoint = \"tool.pre\"\non_failure = \"open\"",
                "hook.on_failure",
            ),
            (
                "[[hook]]\ncommand = [\"x\"]\ncontract = \"loom\"\npoint = \"tool.pre\"\nenv = { LD_PRELOAD = \"x\" }",
                "hook.env",
            ),
            (
                "[[hooks_file]]\ncontract = \"emacs\"\npath = \"/x\"",
                "hooks_file.contract",
            ),
            (
                "[[hooks_file]]\ncontract = \"reyn\"\npath = \"x\"",
                "hooks_file.path",
            ),
            (
                "[[hooks_file]]\ncontract = \"reyn\"\npath = \"/x\"\nbase = \"y\"",
                "hooks_file.base",
            ),
            (
                "[[hooks_file]]\ncontract = \"reyn\"\npath = \"/x\"\nagent = \"a\"\nskill = \"s\"",
                "hooks_file.agent",
            ),
            (
                "[[hooks_file]]\ncontract = \"reyn\"\npath = \"/x\"\nrule = [{ profile = \"strict\" }]",
                "must say which hooks it is for",
            ),
            (
                "[[hooks_file]]\ncontract = \"reyn\"\npath = \"/x\"\nrule = [{ name = \"x\" }]",
                "must say something about them",
            ),
            (
                "[[hooks_file]]\ncontract = \"loom\"\npath = \"/x\"\nrule = [{ point = \"tool.during\", timeout = \"1s\" }]",
                "hooks_file.rule.point",
            ),
            (
                "[[hooks_file]]\ncontract = \"loom\"\npath = \"/x\"\nrule = [{ name = \"x\", on_failure = \"open\" }]",
                "name the `point`",
            ),
            (
                "[[hook]]\ncommand = [\"x\"]\nprofiles = [\"../x\"]",
                "hook.profiles",
            ),
        ] {
            let message = problem(text);
            assert!(message.contains(expected), "{text}: {message}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_program_that_makes_no_containers_here_is_refused_with_what_to_name_instead() {
        for kind in ["", "kind = \"runc\""] {
            let message = problem(&format!(
                "[container]\nruntime = \"/usr/bin/docker\"\n{kind}"
            ));
            assert!(message.contains("`container.runtime`"), "{message}");
            assert!(message.contains("name crun or runc"), "{message}");
        }
        // Nor is it taken for one under another name.
        let message = problem("[container]\nruntime = \"/usr/bin/oci\"\nkind = \"docker\"");
        assert!(message.contains("container.kind"), "{message}");
        assert!(message.contains("`crun` or `runc`"), "{message}");
        for program in ["crun", "runc"] {
            let text = format!("[container]\nruntime = \"/usr/bin/{program}\"");
            let runtime = Config::parse(&text, &at_home()).unwrap().container.unwrap();
            assert_eq!(runtime.kind.name(), program);
        }
    }
}
