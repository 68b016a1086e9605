//! The program of a hook, opened once: what is hashed here is what runs.

use std::{
    ffi::OsString,
    fs::{File, Metadata},
    io,
    os::unix::{
        ffi::{OsStrExt, OsStringExt},
        fs::{FileExt, MetadataExt, PermissionsExt},
    },
    path::{Path, PathBuf},
};

use nix::fcntl::OFlag;

use super::{
    Peer,
    allowlist::{Digest, Role},
    digest::DigestCache,
};
use crate::{
    refusal::{Fault, Refusal, Stop},
    request::{InvalidField, is_plain},
    root::View,
    sys::{FileRights, keep_writers_out},
};

/// Programs that take a script as their first argument that is no option.
const INTERPRETERS: [&str; 16] = [
    "bash", "bun", "dash", "deno", "fish", "ksh", "lua", "node", "nodejs", "perl", "php", "pwsh",
    "ruby", "sh", "tclsh", "zsh",
];

/// The longest `#!` line that Linux reads.
const SHEBANG_MAX: usize = 255;

/// A hook's program and script, opened, with the digests of their content.
#[derive(Debug)]
pub struct Program {
    /// What is executed, and the arguments it gets; the first is its own name.
    pub argv: Vec<OsString>,
    /// The content this run is bound to.
    pub digests: Vec<Digest>,
    /// The file that is executed: the program, or its interpreter.
    pub executable: File,
    /// What keeps the executable as it was hashed.
    pub kept: Kept,
    /// The program's absolute path.
    pub path: PathBuf,
    /// The script, where one is read by an interpreter, and its place in `argv`.
    pub script: Option<Script>,
}

/// A script that an interpreter reads.
#[derive(Debug)]
pub struct Script {
    /// Where in `argv` its path stands.
    pub argument: usize,
    /// The file.
    pub file: File,
    /// Its absolute path.
    pub path: PathBuf,
    /// What keeps it as it was hashed.
    pub kept: Kept,
    /// SHA-256 of its content when it was admitted, lower-case hex.
    pub sha256: String,
}

/// What keeps a file's content as it was hashed until it has been run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kept {
    /// Nothing: a copy is run, which is hashed once more.
    ByCopy,
    /// Writers are kept out by a lease on this descriptor.
    ByLease,
    /// Only root can write it.
    ByRoot,
}

/// Whether files of the caller's choice are opened with more rights than the caller has.
#[derive(Clone, Copy, Debug)]
pub enum OpenedFor<'a> {
    /// The daemon has the rights of hooks and callers.
    Oneself,
    /// The daemon is root: only what this peer could read is opened.
    Peer(&'a Peer),
}

impl Program {
    /// Finds a command's program by absolute path or, without a slash, in the directories to search.
    ///
    /// # Errors
    ///
    /// Refuses what is neither, and what is not there: `INVALID_REQUEST` on `hook.argv[0]`.
    pub fn find(argv: &[OsString], search: &[PathBuf], view: View<'_>) -> Result<PathBuf, Refusal> {
        let (name, _) = program_and_arguments(argv)?;
        let field = |problem: String| Refusal::from(InvalidField::new("hook.argv[0]", problem));
        let path = Path::new(name);
        if is_plain(path) {
            return Ok(path.to_owned());
        }
        if name.as_bytes().contains(&b'/') {
            return Err(field(format!(
                "`{}` is not an absolute path without `.` and `..`",
                path.display()
            )));
        }
        search
            .iter()
            .map(|directory| directory.join(path))
            .find(|candidate| {
                view.metadata(candidate)
                    .is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
            })
            .ok_or_else(|| {
                field(format!(
                    "`{}` is not found on the profile's PATH",
                    path.display()
                ))
            })
    }

    /// Opens and hashes the program that [`Program::find`] has found, its interpreter and its script.
    ///
    /// # Errors
    ///
    /// Refuses a program that is not there, not a regular file, not executable or not readable by the caller; a file that
    /// cannot be read while it is hashed is a fault.
    pub fn open(
        path: PathBuf,
        argv: &[OsString],
        cache: &DigestCache,
        opened_for: OpenedFor<'_>,
        view: View<'_>,
    ) -> Result<Self, Stop> {
        let (name, arguments) = program_and_arguments(argv)?;
        // What the caller cannot reach, by its directories too, is as good as absent.
        let _as_peer = match opened_for {
            OpenedFor::Oneself => None,
            OpenedFor::Peer(peer) => Some(FileRights::of(peer.uid, peer.gid)),
        };
        let (file, metadata) = open(&path, "hook.argv[0]", opened_for, view)?;
        // Before it is hashed.
        let kept = keep(&file, &metadata);
        if metadata.permissions().mode() & 0o111 == 0 {
            return Err(InvalidField::new(
                "hook.argv[0]",
                format!("`{}` is not executable", path.display()),
            )
            .into());
        }
        let digest = |file: &File, path: &Path, role| -> Result<Digest, Stop> {
            let sha256 = cache
                .digest(file)
                .map_err(|cause| Fault::new(format!("cannot read `{}`", path.display()), cause))?;
            Ok(Digest {
                path: path.display().to_string(),
                role,
                sha256,
            })
        };
        let mut digests = vec![digest(&file, &path, Role::Program)?];

        if let Some(shebang) = Shebang::read(&file)
            && let Ok((interpreter, metadata)) =
                open(&shebang.interpreter, "hook.argv[0]", opened_for, view)
            // A script whose interpreter is a script is left to the kernel, which will say what it thinks of it.
            && Shebang::read(&interpreter).is_none()
        {
            let interpreter_kept = keep(&interpreter, &metadata);
            digests.push(digest(
                &interpreter,
                &shebang.interpreter,
                Role::Interpreter,
            )?);
            let mut argv = vec![shebang.interpreter.into_os_string()];
            argv.extend(shebang.argument);
            let script = Script {
                argument: argv.len(),
                file,
                kept,
                path: path.clone(),
                sha256: digests[0].sha256.clone(),
            };
            argv.push(path.clone().into_os_string());
            argv.extend_from_slice(arguments);
            return Ok(Self {
                argv,
                digests,
                executable: interpreter,
                kept: interpreter_kept,
                path,
                script: Some(script),
            });
        }

        let script = script_argument(&path, arguments, view)
            .map(|(index, path)| {
                let argument = index + 1;
                let (file, metadata) =
                    open(&path, &format!("hook.argv[{argument}]"), opened_for, view)?;
                let kept = keep(&file, &metadata);
                let digest = digest(&file, &path, Role::Argument)?;
                let sha256 = digest.sha256.clone();
                digests.push(digest);
                Ok::<_, Stop>(Script {
                    argument,
                    file,
                    kept,
                    path,
                    sha256,
                })
            })
            .transpose()?;
        let mut argv = vec![name.clone()];
        argv.extend_from_slice(arguments);
        Ok(Self {
            argv,
            digests,
            executable: file,
            kept,
            path,
            script,
        })
    }

    /// Returns the path of what is executed: the program, or its interpreter.
    pub fn executable_path(&self) -> &Path {
        let is_interpreted = self.digests.iter().any(|it| it.role == Role::Interpreter);
        match self.argv.first() {
            Some(interpreter) if is_interpreted => Path::new(interpreter),
            Some(_) | None => &self.path,
        }
    }

    /// Returns the SHA-256 of what is executed, lower-case hex.
    pub fn executable_sha256(&self) -> &str {
        let is_executed = |digest: &&Digest| digest.role == Role::Interpreter;
        let executed = self.digests.iter().find(is_executed);
        executed.map_or(&self.digests[0].sha256, |digest| &digest.sha256)
    }
}

/// Sees to it that a file is not changed between its hash and its run.
fn keep(file: &File, metadata: &Metadata) -> Kept {
    if metadata.uid() == 0 && metadata.mode() & 0o022 == 0 {
        return Kept::ByRoot;
    }
    // Why no error is told from another: `EAGAIN` is a file that somebody has open for writing, and on file systems of other
    // machines one that the server has not delegated. A copy will do for both.
    match keep_writers_out(file) {
        Ok(()) => Kept::ByLease,
        Err(_) => Kept::ByCopy,
    }
}

fn program_and_arguments(argv: &[OsString]) -> Result<(&OsString, &[OsString]), InvalidField> {
    argv.split_first()
        .ok_or_else(|| InvalidField::new("hook.argv", "is empty"))
}

fn open(
    path: &Path,
    field: &str,
    opened_for: OpenedFor<'_>,
    view: View<'_>,
) -> Result<(File, Metadata), Refusal> {
    let refuse = |problem: String| Refusal::from(InvalidField::new(field, problem));
    // Nonblocking, so that a FIFO cannot hang the daemon; it is refused below.
    let file = view
        .open(path, OFlag::O_NONBLOCK | OFlag::O_NOCTTY)
        .map_err(|error| refuse(format!("`{}` cannot be opened: {error}", path.display())))?;
    let metadata = file
        .metadata()
        .map_err(|error| refuse(format!("`{}` cannot be examined: {error}", path.display())))?;
    if !metadata.is_file() {
        return Err(refuse(format!(
            "`{}` is not a regular file",
            path.display()
        )));
    }
    if let OpenedFor::Peer(peer) = opened_for
        && !peer.may_read(metadata.uid(), metadata.permissions().mode())
    {
        return Err(refuse(format!(
            "`{}` is not readable by the caller",
            path.display()
        )));
    }
    Ok((file, metadata))
}

/// Returns the argument that an interpreter reads as its script, if it names an existing file by absolute path.
fn script_argument(
    program: &Path,
    arguments: &[OsString],
    view: View<'_>,
) -> Option<(usize, PathBuf)> {
    let name = program.file_name()?.to_str()?;
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    if !INTERPRETERS.contains(&stem) && stem != "python" {
        return None;
    }
    // The first file, not the first word without a dash: that may belong to an option (`python3 -W ignore FILE`).
    let (index, path) = arguments
        .iter()
        .map(Path::new)
        .enumerate()
        .find(|(_, argument)| {
            argument.is_absolute() && view.metadata(argument).is_ok_and(|found| found.is_file())
        })?;
    // `sh -c TEXT FILE`: the text is the script, and it came with the request.
    let inline = arguments[..index]
        .iter()
        .any(|a| matches!(a.as_bytes(), b"-c" | b"-e" | b"-m" | b"--eval"));
    (!inline).then(|| (index, path.to_owned()))
}

/// The first line of a script.
#[derive(Debug, Eq, PartialEq)]
struct Shebang {
    argument: Option<OsString>,
    interpreter: PathBuf,
}

impl Shebang {
    fn read(file: &File) -> Option<Self> {
        let mut buffer = [0; SHEBANG_MAX + 1];
        let count = read_up_to(file, &mut buffer).ok()?;
        Self::parse(&buffer[..count])
    }

    /// Reads `#!interpreter [argument]` as Linux does: one argument at most, blanks around it dropped. `None` where there
    /// is none, or none that would work; the kernel's own answer to that becomes the outcome.
    fn parse(start: &[u8]) -> Option<Self> {
        let rest = start.strip_prefix(b"#!")?;
        let line = rest.split(|byte| *byte == b'\n').next()?;
        if line.len() == rest.len() && start.len() > SHEBANG_MAX {
            return None;
        }
        let line = line.trim_ascii();
        let (interpreter, argument) =
            match line.iter().position(|byte| matches!(byte, b' ' | b'\t')) {
                Some(blank) => (&line[..blank], Some(line[blank..].trim_ascii())),
                None => (line, None),
            };
        // A line ending of another system is part of the name for the kernel, and no such interpreter exists.
        if rest.split(|byte| *byte == b'\n').next()?.ends_with(b"\r") {
            return None;
        }
        let interpreter = PathBuf::from(OsString::from_vec(interpreter.to_vec()));
        interpreter.is_absolute().then(|| Self {
            argument: argument.map(|a| OsString::from_vec(a.to_vec())),
            interpreter,
        })
    }
}

fn read_up_to(file: &File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut count = 0;
    while count < buffer.len() {
        match file.read_at(&mut buffer[count..], count as u64)? {
            0 => break,
            more => count += more,
        }
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &[u8]) -> Option<(String, Option<String>)> {
        let shebang = Shebang::parse(line)?;
        let text = |s: OsString| s.into_string().unwrap();
        Some((
            text(shebang.interpreter.into_os_string()),
            shebang.argument.map(text),
        ))
    }

    #[test]
    fn first_lines_are_read_as_the_kernel_reads_them() {
        let some = |i: &str, a: Option<&str>| Some((i.to_owned(), a.map(str::to_owned)));
        assert_eq!(parse(b"#!/bin/sh\necho"), some("/bin/sh", None));
        assert_eq!(parse(b"#! /bin/sh -eu \n"), some("/bin/sh", Some("-eu")));
        assert_eq!(
            parse(b"#!/usr/bin/env -S a b\n"),
            some("/usr/bin/env", Some("-S a b"))
        );
        assert_eq!(parse(b"#!/bin/sh"), some("/bin/sh", None));
        assert_eq!(parse(b"#!/bin/sh\r\n"), None);
        assert_eq!(parse(b"#!bin/sh\n"), None);
        assert_eq!(parse(b"#!\n"), None);
        assert_eq!(parse(b"\x7fELF"), None);
        let mut long = b"#!/bin/".to_vec();
        long.resize(400, b'x');
        assert_eq!(parse(&long[..SHEBANG_MAX + 1]), None);
    }

    #[test]
    fn only_interpreters_have_script_arguments() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().as_os_str().to_owned();
        let found = |program: &str, arguments: &[OsString]| {
            script_argument(Path::new(program), arguments, View::HOST)
        };
        assert_eq!(
            found("/usr/bin/python3.11", &["-u".into(), path.clone()]),
            Some((1, file.path().to_owned()))
        );
        assert_eq!(
            found("/bin/sh", std::slice::from_ref(&path)),
            Some((0, file.path().to_owned()))
        );
        assert_eq!(
            found(
                "/usr/bin/python3",
                &["-W".into(), "ignore".into(), path.clone()]
            ),
            Some((2, file.path().to_owned()))
        );
        assert_eq!(found("/bin/cat", std::slice::from_ref(&path)), None);
        assert_eq!(found("/bin/sh", &["-c".into(), path]), None);
    }
}
