//! reyn lifecycle hooks, by its page of June 2026. The scheme names of later releases are accepted.
//!
//! A hook never stops the point it runs at: every failure only skips the push. A directive is taken whole or not at all.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json, value::RawValue};

use super::{
    ContractEvent, Defaults, End, EndKind, Facts, OwnConsent, Rules, Skip, Stop, Verdict,
    fields::failure, members::Members, point, verdict,
};

mod adapter;
mod hook_file;
pub(super) mod template;

use self::{adapter::ADAPTER, hook_file::HOOK_FILE};

/// The event of a hook that was executed.
const EXECUTED: &str = "hook_shell_executed";

/// The maximum length of a stream that reyn keeps, bytes.
const OUTPUT_CAP: usize = 10 * 1024 * 1024;

/// The scheme that is run for its side effect.
pub(super) const EXEC: Facts = Facts {
    event: |end| event(end, EXEC.modes),
    interpret: |end| Verdict::skipped(failure(end).unwrap_or(Skip::OutputIgnored)),
    modes: &["shell_exec", "exec"],
    ..PUSH
};

/// The scheme whose stdout is a push directive.
pub(super) const PUSH: Facts = Facts {
    adapter: Some(&ADAPTER),
    carried: &[
        "exec",
        "exec_capture",
        "matcher",
        "name",
        "network",
        "on",
        "shell_exec",
        "shell_push",
        "subprocess",
        "template_push",
        "write_paths",
    ],
    // An entry has no key for another timeout.
    defaults: Defaults::argv(Some(Duration::from_secs(60))),
    display,
    event: |end| event(end, PUSH.modes),
    last_points: &["session_end", "turn_end"],
    modes: &["shell_push", "exec_capture", "command"],
    opens_turns: true,
    other_points: Some(Stop::Nothing),
    output_cap: Some(OUTPUT_CAP),
    own_consent: Some(OwnConsent {
        accept: "REYN_ACCEPT_HOOKS",
        allowlist: "REYN_SHELL_HOOKS_ALLOWLIST",
        usual: ".reyn/shell-hooks-allowlist.json",
    }),
    point_key: "point",
    // No point can be stopped, and later releases have others.
    points: &[
        point("session_start", Stop::Nothing),
        point("session_end", Stop::Nothing),
        point("turn_start", Stop::Nothing),
        point("turn_end", Stop::Nothing),
        point("skill_start", Stop::Nothing),
        point("skill_end", Stop::Nothing),
        point("task_start", Stop::Nothing),
        point("task_end", Stop::Nothing),
        point("mcp_resource_updated", Stop::Nothing),
        point("file_changed", Stop::Nothing),
        point("cron_fired", Stop::Nothing),
        point("webhook_received", Stop::Nothing),
        point("task_settled", Stop::Nothing),
    ],
    shared_points: &[
        ("SessionStart", "session_start"),
        ("SessionEnd", "session_end"),
    ],
    template_mode: Some("shell_push"),
    ..Facts::new("reyn", "reyn/2026-06", interpret)
};

pub(super) const RULES: Rules = Rules {
    hook_file: Some(&HOOK_FILE),
    ..Rules::NONE
};

fn interpret(end: &End<'_>) -> Verdict {
    match failure(end).map_or_else(|| directive(end), Err) {
        Ok(push) => Verdict {
            push: Some(push),
            ..Verdict::default()
        },
        Err(skip) => Verdict::skipped(skip),
    }
}

/// Returns the event of a run, unless nothing ran.
fn event(end: &End<'_>, modes: &[&str]) -> Option<ContractEvent> {
    // A template is rendered by a program of hookjail's, which is unknown to the runtime.
    if end.entry.allowed == Some(false) || end.entry.report == Some(crate::Report::Directive) {
        return None;
    }
    let returncode = match end.kind {
        // These runs are ended by SIGKILL.
        EndKind::Canceled | EndKind::Killed | EndKind::OutputLimit => -9,
        EndKind::ExecFailed => return None,
        EndKind::Exited(code) => code,
        EndKind::Signaled(signal) => -signal,
        EndKind::TimedOut => -1,
    };
    let json = json!({ "command": end.command, "mode": modes[0], "returncode": returncode });
    Some(ContractEvent {
        json,
        name: EXECUTED,
    })
}

/// Returns reyn's display line: the mode, the command, and a nonzero exit code.
fn display(event: &str, members: &Map<String, Value>) -> Option<String> {
    let text = |key| members.get(key).and_then(Value::as_str);
    let (mode, command) = (text("mode")?, text("command")?);
    let code = members.get("returncode").and_then(Value::as_i64)?;
    let code = (code != 0).then(|| format!(" [rc={code}]"));
    (event == EXECUTED).then(|| format!("{mode}: {command}{}", code.unwrap_or_default()))
}

fn directive(end: &End<'_>) -> Result<verdict::Push, Skip> {
    // A truncated document may still parse, with another meaning than the hook's.
    if end.stdout_truncated {
        return Err(Skip::InvalidJson);
    }
    let text = String::from_utf8_lossy(end.stdout);
    if is_blank(&text) {
        return Err(Skip::EmptyStdout);
    }
    let members = Members::parse(&text)?;
    let message: String = required(&members, "message")?;
    if is_blank(&message) {
        return Err(Skip::EmptyMessage);
    }
    let wake = required(&members, "wake")?;
    let push_when: bool = required(&members, "push_when")?;
    let session = optional(&members, "session")?
        .filter(|session| !is_blank(session))
        .unwrap_or_default();
    if !push_when {
        return Err(Skip::PushWhenFalse);
    }
    let name = if is_blank(end.name) {
        end.point
    } else {
        end.name
    };
    Ok(verdict::Push {
        message,
        name: name.to_owned(),
        session,
        wake,
    })
}

// Text that holds half of a surrogate pair is no Unicode, cannot be delivered and counts as the wrong type.
fn required<'a, T: Deserialize<'a>>(members: &Members<'a>, name: &'static str) -> Result<T, Skip> {
    let value = members.last(name).ok_or(Skip::MissingField(name))?;
    typed(value, name)
}

fn optional(members: &Members<'_>, name: &'static str) -> Result<Option<String>, Skip> {
    let value = members.last(name);
    value.map_or(Ok(None), |value| typed(value, name))
}

fn typed<'a, T: Deserialize<'a>>(value: &'a RawValue, name: &'static str) -> Result<T, Skip> {
    serde_json::from_str(value.get()).map_err(|_| Skip::WrongType(name))
}

/// Returns whether Python's `strip` would leave nothing; `strip` also takes the four ASCII separators.
fn is_blank(text: &str) -> bool {
    text.chars()
        .all(|c| c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c))
}
