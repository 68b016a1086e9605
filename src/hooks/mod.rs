//! The hooks that are configured, and which of them are due.

use std::{collections::BTreeMap, ffi::OsString, path::PathBuf, time::Duration};

use crate::{
    admission::allowlist::command_line,
    config::Config,
    contract::{AgentMode, Entry, Members, Mode},
    request::{Command, InvalidField, ProfileName},
};

pub mod builtin;
pub mod lists;
pub mod load;
pub mod log;
pub mod matcher;
pub mod read;
mod save;
pub mod show;
pub mod template;
pub mod valve;

pub(crate) use self::matcher::Subjects;
pub use self::{
    builtin::{Builtin, Scene, git::Question},
    lists::Lists,
    log::Log,
    matcher::Matcher,
    save::Save,
    template::Template,
};
use self::{
    load::{LoadError, Loaded},
    read::Switches,
};

/// A hook that runs whenever its point comes.
#[derive(Clone, Debug)]
pub struct Registered {
    /// What runs, or why nothing can.
    pub action: Action,
    /// Additional environment that its configuration gives it.
    pub configured_env: BTreeMap<String, OsString>,
    /// What its entry says about how its end is read.
    pub entry: Entry,
    /// Additional environment that a request gives it.
    pub env: BTreeMap<String, OsString>,
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

/// Whose hooks are meant; nobody named = everybody's.
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
    fn has(&self, owner: &Owner) -> bool {
        if *self == Self::default() {
            return true;
        }
        match owner {
            Owner::Agent(name) => self.agents.contains(name),
            Owner::Operator => self.operator,
            Owner::Plugin(name) => self.plugins.contains(name),
            Owner::Skill(name) => self.skills.contains(name),
        }
    }
}

/// Returns what runs under a configuration: its own hooks, then those of the files it names; nothing where hooks are
/// disabled, whatever the files hold.
///
/// # Errors
///
/// A file cannot be read; the error names it, its entry and the field.
pub fn configured(config: &Config, switches: &Switches) -> Result<Loaded, LoadError> {
    if config.hooks_disabled {
        return Ok(Loaded {
            disabled: vec!["`hooks.disabled` is true".to_owned()],
            ..Loaded::default()
        });
    }
    let mut loaded = load::load(&config.hooks_files, switches)?;
    loaded.hooks.splice(0..0, config.registered.iter().cloned());
    Ok(loaded)
}

/// Which hooks of a point are looked for.
#[derive(Debug)]
pub(crate) struct Occasion<'a> {
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
    /// What matchers look at.
    pub(crate) subjects: Subjects<'a>,
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
    /// Says whether another entry that is due is the same hook, which contracts that run hooks side by side run once. That
    /// different matchers brought them here makes no difference.
    pub fn is_same(&self, other: &Self) -> bool {
        (&self.action, &self.entry, &self.env, &self.configured_env)
            == (
                &other.action,
                &other.entry,
                &other.env,
                &other.configured_env,
            )
            && (&self.name, &self.profile, &self.working_dir)
                == (&other.name, &other.profile, &other.working_dir)
    }

    /// Returns the name of the profile that it runs under.
    pub fn runs_under(&self) -> &str {
        match (&self.profile, &self.action) {
            (Some(profile), _) => profile.as_str(),
            (None, Action::Git(_)) => builtin::git::PROFILE,
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

    /// Says whether it is due.
    pub(crate) fn is_due(&self, occasion: &Occasion<'_>) -> bool {
        self.point == occasion.point
            && occasion
                .contract
                .is_none_or(|contract| contract == self.mode.contract_name())
            && self.entry.preempt == occasion.preempt
            && occasion.scope.has(&self.owner)
            && self
                .matcher
                .matches(self.mode, &occasion.subjects, occasion.event)
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
        let has = |scope: &Scope| owners.clone().map(|owner| scope.has(&owner));
        assert_eq!(has(&Scope::default()), [true; 4]);
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
    }
}
