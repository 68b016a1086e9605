//! `limit_large_tool_results`: truncates tool results that are too long for a conversation.
//!
//! The whole is kept in a file that the agent can read, until its session ends ([`ResultsOf`]).

use hookjail_contract::{Json, Members, Verdict, text};

use crate::hooks::ResultsOf;

/// The kinds of tools with results of any length; all others bound theirs.
const CATEGORIES: [&str; 4] = ["a2a", "filesystem", "mcp", "shell"];

/// The most that stays, bytes.
const BYTES: usize = 50 * 1024;

/// The most that stays, lines.
const LINES: usize = 2000;

/// Replaces an overlong result by its end and a notice with the file's path. The file has the whole. A tool of unknown
/// kind counts as one of those that must be limited: a short result stays as it is in any case. At the end of a session
/// its files are removed.
pub(super) fn verdict(point: &str, event: &Members<'_>, results: Option<ResultsOf<'_>>) -> Verdict {
    let session = event.last("session_id").and_then(text).unwrap_or_default();
    if point != "tool_response_transform" {
        let forgotten = results.map_or(Ok(()), |results| results.forget(&session));
        let problem = forgotten.err();
        return Verdict {
            warnings: (problem.map(|error| format!("kept results are not removed: {error}")))
                .into_iter()
                .collect(),
            ..Verdict::default()
        };
    }
    let category = event.last("tool_category").and_then(text);
    let is_bounded = category.is_some_and(|category| !CATEGORIES.contains(&category.as_str()));
    let response = event.last("tool_response").and_then(text);
    let Some(response) = response.filter(|_| !is_bounded) else {
        return Verdict::default();
    };
    let end = end(&response);
    if end.len() == response.len() {
        return Verdict::default();
    }
    let kept = results.map(|results| results.keep(&session, &response));
    let (place, problem) = match kept {
        Some(Ok(path)) => (
            format!(
                "The full result is in `{}` until the session ends; read the part you need there.",
                path.display()
            ),
            None,
        ),
        Some(Err(error)) => (NOT_STORED.to_owned(), Some(error)),
        None => (NOT_STORED.to_owned(), None),
    };
    let (bytes, lines) = (response.len(), response.lines().count());
    let plural = if lines == 1 { "" } else { "s" };
    let notice = format!(
        "Tool call result was too large ({bytes} bytes in {lines} line{plural}; limits {BYTES} bytes and {LINES} lines). {place}\n\n\
         Showing the last {LINES} lines (up to {BYTES} bytes):\n\n{end}"
    );
    Verdict {
        updated_output: Some(Json::text(&notice)),
        warnings: (problem.map(|error| format!("the full result is not kept: {error}")))
            .into_iter()
            .collect(),
        ..Verdict::default()
    }
}

const NOT_STORED: &str =
    "The full result is not stored; narrow the tool query to get the part you need.";

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
