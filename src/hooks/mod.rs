//! The hooks that are configured, and which of them are due.

use std::{collections::BTreeMap, ffi::OsString, path::PathBuf, time::Duration};

use crate::{
    consent::allowlist::command_line,
    contract::{AgentMode, CommandStyle, Entry, Equality, Members, Mode, Tool},
    model::{Command, InvalidField, ProfileName},
};

pub mod builtin;
pub mod filter;
pub mod http;
pub mod lists;
pub mod load;
pub mod log;
pub mod lookup;
pub mod matcher;
mod payload;
pub mod read;
pub mod redirection;
pub mod results;
pub mod rule;
mod save;
pub mod show;
pub mod template;
pub mod valve;
pub(crate) mod variables;

pub use self::{
    builtin::{Builtin, Scene, git::Question},
    filter::Filter,
    lists::Lists,
    log::Log,
    matcher::Matcher,
    payload::Payload,
    results::{Results, ResultsOf},
    save::Save,
    template::Template,
};

/// A hook that runs whenever its point comes.
#[derive(Clone, Debug)]
pub struct Registered {
    /// What runs, or why nothing can.
    pub action: Action,
    /// Where the paths in its command start that are relative, if the operator says so; absolute.
    pub base: Option<PathBuf>,
    /// Additional environment that its configuration gives it.
    pub configured_env: BTreeMap<String, OsString>,
    /// What its entry says about how its end is read.
    pub entry: Entry,
    /// Additional environment that a request gives it.
    pub env: BTreeMap<String, OsString>,
    /// Which tool calls it is for, of those that its matcher takes; `None` = all.
    pub filter: Option<Filter>,
    /// Whether the operator has infer's list stand for consent, and it has the command in the mode of the moment.
    pub is_listed: bool,
    /// Which events of its point it is for.
    pub matcher: Matcher,
    /// The matcher as it is written; empty = every event.
    pub matching: String,
    /// The contract and mode.
    pub mode: Mode,
    /// Its name; never empty.
    pub name: String,
    /// Whose it is.
    pub owner: Owner,
    /// The lifecycle point, in the contract's spelling.
    pub point: String,
    /// The profile, if the entry names one.
    pub profile: Option<ProfileName>,
    /// Whether it is the operator's configuration that names the profile for this hook.
    pub profile_granted: bool,
    /// Whether it runs, only looking on, once one before it has stopped what comes next.
    pub runs_after_block: bool,
    /// Where it is configured: file and entry.
    pub source: String,
    /// Where it starts.
    pub working_dir: Option<PathBuf>,
}

/// What a registered hook does.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// It asks the operator whether the tool may be called, for so long.
    Approve(Duration),
    /// It is one of docker-agent's own, and done here.
    Builtin(Builtin),
    /// It runs a command.
    Command(Command),
    /// It is one of docker-agent's own, and asks git.
    Git(Question),
    /// It is posted to a URL.
    Http(Box<http::Post>),
    /// It writes a line of the daemon's log.
    Log(Log),
    /// It writes the event to a file of the profile's.
    Save(Save),
    /// It makes a message of the event, here.
    Template(Template),
    /// It is something that is not served, for this reason.
    Unsupported(String),
}

impl Action {
    /// Parses the name and arguments of one of docker-agent's own.
    ///
    /// # Errors
    ///
    /// Names one that is not served and says why, and arguments that it does not take.
    pub fn builtin(name: &str, args: &[String]) -> Result<Self, InvalidField> {
        match Question::parse(name, args) {
            Some(question) => question.map(Self::Git),
            None => Builtin::parse(name, args).map(Self::Builtin),
        }
    }

    /// Returns name and arguments of one of docker-agent's own, and the points at which it does something.
    pub fn as_builtin(&self) -> Option<(&'static str, Vec<String>, Vec<&'static str>)> {
        match self {
            Self::Builtin(own) => Some((own.name(), own.args(), own.points().to_vec())),
            Self::Git(own) => Some((own.name(), own.args(), vec![own.point()])),
            Self::Approve(_)
            | Self::Command(_)
            | Self::Http(_)
            | Self::Log(_)
            | Self::Save(_)
            | Self::Template(_)
            | Self::Unsupported(_) => None,
        }
    }

    /// Returns what it asks git.
    pub const fn question(&self) -> Option<Question> {
        match self {
            Self::Git(question) => Some(*question),
            Self::Approve(_)
            | Self::Builtin(_)
            | Self::Command(_)
            | Self::Http(_)
            | Self::Log(_)
            | Self::Save(_)
            | Self::Template(_)
            | Self::Unsupported(_) => None,
        }
    }

    /// Returns the command as a line, words quoted where they must be; empty where there is none, or it is no text.
    pub fn line(&self) -> String {
        match self {
            Self::Command(Command::Argv(argv)) => command_line(argv).unwrap_or_default(),
            Self::Command(Command::Line { text, .. }) => text.clone(),
            Self::Git(question) => {
                let argv: Vec<_> = question.argv().into_iter().map(OsString::from).collect();
                command_line(&argv).unwrap_or_default()
            }
            Self::Approve(_)
            | Self::Builtin(_)
            | Self::Http(_)
            | Self::Log(_)
            | Self::Save(_)
            | Self::Template(_)
            | Self::Unsupported(_) => String::new(),
        }
    }
}

/// Whose a hook is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Owner {
    /// An agent's, by its name.
    Agent(String),
    /// The operator's own.
    Operator,
    /// A plugin's, by its name.
    Plugin(String),
    /// A skill's, by its name.
    Skill(String),
}

/// Whose hooks are meant; nobody named = everybody's, but where an agent is known those of no other.
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
    /// Whether hooks of an owner are meant, at a point of an agent's.
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

/// Which hooks of a point are looked for.
#[derive(Debug)]
pub(crate) struct Occasion<'a> {
    /// The agent whose point it is; empty = nobody says.
    pub(crate) agent: &'a str,
    /// The contract, if it is said.
    pub(crate) contract: Option<&'a str>,
    /// The event.
    pub(crate) event: &'a Members<'a>,
    /// The lifecycle point.
    pub(crate) point: &'a str,
    /// Whether the stage before the others is meant.
    pub(crate) preempt: bool,
    /// Whose hooks.
    pub(crate) scope: &'a Scope,
    /// The tool call that the request names.
    pub(crate) tool: Option<&'a Tool>,
}

/// All hooks that are configured, in the order of their registration.
#[derive(Clone, Debug, Default)]
pub struct Configured {
    all: Vec<Registered>,
    lists: Lists,
}

impl Configured {
    /// Registers hooks in this order; `lists` says which of infer's run.
    pub const fn new(all: Vec<Registered>, lists: Lists) -> Self {
        Self { all, lists }
    }

    /// Returns which commands of infer's hooks run.
    pub const fn lists(&self) -> &Lists {
        &self.lists
    }

    /// Returns those that are due, in the order of their registration.
    pub(crate) fn due(&self, occasion: &Occasion<'_>) -> Vec<&Registered> {
        self.all
            .iter()
            .filter(|hook| hook.is_due(occasion))
            .collect()
    }

    /// Returns all, in the order in which they would run at their points.
    pub fn iter(&self) -> impl Iterator<Item = &Registered> {
        self.all.iter()
    }
}

impl Registered {
    /// Says whether another entry that is due is the same hook, which its contract runs once. That different matchers brought
    /// them here makes no difference.
    ///
    /// What a flag stands for is the same hook as an entry for it, which has another name.
    pub fn is_same(&self, other: &Self) -> bool {
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

    /// Whether its command becomes words without a shell.
    pub fn is_of_words(&self) -> bool {
        let style = self.mode.defaults(&self.point).command;
        matches!(self.action, Action::Command(_)) && style == CommandStyle::Argv
    }

    /// Returns the name of the profile that it runs under.
    pub fn runs_under(&self) -> &str {
        match (&self.profile, &self.action) {
            (Some(profile), _) => profile.as_str(),
            (None, Action::Git(_)) => builtin::git::PROFILE,
            (None, Action::Http(_)) => http::PROFILE,
            (None, _) => self.mode.defaults(&self.point).profile,
        }
    }

    /// Notes the agent's mode, and whether the contract's gate lets its command through.
    pub(crate) fn pass(&mut self, lists: &Lists, mode: AgentMode) {
        if self.mode == Mode::Infer {
            self.entry.agent_mode = Some(mode);
            self.entry.allowed = Some(lists.lets_through(&self.action.line(), mode));
        }
    }

    /// Notes whether infer's list stands for consent to its command.
    pub(crate) fn listed(self, lists: &Lists, mode: AgentMode) -> Self {
        let is_command = self.mode == Mode::Infer && matches!(self.action, Action::Command(_));
        Self {
            is_listed: is_command && lists.stand_for(&self.action.line(), mode),
            ..self
        }
    }

    /// Says whether it is due.
    pub(crate) fn is_due(&self, occasion: &Occasion<'_>) -> bool {
        self.point == occasion.point
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
