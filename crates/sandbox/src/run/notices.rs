//! The programs by which a hook asks for notices, and the pipe by which they arrive.
//!
//! A pipe instead of a file: no byte lies on a disk, and the kernel limits the size. The hook has a right on the pipe alone and none
//! on its directory, so the pipe stays the one that the daemon made and has open.

use std::{
    ffi::CString,
    fs::{self, DirBuilder, Permissions},
    io,
    os::unix::{
        ffi::OsStrExt,
        fs::{DirBuilderExt, PermissionsExt},
    },
    path::Path,
    pin::Pin,
};

use nix::{
    fcntl::{OFlag, open},
    sys::stat::Mode,
    unistd::{Gid, Uid, chown, mkfifo},
};
use tokio::net::unix::pipe;

use hookjail_base::model::variable::NOTICES;
use hookjail_base::notices::{MOST_BYTES, PROGRAMS};
use hookjail_policy::{Access, rights::Rights};
use hookjail_sys::{Identity, Links};

use crate::{
    resources::scratch::RunDir,
    run::{
        child_spec::{Execution, has_view, own_directory},
        grants::{self, OpenGrant},
        task::HookTask,
    },
};

/// The program behind each name.
const PROGRAM: &str = include_str!("notice.sh");

/// The pipe's directory in a run's.
const PLACE: &str = "notices";

/// The pipe's name.
const PIPE: &str = "pipe";

/// Number of bytes that are read at once.
const AT_ONCE: usize = 4096;

/// Limit on reads after the end of a run: the largest size of a pipe.
const LAST_READS: usize = (1 << 20) / AT_ONCE;

/// Writes the programs into a new directory.
///
/// # Errors
///
/// Returns the first error.
pub(crate) fn write_programs(directory: &Path) -> io::Result<()> {
    fs::create_dir(directory)?;
    for name in PROGRAMS {
        let path = directory.join(name);
        fs::write(&path, PROGRAM)?;
        fs::set_permissions(&path, Permissions::from_mode(0o555))?;
    }
    fs::set_permissions(directory, Permissions::from_mode(0o755))
}

/// The notices of a run, as they arrive.
#[derive(Debug)]
pub(crate) struct Notices {
    buffer: [u8; AT_ONCE],
    calls: Vec<u8>,
    pipe: pipe::Receiver,
}

impl Notices {
    /// Makes the pipe of a run, and gives its hook the programs: first in `PATH`, since those of the machine reach nothing.
    ///
    /// Returns `None` where notices are not taken: in a run without a view.
    ///
    /// # Errors
    ///
    /// Returns the first error.
    pub(crate) fn prepare(
        task: HookTask<'_>,
        execution: &mut Execution,
        directory: &RunDir,
        identity: Option<&Identity>,
    ) -> io::Result<Option<Box<Self>>> {
        if !task.policy.notify || !has_view(task) {
            return Ok(None);
        }
        let place = directory.named(PLACE);
        DirBuilder::new().mode(0o755).create(&place)?;
        fs::set_permissions(&place, Permissions::from_mode(0o755))?;
        let path = place.join(PIPE);
        mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR)?;
        // Open for writing, too: programs neither wait for a reader nor find the end of one.
        let flags = OFlag::O_RDWR | OFlag::O_NONBLOCK | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let pipe = pipe::Receiver::from_owned_fd(open(&path, flags, Mode::empty())?)?;
        if let Some(identity) = identity {
            let (uid, gid) = (Uid::from_raw(identity.uid), Gid::from_raw(identity.gid));
            chown(&path, Some(uid), Some(gid))?;
        }
        let (target, _) = grants::open(&path, Links::Refused)?;
        Self::name(&mut execution.environment, directory)?;
        let programs = directory.programs();
        execution.own.push(OpenGrant {
            path,
            rights: Rights::File(Access::WriteFile),
            target: target.into(),
        });
        execution
            .own
            .push(own_directory(programs, Access::Execute)?);
        Ok(Some(Box::new(Self {
            buffer: [0; AT_ONCE],
            calls: Vec::new(),
            pipe,
        })))
    }

    /// Names pipe and programs in a run's variables.
    ///
    /// # Errors
    ///
    /// Fails where a path holds a NUL byte.
    pub(crate) fn name(environment: &mut Vec<CString>, directory: &RunDir) -> io::Result<()> {
        let path = directory.named(PLACE).join(PIPE);
        set(environment, NOTICES, path.as_os_str().as_bytes(), b"")?;
        let programs = directory.programs();
        set(environment, "PATH", programs.as_os_str().as_bytes(), b":")
    }

    /// Reads calls until a run has ended. Bytes beyond the most of a run are dropped, so that no program waits.
    pub(crate) async fn during<T>(&mut self, mut run: Pin<&mut impl Future<Output = T>>) -> T {
        let ended = loop {
            tokio::select! {
                biased;
                ended = run.as_mut() => break ended,
                readable = self.pipe.readable() => if readable.is_err() || self.read().is_none() {
                    break run.await;
                }
            }
        };
        for _ in 0..LAST_READS {
            if self.read() != Some(true) {
                break;
            }
        }
        ended
    }

    /// Returns the calls that arrived.
    pub(crate) fn calls(self) -> Vec<u8> {
        self.calls
    }

    /// Reads once and never waits. Returns whether something was there; `None` where the pipe cannot be read.
    fn read(&mut self) -> Option<bool> {
        match self.pipe.try_read(&mut self.buffer) {
            Ok(count) => {
                let room = MOST_BYTES.saturating_sub(self.calls.len());
                self.calls.extend(&self.buffer[..count.min(room)]);
                Some(count > 0)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Some(false),
            Err(error) => {
                tracing::warn!(%error, "notices of a run cannot be read");
                None
            }
        }
    }
}

/// Puts a value before that of a variable, with a separator between both. An empty separator replaces the value.
fn set(
    environment: &mut Vec<CString>,
    name: &str,
    value: &[u8],
    separator: &[u8],
) -> io::Result<()> {
    let mut line = format!("{name}=").into_bytes();
    let old = environment
        .iter()
        .position(|it| it.to_bytes().starts_with(&line));
    let old = old.map(|index| environment.remove(index));
    let old = old.as_ref().map(|old| &old.to_bytes()[line.len()..]);
    line.extend(value);
    if let Some(old) = old.filter(|old| !old.is_empty() && !separator.is_empty()) {
        line.extend(separator);
        line.extend(old);
    }
    environment.push(CString::new(line)?);
    Ok(())
}
