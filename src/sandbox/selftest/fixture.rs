//! Self-test fixture: files, probes, and the expected result of each probe.

use std::{
    fs::{self, File},
    io,
    os::{fd::AsFd, unix::fs::PermissionsExt},
    path::{Path, PathBuf},
};

use nix::unistd;

use crate::{
    model::axis::{Axes, Axis, Coverage},
    policy::{Access, Metadata, Network, Policy, Spawn, rights::Rights},
    sandbox::{
        host::{OUTBOUND_HAS_UNIX_SOCKETS, UNGRANTED_DEVICE},
        run::{
            grants::{self, OpenGrant},
            read_only::Kept,
            scratch::{RunDir, wait_for_writers},
        },
    },
    sys::{Attempt, Identity, Links},
};

/// Errnos that count as a refusal: access denied, target absent, or file system read-only. Absent because a container has neither
/// other files nor other processes. The same attempt succeeds unconfined, so none of these has another cause.
const REFUSALS: [i32; 5] = [
    libc::EACCES,
    libc::ENOENT,
    libc::EPERM,
    libc::EROFS,
    libc::ESRCH,
];

/// Directory that serves as the workspace with its read-only paths.
const WORKSPACE: &str = "workspace";
const KEPT_DIRECTORY: &str = "around/directory";
const KEPT_FILE: &str = "around/file";

/// Files of a self-test: some granted, some not, all accessible to the hook's user.
#[derive(Debug)]
pub(in crate::sandbox) struct Fixture {
    denied: PathBuf,
    granted: PathBuf,
    /// Directory owned by the hook's user that no policy grants.
    outside: PathBuf,
    scratch: PathBuf,
    /// File that serves as the daemon's open descriptor.
    pub(in crate::sandbox) witness: File,
}

/// Expected result of one attempt.
#[derive(Debug)]
pub(in crate::sandbox) struct Check {
    pub(in crate::sandbox) axis: Axis,
    /// File that exists, or is empty, only if the attempt succeeded.
    pub(in crate::sandbox) effect: Option<Effect>,
    /// Whether the policy grants it.
    pub(in crate::sandbox) granted: bool,
    index: usize,
    /// Results that count as success. Most calls return 0 or more; some are arranged to fail *after* the access check.
    success: Success,
    pub(in crate::sandbox) what: &'static str,
}

#[derive(Debug)]
pub(in crate::sandbox) enum Effect {
    Emptied(PathBuf),
    Made(PathBuf),
}

#[derive(Clone, Copy, Debug)]
enum Success {
    /// 0 or more.
    Value,
    /// This errno: the call passed the access check and then failed as arranged.
    Reached(i32),
}

/// Attempts, and the expected result of each.
pub(in crate::sandbox) struct Attempts {
    pub(in crate::sandbox) attempts: Vec<Attempt>,
    pub(in crate::sandbox) checks: Vec<Check>,
}

impl Attempts {
    fn add(
        &mut self,
        axis: Axis,
        what: &'static str,
        granted: bool,
        attempt: Option<Attempt>,
    ) -> Option<&mut Check> {
        let index = self.attempts.len();
        self.attempts.push(attempt?);
        self.checks.push(Check {
            axis,
            effect: None,
            granted,
            index,
            success: Success::Value,
            what,
        });
        self.checks.last_mut()
    }
}

impl Fixture {
    pub(in crate::sandbox) fn create(
        policy: &Policy,
        directory: &RunDir,
        (denied, granted): (&Path, &Path),
        identity: Option<Identity>,
    ) -> io::Result<Self> {
        let scratch = directory.scratch();
        let outside = directory.outside(identity)?;
        for (path, mode) in [
            ("kept", 0o644),
            ("readable", 0o644),
            ("program", 0o755),
            ("granted-program", 0o755),
            ("readable-program", 0o755),
        ] {
            let path = outside.join(path);
            // No format that the kernel knows: neither ELF nor `#!`.
            fs::write(&path, "content\n")?;
            fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
            if let Some(Identity { uid, gid, .. }) = identity {
                std::os::unix::fs::chown(&path, Some(uid), Some(gid))?;
            }
            if mode & 0o111 != 0 {
                wait_for_writers(&path)?;
            }
        }
        // With nothing granted below: where there is, a container has a directory that shows just that.
        let closed = outside.join("closed");
        fs::create_dir(&closed)?;
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o755))?;
        let workspace = outside.join(WORKSPACE);
        let keeping = [
            (workspace.clone(), true),
            (workspace.join("around"), true),
            (workspace.join(KEPT_DIRECTORY), true),
            (workspace.join(KEPT_FILE), false),
        ];
        let keeps = !policy.files.read_only.is_empty();
        for (path, is_directory) in keeping.into_iter().filter(|_| keeps) {
            if is_directory {
                fs::create_dir(&path)?;
            } else {
                fs::write(&path, "content\n")?;
            }
            if let Some(Identity { uid, gid, .. }) = identity {
                std::os::unix::fs::chown(&path, Some(uid), Some(gid))?;
            }
        }
        let witness = File::open(denied)?;
        Ok(Self {
            denied: denied.to_owned(),
            granted: granted.to_owned(),
            outside,
            scratch,
            witness,
        })
    }

    /// Returns the paths that stay read-only within the confined child's writable ones.
    pub(in crate::sandbox) fn kept(&self) -> io::Result<Kept> {
        let workspace = self.outside.join(WORKSPACE);
        let (target, _) = grants::open(&workspace, Links::Refused)?;
        let points = [("around", false), (KEPT_DIRECTORY, true), (KEPT_FILE, true)];
        let points = points.map(|(below, read_only)| (below.into(), read_only));
        Ok(Kept {
            points: points.into(),
            target,
            workspace,
        })
    }

    /// Returns the confined child's grants in the fixture.
    pub(in crate::sandbox) fn grants(&self, policy: &Policy) -> io::Result<Vec<OpenGrant>> {
        let open = |name: &str, access| -> io::Result<OpenGrant> {
            let path = self.outside.join(name);
            let (target, _) = grants::open(&path, Links::Refused)?;
            Ok(OpenGrant {
                path,
                rights: Rights::File(access),
                target: target.into(),
            })
        };
        let mut granted = vec![
            open("readable", Access::Read)?,
            open("granted-program", Access::Execute)?,
            open("readable-program", Access::Read)?,
        ];
        if !policy.files.read_only.is_empty() {
            granted.push(OpenGrant {
                rights: Rights::Directory(Access::Write),
                ..open(WORKSPACE, Access::Write)?
            });
        }
        Ok(granted)
    }

    /// Returns the attempts for a policy of which `axes` is claimed.
    pub(in crate::sandbox) fn attempts(
        &self,
        policy: &Policy,
        axes: &Axes<Coverage>,
        own_uid: bool,
    ) -> Attempts {
        let mut list = Attempts {
            attempts: Vec::new(),
            checks: Vec::new(),
        };
        let read = |path: &Path| Attempt::open(path.as_os_str(), libc::O_RDONLY, 0);
        let create =
            |path: &Path| Attempt::open(path.as_os_str(), libc::O_WRONLY | libc::O_CREAT, 0o600);
        let outside = |name: &str| self.outside.join(name);
        let made = |check: Option<&mut Check>, path: PathBuf| {
            if let Some(check) = check {
                check.effect = Some(Effect::Made(path));
            }
        };
        let emptied = |check: Option<&mut Check>, path: PathBuf| {
            if let Some(check) = check {
                check.effect = Some(Effect::Emptied(path));
            }
        };
        let reached = |check: Option<&mut Check>, errno| {
            if let Some(check) = check {
                check.success = Success::Reached(errno);
            }
        };

        list.add(
            Axis::Read,
            "open an ungranted file",
            false,
            read(&self.denied),
        );
        list.add(Axis::Read, "open a granted file", true, read(&self.granted));
        list.add(
            Axis::Read,
            "list an ungranted directory",
            false,
            read(&outside("closed")),
        );

        let path = self.scratch.join("made");
        made(
            list.add(Axis::Write, "make a file in scratch", true, create(&path)),
            path,
        );
        let path = outside("made");
        made(
            list.add(
                Axis::Write,
                "make a file outside scratch",
                false,
                create(&path),
            ),
            path,
        );
        // Emptying by a read-only open is its own right, and its own stand-in on kernels without it.
        let path = outside("readable");
        let open_emptying = Attempt::open(path.as_os_str(), libc::O_RDONLY | libc::O_TRUNC, 0);
        emptied(
            list.add(
                Axis::Write,
                "empty a granted file by a read-only open",
                false,
                open_emptying,
            ),
            path,
        );
        let path = outside("kept");
        emptied(
            list.add(
                Axis::Write,
                "empty a file by its path",
                false,
                Attempt::truncate(path.as_os_str()),
            ),
            path,
        );

        if !policy.files.read_only.is_empty() {
            let workspace = outside(WORKSPACE);
            let path = workspace.join("around/made");
            let what = "make a file in a directory that is granted to be written";
            made(list.add(Axis::Write, what, true, create(&path)), path);
            let path = workspace.join(KEPT_DIRECTORY).join("made");
            let what = "make a file in a directory of it that stays read-only";
            made(list.add(Axis::Write, what, false, create(&path)), path);
            let path = workspace.join(KEPT_FILE);
            let flags = libc::O_WRONLY | libc::O_TRUNC;
            let open_emptying = Attempt::open(path.as_os_str(), flags, 0);
            let what = "empty a file of it that stays read-only";
            emptied(list.add(Axis::Write, what, false, open_emptying), path);
        }

        let path = outside("program");
        let check = list.add(
            Axis::Execute,
            "execute an ungranted file",
            false,
            Attempt::execute(path.as_os_str()),
        );
        reached(check, libc::ENOEXEC);
        // Whoever executes a file also reads it: only here does the right to execute stand alone.
        let path = outside("readable-program");
        let check = list.add(
            Axis::Execute,
            "execute a file that is granted to be read",
            false,
            Attempt::execute(path.as_os_str()),
        );
        reached(check, libc::ENOEXEC);
        let path = outside("granted-program");
        let check = list.add(
            Axis::Execute,
            "execute a granted file",
            true,
            Attempt::execute(path.as_os_str()),
        );
        reached(check, libc::ENOEXEC);

        let inet = policy.network == Network::Outbound;
        let stream = |domain| Some(Attempt::socket(domain, libc::SOCK_STREAM, 0));
        list.add(
            Axis::Network,
            "make an IPv4 socket",
            inet,
            stream(libc::AF_INET),
        );
        list.add(
            Axis::Network,
            "make a Unix socket",
            inet && OUTBOUND_HAS_UNIX_SOCKETS,
            stream(libc::AF_UNIX),
        );
        let (what, kernel) = Attempt::kernel_socket();
        list.add(Axis::Network, what, false, Some(kernel));

        let processes = policy.spawn == Spawn::Processes;
        list.add(
            Axis::Spawn,
            "make a process",
            processes,
            Some(Attempt::fork()),
        );
        list.add(
            Axis::Spawn,
            "make a process group",
            false,
            Some(Attempt::new_group()),
        );

        reached(
            list.add(
                Axis::Ipc,
                "ask for shared memory",
                false,
                Some(Attempt::shared_memory()),
            ),
            libc::EINVAL,
        );
        if !own_uid {
            // Under a uid of its own the hook could not signal the daemon unconfined either: no control to be had.
            let daemon = Attempt::signal(unistd::getpid().as_raw(), 0);
            list.add(Axis::Ipc, "signal the daemon", false, Some(daemon));
        }

        if policy.metadata == Metadata::Keep {
            let path = outside("kept");
            list.add(
                Axis::Metadata,
                "change a file's mode",
                false,
                Attempt::change_mode(path.as_os_str(), 0o600),
            );
        }

        if let Coverage::Enforced { .. } = axes.metadata {
            let attempt = Attempt::exists(self.denied.as_os_str());
            let what = "ask whether an ungranted file exists";
            list.add(Axis::Metadata, what, false, attempt);
        }

        let device = |path: &str, flags| Attempt::open(path.as_ref(), flags, 0);
        list.add(
            Axis::Devices,
            "open an ungranted device",
            false,
            device(UNGRANTED_DEVICE, libc::O_RDONLY),
        );
        list.add(
            Axis::Devices,
            "open /dev/null",
            true,
            device("/dev/null", libc::O_RDWR),
        );
        list
    }

    /// Returns the attempt to use one of the daemon's descriptors. The unconfined child has its descriptors closed too, so the
    /// positive control is the daemon's own use.
    pub(in crate::sandbox) fn descriptor(&self) -> Attempt {
        Attempt::descriptor(self.witness.as_fd())
    }
}

impl Effect {
    pub(in crate::sandbox) fn shows(&self) -> bool {
        match self {
            Self::Emptied(path) => path.metadata().is_ok_and(|m| m.len() == 0),
            Self::Made(path) => path.exists(),
        }
    }
}

impl Check {
    fn result(&self, results: &[Option<isize>]) -> Option<isize> {
        results.get(self.index).copied().flatten()
    }

    pub(in crate::sandbox) fn succeeded(&self, results: &[Option<isize>]) -> bool {
        self.result(results)
            .is_some_and(|result| match self.success {
                Success::Value => result >= 0,
                Success::Reached(errno) => result == -(errno as isize),
            })
    }

    /// Returns the errno of a failure, unless that errno counts as success.
    pub(in crate::sandbox) fn failed(&self, results: &[Option<isize>]) -> Option<i32> {
        let result = self.result(results)?;
        let failed = result < 0 && !self.succeeded(results);
        failed.then(|| i32::try_from(-result).unwrap_or(0))
    }

    pub(in crate::sandbox) fn refused(&self, results: &[Option<isize>]) -> bool {
        self.result(results)
            .is_some_and(|result| REFUSALS.iter().any(|&errno| result == -(errno as isize)))
    }

    pub(in crate::sandbox) fn seen(&self, results: &[Option<isize>]) -> String {
        seen(self.result(results))
    }
}

/// Renders the result of an attempt.
pub(in crate::sandbox) fn seen(result: Option<isize>) -> String {
    match result {
        None => "not tried".to_owned(),
        Some(result) if result < 0 => {
            let errno = i32::try_from(-result).unwrap_or(0);
            nix::errno::Errno::from_raw(errno).to_string()
        }
        Some(_) => "succeeded".to_owned(),
    }
}
