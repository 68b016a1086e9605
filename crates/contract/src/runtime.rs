//! The trait of contracts and its vocabulary.

use std::{fmt, time::Duration};

use bytes::Bytes;
use serde_json::{Map, Value};

use hookjail_base::model::{Event, InvalidField};

use super::{
    ContractEvent, Decision, End, Envelope, Filter, Folded, Matcher, Skip, Verdict, adopt::Adapter,
    entry, hook_file::HookFile,
};

/// The rules of a contract in one of its modes.
pub(super) trait Runtime: Sync {
    /// Returns the facts of the contract that hold in every mode.
    fn facts(&self) -> &'static Facts;

    /// Converts a point from a runtime's spelling to the contract's registered name.
    fn spelled<'a>(&self, point: &'a str) -> &'a str {
        point
    }

    /// Returns the names of the mode, the recorded one first. Empty = it need not be named.
    fn modes(&self) -> &'static [&'static str] {
        &["", "command"]
    }

    /// Returns whether a hook of the mode is a process. Otherwise nothing runs, and another actor's result is interpreted.
    fn is_process(&self) -> bool {
        true
    }

    /// Returns the defaults at a point.
    fn defaults(&self, point: &str) -> Defaults;

    /// Returns the bytes a hook reads on stdin.
    fn stdin(&self, event: &Event, envelope: &Envelope) -> Result<Bytes, InvalidField>;

    /// Interprets a process end.
    fn interpret(&self, end: &End<'_>) -> Verdict;

    /// Returns other names of a tool in matchers.
    fn other_names(&self, _tool: &str) -> &'static [&'static str] {
        &[]
    }

    /// Returns the subject of matchers at a point.
    fn subject(&self, _point: &str) -> Subject {
        Subject::Tool
    }

    /// Returns whether it has supported built-in hooks, as entries in place of a command.
    fn has_builtins(&self) -> bool {
        false
    }

    /// Returns the directory tree that an event names as the source of a worktree.
    fn source(&self, _event: &Event) -> Option<String> {
        None
    }

    /// Returns how long context from a point stays valid. `None` where the contract does not define it.
    fn context_lifetime(&self, _point: &str) -> Option<Lifetime> {
        None
    }

    /// Returns how several hooks at one point are scheduled.
    fn scheduling(&self, _point: &str) -> Scheduling {
        Scheduling::InTurn
    }

    /// Copies a hook's rewrites into the next hook's event.
    fn hand_on(&self, _verdict: &Verdict, _event: &mut Event, _envelope: &mut Envelope) {}

    /// Merges the verdicts of the hooks that ran at one point under its [`Runtime::scheduling`].
    fn fold(&self, _point: &str, hooks: &[(&str, &Verdict)]) -> Folded {
        Folded::apart(hooks)
    }

    /// Returns session and turn for the contract's own event, as far as known.
    fn moment(&self, _event: &Event) -> (Option<String>, Option<u64>) {
        (None, None)
    }

    /// Returns the contract's own event of a run, if it defines one for it.
    fn event(&self, _end: &End<'_>) -> Option<ContractEvent> {
        None
    }

    /// Returns the contract's own event of a skipped hook, if it defines one.
    fn skipped(&self, _end: &End<'_>, _why: Skip) -> Option<ContractEvent> {
        None
    }

    /// Returns a hook's measurements at a point, by the contract's names.
    fn measures(&self, _point: &str, _verdict: &Verdict) -> Map<String, Value> {
        Map::new()
    }

    /// Returns the display line of an event of the contract's own. `None` where the contract shows the object.
    fn display(&self, _event: &str, _members: &Map<String, Value>) -> Option<String> {
        None
    }
}

/// What users of a runtime configure. It is apart from [`Runtime`], so that a program that reads no configuration need not hold what
/// reads it: a trait object brings all its methods along.
pub(super) trait Configured: Runtime {
    /// Returns the parser of its hook files; `None` where there are none.
    fn hook_file(&self) -> Option<&'static dyn HookFile> {
        None
    }

    /// Parses a matcher for a subject; it is not empty.
    fn matcher(&self, _subject: Subject, _text: &str) -> Result<Matcher, InvalidField> {
        let contract = self.facts().contract;
        let problem = format!("is not a key of entries under `{contract}`");
        Err(InvalidField::new("matcher", problem))
    }

    /// Parses the rule of an entry beside its matcher; `None` without such rules, or for an invalid text.
    fn filter(&self, _rule: &str) -> Option<Filter> {
        None
    }
}

/// Facts of a contract that hold in every mode.
pub(super) struct Facts {
    /// The commands by which a hook starts the agent itself, for an answer of a model's.
    pub(super) agent_commands: &'static [&'static str],
    /// The adapter that runs a runtime's own hooks; `None` where there is none.
    pub(super) adapter: Option<&'static dyn Adapter>,
    /// Its name.
    pub(super) contract: &'static str,
    /// Which entries at a point count as one hook, which runs once.
    pub(super) equality: Equality,
    /// Whether the runtime expands variables in the arguments of a program without a shell.
    pub(super) expands_words: bool,
    /// Whether it has command lists by agent mode.
    pub(super) has_lists: bool,
    /// The keys of a hook's entry that are parsed.
    pub(super) keys: &'static [(&'static str, entry::Key)],
    /// The points that end something. A hook there should outlive a client that disconnects.
    pub(super) last_points: &'static [&'static str],
    /// Whether pushes of its hooks open turns, which a valve counts.
    pub(super) opens_turns: bool,
    /// Effect of a stop at points not in `points`; `None` = there are no others.
    pub(super) other_points: Option<Stop>,
    /// The maximum length of a stream that is read, bytes; `None` = no limit.
    pub(super) output_cap: Option<usize>,
    /// How its users consent to commands by its own means; `None` where they cannot.
    pub(super) own_consent: Option<OwnConsent>,
    /// The known points.
    pub(super) points: &'static [Point],
    /// The priority of a hook whose entry has none; lower is earlier. It counts where hooks run by priority.
    pub(super) priority: f64,
    /// The members by which an event names its session, in order of precedence.
    pub(super) session: &'static [&'static str],
    /// The variables that name a file by which a hook changes its session's environment.
    pub(super) session_files: &'static [&'static str],
    /// The points with another name in Base Coat, as (Base Coat's, the contract's).
    pub(super) shared_points: &'static [(&'static str, &'static str)],
    /// The runtime's environment variables that affect its hooks.
    pub(super) switches: &'static [&'static str],
    /// The mode that reads what the push template of an entry renders to; `None` = entries have none.
    pub(super) template_mode: Option<&'static str>,
    /// The version of the rules that are followed.
    pub(super) version: &'static str,
    /// The points at which a hook that confinement broke is a warning to the user and no stop, unless its failure stops anyway.
    pub(super) warned_points: &'static [&'static str],
}

impl Facts {
    /// The defaults of all members.
    pub(super) const NONE: Self = Self {
        agent_commands: &[],
        adapter: None,
        contract: "",
        equality: Equality::Never,
        expands_words: false,
        has_lists: false,
        keys: &[],
        last_points: &[],
        opens_turns: false,
        other_points: None,
        output_cap: None,
        own_consent: None,
        points: &[],
        priority: 0.0,
        session: &["session_id"],
        session_files: &[],
        shared_points: &[],
        switches: &[],
        template_mode: None,
        version: "",
        warned_points: &[],
    };

    /// Returns what a hook may stop at a point; `None` if unknown.
    ///
    /// An open list of points accepts no name that differs from a listed one only in spelling: a guard there would
    /// never be due.
    pub(super) fn stop_at(&self, point: &str) -> Option<Stop> {
        let mut points = self.points.iter();
        if let Some(known) = points.clone().find(|known| known.name == point) {
            return Some(known.stop);
        }
        let is_misspelt = points.any(|known| super::mode::is_alike(known.name, point));
        self.other_points.filter(|_| !is_misspelt)
    }
}

/// Means by which users of a runtime consent to commands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct OwnConsent {
    /// The variable that accepts every command where it is 1.
    pub accept: &'static str,
    /// The variable with the path of its allowlist.
    pub allowlist: &'static str,
    /// The allowlist's path below the user's home, where no variable names it.
    pub usual: &'static str,
}

/// A lifecycle point.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Point {
    /// Its name in the contract's spelling.
    pub name: &'static str,
    /// Operation that a hook may stop there.
    pub stop: Stop,
}

/// Operation that a hook may stop.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Stop {
    /// A tool call or permission.
    Call,
    /// The end of an agent or a task: a stop makes the agent continue.
    Ending,
    /// Nothing.
    Nothing,
    /// Some other operation.
    Operation,
}

impl Stop {
    /// Returns the decision that stops it; `None` where nothing can be stopped.
    pub const fn decision(self) -> Option<Decision> {
        match self {
            Self::Call => Some(Decision::Deny),
            Self::Nothing => None,
            Self::Ending | Self::Operation => Some(Decision::Block),
        }
    }
}

/// Rule by which entries at a point count as one hook.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Equality {
    /// Entries equal in all but their timeout.
    ButForTime,
    /// None: each entry is a hook of its own.
    Never,
    /// Equal entries.
    Whole,
}

/// Subject of matchers at a point.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Subject {
    /// The last component of the path that a member of the event holds.
    FileName(&'static str),
    /// A member of the event: the first of these that is present.
    Member(&'static [&'static str]),
    /// Nothing: the runtime has no matchers there, and every entry is due.
    Nothing,
    /// The tool: that of the request, that of the event, or both.
    Tool,
}

/// Scheduling of several hooks at one point.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Scheduling {
    /// Concurrently.
    AtOnce,
    /// One after another, whatever the verdicts.
    InTurn,
    /// One after another, each with the rewrites of the one before.
    Pipeline,
    /// By ascending priority, and none after one that blocks.
    PriorityUntilBlock,
    /// One after another, and none after one that blocks.
    UntilBlock,
}

impl Scheduling {
    /// Returns whether no hook runs after one with this verdict.
    pub const fn ends_after(self, verdict: &Verdict) -> bool {
        match self {
            Self::AtOnce | Self::InTurn | Self::Pipeline => false,
            Self::PriorityUntilBlock | Self::UntilBlock => verdict.decision.stops(),
        }
    }
}

/// Validity of context for the model.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Lifetime {
    /// For the whole session.
    Session,
    /// For the current turn.
    Turn,
}

/// Way in which a contract runs its command.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CommandStyle {
    /// Program and arguments; a string is split into POSIX shell words, and no shell ever runs.
    Argv,
    /// A shell runs a string.
    Shell {
        /// The shell's absolute path.
        program: &'static str,
        /// Its option for a command string.
        option: &'static str,
    },
}

impl fmt::Display for CommandStyle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Argv => f.write_str("argv, no shell"),
            Self::Shell { program, option } => write!(f, "{program} {option}"),
        }
    }
}

/// Defaults of a contract for a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Defaults {
    /// The way in which the command is run.
    pub command: CommandStyle,
    /// The profile.
    pub profile: &'static str,
    /// The wall time; `None` leaves it to the profile.
    pub timeout: Option<Duration>,
}

impl Defaults {
    /// Returns the defaults of a contract whose commands a shell runs.
    pub(super) const fn shell(
        program: &'static str,
        option: &'static str,
        timeout: Duration,
    ) -> Self {
        Self {
            command: CommandStyle::Shell { program, option },
            profile: "workspace-ro",
            timeout: Some(timeout),
        }
    }
}
