//! A hook as configured in a file.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::{Path, PathBuf},
    time::Duration,
};

use hookjail_base::model::{Command, InvalidField, ProfileName, command_line};

use crate::{
    AgentMode, Builtin, CommandStyle, Entry, Equality, Filter, Lists, Log, Matcher, Mode, Occasion,
    Post, Query, Supplied, infer_gate::Gate,
};

/// The default profile of commands that hookjail supplies, which allows reading the workspace, and no new process.
const SUPPLIED_PROFILE: &str = "strict";

/// The profile of hooks that post their event.
pub const POST_PROFILE: &str = "post";

/// A hook that runs at its lifecycle point.
#[derive(Clone, Debug)]
pub struct Registered {
    /// Its action, or why none is possible.
    pub action: Action,
    /// The base of relative paths in its command, if the operator configures it; absolute.
    pub base: Option<PathBuf>,
    /// Additional environment from its configuration.
    pub configured_env: BTreeMap<String, OsString>,
    /// The fields of its entry that affect how its end is interpreted.
    pub entry: Entry,
    /// Additional environment from a request.
    pub env: BTreeMap<String, OsString>,
    /// The filter of the tool calls that its matcher matches; `None` = all.
    pub filter: Option<Filter>,
    /// Whether its runtime's allowlist counts as consent to its command. The operator enables that, and the list has
    /// the command in the current mode.
    pub is_listed: bool,
    /// The matcher of the point's events.
    pub matcher: Matcher,
    /// The matcher as it is written; empty = every event.
    pub matching: String,
    /// The contract and mode.
    pub mode: Mode,
    /// Its name; never empty.
    pub name: String,
    /// Its owner.
    pub owner: Owner,
    /// The lifecycle point, in the contract's spelling.
    pub point: String,
    /// The profile, if the entry names one.
    pub profile: Option<ProfileName>,
    /// Whether the operator's configuration names the profile for this hook.
    pub profile_granted: bool,
    /// Whether the hook runs, as an observer, after an earlier one has blocked.
    pub runs_after_block: bool,
    /// The file and entry that configure it.
    pub source: String,
    /// The user whose file it is from, and for whose requests alone it is due. `None` = for everybody's.
    pub user: Option<u32>,
    /// Its working directory.
    pub working_dir: Option<PathBuf>,
}

impl Registered {
    /// Builds a hook with a name and a source, and nothing else but an action at a point.
    pub fn new(mode: Mode, point: &str, (name, source): (String, String), action: Action) -> Self {
        Self {
            action,
            base: None,
            configured_env: BTreeMap::new(),
            entry: Entry::default(),
            env: BTreeMap::new(),
            filter: None,
            is_listed: false,
            matcher: Matcher::Always,
            matching: String::new(),
            mode,
            name,
            owner: Owner::Operator,
            point: point.to_owned(),
            profile: None,
            profile_granted: false,
            runs_after_block: false,
            source,
            user: None,
            working_dir: None,
        }
    }
}

/// Action of a registered hook.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Asks the operator for approval of the tool call, for at most this long.
    Approve(Duration),
    /// Runs a runtime's built-in hook that is a function of the event, in this process.
    Builtin(Builtin),
    /// Runs a command.
    Command(Command),
    /// Posts the event to a URL.
    Http(Box<Post>),
    /// Writes a line of the daemon's log.
    Log(Log),
    /// Runs a command that hookjail supplies.
    Supplied(Supplied),
    /// Not supported, for this reason.
    Unsupported(String),
}

impl Action {
    /// Parses the name and arguments of a runtime's built-in hook.
    ///
    /// # Errors
    ///
    /// Refuses a built-in that is not supported, with the reason, and arguments that it does not take.
    pub fn builtin(name: &str, args: &[String]) -> Result<Self, InvalidField> {
        match Query::parse(name, args) {
            Some(query) => query.map(|query| Self::Supplied(Supplied::Query(query))),
            None => Builtin::parse(name, args).map(Self::Builtin),
        }
    }

    /// Returns name and arguments of a built-in hook, with its points.
    pub fn as_builtin(&self) -> Option<(&'static str, Vec<String>, Vec<&'static str>)> {
        match self {
            Self::Builtin(builtin) => {
                Some((builtin.name(), builtin.args(), builtin.points().to_vec()))
            }
            Self::Supplied(Supplied::Query(builtin)) => {
                Some((builtin.name(), builtin.args(), builtin.points().to_vec()))
            }
            Self::Approve(_)
            | Self::Command(_)
            | Self::Http(_)
            | Self::Log(_)
            | Self::Supplied(_)
            | Self::Unsupported(_) => None,
        }
    }

    /// Returns the command, if it runs one of a configuration.
    pub const fn command(&self) -> Option<&Command> {
        if let Self::Command(command) = self {
            Some(command)
        } else {
            None
        }
    }

    /// Returns the command that hookjail supplies, if it does.
    pub const fn supplied(&self) -> Option<&Supplied> {
        if let Self::Supplied(supplied) = self {
            Some(supplied)
        } else {
            None
        }
    }

    /// Returns the command as a line, quoted where needed. Empty where there is no command, or it is not UTF-8.
    pub fn line(&self) -> String {
        if let Some(command) = self.command() {
            return match command {
                Command::Line { text, .. } => text.clone(),
                Command::Argv(argv) => command_line(argv).unwrap_or_default(),
            };
        }
        let words = self.supplied().map(Supplied::argv).unwrap_or_default();
        let argv: Vec<_> = words.into_iter().map(OsString::from).collect();
        command_line(&argv).unwrap_or_default()
    }
}

impl Registered {
    /// Returns whether another due entry is the same hook, which its contract runs once. Different matchers make no
    /// difference.
    ///
    /// A built-in hook set by a flag is the same as one set by an entry, which has another name.
    pub fn is_same(&self, other: &Self) -> bool {
        let timeout = match self.mode.facts().equality {
            Equality::ButForTime => self.entry.timeout,
            Equality::Never => return false,
            Equality::Whole => other.entry.timeout,
        };
        let others = Entry {
            timeout,
            ..other.entry
        };
        let are_named_alike = self.name == other.name || self.action.as_builtin().is_some();
        (&self.action, &self.entry, &self.env, &self.configured_env)
            == (&other.action, &others, &other.env, &other.configured_env)
            && are_named_alike
            && (&self.profile, &self.working_dir) == (&other.profile, &other.working_dir)
    }

    /// Returns whether its command is split without a shell.
    pub fn is_of_words(&self) -> bool {
        let style = self.mode.defaults(&self.point).command;
        matches!(self.action, Action::Command(_)) && style == CommandStyle::Argv
    }

    /// Returns the name of the hook's profile.
    pub fn runs_under(&self) -> &str {
        match (&self.profile, &self.action) {
            (Some(profile), _) => profile.as_str(),
            (None, Action::Supplied(_)) => SUPPLIED_PROFILE,
            (None, Action::Http(_)) => POST_PROFILE,
            (None, _) => self.mode.defaults(&self.point).profile,
        }
    }

    /// Records the agent's mode, and whether the contract's gate allows its command in a workspace.
    pub fn pass(&mut self, lists: &Lists, mode: AgentMode, workspace: Option<&Path>) {
        if self.mode.facts().has_lists {
            let gate = match self.owner {
                Owner::Required => Gate::Allowed,
                Owner::Agent(_) | Owner::Operator | Owner::Plugin(_) | Owner::Skill(_) => {
                    lists.decide(&self.action.line(), mode, self.starts_in(workspace))
                }
            };
            self.entry.agent_mode = Some(mode);
            self.entry.allowed = Some(gate == Gate::Allowed);
            self.entry.hint = match gate {
                Gate::Allowed => None,
                Gate::Refused { hint } => Some(hint),
            };
        }
    }

    /// Records whether its runtime's list counts as consent to its command in a workspace.
    pub fn listed(self, lists: &Lists, mode: AgentMode, workspace: Option<&Path>) -> Self {
        // Lists are the operator's, and so are their commands.
        let is_operators = self.user.is_none();
        let is_command = self.mode.facts().has_lists && matches!(self.action, Action::Command(_));
        let starts = self.starts_in(workspace);
        let is_listed =
            is_operators && is_command && lists.stand_for(&self.action.line(), mode, starts);
        Self { is_listed, ..self }
    }

    /// Returns the directory against which its relative paths count.
    fn starts_in<'a>(&'a self, workspace: Option<&'a Path>) -> Option<&'a Path> {
        self.working_dir.as_deref().or(workspace)
    }

    /// Returns whether it runs for a user's requests.
    pub fn is_for(&self, uid: u32) -> bool {
        self.user.is_none_or(|user| user == uid)
    }

    /// Returns whether it is due.
    pub fn is_due(&self, occasion: &Occasion<'_>) -> bool {
        self.is_for(occasion.uid)
            && self.point == occasion.point
            && occasion
                .contract
                .is_none_or(|contract| contract == self.mode.facts().contract)
            && (self.entry.preempt == occasion.preempt || self.owner == Owner::Required)
            && occasion.scope.has(&self.owner, occasion.agent)
            && self
                .matcher
                .matches(self.mode, occasion.point, occasion.tool, occasion.event)
            && self.filter.as_ref().is_none_or(|filter| {
                filter.lets_through(self.mode, occasion.point, occasion.tool, occasion.event)
            })
    }
}

/// Owner of a hook.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Owner {
    /// An agent's, by its name.
    Agent(String),
    /// The operator's own.
    Operator,
    /// A plugin's, by its name.
    Plugin(String),
    /// The administrator's of the host: no scope leaves it out.
    Required,
    /// A skill's, by its name.
    Skill(String),
}
