//! Runtimes with Claude Code's form of hooks under another name, each a line of data.
//!
//! Their hooks run under Claude Code's contract, and their ends are passed on as they are. A refusal is exit code 2 with the reason on
//! stderr, the one answer that all of them take for a denial.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    Mode,
    adopt::Adapter,
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
        timeout: Some(MINUTE),
        ..Adapter::new(name, Mode::ClaudeCode)
    }
}

const MINUTE: Duration = Duration::from_secs(60);

/// The key of an event's name of two runtimes.
const EVENT_TYPE: &str = "event_type";

const IN_TOML: &str =
    "hooks in TOML are not rewritten; write the line with `hookjail run --as kimi-code` yourself";

/// The runtimes, by name.
pub(super) const FAMILY: [Adapter; 7] = [
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
        variables: &[("AUGMENT_PROJECT_DIR", Holds::Project)],
        ..member(
            "auggie",
            &[".augment/settings.json", ".augment/settings.local.json"],
            &[".augment/"],
        )
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
    // Factory Droid 0.225.2, its package.
    Adapter {
        command_sample: |command, _| call("Execute", json!({"command": command})),
        file_sample: |_, path| call("Create", json!({"file_path": path, "content": "x"})),
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
    // Kimi Code 2.1.0, its source.
    Adapter {
        file_sample: |_, path| call("Write", json!({"path": path, "content": "x"})),
        sources: Sources {
            places: &[Place::new(
                Form::Toml,
                Root::User,
                ".kimi-code/config.toml",
                IN_TOML,
            )],
            ..Sources::NONE
        },
        timeout: Some(Duration::from_secs(30)),
        variables: &[("KIMI_PLUGIN_ROOT", Holds::Plugin)],
        ..member("kimi-code", &[], &[])
    },
    // Letta Code 0.32.18, its package. Exit code 0 approves at `PermissionRequest`, and 1 leaves it to the user.
    Adapter {
        in_millis: true,
        point_key: Some(EVENT_TYPE),
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
];

/// Builds a sample of a tool call.
fn call(tool: &str, input: Value) -> Value {
    json!({"tool_name": tool, "tool_input": input})
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::adopt::{Adopted, HookOutput, Stakes};

    fn members() -> Vec<Adopted> {
        let names = FAMILY.map(|adapter| adapter.name);
        let all = Adopted::all().into_iter();
        all.filter(|adopted| names.contains(&adopted.name))
            .collect()
    }

    #[test]
    fn every_member_is_a_runtime_and_takes_an_exit_code_for_a_denial() {
        let members = members();
        assert_eq!(members.len(), FAMILY.len());
        for member in members {
            for point in [
                "PreToolUse",
                "UserPromptSubmit",
                "PermissionRequest",
                "NewPoint",
            ] {
                let point = Some(point);
                assert_eq!(
                    member.stakes(point),
                    Stakes::Gate,
                    "{} {point:?}",
                    member.name
                );
                let expected = HookOutput {
                    code: 2,
                    stderr: b"why\n".to_vec(),
                    stdout: Vec::new(),
                };
                assert_eq!(member.no(point, "why"), expected, "{}", member.name);
                assert_eq!(member.no_with_notice(point, "why", "help"), expected);
                assert!(member.takes_for_no(point, &expected), "{}", member.name);
            }
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
        ] {
            let member = members().into_iter().find(|member| member.name == name);
            let point = member.unwrap().point(payload.as_bytes());
            assert_eq!(point.as_deref(), Some("PreToolUse"), "{name}");
        }
    }

    #[test]
    fn samples_have_the_members_own_tools() {
        let tools = members().into_iter().map(|member| {
            let samples = member.samples(Path::new("/p"));
            let tool = |sample: &Value| sample["tool_name"].as_str().unwrap().to_owned();
            (
                member.name,
                tool(&samples[0]),
                tool(samples.last().unwrap()),
            )
        });
        let expected = [
            ("auggie", "launch-process", "save-file"),
            ("cortex-code", "Bash", "Write"),
            ("droid", "Execute", "Create"),
            ("kimi-code", "Bash", "Write"),
            ("letta-code", "Bash", "Write"),
            ("openhands", "terminal", "file_editor"),
            ("qoder", "Bash", "Write"),
        ];
        let expected =
            expected.map(|(name, shell, file)| (name, shell.to_owned(), file.to_owned()));
        assert_eq!(tools.collect::<Vec<_>>(), expected);
    }
}
