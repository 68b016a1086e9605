//! What a child is given: argv and environment, pipes, limits, the directory it starts in.

use std::{
    ffi::CString,
    io,
    os::{fd::OwnedFd, unix::ffi::OsStringExt},
    sync::Arc,
};

use bytes::Bytes;
use nix::{
    errno::Errno,
    fcntl::{FcntlArg, OFlag, ResolveFlag, fcntl},
    sys::resource::{Resource, getrlimit},
    unistd::{pipe2, write},
};
use tokio::net::unix::pipe;

use super::{grants, scratch::RunDir};
use crate::{
    admission::digest::hash_file,
    policy::{Limits, Plan},
    process::Pipes,
    refusal::{Fault, Reason, Refusal, Stop},
    request::InvalidField,
    sys::{Action, Identity},
};

/// Builds what is executed: argv, environment and program, and the script that the ruleset must grant.
pub(super) fn execute(
    plan: &Plan,
    directory: &RunDir,
    identity: Option<Identity>,
) -> Result<(Action, Option<OwnedFd>), Stop> {
    let program = &plan.admitted.program;
    let mut argv = program.argv.clone();
    let mut script_fd = None;
    if let Some(script) = &program.script {
        let keep = |file: io::Result<std::fs::File>| {
            file.map_err(|e| Fault::new("cannot keep the script open", e))
        };
        script_fd = Some(match identity {
            // Another uid may not reach the script where it lies, so it gets a copy of what was hashed.
            Some(_) => {
                let copy = directory.copy(&script.file, &script.path);
                let copy = copy.map_err(|e| Fault::new("cannot copy the script", e))?;
                let file = keep(std::fs::File::open(&copy))?;
                // Its owner may have rewritten it in place meanwhile.
                if !hash_file(&file).is_ok_and(|sha256| sha256 == script.sha256) {
                    let message =
                        format!("`{}` changed after it was admitted", script.path.display());
                    return Err(Refusal::new(Reason::DigestMismatch, message).into());
                }
                argv[script.argument] = copy.into_os_string();
                file.into()
            }
            None => keep(script.file.try_clone())?.into(),
        });
    }
    let no_nul = |bytes: Vec<u8>, field: &str| {
        CString::new(bytes).map_err(|_| Stop::from(InvalidField::new(field, "holds a NUL byte")))
    };
    let argv = argv
        .into_iter()
        .map(|a| no_nul(a.into_vec(), "hook.argv"))
        .collect::<Result<_, _>>()?;
    let environment = plan
        .environment
        .with_scratch(&directory.scratch())
        .into_iter()
        .map(|(name, value)| {
            let mut line = name.into_vec();
            line.push(b'=');
            line.extend(value.into_vec());
            no_nul(line, "hook.env")
        })
        .collect::<Result<_, _>>()?;
    let executable = program
        .executable
        .try_clone()
        .map_err(|e| Fault::new("cannot keep the program open", e))?;
    Ok((
        Action::Execute {
            argv,
            environment,
            program: executable.into(),
        },
        script_fd,
    ))
}

/// Opens a run's scratch directory, to be granted and to be started in.
pub(super) fn scratch_fd(directory: &RunDir) -> Result<Arc<OwnedFd>, Stop> {
    let opened = grants::open(&directory.scratch(), ResolveFlag::RESOLVE_NO_SYMLINKS);
    let (fd, _) = opened.map_err(|e| Fault::new("cannot open the scratch directory", e))?;
    Ok(Arc::new(fd))
}

/// Returns what the child sets by `setrlimit`; never above the daemon's own hard limits, which nothing can raise.
pub(super) fn limits(limits: &Limits, identity: Option<Identity>) -> Vec<(u32, u64)> {
    let mut set = vec![
        (Resource::RLIMIT_CORE, 0),
        (Resource::RLIMIT_FSIZE, limits.file_size),
        (Resource::RLIMIT_NOFILE, limits.open_files),
    ];
    set.extend(
        limits
            .address_space
            .map(|bytes| (Resource::RLIMIT_AS, bytes)),
    );
    // Counted for each uid: it means something only where the hook has one of its own.
    set.extend(identity.map(|_| (Resource::RLIMIT_NPROC, limits.tasks)));
    set.into_iter()
        .map(|(resource, value)| {
            let hard = getrlimit(resource).map_or(value, |(_, hard)| hard);
            (resource as u32, value.min(hard))
        })
        .collect()
}

/// Makes the three pipes: the child's ends, and the daemon's. As much of the event as fits is in the first already: mostly all
/// of it, and then nobody has to wait for a moment to write it.
pub(super) fn pipes(event: &Bytes) -> io::Result<([OwnedFd; 3], Pipes)> {
    let (stdin_read, stdin_write) = pipe2(OFlag::O_CLOEXEC)?;
    let (stdout_read, stdout_write) = pipe2(OFlag::O_CLOEXEC)?;
    let (stderr_read, stderr_write) = pipe2(OFlag::O_CLOEXEC)?;
    // The daemon's ends alone: a hook's own would surprise it.
    for end in [&stderr_read, &stdin_write, &stdout_read] {
        fcntl(end, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    }
    let written = match write(&stdin_write, event) {
        Ok(count) => count,
        Err(Errno::EAGAIN | Errno::EINTR) => 0,
        Err(error) => return Err(error.into()),
    };
    let stdin = if written < event.len() {
        let sender = pipe::Sender::from_owned_fd_unchecked(stdin_write)?;
        Some((sender, event.slice(written..)))
    } else {
        None
    };
    let pipes = Pipes {
        stderr: pipe::Receiver::from_owned_fd_unchecked(stderr_read)?,
        stdin,
        stdout: pipe::Receiver::from_owned_fd_unchecked(stdout_read)?,
    };
    Ok(([stdin_read, stdout_write, stderr_write], pipes))
}
