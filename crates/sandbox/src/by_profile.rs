//! Values that the operator sets for all profiles, and for some by their names.

use std::{collections::BTreeMap, sync::Arc};

use hookjail_base::model::ProfileName;
use hookjail_policy::Policy;

use super::{BackendName, RunAs};

/// A value for all profiles, and others for some of them and those that extend them.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ByProfile<T> {
    /// The value of profiles without one of their own.
    pub default: T,
    /// The values of profiles, which also apply to those that extend them.
    pub profiles: BTreeMap<ProfileName, T>,
}

/// The operator's lists of backends, in order of preference and without duplicates.
pub type Order = ByProfile<Vec<BackendName>>;

/// The operator's choice of users for the hooks of a root daemon.
pub type HookUsers = ByProfile<RunAs>;

/// Whether hooks have uids of their own, which no other process has.
#[derive(Clone, Debug)]
pub struct OwnUids(Option<Arc<HookUsers>>);

impl<T> ByProfile<T> {
    /// Returns the value of the nearest profile in `line`: the profile itself, then those it extends.
    pub fn nearest(&self, line: &[ProfileName]) -> &T {
        line.iter()
            .find_map(|name| self.profiles.get(name))
            .unwrap_or(&self.default)
    }

    /// Returns all values, the default first.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        std::iter::once(&self.default).chain(self.profiles.values())
    }
}

impl OwnUids {
    /// No hook has its own uid: the daemon does not run as root.
    pub const NONE: Self = Self(None);

    /// Decides for the hooks of a root daemon, by their users.
    pub fn for_users(users: HookUsers) -> Self {
        Self(Some(Arc::new(users)))
    }

    /// Returns whether hooks under a profile have their own uids.
    #[cfg_attr(
        not(target_os = "linux"),
        expect(dead_code, reason = "hooks have uids of their own on Linux alone")
    )]
    pub(crate) fn has_own(&self, policy: &Policy) -> bool {
        let users = self.0.as_ref();
        users.is_some_and(|users| *users.nearest(&policy.line) == RunAs::Pool)
    }
}

impl Order {
    /// Returns every listed backend once, those of the default first.
    pub fn named(&self) -> Vec<BackendName> {
        let mut named = Vec::new();
        for &name in self.values().flatten() {
            if !named.contains(&name) {
                named.push(name);
            }
        }
        named
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> ProfileName {
        ProfileName::parse(text).unwrap()
    }

    #[test]
    fn the_nearest_of_a_line_that_has_a_list_decides() {
        const LANDLOCK: BackendName = BackendName::LANDLOCK;
        const NOOP: BackendName = BackendName::NOOP;
        let order = Order {
            default: vec![LANDLOCK],
            profiles: BTreeMap::from([
                (name("base"), vec![LANDLOCK, NOOP]),
                (name("child"), vec![NOOP]),
            ]),
        };
        let nearest = |line: &[&str]| {
            let line: Vec<_> = line.iter().map(|text| name(text)).collect();
            order.nearest(&line).to_vec()
        };
        assert_eq!(nearest(&["other"]), [LANDLOCK]);
        assert_eq!(nearest(&["base"]), [LANDLOCK, NOOP]);
        assert_eq!(nearest(&["child", "base"]), [NOOP]);
        assert_eq!(nearest(&["grandchild", "child", "base"]), [NOOP]);
        assert_eq!(nearest(&["sibling", "base"]), [LANDLOCK, NOOP]);
        assert_eq!(order.named(), [LANDLOCK, NOOP]);
    }
}
