//! `limit_large_tool_results`: what a tool returns is cut where it is too long for a conversation.
//!
//! docker-agent keeps the whole in a file that the model can read. Nothing is written here, and the notice says so.

use crate::contract::{Json, Members, Verdict, text};

/// The kinds of tools whose results can have any length; all others bound theirs.
const CATEGORIES: [&str; 4] = ["a2a", "filesystem", "mcp", "shell"];

/// The most that stays, bytes.
const BYTES: usize = 50 * 1024;

/// The most that stays, lines.
const LINES: usize = 2000;

/// Replaces a result that is too long by its end and a notice. A tool of unknown kind counts as one of those that must be
/// limited: what is short stays as it is in any case.
pub(super) fn verdict(point: &str, event: &Members<'_>) -> Verdict {
    let category = event.last("tool_category").and_then(text);
    let is_bounded = category.is_some_and(|category| !CATEGORIES.contains(&category.as_str()));
    if point != "tool_response_transform" || is_bounded {
        return Verdict::default();
    }
    let response = event.last("tool_response").and_then(text);
    Verdict {
        updated_output: response
            .and_then(|response| limited(&response))
            .map(|response| Json::text(&response)),
        ..Verdict::default()
    }
}

fn limited(response: &str) -> Option<String> {
    let end = end(response);
    if end.len() == response.len() {
        return None;
    }
    let length = response.len();
    Some(format!(
        "Tool call result was too large ({length} bytes; limit {BYTES} bytes). The full result is not stored; narrow the \
         tool query to get the part you need.\n\nShowing the last {LINES} lines (up to {BYTES} bytes):\n\n{end}"
    ))
}

/// Returns the last lines of a text, as many as may stay.
fn end(text: &str) -> &str {
    // The line break at the very end opens no further line.
    let body = text.strip_suffix('\n').unwrap_or(text);
    let lines = body.rmatch_indices('\n').nth(LINES - 1);
    let by_lines = lines.map_or(0, |(at, _)| at + 1);
    let mut start = by_lines.max(text.len().saturating_sub(BYTES));
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}
