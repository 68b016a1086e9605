//! Admission: caller's uid, consent to the hook, and capacity.

mod command;
mod homes;
mod rules;

use std::{
    ffi::OsString,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::time::timeout_at;
use tokio_util::sync::CancellationToken;

use hookjail_base::{
    model::{Consent, Peer},
    refusal::{Reason, Refusal, Stop, canceled},
    util::{shares::Shares, swap::Current},
};
use hookjail_policy::{Policy, starts_in};
use hookjail_sandbox::{
    Confinement,
    program::{Opened, OpenedFor, Program},
};

use self::command::FoundCommand;
pub(crate) use self::{
    homes::Homes,
    rules::{Configuration, OperatorHook, Rules},
};

use super::{
    call::{Call, Purpose, early},
    places::{Full, Place, Places},
    rates::{Rates, Spent},
    runs::RunStage,
};
use crate::{
    consent::{
        ConsentRule, Consents,
        decide::{Case, CommandSummary, ConsentDecision, QuestionToAsk, Unhashed},
        hashing::{Hashing, UNALLOWED_BYTES},
        pending::Decided,
    },
    git::GitPlaces,
    request::Request,
};

/// The maximum nesting depth of hooks, which ends the recursion of a hook that starts a runtime which runs hooks.
const MAX_DEPTH: u32 = 4;

/// A request that may run.
///
/// Only [`Gate::admit`] makes one.
#[derive(Debug)]
#[must_use]
pub(crate) struct Admitted {
    /// The operator that approved the run, if any.
    pub answered_by: Option<Peer>,
    /// The call of the request.
    pub call: Call,
    /// The command as the allowlist spells it.
    pub command: String,
    /// The consent by which the hook may run.
    pub consent: Consent,
    /// The deadline of the run.
    pub deadline: Instant,
    /// The directories of git that belong to the workspace, or to the tree around it, and lie elsewhere.
    pub git: Option<GitPlaces>,
    pub(super) place: Place,
    /// The version of the administrator's files; `None` = they have none.
    pub policy_version: Option<Arc<str>>,
    /// The profile as configured.
    pub policy: Arc<Policy>,
    /// The program, opened.
    pub program: Program,
    /// The time in the queue.
    pub queued: Duration,
    /// The request.
    pub request: Box<Request>,
    /// The wall time from arrival to `deadline`.
    pub timeout: Duration,
}

/// Parts of a [`Gate`].
#[derive(Debug)]
pub(crate) struct GateParts {
    /// The rule of consent.
    pub consent: ConsentRule,
    /// The memory limit of requests in work, bytes: their messages and their hooks' retained output.
    pub max_bytes: usize,
    /// The maximum number of running hooks.
    pub max_concurrent: usize,
    /// The maximum number of queued requests.
    pub max_queued: usize,
    /// The configuration that can be reloaded.
    pub rules: Rules,
}

/// Decides about requests.
#[derive(Debug)]
pub(crate) struct Gate {
    consents: Consents,
    draining: AtomicBool,
    hashing: Hashing,
    memory: Arc<Shares>,
    places: Arc<Places>,
    rates: Rates,
    rules: Current<Rules>,
}

impl Gate {
    /// Builds a gate.
    pub(crate) fn new(parts: GateParts) -> Self {
        let GateParts {
            consent,
            max_bytes,
            max_concurrent,
            max_queued,
            rules,
        } = parts;
        let places = Arc::new(Places::new(max_concurrent, max_queued));
        places.entitle(rules.caller_uids());
        Self {
            consents: Consents::new(consent),
            draining: AtomicBool::new(false),
            hashing: Hashing::default(),
            memory: Arc::new(Shares::new(max_bytes)),
            places,
            rates: Rates::default(),
            rules: Current::new(rules),
        }
    }

    /// Returns the current rules.
    pub(crate) fn rules(&self) -> Arc<Rules> {
        self.rules.get()
    }

    /// Replaces the rules. Requests admitted before run under the old ones.
    pub(crate) fn replace_rules(&self, rules: Rules) {
        self.places.entitle(rules.caller_uids());
        self.rules.replace(rules);
    }

    /// Refuses all requests from now on, also those that wait for an operator's answer.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Release);
        self.consents.pending.close();
    }

    /// Returns the store of consents.
    pub(crate) const fn consents(&self) -> &Consents {
        &self.consents
    }

    /// Hashes a program for a user, in turn with others, until a deadline.
    ///
    /// # Errors
    ///
    /// As [`Opened::hash`].
    pub(crate) async fn hash(
        &self,
        opened: Opened,
        uid: u32,
        deadline: Instant,
    ) -> Result<Program, Stop> {
        let never_gone = CancellationToken::new();
        self.hashing.hash(opened, uid, deadline, &never_gone).await
    }

    /// Returns the memory that requests in work share.
    pub(crate) const fn memory(&self) -> &Arc<Shares> {
        &self.memory
    }

    /// Returns how many hooks run.
    pub(crate) fn running(&self) -> usize {
        self.places.taken()
    }

    /// Returns how many requests wait for a place.
    pub(crate) fn queued(&self) -> usize {
        self.places.queued()
    }

    /// Decides whether a request may run, waits for a place, opens its program.
    ///
    /// # Errors
    ///
    /// Refuses callers, directories, profiles, time limits, programs and commands that are not allowed, and requests
    /// that get no place or no answer in time; see [`Reason`].
    pub(crate) async fn admit(
        &self,
        call: Call,
        request: Box<Request>,
        sandbox: &Confinement,
    ) -> Result<Admitted, Stop> {
        let uid = call.peer.uid;
        let admitted = self.decide(call, request, sandbox).await;
        admitted.map_err(|stop| match stop {
            Stop::Refusal(refusal) => self.rules().configuration.complete(refusal, uid).into(),
            Stop::Fault(fault) => Stop::Fault(fault),
        })
    }

    async fn decide(
        &self,
        call: Call,
        mut request: Box<Request>,
        sandbox: &Confinement,
    ) -> Result<Admitted, Stop> {
        self.not_draining()?;
        self.admit_peer(&call.peer, sandbox)?;
        check_depth(request.depth)?;
        let rules = self.rules();
        if call.purpose == Purpose::Run {
            let now = Instant::now();
            self.rates.call(call.peer.uid, rules.rates, now)?;
        }
        rules.admit_bound(&request, &call.peer)?;
        let policy = rules.profile(&request)?;
        rules.check_profile(&request, policy)?;
        // No part of a run that needs none.
        request.withheld = request.withheld.filter(|_| policy.needs_workspace());
        let git = rules.git_places(&request, policy, &call.peer)?;
        let command = FoundCommand::find(&request, policy, sandbox.view(&policy.files))?;
        let is_known = |name: &str| {
            let mut configured = rules.hooks.iter();
            configured.any(|hook| hook.command == name) || self.consents.names(name, policy)
        };
        let command = command.by_real_path(&call.peer, is_known);
        let configured = rules.hooks.iter().find(|hook| hook.command == command.name);
        let timeout = command::timeout(&request, configured, policy)?;
        let candidate = Candidate {
            call: &call,
            command: &command,
            policy,
            request: &request,
            rules: &rules,
            sandbox,
        };
        let mut answer = None;
        let mut asking = Duration::ZERO;
        let mut queued = Duration::ZERO;
        loop {
            // The operator's time to answer does not count against the hook's.
            let timeout = bounded(timeout + asking, &call);
            let deadline = call.arrived + timeout;
            let waiting = Instant::now();
            call.reach(RunStage::Queued, deadline);
            let place = self.place(&call, deadline).await?;
            call.reach(RunStage::Starting, deadline);
            queued += waiting.elapsed();
            let opened = sandbox.obtain(deadline, || async {
                let program = self.open(&candidate, deadline).await?;
                let decision = self.consent(&candidate, &program, answer.as_ref()).await?;
                Ok((program, decision))
            });
            let (program, decision) = opened.await?;
            let question = match decision {
                ConsentDecision::Ask(question) => *question,
                ConsentDecision::Run(consent) => {
                    return Ok(Admitted {
                        answered_by: answer.map(|(_, decided)| decided.by),
                        call,
                        command: command.name,
                        consent,
                        deadline,
                        git,
                        place,
                        policy_version: rules.policy_version.clone(),
                        policy: Arc::clone(policy),
                        program,
                        queued,
                        request,
                        timeout,
                    });
                }
            };
            // The place is free for others meanwhile, and the files may change: the loop repeats all checks with the answer.
            drop((place, program));
            let began = Instant::now();
            answer = Some(self.ask(question, &call).await?);
            asking += began.elapsed();
            queued += began.elapsed();
        }
    }

    /// Opens and hashes the program of a request that has a place.
    async fn open(&self, candidate: &Candidate<'_>, deadline: Instant) -> Result<Program, Stop> {
        self.recheck(candidate)?;
        let Candidate {
            call,
            command,
            policy,
            request,
            rules,
            sandbox,
        } = *candidate;
        let opened_for = OpenedFor::caller(&call.peer, sandbox.switches_uid());
        let open = |data: &[OsString]| {
            Program::open(
                command.path.clone(),
                &command.argv,
                data,
                starts_in(policy, &request.hook),
                opened_for,
                sandbox.view(&policy.files),
            )
        };
        // In another place the words of a consent name other files, and may be code there.
        let mut marked = None;
        for consent in (self.consents).with_data(&command.name, policy, request, &call.peer) {
            let opened = open(&consent.data)?;
            if opened.paths() == consent.files {
                marked = Some(opened);
                break;
            }
        }
        let opened = match marked {
            Some(opened) => opened,
            None => open(&[])?,
        };
        let sought = Unhashed {
            command: &command.name,
            granted: request.profile_granted || rules.grants(policy, &command.name),
            peer: &call.peer,
            policy,
            preview: call.purpose == Purpose::Preview,
            request,
        };
        let unknown_bytes = opened.unknown_bytes(self.hashing.cache());
        if unknown_bytes > UNALLOWED_BYTES && !self.consents.may_run(&sought)? {
            return Err(sought.refuse().into());
        }
        let (hashing, uid) = (&self.hashing, call.peer.uid);
        hashing.hash(opened, uid, deadline, &call.cancel).await
    }

    /// Decides about consent to an opened program, by an operator's answer if there is one.
    async fn consent(
        &self,
        candidate: &Candidate<'_>,
        program: &Program,
        answer: Option<&(CommandSummary, Decided)>,
    ) -> Result<ConsentDecision, Stop> {
        let Candidate {
            call,
            command,
            policy,
            request,
            rules,
            sandbox: _,
        } = *candidate;
        let now = self.rules();
        // A grant by a configuration that was replaced since is void.
        let by_file = request.profile_granted && Arc::ptr_eq(&now, rules);
        let case = Case {
            command: &command.name,
            granted: by_file || now.grants(policy, &command.name),
            peer: &call.peer,
            policy,
            preview: call.purpose == Purpose::Preview,
            program,
            request,
            spelled: command.spelled.clone(),
        };
        match answer {
            None => self.consents.decide(&case).await,
            Some((shown, answer)) => {
                let consent = self.consents.answered(&case, shown, answer.clone()).await?;
                Ok(ConsentDecision::Run(consent))
            }
        }
    }

    /// Asks the operator, and waits for the answer.
    async fn ask(
        &self,
        question: QuestionToAsk,
        call: &Call,
    ) -> Result<(CommandSummary, Decided), Stop> {
        let QuestionToAsk {
            question,
            shown,
            wait,
        } = question;
        let wait = call.left(wait);
        call.reach(RunStage::Asking, Instant::now() + wait);
        let waiting = self.consents.pending.ask(question, wait);
        let waiting = waiting.map_err(|not_asked| shown.unanswered(Some(not_asked)))?;
        match waiting.answer(&call.cancel).await {
            Some(decided) => Ok((shown, decided)),
            None => {
                self.not_draining()?;
                Err(shown.unanswered(None).into())
            }
        }
    }

    /// Returns whether a peer may read the records of all requests. A hook may read none.
    pub(crate) fn reads_all(&self, peer: &Peer, sandbox: &Confinement) -> bool {
        let own_uid = nix::unistd::geteuid().as_raw();
        let listed = peer.uid == own_uid || self.rules().readers.contain(peer);
        listed && !sandbox.is_hook(peer)
    }

    /// Returns whether a peer is neither the daemon's own user nor listed for anything.
    pub(crate) fn is_stranger(&self, peer: &Peer) -> bool {
        let rules = self.rules();
        let listed = [&rules.callers, &rules.readers].into_iter();
        let mut listed = listed.chain(&rules.operators);
        peer.uid != nix::unistd::geteuid().as_raw() && !listed.any(|users| users.contain(peer))
    }

    /// Checks whether a peer may answer for the operator.
    ///
    /// # Errors
    ///
    /// Refuses hooks, users that are neither the daemon's own nor listed for it, and all where no consent is given at run time.
    pub(crate) fn admit_operator(&self, peer: &Peer, sandbox: &Confinement) -> Result<(), Refusal> {
        if sandbox.is_hook(peer) {
            let message = "a hook may not answer for the operator";
            return Err(Refusal::new(Reason::CallerIsAHook, message));
        }
        let rules = self.rules();
        let Some(operators) = &rules.operators else {
            let message = "`consent.runtime` is false, so no consent is given at run time; allow commands in the daemon's allowlist by `hookjail allow`";
            return Err(Refusal::new(Reason::PeerNotAllowed, message));
        };
        let own_uid = nix::unistd::geteuid().as_raw();
        if peer.uid != own_uid && !operators.contain(peer) {
            let message = format!(
                "uid {} may not answer for the operator; add it to `consent.operators`",
                peer.uid
            );
            return Err(Refusal::new(Reason::PeerNotAllowed, message));
        }
        Ok(())
    }

    fn not_draining(&self) -> Result<(), Refusal> {
        if self.draining.load(Ordering::Acquire) {
            let message = "the daemon is shutting down; retry later";
            return Err(Refusal::new(Reason::Draining, message));
        }
        Ok(())
    }

    /// Checks whether a peer is an allowed caller.
    ///
    /// # Errors
    ///
    /// Refuses hooks, and users that are neither the daemon's own nor listed.
    pub(crate) fn admit_peer(&self, peer: &Peer, sandbox: &Confinement) -> Result<(), Refusal> {
        if sandbox.is_hook(peer) {
            return Err(Refusal::new(
                Reason::CallerIsAHook,
                "a hook may not run hooks",
            ));
        }
        let own_uid = nix::unistd::geteuid().as_raw();
        let rules = self.rules();
        if peer.uid != own_uid && !rules.callers.contain(peer) {
            let uid = peer.uid;
            let message = format!("uid {uid} is not an allowed caller; add it to `server.callers`");
            let refusal = Refusal::new(Reason::PeerNotAllowed, message);
            let lines = format!("[server]\ncallers = [{uid}]");
            return Err(rules.configuration.lifted_by(refusal, &lines));
        }
        Ok(())
    }

    /// Notes an amount that a caller's run spent.
    pub(super) fn spend(&self, uid: u32, spent: Spent) {
        self.rates
            .spend(uid, spent, self.rules().rates, Instant::now());
    }

    /// Rejects a queued request whose permission or profile changed while it waited.
    fn recheck(&self, candidate: &Candidate<'_>) -> Result<(), Refusal> {
        let Candidate {
            call,
            policy,
            request,
            rules,
            sandbox,
            ..
        } = *candidate;
        let now = self.rules();
        if Arc::ptr_eq(&now, rules) {
            return Ok(());
        }
        self.admit_peer(&call.peer, sandbox)?;
        now.admit_bound(request, &call.peer)?;
        let found = now.registry.find(&policy.name);
        if found.is_none_or(|found| found.digest != policy.digest) {
            let message = format!(
                "the profile `{}` changed while the request waited; try again",
                policy.name
            );
            return Err(Refusal::new(Reason::DigestMismatch, message));
        }
        Ok(())
    }

    /// Waits for a place until the deadline, or until the caller is gone.
    async fn place(&self, call: &Call, deadline: Instant) -> Result<Place, Refusal> {
        let take = timeout_at(deadline.into(), self.places.take(call.peer.uid));
        tokio::select! {
            biased;
            () = call.cancel.cancelled() => {
                self.not_draining()?;
                Err(canceled())
            }
            taken = take => match taken {
                Ok(Ok(place)) => Ok(place),
                Ok(Err(Full { retry })) => Err(Refusal::new(
                    Reason::Overloaded,
                    "too many requests are waiting; retry later",
                )
                .after(retry)),
                Err(_) => Err(Refusal::new(
                    Reason::Deadline,
                    "the deadline passed while waiting for a place",
                )),
            },
        }
    }
}

/// A request with its profile and command, and the rules that they were found by.
struct Candidate<'a> {
    call: &'a Call,
    command: &'a FoundCommand,
    policy: &'a Arc<Policy>,
    request: &'a Request,
    rules: &'a Arc<Rules>,
    sandbox: &'a Confinement,
}

/// Refuses a request to which too many hooks led.
fn check_depth(depth: u32) -> Result<(), Refusal> {
    if depth < MAX_DEPTH {
        return Ok(());
    }
    let message = format!(
        "hook nesting depth {depth} (`HOOKJAIL_DEPTH`) is not below the maximum of {MAX_DEPTH}"
    );
    Err(Refusal::new(Reason::RecursionLimit, message))
}

/// Returns a run's wall time, bounded by the caller's own timeout.
fn bounded(timeout: Duration, call: &Call) -> Duration {
    let caller = call.caller_timeout;
    caller.map_or(timeout, |caller| timeout.min(early(caller)))
}
