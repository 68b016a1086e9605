//! Pool of empty cgroups: makes them ahead and removes used ones, on a thread off the path.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use nix::{
    fcntl::{Flock, FlockArg},
    sys::statfs::{CGROUP2_SUPER_MAGIC, statfs},
    unistd::geteuid,
};
use uuid::Uuid;

use hookjail_base::util::trusted_file::{self, Untrusted};
use hookjail_policy::Limits;
use hookjail_sys::WaitStatus;

use super::{
    CgroupPlace, Controllers,
    delegated::delegated,
    group::{Group, remove, set},
};
use crate::Absent;
use hookjail_sys as sys;

/// Controllers that runs need. The one of processor time is used where it is to be had.
const CONTROLLERS: [&str; 2] = ["memory", "pids"];

/// The controller of processor time.
const CPU: &str = "cpu";

/// Name prefix of daemons' own cgroups.
const PREFIX: &str = "hookjail-";

/// Name prefix of callers' cgroups below that of a daemon.
const CALLER: &str = "caller-";

/// Largest number of a caller's cgroups that are made ahead.
const MOST_READY: usize = 32;

/// Interval of the retries of a cgroup's removal while processes in it end, and the time limit.
const REMOVAL: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(5));

/// Mount point at which runtimes expect the version 2 hierarchy.
pub(super) const HIERARCHY: &str = "/sys/fs/cgroup";

/// The cgroups of a daemon's runs. Dropping it removes them.
#[derive(Debug)]
pub struct Cgroups {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
pub(super) struct Shared {
    changed: Condvar,
    controllers: Controllers,
    /// Whether children can begin in their cgroups.
    has_clone3: bool,
    /// Held as long as the daemon's cgroup, so that no other daemon takes it for one left behind.
    _lock: Flock<File>,
    /// Number of cgroups that were made; the name of the next.
    made: AtomicU64,
    /// The daemon's cgroup, below which are those of callers, with those of their runs.
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// By uid.
    callers: BTreeMap<u32, Ahead>,
    closed: bool,
    /// Cgroups to be removed.
    used: Vec<PathBuf>,
}

/// Cgroups that are made ahead for a caller.
#[derive(Debug, Default)]
struct Ahead {
    /// Empty cgroups without limits.
    ready: Vec<PathBuf>,
    /// Number of cgroups to have ready: twice as many each time that there is none.
    wanted: usize,
}

impl State {
    /// Returns a caller that lacks cgroups, with their number.
    fn lacking(&self) -> Option<(u32, usize)> {
        let mut missing = self.callers.iter().map(|(uid, ahead)| {
            let missing = ahead.wanted.saturating_sub(ahead.ready.len());
            (*uid, missing)
        });
        missing.find(|(_, missing)| *missing > 0)
    }
}

impl Cgroups {
    /// Makes this daemon's cgroup at the configured place, and removes the cgroups that killed daemons left there.
    ///
    /// # Errors
    ///
    /// Names what is missing, and the remedy.
    pub fn start(place: &CgroupPlace) -> Result<Self, Absent> {
        let parent = match place {
            CgroupPlace::Auto => delegated()?,
            CgroupPlace::Below(parent) => parent.clone(),
            CgroupPlace::None => {
                return Err(Absent {
                    fix: "set `hooks.cgroup` to \"auto\", or take it out".to_owned(),
                    why: "`hooks.cgroup` is \"none\"".to_owned(),
                });
            }
        };
        let controllers = prepare(&parent)?;
        sweep(&parent);
        let made = Self::make(&parent, controllers);
        made.map_err(|error| absent(&parent, &format!("no cgroup can be made: {error}")))
    }

    fn make(parent: &Path, controllers: Controllers) -> io::Result<Self> {
        let path = parent.join(format!("{PREFIX}{}", Uuid::now_v7().simple()));
        let lock = {
            // The parent's lock keeps `sweep` from removing a cgroup that is being created.
            let _making = lock(parent, FlockArg::LockExclusive)?;
            fs::create_dir(&path)?;
            lock(&path, FlockArg::LockExclusive)?
        };
        set(&path, "cgroup.subtree_control", &controllers.enabling())?;
        let has_clone3 = sys::has_clone3();
        if !has_clone3 {
            tracing::info!(
                "clone3 is refused here, by `RestrictNamespaces=` or another filter: hooks move into their cgroups themselves, which takes milliseconds"
            );
        }
        let shared = Arc::new(Shared {
            changed: Condvar::new(),
            controllers,
            has_clone3,
            _lock: lock,
            made: AtomicU64::new(0),
            path,
            state: Mutex::default(),
        });
        let serving = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("cgroups".to_owned())
            .stack_size(256 * 1024)
            .spawn(move || serving.serve())?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Returns the controllers that limit its runs.
    pub fn controllers(&self) -> Controllers {
        self.shared.controllers
    }

    /// Returns whether children begin in their cgroups, instead of moving there.
    pub(crate) fn has_clone3(&self) -> bool {
        self.shared.has_clone3
    }

    /// Returns the daemon's cgroup.
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// Returns a cgroup with a run's limits, in that of its caller. `own_tasks` is how many tasks of hookjail's are in it beside the
    /// hook's.
    ///
    /// # Errors
    ///
    /// Returns the error of making it or of setting a limit.
    pub(crate) fn lease(&self, caller: u32, limits: &Limits, own_tasks: u64) -> io::Result<Group> {
        let path = match self.shared.take(caller) {
            Some(path) => path,
            None => self.shared.create(caller)?,
        };
        Group::limited(path, Arc::clone(&self.shared), limits, own_tasks)
    }

    /// Uses memory in a process of its own, in a cgroup with a run's limits. Returns whether the kernel let it live, `None` where it
    /// ended for another reason than the limit. Blocks.
    ///
    /// # Errors
    ///
    /// Returns the error of making the cgroup or the process.
    pub(crate) fn lets_use(&self, limits: &Limits, bytes: usize) -> io::Result<Option<bool>> {
        let group = self.lease(geteuid().as_raw(), limits, 0)?;
        let status = sys::use_memory_in(&group.processes()?, bytes)?;
        Ok(match (status, group.ran_out_of_memory()) {
            (WaitStatus::Exited(0), _) => Some(true),
            (WaitStatus::Signaled(libc::SIGKILL), true) => Some(false),
            (WaitStatus::Exited(_) | WaitStatus::Signaled(_), _) => None,
        })
    }

    /// Returns the cgroup path that an OCI runtime uses for a container of this id.
    ///
    /// By it a later daemon finds the remains of a killed runtime. `None` where the runtime could not name one there.
    pub(crate) fn of_runtime(&self, id: &str) -> Option<String> {
        of_runtime(&self.shared.path, id)
    }
}

impl Drop for Cgroups {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was printed.
            thread.join().ok();
        }
    }
}

impl Shared {
    /// Returns the controllers that limit runs.
    pub(super) const fn controllers(&self) -> Controllers {
        self.controllers
    }

    /// Returns whether children can begin in their cgroups.
    pub(super) const fn has_clone3(&self) -> bool {
        self.has_clone3
    }

    /// Takes a cgroup that was made ahead for a caller.
    fn take(&self, caller: u32) -> Option<PathBuf> {
        let mut state = self.lock();
        let ahead = state.callers.entry(caller).or_default();
        let taken = ahead.ready.pop();
        if taken.is_none() {
            ahead.wanted = (ahead.wanted * 2).clamp(1, MOST_READY);
        }
        drop(state);
        self.changed.notify_one();
        taken
    }

    /// Removes a used cgroup in the background.
    pub(super) fn take_back(&self, path: PathBuf) {
        self.lock().used.push(path);
        self.changed.notify_one();
    }

    /// Makes an empty cgroup in that of a caller. All callers' have the same weight: they share processors alike, however many hooks
    /// each runs.
    fn create(&self, caller: u32) -> io::Result<PathBuf> {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let above = self.path.join(format!("{CALLER}{caller}"));
        match fs::create_dir(&above) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            Ok(()) | Err(_) => {}
        }
        set(
            &above,
            "cgroup.subtree_control",
            &self.controllers.enabling(),
        )?;
        let path = above.join(number.to_string());
        fs::create_dir(&path)?;
        // All or none: a hook that continues without one of its processes could give a wrong answer.
        if let Err(error) = set(&path, "memory.oom.group", "1") {
            self.take_back(path);
            return Err(error);
        }
        Ok(path)
    }

    /// Makes and removes cgroups until the daemon ends, and then removes all.
    fn serve(&self) {
        let (interval, limit) = REMOVAL;
        let mut removing: Vec<(PathBuf, Instant)> = Vec::new();
        loop {
            let (used, missing, closed) = {
                let mut state = self.lock();
                while !state.closed && state.used.is_empty() && state.lacking().is_none() {
                    let waited = match removing.is_empty() {
                        true => (self.changed.wait(state)).unwrap_or_else(PoisonError::into_inner),
                        false => {
                            let waited = self.changed.wait_timeout(state, interval);
                            state = waited.unwrap_or_else(PoisonError::into_inner).0;
                            break;
                        }
                    };
                    state = waited;
                }
                let used = std::mem::take(&mut state.used);
                (used, state.lacking(), state.closed)
            };
            let give_up = Instant::now() + limit;
            removing.extend(used.into_iter().map(|path| (path, give_up)));
            removing.retain(|(path, give_up)| !is_removed(path, *give_up));
            if closed {
                break;
            }
            let Some((caller, missing)) = missing else {
                continue;
            };
            for _ in 0..missing {
                let made = self.create(caller);
                let mut state = self.lock();
                let ahead = state.callers.entry(caller).or_default();
                match made {
                    Ok(path) => ahead.ready.push(path),
                    Err(error) => {
                        // The next run makes its own, or reports why it cannot.
                        tracing::warn!(%error, path = %self.path.display(), "no cgroup can be made ahead");
                        ahead.wanted = 0;
                        break;
                    }
                }
            }
        }
        let give_up = Instant::now() + limit;
        while !is_removed(&self.path, give_up) {
            thread::sleep(interval);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Each change of the guarded state is one assignment: a panic leaves nothing half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Controllers {
    /// Returns what enables the controllers for the cgroups below one.
    fn enabling(self) -> String {
        let names = CONTROLLERS.into_iter().chain(self.cpu.then_some(CPU));
        let words: Vec<_> = names.map(|name| format!("+{name}")).collect();
        words.join(" ")
    }
}

/// Removes a cgroup with its processes. Returns whether there is nothing more to do: either it is gone, or `give_up` has
/// passed.
fn is_removed(path: &Path, give_up: Instant) -> bool {
    match remove(path) {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy && Instant::now() < give_up => {
            false
        }
        Err(error) => {
            tracing::warn!(%error, path = %path.display(), "a cgroup is left behind");
            true
        }
    }
}

/// Enables the controllers for cgroups below one.
fn prepare(parent: &Path) -> Result<Controllers, Absent> {
    let shown = parent.display();
    let absent = |why: String| absent(parent, &why);
    let found = fs::metadata(parent).map_err(Untrusted::from);
    found
        .and_then(|found| trusted_file::check_own_or_roots(&found))
        .map_err(|error| absent(format!("the cgroup `{shown}` cannot be used: {error}")))?;
    if !statfs(parent).is_ok_and(|found| found.filesystem_type() == CGROUP2_SUPER_MAGIC) {
        return Err(absent(format!("`{shown}` is no cgroup of version 2")));
    }
    let listed = |file: &str| {
        fs::read_to_string(parent.join(file))
            .map_err(|error| absent(format!("`{shown}/{file}` cannot be read: {error}")))
    };
    let available = listed("cgroup.controllers")?;
    let missing = lacking(&available, &CONTROLLERS);
    if !missing.is_empty() {
        return Err(absent(format!(
            "the cgroup `{shown}` cannot limit {}: cgroup.controllers lacks it",
            missing.join(" and ")
        )));
    }
    let controllers = Controllers {
        cpu: lacking(&available, &[CPU]).is_empty(),
    };
    let enabled = listed("cgroup.subtree_control")?;
    let is_enabled = |name| lacking(&enabled, &[name]).is_empty();
    if CONTROLLERS.into_iter().all(is_enabled) && (is_enabled(CPU) || !controllers.cpu) {
        return Ok(controllers);
    }
    set(parent, "cgroup.subtree_control", &controllers.enabling()).map_err(|error| {
        absent(format!(
            "controllers cannot be enabled for the cgroups below `{shown}`: {error}"
        ))
    })?;
    Ok(controllers)
}

/// Returns the controllers that a list lacks.
fn lacking<'a>(listed: &str, names: &[&'a str]) -> Vec<&'a str> {
    let lacks = |name: &&str| !listed.split_ascii_whitespace().any(|word| word == *name);
    names.iter().copied().filter(lacks).collect()
}

fn absent(parent: &Path, why: &str) -> Absent {
    let shown = parent.display();
    Absent {
        fix: format!(
            "make `{shown}` an empty cgroup of version 2 of the daemon's user, below one with `memory` and `pids` in \
             cgroup.subtree_control. Or set `hooks.cgroup` to \"auto\" or \"none\""
        ),
        why: why.to_owned(),
    }
}

/// Removes the cgroups that killed daemons left, with the processes in them.
///
/// A cgroup that cannot be removed is logged and left.
fn sweep(parent: &Path) {
    let look = lock(parent, FlockArg::LockExclusive)
        .and_then(|making| Ok((making, fs::read_dir(parent)?)));
    let (_making, entries) = match look {
        Ok(found) => found,
        Err(error) => {
            tracing::warn!(%error, path = %parent.display(), "no cgroups of killed daemons can be looked for");
            return;
        }
    };
    let (interval, limit) = REMOVAL;
    for entry in entries.flatten() {
        let name = entry.file_name();
        let path = entry.path();
        // A locked cgroup belongs to a live daemon.
        if name.as_encoded_bytes().starts_with(PREFIX.as_bytes())
            && lock(&path, FlockArg::LockExclusiveNonblock).is_ok()
        {
            let give_up = Instant::now() + limit;
            while !is_removed(&path, give_up) {
                thread::sleep(interval);
            }
        }
    }
}

fn of_runtime(daemons: &Path, id: &str) -> Option<String> {
    let below = daemons.strip_prefix(HIERARCHY).ok()?;
    Some(format!("/{}/{id}", below.to_str()?))
}

fn lock(group: &Path, how: FlockArg) -> io::Result<Flock<File>> {
    Flock::lock(File::open(group)?, how).map_err(|(_, errno)| errno.into())
}

#[cfg(test)]
mod tests {
    use std::{fs::Permissions, os::unix::fs::PermissionsExt};

    use super::*;

    #[test]
    fn what_is_no_cgroup_of_version_2_is_absent_with_what_to_do() {
        let directory = tempfile::tempdir().expect("a directory");
        let open = directory.path().join("open");
        fs::create_dir(&open).expect("a new directory");
        fs::set_permissions(&open, Permissions::from_mode(0o777)).expect("an open directory");
        for (path, why) in [
            (directory.path().to_owned(), "is no cgroup of version 2"),
            (open, "others can write it"),
            (
                directory.path().join("missing"),
                "No such file or directory",
            ),
        ] {
            let absent = Cgroups::start(&CgroupPlace::Below(path.clone())).expect_err("no cgroups");
            assert!(absent.why.contains(why), "{}", absent.why);
            assert!(absent.why.contains(path.to_str().expect("a path in UTF-8")));
            assert!(absent.fix.contains("hooks.cgroup"), "{}", absent.fix);
        }
    }

    #[test]
    fn a_runtime_is_told_of_a_cgroup_where_it_looks_for_cgroups_alone() {
        let name = |parent: &str| of_runtime(Path::new(parent), "hookjail-1");
        assert_eq!(
            name("/sys/fs/cgroup/hooks").as_deref(),
            Some("/hooks/hookjail-1")
        );
        assert_eq!(name("/mnt/groups/hooks"), None);
    }

    #[test]
    fn processor_time_is_limited_where_it_can_be() {
        assert_eq!(Controllers { cpu: false }.enabling(), "+memory +pids");
        assert_eq!(Controllers { cpu: true }.enabling(), "+memory +pids +cpu");
        assert_eq!(lacking("cpuset cpu io pids", &CONTROLLERS), ["memory"]);
        assert!(lacking("memory pids", &CONTROLLERS).is_empty());
        assert_eq!(lacking("cpuset memory pids", &[CPU]), [CPU]);
    }
}
