//! The part of the environment that the configuration depends on.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use nix::unistd::{AccessFlags, access};

use hookjail_contract::{Mode, OwnConsent, hook_file::Switches};
use hookjail_policy::{References, environment::DEPTH};

use super::ConfigProblem;

const SYSTEM_SOCKET: &str = "/run/hookjail/hookjail.sock";

/// Returns the runtimes' own means of consent, by contract.
fn own_consents() -> impl Iterator<Item = (&'static str, OwnConsent)> {
    let modes = Mode::ALL.into_iter();
    modes.filter_map(|mode| Some((mode.contract_name(), mode.own_consent()?)))
}

/// The part of the process's environment that the configuration depends on, read once at start.
#[derive(Clone, Debug, Default)]
pub struct ProcessEnv {
    /// `HOOKJAIL_ACCEPT_HOOKS` is `1`.
    pub accept_hooks: bool,
    /// `HOOKJAIL_ADDR`.
    pub address: Option<PathBuf>,
    /// `HOOKJAIL_DEPTH`: 0 outside of every hook, the largest number where it cannot be read.
    pub depth: u32,
    /// `HOME`.
    pub home: Option<PathBuf>,
    /// The contracts whose runtimes' own variables accept every command.
    pub own_accepts: BTreeSet<&'static str>,
    /// The allowlists that runtimes' own variables name, by contract.
    pub own_allowlists: BTreeMap<&'static str, PathBuf>,
    /// Whether the effective user is root.
    pub root: bool,
    /// The directories of `PATH`.
    pub path: Vec<PathBuf>,
    /// `DBUS_SESSION_BUS_ADDRESS`.
    pub session_bus: Option<OsString>,
    /// The switches of the systems whose files are read.
    pub switches: Switches,
    /// `TMPDIR`, or where temporary files usually are.
    pub temporary: PathBuf,
    /// `XDG_CACHE_HOME`.
    pub xdg_cache: Option<PathBuf>,
    /// `XDG_CONFIG_HOME`.
    pub xdg_config: Option<PathBuf>,
    /// `XDG_RUNTIME_DIR`, or where it usually is.
    pub xdg_runtime: Option<PathBuf>,
    /// `XDG_STATE_HOME`.
    pub xdg_state: Option<PathBuf>,
}

/// Returns systemd's runtime directory of this user, for environments that do not name it.
///
/// It exists while the user is logged in, and belongs to that user alone.
fn usual_runtime(users: &str) -> Option<PathBuf> {
    let uid = nix::unistd::geteuid().as_raw();
    let path = Path::new(users).join(uid.to_string());
    let found = std::fs::symlink_metadata(&path).ok()?;
    (found.is_dir() && found.uid() == uid && found.mode() & 0o022 == 0).then_some(path)
}

impl ProcessEnv {
    /// Reads the environment of this process.
    pub fn read() -> Self {
        let path = |name| {
            std::env::var_os(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        let absolute = |name| path(name).as_deref().and_then(absolute);
        let is_one = |name| std::env::var(name).is_ok_and(|value| value.trim() == "1");
        Self {
            accept_hooks: is_one("HOOKJAIL_ACCEPT_HOOKS"),
            address: path("HOOKJAIL_ADDR"),
            depth: path(DEPTH).map_or(0, |depth| {
                let depth = depth.to_str().and_then(|depth| depth.parse().ok());
                depth.unwrap_or(u32::MAX)
            }),
            home: absolute("HOME"),
            own_accepts: own_consents()
                .filter(|(_, own)| is_one(own.accept))
                .map(|(contract, _)| contract)
                .collect(),
            own_allowlists: own_consents()
                .filter_map(|(contract, own)| Some((contract, absolute(own.allowlist)?)))
                .collect(),
            path: std::env::var_os("PATH").map_or_else(Vec::new, |path| {
                let directories = std::env::split_paths(&path);
                directories.filter(|it| it.is_absolute()).collect()
            }),
            root: nix::unistd::geteuid().is_root(),
            session_bus: path("DBUS_SESSION_BUS_ADDRESS").map(PathBuf::into_os_string),
            switches: Switches::of(|name| std::env::var(name).ok()),
            temporary: std::env::temp_dir(),
            xdg_cache: absolute("XDG_CACHE_HOME"),
            xdg_config: absolute("XDG_CONFIG_HOME"),
            xdg_runtime: absolute("XDG_RUNTIME_DIR").or_else(|| usual_runtime("/run/user")),
            xdg_state: absolute("XDG_STATE_HOME"),
        }
    }

    /// Returns the default path of the configuration.
    pub(crate) fn config_file(&self) -> Option<PathBuf> {
        if self.root {
            return Some(PathBuf::from("/etc/hookjail/hookjail.toml"));
        }
        let base = self
            .xdg_config
            .clone()
            .or_else(|| Some(self.home.as_ref()?.join(".config")))?;
        Some(base.join("hookjail/hookjail.toml"))
    }

    /// Returns the default sockets: `HOOKJAIL_ADDR`, else the user's, else the system's.
    ///
    /// Root has only the system's: `XDG_RUNTIME_DIR` may be that of the user before `su`.
    pub(crate) fn sockets(&self) -> Vec<PathBuf> {
        if let Some(address) = &self.address {
            let text = address.to_string_lossy();
            return vec![PathBuf::from(text.strip_prefix("unix:").unwrap_or(&text))];
        }
        let user = self.socket().filter(|_| !self.root);
        user.into_iter()
            .chain([PathBuf::from(SYSTEM_SOCKET)])
            .collect()
    }

    /// Returns the default socket of this user's daemon.
    pub(super) fn socket(&self) -> Option<PathBuf> {
        if self.root {
            return Some(PathBuf::from(SYSTEM_SOCKET));
        }
        let directory = match &self.xdg_runtime {
            Some(runtime) => runtime.join("hookjail"),
            // In a container, for example, no user logs in.
            None => self.users_state()?.join("run"),
        };
        Some(directory.join("hookjail.sock"))
    }

    /// Returns a path that nothing has yet, for the directory of a private daemon: where no other user can replace it.
    ///
    /// # Errors
    ///
    /// Fails where there is no such place.
    pub(crate) fn private_directory(&self) -> io::Result<PathBuf> {
        let places = self.xdg_runtime.iter().chain([&self.temporary]);
        let place = places.clone().find(|place| is_own_to_use(place));
        let place = place.ok_or_else(|| {
            let tried: Vec<_> = places.map(|it| format!("`{}`", it.display())).collect();
            io::Error::other(format!(
                "there is no directory for the socket: this user cannot write in {}, or others could replace what is in it; set TMPDIR",
                tried.join(" and in ")
            ))
        })?;
        // Short: the path of a socket has 107 bytes at most. Nobody can take the name first and be believed: the directory is made new.
        let (_, random) = uuid::Uuid::now_v7().as_u64_pair();
        Ok(place.join(format!("hookjail-{random:016x}")))
    }

    /// Returns the state directory of a user's daemon; `None` for root.
    pub(crate) fn users_state(&self) -> Option<PathBuf> {
        self.state().ok().filter(|_| !self.root)
    }

    pub(super) fn state(&self) -> Result<PathBuf, ConfigProblem> {
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

    /// Returns the spellings of the home in which workspaces may lie; none for root.
    pub(super) fn homes(&self) -> Vec<PathBuf> {
        match self.root {
            true => Vec::new(),
            false => self.own_homes(),
        }
    }

    /// Returns the spellings of the user's home.
    pub(crate) fn own_homes(&self) -> Vec<PathBuf> {
        let Some(home) = &self.home else {
            return Vec::new();
        };
        let mut homes = vec![home.clone()];
        // A working directory has the canonical spelling where a link leads to the home.
        homes.extend(home.canonicalize().ok().filter(|it| it != home));
        homes
    }

    /// Returns the values of `${home}` and `${cache}`. A root daemon's hooks run as other users and have neither.
    pub(crate) fn references(&self) -> References {
        if self.root {
            return References::default();
        }
        let usual = || Some(self.home.as_ref()?.join(".cache"));
        let caches = self.xdg_cache.clone().or_else(usual);
        References {
            cache: caches.map(|caches| References::cache_in(&caches)),
            home: self.home.clone(),
        }
    }

    /// Returns the runtimes' own allowlists, by contract.
    pub(super) fn own_allowlists(&self) -> BTreeMap<&'static str, PathBuf> {
        let path = |contract: &str, own: OwnConsent| {
            let usual = || Some(self.home.as_ref()?.join(own.usual));
            self.own_allowlists.get(contract).cloned().or_else(usual)
        };
        own_consents()
            .filter_map(|(contract, own)| Some((contract, path(contract, own)?)))
            .collect()
    }

    pub(super) fn runtime(&self, state: &Path) -> PathBuf {
        match &self.xdg_runtime {
            _ if self.root => PathBuf::from("/run/hookjail"),
            Some(runtime) if runtime.is_dir() => runtime.join("hookjail"),
            Some(_) | None => state.join("run"),
        }
    }
}

/// Returns whether this user can make files in a directory that only this user and root can replace.
fn is_own_to_use(directory: &Path) -> bool {
    let Ok(found) = std::fs::metadata(directory) else {
        return false;
    };
    let (own, is_sticky) = (nix::unistd::geteuid().as_raw(), found.mode() & 0o1000 != 0);
    let is_safe = is_sticky || found.mode() & 0o022 == 0;
    let usable = AccessFlags::W_OK | AccessFlags::X_OK;
    directory.is_absolute()
        && found.is_dir()
        && [own, 0].contains(&found.uid())
        && is_safe
        && access(directory, usable).is_ok()
}

/// Normalises an absolute path, such as one with a slash at its end. `None` for a relative one.
fn absolute(path: &Path) -> Option<PathBuf> {
    path.is_absolute().then(|| path.components().collect())
}

#[cfg(test)]
mod tests {
    use std::{fs::Permissions, os::unix::fs::PermissionsExt};

    use super::*;

    #[test]
    fn a_runtime_directory_that_nobody_names_is_the_users_own_or_none() {
        let users = tempfile::tempdir().unwrap();
        let users = users.path().to_str().unwrap();
        let own = Path::new(users).join(nix::unistd::geteuid().to_string());
        assert_eq!(usual_runtime(users), None);
        std::fs::create_dir(&own).unwrap();
        for (mode, expected) in [(0o700, Some(&own)), (0o770, None), (0o702, None)] {
            std::fs::set_permissions(&own, Permissions::from_mode(mode)).unwrap();
            assert_eq!(usual_runtime(users).as_ref(), expected, "{mode:o}");
        }
        std::fs::remove_dir(&own).unwrap();
        std::os::unix::fs::symlink("/", &own).unwrap();
        assert_eq!(usual_runtime(users), None);
    }

    #[test]
    fn a_private_daemon_has_its_directory_where_no_other_user_can_replace_it() {
        let place = tempfile::tempdir().unwrap();
        let (runtime, temporary) = (place.path().join("runtime"), place.path().join("tmp"));
        let environment = ProcessEnv {
            temporary: temporary.clone(),
            xdg_runtime: Some(runtime.clone()),
            ..ProcessEnv::default()
        };
        let parent = || {
            let directory = environment.private_directory().ok()?;
            Some(directory.parent()?.to_owned())
        };
        assert_eq!(parent(), None);
        for directory in [&temporary, &runtime] {
            std::fs::create_dir(directory).unwrap();
        }
        let mode = |path: &Path, mode| {
            std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        };
        for (of_runtime, of_temporary, expected) in [
            (0o700, 0o1777, Some(&runtime)),
            (0o770, 0o1777, Some(&temporary)),
            (0o770, 0o700, Some(&temporary)),
            (0o702, 0o777, None),
        ] {
            mode(&runtime, of_runtime);
            mode(&temporary, of_temporary);
            assert_eq!(
                parent().as_ref(),
                expected,
                "{of_runtime:o} {of_temporary:o}"
            );
        }
        mode(&temporary, 0o700);
        let two = [(); 2].map(|()| environment.private_directory().unwrap());
        assert_ne!(two[0], two[1]);
    }

    #[test]
    fn a_directory_of_the_user_is_absolute_and_ends_without_a_slash() {
        let home = |text: &str| absolute(Path::new(text)).map(PathBuf::into_os_string);
        for spelled in ["/home/ada", "/home/ada/", "/home//ada/.", "//home/ada"] {
            assert_eq!(home(spelled), Some("/home/ada".into()), "{spelled}");
        }
        assert_eq!(home("home/ada"), None);
    }

    #[test]
    fn root_does_not_look_for_a_daemon_where_a_user_may_listen() {
        let user = ProcessEnv {
            xdg_runtime: Some("/run/user/1000".into()),
            ..ProcessEnv::default()
        };
        let own = PathBuf::from("/run/user/1000/hookjail/hookjail.sock");
        let system = PathBuf::from(SYSTEM_SOCKET);
        assert_eq!(user.sockets(), [own, system.clone()]);
        let root = ProcessEnv { root: true, ..user };
        assert_eq!(root.sockets(), [system]);
    }
}
