//! Spawners for each different set of filters, started at first use.

use std::{
    collections::HashMap,
    error::Error,
    io,
    sync::{Arc, Mutex, PoisonError},
};

use crate::{
    mutants,
    refusal::{Reason, Refusal, chain},
    sandbox::{
        landlock::nesting::of_filters,
        nesting::Cause,
        run::denials::Denials,
        seccomp::{self, Asking, FilterSpec, Pool, Stacked, Starts},
    },
    sys::Closing,
};

/// The spawners of this daemon.
#[derive(Debug)]
pub(in crate::sandbox) struct Pools {
    pub(in crate::sandbox) denials: Arc<Denials>,
    loaded: Mutex<HashMap<Kind, Arc<LoadedPool>>>,
    /// Number of filters that the daemon itself is under.
    own_filters: u32,
    /// Threads of each pool.
    spawners: usize,
    starts: Starts,
}

/// Kind of a pool's children.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Kind {
    /// Hooks under filters.
    Filtered(FilterSpec),
    /// The operator's own programs, with every right of the daemon.
    Operators,
    /// Hooks without filters.
    Unconfined,
}

/// Spawners, and the filters that their children inherit.
#[derive(Debug)]
pub(in crate::sandbox) struct LoadedPool {
    /// Whether the filters report refused calls to the daemon.
    pub(in crate::sandbox) asks: bool,
    /// The filter that a child loads last.
    pub(in crate::sandbox) closing: Option<Arc<Closing>>,
    /// Number of a released child's filters, the daemon's own included.
    pub(in crate::sandbox) filters: u32,
    pub(in crate::sandbox) pool: Pool,
}

impl Pools {
    pub(in crate::sandbox) fn new(
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
        }
    }

    /// Returns the number of filters that the daemon itself is under.
    pub(in crate::sandbox) const fn own_filters(&self) -> u32 {
        self.own_filters
    }

    /// Returns the spawners of hooks; starts them at first use. `None` = hooks without filters.
    ///
    /// # Errors
    ///
    /// Refuses where the filters cannot be compiled or loaded: `BACKEND_UNCONFIRMED`, or `OVERLOADED` where that is for want of
    /// threads, memory or descriptors.
    pub(in crate::sandbox) fn of_hooks(
        &self,
        filters: Option<&FilterSpec>,
    ) -> Result<Arc<LoadedPool>, Refusal> {
        self.of(filters.map_or(Kind::Unconfined, |spec| Kind::Filtered(*spec)))
    }

    /// Returns the spawners of programs that the operator's configuration names. These keep the daemon's rights.
    ///
    /// # Errors
    ///
    /// Refuses where no thread can be started: `OVERLOADED` for want of resources, else `BACKEND_UNCONFIRMED`.
    pub(in crate::sandbox) fn of_operators_programs(&self) -> Result<Arc<LoadedPool>, Refusal> {
        self.of(Kind::Operators)
    }

    fn of(&self, kind: Kind) -> Result<Arc<LoadedPool>, Refusal> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pool) = loaded.get(&kind) {
            return Ok(Arc::clone(pool));
        }
        let unconfirmed = |what: &str, error: &dyn Error| {
            let message = format!("{what}: {}", chain(error));
            Refusal::new(Reason::BackendUnconfirmed, message)
        };
        let started = match kind {
            Kind::Filtered(spec) => {
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
                        tracing::warn!(
                            "calls that the filters refuse will not be reported: this daemon is under a filter with a listener"
                        );
                        self.start(compile(Asking::Nothing)?)
                    }
                    started => started,
                }
            }
            Kind::Operators => self.start_unfiltered(false),
            Kind::Unconfined => self.start_unfiltered(self.starts.switch_uid),
        };
        let pool = started.map_err(|e| {
            let what = "cannot start spawner threads with the filters loaded";
            Refusal::failed(what, &e, |failed| {
                Cause::refusal(of_filters(e.raw_os_error()), &failed)
            })
        })?;
        let pool = Arc::new(pool);
        loaded.insert(kind, Arc::clone(&pool));
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
