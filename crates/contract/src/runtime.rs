//! The facts of contracts and their vocabulary.

use std::{borrow::Cow, fmt, time::Duration};

use bytes::Bytes;
use serde_json::{Map, Value};

use hookjail_base::model::{Event, InvalidField};

use super::{
    ContractEvent, Decision, End, Envelope, Filter, Folded, Matcher, Skip, Verdict, adopt::Adapter,
    entry, hook_file::HookFile, settings::Lookup, stdin,
};

/// Facts of a contract in one of its modes, and functions where it takes more than a fact.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Facts {
    /// The adapter that runs a runtime's own hooks; `None` where there is none.
    pub(super) adapter: Option<&'static Adapter>,
    /// The commands by which a hook starts the agent itself, for an answer of a model's.
    pub agent_commands: &'static [&'static str],
    /// The keys of a hook's entry that are accepted and do not affect how an end is interpreted.
    pub(super) carried: &'static [&'static str],
    /// Its name.
    pub contract: &'static str,
    /// The defaults at points that are not in `timeouts`.
    pub(super) defaults: Defaults,
    /// Returns the display line of an event of the contract's own. `None` where the contract shows the object.
    pub(super) display: fn(&str, &Map<String, Value>) -> Option<String>,
    /// Which entries at a point count as one hook, which runs once.
    pub equality: Equality,
    /// Returns the contract's own event of a run, if it defines one for it.
    pub event: fn(&End<'_>) -> Option<ContractEvent>,
    /// Whether the runtime expands variables in the arguments of a program without a shell.
    pub expands_words: bool,
    /// Merges the verdicts of the hooks that ran at one point under its [`crate::Mode::scheduling`], each with its hook's name.
    pub(super) fold: fn(&str, &[(&str, &Verdict)]) -> Folded,
    /// Copies a hook's rewrites into the next hook's event, where the contract passes them on.
    pub hand_on: fn(&Verdict, &mut Event, &mut Envelope),
    /// Whether it has supported built-in hooks, as entries in place of a command.
    pub has_builtins: bool,
    /// Whether it has command lists by agent mode.
    pub has_lists: bool,
    /// The points with a longest timeout, to which its runtime cuts a longer one.
    pub(super) longest: &'static [(&'static str, Duration)],
    /// Interprets a process end.
    pub(super) interpret: fn(&End<'_>) -> Verdict,
    /// Whether a hook of the mode is a process. Otherwise nothing runs, and another actor's result is interpreted.
    pub is_process: bool,
    /// The keys of a hook's entry that affect how its end is interpreted, beside `allowed`, which every contract with
    /// entries has.
    pub(super) keys: &'static [(&'static str, entry::Key)],
    /// The points that end something. A hook there should outlive a client that disconnects.
    pub(super) last_points: &'static [&'static str],
    /// The points with how long context from there stays valid. At others the contract does not define it.
    pub(super) lifetimes: &'static [(&'static str, Lifetime)],
    /// Returns a hook's measurements at a point, by the contract's names: numbers and short words.
    pub measures: fn(&str, &Verdict) -> Map<String, Value>,
    /// The members of stdin beside the point and the event's own, and the points at which they are there; none = at
    /// every point. Of several under one name the first that is there counts.
    pub(super) members: &'static [stdin::Added],
    /// The names of the mode, the recorded one first. Empty = it need not be named.
    pub(super) modes: &'static [&'static str],
    /// Returns session and turn for the contract's own event, as far as an event has them.
    pub(super) moment: fn(&Event) -> (Option<String>, Option<u64>),
    /// Whether pushes of its hooks open turns, which a valve counts.
    pub opens_turns: bool,
    /// Other names of tools in matchers, which the runtime accepts for them.
    pub(super) other_names: &'static [(&'static str, &'static [&'static str])],
    /// Effect of a stop at points not in `points`; `None` = there are no others.
    pub(super) other_points: Option<Stop>,
    /// The maximum length of a stream that is read, bytes; `None` = no limit.
    pub(super) output_cap: Option<usize>,
    /// How its users consent to commands by its own means; `None` where they cannot.
    pub own_consent: Option<OwnConsent>,
    /// The points at which hooks run one after another, each with the rewrites of the one before.
    pub(super) pipelines: &'static [&'static str],
    /// The member of stdin with the point.
    pub(super) point_key: &'static str,
    /// The known points.
    pub points: &'static [Point],
    /// The priority of a hook whose entry has none, where hooks run by priority; lower is earlier.
    pub(super) priority: f64,
    /// How several hooks at a point that is not in `pipelines` are scheduled.
    pub(super) scheduling: Scheduling,
    /// The members by which an event names its session, in order of precedence.
    pub(super) session: &'static [&'static str],
    /// The variables that name a file by which a hook changes its session's environment.
    pub session_files: &'static [&'static str],
    /// The points with another name in Base Coat, as (Base Coat's, the contract's).
    pub(super) shared_points: &'static [(&'static str, &'static str)],
    /// Returns the contract's own event of a skipped hook, if it defines one.
    pub skipped: fn(&End<'_>, Skip) -> Option<ContractEvent>,
    /// Converts a point from a runtime's spelling to the contract's registered name.
    pub spelled: for<'a> fn(&'a str) -> &'a str,
    /// Returns the bytes a hook reads on stdin.
    pub(super) stdin: fn(&Self, &Event, &Envelope) -> Result<Bytes, InvalidField>,
    /// Returns the subject of matchers at a point.
    pub(super) subject: fn(&str) -> Subject,
    /// The runtime's environment variables that affect its hooks.
    pub(super) switches: &'static [&'static str],
    /// The mode that reads what the push template of an entry renders to; `None` = entries have none.
    pub(super) template_mode: Option<&'static str>,
    /// The points with a default timeout of their own.
    pub(super) timeouts: &'static [(&'static str, Duration)],
    /// The version of the rules that are followed.
    pub version: &'static str,
    /// The points at which a hook that confinement broke is a warning to the user and no stop, unless its failure stops anyway.
    pub(super) warned_points: &'static [&'static str],
    /// The point at which a worktree is made, and the member of its event with the directory tree that is its source.
    pub(super) worktree: Option<(&'static str, &'static str)>,
}

/// How a contract's settings are read, and its entries selected. Apart from [`Facts`]: a program that runs one hook links none of it.
#[derive(Debug)]
pub struct Rules {
    /// Returns a line of settings as the runtime reads it, by its environment.
    pub(super) as_read: for<'a> fn(&'a str, Lookup<'_>) -> Cow<'a, str>,
    /// Parses the rule of an entry beside its matcher; `None` without such rules, or for an invalid text.
    pub filter: fn(&str) -> Option<Filter>,
    /// The parser of its hook files; `None` where there are none.
    pub(super) hook_file: Option<&'static HookFile>,
    /// Parses a matcher, not empty, for a subject. `None` where entries have none.
    pub(super) matcher: Option<ReadMatcher>,
    /// Returns the parser of a runtime's settings by its name, where that is another than its contract's.
    pub(super) of_runtime: fn(&str) -> Option<&'static HookFile>,
}

impl Rules {
    /// The defaults of all members.
    pub(super) const NONE: Self = Self {
        as_read: |line, _| line.into(),
        filter: |_| None,
        hook_file: None,
        matcher: None,
        of_runtime: |_| None,
    };
}

/// Parser of a matcher for a subject.
type ReadMatcher = fn(Subject, &str) -> Result<Matcher, InvalidField>;

impl Facts {
    /// Builds facts from a contract's name, the version of its rules and what an end means, with the defaults of all
    /// other members.
    pub(super) const fn new(
        contract: &'static str,
        version: &'static str,
        interpret: fn(&End<'_>) -> Verdict,
    ) -> Self {
        Self {
            adapter: None,
            agent_commands: &[],
            carried: &[],
            contract,
            defaults: Defaults::argv(None),
            display: |_, _| None,
            equality: Equality::Never,
            event: |_| None,
            expands_words: false,
            fold: |_, hooks| Folded::apart(hooks),
            hand_on: |_, _, _| {},
            has_builtins: false,
            has_lists: false,
            interpret,
            is_process: true,
            keys: &[],
            last_points: &[],
            lifetimes: &[],
            longest: &[],
            measures: |_, _| Map::new(),
            members: &[],
            modes: &["", "command"],
            moment: |_| (None, None),
            opens_turns: false,
            other_names: &[],
            other_points: None,
            output_cap: None,
            own_consent: None,
            pipelines: &[],
            point_key: "hook_event_name",
            points: &[],
            priority: 0.0,
            scheduling: Scheduling::InTurn,
            session: &["session_id"],
            session_files: &[],
            shared_points: &[],
            skipped: |_, _| None,
            spelled: |point| point,
            stdin: stdin::usual,
            subject: |_| Subject::Tool,
            switches: &[],
            template_mode: None,
            timeouts: &[],
            version,
            warned_points: &[],
            worktree: None,
        }
    }

    /// Returns what a hook may stop at a point; nothing where it is unknown.
    pub(super) fn stop_of(&self, point: &str) -> Stop {
        self.stop_at(point).unwrap_or(Stop::Nothing)
    }

    /// Returns whether a point is listed.
    pub(super) fn has_point(&self, point: &str) -> bool {
        self.points.iter().any(|known| known.name == point)
    }

    /// Returns a listed point by its name in any case. An equal name has precedence.
    fn listed(&self, point: &str) -> Option<&'static Point> {
        let mut points = self.points.iter();
        let equal = points.clone().find(|known| known.name == point);
        equal.or_else(|| points.find(|known| known.name.eq_ignore_ascii_case(point)))
    }

    /// Converts a point from a runtime's spelling, and any case, to the contract's registered name.
    pub(super) fn named<'a>(&self, point: &'a str) -> &'a str {
        let listed = self.listed(point);
        listed.map_or_else(|| (self.spelled)(point), |known| known.name)
    }

    /// Returns what a hook may stop at a point; `None` if unknown.
    ///
    /// An open list of points accepts no name that differs from a listed one in its word separators: a guard there
    /// would never be due.
    pub(super) fn stop_at(&self, point: &str) -> Option<Stop> {
        let listed = self.listed(point).map(|known| known.stop);
        listed.or_else(|| self.other_points.filter(|_| !self.is_misspelt(point)))
    }

    /// Returns whether a point differs from a listed one in its word separators.
    pub(super) fn is_misspelt(&self, point: &str) -> bool {
        let mut points = self.points.iter();
        points.any(|known| super::mode::is_alike(known.name, point))
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

/// Returns the value of a name in a table.
pub(super) fn named<T: Copy>(table: &[(&str, T)], name: &str) -> Option<T> {
    let found = table.iter().find(|(known, _)| *known == name);
    found.map(|(_, value)| *value)
}

/// Returns a point with what a hook may stop there.
pub(super) const fn point(name: &'static str, stop: Stop) -> Point {
    Point { name, stop }
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
    /// One after another, regardless of the verdicts.
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
    /// Returns the defaults of a contract whose commands no shell runs.
    pub(super) const fn argv(timeout: Option<Duration>) -> Self {
        Self {
            command: CommandStyle::Argv,
            profile: "strict",
            timeout,
        }
    }

    /// Returns the defaults of a contract whose commands a shell runs.
    pub(super) const fn shell(
        program: &'static str,
        option: &'static str,
        timeout: Option<Duration>,
    ) -> Self {
        Self {
            command: CommandStyle::Shell { program, option },
            profile: "workspace-ro",
            timeout,
        }
    }
}
