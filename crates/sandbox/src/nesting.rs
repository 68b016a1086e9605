//! Deduces causes around the daemon that prevent confining hooks from the failed step and its errno.

use std::borrow::Cow;

use hookjail_base::refusal::{Fact, Reason, Refusal};

/// A cause around the daemon, and the remedy for an operator.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Cause {
    pub(crate) fix: Cow<'static, str>,
    pub(crate) why: &'static str,
}

impl Cause {
    /// Refuses because of a cause: the failed operation, the cause, and the fix.
    pub(crate) fn refusal(cause: Option<Self>, failed: &str) -> Refusal {
        let Some(Self { fix, why }) = cause else {
            return Refusal::new(Reason::BackendUnconfirmed, failed);
        };
        Refusal::new(Reason::BackendUnconfirmed, format!("{failed}: {why}"))
            .with(Fact::Fix(fix.into()))
    }
}

/// The cause where a self-test's positive control fails, so that a denial would prove nothing.
pub(crate) const CONTROL_FAILS: Cause = Cause {
    fix: Cow::Borrowed("allow it to hookjail in the filter, service or container around it"),
    why: "the attempt fails without confinement too, which proves nothing",
};
