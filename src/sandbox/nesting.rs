//! What around the daemon keeps it from confining hooks, told from where and how that failed.

use crate::refusal::{Fact, Reason, Refusal};

/// What is around the daemon, and what an operator can do about it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::sandbox) struct Cause {
    pub(in crate::sandbox) fix: &'static str,
    pub(in crate::sandbox) why: &'static str,
}

impl Cause {
    /// Refuses because of it: what failed, why, and the fix.
    pub(in crate::sandbox) fn refusal(cause: Option<Self>, failed: &str) -> Refusal {
        let Some(Self { fix, why }) = cause else {
            return Refusal::new(Reason::BackendUnconfirmed, failed);
        };
        Refusal::new(Reason::BackendUnconfirmed, format!("{failed}: {why}"))
            .with(Fact::Fix(fix.into()))
    }
}

/// An attempt of the self-test that fails without confinement too: whatever refuses it would hide that hookjail does not.
pub(in crate::sandbox) const CONTROL_FAILS: Cause = Cause {
    fix: "allow it to hookjail in the filter, service or container around it",
    why: "it fails without confinement too, which shows nothing",
};
