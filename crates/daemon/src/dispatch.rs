//! Runs all hooks due at a lifecycle point, in the contract's order, and merges their verdicts.

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use serde_json::{Map, Value};
use tokio::task::JoinSet;
use uuid::Uuid;

use hookjail_base::{
    model::{
        Backing, Command, Event, Hook, InvalidField, Narrow, OnDisconnect, OnFailure, Peer,
        ProfileName,
    },
    refusal::{Reason, Refusal},
    util::heavy,
};
use hookjail_contract::{
    AgentMode, ContractEvent, Decision, End, EndKind, Entry, Envelope, Folded, Lifetime, Members,
    Mode, Moment, Push, Scheduling, Skip, Stop, Verdict, text,
};

use crate::{
    consent::pending::{Question, Subject},
    hooks::{
        Action, HookList, Lists, Occasion, Owner, Registered, Scope,
        http::{self, Denied},
        supplied,
        variables::{Known, expanded},
    },
    pipeline::{Answer, Call, Pipeline, Purpose, Recorded, Rules},
    request::{Request, Withheld},
    traces::Facts,
};

mod builtin;

/// A request to run all hooks due at a lifecycle point.
#[derive(Clone, Debug)]
pub(crate) struct Dispatch {
    /// The agent's mode, which selects the command lists that apply.
    pub agent_mode: AgentMode,
    /// The contract, in any of its modes; `None` = that of all due hooks.
    pub contract: Option<Mode>,
    /// The nesting depth: the number of hooks that led to this dispatch.
    pub depth: u32,
    /// Context of the event.
    pub envelope: Envelope,
    /// The event.
    pub event: Event,
    /// The request's id: the caller's, or a generated one.
    pub id: String,
    /// Hooks of this request, after the configured ones.
    pub inline: Vec<Registered>,
    /// The largest reply the caller takes, bytes.
    pub max_reply_bytes: u64,
    /// Behaviour if the client disconnects.
    pub on_disconnect: OnDisconnect,
    /// Whether the failure policy is tightened.
    pub on_failure: OnFailure,
    /// Whether to run the stage before the others.
    pub preempt: bool,
    /// Whether hooks without confirmed confinement are to be refused.
    pub require_confirmed: bool,
    /// The owners of the hooks.
    pub scope: Scope,
    /// The session; empty = the one in the event, under the contract of the hooks.
    pub session: String,
    /// Binds `${source}`; `None` = the tree in the event, under the contract of the hooks.
    pub source: Option<PathBuf>,
    /// The wall time of the whole dispatch.
    pub timeout: Option<Duration>,
    /// The directory of the event that is no workspace, for hooks that run without one.
    pub withheld: Option<Withheld>,
    /// Binds `${workspace}`.
    pub workspace: Option<PathBuf>,
}

/// Result of a dispatch.
#[derive(Debug)]
#[must_use]
pub(crate) struct Dispatched {
    /// The contract's own events, in order.
    pub events: Vec<ContractEvent>,
    /// The merged verdict of all hooks.
    pub folded: Folded,
    /// The results of the hooks whose turn came, in that order.
    pub hooks: Vec<HookResult>,
    /// The validity of context at the point.
    pub lifetime: Option<Lifetime>,
    /// Messages to deliver, in order.
    pub pushes: Vec<Push>,
    /// The session in the request or the event; may be empty.
    pub session: String,
    /// The version of the contract; empty where no hook was due and none was named.
    pub version: &'static str,
}

/// Result of a hook whose turn came.
#[derive(Debug)]
pub(crate) struct HookResult {
    /// The contract's own event.
    pub event: Option<ContractEvent>,
    /// The hook's name.
    pub name: String,
    /// Whether the hook only observed, because an earlier one had blocked. Its verdict is ignored.
    pub only_looked_on: bool,
    /// The recorded answer; `None` where no process was to be started.
    pub recorded: Option<Recorded>,
    /// The hook's verdict.
    pub verdict: Verdict,
}

impl HookResult {
    /// Builds the result of a hook that needs no process.
    const fn in_process(name: String, verdict: Verdict) -> Self {
        Self {
            event: None,
            name,
            only_looked_on: false,
            recorded: None,
            verdict,
        }
    }
}

impl Dispatched {
    fn nothing(session: String, version: &'static str) -> Self {
        Self {
            events: Vec::new(),
            folded: Folded::default(),
            hooks: Vec::new(),
            lifetime: None,
            pushes: Vec::new(),
            session,
            version,
        }
    }
}

impl Dispatch {
    /// Runs the hooks that are due. With none due, no process is started and no record written.
    ///
    /// # Errors
    ///
    /// Refuses where the due hooks have different contracts and the request names none, a point that the contract does
    /// not have, and an event that is not a JSON object.
    pub(crate) async fn run(
        self,
        pipeline: &Arc<Pipeline>,
        hooks: Arc<HookList>,
        call: &Call,
    ) -> Result<Dispatched, Refusal> {
        let lists = Arc::clone(&hooks);
        let (peer, rules) = (call.peer.clone(), pipeline.gate.rules());
        // Matching takes time by the length of pattern and text, and the caller chooses both.
        let look = move || {
            let due = self.due(&hooks, peer.uid)?;
            let mode = self.common_mode(&due)?;
            Ok::<_, Refusal>((self.completed(mode, &rules, peer), mode, due))
        };
        let (this, mode, due) = heavy::offload(call.peer.uid, look).await?;
        let point = this.event.point.clone();
        let dispatched = this.run_due(mode, due, lists.lists(), pipeline, call);
        let dispatched = dispatched.await?;
        let decision = dispatched.folded.answer.decision;
        pipeline.metrics.dispatched(decision);
        if let Some(trace) = call.trace.as_ref().filter(|trace| trace.is_recorded()) {
            trace.end(Facts {
                contract: mode.map_or("", |mode| mode.facts().contract),
                dispatched: Some(decision),
                point: pipeline.audit.redacted(point),
                ..Facts::default()
            });
        }
        Ok(dispatched)
    }

    /// Fills fields absent in the request from the event, under the hooks' contract.
    fn completed(mut self, mode: Option<Mode>, rules: &Rules, peer: Peer) -> Self {
        let Some(mode) = mode else {
            return self;
        };
        if self.session.is_empty() {
            self.session = mode.session(&self.event).unwrap_or_default();
        }
        if self.source.is_none() {
            self.source = source_of(mode, &self.event, rules, peer);
        }
        self
    }

    async fn run_due(
        self,
        mode: Option<Mode>,
        due: Vec<Registered>,
        lists: &Lists,
        pipeline: &Arc<Pipeline>,
        call: &Call,
    ) -> Result<Dispatched, Refusal> {
        let Some(mode) = mode else {
            return Ok(Dispatched::nothing(self.session, ""));
        };
        mode.stop_at(&self.event.point)?;
        if due.is_empty() {
            return Ok(Dispatched::nothing(self.session, mode.facts().version));
        }
        let due = self.in_order(mode, due, lists);
        let results = self.run_hooks(mode, due, pipeline, call).await;
        let counting = || results.iter().filter(|hook| !hook.only_looked_on);
        let hooks: Vec<_> = counting()
            .map(|hook| (hook.name.as_str(), &hook.verdict))
            .collect();
        let mut folded = mode.fold(&self.event.point, &hooks);
        if self.preempt && folded.answer.decision == Decision::Allow {
            // Before the others an approval only advises: the rest of the chain still asks.
            folded.answer.decision = Decision::None;
        }
        let pushes = counting().filter_map(|hook| hook.verdict.push.clone());
        Ok(Dispatched {
            events: results
                .iter()
                .filter_map(|hook| hook.event.clone())
                .collect(),
            folded,
            pushes: pushes.collect(),
            session: self.session,
            version: mode.facts().version,
            hooks: results,
            lifetime: mode.context_lifetime(&self.event.point),
        })
    }

    /// Returns the hooks that are due, those of the request last.
    fn due(&self, hooks: &HookList, uid: u32) -> Result<Vec<Registered>, InvalidField> {
        let event = Members::of_event(&self.event.json)?;
        let occasion = Occasion {
            agent: &self.envelope.agent,
            contract: self.contract.map(|mode| mode.facts().contract),
            event: &event,
            point: &self.event.point,
            preempt: self.preempt,
            scope: &self.scope,
            tool: self.envelope.tool.as_ref(),
            uid,
        };
        let inline = self.inline.iter().filter(|hook| hook.is_due(&occasion));
        // Command lists are the operator's: they do not apply to the request's own hooks.
        let configured = hooks.due(&occasion).into_iter().cloned();
        let workspace = self.workspace.as_deref();
        let listed = |hook: Registered| hook.listed(hooks.lists(), self.agent_mode, workspace);
        let configured = configured.map(listed);
        Ok(configured.chain(inline.cloned()).collect())
    }

    /// Sorts hooks into the contract's order after the required ones, without duplicates, and marks those that the lists allow.
    fn in_order(&self, mode: Mode, due: Vec<Registered>, lists: &Lists) -> Vec<Registered> {
        let mut hooks: Vec<Registered> = Vec::with_capacity(due.len());
        for mut hook in due {
            if hooks.iter().any(|other| other.is_same(&hook)) {
                continue;
            }
            hook.pass(lists, self.agent_mode, self.workspace.as_deref());
            hooks.push(hook);
        }
        mode.order(&self.event.point, &mut hooks, |hook| hook.entry.priority);
        hooks.sort_by_key(|hook| hook.owner != Owner::Required);
        hooks
    }

    /// Returns a mode of the contract of all due hooks; with none due, the request's, if any.
    fn common_mode(&self, due: &[Registered]) -> Result<Option<Mode>, InvalidField> {
        let Some(first) = due.first() else {
            return Ok(self.contract);
        };
        let one = first.mode.facts().contract;
        let other = |hook: &&Registered| hook.mode.facts().contract != one;
        let Some(other) = due.iter().find(other) else {
            return Ok(Some(first.mode));
        };
        let other = other.mode.facts().contract;
        let problem = format!("must be named: hooks of `{one}` and of `{other}` are due here");
        Err(InvalidField::new("contract", problem))
    }

    async fn run_hooks(
        &self,
        mode: Mode,
        due: Vec<Registered>,
        pipeline: &Arc<Pipeline>,
        call: &Call,
    ) -> Vec<HookResult> {
        // So that all replies together stay within the caller's limit.
        let share = self.max_reply_bytes / 2 / (due.len() as u64).max(1);
        let one = |hook: Registered, event: &Event, envelope: &Envelope| DueHook {
            call: self.call(call),
            request: Box::new(self.request(&hook, event.clone(), envelope.clone(), share)),
            hook,
            pipeline: Arc::clone(pipeline),
        };
        // One hook with `in_turn` makes all at its point run one after another.
        let in_turn = due.iter().any(|hook| hook.entry.in_turn);
        if mode.scheduling(&self.event.point) == Scheduling::AtOnce && !in_turn {
            let mut running = JoinSet::new();
            for (index, hook) in due.into_iter().enumerate() {
                let one = one(hook, &self.event, &self.envelope);
                running.spawn(async move { (index, Box::pin(one.run()).await) });
            }
            let mut results = running.join_all().await;
            results.sort_by_key(|(index, _)| *index);
            return results.into_iter().map(|(_, result)| result).collect();
        }
        let (mut event, mut envelope) = (self.event.clone(), self.envelope.clone());
        let mut all = Vec::with_capacity(due.len());
        let mut is_stopped = false;
        for hook in due {
            if is_stopped && !hook.runs_after_block {
                continue;
            }
            let mut one = one(hook, &event, &envelope);
            one.request.only_looks_on = is_stopped;
            let result = Box::pin(one.run()).await;
            if !is_stopped {
                (mode.facts().hand_on)(&result.verdict, &mut event, &mut envelope);
            }
            let only_looked_on = is_stopped;
            is_stopped |= mode
                .scheduling(&self.event.point)
                .ends_after(&result.verdict);
            all.push(HookResult {
                only_looked_on,
                ..result
            });
        }
        all
    }

    /// Builds the call of one hook, with the remaining time of the dispatch.
    fn call(&self, all: &Call) -> Call {
        let arrived = Instant::now();
        let limits = [self.timeout, all.caller_timeout].into_iter().flatten();
        let left = limits
            .min()
            .map(|limit| limit.saturating_sub(arrived.duration_since(all.arrived)));
        Call {
            arrived,
            // Of its own: a hook can be killed alone.
            cancel: all.cancel.child_token(),
            caller_timeout: left,
            chunks: None,
            held: Arc::clone(&all.held),
            listed: None,
            named: all.named,
            peer: all.peer.clone(),
            purpose: Purpose::Run,
            run_id: Uuid::now_v7().to_string(),
            trace: all.trace.as_ref().map(|trace| trace.of_hook(arrived)),
        }
    }

    fn request(
        &self,
        hook: &Registered,
        event: Event,
        envelope: Envelope,
        max_reply_bytes: u64,
    ) -> Request {
        let command = match &hook.action {
            Action::Command(command) => command.clone(),
            Action::Supplied(supplied) => Command::Argv(supplied::command(supplied)),
            // These run no command; the name stands for it in the record of a refusal.
            Action::Approve(_)
            | Action::Builtin(_)
            | Action::Http(_)
            | Action::Log(_)
            | Action::Unsupported(_) => Command::Argv(vec![hook.name.clone().into()]),
        };
        let withheld = self.withheld.as_ref().map(|it| it.directory.as_path());
        let known = Known {
            envelope: &envelope,
            event: &event,
            workspace: self.workspace.as_deref().or(withheld),
        };
        let (command, configured_env) = expanded(hook, command, known);
        Request {
            contract: hook.mode,
            depth: self.depth,
            entry: hook.entry,
            envelope,
            event,
            hook: Hook {
                at_workspace: hook.is_of_words(),
                base: hook.base.clone().filter(|_| hook.is_of_words()),
                command,
                configured_env,
                env: hook.env.clone(),
                name: hook.name.clone(),
                source: self.source.clone(),
                umask: None,
                working_dir: hook.working_dir.clone(),
                workspace: self.workspace.clone(),
            },
            id: self.id.clone(),
            backing: if hook.owner == Owner::Required {
                Backing::Required
            } else if matches!(hook.action, Action::Supplied(_)) {
                Backing::Own
            } else if hook.is_listed {
                Backing::List
            } else {
                Backing::None
            },
            max_reply_bytes,
            narrow: Narrow::default(),
            on_disconnect: self.on_disconnect,
            on_failure: self.on_failure,
            only_looks_on: false,
            profile: ProfileName::parse(hook.runs_under()),
            profile_granted: hook.profile_granted,
            require_confirmed: self.require_confirmed,
            session: self.session.clone(),
            timeout: hook.entry.timeout,
            withheld: self.withheld.clone(),
        }
    }
}

/// Returns the tree that an event names as the source of a worktree, if permitted.
pub(crate) fn source_of(mode: Mode, event: &Event, rules: &Rules, peer: Peer) -> Option<PathBuf> {
    let path = PathBuf::from(mode.source(event)?);
    rules.may_bind(&path, &peer).then_some(path)
}

/// One due hook of a dispatch.
struct DueHook {
    call: Call,
    hook: Registered,
    pipeline: Arc<Pipeline>,
    request: Box<Request>,
}

/// A hook's action, done.
enum Done {
    /// In this process: no record is made of it.
    InProcess(Box<Verdict>),
    /// By the pipeline.
    Recorded(Recorded),
}

impl From<Verdict> for Done {
    fn from(verdict: Verdict) -> Self {
        Self::InProcess(Box::new(verdict))
    }
}

impl DueHook {
    async fn run(self) -> HookResult {
        let Self {
            call,
            hook,
            pipeline,
            request,
        } = self;
        let not_run = NotRun::for_hook(&hook, &request);
        let result = match Box::pin(act(call, request, &pipeline, &not_run)).await {
            Done::InProcess(verdict) => HookResult::in_process(hook.name.clone(), *verdict),
            Done::Recorded(recorded) => not_run.result(recorded),
        };
        if !hook.entry.advisory {
            return result;
        }
        // A process's verdict is advisory already, as in its record; a verdict made in this process is not.
        HookResult {
            verdict: result.verdict.advised(),
            ..result
        }
    }
}

/// Runs a hook's action.
async fn act(
    call: Call,
    mut request: Box<Request>,
    pipeline: &Pipeline,
    not_run: &NotRun<'_>,
) -> Done {
    let hook = not_run.hook;
    let permitted = match &hook.action {
        Action::Approve(wait) => match approve(pipeline, &call, &request, *wait).await {
            Ok(()) => {
                let verdict = Verdict {
                    decision: Decision::Allow,
                    ..Verdict::default()
                };
                return verdict.into();
            }
            Err(refusal) => Err(refusal),
        },
        Action::Builtin(builtin) => {
            let verdict = builtin::verdict(builtin, hook.mode, &call, &request).await;
            return verdict.unwrap_or_else(|why| not_run.verdict(&why)).into();
        }
        Action::Command(_) if hook.entry.allowed == Some(false) => {
            let message = "the command is on no list of the agent's mode";
            Err(Refusal::new(Reason::NotAllowlisted, message))
        }
        Action::Command(_) => Ok(()),
        Action::Supplied(supplied) => {
            let keeps = hook.profile.is_some();
            let (answer, set) = builtin::supply(supplied, keeps, pipeline, &call, request).await;
            request = set;
            match answer {
                Ok(None) => Ok(()),
                Ok(Some(verdict)) => return verdict.into(),
                Err(why) => return not_run.verdict(&why).into(),
            }
        }
        Action::Http(post) => match http::put(post, &mut request, &pipeline.gate.rules()) {
            Ok(()) => {
                let redaction = pipeline.audit.redaction().get();
                if let Some(payload) = &post.payload
                    && let Err(error) =
                        supplied::hand_on(Some(payload), &redaction.redactor, &mut request)
                {
                    return not_run.verdict(&error.to_string()).into();
                }
                Ok(())
            }
            Err(denied) => Err(unlisted(hook, denied, &pipeline.gate.rules())),
        },
        Action::Log(log) => {
            let event = request.contract.stdin(&request.event, &request.envelope);
            let point = &request.event.point;
            let verdict = event.and_then(|event| {
                Ok(crate::hooks::log::write(
                    *log,
                    &hook.name,
                    point,
                    &values(&event)?,
                ))
            });
            let failed = |error: InvalidField| not_run.verdict(&error.to_string());
            return verdict.unwrap_or_else(failed).into();
        }
        Action::Unsupported(why) => Err(Refusal::new(Reason::Unsupported, why.clone())),
    };
    Done::Recorded(match permitted {
        Ok(()) => pipeline.handle(call, request).await,
        Err(refusal) => pipeline.refuse(&call, &request, refusal).await,
    })
}

/// Builds the refusal of a post to an address that the operator does not allow.
fn unlisted(hook: &Registered, denied: Denied, rules: &Rules) -> Refusal {
    let Denied { lines, why } = denied;
    let message = format!("{}: {why}", hook.source);
    let refusal = Refusal::new(Reason::NotAllowlisted, message);
    if lines.is_empty() {
        return refusal;
    }
    rules.configuration.lifted_by(refusal, &lines)
}

/// The data to judge a hook that did not run.
struct NotRun<'a> {
    command: String,
    entry: Entry,
    hook: &'a Registered,
    on_failure: OnFailure,
    point: String,
    session: String,
    turn: Option<u64>,
}

impl<'a> NotRun<'a> {
    fn for_hook(hook: &'a Registered, request: &Request) -> Self {
        let point = request.event.point.clone();
        // Failure policies do not apply to hooks that were refused, or at which hookjail failed. Before a tool call the
        // verdict is a denial. Where a denial would make the agent go on working, the verdict is none.
        let (on_failure, of_entry) = match hook.mode.stop_at(&point) {
            Ok(Stop::Call) => (OnFailure::Closed, OnFailure::Closed),
            Ok(Stop::Ending) => (OnFailure::Contract, OnFailure::Contract),
            Ok(Stop::Nothing | Stop::Operation) | Err(_) => {
                let of_entry = match hook.entry.on_failure {
                    OnFailure::Open => OnFailure::Contract,
                    of_entry @ (OnFailure::Closed | OnFailure::Contract) => of_entry,
                };
                (request.on_failure, of_entry)
            }
        };
        let Moment { session, turn } = request.moment();
        Self {
            command: hook.action.line(),
            entry: Entry {
                on_failure: of_entry,
                ..hook.entry
            },
            hook,
            on_failure,
            point,
            session,
            turn,
        }
    }

    /// Judges a hook that failed in this process.
    fn verdict(&self, error: &str) -> Verdict {
        self.judge(error, None).0
    }

    fn judge(&self, error: &str, skip: Option<Skip>) -> (Verdict, Option<ContractEvent>) {
        let Self { hook, .. } = self;
        let end = End {
            at: Some(Timestamp::now()),
            command: &self.command,
            entry: self.entry,
            error,
            kind: EndKind::ExecFailed,
            name: &hook.name,
            point: &self.point,
            session: &self.session,
            turn: self.turn,
            ..End::default()
        };
        let verdict = hook.mode.judge(&end, self.on_failure);
        let event = skip.and_then(|why| (hook.mode.facts().skipped)(&end, why));
        // A contract that gives a reason for skipping gets this one.
        let skip = verdict.skip.map(|reason| skip.unwrap_or(reason));
        (Verdict { skip, ..verdict }, event)
    }

    /// Converts the pipeline's answer. A hook that was not run is judged here.
    fn result(&self, recorded: Recorded) -> HookResult {
        let (verdict, event) = match recorded.answer() {
            // Whether it ran is not known.
            Answer::Fault => {
                let message = "hookjail failed; see its log";
                (self.judge(message, Some(Skip::Refused)).0, None)
            }
            Answer::Outcome { interpreted, .. } => {
                (interpreted.verdict.clone(), interpreted.event.clone())
            }
            Answer::Refusal(refusal) => {
                let (verdict, event) = self.judge(&refusal.message, Some(skip_of(refusal)));
                (verdict, event.filter(|_| !refusal.is_released()))
            }
        };
        HookResult {
            event,
            name: self.hook.name.clone(),
            only_looked_on: false,
            recorded: Some(recorded),
            verdict,
        }
    }
}

/// Requests the operator's approval of a request's tool call.
async fn approve(
    pipeline: &Pipeline,
    call: &Call,
    request: &Request,
    wait: Duration,
) -> Result<(), Refusal> {
    let (name, input) = tool_call(request)?;
    let workspace = request.hook.workspace.as_ref();
    let question = Question {
        hook: request.hook.name.clone(),
        peer: call.peer.clone(),
        request_id: request.id.clone(),
        subject: Subject::Tool { input, name },
        why: "a hook asks for approval of each such call".to_owned(),
        workspace: workspace.map_or_else(String::new, |path| path.display().to_string()),
    };
    pipeline
        .gate
        .consents()
        .approve(question, call.left(wait), &call.cancel)
        .await
}

/// Returns the name and the JSON input of the tool call.
///
/// The event has precedence over the request, as it has for hooks.
///
/// # Errors
///
/// Neither event nor request names the tool, or the event's tool name is not a string.
fn tool_call(request: &Request) -> Result<(String, String), InvalidField> {
    let event = Members::of_event(&request.event.json)?;
    let known = request.envelope.tool.as_ref();
    let one_of = |names: [&str; 2]| names.into_iter().find_map(|name| event.last(name));
    let name = match one_of(["toolName", "tool_name"]) {
        Some(value) => text(value),
        None => known.map(|tool| tool.name.clone()),
    };
    let name = name.filter(|name| !name.is_empty()).ok_or_else(|| {
        let problem = "must name the tool that is asked about, or the event must";
        InvalidField::new("tool.name", problem)
    })?;
    let input = match one_of(["toolInput", "tool_input"]) {
        Some(value) => value.get().to_owned(),
        None => known
            .and_then(|tool| tool.input.as_ref())
            .map_or_else(String::new, |input| input.as_str().to_owned()),
    };
    Ok((name, input))
}

/// Returns the skip reason for a refusal.
fn skip_of(refusal: &Refusal) -> Skip {
    const OF_COMMANDS: [&str; 2] = ["hook.argv", "hook.shell"];

    let field = refusal.field.as_ref().map_or("", |field| &*field.field);
    let is_of_command = OF_COMMANDS.iter().any(|prefix| field.starts_with(prefix));
    let known = [
        (Reason::BackendUnconfirmed, Skip::BackendUnconfirmed),
        (Reason::ConsentRequired, Skip::ConsentRefused),
        (Reason::DigestMismatch, Skip::ConsentRefused),
        (Reason::NotAllowlisted, Skip::NotAllowlisted),
        (Reason::PolicyUnenforceable, Skip::BackendUnconfirmed),
    ];
    match known.iter().find(|(reason, _)| *reason == refusal.reason) {
        Some((_, skip)) => *skip,
        None if is_of_command => Skip::InvalidCommand,
        None => Skip::Refused,
    }
}

/// Returns the members of an event as values.
fn values(event: &[u8]) -> Result<Map<String, Value>, InvalidField> {
    Ok(Members::of_event(event)?.values())
}
