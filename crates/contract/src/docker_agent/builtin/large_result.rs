//! `limit_large_tool_results`: a tool result that is too long for a conversation, and the text that takes its place.

use std::path::Path;

use crate::{Json, Members, text};

/// The kinds of tools with results of any length; all others bound theirs.
const CATEGORIES: [&str; 4] = ["a2a", "filesystem", "mcp", "shell"];

/// The most that stays, bytes.
const BYTES: usize = 50 * 1024;

/// The most that stays, lines.
const LINES: usize = 2000;

/// A tool result that is too long for a conversation.
///
/// A tool of unknown kind counts as one of those that must be limited: a short result stays as it is in any case.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LargeResult {
    /// The whole result.
    pub text: String,
}

impl LargeResult {
    /// Returns the result in an event; `None` where it may stay as it is.
    pub fn in_event(event: &Members<'_>) -> Option<Self> {
        let category = event.last("tool_category").and_then(text);
        let is_bounded = category.is_some_and(|category| !CATEGORIES.contains(&category.as_str()));
        let text = event.last("tool_response").and_then(text);
        let text = text.filter(|text| !is_bounded && end(text).len() < text.len());
        text.map(|text| Self { text })
    }

    /// Returns the text in its place: its end, and a notice with the path of the file that has the whole, if there is one.
    pub fn cut(&self, kept: Option<&Path>) -> Json {
        let place = match kept {
            Some(path) => format!(
                "The full result is in `{}` until the session ends; read the part you need there.",
                path.display()
            ),
            None => {
                "The full result is not stored; narrow the tool query to get the part you need."
                    .to_owned()
            }
        };
        let (bytes, lines) = (self.text.len(), self.text.lines().count());
        let plural = if lines == 1 { "" } else { "s" };
        let end = end(&self.text);
        Json::text(&format!(
            "Tool call result was too large ({bytes} bytes in {lines} line{plural}, limits {BYTES} bytes and {LINES} lines). {place}\n\n\
             Showing the last {LINES} lines (up to {BYTES} bytes):\n\n{end}"
        ))
    }
}

/// Returns the last lines of a text, as many as may stay.
fn end(text: &str) -> &str {
    // The line break at the very end opens no further line.
    let body = text.strip_suffix('\n').unwrap_or(text);
    let lines = body.rmatch_indices('\n').nth(LINES - 1);
    let by_lines = lines.map_or(0, |(position, _)| position + 1);
    let mut start = by_lines.max(text.len().saturating_sub(BYTES));
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}
