use super::*;
use crate::Mode;

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
