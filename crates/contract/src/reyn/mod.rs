//! reyn lifecycle hooks, by its page of June 2026. The scheme names of later releases are accepted.
//!
//! A hook never stops the point it runs at: every failure only skips the push. A directive is taken whole or not at all.

use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Map, Value, json, value::RawValue};

use hookjail_base::model::{Event, InvalidField};

use super::{
    CommandStyle, Configured, ContractEvent, Defaults, End, EndKind, Envelope, Facts, OwnConsent,
    Point, Runtime, Skip, Stop, Verdict,
    entry::Key,
    hook_file::HookFile,
    members::{Fault, Members},
    stdin, verdict,
};

mod adapter;
mod hook_file;
pub(super) mod template;

/// The two schemes that run a command.
pub(super) enum Reyn {
    /// Run for its side effect.
    Exec,
    /// stdout is a push directive.
    Push,
}

const CONTRACT: &str = "reyn";

/// No point can be stopped, and later releases have others.
const POINTS: [Point; 13] = [
    point("session_start"),
    point("session_end"),
    point("turn_start"),
    point("turn_end"),
    point("skill_start"),
    point("skill_end"),
    point("task_start"),
    point("task_end"),
    point("mcp_resource_updated"),
    point("file_changed"),
    point("cron_fired"),
    point("webhook_received"),
    point("task_settled"),
];

/// An entry's keys; none but consent bears on how an end is read.
const KEYS: [(&str, Key); 12] = [
    ("allowed", Key::Allowed),
    ("exec", Key::Carried),
    ("exec_capture", Key::Carried),
    ("matcher", Key::Carried),
    ("name", Key::Carried),
    ("network", Key::Carried),
    ("on", Key::Carried),
    ("shell_exec", Key::Carried),
    ("shell_push", Key::Carried),
    ("subprocess", Key::Carried),
    ("template_push", Key::Carried),
    ("write_paths", Key::Carried),
];

/// The event of a hook that was executed.
const EXECUTED: &str = "hook_shell_executed";

/// The maximum length of a stream that reyn keeps, bytes.
const OUTPUT_CAP: usize = 10 * 1024 * 1024;

const FACTS: Facts = Facts {
    adapter: Some(&Reyn::Push),
    contract: CONTRACT,
    keys: &KEYS,
    last_points: &["session_end", "turn_end"],
    opens_turns: true,
    other_points: Some(Stop::Nothing),
    output_cap: Some(OUTPUT_CAP),
    own_consent: Some(OwnConsent {
        accept: "REYN_ACCEPT_HOOKS",
        allowlist: "REYN_SHELL_HOOKS_ALLOWLIST",
        usual: ".reyn/shell-hooks-allowlist.json",
    }),
    points: &POINTS,
    shared_points: &[
        ("SessionStart", "session_start"),
        ("SessionEnd", "session_end"),
    ],
    template_mode: Some("shell_push"),
    version: "reyn/2026-06",
    ..Facts::NONE
};

impl Runtime for Reyn {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn modes(&self) -> &'static [&'static str] {
        match self {
            Self::Exec => &["shell_exec", "exec"],
            Self::Push => &["shell_push", "exec_capture", "command"],
        }
    }

    fn defaults(&self, _point: &str) -> Defaults {
        Defaults {
            command: CommandStyle::Argv,
            profile: "strict",
            // An entry has no key for another.
            timeout: Some(Duration::from_secs(60)),
        }
    }

    fn stdin(&self, event: &Event, _envelope: &Envelope) -> Result<Bytes, InvalidField> {
        stdin::object(CONTRACT, event, "point", &[])
    }

    fn interpret(&self, end: &End<'_>) -> Verdict {
        let said = match (failure(end), self) {
            (Some(skip), _) => Err(skip),
            (None, Self::Exec) => Err(Skip::OutputIgnored),
            (None, Self::Push) => directive(end),
        };
        match said {
            Ok(push) => Verdict {
                push: Some(push),
                ..Verdict::default()
            },
            Err(skip) => Verdict::skipped(skip),
        }
    }

    /// Returns the event of a run, unless nothing ran.
    fn event(&self, end: &End<'_>) -> Option<ContractEvent> {
        // A template is rendered by a program of hookjail's, of which the runtime knows nothing.
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
        let mode = self.modes()[0];
        let json = json!({ "command": end.command, "mode": mode, "returncode": returncode });
        Some(ContractEvent {
            json,
            name: EXECUTED,
        })
    }

    /// Returns reyn's display line: the mode, the command, and a nonzero exit code.
    fn display(&self, event: &str, members: &Map<String, Value>) -> Option<String> {
        let text = |key| members.get(key).and_then(Value::as_str);
        let (mode, command) = (text("mode")?, text("command")?);
        let code = members.get("returncode").and_then(Value::as_i64)?;
        let code = (code != 0).then(|| format!(" [rc={code}]"));
        (event == EXECUTED).then(|| format!("{mode}: {command}{}", code.unwrap_or_default()))
    }
}

impl Configured for Reyn {
    fn hook_file(&self) -> Option<&'static dyn HookFile> {
        Some(&Self::Push)
    }
}

const fn point(name: &'static str) -> Point {
    Point {
        name,
        stop: Stop::Nothing,
    }
}

fn failure(end: &End<'_>) -> Option<Skip> {
    if end.entry.allowed == Some(false) {
        return Some(Skip::ConsentRefused);
    }
    end.kind.failure()
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
    let members = Members::parse(&text).map_err(|fault| match fault {
        Fault::NotJson | Fault::TooDeep => Skip::InvalidJson,
        Fault::NotObject => Skip::NotObject,
    })?;
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

// Text that holds half of a surrogate pair is no Unicode and cannot be delivered: it counts as the wrong type.
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

/// Returns whether Python's `strip` would leave nothing: it also takes the four ASCII separators.
fn is_blank(text: &str) -> bool {
    text.chars()
        .all(|c| c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c))
}
