//! Public interface of a contract in one of its modes.

use std::{collections::BTreeSet, ffi::OsString, path::PathBuf};

use bytes::Bytes;
use serde_json::{Map, Value};

use hookjail_base::{
    model::{Event, InvalidField, OnFailure, check_name},
    util::nearest::did_you_mean,
};

use super::{
    BlockedBy, ContractEvent, Decision, Defaults, End, Entry, Envelope, Folded, Lifetime, Members,
    Mode, Scheduling, Skip, Stop, Verdict, adopt, entry,
    fields::failure,
    hindered::{self, Hindrance},
    is_spelled,
    runtime::named,
    shlex, text,
};

impl Mode {
    /// Parses a contract's name and the name of one of its modes.
    ///
    /// Most contracts have only the mode `command`, which may be left out. A reyn entry has exactly one scheme, so its
    /// mode must be named; the scheme names of later releases are accepted.
    pub fn parse(contract: &str, mode: &str) -> Result<Self, InvalidField> {
        let of_contract = || {
            Self::ALL
                .into_iter()
                .filter(|m| is_spelled(m.facts().contract, contract))
        };
        if let Some(found) = of_contract().find(|m| m.facts().modes.contains(&mode)) {
            return Ok(found);
        }
        let modes: Vec<_> = of_contract()
            .map(|m| m.facts().modes[0])
            .map(|name| if name.is_empty() { "command" } else { name })
            .collect();
        if !modes.is_empty() {
            let meant = did_you_mean(mode, modes.iter().copied());
            let modes: Vec<_> = modes.iter().map(|name| format!("`{name}`")).collect();
            let modes = modes.join(" or ");
            let problem = format!("must be {modes} under `{contract}`{meant}");
            return Err(InvalidField::new("mode", problem));
        }
        let mut names: Vec<_> = Self::ALL.map(|mode| mode.facts().contract).into();
        names.dedup();
        let meant = did_you_mean(contract, names.iter().copied());
        let names = names.join(", ");
        let problem = format!("`{contract}` is unknown{meant}; use one of {names}");
        Err(InvalidField::new("contract", problem))
    }

    /// Returns a contract's first mode by the contract's name.
    pub fn any_of(contract: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|mode| mode.facts().contract == contract)
    }

    /// Returns the mode's name in the supported generation of the contract; empty if the contract has no modes.
    pub fn mode_name(self) -> &'static str {
        self.facts().modes[0]
    }

    /// Converts a point from a runtime's spelling, and any case, to the contract's registered name.
    pub fn spelled(self, point: &str) -> &str {
        self.facts().named(point)
    }

    /// Returns the first mode that follows the rules of a version.
    pub fn of_version(version: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|mode| mode.facts().version == version)
    }

    /// Returns the mode that reads what an entry's push template renders to; `None` where entries have none in place of a command.
    pub fn of_templates(self) -> Option<Self> {
        let mode = self.facts().template_mode?;
        Self::parse(self.facts().contract, mode).ok()
    }

    /// Returns the contracts with any mode that satisfies a predicate.
    pub fn contracts(holds: impl Fn(Self) -> bool) -> Vec<&'static str> {
        let modes = Self::ALL.into_iter().filter(|mode| holds(*mode));
        let mut names: Vec<_> = modes.map(|mode| mode.facts().contract).collect();
        names.dedup();
        names
    }

    /// Returns the defaults at a point.
    pub fn defaults(self, point: &str) -> Defaults {
        let facts = self.facts();
        Defaults {
            timeout: named(facts.timeouts, point).or(facts.defaults.timeout),
            ..facts.defaults
        }
    }

    /// Returns how long context from a point stays valid. `None` where the contract does not define it.
    pub fn context_lifetime(self, point: &str) -> Option<Lifetime> {
        named(self.facts().lifetimes, point)
    }

    /// Returns the session that an event names, if a request could name it.
    pub fn session(self, event: &Event) -> Option<String> {
        let members = Members::of_event(&event.json).ok()?;
        let mut session = self.facts().session.iter();
        let session = session.find_map(|name| members.last(name).and_then(text));
        session.filter(|session| check_name("session_id", session).is_ok())
    }

    /// Returns the directory tree that an event names as the source of a worktree.
    pub fn source(self, event: &Event) -> Option<String> {
        let (_, member) = self
            .facts()
            .worktree
            .filter(|(point, _)| *point == event.point)?;
        let members = Members::of_event(&event.json).ok()?;
        members.last(member).and_then(text)
    }

    /// Returns the names of directories of a project in which its runtimes keep what they obey.
    pub fn directories(self) -> BTreeSet<&'static str> {
        let all = adopt::Adopted::all().into_iter();
        let runtimes = all.filter(|runtime| runtime.mode == self);
        runtimes.flat_map(adopt::Adopted::directories).collect()
    }

    /// Returns the paths of the transcripts that an event names: the session's, and a subagent's.
    pub fn transcripts(self, event: &Event) -> Vec<PathBuf> {
        const NAMES: [&str; 3] = ["agent_transcript_path", "transcriptPath", "transcript_path"];
        let Ok(members) = Members::of_event(&event.json) else {
            return Vec::new();
        };
        let named = NAMES.iter().filter_map(|name| members.last(name));
        named.filter_map(text).map(PathBuf::from).collect()
    }

    /// Returns what a hook may stop at a point.
    ///
    /// # Errors
    ///
    /// Refuses an unknown point of a contract with a closed list.
    pub fn stop_at(self, point: &str) -> Result<Stop, InvalidField> {
        let facts = self.facts();
        facts.stop_at(point).ok_or_else(|| {
            let names: Vec<_> = facts.points.iter().map(|known| known.name).collect();
            let alike = names.iter().find(|known| is_alike(known, point));
            let meant = did_you_mean(alike.unwrap_or(&point), names.iter().copied());
            let (contract, names) = (facts.contract, names.join(", "));
            let problem = format!("`{point}` is unknown to `{contract}`{meant}: {names}");
            InvalidField::new("event.point", problem)
        })
    }

    /// Checks that an event's point is one of the contract's.
    ///
    /// A runtime hands its own events on as they are, and newer versions of it have more points: a raw event may have any.
    ///
    /// # Errors
    ///
    /// Refuses an unknown point of a contract with a closed list, and a misspelt one.
    pub fn check_point(self, event: &Event) -> Result<(), InvalidField> {
        let point = &event.point;
        let is_newer = event.raw && !point.is_empty() && !self.facts().is_misspelt(point);
        match self.stop_at(point) {
            Err(problem) if !is_newer => Err(problem),
            Err(_) | Ok(_) => Ok(()),
        }
    }

    /// Parses the fields of a hook's entry that affect how its end is interpreted.
    ///
    /// # Errors
    ///
    /// Refuses a key or value that the contract's entries cannot have.
    pub fn entry(self, config: &Map<String, Value>) -> Result<Entry, InvalidField> {
        entry::parse(self.facts(), config)
    }

    /// Returns the bytes a hook reads on stdin.
    ///
    /// # Errors
    ///
    /// Refuses an event that the contract cannot have at the point.
    pub fn stdin(self, event: &Event, envelope: &Envelope) -> Result<Bytes, InvalidField> {
        if event.raw {
            return Ok(event.json.clone());
        }
        (self.facts().stdin)(self.facts(), event, envelope)
    }

    /// Returns the session and the turn for the contract's own event. The event's have precedence over those in `known`.
    pub fn moment(self, event: &Event, known: Moment) -> Moment {
        let (session, turn) = (self.facts().moment)(event);
        Moment {
            session: session.unwrap_or(known.session),
            turn: turn.or(known.turn),
        }
    }

    /// Splits a command line into program and arguments. No shell is involved: redirections, globs and variables are words
    /// like any other.
    pub fn split(self, text: &str) -> Result<Vec<OsString>, InvalidField> {
        shlex::split(text)
    }

    /// Interprets an end, under a failure policy that may be stricter than the contract's.
    pub fn judge(self, end: &End<'_>, on_failure: OnFailure) -> Verdict {
        let verdict = self.judge_deciding(end, on_failure);
        if end.entry.advisory {
            verdict.advised()
        } else {
            verdict
        }
    }

    fn judge_deciding(self, end: &End<'_>, on_failure: OnFailure) -> Verdict {
        // A background hook ends too late to stop anything, and nothing of it is read.
        if end.entry.background {
            return Verdict::skipped(failure(end).unwrap_or(Skip::OutputIgnored));
        }
        let verdict = self.read(end);
        let stop = self.stop_at(end.point).unwrap_or(Stop::Operation);
        let warned = self.facts().warned_points;
        let hindrance = if warned.contains(&end.point) {
            Hindrance::Warns
        } else {
            Hindrance::Stops
        };
        let verdict = hindered::weighed(verdict, stop, hindrance, end);
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

    /// Interprets an end by the contract's rules.
    ///
    /// Runtimes replace bytes that are not UTF-8. So text with such bytes is text, and an answer that stops or asks counts despite them.
    fn read(self, end: &End<'_>) -> Verdict {
        let verdict = (self.facts().interpret)(end);
        if verdict.decision.restrains() || str::from_utf8(end.stdout).is_ok() {
            return verdict;
        }
        let replaced = String::from_utf8_lossy(end.stdout);
        let read = (self.facts().interpret)(&End {
            stdout: replaced.as_bytes(),
            ..*end
        });
        let is_answer = matches!(end.stdout.trim_ascii_start().first(), Some(b'"' | b'{'));
        // Nor is it an approval.
        let is_text = verdict.skip == Some(Skip::InvalidJson)
            && read.decision == Decision::None
            && !is_answer
            && !end.stdout_truncated;
        if read.decision.restrains() || is_text {
            read
        } else {
            verdict
        }
    }

    /// Interprets an end as [`Mode::judge`], within a limit of bytes of text.
    ///
    /// Output that is only passed on is left out, with a warning. Where that is not enough, the hook is judged as one
    /// whose output is truncated, which it is for the caller.
    pub fn judge_within(self, bytes: usize, end: &End<'_>, on_failure: OnFailure) -> Verdict {
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
        let warning =
            "the hook printed more than a reply to this caller may hold, so it was left out";
        verdict.warnings.push(warning.to_owned());
        verdict
    }

    /// Returns how several hooks at one point are scheduled.
    pub fn scheduling(self, point: &str) -> Scheduling {
        let facts = self.facts();
        match facts.pipelines.contains(&point) {
            true => Scheduling::Pipeline,
            false => facts.scheduling,
        }
    }

    /// Sorts hooks from registration order into running order.
    pub fn order<T>(self, point: &str, hooks: &mut [T], priority: impl Fn(&T) -> Option<f64>) {
        if self.scheduling(point) == Scheduling::PriorityUntilBlock {
            let usual = self.facts().priority;
            let place = |hook: &T| priority(hook).unwrap_or(usual);
            hooks.sort_by(|one, other| place(one).total_cmp(&place(other)));
        }
    }

    /// Truncates a hook's output at the contract's limit.
    pub fn cap(self, end: &mut End<'_>) {
        let cap = self.facts().output_cap.unwrap_or(usize::MAX);
        if let Some(head) = end.stdout.get(..cap)
            && head.len() < end.stdout.len()
        {
            end.stdout = head;
            end.stdout_truncated = true;
        }
    }

    /// Merges the verdicts of several hooks at one point, each with its hook's name.
    pub fn fold(self, point: &str, hooks: &[(&str, &Verdict)]) -> Folded {
        (self.facts().fold)(point, hooks)
    }

    /// Returns the contract's own event of a run, if it defines one for it.
    pub fn event(self, end: &End<'_>) -> Option<ContractEvent> {
        (self.facts().event)(end)
    }
}

/// Session and turn of a contract's own event.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Moment {
    /// The session; may be empty.
    pub session: String,
    /// The turn's number.
    pub turn: Option<u64>,
}

/// Returns the display line of an event of a contract's own. `None` where the contract shows the object.
pub fn display(event: &str, members: &Map<String, Value>) -> Option<String> {
    let shown = |mode: Mode| (mode.facts().display)(event, members);
    Mode::ALL.into_iter().find_map(shown)
}

/// Returns whether two names of points are equal but for case and word separators.
///
/// Another runtime's name of the same point counts as equal.
pub(super) fn is_alike(known: &str, point: &str) -> bool {
    let letters = |name: &str| {
        let letters = name.chars().filter(|c| c.is_alphanumeric());
        letters.flat_map(char::to_lowercase).collect::<String>()
    };
    letters(known) == letters(point)
        || letters(adopt::base_coats(known)) == letters(adopt::base_coats(point))
}

/// Removes a failure's block from a verdict.
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

/// Blocks on a failure that decided nothing. `error` is why a hook could not be started, if known.
pub(super) fn tighten(verdict: Verdict, decision: Decision, error: &str) -> Verdict {
    // A failure without a skip reason is one of the hook's output.
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
