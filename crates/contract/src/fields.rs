//! Parses the output of hooks whose contracts expect one JSON object.
//!
//! Only the common parts are here: which ends are read at all, and values by their type. Each contract defines its
//! fields, their meaning, and whether an unreadable one invalidates the others.

use std::{
    borrow::Cow,
    cell::{Cell, RefCell},
    collections::BTreeSet,
    str,
};

use serde_json::{Value, value::RawValue};

use hookjail_base::model::json;

use super::{
    BlockedBy, Decision, End, EndKind, Json, Skip, Stop, Verdict,
    members::{Fault, Members, boolean, is_null, text},
};

/// The words of a decision that allows or denies.
pub(super) const ALLOW_DENY: [(&str, Decision); 2] =
    [("allow", Decision::Allow), ("deny", Decision::Deny)];

/// The words of a decision that allows, denies or leaves it to the user.
pub(super) const ALLOW_ASK_DENY: [(&str, Decision); 3] = [
    ("allow", Decision::Allow),
    ("ask", Decision::Ask),
    ("deny", Decision::Deny),
];

/// The interpretable part of an end.
pub(super) enum Outcome<'a> {
    /// The hook failed, or its output is not valid text.
    Broke(Skip),
    /// Exit code 0 and blank stdout.
    Nothing,
    /// Exit code 2, with its stderr, trimmed.
    Refused(String),
    /// Exit code 0 with its stdout, trimmed, never empty.
    Text(&'a str),
}

/// Returns the interpretable part of an end.
pub(super) fn outcome<'a>(end: &End<'a>) -> Outcome<'a> {
    match failure(end) {
        Some(Skip::NonzeroExit) if end.kind == EndKind::Exited(2) => {
            return Outcome::Refused(complaint(end));
        }
        Some(skip) => return Outcome::Broke(skip),
        None => {}
    }
    match printed(end) {
        Ok("") => Outcome::Nothing,
        Ok(text) => Outcome::Text(text),
        Err(skip) => Outcome::Broke(skip),
    }
}

/// Returns why an end's output is not read; `None` for exit 0.
pub(super) fn failure(end: &End<'_>) -> Option<Skip> {
    if end.entry.allowed == Some(false) {
        return Some(Skip::ConsentRefused);
    }
    end.kind.failure()
}

/// Returns stdout, trimmed.
///
/// # Errors
///
/// Fails where stdout was truncated, as its meaning could differ from the hook's, or is not UTF-8.
pub(super) fn printed<'a>(end: &End<'a>) -> Result<&'a str, Skip> {
    if end.stdout_truncated {
        return Err(Skip::InvalidJson);
    }
    let stdout = str::from_utf8(end.stdout).map_err(|_| Skip::InvalidJson)?;
    Ok(stripped(stdout))
}

/// Removes white space and byte order marks around a text. Both are white space to JavaScript.
pub(super) fn stripped(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_whitespace() || c == '\u{feff}')
}

/// Returns stderr, trimmed.
pub(super) fn complaint(end: &End<'_>) -> String {
    stripped(&String::from_utf8_lossy(end.stderr)).to_owned()
}

/// Builds the verdict of a hook with blank output, which is no failure.
pub(super) fn silent(skip: Skip) -> Verdict {
    Verdict {
        skip: Some(skip),
        ..Verdict::default()
    }
}

/// Builds the verdict of a failed hook whose answer counts under any exit code.
///
/// Only a stop or a question is kept.
pub(super) fn broke(end: &End<'_>, skip: Skip, answer: impl FnOnce(&str) -> Verdict) -> Verdict {
    let answered = answered(end, skip, answer);
    let answered = answered.filter(|verdict| verdict.decision.restrains());
    answered.unwrap_or_else(|| Verdict::skipped(skip))
}

/// Returns the answer of a hook that failed by its end alone, if it printed one.
pub(super) fn answered(
    end: &End<'_>,
    skip: Skip,
    answer: impl FnOnce(&str) -> Verdict,
) -> Option<Verdict> {
    let is_read = matches!(skip, Skip::NonzeroExit | Skip::Signal);
    let text = is_read.then(|| printed(end).ok())??;
    text.starts_with('{').then(|| answer(text))
}

/// Builds the verdict of an end for a runtime that looks at no exit code but 2, beside which an object has the reason.
///
/// `read` is for objects of hooks that failed, `text` for what is printed with exit code 0.
pub(super) fn judged(
    end: &End<'_>,
    stop: Stop,
    read: impl Fn(&str) -> Verdict,
    text: impl FnOnce(&str) -> Verdict,
) -> Verdict {
    match outcome(end) {
        Outcome::Broke(skip) => match answered(end, skip, read) {
            Some(verdict) => used(skip, verdict),
            None => Verdict::skipped(skip),
        },
        Outcome::Nothing => silent(Skip::EmptyStdout),
        Outcome::Refused(stderr) => {
            let reason = answered(end, Skip::NonzeroExit, read).map(|verdict| verdict.reason);
            refused(stop, reason.filter(|it| !it.is_empty()).unwrap_or(stderr))
        }
        Outcome::Text(printed) => text(printed),
    }
}

/// Builds the verdict of a failed hook from its answer, as a runtime uses it that looks at no exit code: without an approval.
pub(super) fn used(skip: Skip, verdict: Verdict) -> Verdict {
    if verdict.decision.restrains() {
        return verdict;
    }
    Verdict {
        blocked_by: None,
        decision: Decision::None,
        failed: true,
        skip: Some(verdict.skip.unwrap_or(skip)),
        ..verdict
    }
}

/// Builds the verdict for exit code 2. Where nothing can be stopped it is a failure like any other.
pub(super) fn refused(stop: Stop, reason: String) -> Verdict {
    match stop.decision() {
        Some(decision) => Verdict::stopped(decision, BlockedBy::ExitCode, reason),
        None => Verdict {
            reason,
            ..Verdict::skipped(Skip::NonzeroExit)
        },
    }
}

/// Returns the warning of a decision that counts beside an unreadable field.
pub(super) fn not_valid(skip: Skip) -> String {
    format!("a field of the hook's answer is not valid: {skip}")
}

/// Reduces a verdict with an unreadable field to a stop or a question.
///
/// Any other verdict fails without its decision: an approval must not come from an answer that was only half parsed. Its rewrites and
/// texts remain, so that no call goes on as it was.
pub(super) fn settled(verdict: Verdict, faults: &Faults) -> Verdict {
    let holds = verdict.decision.restrains();
    let mut verdict = match faults.first() {
        None => verdict,
        Some(skip) if holds => {
            let mut verdict = verdict;
            verdict.warnings.push(not_valid(skip));
            verdict
        }
        Some(skip) => Verdict {
            additional_context: verdict.additional_context,
            suppress_output: verdict.suppress_output,
            system_message: verdict.system_message,
            updated_input: verdict.updated_input,
            updated_messages: verdict.updated_messages,
            updated_output: verdict.updated_output,
            warnings: verdict.warnings,
            ..Verdict::skipped(skip)
        },
    };
    if verdict.decision.stops() {
        verdict.updated_input = None;
    }
    verdict
}

/// The first unreadable field of an answer.
#[derive(Debug, Default)]
pub(super) struct Faults(Cell<Option<Skip>>);

impl Faults {
    /// Returns the first fault.
    pub(super) fn first(&self) -> Option<Skip> {
        self.0.get()
    }

    /// Records a fault, unless there is an earlier one.
    pub(super) fn note(&self, skip: Skip) {
        self.0.set(self.0.get().or(Some(skip)));
    }
}

/// The members of an object, read by type.
///
/// `null` counts as absent. Of several with one name the last counts, as in JavaScript, but the repetition is a fault:
/// such an answer is ambiguous.
pub(super) struct Fields<'a, 'f> {
    faults: &'f Faults,
    members: Members<'a>,
    /// The names that have been read.
    read: RefCell<BTreeSet<&'static str>>,
}

impl<'a, 'f> Fields<'a, 'f> {
    /// Parses a document.
    pub(super) fn parse(text: &'a str, faults: &'f Faults) -> Result<Self, Skip> {
        let fields = Self::parse_last(text, faults)?;
        if json::first_repeated_key(text).is_some() {
            faults.note(Skip::InvalidJson);
        }
        Ok(fields)
    }

    /// Parses a document for a runtime in which the last of repeated members counts, and no fault.
    ///
    /// A document that nests too deep has a fault: of its members only a stop or a question counts.
    pub(super) fn parse_last(text: &'a str, faults: &'f Faults) -> Result<Self, Skip> {
        let members = match Members::parse(text) {
            Err(Fault::TooDeep) => {
                faults.note(Skip::InvalidJson);
                Members::parse_at_any_depth(text)?
            }
            members => members?,
        };
        Ok(Self {
            faults,
            members,
            read: RefCell::default(),
        })
    }

    /// Reads `true` and `false`.
    pub(super) fn boolean(&self, name: &'static str) -> Option<bool> {
        self.typed(name, boolean)
    }

    /// Reads a text for the model, if it is not empty.
    pub(super) fn context(&self, name: &'static str) -> Vec<String> {
        let text = self.text(name).filter(|text| !text.is_empty());
        text.into_iter().collect()
    }

    /// Returns whether a member is present.
    pub(super) fn has(&self, name: &'static str) -> bool {
        self.raw(name).is_some()
    }

    /// Returns the members' names.
    pub(super) fn names(&self) -> impl Iterator<Item = Cow<'_, str>> {
        self.members.iter().map(|(name, _)| name)
    }

    /// Reads an object that is passed on verbatim.
    pub(super) fn object(&self, name: &'static str) -> Option<Json> {
        self.typed(name, |value| {
            Members::from_value(value).map(|_| Json::from_raw(value))
        })
    }

    /// Reads a string.
    pub(super) fn text(&self, name: &'static str) -> Option<String> {
        self.typed(name, text)
    }

    /// Reads the common fields beside a decision, which several runtimes share.
    pub(super) fn universal(&self) -> Verdict {
        Verdict {
            stop_reason: self.text("stopReason").unwrap_or_default(),
            suppress_output: self.boolean("suppressOutput").unwrap_or_default(),
            system_message: self.text("systemMessage").unwrap_or_default(),
            ..Verdict::default()
        }
    }

    /// Returns the members that have not been read, by name.
    ///
    /// Members that many parsers reject (half of a surrogate pair, a number beyond any type) are left out.
    pub(super) fn unread(&self) -> Vec<(String, Json)> {
        let read = self.read.borrow();
        let members = self.members.iter();
        let is_readable = |value: &RawValue| serde_json::from_str::<Value>(value.get()).is_ok();
        members
            .filter(|(name, value)| !read.contains(name.as_ref()) && !is_null(value))
            .filter(|(_, value)| is_readable(value))
            .map(|(name, value)| (name.into_owned(), Json::from_raw(value)))
            .collect()
    }

    /// Reads any value.
    pub(super) fn value(&self, name: &'static str) -> Option<Json> {
        self.raw(name).map(Json::from_raw)
    }

    /// Reads an object's members.
    pub(super) fn within(&self, name: &'static str) -> Option<Self> {
        let members = self.typed(name, Members::from_value)?;
        Some(Self {
            faults: self.faults,
            members,
            read: RefCell::default(),
        })
    }

    /// Reads a string out of a set of names.
    pub(super) fn word<T: Copy>(&self, name: &'static str, words: &[(&str, T)]) -> Option<T> {
        self.typed(name, |value| {
            let word = text(value)?;
            let (_, meant) = words.iter().find(|(known, _)| *known == word)?;
            Some(*meant)
        })
    }

    fn raw(&self, name: &'static str) -> Option<&'a RawValue> {
        self.read.borrow_mut().insert(name);
        self.members.last(name).filter(|value| !is_null(value))
    }

    fn typed<T>(&self, name: &'static str, read: impl Fn(&'a RawValue) -> Option<T>) -> Option<T> {
        let read = read(self.raw(name)?);
        if read.is_none() {
            self.faults.note(Skip::WrongType(name));
        }
        read
    }
}
