//! Kills hooks still running after their daemon and its keeper were killed.
//!
//! The next daemon finds them by the recorded process groups, before it serves.
//!
//! A number alone proves nothing, as it may have been reused. So a process is killed only if all of these hold:
//!
//! - Its group was recorded since boot, in this pid namespace, in the same session.
//! - The process runs under the same uid.
//! - The group's first process is still the recorded one. Otherwise the process has filters and `no_new_privs`, as all of
//!   a confined hook's have, or names that daemon's directory in its environment.

use std::{
    collections::BTreeMap,
    fs, io,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::Path,
    thread,
    time::{Duration, Instant},
};

use hookjail_sys::{NOTES_BEGIN, NotedGroup};

use crate::Status;
use hookjail_sys as sys;

/// Time limit for the end of killed processes.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// Flag of a task that exits (`linux/sched.h`), and never returns to user mode.
const PF_EXITING: u32 = 0x4;

/// Polling interval while killed processes end.
const LOOK: Duration = Duration::from_millis(5);

/// Time limit between a child's start and the record of its group, nanoseconds.
const UNTIL_NOTED: u64 = 10_000_000_000;

/// Nanoseconds per tick of start times in `/proc`: 100 ticks a second on every Linux.
const TICK: u64 = 10_000_000;

/// A process according to `/proc/PID/stat`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Found {
    group: i32,
    /// Whether the process executes nothing any more.
    ///
    /// Includes the first process of a PID namespace that waits, in its exit, until the namespace's processes are
    /// reaped. A parent outside of the namespace may take long for that.
    pub(crate) is_over: bool,
    pub(crate) pid: i32,
    session: i32,
    /// Start time, in ticks since boot.
    started: u64,
}

impl Found {
    /// Reads a process; `None` where there is none.
    fn read(pid: i32) -> Option<Self> {
        Self::parse(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Parses a process's line; `None` where it is none.
    fn parse(pid: i32, stat: &str) -> Option<Self> {
        // The process name may contain anything, so the fields begin after the last parenthesis.
        let (_, rest) = stat.rsplit_once(") ")?;
        let mut fields = rest.split(' ');
        let has_ended = matches!(fields.next()?, "Z" | "X");
        let _parent = fields.next()?;
        let (group, session) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        let flags: u32 = fields.nth(2)?.parse().ok()?;
        let started = fields.nth(12)?.parse().ok()?;
        let has_memory = fields.next()? != "0";
        Some(Self {
            group,
            is_over: has_ended || (flags & PF_EXITING != 0 && !has_memory),
            pid,
            session,
            started,
        })
    }

    /// Kills the process, if it is still the one that was read.
    pub(crate) fn kill(self) -> io::Result<()> {
        let gone = |error: &io::Error| error.raw_os_error() == Some(libc::ESRCH);
        let process: OwnedFd = match sys::process(self.pid) {
            Err(error) if gone(&error) => return Ok(()),
            process => process?,
        };
        // The pidfd stays bound to one process, even if its number is reused.
        if Self::read(self.pid) != Some(self) {
            return Ok(());
        }
        match sys::kill(process) {
            Err(error) if gone(&error) => Ok(()),
            killed => killed,
        }
    }
}

/// Returns all processes.
pub(crate) fn processes() -> io::Result<Vec<Found>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let pid = name.to_str().and_then(|name| name.parse().ok());
        found.extend(pid.and_then(Found::read));
    }
    Ok(found)
}

/// Returns the scope of process ids: this boot, the namespace, and the hooks' session.
pub(crate) fn groups_of(_directory: &Path) -> io::Result<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let namespace = fs::read_link("/proc/self/ns/pid")?;
    let daemon = Found::read(std::process::id().cast_signed()).ok_or(io::ErrorKind::NotFound)?;
    Ok(format!(
        "{} {} {}\n",
        boot.trim(),
        namespace.display(),
        daemon.session
    ))
}

/// Kills remaining processes of recorded groups, and returns their number. `directory` is the dead daemon's.
///
/// # Errors
///
/// Returns the error of reading or killing, and `TimedOut` where a process does not end.
pub(crate) fn kill_left(directory: &Path, groups: &Path) -> io::Result<usize> {
    let noted = match fs::read(groups) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        noted => noted?,
    };
    let Some(left) = Left::read(directory, &noted)? else {
        return Ok(0);
    };
    let begun = Instant::now();
    let mut killed = BTreeMap::new();
    loop {
        let found = processes()?;
        let of_hooks: Vec<_> = left.processes(&found).collect();
        if of_hooks.is_empty() {
            return Ok(killed.len());
        }
        if begun.elapsed() > KILL_TIMEOUT {
            let pids: Vec<_> = of_hooks.iter().map(|it| it.pid.to_string()).collect();
            let message = format!("killed, and does not end: {}", pids.join(", "));
            return Err(io::Error::new(io::ErrorKind::TimedOut, message));
        }
        for process in of_hooks {
            process.kill()?;
            killed.insert((process.pid, process.started), ());
        }
        thread::sleep(LOOK);
    }
}

/// Records of a daemon that is gone.
struct Left<'a> {
    directory: &'a Path,
    groups: BTreeMap<i32, NotedGroup>,
    session: i32,
}

impl<'a> Left<'a> {
    /// Parses the records; `None` where their scope is not the current one.
    fn read(directory: &'a Path, noted: &[u8]) -> io::Result<Option<Self>> {
        let Some((head, groups)) = noted.split_at_checked(NOTES_BEGIN) else {
            return Ok(None);
        };
        let scope = head.split(|byte| *byte == b'\n').next();
        let scope = scope.map(String::from_utf8_lossy).unwrap_or_default();
        let current = groups_of(directory)?;
        let without_session = |text: &str| text.rsplit_once(' ').map(|(rest, _)| rest.to_owned());
        let session = scope.rsplit_once(' ').and_then(|(_, it)| it.parse().ok());
        let Some(session) =
            session.filter(|_| without_session(&scope) == without_session(&current))
        else {
            return Ok(None);
        };
        let groups: BTreeMap<_, _> = groups
            .as_chunks()
            .0
            .iter()
            .map(NotedGroup::read)
            // 0 and 1 are never groups of hooks.
            .filter(|noted| noted.group > 1)
            .map(|noted| (noted.group, noted))
            .collect();
        Ok((!groups.is_empty()).then_some(Self {
            directory,
            groups,
            session,
        }))
    }

    /// Returns the processes of these groups that have not ended.
    fn processes<'b>(&self, found: &'b [Found]) -> impl Iterator<Item = &'b Found> {
        let firsts: BTreeMap<i32, &Found> = found
            .iter()
            .filter(|process| self.groups.contains_key(&process.pid))
            .map(|process| (process.pid, process))
            .collect();
        found.iter().filter(move |process| {
            let Some(noted) = self.groups.get(&process.group) else {
                return false;
            };
            if process.is_over
                || process.session != self.session
                || (process.started + 1) * TICK + UNTIL_NOTED < noted.since
            {
                return false;
            }
            let is_first = firsts.get(&noted.group).map(|first| {
                let started = first.started * TICK;
                started <= noted.since && started + UNTIL_NOTED >= noted.since
            });
            match is_first {
                // The number was reused, and the group with it.
                Some(false) => false,
                Some(true) => self.has_uid(process, noted).is_some(),
                None => self.has_uid(process, noted).is_some_and(|status| {
                    if noted.filtered == 1 {
                        status.is_filtered() && status.no_new_privs
                    } else {
                        self.is_named_by(process.pid)
                    }
                }),
            }
        })
    }

    fn has_uid(&self, process: &Found, noted: &NotedGroup) -> Option<Status> {
        let status = Status::read_process(process.pid).ok()?;
        (status.uids[0] == noted.uid).then_some(status)
    }

    /// Returns whether a process's environment refers to the daemon's directory.
    fn is_named_by(&self, pid: i32) -> bool {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let directory = self.directory.as_os_str().as_bytes();
        environment
            .split(|byte| *byte == 0)
            .filter_map(|variable| variable.splitn(2, |byte| *byte == b'=').nth(1))
            .filter_map(|value| value.strip_prefix(directory))
            .any(|rest| rest.starts_with(b"/"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a line as the kernel writes it, of a process in a state, with these flags and this size of memory.
    fn line(state: &str, flags: u32, memory: u64) -> String {
        let before = format!("7 (a ) name) {state} 1 7 7 0 -1 {flags}");
        let numbers = ["0"; 12].join(" ");
        format!("{before} {numbers} 4242 {memory} 100 0\n")
    }

    #[test]
    fn a_process_is_over_where_it_executes_nothing_any_more() {
        let is_over = |state, flags, memory| {
            let found = Found::parse(7, &line(state, flags, memory)).unwrap();
            assert_eq!((found.group, found.session, found.started), (7, 7, 4242));
            found.is_over
        };
        assert!(is_over("Z", PF_EXITING, 0));
        // The first process of a pid namespace, which waits until others have reaped the rest.
        assert!(is_over("S", PF_EXITING, 0));
        assert!(!is_over("S", 0, 4096));
        assert!(!is_over("R", PF_EXITING, 4096));
        // A thread of the kernel.
        assert!(!is_over("S", 0x20_8040, 0));
        assert_eq!(Found::parse(7, "7 (name) S 1"), None);
    }
}
