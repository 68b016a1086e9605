//! The daemon's configuration: one TOML file, read whole or not at all.

use std::{
    fs::File,
    io::{self, Read},
    ops::RangeInclusive,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::Deserialize;

use crate::{
    policy::units::{Size, Span},
    request::ProfileName,
    sandbox::{BackendName, DEFAULT_UID_RANGE},
    trusted::{self, Untrusted},
};

/// The configuration as the file spells it. Every key may be left out; unknown keys are errors.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Written {
    backends: Backends,
    hook: Vec<HookEntry>,
    hooks: Hooks,
    paths: PathsEntry,
    profiles: Profiles,
    server: ServerEntry,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Backends {
    order: Vec<String>,
}

impl Default for Backends {
    fn default() -> Self {
        Self {
            order: vec![BackendName::Landlock.as_str().to_owned()],
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HookEntry {
    command: Vec<String>,
    #[serde(default)]
    profiles: Vec<String>,
    #[serde(default)]
    timeout: Option<Span>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Hooks {
    event_max: Size,
    max_concurrent: usize,
    max_queued: usize,
    spawners: usize,
    uid_range: [u32; 2],
    workspace_roots: Vec<PathBuf>,
}

impl Default for Hooks {
    fn default() -> Self {
        Self {
            event_max: Size(16 * 1024 * 1024),
            max_concurrent: 256,
            max_queued: 1024,
            spawners: 4,
            uid_range: [*DEFAULT_UID_RANGE.start(), *DEFAULT_UID_RANGE.end()],
            workspace_roots: Vec::new(),
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct PathsEntry {
    runtime: Option<PathBuf>,
    state: Option<PathBuf>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Profiles {
    dirs: Vec<PathBuf>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ServerEntry {
    allowed_uids: Vec<u32>,
    drain: Span,
    socket: Option<PathBuf>,
    socket_mode: String,
}

impl Default for ServerEntry {
    fn default() -> Self {
        let drain = Span(Duration::from_secs(10));
        Self {
            allowed_uids: Vec::new(),
            drain,
            socket: None,
            socket_mode: "0600".to_owned(),
        }
    }
}

/// A command that the operator says something about.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ConfiguredHook {
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
    /// Uids that may ask, besides the daemon's own.
    pub allowed_uids: Vec<u32>,
    /// The backends in order.
    pub backends: Vec<BackendName>,
    /// How long running hooks get at shutdown.
    pub drain: Duration,
    /// The largest event, bytes.
    pub event_bytes: usize,
    /// The file it was read from.
    pub file: Option<PathBuf>,
    /// What the operator says about commands.
    pub hooks: Vec<ConfiguredHook>,
    /// How many hooks run at once.
    pub max_concurrent: usize,
    /// How many requests wait.
    pub max_queued: usize,
    /// Directories with profiles of the operator's.
    pub profile_dirs: Vec<PathBuf>,
    /// Where scratch directories are made.
    pub runtime: PathBuf,
    /// Where the socket is; `None` where neither the file nor the surroundings say.
    pub socket: Option<PathBuf>,
    /// The socket's mode.
    pub socket_mode: u32,
    /// Threads that start hooks, for each set of filters.
    pub spawners: usize,
    /// Where allowlist and journal are.
    pub state: PathBuf,
    /// The uids of a root daemon's hooks.
    pub uid_range: RangeInclusive<u32>,
    /// Below which directories a workspace may lie.
    pub workspace_roots: Vec<PathBuf>,
}

/// What of the process's environment the configuration depends on, read once at start.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// `HOOKJAIL_ACCEPT_HOOKS` is `1`.
    pub accept_hooks: bool,
    /// `HOOKJAIL_ADDR`.
    pub address: Option<PathBuf>,
    /// `HOME`.
    pub home: Option<PathBuf>,
    /// Whether the effective user is root.
    pub root: bool,
    /// `XDG_CONFIG_HOME`.
    pub xdg_config: Option<PathBuf>,
    /// `XDG_RUNTIME_DIR`.
    pub xdg_runtime: Option<PathBuf>,
    /// `XDG_STATE_HOME`.
    pub xdg_state: Option<PathBuf>,
}

impl Surroundings {
    /// Reads the environment of this process.
    pub fn of_process() -> Self {
        let path = |name| {
            std::env::var_os(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        let absolute = |name| path(name).filter(|path| path.is_absolute());
        Self {
            accept_hooks: std::env::var("HOOKJAIL_ACCEPT_HOOKS")
                .is_ok_and(|value| value.trim() == "1"),
            address: path("HOOKJAIL_ADDR"),
            home: absolute("HOME"),
            root: nix::unistd::geteuid().is_root(),
            xdg_config: absolute("XDG_CONFIG_HOME"),
            xdg_runtime: absolute("XDG_RUNTIME_DIR"),
            xdg_state: absolute("XDG_STATE_HOME"),
        }
    }

    /// Returns where the configuration is looked for.
    pub fn config_file(&self) -> Option<PathBuf> {
        if self.root {
            return Some(PathBuf::from("/etc/hookjail/hookjail.toml"));
        }
        let base = self
            .xdg_config
            .clone()
            .or_else(|| Some(self.home.as_ref()?.join(".config")))?;
        Some(base.join("hookjail/hookjail.toml"))
    }

    /// Returns where a daemon listens by default: `HOOKJAIL_ADDR`, else the user's, else the system's.
    pub fn sockets(&self) -> Vec<PathBuf> {
        if let Some(address) = &self.address {
            let text = address.to_string_lossy();
            return vec![PathBuf::from(text.strip_prefix("unix:").unwrap_or(&text))];
        }
        let user = self
            .xdg_runtime
            .as_ref()
            .map(|runtime| runtime.join("hookjail/hookjail.sock"));
        user.into_iter()
            .chain([PathBuf::from(SYSTEM_SOCKET)])
            .collect()
    }

    fn socket(&self) -> Option<PathBuf> {
        if self.root {
            return Some(PathBuf::from(SYSTEM_SOCKET));
        }
        Some(self.xdg_runtime.as_ref()?.join("hookjail/hookjail.sock"))
    }

    fn state(&self) -> Result<PathBuf, ConfigProblem> {
        let user = |home: &PathBuf| home.join(".local/state");
        match (&self.xdg_state, &self.home) {
            _ if self.root => Ok(PathBuf::from("/var/lib/hookjail")),
            (Some(state), _) => Ok(state.join("hookjail")),
            (None, Some(home)) => Ok(user(home).join("hookjail")),
            (None, None) => Err(ConfigProblem::NoPlace {
                key: "paths.state",
                variable: "HOME",
            }),
        }
    }

    fn runtime(&self, state: &Path) -> PathBuf {
        match &self.xdg_runtime {
            _ if self.root => PathBuf::from("/run/hookjail"),
            Some(runtime) if runtime.is_dir() => runtime.join("hookjail"),
            Some(_) | None => state.join("run"),
        }
    }
}

const SYSTEM_SOCKET: &str = "/run/hookjail/hookjail.sock";

/// Loading the configuration failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot load the configuration `{path}`")]
pub struct ConfigError {
    path: PathBuf,
    #[source]
    cause: ConfigProblem,
}

/// What is wrong with a configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigProblem {
    /// A value is not acceptable.
    #[error("`{key}` {problem}")]
    Key {
        /// The key.
        key: &'static str,
        /// What is wrong and what would be right.
        problem: String,
    },
    /// There is no default for a path.
    #[error("`{key}` has no default here because `{variable}` is not set; set one of them")]
    NoPlace {
        /// The key.
        key: &'static str,
        /// The environment variable.
        variable: &'static str,
    },
    /// It cannot be read.
    #[error(transparent)]
    Read(#[from] io::Error),
    /// It is not TOML, or holds what is not known.
    #[error("{0}")]
    Syntax(String),
    /// Others could have changed it.
    #[error(transparent)]
    Untrusted(#[from] Untrusted),
}

impl Config {
    /// Loads a file; without one, the defaults.
    ///
    /// # Errors
    ///
    /// Fails whole: a file that others can write, an unknown key, a value out of range.
    pub fn load(path: Option<&Path>, surroundings: &Surroundings) -> Result<Self, ConfigError> {
        let shown = path.unwrap_or_else(|| Path::new("(defaults)")).to_owned();
        let read = || -> Result<Self, ConfigProblem> {
            let text = path.map(read).transpose()?.unwrap_or_default();
            let parsed = Self::parse(&text, surroundings)?;
            Ok(Self {
                file: path.map(Path::to_owned),
                ..parsed
            })
        };
        read().map_err(|cause| ConfigError { path: shown, cause })
    }

    /// Parses a configuration.
    ///
    /// # Errors
    ///
    /// Names the key that is wrong.
    pub fn parse(text: &str, surroundings: &Surroundings) -> Result<Self, ConfigProblem> {
        let deserializer = toml::Deserializer::parse(text)
            .map_err(|error| ConfigProblem::Syntax(error.to_string()))?;
        let written: Written = serde_path_to_error::deserialize(deserializer).map_err(|error| {
            let key = error.path().to_string();
            ConfigProblem::Syntax(format!(
                "`{key}`: {}",
                error.into_inner().to_string().trim_end()
            ))
        })?;
        let Written {
            backends,
            hook,
            hooks,
            paths,
            profiles,
            server,
        } = written;
        let key = |key, problem: String| ConfigProblem::Key { key, problem };

        let order = backends.order.iter().map(|name| {
            let unknown = || {
                key(
                    "backends.order",
                    format!("names `{name}`; backends are `landlock` and `noop`"),
                )
            };
            BackendName::parse(name).ok_or_else(unknown)
        });
        let backends = order.collect::<Result<Vec<_>, _>>()?;
        if backends.is_empty() {
            return Err(key(
                "backends.order",
                "is empty; name at least one backend".to_owned(),
            ));
        }
        let [first, last] = hooks.uid_range;
        if first == 0 || last < first || last == u32::MAX {
            return Err(key(
                "hooks.uid_range",
                format!("[{first}, {last}] is no range of uids without 0"),
            ));
        }
        if hooks.max_concurrent == 0 || hooks.max_concurrent > 16 * 1024 {
            return Err(key("hooks.max_concurrent", "must be 1 to 16384".to_owned()));
        }
        if hooks.spawners == 0 || hooks.spawners > 64 {
            return Err(key("hooks.spawners", "must be 1 to 64".to_owned()));
        }
        let socket_mode = match server.socket_mode.as_str() {
            "0600" => 0o600,
            "0660" => 0o660,
            other => {
                return Err(key(
                    "server.socket_mode",
                    format!("is `{other}`; it can be `0600` or `0660`"),
                ));
            }
        };
        let absolute = |name, path: PathBuf| match path.is_absolute() {
            true => Ok(path),
            false => Err(key(
                name,
                format!("`{}` is not an absolute path", path.display()),
            )),
        };
        let state = paths.state.map_or_else(
            || surroundings.state(),
            |path| absolute("paths.state", path),
        )?;
        let runtime = paths.runtime.map_or_else(
            || Ok(surroundings.runtime(&state)),
            |path| absolute("paths.runtime", path),
        )?;
        let socket = match server.socket {
            Some(path) => Some(absolute("server.socket", path)?),
            None => surroundings.socket(),
        };
        let roots = hooks
            .workspace_roots
            .into_iter()
            .map(|path| absolute("hooks.workspace_roots", path));
        let dirs = profiles
            .dirs
            .into_iter()
            .map(|path| absolute("profiles.dirs", path));
        let event_bytes = usize::try_from(hooks.event_max.0)
            .ok()
            .filter(|bytes| (1024..=256 * 1024 * 1024).contains(bytes))
            .ok_or_else(|| key("hooks.event_max", "must be 1KiB to 256MiB".to_owned()))?;
        Ok(Self {
            allowed_uids: server.allowed_uids,
            backends,
            drain: server.drain.0,
            event_bytes,
            file: None,
            hooks: hook.into_iter().map(configured).collect::<Result<_, _>>()?,
            max_concurrent: hooks.max_concurrent,
            max_queued: hooks.max_queued,
            profile_dirs: dirs.collect::<Result<_, _>>()?,
            runtime,
            socket,
            socket_mode,
            spawners: hooks.spawners,
            state,
            uid_range: first..=last,
            workspace_roots: roots.collect::<Result<_, _>>()?,
        })
    }

    /// Returns the allowlist's path.
    pub fn allowlist(&self) -> PathBuf {
        self.state.join("allowlist.json")
    }

    /// Returns the journal's directory.
    pub fn journal(&self) -> PathBuf {
        self.state.join("audit")
    }
}

fn configured(entry: HookEntry) -> Result<ConfiguredHook, ConfigProblem> {
    let key = |key, problem: String| ConfigProblem::Key { key, problem };
    if entry.command.first().is_none_or(String::is_empty) {
        return Err(key(
            "hook.command",
            "is empty; give program and arguments as a list".to_owned(),
        ));
    }
    let profiles = entry.profiles.iter().map(|name| {
        ProfileName::parse(name)
            .ok_or_else(|| key("hook.profiles", format!("`{name}` is no profile name")))
    });
    Ok(ConfiguredHook {
        profiles: profiles.collect::<Result<_, _>>()?,
        command: entry.command,
        timeout: entry.timeout.map(|span| span.0),
    })
}

fn read(path: &Path) -> Result<String, ConfigProblem> {
    let mut file = trusted::open(path, File::options().read(true))?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_home() -> Surroundings {
        let path = |text: &str| Some(PathBuf::from(text));
        Surroundings {
            home: path("/home/u"),
            xdg_runtime: path("/run/user/1"),
            ..Surroundings::default()
        }
    }

    fn problem(text: &str) -> String {
        Config::parse(text, &at_home()).unwrap_err().to_string()
    }

    #[test]
    fn it_works_without_a_configuration() {
        let config = Config::parse("", &at_home()).unwrap();
        assert_eq!(config.state, Path::new("/home/u/.local/state/hookjail"));
        assert_eq!(
            config.socket,
            Some(PathBuf::from("/run/user/1/hookjail/hookjail.sock"))
        );
        assert_eq!(config.backends, [BackendName::Landlock]);
    }

    #[test]
    fn root_uses_the_systems_places() {
        let config = Config::parse(
            "",
            &Surroundings {
                root: true,
                ..at_home()
            },
        )
        .unwrap();
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
            ("[server]\nsoket = \"/x\"", "soket"),
            ("[server]\nsocket_mode = \"0666\"", "server.socket_mode"),
            ("[server]\nsocket = \"x\"", "server.socket"),
            ("[backends]\norder = []", "backends.order"),
            ("[backends]\norder = [\"docker\"]", "backends.order"),
            ("[hooks]\nuid_range = [0, 10]", "hooks.uid_range"),
            ("[hooks]\nuid_range = [10, 9]", "hooks.uid_range"),
            ("[hooks]\nmax_concurrent = 0", "hooks.max_concurrent"),
            ("[hooks]\nevent_max = \"1GiB\"", "hooks.event_max"),
            ("[server]\ndrain = \"soon\"", "server.drain"),
            ("[[hook]]\ncommand = []", "hook.command"),
            (
                "[[hook]]\ncommand = [\"x\"]\nprofiles = [\"../x\"]",
                "hook.profiles",
            ),
        ] {
            let message = problem(text);
            assert!(message.contains(expected), "{text}: {message}");
        }
    }
}
