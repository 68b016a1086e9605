//! `add_date`: adds the date to the model's context at the start of every turn.

use jiff::Timestamp;

use crate::Verdict;

/// Returns the date in UTC as context. The runtime's time zone is not known here.
pub(super) fn verdict(now: Timestamp) -> Verdict {
    Verdict {
        additional_context: vec![format!("Today's date: {}", now.strftime("%Y-%m-%d"))],
        ..Verdict::default()
    }
}
