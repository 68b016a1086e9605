use std::path::Path;

use super::*;
use crate::{
    Lists, Mode,
    hook_file::{Action, Registered},
};

fn stdin(point: &str, json: &'static str) -> Result<Bytes, String> {
    let event = Event {
        json: json.into(),
        point: point.to_owned(),
        raw: false,
    };
    let stdin = Mode::Infer.stdin(&event, &Envelope::default());
    stdin.map_err(|error| error.to_string())
}

#[test]
fn an_event_has_three_members_and_each_its_type() {
    for (json, problem) in [
        ("[]", "must be one JSON object"),
        ("{", "must be one JSON object"),
        (
            r#"{"hook":"pre_tool"}"#,
            "has a `hook` that is not `event.point`",
        ),
        (r#"{"session_id":7}"#, "has a `session_id` of no text"),
        (r#"{"turn":"3"}"#, "has a `turn` that is no number"),
        (r#"{"turn":-1}"#, "has a `turn` that is no number"),
        (r#"{"turn":1.5}"#, "has a `turn` that is no number"),
        (
            r#"{"tool":"bash"}"#,
            "may have no members but `hook`, `session_id` and `turn`: hooks of `infer` read \
             nothing else",
        ),
    ] {
        let expected = Err(format!("`event.json` {problem}"));
        assert_eq!(stdin("post_tool", json), expected, "{json}");
    }
    let unnamed = "`event.point` must name the lifecycle point";
    assert_eq!(stdin("", "{}"), Err(unnamed.to_owned()));
}

#[test]
fn an_event_says_when_if_that_is_known() {
    let end = End {
        at: "2026-07-04T10:00:00.5Z".parse().ok(),
        ..End::default()
    };
    let event = Mode::Infer.event(&end).unwrap();
    assert_eq!(event.json["timestamp"], "2026-07-04T10:00:00.500000000Z");
    let event = Mode::Infer.event(&End::default()).unwrap();
    assert_eq!(event.json.get("timestamp"), None);
}

#[test]
fn defaults_are_infers_own() {
    let expected = Defaults::shell("/bin/bash", "-c", Some(Duration::from_secs(30)));
    assert_eq!(Mode::Infer.defaults("pre_tool"), expected);
}

#[test]
fn a_hook_passes_where_its_paths_are_of_the_workspace_and_its_event_has_the_gates_hint() {
    let lists = Lists {
        all: vec!["head .*".to_owned()],
        are_consent: true,
        ..Lists::default()
    };
    let hook = |line: &str, working_dir: Option<&str>| {
        let names = ("n".to_owned(), "s".to_owned());
        Registered {
            working_dir: working_dir.map(Into::into),
            ..Registered::new(
                Mode::Infer,
                "pre_tool",
                names,
                Action::Command(hookjail_base::model::Command::Line {
                    text: line.to_owned(),
                    shell: None,
                }),
            )
        }
    };
    let (outside, unlisted) = (gate::hint("ls /", None), "");
    for (line, working_dir, workspace, expected) in [
        ("head x", None, None, None),
        ("head /w/x", None, Some("/w"), None),
        ("head /w/x", None, None, Some(outside)),
        ("head /w/x", None, Some("/v"), Some(outside)),
        ("head /w/x", Some("/w"), Some("/v"), None),
        ("head /v/x", Some("/w"), Some("/v"), Some(outside)),
        ("tail /w/x", None, Some("/w"), Some(unlisted)),
        ("tail /w/x", None, None, Some(outside)),
    ] {
        let workspace = workspace.map(Path::new);
        let mut hook = hook(line, working_dir).listed(&lists, AgentMode::Plan, workspace);
        hook.pass(&lists, AgentMode::Plan, workspace);
        let is_through = expected.is_none();
        assert_eq!(hook.is_listed, is_through, "{line} {workspace:?}");
        assert_eq!(hook.entry.allowed, Some(is_through), "{line} {workspace:?}");
        assert_eq!(hook.entry.hint, expected, "{line} {workspace:?}");
        let end = End {
            command: line,
            entry: hook.entry,
            ..End::default()
        };
        let event = Mode::Infer.event(&end).unwrap();
        let hint = event.json.get("hint").cloned();
        assert_eq!(hint, expected.map(|hint| json!(hint)), "{line}");
    }
}
