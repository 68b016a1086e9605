//! Starts interpreters ahead of their runs, and hands runs over to them.

use std::{
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use bytes::Bytes;
use tokio::time::{sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use hookjail_base::{
    model::Peer,
    refusal::{Fault, Stop},
};
use hookjail_policy::{Access, Policy, environment::Variables};
use hookjail_sys::WAITS;

use super::{BegunWithNotices, Confinement, Evidence, LOADING_TURN, SETUP_TURN, Start};
use crate::{
    HookTask, Opened, Prepared,
    host::WaitingView,
    program::Program,
    run::{
        child_spec::{Execution, has_view, own_directory, variables},
        notices::Notices,
    },
    warm::{self, Key, LIFETIME, LOADING, Unfit, Waiter, Waiting, WaitingLevels, Wanted, memory},
};

/// How long after a run its successors are started: its answer comes first.
const ANSWERED: Duration = Duration::from_millis(2);

/// How much of a script is looked at for what it imports.
const MOST_SCANNED_BYTES: usize = 64 << 10;

/// The start of a hook, by which interpreters are prepared for the next ones.
#[derive(Debug)]
struct Template {
    caller: Peer,
    environment: Variables,
    opened: Opened,
    policy: Policy,
    prepared: Prepared,
    program: Program,
    session: String,
    workspace: Option<PathBuf>,
}

/// Interpreters that are to be started. They count as being started until this is dropped without their start.
#[derive(Debug)]
pub(super) struct Refill {
    key: Key,
    missing: usize,
    sandbox: Arc<Confinement>,
    template: Template,
}

impl Refill {
    /// Returns how to start those that are missing; `None` where none is.
    pub(super) fn new(
        sandbox: &Arc<Confinement>,
        key: Key,
        task: HookTask<'_>,
    ) -> Option<Box<Self>> {
        let wanted = usize::try_from(task.policy.warm).unwrap_or(0);
        let missing = sandbox.warm.missing(&key, wanted);
        if missing == 0 {
            return None;
        }
        let Ok(program) = task.program.try_clone() else {
            sandbox.warm.not_started(&key, missing);
            return None;
        };
        Some(Box::new(Self {
            key,
            missing,
            sandbox: Arc::clone(sandbox),
            template: Template {
                caller: task.caller.clone(),
                environment: task.environment.clone(),
                opened: Opened {
                    grants: task.opened.grants.clone(),
                    // Of each run anew.
                    kept: None,
                    working_dir: task.opened.working_dir.clone(),
                },
                policy: task.policy.clone(),
                prepared: task.prepared.clone(),
                program,
                session: task.session.to_owned(),
                workspace: task.workspace.map(Path::to_owned),
            },
        }))
    }

    /// Starts them in the background, one after another.
    pub(super) fn start(mut self: Box<Self>) {
        tokio::spawn(async move {
            let starts = self.sandbox.warm.starts();
            sleep(ANSWERED).await;
            if warm::are_descriptors_scarce() {
                return;
            }
            while self.missing > 0 && !starts.is_cancelled() {
                match memory::tenths_available() {
                    0 => {
                        self.sandbox.warm.give_up();
                        return;
                    }
                    // The next one could be too many for those that wait.
                    1 => return,
                    _ => {}
                }
                let waiting = self.sandbox.start_ahead(&self, &starts).await;
                let (argv, waiter) = (&self.template.program.argv, self.key.waiter);
                let unfit = waiting.as_ref().err().copied();
                self.missing -= 1;
                if self.sandbox.warm.started(&self.key, waiting) {
                    tokio::spawn(expire(Arc::downgrade(&self.sandbox)));
                }
                match unfit {
                    None => tracing::debug!(?waiter, ?argv, "a process waits"),
                    Some(unfit) => tracing::debug!(?unfit, ?waiter, ?argv, "no process waits"),
                }
            }
        });
    }
}

/// Lets go of what has waited too long, until nothing waits.
async fn expire(sandbox: Weak<Confinement>) {
    let next = || sandbox.upgrade()?.warm.expire();
    while let Some(next) = next() {
        sleep_until(next.into()).await;
    }
}

impl Drop for Refill {
    fn drop(&mut self) {
        if self.missing > 0 {
            self.sandbox.warm.not_started(&self.key, self.missing);
        }
    }
}

impl Confinement {
    /// Returns how many processes wait for runs, and how many runs began in one.
    pub fn waiting(&self) -> WaitingLevels {
        self.warm.levels()
    }

    /// Returns the key of a hook for whose next runs something is to wait.
    pub(super) fn warm_key(&self, task: HookTask<'_>) -> Option<Key> {
        let backend = self.backend(task.prepared.backend).ok()?;
        if task.policy.warm == 0 || !backend.lets_wait() {
            return None;
        }
        #[cfg(target_os = "linux")]
        if self.parts.observer.is_some() {
            return None;
        }
        let environment = task.environment.with_scratch(Path::new(""));
        let wanted = Wanted {
            environment: &environment,
            has_own_uid: self.switches_uid(),
            has_view: has_view(task),
            keeps: task.opened.kept.is_some(),
            program: task.program,
            warm: task.policy.warm,
        };
        match wanted.waiter() {
            Ok(waiter) => Key::new(task, environment, waiter),
            Err(why) => {
                let argv = &task.program.argv;
                tracing::debug!(?argv, %why, "no process waits: no interpreter that can");
                None
            }
        }
    }

    /// Hands a hook's run over to what waits for it, if anything does.
    ///
    /// # Errors
    ///
    /// Refuses a script that has been rewritten since it was hashed: `DIGEST_MISMATCH`.
    pub(super) fn begin_warm(
        &self,
        key: &Key,
        task: HookTask<'_>,
    ) -> Result<Option<BegunWithNotices>, Stop> {
        while let Some((since, mut waiting)) = self.warm.take(key) {
            let begins = self.hand_over(key.waiter, &mut waiting, since, task);
            if matches!(begins, Ok(true)) {
                self.warm.count_run(waiting.loaded_in);
                let Waiting {
                    notices,
                    released,
                    run,
                    ..
                } = waiting;
                return Ok(Some(((released, run), notices)));
            }
            self.warm.discard([waiting]);
            begins?;
        }
        Ok(None)
    }

    /// Starts an interpreter and waits until it waits, unless it is to end before.
    async fn start_ahead(
        &self,
        refill: &Refill,
        ends: &CancellationToken,
    ) -> Result<Waiting, Unfit> {
        let task = HookTask {
            caller: &refill.template.caller,
            cancel: ends,
            deadline: Instant::now() + LIFETIME,
            environment: &refill.template.environment,
            opened: &refill.template.opened,
            policy: &refill.template.policy,
            prepared: &refill.template.prepared,
            program: &refill.template.program,
            session: &refill.template.session,
            stdin: &Bytes::new(),
            workspace: refill.template.workspace.as_deref(),
        };
        let caller = task.caller.uid;
        self.litter.room(caller).await;
        let mut turn = self.setups.turn(caller).await;
        let started = Instant::now();
        let (mut notices, mut places) = (None, Vec::new());
        let set_up = self.set_up_with(task, true, |directory, identity| {
            let (mut execution, made) = Execution::ahead(task, directory, identity)?;
            let waiters = self.parts.instance.waiters();
            let fault = |e| Fault::new("cannot open the files that make processes wait", e);
            let granted = own_directory(waiters.clone(), Access::Read).map_err(fault)?;
            execution.own.push(granted);
            let script = start_of(&refill.template.program);
            let waiter = refill.key.waiter;
            let executable = refill.template.program.executable_path().canonicalize();
            let libraries = executable.ok().and_then(|it| warm::libraries(&it));
            let loads = (&*script, &*libraries.unwrap_or_default());
            waiter.wait(&mut execution.environment, &waiters, loads);
            places = made;
            notices = Notices::prepare(task, &mut execution, directory, identity)
                .map_err(|e| Fault::new("cannot make the pipe of a run's notices", e))?;
            Ok(execution)
        });
        let loaded = turn.spend(SETUP_TURN, Box::pin(set_up)).await;
        let (mut released, run) = loaded.map_err(|stop| {
            tracing::debug!(%stop, "nothing can be started ahead");
            if stop.lacks_something() {
                self.warm.give_up();
            }
            Unfit::Now
        })?;
        let Start::Running(hook) = &mut released.start else {
            return Err(Unfit::Always);
        };
        let child = hook.as_waiting().ok_or(Unfit::Always)?;
        let waits = timeout(LOADING, child.waits(WAITS, task.deadline));
        let waits = tokio::select! {
            waits = turn.spend(LOADING_TURN, waits) => waits,
            () = ends.cancelled() => return Err(Unfit::Now),
        };
        match waits {
            Ok(Ok(true)) => {}
            Ok(_) => return Err(Unfit::Always),
            Err(_) => return Err(Unfit::Now),
        }
        let view = has_view(task).then(|| {
            let grants = &task.opened.grants;
            WaitingView::open(child.leader(), self.switches_uid(), grants)
        });
        let view = view.transpose().map_err(|error| {
            tracing::debug!(%error, "the view of what waits cannot be opened");
            Unfit::Always
        })?;
        Ok(Waiting {
            loaded_in: started.elapsed(),
            notices,
            places,
            released,
            run,
            view,
        })
    }

    /// Hands a hook's run over to an interpreter that has waited since some time. Returns whether the run begins there: the
    /// interpreter may not suit the run, or not wait any more.
    fn hand_over(
        &self,
        waiter: Waiter,
        waiting: &mut Waiting,
        since: Instant,
        task: HookTask<'_>,
    ) -> Result<bool, Stop> {
        let Waiting {
            notices,
            places,
            released,
            run,
            view,
            ..
        } = waiting;
        let scripts = &task.program.scripts;
        let mut suits = places.len() == scripts.len();
        for (place, script) in places.iter().zip(scripts) {
            suits = suits && place.suits(task, script)?;
        }
        let kept = task.opened.kept.as_ref();
        suits = suits
            && match &view {
                Some(view) => self.is_kept(view, task),
                None => kept.is_none(),
            };
        let Start::Running(hook) = &mut released.start else {
            return Ok(false);
        };
        let Some(child) = hook.as_waiting().filter(|_| suits) else {
            tracing::debug!(suits, "a process waits for another run than this");
            return Ok(false);
        };
        let mut variables = variables(task, run.directory())?;
        if notices.is_some() {
            let named = Notices::name(&mut variables, run.directory());
            named.map_err(|e| Fault::new("cannot name the pipe of a run's notices", e))?;
        }
        // By its path: a later mount may cover the directory in which the process waits.
        let working_dir = kept.and(task.opened.working_dir.as_ref());
        let mut input = waiter.input(working_dir.map(|it| &*it.path), &variables);
        input.extend_from_slice(task.stdin);
        if !child.begin(input.into(), task.deadline) {
            return Ok(false);
        }
        // Only now: an interpreter that does not wait any more finds no script. Its input is read when the run is waited for.
        for (place, script) in places.iter_mut().zip(scripts) {
            place.fill(script)?;
        }
        if let Some(placeholders) = kept.and_then(|kept| kept.placeholders.clone()) {
            run.hold(placeholders);
        }
        let now = Instant::now();
        released.setup.released = now;
        let evidence = &mut released.setup.evidence;
        if kept.is_some() {
            let read_only = Evidence {
                check: "read_only",
                observed: "mounted".to_owned(),
            };
            evidence.insert(0, read_only);
        }
        evidence.push(Evidence {
            check: "warm",
            observed: format!("waited {} ms", now.duration_since(since).as_millis()),
        });
        Ok(true)
    }

    /// Keeps paths of a workspace in the view of what waits. Returns whether the view is as it was made, and all are kept.
    fn is_kept(&self, view: &WaitingView, task: HookTask<'_>) -> bool {
        let kept = task.opened.kept.as_ref();
        let keep = |kept| view.keep(&self.runner, kept, &task.opened.grants);
        let is_as_made = view.has_changed().map(|has_changed| !has_changed);
        let is_kept = is_as_made.and_then(|is_as_made| {
            if is_as_made {
                kept.map_or(Ok(()), keep)?;
            }
            Ok(is_as_made)
        });
        is_kept.unwrap_or_else(|error| {
            tracing::debug!(%error, "nothing can be kept in the view of what waits");
            false
        })
    }
}

/// Returns the beginning of a program's first script, without unreadable parts.
fn start_of(program: &Program) -> Vec<u8> {
    let mut start = vec![0; MOST_SCANNED_BYTES];
    let script = program.scripts.first();
    let read = script.and_then(|script| script.file.read_at(&mut start, 0).ok());
    start.truncate(read.unwrap_or(0));
    start
}
