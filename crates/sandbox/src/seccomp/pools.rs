//! Spawners for each caller and each different set of filters, started at first use.
//!
//! A spawner sleeps until its child has executed. A process that may signal the child, or serves the files that it opens, can
//! delay that up to the deadline. So no two callers share spawners.

use std::{
    error::Error,
    fmt, io,
    sync::{Arc, Mutex, Once, PoisonError},
};

use hookjail_base::refusal::{Reason, Refusal, chain};
use hookjail_sys::Closing;

use crate::{
    landlock::nesting::of_filters,
    mutants,
    nesting::Cause,
    run::denials::Denials,
    seccomp::{self, Asking, FilterSpec, Pool, Stacked, Starts},
};

/// Number of pools from which on those without a running hook are dropped.
const KEPT_POOLS: usize = 32;

/// The spawners of this daemon.
#[derive(Debug)]
pub(crate) struct Pools {
    pub(crate) denials: Arc<Denials>,
    /// The most recently used pool last.
    loaded: Mutex<Vec<(Kind, Arc<LoadedPool>)>>,
    /// Number of filters that the daemon itself is under.
    own_filters: u32,
    /// Threads of each pool.
    spawners: usize,
    starts: Starts,
    /// Logs once that refused calls will not be reported.
    unreported: Once,
}

/// Kind of a pool's children.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    /// Hooks of the caller with this uid. `None` = without filters.
    Hooks(u32, Option<FilterSpec>),
    /// The operator's own programs, with every right of the daemon.
    Operators,
}

/// Spawners, and the filters that their children inherit.
#[derive(Debug)]
pub(crate) struct LoadedPool {
    /// Whether the filters report refused calls to the daemon.
    pub(crate) asks: bool,
    /// The filter that a child loads last.
    pub(crate) closing: Option<Arc<Closing>>,
    /// Number of a released child's filters, the daemon's own included.
    pub(crate) filters: u32,
    pub(crate) pool: Pool,
}

impl LoadedPool {
    /// Adds this pool to the resources of one of its runs, whose first process would die with its spawner.
    pub(crate) fn kept_with(
        self: &Arc<Self>,
        resources: &Arc<dyn fmt::Debug + Send + Sync>,
    ) -> Arc<dyn fmt::Debug + Send + Sync> {
        Arc::new((Arc::clone(self), Arc::clone(resources)))
    }
}

impl Pools {
    pub(crate) fn new(
        denials: Arc<Denials>,
        own_filters: u32,
        spawners: usize,
        starts: Starts,
    ) -> Self {
        Self {
            denials,
            loaded: Mutex::default(),
            own_filters,
            spawners,
            starts,
            unreported: Once::new(),
        }
    }

    /// Returns the number of filters that the daemon itself is under.
    pub(crate) const fn own_filters(&self) -> u32 {
        self.own_filters
    }

    /// Returns the spawners of a caller's hooks; starts them at first use. `None` = hooks without filters.
    ///
    /// # Errors
    ///
    /// Refuses where the filters cannot be compiled or loaded: `BACKEND_UNCONFIRMED`, or `OVERLOADED` where that is for lack of
    /// threads, memory or descriptors.
    pub(crate) fn of_hooks(
        &self,
        caller: u32,
        filters: Option<&FilterSpec>,
    ) -> Result<Arc<LoadedPool>, Refusal> {
        self.get(Kind::Hooks(caller, filters.copied()))
    }

    /// Returns the spawners of programs that the operator's configuration names. These keep the daemon's rights.
    ///
    /// # Errors
    ///
    /// Refuses where no thread can be started: `OVERLOADED` for lack of resources, else `BACKEND_UNCONFIRMED`.
    pub(crate) fn of_operators_programs(&self) -> Result<Arc<LoadedPool>, Refusal> {
        self.get(Kind::Operators)
    }

    fn get(&self, kind: Kind) -> Result<Arc<LoadedPool>, Refusal> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = loaded
            .iter()
            .position(|(loaded_kind, _)| *loaded_kind == kind)
        {
            let known = loaded.remove(index);
            let pool = Arc::clone(&known.1);
            loaded.push(known);
            return Ok(pool);
        }
        let unconfirmed = |what: &str, error: &dyn Error| {
            let message = format!("{what}: {}", chain(error));
            Refusal::new(Reason::BackendUnconfirmed, message)
        };
        let started = match kind {
            Kind::Hooks(_, Some(spec)) => {
                let compile = |asking| {
                    seccomp::compile(&spec, self.starts, asking)
                        .map_err(|e| unconfirmed("cannot compile the filters", &e))
                };
                let asking = match self.denials.observer() {
                    Some(_) => Asking::Observed,
                    None => Asking::Refused,
                };
                match self.start(compile(asking)?) {
                    // A filter of the daemon itself has a listener, and a task can have only one.
                    Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                        self.unreported.call_once(|| tracing::warn!(
                            "calls that the filters refuse will not be reported: this daemon is under a filter with a listener"
                        ));
                        self.start(compile(Asking::Nothing)?)
                    }
                    started => started,
                }
            }
            Kind::Operators => self.start_unfiltered(false),
            Kind::Hooks(_, None) => self.start_unfiltered(self.starts.switch_uid),
        };
        let pool = started.map_err(|e| {
            let what = "cannot start spawner threads with the filters loaded";
            Refusal::failed(what, &e, |failed| {
                Cause::refusal(of_filters(e.raw_os_error()), &failed)
            })
        })?;
        let pool = Arc::new(pool);
        loaded.push((kind, Arc::clone(&pool)));
        while loaded.len() > KEPT_POOLS {
            // Starting a child clones the pool under this lock, and its run keeps it.
            let unused = |(_, pool): &(Kind, Arc<LoadedPool>)| Arc::strong_count(pool) == 1;
            let Some(index) = loaded.iter().position(unused) else {
                break;
            };
            loaded.remove(index);
        }
        Ok(pool)
    }

    fn start(&self, filters: seccomp::Filters) -> io::Result<LoadedPool> {
        let inherited = filters.inherited;
        let asks = inherited.asking.is_some();
        let added = u32::try_from(inherited.programs.len() + 1).unwrap_or(u32::MAX);
        let bounded = self.starts.switch_uid && !mutants::lacks("set-up", "bounding");
        let (pool, listeners) = Pool::start(self.spawners, inherited, bounded)?;
        self.denials.attend(listeners, filters.passing)?;
        Ok(LoadedPool {
            asks,
            closing: Some(Arc::new(filters.closing)),
            filters: self.own_filters + added,
            pool,
        })
    }

    fn start_unfiltered(&self, bounded: bool) -> io::Result<LoadedPool> {
        let (pool, _) = Pool::start(self.spawners, Stacked::default(), bounded)?;
        Ok(LoadedPool {
            asks: false,
            closing: None,
            filters: self.own_filters,
            pool,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::{fs::File, thread, time::Duration};

    use nix::{sys::stat::Mode, unistd::mkfifo};

    use super::*;
    use crate::seccomp::spawner::tests::job_of;
    use hookjail_sys as sys;
    use hookjail_sys::{Attempt, Keeper, Launch, Step};

    const STARTS: Starts = Starts {
        in_cgroup: false,
        switch_uid: false,
    };

    fn pools() -> Pools {
        let keeper = Arc::new(Keeper::start().unwrap());
        Pools::new(Arc::new(Denials::new(keeper, None)), 0, 1, STARTS)
    }

    #[test]
    fn no_two_callers_share_spawners_and_one_keeps_its_own() {
        let pools = pools();
        let get = |caller| pools.of_hooks(caller, None).unwrap();
        let (one, other) = (get(1), get(2));
        assert!(!Arc::ptr_eq(&one, &other));
        assert!(Arc::ptr_eq(&one, &get(1)) && Arc::ptr_eq(&other, &get(2)));
        let operators = pools.of_operators_programs().unwrap();
        assert!(!Arc::ptr_eq(&operators, &one) && !Arc::ptr_eq(&operators, &other));
    }

    #[test]
    fn a_child_that_hangs_holds_the_spawners_of_its_caller_alone() {
        let directory = tempfile::tempdir().unwrap();
        let fifo = directory.path().join("fifo");
        mkfifo(&fifo, Mode::S_IRWXU).unwrap();
        let pools = pools();
        let launch = |caller, job| {
            let pool = pools.of_hooks(caller, None).unwrap();
            pool.pool.launch(job, None).unwrap()
        };
        // No process has it open for writing.
        let hanging = job_of(vec![
            Attempt::open(fifo.as_os_str(), libc::O_RDONLY, 0).unwrap(),
        ]);
        let mut hangs = launch(1, Arc::clone(&hanging));
        while hanging.report().step() != Step::Release {
            assert!(hangs.try_recv().is_err());
            thread::sleep(Duration::from_millis(1));
        }
        let mut behind = launch(1, job_of(Vec::new()));

        let other = launch(2, job_of(Vec::new())).blocking_recv().unwrap();
        assert!(matches!(other, Launch::Cloned { .. }), "{other:?}");
        // The control.
        assert!(hangs.try_recv().is_err() && behind.try_recv().is_err());

        drop(File::options().write(true).open(&fifo).unwrap());
        for launch in [Ok(other), hangs.blocking_recv(), behind.blocking_recv()] {
            sys::discard(launch.unwrap());
        }
    }

    #[test]
    fn spawners_without_a_run_are_dropped_for_others_the_longest_unused_first() {
        let pools = pools();
        let get = |caller| pools.of_hooks(caller, None).unwrap();
        let is_left = |caller| {
            let loaded = pools.loaded.lock().unwrap();
            loaded
                .iter()
                .any(|(kind, _)| *kind == Kind::Hooks(caller, None))
        };
        // The first has a run. The second is used again when all but one are there.
        let run = get(0).kept_with(&(Arc::new(()) as _));
        let most = u32::try_from(KEPT_POOLS).unwrap();
        (1..most).for_each(|caller| drop(get(caller)));
        assert!((0..most).all(is_left));
        get(1);
        get(most);
        assert!(is_left(0) && is_left(1) && !is_left(2) && is_left(3) && is_left(most));

        // Spawners that have runs are kept, however many.
        let runs: Vec<_> = (1_000..1_000 + most).map(get).collect();
        get(5_000);
        assert!(is_left(0) && (1_000..1_000 + most).all(is_left));
        drop((run, runs));
        get(5_001);
        assert_eq!(pools.loaded.lock().unwrap().len(), KEPT_POOLS);
        assert!(!is_left(0) && is_left(5_001));
    }
}
