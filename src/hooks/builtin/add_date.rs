//! `add_date`: the model learns the date at the start of every turn.

use jiff::Timestamp;

use crate::contract::Verdict;

/// Tells the date, in UTC: which day it is where the runtime is, nobody here knows.
pub(super) fn verdict(now: Timestamp) -> Verdict {
    Verdict {
        additional_context: vec![format!("Today's date: {}", now.strftime("%Y-%m-%d"))],
        ..Verdict::default()
    }
}
