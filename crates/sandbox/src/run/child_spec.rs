//! Inputs of a child: argv and environment, pipes, limits, working directory.

use std::{
    cmp::Reverse,
    ffi::{CString, OsStr, OsString},
    fs::{self, File},
    io,
    os::{
        fd::OwnedFd,
        unix::{
            ffi::{OsStrExt, OsStringExt},
            fs::MetadataExt,
        },
    },
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;
use nix::{
    errno::Errno,
    fcntl::{FcntlArg, OFlag, fcntl},
    sys::stat::lstat,
    unistd::write,
};
use tokio::{net::unix::pipe, task::block_in_place};

use hookjail_base::{
    model::{InvalidField, is_plain},
    refusal::{Fault, Reason, Refusal, Stop, unless_lacking},
};
use hookjail_policy::{Access, environment::matters_at_start, rights::Rights};
use hookjail_sys::{FileRights, Identity, Links, pipe as make_pipe};

use crate::{
    process::Pipes,
    program::{ContentGuard, Digest, Program, Role, Script, digest::hash_file, only_roots},
    resources::scratch::{Around, Copied, Level, RunDir},
    run::{
        grants::{self, OpenGrant},
        read_only::is_made_for_runs,
        task::HookTask,
    },
};
use hookjail_policy as policy;

#[cfg(target_os = "linux")]
use crate::{
    BackendName,
    egress::tables,
    run::view::{Placement, TEMPORARY, covers},
    warm,
};
#[cfg(target_os = "linux")]
use hookjail_policy::{HookView, Network};

/// The program of a child, with argv and environment.
#[derive(Debug)]
pub(crate) struct Execution {
    pub(crate) argv: Vec<CString>,
    pub(crate) environment: Vec<CString>,
    /// The program's own files, which must be granted.
    pub(crate) own: Vec<OpenGrant>,
    /// Path of the file that is executed.
    pub(crate) path: PathBuf,
    /// Scripts that are shown at their own paths.
    #[cfg(target_os = "linux")]
    pub(crate) placed: Vec<Placement>,
    /// The executed file, opened for reading.
    #[cfg_attr(
        not(target_os = "linux"),
        expect(dead_code, reason = "other systems execute no descriptor")
    )]
    pub(crate) program: File,
}

impl Execution {
    /// Builds argv, environment and program of a plan.
    ///
    /// # Errors
    ///
    /// Refuses a file whose owner has rewritten it since it was hashed: `DIGEST_MISMATCH`.
    pub(crate) fn new(
        task: HookTask<'_>,
        directory: &RunDir,
        identity: Option<&Identity>,
    ) -> Result<Self, Stop> {
        let program = task.program;
        let (mut own_grants, mut copies) = (Vec::new(), Vec::new());
        #[cfg(target_os = "linux")]
        let (mut placed, is_placed) = (Vec::new(), places_scripts(task, identity));
        for (index, script) in program.scripts.iter().enumerate() {
            if stays(script, identity.is_some()) {
                own_grants.push(of_its_own(
                    script.path.clone(),
                    keep(&script.file, "script")?,
                ));
                continue;
            }
            #[cfg(target_os = "linux")]
            if let Some(path) = is_placed.then(|| real_path(task, script)).flatten() {
                let placement = place(script, path, directory, index)?;
                own_grants.push(of_its_own(
                    placement.copy_path.clone(),
                    keep(&placement.copy, "script")?,
                ));
                placed.push(placement);
                continue;
            }
            let mut place = ScriptPlace::make(task, directory, index)?;
            let file = place.fill(script)?;
            if !place.around.levels.is_empty() {
                own_grants.push(place.directory(directory, Access::Read)?);
            }
            copies.push((index, place.copied.named));
            own_grants.push(of_its_own(place.copied.path, file));
        }
        #[cfg(target_os = "linux")]
        place_tables(task, directory, (&mut own_grants, &mut placed))?;
        let execution = Self::with_scripts(task, directory, (own_grants, copies))?;
        #[cfg(target_os = "linux")]
        let execution = Self {
            placed,
            ..execution
        };
        Ok(execution)
    }

    /// Builds the same with the variables that matter at the start alone, and without the contents of the scripts: they are put
    /// into their places when the run begins.
    ///
    /// # Errors
    ///
    /// Refuses where the places cannot be made.
    pub(crate) fn ahead(
        task: HookTask<'_>,
        directory: &RunDir,
        identity: Option<&Identity>,
    ) -> Result<(Self, Vec<ScriptPlace>), Stop> {
        let (mut own_grants, mut copies, mut places) = (Vec::new(), Vec::new(), Vec::new());
        #[cfg(target_os = "linux")]
        let (mut placed, is_placed) = (Vec::new(), places_scripts(task, identity));
        for (index, script) in task.program.scripts.iter().enumerate() {
            #[cfg(target_os = "linux")]
            if let Some(path) = is_placed.then(|| real_path(task, script)).flatten() {
                let (place, placement) = ScriptPlace::shown(task, script, path, directory, index)?;
                own_grants.push(of_its_own(
                    placement.copy_path.clone(),
                    keep(&placement.copy, "script")?,
                ));
                placed.push(placement);
                places.push(place);
                continue;
            }
            if stays(script, identity.is_some()) {
                let why = "its script is run where it is";
                return Err(Fault::new("cannot start a hook ahead", why).into());
            }
            let place = ScriptPlace::make(task, directory, index)?;
            // The script is put there later, and has no rule of its own.
            own_grants.push(place.directory(directory, Access::Execute)?);
            copies.push((index, place.copied.named.clone()));
            places.push(place);
        }
        #[cfg(target_os = "linux")]
        place_tables(task, directory, (&mut own_grants, &mut placed))?;
        let mut ahead = Self::with_scripts(task, directory, (own_grants, copies))?;
        ahead.environment.retain(|line| {
            let name = line.to_bytes().split(|byte| *byte == b'=').next();
            name.is_some_and(|name| matters_at_start(OsStr::from_bytes(name)))
        });
        #[cfg(target_os = "linux")]
        let ahead = Self { placed, ..ahead };
        Ok((ahead, places))
    }

    /// Builds argv, environment and program, given the grants and the paths of the scripts.
    fn with_scripts(
        task: HookTask<'_>,
        directory: &RunDir,
        (mut own_grants, copies): (Vec<OpenGrant>, Vec<(usize, PathBuf)>),
    ) -> Result<Self, Stop> {
        let program = task.program;
        let argv = arguments(program, copies)?;
        let (path, executable) = if program.kept == ContentGuard::Copy {
            let sha256 = program.executable_sha256();
            let path = program.executable_path();
            copy_program(directory, &program.executable, path, sha256)?
        } else {
            let path = program.executable_path().to_owned();
            (path, keep(&program.executable, "program")?)
        };
        own_grants.push(of_its_own(path.clone(), keep(&executable, "program")?));
        // Only Linux executes a descriptor.
        let path = if cfg!(target_os = "linux") || program.kept == ContentGuard::Copy {
            path
        } else {
            by_path(program, &executable, directory)?
        };
        let environment = variables(task, directory)?;
        Ok(Self {
            argv,
            environment,
            own: own_grants,
            path,
            #[cfg(target_os = "linux")]
            placed: Vec::new(),
            program: executable,
        })
    }
}

/// Returns a run's arguments, with the paths of its scripts' copies.
///
/// # Errors
///
/// Refuses a NUL byte.
fn arguments(program: &Program, copies: Vec<(usize, PathBuf)>) -> Result<Vec<CString>, Stop> {
    let words = program.argv_with(copies).into_iter();
    words
        .map(|word| no_nul(word.into_vec(), "hook.argv"))
        .collect()
}

/// Returns a run's variables, each as `NAME=VALUE`.
///
/// # Errors
///
/// Refuses a NUL byte.
pub(crate) fn variables(task: HookTask<'_>, directory: &RunDir) -> Result<Vec<CString>, Stop> {
    let scratch = directory.scratch();
    let mut all = task.environment.with_scratch(&scratch);
    all.insert("TMPDIR".into(), temporary(task, scratch).into());
    let lines = all.into_iter().map(|(name, value)| {
        let mut line = name.into_vec();
        line.push(b'=');
        line.extend(value.into_vec());
        no_nul(line, "hook.env")
    });
    lines.collect()
}

/// Returns the directory for temporary files: the scratch directory, or the place at which a view of its own shows it.
#[cfg(target_os = "linux")]
fn temporary(task: HookTask<'_>, scratch: PathBuf) -> PathBuf {
    let granted = task.opened.grants.iter().map(|grant| &*grant.path);
    match has_view(task) && covers(Path::new(TEMPORARY), granted) {
        true => TEMPORARY.into(),
        false => scratch,
    }
}

/// Returns the scratch directory: there are no views on this system.
#[cfg(not(target_os = "linux"))]
fn temporary(_task: HookTask<'_>, scratch: PathBuf) -> PathBuf {
    scratch
}

fn no_nul(bytes: Vec<u8>, field: &str) -> Result<CString, Stop> {
    CString::new(bytes).map_err(|_| InvalidField::new(field, "holds a NUL byte").into())
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
    let (path, _) = copy_program(directory, &program.executable, named, sha256)?;
    Ok(path)
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

/// Returns whether a script is run where it is, and not as a copy.
///
/// TOCTOU: an interpreter opens its script by a path, which another user may have renamed or re-linked by then. So the path
/// is that of a copy, unless only root can change what it leads to. A hook with its own uid may not reach the original.
pub(crate) fn stays(script: &Script, has_own_uid: bool) -> bool {
    !has_own_uid
        && script.kept != ContentGuard::Copy
        && only_roots(&script.path, &script.file).as_ref() == Some(&script.path)
}

/// Returns whether a hook has a view of its own.
#[cfg(target_os = "linux")]
pub(crate) fn has_view(task: HookTask<'_>) -> bool {
    task.policy.view == HookView::Own && task.prepared.backend == BackendName::LANDLOCK
}

/// Returns `false`: there are no views on this system.
#[cfg(not(target_os = "linux"))]
pub(crate) const fn has_view(_task: HookTask<'_>) -> bool {
    false
}

/// Shows tables of names in the place of the machine's, where the profile names hosts and the run has a view of its own.
#[cfg(target_os = "linux")]
fn place_tables(
    task: HookTask<'_>,
    directory: &RunDir,
    (own_grants, placed): (&mut Vec<OpenGrant>, &mut Vec<Placement>),
) -> Result<(), Stop> {
    if task.policy.network != Network::Named || !has_view(task) {
        return Ok(());
    }
    let made = tables::make(&task.policy.egress, directory);
    for table in made.map_err(|e| Fault::new("cannot make a table of names", e))? {
        let copy = keep(&table.copy, "table of names")?;
        own_grants.push(OpenGrant {
            rights: Rights::File(Access::Read),
            ..of_its_own(table.copy_path.clone(), copy)
        });
        placed.push(table);
    }
    Ok(())
}

/// Returns whether scripts are shown at their own paths: in a view of its own, whose hook can reach what its caller can.
#[cfg(target_os = "linux")]
fn places_scripts(task: HookTask<'_>, identity: Option<&Identity>) -> bool {
    let is_callers = identity.is_none_or(|identity| identity.uid == task.caller.uid);
    has_view(task) && is_callers
}

/// Returns a script's path without links; `None` where it leads elsewhere by now, or the caller cannot follow it.
#[cfg(target_os = "linux")]
fn real_path(task: HookTask<'_>, script: &Script) -> Option<PathBuf> {
    let peer = &task.caller;
    let _as_peer = FileRights::for_user(peer.uid, peer.gid, &peer.groups);
    let real = fs::canonicalize(&script.path).ok()?;
    leads_to(&real, &script.file).then_some(real)
}

/// Copies a script, to be shown at its own path.
///
/// # Errors
///
/// Refuses a file whose owner has rewritten it since it was hashed: `DIGEST_MISMATCH`.
#[cfg(target_os = "linux")]
fn place(
    script: &Script,
    place: PathBuf,
    directory: &RunDir,
    index: usize,
) -> Result<Placement, Stop> {
    let kind = format!("script-{index}");
    let made = directory.frame(&place, &kind, &Around::default());
    let copied = made.map_err(|e| Fault::new("cannot make a script's directory", e))?;
    let copy = fill(&copied, None, &kind, &script.file, &place, &script.sha256)?;
    Ok(Placement {
        copy,
        copy_path: copied.path,
        original: keep(&script.file, "script")?,
        place,
    })
}

/// The place of a script's copy in a run's directory, among its neighbours.
#[derive(Debug)]
pub(crate) struct ScriptPlace {
    around: Around,
    copied: Copied,
    /// The name of its directory in the run's.
    name: String,
    /// Of a script that is shown at its own path.
    #[cfg(target_os = "linux")]
    shown: Option<Shown>,
}

/// A script that is shown at its own path, before it has its contents.
#[cfg(target_os = "linux")]
#[derive(Debug)]
struct Shown {
    /// Neighbours by whose names an interpreter finds other modules than its own.
    beside: Vec<OsString>,
    /// Device and inode of the original.
    original: (u64, u64),
    path: PathBuf,
    /// The copy, empty and opened for writing; `None` once it is filled.
    reserved: Option<File>,
}

impl ScriptPlace {
    fn make(task: HookTask<'_>, directory: &RunDir, index: usize) -> Result<Self, Stop> {
        let script = &task.program.scripts[index];
        let name = match index {
            0 => "script".to_owned(),
            more => format!("script-{more}"),
        };
        let around = around(task, &script.path, &script.file)?;
        let made = unblocked(links(&around) > MANY_LINKS, || {
            directory.frame(&script.path, &name, &around)
        });
        let copied = made.map_err(|e| Fault::new("cannot make a script's directory", e))?;
        Ok(Self {
            around,
            copied,
            name,
            #[cfg(target_os = "linux")]
            shown: None,
        })
    }

    /// Makes the place of a script that is shown at its own path: an empty file lies there until the run begins.
    #[cfg(target_os = "linux")]
    fn shown(
        task: HookTask<'_>,
        script: &Script,
        path: PathBuf,
        directory: &RunDir,
        index: usize,
    ) -> Result<(Self, Placement), Stop> {
        let name = format!("script-{index}");
        let copied = directory
            .frame(&path, &name, &Around::default())
            .map_err(|e| Fault::new("cannot make a script's directory", e))?;
        let reserved = copied.reserve();
        let reserved = reserved.map_err(|e| Fault::new("cannot make a script's copy", e))?;
        let copy =
            File::open(&copied.path).map_err(|e| Fault::new("cannot open the copied script", e))?;
        let placement = Placement {
            copy,
            copy_path: copied.path.clone(),
            original: keep(&script.file, "script")?,
            place: path.clone(),
        };
        let place = Self {
            around: Around::default(),
            copied,
            name,
            shown: Some(Shown {
                beside: shadowing(task, &path)?,
                original: inode(&script.file)?,
                path,
                reserved: Some(reserved),
            }),
        };
        Ok((place, placement))
    }

    /// Returns whether the same place would be made for a script now.
    ///
    /// # Errors
    ///
    /// As for making it.
    pub(crate) fn suits(&self, task: HookTask<'_>, script: &Script) -> Result<bool, Stop> {
        #[cfg(target_os = "linux")]
        if let Some(shown) = &self.shown {
            return Ok(inode(&script.file)? == shown.original
                && real_path(task, script).as_ref() == Some(&shown.path)
                && shadowing(task, &shown.path)? == shown.beside);
        }
        Ok(around(task, &script.path, &script.file)? == self.around)
    }

    /// Copies a script to its place, and opens the copy. Only this run can read it, and no process can write it.
    ///
    /// # Errors
    ///
    /// Refuses a file whose owner has rewritten it since it was hashed: `DIGEST_MISMATCH`.
    pub(crate) fn fill(&mut self, script: &Script) -> Result<File, Stop> {
        #[cfg(target_os = "linux")]
        let reserved = self.shown.as_mut().and_then(|shown| shown.reserved.take());
        #[cfg(not(target_os = "linux"))]
        let reserved = None;
        fill(
            &self.copied,
            reserved,
            &self.name,
            &script.file,
            &script.path,
            &script.sha256,
        )
    }

    /// Returns a grant of its directory.
    fn directory(&self, run_dir: &RunDir, access: Access) -> Result<OpenGrant, Fault> {
        own_directory(run_dir.named(&self.name), access)
            .map_err(|e| Fault::new("cannot open a script's directory", e))
    }
}

/// Returns a grant of a directory of the daemon's own.
///
/// # Errors
///
/// Fails where it cannot be opened.
pub(crate) fn own_directory(path: PathBuf, access: Access) -> io::Result<OpenGrant> {
    let (target, _) = grants::open(&path, Links::Refused)?;
    Ok(OpenGrant {
        path,
        rights: Rights::Directory(access),
        target: Arc::new(target),
    })
}

/// Copies a program, and opens the copy.
fn copy_program(
    directory: &RunDir,
    file: &File,
    path: &Path,
    sha256: &str,
) -> Result<(PathBuf, File), Stop> {
    let made = directory.frame(path, "program", &Around::default());
    let copied = made.map_err(|e| Fault::new("cannot make the program's directory", e))?;
    let executable = fill(&copied, None, "program", file, path, sha256)?;
    Ok((copied.path, executable))
}

/// Copies a file to its place, which may be reserved, and opens the copy.
///
/// # Errors
///
/// Refuses a file whose owner has rewritten it since it was hashed: `DIGEST_MISMATCH`.
fn fill(
    copied: &Copied,
    reserved: Option<File>,
    kind: &str,
    file: &File,
    path: &Path,
    sha256: &str,
) -> Result<File, Stop> {
    let is_large = file.metadata().is_ok_and(|found| found.len() > LARGE_BYTES);
    unblocked(is_large, || {
        let filled = match reserved {
            Some(reserved) => copied.write(reserved, file),
            None => copied.fill(file),
        };
        filled.map_err(|e| Fault::new(format!("cannot copy the {kind}"), e))?;
        let copy = File::open(&copied.path)
            .map_err(|e| Fault::new(format!("cannot open the copied {kind}"), e))?;
        let what = format_args!("cannot hash the copied {kind}");
        if !unless_lacking(what, hash_file(&copy))?.is_ok_and(|found| found == sha256) {
            let message = format!("`{}` changed after it was admitted", path.display());
            return Err(Refusal::new(Reason::DigestMismatch, message).into());
        }
        Ok(copy)
    })
}

/// Does some work; on a blocking thread where it is long, so that it does not delay other requests.
fn unblocked<T>(is_long: bool, work: impl FnOnce() -> T) -> T {
    if is_long {
        block_in_place(work)
    } else {
        work()
    }
}

fn links(around: &Around) -> usize {
    around.levels.iter().map(|level| level.names.len()).sum()
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
    let _as_peer = FileRights::for_user(peer.uid, peer.gid, &peer.groups);
    // A link may lead to another file by now.
    let real = fs::canonicalize(script).ok();
    let real = real.filter(|real| leads_to(real, file));
    let script = match &real {
        // A path with `..` in it does not contain the script's directories.
        Some(real) if !is_plain(script) => real,
        Some(_) | None => script,
    };
    let Some(directory) = script.parent().filter(|_| is_plain(script)) else {
        return Ok(Around::default());
    };
    let granted = files.system.iter().chain(&files.named);
    let granted = granted.filter_map(|grant| match &grant.place {
        policy::GrantPlace::Path(path) if directory.starts_with(path) => Some(path),
        policy::GrantPlace::Entries(_)
        | policy::GrantPlace::Path(_)
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

/// Returns the neighbours of a script by whose names an interpreter finds other modules than those that it loads ahead.
///
/// # Errors
///
/// Fails where the directory cannot be listed.
#[cfg(target_os = "linux")]
fn shadowing(task: HookTask<'_>, script: &Path) -> Result<Vec<OsString>, Fault> {
    let peer = &task.caller;
    let _as_peer = FileRights::for_user(peer.uid, peer.gid, &peer.groups);
    let list = || -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(script.parent().unwrap_or(script))? {
            let name = entry?.file_name();
            if warm::shadows(&name) {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    };
    list().map_err(|e| Fault::new("cannot list a script's directory", e))
}

/// Returns device and inode of an open file.
#[cfg(target_os = "linux")]
fn inode(file: &File) -> Result<(u64, u64), Fault> {
    let found = file.metadata();
    let found = found.map_err(|e| Fault::new("cannot examine a script", e))?;
    Ok((found.dev(), found.ino()))
}

/// Returns whether a path leads to an open file.
fn leads_to(path: &Path, file: &File) -> bool {
    let identity = |found: fs::Metadata| (found.dev(), found.ino());
    let found = fs::metadata(path).map(identity).ok();
    found.is_some() && found == file.metadata().map(identity).ok()
}

/// Lists a directory without names that lead to a script, and without directories that are made for runs; empty above `most` names.
fn names(
    directory: &Path,
    leading: impl Fn(&OsStr) -> bool,
    most: usize,
) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        // All of them are in the places of settings, whose names begin so.
        let is_made = name.as_bytes().starts_with(b".")
            && lstat(&entry.path()).is_ok_and(|found| is_made_for_runs(&found));
        if !is_made && !leading(&name) {
            names.push(name);
        }
        if names.len() > most {
            return Ok(Vec::new());
        }
    }
    Ok(names)
}

/// Opens a run's scratch directory, to grant it and to start in it.
pub(crate) fn scratch_fd(directory: &RunDir) -> Result<Arc<OwnedFd>, Stop> {
    let opened = grants::open(&directory.scratch(), Links::Refused);
    let (fd, _) = opened.map_err(|e| Fault::new("cannot open the scratch directory", e))?;
    Ok(Arc::new(fd))
}

/// Creates the three pipes: the child's ends, and the daemon's.
///
/// As much of the event as fits is already written to the first: usually all of it. The pipe is closed then, unless more
/// `follows`.
pub(crate) fn pipes(event: &Bytes, follows: bool) -> io::Result<([OwnedFd; 3], Pipes)> {
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
    let stdin = if follows || written < event.len() {
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
