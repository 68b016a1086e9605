//! `limit_large_tool_results`: keeps the whole of a tool result that is too long for a conversation.
//!
//! The whole is in a file that the agent can read, until its session ends ([`ResultsOf`]).

use hookjail_contract::{LargeResult, Members, Verdict, text};

use crate::hooks::ResultsOf;

/// Replaces an overlong result, and keeps the whole. At the end of a session its files are removed.
pub(super) fn verdict(point: &str, event: &Members<'_>, results: ResultsOf<'_>) -> Verdict {
    let session = event.last("session_id").and_then(text).unwrap_or_default();
    let warned = |problem: Option<String>| Verdict {
        warnings: problem.into_iter().collect(),
        ..Verdict::default()
    };
    if point != "tool_response_transform" {
        let problem = results.forget(&session).err();
        return warned(problem.map(|error| format!("kept results are not removed: {error}")));
    }
    let Some(result) = LargeResult::in_event(event) else {
        return Verdict::default();
    };
    let (kept, problem) = match results.keep(&session, &result.text) {
        Ok(path) => (Some(path), None),
        Err(error) => (None, Some(format!("the full result is not kept: {error}"))),
    };
    Verdict {
        updated_output: Some(result.cut(kept.as_deref())),
        ..warned(problem)
    }
}
