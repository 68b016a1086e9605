//! Files of hooks that last: below the daemon's own directory, one for each project, session or hook.

#[cfg(target_os = "linux")]
pub(crate) mod mirror;

use std::{
    fs::{self, DirBuilder, File, Permissions},
    io,
    os::{
        fd::OwnedFd,
        unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt},
    },
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant, SystemTime},
};

use nix::unistd::{Gid, Uid, chown};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use hookjail_base::util::listing::Listings;
use hookjail_policy::{Policy, StateScope, state::is_data};
use hookjail_sys::Identity;

use crate::resources::scratch::remove;

/// Time after which an unused session's files are removed.
const FORGET: Duration = Duration::from_secs(24 * 60 * 60);

/// Time after which an unused cache is removed.
const FORGET_CACHE: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Interval of the searches for unused sessions.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60 * 60);

/// Resolution of the time of the last use.
const USED: Duration = Duration::from_secs(60);

/// Maximum number of nested directories of hooks that are searched, each of which may be open meanwhile.
const MOST_LEVELS: usize = 16;

/// File that describes a directory.
const ABOUT: &str = "about.json";

/// Directory of the files that are shown at the paths of `files.state`.
const FILES: &str = "files";

/// Directory of a session's temporary files.
const TEMPORARY: &str = "tmp";

/// A directory of files that last no longer than this value.
#[derive(Debug)]
pub struct BriefState(PathBuf);

impl BriefState {
    /// Makes it, empty, in a directory that is made if needed.
    ///
    /// # Errors
    ///
    /// Returns the error of making a directory.
    pub fn make(parent: &Path) -> io::Result<Self> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(parent)?;
        let path = parent.join(format!("state-{}", Uuid::now_v7().simple()));
        make(&path, 0o700)?;
        Ok(Self(path))
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the paths that hooks have made here and the machine lacks, but for those of data. Once the machine has them
    /// they are closed to hooks that begin without these files.
    pub fn new_on_machine(&self) -> io::Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        for entry in StateStore::of_daemon(&self.0).list()? {
            if entry.owner.session.is_empty() {
                let files = entry.path.join(FILES);
                find_new(&files, Path::new("/"), MOST_LEVELS, &mut found);
            }
        }
        Ok(found)
    }
}

/// Collects the paths that hooks have made below a directory of theirs, and that the machine's lacks.
fn find_new(kept: &Path, machine: &Path, levels: usize, found: &mut Vec<PathBuf>) {
    let Some(levels) = levels.checked_sub(1) else {
        return;
    };
    for entry in fs::read_dir(kept).into_iter().flatten().flatten() {
        let path = machine.join(entry.file_name());
        let Ok(made) = entry.metadata() else {
            continue;
        };
        let mode = made.permissions().mode();
        if mode & 0o777 == 0 {
            continue;
        }
        // A directory with the sticky bit led to something of a run that is over.
        let is_way = made.is_dir() && mode & 0o1000 != 0;
        if path.symlink_metadata().is_ok() {
            if made.is_dir() {
                find_new(&entry.path(), &path, levels, found);
            }
        } else if !is_way && !is_data(&entry.file_name(), made.is_dir()) {
            found.push(path);
        }
    }
}

impl Drop for BriefState {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.0) {
            tracing::warn!(%error, path = %self.0.display(), "files of hooks are left behind");
        }
    }
}

/// The directories of files that last.
#[derive(Debug)]
pub struct StateStore {
    base: PathBuf,
    kept: Kept,
    listings: Arc<Listings>,
    swept: Mutex<Option<Instant>>,
}

/// The kind of a store's files.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kept {
    /// Files that programs fetch or compute again.
    Cache,
    /// Files of hooks.
    State,
}

impl Kept {
    /// Returns the time after which an unused directory is removed; `None` = never.
    const fn forgets(self, owner: &StateOwner) -> Option<Duration> {
        match self {
            Self::Cache => Some(FORGET_CACHE),
            Self::State if owner.session.is_empty() => None,
            Self::State => Some(FORGET),
        }
    }
}

/// The hooks that share a directory.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub struct StateOwner {
    /// The path of the hook's script or program; empty where other hooks share it.
    pub hook: String,
    /// The profile.
    pub profile: String,
    /// The workspace; may be empty.
    pub project: String,
    /// The session; empty where other sessions share it.
    pub session: String,
    /// The caller's uid.
    pub uid: u32,
}

/// A directory of files that last, as the store lists it.
#[derive(Clone, Debug)]
pub struct StateEntry {
    /// Its name in the store.
    pub id: String,
    /// The hooks that share it.
    pub owner: StateOwner,
    /// Its path.
    pub path: PathBuf,
    /// The time of the last run that used it, to the minute.
    pub used: SystemTime,
}

/// An opened directory.
#[derive(Clone, Debug)]
pub(crate) struct OpenDirectory {
    pub(crate) opened: Arc<OwnedFd>,
    pub(crate) path: PathBuf,
}

/// Directories of files that outlast a run.
#[derive(Debug)]
pub(crate) struct RunState {
    /// Shown at the paths of `files.state`.
    pub(crate) files: OpenDirectory,
    /// Listings of the directories that these cover, and of these.
    pub(crate) listings: Arc<Listings>,
    pub(crate) scope: StateScope,
    /// The session's temporary files; `None` = the run's own.
    pub(crate) temporary: Option<OpenDirectory>,
    /// The workspace.
    pub(crate) workspace: Option<PathBuf>,
}

/// The hook whose files are looked up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StateKey<'a> {
    /// The path of the hook's script or program.
    pub hook: &'a Path,
    /// Its policy.
    pub policy: &'a Policy,
    /// Its session; may be empty.
    pub session: &'a str,
    /// The caller's uid.
    pub uid: u32,
    /// The workspace.
    pub workspace: Option<&'a Path>,
}

impl StateKey<'_> {
    fn owner(&self, scope: StateScope) -> StateOwner {
        let text = |path: &Path| path.display().to_string();
        let project = self.workspace.map(text).unwrap_or_default();
        let owner = StateOwner {
            profile: self.policy.name.to_string(),
            project,
            uid: self.uid,
            ..StateOwner::default()
        };
        match scope {
            StateScope::Hook => StateOwner {
                hook: text(self.hook),
                project: String::new(),
                ..owner
            },
            StateScope::Project => owner,
            StateScope::Session => StateOwner {
                session: self.session.to_owned(),
                ..owner
            },
        }
    }
}

impl StateOwner {
    /// Returns the name of its directory: equal owners have equal names.
    fn id(&self) -> String {
        let mut digest = Sha256::new();
        let uid = self.uid.to_string();
        for part in [
            &uid,
            &self.profile,
            &self.project,
            &self.session,
            &self.hook,
        ] {
            digest.update(part.len().to_le_bytes());
            digest.update(part);
        }
        format!("{:x}", digest.finalize())[..16].to_owned()
    }
}

impl OpenDirectory {
    fn open(path: PathBuf) -> io::Result<Self> {
        let opened = Arc::new(File::open(&path)?.into());
        Ok(Self { opened, path })
    }
}

impl StateStore {
    /// Names the store of a daemon, by its directory for state. Nothing is made yet.
    pub fn of_daemon(state: &Path) -> Self {
        Self::new(&state.join("hooks"), Kept::State)
    }

    /// Names a store by its directory. Nothing is made yet.
    pub fn new(base: &Path, kept: Kept) -> Self {
        Self {
            base: base.to_owned(),
            kept,
            listings: Arc::default(),
            swept: Mutex::default(),
        }
    }

    /// Makes, where they are missing, and opens the directories of a run. `None` where its profile has no state, or limits the
    /// size of a scratch directory: files that last would have no limit.
    ///
    /// # Errors
    ///
    /// Returns the error of making or opening one.
    pub(crate) fn open(
        &self,
        key: StateKey<'_>,
        identity: Option<&Identity>,
    ) -> io::Result<Option<RunState>> {
        let Some(scope) = (key.policy.state).filter(|_| key.policy.limits.scratch.is_none()) else {
            return Ok(None);
        };
        self.sweep();
        // Without a session, no end of its files is defined.
        let has_session = !key.session.is_empty();
        let scope = if scope == StateScope::Session && !has_session {
            StateScope::Project
        } else {
            scope
        };
        let temporary = has_session.then(|| {
            let owner = key.owner(StateScope::Session);
            OpenDirectory::open(self.directory(&owner, TEMPORARY, identity)?)
        });
        Ok(Some(RunState {
            files: OpenDirectory::open(self.directory(&key.owner(scope), FILES, identity)?)?,
            listings: Arc::clone(&self.listings),
            scope,
            temporary: temporary.transpose()?,
            workspace: key.workspace.map(Path::to_owned),
        }))
    }

    /// Returns the directory of all.
    pub(crate) fn base(&self) -> &Path {
        &self.base
    }

    /// Returns the directory of an owner's files, which may be missing.
    pub(crate) fn place(&self, owner: &StateOwner) -> PathBuf {
        self.base.join(owner.id()).join(FILES)
    }

    /// Makes, where it is missing, and returns the directory of an owner's files.
    ///
    /// # Errors
    ///
    /// Returns the error of making it.
    pub(crate) fn make(&self, owner: &StateOwner) -> io::Result<PathBuf> {
        self.sweep();
        self.directory(owner, FILES, None)
    }

    /// Returns a directory of an owner, made where it is missing.
    fn directory(
        &self,
        owner: &StateOwner,
        name: &str,
        identity: Option<&Identity>,
    ) -> io::Result<PathBuf> {
        let entry = self.base.join(owner.id());
        let path = entry.join(name);
        if !path.is_dir() {
            // Hooks with another uid than the daemon's pass through.
            let mode = if identity.is_some() { 0o711 } else { 0o700 };
            for directory in [&self.base, &entry] {
                make(directory, mode)?;
            }
            let about = entry.join(ABOUT);
            if !about.exists() {
                let text = serde_json::to_vec(owner).map_err(io::Error::other)?;
                let new = entry.join(format!("{ABOUT}.{}", Uuid::now_v7().simple()));
                fs::write(&new, text)?;
                fs::rename(&new, &about)?;
            }
            make(&path, 0o700)?;
            if let Some(identity) = identity {
                let (uid, gid) = (Uid::from_raw(identity.uid), Gid::from_raw(identity.gid));
                chown(&path, Some(uid), Some(gid))?;
            }
        }
        let about = File::options().append(true).open(entry.join(ABOUT))?;
        let used = about.metadata()?.modified()?;
        if used.elapsed().map_or(true, |since| since > USED) {
            about.set_modified(SystemTime::now())?;
        }
        Ok(path)
    }

    /// Lists the directories, the least recently used first.
    ///
    /// # Errors
    ///
    /// Returns the error of reading the store; a directory that cannot be read is left out.
    pub fn list(&self) -> io::Result<Vec<StateEntry>> {
        let all = match fs::read_dir(&self.base) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            all => all?,
        };
        let mut entries: Vec<_> = all
            .flatten()
            .filter_map(|entry| StateEntry::read(entry.path()))
            .collect();
        entries.sort_by(|a, b| a.used.cmp(&b.used).then_with(|| a.id.cmp(&b.id)));
        Ok(entries)
    }

    /// Removes a directory and its files.
    ///
    /// # Errors
    ///
    /// Returns the error of removing it.
    pub fn clear(&self, entry: &StateEntry) -> io::Result<()> {
        remove(&entry.path)
    }

    /// Removes the files of unused sessions on the side, at most once in [`SWEEP_INTERVAL`].
    fn sweep(&self) {
        let mut swept = self.swept.lock().unwrap_or_else(PoisonError::into_inner);
        if swept.is_some_and(|time| time.elapsed() < SWEEP_INTERVAL) {
            return;
        }
        *swept = Some(Instant::now());
        drop(swept);
        let store = Self::new(&self.base, self.kept);
        let started = thread::Builder::new()
            .name("state".to_owned())
            .spawn(move || store.forget(SystemTime::now()));
        if let Err(error) = started {
            tracing::warn!(%error, "files of unused sessions cannot be looked for");
        }
    }

    /// Removes the directories that were unused for too long at a time.
    fn forget(&self, now: SystemTime) {
        let is_over = |entry: &StateEntry| {
            let unused = now.duration_since(entry.used).unwrap_or_default();
            (self.kept.forgets(&entry.owner)).is_some_and(|forgets| unused > forgets)
        };
        let entries = self.list().unwrap_or_default().into_iter();
        for entry in entries.filter(is_over) {
            if let Err(error) = self.clear(&entry) {
                tracing::warn!(%error, path = %entry.path.display(), "unused files of hooks cannot be removed");
            }
        }
    }
}

impl StateEntry {
    fn read(path: PathBuf) -> Option<Self> {
        let about = path.join(ABOUT);
        let owner = serde_json::from_slice(&fs::read(&about).ok()?).ok()?;
        let used = about.metadata().and_then(|about| about.modified()).ok()?;
        Some(Self {
            id: path.file_name()?.to_str()?.to_owned(),
            owner,
            path,
            used,
        })
    }

    /// Counts the files of hooks: their number, and their bytes.
    pub fn size(&self) -> (u64, u64) {
        let mut size = (0, 0);
        for name in [FILES, TEMPORARY] {
            count(&self.path.join(name), &mut size);
        }
        size
    }

    /// Returns the directory of the files that are not a session's temporary ones.
    pub fn files(&self) -> PathBuf {
        self.path.join(FILES)
    }
}

/// Counts the files below a directory, without those that only close a name. Links are not followed.
fn count(directory: &Path, size: &mut (u64, u64)) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let Ok(found) = entry.metadata() else {
            continue;
        };
        if found.is_dir() {
            count(&entry.path(), size);
        } else if found.permissions().mode() & 0o777 != 0 {
            size.0 += 1;
            size.1 += found.size();
        }
    }
}

/// Makes a directory of a mode, unless it exists.
fn make(path: &Path, mode: u32) -> io::Result<()> {
    match DirBuilder::new().mode(mode).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        // Set in spite of the umask.
        made => made.and_then(|()| fs::set_permissions(path, Permissions::from_mode(mode))),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    fn owner(session: &str) -> StateOwner {
        StateOwner {
            profile: "develop".to_owned(),
            project: "/srv/p".to_owned(),
            session: session.to_owned(),
            uid: 1000,
            ..StateOwner::default()
        }
    }

    #[test]
    fn a_directory_is_of_one_owner_and_lasts_until_it_is_cleared() {
        let base = tempfile::tempdir().unwrap();
        let store = StateStore::of_daemon(base.path());
        assert!(store.list().unwrap().is_empty());
        let one = store.directory(&owner("a"), TEMPORARY, None).unwrap();
        fs::write(one.join("count"), "12").unwrap();
        let other = store.directory(&owner("b"), TEMPORARY, None).unwrap();
        assert_ne!(one, other);
        assert_eq!(one, store.directory(&owner("a"), TEMPORARY, None).unwrap());
        assert_ne!(
            owner("a").id(),
            StateOwner {
                uid: 1001,
                ..owner("a")
            }
            .id()
        );

        let listed = store.list().unwrap();
        let sizes: Vec<_> = listed.iter().map(StateEntry::size).collect();
        assert!(sizes.contains(&(1, 2)) && sizes.contains(&(0, 0)));
        let full = listed.iter().find(|entry| entry.size().0 == 1).unwrap();
        assert_eq!(full.owner, owner("a"));

        store.clear(full).unwrap();
        assert!(!one.exists() && other.exists());
    }

    #[test]
    fn paths_that_hooks_have_made_and_the_machine_lacks_are_found_but_for_data() {
        let base = tempfile::tempdir().unwrap();
        let brief = BriefState::make(base.path()).unwrap();
        let store = StateStore::of_daemon(brief.path());
        let files = store.directory(&owner(""), FILES, None).unwrap();
        let machine = base.path().canonicalize().unwrap().join("home");
        let made = files.join(machine.strip_prefix("/").unwrap());
        for name in ["both/new", "closed", "logs", "own/inner", "way"] {
            fs::create_dir_all(made.join(name)).unwrap();
        }
        for name in ["both", "machine"] {
            fs::create_dir_all(machine.join(name)).unwrap();
        }
        // Directories that lead to the home, one that led elsewhere, and a closed name.
        let ways = made.ancestors().take_while(|way| *way != files);
        let ways = ways.map(|way| (way.to_owned(), 0o1700));
        for (path, mode) in ways.chain([(made.join("closed"), 0), (made.join("way"), 0o1700)]) {
            fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        }
        let mut found = brief.new_on_machine().unwrap();
        found.sort_unstable();
        assert_eq!(found, ["both/new", "own"].map(|below| machine.join(below)));
    }

    #[test]
    fn those_who_make_a_directory_at_the_same_moment_all_get_it() {
        const AT_ONCE: usize = 8;
        let base = tempfile::tempdir().unwrap();
        let store = StateStore::of_daemon(base.path());
        let barrier = Barrier::new(AT_ONCE);
        for round in 0..50 {
            let make = || {
                barrier.wait();
                store.directory(&owner(&round.to_string()), TEMPORARY, None)
            };
            thread::scope(|scope| {
                let threads: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(make)).collect();
                for thread in threads {
                    assert!(thread.join().unwrap().unwrap().is_dir());
                }
            });
        }
        // None has left the file that it wrote first.
        for entry in store.list().unwrap() {
            assert_eq!(fs::read_dir(&entry.path).unwrap().count(), 2);
        }
    }

    #[test]
    fn unused_sessions_are_forgotten_and_projects_are_not() {
        let base = tempfile::tempdir().unwrap();
        let store = StateStore::of_daemon(base.path());
        let session = store.directory(&owner("a"), TEMPORARY, None).unwrap();
        let project = store.directory(&owner(""), FILES, None).unwrap();
        let caches = StateStore::new(&base.path().join("caches"), Kept::Cache);
        fs::create_dir(caches.base()).unwrap();
        let cache = caches.make(&owner("")).unwrap();
        let forget_after = |unused: Duration| {
            for store in [&store, &caches] {
                store.forget(SystemTime::now() + unused);
            }
        };
        forget_after(FORGET - USED);
        assert!(session.exists());
        forget_after(FORGET + USED);
        assert!(!session.exists() && cache.exists());
        forget_after(FORGET_CACHE + USED);
        assert!(!cache.exists() && project.exists());
    }
}
