//! Opens a hook's program and its scripts once: what is hashed here is what runs.

use std::{
    cmp::Reverse,
    ffi::{OsStr, OsString},
    fs::{self, File, Metadata},
    io,
    os::{
        fd::AsRawFd,
        unix::{
            ffi::{OsStrExt, OsStringExt},
            fs::{FileExt, MetadataExt, PermissionsExt},
        },
    },
    path::{Path, PathBuf},
    sync::atomic::AtomicBool,
};

use nix::{errno::Errno, fcntl::OFlag};

use hookjail_base::{
    model::{InvalidField, Peer, is_plain},
    refusal::{Fault, Reason, Refusal, Stop, unless_lacking},
};

use super::{
    allowlist::{Digest, Role},
    digest::{DigestCache, HashError},
    interpreter::{self, CommandReading, FileUse, NamedFile, WordSpot},
};
use crate::{
    rootfs::View,
    sys::{FileRights, keep_writers_out},
};

/// The longest chain of interpreters that Linux follows, each but the last a script.
const MAX_INTERPRETERS: usize = 5;

/// The most files of code of one command. Each is open until the run is over.
const MAX_FILES: usize = 16;

/// The longest `#!` line that Linux reads.
const MAX_SHEBANG_BYTES: usize = 255;

/// A hook's program and scripts, opened, with the digests of their content.
#[derive(Debug)]
pub(crate) struct Program {
    /// The arguments for `execve`; the first is the executable's own name.
    pub argv: Vec<OsString>,
    /// Arguments that are data by the consent, whatever the files contain.
    pub data: Vec<OsString>,
    /// The content this run is bound to.
    pub digests: Vec<Digest>,
    /// The file that is executed: the program, or its interpreter.
    pub executable: File,
    /// Arguments that name files which may be code or data.
    pub given: Vec<OsString>,
    /// The guard of the executable's content between hash and run.
    pub kept: ContentGuard,
    /// The program's absolute path.
    pub path: PathBuf,
    /// The files of code that an interpreter reads by a path in `argv`.
    pub scripts: Vec<Script>,
    /// Descriptions of code that it runs without being bound to content.
    pub unbound: Vec<String>,
    /// Bound files that are read by their paths. They stay open because their leases end when they are closed.
    _held: Vec<File>,
}

/// A script that an interpreter reads.
#[derive(Debug)]
pub(crate) struct Script {
    /// The file.
    pub file: File,
    /// Its absolute path.
    pub path: PathBuf,
    /// The guard of its content between hash and run.
    pub kept: ContentGuard,
    /// SHA-256 of its content when it was admitted, lower-case hex.
    pub sha256: String,
    /// The interpreter and its argument, where a shell's line executes the script. They are put before the path; else
    /// empty.
    interpreter: Vec<OsString>,
    /// The position of its path in `argv`.
    spot: WordSpot,
}

/// A program that is opened and not yet hashed.
#[derive(Debug)]
pub(crate) struct Opened {
    argv: Vec<OsString>,
    data: Vec<OsString>,
    /// The program itself, or its interpreter.
    executable: usize,
    files: Vec<OpenedFile>,
    given: Vec<OsString>,
    path: PathBuf,
    unbound: Vec<String>,
}

#[derive(Debug)]
struct OpenedFile {
    file: File,
    kept: ContentGuard,
    path: PathBuf,
    role: Role,
    script: Option<(WordSpot, Vec<OsString>)>,
}

/// Guard of a file's content between hash and run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ContentGuard {
    /// None: a copy is run, which is hashed once more.
    Copy,
    /// Writers are kept out by a lease on this descriptor.
    Lease,
    /// Only root can write it.
    Root,
}

/// User with whose rights files of the caller's choice are opened.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OpenedFor<'a> {
    /// The daemon's own: hooks and callers have the same rights.
    Oneself,
    /// This peer: the daemon is root, and opens only files that the peer could read.
    Peer(&'a Peer),
}

impl Program {
    /// Finds a command's program by absolute path or in the search directories.
    ///
    /// # Errors
    ///
    /// Refuses an empty command, a relative path, and a name that no search directory has: `INVALID_REQUEST`.
    /// `OVERLOADED` where the system lacks a resource for the search.
    pub(crate) fn find(
        argv: &[OsString],
        search: &[PathBuf],
        view: View<'_>,
    ) -> Result<PathBuf, Refusal> {
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
        if let Some(found) = on_path(path, search, view)? {
            return Ok(found);
        }
        let mut third = path.as_os_str().to_owned();
        third.push("3");
        let hint = match on_path(Path::new(&third), search, view)? {
            Some(_) => format!("; there is `{}`", Path::new(&third).display()),
            None => String::new(),
        };
        Err(field(format!(
            "`{}` is not found on the profile's PATH{hint}",
            path.display()
        )))
    }

    /// Opens the program, its interpreter, and the files of code that its words name. Relative ones are resolved in
    /// `working_dir`. A file that is only an argument, and not known to be executed, is not bound where `data` has its
    /// word.
    ///
    /// # Errors
    ///
    /// Refuses a program that is not there, not a regular file, not executable or not readable by the caller, and a
    /// script that its interpreter would look for and that cannot be opened: `INVALID_REQUEST`. `OVERLOADED` where the
    /// system lacks a resource for opening any of these.
    pub(crate) fn open(
        path: PathBuf,
        argv: &[OsString],
        data: &[OsString],
        working_dir: Option<&Path>,
        opened_for: OpenedFor<'_>,
        view: View<'_>,
    ) -> Result<Opened, Refusal> {
        let (name, arguments) = program_and_arguments(argv)?;
        // A file that the caller cannot reach, also because of its directories, counts as absent.
        let _as_peer = match opened_for {
            OpenedFor::Oneself => None,
            OpenedFor::Peer(peer) => Some(FileRights::of(peer.uid, peer.gid, &peer.groups)),
        };
        let opener = Opener {
            data,
            view,
            working_dir,
        };
        let (file, metadata) = opener.open(&path, "hook.argv[0]")?;
        // The guard has to hold before the file is hashed.
        let kept = keep(&file, &metadata);
        if metadata.permissions().mode() & 0o111 == 0 {
            return Err(InvalidField::new(
                "hook.argv[0]",
                format!("`{}` is not executable", path.display()),
            )
            .into());
        }
        let shebang = Shebang::of_program(&file)?;
        let known = known_as(&path, &file)?;
        let mut opened = Opened {
            argv: Vec::new(),
            data: Vec::new(),
            executable: 0,
            files: vec![OpenedFile {
                file,
                kept,
                path: path.clone(),
                role: Role::Program,
                script: None,
            }],
            given: Vec::new(),
            path: path.clone(),
            unbound: Vec::new(),
        };
        if let Some(shebang) = &shebang
            && let Some((interpreter, metadata)) = opener.try_open(&shebang.interpreter)?
            && Shebang::read(&interpreter)?.is_none()
        {
            opened.executable = opened.files.len();
            opened.files.push(OpenedFile {
                kept: keep(&interpreter, &metadata),
                file: interpreter,
                path: shebang.interpreter.clone(),
                role: Role::Interpreter,
                script: None,
            });
            let before = shebang.words();
            opened.files[0].script = Some((WordSpot::argument(before.len()), Vec::new()));
            opened.argv = before;
            opened.argv.push(path.into_os_string());
            let own = opened.argv.len();
            opened.argv.extend_from_slice(arguments);
            // The argument in the first line may name files, and so may the script's own arguments: by its name the
            // script can be an interpreter itself, as one that selects a version.
            if let Some(argument) = &shebang.argument {
                opened.bind_all(
                    interpreter::first_line(&shebang.interpreter, argument),
                    &opener,
                )?;
            }
            let mut reading = interpreter::read(&words(known, arguments));
            for named in &mut reading.named {
                named.spot.argument += own - 1;
            }
            opened.bind_all(reading, &opener)?;
            return Ok(opened);
        }
        // The kernel opens a script itself whose interpreter is a script or cannot be opened.
        opened.argv = vec![name.clone()];
        opened.argv.extend_from_slice(arguments);
        opened.bind_interpreters(shebang, &opener)?;
        opened.bind_all(interpreter::read(&words(known, arguments)), &opener)?;
        Ok(opened)
    }

    /// Returns program and arguments with other files in the places of scripts, by index.
    pub(crate) fn argv_with(&self, mut others: Vec<(usize, PathBuf)>) -> Vec<OsString> {
        let mut argv = self.argv.clone();
        // From the end to the beginning, so that indexes of arguments and ranges in lines stay valid.
        let start = |index: usize| {
            let spot = &self.scripts[index].spot;
            (spot.argument, spot.line.as_ref().map(|it| it.start))
        };
        others.sort_by_key(|(index, _)| Reverse(start(*index)));
        for (index, path) in others {
            let script = &self.scripts[index];
            let WordSpot {
                argument,
                line,
                prefix,
            } = &script.spot;
            let mut word = prefix.clone();
            word.push(path);
            let words = script.interpreter.iter().cloned().chain([word]);
            match line {
                None => drop(argv.splice(*argument..=*argument, words)),
                Some(range) => {
                    let words: Vec<_> = words.map(|it| shell_quoted(&it)).collect();
                    let mut text = argv[*argument].as_bytes().to_vec();
                    text.splice(range.clone(), words.join(&b' '));
                    argv[*argument] = OsString::from_vec(text);
                }
            }
        }
        argv
    }

    /// Returns the words before the first script, where that is a word of its own.
    pub(crate) fn words_before_script(&self) -> Option<&[OsString]> {
        let spot = &self.scripts.first()?.spot;
        let is_word = spot.line.is_none() && spot.prefix.is_empty();
        is_word.then(|| &self.argv[..spot.argument])
    }

    /// Returns the program with the same open files, for another start.
    ///
    /// # Errors
    ///
    /// Fails where no more descriptors can be had.
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        let script = |script: &Script| {
            Ok(Script {
                file: script.file.try_clone()?,
                interpreter: script.interpreter.clone(),
                kept: script.kept,
                path: script.path.clone(),
                sha256: script.sha256.clone(),
                spot: script.spot.clone(),
            })
        };
        Ok(Self {
            _held: Vec::new(),
            argv: self.argv.clone(),
            data: self.data.clone(),
            digests: self.digests.clone(),
            executable: self.executable.try_clone()?,
            given: self.given.clone(),
            kept: self.kept,
            path: self.path.clone(),
            scripts: self.scripts.iter().map(script).collect::<io::Result<_>>()?,
            unbound: self.unbound.clone(),
        })
    }

    /// Returns the path of the executable: the program, or its interpreter.
    pub(crate) fn executable_path(&self) -> &Path {
        let is_interpreted = self.digests.iter().any(|it| it.role == Role::Interpreter);
        match self.argv.first() {
            Some(interpreter) if is_interpreted => Path::new(interpreter),
            Some(_) | None => &self.path,
        }
    }

    /// Explains why `execve` failed, mostly by the file's first line.
    pub(crate) fn why_not_executed(&self, errno: i32) -> String {
        let errno = Errno::from_raw(errno);
        let mut start = [0; MAX_SHEBANG_BYTES];
        let read = read_up_to(&self.executable, &mut start).unwrap_or(0);
        why_not_executed(&start[..read], errno).unwrap_or_else(|| errno.desc().to_owned())
    }

    /// Returns the SHA-256 of the executable, lower-case hex.
    pub(crate) fn executable_sha256(&self) -> &str {
        let is_executed = |digest: &&Digest| digest.role == Role::Interpreter;
        let executed = self.digests.iter().find(is_executed);
        executed.map_or(&self.digests[0].sha256, |digest| &digest.sha256)
    }
}

impl Opened {
    /// Returns how many bytes have to be read to hash its files.
    pub(crate) fn unknown_bytes(&self, cache: &DigestCache) -> u64 {
        let unknown = self.files.iter();
        let unknown =
            unknown.map(|it| cache.unknown_bytes(&it.file, it.kept == ContentGuard::Lease));
        unknown.fold(0, u64::saturating_add)
    }

    /// Hashes its files.
    ///
    /// # Errors
    ///
    /// Refuses a file that is too large (`INVALID_REQUEST`) or was changed or renamed meanwhile (`DIGEST_MISMATCH`),
    /// and the program where its own words replace it (`INVALID_REQUEST`) or `stop` is set (`DEADLINE`). A file that
    /// cannot be read is a fault.
    pub(crate) fn hash(self, cache: &DigestCache, stop: &AtomicBool) -> Result<Program, Stop> {
        let Self {
            argv,
            data,
            executable,
            files,
            given,
            path,
            unbound,
        } = self;
        let mut digests: Vec<Digest> = Vec::new();
        let (mut scripts, mut held, mut executed) = (Vec::new(), Vec::new(), None);
        for (index, opened) in files.into_iter().enumerate() {
            let OpenedFile {
                file,
                kept,
                path,
                role,
                script,
            } = opened;
            let sha256 = cache
                .digest(&file, kept == ContentGuard::Lease, stop)
                .map_err(|error| not_hashed(&path, error))?;
            let digest = Digest {
                path: path.display().to_string(),
                role,
                sha256: sha256.clone(),
            };
            if !digests.contains(&digest) {
                digests.push(digest);
            }
            match script {
                Some((spot, interpreter)) => scripts.push(Script {
                    file,
                    interpreter,
                    kept,
                    path,
                    sha256,
                    spot,
                }),
                None if index == executable => executed = Some((file, kept)),
                None => held.push(file),
            }
        }
        let (executable, kept) = executed.ok_or_else(|| {
            let problem = "names a program that its own words replace";
            InvalidField::new("hook.argv", problem)
        })?;
        Ok(Program {
            _held: held,
            argv,
            data,
            digests,
            executable,
            given,
            kept,
            path,
            scripts,
            unbound,
        })
    }

    /// Binds the code that a command's words name.
    fn bind_all(&mut self, reading: CommandReading, opener: &Opener<'_>) -> Result<(), Refusal> {
        let CommandReading {
            line: _,
            named,
            other,
            unbound,
        } = reading;
        self.unbound.extend(unbound);
        named
            .iter()
            .try_for_each(|named| self.bind(named, opener))?;
        let Some(other) = other else {
            return Ok(());
        };
        // A script's text is bound, and its words are its own; of a program that `PATH` finds nothing is bound.
        let path = opener.resolve(Path::new(&other));
        let files = self.files.iter();
        if let Some(file) = files.rev().find(|it| Some(&it.path) == path.as_ref())
            && Shebang::of_program(&file.file)?.is_none()
        {
            let why = format!(
                "files and commands that the words of `{}` name",
                other.display()
            );
            self.unbound.push(why);
        }
        Ok(())
    }

    /// Opens and binds the file that a word names, if it is code.
    fn bind(&mut self, named: &NamedFile, opener: &Opener<'_>) -> Result<(), Refusal> {
        let written = Path::new(&named.path);
        let (shown, argument) = (written.display(), named.spot.argument);
        // A relative path is one in the hook's start directory, which the caller passes if it is known.
        match named.used {
            FileUse::Library => {
                let is_relative = [".", ".."].iter().any(|dots| written.starts_with(dots));
                if !is_relative && !written.is_absolute() {
                    self.unbound.push(format!("the library `{shown}`"));
                    return Ok(());
                }
            }
            FileUse::Part | FileUse::Perhaps | FileUse::Trailing => {
                let word = &self.argv[argument];
                if named.spot.line.is_none() && opener.data.contains(word) {
                    let why = format!(
                        "`{}`, which is data to its program by the operator's word",
                        word.display()
                    );
                    if !self.data.contains(word) {
                        self.unbound.push(why);
                        self.data.push(word.clone());
                    }
                    return Ok(());
                }
            }
            FileUse::Executed | FileUse::Found | FileUse::Likely | FileUse::Script => {}
        }
        let Some(path) = opener.resolve(written) else {
            match named.used {
                FileUse::Executed
                | FileUse::Found
                | FileUse::Library
                | FileUse::Likely
                | FileUse::Script => {
                    let why = format!("`{shown}`: where the hook starts is not known here");
                    self.unbound.push(why);
                }
                FileUse::Part | FileUse::Perhaps | FileUse::Trailing => {}
            }
            return Ok(());
        };
        let field = format!("hook.argv[{argument}]");
        let found = look(opener.view, &path)?;
        if !found.as_ref().is_ok_and(Metadata::is_file) {
            let why = match named.used {
                FileUse::Executed | FileUse::Library | FileUse::Script => {
                    let why = format!("`{shown}`, which is no regular file");
                    // Refused below: a missing file that is certainly used may be there a moment later.
                    found.is_ok().then_some(why)
                }
                FileUse::Found => Some(format!("the code that `{shown}` names")),
                FileUse::Likely | FileUse::Part | FileUse::Perhaps => {
                    let is_directory = found.is_ok_and(|it| it.is_dir());
                    is_directory.then(|| format!("files in the directory `{shown}`"))
                }
                FileUse::Trailing => None,
            };
            let is_looked_for = matches!(
                named.used,
                FileUse::Executed | FileUse::Library | FileUse::Script
            );
            if why.is_some() || !is_looked_for {
                let why = why.filter(|why| !self.unbound.contains(why));
                self.unbound.extend(why);
                return Ok(());
            }
        }
        let (file, metadata) = match named.used {
            // It may be data that only the hook may read.
            FileUse::Trailing => match opener.try_open(&path)? {
                Some(opened) => opened,
                None => return Ok(()),
            },
            FileUse::Executed
            | FileUse::Found
            | FileUse::Library
            | FileUse::Likely
            | FileUse::Part
            | FileUse::Perhaps
            | FileUse::Script => opener.open(&path, &field)?,
        };
        let shebang = match named.used {
            FileUse::Executed => Shebang::of_program(&file)?,
            FileUse::Found
            | FileUse::Library
            | FileUse::Likely
            | FileUse::Part
            | FileUse::Perhaps
            | FileUse::Script
            | FileUse::Trailing => Shebang::read(&file)?,
        };
        let is_script = shebang.is_some() || interpreter::ends_like_a_script(&path);
        let is_binary = metadata.permissions().mode() & 0o111 != 0 && is_binary(&file)?;
        if named.used == FileUse::Trailing && !is_script && !is_binary {
            return Ok(());
        }
        if named.used == FileUse::Trailing && named.spot == WordSpot::argument(argument) {
            self.given.push(named.path.clone());
        }
        if self.files.len() >= MAX_FILES {
            if matches!(named.used, FileUse::Part | FileUse::Trailing) {
                let why = format!("files of code beyond the first {MAX_FILES}");
                if !self.unbound.contains(&why) {
                    self.unbound.push(why);
                }
                return Ok(());
            }
            let problem = format!("names more than {MAX_FILES} files of code");
            return Err(InvalidField::new(field, problem).into());
        }
        let script = match named.used {
            // The kernel opens the file and its interpreter by path, so the interpreter is named before the bound file.
            FileUse::Executed => shebang
                .as_ref()
                .map(|shebang| (named.spot.clone(), shebang.words())),
            // Text behind the path stays as it is, and so does the path.
            FileUse::Part => None,
            // A binary is executed by its path; no interpreter reads a copy of it.
            FileUse::Trailing if !is_script => None,
            FileUse::Found
            | FileUse::Library
            | FileUse::Likely
            | FileUse::Perhaps
            | FileUse::Script
            | FileUse::Trailing => Some((named.spot.clone(), Vec::new())),
        };
        if named.used == FileUse::Executed {
            self.bind_interpreters(shebang, opener)?;
        }
        self.push(file, &metadata, path, script);
        Ok(())
    }

    /// Binds the interpreters that the kernel opens by path for a script, and the files that its first line names.
    fn bind_interpreters(
        &mut self,
        mut shebang: Option<Shebang>,
        opener: &Opener<'_>,
    ) -> Result<(), Refusal> {
        for _ in 0..MAX_INTERPRETERS {
            let Some(found) = shebang.take() else {
                break;
            };
            if let Some(argument) = &found.argument {
                let mut reading = interpreter::first_line(&found.interpreter, argument);
                for named in &mut reading.named {
                    // It is no argument of the command, so no other file can take its place.
                    (named.spot, named.used) = (WordSpot::argument(0), FileUse::Part);
                }
                self.bind_all(reading, opener)?;
            }
            match opener.try_open(&found.interpreter)? {
                Some((file, metadata)) => {
                    shebang = Shebang::read(&file)?;
                    self.push(file, &metadata, found.interpreter, None);
                }
                None => {
                    let what = found.interpreter.display();
                    self.unbound
                        .push(format!("the interpreter `{what}`, which is not there"));
                }
            }
        }
        Ok(())
    }

    fn push(
        &mut self,
        file: File,
        metadata: &Metadata,
        path: PathBuf,
        script: Option<(WordSpot, Vec<OsString>)>,
    ) {
        if script.is_none() && only_roots(&path, &file).is_none() {
            let what = path.display();
            let why = format!("`{what}` for the moment in which it is opened again");
            self.unbound.push(why);
        }
        self.files.push(OpenedFile {
            kept: keep(&file, metadata),
            file,
            path,
            role: Role::Argument,
            script,
        });
    }
}

/// Builds the refusal of a file that could not be hashed.
fn not_hashed(path: &Path, error: HashError) -> Stop {
    let shown = path.display();
    match error {
        HashError::Abandoned => {
            let message = format!("the deadline passed while `{shown}` was hashed");
            Refusal::new(Reason::Deadline, message).into()
        }
        HashError::Changed => {
            let message =
                format!("`{shown}` was changed or renamed while it was hashed; try again");
            Refusal::new(Reason::DigestMismatch, message).into()
        }
        HashError::Irregular | HashError::TooLarge { .. } => {
            InvalidField::new("hook.argv", format!("names `{shown}`: {error}")).into()
        }
        HashError::Io(_) => Fault::new(format!("cannot read `{shown}`"), error).into(),
    }
}

/// Returns an opened file's path without links, if only root can replace the file.
pub(crate) fn only_roots(named: &Path, opened: &File) -> Option<PathBuf> {
    let path = roots_alone(named)?;
    let (found, opened) = (path.metadata().ok()?, opened.metadata().ok()?);
    ((found.dev(), found.ino()) == (opened.dev(), opened.ino())).then_some(path)
}

/// Returns a path without links, if only root can replace what is there.
pub(crate) fn roots_alone(named: &Path) -> Option<PathBuf> {
    let path = named.canonicalize().ok()?;
    let roots = |path: &Path| {
        path.metadata()
            .is_ok_and(|metadata| metadata.uid() == 0 && metadata.mode() & 0o022 == 0)
    };
    path.ancestors().all(roots).then_some(path)
}

/// Returns the path whose name identifies a program: its own, or a link's target.
fn known_as(path: &Path, file: &File) -> Result<PathBuf, Refusal> {
    if !interpreter::is_known(path) {
        let real = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()));
        let real = unless_lacking(format_args!("`{}`", path.display()), real)?;
        if let Some(real) = real.ok().filter(|real| interpreter::is_interpreter(real)) {
            return Ok(real);
        }
    }
    Ok(path.to_owned())
}

/// Returns the first executable file of a name in one of these directories.
fn on_path(name: &Path, search: &[PathBuf], view: View<'_>) -> Result<Option<PathBuf>, Refusal> {
    for directory in search {
        let candidate = directory.join(name);
        let found = look(view, &candidate)?;
        if found.is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0) {
            return Ok(Some(candidate));
        }
    }
    Ok(None)
}

/// Returns the metadata of the file at a path. The inner error means that no program can be run there.
fn look(view: View<'_>, path: &Path) -> Result<io::Result<Metadata>, Refusal> {
    let what = format_args!("`{}` cannot be examined", path.display());
    unless_lacking(what, view.metadata(path))
}

fn words(program: PathBuf, arguments: &[OsString]) -> Vec<OsString> {
    let mut words = vec![program.into_os_string()];
    words.extend_from_slice(arguments);
    words
}

/// Returns whether a file begins as native executables do: ELF, or Mach-O.
fn is_binary(file: &File) -> Result<bool, Refusal> {
    const STARTS: [[u8; 4]; 4] = [
        *b"\x7fELF",
        [0xcf, 0xfa, 0xed, 0xfe],
        [0xfe, 0xed, 0xfa, 0xcf],
        [0xca, 0xfe, 0xba, 0xbe],
    ];
    let mut start = [0; 4];
    let read = unless_lacking("a file cannot be read", read_up_to(file, &mut start))?;
    Ok(read.is_ok() && STARTS.contains(&start))
}

/// Quotes a word for a shell.
fn shell_quoted(word: &OsStr) -> Vec<u8> {
    let mut quoted = vec![b'\''];
    for byte in word.as_bytes() {
        match byte {
            b'\'' => quoted.extend_from_slice(br"'\''"),
            byte => quoted.push(*byte),
        }
    }
    quoted.push(b'\'');
    quoted
}

/// Guards a file against changes between hash and run.
fn keep(file: &File, metadata: &Metadata) -> ContentGuard {
    if metadata.uid() == 0 && metadata.mode() & 0o022 == 0 {
        return ContentGuard::Root;
    }
    // Why errors are not distinguished: `EAGAIN` is a file that a process has open for writing, and on network file
    // systems one that the server has not delegated. A copy serves for both.
    match keep_writers_out(file) {
        Ok(()) => ContentGuard::Lease,
        Err(_) => ContentGuard::Copy,
    }
}

fn program_and_arguments(argv: &[OsString]) -> Result<(&OsString, &[OsString]), InvalidField> {
    argv.split_first()
        .ok_or_else(|| InvalidField::new("hook.argv", "is empty"))
}

/// An opener of files with the rights of daemon or caller.
struct Opener<'a> {
    data: &'a [OsString],
    view: View<'a>,
    working_dir: Option<&'a Path>,
}

impl Opener<'_> {
    /// Returns the absolute path of a written one, if the directory that a relative one starts from is known.
    fn resolve(&self, written: &Path) -> Option<PathBuf> {
        if written.is_absolute() {
            return Some(written.to_owned());
        }
        let directory = self.working_dir?;
        Some(directory.join(written).components().collect())
    }

    /// Opens like [`Self::open`]; returns `None` where that refuses because of the file.
    fn try_open(&self, path: &Path) -> Result<Option<(File, Metadata)>, Refusal> {
        match self.open(path, "hook.argv") {
            Ok(opened) => Ok(Some(opened)),
            Err(refusal) if refusal.reason == Reason::Overloaded => Err(refusal),
            Err(_) => Ok(None),
        }
    }

    fn open(&self, path: &Path, field: &str) -> Result<(File, Metadata), Refusal> {
        let refuse = |problem: String| Refusal::from(InvalidField::new(field, problem));
        let failed = |what: &str, error: io::Error| {
            Refusal::failed(format_args!("`{}` {what}", path.display()), &error, refuse)
        };
        // Nonblocking, so that a FIFO cannot hang the daemon; it is refused below.
        let file = self
            .view
            .open(path, OFlag::O_NONBLOCK | OFlag::O_NOCTTY)
            .map_err(|error| failed("cannot be opened", error))?;
        let metadata = file
            .metadata()
            .map_err(|error| failed("cannot be examined", error))?;
        if !metadata.is_file() {
            return Err(refuse(format!(
                "`{}` is not a regular file",
                path.display()
            )));
        }
        Ok((file, metadata))
    }
}

/// The first line of a script.
#[derive(Debug, Eq, PartialEq)]
struct Shebang {
    argument: Option<OsString>,
    interpreter: PathBuf,
}

impl Shebang {
    /// Returns the words that come before the script's own path.
    fn words(&self) -> Vec<OsString> {
        let interpreter = self.interpreter.clone().into_os_string();
        [interpreter]
            .into_iter()
            .chain(self.argument.clone())
            .collect()
    }

    /// Reads a script's first line; `None` if the file is no script, or unreadable.
    fn read(file: &File) -> Result<Option<Self>, Refusal> {
        Self::of_start(file, Self::parse)
    }

    /// Reads how a program is executed by the shells and runtimes that run hooks: as by its first line, and text without one by `/bin/sh`.
    fn of_program(file: &File) -> Result<Option<Self>, Refusal> {
        Self::of_start(file, |start| {
            Self::parse(start).or_else(|| is_text(start).then(Self::shell))
        })
    }

    fn of_start(
        file: &File,
        parse: impl FnOnce(&[u8]) -> Option<Self>,
    ) -> Result<Option<Self>, Refusal> {
        let mut buffer = [0; MAX_SHEBANG_BYTES + 1];
        let read = unless_lacking("a file cannot be read", read_up_to(file, &mut buffer))?;
        Ok(read.ok().and_then(|count| parse(&buffer[..count])))
    }

    /// Returns the interpreter of text for which the kernel has none (`ENOEXEC`).
    fn shell() -> Self {
        Self {
            argument: None,
            interpreter: PathBuf::from("/bin/sh"),
        }
    }

    /// Reads `#!interpreter [argument]` as Linux does: one argument at most, blanks around it dropped. `None` where
    /// there is none, or none that works; the kernel's error then becomes the outcome.
    fn parse(start: &[u8]) -> Option<Self> {
        let rest = start.strip_prefix(b"#!")?;
        let line = rest.split(|byte| *byte == b'\n').next()?;
        if line.len() == rest.len() && start.len() > MAX_SHEBANG_BYTES {
            return None;
        }
        let line = line.trim_ascii();
        let (interpreter, argument) =
            match line.iter().position(|byte| matches!(byte, b' ' | b'\t')) {
                Some(blank) => (&line[..blank], Some(line[blank..].trim_ascii())),
                None => (line, None),
            };
        // For the kernel a carriage return is part of the name, and no such interpreter exists.
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

/// Returns whether a file is text that no first line gives an interpreter, by its first bytes. A program has a zero among them.
fn is_text(start: &[u8]) -> bool {
    let is_for_the_kernel = [&b"#!"[..], b"\x7fELF"]
        .iter()
        .any(|it| start.starts_with(it));
    !is_for_the_kernel && !start.contains(&0)
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

/// Explains by a file's first bytes why it could not be executed.
fn why_not_executed(start: &[u8], errno: Errno) -> Option<String> {
    let line = start.split(|byte| *byte == b'\n').next()?;
    let script = line.strip_prefix(b"#!");
    let interpreter = script.map(|line| String::from_utf8_lossy(line.trim_ascii()));
    Some(match (errno, interpreter) {
        (Errno::ENOENT, Some(_)) if line.ends_with(b"\r") => {
            "its lines end as on Windows (CRLF), and the name of its interpreter with them; save it with LF".to_owned()
        }
        (Errno::ENOENT, Some(interpreter)) => {
            format!("its interpreter, `{interpreter}` in its first line, is not there")
        }
        (Errno::ENOENT, None) if start.starts_with(b"\x7fELF") => {
            "its loader is not there: it was built for another system or C library".to_owned()
        }
        (Errno::EACCES, Some(interpreter)) => {
            format!("its interpreter, `{interpreter}` in its first line, may not be executed here")
        }
        (Errno::ENOEXEC, None) if start.starts_with(b"\x7fELF") => {
            "it was built for another kind of machine".to_owned()
        }
        (Errno::ENOEXEC, None) => {
            "it is no program, and has no first line that names an interpreter, such as `#!/bin/sh`".to_owned()
        }
        _ => return None,
    })
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
    fn why_a_file_cannot_be_executed_is_told_by_its_start() {
        let why = |start: &[u8], errno| why_not_executed(start, errno).unwrap_or_default();
        for (start, errno, expected) in [
            (
                &b"#!/no/such -x\nrest"[..],
                Errno::ENOENT,
                "`/no/such -x` in its first line",
            ),
            (b"#!/bin/sh\r\n", Errno::ENOENT, "CRLF"),
            (b"#!/root/sh\n", Errno::EACCES, "may not be executed here"),
            (b"\x7fELF...", Errno::ENOENT, "its loader"),
            (b"\x7fELF...", Errno::ENOEXEC, "another kind of machine"),
            (b"echo hi\n", Errno::ENOEXEC, "`#!/bin/sh`"),
            (b"", Errno::ENOEXEC, "is no program"),
            (b"echo hi\n", Errno::E2BIG, ""),
            (b"#!/bin/sh\n", Errno::E2BIG, ""),
        ] {
            let why = why(start, errno);
            assert!(
                why.contains(expected) && why.is_empty() == expected.is_empty(),
                "{why}"
            );
        }
    }

    #[test]
    fn text_without_a_first_line_is_run_by_the_shell_and_what_is_no_text_is_not() {
        for text in [
            &b"read -r event\n"[..],
            b"",
            b"\xef\xbb\xbf#!/bin/sh\necho\n",
            b": << 'CMDBLOCK'\r\n@echo off\r\n",
            b"caf\xe9\n",
        ] {
            assert!(is_text(text), "{text:?}");
        }
        for other in [
            &b"\x7fELF\x02\x01\x01\x00"[..],
            b"\x7fELF",
            b"#!/no/such\n",
            b"#!/bin/sh\r\n",
            b"MZ\x90\x00",
        ] {
            assert!(!is_text(other), "{other:?}");
        }
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
        assert_eq!(parse(&long[..MAX_SHEBANG_BYTES + 1]), None);
    }

    /// Opens a command; what is named is on this system.
    fn opened(argv: &[&OsStr], working_dir: Option<&Path>) -> Result<Opened, Refusal> {
        opened_with(argv, &[], working_dir)
    }

    fn opened_with(
        argv: &[&OsStr],
        data: &[OsString],
        working_dir: Option<&Path>,
    ) -> Result<Opened, Refusal> {
        let argv: Vec<_> = argv.iter().map(|word| (*word).to_owned()).collect();
        let path = PathBuf::from(&argv[0]);
        Program::open(
            path,
            &argv,
            data,
            working_dir,
            OpenedFor::Oneself,
            View::HOST,
        )
    }

    fn hashed(opened: Opened) -> Program {
        let stop = AtomicBool::new(false);
        opened.hash(&DigestCache::default(), &stop).unwrap()
    }

    #[test]
    fn files_of_code_are_bound_and_data_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        for name in ["hook.sh", "pre.js", "script.js", "state.json"] {
            std::fs::write(path(name), name).unwrap();
        }
        let bound = |argv: &[&OsStr]| {
            let digests = hashed(opened(argv, Some(directory.path())).unwrap()).digests;
            let arguments = digests.iter().filter(|it| it.role == Role::Argument);
            let name = |it: &Digest| Path::new(&it.path).file_name().unwrap().to_owned();
            arguments.map(name).collect::<Vec<_>>()
        };
        let [hook, data] = ["hook.sh", "state.json"].map(|name| path(name).into_os_string());
        let word = OsStr::new;
        assert_eq!(bound(&[word("/bin/sh"), word("-e"), &hook]), ["hook.sh"]);
        assert_eq!(bound(&[word("/bin/sh"), word("hook.sh")]), ["hook.sh"]);
        assert_eq!(bound(&[word("/bin/sh"), &hook, &data]), ["hook.sh"]);
        assert_eq!(
            bound(&[word("/bin/sh"), &hook, path("script.js").as_os_str()]),
            ["hook.sh", "script.js"]
        );
        assert_eq!(bound(&[word("/bin/cat"), &data]), [""; 0]);
        let line = format!("exec /bin/sh {}", path("hook.sh").display());
        assert_eq!(
            bound(&[word("/bin/sh"), word("-c"), word(&line)]),
            ["sh", "hook.sh"]
        );
    }

    /// A consent alone distinguishes data from code. It does so for files that a program is given.
    #[test]
    fn what_is_called_data_is_not_bound_unless_it_is_known_to_be_executed() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        for name in ["a.py", "b.py", "run", "pre.js"] {
            std::fs::write(path(name), "#!/bin/sh\n").unwrap();
        }
        std::fs::write(path("fmt"), b"\x7fELF").unwrap();
        for name in ["fmt", "run"] {
            let mode = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(path(name), mode).unwrap();
        }
        let program = |argv: &[&str], data: &[&str]| {
            let first = path(argv[0]);
            let rest = argv[1..].iter().map(OsStr::new);
            let argv: Vec<_> = [first.as_os_str()].into_iter().chain(rest).collect();
            let data: Vec<OsString> = data.iter().map(Into::into).collect();
            hashed(opened_with(&argv, &data, Some(directory.path())).unwrap())
        };
        let bound = |program: &Program| {
            let arguments = program
                .digests
                .iter()
                .filter(|it| it.role == Role::Argument);
            let name = |it: &Digest| Path::new(&it.path).file_name().unwrap().to_owned();
            arguments.map(name).collect::<Vec<_>>()
        };

        let both = program(&["fmt", "--fix", "a.py", "b.py"], &[]);
        assert_eq!(
            (bound(&both), both.scripts.len()),
            (vec!["a.py".into(), "b.py".into()], 2)
        );
        assert_eq!(both.given, ["a.py", "b.py"]);
        let one = program(&["fmt", "--fix", "a.py", "b.py"], &["a.py"]);
        // It is given the file itself, and no copy.
        assert_eq!((bound(&one), one.scripts.len()), (vec!["b.py".into()], 1));
        assert_eq!(
            (one.data, one.given),
            (vec!["a.py".into()], vec!["b.py".into()])
        );
        assert!(one.unbound[0].contains("`a.py`, which is data"));
        for argv in [
            &["/bin/sh", "a.py"][..],
            &["/usr/bin/env", "/bin/sh", "a.py"],
            &["fmt", "/bin/sh", "a.py"],
            &["/bin/sh", "-c", "./a.py"],
            &["/bin/sh", "-c", "fmt a.py"],
        ] {
            let program = program(argv, &["a.py", "./a.py"]);
            assert!(bound(&program).contains(&"a.py".into()), "{argv:?}");
            assert_eq!(program.data, [""; 0], "{argv:?}");
        }
        assert_eq!(
            bound(&program(&["run", "a.py"], &["a.py", "run"]))[..],
            [] as [OsString; 0]
        );
        assert_eq!(
            program(&["run", "a.py"], &["run"]).digests[0].role,
            Role::Program
        );
    }

    #[test]
    fn a_script_that_is_not_there_is_refused_and_what_cannot_be_bound_is_said() {
        let directory = tempfile::tempdir().unwrap();
        let word = OsStr::new;
        let missing = directory.path().join("missing.sh");
        for argv in [
            vec![word("/bin/sh"), missing.as_os_str()],
            vec![word("/bin/sh"), word("-e"), word("missing.sh")],
            vec![word("/bin/bash"), word("--rcfile"), missing.as_os_str()],
        ] {
            let refusal = opened(&argv, Some(directory.path())).unwrap_err();
            assert_eq!(refusal.reason, Reason::InvalidRequest, "{argv:?}");
        }
        for argv in [
            vec![word("/bin/sh"), word("-c"), word("a; b")],
            vec![word("/bin/sh"), word("hook.sh")],
            vec![word("/bin/sh"), directory.path().as_os_str()],
            vec![word("/bin/sh"), word("/dev/null")],
            // What a caller sends is the script.
            vec![word("/bin/sh")],
            vec![word("/bin/sh"), word("-e")],
            vec![word("/bin/sh"), word("-c"), word("BASH_ENV=/x /bin/true")],
        ] {
            assert_eq!(opened(&argv, None).unwrap().unbound.len(), 1, "{argv:?}");
        }
        assert_eq!(opened(&[word("/bin/true")], None).unwrap().unbound, [""; 0]);
    }

    /// The same words name other files in another directory, so relative words are bound, too.
    #[test]
    fn a_script_is_bound_whatever_program_starts_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let write = |name: &str, text: &[u8]| {
            std::fs::write(path(name), text).unwrap();
            std::fs::set_permissions(path(name), std::fs::Permissions::from_mode(0o755)).unwrap();
        };
        write("hook", b"console.log(1)");
        write("hook.awk", b"BEGIN {}");
        write("hook.ts", b"1");
        write("tool", b"#!/bin/sh\n");
        write("binary", b"\x7fELF");
        for name in ["deno", "node", "pwsh", "runner"] {
            write(name, b"\x7fELF");
        }
        // One of several versions is chosen by a script.
        write("python3", b"#!/bin/sh\nexec /usr/bin/python3 \"$@\"\n");
        std::os::unix::fs::symlink("/bin/sh", path("shell")).unwrap();
        let bound = |argv: &[&str]| {
            let program = path(argv[0]);
            let rest = argv[1..].iter().map(OsStr::new);
            let argv: Vec<_> = [program.as_os_str()].into_iter().chain(rest).collect();
            let digests = hashed(opened(&argv, Some(directory.path())).unwrap()).digests;
            let here = |it: &Digest| {
                let name = Path::new(&it.path).strip_prefix(directory.path()).ok()?;
                Some(name.display().to_string())
            };
            let arguments = digests.iter().filter(|it| it.role == Role::Argument);
            arguments.filter_map(here).collect::<Vec<_>>()
        };
        for argv in [
            &["node", "--no-warnings", "hook"][..],
            &["node", "--unknown", "hook"],
            &["node", "--unknown", "value", "hook", "file"],
            &["node", "--unknown", "--title", "x", "hook"],
            &["deno", "run", "--allow-read", "hook"],
            &["pwsh", "-File", "hook", "x"],
            &["python3", "-u", "hook"],
            &["shell", "hook"],
            &["runner", "-oL", "/bin/sh", "hook"],
            &["runner", "-oL", "bash", "-e", "hook"],
            &["/usr/bin/env", "-iu", "HOME", "/bin/sh", "hook"],
        ] {
            assert_eq!(bound(argv), ["hook"], "{argv:?}");
        }
        for (argv, file) in [
            (&["runner", "run", "hook.ts"][..], "hook.ts"),
            (&["runner", "./tool"], "tool"),
            (&["runner", "binary"], "binary"),
            (&["/bin/sh", "-c", "command ./tool x"], "tool"),
            (&["/usr/bin/awk", "-f", "hook.awk"], "hook.awk"),
        ] {
            assert_eq!(bound(argv), [file], "{argv:?}");
        }
        assert_eq!(bound(&["runner", "hook"]), [""; 0]);
    }

    #[test]
    fn a_command_has_few_files_of_code_and_many_words_take_no_more_than_linear_time() {
        let directory = tempfile::tempdir().unwrap();
        let mut argv = vec![OsStr::new("/usr/bin/env")];
        argv.resize(200_000, OsStr::new("env"));
        let found = opened(&argv, Some(directory.path())).unwrap();
        assert_eq!((found.files.len(), found.unbound.len()), (1, 1));
        // A word of many parts, too.
        let parts = format!("--{}", "a=".repeat(1 << 20));
        let found = opened(&[OsStr::new("/bin/sh"), OsStr::new(&parts)], None).unwrap();
        assert_eq!((found.files.len(), found.unbound.len()), (1, 2));
        let names = (0..2 * MAX_FILES).map(|it| directory.path().join(format!("{it}.sh")));
        let names: Vec<_> = names.collect();
        for name in &names {
            std::fs::write(name, "").unwrap();
        }
        let names = names.iter().map(|name| name.as_os_str());
        let argv: Vec<_> = [OsStr::new("/bin/true")].into_iter().chain(names).collect();
        let found = opened(&argv, None).unwrap();
        assert_eq!(found.files.len(), MAX_FILES);
        assert_eq!(found.unbound.len(), 2, "{:?}", found.unbound);
    }

    /// A first line is no part of the command: its words are bound where the file that has it runs.
    #[test]
    fn files_that_a_first_line_names_are_bound() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let write = |name: &str, text: &str| {
            std::fs::write(path(name), text).unwrap();
            std::fs::set_permissions(path(name), std::fs::Permissions::from_mode(0o755)).unwrap();
        };
        std::os::unix::fs::symlink("/bin/sh", path("node")).unwrap();
        write("reader", "#!/bin/sh\n");
        write(".env", "A=b\n");
        std::fs::create_dir(path("lib")).unwrap();
        let node = path("node").display().to_string();
        let reader = path("reader").display().to_string();
        let bound = |first: &str, before: &[&str]| {
            write("hook", &format!("#!{first}\n"));
            let hook = path("hook");
            let before = before.iter().map(OsStr::new);
            let argv: Vec<_> = before.chain([hook.as_os_str()]).collect();
            let program = hashed(opened(&argv, Some(directory.path())).unwrap());
            let digests = program.digests.iter();
            let is_it = digests.filter(|it| Path::new(&it.path) == path(".env"));
            (is_it.count(), program.unbound)
        };
        for first in [
            format!("{node} --env-file=.env"),
            format!("{reader} ./.env"),
            "/usr/bin/env -S node --env-file=.env".to_owned(),
            "/usr/bin/env -S A=b node --env-file .env".to_owned(),
        ] {
            assert_eq!(bound(&first, &[]).0, 1, "{first}");
            assert_eq!(bound(&first, &["/usr/bin/env"]).0, 1, "env {first}");
        }
        assert_eq!(bound(&node, &[]), (0, Vec::new()));
        assert_eq!(bound("/usr/bin/env node", &[]), (0, Vec::new()));
        for (first, expected) in [
            ("/usr/bin/perl -Ilib", "files in the directory `lib`"),
            ("/usr/bin/env -S NODE_OPTIONS=x node", "`NODE_OPTIONS`"),
        ] {
            let (_, unbound) = bound(first, &[]);
            assert!(unbound.concat().contains(expected), "{first}: {unbound:?}");
        }
    }

    /// The words of a program that is no interpreter cannot be bound as code; a script's text is bound.
    #[test]
    fn other_programs_words_are_named_as_not_bound() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        for (name, text) in [
            ("tool", &b"\x7fELF"[..]),
            ("node", b"\x7fELF"),
            ("hook", b"#!/bin/sh\n"),
        ] {
            std::fs::write(path(name), text).unwrap();
            std::fs::set_permissions(path(name), std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let named = |argv: &[&str]| {
            let program = path(argv[0]);
            let rest = argv[1..].iter().map(OsStr::new);
            let argv: Vec<_> = [program.as_os_str()].into_iter().chain(rest).collect();
            let unbound = opened(&argv, Some(directory.path())).unwrap().unbound;
            let is_it = |it: &&String| it.contains("the words of");
            unbound.iter().filter(is_it).count()
        };
        for argv in [
            &["tool", "-c", "alias.x=!sh hook"][..],
            &["/usr/bin/env", "./tool", "--x"],
            &["/bin/sh", "-c", "./tool --x"],
        ] {
            assert_eq!(named(argv), 1, "{argv:?}");
        }
        for argv in [
            &["tool"][..],
            &["hook", "--x"],
            &["node", "hook", "--x"],
            &["/usr/bin/env", "./hook", "--x"],
            &["/bin/sh", "-c", "./hook --x"],
        ] {
            assert_eq!(named(argv), 0, "{argv:?}");
        }
    }

    #[test]
    fn a_script_that_reads_a_script_is_bound_too() {
        let directory = tempfile::tempdir().unwrap();
        let [hook, reader] = ["hook", "reader"].map(|name| directory.path().join(name));
        let write = |path: &Path, text: String| {
            std::fs::write(path, text).unwrap();
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
        };
        write(&hook, format!("#!{}\n", reader.display()));
        write(&reader, "#!/bin/sh\n".to_owned());

        let program = hashed(opened(&[hook.as_os_str()], None).unwrap());

        let bound: Vec<_> = program
            .digests
            .iter()
            .map(|it| Path::new(&it.path))
            .collect();
        assert_eq!(bound, [&*hook, &*reader, Path::new("/bin/sh")]);
        assert_eq!(program.executable_path(), hook);
        assert_eq!(program.unbound.len(), 1, "{:?}", program.unbound);
        std::fs::remove_file(&reader).unwrap();
        let program = hashed(opened(&[hook.as_os_str()], None).unwrap());
        assert_eq!((program.digests.len(), program.unbound.len()), (1, 1));
    }

    #[test]
    fn other_files_take_the_places_of_scripts() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        std::fs::write(path("a b.sh"), "#!/bin/sh -e\n").unwrap();
        let word = OsStr::new;
        let line = format!("A=1 '{}' x", path("a b.sh").display());
        let program = hashed(opened(&[word("/bin/sh"), word("-c"), word(&line)], None).unwrap());

        let argv = program.argv_with(vec![(0, PathBuf::from("/it's"))]);

        assert_eq!(argv[2], word(r"A=1 '/bin/sh' '-e' '/it'\''s' x"));
        assert_eq!(program.argv[2], word(&line));

        // Where a program starts the script, each word stands for itself.
        let script = path("a b.sh");
        let words = [word("/usr/bin/env"), word("A=1"), script.as_os_str()];
        let argv = [&words[..], &[word("x")]].concat();
        let program = hashed(opened(&argv, None).unwrap());
        assert_eq!(program.unbound, [""; 0]);

        let argv = program.argv_with(vec![(0, PathBuf::from("/copy"))]);

        let expected = ["/usr/bin/env", "A=1", "/bin/sh", "-e", "/copy", "x"];
        assert_eq!(argv, expected);
    }
}
