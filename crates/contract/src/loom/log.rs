//! `log`: a line of the daemon's log for each event. Lines consist of names and sizes alone; inputs, results and messages
//! stay out of the log.

use serde_json::{Map, Value};

use crate::plain;

/// The maximum length of a name in the line, in characters.
const CHARS: usize = 128;

/// The level of a log line.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Log {
    /// An error.
    Error,
    /// A piece of information.
    #[default]
    Info,
    /// A warning.
    Warn,
}

impl Log {
    /// Parses a level's name.
    pub fn parse(level: &str) -> Option<Self> {
        [Self::Error, Self::Info, Self::Warn]
            .into_iter()
            .find(|log| log.level() == level)
    }

    /// Returns the level's name.
    pub const fn level(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Info => "info",
            Self::Warn => "warn",
        }
    }
}

/// Returns an event's point with its loggable members. Each is verbatim, or the length of its text.
pub fn summary(point: &str, event: &Map<String, Value>) -> String {
    let (verbatim, sized): (&[_], &[_]) = match point {
        "session.start" => (&["model", "sessionId"], &[]),
        "user.prompt.submit" => (&[], &["prompt"]),
        "tool.pre" => (&["toolName", "turnIndex"], &[]),
        "tool.post" => (&["toolName", "turnIndex", "isError"], &["result"]),
        "model.pre" => (&["model", "turnIndex", "messageCount"], &[]),
        "model.post" => (
            &[
                "model",
                "turnIndex",
                "stopReason",
                "inputTokens",
                "outputTokens",
                "costUsd",
                "toolCallCount",
            ],
            &[],
        ),
        "session.end" => (&["reason", "sessionId"], &[]),
        "error" => (&["code"], &["message"]),
        _ => (&[], &[]),
    };
    let verbatim = verbatim.iter().filter_map(|name| {
        let value = match event.get(*name)? {
            Value::String(text) => text.chars().take(CHARS).collect(),
            value @ (Value::Bool(_) | Value::Number(_)) => value.to_string(),
            Value::Array(_) | Value::Null | Value::Object(_) => return None,
        };
        Some(format!(" {name}={}", plain(&value, &[])))
    });
    let sized = sized.iter().filter_map(|name| {
        let chars = event.get(*name)?.as_str()?.chars().count();
        Some(format!(" {name}Chars={chars}"))
    });
    let members: String = verbatim.chain(sized).collect();
    format!("{point}{members}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_has_names_and_sizes_and_no_content() {
        let long = "x".repeat(CHARS + 1);
        for (point, event, line) in [
            (
                "tool.pre",
                json!({"toolName": "sh\u{1b}\nell", "toolInput": {"cmd": "SECRET"}, "turnIndex": 3}),
                "tool.pre toolName=sh\\u{1b}\\nell turnIndex=3".to_owned(),
            ),
            (
                "tool.post",
                json!({"toolName": long, "result": "SECRET", "isError": false}),
                format!(
                    "tool.post toolName={} isError=false resultChars=6",
                    &long[1..]
                ),
            ),
            (
                "session.start",
                json!({"model": ["SECRET"], "sessionId": null}),
                "session.start".to_owned(),
            ),
            (
                "user.prompt.submit",
                json!({"prompt": "SECRET"}),
                "user.prompt.submit promptChars=6".to_owned(),
            ),
            (
                "error",
                json!({"code": "E1", "message": "SECRET"}),
                "error code=E1 messageChars=6".to_owned(),
            ),
        ] {
            assert_eq!(summary(point, event.as_object().unwrap()), line);
        }
    }

    #[test]
    fn a_level_is_one_of_three() {
        for level in ["error", "info", "warn"] {
            assert_eq!(Log::parse(level).unwrap().level(), level);
        }
        assert_eq!(Log::parse("debug"), None);
    }
}
