//! `hookjail dispatch`: all hooks due at a lifecycle point.

use std::{
    io::{self, IsTerminal},
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

use clap::Args;
use tonic::transport::Channel;
use uuid::Uuid;

use hookjail_base::model::Consent;
use hookjail_client::{
    Failure,
    arguments::{contract, directory, parse_span},
    connect,
    output::{self, Style},
    program::current_directory,
    server,
};
use hookjail_contract::{Members, Owner, text};
use hookjail_proto::{self as pb, hook_service_client::HookServiceClient};

use super::{
    Context,
    consent::asking,
    private_server,
    rows::Rows,
    run::{UNCONFINED, event, judge},
    show::{decision, denied, effects, push_words},
};
use hookjail_daemon::{consent::ConsentRule, daemon::operator, wire::json};

/// The exit code where a hook stopped the operation at its point.
const EXIT_STOPPED: u8 = 2;

/// The last lines of stderr that are shown of a hook that failed.
const STDERR_LINES: usize = 3;

/// Run all hooks that are due at a lifecycle point, to one decision.
///
/// Exits with 0 if no hook stops the operation, with 2 if one does. Exits with 125 if hookjail failed or refused.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of the command line"
)]
#[derive(Debug, Args)]
pub(super) struct DispatchArgs {
    /// The lifecycle point, in the contract's spelling
    #[arg(long)]
    point: String,
    /// The contract [default: that of the due hooks]
    #[arg(long, default_value = "", hide_default_value = true)]
    contract: String,
    /// A file with the event as JSON, or - for stdin [default: stdin, unless it is a terminal]
    #[arg(long, value_name = "FILE")]
    event: Option<PathBuf>,
    /// A hook of this call, after the configured ones: a command line at a point
    #[arg(long, value_name = "POINT=CMD")]
    hook: Vec<String>,
    /// The mode of the hooks of this call, for example shell_push
    #[arg(long, default_value = "", hide_default_value = true, requires = "hook")]
    mode: String,
    /// The profile of the hooks of this call [default: the contract's]
    #[arg(long, default_value = "", hide_default_value = true, requires = "hook")]
    profile: String,
    /// The tool's name, for matchers [default: the event's]
    #[arg(long, default_value = "", hide_default_value = true)]
    tool: String,
    /// The session
    #[arg(long, default_value = "", hide_default_value = true)]
    session: String,
    /// The turn's number
    #[arg(long)]
    turn: Option<u64>,
    /// The agent's name; hooks of other agents are left out
    #[arg(long, default_value = "", hide_default_value = true)]
    agent: String,
    /// Only hooks of these owners: `operator`, `agent=NAME`, `plugin=NAME`, `skill=NAME`, separated by commas
    #[arg(long, value_name = "OWNERS", value_delimiter = ',', value_parser = owner)]
    scope: Vec<Owner>,
    /// The origin of the turn: `human` or `hook`, for reyn's loop valve
    #[arg(long, value_name = "WHO", value_parser = origin)]
    turn_origin: Option<pb::TurnOrigin>,
    /// Binds ${workspace} [default: the event's `cwd`, else the current directory]
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// Binds ${source} [default: the tree from which the event's worktree was made]
    #[arg(long, value_name = "DIR")]
    source: Option<PathBuf>,
    /// infer's agent mode: standard, plan, auto, or any other
    #[arg(
        long,
        value_name = "MODE",
        default_value = "",
        hide_default_value = true
    )]
    agent_mode: String,
    /// Only hooks of the stage before the others (docker-agent's `preempt_yolo`)
    #[arg(long)]
    preempt: bool,
    /// Deny where a hook fails, under any contract
    #[arg(long)]
    fail_closed: bool,
    /// The wall time of the whole call, for example 500ms, 10s, 2m
    #[arg(long, value_parser = parse_span)]
    timeout: Option<Duration>,
    /// The daemon's socket; without it, and without a daemon at its usual place, this call is served privately
    #[arg(long, value_name = "ADDR")]
    connect: Option<PathBuf>,
    /// Serve this call inside this process, even where a daemon listens
    #[arg(long, conflicts_with = "connect")]
    private: bool,
    /// Run even if the operator's configuration confines nothing (backend noop)
    #[arg(long)]
    allow_unconfirmed: bool,
}

impl DispatchArgs {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        let request = self.request(context)?;
        let daemon = server::of_call(&context.call, self.connect.as_deref(), self.private);
        let served_by = server::described(daemon.as_deref());
        // Consent questions are shown at this terminal, if the server accepts this user's answer.
        let is_asked = !context.call.json && io::stderr().is_terminal();
        let call = async |channel, request| ask(channel, request, is_asked).await;
        let response = match daemon {
            Some(socket) => server::by_daemon(&socket, request, call)?,
            None => {
                let mut config = context.load()?;
                let configured = config.all_hooks(&context.environment().switches)?;
                config.registered = configured.hooks;
                if !config.hooks.disabled && config.registered.is_empty() && self.hook.is_empty() {
                    let message = "no daemon is set up here, and neither the configuration nor the command line has a hook; \
                                   add one";
                    return Err(Failure::new(message));
                }
                let event = request.event.as_ref();
                let place = event.and_then(|event| directory_of(&event.json));
                let place = place.unwrap_or_else(|| request.cwd.clone());
                let bound = [&request.workspace, &request.source, &place].map(PathBuf::from);
                let bound = bound.iter().filter(|path| path.is_absolute());
                let (homes, judge) = judge(context, &config)?;
                for directory in bound {
                    // One that may be no workspace is refused by the server, or withheld.
                    config.workspace_roots.add(directory, &homes, &judge).ok();
                }
                // Typing a command is consent to it; configured hooks need their own.
                let mut registered = config.registered.iter();
                let consent = if registered.all(|hook| hook.owner == Owner::Required) {
                    ConsentRule::Given(Consent::Typed)
                } else {
                    operator(&config, context.environment())
                };
                private_server::privately(config, consent, request, call)?
            }
        };
        if response.hooks.iter().any(unconfined) {
            output::stderr(UNCONFINED);
        }
        if context.call.json {
            let mut report = json::render(&response, "hookjail.v1.DispatchResponse")?;
            report["servedBy"] = served_by.into();
            output::json_line(&report);
        } else {
            show(&response);
        }
        let answer = response.answer.unwrap_or_default();
        let stops = matches!(answer.decision(), pb::Decision::Block | pb::Decision::Deny);
        Ok(if stops && !answer.recorded_block {
            ExitCode::from(EXIT_STOPPED)
        } else {
            ExitCode::SUCCESS
        })
    }

    fn request(&self, context: &Context) -> Result<pb::DispatchRequest, Failure> {
        let contract = match self.contract.as_str() {
            "" => pb::Contract::Unspecified,
            name => contract(name)?,
        };
        let mut inline = Vec::new();
        for hook in &self.hook {
            let (point, line) = hook
                .split_once('=')
                .ok_or_else(|| Failure::new(format!("`--hook {hook}` is not POINT=CMD")))?;
            if point == self.point {
                inline.push(typed(line, &self.mode));
            }
        }
        let event = event(self.event.as_deref())?;
        let current = directory(&current_directory()?)?;
        // Without one the server binds the event's directory, else the current one: a hook must not start in a tree that its event is
        // not about.
        let workspace = self.workspace.as_deref().map(directory).transpose()?;
        let workspace = workspace.unwrap_or_default();
        let cwd = match self.workspace {
            Some(_) => workspace.clone(),
            None => current,
        };
        let source = self.source.as_deref().map(directory).transpose()?;
        let tool = pb::Tool {
            name: self.tool.clone(),
            ..pb::Tool::default()
        };
        let stage = if self.preempt {
            pb::DispatchStage::Preempt
        } else {
            pb::DispatchStage::Default
        };
        Ok(pb::DispatchRequest {
            agent: self.agent.clone(),
            contract: contract.into(),
            cwd,
            depth: context.call.depth,
            event: Some(pb::Event {
                json: event.into(),
                point: self.point.clone(),
                raw: false,
            }),
            inline_hooks: inline,
            // The caller waits for the end: if it dies, the hooks are killed.
            mode_key: self.agent_mode.clone(),
            on_disconnect: pb::OnDisconnect::Kill.into(),
            on_failure: if self.fail_closed {
                pb::OnFailure::Closed.into()
            } else {
                pb::OnFailure::Contract.into()
            },
            profile: self.profile.clone(),
            request_id: Uuid::now_v7().to_string(),
            require_confirmed: Some(!self.allow_unconfirmed),
            scope: (!self.scope.is_empty()).then(|| scope(&self.scope)),
            session_id: self.session.clone(),
            source: source.unwrap_or_default(),
            stage: stage.into(),
            timeout: self
                .timeout
                .map(prost_types::Duration::try_from)
                .transpose()?,
            tool: (!self.tool.is_empty()).then_some(tool),
            turn: self.turn,
            turn_origin: self.turn_origin.unwrap_or_default().into(),
            workspace,
            ..pb::DispatchRequest::default()
        })
    }
}

/// Returns the directory that an event names.
fn directory_of(event: &[u8]) -> Option<String> {
    let members = Members::of_event(event).ok()?;
    let directory = members.last("cwd").and_then(text);
    directory.filter(|directory| !directory.is_empty())
}

/// Builds a hook from a command line.
fn typed(line: &str, mode: &str) -> pb::InlineHook {
    pb::InlineHook {
        mode: mode.to_owned(),
        hook: Some(pb::Hook {
            name: line.chars().take(64).collect(),
            shell: Some(pb::Shell {
                script: line.to_owned(),
                shell: String::new(),
            }),
            ..pb::Hook::default()
        }),
        ..pb::InlineHook::default()
    }
}

/// Calls until there is an answer or a signal, and shows consent questions at this terminal if it is to be asked.
async fn ask(
    channel: Channel,
    request: pb::DispatchRequest,
    is_asked: bool,
) -> Result<pb::DispatchResponse, Failure> {
    let id = request.request_id.clone();
    let mut service = HookServiceClient::new(channel.clone());
    let answer = connect::dispatch(&mut service, connect::in_trace(request));
    let answer = server::until_interrupted(answer);
    match is_asked {
        true => asking(channel, id, answer).await,
        false => answer.await,
    }
}

/// Parses an owner of hooks.
fn owner(text: &str) -> Result<Owner, String> {
    match text.split_once('=') {
        None if text == "operator" => Ok(Owner::Operator),
        Some(("agent", name)) if !name.is_empty() => Ok(Owner::Agent(name.to_owned())),
        Some(("plugin", name)) if !name.is_empty() => Ok(Owner::Plugin(name.to_owned())),
        Some(("skill", name)) if !name.is_empty() => Ok(Owner::Skill(name.to_owned())),
        _ => Err("must be `operator`, `agent=NAME`, `plugin=NAME` or `skill=NAME`".to_owned()),
    }
}

fn scope(owners: &[Owner]) -> pb::Scope {
    let mut scope = pb::Scope::default();
    for owner in owners {
        match owner {
            Owner::Agent(name) => scope.agents.push(name.clone()),
            Owner::Operator => scope.operator = true,
            Owner::Plugin(name) => scope.plugins.push(name.clone()),
            // In every scope.
            Owner::Required => {}
            Owner::Skill(name) => scope.skills.push(name.clone()),
        }
    }
    scope
}

/// Parses the origin of a turn.
fn origin(text: &str) -> Result<pb::TurnOrigin, String> {
    match text {
        "hook" => Ok(pb::TurnOrigin::Hook),
        "human" => Ok(pb::TurnOrigin::Human),
        _ => Err("must be `human` or `hook`".to_owned()),
    }
}

/// Adds rows about the possible causes of a hook's result.
///
/// They have the last lines of its stderr; for a failed hook also the skip reason, and its denials as far as known.
fn causes(rows: &mut Rows, hook: &pb::DispatchedHook) {
    let verdict = hook.verdict.clone().unwrap_or_default();
    let ran = ran(hook);
    let outcome = ran.and_then(|ran| ran.outcome);
    let failed = verdict.failed || outcome.is_some_and(|outcome| outcome.exit_code != Some(0));
    if failed {
        rows.some("  skipped", &verdict.skip_reason);
    }
    let Some(ran) = ran else {
        return;
    };
    rows.some("  problem", &ran.exec_problem);
    let stderr = [&ran.stderr[..], &ran.stderr_tail[..]].concat();
    let stderr = String::from_utf8_lossy(&stderr);
    let lines = stderr.lines().filter(|line| !line.trim().is_empty());
    let lines: Vec<_> = lines.collect();
    // A script may continue after a command of it was denied an access.
    let shown = if failed { STDERR_LINES } else { 1 };
    let last = lines.len().saturating_sub(shown);
    rows.each("  stderr", &lines[last..]);
    if failed {
        rows.each("  denied", denied(ran, "hookjail learn -- CMD"));
    }
}

/// Describes how a hook ended.
fn end_words(hook: &pb::DispatchedHook) -> String {
    use pb::dispatched_hook::End;
    match &hook.end {
        Some(End::Ran(ran)) => {
            let outcome = ran.outcome.unwrap_or_default();
            let kind = outcome.kind().as_str_name();
            let kind = kind.trim_start_matches("OUTCOME_KIND_").to_lowercase();
            let code = outcome.exit_code.map(|code| format!(" {code}"));
            let unconfined = if unconfined(hook) { ", UNCONFINED" } else { "" };
            format!("{kind}{}{unconfined}", code.unwrap_or_default())
        }
        Some(End::Refused(refusal)) => format!("refused, {}: {}", refusal.reason, refusal.message),
        Some(End::InProcess(_)) => "served without a process".to_owned(),
        Some(End::Skipped(why)) => format!("skipped: {why}"),
        None => String::new(),
    }
}

/// Shows a response to a person.
fn show(response: &pb::DispatchResponse) {
    let mut rows = Rows::strong(Style::of_stdout());
    for hook in &response.hooks {
        let verdict = hook.verdict.clone().unwrap_or_default();
        let failed = if verdict.failed { ", failed" } else { "" };
        let looked_on = match hook.only_looked_on {
            true => ", only looked on",
            false => "",
        };
        let (end, decision) = (end_words(hook), decision(&verdict));
        let ended = format!("{}: {end} ({decision}{failed}{looked_on})", hook.name);
        rows.row("hook", ended);
        causes(&mut rows, hook);
        rows.each("  to allow it", approve(hook));
    }
    if response.hooks.is_empty() {
        rows.row("hook", "none is due");
    }
    let answer = response.answer.clone().unwrap_or_default();
    rows.row("answer", decision(&answer));
    for (label, value) in [
        ("blocked by", &response.blocked_by_hook),
        ("reason", &answer.reason),
    ] {
        let value = Some(value).filter(|value| !value.is_empty());
        rows.each(label, value.map(|value| format!("{value:?}")));
    }
    effects(&mut rows, &answer);
    rows.each(
        "loop valve",
        response.loop_valve.as_ref().and_then(valve_words),
    );
    let reminders = response.reminders.iter();
    let reminders = reminders.map(|it| format!("{} of {}: {:?}", it.kind, it.hook_name, it.text));
    rows.each("reminder", reminders);
    rows.each("push", response.pushes.iter().map(push_words));
    rows.print();
}

/// Describes the loop valve's state, unless it is open.
fn valve_words(valve: &pb::LoopValve) -> Option<String> {
    let pb::LoopValve {
        count, on_limit, ..
    } = valve;
    if valve.exceeded {
        Some(format!(
            "hooks would open another turn after {count} in a row, the maximum, so no push wakes: {on_limit}"
        ))
    } else if valve.capped {
        Some(format!(
            "hooks opened {count} turns in a row, the maximum, so the next one is not opened: {on_limit}"
        ))
    } else {
        None
    }
}

/// Returns the command that allows a refused hook, and the user that must run it.
///
/// For people only: a program that reads it may pass it to a model.
fn approve(hook: &pb::DispatchedHook) -> Option<String> {
    let Some(pb::dispatched_hook::End::Refused(refusal)) = &hook.end else {
        return None;
    };
    let approve = refusal.metadata.get("approve");
    let approve = approve.filter(|_| io::stdout().is_terminal())?;
    let user = refusal.metadata.get("approve_as");
    Some(user.map_or_else(|| approve.clone(), |who| format!("{who} runs {approve}")))
}

/// Returns whether a hook ran unconfined.
fn unconfined(hook: &pb::DispatchedHook) -> bool {
    let confinement = ran(hook).and_then(|ran| ran.confinement.as_ref());
    confinement.is_some_and(|it| it.unconfined)
}

/// Returns the run of a hook that ran.
fn ran(hook: &pb::DispatchedHook) -> Option<&pb::ExecuteResponse> {
    match &hook.end {
        Some(pb::dispatched_hook::End::Ran(ran)) => Some(ran),
        Some(_) | None => None,
    }
}
