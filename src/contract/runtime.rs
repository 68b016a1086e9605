//! What a runtime answers, and the words in which it does.

use std::{fmt, time::Duration};

use bytes::Bytes;
use serde_json::{Map, Value};

use super::{
    ContractEvent, Decision, End, Envelope, Filter, Folded, Matcher, Skip, Verdict, adopt::Adapter,
    entry, hook_file::HookFile,
};
use crate::model::{Event, InvalidField};

/// The rules of a contract in one of its modes.
pub(super) trait Runtime: Sync {
    /// Returns what holds of the contract in every mode.
    fn facts(&self) -> &'static Facts;

    /// Returns the adapter by which a runtime's own hooks are run; `None` where there is no such runtime.
    fn adapter(&self) -> Option<&'static dyn Adapter> {
        None
    }

    /// Returns the points that end something, so that a hook there should outlive a client that goes away.
    fn last_points(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns the points for which Base Coat has another name, each as Base Coat and as the contract calls it.
    fn shared_points(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// Returns a point as the contract's hooks are registered at it, from a runtime's spelling.
    fn spelled<'a>(&self, point: &'a str) -> &'a str {
        point
    }

    /// Returns the names of the mode, the one that is written down first; empty = it need not be named.
    fn modes(&self) -> &'static [&'static str] {
        &["", "command"]
    }

    /// Says whether such a hook is a process; else what somebody else did is read, and nothing is run.
    fn is_process(&self) -> bool {
        true
    }

    /// Returns what holds at a point where the request is silent.
    fn defaults(&self, point: &str) -> Defaults;

    /// Returns the bytes a hook reads on stdin.
    fn stdin(&self, event: &Event, envelope: &Envelope) -> Result<Bytes, InvalidField>;

    /// Says what an end means.
    fn interpret(&self, end: &End<'_>) -> Verdict;

    /// Returns what else matchers may call a tool.
    fn other_names(&self, _tool: &str) -> &'static [&'static str] {
        &[]
    }

    /// Returns which entries at a point are one hook, which runs once.
    fn equality(&self) -> Equality {
        Equality::Never
    }

    /// Returns what matchers at a point look at.
    fn subject(&self, _point: &str) -> Subject {
        Subject::Tool
    }

    /// Reads what a matcher says that is for what `subject` names; not empty.
    fn matcher(&self, _subject: Subject, _text: &str) -> Result<Matcher, InvalidField> {
        let contract = self.facts().contract;
        let problem = format!("is not a key of entries under `{contract}`");
        Err(InvalidField::new("matcher", problem))
    }

    /// Reads the rule that an entry says beside its matcher; `None` where there is none such, or what is written is none.
    fn filter(&self, _rule: &str) -> Option<Filter> {
        None
    }

    /// Says whether it puts the values of its variables into the words of a program that no shell reads.
    fn expands_words(&self) -> bool {
        false
    }

    /// Says whether pushes of its hooks open turns, which a valve counts.
    fn opens_turns(&self) -> bool {
        false
    }

    /// Says whether it has built-in hooks that are served, as entries in the place of a command.
    fn has_builtins(&self) -> bool {
        false
    }

    /// Says whether its entries may have a template of a push in the place of a command.
    fn has_templates(&self) -> bool {
        false
    }

    /// Returns how its users consent to commands by its own means; `None` where they cannot.
    fn own_consent(&self) -> Option<OwnConsent> {
        None
    }

    /// Says whether it has lists of the commands that run, by the agent's mode.
    fn has_lists(&self) -> bool {
        false
    }

    /// Returns how its files of hooks are read; `None` where there are none.
    fn hook_file(&self) -> Option<&'static dyn HookFile> {
        None
    }

    /// Returns the members by which an event tells its session, the one that counts first.
    fn session(&self) -> &'static [&'static str] {
        &["session_id"]
    }

    /// Returns the tree that an event says a worktree was made from.
    fn source(&self, _event: &Event) -> Option<String> {
        None
    }

    /// Returns how long context stays valid that comes at a point; `None` where the contract does not say.
    fn context_lifetime(&self, _point: &str) -> Option<Lifetime> {
        None
    }

    /// Returns how several hooks at one point are run.
    fn course(&self, _point: &str) -> Course {
        Course::InTurn
    }

    /// Returns the priority of a hook whose entry names none, where they run by priority; lower is earlier.
    fn priority(&self) -> f64 {
        0.0
    }

    /// Puts into the event of the next hook what this one rewrote.
    fn hand_on(&self, _verdict: &Verdict, _event: &mut Event, _envelope: &mut Envelope) {}

    /// Says what several hooks at one point come to; none of them is of a kind that [`Runtime::course`] leaves out.
    fn fold(&self, _point: &str, hooks: &[(&str, &Verdict)]) -> Folded {
        Folded::apart(hooks)
    }

    /// Returns session and turn of the contract's own event, as far as the event that the hook reads says them.
    fn moment(&self, _event: &Event) -> (Option<String>, Option<u64>) {
        (None, None)
    }

    /// Returns the contract's own event of a run, if it has one and something is to be told.
    fn event(&self, _end: &End<'_>) -> Option<ContractEvent> {
        None
    }

    /// Returns the contract's own event of a hook that was not run, if it has one.
    fn skipped(&self, _end: &End<'_>, _why: Skip) -> Option<ContractEvent> {
        None
    }

    /// Returns what a hook measured at a point, by the names that the contract has there.
    fn measures(&self, _point: &str, _verdict: &Verdict) -> Map<String, Value> {
        Map::new()
    }

    /// Returns the line by which the contract shows people an event of its own; `None` where it shows the object.
    fn display(&self, _event: &str, _members: &Map<String, Value>) -> Option<String> {
        None
    }
}

/// What holds of a contract in every mode.
pub(super) struct Facts {
    /// Its name.
    pub(super) contract: &'static str,
    /// The keys of a hook's entry that are understood.
    pub(super) keys: &'static [(&'static str, entry::Key)],
    /// What a hook may stop at a point that is not among `points`; `None` = there are no others.
    pub(super) other_points: Option<Stop>,
    /// How many bytes of a stream are read; `None` = all there are.
    pub(super) output_cap: Option<usize>,
    /// The points that are known.
    pub(super) points: &'static [Point],
    /// Which rules are followed.
    pub(super) version: &'static str,
}

impl Facts {
    /// Says what a hook may stop at a point; `None` where there is no such point. A contract whose list is open has none that
    /// only looks like one on it: whoever means that one waits for a guard that is never due.
    pub(super) fn stop_at(&self, point: &str) -> Option<Stop> {
        let mut points = self.points.iter();
        if let Some(known) = points.clone().find(|known| known.name == point) {
            return Some(known.stop);
        }
        let is_misspelt = points.any(|known| super::mode::is_alike(known.name, point));
        self.other_points.filter(|_| !is_misspelt)
    }
}

/// How users of a runtime consent to commands by its own means.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct OwnConsent {
    /// The variable that accepts every command where it is 1.
    pub accept: &'static str,
    /// The variable that names its list of what is allowed.
    pub allowlist: &'static str,
    /// Where that list is below the user's home, where no variable names it.
    pub usual: &'static str,
}

/// A lifecycle point.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Point {
    /// Its name in the contract's spelling.
    pub name: &'static str,
    /// What a hook may stop there.
    pub stop: Stop,
}

/// What a hook may stop.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Stop {
    /// A tool call or permission.
    Call,
    /// An agent or a task that is about to end: to stop that is to have it go on working.
    Ending,
    /// Nothing.
    Nothing,
    /// Some other operation.
    Operation,
}

impl Stop {
    /// Returns the decision that stops it; `None` where nothing can be.
    pub(crate) const fn decision(self) -> Option<Decision> {
        match self {
            Self::Call => Some(Decision::Deny),
            Self::Nothing => None,
            Self::Ending | Self::Operation => Some(Decision::Block),
        }
    }
}

/// Which entries at a point are one hook.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Equality {
    /// Those that differ in the time they have, if at all.
    ButForTime,
    /// None: each entry is a hook of its own.
    Never,
    /// Those that do not differ.
    Whole,
}

/// What matchers at a point look at.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Subject {
    /// The last component of the path that a member of the event holds.
    FileName(&'static str),
    /// A member of the event: the first of these that is there.
    Member(&'static [&'static str]),
    /// Nothing: the runtime has no matchers there, and every entry is due.
    Nothing,
    /// The tool: that of the request, that of the event, or both.
    Tool,
}

/// How several hooks at one point are run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Course {
    /// Side by side.
    AtOnce,
    /// One after another, whatever each says.
    InTurn,
    /// One after another, each reading what the one before rewrote.
    Pipeline,
    /// By ascending priority, and none after one that blocks.
    PriorityUntilBlock,
    /// One after another, and none after one that blocks.
    UntilBlock,
}

impl Course {
    /// Says whether no hook runs after one with this verdict.
    pub(crate) const fn ends_after(self, verdict: &Verdict) -> bool {
        match self {
            Self::AtOnce | Self::InTurn | Self::Pipeline => false,
            Self::PriorityUntilBlock | Self::UntilBlock => verdict.decision.stops(),
        }
    }
}

/// How long context for the model stays valid.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Lifetime {
    /// For the whole session.
    Session,
    /// For the current turn.
    Turn,
}

/// How a contract has its command run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CommandStyle {
    /// Program and arguments; a string is split into POSIX shell words, and no shell ever runs.
    Argv,
    /// A string is handed to a shell.
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

/// What a contract says where the request is silent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Defaults {
    /// How the command is run.
    pub command: CommandStyle,
    /// The profile.
    pub profile: &'static str,
    /// The wall time; `None` leaves it to the profile.
    pub timeout: Option<Duration>,
}

impl Defaults {
    /// Returns those of a contract whose commands a shell runs.
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
