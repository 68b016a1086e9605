//! The part of the environment that the configuration depends on.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    ffi::OsString,
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use nix::unistd::{AccessFlags, access};

use hookjail_base::util::user_paths::{UserPaths, absolute_variable, variable};
use hookjail_contract::{Mode, OwnConsent, hook_file::Switches};
use hookjail_policy::References;

use super::ConfigProblem;

/// Returns the runtimes' own means of consent, by contract.
fn own_consents() -> impl Iterator<Item = (&'static str, OwnConsent)> {
    let modes = Mode::ALL.into_iter();
    modes.filter_map(|mode| Some((mode.facts().contract, mode.facts().own_consent?)))
}

/// The part of the process's environment that the configuration depends on, read once at start.
#[derive(Clone, Debug, Default)]
pub struct ProcessEnv {
    /// `HOOKJAIL_ACCEPT_HOOKS` is `1`.
    pub accept_hooks: bool,
    /// The contracts whose runtimes' own variables accept every command.
    pub own_accepts: BTreeSet<&'static str>,
    /// The allowlists that runtimes' own variables name, by contract.
    pub own_allowlists: BTreeMap<&'static str, PathBuf>,
    /// The directories of `PATH`.
    pub path: Vec<PathBuf>,
    /// The paths of the user's daemon and of its files.
    pub paths: UserPaths,
    /// `DBUS_SESSION_BUS_ADDRESS`.
    pub session_bus: Option<OsString>,
    /// The switches of the systems whose files are read.
    pub switches: Switches,
    /// `TMPDIR`, or where temporary files usually are.
    pub temporary: PathBuf,
}

impl ProcessEnv {
    /// Reads the environment of this process.
    pub fn read(paths: UserPaths) -> Self {
        let is_one = |name| env::var(name).is_ok_and(|value| value.trim() == "1");
        Self {
            accept_hooks: is_one("HOOKJAIL_ACCEPT_HOOKS"),
            own_accepts: own_consents()
                .filter(|(_, consent)| is_one(consent.accept))
                .map(|(contract, _)| contract)
                .collect(),
            own_allowlists: own_consents()
                .filter_map(|(contract, consent)| {
                    Some((contract, absolute_variable(consent.allowlist)?))
                })
                .collect(),
            path: env::var_os("PATH").map_or_else(Vec::new, |path| {
                let directories = env::split_paths(&path);
                directories.filter(|it| it.is_absolute()).collect()
            }),
            paths,
            session_bus: variable("DBUS_SESSION_BUS_ADDRESS").map(PathBuf::into_os_string),
            switches: Switches::read(|name| env::var(name).ok()),
            temporary: env::temp_dir(),
        }
    }

    /// Returns a path that nothing has yet, for the directory of a private daemon: where no other user can replace it.
    ///
    /// # Errors
    ///
    /// Fails where there is no such place.
    pub(crate) fn private_directory(&self) -> io::Result<PathBuf> {
        let places = self.paths.xdg_runtime.iter().chain([&self.temporary]);
        let place = places.clone().find(|place| is_own_to_use(place));
        let place = place.ok_or_else(|| {
            let tried: Vec<_> = places.map(|it| format!("`{}`", it.display())).collect();
            io::Error::other(format!(
                "there is no directory for the socket: this user cannot write in {}, or others can replace its files; set TMPDIR",
                tried.join(" and in ")
            ))
        })?;
        // Short, as the path of a socket has 107 bytes at most. A name that another user takes first is an error, as the directory is
        // created new.
        let (_, random) = uuid::Uuid::now_v7().as_u64_pair();
        Ok(place.join(format!("hookjail-{random:016x}")))
    }

    /// Returns the values of `${home}` and `${cache}`. A root daemon's hooks run as other users and have neither.
    pub fn references(&self) -> References {
        if self.paths.root {
            return References::default();
        }
        let usual = || Some(self.paths.home.as_ref()?.join(".cache"));
        let caches = self.paths.xdg_cache.clone().or_else(usual);
        References {
            cache: caches.map(|caches| References::cache_in(&caches)),
            home: self.paths.home.clone(),
        }
    }

    /// Returns the runtimes' own allowlists, by contract.
    pub(super) fn own_allowlists(&self) -> BTreeMap<&'static str, PathBuf> {
        let path = |contract: &str, consent: OwnConsent| {
            let usual = || Some(self.paths.home.as_ref()?.join(consent.usual));
            self.own_allowlists.get(contract).cloned().or_else(usual)
        };
        own_consents()
            .filter_map(|(contract, consent)| Some((contract, path(contract, consent)?)))
            .collect()
    }

    /// Returns the default state directory.
    ///
    /// # Errors
    ///
    /// Fails without a home.
    pub(super) fn state(&self) -> Result<PathBuf, ConfigProblem> {
        self.paths.state().ok_or(ConfigProblem::NoPlace {
            key: "paths.state",
            variable: "HOME",
        })
    }

    pub(super) fn runtime(&self, state: &Path) -> PathBuf {
        match &self.paths.xdg_runtime {
            _ if self.paths.root => PathBuf::from("/run/hookjail"),
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
    let (own_uid, is_sticky) = (nix::unistd::geteuid().as_raw(), found.mode() & 0o1000 != 0);
    let is_safe = is_sticky || found.mode() & 0o022 == 0;
    let usable = AccessFlags::W_OK | AccessFlags::X_OK;
    directory.is_absolute()
        && found.is_dir()
        && [own_uid, 0].contains(&found.uid())
        && is_safe
        && access(directory, usable).is_ok()
}

#[cfg(test)]
mod tests {
    use std::{fs::Permissions, os::unix::fs::PermissionsExt};

    use super::*;

    #[test]
    fn a_private_daemon_has_its_directory_where_no_other_user_can_replace_it() {
        let place = tempfile::tempdir().unwrap();
        let (runtime, temporary) = (place.path().join("runtime"), place.path().join("tmp"));
        let environment = ProcessEnv {
            temporary: temporary.clone(),
            paths: UserPaths {
                xdg_runtime: Some(runtime.clone()),
                ..UserPaths::default()
            },
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
}
