//! Runtimes as their own hooks see them: whose payload it is, and how each is told no.

use serde_json::{Value, json};

use super::{
    Decision, End, EndKind, Mode, Stop,
    members::{Members, number, text},
};
use crate::request::OnFailure;

/// Whoever starts a hook and reads its end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Runtime {
    /// git: anything but 0 stops what the hook is called before; what it reads is no JSON.
    Git,
    /// A runtime whose contract is known.
    Of(Mode),
}

/// What a hook's process says when it ends.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Said {
    /// The exit code.
    pub code: u8,
    /// What it prints to stderr.
    pub stderr: String,
    /// What it prints.
    pub stdout: String,
}

/// hookjail failed or refused, in an exit code that no runtime takes for a decision of its own.
const FAILED: u8 = 125;

impl Runtime {
    /// Every runtime with the name it is asked for by.
    pub const ALL: [(&'static str, Self); 11] = [
        ("base-coat", Self::Of(Mode::Basecoat)),
        ("claude-code", Self::Of(Mode::ClaudeCode)),
        ("codex", Self::Of(Mode::Codex)),
        ("copilot", Self::Of(Mode::Copilot)),
        ("cursor", Self::Of(Mode::Cursor)),
        ("docker-agent", Self::Of(Mode::DockerAgent)),
        ("gemini-cli", Self::Of(Mode::GeminiCli)),
        ("git", Self::Git),
        ("infer", Self::Of(Mode::Infer)),
        ("loom", Self::Of(Mode::Loom)),
        ("reyn", Self::Of(Mode::ReynPush)),
    ];

    /// Returns the contract's mode its hooks are run under.
    pub const fn mode(self) -> Mode {
        match self {
            Self::Git => Mode::Observe,
            Self::Of(mode) => mode,
        }
    }

    /// Tells from a payload whose it is; `None` where that cannot be told.
    pub fn recognise(payload: &[u8]) -> Option<Self> {
        let payload = String::from_utf8_lossy(payload);
        let members = Members::parse_at_any_depth(&payload).ok()?;
        let named = |name: &str| members.last(name).and_then(text);
        let has = |name: &str| members.last(name).is_some();
        let knows = |mode: Mode, point: &str| mode.points().iter().any(|known| known.name == point);
        let mode = if let Some(point) = named("hook_event_name") {
            if has("cursor_version") || has("conversation_id") {
                Mode::Cursor
            } else if knows(Mode::DockerAgent, &point) {
                Mode::DockerAgent
            } else if knows(Mode::GeminiCli, &point) && has("timestamp") {
                Mode::GeminiCli
            } else if has("timestamp") {
                Mode::Copilot
            } else if has("turn_id") {
                Mode::Codex
            } else {
                Mode::ClaudeCode
            }
        } else if has("sessionId")
            && members
                .last("timestamp")
                .is_some_and(|timestamp| number(timestamp).is_some())
        {
            Mode::Copilot
        } else if named("event").is_some_and(|point| knows(Mode::Loom, &point)) {
            Mode::Loom
        } else if named("hook").is_some_and(|point| knows(Mode::Infer, &point)) {
            Mode::Infer
        } else if named("hook").is_some_and(|point| knows(Mode::Basecoat, &point)) {
            Mode::Basecoat
        } else if has("point") {
            Mode::ReynPush
        } else {
            return None;
        };
        Some(Self::Of(mode))
    }

    /// Returns the lifecycle point that a payload names; `None` where it names none.
    pub fn point(self, payload: &[u8]) -> Option<String> {
        let payload = String::from_utf8_lossy(payload);
        let members = Members::parse_at_any_depth(&payload).ok()?;
        let name = match self {
            Self::Git => return None,
            Self::Of(Mode::Loom) => "event",
            Self::Of(Mode::Basecoat | Mode::Infer) => "hook",
            Self::Of(Mode::ReynExec | Mode::ReynPush) => "point",
            Self::Of(_) => "hook_event_name",
        };
        match members.last(name) {
            Some(point) => text(point),
            None if self == Self::Of(Mode::Copilot) => copilots(&members).map(str::to_owned),
            None => None,
        }
    }

    /// Says whether a hook at a point can stop something; where the point is not known, it must be thought so.
    pub fn is_gate(self, point: Option<&str>) -> bool {
        match (self, point) {
            (Self::Git, _) | (_, None) => true,
            (Self::Of(mode), Some(point)) => {
                mode.stop_at(point).is_ok_and(|stop| stop != Stop::Nothing)
            }
        }
    }

    /// Returns how the runtime is told no at a point, in the way that its contract honours there. At a point that cannot be
    /// stopped, it is only told that the hook failed.
    pub fn no(self, point: &str, why: &str) -> Said {
        let Self::Of(mode) = self else {
            return Said {
                code: 1,
                stderr: why.to_owned(),
                stdout: String::new(),
            };
        };
        let by_code = Said {
            code: 2,
            stderr: why.to_owned(),
            stdout: String::new(),
        };
        let by_words = answers(point, why).map(|answer| Said {
            code: 0,
            stderr: why.to_owned(),
            stdout: answer.to_string(),
        });
        [by_code]
            .into_iter()
            .chain(by_words)
            .find(|said| decides(mode, point, said).stops())
            .unwrap_or_else(|| self.failed(point, why))
    }

    /// Returns how the runtime is told that there was no hook, where that is to stop nothing.
    pub fn failed(self, point: &str, why: &str) -> Said {
        let said = |code| Said {
            code,
            stderr: why.to_owned(),
            stdout: String::new(),
        };
        match self {
            Self::Of(mode) if !decides(mode, point, &said(FAILED)).stops() => said(FAILED),
            // Any other code would stop it.
            Self::Git | Self::Of(_) => said(0),
        }
    }
}

/// Base Coat's points, each with what other runtimes call the same.
pub const ALIASES: [(&str, &[(Mode, &str)]); 7] = [
    (
        "SessionStart",
        &[
            (Mode::Copilot, "sessionStart"),
            (Mode::Cursor, "sessionStart"),
            (Mode::DockerAgent, "session_start"),
            (Mode::Infer, "pre_session"),
            (Mode::Loom, "session.start"),
            (Mode::ReynPush, "session_start"),
        ],
    ),
    (
        "SessionEnd",
        &[
            (Mode::Copilot, "sessionEnd"),
            (Mode::Cursor, "sessionEnd"),
            (Mode::DockerAgent, "session_end"),
            (Mode::Infer, "post_session"),
            (Mode::Loom, "session.end"),
            (Mode::ReynPush, "session_end"),
        ],
    ),
    (
        "PreToolUse",
        &[
            (Mode::Copilot, "preToolUse"),
            (Mode::Cursor, "preToolUse"),
            (Mode::DockerAgent, "pre_tool_use"),
            (Mode::GeminiCli, "BeforeTool"),
            (Mode::Infer, "pre_tool"),
            (Mode::Loom, "tool.pre"),
        ],
    ),
    (
        "PostToolUse",
        &[
            (Mode::Copilot, "postToolUse"),
            (Mode::Cursor, "postToolUse"),
            (Mode::DockerAgent, "post_tool_use"),
            (Mode::GeminiCli, "AfterTool"),
            (Mode::Infer, "post_tool"),
            (Mode::Loom, "tool.post"),
        ],
    ),
    (
        "PreCompact",
        &[
            (Mode::Copilot, "preCompact"),
            (Mode::Cursor, "preCompact"),
            (Mode::DockerAgent, "pre_compact"),
            (Mode::GeminiCli, "PreCompress"),
        ],
    ),
    ("PostCompact", &[(Mode::DockerAgent, "after_compaction")]),
    (
        "OnError",
        &[
            (Mode::ClaudeCode, "PostToolUseFailure"),
            (Mode::Copilot, "errorOccurred"),
            (Mode::Cursor, "postToolUseFailure"),
            (Mode::DockerAgent, "on_error"),
            (Mode::Loom, "error"),
        ],
    ),
];

/// Returns Base Coat's name of a point that some runtime calls its own way; the name itself where none does.
pub fn base_coats(point: &str) -> &str {
    let known = ALIASES
        .iter()
        .find(|(_, aliases)| aliases.iter().any(|(_, alias)| *alias == point));
    known.map_or(point, |(name, _)| name)
}

/// Says what a contract makes of what a process said.
fn decides(mode: Mode, point: &str, said: &Said) -> Decision {
    let end = End {
        kind: EndKind::Exited(said.code.into()),
        point,
        stderr: said.stderr.as_bytes(),
        stdout: said.stdout.as_bytes(),
        ..End::default()
    };
    let verdict = mode.judge(&end, OnFailure::Contract);
    if verdict.recorded_block {
        Decision::None
    } else {
        verdict.decision
    }
}

/// Returns the ways in which one runtime or another is told no in words.
fn answers(point: &str, why: &str) -> impl Iterator<Item = Value> {
    [
        json!({"action": "block", "reason": why}),
        json!({"permissionDecision": "deny", "permissionDecisionReason": why}),
        json!({"behavior": "deny", "message": why}),
        json!({"hookSpecificOutput": {
            "hookEventName": point, "permissionDecision": "deny", "permissionDecisionReason": why,
        }}),
        json!({"permission": "deny", "user_message": why, "agent_message": why}),
        json!({"continue": false, "user_message": why}),
        json!({"decision": "block", "reason": why}),
        json!({"continue": false, "stopReason": why}),
    ]
    .into_iter()
}

/// Returns the point of one of Copilot's payloads that name none.
fn copilots(members: &Members<'_>) -> Option<&'static str> {
    let has = |name: &str| members.last(name).is_some();
    if has("toolResult") {
        Some("postToolUse")
    } else if has("toolArgs") && has("error") {
        Some("postToolUseFailure")
    } else if has("toolArgs") {
        Some("preToolUse")
    } else if has("error") {
        Some("errorOccurred")
    } else if has("prompt") {
        Some("userPromptSubmitted")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_runtime_honours_its_no_wherever_something_can_be_stopped() {
        let mut gates = 0;
        for (name, runtime) in Runtime::ALL {
            let mode = runtime.mode();
            for point in mode.points() {
                let no = runtime.no(point.name, "hookjail: refused");
                let decision = decides(mode, point.name, &no);
                if runtime.is_gate(Some(point.name)) {
                    gates += 1;
                    assert!(decision.stops(), "{name} {}: {no:?}", point.name);
                    let told = format!("{}{}", no.stdout, no.stderr);
                    assert!(told.contains("hookjail: refused"), "{name}: {no:?}");
                }
                let failed = runtime.failed(point.name, "hookjail: refused");
                let decision = decides(mode, point.name, &failed);
                assert!(!decision.stops(), "{name} {}: {failed:?}", point.name);
            }
        }
        assert!(gates > 40, "{gates}");
    }

    #[test]
    fn every_alias_is_a_point_of_its_runtime_and_stands_for_one_of_base_coats() {
        for (name, aliases) in ALIASES {
            assert!(Mode::Basecoat.stop_at(name).is_ok(), "{name}");
            assert_eq!(base_coats(name), name);
            for (mode, alias) in aliases {
                let mut points = mode.points().iter();
                assert!(points.any(|point| point.name == *alias), "{mode:?} {alias}");
                assert_eq!(base_coats(alias), name);
            }
        }
        assert_eq!(base_coats("turn_end"), "turn_end");
    }

    #[test]
    fn a_payload_is_recognised_whatever_a_model_wrote_into_it() {
        let deep = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
        for input in [
            r#""\ud800""#,
            "1e999",
            r#"{"\udc00":0}"#,
            &deep,
            r#""\u0000""#,
        ] {
            let payload =
                format!(r#"{{"tool_input":{input},"hook_event_name":"PreToolUse","turn_id":"1"}}"#);
            let runtime = Runtime::recognise(payload.as_bytes());
            assert_eq!(runtime, Some(Runtime::Of(Mode::Codex)), "{input:.20}");
            let point = runtime.unwrap().point(payload.as_bytes());
            assert_eq!(point.as_deref(), Some("PreToolUse"), "{input:.20}");
        }
        let latin = b"{\"hook_event_name\":\"PreToolUse\",\"turn_id\":\"1\",\"a\":\"\xe9\"}";
        let codex = Runtime::recognise(latin).unwrap();
        assert_eq!(codex.point(latin).as_deref(), Some("PreToolUse"));
    }

    #[test]
    fn a_payload_is_recognised_and_names_its_point() {
        for (payload, name, point) in [
            (
                r#"{"session_id":"s","transcript_path":"/t","cwd":"/","hook_event_name":"PreToolUse","tool_name":"Bash","permission_mode":"default"}"#,
                "claude-code",
                "PreToolUse",
            ),
            (
                r#"{"session_id":"s","turn_id":"1","transcript_path":null,"cwd":"/","hook_event_name":"PreToolUse","model":"m"}"#,
                "codex",
                "PreToolUse",
            ),
            (
                r#"{"session_id":"s","transcript_path":"/t","cwd":"/","hook_event_name":"BeforeTool","timestamp":"2026-01-01T00:00:00Z"}"#,
                "gemini-cli",
                "BeforeTool",
            ),
            (
                r#"{"conversation_id":"c","generation_id":"g","hook_event_name":"preToolUse","cursor_version":"2"}"#,
                "cursor",
                "preToolUse",
            ),
            (
                r#"{"sessionId":"s","timestamp":1700000000000,"cwd":"/","toolName":"bash","toolArgs":"{}"}"#,
                "copilot",
                "preToolUse",
            ),
            (
                r#"{"session_id":"s","cwd":"/","hook_event_name":"pre_tool_use","tool_name":"shell"}"#,
                "docker-agent",
                "pre_tool_use",
            ),
            (r#"{"event":"tool.pre","turnIndex":0}"#, "loom", "tool.pre"),
            (
                r#"{"hook":"pre_tool","session_id":"s","turn":1}"#,
                "infer",
                "pre_tool",
            ),
            (
                r#"{"hook":"PreToolUse","sessionId":"s"}"#,
                "base-coat",
                "PreToolUse",
            ),
            (
                r#"{"point":"turn_end","agent_name":"a"}"#,
                "reyn",
                "turn_end",
            ),
        ] {
            let runtime = Runtime::recognise(payload.as_bytes()).unwrap();
            let expected = Runtime::ALL.iter().find(|(known, _)| *known == name);
            assert_eq!(runtime, expected.unwrap().1, "{payload}");
            assert_eq!(runtime.point(payload.as_bytes()).as_deref(), Some(point));
        }
        for payload in ["", "[]", "{}", "refs/heads/main 1 2\n", r#"{"hook":7}"#] {
            assert_eq!(Runtime::recognise(payload.as_bytes()), None, "{payload}");
        }
        assert_eq!(Runtime::Git.point(b"{}"), None);
        assert!(Runtime::Git.is_gate(None));
    }
}
