//! `observe`: no rules. For callers that want the facts of a run and nothing read into them.

use super::{EndKind, Skip, Verdict, failure_of};

/// The rules followed.
pub(super) const VERSION: &str = "observe/1";

/// Reads an end: anything but exit 0 has failed, and nothing is ever decided.
pub(super) fn interpret(kind: EndKind) -> Verdict {
    Verdict::skipped(failure_of(kind).unwrap_or(Skip::OutputIgnored))
}
