//! JSON text whose strings are rewritten, and nothing else of it.

use std::{borrow::Cow, ops::Range};

use serde_json::{Value, value::RawValue};

use crate::model::{json, members};

/// Returns a JSON value whose strings were rewritten; `None` where none was. Keys, numbers and what is between them stay as
/// they are written, and so do the strings under these keys.
pub(crate) fn rewrite_strings(
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

/// Returns the string whose text, without the quotes, is written there.
fn decoded(json: &str, text: Range<usize>) -> Option<Cow<'_, str>> {
    if !json[text.clone()].contains('\\') {
        return Some(Cow::Borrowed(&json[text]));
    }
    let quoted = &json[text.start - 1..text.end + 1];
    let value: &RawValue = serde_json::from_str(quoted).ok()?;
    members::text(value).map(Cow::Owned)
}
