//! `hookjail dispatch`: all hooks due at a lifecycle point.

use std::{path::PathBuf, process::ExitCode, time::Duration};

use clap::Args;
use tonic::transport::Channel;

use super::{
    Context, Failure,
    assemble::operator,
    output,
    output::Style,
    run::{UNCONFINED, contract, directory, event, parse_span},
    served,
    show::plain,
};
use crate::{
    admission::ConsentRule,
    hooks,
    pb::{self, hook_service_client::HookServiceClient},
    wire::json,
};

/// A hook stopped what it was asked about.
const STOPPED: u8 = 2;

/// Runs all hooks due at a lifecycle point, and says what they come to.
///
/// Exits with 0 where nothing stops what comes next, with 2 where a hook does, with 125 where hookjail failed or refused.
#[derive(Debug, Args)]
pub(super) struct Dispatch {
    /// The lifecycle point, in the contract's spelling
    #[arg(long)]
    point: String,
    /// The contract [default: that of the due hooks]
    #[arg(long, default_value = "")]
    contract: String,
    /// A file with the event as JSON, or - for stdin [default: stdin, unless it is a terminal]
    #[arg(long, value_name = "FILE")]
    event: Option<PathBuf>,
    /// A hook of this call, after the configured ones: a command line at a point
    #[arg(long, value_name = "POINT=CMD")]
    hook: Vec<String>,
    /// The tool's name, for matchers [default: the event's]
    #[arg(long, default_value = "")]
    tool: String,
    /// The session
    #[arg(long, default_value = "")]
    session: String,
    /// The turn's number
    #[arg(long)]
    turn: Option<u64>,
    /// The agent's name
    #[arg(long, default_value = "")]
    agent: String,
    /// Binds ${workspace} [default: the current directory]
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// infer's agent mode: standard, plan or auto
    #[arg(long, value_name = "MODE", default_value = "")]
    agent_mode: String,
    /// Only hooks of the stage before the others (docker-agent's `preempt_yolo`)
    #[arg(long)]
    preempt: bool,
    /// A hook that breaks stops what it was asked about, whatever its contract says
    #[arg(long)]
    fail_closed: bool,
    /// The wall time of the whole, for example 500ms, 10s, 2m
    #[arg(long, value_parser = parse_span)]
    timeout: Option<Duration>,
    /// The daemon's socket; without it, and without a daemon at its usual place, this call is served privately
    #[arg(long, value_name = "ADDR")]
    connect: Option<PathBuf>,
    /// Run even if the operator's configuration confines nothing (backend noop)
    #[arg(long)]
    allow_unconfirmed: bool,
}

impl Dispatch {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        let request = self.request(context)?;
        let response = match served::daemon(context, self.connect.as_deref()) {
            Some(socket) => served::by_daemon(&socket, request, ask)?,
            None => {
                let mut config = context.load()?;
                let configured = hooks::configured(&config, &context.surroundings.switches)?;
                config.registered = configured.hooks;
                if !config.hooks_disabled && config.registered.is_empty() && self.hook.is_empty() {
                    let message = "no daemon is set up here, and neither the configuration nor the command line has a hook: \
                                   nobody was asked";
                    return Err(Failure::new(message));
                }
                config.spawners = 1;
                config.allowed_uids.clear();
                config.workspace_roots.named.extend(
                    [PathBuf::from(&request.workspace)]
                        .into_iter()
                        .filter(|p| p.is_absolute()),
                );
                // What is typed is consented to; what a file says is not.
                let consent = if config.registered.is_empty() {
                    ConsentRule::Typed
                } else {
                    operator(&config, &context.surroundings)
                };
                served::privately(config, consent, request, ask)?
            }
        };
        if response.hooks.iter().any(unconfined) {
            output::stderr(UNCONFINED);
        }
        if context.json {
            output::json_line(&json::render(&response, "hookjail.v1.DispatchResponse")?);
        } else {
            show(&response);
        }
        let answer = response.answer.unwrap_or_default();
        let stops = matches!(answer.decision(), pb::Decision::Block | pb::Decision::Deny);
        Ok(if stops && !answer.recorded_block {
            ExitCode::from(STOPPED)
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
                inline.push(typed(line));
            }
        }
        let here = std::env::current_dir()?;
        let workspace = directory(self.workspace.as_deref().unwrap_or(&here))?;
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
            cwd: workspace.clone(),
            depth: context.surroundings.depth,
            event: Some(pb::Event {
                json: event(self.event.as_deref())?.into(),
                point: self.point.clone(),
                raw: false,
            }),
            inline_hooks: inline,
            // Whoever runs this is there until the end: if it dies, the hooks die.
            mode_key: self.agent_mode.clone(),
            on_disconnect: pb::OnDisconnect::Kill.into(),
            on_failure: if self.fail_closed {
                pb::OnFailure::Closed.into()
            } else {
                pb::OnFailure::Contract.into()
            },
            require_confirmed: Some(!self.allow_unconfirmed),
            session_id: self.session.clone(),
            stage: stage.into(),
            timeout: self
                .timeout
                .map(prost_types::Duration::try_from)
                .transpose()?,
            tool: (!self.tool.is_empty()).then_some(tool),
            turn: self.turn,
            workspace,
            ..pb::DispatchRequest::default()
        })
    }
}

/// Makes a hook of a command line.
fn typed(line: &str) -> pb::InlineHook {
    pb::InlineHook {
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

async fn ask(
    channel: Channel,
    request: pb::DispatchRequest,
) -> Result<pb::DispatchResponse, Failure> {
    let mut client = HookServiceClient::new(channel);
    served::until_interrupted(client.dispatch(request)).await
}

/// Shows a response to a person.
fn show(response: &pb::DispatchResponse) {
    use pb::dispatched_hook::End;
    let style = Style::of_stdout();
    let mut text = String::new();
    let mut line = |label: &str, value: &str| {
        text.push_str(&format!(
            "{}{value}\n",
            style.strong(&format!("{label:<12}"))
        ));
    };
    for hook in &response.hooks {
        let verdict = hook.verdict.clone().unwrap_or_default();
        let end = match &hook.end {
            Some(End::Ran(ran)) => {
                let outcome = ran.outcome.unwrap_or_default();
                let kind = outcome.kind().as_str_name();
                let kind = kind.trim_start_matches("OUTCOME_KIND_").to_lowercase();
                let code = outcome.exit_code.map(|code| format!(" {code}"));
                let unconfined = if unconfined(hook) { ", UNCONFINED" } else { "" };
                format!("{kind}{}{unconfined}", code.unwrap_or_default())
            }
            Some(End::Refused(refusal)) => {
                format!("refused, {}: {}", refusal.reason, refusal.message)
            }
            Some(End::InProcess(_)) => "served without a process".to_owned(),
            Some(End::Skipped(why)) => format!("skipped: {why}"),
            None => String::new(),
        };
        let failed = if verdict.failed { ", failed" } else { "" };
        let decision = decision(&verdict);
        let told = format!("{}: {end} ({decision}{failed})", hook.name);
        line("hook", &plain(&told));
    }
    if response.hooks.is_empty() {
        line("hook", "none is due");
    }
    let answer = response.answer.clone().unwrap_or_default();
    line("answer", decision(&answer));
    for (label, value) in [
        ("blocked by", &response.blocked_by_hook),
        ("reason", &answer.reason),
    ] {
        if !value.is_empty() {
            line(label, &format!("{value:?}"));
        }
    }
    for context in &answer.additional_context {
        line("context", &format!("{context:?}"));
    }
    for warning in &answer.warnings {
        line("warning", &plain(warning));
    }
    for reminder in &response.reminders {
        let (from, text) = (&reminder.hook_name, &reminder.text);
        line(
            "reminder",
            &format!("{} of {from}: {text:?}", reminder.kind),
        );
    }
    for push in &response.pushes {
        line(
            "push",
            &format!("wake={} message={:?}", push.wake, push.message),
        );
    }
    output::stdout(text.as_bytes());
}

/// Whether a hook ran, and nothing confined it.
fn unconfined(hook: &pb::DispatchedHook) -> bool {
    match &hook.end {
        Some(pb::dispatched_hook::End::Ran(ran)) => {
            ran.confinement.as_ref().is_some_and(|it| it.unconfined)
        }
        Some(_) | None => false,
    }
}

fn decision(verdict: &pb::Verdict) -> &'static str {
    verdict
        .decision()
        .as_str_name()
        .trim_start_matches("DECISION_")
}
