//! The configured hooks, and the selection of those due.

use std::ffi::OsString;

use crate::{
    consent::allowlist::command_line,
    contract::{AgentMode, CommandStyle, Entry, Equality, Members, Tool},
    model::Command,
};

pub(crate) mod builtin;
pub(crate) mod http;
pub(crate) mod lists;
pub(crate) mod load;
mod log;
pub(crate) mod lookup;
pub(crate) mod redirection;
pub(crate) mod results;
pub(crate) mod rule;
mod save;
pub(crate) mod show;
pub(crate) mod valve;
pub(crate) mod variables;

pub(crate) use self::{
    builtin::Scene,
    results::{Results, ResultsOf},
};
pub(crate) use crate::contract::{
    Action, Builtin, Lists, Log, Matcher, Owner, Payload, Registered, Save, Template,
};

impl Action {
    /// Returns the command as a line, quoted where needed. Empty where there is no command, or it is not UTF-8.
    pub fn line(&self) -> String {
        if let Self::Command(command) = self {
            return match command {
                Command::Line { text, .. } => text.clone(),
                Command::Argv(argv) => command_line(argv).unwrap_or_default(),
            };
        }
        let words = self.query_argv().unwrap_or_default();
        let argv: Vec<_> = words.into_iter().map(OsString::from).collect();
        command_line(&argv).unwrap_or_default()
    }
}

/// Selection of hooks by owner. Without any owner, all are selected, but with an agent those of no other.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Scope {
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
    fn has(&self, owner: &Owner, agent: &str) -> bool {
        if *self == Self::default() {
            let of_other = |name: &String| !agent.is_empty() && name != agent;
            return !matches!(owner, Owner::Agent(name) if of_other(name));
        }
        match owner {
            Owner::Agent(name) => self.agents.contains(name),
            Owner::Operator => self.operator,
            Owner::Plugin(name) => self.plugins.contains(name),
            Owner::Skill(name) => self.skills.contains(name),
        }
    }
}

/// Criteria for the hooks due at a point.
#[derive(Debug)]
pub(crate) struct Occasion<'a> {
    /// The agent of the point; empty = unknown.
    pub(crate) agent: &'a str,
    /// The contract, if given.
    pub(crate) contract: Option<&'a str>,
    /// The event.
    pub(crate) event: &'a Members<'a>,
    /// The lifecycle point.
    pub(crate) point: &'a str,
    /// Whether to select the stage before the others.
    pub(crate) preempt: bool,
    /// The owners of the hooks.
    pub(crate) scope: &'a Scope,
    /// The tool call that the request names.
    pub(crate) tool: Option<&'a Tool>,
    /// The user that asks.
    pub(crate) uid: u32,
}

/// All hooks that are configured, in the order of their registration.
#[derive(Clone, Debug, Default)]
pub struct Configured {
    all: Vec<Registered>,
    lists: Lists,
}

impl Configured {
    /// Registers hooks in this order; `lists` is the command lists of runtimes that have them.
    pub(crate) const fn new(all: Vec<Registered>, lists: Lists) -> Self {
        Self { all, lists }
    }

    /// Returns the command lists of runtimes that have them.
    pub(crate) const fn lists(&self) -> &Lists {
        &self.lists
    }

    /// Returns the hooks that are due, in the order of their registration.
    pub(crate) fn due(&self, occasion: &Occasion<'_>) -> Vec<&Registered> {
        self.all
            .iter()
            .filter(|hook| hook.is_due(occasion))
            .collect()
    }

    /// Returns all hooks, in the order of their registration.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Registered> {
        self.all.iter()
    }
}

impl Registered {
    /// Returns whether another due entry is the same hook, which its contract runs once. Different matchers make no
    /// difference.
    ///
    /// A built-in hook set by a flag is the same as one set by an entry, which has another name.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let timeout = match self.mode.equality() {
            Equality::ButForTime => self.entry.timeout,
            Equality::Never => return false,
            Equality::Whole => other.entry.timeout,
        };
        let others = Entry {
            timeout,
            ..other.entry
        };
        let are_named_alike = self.name == other.name || matches!(self.action, Action::Builtin(_));
        (&self.action, &self.entry, &self.env, &self.configured_env)
            == (&other.action, &others, &other.env, &other.configured_env)
            && are_named_alike
            && (&self.profile, &self.working_dir) == (&other.profile, &other.working_dir)
    }

    /// Returns whether its command is split without a shell.
    pub(crate) fn is_of_words(&self) -> bool {
        let style = self.mode.defaults(&self.point).command;
        matches!(self.action, Action::Command(_)) && style == CommandStyle::Argv
    }

    /// Returns the name of the hook's profile.
    pub(crate) fn runs_under(&self) -> &str {
        match (&self.profile, &self.action) {
            (Some(profile), _) => profile.as_str(),
            (None, Action::Query(_)) => builtin::query::PROFILE,
            (None, Action::Http(_)) => http::PROFILE,
            (None, _) => self.mode.defaults(&self.point).profile,
        }
    }

    /// Records the agent's mode, and whether the contract's gate allows its command.
    pub(crate) fn pass(&mut self, lists: &Lists, mode: AgentMode) {
        if self.mode.has_lists() {
            self.entry.agent_mode = Some(mode);
            self.entry.allowed = Some(lists.lets_through(&self.action.line(), mode));
        }
    }

    /// Records whether its runtime's list counts as consent to its command.
    pub(crate) fn listed(self, lists: &Lists, mode: AgentMode) -> Self {
        // Lists are the operator's; what they stand for is too.
        let is_operators = self.user.is_none();
        let is_command = self.mode.has_lists() && matches!(self.action, Action::Command(_));
        Self {
            is_listed: is_operators && is_command && lists.stand_for(&self.action.line(), mode),
            ..self
        }
    }

    /// Returns whether it runs for a user's requests.
    pub(crate) fn is_for(&self, uid: u32) -> bool {
        self.user.is_none_or(|user| user == uid)
    }

    /// Returns whether it is due.
    pub(crate) fn is_due(&self, occasion: &Occasion<'_>) -> bool {
        self.is_for(occasion.uid)
            && self.point == occasion.point
            && occasion
                .contract
                .is_none_or(|contract| contract == self.mode.contract_name())
            && self.entry.preempt == occasion.preempt
            && occasion.scope.has(&self.owner, occasion.agent)
            && self
                .matcher
                .matches(self.mode, occasion.point, occasion.tool, occasion.event)
            && self.filter.as_ref().is_none_or(|filter| {
                filter.lets_through(self.mode, occasion.point, occasion.tool, occasion.event)
            })
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
        let at = |scope: &Scope, agent| owners.clone().map(|owner| scope.has(&owner, agent));
        let has = |scope: &Scope| at(scope, "");
        assert_eq!(has(&Scope::default()), [true; 4]);
        assert_eq!(at(&Scope::default(), "root"), [true; 4]);
        assert_eq!(at(&Scope::default(), "coder"), [false, true, true, true]);
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
        assert_eq!(at(&agents, "coder"), has(&agents));
    }
}
