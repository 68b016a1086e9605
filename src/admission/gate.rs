//! Who may ask, whether this hook may run, and whether there is room.

use std::{
    ffi::OsString,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use jiff::Timestamp;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    time::timeout_at,
};
use tokio_util::sync::CancellationToken;

use super::{
    Peer,
    allowlist::{self, Allowlist, Check, Entry, command_line},
    digest::DigestCache,
    program::{OpenedFor, Program},
};
use crate::{
    audit::record::Consent,
    policy::{GrantedBy, Policy, Registry, forbidden::Forbidden},
    process::Chunk,
    refusal::{Fault, Reason, Refusal, Stop, chain},
    request::{Command, InvalidField, ProfileName, Request},
    sandbox::Sandbox,
};

/// How much earlier than the caller's own timer a run ends, so that the answer still arrives: the server library answers
/// for us once that timer has fired.
const ANSWER_EARLY: Duration = Duration::from_millis(100);

/// What accompanies a request.
#[derive(Debug)]
pub struct Call {
    /// When it arrived.
    pub arrived: Instant,
    /// Ends the run when cancelled.
    pub cancel: CancellationToken,
    /// How long the caller waits, if it says so.
    pub caller_timeout: Option<Duration>,
    /// Where output goes as it comes.
    pub chunks: Option<mpsc::Sender<Chunk>>,
    /// Who asks.
    pub peer: Peer,
    /// This run's id.
    pub run_id: String,
}

/// A request that may run.
///
/// Only [`Gate::admit`] makes one.
#[derive(Debug)]
#[must_use]
pub struct Admitted {
    /// What accompanied the request.
    pub call: Call,
    /// The command as the allowlist spells it.
    pub command: String,
    /// Why it may run.
    pub consent: Consent,
    /// When it ends at the latest.
    pub deadline: Instant,
    /// The profile as configured.
    pub policy: Arc<Policy>,
    /// The program, opened.
    pub program: Program,
    /// How long it waited for a place.
    pub queued: Duration,
    /// The request.
    pub request: Request,
    /// The wall time from arrival to `deadline`.
    pub timeout: Duration,
    _place: Place,
}

/// A place among the running hooks; free again when dropped.
#[derive(Debug)]
struct Place {
    _permit: OwnedSemaphorePermit,
}

/// How hooks come to be allowed.
#[derive(Clone, Debug)]
pub enum ConsentRule {
    /// By the allowlist at this path, or `HOOKJAIL_ACCEPT_HOOKS=1`.
    Allowlist {
        /// Whether unknown commands are recorded and run.
        accept_all: bool,
        /// The file.
        path: PathBuf,
    },
    /// The operator typed this run's command.
    Typed,
}

/// What the operator says about one command.
#[derive(Clone, Debug)]
pub struct OperatorHook {
    /// The command, as the allowlist spells it.
    pub command: String,
    /// Profiles that only an operator can grant.
    pub profiles: Vec<ProfileName>,
    /// Its wall time where a request names none.
    pub timeout: Option<Duration>,
}

/// What a [`Gate`] is made of.
#[derive(Debug)]
pub struct GateParts {
    /// Uids that may ask, besides the daemon's own.
    pub allowed_uids: Vec<u32>,
    /// How hooks come to be allowed.
    pub consent: ConsentRule,
    /// The daemon's own directories: no workspace may hold them or lie in them.
    pub forbidden: Forbidden,
    /// What the operator says about commands.
    pub hooks: Vec<OperatorHook>,
    /// How many hooks run at once.
    pub max_concurrent: usize,
    /// How many requests wait for a place.
    pub max_queued: usize,
    /// The profiles.
    pub registry: Registry,
    /// Below which directories a workspace may lie.
    pub workspace_roots: Vec<PathBuf>,
}

/// Decides about requests.
#[derive(Debug)]
pub struct Gate {
    digests: DigestCache,
    draining: AtomicBool,
    /// Serialises "not on the list, accept all" within this daemon.
    allowlist: allowlist::Reader,
    recording: Mutex<()>,
    parts: GateParts,
    places: Arc<Semaphore>,
    queued: AtomicUsize,
}

impl Gate {
    /// Makes a gate.
    pub fn new(parts: GateParts) -> Self {
        let places = Arc::new(Semaphore::new(parts.max_concurrent));
        Self {
            digests: DigestCache::default(),
            draining: AtomicBool::new(false),
            parts,
            places,
            queued: AtomicUsize::new(0),
            allowlist: allowlist::Reader::default(),
            recording: Mutex::default(),
        }
    }

    /// Returns the profiles.
    pub const fn registry(&self) -> &Registry {
        &self.parts.registry
    }

    /// Refuses all requests from now on.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Release);
    }

    /// Returns how many hooks run.
    pub fn running(&self) -> usize {
        self.parts.max_concurrent - self.places.available_permits()
    }

    /// Decides whether a request may run, waits for a place, opens its program.
    ///
    /// # Errors
    ///
    /// Refuses callers, profiles, time limits, programs and commands that may not; see [`Reason`].
    pub async fn admit(
        &self,
        call: Call,
        request: Request,
        sandbox: &Sandbox,
    ) -> Result<Admitted, Stop> {
        if self.draining.load(Ordering::Acquire) {
            return Err(Refusal::new(
                Reason::Draining,
                "the daemon is shutting down; ask again later",
            )
            .into());
        }
        self.admit_peer(&call.peer, sandbox)?;
        self.admit_workspace(&request)?;
        let name = request
            .profile
            .clone()
            .or_else(|| ProfileName::parse(request.contract.defaults().profile));
        let policy = name
            .as_ref()
            .and_then(|name| self.parts.registry.find(name))
            .ok_or_else(|| {
                let name = name.map_or_else(String::new, |name| name.to_string());
                Refusal::new(
                    Reason::ProfileUnknown,
                    format!("there is no profile `{name}`; see `hookjail profile list`"),
                )
            })?;
        let argv = argv(&request)?;
        let path = Program::find(&argv, &policy.environment.path)?;
        // As a consent names it: by the program's path, however the request does.
        let mut named = argv.clone();
        named[0] = path.clone().into_os_string();
        let command = command_line(&named).ok_or_else(|| {
            InvalidField::new(
                "hook.argv",
                "is not UTF-8, so no consent can be recorded for it",
            )
        })?;
        let configured = self.parts.hooks.iter().find(|hook| hook.command == command);
        let timeout = timeout(&request, configured, policy)?;
        let timeout = call
            .caller_timeout
            .map_or(timeout, |caller| timeout.min(early(caller)));
        let deadline = call.arrived + timeout;

        let waiting = Instant::now();
        let place = self.place(deadline).await?;
        let queued = waiting.elapsed();

        let opened_for = if sandbox.switches_uid() {
            OpenedFor::Peer(&call.peer)
        } else {
            OpenedFor::Oneself
        };
        let program = Program::open(path, &argv, &self.digests, opened_for)?;
        if policy.granted_by == GrantedBy::Operator
            && !configured.is_some_and(|hook| hook.profiles.contains(&policy.name))
        {
            let message = format!(
                "profile `{0}` is granted by the operator for each hook; add a `[[hook]]` with this command and \
                 `profiles = [\"{0}\"]` to the configuration",
                policy.name
            );
            return Err(Refusal::new(Reason::NotAllowlisted, message)
                .with("command", command)
                .into());
        }
        let consent = self.consent(&command, &program, policy, &call.peer)?;
        Ok(Admitted {
            _place: place,
            call,
            command,
            consent,
            deadline,
            policy: Arc::clone(policy),
            program,
            queued,
            request,
            timeout,
        })
    }

    /// Decides who may ask at all.
    ///
    /// # Errors
    ///
    /// Refuses hooks, and users that are neither the daemon's own nor listed.
    pub fn admit_peer(&self, peer: &Peer, sandbox: &Sandbox) -> Result<(), Refusal> {
        if sandbox.is_hook(peer) {
            return Err(Refusal::new(
                Reason::CallerIsAHook,
                "a hook may not run hooks",
            ));
        }
        let own = nix::unistd::geteuid().as_raw();
        if peer.uid != own && !self.parts.allowed_uids.contains(&peer.uid) {
            let message = format!(
                "uid {} may not ask; add it to `server.allowed_uids`",
                peer.uid
            );
            return Err(Refusal::new(Reason::PeerNotAllowed, message));
        }
        Ok(())
    }

    fn admit_workspace(&self, request: &Request) -> Result<(), InvalidField> {
        let Some(workspace) = &request.hook.workspace else {
            return Ok(());
        };
        let shown = workspace.display();
        let field = |problem: String| Err(InvalidField::new("hook.workspace", problem));
        if !self
            .parts
            .workspace_roots
            .iter()
            .any(|root| workspace.starts_with(root))
        {
            return field(format!(
                "`{shown}` lies below no root of `hooks.workspace_roots`"
            ));
        }
        match self.parts.forbidden.reached_by(workspace) {
            Ok(None) => Ok(()),
            Ok(Some(own)) => field(format!(
                "`{shown}` and the daemon's own `{}` lie in each other; choose a smaller workspace",
                own.display()
            )),
            Err(error) => field(format!("`{shown}` cannot be examined: {error}")),
        }
    }

    async fn place(&self, deadline: Instant) -> Result<Place, Refusal> {
        if let Ok(permit) = Arc::clone(&self.places).try_acquire_owned() {
            return Ok(Place { _permit: permit });
        }
        let full = || {
            Refusal::new(
                Reason::Overloaded,
                "too many requests are waiting; ask again later",
            )
        };
        let _waiting = Waiting::enter(&self.queued, self.parts.max_queued).ok_or_else(full)?;
        match timeout_at(deadline.into(), Arc::clone(&self.places).acquire_owned()).await {
            Ok(Ok(permit)) => Ok(Place { _permit: permit }),
            Ok(Err(_)) => Err(full()),
            Err(_) => Err(Refusal::new(
                Reason::Deadline,
                "the deadline passed while waiting for a place",
            )),
        }
    }

    fn consent(
        &self,
        command: &str,
        program: &Program,
        policy: &Policy,
        peer: &Peer,
    ) -> Result<Consent, Stop> {
        let (accept_all, path) = match &self.parts.consent {
            ConsentRule::Typed => return Ok(Consent::Typed),
            ConsentRule::Allowlist { accept_all, path } => (*accept_all, path),
        };
        let profile = policy.name.as_str();
        // Without a list that can be read and trusted, nothing is allowed.
        let list = self.allowlist.load(path).map_err(|error| {
            let why = chain(&error);
            tracing::error!(error = why, "allowlist cannot be used");
            Refusal::new(Reason::ConsentRequired, why).with("allowlist", path.display().to_string())
        })?;
        let found = list.check(command, &program.digests, profile, Timestamp::now());
        let approve = format!("hookjail consent allow --profile {profile} -- {command}");
        let refuse = |reason, message: String| {
            let digests: Vec<_> = program
                .digests
                .iter()
                .map(|d| format!("{}:{}", d.path, d.sha256))
                .collect();
            Refusal::new(reason, format!("{message}; to allow it: {approve}"))
                .with("approve", approve.clone())
                .with("command", command)
                .with("digests", digests.join(" "))
                .with("profile", profile)
        };
        match found {
            Check::Hit => Ok(Consent::Allowlist),
            Check::Changed { path, role } => {
                let message = format!(
                    "`{path}` ({}) changed since the command was allowed",
                    role.name()
                );
                Err(refuse(Reason::DigestMismatch, message).into())
            }
            Check::Expired | Check::Missing | Check::Unpinned { .. } if accept_all => {
                // Two requests for the same new command must not both rewrite the file.
                let _recording = self
                    .recording
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                let approved_by = format!("HOOKJAIL_ACCEPT_HOOKS for {peer}");
                let entry = Entry::new(
                    command.to_owned(),
                    program.digests.clone(),
                    profile.to_owned(),
                    approved_by,
                );
                Allowlist::record(path, entry)
                    .map_err(|error| Fault::new("cannot record a consent", error))?;
                tracing::warn!(command, profile, "hook allowed by HOOKJAIL_ACCEPT_HOOKS");
                Ok(Consent::Environment)
            }
            Check::Expired => Err(refuse(
                Reason::ConsentRequired,
                "the consent has expired".to_owned(),
            )
            .into()),
            Check::Missing => {
                let message = "nobody has allowed this command under this profile".to_owned();
                Err(refuse(Reason::ConsentRequired, message).into())
            }
            Check::Unpinned { .. } => {
                let message = "the consent is bound to no content".to_owned();
                Err(refuse(Reason::ConsentRequired, message).into())
            }
        }
    }
}

/// One request in the queue.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn enter(queued: &'a AtomicUsize, max: usize) -> Option<Self> {
        let entered = queued.fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| {
            (n < max).then_some(n + 1)
        });
        // Lazily: a value that is made and dropped would give back a place that was never taken.
        entered.is_ok().then(|| Self(queued))
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Returns program and arguments; a command line becomes words as the contract says.
fn argv(request: &Request) -> Result<Vec<OsString>, InvalidField> {
    match &request.hook.command {
        Command::Argv(argv) => Ok(argv.clone()),
        Command::Line { shell: None, text } => request.contract.split(text),
        Command::Line { shell: Some(_), .. } => {
            let problem = format!(
                "is not used by contract `{}`: it runs no shell",
                request.contract.contract_name()
            );
            Err(InvalidField::new("hook.shell.shell", problem))
        }
    }
}

/// Returns the wall time of a run: the request's, else the hook's, else the contract's, else the profile's.
fn timeout(
    request: &Request,
    configured: Option<&OperatorHook>,
    policy: &Policy,
) -> Result<Duration, InvalidField> {
    let timeout = request
        .timeout
        .or_else(|| configured.and_then(|hook| hook.timeout))
        .or(request.contract.defaults().timeout)
        .unwrap_or(policy.time.default);
    if timeout > policy.time.maximum {
        let problem = format!(
            "is {timeout:?}; profile `{}` allows at most {:?}",
            policy.name, policy.time.maximum
        );
        return Err(InvalidField::new("timeout", problem));
    }
    Ok(timeout)
}

/// Returns what is left of the caller's time if the answer is to arrive before it is over.
fn early(caller: Duration) -> Duration {
    caller.saturating_sub(ANSWER_EARLY.min(caller / 4))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_leave_before_the_callers_timer_fires() {
        assert_eq!(early(Duration::from_secs(10)), Duration::from_millis(9_900));
        assert_eq!(early(Duration::from_millis(40)), Duration::from_millis(30));
    }

    #[test]
    fn the_queue_takes_no_more_than_its_bound_and_gives_places_back() {
        let queued = AtomicUsize::new(0);
        let first = Waiting::enter(&queued, 1).unwrap();
        assert!(Waiting::enter(&queued, 1).is_none());
        drop(first);
        assert!(Waiting::enter(&queued, 1).is_some());
    }
}
