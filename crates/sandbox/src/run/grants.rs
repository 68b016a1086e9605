//! Opens granted paths once: a grant is the examined inode, even if its name leads elsewhere later.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    fs, io,
    os::fd::AsRawFd,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    fcntl::OFlag,
    sys::stat::{Mode, SFlag, fstat},
    unistd::geteuid,
};
use tokio::time::sleep;

use hookjail_base::{
    model::{Hook, InvalidField, Peer},
    refusal::{Fact, Reason, Refusal},
};
use hookjail_policy::{
    Access, Files, GrantPlace, GrantSpec, HookView, Policy, git_paths, rights::Rights, starts_in,
    tokens,
};
use hookjail_sys::{BY_NAME, FileRights, Links, locate, open_beneath};

use crate::{
    Prepared,
    host::LACKING,
    rootfs::{Root, View},
    run::{
        floor::Led,
        places::{KnownPlaces, real},
        read_only::{Kept, Making, NotKept},
        task::WorkingDir,
    },
};

/// How long a run waits at most for what runs in a workspace share.
const LOCKED_FOR: Duration = Duration::from_secs(2);

/// The time after which it is tried again.
const AGAIN: Duration = Duration::from_millis(2);

/// Files of a run beside its scratch directory and its program.
///
/// They are opened before the run is announced, so that a path that cannot be opened is refused early.
#[derive(Debug, Default)]
pub struct Opened {
    pub(crate) grants: Vec<OpenGrant>,
    /// The paths among them that stay read-only, or are hidden.
    pub(crate) kept: Option<Kept>,
    /// The hook's working directory; `None` = its scratch directory.
    pub(crate) working_dir: Option<WorkingDir>,
}

impl Opened {
    /// Opens a policy's grants and the hook's working directory.
    ///
    /// Paths that the operator's profile names are opened with the daemon's rights, all others and the working
    /// directory with the caller's. A root daemon lends its rights to no request, and a path that the caller cannot
    /// reach is refused alike whether it exists or not.
    ///
    /// # Errors
    ///
    /// Refuses where a path cannot be opened, a named one leads through a symbolic link (`GRANT_MISSING`), or the working
    /// directory lies in no grant (`INVALID_REQUEST`).
    pub async fn open(
        known: &KnownPlaces,
        prepared: &Prepared,
        policy: &Policy,
        request: GrantRequest<'_>,
    ) -> Result<Self, Refusal> {
        let working_dir = starts_in(policy, request.hook);
        let workspace = request.hook.workspace.as_deref();
        let mounts = policy.files.keep() || policy.view == HookView::Own;
        let kept = match workspace.filter(|_| prepared.confines()) {
            None => None,
            Some(workspace) => {
                let homes = {
                    let _as_caller = request.rights();
                    known.floor().homes(request.peer)
                };
                let kept = request
                    .kept(known, workspace, (&policy.files, &homes))
                    .await?;
                let _as_caller = request.rights();
                let led = known.floor().led_into(&homes, workspace);
                let led = led.map_err(|error| {
                    let missing = |message| Refusal::new(Reason::GrantMissing, message);
                    Refusal::failed("links of the home cannot be looked for", &error, missing)
                })?;
                let led = led
                    .into_iter()
                    .filter(|led| is_open(led, workspace, &policy.files));
                Kept::keep_led(kept, workspace, led.collect(), mounts)?
            }
        };
        // Where nothing is mounted, those that are granted by their own paths are left out all the same.
        let tokens = match prepared.confines() {
            true => tokens::found_at(&policy.files.tokens),
            false => Vec::new(),
        };
        let kept = if mounts {
            Kept::close(kept, &tokens)?
        } else {
            kept
        };
        Ok(Self {
            kept,
            grants: if prepared.confines() {
                let mut grants = known.open_all(&policy.files, request)?;
                if !tokens.is_empty() {
                    let is_one =
                        |path: &Path| path.canonicalize().is_ok_and(|it| tokens.contains(&it));
                    grants.retain(|grant| {
                        !matches!(grant.rights, Rights::File(_)) || !is_one(&grant.path)
                    });
                }
                grants
            } else {
                Vec::new()
            },
            working_dir: working_dir
                .map(|path| {
                    let _as_caller = request.rights();
                    let opened = open_working_dir(path, &policy.files, known.root())?;
                    Ok::<_, Refusal>(WorkingDir {
                        opened,
                        path: path.to_owned(),
                    })
                })
                .transpose()?,
        })
    }
}

/// Returns whether a policy opens what a link of the home has in a workspace: keys to be read, other places to be written.
fn is_open(led: &Led, workspace: &Path, files: &Files) -> bool {
    let meets = |path: &Path| path.starts_with(workspace) || workspace.starts_with(path);
    match led.is_secret {
        true => files.named.iter().any(|grant| match &grant.place {
            GrantPlace::Path(path) => meets(path),
            GrantPlace::Entries(_) | GrantPlace::Source { .. } | GrantPlace::Workspace { .. } => {
                false
            }
        }),
        false => files.written().any(meets),
    }
}

/// The request that files are opened for.
#[derive(Clone, Copy, Debug)]
pub struct GrantRequest<'a> {
    /// The hook.
    pub hook: &'a Hook,
    /// The profile's grants as the operator wrote them.
    pub of_operator: &'a Files,
    /// The caller.
    pub peer: &'a Peer,
    /// Whether missing files are created where a grant has `create`; not in a dry run.
    pub creates: bool,
    /// The run's deadline.
    pub deadline: Instant,
    /// The directories of git that belong to the workspace and lie elsewhere: the common one, and the workspace's own.
    pub git: Option<(&'a Path, &'a Path)>,
    /// Names of directories of the workspace in which the hook's runtime has files of its own.
    pub open: &'a [&'a str],
}

impl GrantRequest<'_> {
    /// Finds the paths to keep, as soon as runs that end in the workspace have removed their directories.
    async fn kept(
        &self,
        known: &KnownPlaces,
        workspace: &Path,
        (files, homes): (&Files, &[PathBuf]),
    ) -> Result<Option<Kept>, Refusal> {
        let making = Making {
            caller: self.peer,
            open: self.open,
            makes: self.creates,
            searched: Some(known.searched()),
            spares: known.spares(),
        };
        let until = self.deadline.min(Instant::now() + LOCKED_FOR);
        loop {
            let found = {
                let _as_caller = self.rights();
                Kept::find_with_git(workspace, files, self.git, homes, making)
            };
            match found {
                Err(NotKept::Busy(_)) if Instant::now() < until => sleep(AGAIN).await,
                Err(NotKept::Busy(_)) if until == self.deadline => {
                    let message = "the deadline passed while another run or program held the workspace's taken names";
                    return Err(Refusal::new(Reason::Deadline, message));
                }
                found => return Ok(found?),
            }
        }
    }

    /// Takes the caller's rights over files.
    fn rights(&self) -> FileRights {
        FileRights::for_user(self.peer.uid, self.peer.gid, &self.peer.groups)
    }
}

/// One granted path, opened.
#[derive(Clone, Debug)]
pub(crate) struct OpenGrant {
    /// Path at which it was found.
    pub path: PathBuf,
    /// Rights that are granted.
    pub rights: Rights,
    /// The inode.
    pub target: Arc<OwnedFd>,
}

impl KnownPlaces {
    /// Opens every path of a policy whose workspace and source are bound.
    ///
    /// # Errors
    ///
    /// Refuses where a path cannot be opened, or a named one leads through a symbolic link: `GRANT_MISSING`.
    fn open_all(
        &self,
        files: &Files,
        request: GrantRequest<'_>,
    ) -> Result<Vec<OpenGrant>, Refusal> {
        let mut opened = self.open_system(files)?;
        opened.extend(named_by_git(&opened));
        opened.extend(self.open_transcripts(files));
        for grant in &files.named {
            if grant.create && !make(grant, request)? {
                continue;
            }
            let mut written = request.of_operator.named.iter().map(|grant| &grant.place);
            let _as_caller =
                (!written.any(|place| *place == grant.place)).then(|| request.rights());
            let open = |path: &Path| open(path, Links::Refused).map(|(fd, is)| (Arc::new(fd), is));
            opened.extend(open_one(grant, open)?);
        }
        Ok(opened)
    }

    /// Opens every system path of a policy.
    ///
    /// Links are followed, as the operator wrote these paths and `/bin` is a link on most hosts.
    ///
    /// # Errors
    ///
    /// Refuses where a path cannot be opened: `GRANT_MISSING`.
    pub(crate) fn open_system(&self, files: &Files) -> Result<Vec<OpenGrant>, Refusal> {
        let mut opened = Vec::new();
        let mut listed = BTreeMap::new();
        let mut look = self.look();
        for grant in files.system.iter() {
            let GrantPlace::Entries(entries) = &grant.place else {
                let mut real = None;
                let found = open_one(grant, |path| {
                    let place = look.open(path)?;
                    real = Some(place.real);
                    Ok((place.target, place.is_directory))
                })?;
                if let (Some(found), Some(real)) = (&found, real) {
                    self.stays_above_the_floor(grant, &found.path, &real)?;
                }
                opened.extend(found);
                continue;
            };
            let directory = entries.directory();
            let names = (listed.entry(directory)).or_insert_with(|| self.list(directory));
            let names = names
                .iter()
                .map(|(name, _)| OsStr::from_bytes(name.to_bytes()));
            for name in names
                .filter(|name| entries.matches(name))
                .collect::<BTreeSet<_>>()
            {
                let path = directory.join(name);
                // An entry that cannot be opened, such as a link to a place of another user, serves no hook.
                if let Ok(place) = look.open(&path) {
                    self.stays_above_the_floor(grant, &path, &place.real)?;
                    opened.push(OpenGrant {
                        path,
                        rights: Rights::for_access(grant.access, place.is_directory),
                        target: place.target,
                    });
                }
            }
        }
        Ok(opened)
    }

    /// Opens an event's own transcripts. One that is missing, or leads to what its user keeps from hooks, is not granted.
    fn open_transcripts(&self, files: &Files) -> Vec<OpenGrant> {
        let on_host = |path: &&PathBuf| self.root().is_none() || !Root::has(path);
        let opened = files.transcripts.iter().filter(on_host).filter_map(|path| {
            let (target, is_directory) = open(path, Links::Followed).ok()?;
            let real = real(&target, path).ok()?;
            let why = self.floor().forbids(path, &real, true);
            why.is_none().then(|| OpenGrant {
                path: path.clone(),
                rights: Rights::for_access(Access::Read, is_directory),
                target: Arc::new(target),
            })
        });
        opened.collect()
    }

    /// Checks that a granted path does not lead to what its user keeps from hooks.
    ///
    /// # Errors
    ///
    /// Refuses where it does: `GRANT_MISSING`.
    fn stays_above_the_floor(
        &self,
        grant: &GrantSpec,
        path: &Path,
        real: &Path,
    ) -> Result<(), Refusal> {
        let Some(why) = self
            .floor()
            .forbids(path, real, grant.access.is_read_only())
        else {
            return Ok(());
        };
        let message = format!(
            "granted path `{}` leads to `{}`, and {why}; remove the link, or name that place itself in a profile",
            path.display(),
            real.display()
        );
        Err(Refusal::new(Reason::GrantMissing, message)
            .with(Fact::Path(path.display().to_string())))
    }
}

/// Opens the paths that granted configurations of git name. git fails where it cannot read one that is there.
fn named_by_git(granted: &[OpenGrant]) -> Vec<OpenGrant> {
    let named = git_paths::named_by(granted.iter().map(|grant| &*grant.path));
    let opened = named.filter_map(|(home, path, access)| {
        let (target, is_directory) = open(&path, Links::Followed).ok()?;
        let real = fs::read_link(format!("/proc/self/fd/{}", target.as_raw_fd())).ok()?;
        git_paths::is_open(home, &real).then_some(())?;
        Some(OpenGrant {
            rights: Rights::for_access(access, is_directory),
            path,
            target: Arc::new(target),
        })
    });
    opened.collect()
}

/// Creates the missing file of a grant with `create`, with the caller's rights. Returns whether it exists.
///
/// In a dry run nothing is created.
///
/// # Errors
///
/// Refuses where the file cannot be created, and where the existing one is another user's or not a regular file. A user
/// who can place it there, as in `/tmp`, would read the caller's data or redirect it.
fn make(grant: &GrantSpec, request: GrantRequest<'_>) -> Result<bool, Refusal> {
    let GrantPlace::Path(path) = &grant.place else {
        return Ok(true);
    };
    let missing = |message: String| {
        Refusal::new(Reason::GrantMissing, message).with(Fact::Path(path.display().to_string()))
    };
    let failed = |errno: Errno| {
        let what = format_args!("granted file `{}` cannot be made", path.display());
        Err(Refusal::failed(what, &io::Error::from(errno), missing))
    };
    let _as_caller = request.rights();
    let file = match locate(path, OFlag::empty(), Links::Refused) {
        Ok(file) => file,
        Err(Errno::ENOENT) if !request.creates => return Ok(false),
        Err(Errno::ENOENT) => match make_file(path) {
            // A file that another run has created meanwhile is checked as well.
            Ok(()) | Err(Errno::EEXIST) => match locate(path, OFlag::empty(), Links::Refused) {
                Ok(file) => file,
                Err(errno) => return failed(errno),
            },
            Err(Errno::ENOENT) if grant.optional => return Ok(false),
            Err(errno) => return failed(errno),
        },
        // The later open reports the error.
        Err(_) => return Ok(true),
    };
    let status = fstat(&file).map_err(|errno| {
        let what = format_args!("granted file `{}` cannot be examined", path.display());
        Refusal::failed(what, &io::Error::from(errno), missing)
    })?;
    if status.st_mode & SFlag::S_IFMT.bits() != SFlag::S_IFREG.bits() {
        let problem = "is granted as a file to write that is made where it is absent, but it is no regular file";
        return Err(missing(format!("`{}` {problem}", path.display())));
    }
    let owners = [request.peer.uid, geteuid().as_raw()];
    if !owners.contains(&status.st_uid) {
        let message = format!(
            "`{}` is granted with `create` but belongs to uid {}, which could read or replace it; remove it, or drop `create`",
            path.display(),
            status.st_uid
        );
        return Err(missing(message));
    }
    Ok(true)
}

/// Creates an empty file with mode 0600, unless the name exists.
fn make_file(path: &Path) -> Result<(), Errno> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Errno::EINVAL);
    };
    let parent = locate(parent, OFlag::O_DIRECTORY, Links::Refused)?;
    let flags = OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_WRONLY;
    let mode = Mode::S_IRUSR | Mode::S_IWUSR;
    open_beneath(&parent, Path::new(name), flags, mode, Links::Refused).map(drop)
}

fn open_one(
    grant: &GrantSpec,
    open: impl FnOnce(&Path) -> Result<(Arc<OwnedFd>, bool), Errno>,
) -> Result<Option<OpenGrant>, Refusal> {
    let path = match &grant.place {
        GrantPlace::Path(path) => path,
        unbound @ (GrantPlace::Entries(_)
        | GrantPlace::Source { .. }
        | GrantPlace::Workspace { .. }) => {
            let message = format!("the profile grants `{unbound}`, which is not bound");
            return Err(Refusal::new(Reason::GrantMissing, message));
        }
    };
    match open(path) {
        Ok((_, true)) if grant.access == Access::WriteFile => {
            let message = format!(
                "`{}` is granted as a file to write, but it is a directory",
                path.display()
            );
            Err(Refusal::new(Reason::GrantMissing, message)
                .with(Fact::Path(path.display().to_string())))
        }
        Ok((target, is_directory)) => Ok(Some(OpenGrant {
            path: path.clone(),
            rights: Rights::for_access(grant.access, is_directory),
            target,
        })),
        Err(Errno::ENOENT | Errno::ENOTDIR)
            if grant.optional || LACKING.iter().any(|lacking| path == Path::new(lacking)) =>
        {
            Ok(None)
        }
        Err(errno) => {
            let hint = if errno == Errno::ELOOP {
                "; granted paths may not lead through symbolic links"
            } else {
                ""
            };
            let what = format_args!("granted path `{}` cannot be opened", path.display());
            let missing = |message| Refusal::new(Reason::GrantMissing, message + hint);
            Err(Refusal::failed(what, &io::Error::from(errno), missing)
                .with(Fact::Path(path.display().to_string())))
        }
    }
}

/// Opens a path with `O_PATH`.
pub(crate) fn open(path: &Path, links: Links) -> Result<(OwnedFd, bool), Errno> {
    let target = locate(path, OFlag::empty(), links)?;
    let kind = fstat(&target)?.st_mode & SFlag::S_IFMT.bits();
    Ok((target, kind == SFlag::S_IFDIR.bits()))
}

/// Opens as [`open`] does, in a root.
pub(super) fn open_in(root: &Root, path: &Path) -> Result<(OwnedFd, bool), Errno> {
    let target = root.open_in(path, BY_NAME)?;
    let kind = fstat(&target)?.st_mode & SFlag::S_IFMT.bits();
    Ok((target.into(), kind == SFlag::S_IFDIR.bits()))
}

/// Opens the hook's working directory, which must lie in a grant.
///
/// # Errors
///
/// Refuses where the path lies in no grant, leads through a link, or is not a directory: `INVALID_REQUEST` on `hook.working_dir`.
fn open_working_dir(
    path: &Path,
    files: &Files,
    root: Option<&Root>,
) -> Result<Arc<OwnedFd>, Refusal> {
    let field = |problem: String| Refusal::from(InvalidField::new("hook.working_dir", problem));
    let granted = files
        .system
        .iter()
        .chain(&files.named)
        .any(|grant| match &grant.place {
            GrantPlace::Path(granted) => path.starts_with(granted),
            GrantPlace::Entries(entries) => {
                let below = path.strip_prefix(entries.directory()).ok();
                let name = below.and_then(|below| below.iter().next());
                name.is_some_and(|name| entries.matches(name))
            }
            GrantPlace::Source { .. } | GrantPlace::Workspace { .. } => false,
        });
    if !granted {
        return Err(field(format!(
            "`{}` lies in no grant of the profile",
            path.display()
        )));
    }
    let opened = match View::new(root, files).root_of(path) {
        Some(root) => open_in(root, path),
        None => open(path, Links::Refused),
    };
    match opened {
        Ok((directory, true)) => Ok(Arc::new(directory)),
        Ok((_, false)) => Err(field(format!("`{}` is not a directory", path.display()))),
        Err(errno) => {
            let what = format_args!("`{}` cannot be opened", path.display());
            Err(Refusal::failed(what, &io::Error::from(errno), field))
        }
    }
}
