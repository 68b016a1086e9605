//! Opens a hook's program and its scripts once: the files that are hashed here are those that run.

mod bound;
pub mod digest;
mod own_place;
mod sought;
#[cfg(test)]
mod tests;

use std::{
    cell::Cell,
    cmp::Reverse,
    collections::HashSet,
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
    interpreter::{self, CommandReading, FileUse, NamedFile, RealPath, WordSpot},
    model::{InvalidField, Peer, is_plain},
    refusal::{Fault, Reason, Refusal, Stop, unless_lacking},
};

use hookjail_sys::{FileRights, Links, keep_writers_out, locate};

use self::digest::{DigestCache, HashError};
pub use self::{
    bound::{Digest, Role},
    sought::misleading,
};
use crate::rootfs::View;

/// The longest chain of interpreters that Linux follows, each but the last a script.
const MAX_INTERPRETERS: usize = 5;

/// The most files of code of one command. Each is open until the run is over.
const MAX_FILES: usize = 16;

/// The longest `#!` line that Linux reads.
const MAX_SHEBANG_BYTES: usize = 255;

/// A hook's program and scripts, opened, with the digests of their content.
#[derive(Debug)]
pub struct Program {
    /// The arguments for `execve`; the first is the executable's own name.
    pub argv: Vec<OsString>,
    /// Arguments that are data by the consent, regardless of the contents of the files.
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
pub struct Script {
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
pub struct Opened {
    argv: Vec<OsString>,
    data: Vec<OsString>,
    /// The program itself, or its interpreter.
    executable: usize,
    files: Vec<OpenedFile>,
    given: Vec<OsString>,
    has_likely: bool,
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
pub enum ContentGuard {
    /// None: a copy is run, which is hashed once more.
    Copy,
    /// Writers are kept out by a lease on this descriptor.
    Lease,
    /// Only root can write it.
    Root,
}

/// User with whose rights files of the caller's choice are opened.
#[derive(Clone, Copy, Debug)]
pub enum OpenedFor<'a> {
    /// The daemon's own: hooks and callers have the same rights.
    Oneself,
    /// This peer: the daemon is root, and opens only files that the peer could read.
    Peer(&'a Peer),
}

impl<'a> OpenedFor<'a> {
    /// Returns the user for a caller's files: the caller, where hooks have users of their own.
    pub const fn caller(peer: &'a Peer, switches_uid: bool) -> Self {
        if switches_uid {
            Self::Peer(peer)
        } else {
            Self::Oneself
        }
    }

    /// Takes the user's rights until dropped.
    pub(super) fn rights(self) -> Option<FileRights> {
        match self {
            Self::Oneself => None,
            Self::Peer(peer) => Some(FileRights::for_user(peer.uid, peer.gid, &peer.groups)),
        }
    }
}

impl Program {
    /// Returns the file that a request names as its program.
    pub fn file(&self) -> &File {
        match self.scripts.first() {
            // A script with a `#!` line: `executable` is its interpreter.
            Some(script) if script.path == self.path => &script.file,
            Some(_) | None => &self.executable,
        }
    }

    /// Finds a command's program by absolute path or in the search directories.
    ///
    /// # Errors
    ///
    /// Refuses an empty command, a relative path, and a name that no search directory has: `INVALID_REQUEST`.
    /// `OVERLOADED` where the system lacks a resource for the search.
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
    /// Refuses a program that is missing, not a regular file, not executable or not readable by the caller:
    /// `INVALID_REQUEST`. The same for a script that its interpreter would look for and that cannot be opened.
    /// `OVERLOADED` where the system lacks a resource for opening any of these.
    pub fn open(
        path: PathBuf,
        argv: &[OsString],
        data: &[OsString],
        working_dir: Option<&Path>,
        opened_for: OpenedFor<'_>,
        view: View<'_>,
    ) -> Result<Opened, Refusal> {
        let (name, arguments) = program_and_arguments(argv)?;
        // A file that the caller cannot reach, also because of its directories, counts as absent.
        let _as_peer = opened_for.rights();
        let opener = Opener {
            data,
            view,
            working_dir,
        };
        if opener.is_of_a_process(&path) {
            return Err(of_a_process(&path, "hook.argv[0]").into());
        }
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
        let chain = opener.chain(opener.placed(Shebang::of_program(&file)?))?;
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
            has_likely: false,
            path: path.clone(),
            unbound: Vec::new(),
        };
        if chain.missing.is_none() && !chain.steps.is_empty() {
            opened.interpret(chain.steps, arguments, &opener)?;
        } else {
            // The kernel reports an interpreter that cannot be opened.
            opened.argv = vec![name.clone()];
            opened.argv.extend_from_slice(arguments);
            opened.bind_chain(&path, chain, Start::Certain, &opener)?;
        }
        // By its name a script can be an interpreter itself, as one that selects a version.
        let known = words(&path, arguments);
        let mut reading = opener.read(|real| interpreter::read(&known, real))?;
        let before = opened.argv.len() - known.len();
        for named in &mut reading.named {
            named.spot.argument += before;
        }
        opened.bind_all(reading, &opener)?;
        Ok(opened)
    }

    /// Returns program and arguments with other files in the places of scripts, by index.
    pub fn argv_with(&self, mut others: Vec<(usize, PathBuf)>) -> Vec<OsString> {
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
    pub fn words_before_script(&self) -> Option<&[OsString]> {
        let spot = &self.scripts.first()?.spot;
        let is_word = spot.line.is_none() && spot.prefix.is_empty();
        is_word.then(|| &self.argv[..spot.argument])
    }

    /// Returns the program with the same open files, for another start.
    ///
    /// # Errors
    ///
    /// Fails where no more descriptors can be had.
    pub fn try_clone(&self) -> io::Result<Self> {
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
    pub fn executable_path(&self) -> &Path {
        let is_interpreted = self.digests.iter().any(|it| it.role == Role::Interpreter);
        match self.argv.first() {
            Some(interpreter) if is_interpreted => Path::new(interpreter),
            Some(_) | None => &self.path,
        }
    }

    /// Explains why `execve` failed, mostly by the file's first line.
    pub fn why_not_executed(&self, errno: i32) -> String {
        let errno = Errno::from_raw(errno);
        let mut start = [0; MAX_SHEBANG_BYTES];
        let read = read_up_to(&self.executable, &mut start).unwrap_or(0);
        why_not_executed(&start[..read], errno).unwrap_or_else(|| errno.desc().to_owned())
    }

    /// Returns the SHA-256 of the executable, lower-case hex.
    pub fn executable_sha256(&self) -> &str {
        let is_executed = |digest: &&Digest| digest.role == Role::Interpreter;
        let executed = self.digests.iter().find(is_executed);
        executed.map_or(&self.digests[0].sha256, |digest| &digest.sha256)
    }
}

impl Opened {
    /// Returns the paths of its files, as consents spell them.
    pub fn paths(&self) -> HashSet<String> {
        let files = self.files.iter();
        files.map(|it| it.path.display().to_string()).collect()
    }

    /// Returns how many bytes have to be read to hash its files.
    pub fn unknown_bytes(&self, cache: &DigestCache) -> u64 {
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
    pub fn hash(self, cache: &DigestCache, stop: &AtomicBool) -> Result<Program, Stop> {
        let Self {
            argv,
            data,
            executable,
            files,
            given: given_words,
            has_likely: _,
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
            let is_loaded = role != Role::Argument && !has_interpreter(&file)?;
            let digest = Digest {
                roots: is_loaded && is_roots_name(&path) && only_roots(&path, &file).is_some(),
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
            given: given_words,
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
        self.note(unbound);
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
            && !(interpreter::only_reads(&file.path) && is_roots_name(&file.path))
        {
            let why = format!(
                "files and commands that the words of `{}` name",
                other.display()
            );
            self.note([why]);
        }
        Ok(())
    }

    /// Adds descriptions of what is not bound, each once.
    fn note(&mut self, why: impl IntoIterator<Item = String>) {
        for why in why {
            if !self.unbound.contains(&why) {
                self.unbound.push(why);
            }
        }
    }

    /// Returns whether a word is data by the consent. The first file that may be a script never is.
    fn is_data(&self, named: &NamedFile, opener: &Opener<'_>) -> bool {
        let may_be = match named.used {
            FileUse::Likely => self.has_likely,
            FileUse::Part | FileUse::Perhaps | FileUse::Trailing => true,
            FileUse::Executed | FileUse::Found | FileUse::Library | FileUse::Script => false,
        };
        // Words of first lines come before the program, or are no arguments at all.
        let program = self.files[0].script.as_ref();
        let program = program.map_or(0, |(spot, _)| spot.argument);
        let argument = named.spot.argument;
        let may_be = may_be && named.spot.line.is_none() && argument > program;
        may_be && opener.data.contains(&self.argv[argument])
    }

    /// Opens and binds the file that a word names, if it is code.
    fn bind(&mut self, named: &NamedFile, opener: &Opener<'_>) -> Result<(), Refusal> {
        let written = Path::new(&named.path);
        let (shown, argument) = (written.display(), named.spot.argument);
        // A relative path is one in the hook's start directory, which the caller passes if it is known.
        if named.is_library_by_name() {
            self.note([format!("the library `{shown}`")]);
            return Ok(());
        }
        if self.is_data(named, opener) {
            let word = self.argv[argument].clone();
            if !self.data.contains(&word) {
                let shown = word.display();
                let why = format!("`{shown}`, which is data to its program by the operator's word");
                self.note([why]);
                self.data.push(word);
            }
            return Ok(());
        }
        let Some(path) = opener.resolve(written) else {
            match named.used {
                FileUse::Executed
                | FileUse::Found
                | FileUse::Library
                | FileUse::Likely
                | FileUse::Script => {
                    let why = format!("`{shown}`: where the hook starts is not known here");
                    self.note([why]);
                }
                FileUse::Part | FileUse::Perhaps | FileUse::Trailing => {}
            }
            return Ok(());
        };
        let field = format!("hook.argv[{argument}]");
        if opener.is_of_a_process(&path) {
            return match named.used {
                FileUse::Script if is_stdin(&path) => {
                    self.note(["the script on stdin".to_owned()]);
                    Ok(())
                }
                FileUse::Executed | FileUse::Library | FileUse::Script => {
                    Err(of_a_process(&path, &field).into())
                }
                FileUse::Found
                | FileUse::Likely
                | FileUse::Part
                | FileUse::Perhaps
                | FileUse::Trailing => {
                    self.note([format!("`{shown}`, which is another file in each process")]);
                    Ok(())
                }
            };
        }
        let found = look(opener.view, &path)?;
        let completed = named.completed();
        let is_completed = !completed.is_empty() && !interpreter::ends_like_a_script(&path);
        let mut used = named.used;
        for completed in completed {
            let is_there = match opener.resolve(Path::new(&completed)) {
                Some(path) => look(opener.view, &path)?.is_ok_and(|it| it.is_file()),
                None => false,
            };
            if is_there {
                // Which of the files is read is the interpreter's to decide, so the word stays.
                used = FileUse::Part;
                let mut found = named.clone();
                (found.path, found.used) = (completed, used);
                self.bind(&found, opener)?;
            }
        }
        if !found.as_ref().is_ok_and(Metadata::is_file) {
            let is_directory = found.as_ref().is_ok_and(Metadata::is_dir);
            let why = match used {
                FileUse::Found => Some(format!("the code that `{shown}` names")),
                FileUse::Library | FileUse::Script if is_completed => {
                    Some(format!("the code that `{shown}` names"))
                }
                FileUse::Executed | FileUse::Library | FileUse::Script => {
                    let why = format!("`{shown}`, which is no regular file");
                    // Refused below: a missing file that is certainly used may be there a moment later.
                    found.is_ok().then_some(why)
                }
                FileUse::Likely | FileUse::Part | FileUse::Perhaps => {
                    is_directory.then(|| format!("files in the directory `{shown}`"))
                }
                FileUse::Trailing => None,
            };
            let is_looked_for =
                matches!(used, FileUse::Executed | FileUse::Library | FileUse::Script);
            if why.is_some() || !is_looked_for {
                self.note(why);
                return Ok(());
            }
        }
        let (file, metadata) = match used {
            // The file may be data that only the hook may read.
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
        let shebang = opener.placed(match used {
            FileUse::Executed => Shebang::of_program(&file)?,
            FileUse::Found
            | FileUse::Library
            | FileUse::Likely
            | FileUse::Part
            | FileUse::Perhaps
            | FileUse::Script
            | FileUse::Trailing => Shebang::read(&file)?,
        });
        let is_script = shebang.is_some() || interpreter::ends_like_a_script(&path);
        let is_executable = metadata.permissions().mode() & 0o111 != 0;
        let is_binary = is_executable && is_binary(&file)?;
        if used == FileUse::Trailing && !is_script && !is_binary {
            return Ok(());
        }
        if named.spot == WordSpot::argument(argument) {
            let may_be_data = match used {
                // Behind such a word it may be the script of a program that is not listed.
                FileUse::Trailing => {
                    let mut before = self.argv[..argument].iter();
                    !before.any(|it| it == "run" || it == "exec")
                }
                FileUse::Executed
                | FileUse::Found
                | FileUse::Library
                | FileUse::Likely
                | FileUse::Part
                | FileUse::Perhaps
                | FileUse::Script => false,
            };
            if may_be_data {
                self.given.push(named.path.clone());
            }
        }
        self.has_likely |= used == FileUse::Likely;
        if self.files.len() >= MAX_FILES {
            if matches!(used, FileUse::Part | FileUse::Trailing) {
                self.note([format!("files of code beyond the first {MAX_FILES}")]);
                return Ok(());
            }
            let problem = format!("names more than {MAX_FILES} files of code");
            return Err(InvalidField::new(field, problem).into());
        }
        let script = match used {
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
        let start = match used {
            FileUse::Executed => Some(Start::Certain),
            FileUse::Found | FileUse::Library | FileUse::Likely | FileUse::Script => {
                named.has_its_first_line_obeyed().then_some(Start::Certain)
            }
            FileUse::Part | FileUse::Perhaps | FileUse::Trailing => {
                is_executable.then_some(Start::Possible)
            }
        };
        if let Some(start) = start {
            self.bind_chain(&path, opener.chain(shebang)?, start, opener)?;
        }
        self.push(file, &metadata, path, script);
        Ok(())
    }

    /// Takes the words that the kernel makes of a script's first line, and of those of interpreters that are scripts.
    ///
    /// The interpreter that is no script is executed, because the kernel opens no script by a descriptor that closes.
    fn interpret(
        &mut self,
        steps: Vec<Step>,
        arguments: &[OsString],
        opener: &Opener<'_>,
    ) -> Result<(), Refusal> {
        let mut lines = Vec::new();
        for step in steps.into_iter().rev() {
            let place = self.argv.len();
            self.argv.extend(step.shebang.words());
            let (role, script) = match place {
                0 => (Role::Interpreter, None),
                _ => (
                    Role::Argument,
                    Some((WordSpot::argument(place), Vec::new())),
                ),
            };
            if place == 0 {
                self.executable = self.files.len();
            }
            self.files.push(OpenedFile {
                kept: keep(&step.file, &step.metadata),
                file: step.file,
                path: step.shebang.interpreter.clone(),
                role,
                script,
            });
            lines.push((place, step.shebang));
        }
        self.files[0].script = Some((WordSpot::argument(self.argv.len()), Vec::new()));
        self.argv.push(self.path.clone().into_os_string());
        self.argv.extend_from_slice(arguments);
        let mut script = self.path.clone();
        for (place, shebang) in lines.into_iter().rev() {
            let mut reading = opener.first_line(&shebang, &script)?;
            for named in &mut reading.named {
                named.spot.argument += place;
            }
            self.bind_all(reading, opener)?;
            script = shebang.interpreter;
        }
        Ok(())
    }

    /// Binds the interpreters that the kernel opens by path for a script, and the files that first lines name.
    fn bind_chain(
        &mut self,
        script: &Path,
        chain: Chain,
        start: Start,
        opener: &Opener<'_>,
    ) -> Result<(), Refusal> {
        let mut script = script.to_owned();
        let opened = chain.steps.into_iter().map(|step| {
            let Step {
                file,
                metadata,
                shebang,
            } = step;
            (shebang, Some((file, metadata)))
        });
        let missing = chain.missing.map(|shebang| (shebang, None));
        for (shebang, opened) in opened.chain(missing) {
            let path = &shebang.interpreter;
            let shown = path.display();
            match opened {
                // Programs of root are as they were where a program that only may be started is.
                Some((file, metadata)) => {
                    let is_bound = self.files.iter().any(|it| it.path == *path);
                    if !is_bound && (start == Start::Certain || !is_roots_name(path)) {
                        self.push(file, &metadata, path.clone(), None);
                    }
                }
                None if !opener.is_of_a_process(path) => {
                    self.note([format!("the interpreter `{shown}`, which is not there")]);
                }
                None if start == Start::Certain => {
                    return Err(of_a_process(path, "hook.argv").into());
                }
                None => {
                    self.note([format!("`{shown}`, which is another file in each process")]);
                }
            }
            let mut reading = opener.first_line(&shebang, &script)?;
            let named = reading.named.into_iter();
            reading.named = named.flat_map(NamedFile::into_parts).collect();
            for named in &mut reading.named {
                // The word is no argument of the command, so no other file can take its place.
                named.spot = WordSpot::argument(0);
            }
            self.bind_all(reading, opener)?;
            script = shebang.interpreter;
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
            self.note([format!(
                "`{what}` for the moment in which it is opened again"
            )]);
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

/// Returns whether a program is text that an interpreter executes.
fn has_interpreter(file: &File) -> Result<bool, Refusal> {
    Ok(Shebang::of_program(file)?.is_some())
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
pub fn only_roots(named: &Path, opened: &File) -> Option<PathBuf> {
    let path = roots_alone(named)?;
    let (found, opened) = (path.metadata().ok()?, opened.metadata().ok()?);
    ((found.dev(), found.ino()) == (opened.dev(), opened.ino())).then_some(path)
}

/// Returns a path without links, if only root can replace what is there.
pub fn roots_alone(named: &Path) -> Option<PathBuf> {
    let path = named.canonicalize().ok()?;
    let roots = |path: &Path| {
        path.metadata()
            .is_ok_and(|metadata| metadata.uid() == 0 && metadata.mode() & 0o022 == 0)
    };
    path.ancestors().all(roots).then_some(path)
}

/// Returns the path to which links lead from an opened file's.
pub(super) fn real_path(path: &Path, file: &File) -> Result<Option<PathBuf>, Refusal> {
    let real = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()));
    unless_lacking(format_args!("`{}`", path.display()), real).map(Result::ok)
}

/// Returns whether only root can change what a path names: each directory and link on the way belongs to root, and the file.
fn is_roots_name(path: &Path) -> bool {
    is_roots_way(path, MOST_LINKS) && roots_alone(path).is_some()
}

/// The most links that the kernel follows in a path.
const MOST_LINKS: usize = 40;

fn is_roots_way(path: &Path, links: usize) -> bool {
    let mut prefixes: Vec<_> = path.ancestors().collect();
    prefixes.reverse();
    for prefix in prefixes {
        let Ok(metadata) = prefix.symlink_metadata() else {
            return false;
        };
        if metadata.uid() != 0 {
            return false;
        }
        if metadata.is_symlink() {
            let Some(left) = links.checked_sub(1) else {
                return false;
            };
            let (Ok(target), Ok(rest)) = (fs::read_link(prefix), path.strip_prefix(prefix)) else {
                return false;
            };
            let directory = prefix.parent().unwrap_or(Path::new("/"));
            // A path that ends in a slash would name no file.
            let path: PathBuf = directory
                .join(target)
                .components()
                .chain(rest.components())
                .collect();
            return is_roots_way(&path, left);
        }
        if metadata.mode() & 0o022 != 0 {
            return false;
        }
    }
    true
}

/// Returns whether a path names a hook's stdin.
fn is_stdin(path: &Path) -> bool {
    let names = ["/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"];
    names.iter().any(|name| path == Path::new(name))
}

fn of_a_process(path: &Path, field: &str) -> InvalidField {
    let problem = format!(
        "`{}` names another file in each process; name the file by its own path",
        path.display()
    );
    InvalidField::new(field, problem)
}

/// Returns the first executable file of a name in one of these directories.
pub(super) fn on_path(
    name: &Path,
    search: &[PathBuf],
    view: View<'_>,
) -> Result<Option<PathBuf>, Refusal> {
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

fn words(program: &Path, arguments: &[OsString]) -> Vec<OsString> {
    let mut words = vec![program.as_os_str().to_owned()];
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

    /// Returns whether a path is another file in each process: below `/proc`, or by a link of `/proc` to what a process has
    /// open.
    fn is_of_a_process(&self, path: &Path) -> bool {
        let is_named_so = ["/proc", "/dev/fd"].iter().any(|it| path.starts_with(it));
        is_named_so
            || self.view.root_of(path).is_none()
                && locate(path, OFlag::empty(), Links::FollowedByName).err() == Some(Errno::ELOOP)
    }

    /// Returns a first line whose interpreter has an absolute path. `None` where no directory is known to begin from.
    fn placed(&self, shebang: Option<Shebang>) -> Option<Shebang> {
        let shebang = shebang?;
        Some(Shebang {
            interpreter: self.resolve(&shebang.interpreter)?,
            ..shebang
        })
    }

    /// Opens the interpreters of a script, the first line's first. Ends at one that cannot be opened.
    fn chain(&self, mut shebang: Option<Shebang>) -> Result<Chain, Refusal> {
        let mut steps = Vec::new();
        while let Some(found) = shebang.take() {
            let path = &found.interpreter;
            if steps.len() == MAX_INTERPRETERS {
                let problem = format!(
                    "`{}` is interpreter {} in a row, and Linux follows {MAX_INTERPRETERS}",
                    path.display(),
                    MAX_INTERPRETERS + 1,
                );
                return Err(InvalidField::new("hook.argv", problem).into());
            }
            let opened = match self.is_of_a_process(path) {
                true => None,
                false => self.try_open(path)?,
            };
            let Some((file, metadata)) = opened else {
                let missing = Some(found);
                return Ok(Chain { missing, steps });
            };
            shebang = self.placed(Shebang::read(&file)?);
            steps.push(Step {
                file,
                metadata,
                shebang: found,
            });
        }
        Ok(Chain {
            missing: None,
            steps,
        })
    }

    /// Reads the argument in a script's first line.
    fn first_line(&self, line: &Shebang, script: &Path) -> Result<CommandReading, Refusal> {
        match &line.argument {
            None => Ok(CommandReading::default()),
            Some(argument) => {
                self.read(|real| interpreter::first_line(&line.interpreter, argument, script, real))
            }
        }
    }

    /// Reads words by the names of the files to which links lead from programs' paths.
    fn read(
        &self,
        read: impl FnOnce(RealPath<'_>) -> CommandReading,
    ) -> Result<CommandReading, Refusal> {
        let lacking = Cell::new(None);
        let reading = read(&|program| {
            let opened = self.try_open(&self.resolve(program)?);
            let found = opened.and_then(|opened| match opened {
                None => Ok(None),
                Some((file, _)) => real_path(program, &file),
            });
            found.unwrap_or_else(|refusal| {
                lacking.set(Some(refusal));
                None
            })
        });
        lacking.take().map_or(Ok(reading), Err)
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
        // Nonblocking, so that a FIFO, which is refused below, cannot hang the daemon.
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

/// The interpreters of a script, opened.
struct Chain {
    /// The first line whose interpreter cannot be opened.
    missing: Option<Shebang>,
    steps: Vec<Step>,
}

/// One interpreter of a script.
struct Step {
    file: File,
    metadata: Metadata,
    shebang: Shebang,
}

/// Whether a file is certainly started.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Start {
    Certain,
    Possible,
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

    /// Reads `#!interpreter [argument]` as Linux does: one argument at most, blanks around it dropped, a long one cut. `None`
    /// where there is none, or none that works; the kernel's error then becomes the outcome.
    fn parse(start: &[u8]) -> Option<Self> {
        let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t' | 0);
        let rest = start.strip_prefix(b"#!")?;
        let is_cut = start.len() > MAX_SHEBANG_BYTES && !rest.contains(&b'\n');
        let line = match is_cut {
            true => &start[2..MAX_SHEBANG_BYTES],
            false => rest.split(|byte| *byte == b'\n').next()?,
        };
        let line = trimmed(line);
        let end = line.iter().position(is_blank);
        let (interpreter, behind) = line.split_at(end.unwrap_or(line.len()));
        // The name itself may be cut. For the kernel a carriage return is part of it, and no such interpreter exists.
        if is_cut && end.is_none() || interpreter.ends_with(b"\r") {
            return None;
        }
        // To the kernel these are texts, each up to a zero.
        let argument = behind.split(|byte| *byte == 0).next().map(trimmed);
        let argument = argument.filter(|it| !it.is_empty());
        let interpreter = PathBuf::from(OsString::from_vec(interpreter.to_vec()));
        (!interpreter.as_os_str().is_empty()).then(|| Self {
            argument: argument.map(|a| OsString::from_vec(a.to_vec())),
            interpreter,
        })
    }
}

/// Returns a text without the blanks around it, as the kernel sees them.
fn trimmed(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    text
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
            "its lines have Windows endings (CRLF); convert it to LF".to_owned()
        }
        (Errno::ENOENT, Some(interpreter)) if !interpreter.starts_with('/') => {
            format!(
                "its first line names an interpreter by a relative path, `{interpreter}`; name it by its whole path"
            )
        }
        (Errno::ENOENT, Some(interpreter)) => {
            format!("its interpreter, `{interpreter}` in its first line, is not there")
        }
        (Errno::ENOENT, None) if start.starts_with(b"\x7fELF") => {
            "its loader is missing: the program was built for another system or C library".to_owned()
        }
        (Errno::EACCES, Some(interpreter)) => {
            format!("its interpreter, `{interpreter}` in its first line, may not be executed here")
        }
        (Errno::ENOEXEC, None) if start.starts_with(b"\x7fELF") => {
            "the program was built for another kind of machine".to_owned()
        }
        (Errno::ENOEXEC, None) => {
            "the file is no program, and has no first line that names an interpreter, such as `#!/bin/sh`"
                .to_owned()
        }
        _ => return None,
    })
}
