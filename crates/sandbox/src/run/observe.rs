//! Observes a hook's syscalls for `hookjail learn`: calls that reach files by path or look for them, create processes or
//! sockets, or change metadata, which Landlock does not see.
//!
//! Observations decide nothing. A path is read from the calling task's memory, which the task could change before the
//! kernel reads it (TOCTOU). A profile may be proposed from observations, but no access allowed by them.

use std::{
    collections::HashSet,
    ffi::OsString,
    fs::{self, File},
    io::{self, Read},
    os::unix::{ffi::OsStringExt, fs::FileExt},
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use hookjail_policy::explain::{FileKind, Operation, Target, Use};
use hookjail_sys::Notification;

use super::connection::{Connection, Connections};
use crate::seccomp::syscalls::nr;

/// Length limit of a path in the kernel, bytes.
const LONGEST: usize = 4096;

/// Limit on different observations of a hook; beyond it the observation is void.
const MOST: usize = 1 << 16;

/// Number of nested interpreters that the kernel follows.
const INTERPRETERS: usize = 5;

/// An operation that a hook made or tried.
#[derive(Clone, Debug)]
pub enum Seen {
    /// Connected to a host by the relay, or tried to.
    Connection(Connection),
    /// Looked at an existing path, without opening it.
    Look(PathBuf),
    /// Changed modes, owners, times or extended attributes.
    Metadata,
    /// Opened a missing file so that the kernel makes it; one that exists would do as well.
    OpenedMissing(PathBuf),
    /// Used a path.
    Path(Box<Use>),
    /// Made a process.
    Process,
    /// Made a socket to speak to other hosts.
    Socket,
}

/// Records the operations of hooks.
#[derive(Debug, Default)]
pub struct Observer {
    /// Whether some hook's filters report the observed calls.
    attended: AtomicBool,
    /// Whether a hook's memory could not be read, or the limit was exceeded.
    blind: AtomicBool,
    seen: Mutex<Notebook>,
}

#[derive(Debug, Default)]
struct Notebook {
    known: HashSet<(Operation, PathBuf, PathBuf)>,
    looked: HashSet<PathBuf>,
    opened: HashSet<PathBuf>,
    /// Process groups whose first process executes a program other than this one. Earlier calls belong to the set-up, and
    /// children of a self-test execute nothing.
    released: HashSet<i32>,
    seen: Vec<Seen>,
}

impl Observer {
    /// Returns new observations, each once; `None` where nothing can be observed here.
    pub fn take(&self) -> Option<Vec<Seen>> {
        let can_see = self.attended.load(Ordering::Acquire) && !self.blind.load(Ordering::Acquire);
        let mut notebook = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = std::mem::take(&mut *notebook).seen;
        can_see.then_some(seen)
    }

    /// Records the connections of a run that is over.
    pub(crate) fn connected(&self, connections: &Connections) {
        let seen = connections.described.iter().cloned().map(Seen::Connection);
        let mut notebook = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        notebook.seen.extend(seen);
        if connections.more > 0 {
            self.blind.store(true, Ordering::Release);
        }
    }

    pub(crate) fn attended(&self) {
        self.attended.store(true, Ordering::Release);
    }

    /// Records a waiting call. `still_waits` checks afterwards that the memory read was that task's.
    pub(crate) fn note(
        &self,
        group: i32,
        notification: &Notification,
        still_waits: impl FnOnce() -> bool,
    ) {
        let seen = look(notification);
        if !still_waits() {
            return;
        }
        let mut notebook = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if !notebook.released.contains(&group) {
            let program = |task: &str| fs::read_link(format!("/proc/{task}/exe")).ok();
            if program(&notification.task.to_string()) == program("self") {
                return;
            }
            notebook.released.insert(group);
        }
        let Ok(seen) = seen else {
            self.blind.store(true, Ordering::Release);
            return;
        };
        for seen in seen {
            let is_new = match &seen {
                Seen::Connection(_) => true,
                Seen::Metadata | Seen::Process | Seen::Socket => notebook
                    .seen
                    .iter()
                    .all(|known| std::mem::discriminant(known) != std::mem::discriminant(&seen)),
                Seen::Look(path) => notebook.looked.insert(path.clone()),
                Seen::OpenedMissing(path) => notebook.opened.insert(path.clone()),
                Seen::Path(done) => {
                    let destination = done.destination.as_ref().map(Target::path);
                    notebook.known.insert((
                        done.operation,
                        done.given.clone(),
                        destination.unwrap_or(Path::new("")).to_owned(),
                    ))
                }
            };
            if is_new && notebook.seen.len() >= MOST {
                self.blind.store(true, Ordering::Release);
            } else if is_new {
                notebook.seen.push(seen);
            }
        }
    }
}

/// A task whose call waits.
struct Task(i32);

impl Task {
    /// Reads a path; `None` where there is none at this address.
    fn path(&self, address: u64) -> io::Result<Option<PathBuf>> {
        let memory = File::open(format!("/proc/{}/mem", self.0))?;
        let mut bytes = vec![0; LONGEST];
        // A string may end just before an unmapped page.
        let Ok(read) = memory.read_at(&mut bytes, address) else {
            return Ok(None);
        };
        let end = bytes.iter().take(read).position(|byte| *byte == 0);
        Ok(end.map(|end| {
            bytes.truncate(end);
            PathBuf::from(OsString::from_vec(bytes))
        }))
    }

    /// Returns the directory that a path is relative to.
    fn base(&self, directory: i32) -> Option<PathBuf> {
        let link = match directory {
            libc::AT_FDCWD => format!("/proc/{}/cwd", self.0),
            fd => format!("/proc/{}/fd/{fd}", self.0),
        };
        fs::read_link(link).ok().filter(|path| path.is_absolute())
    }

    /// Reads a path and makes it absolute; an empty one is the directory itself.
    fn absolute(&self, directory: i32, address: u64) -> io::Result<Option<PathBuf>> {
        let Some(path) = self.path(address)? else {
            return Ok(None);
        };
        if path.is_absolute() {
            return Ok(Some(path));
        }
        let base = self.base(directory);
        Ok(base.map(|base| match path.as_os_str().is_empty() {
            true => base,
            false => base.join(path),
        }))
    }
}

fn look(notification: &Notification) -> io::Result<Vec<Seen>> {
    let task = Task(notification.task);
    let argument = |index: usize| {
        notification
            .arguments
            .get(index)
            .copied()
            .unwrap_or_default()
    };
    // The kernel takes the lower half of an `int`.
    let int = |index: usize| (argument(index) & 0xffff_ffff) as u32;
    let fd = |index: usize| int(index).cast_signed();
    let working_dir = libc::AT_FDCWD;
    let one = |operation, path: io::Result<Option<PathBuf>>| {
        Ok(path?.map_or_else(Vec::new, |path| done(operation, path)))
    };
    let open = |directory, path, flags: u32| -> io::Result<Vec<Seen>> {
        let path = task.absolute(directory, path)?;
        Ok(path.map_or_else(Vec::new, |path| opened(path, flags.cast_signed())))
    };
    let two = |operation, from: (i32, u64), target: (i32, u64)| -> io::Result<Vec<Seen>> {
        let from = task.absolute(from.0, from.1)?;
        let target = task.absolute(target.0, target.1)?;
        Ok(from
            .zip(target)
            .map_or_else(Vec::new, |(from, target)| moved(operation, from, &target)))
    };
    let is = |bits: libc::c_int, index: usize| int(index).cast_signed() & bits == bits;
    match notification.number {
        nr::clone if is(libc::CLONE_THREAD, 0) => Ok(Vec::new()),
        nr::clone | nr::fork | nr::vfork => Ok(vec![Seen::Process]),
        nr::access | nr::chdir | nr::lstat | nr::stat => {
            Ok(looked(task.absolute(working_dir, argument(0))?))
        }
        nr::faccessat | nr::faccessat2 | nr::newfstatat | nr::statx => {
            Ok(looked(task.absolute(fd(0), argument(1))?))
        }
        nr::creat => open(
            working_dir,
            argument(0),
            (libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC).cast_unsigned(),
        ),
        nr::execve => Ok(task
            .absolute(working_dir, argument(0))?
            .map_or_else(Vec::new, executed)),
        nr::execveat => Ok(task
            .absolute(fd(0), argument(1))?
            .map_or_else(Vec::new, executed)),
        nr::link => two(
            Operation::Link,
            (working_dir, argument(0)),
            (working_dir, argument(1)),
        ),
        nr::linkat => two(Operation::Link, (fd(0), argument(1)), (fd(2), argument(3))),
        nr::mkdir => one(Operation::Create, task.absolute(working_dir, argument(0))),
        nr::mkdirat => one(Operation::Create, task.absolute(fd(0), argument(1))),
        nr::open => open(working_dir, argument(0), int(1)),
        nr::openat => open(fd(0), argument(1), int(2)),
        nr::rename => two(
            Operation::Rename,
            (working_dir, argument(0)),
            (working_dir, argument(1)),
        ),
        nr::renameat | nr::renameat2 => two(
            Operation::Rename,
            (fd(0), argument(1)),
            (fd(2), argument(3)),
        ),
        nr::socket => Ok(match fd(0) {
            libc::AF_INET | libc::AF_INET6 => vec![Seen::Socket],
            _ => Vec::new(),
        }),
        nr::symlink => one(Operation::Create, task.absolute(working_dir, argument(1))),
        nr::symlinkat => one(Operation::Create, task.absolute(fd(1), argument(2))),
        nr::truncate => one(Operation::Write, task.absolute(working_dir, argument(0))),
        nr::rmdir | nr::unlink => one(Operation::Remove, task.absolute(working_dir, argument(0))),
        nr::unlinkat => one(Operation::Remove, task.absolute(fd(0), argument(1))),
        // All other observed calls change metadata.
        _ => Ok(vec![Seen::Metadata]),
    }
}

/// Returns the look at a path; none if nothing is there, which the kernel reports in any case.
fn looked(path: Option<PathBuf>) -> Vec<Seen> {
    let existing = path.filter(|path| fs::symlink_metadata(path).is_ok());
    existing.map(Seen::Look).into_iter().collect()
}

/// Returns the uses of files by an operation; none if the file does not exist, which the kernel reports in any case.
fn done(operation: Operation, path: PathBuf) -> Vec<Seen> {
    let target = Target::locate(operation, &path);
    let makes = operation == Operation::Create;
    let is_vain = match target.kind() {
        FileKind::Missing => !makes,
        FileKind::Unknown => !path.starts_with("/proc"),
        FileKind::Directory | FileKind::File | FileKind::Link | FileKind::Special => makes,
    };
    if is_vain {
        return Vec::new();
    }
    vec![Seen::Path(Box::new(Use {
        destination: None,
        given: path,
        operation,
        target,
    }))]
}

fn moved(operation: Operation, path: PathBuf, destination: &Path) -> Vec<Seen> {
    let target = Target::locate(operation, &path);
    if matches!(target.kind(), FileKind::Missing | FileKind::Unknown) {
        return Vec::new();
    }
    vec![Seen::Path(Box::new(Use {
        destination: Some(Target::destination(destination)),
        given: path,
        operation,
        target,
    }))]
}

/// Returns the observations for opening a file.
fn opened(path: PathBuf, flags: libc::c_int) -> Vec<Seen> {
    let has = |bits: libc::c_int| flags & bits == bits;
    if has(libc::O_PATH) {
        return Vec::new();
    }
    if has(libc::O_TMPFILE) {
        return done(Operation::Create, path.join("nameless"));
    }
    let kind = Target::locate(Operation::Read, &path).kind();
    if kind == FileKind::Missing {
        let takes_another = has(libc::O_CREAT) && !has(libc::O_EXCL);
        let opened = takes_another.then(|| Seen::OpenedMissing(path.clone()));
        return match has(libc::O_CREAT) {
            true => opened
                .into_iter()
                .chain(done(Operation::Create, path))
                .collect(),
            false => Vec::new(),
        };
    }
    if kind == FileKind::Directory {
        return done(Operation::List, path);
    }
    if has(libc::O_CREAT | libc::O_EXCL) {
        return Vec::new();
    }
    let mut operations = match flags & libc::O_ACCMODE {
        libc::O_RDONLY => vec![Operation::Read],
        libc::O_WRONLY => vec![Operation::Write],
        _ => vec![Operation::Read, Operation::Write],
    };
    if has(libc::O_TRUNC) && !operations.contains(&Operation::Write) {
        operations.push(Operation::Write);
    }
    operations
        .into_iter()
        .flat_map(|operation| done(operation, path.clone()))
        .collect()
}

/// Returns the observations for executing a file and the interpreters that it names.
fn executed(path: PathBuf) -> Vec<Seen> {
    let mut seen = Vec::new();
    let mut next = Some(path);
    for _ in 0..INTERPRETERS {
        let Some(path) = next else { break };
        next = interpreter(&path);
        seen.extend(done(Operation::Execute, path));
    }
    seen
}

/// Returns the interpreter that a script's first line names.
fn interpreter(script: &Path) -> Option<PathBuf> {
    let mut line = [0; 256];
    let is_file = fs::metadata(script).ok()?.is_file();
    let mut file = is_file.then(|| File::open(script).ok()).flatten()?;
    let read = file.read(&mut line).ok()?;
    let line = line.get(..read)?.strip_prefix(b"#!")?;
    let line = line.split(|byte| *byte == b'\n').next()?;
    let mut words = line
        .split(|byte| byte.is_ascii_whitespace())
        .filter(|word| !word.is_empty());
    let path = PathBuf::from(OsString::from_vec(words.next()?.to_vec()));
    path.is_absolute().then_some(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// Renders the observations below a directory: use and file.
    fn described(seen: Vec<Seen>, directory: &Path) -> Vec<(&'static str, PathBuf)> {
        let described = seen.into_iter().map(|seen| match seen {
            Seen::Path(done) => {
                let path = done.target.path();
                let path = path.strip_prefix(directory).unwrap_or(path);
                (done.operation.name(), path.to_owned())
            }
            Seen::OpenedMissing(path) => ("open", path.file_name().unwrap().into()),
            Seen::Connection(_) | Seen::Look(_) | Seen::Metadata | Seen::Process | Seen::Socket => {
                panic!("{seen:?}")
            }
        });
        described.collect()
    }

    #[test]
    fn what_opening_a_file_comes_to_is_what_its_flags_and_the_file_system_say() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path().canonicalize().unwrap();
        fs::write(directory.join("file"), "").unwrap();
        symlink("file", directory.join("link")).unwrap();
        let create = libc::O_CREAT | libc::O_WRONLY;
        for (name, flags, expected) in [
            ("file", libc::O_RDONLY, vec![("read", "file")]),
            ("link", libc::O_RDONLY, vec![("read", "file")]),
            (
                "file",
                libc::O_RDWR,
                vec![("read", "file"), ("write", "file")],
            ),
            ("file", create | libc::O_TRUNC, vec![("write", "file")]),
            (
                "file",
                libc::O_RDONLY | libc::O_TRUNC,
                vec![("read", "file"), ("write", "file")],
            ),
            ("file", libc::O_PATH, vec![]),
            ("file", create | libc::O_EXCL, vec![]),
            ("", libc::O_RDONLY | libc::O_DIRECTORY, vec![("list", "")]),
            ("none", libc::O_RDWR, vec![]),
            ("none", create, vec![("open", "none"), ("create", "none")]),
            ("none", create | libc::O_EXCL, vec![("create", "none")]),
            (
                "",
                libc::O_TMPFILE | libc::O_RDWR,
                vec![("create", "nameless")],
            ),
        ] {
            let expected: Vec<_> = expected
                .into_iter()
                .map(|(operation, path)| (operation, PathBuf::from(path)))
                .collect();
            let seen = opened(directory.join(name), flags);
            assert_eq!(described(seen, &directory), expected, "{name} {flags:#x}");
        }
    }

    #[test]
    fn a_script_is_executed_by_what_its_first_line_names() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path().canonicalize().unwrap();
        let path = |name: &str| directory.join(name);
        fs::write(path("inner"), "no script").unwrap();
        let line = |name: &str| format!("#! {} -x\nrest", path(name).display());
        fs::write(path("outer"), line("inner")).unwrap();
        fs::write(path("script"), line("outer")).unwrap();
        fs::write(path("round"), line("round")).unwrap();

        let names = |name: &str| -> Vec<_> {
            let described = described(executed(path(name)), &directory);
            described.into_iter().map(|(_, path)| path).collect()
        };
        assert_eq!(
            names("script"),
            ["script", "outer", "inner"].map(PathBuf::from)
        );
        assert_eq!(names("none"), Vec::<PathBuf>::new());
        assert_eq!(names("round").len(), INTERPRETERS);
    }

    #[test]
    fn what_would_fail_whatever_is_granted_is_not_noted() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path().canonicalize().unwrap();
        fs::write(directory.join("file"), "").unwrap();
        for (operation, name, noted) in [
            (Operation::Remove, "file", true),
            (Operation::Remove, "none", false),
            (Operation::Create, "none", true),
            (Operation::Create, "file", false),
            (Operation::Execute, "none", false),
        ] {
            let seen = done(operation, directory.join(name));
            assert_eq!(seen.len(), usize::from(noted), "{operation:?} {name}");
        }
        let destination = directory.join("other");
        assert_eq!(
            moved(Operation::Rename, directory.join("file"), &destination).len(),
            1
        );
        assert_eq!(
            moved(Operation::Rename, directory.join("none"), &destination).len(),
            0
        );
    }
}
