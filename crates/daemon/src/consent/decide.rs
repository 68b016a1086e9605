//! Decides whether a command may run: by allowlist, environment, or an operator's answer.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::{
    sync::{Mutex, OwnedMutexGuard},
    task::spawn_blocking,
};
use tokio_util::sync::CancellationToken;

use hookjail_base::{
    model::{Backing, Consent, Hook, Peer, command_line},
    refusal::{Fact, Fault, Reason, Refusal, Stop, chain},
};
use hookjail_policy::{Policy, References, starts_in};
use hookjail_sandbox::program::{Digest, Program, Role, Script, only_roots, roots_alone};
use hookjail_sys::FileRights;

use super::{
    allowlist::{self, Allowlist, AllowlistError, Check, Entry, WithData, difference},
    approved::Approved,
    lookup::{Consented, Sought, lookup},
    pending::{Decided, NotAsked, OperatorAnswer, Pending, Question, Subject},
    trees::Trees,
};
use crate::request::Request;

/// The largest difference between modification times that count as equal, seconds.
const SAME_TIME: f64 = 0.01;

/// The rule by which hooks are allowed.
#[derive(Clone, Debug)]
pub enum ConsentRule {
    /// By the operator, beforehand or by answering a question.
    Operator(Operator),
    /// By the user who started this process for the command.
    Given(Consent),
}

/// The operator's means of allowing commands.
#[derive(Clone, Debug)]
pub struct Operator {
    /// Whether commands without a consent are recorded and run.
    pub accept_all: bool,
    /// The allowlist.
    pub allowlist: PathBuf,
    /// By which approved profiles are read.
    pub references: References,
    /// The runtimes' own settings, by contract; each applies to hooks of that contract.
    pub own: BTreeMap<&'static str, OwnSettings>,
    /// How long a question may stay open.
    pub wait: Duration,
}

/// A runtime's settings for commands of its hooks.
#[derive(Clone, Debug, Default)]
pub struct OwnSettings {
    /// As [`Operator::accept_all`].
    pub accept_all: bool,
    /// Its own allowlist.
    pub allowlist: Option<PathBuf>,
}

impl Operator {
    /// Returns the settings of a request's runtime.
    fn runtime_settings(&self, request: &Request) -> Option<&OwnSettings> {
        self.own.get(request.contract.facts().contract)
    }

    /// Returns the runtimes' own allowlists, by contract.
    fn own_allowlists(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let settings = self.own.iter();
        settings
            .filter_map(|(contract, settings)| Some((*contract, settings.allowlist.as_deref()?)))
    }

    /// Returns whether every command of the request's contract is accepted.
    fn accepts(&self, request: &Request) -> bool {
        self.accept_all
            || self
                .runtime_settings(request)
                .is_some_and(|settings| settings.accept_all)
    }
}

/// Decisions about commands: by allowlist and environment, else by a question to the operator.
#[derive(Debug)]
pub struct Consents {
    allowlist: allowlist::AllowlistReader,
    approved: Option<Approved>,
    /// Readers of the runtimes' own allowlists, by contract.
    own_allowlists: BTreeMap<&'static str, allowlist::AllowlistReader>,
    pub(crate) pending: Pending,
    /// Serialises changes of the allowlist within this daemon. Each change reads the file again, on a blocking thread.
    recording: Arc<Mutex<()>>,
    rule: ConsentRule,
}

/// A command that is to be decided about.
#[derive(Debug)]
pub struct Case<'a> {
    /// The command, as the allowlist spells it.
    pub(crate) command: &'a str,
    /// Whether any request may name the profile, or the configuration grants it to this command. If not, only a consent
    /// under this very profile does.
    pub(crate) granted: bool,
    /// The caller.
    pub(crate) peer: &'a Peer,
    pub(crate) policy: &'a Arc<Policy>,
    /// Whether this is a preview: nothing is recorded, no question is opened.
    pub(crate) preview: bool,
    pub(crate) program: &'a Program,
    pub(crate) request: &'a Request,
    /// The command as the request spells it, to find the runtime's own entries.
    pub(crate) spelled: Option<String>,
}

/// A command whose files are not hashed yet.
#[derive(Debug)]
pub(crate) struct Unhashed<'a> {
    /// The command, as the allowlist spells it.
    pub(crate) command: &'a str,
    /// As of a [`Case`].
    pub(crate) granted: bool,
    /// The caller.
    pub(crate) peer: &'a Peer,
    pub(crate) policy: &'a Policy,
    /// Whether this is a preview.
    pub(crate) preview: bool,
    pub(crate) request: &'a Request,
}

impl Unhashed<'_> {
    /// Builds the refusal of a command without consent, without digests of its files.
    pub(crate) fn refuse(&self) -> Refusal {
        let why =
            "no consent allows this command, and its files are too large to be hashed without one";
        let profile = self.policy.name.as_str();
        let terms = (profile, None);
        refuse(Reason::ConsentRequired, why, self.command, &[], terms)
    }
}

/// The decision about a command.
#[derive(Debug)]
pub enum ConsentDecision {
    /// Put a question to the listening operators.
    Ask(Box<QuestionToAsk>),
    /// The command may run.
    Run(Consent),
}

/// A question for the operator.
#[derive(Debug)]
pub struct QuestionToAsk {
    pub(crate) question: Question,
    pub(crate) shown: CommandSummary,
    /// The longest wait for an answer.
    pub(crate) wait: Duration,
}

/// The facts about a command that an operator decides by.
#[derive(Clone, Debug)]
pub(crate) struct CommandSummary {
    command: String,
    digests: Vec<Digest>,
    profile: String,
    place: Option<StartOption>,
}

/// The option of `allow` for a command's directory, and that directory.
type StartOption = (&'static str, PathBuf);

impl CommandSummary {
    /// Builds the refusal for a question that was not put, or got no answer.
    pub(crate) fn unanswered(&self, not_asked: Option<NotAsked>) -> Refusal {
        let reason = Reason::ConsentRequired;
        refuse(
            reason,
            unanswered(not_asked),
            &self.command,
            &self.digests,
            (&self.profile, self.place.as_ref()),
        )
    }
}

/// The consequence of a lookup.
#[derive(Debug, PartialEq)]
enum NextStep {
    Ask,
    Pin,
    Record,
    Refuse(Reason),
    Run,
}

/// Decides by the lookup in the allowlist and three facts. `is_listed`: a list of the runtime has the command;
/// `accept_all`: settings accept every command; `listened_to`: an operator listens.
const fn rule(check: &Check, is_listed: bool, accept_all: bool, listened_to: bool) -> NextStep {
    match check {
        Check::Hit => NextStep::Run,
        Check::Missing if is_listed => NextStep::Pin,
        Check::Expired | Check::Missing | Check::OtherProfile { .. } if accept_all => {
            NextStep::Record
        }
        Check::Changed { .. } | Check::Expired | Check::Missing | Check::OtherProfile { .. }
            if listened_to =>
        {
            NextStep::Ask
        }
        Check::Changed { .. } => NextStep::Refuse(Reason::DigestMismatch),
        Check::Expired | Check::Missing | Check::OtherProfile { .. } => {
            NextStep::Refuse(Reason::ConsentRequired)
        }
    }
}

impl Consents {
    pub(crate) fn new(rule: ConsentRule) -> Self {
        let (approved, own_allowlists) = match &rule {
            ConsentRule::Operator(operator) => {
                let contracts = operator.own.keys();
                let readers =
                    contracts.map(|contract| (*contract, allowlist::AllowlistReader::default()));
                let approved = Approved::for_allowlist(&operator.allowlist);
                (Some(approved), readers.collect())
            }
            ConsentRule::Given(_) => (None, BTreeMap::new()),
        };
        Self {
            own_allowlists,
            allowlist: allowlist::AllowlistReader::default(),
            approved,
            pending: Pending::default(),
            recording: Arc::default(),
            rule,
        }
    }

    /// Returns the questions that are open.
    pub(crate) const fn pending(&self) -> &Pending {
        &self.pending
    }

    /// Returns all consents: the entries of the allowlist, then those of runtimes' own lists.
    ///
    /// # Errors
    ///
    /// Refuses where a list cannot be used, and under [`ConsentRule::Given`], which keeps no lists.
    pub(crate) fn allowed(&self) -> Result<Vec<Entry>, Refusal> {
        let operator = self.operator()?;
        let mut entries = load(&self.allowlist, &operator.allowlist)?
            .entries()
            .to_vec();
        for (contract, path) in operator.own_allowlists() {
            if let Some(reader) = self.own_allowlists.get(contract) {
                entries.extend_from_slice(load(reader, path)?.entries());
            }
        }
        Ok(entries)
    }

    /// Adds a consent to the allowlist.
    ///
    /// # Errors
    ///
    /// Refuses under [`ConsentRule::Given`]. A list that cannot be read or written is a fault.
    pub(crate) async fn allow(&self, entry: Entry) -> Result<(), Stop> {
        self.write(self.operator()?, entry, |_| ()).await
    }

    /// Revokes every consent to a command, also in runtimes' own lists; returns their number.
    ///
    /// # Errors
    ///
    /// Fails where this daemon has no allowlist of its own, or it cannot be read or written.
    pub async fn revoke(&self, command: String) -> Result<usize, Stop> {
        let operator = self.operator()?.clone();
        let revoke = move || {
            let lists = operator.own_allowlists().map(|(_, path)| path);
            revoke(&operator.allowlist, lists, &command)
        };
        on_blocking_thread(self.turn().await, revoke)
            .await?
            .map_err(|error| Fault::new("cannot revoke a consent", error).into())
    }

    fn operator(&self) -> Result<&Operator, Refusal> {
        match &self.rule {
            ConsentRule::Operator(operator) => Ok(operator),
            ConsentRule::Given(_) => {
                let message =
                    "this daemon serves one command that was typed, and keeps no consents";
                Err(Refusal::new(Reason::Unsupported, message))
            }
        }
    }

    /// Returns whether a command could be admitted with any content of its files. That holds where hookjail supplies it,
    /// a consent or a list of the runtime may cover it, everything is accepted, or an operator could answer.
    ///
    /// # Errors
    ///
    /// Refuses where the list cannot be used.
    pub(crate) fn may_run(&self, sought: &Unhashed<'_>) -> Result<bool, Refusal> {
        let ConsentRule::Operator(operator) = &self.rule else {
            return Ok(true);
        };
        let request = sought.request;
        if sought.granted && matches!(request.backing, Backing::Own | Backing::Required) {
            return Ok(true);
        }
        let settings = operator.runtime_settings(request);
        let has_own_list = settings.is_some_and(|settings| settings.allowlist.is_some());
        Ok(sought.granted
            && (operator.accepts(request) || has_own_list || request.backing == Backing::List)
            || (!sought.preview && self.pending.is_listened_to(&request.id))
            || self.may_be_allowed(sought, &*load(&self.allowlist, &operator.allowlist)?))
    }

    /// Returns whether a list names a command, in this working tree or another one of its repository.
    fn may_be_allowed(&self, sought: &Unhashed<'_>, list: &Allowlist) -> bool {
        let profile = sought.policy.name.as_str();
        let elsewhere = || {
            let trees = trees(&sought.request.hook, sought.peer).unwrap_or_default();
            let mut others = trees.others();
            others.any(|tree| {
                let command = trees.command_in_other(sought.command, tree);
                command.is_some_and(|command| list.names(&command, profile))
            })
        };
        list.names(sought.command, profile) || elsewhere()
    }

    /// Returns the consents for a command, a profile and a hook's start that mark arguments as data. There are none
    /// where the list cannot be used, which then allows nothing either.
    pub(crate) fn with_data(
        &self,
        command: &str,
        policy: &Policy,
        request: &Request,
        peer: &Peer,
    ) -> Vec<WithData> {
        let (ConsentRule::Operator(operator), Some(approved)) = (&self.rule, &self.approved) else {
            return Vec::new();
        };
        let Ok(list) = self.allowlist.load(&operator.allowlist) else {
            return Vec::new();
        };
        let consented = Consented {
            approved,
            list: &list,
            references: &operator.references,
        };
        let hook = &request.hook;
        consented.with_data(&sought(command, policy, hook), || trees(hook, peer))
    }

    /// Returns whether a consent names a command and profile.
    pub(crate) fn names(&self, command: &str, policy: &Policy) -> bool {
        let ConsentRule::Operator(operator) = &self.rule else {
            return false;
        };
        let list = self.allowlist.load(&operator.allowlist);
        list.is_ok_and(|list| list.names(command, policy.name.as_str()))
    }

    /// Decides about a command in the order of the specification.
    ///
    /// # Errors
    ///
    /// Refuses a command that is not allowed, with the command line that allows it. A consent that cannot be recorded
    /// is a fault.
    pub async fn decide(&self, case: &Case<'_>) -> Result<ConsentDecision, Stop> {
        if case.request.backing == Backing::Required {
            case.check_required()?;
            return Ok(ConsentDecision::Run(Consent::Required));
        }
        let operator = match &self.rule {
            ConsentRule::Given(consent) => return Ok(ConsentDecision::Run(*consent)),
            ConsentRule::Operator(operator) => operator,
        };
        if case.is_builtin() {
            return Ok(ConsentDecision::Run(Consent::Builtin));
        }
        // Without a list that can be read and trusted, nothing is allowed.
        let list = load(&self.allowlist, &operator.allowlist)?;
        let check = match &self.approved {
            Some(approved) => Consented {
                approved,
                list: &list,
                references: &operator.references,
            }
            .check(&case.sought(), || trees(&case.request.hook, case.peer)),
            None => Check::Missing,
        };
        // Once a command is bound to content, its runtime's own entries no longer count.
        let has_own = case.request.contract.facts().own_consent.is_some();
        let own_entry = if has_own && case.granted && !list.binds(case.command) {
            self.own_entry(operator, case, &list)?
        } else {
            None
        };
        let is_in_lists =
            case.request.backing == Backing::List && case.granted && !list.binds(case.command);
        let accept_all = case.granted && operator.accepts(case.request);
        let listened_to = self.pending.is_listened_to(&case.request.id);
        let scope = list.scope(&lookup(&case.sought(), &[]));
        match rule(
            &check,
            own_entry.is_some() || is_in_lists,
            accept_all,
            listened_to,
        ) {
            NextStep::Run => Ok(ConsentDecision::Run(Consent::Allowlist)),
            NextStep::Pin => {
                let contract = case.request.contract.facts().contract;
                let source = match own_entry {
                    Some(entry) => format!("{contract}, {}", entry.approved_at),
                    None => format!("{contract}'s list"),
                };
                if !case.preview {
                    tracing::info!(
                        command = case.command,
                        by = source,
                        "a listed command is bound to content"
                    );
                    self.record(operator, case, source).await?;
                }
                Ok(ConsentDecision::Run(Consent::Allowlist))
            }
            NextStep::Record => {
                if !case.preview {
                    let source = format!("HOOKJAIL_ACCEPT_HOOKS for {}", case.peer);
                    self.record(operator, case, source).await?;
                    tracing::warn!(
                        command = case.command,
                        profile = case.policy.name.as_str(),
                        "hook allowed by HOOKJAIL_ACCEPT_HOOKS"
                    );
                }
                Ok(ConsentDecision::Run(Consent::Environment))
            }
            NextStep::Ask if case.preview => {
                let why = why(&check, case.policy);
                let why = format!("{why}, and an operator who listens would be asked");
                Err(case.refuse(reason(&check), &why, scope).into())
            }
            NextStep::Ask => Ok(ConsentDecision::Ask(Box::new(QuestionToAsk {
                question: self.question(case, &check),
                shown: CommandSummary {
                    command: case.command.to_owned(),
                    digests: case.program.digests.clone(),
                    profile: case.policy.name.to_string(),
                    place: case.place(),
                },
                wait: operator.wait,
            }))),
            NextStep::Refuse(_) if check == Check::Missing && !case.granted => {
                let name = &case.policy.name;
                let why = format!("the command is not allowed under profile `{name}`");
                Err(case.refuse(Reason::NotAllowlisted, &why, scope).into())
            }
            NextStep::Refuse(reason) => {
                let why = why(&check, case.policy);
                Err(case.refuse(reason, &why, scope).into())
            }
        }
    }

    /// Decides by an operator's answer.
    ///
    /// # Errors
    ///
    /// Refuses where the answer is no, or a file has changed since the question was put. A consent that cannot be
    /// recorded is a fault.
    pub(crate) async fn answered(
        &self,
        case: &Case<'_>,
        shown: &CommandSummary,
        answer: Decided,
    ) -> Result<Consent, Stop> {
        let operator = match &self.rule {
            ConsentRule::Given(consent) => return Ok(*consent),
            ConsentRule::Operator(operator) => operator,
        };
        // Exactly the files that were shown are recorded and run. A file that is missing now would not be bound, and
        // could be back a moment later.
        if let Some(digest) = difference(&shown.digests, &case.program.digests) {
            let message = format!("`{}` changed while the operator was asked", digest.path);
            return Err(case.refuse(Reason::DigestMismatch, &message, None).into());
        }
        match answer.decision {
            OperatorAnswer::Always => {
                let source = format!("{} when asked", answer.by);
                self.record(operator, case, source).await?;
                Ok(Consent::ListenerAlways)
            }
            OperatorAnswer::Once => Ok(Consent::ListenerOnce),
            OperatorAnswer::No => Err(Refusal::new(Reason::ConsentRequired, DENIED)
                .with(Fact::Command(case.command.into()))
                .into()),
        }
    }

    /// Puts a tool call to the operator, until cancelled and for no longer than `wait`.
    ///
    /// # Errors
    ///
    /// Refuses where the answer is no or does not come in time, no operator listens, or too many questions are open.
    pub(crate) async fn approve(
        &self,
        question: Question,
        wait: Duration,
        cancel: &CancellationToken,
    ) -> Result<(), Refusal> {
        let refuse = |why| Refusal::new(Reason::ConsentRequired, why);
        let waiting = self.pending.ask(question, wait);
        let waiting = waiting.map_err(|not_asked| refuse(unanswered(Some(not_asked))))?;
        let decided = waiting.answer(cancel).await;
        match decided.map(|decided| decided.decision) {
            Some(OperatorAnswer::Always | OperatorAnswer::Once) => Ok(()),
            Some(OperatorAnswer::No) => Err(refuse(DENIED)),
            None => Err(refuse(unanswered(None))),
        }
    }

    /// Returns the entry by which the runtime itself would run a command, of the allowlist or of the runtime's own list.
    fn own_entry(
        &self,
        operator: &Operator,
        case: &Case<'_>,
        list: &Allowlist,
    ) -> Result<Option<Entry>, Refusal> {
        if let Some(entry) = case.own_entry(list) {
            return Ok(Some(entry));
        }
        let settings = operator.runtime_settings(case.request);
        let path = settings.and_then(|settings| settings.allowlist.as_ref());
        let reader = (self.own_allowlists).get(case.request.contract.facts().contract);
        let Some((path, reader)) = path.zip(reader) else {
            return Ok(None);
        };
        Ok(case.own_entry(&*load(reader, path)?))
    }

    async fn record(
        &self,
        operator: &Operator,
        case: &Case<'_>,
        source: String,
    ) -> Result<(), Stop> {
        let mut entry = Entry::new(
            case.command.to_owned(),
            case.program.digests.clone(),
            Some(case.policy),
            source,
        );
        // Arguments that an earlier consent marks as data.
        let data = case.program.data.iter();
        entry.data = data
            .filter_map(|it| it.to_str().map(str::to_owned))
            .collect();
        let script = |script: &Script| Ok((script.file.try_clone()?, script.sha256.clone()));
        let scripts: std::io::Result<Vec<_>> = case.program.scripts.iter().map(script).collect();
        let (approved, policy) = (self.approved.clone(), Arc::clone(case.policy));
        self.write(operator, entry, move |list| {
            let keep = |approved: Approved| {
                approved.keep(&scripts?, (&policy.to_toml(), &policy.digest), list)
            };
            if let Some(Err(error)) = approved.map(keep) {
                tracing::warn!(%error, "the texts of an approved script and its profile cannot be kept");
            }
        })
        .await
    }

    /// Waits for this daemon's other changes of the list.
    async fn turn(&self) -> OwnedMutexGuard<()> {
        Arc::clone(&self.recording).lock_owned().await
    }

    /// Adds an entry to the list, and calls `then` with the new list.
    async fn write(
        &self,
        operator: &Operator,
        entry: Entry,
        then: impl FnOnce(&Allowlist) + Send + 'static,
    ) -> Result<(), Stop> {
        let path = operator.allowlist.clone();
        // Two requests for the same new command must not both rewrite the file.
        let record = move || Allowlist::record(&path, entry).map(|list| then(&list));
        on_blocking_thread(self.turn().await, record)
            .await?
            .map_err(|error| Fault::new("cannot record a consent", error).into())
    }

    fn question(&self, case: &Case<'_>, check: &Check) -> Question {
        let diff = match (check, &self.approved) {
            (
                Check::Changed {
                    was: Some(was),
                    path,
                    ..
                },
                Some(approved),
            ) => {
                let scripts = &case.program.scripts;
                let script = scripts.iter().find(|it| it.path.to_str() == Some(path));
                script.map_or_else(String::new, |it| {
                    approved.diff(was, path, (&it.file, &it.sha256))
                })
            }
            (Check::OtherProfile { was: Some(was) }, Some(approved)) => {
                approved.profile_diff(was, &case.policy.to_toml())
            }
            _ => String::new(),
        };
        let hook = &case.request.hook;
        let mut why = why(check, case.policy);
        let unbound = &case.program.unbound;
        if !unbound.is_empty() {
            why = format!("{why} (not bound to content: {})", unbound.join(", "));
        }
        Question {
            hook: hook.name.clone(),
            peer: case.peer.clone(),
            request_id: case.request.id.clone(),
            subject: Subject::Command {
                command: case.command.to_owned(),
                diff,
                digests: case.program.digests.clone(),
                policy: case.policy.clone(),
            },
            why,
            workspace: hook
                .workspace
                .as_ref()
                .map(|path| path.display().to_string())
                .unwrap_or_default(),
        }
    }
}

impl Case<'_> {
    fn sought(&self) -> Sought<'_> {
        Sought {
            digests: &self.program.digests,
            is_grant: !self.granted,
            ..sought(self.command, self.policy, &self.request.hook)
        }
    }

    /// Returns the list's entry by which the runtime itself would run this command.
    fn own_entry(&self, list: &Allowlist) -> Option<Entry> {
        let now = self.modified();
        let counts = |entry: &&Entry| {
            let known = entry.script_mtime.zip(now);
            known.is_none_or(|(then, now)| (then - now).abs() <= SAME_TIME)
        };
        let spelled = self.spelled.as_deref()?;
        list.unbound(spelled).find(counts).cloned()
    }

    /// Returns the program's modification time, if the request names it by a path. Runtimes compare no other.
    fn modified(&self) -> Option<f64> {
        let spelled = self.spelled.as_deref()?;
        let by_path = spelled.split(' ').next()?.contains('/');
        let metadata = by_path.then(|| self.program.file().metadata().ok())??;
        #[expect(
            clippy::cast_precision_loss,
            reason = "these times are kept in floating point"
        )]
        Some(metadata.mtime() as f64 + metadata.mtime_nsec() as f64 / 1e9)
    }

    /// Builds the refusal. `scope` is the directory of an earlier consent, which the command that allows it again keeps.
    fn refuse(&self, reason: Reason, why: &str, scope: Option<&Path>) -> Refusal {
        let scope = scope.map(|scope| ("--within", scope.to_owned()));
        let place = self.place().or(scope);
        let terms = (self.policy.name.as_str(), place.as_ref());
        refuse(reason, why, self.command, &self.program.digests, terms)
    }

    /// Returns whether hookjail supplies the command, so that no consent is needed. The program must be this process's
    /// own, or one that only root can replace.
    fn is_builtin(&self) -> bool {
        let program = self.program;
        self.request.backing == Backing::Own
            && self.granted
            && (is_this_program(program.file())
                || only_roots(&program.path, program.file()).is_some())
    }

    /// Checks whether a required hook is still required, and only root can change its files.
    fn check_required(&self) -> Result<(), Refusal> {
        let (name, program) = (&self.request.hook.name, self.program);
        let refuse =
            |reason, why: String| Refusal::new(reason, format!("required hook `{name}` {why}"));
        if !self.granted {
            let why = "was changed while the request waited; try again";
            return Err(refuse(Reason::DigestMismatch, why.to_owned()));
        }
        let digests = program.digests.iter().map(|digest| Path::new(&digest.path));
        let mut open = digests.filter(|path| roots_alone(path).is_none());
        let mut replaced = program
            .scripts
            .iter()
            .map(|script| (&*script.path, &script.file))
            .chain([(&*program.path, program.file())])
            .filter(|(path, file)| only_roots(path, file).is_none())
            .map(|(path, _)| path);
        if let Some(path) = open.next().or_else(|| replaced.next()) {
            let shown = path.display();
            let why = format!(
                "names `{shown}`, which other users than root can change; `chown root` it and its directories and `chmod go-w` them"
            );
            return Err(refuse(Reason::NotAllowlisted, why));
        }
        if !program.unbound.is_empty() {
            let why = format!(
                "runs code that is no file of root's: {}; name a file of root's",
                program.unbound.join(", ")
            );
            return Err(refuse(Reason::NotAllowlisted, why));
        }
        Ok(())
    }

    /// Returns the directory for which the command has to be allowed. There is one where its words name code by
    /// relative paths, which elsewhere name other files, or none. The consent is limited to that directory (`--within`)
    /// where the run uses nothing outside it.
    fn place(&self) -> Option<StartOption> {
        let hook = &self.request.hook;
        let directory = starts_in(self.policy, hook)?;
        let relative = |digest: &&Digest| {
            digest.role == Role::Argument && !self.command.contains(&digest.path)
        };
        let mut relative = self.program.digests.iter().filter(relative).peekable();
        relative.peek()?;
        let is_below = relative.any(|digest| Path::new(&digest.path).starts_with(directory));
        let workspace = hook.workspace.as_deref();
        let is_scope = workspace.is_none_or(|workspace| workspace.starts_with(directory));
        let option = if is_below && is_scope {
            "--within"
        } else {
            "--working-dir"
        };
        Some((option, directory.to_owned()))
    }
}

/// The beginning of the command that allows another.
pub(crate) const ALLOW: &str = "hookjail allow ";

const DENIED: &str = "the operator was asked and denied it";

/// Returns why there is no answer.
const fn unanswered(not_asked: Option<NotAsked>) -> &'static str {
    match not_asked {
        None => "the operator was asked and did not answer in time",
        Some(NotAsked::NobodyListens) => "no operator listens to questions",
        Some(NotAsked::TooMany) => "too many questions to the operator are open",
    }
}

/// Builds the refusal of a command. The command line that allows it is a separate fact for operators: the message may
/// reach a model, which could run it.
fn refuse(
    reason: Reason,
    why: &str,
    command: &str,
    digests: &[Digest],
    (profile, place): (&str, Option<&StartOption>),
) -> Refusal {
    let place = place.and_then(|(option, path)| {
        let path = command_line(&[path.into()])?;
        Some(format!(" {option} {path}"))
    });
    let place = place.unwrap_or_default();
    let approve = format!("{ALLOW}--profile {profile}{place} -- {command}");
    let digests = digests.iter().map(|d| format!("{}:{}", d.path, d.sha256));
    let digests: Vec<_> = digests.collect();
    Refusal::new(reason, why)
        .with(Fact::Approve(approve))
        .with(Fact::Command(command.into()))
        .with(Fact::Digests(digests.join(" ")))
        .with(Fact::Profile(profile.into()))
}

/// Runs blocking file operations on another thread, holding the turn.
async fn on_blocking_thread<T: Send + 'static>(
    turn: OwnedMutexGuard<()>,
    act: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Fault> {
    let acted = spawn_blocking(move || {
        let _turn = turn;
        act()
    });
    let acted = acted.await;
    acted.map_err(|error| Fault::new("the thread that keeps consents ended", error))
}

/// Revokes every consent to a command, also in runtimes' own lists; returns their number.
///
/// # Errors
///
/// As [`Allowlist::revoke`].
pub fn revoke<'a>(
    allowlist: &Path,
    own_lists: impl IntoIterator<Item = &'a Path>,
    command: &str,
) -> Result<usize, AllowlistError> {
    let mut revoked = Allowlist::revoke(allowlist, command)?;
    // A runtime's missing list is not created, nor its directory.
    for path in own_lists.into_iter().filter(|path| path.exists()) {
        revoked += Allowlist::revoke(path, command)?;
    }
    Ok(revoked)
}

/// Loads a list.
fn load(reader: &allowlist::AllowlistReader, path: &Path) -> Result<Arc<Allowlist>, Refusal> {
    reader.load(path).map_err(|error: AllowlistError| {
        let why = chain(&error);
        tracing::error!(error = why, "allowlist cannot be used");
        Refusal::failed("nothing can be allowed", &error, |_| {
            Refusal::new(Reason::ConsentRequired, why)
        })
        .with(Fact::Allowlist(path.display().to_string()))
    })
}

/// Returns what is sought for a command under a profile, without its files.
fn sought<'a>(command: &'a str, policy: &'a Policy, hook: &'a Hook) -> Sought<'a> {
    Sought {
        command,
        digests: &[],
        is_grant: false,
        policy,
        working_dir: hook.working_dir.as_deref(),
        workspace: hook.workspace.as_deref(),
    }
}

/// Finds the working trees of a hook's repository, as far as its caller may look.
fn trees(hook: &Hook, peer: &Peer) -> Option<Trees> {
    let place = hook.workspace.as_ref().or(hook.working_dir.as_ref())?;
    let _as_caller = FileRights::for_user(peer.uid, peer.gid, &peer.groups);
    Trees::find(place)
}

const fn reason(check: &Check) -> Reason {
    match check {
        Check::Changed { .. } => Reason::DigestMismatch,
        Check::Expired | Check::Hit | Check::Missing | Check::OtherProfile { .. } => {
            Reason::ConsentRequired
        }
    }
}

/// Describes the result of a lookup without a hit.
fn why(check: &Check, policy: &Policy) -> String {
    let profile = &policy.name;
    match check {
        Check::Changed { path, role, .. } => format!(
            "`{path}` ({}) changed since the command was allowed",
            role.name()
        ),
        Check::Expired => "the consent has expired".to_owned(),
        Check::Hit | Check::Missing => {
            "no consent allows this command under this profile".to_owned()
        }
        Check::OtherProfile { was: Some(was) } => format!(
            "the profile `{profile}` changed since the command was allowed under it, from {was} to {}; see `hookjail profile \
             show {profile}`",
            policy.digest
        ),
        Check::OtherProfile { was: None } => format!(
            "the consent does not contain the digest of the profile `{profile}`, as those of earlier versions; allow the \
             command again"
        ),
    }
}

/// Returns whether a file is the program of this process. The kernel denies writing to it, even where its path leads
/// elsewhere by now.
fn is_this_program(file: &File) -> bool {
    let identity = |found: fs::Metadata| (found.dev(), found.ino());
    let identity_of_self = fs::metadata("/proc/self/exe").map(identity).ok();
    identity_of_self.is_some() && identity_of_self == file.metadata().map(identity).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_decided_about_in_the_order_of_the_specification() {
        let changed = || Check::Changed {
            path: "/x".to_owned(),
            role: Role::Program,
            was: None,
        };
        let profile = || Check::OtherProfile { was: None };
        let refuse = |reason| NextStep::Refuse(reason);
        let (consent, digest) = (Reason::ConsentRequired, Reason::DigestMismatch);
        for (check, is_own, accept, listened, expected) in [
            (Check::Hit, false, false, false, NextStep::Run),
            (Check::Hit, true, true, true, NextStep::Run),
            (Check::Missing, true, true, true, NextStep::Pin),
            (Check::Missing, true, false, false, NextStep::Pin),
            (Check::Missing, false, true, true, NextStep::Record),
            (Check::Missing, false, false, true, NextStep::Ask),
            (Check::Missing, false, false, false, refuse(consent)),
            (Check::Expired, true, false, false, refuse(consent)),
            (Check::Expired, false, true, true, NextStep::Record),
            (Check::Expired, false, false, true, NextStep::Ask),
            (Check::Expired, false, false, false, refuse(consent)),
            (profile(), true, false, false, refuse(consent)),
            (profile(), false, true, true, NextStep::Record),
            (profile(), false, false, true, NextStep::Ask),
            (profile(), false, false, false, refuse(consent)),
            // Content that changed is never run because everything is accepted, nor because its runtime's own list has it.
            (changed(), true, true, false, refuse(digest)),
            (changed(), true, true, true, NextStep::Ask),
            (changed(), false, false, false, refuse(digest)),
        ] {
            let ruled = rule(&check, is_own, accept, listened);
            assert_eq!(ruled, expected, "{check:?} {is_own} {accept} {listened}");
        }
    }
}
