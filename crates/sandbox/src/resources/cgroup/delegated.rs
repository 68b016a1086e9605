//! Finds the cgroup that the service manager delegated to this daemon, and moves the daemon out of the way of its runs.
//!
//! The kernel lets no process be in a cgroup whose children have controllers. So the daemon moves into a child of its own.

use std::{
    fs, io,
    path::{Component, Path, PathBuf},
    process,
};

use nix::sys::statfs::{CGROUP2_SUPER_MAGIC, statfs};

use super::{group::set, pool::HIERARCHY};
use crate::Absent;
use hookjail_sys as sys;

/// Name of the daemon's own cgroup below the delegated one, which is that of `DelegateSubgroup=` in our documents.
const DAEMON: &str = "daemon";

/// Largest number of attempts to empty the delegated cgroup.
const ATTEMPTS: u32 = 10;

/// Returns the cgroup that was delegated to this daemon, in which no process is any more.
///
/// # Errors
///
/// Names what is missing, and the remedy.
pub(super) fn delegated() -> Result<PathBuf, Absent> {
    let cgroup = own_cgroup().map_err(|why| Absent {
        fix: "run the daemon where the cgroups of version 2 are mounted at `/sys/fs/cgroup`, or name one with `hooks.cgroup`".to_owned(),
        why,
    })?;
    let Some(top) = top(&cgroup, is_delegated) else {
        let cgroup = cgroup.display();
        return Err(Absent {
            fix: "set `Delegate=memory pids cpu` for the daemon's service, or name a cgroup with `hooks.cgroup`".to_owned(),
            why: format!("no cgroup is delegated to the daemon, which is in `{cgroup}`"),
        });
    };
    let shown = top.display();
    let absent = |why: String, fix: &str| Absent {
        fix: fix.to_owned(),
        why: format!("the cgroup `{shown}` is delegated to the daemon and cannot be used: {why}"),
    };
    let writable = "let the daemon's service write it: take `ProtectControlGroups=yes` out, or name it in `ReadWritePaths=`";
    let daemon = top.join(DAEMON);
    for _ in 0..ATTEMPTS {
        let processes = fs::read_to_string(top.join("cgroup.procs"));
        let processes = processes.map_err(|error| absent(error.to_string(), writable))?;
        let processes: Vec<i32> = processes
            .lines()
            .filter_map(|pid| pid.parse().ok())
            .collect();
        if processes.is_empty() {
            return Ok(top);
        }
        // 0 stands for processes of another pid namespace.
        if let Some(other) = processes.iter().find(|&&pid| !is_own(pid)) {
            let why = format!("process {other} is in it, which is not the daemon's");
            return Err(absent(why, "run the daemon alone in its service"));
        }
        match fs::create_dir(&daemon) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(absent(error.to_string(), writable));
            }
            Ok(()) | Err(_) => {}
        }
        for pid in processes {
            match set(&daemon, "cgroup.procs", &pid.to_string()) {
                // The process has ended.
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                moved => moved.map_err(|error| absent(error.to_string(), writable))?,
            }
        }
    }
    Err(absent(
        "processes in it do not move".to_owned(),
        "restart the daemon",
    ))
}

/// Returns the path of this process's own cgroup, or what is missing.
fn own_cgroup() -> Result<PathBuf, String> {
    let unread = |error: io::Error| format!("the daemon's own cgroup cannot be read: {error}");
    let listed = fs::read_to_string("/proc/self/cgroup").map_err(unread)?;
    let below =
        below(&listed).ok_or("the daemon is in no cgroup of version 2 that is seen here")?;
    let is_mounted = |path: &Path| {
        statfs(path).is_ok_and(|found| found.filesystem_type() == CGROUP2_SUPER_MAGIC)
    };
    let hierarchy = Path::new(HIERARCHY);
    // Where controllers are in version 1, systemd mounts version 2 there.
    let places = [hierarchy.to_owned(), hierarchy.join("unified")];
    let mut mounted = places.into_iter().filter(|place| is_mounted(place));
    let place = mounted.next();
    let place = place.ok_or("no cgroups of version 2 are mounted at `/sys/fs/cgroup`")?;
    Ok(place.join(below))
}

/// Returns the path of a process's cgroup of version 2 below the mount point. `None` where it is outside of this cgroup namespace.
fn below(listed: &str) -> Option<&Path> {
    let mut lines = listed.lines();
    let path = Path::new(lines.find_map(|line| line.strip_prefix("0::/"))?);
    let is_inside = path
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    is_inside.then_some(path)
}

/// Returns the delegated cgroup of a process that is in it or in the daemon's child of it.
fn top(cgroup: &Path, is_delegated: impl Fn(&Path) -> bool) -> Option<PathBuf> {
    let parent = cgroup.parent().filter(|_| cgroup.ends_with(DAEMON));
    let mut candidates = parent.into_iter().chain([cgroup]);
    candidates
        .find(|path| is_delegated(path))
        .map(Path::to_owned)
}

/// Returns whether the service manager marked a cgroup as delegated.
///
/// systemd marks those of `Delegate=`: <https://systemd.io/CGROUP_DELEGATION>. The owner of a cgroup is no sign: root owns all,
/// and a user's manager makes those of all its services as that user.
fn is_delegated(cgroup: &Path) -> bool {
    let names = [c"trusted.delegate", c"user.delegate"];
    names.iter().any(|name| sys::is_marked(cgroup, name))
}

/// Returns whether a process is this one or its child.
fn is_own(pid: i32) -> bool {
    let daemon = process::id();
    let parent = || {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let mut lines = status.lines();
        let parent = lines.find_map(|line| line.strip_prefix("PPid:"))?;
        parent.trim().parse::<u32>().ok()
    };
    u32::try_from(pid) == Ok(daemon) || parent() == Some(daemon)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_cgroup_is_that_of_version_2_and_inside_of_the_namespace() {
        let hybrid = "4:memory:/a\n1:name=systemd:/b\n0::/system.slice/hookjail.service\n";
        let found = Path::new("system.slice/hookjail.service");
        assert_eq!(below(hybrid), Some(found));
        assert_eq!(below("0::/\n"), Some(Path::new("")));
        for none in ["4:memory:/a\n", "", "0::/../outside\n", "0::relative\n"] {
            assert_eq!(below(none), None, "{none}");
        }
    }

    #[test]
    fn the_delegated_cgroup_is_the_own_one_or_the_one_above_the_daemons_child() {
        let service = Path::new("/c/hookjail.service");
        let child = service.join(DAEMON);
        let of_service = |path: &Path| path == service;
        assert_eq!(top(service, of_service).as_deref(), Some(service));
        assert_eq!(top(&child, of_service).as_deref(), Some(service));
        assert_eq!(top(&child, |path| path == child), Some(child.clone()));
        assert_eq!(top(&service.join("other"), of_service), None);
        assert_eq!(top(service, |_| false), None);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "this child is no hook")]
    fn this_process_and_its_children_are_its_own() {
        assert!(is_own(i32::try_from(process::id()).unwrap()));
        let mut child = process::Command::new("/bin/cat")
            .stdin(process::Stdio::piped())
            .spawn()
            .unwrap();
        assert!(is_own(i32::try_from(child.id()).unwrap()));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!is_own(0) && !is_own(1));
    }
}
