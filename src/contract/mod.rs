//! How each system's hooks speak: the stdin shape, and what an end means. Pure functions over data.
//!
//! A contract knows neither the kernel nor the wire. What it is given is an [`End`]; what it makes is a [`Verdict`]. There is
//! a module for each, which implements `Rules`; how strictly it reads what a hook printed is its own business.

use std::{ffi::OsString, fmt, time::Duration};

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::model::{Event, InvalidField, OnFailure, check_name, members};

mod basecoat;
mod claude_code;
mod codex;
mod copilot;
mod cursor;
mod docker_agent;
mod end;
mod entry;
mod envelope;
mod fields;
mod gemini_cli;
mod given;
mod hindered;
mod infer;
mod loom;
mod merge;
pub mod native;
mod observe;
mod patch;
mod reading;
mod report;
mod reyn;
pub mod settings;
mod stdin;
mod verdict;
mod words;

pub use self::{
    end::{End, EndKind},
    entry::{AgentMode, Entry, OnError},
    envelope::{Budget, Envelope, Tool},
    given::{GivenEnd, Told},
    hindered::Bearing,
    infer::gate as infer_gate,
    reading::{Folded, Reading, Reminder, ReminderKind, read},
    report::Report,
    verdict::{BlockedBy, ContractEvent, Decision, Json, Push, Skip, Verdict},
};

pub(crate) use self::{hindered::may_be_why, report::plain};
pub(crate) use crate::model::members::{Members, text};

/// Says whether a lifecycle point ends something, so that a hook there should outlive a client that goes away.
pub fn ends_something(point: &str) -> bool {
    matches!(
        point,
        "SessionEnd" | "post_session" | "session.end" | "sessionEnd" | "session_end" | "turn_end"
    )
}

/// Says whether a runtime or contract is meant by how somebody spelled it: hyphens and underscores make no difference, because the
/// names of one kind have these and those of the other kind those.
pub fn is_spelled(name: &str, given: &str) -> bool {
    let letters = |text: &str| text.replace(['-', '_'], "");
    letters(name) == letters(given)
}

/// When a contract's own event happened.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Moment {
    /// The session; may be empty.
    pub(crate) session: String,
    /// The turn's number.
    pub(crate) turn: Option<u64>,
}

/// A contract together with the mode it is used in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Mode {
    /// Base Coat lifecycle hooks.
    Basecoat,
    /// docker-agent hooks that are commands.
    DockerAgent,
    /// docker-agent hooks that are a model's judgement: what is read is its reply.
    DockerAgentModel,
    /// infer command hooks.
    Infer,
    /// Claude Code command hooks.
    ClaudeCode,
    /// OpenAI Codex command hooks.
    Codex,
    /// GitHub Copilot hooks.
    Copilot,
    /// Cursor hooks.
    Cursor,
    /// Gemini CLI hooks.
    GeminiCli,
    /// Loom engine hooks.
    Loom,
    /// No rules: the event verbatim, the decision always NONE, anything but exit 0 has failed.
    Observe,
    /// reyn `shell_exec` (also `exec`): run for its side effect, the output is never read.
    ReynExec,
    /// reyn `shell_push` (also `exec_capture`, `command`): stdout is a push directive.
    ReynPush,
}

/// What holds of a contract in every mode.
struct Facts {
    /// Its name.
    contract: &'static str,
    /// The keys of a hook's entry that are understood.
    keys: &'static [(&'static str, entry::Key)],
    /// What a hook may stop at a point that is not among `points`; `None` = there are no others.
    other_points: Option<Stop>,
    /// How many bytes of a stream are read; `None` = all there are.
    output_cap: Option<usize>,
    /// The points that are known.
    points: &'static [Point],
    /// Which rules are followed.
    version: &'static str,
}

impl Facts {
    /// Says what a hook may stop at a point; `None` where there is no such point. A contract whose list is open has none that
    /// only looks like one on it: whoever means that one waits for a guard that is never due.
    fn stop_at(&self, point: &str) -> Option<Stop> {
        let mut points = self.points.iter();
        if let Some(known) = points.clone().find(|known| known.name == point) {
            return Some(known.stop);
        }
        let is_misspelt = points.any(|known| is_alike(known.name, point));
        self.other_points.filter(|_| !is_misspelt)
    }
}

/// The rules of a contract in one of its modes.
trait Rules: Sync {
    /// Returns what holds of the contract in every mode.
    fn facts(&self) -> &'static Facts;

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

    /// Puts into the event of the next hook what this one rewrote.
    fn hand_on(&self, _verdict: &Verdict, _event: &mut Event, _envelope: &mut Envelope) {}

    /// Says what several hooks at one point come to; none of them is of a kind that [`Rules::course`] leaves out.
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

impl Mode {
    /// Every contract in every mode.
    pub const ALL: [Self; 13] = [
        Self::Basecoat,
        Self::ClaudeCode,
        Self::Codex,
        Self::Copilot,
        Self::Cursor,
        Self::DockerAgent,
        Self::DockerAgentModel,
        Self::GeminiCli,
        Self::Infer,
        Self::Loom,
        Self::Observe,
        Self::ReynExec,
        Self::ReynPush,
    ];

    fn rules(self) -> &'static dyn Rules {
        match self {
            Self::Basecoat => &basecoat::Basecoat,
            Self::DockerAgent => &docker_agent::DockerAgent::Command,
            Self::DockerAgentModel => &docker_agent::DockerAgent::Model,
            Self::Infer => &infer::Infer,
            Self::ClaudeCode => &claude_code::ClaudeCode,
            Self::Codex => &codex::Codex,
            Self::Copilot => &copilot::Copilot,
            Self::Cursor => &cursor::Cursor,
            Self::GeminiCli => &gemini_cli::GeminiCli,
            Self::Loom => &loom::Loom,
            Self::Observe => &observe::Observe,
            Self::ReynExec => &reyn::Reyn::Exec,
            Self::ReynPush => &reyn::Reyn::Push,
        }
    }

    /// Parses a contract's name and the name of one of its modes.
    ///
    /// Most contracts have no modes but `command`, which may be left out. A reyn entry has exactly one scheme, so its mode
    /// must be named; the scheme names of later releases mean the same.
    pub fn parse(contract: &str, mode: &str) -> Result<Self, InvalidField> {
        let of_contract = || {
            Self::ALL
                .into_iter()
                .filter(|m| is_spelled(m.contract_name(), contract))
        };
        if let Some(found) = of_contract().find(|m| m.rules().modes().contains(&mode)) {
            return Ok(found);
        }
        let modes: Vec<_> = of_contract()
            .map(|m| m.rules().modes()[0])
            .map(|name| if name.is_empty() { "command" } else { name })
            .map(|name| format!("`{name}`"))
            .collect();
        if !modes.is_empty() {
            let problem = format!("must be {} under `{contract}`", modes.join(" or "));
            return Err(InvalidField::new("mode", problem));
        }
        let mut names: Vec<_> = Self::ALL.map(Self::contract_name).into();
        names.dedup();
        let problem = format!(
            "`{contract}` is none that there is: one of {}",
            names.join(", ")
        );
        Err(InvalidField::new("contract", problem))
    }

    /// Returns a contract's first mode by the contract's name.
    pub fn any_of(contract: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|mode| mode.contract_name() == contract)
    }

    /// Returns the contract's name.
    pub fn contract_name(self) -> &'static str {
        self.rules().facts().contract
    }

    /// Returns the mode's name in the generation of the contract that is followed; empty if the contract has no modes.
    pub fn mode_name(self) -> &'static str {
        self.rules().modes()[0]
    }

    /// Says whether such a hook is a process; else what somebody else did is read, and nothing is run.
    pub fn is_process(self) -> bool {
        self.rules().is_process()
    }

    /// Returns which rules are followed.
    pub fn version(self) -> &'static str {
        self.rules().facts().version
    }

    /// Returns what holds at a point where the request is silent.
    pub fn defaults(self, point: &str) -> Defaults {
        self.rules().defaults(point)
    }

    /// Returns how long context stays valid that comes at a point; `None` where the contract does not say.
    pub fn context_lifetime(self, point: &str) -> Option<Lifetime> {
        self.rules().context_lifetime(point)
    }

    /// Returns the session that an event tells of, if that is one which a request could name.
    pub fn session(self, event: &Event) -> Option<String> {
        let members = Members::of_event(&event.json).ok()?;
        let mut told = self.rules().session().iter();
        let told = told.find_map(|name| members.last(name).and_then(text));
        told.filter(|told| check_name("session_id", told).is_ok())
    }

    /// Returns the tree that an event says a worktree was made from.
    pub fn source(self, event: &Event) -> Option<String> {
        self.rules().source(event)
    }

    /// Returns the points the contract knows.
    pub fn points(self) -> &'static [Point] {
        self.rules().facts().points
    }

    /// Says what a hook may stop at a point.
    ///
    /// # Errors
    ///
    /// The contract has no such point, and no others than its own.
    pub fn stop_at(self, point: &str) -> Result<Stop, InvalidField> {
        let facts = self.rules().facts();
        facts.stop_at(point).ok_or_else(|| {
            let names: Vec<_> = facts.points.iter().map(|known| known.name).collect();
            let contract = facts.contract;
            let problem = format!("`{point}` is none of `{contract}`: {}", names.join(", "));
            InvalidField::new("event.point", problem)
        })
    }

    /// Returns what else matchers of the contract's entries may call a tool: the runtime takes these names for it.
    pub fn other_names(self, tool: &str) -> &'static [&'static str] {
        self.rules().other_names(tool)
    }

    /// Returns which entries at a point are one hook, which runs once.
    pub fn equality(self) -> Equality {
        self.rules().equality()
    }

    /// Returns what matchers at a point look at.
    pub fn subject(self, point: &str) -> Subject {
        self.rules().subject(point)
    }

    /// Reads the part of a hook's entry that bears on how its end is read.
    ///
    /// # Errors
    ///
    /// A key or value that the contract's entries cannot have.
    pub fn entry(self, config: &Map<String, Value>) -> Result<Entry, InvalidField> {
        entry::parse(self.contract_name(), self.rules().facts().keys, config)
    }

    /// Returns the bytes a hook reads on stdin.
    ///
    /// # Errors
    ///
    /// The event cannot be one of this contract and point.
    pub fn stdin(self, event: &Event, envelope: &Envelope) -> Result<Bytes, InvalidField> {
        if event.raw {
            return Ok(event.json.clone());
        }
        self.rules().stdin(event, envelope)
    }

    /// Returns the session and the turn that the contract's own event names: what the event says counts over what is known.
    pub(crate) fn moment(self, event: &Event, known: Moment) -> Moment {
        let (session, turn) = self.rules().moment(event);
        Moment {
            session: session.unwrap_or(known.session),
            turn: turn.or(known.turn),
        }
    }

    /// Splits a command line into program and arguments. No shell is involved: redirections, globs and variables are words
    /// like any other.
    pub fn split(self, text: &str) -> Result<Vec<OsString>, InvalidField> {
        words::split(text)
    }

    /// Says what an end means, under a failure policy that may be stricter than the contract's.
    pub fn judge(self, end: &End<'_>, on_failure: OnFailure) -> Verdict {
        let verdict = self.judge_deciding(end, on_failure);
        if end.entry.advisory {
            verdict.advised()
        } else {
            verdict
        }
    }

    fn judge_deciding(self, end: &End<'_>, on_failure: OnFailure) -> Verdict {
        let verdict = self.read(end);
        // What a hook in the background says comes too late to stop anything.
        if end.entry.background {
            return verdict;
        }
        let stop = self.stop_at(end.point).unwrap_or(Stop::Operation);
        let verdict = hindered::weighed(verdict, stop, end);
        if !verdict.failed {
            return verdict;
        }
        match (on_failure, end.entry.on_failure) {
            (OnFailure::Closed, _) | (_, OnFailure::Closed)
                if verdict.decision == Decision::None =>
            {
                tighten(
                    verdict,
                    stop.decision().unwrap_or(Decision::Block),
                    end.error,
                )
            }
            (OnFailure::Contract | OnFailure::Open, OnFailure::Open) if stop != Stop::Call => {
                loosen(verdict)
            }
            _ => verdict,
        }
    }

    /// Reads an end as the contract has it. Runtimes replace bytes that are no UTF-8: an answer that stops holds with them.
    fn read(self, end: &End<'_>) -> Verdict {
        let verdict = self.rules().interpret(end);
        if verdict.skip != Some(Skip::InvalidJson) || str::from_utf8(end.stdout).is_ok() {
            return verdict;
        }
        let replaced = String::from_utf8_lossy(end.stdout);
        let read = self.rules().interpret(&End {
            stdout: replaced.as_bytes(),
            ..*end
        });
        if read.decision.stops() { read } else { verdict }
    }

    /// Says what [`Mode::judge`] says in at most so many bytes of text. An output that is only passed on is left out, with a
    /// warning; where that does not help, the hook is judged as one whose output is cut, which it is for whoever asked.
    pub(crate) fn judge_within(
        self,
        bytes: usize,
        end: &End<'_>,
        on_failure: OnFailure,
    ) -> Verdict {
        let verdict = self.judge(end, on_failure);
        if verdict.text_bytes() <= bytes {
            return verdict;
        }
        let mut verdict = Verdict {
            output: None,
            ..verdict
        };
        if verdict.text_bytes() > bytes {
            let cut = End {
                stderr: &end.stderr[..end.stderr.len().min(bytes / 4)],
                stdout: b"",
                stdout_truncated: true,
                ..*end
            };
            verdict = self.judge(&cut, on_failure);
        }
        let warning = "the hook said more than a reply to this caller may hold; it was left out";
        verdict.warnings.push(warning.to_owned());
        verdict
    }

    /// Returns how several hooks at one point are run.
    pub fn course(self, point: &str) -> Course {
        self.rules().course(point)
    }

    /// Puts into the event of the next hook what this one rewrote, where the contract hands that on.
    pub(crate) fn hand_on(self, verdict: &Verdict, event: &mut Event, envelope: &mut Envelope) {
        self.rules().hand_on(verdict, event, envelope);
    }

    /// Puts hooks into the order in which they run, from the order in which they are registered.
    pub(crate) fn order<T>(
        self,
        point: &str,
        hooks: &mut [T],
        priority: impl Fn(&T) -> Option<f64>,
    ) {
        if self.course(point) == Course::PriorityUntilBlock {
            let place = |hook: &T| basecoat::place(priority(hook));
            hooks.sort_by(|one, other| place(one).total_cmp(&place(other)));
        }
    }

    /// Cuts what a hook printed where its contract stops reading.
    pub(crate) fn cap(self, end: &mut End<'_>) {
        let cap = self.rules().facts().output_cap.unwrap_or(usize::MAX);
        if let Some(head) = end.stdout.get(..cap)
            && head.len() < end.stdout.len()
        {
            end.stdout = head;
            end.stdout_truncated = true;
        }
    }

    /// Says what several hooks at one point come to, each by its name.
    pub fn fold(self, point: &str, hooks: &[(&str, &Verdict)]) -> Folded {
        self.rules().fold(point, hooks)
    }

    /// Returns the contract's own event of a run, if it has one and something is to be told.
    pub fn event(self, end: &End<'_>) -> Option<ContractEvent> {
        self.rules().event(end)
    }

    /// Returns what a hook measured at a point, by the names that the contract has there: numbers and short words.
    pub(crate) fn measures(self, point: &str, verdict: &Verdict) -> Map<String, Value> {
        self.rules().measures(point, verdict)
    }

    /// Returns the contract's own event of a hook that was not run, if it has one.
    pub(crate) fn skipped(self, end: &End<'_>, why: Skip) -> Option<ContractEvent> {
        self.rules().skipped(end, why)
    }
}

/// Returns the line by which the contract that has such an event shows it to people; `None` where it shows the object.
pub fn display(event: &str, members: &Map<String, Value>) -> Option<String> {
    let shown = |mode: Mode| mode.rules().display(event, members);
    Mode::ALL.into_iter().find_map(shown)
}

/// Says whether a point's name is another but for case and what stands between words, or another runtime's for the same.
fn is_alike(known: &str, point: &str) -> bool {
    let letters = |name: &str| {
        let letters = name.chars().filter(|c| c.is_alphanumeric());
        letters.flat_map(char::to_lowercase).collect::<String>()
    };
    letters(known) == letters(point) || known == native::base_coats(point)
}

/// Lets things go on in spite of a failure.
fn loosen(verdict: Verdict) -> Verdict {
    if !verdict.decision.stops() {
        return verdict;
    }
    let mut warnings = verdict.warnings;
    warnings.push(format!("the hook failed: {}", verdict.reason));
    Verdict {
        blocked_by: None,
        decision: Decision::None,
        reason: String::new(),
        recorded_block: false,
        warnings,
        ..verdict
    }
}

/// Blocks on a failure that decided nothing; `error` is why a hook could not be started, if that is known.
fn tighten(verdict: Verdict, decision: Decision, error: &str) -> Verdict {
    // A contract whose failure is not in the skip reason failed on what the hook said.
    let blocked_by = verdict
        .skip
        .and_then(Skip::blocked_by)
        .unwrap_or(BlockedBy::InvalidOutput);
    let why = verdict
        .skip
        .map_or_else(String::new, |skip| format!(": {skip}"));
    let reason = if !verdict.reason.is_empty() {
        verdict.reason
    } else if !error.is_empty() {
        error.to_owned()
    } else {
        format!("the hook failed{why}")
    };
    Verdict {
        blocked_by: Some(blocked_by),
        decision,
        reason,
        ..verdict
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
    const fn shell(program: &'static str, option: &'static str, timeout: Duration) -> Self {
        Self {
            command: CommandStyle::Shell { program, option },
            profile: "workspace-ro",
            timeout: Some(timeout),
        }
    }
}

#[cfg(test)]
mod table;
#[cfg(test)]
mod tests;
