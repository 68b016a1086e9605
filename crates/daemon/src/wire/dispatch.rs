//! `Dispatch` and `ListHooks`: decodes requests and encodes replies.

use std::{path::PathBuf, sync::Arc};

use jiff::Timestamp;
use prost::Message;
use serde_json::{Map, Value};

use hookjail_proto as pb;

use hookjail_base::{
    model::{Event, InvalidField, OnDisconnect, Peer, check_name},
    refusal::Refusal,
    util::heavy,
};
use hookjail_contract::{AgentMode, Budget, Envelope, Json, Lifetime, Members, Mode, Tool, text};

use super::{
    HookServer, WireLimits, decode, encode,
    facts::facts,
    retained::{Reply, fingerprint},
    service::{Caller, IdempotencyKey},
    status,
};
use crate::{
    dispatch::{Dispatch, Dispatched, HookResult},
    hooks::{Action, HookList, Matcher, Owner, Registered, Scope, Supplied, valve},
    pipeline::{About, Answer, Rules},
    request::Withheld,
    traces::Method,
};

/// The most hooks in one dispatch. Each has an expression to compile, whose size is bounded.
const INLINE_HOOKS: usize = 128;

impl HookServer {
    /// Runs all hooks due at a point to one reply. Dropping this future ends the runs, unless they are to finish.
    pub(super) async fn dispatch_all(
        &self,
        message: pb::DispatchRequest,
        caller: Caller,
    ) -> Reply<pb::DispatchResponse> {
        let cancel = self.stop.child_token();
        let context = caller.context.clone();
        let other = caller.other_configuration(&self.pipeline);
        let (mut call, invalid) = caller.call(cancel.clone(), None);
        let invalid = invalid.or(other);
        let tracer = &self.pipeline.tracer;
        call.trace = tracer.begin(Method::Dispatch, call.arrived, context);
        let (contract, point) = decode::named(message.contract, message.event.as_ref());
        let refuse = async |id: &str, refusal: Refusal| {
            let about = About::malformed(&call, id).at_point(contract, point.clone());
            let recorded = self.pipeline.audit.refuse(about, refusal.into()).await;
            // Refusals are statuses, not responses.
            self.encode(&recorded)
                .map(|_| pb::DispatchResponse::default())
        };
        let id = message.request_id.clone();
        if let Some(invalid) = invalid {
            return refuse(&id, invalid.into()).await;
        }
        // Before any lookup: with no hook due, no later stage checks the peer.
        let sandbox = &self.pipeline.sandbox;
        if let Err(refusal) = self.pipeline.gate.admit_peer(&call.peer, sandbox) {
            return refuse(&id, refusal).await;
        }
        let origin =
            match decode::known(pb::TurnOrigin::try_from(message.turn_origin), "turn_origin") {
                Ok(origin) => origin,
                Err(invalid) => return refuse(&id, invalid.into()).await,
            };
        // Regular expressions take long to compile for their length.
        let compiles = message
            .inline_hooks
            .iter()
            .any(|hook| !hook.matcher.is_empty());
        let (bytes, peer) = (message.encoded_len(), call.peer.clone());
        let uid = peer.uid;
        let (hooks, named) = (self.clone(), !id.is_empty());
        let read = move || {
            let mut message = message;
            let fingerprint = named.then(|| fingerprint(&mut message));
            (fingerprint, hooks.read(message, peer))
        };
        let (fingerprint, read) = if compiles {
            heavy::offload(uid, read).await
        } else {
            heavy::sized(uid, bytes, read).await
        };
        let dispatch = match read {
            Ok(dispatch) => dispatch,
            Err(refusal) => return refuse(&id, refusal).await,
        };
        call.named = fingerprint.map(|it| it.recorded);
        let named = fingerprint.map(|fingerprint| IdempotencyKey {
            fingerprint: fingerprint.whole,
            held: Arc::clone(&call.held),
            key: (call.peer.uid, id.clone()),
        });
        let human = origin != pb::TurnOrigin::Hook;
        let guard = (dispatch.on_disconnect == OnDisconnect::Kill).then(|| cancel.drop_guard());
        let about = About::malformed(&call, &id).at_point(contract, point.clone());
        let (pipeline, configured) = (self.pipeline.clone(), self.configured.get());
        let valve = self.valve.clone();
        let run = Box::pin(async move {
            let about = About::malformed(&call, &dispatch.id).at_point(contract, point);
            let id = dispatch.id.clone();
            let point = dispatch.event.point.clone();
            let is_new = Box::pin(pipeline.audit.is_new(&call, &id)).await;
            let dispatched = match is_new {
                Ok(()) => dispatch.run(&pipeline, configured, &call).await,
                Err(refusal) => Err(refusal),
            };
            match dispatched {
                Ok(mut dispatched) => {
                    let ends = point == "session_end";
                    let uid = call.peer.uid;
                    let state = count_turn(&valve, &mut dispatched, uid, human, ends);
                    let response = response(id, dispatched);
                    Ok(pb::DispatchResponse {
                        loop_valve: state.map(loop_valve),
                        ..response
                    })
                }
                Err(refusal) => {
                    let status = status(&refusal, &id);
                    // Only the record matters here: the caller gets the refusal itself.
                    drop(pipeline.audit.refuse(about, refusal.into()).await);
                    Err(status)
                }
            }
        });
        match self.once(&self.dispatched, named, guard, run).await {
            Ok(reply) => reply,
            Err(conflict) => {
                let status = status(&conflict, &id);
                drop(self.pipeline.audit.refuse(about, conflict.into()).await);
                Err(status)
            }
        }
    }

    fn read(&self, message: pb::DispatchRequest, peer: Peer) -> Result<Dispatch, Refusal> {
        if message.inline_hooks.len() > INLINE_HOOKS {
            let problem = format!(
                "are {}, and one dispatch takes {INLINE_HOOKS} at most",
                message.inline_hooks.len()
            );
            return Err(InvalidField::new("inline_hooks", problem).into());
        }
        let id = decode::id(&message.request_id).map_err(|malformed| malformed.refusal)?;
        let event = decode::event(message.event.unwrap_or_default(), self.limits)?;
        for (field, text) in [
            ("session_id", &message.session_id),
            ("agent", &message.agent),
            ("parent_session_id", &message.parent_session_id),
        ] {
            check_name(field, text)?;
        }
        let contract = decode::known(pb::Contract::try_from(message.contract), "contract")?;
        let contract = decode::any_mode(contract);
        let mut event = event;
        if let Some(contract) = contract {
            event.point = contract.spelled(&event.point).to_owned();
        }
        let stage = decode::known(pb::DispatchStage::try_from(message.stage), "stage")?;
        let preempt = stage == pb::DispatchStage::Preempt;
        let inline = message.inline_hooks.into_iter().enumerate();
        let profile = decode::profile(&message.profile)?;
        let inline = inline.map(|(index, hook)| {
            let hook = inline_hook(index, hook, contract, &event.point, preempt)?;
            let profile = hook.profile.or_else(|| profile.clone());
            Ok::<_, Refusal>(Registered { profile, ..hook })
        });
        let timestamp = message.timestamp.map(timestamp).transpose()?;
        let cwd = message.cwd.clone();
        let rules = self.pipeline.gate.rules();
        let (workspace, withheld) = match decode::optional_path("workspace", message.workspace)? {
            None => place_of(&event, &cwd, &rules, &peer),
            named => (named, None),
        };
        let envelope = Envelope {
            agent: message.agent,
            branch: message.branch,
            budget: message.budget.map(|budget| Budget {
                effective_limit: budget.effective_limit,
                used_tokens: budget.used_tokens,
            }),
            cwd: message.cwd,
            parent_session: message.parent_session_id,
            repository: message.repository,
            session: message.session_id.clone(),
            timestamp: Some(timestamp.unwrap_or_else(Timestamp::now)),
            tool: message
                .tool
                .map(|message| tool(message, self.limits))
                .transpose()?,
            turn: message.turn,
        };
        let scope = message.scope.unwrap_or_default();
        let agent_mode = match message.mode_key.as_str() {
            "" => AgentMode::Standard,
            name => AgentMode::parse(name),
        };
        Ok(Dispatch {
            agent_mode,
            contract,
            depth: message.depth,
            envelope,
            id,
            inline: inline.collect::<Result<_, _>>()?,
            max_reply_bytes: message
                .max_reply_bytes
                .unwrap_or(decode::DEFAULT_REPLY_BYTES),
            on_disconnect: decode::on_disconnect(message.on_disconnect, &event.point)?,
            on_failure: decode::on_failure(message.on_failure)?,
            preempt,
            require_confirmed: message.require_confirmed.unwrap_or(true),
            scope: Scope {
                agents: scope.agents,
                operator: scope.operator,
                plugins: scope.plugins,
                skills: scope.skills,
            },
            timeout: message.timeout.map(decode::timeout).transpose()?,
            session: message.session_id,
            source: decode::optional_path("source", message.source)?,
            workspace,
            withheld,
            event,
        })
    }
}

/// Counts a turn at the loop valve, where hooks of the contract open turns.
///
/// Past the limit no push wakes the agent.
fn count_turn(
    valve: &valve::Valve,
    dispatched: &mut Dispatched,
    uid: u32,
    human: bool,
    ends: bool,
) -> Option<valve::State> {
    Mode::of_version(dispatched.version).filter(|mode| mode.facts().opens_turns)?;
    let wakes = dispatched.pushes.iter().any(|push| push.wake);
    let state = valve.count((uid, dispatched.session.clone()), human, wakes, ends);
    if state.exceeded {
        for push in &mut dispatched.pushes {
            push.wake = false;
        }
    }
    Some(state)
}

/// Returns the directory of the event, else of the request, as a workspace where it may be one, else as withheld where hooks run without.
fn place_of(
    event: &Event,
    cwd: &str,
    rules: &Rules,
    peer: &Peer,
) -> (Option<PathBuf>, Option<Withheld>) {
    let members = Members::of_event(&event.json).ok();
    let event_cwd = members.and_then(|members| members.last("cwd").and_then(text));
    let event_cwd = event_cwd.filter(|event_cwd| !event_cwd.is_empty());
    let path = PathBuf::from(event_cwd.unwrap_or_else(|| cwd.to_owned()));
    match rules.may_bind(&path, peer) {
        true => (Some(path), None),
        false => (None, rules.withheld(&path, peer)),
    }
}

fn inline_hook(
    index: usize,
    message: pb::InlineHook,
    contract: Option<Mode>,
    point: &str,
    preempt: bool,
) -> Result<Registered, Refusal> {
    let field = |name: &str| format!("inline_hooks[{index}].{name}");
    let within = |error: InvalidField| InvalidField::new(field(&error.field), error.problem);
    let contract = contract.ok_or_else(|| {
        InvalidField::new("contract", "must be named where there are `inline_hooks`")
    })?;
    let mode = Mode::parse(contract.facts().contract, &message.mode).map_err(within)?;
    let config = object(&field("config_json"), &message.config_json)?;
    let config = config.unwrap_or_default();
    // An invalid rule lets the hook run, as in a file.
    let filter = config.get("if").and_then(Value::as_str);
    let filter = filter.and_then(|rule| (mode.rules().filter)(rule));
    let mut entry = mode.entry(&config).map_err(within)?;
    entry.preempt |= preempt;
    let hook = decode::hook(message.hook.unwrap_or_default()).map_err(within)?;
    for (name, bound) in [("source", &hook.source), ("workspace", &hook.workspace)] {
        if bound.is_some() {
            let problem =
                format!("must not be set, as the dispatch binds `{name}` for all hooks alike");
            let field = field(&format!("hook.{name}"));
            return Err(InvalidField::new(field, problem).into());
        }
    }
    let name = match hook.name.as_str() {
        "" => format!("inline {index}"),
        name => name.to_owned(),
    };
    Ok(Registered {
        action: if mode.facts().is_process {
            Action::Command(hook.command)
        } else {
            Action::Unsupported(decode::NO_PROCESS.to_owned())
        },
        base: None,
        configured_env: hook.configured_env,
        entry,
        env: hook.env,
        filter,
        is_listed: false,
        matcher: Matcher::parse(mode, point, &message.matcher).map_err(within)?,
        matching: message.matcher,
        mode,
        name,
        owner: Owner::Operator,
        point: point.to_owned(),
        profile: decode::profile(&message.profile)?,
        // Naming a profile in a request does not grant it.
        profile_granted: false,
        runs_after_block: false,
        source: "the request".to_owned(),
        user: None,
        working_dir: hook.working_dir,
    })
}

fn object(field: &str, json: &str) -> Result<Option<Map<String, Value>>, InvalidField> {
    if json.is_empty() {
        return Ok(None);
    }
    let object = serde_json::from_str(json);
    object.map_err(|_| InvalidField::new(field, "must be a JSON object"))
}

fn tool(message: pb::Tool, limits: WireLimits) -> Result<Tool, Refusal> {
    let value = |name: &str, json: String| {
        if json.is_empty() {
            return Ok(None);
        }
        // As strictly as the event: a guard must not read another tool call than the agent makes.
        let checked = decode::document(name, json.into(), limits)?;
        let text = String::from_utf8_lossy(&checked);
        Ok::<_, Refusal>(Some(Json::checked(&text)))
    };
    check_name("tool.name", &message.name)?;
    Ok(Tool {
        duration_ms: message.duration_ms,
        error: message.error,
        input: value("tool.input_json", message.input_json)?,
        name: message.name,
        response: value("tool.response_json", message.response_json)?,
        success: message.success,
        use_id: message.use_id,
    })
}

fn timestamp(message: prost_types::Timestamp) -> Result<Timestamp, InvalidField> {
    let timestamp = Timestamp::new(message.seconds, message.nanos);
    timestamp.map_err(|_| InvalidField::new("timestamp", "is out of range"))
}

fn response(id: String, dispatched: Dispatched) -> pb::DispatchResponse {
    let Dispatched {
        events,
        folded,
        hooks,
        lifetime,
        pushes,
        session: _,
        version,
    } = dispatched;
    let hooks = hooks.iter().map(|hook| reached(hook, lifetime));
    let hooks: Vec<_> = hooks.collect();
    let sandbox_denied = hooks.iter().any(|hook| match &hook.end {
        Some(pb::dispatched_hook::End::Ran(ran)) => {
            ran.verdict.as_ref().is_some_and(|v| v.sandbox_denied)
        }
        _ => false,
    });
    pb::DispatchResponse {
        answer: Some(encode::verdict_message(
            &folded.answer,
            sandbox_denied,
            lifetime,
        )),
        blocked_by_hook: folded.blocked_by_hook,
        contract_version: version.to_owned(),
        events: events.iter().map(encode::event_message).collect(),
        hooks,
        loop_valve: None,
        messages: folded.messages,
        pushes: pushes.iter().map(encode::push_message).collect(),
        reminders: folded
            .reminders
            .iter()
            .map(encode::reminder_message)
            .collect(),
        request_id: id,
    }
}

fn reached(hook: &HookResult, lifetime: Option<Lifetime>) -> pb::DispatchedHook {
    use pb::dispatched_hook::End;
    let ended = |recorded| match (encode(recorded), recorded.answer()) {
        (Ok(ran), _) => End::Ran(ran),
        (Err(_), Answer::Refusal(refusal)) => End::Refused(refusal_message(refusal)),
        (Err(status), Answer::Fault | Answer::Outcome { .. }) => End::Refused(pb::Refusal {
            message: status.message().to_owned(),
            reason: "FAULT".to_owned(),
            ..pb::Refusal::default()
        }),
    };
    let end = match &hook.recorded {
        None => End::InProcess(true),
        Some(recorded) => ended(recorded),
    };
    pb::DispatchedHook {
        end: Some(end),
        name: hook.name.clone(),
        only_looked_on: hook.only_looked_on,
        verdict: Some(encode::verdict_message(&hook.verdict, false, lifetime)),
    }
}

fn refusal_message(refusal: &Refusal) -> pb::Refusal {
    pb::Refusal {
        message: refusal.message.clone(),
        metadata: facts(refusal).into_iter().collect(),
        reason: refusal.reason.as_str().to_owned(),
    }
}

fn loop_valve(state: valve::State) -> pb::LoopValve {
    pb::LoopValve {
        capped: state.capped,
        count: state.count,
        exceeded: state.exceeded,
        limit: state.limit,
        on_limit: state.on_limit.as_str().to_owned(),
    }
}

/// Lists the configured hooks.
///
/// # Errors
///
/// Refuses an unknown contract.
pub(super) fn list(
    message: &pb::ListHooksRequest,
    configured: &HookList,
    peer: &Peer,
) -> Result<pb::ListHooksResponse, Refusal> {
    let contract = decode::known(pb::Contract::try_from(message.contract), "contract")?;
    // The daemon's own user is the operator.
    let sees_all = peer.uid == nix::unistd::geteuid().as_raw();
    let wanted = |hook: &&Registered| {
        (sees_all || hook.is_for(peer.uid))
            && (message.point.is_empty() || hook.mode.spelled(&message.point) == hook.point)
            && (contract == pb::Contract::Unspecified
                || decode::contract_id(contract) == hook.mode.facts().contract)
    };
    let hooks = configured.iter().filter(wanted).map(listed);
    Ok(pb::ListHooksResponse {
        hooks: hooks.collect(),
    })
}

fn listed(hook: &Registered) -> pb::ConfiguredHook {
    let builtin = |(name, args, _): (_, Vec<String>, _)| {
        let args: String = args.iter().map(|arg| format!(" {arg}")).collect();
        format!("builtin: {name}{args}")
    };
    pb::ConfiguredHook {
        command: match &hook.action {
            Action::Command(_) => hook.action.line(),
            Action::Builtin(_) | Action::Supplied(Supplied::Query(_)) => {
                hook.action.as_builtin().map(builtin).unwrap_or_default()
            }
            Action::Approve(_) => "approve".to_owned(),
            Action::Http(post) => format!("http: {}", post.url),
            Action::Supplied(Supplied::Save(save)) => {
                format!("save_json: {}", save.path().display())
            }
            Action::Log(log) => format!("log: {}", log.level()),
            Action::Supplied(Supplied::Template(_)) => "template_push".to_owned(),
            Action::Unsupported(why) => format!("unsupported: {why}"),
        },
        contract: decode::contract_of(hook.mode).into(),
        matcher: hook.matching.clone(),
        name: hook.name.clone(),
        point: hook.point.clone(),
        profile: hook.runs_under().to_owned(),
        source: hook.source.clone(),
    }
}
