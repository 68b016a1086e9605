//! Decides whether a hook may run: allowlist, environment, or an operator's answer.
//!
//! A consent is bound to file contents, which `program` of the sandbox opens and hashes; [`allowlist`] stores the consents.

pub mod allowlist;
pub mod approved;
pub(crate) mod decide;
pub(crate) mod hashing;
pub mod lookup;
pub(crate) mod pending;
pub mod trees;

pub use self::decide::{ConsentRule, Operator};
pub use self::decide::{Consents, OwnSettings, revoke};
