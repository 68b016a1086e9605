//! The family's runtimes, each a line of data.
//!
//! Their ends are passed on as they are. A refusal is exit code 2 with the reason on stderr where the runtime takes that for a denial, else
//! its own words.

use std::{path::Path, time::Duration};

use serde_json::{Value, json};

use super::{FACTS, Stop};
use crate::{
    Mode,
    adopt::{Adapter, HookOutput},
    members::Members,
    settings::{Holds, Settings},
    sources::{Form, Place, Root, Sources},
};

/// Builds the adapter of a runtime from its name, the paths of its settings, and the directory in which it keeps what it obeys.
const fn member(
    name: &'static str,
    paths: &'static [&'static str],
    obeys: &'static [&'static str],
) -> Adapter {
    Adapter {
        obeys,
        settings: Settings {
            project: paths,
            user: paths,
        },
        takes_comments: true,
        ..Adapter::new(name, Mode::Family)
    }
}

/// The key of an event's name of two runtimes.
const EVENT_TYPE: &str = "event_type";

/// Names files whose hooks are written by hand.
macro_rules! by_hand {
    ($runtime:literal, $what:literal) => {
        concat!(
            $what,
            " are not rewritten; write the line with `hookjail run --as ",
            $runtime,
            "` yourself"
        )
    };
}

const fn in_toml(root: Root, path: &'static str, why: &'static str) -> Place {
    Place::new(Form::Toml, root, path, why)
}

const KIMI: &str = by_hand!("kimi-code", "hooks in TOML");
const VIBE: &str = by_hand!("vibe", "hooks in TOML");

/// The runtimes, by name.
pub(crate) const FAMILY: &[Adapter] = &[
    // Antigravity CLI 1.3.0, its manual and what others saw of it. A silent hook lets pass; all else but a word for it denies.
    Adapter {
        command_sample: |command, project| {
            of_antigravity(
                "run_command",
                json!({"CommandLine": command, "Cwd": project}),
                project,
            )
        },
        failure_code: 0,
        file_sample: |name, path| {
            let arguments = json!({"TargetFile": path, "CodeContent": "x", "Overwrite": true});
            let project = path.to_str().and_then(|it| it.strip_suffix(name));
            of_antigravity(
                "write_to_file",
                arguments,
                project.unwrap_or_default().as_ref(),
            )
        },
        names_points: false,
        no: |point, why| {
            let word = if is_ending(point) { "continue" } else { "deny" };
            let answer = json!({"decision": word, "reason": why});
            Some(HookOutput::by_words(&answer, why))
        },
        settings: Settings {
            project: &[".agents/hooks.json"],
            user: &[".gemini/config/hooks.json"],
        },
        takes_for_no: |point, output| Some(denies_in_antigravity(point, output)),
        timeout: Some(Duration::from_secs(30)),
        unnamed_point: point_of_antigravity,
        ..member("antigravity", &[], &[".agents/"])
    },
    // Auggie 0.36.0, its package.
    Adapter {
        command_sample: |command, project| {
            call(
                "launch-process",
                json!({"command": command, "cwd": project}),
            )
        },
        file_sample: |_, path| call("save-file", json!({"path": path, "file_content": "x"})),
        in_millis: true,
        plugin_in_lines: &["CLAUDE_PLUGIN_ROOT", "AUGMENT_PLUGIN_ROOT"],
        takes_for_no: |point, output| {
            let answer = answer(output);
            let is_let_pass = output.code == 2 && answer["continue"] == true;
            let denies = output.code == 2
                || answer["continue"] == false
                || decision_on_call(&answer) == "deny";
            Some(can_be_stopped(point) && denies && !is_let_pass)
        },
        variables: &[("AUGMENT_PROJECT_DIR", Holds::Project)],
        ..member(
            "auggie",
            &[".augment/settings.json", ".augment/settings.local.json"],
            &[".augment/"],
        )
    },
    // Cline at 21cb8d25, its source. No exit code denies.
    Adapter {
        command_sample: |command, _| of_cline("execute_command", json!({"command": command})),
        file_sample: |_, path| of_cline("write_to_file", json!({"path": path, "content": "x"})),
        no: |_, why| {
            let answer = json!({"cancel": true, "errorMessage": why});
            Some(HookOutput::by_words(&answer, why))
        },
        point_key: Some("hookName"),
        takes_for_no: |point, output| {
            let printed = String::from_utf8_lossy(&output.stdout);
            let last = super::last_object(printed.trim()).unwrap_or(&printed);
            let last: Value = serde_json::from_str(last).unwrap_or_default();
            Some(can_be_stopped(point) && last["cancel"] == true)
        },
        timeout: Some(Duration::from_secs(30)),
        ..member("cline", &[], &[".cline/", ".clinerules/"])
    },
    // Cortex Code, its documentation of July 2026.
    Adapter {
        settings: Settings {
            project: &[".snowflake/cortex/settings.json"],
            user: &[
                ".snowflake/cortex/hooks.json",
                ".snowflake/cortex/settings.json",
            ],
        },
        ..member("cortex-code", &[], &[".snowflake/"])
    },
    // Crush at 37f36e93, its source. Exit code 49 ends the turn, too.
    Adapter {
        command_sample: |command, _| call("bash", json!({"command": command})),
        file_sample: |_, path| call("write", json!({"file_path": path, "content": "x"})),
        point_key: Some("event"),
        settings: Settings {
            project: &[".crush.json", "crush.json"],
            user: &[".config/crush/crush.json"],
        },
        takes_comments: false,
        takes_for_no: |point, output| {
            let answer = answer(output);
            let decision = match answer.get("hookSpecificOutput") {
                Some(specific) => &specific["permissionDecision"],
                None => &answer["decision"],
            };
            let decision = decision.as_str().unwrap_or_default();
            let is_denied = output.code == 0 && decision.eq_ignore_ascii_case("deny");
            Some(can_be_stopped(point) && (matches!(output.code, 2 | 49) || is_denied))
        },
        timeout: Some(Duration::from_secs(30)),
        variables: &[
            ("CRUSH_PROJECT_DIR", Holds::Project),
            ("CRUSH_CWD", Holds::Cwd),
        ],
        ..member("crush", &[], &[".crush/"])
    },
    // Devin CLI, its documentation of 2026 and captured payloads, which name no directory.
    Adapter {
        command_sample: |command, _| call("exec", json!({"command": command})),
        file_sample: |_, path| call("write", json!({"file_path": path, "content": "x"})),
        takes_for_no: |point, output| {
            let stops = output.code == 2 || answer(output)["decision"] == "block";
            Some(can_be_stopped(point) && stops)
        },
        settings: Settings {
            project: &[".devin/hooks.v1.json", ".devin/config.json"],
            user: &[".config/devin/config.json"],
        },
        variables: &[("DEVIN_PROJECT_DIR", Holds::Project)],
        ..member("devin", &[], &[".devin/"])
    },
    // Factory Droid 0.225.2, its package. Exit code 3 ends the run, too.
    Adapter {
        command_sample: |command, _| call("Execute", json!({"command": command})),
        file_sample: |_, path| call("Create", json!({"file_path": path, "content": "x"})),
        takes_for_no: |point, output| {
            let is_denied = decision_on_call(&answer(output)) == "deny";
            let is_blocked = is_ending(point) && answer(output)["decision"] == "block";
            let stops = matches!(output.code, 2 | 3) || is_denied || is_blocked;
            Some(can_be_stopped(point) && stops)
        },
        variables: &[
            ("FACTORY_PROJECT_DIR", Holds::Project),
            ("DROID_PROJECT_DIR", Holds::Project),
            ("CLAUDE_PROJECT_DIR", Holds::Project),
        ],
        ..member(
            "droid",
            &[
                ".factory/hooks.json",
                ".factory/settings.json",
                ".factory/settings.local.json",
            ],
            &[".factory/"],
        )
    },
    // goose at 3dafa522, its source: the form of Open Plugins.
    Adapter {
        command_sample: |command, _| call("developer__shell", json!({"command": command})),
        file_sample: |_, path| {
            let input = json!({"command": "write", "path": path, "file_text": "x"});
            call("developer__text_editor", input)
        },
        plugin_in_lines: &["PLUGIN_ROOT"],
        point_key: Some("event"),
        settings: Settings {
            project: &[".agents/plugins/*/hooks/hooks.json"],
            user: &[".agents/plugins/*/hooks/hooks.json"],
        },
        takes_for_no: |point, output| {
            let stops = output.code == 2 || answer(output)["decision"] == "block";
            Some(can_be_stopped(point) && stops)
        },
        timeout: Some(Duration::from_secs(30)),
        variables: &[("PLUGIN_ROOT", Holds::Plugin)],
        ..member("goose", &[], &[".agents/"])
    },
    // Grok Build 1.0.41, the guide in its package.
    Adapter {
        command_sample: |command, _| of_grok("run_terminal_command", json!({"command": command})),
        file_sample: |_, path| of_grok("write", json!({"file_path": path, "content": "x"})),
        plugin_in_lines: &["CLAUDE_PLUGIN_ROOT", "GROK_PLUGIN_ROOT"],
        takes_for_no: |point, output| {
            let answer = answer(output);
            let on_call = decision_on_call(&answer);
            let decision = match on_call {
                "" => answer["decision"].as_str().unwrap_or_default(),
                on_call => on_call,
            };
            let stops = output.code == 2 || matches!(decision, "block" | "deny");
            Some(can_be_stopped(point) && stops)
        },
        timeout: Some(Duration::from_secs(5)),
        variables: &[
            ("GROK_WORKSPACE_ROOT", Holds::Project),
            ("CLAUDE_PROJECT_DIR", Holds::Project),
        ],
        ..member("grok", &[".grok/hooks/*.json"], &[".grok/"])
    },
    // Kimi Code 2.1.0, its source.
    Adapter {
        file_sample: |_, path| call("Write", json!({"path": path, "content": "x"})),
        sources: Sources {
            places: &[in_toml(Root::User, ".kimi-code/config.toml", KIMI)],
            ..Sources::NONE
        },
        takes_for_no: |point, output| {
            let is_denied = output.code == 0 && decision_on_call(&answer(output)) == "deny";
            Some(can_be_stopped(point) && (output.code == 2 || is_denied))
        },
        timeout: Some(Duration::from_secs(30)),
        variables: &[("KIMI_PLUGIN_ROOT", Holds::Plugin)],
        ..member("kimi-code", &[], &[])
    },
    // Kiro CLI 2 by Amazon Q's source at 15cc8f3c, and Kiro CLI 3 by its documentation of September 2026.
    Adapter {
        command_sample: |command, _| call("execute_bash", json!({"command": command})),
        file_sample: |_, path| {
            let input = json!({"command": "create", "path": path, "file_text": "x"});
            call("fs_write", input)
        },
        settings: Settings {
            project: &[
                ".amazonq/cli-agents/*.json",
                ".kiro/agents/*.json",
                ".kiro/hooks/*.json",
            ],
            user: &[
                ".aws/amazonq/cli-agents/*.json",
                ".kiro/agents/*.json",
                ".kiro/hooks/*.json",
            ],
        },
        takes_comments: false,
        takes_for_no: |point, output| {
            let is_blocked = is_ending(point) && answer(output)["decision"] == "block";
            Some(can_be_stopped(point) && (output.code == 2 || is_blocked))
        },
        timeout: Some(Duration::from_secs(30)),
        ..member("kiro", &[], &[".amazonq/", ".kiro/"])
    },
    // Letta Code 0.32.18, its package. Exit code 0 approves at `PermissionRequest`, and 1 leaves it to the user.
    Adapter {
        in_millis: true,
        point_key: Some(EVENT_TYPE),
        takes_for_no: by_code_2,
        undecided_code: 1,
        ..member(
            "letta-code",
            &[".letta/settings.json", ".letta/settings.local.json"],
            &[".letta/"],
        )
    },
    // OpenHands, its SDK 1.58.2.
    Adapter {
        command_sample: |command, _| call("terminal", json!({"command": command})),
        file_sample: |_, path| {
            call(
                "file_editor",
                json!({"command": "create", "path": path, "file_text": "x"}),
            )
        },
        point_key: Some(EVENT_TYPE),
        takes_for_no: |point, output| {
            let answer = answer(output);
            let is_denied = answer["decision"] == "deny" || answer["continue"] == false;
            Some(can_be_stopped(point) && (output.code == 2 || is_denied))
        },
        variables: &[("OPENHANDS_PROJECT_DIR", Holds::Project)],
        ..member("openhands", &[".openhands/hooks.json"], &[".openhands/"])
    },
    // Qoder CLI 1.1.52, its package.
    Adapter {
        plugin_in_lines: &["CLAUDE_PLUGIN_ROOT", "QODER_PLUGIN_ROOT"],
        timeout: Some(Duration::from_mins(10)),
        variables: &[
            ("QODER_PROJECT_DIR", Holds::Project),
            ("CLAUDE_PROJECT_DIR", Holds::Project),
        ],
        ..member(
            "qoder",
            &[".qoder/settings.json", ".qoder/settings.local.json"],
            &[".qoder/"],
        )
    },
    // Mistral Vibe 3.0.3, its package. No exit code denies.
    Adapter {
        command_sample: |command, _| call("file_system.bash", json!({"command": command})),
        file_sample: |_, path| {
            call(
                "file_system.write_file",
                json!({"file_path": path, "content": "x"}),
            )
        },
        no: |_, why| {
            let answer = json!({"decision": "deny", "reason": why});
            Some(HookOutput::by_words(&answer, why))
        },
        sources: Sources {
            places: &[
                in_toml(Root::User, ".vibe/hooks.toml", VIBE),
                in_toml(Root::Project, ".vibe/hooks.toml", VIBE),
            ],
            ..Sources::NONE
        },
        takes_for_no: |point, output| {
            let is_denied = output.code == 0 && answer(output)["decision"] == "deny";
            Some(can_be_stopped(point) && is_denied)
        },
        ..member("vibe", &[], &[".vibe/"])
    },
    // Windsurf's Cascade, its documentation of 2026. No answer of JSON is read.
    Adapter {
        command_sample: |command, project| {
            let about = json!({"command_line": command, "cwd": project});
            json!({"agent_action_name": "pre_run_command", "tool_info": about})
        },
        file_sample: |_, path| {
            let edits = json!([{"old_string": "", "new_string": "x"}]);
            let about = json!({"file_path": path, "edits": edits});
            json!({"agent_action_name": "pre_write_code", "tool_info": about})
        },
        point_key: Some("agent_action_name"),
        settings: Settings {
            project: &[".windsurf/hooks.json"],
            user: &[
                ".codeium/windsurf/hooks.json",
                ".codeium/windsurf-next/hooks.json",
            ],
        },
        takes_comments: false,
        takes_for_no: by_code_2,
        timeout: Some(Duration::from_secs(30)),
        ..member("windsurf", &[], &[".windsurf/"])
    },
];

/// Builds a sample of a tool call.
fn call(tool: &str, input: Value) -> Value {
    json!({"tool_name": tool, "tool_input": input})
}

fn of_antigravity(tool: &str, arguments: Value, project: &Path) -> Value {
    json!({"toolCall": {"name": tool, "args": arguments}, "workspacePaths": [project]})
}

fn of_cline(tool: &str, parameters: Value) -> Value {
    json!({"hookName": "PreToolUse", "preToolUse": {"toolName": tool, "parameters": parameters}})
}

fn of_grok(tool: &str, input: Value) -> Value {
    json!({"hookEventName": "pre_tool_use", "toolName": tool, "toolInput": input})
}

/// Returns the point of a payload of Antigravity, which names none. The ones before and after a model's turn are alike.
fn point_of_antigravity(payload: &Members<'_>) -> Option<&'static str> {
    let has = |name| payload.last(name).is_some();
    if has("terminationReason") || has("fullyIdle") {
        Some("Stop")
    } else if has("invocationNum") {
        Some("PreInvocation")
    } else if has("toolCall") {
        Some(if has("error") {
            "PostToolUse"
        } else {
            "PreToolUse"
        })
    } else {
        None
    }
}

fn denies_in_antigravity(point: &str, output: &HookOutput) -> bool {
    match FACTS.stop_of(point) {
        Stop::Call | Stop::Operation if output.stdout.trim_ascii().is_empty() => output.code != 0,
        Stop::Call | Stop::Operation => {
            let decision = &answer(output)["decision"];
            let passes = ["allow", "ask", "deny_unless_prior_grant", "force_ask"];
            !decision.as_str().is_some_and(|it| passes.contains(&it))
        }
        Stop::Ending => answer(output)["decision"] == "continue",
        Stop::Nothing => false,
    }
}

/// Returns the object that a hook printed; null where it printed another text.
fn answer(output: &HookOutput) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}

/// Returns an answer's decision on a tool call; empty where it has none.
fn decision_on_call(answer: &Value) -> &str {
    let decision = &answer["hookSpecificOutput"]["permissionDecision"];
    decision.as_str().unwrap_or_default()
}

fn can_be_stopped(point: &str) -> bool {
    FACTS.stop_of(point) != Stop::Nothing
}

fn is_ending(point: &str) -> bool {
    FACTS.stop_of(point) == Stop::Ending
}

fn by_code_2(point: &str, output: &HookOutput) -> Option<bool> {
    Some(can_be_stopped(point) && output.code == 2)
}

#[cfg(test)]
mod tests {
    use hookjail_base::model::OnFailure;

    use super::*;
    use crate::{
        Decision, End, EndKind,
        adopt::{Adopted, Stakes},
    };

    fn members() -> Vec<Adopted> {
        let names: Vec<_> = FAMILY.iter().map(|adapter| adapter.name).collect();
        let all = Adopted::all().into_iter();
        all.filter(|adopted| names.contains(&adopted.name))
            .collect()
    }

    /// The members that no exit code stops, each with the decision of its answer.
    const BY_WORDS: [(&str, &str); 3] = [
        ("antigravity", r#"{"decision":"deny","reason":"why"}"#),
        ("cline", r#"{"cancel":true,"errorMessage":"why"}"#),
        ("vibe", r#"{"decision":"deny","reason":"why"}"#),
    ];

    #[test]
    fn every_member_is_a_runtime_and_has_a_denial_of_its_own() {
        let members = members();
        assert_eq!(members.len(), FAMILY.len());
        for member in members {
            let words = BY_WORDS.iter().find(|(name, _)| *name == member.name);
            for point in ["PreToolUse", "pre_tool", "pre_run_command"] {
                let point = Some(point);
                assert_eq!(member.stakes(point), Stakes::Gate);
                assert!(member.is_of_a_call(point));
                let expected = HookOutput {
                    code: if words.is_some() { 0 } else { 2 },
                    stderr: b"why\n".to_vec(),
                    stdout: words.map_or_else(Vec::new, |(_, words)| (*words).into()),
                };
                assert_eq!(member.no(point, "why"), expected, "{}", member.name);
                assert_eq!(member.no_with_notice(point, "why", "help"), expected);
            }
            let no = member.no(Some("PreToolUse"), "why");
            assert!(
                member.takes_for_no(Some("PreToolUse"), &no),
                "{}",
                member.name
            );
        }
    }

    /// The denials of a call that each member obeys, by its source or documents: exit code and stdout.
    #[test]
    fn each_member_takes_its_own_words_for_a_denial() {
        const BLOCK: &str = r#"{"decision":"block","reason":"r"}"#;
        const CALL: &str = r#"{"hookSpecificOutput":{"permissionDecision":"deny"}}"#;
        const CANCEL: &str = "a line\n{\"cancel\": true}";
        const DENY: &str = r#"{"decision":"deny"}"#;
        const EMPTY: &str = "{}";
        const HALT: &str = r#"{"continue":false}"#;
        let ends = [
            (2, ""),
            (3, ""),
            (49, ""),
            (1, ""),
            (0, ""),
            (0, EMPTY),
            (0, "text"),
            (0, BLOCK),
            (1, BLOCK),
            (0, DENY),
            (1, DENY),
            (0, CALL),
            (1, CALL),
            (0, HALT),
            (0, CANCEL),
        ];
        let expected: &[(&str, &[(u8, &str)])] = &[
            (
                "antigravity",
                &[
                    (2, ""),
                    (3, ""),
                    (49, ""),
                    (1, ""),
                    (0, EMPTY),
                    (0, "text"),
                    (0, BLOCK),
                    (1, BLOCK),
                    (0, DENY),
                    (1, DENY),
                    (0, CALL),
                    (1, CALL),
                    (0, HALT),
                    (0, CANCEL),
                ],
            ),
            ("auggie", &[(2, ""), (0, CALL), (1, CALL), (0, HALT)]),
            ("cline", &[(0, CANCEL)]),
            ("crush", &[(2, ""), (49, ""), (0, DENY), (0, CALL)]),
            ("devin", &[(2, ""), (0, BLOCK), (1, BLOCK)]),
            ("droid", &[(2, ""), (3, ""), (0, CALL), (1, CALL)]),
            ("goose", &[(2, ""), (0, BLOCK), (1, BLOCK)]),
            (
                "grok",
                &[
                    (2, ""),
                    (0, BLOCK),
                    (1, BLOCK),
                    (0, DENY),
                    (1, DENY),
                    (0, CALL),
                    (1, CALL),
                ],
            ),
            ("kimi-code", &[(2, ""), (0, CALL)]),
            ("kiro", &[(2, "")]),
            ("letta-code", &[(2, "")]),
            ("openhands", &[(2, ""), (0, DENY), (1, DENY), (0, HALT)]),
            ("vibe", &[(0, DENY)]),
            ("windsurf", &[(2, "")]),
        ];
        for (name, denials) in expected {
            let member = members().into_iter().find(|member| member.name == *name);
            let member = member.unwrap();
            for (code, stdout) in ends {
                let ended = HookOutput {
                    code,
                    stderr: Vec::new(),
                    stdout: stdout.into(),
                };
                let is_denial = denials.contains(&(code, stdout));
                // The names of the point before a call are theirs.
                let point = match *name {
                    "vibe" => "pre_tool",
                    "windsurf" => "pre_run_command",
                    _ => "PreToolUse",
                };
                let found = member.takes_for_no(Some(point), &ended);
                assert_eq!(found, is_denial, "{name} {code} {stdout}");
            }
        }
    }

    /// A hook that denies in any of the members' words has denied, whichever runs it.
    #[test]
    fn answers_are_read_by_the_union_of_the_members_words() {
        for (code, stdout, decision, failed) in [
            (0, "", Decision::None, false),
            (0, "text", Decision::None, false),
            (0, "{}", Decision::None, false),
            (0, r#"{"decision":""}"#, Decision::None, false),
            (
                0,
                r#"{"decision":"allow","reason":"r"}"#,
                Decision::Allow,
                false,
            ),
            (0, r#"{"decision":"Approve"}"#, Decision::Allow, false),
            (0, r#"{"decision":"force_ask"}"#, Decision::Ask, false),
            (0, r#"{"review":true}"#, Decision::Ask, false),
            (0, r#"{"decision":"DENY"}"#, Decision::Deny, false),
            (1, r#"{"decision":"block"}"#, Decision::Deny, false),
            (0, r#"{"permissionDecision":"deny"}"#, Decision::Deny, false),
            (
                0,
                r#"{"hookSpecificOutput":{"permissionDecision":"deny"},"decision":"allow"}"#,
                Decision::Deny,
                false,
            ),
            (
                0,
                r#"{"hook_specific_output":{"permissionDecision":"ask"}}"#,
                Decision::Ask,
                false,
            ),
            (0, r#"{"continue":false}"#, Decision::Deny, false),
            (0, r#"{"halt":true}"#, Decision::Deny, false),
            (0, "note\n{\"cancel\":true}", Decision::Deny, false),
            (0, "HOOK_CONTROL\t{\"cancel\":true}", Decision::Deny, false),
            (0, "a\tb", Decision::None, false),
            (0, r#"{"decision":"never"}"#, Decision::None, true),
            (0, r#"{"decision":1}"#, Decision::None, true),
            (0, "{torn", Decision::None, true),
            (1, "", Decision::None, true),
            (1, r#"{"decision":"allow"}"#, Decision::None, true),
            (2, "", Decision::Deny, false),
        ] {
            let end = End {
                kind: EndKind::Exited(code),
                point: "PreToolUse",
                stdout: stdout.as_bytes(),
                ..End::default()
            };
            let verdict = Mode::Family.judge(&end, OnFailure::Contract);
            let found = (verdict.decision, verdict.failed);
            assert_eq!(found, (decision, failed), "{code} {stdout}");
        }
    }

    #[test]
    fn a_failure_approves_nothing_where_exit_code_0_is_an_approval() {
        for member in members() {
            let failed = member.failed(Some("PermissionRequest"), "why");
            let expected = if member.name == "letta-code" { 1 } else { 0 };
            assert_eq!(failed.code, expected, "{}", member.name);
            assert!(!member.takes_for_no(Some("PermissionRequest"), &failed));
        }
    }

    #[test]
    fn a_payload_names_its_event_by_the_members_own_key() {
        for (name, payload) in [
            (
                "auggie",
                r#"{"hook_event_name":"PreToolUse","conversation_id":"c"}"#,
            ),
            (
                "letta-code",
                r#"{"event_type":"PreToolUse","working_directory":"/p"}"#,
            ),
            (
                "openhands",
                r#"{"event_type":"PreToolUse","working_dir":"/p"}"#,
            ),
            ("cline", r#"{"hookName":"PreToolUse","taskId":"t"}"#),
            ("crush", r#"{"event":"PreToolUse","cwd":"/p"}"#),
            ("goose", r#"{"event":"PreToolUse","working_dir":"/p"}"#),
            (
                "grok",
                r#"{"hook_event_name":"PreToolUse","sessionId":"s"}"#,
            ),
            ("kiro", r#"{"hook_event_name":"preToolUse","cwd":"/p"}"#),
            (
                "antigravity",
                r#"{"toolCall":{"name":"run_command"},"stepIdx":1}"#,
            ),
        ] {
            let member = members().into_iter().find(|member| member.name == name);
            let point = member.unwrap().point(payload.as_bytes());
            assert_eq!(point.as_deref(), Some("PreToolUse"), "{name}");
        }
    }

    #[test]
    fn samples_have_the_members_own_tools() {
        const TOOLS: [&str; 4] = [
            "/tool_name",
            "/toolName",
            "/toolCall/name",
            "/preToolUse/toolName",
        ];
        let tools = members().into_iter().map(|member| {
            let samples = member.samples(Path::new("/p"));
            let tool = |sample: &Value| {
                let named = TOOLS.iter().find_map(|place| sample.pointer(place));
                let named = named.or_else(|| sample.get("agent_action_name"));
                named.and_then(Value::as_str).unwrap().to_owned()
            };
            (
                member.name,
                tool(&samples[0]),
                tool(samples.last().unwrap()),
            )
        });
        let expected = [
            ("antigravity", "run_command", "write_to_file"),
            ("auggie", "launch-process", "save-file"),
            ("cline", "execute_command", "write_to_file"),
            ("cortex-code", "Bash", "Write"),
            ("crush", "bash", "write"),
            ("devin", "exec", "write"),
            ("droid", "Execute", "Create"),
            ("goose", "developer__shell", "developer__text_editor"),
            ("grok", "run_terminal_command", "write"),
            ("kimi-code", "Bash", "Write"),
            ("kiro", "execute_bash", "fs_write"),
            ("letta-code", "Bash", "Write"),
            ("openhands", "terminal", "file_editor"),
            ("qoder", "Bash", "Write"),
            ("vibe", "file_system.bash", "file_system.write_file"),
            ("windsurf", "pre_run_command", "pre_write_code"),
        ];
        let expected =
            expected.map(|(name, shell, file)| (name, shell.to_owned(), file.to_owned()));
        assert_eq!(tools.collect::<Vec<_>>(), expected);
    }
}
