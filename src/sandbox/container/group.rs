//! Cgroup of one run (version 2): limits the memory and tasks of a whole container.
//!
//! The daemon creates the cgroup and moves the container's first process into it before sending the order, so that
//! limits do not depend on a runtime's configuration. Source: the kernel's `admin-guide/cgroup-v2.rst`.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use nix::{
    fcntl::{Flock, FlockArg},
    sys::statfs::{CGROUP2_SUPER_MAGIC, statfs},
};
use uuid::Uuid;

use crate::{
    policy::Limits,
    sandbox::{
        Evidence,
        container::{Absent, inside},
    },
    util::trusted_file::{self, Untrusted},
};

/// Controllers that a run's cgroup needs.
const CONTROLLERS: [&str; 2] = ["memory", "pids"];

/// Name prefix of run cgroups.
const PREFIX: &str = "hookjail-";

/// Number of retries of a cgroup's removal while processes in it end, and their interval.
const REMOVAL: (u32, Duration) = (50, Duration::from_millis(10));

/// Mount point at which runtimes expect the version 2 hierarchy.
const HIERARCHY: &str = "/sys/fs/cgroup";

/// Cgroup of one run. Dropping it kills its processes and removes it.
#[derive(Debug)]
pub(in crate::sandbox) struct Group {
    /// Held as long as the cgroup, so that no other daemon takes it for one left behind.
    _lock: Flock<File>,
    path: PathBuf,
    tasks: u64,
    memory: Option<u64>,
}

/// Enables the memory and task limits for cgroups below a parent.
///
/// # Errors
///
/// Names the missing condition: a cgroup of version 2 that other users cannot change, a controller, or the right to use it.
pub(in crate::sandbox) fn prepare(parent: &Path) -> Result<(), Absent> {
    let shown = parent.display();
    let absent = |why: String| Absent {
        fix: format!(
            "make `{shown}` a control group of version 2 that the daemon's user owns and no process is in, below one whose cgroup.subtree_control has `memory` and `pids`, or take `container.control_group` out"
        ),
        why,
    };
    let found = fs::metadata(parent).map_err(Untrusted::from);
    found
        .and_then(|found| trusted_file::check_own_or_roots(&found))
        .map_err(|error| {
            absent(format!(
                "the control group `{shown}` cannot be used: {error}"
            ))
        })?;
    if !statfs(parent).is_ok_and(|found| found.filesystem_type() == CGROUP2_SUPER_MAGIC) {
        return Err(absent(format!(
            "`{shown}` is no control group of version 2"
        )));
    }
    let lacking = |file: &str| -> Result<Vec<&str>, Absent> {
        let text = fs::read_to_string(parent.join(file))
            .map_err(|error| absent(format!("`{shown}/{file}` cannot be read: {error}")))?;
        let lacks = |name: &&str| !text.split_ascii_whitespace().any(|word| word == *name);
        Ok(CONTROLLERS.into_iter().filter(lacks).collect())
    };
    if lacking("cgroup.subtree_control")?.is_empty() {
        return Ok(());
    }
    let missing = lacking("cgroup.controllers")?;
    if !missing.is_empty() {
        return Err(absent(format!(
            "the control group `{shown}` cannot limit {}: cgroup.controllers lacks it",
            missing.join(" and ")
        )));
    }
    fs::write(parent.join("cgroup.subtree_control"), "+memory +pids").map_err(|error| {
        absent(format!(
            "memory and pids cannot be limited below `{shown}`: {error}"
        ))
    })
}

/// Removes the cgroups that killed daemons and their runtimes left.
///
/// A cgroup that cannot be removed is logged and left: it may be the own, unlocked cgroup of another daemon's runtime.
pub(in crate::sandbox) fn sweep(parent: &Path) {
    let look = lock(parent, FlockArg::LockExclusive)
        .and_then(|making| Ok((making, fs::read_dir(parent)?)));
    let (_making, entries) = match look {
        Ok(found) => found,
        Err(error) => {
            tracing::warn!(%error, path = %parent.display(), "no control groups of killed daemons can be looked for");
            return;
        }
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        if !name.as_encoded_bytes().starts_with(PREFIX.as_bytes()) {
            continue;
        }
        let path = entry.path();
        // A locked cgroup belongs to a live daemon.
        if lock(&path, FlockArg::LockExclusiveNonblock).is_ok()
            && let Err(error) = fs::remove_dir(&path)
        {
            tracing::warn!(%error, path = %path.display(), "control group that no daemon holds cannot be removed");
        }
    }
}

/// Returns the cgroup path that a runtime uses for a container of this id.
///
/// By it a later daemon finds the remains of a killed runtime. `None` where the runtime could not name one there.
pub(in crate::sandbox) fn of_runtime(parent: &Path, id: &str) -> Option<String> {
    let below = parent.strip_prefix(HIERARCHY).ok()?;
    Some(format!("/{}/{id}", below.to_str()?))
}

fn lock(group: &Path, how: FlockArg) -> io::Result<Flock<File>> {
    Flock::lock(File::open(group)?, how).map_err(|(_, errno)| errno.into())
}

impl Group {
    /// Makes a cgroup below a prepared one.
    ///
    /// # Errors
    ///
    /// Returns the error of making it or of setting a limit.
    pub(in crate::sandbox) fn make(parent: &Path, limits: &Limits) -> io::Result<Self> {
        let path = parent.join(format!("{PREFIX}{}", Uuid::now_v7().simple()));
        let lock = {
            // The parent's lock keeps `sweep` from removing a cgroup that is being created.
            let _making = lock(parent, FlockArg::LockExclusive)?;
            fs::create_dir(&path)?;
            lock(&path, FlockArg::LockExclusive)?
        };
        let group = Self {
            _lock: lock,
            memory: limits.memory,
            path,
            tasks: limits.tasks + inside::TASKS,
        };
        group.set("pids.max", &group.tasks.to_string())?;
        if let Some(bytes) = limits.memory {
            group.set("memory.max", &bytes.to_string())?;
            // All or none: a hook that continues without one of its processes could give a wrong answer.
            group.set("memory.oom.group", "1")?;
            match group.set("memory.swap.max", "0") {
                // A kernel without swap has nothing to limit.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                set => set?,
            }
        }
        Ok(group)
    }

    /// Moves a process into the cgroup, and verifies its membership and the limits.
    ///
    /// # Errors
    ///
    /// Names the first difference from the plan.
    pub(in crate::sandbox) fn admit(&self, pid: i32) -> Result<Vec<Evidence>, String> {
        let shown = self.path.display();
        self.set("cgroup.procs", &pid.to_string())
            .map_err(|error| format!("it cannot be put into `{shown}`: {error}"))?;
        let inside = self
            .get("cgroup.procs")
            .map_err(|error| format!("`{shown}/cgroup.procs` cannot be read: {error}"))?;
        if !inside.lines().any(|line| line == pid.to_string()) {
            return Err(format!("it is not in `{shown}`"));
        }
        let mut seen = Vec::new();
        let limits = [
            ("pids_max", "pids.max", Some(self.tasks)),
            ("memory_max", "memory.max", self.memory),
        ];
        for (check, file, planned) in limits {
            let Some(planned) = planned else { continue };
            let observed = self
                .get(file)
                .map_err(|error| format!("`{shown}/{file}` cannot be read: {error}"))?;
            // The kernel counts whole pages.
            let holds = observed.parse().is_ok_and(|limit: u64| limit <= planned);
            if !holds {
                return Err(format!(
                    "`{shown}/{file}` is {observed} instead of {planned}"
                ));
            }
            seen.push(Evidence { check, observed });
        }
        Ok(seen)
    }

    /// Returns whether the kernel killed a process in it at the memory limit.
    pub(in crate::sandbox) fn ran_out_of_memory(&self) -> bool {
        let events = self.get("memory.events").unwrap_or_default();
        let count = |line: &str| line.strip_prefix("oom_kill ")?.parse::<u64>().ok();
        events
            .lines()
            .find_map(count)
            .is_some_and(|count| count > 0)
    }

    fn get(&self, file: &str) -> io::Result<String> {
        let text = fs::read_to_string(self.path.join(file))?;
        Ok(text.trim_end().to_owned())
    }

    /// Writes a control file, never making one: the kernel makes those of a cgroup.
    fn set(&self, file: &str, value: &str) -> io::Result<()> {
        let mut file = File::options().write(true).open(self.path.join(file))?;
        io::Write::write_all(&mut file, value.as_bytes())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Older kernels have no such file; there the end of the container has killed all processes.
        let killed = self.set("cgroup.kill", "1");
        let (times, pause) = REMOVAL;
        for _ in 0..times {
            match fs::remove_dir(&self.path) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => thread::sleep(pause),
                Ok(()) => return,
                Err(error) => {
                    tracing::warn!(%error, path = %self.path.display(), "control group is left behind");
                    return;
                }
            }
        }
        tracing::warn!(path = %self.path.display(), ?killed, "control group has processes still, and is left behind");
    }
}

#[cfg(test)]
mod tests {
    use std::{fs::Permissions, os::unix::fs::PermissionsExt};

    use super::*;

    #[test]
    fn what_is_no_group_of_version_2_is_absent_with_what_to_do() {
        let directory = tempfile::tempdir().expect("a directory");
        let open = directory.path().join("open");
        fs::create_dir(&open).expect("it is made");
        fs::set_permissions(&open, Permissions::from_mode(0o777)).expect("it is opened");
        for (path, why) in [
            (
                directory.path().to_owned(),
                "is no control group of version 2",
            ),
            (open, "others can write it"),
            (
                directory.path().join("missing"),
                "No such file or directory",
            ),
        ] {
            let absent = prepare(&path).expect_err("it is not one");
            assert!(absent.why.contains(why), "{}", absent.why);
            assert!(absent.why.contains(path.to_str().expect("it is UTF-8")));
            assert!(
                absent.fix.contains("container.control_group"),
                "{}",
                absent.fix
            );
        }
    }

    #[test]
    fn a_runtime_is_told_of_a_group_where_it_looks_for_groups_alone() {
        let told = |parent: &str| of_runtime(Path::new(parent), "hookjail-1");
        assert_eq!(
            told("/sys/fs/cgroup/hooks").as_deref(),
            Some("/hooks/hookjail-1")
        );
        assert_eq!(told("/mnt/groups/hooks"), None);
    }
}
