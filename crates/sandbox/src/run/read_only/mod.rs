//! Finds the paths of a workspace that stay read-only in a run, and those that are hidden from it.

#[cfg(target_os = "linux")]
mod closed;
mod links;
mod placeholder;
mod spares;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::Arc,
};

use libc::mode_t;
use nix::{
    errno::Errno,
    sys::stat::{FileStat, Mode, SFlag, fstat, mkdirat},
    unistd::{UnlinkatFlags, geteuid, unlinkat},
};

use hookjail_base::{
    model::{Peer, axis::Axis},
    refusal::{Fact, Reason, Refusal},
    util::way::Way,
};
use hookjail_policy::{
    Files, Keep, ReadOnly, git_paths,
    hidden::{RUNS_SHARE, Searched, Unsearchable},
};
use hookjail_sys::{BY_NAME, Links, open_beneath};

use self::placeholder::{NotBegun, in_parent, is_way, takes_name};

#[cfg(target_os = "linux")]
use hookjail_policy::{Access, rights::Rights};

#[cfg(target_os = "linux")]
use crate::run::grants::OpenGrant;

use crate::run::{floor::Led, grants};

#[cfg(target_os = "linux")]
pub(crate) use self::closed::{Closed, Instead};
pub(crate) use self::{
    placeholder::{Placeholders, is_made_for_runs},
    spares::Spares,
};

/// A tree with paths that stay read-only, or are hidden.
#[derive(Debug)]
pub(crate) struct Kept {
    /// Whether directories are among what is hidden.
    pub hides_directories: bool,
    /// The directories that take missing names. They have to last as long as the run's processes.
    pub placeholders: Option<Arc<Placeholders>>,
    /// The paths below the tree. A path inside another comes after it.
    pub points: BTreeMap<PathBuf, Keep>,
    /// The workspace, or the directory that holds it and the directories of git that belong to it.
    pub target: OwnedFd,
    /// Its path.
    pub workspace: PathBuf,
}

/// The making of directories in a workspace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Making<'a> {
    /// Whose rights make them.
    pub caller: &'a Peer,
    /// Names of directories in which the hook's runtime has files of its own, and where hooks may make more.
    pub open: &'a [&'a str],
    /// Whether any is made; not in a dry run.
    pub makes: bool,
    /// Directories that were searched for what is hidden, and need no listing; `None` = all are listed.
    pub searched: Option<&'a Searched>,
    /// Where those that are made lie ready for the next run; `None` = they are removed at the end of this one.
    pub spares: Option<&'a Arc<Spares>>,
}

impl Making<'_> {
    /// Returns whether hooks make nothing in a directory in which making a name fails, now or once they have changed its mode.
    fn is_closed(&self, errno: Errno, directory: &FileStat) -> bool {
        const OTHERS_WRITE: mode_t = 0o002;
        let hooks_user = match geteuid() {
            // Root's daemon runs hooks as their callers, or as users that own nothing.
            root if root.is_root() => self.caller.uid,
            user => user.as_raw(),
        };
        let can_open = directory.st_uid == hooks_user || directory.st_mode & OTHERS_WRITE != 0;
        matches!(errno, Errno::EROFS | Errno::EPERM) || errno == Errno::EACCES && !can_open
    }
}

/// Why no paths are kept.
#[derive(Debug)]
pub(crate) enum NotKept {
    /// Another run is just about to remove its directories, or another program has locked what runs share: again soon.
    Busy(Refusal),
    Refused(Refusal),
}

impl From<Refusal> for NotKept {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<NotKept> for Refusal {
    fn from(not_kept: NotKept) -> Self {
        match not_kept {
            NotKept::Busy(refusal) | NotKept::Refused(refusal) => refusal,
        }
    }
}

impl Kept {
    /// Finds the paths to keep in a workspace, and `more` that stay as they are; `None` if there are none.
    ///
    /// With the caller's rights. A missing directory that must be read-only is created, because a hook could create it
    /// otherwise.
    ///
    /// # Errors
    ///
    /// Refuses paths that cannot be kept: behind a symbolic link, with a second hard link, or missing and not a directory
    /// (`POLICY_UNENFORCEABLE`); and paths that cannot be examined (`GRANT_MISSING`).
    pub(crate) fn find(
        workspace: &Path,
        files: &Files,
        more: &[ReadOnly],
        making: Making<'_>,
    ) -> Result<Option<Self>, NotKept> {
        let mut kept = Self::unchanged(workspace, &files.read_only)?;
        // Before directories are made, which it would look into.
        kept.hide(files, making)?;
        let mut list = files.unchanged.iter().chain(more).peekable();
        let made = match making.makes && list.peek().is_some() {
            true => kept.begin(making)?,
            false => None,
        };
        kept.keep_missing(list, making, made)?;
        kept.keep_linked(files)?;
        Ok(kept.or_none())
    }

    /// Returns it without points in what stays read-only: a mount of their own would open them.
    fn or_none(mut self) -> Option<Self> {
        let unchanged =
            |(below, keep): (&PathBuf, &Keep)| (*keep == Keep::Unchanged).then(|| below.clone());
        let unchanged: BTreeSet<_> = self.points.iter().filter_map(unchanged).collect();
        self.points.retain(|below, keep| {
            let mut around = below.ancestors().skip(1);
            *keep > Keep::Unchanged || !around.any(|around| unchanged.contains(around))
        });
        (!self.points.is_empty()).then_some(self)
    }

    /// Finds the paths that stay read-only.
    fn unchanged(workspace: &Path, list: &[ReadOnly]) -> Result<Self, Refusal> {
        let opened = grants::open(workspace, Links::Refused);
        let (target, _) = opened.map_err(|errno| unseen(workspace, errno))?;
        let mut points: BTreeMap<PathBuf, Keep> = BTreeMap::new();
        for kept in list {
            let mut way: Vec<&Path> = kept.below.ancestors().collect();
            // Without the empty path at its end, the shortest first.
            way.pop();
            way.reverse();
            for below in way {
                let path = workspace.join(below);
                let last = below == kept.below;
                let found = match find(&target, below) {
                    Err(Errno::ENOENT) if last && kept.directory => {
                        make(&target, below).and_then(|()| find(&target, below))
                    }
                    found => found,
                };
                let kind = match found {
                    Ok(kind) => kind,
                    // A missing parent: no file exists below it that must stay unchanged.
                    Err(Errno::ENOENT) if !last => break,
                    Err(Errno::ENOENT) => {
                        return Err(unkept(&path, &asked_to_protect(kept), MISSING));
                    }
                    Err(Errno::ELOOP) => return Err(unkept(&path, &asked_to_protect(kept), LINK)),
                    Err(errno) => return Err(unseen(&path, errno)),
                };
                match kind {
                    Found::Directory(_) => {
                        let keep = if last { Keep::Unchanged } else { Keep::Name };
                        raise(&mut points, below, keep);
                    }
                    Found::Named(false) => {
                        // The name itself is kept, because paths below it could only be created in its place.
                        raise(&mut points, below, Keep::Unchanged);
                        break;
                    }
                    Found::Named(true) => {
                        return Err(unkept(&path, &asked_to_protect(kept), NAMES));
                    }
                }
            }
        }
        Ok(Self {
            hides_directories: false,
            placeholders: None,
            points,
            target,
            workspace: workspace.to_owned(),
        })
    }

    /// Begins to make directories where names are missing; `None` where hooks make nothing at the top of the workspace either.
    fn begin(&mut self, making: Making<'_>) -> Result<Option<Placeholders>, NotKept> {
        let shared = self.workspace.join(RUNS_SHARE);
        match Placeholders::begin(&self.workspace, &self.target, making.caller, making.spares) {
            Ok(begun) => {
                raise(&mut self.points, Path::new(RUNS_SHARE), Keep::Empty);
                Ok(Some(begun))
            }
            Err(NotBegun::Busy) => Err(NotKept::Busy(busy(&shared))),
            Err(NotBegun::Unshared(errno)) => Err(unshared(&shared, errno).into()),
            Err(NotBegun::Closed(errno)) => {
                self.closed(making, Path::new(RUNS_SHARE), errno)?;
                Ok(None)
            }
        }
    }

    /// Checks that hooks make nothing in the directory that holds a path, where making that fails.
    ///
    /// # Errors
    ///
    /// Refuses where a hook can open the directory (`POLICY_UNENFORCEABLE`), or it cannot be examined (`GRANT_MISSING`).
    fn closed(&self, making: Making<'_>, below: &Path, errno: Errno) -> Result<(), Refusal> {
        let path = self.workspace.join(below);
        let directory = in_parent(&self.target, below, |parent, _| fstat(parent));
        let directory = directory.map_err(|errno| unseen(&path, errno))?;
        if making.is_closed(errno, &directory) {
            return Ok(());
        }
        Err(if errno == Errno::EACCES {
            open_to_hooks(&path)
        } else {
            unseen(&path, errno)
        })
    }

    /// Adds paths that stay as they are, there or not.
    fn keep_missing<'a>(
        &mut self,
        list: impl Iterator<Item = &'a ReadOnly>,
        making: Making<'_>,
        mut made: Option<Placeholders>,
    ) -> Result<(), Refusal> {
        for kept in list {
            let names = kept.below.components().count();
            let mut depth = 1;
            let mut attempts = ATTEMPTS;
            while depth <= names {
                let Some(below) = kept.below.ancestors().nth(names - depth) else {
                    break;
                };
                let (path, is_last) = (self.workspace.join(below), depth == names);
                let unseen = |errno| unseen(&path, errno);
                match self.points.get(below) {
                    Some(Keep::Name) if !is_last => {
                        depth += 1;
                        continue;
                    }
                    Some(Keep::Unchanged | Keep::Empty | Keep::Hidden) => break,
                    Some(Keep::Name) | None => {}
                }
                match (find(&self.target, below), &mut made) {
                    (Ok(Found::Directory(status)), Some(made))
                        if takes_name(status.st_mode) || is_way(status.st_mode) =>
                    {
                        let leads = is_way(status.st_mode) && !is_last;
                        let keep = if leads { Keep::Name } else { Keep::Unchanged };
                        raise(&mut self.points, below, keep);
                        made.removes(below, &status);
                        if !leads {
                            break;
                        }
                        depth += 1;
                    }
                    (Ok(Found::Directory(_)), _) => {
                        let keep = if is_last { Keep::Unchanged } else { Keep::Name };
                        raise(&mut self.points, below, keep);
                        depth += 1;
                    }
                    (Err(Errno::ENOENT), None) if !making.makes => break,
                    (Err(Errno::ENOENT), made) => {
                        attempts = attempts
                            .checked_sub(1)
                            .ok_or_else(|| unseen(Errno::EAGAIN))?;
                        let leads = !is_last
                            && depth == 1
                            && making.open.iter().any(|name| below == Path::new(name));
                        let taken = match made {
                            Some(made) => made.make(&self.target, below, leads).map(Some),
                            None => can_be_made(&self.target, below).map(|()| None),
                        };
                        match taken {
                            Ok(None) => {
                                return Err(unkept(&path, &asked_to_keep(kept), MISSING));
                            }
                            Ok(Some(true)) => {
                                let keep = if leads { Keep::Name } else { Keep::Unchanged };
                                raise(&mut self.points, below, keep);
                                if !leads {
                                    break;
                                }
                                depth += 1;
                            }
                            // Another program was faster.
                            Ok(Some(false)) => {}
                            // The directory that led there is gone.
                            Err(Errno::ENOENT) => {
                                self.points.retain(|point, _| !below.starts_with(point));
                                depth = 1;
                            }
                            Err(errno) => {
                                self.closed(making, below, errno)?;
                                break;
                            }
                        }
                    }
                    (Ok(Found::Named(false)), _) => {
                        raise(&mut self.points, below, Keep::Unchanged);
                        break;
                    }
                    (Ok(Found::Named(true)), _) => {
                        return Err(unkept(&path, &asked_to_keep(kept), NAMES));
                    }
                    // The link stays with the directory that holds it.
                    (Err(Errno::ELOOP), _) if depth > 1 => {
                        let parent = below.parent().unwrap_or(below);
                        raise(&mut self.points, parent, Keep::Unchanged);
                        break;
                    }
                    (Err(Errno::ELOOP), _) => {
                        return Err(unkept(&path, &asked_to_keep(kept), LINK));
                    }
                    (Err(errno), _) => return Err(unseen(errno)),
                }
            }
        }
        self.placeholders = made.map(Arc::new);
        Ok(())
    }

    /// Adds the paths that are hidden, and the directories that lead to them.
    fn hide(&mut self, files: &Files, making: Making<'_>) -> Result<(), Refusal> {
        let anew = Searched::default();
        let searched = making.searched.unwrap_or(&anew);
        let found = files.hidden_in(&self.workspace, (searched, making.caller.uid));
        for below in found.map_err(|why| unsearchable(&self.workspace, &why))? {
            let path = self.workspace.join(&below);
            match find(&self.target, &below) {
                // A file of another program's that is gone again.
                Err(Errno::ENOENT) => continue,
                Err(errno) => return Err(unseen(&path, errno)),
                Ok(Found::Named(true)) => {
                    return Err(unkept(&path, &asked_to_hide(files, &below), NAMES));
                }
                Ok(Found::Directory(_)) => self.hides_directories = true,
                Ok(Found::Named(false)) => {}
            }
            raise_with_way(&mut self.points, &below, Keep::Hidden);
        }
        Ok(())
    }
}

/// Directories in which a hook may write, and what steers git in each.
type Steering<'a> = Vec<(&'a Path, Vec<ReadOnly>)>;

/// Returns the paths that git obeys in a workspace and in its directories of git, by their configuration and by those of the
/// working trees around it. The configuration and the hooks of its own repository are not among them.
///
/// # Errors
///
/// Refuses where a configuration cannot be read, or has git obey the whole workspace: `POLICY_UNENFORCEABLE`.
fn steered_by<'a>(
    workspace: &'a Path,
    git: Option<(&'a Path, &'a Path)>,
    homes: &[PathBuf],
) -> Result<Steering<'a>, Refusal> {
    let link = workspace.join(".git");
    let is_tree = link.symlink_metadata().is_ok();
    let (common, private) = git.unzip();
    let repositories = [Some(&*link), common, private].into_iter().flatten();
    let repositories = repositories.map(Path::to_owned).collect();
    let innermost = (is_tree.then_some(workspace), repositories);
    let around = git_paths::trees_around(workspace);
    // `.git` of the workspace itself is kept by the profile's list.
    let of_repository = |repository: &PathBuf| ["config", "hooks"].map(|it| repository.join(it));
    let of_around = around.iter().flat_map(|(_, repositories)| repositories);
    let mut steering: Vec<(PathBuf, bool)> = of_around
        .flat_map(of_repository)
        .filter(|path| path.symlink_metadata().is_ok())
        .map(|path| (path, false))
        .collect();
    for (top, repositories) in [innermost].into_iter().chain(around) {
        let configurations = repositories
            .iter()
            .flat_map(|repository| ["config", "config.worktree"].map(|name| repository.join(name)));
        let configurations: Vec<_> = configurations.collect();
        let reader = git_paths::Reader { homes, top };
        let obeyed = reader.obeyed(&configurations).map_err(|why| unread(&why))?;
        let existing = configurations
            .into_iter()
            .skip(1)
            .filter(|path| path.symlink_metadata().is_ok());
        steering.extend(obeyed.into_iter().chain(existing).map(|path| (path, false)));
        for repository in &repositories {
            let modules = git_paths::steering_modules(repository);
            steering.extend(modules.map_err(|why| unread(&why))?);
        }
    }
    // Each tree has those of the system and the homes, too.
    steering.sort_unstable();
    steering.dedup();
    let mut trees = vec![(workspace, Vec::new())];
    trees.extend(common.map(|common| (common, Vec::new())));
    trees.extend(
        private
            .filter(|private| Some(*private) != common)
            .map(|private| (private, Vec::new())),
    );
    let is_in_a_tree = |path: &Path| trees.iter().any(|(tree, _)| path.starts_with(tree));
    let outside = steering.iter().filter(|(path, _)| !is_in_a_tree(path));
    let mut led = Vec::new();
    for (path, _) in outside {
        led.extend(led_from(path)?.into_iter().map(|path| (path, false)));
    }
    for (path, directory) in steering.into_iter().chain(led) {
        if workspace.starts_with(&path) {
            return Err(all_obeyed(workspace, &path));
        }
        let mut holding = trees.iter_mut();
        if let Some((tree, list)) = holding.find(|(tree, _)| path.starts_with(tree)) {
            let below = path.strip_prefix(tree).unwrap_or(&path).to_owned();
            list.push(ReadOnly { below, directory });
        }
    }
    Ok(trees)
}

/// Returns the links on the ways of a path and of the links in a directory of that path, and where these ways end.
///
/// # Errors
///
/// Refuses a directory that cannot be listed for another reason than its mode: `GRANT_MISSING`.
fn led_from(path: &Path) -> Result<Vec<PathBuf>, Refusal> {
    let mut left = vec![path.to_owned()];
    let entries = fs::read_dir(path).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    match entries.map_err(|error| links::errno_of(&error)) {
        Ok(entries) => left.extend(entries.iter().map(fs::DirEntry::path)),
        Err(Errno::EACCES | Errno::ENOENT | Errno::ENOTDIR) => {}
        Err(errno) => return Err(unseen(path, errno)),
    }
    let ways = left.iter().map(|path| Way::follow(path));
    let passed = ways.filter(|way| !way.links.is_empty());
    Ok(passed
        .flat_map(|way| way.links.into_iter().chain([way.end]))
        .collect())
}

/// Keeps a path at least in a way.
fn raise(points: &mut BTreeMap<PathBuf, Keep>, below: &Path, keep: Keep) {
    let kept = points.entry(below.to_owned()).or_insert(keep);
    *kept = (*kept).max(keep);
}

/// Keeps a path at least in a way, and the names of the directories that lead to it.
fn raise_with_way(points: &mut BTreeMap<PathBuf, Keep>, below: &Path, keep: Keep) {
    let way = below.ancestors().skip(1);
    // Without the empty path at its end.
    for way in way.filter(|way| !way.as_os_str().is_empty()) {
        raise(points, way, Keep::Name);
    }
    raise(points, below, keep);
}

impl Kept {
    /// Finds the paths to keep as [`Kept::find`] does, and in the directories of git that belong to the workspace and lie
    /// elsewhere. These keep the same as `.git`, the names of the common directory, and the paths that git obeys by its
    /// configuration, in which `~` is one of `homes`.
    ///
    /// # Errors
    ///
    /// As [`Kept::find`].
    pub(crate) fn find_with_git(
        workspace: &Path,
        files: &Files,
        git: Option<(&Path, &Path)>,
        homes: &[PathBuf],
        making: Making<'_>,
    ) -> Result<Option<Self>, NotKept> {
        let keeps_git = files
            .read_only
            .iter()
            .any(|kept| kept.below == Path::new(".git/config"));
        let mut steering = match keeps_git {
            true => steered_by(workspace, git, homes)?,
            false => Vec::new(),
        };
        let mut steering = steering.drain(..);
        let (_, named) = steering.next().unwrap_or((workspace, Vec::new()));
        let kept = Self::find(workspace, files, &named, making)?;
        let of_git = files.read_only.iter().filter_map(|kept| {
            let below = kept.below.strip_prefix(".git").ok()?;
            Some(ReadOnly {
                below: below.to_owned(),
                ..*kept
            })
        });
        let of_git: Vec<_> = of_git.collect();
        let Some((common, private)) = git.filter(|_| !of_git.is_empty()) else {
            return Ok(kept);
        };
        let mut lists = vec![(common, of_git)];
        let mut add = |tree, kept| match lists.iter_mut().find(|(known, _)| *known == tree) {
            Some((_, list)) => list.push(kept),
            None => lists.push((tree, vec![kept])),
        };
        for name in ["commondir", "gitdir"] {
            let path = private.join(name);
            if path.symlink_metadata().is_err() {
                continue;
            }
            let tree = match private.starts_with(common) {
                true => common,
                false => private,
            };
            let below = path.strip_prefix(tree).unwrap_or(&path).to_owned();
            let directory = false;
            add(tree, ReadOnly { below, directory });
        }
        for (tree, list) in steering {
            list.into_iter().for_each(|kept| add(tree, kept));
        }
        let mut all: Vec<_> = kept.into_iter().collect();
        for (tree, list) in lists {
            let mut kept = Self::unchanged(tree, &list)?;
            kept.keep_linked(files)?;
            all.extend(kept.or_none());
        }
        Ok(Self::joined(all)?)
    }

    /// Adds files that are closed because they hold a token, wherever they lie.
    ///
    /// # Errors
    ///
    /// Refuses where the directory that holds all cannot be opened: `GRANT_MISSING`.
    pub(crate) fn close(kept: Option<Self>, files: &[PathBuf]) -> Result<Option<Self>, Refusal> {
        let root = Path::new("/");
        let points = files.iter().filter_map(|file| file.strip_prefix(root).ok());
        let points: BTreeMap<_, _> = points
            .map(|below| (below.to_owned(), Keep::Hidden))
            .collect();
        if points.is_empty() {
            return Ok(kept);
        }
        let (target, _) =
            grants::open(root, Links::Refused).map_err(|errno| unseen(root, errno))?;
        let closed = Self {
            hides_directories: false,
            placeholders: None,
            points,
            target,
            workspace: root.to_owned(),
        };
        Self::joined(kept.into_iter().chain([closed]).collect())
    }

    /// Adds kept places of the home that links of it have in a workspace: keys are hidden, others stay as they are.
    ///
    /// # Errors
    ///
    /// Refuses where that cannot be, for lack of mounts or because a hook could move the place (`POLICY_UNENFORCEABLE`), and
    /// where the workspace cannot be opened (`GRANT_MISSING`).
    pub(crate) fn keep_led(
        kept: Option<Self>,
        workspace: &Path,
        led: Vec<Led>,
        mounts: bool,
    ) -> Result<Option<Self>, Refusal> {
        if led.is_empty() {
            return Ok(kept);
        }
        let opened = grants::open(workspace, Links::Refused);
        let (target, _) = opened.map_err(|errno| unseen(workspace, errno))?;
        let mut held = Self {
            hides_directories: false,
            placeholders: None,
            points: BTreeMap::new(),
            target,
            workspace: workspace.to_owned(),
        };
        for led in led {
            let Some(below) = led.below.as_ref().filter(|_| mounts) else {
                return Err(unheld(workspace, &led, mounts));
            };
            let path = workspace.join(below);
            let found = find(&held.target, below).map_err(|errno| unseen(&path, errno))?;
            if matches!(found, Found::Named(true)) {
                return Err(unheld(workspace, &led, mounts));
            }
            held.hides_directories |= led.is_secret && matches!(found, Found::Directory(_));
            let keep = match led.is_secret {
                true => Keep::Hidden,
                false => Keep::Unchanged,
            };
            raise_with_way(&mut held.points, below, keep);
        }
        let joined = Self::joined(kept.into_iter().chain([held]).collect())?;
        Ok(joined.and_then(Self::or_none))
    }

    /// Joins the paths of several trees, below the directory that holds all of them.
    fn joined(all: Vec<Self>) -> Result<Option<Self>, Refusal> {
        let hides_directories = all.iter().any(|kept| kept.hides_directories);
        // Of the workspace: directories of git have none.
        let placeholders = all.first().and_then(|kept| kept.placeholders.clone());
        let mut trees = all.iter().map(|kept| kept.workspace.as_path());
        let Some(first) = trees.next() else {
            return Ok(None);
        };
        let holds_all = |above: &&Path| trees.clone().all(|tree| tree.starts_with(above));
        let above = first.ancestors().find(holds_all).unwrap_or(Path::new("/"));
        let (above, mut points) = (above.to_owned(), BTreeMap::new());
        let opened = grants::open(&above, Links::Refused);
        let (target, _) = opened.map_err(|errno| unseen(&above, errno))?;
        for kept in all {
            let tree = kept.workspace.strip_prefix(&above).unwrap_or(&above);
            for (below, keep) in kept.points {
                raise(&mut points, &tree.join(below), keep);
            }
        }
        Ok(Some(Self {
            hides_directories,
            placeholders,
            points,
            target,
            workspace: above,
        }))
    }
}

#[cfg(target_os = "linux")]
impl Kept {
    /// Returns the mounts on top of the workspace's grants.
    ///
    /// # Errors
    ///
    /// Fails where the workspace has changed since [`Kept::find`].
    pub(crate) fn grants(&self, closed: &Closed) -> io::Result<Vec<OpenGrant>> {
        let points = self.points.iter().map(|(below, keep)| {
            let opened = open_beneath(&self.target, below, BY_NAME, Mode::empty(), Links::Refused)?;
            let is_directory = is_directory(fstat(&opened)?.st_mode);
            let (access, target) = match keep {
                Keep::Empty => (Access::Read, Arc::clone(&closed.get(Instead::Empty)?.1)),
                Keep::Hidden => {
                    let instead = match is_directory {
                        false => Instead::File,
                        true => Instead::Directory,
                    };
                    (Access::Read, Arc::clone(&closed.get(instead)?.1))
                }
                Keep::Name => (Access::Write, Arc::new(opened)),
                Keep::Unchanged => (Access::Execute, Arc::new(opened)),
            };
            Ok(OpenGrant {
                path: self.workspace.join(below),
                rights: Rights::for_access(access, is_directory),
                target,
            })
        });
        points.collect()
    }
}

/// Refuses because a path cannot be opened.
fn unseen(path: &Path, errno: Errno) -> Refusal {
    let what = format_args!("`{}` cannot be opened", path.display());
    Refusal::failed(what, &io::Error::from(errno), |message| {
        Refusal::new(Reason::GrantMissing, message)
    })
    .with(Fact::Path(path.display().to_string()))
}

/// Refuses because other runs in a workspace cannot be waited for.
fn busy(shared: &Path) -> Refusal {
    let path = shared.display();
    let message =
        format!("`{path}` is locked by another program; end that (`fuser -v {path}` lists it)");
    Refusal::new(Reason::PolicyUnenforceable, message).with(Fact::Path(path.to_string()))
}

/// Refuses because something else lies in the place of what runs share.
fn unshared(shared: &Path, errno: Errno) -> Refusal {
    let path = shared.display();
    let what = format_args!("`{path}`, which runs in the workspace share, cannot be used");
    Refusal::failed(what, &io::Error::from(errno), |message| {
        let message = format!("{message}; remove it");
        Refusal::new(Reason::PolicyUnenforceable, message)
    })
    .with(Fact::Path(path.to_string()))
}

/// Refuses because a hook could make a path after all.
fn open_to_hooks(path: &Path) -> Refusal {
    let directory = path.parent().unwrap_or(path).display().to_string();
    let message = format!(
        "names of `files.unchanged` cannot be taken in read-only `{directory}`, which its owner's hooks can open; \
         run `chmod u+w {directory}`, or omit `files.unchanged`"
    );
    Refusal::new(Reason::PolicyUnenforceable, message)
        .with(Fact::Axis(Axis::Write))
        .with(Fact::Path(directory))
}

/// Target of a path.
enum Found {
    /// A directory.
    Directory(Box<FileStat>),
    /// A file, and whether it has other hard links.
    Named(bool),
}

fn find(workspace: &OwnedFd, below: &Path) -> Result<Found, Errno> {
    let opened = open_beneath(workspace, below, BY_NAME, Mode::empty(), Links::Refused)?;
    let found = fstat(&opened)?;
    Ok(if is_directory(found.st_mode) {
        Found::Directory(Box::new(found))
    } else {
        Found::Named(found.st_nlink > 1)
    })
}

const fn is_directory(mode: mode_t) -> bool {
    mode & SFlag::S_IFMT.bits() == SFlag::S_IFDIR.bits()
}

/// Makes a missing directory and removes it again.
fn can_be_made(tree: &OwnedFd, below: &Path) -> Result<(), Errno> {
    in_parent(tree, below, |parent, name| {
        mkdirat(parent, name, Mode::empty())?;
        unlinkat(parent, name, UnlinkatFlags::RemoveDir)
    })
}

fn make(tree: &OwnedFd, below: &Path) -> Result<(), Errno> {
    let mode = Mode::from_bits_truncate(0o755);
    match in_parent(tree, below, |parent, name| mkdirat(parent, name, mode)) {
        // Another run may have created it meanwhile.
        Ok(()) | Err(Errno::EEXIST) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// Number of times that a path is looked at anew, because other runs make and remove directories.
const ATTEMPTS: usize = 16;

const LINK: &str =
    "the path is a symbolic link, whose target could be replaced; put the target in its place";
const MISSING: &str = "the path is missing, and a hook could make it; make it";
const NAMES: &str =
    "the file has another hard link, by which it could be written; replace it by a copy of itself";

/// The entry of a profile by which a path is kept.
struct Asked {
    axis: Axis,
    entry: String,
    key: &'static str,
    kept: &'static str,
    way_out: &'static str,
}

fn asked_to_hide(files: &Files, below: &Path) -> Asked {
    Asked {
        axis: Axis::Read,
        entry: files
            .hides(below)
            .map(ToString::to_string)
            .unwrap_or_default(),
        key: "files.hidden",
        kept: "hidden",
        way_out: SHOWN,
    }
}

const SHOWN: &str = "take a profile with the part `project-secrets`, which hides nothing";

/// Refuses because the hidden names of a workspace cannot be found.
fn unsearchable(workspace: &Path, why: &Unsearchable) -> Refusal {
    let workspace = workspace.display();
    let what = format_args!("`{workspace}` cannot be searched for `files.hidden`");
    Refusal::failed(what, why, |message| {
        let message = format!("{message}; {SHOWN}");
        Refusal::new(Reason::PolicyUnenforceable, message).with(Fact::Axis(Axis::Read))
    })
    .with(Fact::Path(workspace.to_string()))
}

/// Refuses because of a configuration of git.
fn unread(why: &git_paths::Unread) -> Refusal {
    let what = "the paths that git obeys in the workspace are unknown";
    Refusal::failed(what, why, |message| {
        let message = format!(
            "{message}; make it a file of less than 1 MiB, or a directory, that can be read, or {OPEN_GIT}"
        );
        Refusal::new(Reason::PolicyUnenforceable, message).with(Fact::Axis(Axis::Write))
    })
    .with(Fact::Path(why.path.display().to_string()))
}

/// Refuses because git would run any file of the workspace.
fn all_obeyed(workspace: &Path, obeyed: &Path) -> Refusal {
    let message = format!(
        "`{}` lies in `{}`, whose files git obeys by configuration (`core.hooksPath`, `init.templateDir`, `include.path`); \
         name another directory there, or {OPEN_GIT}",
        workspace.display(),
        obeyed.display()
    );
    Refusal::new(Reason::PolicyUnenforceable, message)
        .with(Fact::Axis(Axis::Write))
        .with(Fact::Path(obeyed.display().to_string()))
}

const OPEN_GIT: &str = "take a profile without `files.read_only`";

/// Refuses because of a kept place of the home.
fn unheld(workspace: &Path, led: &Led, mounts: bool) -> Refusal {
    let (axis, what) = match led.is_secret {
        true => (Axis::Read, "keys, tokens or sessions are kept there"),
        false => (
            Axis::Write,
            "shells, tools or agents run or obey it, unconfined",
        ),
    };
    let fix = match (&led.below, mounts) {
        (Some(_), false) => "take a profile that mounts, as `develop`",
        (Some(_), true) => "remove its other name (a hard link)",
        (None, _) => "have the link lead to a file of its own in the workspace, or elsewhere",
    };
    let path = led.path.display().to_string();
    let message = format!(
        "`{path}` leads into or around `{}`, and {what}; {fix}",
        workspace.display()
    );
    Refusal::new(Reason::PolicyUnenforceable, message)
        .with(Fact::Axis(axis))
        .with(Fact::Path(path))
}

fn asked_to_protect(kept: &ReadOnly) -> Asked {
    Asked {
        axis: Axis::Write,
        entry: kept.to_string(),
        key: "files.read_only",
        kept: "kept read-only",
        way_out: OPEN_GIT,
    }
}

fn asked_to_keep(kept: &ReadOnly) -> Asked {
    Asked {
        axis: Axis::Write,
        entry: kept.to_string(),
        key: "files.unchanged",
        kept: "kept unchanged",
        way_out: "name it under `files.unset` in a profile that extends this one",
    }
}

/// Returns the entry by which a kept path stays as it is.
fn asked_for(files: &Files, kept: &Path) -> Asked {
    let meets = |entry: &&ReadOnly| kept.starts_with(&entry.below) || entry.below.starts_with(kept);
    if let Some(entry) = files.unchanged.iter().find(meets) {
        return asked_to_keep(entry);
    }
    // In a directory of git's that lies elsewhere, too.
    let is_gits = |entry: &&ReadOnly| {
        let below = entry.below.strip_prefix(".git");
        meets(entry) || below.is_ok_and(|below| kept.starts_with(below))
    };
    match files.read_only.iter().find(is_gits) {
        Some(entry) => asked_to_protect(entry),
        None => Asked {
            axis: Axis::Write,
            entry: kept.display().to_string(),
            key: "git config",
            kept: "kept unchanged",
            way_out: "have the configuration of git name another path",
        },
    }
}

/// Refuses because a path cannot be kept.
fn unkept(path: &Path, rule: &Asked, why: &str) -> Refusal {
    let Asked {
        axis,
        entry,
        key,
        kept,
        way_out,
    } = rule;
    let message = format!(
        "`{}` cannot be {kept} (`{key}` has `{entry}`): {why}, or {way_out}",
        path.display()
    );
    Refusal::new(Reason::PolicyUnenforceable, message)
        .with(Fact::Axis(*axis))
        .with(Fact::Path(path.display().to_string()))
}

#[cfg(test)]
mod tests;
