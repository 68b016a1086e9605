//! Lookup of the backends that a profile may run on, by the operator's lists.

use std::collections::BTreeMap;

use crate::{model::ProfileName, sandbox::BackendName};

/// The operator's lists of backends, in order of preference and without duplicates.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Order {
    /// The list of profiles without one of their own.
    pub default: Vec<BackendName>,
    /// The lists of profiles, which also apply to those that extend them.
    pub profiles: BTreeMap<ProfileName, Vec<BackendName>>,
}

impl Order {
    /// Returns the list of the nearest profile in `line`: the profile itself, then those it extends.
    pub(crate) fn of(&self, line: &[ProfileName]) -> &[BackendName] {
        line.iter()
            .find_map(|name| self.profiles.get(name))
            .unwrap_or(&self.default)
    }

    /// Returns every listed backend once: those of the default first.
    pub(crate) fn named(&self) -> Vec<BackendName> {
        let lists = std::iter::once(&self.default).chain(self.profiles.values());
        let mut named = Vec::new();
        for &name in lists.flatten() {
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
        let of = |line: &[&str]| {
            let line: Vec<_> = line.iter().map(|text| name(text)).collect();
            order.of(&line).to_vec()
        };
        assert_eq!(of(&["other"]), [LANDLOCK]);
        assert_eq!(of(&["base"]), [LANDLOCK, NOOP]);
        assert_eq!(of(&["child", "base"]), [NOOP]);
        assert_eq!(of(&["grandchild", "child", "base"]), [NOOP]);
        assert_eq!(of(&["sibling", "base"]), [LANDLOCK, NOOP]);
        assert_eq!(order.named(), [LANDLOCK, NOOP]);
    }
}
