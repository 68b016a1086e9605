//! Selection of the hooks that are due at a point.

use super::{Lists, Members, Owner, Registered, Tool};

/// Selection of hooks by owner. Without any owner, all are selected, but with an agent those of no other.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Scope {
    /// Agents by name.
    pub agents: Vec<String>,
    /// The operator's own.
    pub operator: bool,
    /// Plugins by name.
    pub plugins: Vec<String>,
    /// Skills by name.
    pub skills: Vec<String>,
}

impl Scope {
    /// Returns whether hooks of an owner are selected, at a point of an agent's.
    pub(crate) fn has(&self, owner: &Owner, agent: &str) -> bool {
        if *self == Self::default() {
            let of_other = |name: &String| !agent.is_empty() && name != agent;
            return !matches!(owner, Owner::Agent(name) if of_other(name));
        }
        match owner {
            Owner::Agent(name) => self.agents.contains(name),
            Owner::Operator => self.operator,
            Owner::Plugin(name) => self.plugins.contains(name),
            Owner::Required => true,
            Owner::Skill(name) => self.skills.contains(name),
        }
    }
}

/// Criteria for the hooks due at a point.
#[derive(Debug)]
pub struct Occasion<'a> {
    /// The agent of the point; empty = unknown.
    pub agent: &'a str,
    /// The contract, if given.
    pub contract: Option<&'a str>,
    /// The event.
    pub event: &'a Members<'a>,
    /// The lifecycle point.
    pub point: &'a str,
    /// Whether to select the stage before the others.
    pub preempt: bool,
    /// The owners of the hooks.
    pub scope: &'a Scope,
    /// The tool call that the request names.
    pub tool: Option<&'a Tool>,
    /// The user that asks.
    pub uid: u32,
}

/// All hooks that are configured, in the order of their registration.
#[derive(Clone, Debug, Default)]
pub struct HookList {
    all: Vec<Registered>,
    lists: Lists,
}

impl HookList {
    /// Registers hooks in this order; `lists` is the command lists of runtimes that have them.
    pub const fn new(all: Vec<Registered>, lists: Lists) -> Self {
        Self { all, lists }
    }

    /// Returns the command lists of runtimes that have them.
    pub const fn lists(&self) -> &Lists {
        &self.lists
    }

    /// Returns the hooks that are due, in the order of their registration.
    pub fn due(&self, occasion: &Occasion<'_>) -> Vec<&Registered> {
        self.all
            .iter()
            .filter(|hook| hook.is_due(occasion))
            .collect()
    }

    /// Returns all hooks, in the order of their registration.
    pub fn iter(&self) -> impl Iterator<Item = &Registered> {
        self.all.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_is_for_those_it_names_and_an_empty_one_for_all() {
        let owners = [
            Owner::Agent("root".to_owned()),
            Owner::Operator,
            Owner::Plugin("p".to_owned()),
            Owner::Skill("s".to_owned()),
        ];
        let due = |scope: &Scope, agent| owners.clone().map(|owner| scope.has(&owner, agent));
        let has = |scope: &Scope| due(scope, "");
        assert_eq!(has(&Scope::default()), [true; 4]);
        assert_eq!(due(&Scope::default(), "root"), [true; 4]);
        assert_eq!(due(&Scope::default(), "coder"), [false, true, true, true]);
        let mine = Scope {
            operator: true,
            plugins: vec!["p".to_owned()],
            ..Scope::default()
        };
        assert_eq!(has(&mine), [false, true, true, false]);
        let agents = Scope {
            agents: vec!["other".to_owned(), "root".to_owned()],
            ..Scope::default()
        };
        assert_eq!(has(&agents), [true, false, false, false]);
        assert_eq!(due(&agents, "coder"), has(&agents));
    }
}
