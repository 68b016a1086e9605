//! The paths of a user's daemon and of its files, as the environment of a process names them.

use std::{
    env,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use nix::unistd::geteuid;

/// The socket of the system's daemon.
const SYSTEM_SOCKET: &str = "/run/hookjail/hookjail.sock";

/// The variables that name a daemon, the home and the directories of the XDG specification.
#[derive(Clone, Debug, Default)]
pub struct UserPaths {
    /// `HOOKJAIL_ADDR`.
    pub address: Option<PathBuf>,
    /// `HOME`.
    pub home: Option<PathBuf>,
    /// Whether the effective user is root.
    pub root: bool,
    /// `XDG_CACHE_HOME`.
    pub xdg_cache: Option<PathBuf>,
    /// `XDG_CONFIG_HOME`.
    pub xdg_config: Option<PathBuf>,
    /// `XDG_RUNTIME_DIR`, or where it usually is.
    pub xdg_runtime: Option<PathBuf>,
    /// `XDG_STATE_HOME`.
    pub xdg_state: Option<PathBuf>,
}

impl UserPaths {
    /// Reads the environment of this process.
    pub fn read() -> Self {
        Self {
            address: variable("HOOKJAIL_ADDR"),
            home: absolute_variable("HOME"),
            root: geteuid().is_root(),
            xdg_cache: absolute_variable("XDG_CACHE_HOME"),
            xdg_config: absolute_variable("XDG_CONFIG_HOME"),
            xdg_runtime: absolute_variable("XDG_RUNTIME_DIR")
                .or_else(|| usual_runtime("/run/user")),
            xdg_state: absolute_variable("XDG_STATE_HOME"),
        }
    }

    /// Returns the default path of the configuration.
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

    /// Returns the default directory of profiles, which lies next to the default configuration.
    pub fn profiles(&self) -> Option<PathBuf> {
        Some(self.config_file()?.with_file_name("profiles"))
    }

    /// Returns the default sockets: `HOOKJAIL_ADDR`, else the user's, else the system's.
    ///
    /// Root has only the system's: `XDG_RUNTIME_DIR` may be that of the user before `su`.
    pub fn sockets(&self) -> Vec<PathBuf> {
        if let Some(address) = &self.address {
            let text = address.to_string_lossy();
            return vec![PathBuf::from(text.strip_prefix("unix:").unwrap_or(&text))];
        }
        let user = self.socket().filter(|_| !self.root);
        user.into_iter()
            .chain([PathBuf::from(SYSTEM_SOCKET)])
            .collect()
    }

    /// Returns the sockets of the daemon that is this user's own: `HOOKJAIL_ADDR`, else the user's; the system's is root's own.
    pub fn own_sockets(&self) -> Vec<PathBuf> {
        match self.address {
            Some(_) => self.sockets(),
            None => self.socket().into_iter().collect(),
        }
    }

    /// Returns the default socket of this user's daemon.
    pub fn socket(&self) -> Option<PathBuf> {
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

    /// Returns the state directory of a user's daemon; `None` for root.
    pub fn users_state(&self) -> Option<PathBuf> {
        self.state().filter(|_| !self.root)
    }

    /// Returns the default state directory; `None` without a home.
    pub fn state(&self) -> Option<PathBuf> {
        if self.root {
            return Some(PathBuf::from("/var/lib/hookjail"));
        }
        let usual = || Some(self.home.as_ref()?.join(".local/state"));
        Some(self.xdg_state.clone().or_else(usual)?.join("hookjail"))
    }

    /// Returns the spellings of the home in which workspaces may lie; none for root.
    pub fn homes(&self) -> Vec<PathBuf> {
        match self.root {
            true => Vec::new(),
            false => self.own_homes(),
        }
    }

    /// Returns the spellings of the user's home.
    pub fn own_homes(&self) -> Vec<PathBuf> {
        let Some(home) = &self.home else {
            return Vec::new();
        };
        let mut homes = vec![home.clone()];
        // A working directory has the canonical spelling where a link leads to the home.
        homes.extend(home.canonicalize().ok().filter(|it| it != home));
        homes
    }
}

/// Returns the value of a variable that is set and not empty.
pub fn variable(name: &str) -> Option<PathBuf> {
    let value = env::var_os(name).filter(|value| !value.is_empty());
    value.map(PathBuf::from)
}

/// Returns the absolute path that a variable names, normalised; `None` for a relative one.
pub fn absolute_variable(name: &str) -> Option<PathBuf> {
    absolute(&variable(name)?)
}

/// Returns systemd's runtime directory of this user, for environments that do not name it.
///
/// The directory exists while the user is logged in, and belongs to that user alone.
fn usual_runtime(users: &str) -> Option<PathBuf> {
    let uid = geteuid().as_raw();
    let path = Path::new(users).join(uid.to_string());
    let found = std::fs::symlink_metadata(&path).ok()?;
    (found.is_dir() && found.uid() == uid && found.mode() & 0o022 == 0).then_some(path)
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
        let own_directory = Path::new(users).join(nix::unistd::geteuid().to_string());
        assert_eq!(usual_runtime(users), None);
        std::fs::create_dir(&own_directory).unwrap();
        for (mode, expected) in [(0o700, Some(&own_directory)), (0o770, None), (0o702, None)] {
            std::fs::set_permissions(&own_directory, Permissions::from_mode(mode)).unwrap();
            assert_eq!(usual_runtime(users).as_ref(), expected, "{mode:o}");
        }
        std::fs::remove_dir(&own_directory).unwrap();
        std::os::unix::fs::symlink("/", &own_directory).unwrap();
        assert_eq!(usual_runtime(users), None);
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
        let user = UserPaths {
            xdg_runtime: Some("/run/user/1000".into()),
            ..UserPaths::default()
        };
        let own_socket = PathBuf::from("/run/user/1000/hookjail/hookjail.sock");
        let system = PathBuf::from(SYSTEM_SOCKET);
        assert_eq!(user.sockets(), [own_socket.clone(), system.clone()]);
        // Consents of `hookjail install` are in the user's own list, which the system's daemon does not read.
        assert_eq!(user.own_sockets(), [own_socket]);
        let root = UserPaths { root: true, ..user };
        assert_eq!(root.sockets(), [&*system]);
        assert_eq!(root.own_sockets(), [&*system]);
        let address = Some("/srv/sock".into());
        let named = UserPaths { address, ..root };
        assert_eq!(named.own_sockets(), [PathBuf::from("/srv/sock")]);
    }
}
