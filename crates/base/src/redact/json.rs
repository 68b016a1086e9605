//! Rewrites the strings of JSON text, and leaves the rest byte for byte.

use std::{borrow::Cow, ops::Range};

use serde_json::{Value, value::RawValue};

use crate::model::{json, members};

/// Rewrites the strings of a JSON value; `None` if none changed. Everything else stays byte for byte, also the strings
/// under the `opaque` keys.
pub fn rewrite_strings(
    json: &str,
    opaque: &[&str],
    rewrite: impl Fn(&str) -> Option<String>,
) -> Option<String> {
    let mut out = String::new();
    let mut copied = 0;
    for value in json::string_values(json) {
        let key = value.key.and_then(|key| decoded(json, key));
        if key.is_some_and(|key| opaque.contains(&&*key)) {
            continue;
        }
        let Some(text) = decoded(json, value.text.clone()) else {
            continue;
        };
        if let Some(text) = rewrite(&text) {
            out.push_str(&json[copied..value.text.start - 1]);
            out.push_str(&Value::from(text).to_string());
            copied = value.text.end + 1;
        }
    }
    if copied == 0 {
        return None;
    }
    out.push_str(&json[copied..]);
    Some(out)
}

/// Returns the decoded string at a range, which excludes the quotes.
fn decoded(json: &str, text: Range<usize>) -> Option<Cow<'_, str>> {
    if !json[text.clone()].contains('\\') {
        return Some(Cow::Borrowed(&json[text]));
    }
    let quoted = &json[text.start - 1..text.end + 1];
    let value: &RawValue = serde_json::from_str(quoted).ok()?;
    members::text(value).map(Cow::Owned)
}
