//! Admission: caller's uid, consent to the hook, and capacity.

use std::{
    ffi::OsString,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::time::timeout_at;
use tokio_util::sync::CancellationToken;

use super::call::{Call, Purpose, early};
use crate::{
    consent::{
        ConsentRule, Consents, Opened, OpenedFor, Program,
        allowlist::command_line,
        decide::{ALLOW, Case, CommandSummary, ConsentDecision, QuestionToAsk, Unhashed},
        hashing::{Hashing, UNALLOWED_BYTES},
        interpreter,
        pending::Decided,
    },
    contract::{CommandStyle, Defaults},
    model::{Command, Consent, Hook, InvalidField, Peer, ProfileName, is_plain},
    pipeline::places::{Full, Place, Places},
    policy::{GrantedBy, Policy, Registry, WorkspaceRoots, forbidden::Forbidden, starts_in},
    refusal::{Fact, Reason, Refusal, Stop, canceled},
    request::Request,
    sandbox::{BackendName, Sandbox},
    sys::FileRights,
    util::{shares::Shares, swap::Current},
};

/// The maximum nesting depth of hooks. One that starts a runtime that runs hooks comes back here, and must end some
/// time.
const MAX_DEPTH: u32 = 4;

/// A request that may run.
///
/// Only [`Gate::admit`] makes one.
#[derive(Debug)]
#[must_use]
pub(crate) struct Admitted {
    /// The peer that approved it, if any.
    pub answered_by: Option<Peer>,
    /// The call of the request.
    pub call: Call,
    /// The command as the allowlist spells it.
    pub command: String,
    /// The consent by which it may run.
    pub consent: Consent,
    /// The deadline of the run.
    pub deadline: Instant,
    pub(super) place: Place,
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

/// The operator's configuration of one command.
#[derive(Clone, Debug)]
pub(crate) struct OperatorHook {
    /// The command, as the allowlist spells it.
    pub command: String,
    /// Profiles that only an operator can grant.
    pub profiles: Vec<ProfileName>,
    /// Its wall time where a request names none.
    pub timeout: Option<Duration>,
}

/// Parts of a [`Gate`].
#[derive(Debug)]
pub(crate) struct GateParts {
    /// The rule of consent.
    pub consent: ConsentRule,
    /// The memory limit of requests in work, bytes. It is for their messages and the kept output of their hooks.
    pub max_bytes: usize,
    /// The maximum number of running hooks.
    pub max_concurrent: usize,
    /// The maximum number of queued requests.
    pub max_queued: usize,
    /// The configuration that can be reloaded.
    pub rules: Rules,
}

/// The operator's configuration file, present or not.
#[derive(Clone, Debug, Default)]
pub(crate) struct Configuration {
    /// Whether the command line had to name it. A command that uses it has to name it too.
    pub is_named: bool,
    /// Its path; `None` if it has no default place.
    pub path: Option<PathBuf>,
}

impl Configuration {
    /// Adds the configuration lines and file that would lift a refusal. They are facts for an operator.
    pub(crate) fn lifted_by(&self, refusal: Refusal, lines: &str) -> Refusal {
        let refusal = refusal.with(Fact::Configure(lines.into()));
        match &self.path {
            Some(path) => refusal.with(Fact::Configuration(path.display().to_string())),
            None => refusal,
        }
    }

    /// Adds configuration path and user to the command that would lift a refusal.
    fn tell_how(&self, mut refusal: Refusal, uid: u32) -> Refusal {
        let Some(approve) = refusal.approve() else {
            return refusal;
        };
        if let Some(file) = self.path.as_ref().filter(|_| self.is_named)
            && let Some(file) = command_line(&[file.into()])
            && let Some(rest) = approve.strip_prefix(ALLOW)
        {
            let approve = format!("{ALLOW}--config {file} {rest}");
            refusal = refusal.with(Fact::Approve(approve));
        }
        match nix::unistd::geteuid().as_raw() {
            own if own == uid => refusal,
            0 => refusal.with(Fact::ApproveAs("root".into())),
            own => refusal.with(Fact::ApproveAs(format!("uid {own}"))),
        }
    }
}

/// The reloadable configuration of a [`Gate`].
#[derive(Debug)]
pub(crate) struct Rules {
    /// Allowed uids of callers, besides the daemon's own.
    pub allowed_uids: Vec<u32>,
    /// Uids that may read the records of all requests, besides the daemon's own.
    pub audit_uids: Vec<u32>,
    /// The file of the configuration.
    pub configuration: Configuration,
    /// Uids that may answer for the operator, besides the daemon's own.
    pub consent_uids: Vec<u32>,
    /// The daemon's own directories: no workspace may hold them or lie in them.
    pub forbidden: Forbidden,
    /// The operator's configuration of commands.
    pub hooks: Vec<OperatorHook>,
    /// The profiles.
    pub registry: Registry,
    /// Below which directories a workspace may lie.
    pub workspace_roots: WorkspaceRoots,
}

impl Rules {
    /// Returns the uids of allowed callers.
    fn may_ask(&self) -> Vec<u32> {
        let own = nix::unistd::geteuid().as_raw();
        let mut uids: Vec<_> = self.allowed_uids.iter().copied().chain([own]).collect();
        uids.sort_unstable();
        uids.dedup();
        uids
    }

    /// Returns whether a command may have a profile without consent under it. The profile is open to every caller, or
    /// the configuration grants it.
    fn grants(&self, policy: &Policy, command: &str) -> bool {
        let mut hooks = self.hooks.iter().filter(|hook| hook.command == command);
        policy.granted_by != GrantedBy::Operator
            || hooks.any(|hook| hook.profiles.contains(&policy.name))
    }

    /// Decides about the directories that a request binds.
    fn admit_bound(&self, request: &Request, peer: &Peer) -> Result<(), Refusal> {
        let Hook {
            source, workspace, ..
        } = &request.hook;
        let bound = [("hook.source", source), ("hook.workspace", workspace)];
        for (field, directory) in bound {
            if let Some(directory) = directory {
                self.admit_directory(field, directory, peer)?;
            }
        }
        Ok(())
    }

    /// Checks a directory with the caller's rights. What the caller cannot reach is refused alike whether it exists or
    /// not.
    fn admit_directory(
        &self,
        name: &'static str,
        directory: &Path,
        peer: &Peer,
    ) -> Result<(), Refusal> {
        let shown = directory.display();
        let field = |problem: String| Refusal::from(InvalidField::new(name, problem));
        let admitted = self.workspace_roots.admit(directory);
        admitted.map_err(|problem| {
            let root = toml::Value::from(shown.to_string());
            let lines = format!("[hooks]\nworkspace_roots = [{root}]");
            let refusal = field(format!("`{shown}` {problem}"));
            self.configuration.lifted_by(refusal, &lines)
        })?;
        let reached = {
            let _as_caller = FileRights::of(peer.uid, peer.gid);
            self.forbidden.reached_by(directory)
        };
        match reached {
            Ok(None) => Ok(()),
            Ok(Some(own)) => Err(field(format!(
                "`{shown}` and the daemon's own `{}` lie in each other; choose a smaller directory",
                own.display()
            ))),
            Err(error) => {
                let what = format_args!("`{shown}` cannot be examined");
                Err(Refusal::failed(what, &error, field))
            }
        }
    }

    /// Returns whether a directory that the request does not name may be bound. An event names it; where it may not be
    /// bound, it is left alone and not refused.
    pub(crate) fn may_bind(&self, directory: &Path, peer: &Peer) -> bool {
        if !is_plain(directory) || self.workspace_roots.admit(directory).is_err() {
            return false;
        }
        let _as_caller = FileRights::of(peer.uid, peer.gid);
        matches!(self.forbidden.reached_by(directory), Ok(None)) && directory.is_dir()
    }
}

/// Decides about requests.
#[derive(Debug)]
pub(crate) struct Gate {
    consents: Consents,
    draining: AtomicBool,
    hashing: Hashing,
    memory: Arc<Shares>,
    places: Arc<Places>,
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
        places.entitle(rules.may_ask());
        Self {
            consents: Consents::new(consent),
            draining: AtomicBool::new(false),
            hashing: Hashing::default(),
            memory: Arc::new(Shares::new(max_bytes)),
            places,
            rules: Current::new(rules),
        }
    }

    /// Returns the current rules.
    pub(crate) fn rules(&self) -> Arc<Rules> {
        self.rules.get()
    }

    /// Replaces the rules. What was admitted before runs under the old ones.
    pub(crate) fn go_by(&self, rules: Rules) {
        self.places.entitle(rules.may_ask());
        self.rules.replace(rules);
    }

    /// Refuses all requests from now on, those that wait for an operator's answer too.
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

    /// Decides whether a request may run, waits for a place, opens its program.
    ///
    /// # Errors
    ///
    /// Refuses callers, profiles, time limits, programs and commands that may not; see [`Reason`].
    pub(crate) async fn admit(
        &self,
        call: Call,
        request: Box<Request>,
        sandbox: &Sandbox,
    ) -> Result<Admitted, Stop> {
        let uid = call.peer.uid;
        let admitted = self.decide(call, request, sandbox).await;
        admitted.map_err(|stop| match stop {
            Stop::Refusal(refusal) => self.rules().configuration.tell_how(refusal, uid).into(),
            Stop::Fault(fault) => Stop::Fault(fault),
        })
    }

    async fn decide(
        &self,
        call: Call,
        request: Box<Request>,
        sandbox: &Sandbox,
    ) -> Result<Admitted, Stop> {
        self.not_draining()?;
        self.admit_peer(&call.peer, sandbox)?;
        if request.depth >= MAX_DEPTH {
            let message = format!(
                "{} hooks led to this one (`HOOKJAIL_DEPTH`), and {MAX_DEPTH} is all there may be",
                request.depth
            );
            return Err(Refusal::new(Reason::RecursionLimit, message).into());
        }
        let rules = self.rules();
        rules.admit_bound(&request, &call.peer)?;
        let name = request
            .profile
            .clone()
            .or_else(|| ProfileName::parse(defaults(&request).profile));
        let policy = name
            .as_ref()
            .and_then(|name| rules.registry.find(name))
            .ok_or_else(|| {
                let name = name.map_or_else(String::new, |name| name.to_string());
                let message = match BackendName::parse(&name) {
                    None => format!("there is no profile `{name}`; see `hookjail profile list`"),
                    Some(backend) => format!(
                        "`{backend}` is a backend and no profile; which backend serves a profile is for the operator to say, in the configuration's `backends`"
                    ),
                };
                Refusal::new(Reason::ProfileUnknown, message)
            })?;
        let spelled = argv(&request)?;
        let argv = rooted(&spelled, &request.hook);
        let view = sandbox.view(&policy.files);
        let path = Program::find(&argv, &policy.environment.path, view)?;
        // As a consent names it: by the program's path, however the request does.
        let mut named = argv.clone();
        named[0] = path.clone().into_os_string();
        let command = command_line(&named).ok_or_else(|| {
            InvalidField::new(
                "hook.argv",
                "is not UTF-8, so no consent can be recorded for it",
            )
        })?;
        let configured = rules.hooks.iter().find(|hook| hook.command == command);
        let sought = Unhashed {
            command: &command,
            granted: request.profile_granted || rules.grants(policy, &command),
            policy,
            preview: call.purpose == Purpose::Preview,
            request: &request,
        };
        let timeout = timeout(&request, configured, policy)?;
        let opened_for = if sandbox.switches_uid() {
            OpenedFor::Peer(&call.peer)
        } else {
            OpenedFor::Oneself
        };
        let mut answer: Option<(CommandSummary, Decided)> = None;
        let mut asking = Duration::ZERO;
        let mut queued = Duration::ZERO;
        loop {
            // An operator's time to answer is not the hook's.
            let timeout = bounded(timeout + asking, &call);
            let deadline = call.arrived + timeout;
            let waiting = Instant::now();
            let place = self.place(&call, deadline).await?;
            queued += waiting.elapsed();
            self.as_before(&rules, policy, (&call, &request), sandbox)?;
            let starts_in = starts_in(policy, &request.hook);
            let data = self.consents.data(&command, policy);
            let opened = Program::open(path.clone(), &argv, &data, starts_in, opened_for, view)?;
            let unknown_bytes = opened.unknown_bytes(self.hashing.cache());
            if unknown_bytes > UNALLOWED_BYTES && !self.consents.may_run(&sought)? {
                return Err(sought.refuse().into());
            }
            let (hashing, uid) = (&self.hashing, call.peer.uid);
            let program = hashing.hash(opened, uid, deadline, &call.cancel).await?;
            let now = self.rules();
            // What a configuration grants that has been replaced since counts no more.
            let by_file = request.profile_granted && Arc::ptr_eq(&now, &rules);
            let case = Case {
                command: &command,
                granted: by_file || now.grants(policy, &command),
                peer: &call.peer,
                policy,
                preview: call.purpose == Purpose::Preview,
                program: &program,
                request: &request,
                spelled: command_line(&spelled),
            };
            let decree = match &answer {
                None => self.consents.decide(&case).await?,
                Some((shown, answer)) => {
                    ConsentDecision::Run(self.consents.answered(&case, shown, *answer).await?)
                }
            };
            let QuestionToAsk {
                question,
                shown,
                wait,
            } = match decree {
                ConsentDecision::Ask(asking) => *asking,
                ConsentDecision::Run(consent) => {
                    return Ok(Admitted {
                        answered_by: answer.map(|(_, decided)| decided.by),
                        call,
                        command,
                        consent,
                        deadline,
                        place,
                        policy: Arc::clone(policy),
                        program,
                        queued,
                        request,
                        timeout,
                    });
                }
            };
            // Others run meanwhile, and the files may change: all of this is done again with the answer.
            drop((place, program));
            let began = Instant::now();
            let waiting = self.consents.pending.ask(question, call.left(wait));
            let waiting = waiting.map_err(|not_asked| shown.unanswered(Some(not_asked)))?;
            let Some(decided) = waiting.answer(&call.cancel).await else {
                self.not_draining()?;
                return Err(shown.unanswered(None).into());
            };
            asking += began.elapsed();
            queued += began.elapsed();
            answer = Some((shown, decided));
        }
    }

    /// Returns whether a peer may read the records of all requests. A hook may read none.
    pub(crate) fn reads_all(&self, peer: &Peer, sandbox: &Sandbox) -> bool {
        let own = nix::unistd::geteuid().as_raw();
        let listed = peer.uid == own || self.rules().audit_uids.contains(&peer.uid);
        listed && !sandbox.is_hook(peer)
    }

    /// Returns whether a peer has no permission at all. It is neither the daemon's own user nor listed for anything.
    pub(crate) fn is_stranger(&self, peer: &Peer) -> bool {
        let rules = self.rules();
        let mut listed = [&rules.allowed_uids, &rules.audit_uids, &rules.consent_uids].into_iter();
        peer.uid != nix::unistd::geteuid().as_raw() && !listed.any(|uids| uids.contains(&peer.uid))
    }

    /// Checks whether a peer may answer for the operator.
    ///
    /// # Errors
    ///
    /// Refuses hooks, and users that are neither the daemon's own nor listed for it.
    pub(crate) fn admit_operator(&self, peer: &Peer, sandbox: &Sandbox) -> Result<(), Refusal> {
        if sandbox.is_hook(peer) {
            let message = "a hook may not answer for the operator";
            return Err(Refusal::new(Reason::CallerIsAHook, message));
        }
        let own = nix::unistd::geteuid().as_raw();
        if peer.uid != own && !self.rules().consent_uids.contains(&peer.uid) {
            let message = format!(
                "uid {} may not answer for the operator; add it to `consent.uids`",
                peer.uid
            );
            return Err(Refusal::new(Reason::PeerNotAllowed, message));
        }
        Ok(())
    }

    fn not_draining(&self) -> Result<(), Refusal> {
        if self.draining.load(Ordering::Acquire) {
            let message = "the daemon is shutting down; ask again later";
            return Err(Refusal::new(Reason::Draining, message));
        }
        Ok(())
    }

    /// Checks whether a peer is an allowed caller.
    ///
    /// # Errors
    ///
    /// Refuses hooks, and users that are neither the daemon's own nor listed.
    pub(crate) fn admit_peer(&self, peer: &Peer, sandbox: &Sandbox) -> Result<(), Refusal> {
        if sandbox.is_hook(peer) {
            return Err(Refusal::new(
                Reason::CallerIsAHook,
                "a hook may not run hooks",
            ));
        }
        let own = nix::unistd::geteuid().as_raw();
        let rules = self.rules();
        if peer.uid != own && !rules.allowed_uids.contains(&peer.uid) {
            let uid = peer.uid;
            let message = format!("uid {uid} may not ask; add it to `server.allowed_uids`");
            let refusal = Refusal::new(Reason::PeerNotAllowed, message);
            let lines = format!("[server]\nallowed_uids = [{uid}]");
            return Err(rules.configuration.lifted_by(refusal, &lines));
        }
        Ok(())
    }

    /// Rejects a queued request whose permission changed while it waited. It has not begun.
    fn as_before(
        &self,
        before: &Arc<Rules>,
        policy: &Policy,
        (call, request): (&Call, &Request),
        sandbox: &Sandbox,
    ) -> Result<(), Refusal> {
        let now = self.rules();
        if Arc::ptr_eq(&now, before) {
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
                    "too many requests are waiting; ask again later",
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

/// Returns the wall time that a caller leaves of a run's.
fn bounded(timeout: Duration, call: &Call) -> Duration {
    let caller = call.caller_timeout;
    caller.map_or(timeout, |caller| timeout.min(early(caller)))
}

/// Returns program and arguments; splits a command line by the contract's rules.
fn argv(request: &Request) -> Result<Vec<OsString>, InvalidField> {
    match &request.hook.command {
        Command::Argv(argv) => Ok(argv.clone()),
        Command::Line { shell, text } => match (defaults(request).command, shell) {
            (CommandStyle::Argv, None) => request.contract.split(text),
            (CommandStyle::Argv, Some(_)) => {
                let problem = format!(
                    "is not used by contract `{}`: it runs no shell",
                    request.contract.contract_name()
                );
                Err(InvalidField::new("hook.shell.shell", problem))
            }
            (CommandStyle::Shell { program, option }, shell) => {
                let program = shell.as_deref().unwrap_or(Path::new(program));
                Ok(vec![program.into(), option.into(), text.into()])
            }
        },
    }
}

/// Makes the program's relative path absolute. Where the operator configures a base of relative paths, so is the script
/// of an interpreter.
fn rooted(argv: &[OsString], hook: &Hook) -> Vec<OsString> {
    let mut rooted = argv.to_vec();
    let workspace = hook.workspace.as_ref().filter(|_| hook.at_workspace);
    let Some(from) = hook.base.as_ref().or(workspace) else {
        return rooted;
    };
    let join = |word: &OsString| {
        let joined: PathBuf = from.join(word).components().collect();
        (Path::new(word).is_relative() && is_plain(&joined)).then(|| joined.into_os_string())
    };
    if let Some(program) = rooted.first_mut()
        && program.as_bytes().contains(&b'/')
        && let Some(joined) = join(program)
    {
        *program = joined;
    }
    if hook.base.is_some() {
        // Other words are found where the hook starts, which is where its runtime has it start.
        for script in interpreter::scripts(argv) {
            if let Some(joined) = join(&argv[script]) {
                rooted[script] = joined;
            }
        }
    }
    rooted
}

/// Returns the defaults of the request's contract.
fn defaults(request: &Request) -> Defaults {
    request.contract.defaults(&request.event.point)
}

/// Returns the wall time of a run. It is the request's, else the hook's, else the contract's, else the profile's.
fn timeout(
    request: &Request,
    configured: Option<&OperatorHook>,
    policy: &Policy,
) -> Result<Duration, InvalidField> {
    let timeout = request
        .timeout
        .or_else(|| configured.and_then(|hook| hook.timeout))
        .or(defaults(request).timeout)
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn how_a_refusal_is_lifted_is_true_for_who_reads_it() {
        let own = nix::unistd::geteuid().as_raw();
        let told = |is_named, uid| {
            let configuration = Configuration {
                is_named,
                path: Some("/etc/a file".into()),
            };
            let refusal = Refusal::new(Reason::ConsentRequired, "no")
                .with(Fact::Approve("hookjail consent allow -- /bin/true".into()));
            let refusal = configuration.tell_how(refusal, uid);
            let approve_as = refusal.facts.iter().find_map(|fact| {
                if let Fact::ApproveAs(who) = fact {
                    Some(who.clone())
                } else {
                    None
                }
            });
            (refusal.approve().unwrap().to_owned(), approve_as)
        };
        let usual = "hookjail consent allow -- /bin/true".to_owned();
        let named = "hookjail consent allow --config '/etc/a file' -- /bin/true".to_owned();
        let operator = match own {
            0 => "root".to_owned(),
            uid => format!("uid {uid}"),
        };
        assert_eq!(told(false, own), (usual.clone(), None));
        assert_eq!(told(true, own), (named, None));
        assert_eq!(told(false, own + 1), (usual, Some(operator)));
    }

    #[test]
    fn relative_programs_and_scripts_start_where_the_operator_says_and_else_programs_in_the_workspace()
     {
        let hook = |base: Option<&str>, workspace: Option<&str>, at_workspace| Hook {
            source: None,
            at_workspace,
            base: base.map(PathBuf::from),
            command: Command::Argv(Vec::new()),
            configured_env: BTreeMap::new(),
            env: BTreeMap::new(),
            name: String::new(),
            working_dir: None,
            workspace: workspace.map(PathBuf::from),
        };
        let rooted = |line: &str, hook: &Hook| {
            let argv: Vec<_> = line.split(' ').map(OsString::from).collect();
            command_line(&rooted(&argv, hook)).unwrap()
        };
        let in_base = hook(Some("/base"), Some("/w"), true);
        let in_workspace = hook(None, Some("/w"), true);
        let nowhere = hook(None, Some("/w"), false);
        for (line, base, workspace) in [
            ("./a/x b/c", "/base/a/x b/c", "/w/a/x b/c"),
            ("a/x", "/base/a/x", "/w/a/x"),
            ("python3 a/x.py b.py", "/base/a/x.py b.py", "a/x.py b.py"),
            ("x a/y", "x a/y", "x a/y"),
            ("/x a/y", "/x a/y", "/x a/y"),
            ("../x", "../x", "../x"),
        ] {
            let whole = |text: &str| match line.strip_prefix("python3 ") {
                Some(_) => format!("python3 {text}"),
                None => text.to_owned(),
            };
            assert_eq!(rooted(line, &in_base), whole(base));
            assert_eq!(rooted(line, &in_workspace), whole(workspace));
            assert_eq!(rooted(line, &nowhere), line);
        }
    }
}
