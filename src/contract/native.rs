//! Runtimes as their own hooks see them: whose payload it is, and how each is told no.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    Decision, End, EndKind, Mode, Stop, loom,
    members::{Members, number, text},
};
use crate::model::OnFailure;

/// Whoever starts a hook and reads its end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Runtime {
    /// git: anything but 0 stops what the hook is called before; what it reads is no JSON.
    Git,
    /// A runtime whose contract is known.
    Of(Mode),
    /// Qwen Code, which has the points, payloads and answers of Claude Code, and its own settings, tools and times.
    QwenCode,
}

/// What a hook's process says when it ends.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Said {
    /// The exit code.
    pub code: u8,
    /// What it prints to stderr.
    pub stderr: Vec<u8>,
    /// What it prints.
    pub stdout: Vec<u8>,
}

impl Said {
    fn by_code(code: u8, why: &str) -> Self {
        Self {
            code,
            stderr: format!("{why}\n").into_bytes(),
            stdout: Vec::new(),
        }
    }

    /// In words that exit code 0 has read.
    fn by_words(answer: &Value, why: &str) -> Self {
        Self {
            stdout: answer.to_string().into_bytes(),
            ..Self::by_code(0, why)
        }
    }

    /// Says whether stdout, or stderr where there is nothing on it, looks like an answer in JSON.
    fn is_json_like(&self) -> bool {
        let first = |bytes: &[u8]| bytes.trim_ascii_start().first().copied();
        let first = first(&self.stdout).or_else(|| first(&self.stderr));
        matches!(first, Some(b'"' | b'[' | b'{'))
    }
}

/// What a no does at a point.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Stakes {
    /// It stops what is about to be done.
    Gate,
    /// An agent that is about to end goes on working.
    GoOn,
    /// Nothing.
    Nothing,
}

/// hookjail failed or refused, in an exit code that is no decision wherever nothing can be stopped.
const FAILED: u8 = 125;

/// The one exit code but 0 that is no decision under Gemini CLI.
const GEMINIS_WARNING: u8 = 1;

impl Runtime {
    /// Every runtime with the name it is asked for by.
    pub const ALL: [(&'static str, Self); 12] = [
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
        ("qwen-code", Self::QwenCode),
        ("reyn", Self::Of(Mode::ReynPush)),
    ];

    /// Returns the contract's mode its hooks are run under.
    pub const fn mode(self) -> Mode {
        match self {
            Self::Git => Mode::Observe,
            Self::Of(mode) => mode,
            Self::QwenCode => Mode::ClaudeCode,
        }
    }

    /// Returns the runtime whose words it understands and speaks.
    const fn kin(self) -> Self {
        match self {
            Self::Git => Self::Git,
            Self::Of(_) | Self::QwenCode => Self::Of(self.mode()),
        }
    }

    /// Returns how long it waits for a hook whose entry does not say; `None` where that is not known.
    pub fn default_timeout(self, point: &str) -> Option<Duration> {
        match self {
            Self::QwenCode => Some(Duration::from_secs(60)),
            Self::Git | Self::Of(_) => self.mode().defaults(point).timeout,
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

    /// Returns the lifecycle point of a payload: the one that it names, else, for Copilot's that name none, the one that its
    /// members tell; `None` where nothing does.
    pub fn point(self, payload: &[u8]) -> Option<String> {
        let payload = String::from_utf8_lossy(payload);
        let members = Members::parse_at_any_depth(&payload).ok()?;
        match members.last(self.key_of_point()?) {
            Some(point) => text(point),
            None if self == Self::Of(Mode::Copilot) => copilots(&members).map(str::to_owned),
            None => None,
        }
    }

    /// Returns the lifecycle point that a payload names itself; `None` where it names none.
    pub fn named_point(self, payload: &[u8]) -> Option<String> {
        let payload = String::from_utf8_lossy(payload);
        let members = Members::parse_at_any_depth(&payload).ok()?;
        text(members.last(self.key_of_point()?)?)
    }

    /// Returns the member by which a payload names its point; `None` where payloads are no JSON.
    const fn key_of_point(self) -> Option<&'static str> {
        match self {
            Self::Git => None,
            Self::Of(Mode::Loom) => Some("event"),
            Self::Of(Mode::Basecoat | Mode::Infer) => Some("hook"),
            Self::Of(Mode::ReynExec | Mode::ReynPush) => Some("point"),
            Self::Of(_) | Self::QwenCode => Some("hook_event_name"),
        }
    }

    /// Says what a no does at a point; `None` is a point that is not known, which must be thought a gate.
    pub fn stakes(self, point: Option<&str>) -> Stakes {
        let Self::Of(mode) = self.kin() else {
            return Stakes::Gate;
        };
        match point.map(|point| mode.stop_at(point)) {
            Some(Ok(Stop::Ending)) => Stakes::GoOn,
            Some(Ok(Stop::Nothing)) => Stakes::Nothing,
            Some(Ok(Stop::Call | Stop::Operation)) => Stakes::Gate,
            // A new point of a runtime whose points are none of them gates is none either.
            None | Some(Err(_)) => {
                let mut points = mode.points().iter();
                if points.all(|known| known.stop == Stop::Nothing) {
                    Stakes::Nothing
                } else {
                    Stakes::Gate
                }
            }
        }
    }

    /// Says whether a tool call or permission is decided at a point, or may be.
    pub fn is_of_a_call(self, point: Option<&str>) -> bool {
        match (self, point) {
            (Self::Git, _) => true,
            (Self::Of(_) | Self::QwenCode, Some(point)) => self
                .mode()
                .stop_at(point)
                .map_or_else(|_| self.stakes(None) == Stakes::Gate, |it| it == Stop::Call),
            (Self::Of(_) | Self::QwenCode, None) => self.stakes(None) == Stakes::Gate,
        }
    }

    /// Returns how the runtime is told no at a point, in the way that the runtime itself honours there; where it does not know
    /// the point, as before a tool call. Where nothing can be stopped, it is only told that the hook failed.
    ///
    /// These are not found by what the contracts call a stop: a contract may be stricter than its runtime, and what a runtime
    /// does not honour is no no.
    pub fn no(self, point: Option<&str>, why: &str) -> Said {
        let by_words = |answer: Value| Said::by_words(&answer, why);
        let and_words = |answer: Value| Said {
            stdout: answer.to_string().into_bytes(),
            ..Said::by_code(2, why)
        };
        match (self, point.unwrap_or_default()) {
            (Self::Git, _) => Said::by_code(1, why),
            // The specification knows no exit code that says something.
            (Self::Of(Mode::Basecoat), _) => by_words(json!({"action": "block", "reason": why})),
            // There any exit code but 0 is a failed run.
            (Self::Of(Mode::Codex), "PreCompact") => {
                by_words(json!({"continue": false, "stopReason": why}))
            }
            // Exit code 2 is only a warning there.
            (
                Self::Of(Mode::Copilot),
                "AgentStop" | "Stop" | "SubagentStop" | "agentStop" | "subagentStop",
            ) => by_words(json!({"decision": "block", "reason": why})),
            // Exit code 2 denies; the reason reaches the model by what is printed beside it.
            (Self::Of(Mode::Copilot), "PermissionRequest" | "permissionRequest") => {
                and_words(json!({"behavior": "deny", "message": why}))
            }
            (Self::Of(Mode::Copilot), _) => {
                and_words(json!({"permissionDecision": "deny", "permissionDecisionReason": why}))
            }
            // What is read of these has no `permission`, for which exit code 2 stands.
            (Self::Of(Mode::Cursor), "beforeSubmitPrompt" | "sessionStart") => {
                by_words(json!({"continue": false, "user_message": why}))
            }
            (Self::Of(Mode::Infer | Mode::Observe | Mode::ReynExec | Mode::ReynPush), _) => {
                self.failed(point, why)
            }
            (
                Self::Of(
                    Mode::ClaudeCode
                    | Mode::Codex
                    | Mode::Cursor
                    | Mode::DockerAgent
                    | Mode::DockerAgentModel
                    | Mode::GeminiCli
                    | Mode::Loom,
                )
                | Self::QwenCode,
                _,
            ) => Said::by_code(2, why),
        }
    }

    /// Returns how the runtime is told that there was no hook, where that is to stop nothing.
    pub fn failed(self, point: Option<&str>, why: &str) -> Said {
        match (self, self.stakes(point)) {
            (Self::Of(Mode::GeminiCli), Stakes::Nothing) => Said::by_code(GEMINIS_WARNING, why),
            (Self::Of(_) | Self::QwenCode, Stakes::Nothing) => Said::by_code(FAILED, why),
            // A runtime, or the hook's entry there, may take any exit code but 0 for a no. These show their user a message.
            (Self::Of(Mode::ClaudeCode | Mode::Codex | Mode::GeminiCli) | Self::QwenCode, _)
                // Where stdout is the path of a worktree, it must not be anything else.
                if point.is_some_and(|point| point != "WorktreeCreate") =>
            {
                Said::by_words(&json!({"systemMessage": why}), why)
            }
            (Self::Git | Self::Of(_) | Self::QwenCode, _) => Said::by_code(0, why),
        }
    }

    /// Says whether the runtime takes an end for a no at a point.
    pub fn takes_for_no(self, point: Option<&str>, said: &Said) -> bool {
        match self {
            Self::Git => said.code != 0,
            // Loom's contract is stricter than Loom.
            Self::Of(Mode::Loom) if loom::passes_by_object(&said.stdout) => false,
            Self::Of(_) | Self::QwenCode => decides(self.mode(), point.unwrap_or_default(), said)
                .0
                .stops(),
        }
    }

    /// Returns the end of a hook that only looks on: its own where that stops nothing and asks nobody, else one that says that it
    /// is not given on.
    pub fn observed(self, point: Option<&str>, said: Said) -> Said {
        let Self::Of(mode) = self.kin() else {
            return Said { code: 0, ..said };
        };
        let (decision, failed) = decides(mode, point.unwrap_or_default(), &said);
        let decides = decision.stops() || decision == Decision::Ask;
        let may_decide = said.is_json_like() && (failed || point.is_none());
        let is_plain = said.code == 0 || self.stakes(point) == Stakes::Nothing;
        if is_plain && !decides && !may_decide {
            return said;
        }
        let why = format!(
            "hookjail: this hook only observes; its end (exit code {}) is not given on",
            said.code
        );
        let instead = self.failed(point, &why);
        Said {
            stderr: [instead.stderr, said.stderr].concat(),
            ..instead
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

/// Says what a contract makes of what a process said, and whether it calls that a failure.
fn decides(mode: Mode, point: &str, said: &Said) -> (Decision, bool) {
    let end = End {
        kind: EndKind::Exited(said.code.into()),
        point,
        stderr: &said.stderr,
        stdout: &said.stdout,
        ..End::default()
    };
    let verdict = mode.judge(&end, OnFailure::Contract);
    if verdict.recorded_block {
        (Decision::None, verdict.failed)
    } else {
        (verdict.decision, verdict.failed)
    }
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

    /// Says whether a runtime's real program was seen, or is documented, to take an end for a no at a point: stricter about
    /// what is one than the contracts, which stop where a hook may have meant to. Claude Code 2.1.330, Codex 0.169.0, Copilot CLI
    /// 1.0.102, Gemini CLI 0.61.0; the others by their pages.
    fn honours(runtime: Runtime, point: &str, said: &Said) -> bool {
        let Runtime::Of(mode) = runtime.kin() else {
            return said.code != 0;
        };
        let answer: Value = serde_json::from_slice(&said.stdout).unwrap_or_default();
        let has = |name: &str, value: Value| said.code == 0 && answer[name] == value;
        let two = said.code == 2;
        match (mode, point) {
            (Mode::Basecoat, _) => has("action", json!("block")),
            (Mode::Codex, "PreCompact") => has("continue", json!(false)),
            (Mode::Codex | Mode::GeminiCli, _) => two && !said.stderr.is_empty(),
            (
                Mode::Copilot,
                "agentStop" | "subagentStop" | "AgentStop" | "Stop" | "SubagentStop",
            ) => has("decision", json!("block")),
            (Mode::Cursor, "beforeSubmitPrompt" | "sessionStart") => has("continue", json!(false)),
            (Mode::Loom, _) => said.code != 0,
            _ => two,
        }
    }

    fn why() -> &'static str {
        "hookjail: refused"
    }

    #[test]
    fn every_runtime_honours_its_no_wherever_something_can_be_stopped() {
        let mut gates = 0;
        for (name, runtime) in Runtime::ALL {
            let mode = runtime.mode();
            let points = mode.points().iter().map(|point| Some(point.name));
            for point in points.chain([None]) {
                let no = runtime.no(point, why());
                if runtime.stakes(point) == Stakes::Nothing {
                    continue;
                }
                gates += 1;
                // Where the point is not known, it is the one before a tool call that counts.
                let at = point.unwrap_or("PreToolUse");
                assert!(honours(runtime, at, &no), "{name} {point:?}: {no:?}");
                if point.is_some() {
                    assert!(runtime.takes_for_no(point, &no), "{name} {point:?}: {no:?}");
                }
                let told = [no.stdout, no.stderr].concat();
                let told = String::from_utf8(told).unwrap();
                assert!(told.contains(why()), "{name}: {told}");
            }
        }
        assert!(gates > 60, "{gates}");
    }

    #[test]
    fn qwen_code_speaks_as_claude_code_and_waits_as_long_as_it_does_itself() {
        let (qwen, claude) = (Runtime::QwenCode, Runtime::Of(Mode::ClaudeCode));
        let minute = Some(Duration::from_secs(60));
        assert_eq!(qwen.default_timeout("PreToolUse"), minute);
        assert_ne!(claude.default_timeout("PreToolUse"), minute);
        let points = Mode::ClaudeCode.points().iter();
        for point in points.map(|point| Some(point.name)).chain([None]) {
            assert_eq!(qwen.no(point, "why"), claude.no(point, "why"), "{point:?}");
            assert_eq!(qwen.failed(point, "why"), claude.failed(point, "why"));
            assert_eq!(qwen.stakes(point), claude.stakes(point));
            assert_eq!(qwen.is_of_a_call(point), claude.is_of_a_call(point));
        }
    }

    /// Without the hook there is no worktree, whatever is said in its place.
    #[test]
    fn an_object_that_lets_a_call_pass_is_no_no_under_loom_whatever_the_exit_code() {
        let takes_for_no = |code, stdout: &str| {
            let said = Said {
                code,
                stderr: Vec::new(),
                stdout: stdout.into(),
            };
            Runtime::Of(Mode::Loom).takes_for_no(Some("tool.pre"), &said)
        };
        let deep = format!("{{\"a\": {}{}}}", "[".repeat(200), "]".repeat(200));
        for passes in ["{}", "\n{\"continue\": true} ", "{\"continue\": 0}", &deep] {
            assert!(!takes_for_no(1, passes), "{passes}");
        }
        for stops in ["", "crashed", "{\"continue\": false}", "{} and more", "[1]"] {
            assert!(takes_for_no(1, stops), "{stops}");
        }
        assert!(takes_for_no(0, "{\"continue\": false}"));
    }

    fn makes_a_worktree(point: Option<&str>) -> bool {
        point == Some("WorktreeCreate")
    }

    #[test]
    fn a_failure_of_hookjails_own_stops_nothing_at_any_point_of_any_runtime() {
        for (name, runtime) in Runtime::ALL {
            let points = runtime.mode().points().iter();
            for point in points.map(|point| Some(point.name)).chain([None]) {
                let failed = runtime.failed(point, why());
                assert!(
                    !runtime.takes_for_no(point, &failed) || makes_a_worktree(point),
                    "{name} {point:?}: {failed:?}"
                );
                // A policy that an entry of the runtime's may have reads any other code as a no.
                let is_quiet = failed.code == 0 || runtime.stakes(point) == Stakes::Nothing;
                assert!(is_quiet, "{name} {point:?}: {failed:?}");
                let is_of_gemini = runtime == Runtime::Of(Mode::GeminiCli);
                assert!(!is_of_gemini || failed.code < 2, "{point:?}: {failed:?}");
                assert!(String::from_utf8_lossy(&failed.stderr).contains(why()));
            }
        }
    }

    #[test]
    fn a_hook_that_only_looks_on_stops_nothing_at_any_point_of_any_runtime() {
        let ends = [
            (2, "", "no\n"),
            (1, "", "no\n"),
            (3, "", "no\n"),
            (101, "", "no\n"),
            (125, "", "no\n"),
            (137, "", ""),
            (0, r#"{"decision": "block", "reason": "no"}"#, ""),
            (0, r#"{"decision": "deny", "reason": "no"}"#, ""),
            (0, r#"{"continue": false}"#, ""),
            (0, r#"{"action": "block"}"#, ""),
            (0, r#"{"permission": "ask"}"#, ""),
            (0, r#"{"permission": "deny"}"#, ""),
            (0, r#"{"behavior": "deny"}"#, ""),
            (0, r#"{"permissionDecision": "deny"}"#, ""),
            (
                0,
                r#"{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny"}}"#,
                "",
            ),
            (
                0,
                r#"{"hook_specific_output": {"permission_decision": "deny"}}"#,
                "",
            ),
            (0, r#"{"decision": "deny"#, ""),
            (0, "", r#"{"decision": "deny", "reason": "no"}"#),
            (1, r#"{"decision": "deny", "reason": "no"}"#, ""),
        ];
        for (name, runtime) in Runtime::ALL {
            let points = runtime.mode().points().iter();
            for point in points.map(|point| Some(point.name)).chain([None]) {
                for (code, stdout, stderr) in ends {
                    let said = Said {
                        code,
                        stderr: stderr.into(),
                        stdout: stdout.into(),
                    };
                    let observed = runtime.observed(point, said);
                    assert!(
                        !runtime.takes_for_no(point, &observed) || makes_a_worktree(point),
                        "{name} {point:?}: {observed:?}"
                    );
                    let stakes = runtime.stakes(point);
                    let is_quiet = observed.code == 0 || stakes == Stakes::Nothing;
                    assert!(is_quiet, "{name} {point:?}: {observed:?}");
                    if point.is_none() && stakes != Stakes::Nothing && runtime != Runtime::Git {
                        assert!(
                            !observed.stdout.starts_with(b"{")
                                && !observed.stderr.starts_with(b"{")
                        );
                    }
                }
                let context = Said {
                    code: 0,
                    stderr: Vec::new(),
                    stdout: b"logged\n".to_vec(),
                };
                assert_eq!(
                    runtime.observed(point, context.clone()),
                    context,
                    "{name} {point:?}"
                );
            }
        }
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
        assert_eq!(Runtime::Git.stakes(None), Stakes::Gate);
    }
}
