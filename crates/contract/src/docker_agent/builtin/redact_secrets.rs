//! `redact_secrets`: redacts secrets in tool input, model messages and tool output.

use serde_json::value::RawValue;

use crate::{Json, Members, Verdict, text};

use super::secrets::redacted_json;

/// Opaque members of a message: images, attachments, and data signed by providers. A change there would break it.
const OPAQUE: [&str; 5] = [
    "data",
    "inline_data",
    "thinking_signature",
    "thought_signature",
    "url",
];

/// Redacts the secrets in an event, by its point.
pub(super) fn verdict(point: &str, event: &Members<'_>) -> Verdict {
    match point {
        "before_llm_call" => messages(event),
        "tool_response_transform" => output(event),
        _ => input(event),
    }
}

/// Redacts members of a tool's input. Members without a secret are left as they are, unnamed.
fn input(event: &Members<'_>) -> Verdict {
    let input = event.last("tool_input");
    let members = input.and_then(|input| Members::parse_at_any_depth(input.get()).ok());
    let redacted: Vec<_> = members
        .unwrap_or_default()
        .iter()
        .filter_map(|(name, value)| Some((name.into_owned(), redacted(value, &[])?)))
        .collect();
    if redacted.is_empty() {
        return Verdict::default();
    }
    let tool = event.last("tool_name").and_then(text).unwrap_or_default();
    Verdict {
        system_message: format!(
            "redact_secrets: redacted secret material from arguments of tool {tool:?}"
        ),
        updated_input: Some(Json::object(&redacted)),
        ..Verdict::default()
    }
}

fn messages(event: &Members<'_>) -> Verdict {
    match event.last("messages") {
        None => Verdict::warning(
            "`redact_secrets` searches nothing: the event has no `messages`".to_owned(),
        ),
        Some(messages) => Verdict {
            updated_messages: redacted(messages, &OPAQUE),
            ..Verdict::default()
        },
    }
}

/// Redacts a tool's output, which must be a text. Its runtime has no way to replace another value.
fn output(event: &Members<'_>) -> Verdict {
    let response = event.last("tool_response");
    let is_text = response.is_some_and(|response| response.get().starts_with('"'));
    match response.and_then(|response| redacted(response, &[])) {
        None => Verdict::default(),
        Some(_) if !is_text => Verdict::warning(
            "`redact_secrets` found a secret in a `tool_response` that is no text and cannot be rewritten".to_owned(),
        ),
        updated_output => Verdict {
            updated_output,
            ..Verdict::default()
        },
    }
}

fn redacted(value: &RawValue, opaque: &[&str]) -> Option<Json> {
    let text = redacted_json(value.get(), opaque)?;
    let value = RawValue::from_string(text).ok()?;
    Some(Json::from_raw(&value))
}
