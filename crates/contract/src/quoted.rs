//! Output of runtimes that read a JSON string as the JSON in it, and stderr where stdout is empty.

use super::{
    Decision, End, Skip, Verdict,
    fields::{complaint, silent, stripped},
    members,
};

/// The words of a decision.
pub(super) const DECISIONS: [(&str, Decision); 5] = [
    ("allow", Decision::Allow),
    ("approve", Decision::Allow),
    ("ask", Decision::Ask),
    ("block", Decision::Block),
    ("deny", Decision::Deny),
];

/// Returns the text that is read: stdout, or stderr if stdout is blank.
pub(super) fn words(end: &End<'_>) -> String {
    let stdout = String::from_utf8_lossy(end.stdout);
    match stripped(&stdout) {
        "" => complaint(end),
        stdout => stdout.to_owned(),
    }
}

/// Builds the verdict of exit code 0 with empty stdout from the answer on stderr, if there is one.
///
/// The verdict approves nothing, as the answer may be a line of a log.
pub(super) fn on_stderr(answered: Option<Verdict>) -> Verdict {
    match answered {
        Some(verdict) if verdict.decision.restrains() => verdict,
        Some(verdict) => Verdict {
            additional_context: verdict.additional_context,
            system_message: verdict.system_message,
            updated_input: verdict.updated_input,
            updated_messages: verdict.updated_messages,
            updated_output: verdict.updated_output,
            ..silent(Skip::EmptyStdout)
        },
        None => silent(Skip::EmptyStdout),
    }
}

/// Returns the JSON in a text: the text itself, or that of the JSON string which it is.
pub(super) fn unquoted(text: &str) -> String {
    let document = text.starts_with('"').then(|| serde_json::from_str(text));
    let inner = document.and_then(Result::ok).and_then(members::text);
    inner.map_or_else(|| text.to_owned(), |inner| inner.trim().to_owned())
}

/// Returns whether text that is no JSON begins like an object, which may be quoted.
pub(super) fn is_torn(text: &str) -> bool {
    let text = text.strip_prefix('"').unwrap_or(text);
    text.trim_start().starts_with('{')
}
