//! Starts a task's child confined and runs it to its end.

mod ahead;
pub(crate) mod child_spec;
pub(crate) mod connection;
#[cfg(target_os = "linux")]
pub(crate) mod denials;
pub(crate) mod floor;
pub(crate) mod grants;
#[cfg(target_os = "linux")]
pub(crate) mod membership;
pub(crate) mod notices;
#[cfg(target_os = "linux")]
pub(crate) mod observe;
pub(crate) mod places;
#[cfg(target_os = "linux")]
pub(crate) mod proc_status;
pub(crate) mod read_only;
pub(crate) mod runner;
pub(crate) mod task;
#[cfg(target_os = "linux")]
pub(crate) mod view;

use std::{
    collections::BTreeMap,
    fmt, io,
    marker::PhantomData,
    num::NonZero,
    ops::Deref,
    path::{Path, PathBuf},
    pin::{Pin, pin},
    sync::Arc,
    thread::available_parallelism,
    time::{Duration, Instant},
};

use nix::unistd::geteuid;
use serde::Serialize;
use tokio::time::{sleep, timeout_at};

use hookjail_base::{
    model::{Peer, axis::Axis},
    refusal::{Fault, Reason, Refusal, Stop, canceled},
    util::{
        presence::Presence,
        turns::{Turn, Turns},
    },
};
use hookjail_policy::{Files, Policy, References};
use hookjail_sys::{Identity, Keeper, WaitStatus};

#[cfg(target_os = "linux")]
use crate::{Absent, CgroupPlace, resources::cgroup::Cgroups, run::observe::Observer};

use crate::{
    Backend, BackendName, HookUsers, InstanceDir, Opened, Order,
    host::{Identities, Known, Lease, Notes, Until},
    process::{self, Supervision},
    resources::{
        cache::Caches,
        litter::{Litter, RunResources},
        scratch::RunDir,
        state::{self, StateStore},
    },
    rootfs::{Root, View},
    run::{
        ahead::Refill,
        child_spec::Execution,
        connection::Connections,
        notices::Notices,
        places::KnownPlaces,
        runner::Runner,
        task::{Action, HookTask, Task},
    },
    selftest::Confirmations,
    warm::{Key, Warm},
};

/// The longest time for which one hook's set-up delays others. Set-ups usually take some milliseconds.
const SETUP_TURN: Duration = Duration::from_millis(250);

/// The longest time for which an executed hook delays others, while its program is loaded.
///
/// Hundreds of programs that load at once would take the processors from other callers' hooks, and from the daemon.
const LOADING_TURN: Duration = Duration::from_millis(5);

/// How long a resource may take to be free, after waiting processes were killed for a run that lacks it.
const GIVING_UP: Duration = Duration::from_secs(2);

/// Delay of a retry after a lack of resources.
const AGAIN: Duration = Duration::from_millis(5);

/// Parts of a [`Sandbox`].
#[derive(Debug)]
pub struct SandboxParts {
    /// Every backend that `order` names.
    pub backends: Vec<Box<dyn Backend>>,
    /// The cgroups of runs, or why there are none.
    #[cfg(target_os = "linux")]
    pub cgroups: Result<Arc<Cgroups>, Absent>,
    /// Uids for hooks; `None` where hooks run as the daemon's own user.
    pub identities: Option<Arc<Identities>>,
    /// This daemon's directory.
    pub instance: InstanceDir,
    /// The keeper, which kills the processes that a killed daemon leaves.
    pub keeper: Arc<Keeper>,
    /// The observer of hooks; `None` except for `hookjail learn`.
    #[cfg(target_os = "linux")]
    pub observer: Option<Arc<Observer>>,
    /// Backends that a profile may run on, in order.
    pub order: Order,
    /// The daemon's own paths, which no hook reaches, for backends that need a list.
    pub own: Vec<PathBuf>,
    /// Directories of the user whose keys and settings no grant leads to.
    pub references: References,
    /// Root file system of containers; `None` = the host's.
    pub root: Option<Root>,
    /// User of hooks under a root daemon.
    pub run_as: HookUsers,
    /// Files of hooks that last.
    pub state: StateStore,
    /// Number of spawner threads for each caller and each different set of filters.
    pub spawners: usize,
}

impl SandboxParts {
    /// Returns the parts of a sandbox that keeps its files in a directory, which must last as long. Hooks run as this
    /// process's user, or where that is root each under a uid of [`DEFAULT_UID_RANGE`](crate::DEFAULT_UID_RANGE). Cgroups limit none of them.
    ///
    /// Starts a process that kills the hooks where this process is killed.
    ///
    /// # Errors
    ///
    /// Fails where that process cannot be started, or a directory cannot be made.
    pub fn in_directory(directory: &Path, backends: Vec<Box<dyn Backend>>) -> io::Result<Self> {
        let is_root = geteuid().is_root();
        let identities = is_root
            .then(|| Identities::new(crate::DEFAULT_UID_RANGE).map(Arc::new))
            .transpose()?;
        Ok(Self {
            #[cfg(target_os = "linux")]
            cgroups: Cgroups::start(&CgroupPlace::None).map(Arc::new),
            identities,
            instance: InstanceDir::create(&directory.join("run"), is_root)?,
            keeper: Arc::new(Keeper::start()?),
            #[cfg(target_os = "linux")]
            observer: None,
            order: Order {
                default: backends.iter().map(|backend| backend.name()).collect(),
                profiles: BTreeMap::new(),
            },
            own: Vec::new(),
            references: References::default(),
            root: None,
            run_as: HookUsers::default(),
            spawners: 1,
            state: StateStore::of_daemon(directory),
            backends,
        })
    }
}

/// User of hooks under a root daemon.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RunAs {
    /// The caller, except root: its hooks get a uid of the pool.
    Caller,
    /// A uid of the pool for each running hook.
    #[default]
    Pool,
}

impl RunAs {
    /// All values, in the order of their names.
    pub const ALL: [Self; 2] = [Self::Caller, Self::Pool];

    /// Returns the name in the configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Caller => "caller",
            Self::Pool => "pool",
        }
    }
}

/// The backends, with the resources to start hooks under them, each for what records its start, `R`.
///
/// A caller whose `R` only a journal makes cannot start a hook that is not recorded.
#[derive(Debug)]
pub struct Sandbox<R> {
    confinement: Arc<Confinement>,
    recorded: PhantomData<fn(&R)>,
}

impl<R> Sandbox<R> {
    /// Creates a sandbox.
    ///
    /// # Errors
    ///
    /// Fails where children could not be inspected, or no thread can be started.
    pub fn new(parts: SandboxParts) -> io::Result<Self> {
        Ok(Self {
            confinement: Arc::new(Confinement::new(parts)?),
            recorded: PhantomData,
        })
    }

    /// Starts a hook confined, whose start is recorded.
    ///
    /// # Errors
    ///
    /// Refuses where any part of confinement cannot be applied or confirmed. Nothing of the hook has run then, except
    /// where `/proc` shows a released child confined differently than planned: its tree is killed.
    pub async fn start(&self, task: HookTask<'_>, _recorded: &R) -> Result<StartedHook, Stop> {
        self.confinement.start(task).await
    }
}

impl<R> Deref for Sandbox<R> {
    type Target = Confinement;

    fn deref(&self) -> &Confinement {
        &self.confinement
    }
}

/// A [`Sandbox`] but for the start of hooks.
#[derive(Debug)]
pub struct Confinement {
    /// Declared first: the others kill waiting interpreters and remove their directories.
    warm: Warm,
    pub(crate) confirmations: Confirmations,
    /// Declared before `litter`, which removes the remains of dead runs.
    pub(crate) runner: Runner,
    /// Declared before `parts`: its directories lie in the instance's.
    pub(crate) litter: Litter,
    pub(crate) parts: SandboxParts,
    /// Turns of hook starts, fair among callers: a few at a time are as fast as many.
    setups: Turns,
}

/// An observation made in one run.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Evidence {
    /// The property that was checked.
    pub check: &'static str,
    /// The observed value.
    pub observed: String,
}

/// Times and evidence of a set-up.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Whether the filters report refused calls to the daemon.
    pub asks: bool,
    /// Whether a self-test on this host and this run's evidence agree.
    pub confirmed: bool,
    /// The evidence.
    pub evidence: Vec<Evidence>,
    /// When the hook was released.
    pub released: Instant,
}

/// A hook that runs confined as ordered.
///
/// Only `Sandbox::start` makes one, from a child that executed the hook after its report covered the task. Dropping it kills the
/// tree.
#[derive(Debug)]
#[must_use]
pub struct StartedHook {
    end: Start,
    notes: Notes,
    /// Of a hook whose notices are taken.
    notices: Option<Box<Notices>>,
    /// Boxed: few hooks have one, and thousands may run.
    refill: Option<Box<Refill>>,
    run: Arc<RunResources>,
    sandbox: Arc<Confinement>,
    setup: Setup,
    turn: Turn,
}

/// Result of starting a task.
#[derive(Debug)]
pub enum Started {
    /// A released hook.
    Hook(Released),
    /// A self-test's child, which is gone.
    Probed(Probed),
}

/// The result of a self-test's child.
#[derive(Debug)]
pub struct Probed {
    /// The result of each attempt.
    pub(crate) results: Vec<Option<isize>>,
    /// Whether it had to wait because of a limit on processor time.
    pub(crate) throttled: bool,
}

/// A hook that was released under the confinement of its task.
#[derive(Debug)]
pub struct Released {
    pub(crate) notes: Notes,
    pub(crate) setup: Setup,
    pub(crate) start: Start,
}

/// A released hook, and what it holds.
type Begun = (Released, Arc<RunResources>);

/// The same with the pipe of its notices.
type BegunWithNotices = (Begun, Option<Box<Notices>>);

/// How a released child began.
#[derive(Debug)]
pub(crate) enum Start {
    /// Confinement held, but the program could not be executed.
    ExecFailed(i32),
    /// The program runs.
    Running(Box<dyn RunningHook>),
}

/// A running hook. Dropping it kills the tree.
pub(crate) trait RunningHook: fmt::Debug + Send {
    /// Returns the child, if it may be one that waits for its run.
    fn as_waiting(&mut self) -> Option<&mut process::Running> {
        None
    }

    /// Writes the event and waits for the end of the whole tree.
    ///
    /// # Errors
    ///
    /// The container that it ran in did not report how it ended.
    fn run_to_end(self: Box<Self>, supervision: Supervision) -> Finish;
}

/// Future of a run until the death of its tree.
pub(crate) type Finish = Pin<Box<dyn Future<Output = Result<process::Ended, Stop>> + Send>>;

impl RunningHook for process::Running {
    fn as_waiting(&mut self) -> Option<&mut process::Running> {
        Some(self)
    }

    fn run_to_end(self: Box<Self>, supervision: Supervision) -> Finish {
        let running = *self;
        Box::pin(async { Ok(running.finish(supervision).await) })
    }
}

/// The end of a hook.
#[derive(Debug)]
pub struct EndedHook {
    /// Connections to the hosts of its profile, and attempts.
    pub connections: Connections,
    /// Denials, as far as they are known.
    pub denied: Known,
    /// How it ended.
    pub end: End,
    /// Calls of the programs that ask for notices, unread.
    pub notices: Vec<u8>,
    /// Times and evidence of the set-up.
    pub setup: Setup,
}

impl EndedHook {
    /// Returns whether something that concerns the hook itself is known to have been denied.
    pub fn is_denied(&self) -> bool {
        self.denied.is_denied() || self.connections.denied().next().is_some()
    }
}

/// How a released hook ended.
#[derive(Debug)]
pub enum End {
    /// The program could not be executed; the errno.
    ExecFailed(i32),
    /// The program ran.
    Ran(process::Ended),
}

impl End {
    /// Returns the exit code, if the hook exited.
    pub fn exit_code(&self) -> Option<i32> {
        match self.status() {
            Some(WaitStatus::Exited(code)) => Some(code),
            Some(WaitStatus::Signaled(_)) | None => None,
        }
    }

    /// Returns the signal, if one ended the hook.
    pub fn signal(&self) -> Option<i32> {
        match self.status() {
            Some(WaitStatus::Signaled(signal)) => Some(signal),
            Some(WaitStatus::Exited(_)) | None => None,
        }
    }

    /// Returns the size of the kept output, bytes.
    pub fn output_bytes(&self) -> usize {
        match self {
            Self::ExecFailed(_) => 0,
            Self::Ran(ran) => ran.stdout.head.len() + ran.stderr.head.len(),
        }
    }

    fn status(&self) -> Option<WaitStatus> {
        match self {
            Self::ExecFailed(_) => None,
            Self::Ran(ran) => ran.leader.map(|leader| leader.status),
        }
    }
}

impl StartedHook {
    /// Writes the event and waits for the end of the whole tree. Consumes `self`: a hook starts once.
    ///
    /// # Errors
    ///
    /// The container that it ran in did not report how it ended.
    pub fn finish(
        self,
        supervision: Supervision,
    ) -> impl Future<Output = Result<EndedHook, Stop>> + Send {
        let Self {
            end,
            notes,
            mut notices,
            refill,
            run,
            sandbox,
            setup,
            mut turn,
        } = self;
        let end = match end {
            Start::ExecFailed(errno) => Err(errno),
            Start::Running(started) => Ok(started.run_to_end(supervision)),
        };
        async move {
            let end = match end {
                Err(errno) => Ok(End::ExecFailed(errno)),
                Ok(finish) => {
                    // In one place, and no second one in the memory of each run: thousands may run.
                    let mut finish = pin!(turn.spend(LOADING_TURN, finish));
                    match &mut notices {
                        Some(notices) => Box::pin(notices.during(finish.as_mut())).await,
                        None => finish.await,
                    }
                }
                .map(End::Ran),
            };
            // The tree is dead: its files are removed in the background, and another hook may start.
            drop((run, turn));
            if let Ok(End::Ran(ran)) = &end
                && ran.lacked_memory
            {
                sandbox.warm.give_up_for_memory();
            }
            if let Some(refill) = refill {
                refill.start();
            }
            let (denied, connections) = notes.take();
            Ok(EndedHook {
                connections,
                denied,
                end: end?,
                notices: notices.map(|notices| notices.calls()).unwrap_or_default(),
                setup,
            })
        }
    }
}

impl Confinement {
    pub(crate) fn new(mut parts: SandboxParts) -> io::Result<Self> {
        parts.keeper.note_in(Arc::clone(parts.instance.groups()));
        let processors = available_parallelism().map_or(1, NonZero::get);
        let at_once = (4 * processors).max(2 * parts.spawners);
        Ok(Self {
            confirmations: Confirmations::default(),
            runner: Runner::new(&mut parts)?,
            litter: Litter::start()?,
            setups: Turns::new(at_once, at_once * 3 / 4),
            parts,
            warm: Warm::start(),
        })
    }

    /// Returns the daemon's own files without which nothing can run.
    pub const fn own_files(&self) -> &[Presence] {
        self.parts.instance.files()
    }

    /// Returns an attempt to create the directory of a run, for a thread that may wait for a disk.
    pub fn directory_attempt(&self) -> impl FnOnce() -> io::Result<()> + Send + use<> {
        self.parts.instance.attempt()
    }

    /// Returns whether a process or uid is that of a hook of this daemon.
    pub fn is_hook(&self, peer: &Peer) -> bool {
        let by_uid = self
            .parts
            .identities
            .as_ref()
            .is_some_and(|identities| identities.is_hook(peer.uid));
        let is_of_hook = |pid| (self.runner.launcher).is_of_hook(&self.parts.keeper, pid);
        by_uid || peer.pid.is_some_and(is_of_hook)
    }

    /// Returns the system paths that stay open between runs.
    pub const fn places(&self) -> &KnownPlaces {
        &self.runner.places
    }

    /// Opens the paths that a profile grants to every request.
    ///
    /// # Errors
    ///
    /// Refuses where one of them cannot be opened.
    pub fn open_system(&self, policy: &Policy) -> Result<Opened, Refusal> {
        Ok(Opened {
            grants: self.places().open_system(&policy.files)?,
            ..Opened::default()
        })
    }

    /// Returns the caches of hooks.
    pub const fn caches(&self) -> &Caches {
        &self.runner.caches
    }

    /// Returns the file system in which a hook with these grants finds its paths.
    pub fn view<'a>(&'a self, files: &'a Files) -> View<'a> {
        View::new(self.places().root(), files)
    }

    /// Returns whether hooks have a root file system other than the host's.
    pub const fn has_root(&self) -> bool {
        self.places().root().is_some()
    }

    /// Returns whether each hook has its own uid. The daemon then opens files with more rights than hooks have.
    pub const fn switches_uid(&self) -> bool {
        self.parts.identities.is_some()
    }

    pub(crate) async fn start(self: &Arc<Self>, task: HookTask<'_>) -> Result<StartedHook, Stop> {
        let caller = task.caller.uid;
        let turn = async {
            self.litter.room(caller).await;
            self.setups.turn(caller).await
        };
        let mut turn = tokio::select! {
            turn = timeout_at(task.deadline.into(), turn) => turn.map_err(|_| {
                let message = "the deadline passed while other hooks were started, or what this caller's hooks left was removed";
                Refusal::new(Reason::Deadline, message)
            })?,
            () = task.cancel.cancelled() => return Err(canceled().into()),
        };
        let key = self.warm_key(task);
        // Boxed, and created after the wait: thousands may wait for their turn.
        let begun = self.obtain(task.deadline, || Box::pin(self.begin(key.as_ref(), task)));
        let begun = turn.spend(SETUP_TURN, Box::pin(begun));
        let ((released, run), notices) = begun.await?;
        let refill = key.and_then(|key| Refill::new(self, key, task));
        let Released {
            notes,
            setup,
            start,
        } = released;
        Ok(StartedHook {
            end: start,
            notes,
            notices,
            refill,
            run,
            sandbox: Arc::clone(self),
            setup,
            turn,
        })
    }

    /// Asks for a resource of a run. Where it is lacking, all processes that wait for other runs are killed, and it is asked for
    /// again for two seconds at most.
    ///
    /// # Errors
    ///
    /// Returns the last error: of a resource that is still lacking, or any other.
    pub async fn obtain<T, F>(
        &self,
        deadline: Instant,
        mut ask: impl FnMut() -> F,
    ) -> Result<T, Stop>
    where
        F: Future<Output = Result<T, Stop>>,
    {
        let mut until = None;
        loop {
            let stop = match ask().await {
                Err(stop) if stop.lacks_something() => stop,
                end => return end,
            };
            let now = Instant::now();
            // Another run's lack of resources may have killed them a moment ago.
            let is_given_up = self.warm.give_up() || self.warm.gave_up_within(GIVING_UP);
            let until = *until.get_or_insert((now + GIVING_UP).min(deadline));
            if !is_given_up || now + AGAIN >= until {
                return Err(stop);
            }
            sleep(AGAIN).await;
        }
    }

    /// Hands a hook's run over to what waits for it, or starts it.
    async fn begin(&self, key: Option<&Key>, task: HookTask<'_>) -> Result<BegunWithNotices, Stop> {
        let begun = key.map(|key| self.begin_warm(key, task)).transpose()?;
        match begun.flatten() {
            Some(begun) => Ok(begun),
            None => self.set_up(task).await,
        }
    }

    /// Returns the remedy for a gap on an axis that cgroups limit; empty for other axes.
    #[cfg(target_os = "linux")]
    pub fn remedy(&self, axis: Axis, policy: &Policy) -> String {
        let key = match axis {
            Axis::Cpu => "limits.cpus",
            Axis::Memory => "limits.memory",
            Axis::Pids => "limits.tasks",
            Axis::Devices
            | Axis::Environment
            | Axis::Execute
            | Axis::Ipc
            | Axis::Metadata
            | Axis::Network
            | Axis::Output
            | Axis::Read
            | Axis::Spawn
            | Axis::Time
            | Axis::Write => return String::new(),
        };
        match &self.parts.cgroups {
            Ok(cgroups) if axis == Axis::Cpu && !cgroups.controllers().cpu => format!(
                "the cgroup `{}` has no controller `cpu`; delegate it, too",
                cgroups.path().display()
            ),
            Ok(_) => format!("set `{key}` in profile `{}`", policy.name),
            Err(Absent { fix, why }) => format!("{why}; {fix}"),
        }
    }

    /// Returns no remedy: on this system nothing limits a run as a whole.
    #[cfg(not(target_os = "linux"))]
    pub const fn remedy(&self, _axis: Axis, _policy: &Policy) -> String {
        String::new()
    }

    /// Creates a hook's resources and starts it on its backend.
    async fn set_up(&self, hook: HookTask<'_>) -> Result<BegunWithNotices, Stop> {
        let mut notices = None;
        let execution = |directory: &RunDir, identity: Option<&Identity>| {
            let mut execution = Execution::new(hook, directory, identity)?;
            notices = Notices::prepare(hook, &mut execution, directory, identity)
                .map_err(|e| Fault::new("cannot make the pipe of a run's notices", e))?;
            Ok(execution)
        };
        let begun = self.set_up_with(hook, false, execution).await?;
        Ok((begun, notices))
    }

    /// Creates the resources of a hook, and starts an execution that is made for them. `waits`: the execution waits for its
    /// run.
    async fn set_up_with(
        &self,
        hook: HookTask<'_>,
        waits: bool,
        execution: impl FnOnce(&RunDir, Option<&Identity>) -> Result<Execution, Stop>,
    ) -> Result<Begun, Stop> {
        let caller = hook.caller.uid;
        let lease = self.lease(caller)?;
        let identity =
            lease
                .as_ref()
                .map(|lease| match self.parts.run_as.nearest(&hook.policy.line) {
                    // Hooks under root's uid would own root's files, even without capabilities.
                    RunAs::Caller if caller != 0 => lease.of_caller(hook.caller),
                    RunAs::Caller | RunAs::Pool => lease.identity(),
                });
        let directory = self
            .parts
            .instance
            .run(identity.as_ref())
            .map_err(|e| Fault::new("cannot make a scratch directory", e))?;
        let run = Arc::new(self.litter.of_run(caller, directory, lease));
        let directory = run.directory();
        let state = self
            .state_of(hook, identity.as_ref())
            .map_err(|e| Fault::new("cannot make the directories of files that last", e))?;
        let kept = hook.opened.kept.as_ref();
        let placeholders = kept.and_then(|kept| kept.placeholders.clone());
        let task = Task {
            action: Action::Execute(execution(directory, identity.as_ref())?),
            caller,
            directory,
            grants: hook.opened.grants.iter().collect(),
            identity,
            kept,
            policy: hook.policy,
            resources: Arc::new((Arc::clone(&run), placeholders)),
            state,
            stdin: hook.stdin.clone(),
            until: Until {
                cancel: hook.cancel.clone(),
                deadline: hook.deadline,
            },
            waits,
            working_dir: hook.opened.working_dir.as_ref(),
        };
        let backend = self.backend(hook.prepared.backend)?;
        match backend.start(&self.runner, task).await? {
            Started::Hook(released) => Ok((released, run)),
            Started::Probed(_) => {
                Err(Fault::new("cannot start a hook", "attempts were made instead").into())
            }
        }
    }

    /// Returns the directories of files that outlast a run, made where they are missing. `None` where hooks see no view, or have
    /// another uid in each run, to which files of earlier ones are closed.
    #[cfg(target_os = "linux")]
    fn state_of(
        &self,
        hook: HookTask<'_>,
        identity: Option<&Identity>,
    ) -> io::Result<Option<state::RunState>> {
        let uid = hook.caller.uid;
        let is_callers = identity.is_none_or(|identity| identity.uid == uid);
        if !is_callers || hook.prepared.backend != BackendName::LANDLOCK {
            return Ok(None);
        }
        let mut scripts = hook.program.scripts.iter();
        let script = scripts.next().map(|script| &*script.path);
        let key = state::StateKey {
            hook: script.unwrap_or_else(|| hook.program.executable_path()),
            policy: hook.policy,
            session: hook.session,
            uid,
            workspace: hook.workspace,
        };
        self.parts.state.open(key, identity)
    }

    /// Returns none: there are no views on this system.
    #[cfg(not(target_os = "linux"))]
    fn state_of(
        &self,
        _hook: HookTask<'_>,
        _identity: Option<&Identity>,
    ) -> io::Result<Option<state::RunState>> {
        Ok(None)
    }

    /// Returns a backend of this sandbox.
    fn backend(&self, name: BackendName) -> Result<&dyn Backend, Fault> {
        let mut backends = self.parts.backends.iter().map(AsRef::as_ref);
        backends
            .find(|backend| backend.name() == name)
            .ok_or_else(|| {
                Fault::new(
                    "cannot start a hook",
                    format!("no backend is named `{name}`"),
                )
            })
    }

    /// Leases a uid for a caller's hook; `None` where hooks run as the daemon's user.
    pub(crate) fn lease(&self, caller: u32) -> Result<Option<Lease>, Stop> {
        let Some(identities) = &self.parts.identities else {
            return Ok(None);
        };
        match identities.lease(caller) {
            Ok(Some(lease)) => Ok(Some(lease)),
            Ok(None) => {
                let message =
                    "all uids of `hooks.uid_range` are in use; enlarge the range or retry later";
                Err(Refusal::new(Reason::Overloaded, message).into())
            }
            Err(error) => Err(Fault::new("cannot take a uid for the hook", error).into()),
        }
    }
}
