//! Inputs of a child: argv and environment, pipes, limits, working directory.

use std::{
    cmp::Reverse,
    ffi::{CString, OsStr, OsString},
    fs::{self, File},
    io,
    os::{
        fd::OwnedFd,
        unix::{ffi::OsStringExt, fs::MetadataExt},
    },
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;
use nix::{
    errno::Errno,
    fcntl::{FcntlArg, OFlag, fcntl},
    unistd::write,
};
use tokio::{net::unix::pipe, task::block_in_place};

use crate::{
    consent::{
        ContentGuard, Program,
        allowlist::{Digest, Role},
        digest::hash_file,
        only_roots,
    },
    model::{InvalidField, is_plain},
    policy::{self, Access, rights::Rights},
    process::Pipes,
    refusal::{Fault, Reason, Refusal, Stop, unless_lacking},
    sandbox::run::{
        grants::{self, OpenGrant},
        scratch::{Around, Copied, Level, RunDir},
        task::HookTask,
    },
    sys::{FileRights, Identity, Links, pipe as make_pipe},
};

/// The program of a child, with argv and environment.
#[derive(Debug)]
pub(in crate::sandbox) struct Execution {
    pub(in crate::sandbox) argv: Vec<CString>,
    pub(in crate::sandbox) environment: Vec<CString>,
    /// The program's own files, which must be granted.
    pub(in crate::sandbox) own: Vec<OpenGrant>,
    /// Path of the file that is executed.
    pub(in crate::sandbox) path: PathBuf,
    /// The executed file, opened for reading.
    #[cfg_attr(
        not(target_os = "linux"),
        expect(dead_code, reason = "other systems execute no descriptor")
    )]
    pub(in crate::sandbox) program: File,
}

impl Execution {
    /// Builds argv, environment and program of a plan.
    ///
    /// # Errors
    ///
    /// Refuses a file whose owner has rewritten it since it was hashed: `DIGEST_MISMATCH`.
    pub(in crate::sandbox) fn of(
        task: HookTask<'_>,
        directory: &RunDir,
        identity: Option<&Identity>,
    ) -> Result<Self, Stop> {
        let program = task.program;
        let mut own = Vec::new();
        let mut copies = Vec::new();
        for (index, script) in program.scripts.iter().enumerate() {
            // TOCTOU: an interpreter opens its script by a path, which another user may have renamed or re-linked by
            // then. So the path is that of a copy, unless only root can change what it leads to. A hook with its own
            // uid may not reach the original.
            let stays = identity.is_none()
                && script.kept != ContentGuard::Copy
                && only_roots(&script.path, &script.file).as_ref() == Some(&script.path);
            if stays {
                own.push(of_its_own(
                    script.path.clone(),
                    keep(&script.file, "script")?,
                ));
                continue;
            }
            let kind = match index {
                0 => "script".to_owned(),
                more => format!("script-{more}"),
            };
            let around = around(task, &script.path, &script.file)?;
            let (copied, file) = copy(
                directory,
                &kind,
                &script.file,
                &script.path,
                &script.sha256,
                &around,
            )?;
            if !around.levels.is_empty() {
                let path = directory.named(&kind);
                let opened = grants::open(&path, Links::Refused);
                let (target, _) =
                    opened.map_err(|e| Fault::new("cannot open a script's directory", e))?;
                own.push(OpenGrant {
                    path,
                    rights: Rights::Directory(Access::Read),
                    target: Arc::new(target),
                });
            }
            copies.push((index, copied.named));
            own.push(of_its_own(copied.path, file));
        }
        let argv = program.argv_with(copies);
        let (path, executable) = if program.kept == ContentGuard::Copy {
            let sha256 = program.executable_sha256();
            let (copied, executable) = copy(
                directory,
                "program",
                &program.executable,
                program.executable_path(),
                sha256,
                &Around::default(),
            )?;
            (copied.path, executable)
        } else {
            let path = program.executable_path().to_owned();
            (path, keep(&program.executable, "program")?)
        };
        own.push(of_its_own(path.clone(), keep(&executable, "program")?));
        // Only Linux executes a descriptor.
        let path = if cfg!(target_os = "linux") || program.kept == ContentGuard::Copy {
            path
        } else {
            by_path(program, &executable, directory)?
        };
        let no_nul = |bytes: Vec<u8>, field: &str| {
            CString::new(bytes)
                .map_err(|_| Stop::from(InvalidField::new(field, "holds a NUL byte")))
        };
        let argv = argv
            .into_iter()
            .map(|a| no_nul(a.into_vec(), "hook.argv"))
            .collect::<Result<_, _>>()?;
        let environment = task
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
        Ok(Self {
            argv,
            environment,
            own,
            path,
            program: executable,
        })
    }
}

/// Returns a path that executes exactly this program: its own if only root can replace the file, else a copy's.
fn by_path(program: &Program, executable: &File, directory: &RunDir) -> Result<PathBuf, Stop> {
    let by_interpreter = |digest: &Digest| digest.role == Role::Interpreter;
    let named = match program.argv.first() {
        Some(interpreter) if program.digests.iter().any(by_interpreter) => Path::new(interpreter),
        _ => &program.path,
    };
    if let Some(path) = only_roots(named, executable) {
        return Ok(path);
    }
    let sha256 = program.executable_sha256();
    let around = Around::default();
    let executable = &program.executable;
    let (copied, _) = copy(directory, "program", executable, named, sha256, &around)?;
    Ok(copied.path)
}

fn of_its_own(path: PathBuf, file: File) -> OpenGrant {
    OpenGrant {
        path,
        rights: Rights::File(Access::Execute),
        target: Arc::new(file.into()),
    }
}

fn keep(file: &File, kind: &str) -> Result<File, Fault> {
    file.try_clone()
        .map_err(|e| Fault::new(format!("cannot keep the {kind} open"), e))
}

/// Copies a file and opens the copy. Only this run can read the copy, and nobody can write it.
///
/// # Errors
///
/// Refuses a file whose owner has rewritten it since it was hashed: `DIGEST_MISMATCH`.
fn copy(
    directory: &RunDir,
    kind: &str,
    file: &File,
    path: &Path,
    sha256: &str,
    around: &Around,
) -> Result<(Copied, File), Stop> {
    let copied = || {
        let copy = directory.copy(file, path, kind, around);
        let copy = copy.map_err(|e| Fault::new(format!("cannot copy the {kind}"), e))?;
        let file = File::open(&copy.path)
            .map_err(|e| Fault::new(format!("cannot open the copied {kind}"), e))?;
        let what = format_args!("cannot hash the copied {kind}");
        if !unless_lacking(what, hash_file(&file))?.is_ok_and(|found| found == sha256) {
            let message = format!("`{}` changed after it was admitted", path.display());
            return Err(Refusal::new(Reason::DigestMismatch, message).into());
        }
        Ok((copy, file))
    };
    // On a blocking thread, so that a long copy does not delay other requests.
    let links: usize = around.levels.iter().map(|level| level.names.len()).sum();
    match file.metadata() {
        Ok(found) if found.len() > LARGE_BYTES || links > MANY_LINKS => block_in_place(copied),
        Ok(_) | Err(_) => copied(),
    }
}

/// File size from which copying counts as slow, bytes.
const LARGE_BYTES: u64 = 256 << 10;

/// Number of links from which creating them counts as slow.
const MANY_LINKS: usize = 256;

/// Limit on names linked around a copy, nearest first.
///
/// No name of a directory with more entries than the remaining limit is linked. The limit suits the `node_modules` of a
/// large project.
const MAX_NEIGHBOURS: usize = 4096;

/// Returns the granted neighbours of a script, beside it and above it.
///
/// Through them `"$(dirname "$0")/lib.sh"`, Python imports and Node.js requires work beside the copy. The links reach
/// no more than the original paths, and name only entries that the caller can list. A script named by a link, as in
/// `node_modules/.bin`, gets a link again: some interpreters search beside the link, others beside its target.
///
/// # Errors
///
/// Refuses where resources to list the directories are lacking, as the hook would miss files: `OVERLOADED`.
fn around(task: HookTask<'_>, script: &Path, file: &File) -> Result<Around, Refusal> {
    let files = &task.policy.files;
    let peer = &task.caller;
    let _as_peer = FileRights::of(peer.uid, peer.gid, &peer.groups);
    // A link may lead to another file by now.
    let real = fs::canonicalize(script).ok();
    let real = real.filter(|real| leads_to(real, file));
    let script = match &real {
        // A path with `..` in it does not contain the script's directories.
        Some(real) if !is_plain(script) => real,
        Some(_) | None => script,
    };
    let Some(own) = script.parent().filter(|_| is_plain(script)) else {
        return Ok(Around::default());
    };
    let granted = files.system.iter().chain(&files.named);
    let granted = granted.filter_map(|grant| match &grant.place {
        policy::GrantPlace::Path(path) if own.starts_with(path) => Some(path),
        policy::GrantPlace::Path(_)
        | policy::GrantPlace::Source { .. }
        | policy::GrantPlace::Workspace { .. } => None,
    });
    // The widest grant: all others lie in it.
    let Some(top) = granted.min_by_key(|path| path.components().count()) else {
        return Ok(Around::default());
    };
    let real = real.as_deref();
    let real = real.filter(|real| *real != script && real.starts_with(top));
    let ways = [Some(script), real];
    let ways = || ways.into_iter().flatten();
    let directories = ways().flat_map(|way| way.ancestors().skip(1));
    let mut directories: Vec<_> = directories.filter(|it| it.starts_with(top)).collect();
    // The nearest first, and each once.
    directories.sort_by_key(|it| (Reverse(it.components().count()), *it));
    directories.dedup();
    let mut left = MAX_NEIGHBOURS;
    let mut levels = Vec::new();
    for directory in directories {
        let what = format_args!("`{}` cannot be listed", directory.display());
        let leading = |name: &OsStr| {
            let path = directory.join(name);
            ways().any(|way| way.starts_with(&path))
        };
        let names = unless_lacking(what, names(directory, leading, left))?;
        // A directory that the caller cannot list contributes no names.
        let names = names.unwrap_or_default();
        left -= names.len();
        levels.push(Level {
            below: below(directory, top),
            names,
            original: directory.to_owned(),
        });
    }
    // Parents first.
    levels.reverse();
    Ok(Around {
        file: below(real.unwrap_or(script), top),
        link: real.is_some().then(|| below(script, top)),
        levels,
    })
}

fn below(path: &Path, top: &Path) -> PathBuf {
    path.strip_prefix(top).unwrap_or(path).to_owned()
}

/// Returns whether a path leads to an open file.
fn leads_to(path: &Path, file: &File) -> bool {
    let identity = |found: fs::Metadata| (found.dev(), found.ino());
    let there = fs::metadata(path).map(identity).ok();
    there.is_some() && there == file.metadata().map(identity).ok()
}

/// Lists a directory without names that lead to a script; empty above `most` names.
fn names(
    directory: &Path,
    leading: impl Fn(&OsStr) -> bool,
    most: usize,
) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        if !leading(&name) {
            names.push(name);
        }
        if names.len() > most {
            return Ok(Vec::new());
        }
    }
    Ok(names)
}

/// Opens a run's scratch directory, to grant it and to start in it.
pub(in crate::sandbox) fn scratch_fd(directory: &RunDir) -> Result<Arc<OwnedFd>, Stop> {
    let opened = grants::open(&directory.scratch(), Links::Refused);
    let (fd, _) = opened.map_err(|e| Fault::new("cannot open the scratch directory", e))?;
    Ok(Arc::new(fd))
}

/// Creates the three pipes: the child's ends, and the daemon's.
///
/// As much of the event as fits is already written to the first: usually all of it.
pub(in crate::sandbox) fn pipes(event: &Bytes) -> io::Result<([OwnedFd; 3], Pipes)> {
    let (stdin_read, stdin_write) = make_pipe()?;
    let (stdout_read, stdout_write) = make_pipe()?;
    let (stderr_read, stderr_write) = make_pipe()?;
    // Only the daemon's ends are non-blocking: hooks do not expect that of theirs.
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
