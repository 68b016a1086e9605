//! Caches of hooks: one for the hooks that write a workspace, and one for each profile whose hooks do not.
//!
//! A program in a cache is as trustworthy as the hooks that write there. Hooks that write the same workspace change each
//! other's programs anyway; nothing else is shared. Packages that were fetched once for all are copied into each cache.

mod copy;

use std::{
    fs::{self, DirBuilder, Permissions},
    io,
    os::unix::fs::{DirBuilderExt, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use nix::fcntl::FlockArg;
use uuid::Uuid;

use hookjail_base::refusal::{Fact, Reason, Refusal};
use hookjail_policy::{Access, GrantPlace, Policy, References};

use self::copy::copy_missing;
use crate::resources::{
    scratch::{lock, remove},
    state::{Kept, StateOwner, StateStore},
};

/// Directory of packages that were fetched for every cache, below that of all caches.
const FETCHED: &str = "fetched";

/// File beside a cache that names the packages in it.
const FILLED: &str = "filled";

/// The directory of all caches.
#[derive(Debug, Default)]
pub struct Caches(Option<Arc<StateStore>>);

/// The cache of a run.
#[derive(Debug)]
pub struct Cache {
    owner: StateOwner,
    path: PathBuf,
    store: Arc<StateStore>,
}

impl Caches {
    /// Names the directory of all caches; without one no run has a cache. Nothing is made yet.
    pub fn new(all: Option<&Path>) -> Self {
        let store = |all: &Path| Arc::new(StateStore::new(all, Kept::Cache));
        Self(all.map(store))
    }

    /// Returns the cache of hooks under a profile in a workspace; `None` where the profile names none.
    pub fn find(&self, policy: &Policy, workspace: Option<&Path>) -> Option<Cache> {
        policy.files.cache.as_ref()?;
        let store = Arc::clone(self.0.as_ref()?);
        let owner = owner(policy, workspace);
        Some(Cache {
            path: store.place(&owner),
            owner,
            store,
        })
    }
}

/// Returns the hooks that share a cache.
fn owner(policy: &Policy, workspace: Option<&Path>) -> StateOwner {
    let mut named = policy.files.named.iter();
    let writes_workspace = workspace.is_some()
        && named.any(|grant| {
            grant.access == Access::Write
                && matches!(&grant.place, GrantPlace::Workspace { below, .. } if below.as_os_str().is_empty())
        });
    let profile = (!writes_workspace).then(|| policy.name.to_string());
    StateOwner {
        profile: profile.unwrap_or_default(),
        project: workspace.map_or_else(String::new, |path| path.display().to_string()),
        uid: nix::unistd::geteuid().as_raw(),
        ..StateOwner::default()
    }
}

impl Cache {
    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes it where it is missing, with what was fetched for every cache.
    ///
    /// # Errors
    ///
    /// Refuses where that fails: `GRANT_MISSING`.
    pub async fn make(self) -> Result<(), Refusal> {
        let path = self.path.clone();
        let made = tokio::task::spawn_blocking(move || self.make_now()).await;
        made.map_err(io::Error::other).flatten().map_err(|error| {
            let missing = |message| Refusal::new(Reason::GrantMissing, message);
            let what = format_args!("the cache `{}` cannot be made", path.display());
            Refusal::failed(what, &error, missing).with(Fact::Path(path.display().to_string()))
        })
    }

    fn make_now(&self) -> io::Result<()> {
        let path = self.store.make(&self.owner)?;
        // A hook may have closed its own.
        fs::set_permissions(&path, Permissions::from_mode(0o700))?;
        let all = self.store.base();
        let Some(fetched) = newest(&all.join(FETCHED))? else {
            return Ok(());
        };
        let record = path.parent().unwrap_or(all).join(FILLED);
        let name = fetched.file_name().unwrap_or_default();
        let is_filled = || fs::read(&record).is_ok_and(|filled| filled == name.as_encoded_bytes());
        if is_filled() {
            return Ok(());
        }
        let _turn = lock(&record.with_extension("lock"), FlockArg::LockExclusive)?;
        if !is_filled() {
            copy_missing(&fetched, &path, &path)?;
            fs::write(&record, name.as_encoded_bytes())?;
        }
        Ok(())
    }
}

/// A directory for caches that is empty: packages that are fetched there contain nothing of any hook.
#[derive(Debug)]
pub struct Fetching {
    all: PathBuf,
    own: PathBuf,
}

impl Fetching {
    /// Makes one in the directory of all caches.
    ///
    /// # Errors
    ///
    /// Returns the error of making a directory.
    pub fn begin(all: &Path) -> io::Result<Self> {
        let directory = all.join(format!("fetching-{}", Uuid::now_v7().simple()));
        make(&directory)?;
        Ok(Self {
            all: all.to_owned(),
            own: directory,
        })
    }

    /// Returns its path, for `XDG_CACHE_HOME`.
    pub fn path(&self) -> &Path {
        &self.own
    }

    /// Copies what was fetched into a cache, which is made where it is missing.
    ///
    /// # Errors
    ///
    /// Returns the error of reading or copying.
    pub fn fill(&self, cache: &Cache) -> io::Result<()> {
        cache.make_now()?;
        self.copy_to(cache.path(), cache.path())
    }

    fn copy_to(&self, target: &Path, shown: &Path) -> io::Result<()> {
        let fetched = References::cache_in(&self.own);
        for entry in StateStore::new(&fetched, Kept::Cache).list()? {
            copy_missing(&entry.files(), target, shown)?;
        }
        Ok(())
    }

    /// Hands what was fetched to every cache, beside what was fetched before.
    ///
    /// # Errors
    ///
    /// Returns the error of reading or copying.
    pub fn publish(&self) -> io::Result<()> {
        let fetched = self.all.join(FETCHED);
        make(&fetched)?;
        let _turn = lock(&self.all.join("fetched.lock"), FlockArg::LockExclusive)?;
        let former = newest(&fetched)?;
        let made = self.own.join(FETCHED);
        make(&made)?;
        let new = fetched.join(Uuid::now_v7().simple().to_string());
        self.copy_to(&made, &new)?;
        if let Some(former) = &former {
            copy_missing(former, &made, &new)?;
        }
        fs::rename(&made, &new)?;
        former.map_or(Ok(()), |former| remove(&former))
    }
}

impl Drop for Fetching {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.own) {
            tracing::warn!(%error, path = %self.own.display(), "fetched packages are left behind");
        }
    }
}

/// Returns the newest directory of packages that were fetched for every cache.
fn newest(fetched: &Path) -> io::Result<Option<PathBuf>> {
    match fs::read_dir(fetched) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
        // Their names are ordered by time.
        Ok(all) => Ok(all.flatten().map(|entry| entry.path()).max()),
    }
}

fn make(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use hookjail_policy::Registry;

    fn registry(all: &Path) -> Registry {
        let references = References {
            cache: Some(all.to_owned()),
            home: Some("/home/ada".into()),
        };
        Registry::load(&[], &[], &references).unwrap()
    }

    #[test]
    fn hooks_that_write_a_workspace_share_its_cache_and_others_have_their_profiles() {
        let directory = tempfile::tempdir().unwrap();
        let all = directory.path().join("all");
        let registry = registry(&all);
        let caches = Caches::new(Some(&all));
        let find = |profile: &str, workspace: Option<&str>| {
            let name = hookjail_base::model::ProfileName::parse(profile).unwrap();
            let policy = registry.find(&name).unwrap();
            let cache = caches.find(policy, workspace.map(Path::new));
            cache.map(|cache| cache.path().to_owned())
        };
        let cache = find("develop", Some("/srv/a")).unwrap();
        assert!(cache.starts_with(&all));
        assert_eq!(find("develop-online", Some("/srv/a")).unwrap(), cache);
        assert_ne!(find("develop", Some("/srv/b")).unwrap(), cache);
        let without = find("develop", None).unwrap();
        assert_ne!(without, cache);
        assert_ne!(find("develop-online", None).unwrap(), without);
        assert_eq!(find("pipeline", Some("/srv/a")), None);
        assert!(Caches::default().0.is_none());
    }

    #[test]
    fn what_was_fetched_is_in_every_cache_and_what_a_hook_made_is_in_its_own() {
        let directory = tempfile::tempdir().unwrap();
        let all = directory.path().join("all");
        let registry = registry(&all);
        let develop = hookjail_base::model::ProfileName::parse("develop").unwrap();
        let policy = registry.find(&develop).unwrap();
        let caches = Caches::new(Some(&all));
        let find = |workspace: &str| caches.find(policy, Some(Path::new(workspace))).unwrap();
        let fetch = |package: &str| {
            let fetching = Fetching::begin(&all).unwrap();
            let cache = Caches::new(Some(&References::cache_in(fetching.path())));
            let cache = cache.find(policy, Some(Path::new("/tmp/empty"))).unwrap();
            fs::create_dir_all(References::cache_in(fetching.path())).unwrap();
            cache.make_now().unwrap();
            fs::write(cache.path().join(package), package).unwrap();
            symlink(
                cache.path().join(package),
                cache.path().join(format!("to-{package}")),
            )
            .unwrap();
            fetching
        };
        let names = |cache: &Cache| {
            let entries = fs::read_dir(cache.path()).unwrap().flatten();
            let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
            names.sort();
            names
        };
        fetch("one").publish().unwrap();
        let a = find("/srv/a");
        a.make_now().unwrap();
        assert_eq!(names(&a), ["one", "to-one"]);
        fs::write(a.path().join("made"), "by a hook").unwrap();
        fs::write(a.path().join("one"), "by a hook").unwrap();

        fetch("two").publish().unwrap();
        a.make_now().unwrap();
        let b = find("/srv/b");
        b.make_now().unwrap();
        assert_eq!(names(&a), ["made", "one", "to-one", "to-two", "two"]);
        assert_eq!(names(&b), ["one", "to-one", "to-two", "two"]);
        assert_eq!(fs::read_to_string(b.path().join("one")).unwrap(), "one");
        // A hook shut it, and only its own runs are served from it.
        fs::set_permissions(b.path(), Permissions::from_mode(0o000)).unwrap();
        b.make_now().unwrap();
        let mode = fs::metadata(b.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        let leads = fs::read_link(b.path().join("to-one")).unwrap();
        assert_eq!(leads, b.path().join("one"));

        fetch("three").fill(&b).unwrap();
        assert!(b.path().join("three").exists());
        assert!(!a.path().join("three").exists());
        let left: Vec<_> = fs::read_dir(all.join(FETCHED)).unwrap().collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }
}
