//! Removes elements from the policy, to show that a test fails for each.
//!
//! Only debug builds can; in a release, nothing ever lacks anything. `HOOKJAIL_WEAKEN` names the elements, separated by blanks:
//!
//! | element | what it takes out |
//! |---|---|
//! | `seccomp:CALL` | the denial of a system call: it is allowed |
//! | `argument:CALL:N` | the tests on argument N of a call |
//! | `closing:CALL` | what the closing filter says about a call |
//! | `guard:arch`, `guard:x32`, `guard:unknown` | a check of the guard program |
//! | `landlock:RIGHT` | a right, network right or scope, as the landlock crate names it: nobody asks for it |
//! | `limit:RESOURCE` | a resource limit, as `getrlimit(2)` names it |
//! | `set-up:bounding` | the empty bounding set |
//! | `set-up:read-only` | the mounts that keep paths read-only |
//! | `set-up:scratch` | the file system that limits the scratch directory |
//! | `relay:rules`, `relay:server-name`, `relay:host`, `relay:addresses`, `relay:connections`, `relay:bytes` | what the relay compares or counts |
//! | `proof:self-test`, `proof:attestation` | what the daemon sees for itself: before the first run, and in each |

/// Returns whether an element is removed.
#[cfg(not(debug_assertions))]
#[must_use]
pub(crate) fn lacks(_kind: &str, _name: impl std::fmt::Display) -> bool {
    false
}

/// Returns whether an element is removed.
#[cfg(debug_assertions)]
#[must_use]
pub(crate) fn lacks(kind: &str, name: impl std::fmt::Display) -> bool {
    use std::{env, sync::LazyLock};

    static ELEMENTS: LazyLock<Vec<(String, String)>> = LazyLock::new(|| {
        let named = env::var("HOOKJAIL_WEAKEN").unwrap_or_default();
        let split = |element: &str| {
            let (kind, name) = element.split_once(':').unwrap_or((element, ""));
            (kind.to_owned(), name.to_owned())
        };
        let elements: Vec<_> = named.split_whitespace().map(split).collect();
        if !elements.is_empty() {
            tracing::error!("HOOKJAIL_WEAKEN: this daemon does not confine as it reports: {named}");
        }
        elements
    });
    ELEMENTS
        .iter()
        .any(|(removed, removed_name)| removed == kind && *removed_name == name.to_string())
}
