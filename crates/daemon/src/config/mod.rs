//! The daemon's configuration: one TOML file, read whole or not at all.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read},
    ops::{Deref, DerefMut},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use schemars::{Schema, SchemaGenerator};
use toml::Value;

use hookjail_base::{
    model::{ProfileName, Users},
    notices::Means,
    redact::secret::Registration,
    util::{
        keyed_toml,
        trusted_file::{self, Untrusted},
        units::Span,
    },
};
use hookjail_contract::hook_file::Switches;
use hookjail_policy::{References, WorkspaceRoots, ways::Ways};
use hookjail_sandbox::Runtime;

pub use self::{
    candidate::{COMPARED, Candidate},
    env::ProcessEnv,
    managed::{APPLYING, DIRECTORY as MANAGED},
    source::ConfigSource,
    view::{Origin, Setting},
};
pub(crate) use self::{
    file::TracesEntry,
    network::{Access, Network, Tls},
};
use self::{
    file::{ConfigFile, NetworkEntry},
    managed::{Managed, Trust},
};

use crate::hooks::{
    Registered,
    http::{Posting, decide},
    lists::Listing,
    load::{self, HooksFile, LoadError, Loaded},
};

mod audit;
mod backends;
mod candidate;
mod container;
mod egress;
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
mod value;
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

/// The configuration: its file's sections, which it can be used as, and what environment and system add.
#[derive(Clone, Debug)]
pub struct Config {
    /// The profile whose runs reach any host, with `hookjail learn --network`. No configuration file has one.
    pub any_host: Option<ProfileName>,
    /// Users who may request runs, besides the daemon's own user.
    pub callers: Users,
    /// Operator's settings of commands.
    pub(crate) commands: Vec<ConfiguredHook>,
    /// Runtime that creates containers.
    pub(crate) container_runtime: Option<Runtime>,
    /// The file it was read from.
    pub file: Option<PathBuf>,
    /// The directory of hooks' files that last, where it is not the usual one below `paths.state`.
    pub hook_state: Option<PathBuf>,
    /// The files with more hooks, in the order in which they register.
    pub(crate) hooks_files: Vec<HooksFile>,
    /// Where clients of other hosts connect; `None`: nowhere.
    pub(crate) listener: Option<Network>,
    /// Which commands of hooks run, by the agent's mode, where their runtime has lists of them.
    pub listing: Listing,
    /// How notices of hooks are shown.
    pub(crate) notices: Means,
    /// Users that may answer for the operator, besides the daemon's own; `None`: no user, and not the daemon's own.
    pub(crate) operators: Option<Users>,
    /// The runtimes' own allowlists, by contract; each counts for hooks of its contract.
    pub own_allowlists: BTreeMap<&'static str, PathBuf>,
    /// The URLs to which hooks may be posted.
    pub(crate) posting: Posting,
    /// The version of the administrator's files; `None` = they have none.
    pub policy_version: Option<Arc<str>>,
    /// Names and texts of profiles without a file, which `hookjail learn` tries. No configuration file has any.
    pub proposed_profiles: Vec<(String, String)>,
    /// Users who may read the records of everybody's requests, besides the daemon's own user.
    pub(crate) readers: Users,
    /// The values of `${home}` and `${cache}` in profiles.
    pub references: References,
    /// The hooks that run whenever their points come.
    pub registered: Vec<Registered>,
    /// The hooks of the administrator's files, which run before all others and cannot be disabled.
    pub required: Vec<Registered>,
    /// The secrets that are taken out of texts.
    pub(crate) secrets: Vec<Registration>,
    /// The sections of the file, with paths and sockets in the place of those that it does not have.
    sections: ConfigFile,
    /// The ways to the hosts of profiles.
    pub ways: Arc<Ways>,
    /// Below which directories a workspace may lie.
    pub workspace_roots: WorkspaceRoots,
}

impl Deref for Config {
    type Target = ConfigFile;

    fn deref(&self) -> &ConfigFile {
        &self.sections
    }
}

impl DerefMut for Config {
    fn deref_mut(&mut self) -> &mut ConfigFile {
        &mut self.sections
    }
}

/// Keys that take effect at a restart only, and sections whose keys do.
const FIXED: [&str; 28] = [
    "audit",
    "backends.order",
    "backends.profiles",
    "consent.wait",
    "container",
    "hooks.cgroup",
    "hooks.event_max",
    "hooks.max_concurrent",
    "hooks.max_hook_driven_turns",
    "hooks.max_queued",
    "hooks.on_hook_turn_limit",
    "hooks.run_as",
    "hooks.run_as_profiles",
    "hooks.spawners",
    "hooks.uid_range",
    "metrics.listen",
    "network.listen",
    "network.plaintext",
    "notify",
    "paths.runtime",
    "paths.state",
    "server.admin_socket",
    "server.drain",
    "server.max_bytes_in_flight",
    "server.max_connections",
    "server.socket",
    "server.socket_mode",
    "traces",
];

/// Keys of these sections that a running daemon follows.
const FOLLOWED: [&str; 3] = ["audit.capture", "audit.capture_max", "audit.readers"];

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
        key: String,
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
    fn key(key: &str, problem: impl Into<String>) -> Self {
        Self::Key {
            key: key.to_owned(),
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
    /// Returns required hooks, then, unless hooks are disabled, configured ones and those of named files.
    ///
    /// # Errors
    ///
    /// Fails where a file cannot be read; the error names file, entry and field.
    pub fn all_hooks(&self, switches: &Switches) -> Result<Loaded, LoadError> {
        if self.hooks.disabled {
            return Ok(Loaded {
                disabled: vec!["`hooks.disabled` is true".to_owned()],
                hooks: self.required.clone(),
                ..Loaded::default()
            });
        }
        let mut loaded = load::load(&self.hooks_files, switches)?;
        decide(&mut loaded, &self.posting, |name| std::env::var_os(name));
        let configured = self.required.iter().chain(&self.registered).cloned();
        loaded.hooks.splice(0..0, configured);
        Ok(loaded)
    }

    /// Loads a file; without one, the defaults.
    ///
    /// # Errors
    ///
    /// Fails for a file that other users can write, an unknown key, or a value out of range.
    pub(crate) fn load(path: Option<&Path>, environment: &ProcessEnv) -> Result<Self, ConfigError> {
        reading(path, |text, managed| {
            Ok(Self {
                file: path.map(Path::to_owned),
                ..Self::narrowed(text, managed, environment)?
            })
        })
    }

    /// Makes it the configuration of a daemon that serves its own user alone, at one socket, and lets no hook outlast it.
    fn private_at(self, socket: &Path) -> Self {
        let mut sections = self.sections;
        sections.metrics.listen = None;
        sections.network = NetworkEntry::default();
        sections.server.admin_socket = None;
        sections.server.drain = Span(Duration::ZERO);
        sections.server.socket = Some(socket.to_owned());
        sections.server.socket_mode = 0o600;
        Self {
            callers: Users::default(),
            listener: None,
            operators: self.operators.map(|_| Users::default()),
            readers: Users::default(),
            sections,
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
            return Self::from_file(file, environment);
        };
        let table = managed.narrow(read_table(text)?)?;
        let required = managed.required.iter().map(|(file, entry)| {
            let shown = file.display();
            let read = self::hook::required(file, entry.clone());
            read.map_err(|problem| problem.with(&format!(" (in `{shown}`)")))
        });
        Ok(Self {
            policy_version: managed.version().map(Into::into),
            required: required.collect::<Result<_, _>>()?,
            ..Self::from_file(deserialize(&table.to_string())?, environment)?
        })
    }

    /// Parses a configuration.
    ///
    /// # Errors
    ///
    /// Names the key that is wrong.
    pub fn parse(text: &str, environment: &ProcessEnv) -> Result<Self, ConfigProblem> {
        Self::from_file(deserialize(text)?, environment)
    }

    fn from_file(mut file: ConfigFile, environment: &ProcessEnv) -> Result<Self, ConfigProblem> {
        let secrets = self::secret::read(file.secret.clone())?;
        let backends = file.backends.by_profile();
        let container_runtime = self::container::read(file.container.clone(), &backends)?;
        if !file.consent.accept_hooks
            && (environment.accept_hooks || !environment.own_accepts.is_empty())
        {
            let problem = "is false, and a variable of the environment accepts hooks; unset HOOKJAIL_ACCEPT_HOOKS, and runtimes' variables like it";
            return Err(ConfigProblem::key("consent.accept_hooks", problem));
        }
        places::complete(&mut file, environment)?;
        let mut commands = Vec::new();
        let mut registered = Vec::new();
        for (index, entry) in file.hook.iter().enumerate() {
            let (statement, hook) = self::hook::read(index, entry.clone())?;
            commands.extend(statement);
            registered.extend(hook);
        }
        let hooks_files = file.hooks_file.iter().cloned().map(self::hook::file);
        let hooks_files = hooks_files.collect::<Result<_, _>>()?;
        let operators = users::read("consent.operators", &file.consent.operators)?;
        let config = Self {
            any_host: None,
            callers: match &file.server.callers {
                Some(entries) => users::read("server.callers", entries)?,
                None => users::usual(environment.paths.root),
            },
            commands,
            container_runtime,
            file: None,
            hook_state: None,
            hooks_files,
            listener: self::network::read(file.network.clone())?,
            listing: file.lists.listing(environment.switches.listed()),
            notices: self::notify::means(&file.notify, environment),
            operators: file.consent.runtime.then_some(operators),
            own_allowlists: environment.own_allowlists(),
            posting: self::http::read(file.http.clone(), file.egress.allow.as_deref(), &secrets)?,
            policy_version: None,
            proposed_profiles: Vec::new(),
            readers: users::read("audit.readers", &file.audit.readers)?,
            references: environment.references(),
            registered,
            required: Vec::new(),
            ways: Arc::new(self::egress::read(&file.egress, &secrets)?),
            secrets,
            workspace_roots: places::workspace_roots(&file.hooks, environment),
            sections: file,
        };
        let least = MIN_BYTES_IN_FLIGHT.max(config.hooks.event_bytes() * EVENTS_IN_FLIGHT);
        if config.bytes_in_flight() < least {
            let problem = "must be 16MiB at least, and four times `hooks.event_max`";
            return Err(ConfigProblem::key("server.max_bytes_in_flight", problem));
        }
        Ok(config)
    }

    /// Names the differing keys that take effect only after a restart.
    ///
    /// # Errors
    ///
    /// Fails where a value cannot be written as a file has it.
    pub(crate) fn needs_restart(&self, other: &Self) -> Result<Vec<&'static str>, ConfigProblem> {
        let (before, after) = (view::in_force(self)?, view::in_force(other)?);
        let differs = |name: &&str| {
            let counts = |(key, _): &(&String, &Value)| {
                let section = key.split('.').next();
                (key == name || section == Some(name)) && !FOLLOWED.contains(&key.as_str())
            };
            !before.iter().filter(counts).eq(after.iter().filter(counts))
        };
        Ok(FIXED.into_iter().filter(differs).collect())
    }

    /// Returns the most memory for requests in work, for messages and kept output, bytes.
    pub(crate) fn bytes_in_flight(&self) -> usize {
        match self.server.max_bytes_in_flight {
            Some(size) => size.to_usize(),
            None => BYTES_IN_FLIGHT.max(self.hooks.event_bytes() * EVENTS_IN_FLIGHT),
        }
    }

    /// Returns the allowlist's path.
    pub fn allowlist(&self) -> PathBuf {
        self.paths.state.join("allowlist.json")
    }

    /// Returns the directory of settings as they were before `install` changed them.
    pub fn former_settings(&self) -> PathBuf {
        self.paths.state.join("settings")
    }

    /// Returns the journal's directory.
    pub fn journal(&self) -> PathBuf {
        self.paths.state.join("audit")
    }
}

fn deserialize(text: &str) -> Result<ConfigFile, ConfigProblem> {
    keyed_toml::read(text).map_err(|error| match error.as_invalid() {
        Some((key, problem)) => ConfigProblem::key(key, problem),
        None => ConfigProblem::Syntax(error.to_string().trim_end().to_owned()),
    })
}

fn read_table(text: &str) -> Result<toml::Table, ConfigProblem> {
    text.parse()
        .map_err(|error: toml::de::Error| ConfigProblem::Syntax(error.to_string()))
}

/// Returns the default path of a daemon's admin socket: beside its socket.
pub fn admin_beside(socket: &Path) -> PathBuf {
    let mut name = socket.file_stem().unwrap_or_default().to_owned();
    name.push("-admin");
    let admin = socket.with_file_name(name);
    match socket.extension() {
        Some(extension) => admin.with_extension(extension),
        None => admin,
    }
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
            Err(format!("is `{word}`; use {others} or {last}"))
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

/// Makes something of a file, if there is one, and of the administrator's.
fn reading<T>(
    path: Option<&Path>,
    make: impl FnOnce(&str, Option<&Managed>) -> Result<T, ConfigProblem>,
) -> Result<T, ConfigError> {
    let managed = Managed::load(Path::new(MANAGED), Trust::Root)?;
    let text = path.map_or_else(|| Ok(String::new()), read);
    let made = text.and_then(|text| make(&text, managed.as_ref()));
    made.map_err(|cause| ConfigError {
        path: path.unwrap_or(Path::new("(defaults)")).to_owned(),
        cause,
    })
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
        let none = WorkspaceRoots {
            only_named: true,
            ..WorkspaceRoots::default()
        };
        assert_eq!(roots("[hooks]\nworkspace_roots = []", &at_home()), none);
        let named = WorkspaceRoots {
            named: vec!["/srv".into()],
            only_named: true,
            ..WorkspaceRoots::default()
        };
        let srv = "[hooks]\nworkspace_roots = [\"/srv\"]";
        assert_eq!(roots(srv, &at_home()), named);
        let root = at_home_of_root();
        assert_eq!(roots("", &root), WorkspaceRoots::default());
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
        let hooks = Config::parse("", &at_home()).unwrap().hooks.max_concurrent;

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
        let listen = |text: &str| Config::parse(text, &at_home()).unwrap().metrics.listen;
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
            assert!(problem.contains("use `127.0.0.1:9464`"), "{problem}");
            assert!(problem.contains("a local proxy or sidecar"), "{problem}");
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
        assert_eq!(
            config.paths.state,
            Path::new("/home/u/.local/state/hookjail")
        );
        assert_eq!(
            config.server.socket,
            Some(PathBuf::from("/run/user/1/hookjail/hookjail.sock"))
        );
        assert_eq!(config.backends.order, [BackendName::LANDLOCK]);
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
        assert_eq!(before.needs_restart(&before).unwrap(), [""; 0]);
        assert_eq!(
            before.needs_restart(&after).unwrap(),
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
        assert_eq!(config.paths.state, Path::new("/var/lib/hookjail"));
        assert_eq!(
            config.server.socket,
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
            ("[hooks]\ncalls_per_minute = 0", "hooks.calls_per_minute"),
            ("[hooks]\ncpu_per_minute = 0", "hooks.cpu_per_minute"),
            (
                "[hooks]\njournal_per_minute = 1023",
                "hooks.journal_per_minute",
            ),
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
                "must name its hooks",
            ),
            (
                "[[hooks_file]]\ncontract = \"reyn\"\npath = \"/x\"\nrule = [{ name = \"x\" }]",
                "must set `profile`, `timeout`",
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
            let runtime = Config::parse(&text, &at_home())
                .unwrap()
                .container_runtime
                .unwrap();
            assert_eq!(runtime.kind.name(), program);
        }
    }
}
