//! A hook as a file configures it.

use std::{collections::BTreeMap, ffi::OsString, path::PathBuf, time::Duration};

use crate::{
    contract::{Builtin, Entry, Filter, Log, Matcher, Mode, Post, Question, Save, Template},
    model::{Command, ProfileName},
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
    /// Whether the operator has its runtime's list of commands stand for consent, and that has the command in the mode of the moment.
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
    /// It is one of a runtime's own, and done here.
    Builtin(Builtin),
    /// It runs a command.
    Command(Command),
    /// It is one of a runtime's own, and asks git.
    Git(Question),
    /// It is posted to a URL.
    Http(Box<Post>),
    /// It writes a line of the daemon's log.
    Log(Log),
    /// It writes the event to a file of the profile's.
    Save(Save),
    /// It makes a message of the event, here.
    Template(Template),
    /// It is something that is not served, for this reason.
    Unsupported(String),
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
