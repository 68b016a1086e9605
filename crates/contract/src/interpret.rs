//! Interprets process ends observed by another runner, and merges their verdicts.

use serde::{Serialize, Serializer, ser::SerializeStruct};

use hookjail_base::model::{InvalidField, OnFailure};

use super::{ContractEvent, EndKind, ExternalEnd, Mode, Push, Verdict};

/// Verdicts of process ends, one by one and merged.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// The contract's own events, in order.
    pub events: Vec<ContractEvent>,
    /// The merged verdict.
    pub folded: Folded,
    /// Messages to deliver, in order.
    pub pushes: Vec<Push>,
    /// Names of the hooks that ran.
    pub ran: Vec<String>,
    /// The verdict of each end that the contract would have read, in running order.
    pub verdicts: Vec<Verdict>,
}

/// The merged result of several hooks at one point.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Folded {
    /// The answer to the caller.
    pub answer: Verdict,
    /// The hook that blocked; empty if none did.
    pub blocked_by_hook: String,
    /// Texts of hooks that go with the answer, in order.
    pub messages: Vec<String>,
    /// Texts to pass to the model later, in order.
    pub reminders: Vec<Reminder>,
}

/// A text to pass to the model later.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reminder {
    /// The hook it comes from.
    pub hook_name: String,
    /// Its kind.
    pub kind: ReminderKind,
    /// The text.
    pub text: String,
}

/// Kind of a reminder.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ReminderKind {
    /// The reason of a block.
    Blocked,
    /// A context text.
    Context,
    /// Output of a hook that allowed the operation.
    Success,
}

impl ReminderKind {
    /// Returns its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Blocked => "blocked",
            Self::Context => "context",
            Self::Success => "success",
        }
    }
}

// The form of an answer line of `hookjail interpret`.
impl Serialize for Reading {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Answer<'a> {
            #[serde(flatten)]
            answer: &'a Verdict,
            #[serde(skip_serializing_if = "str::is_empty")]
            blocked_by_hook: &'a str,
            messages: &'a [String],
            pushes: &'a [Push],
            ran: &'a [String],
            reminders: &'a [Reminder],
        }

        let mut reading = serializer.serialize_struct("Reading", 3)?;
        reading.serialize_field("verdicts", &self.verdicts)?;
        let answer = Answer {
            answer: &self.folded.answer,
            blocked_by_hook: &self.folded.blocked_by_hook,
            messages: &self.folded.messages,
            pushes: &self.pushes,
            ran: &self.ran,
            reminders: &self.folded.reminders,
        };
        reading.serialize_field("answer", &answer)?;
        reading.serialize_field("events", &self.events)?;
        reading.end()
    }
}

impl Folded {
    /// Returns hooks' verdicts unmerged; the answer is whether all succeeded.
    pub(super) fn apart(hooks: &[(&str, &Verdict)]) -> Self {
        let verdicts = || hooks.iter().map(|(_, verdict)| verdict);
        let answer = Verdict {
            failed: verdicts().any(|verdict| verdict.failed),
            warnings: verdicts()
                .flat_map(|verdict| verdict.warnings.clone())
                .collect(),
            ..Verdict::default()
        };
        Self {
            answer,
            ..Self::default()
        }
    }
}

/// Interprets ends at a lifecycle point, in the order in which their hooks are registered.
///
/// # Errors
///
/// The contract has no such point, or an entry has a key that is unknown to the contract.
pub fn read(mode: Mode, point: &str, ends: &[ExternalEnd]) -> Result<Reading, InvalidField> {
    mode.stop_at(point)?;
    let point = mode.spelled(point);
    let scheduling = mode.scheduling(point);
    let mut due = Vec::with_capacity(ends.len());
    for (index, end) in ends.iter().enumerate() {
        let entry = mode.entry(&end.config).map_err(|error| {
            let field = format!("ends[{index}].{}", error.field);
            InvalidField::new(field, error.problem)
        })?;
        let equality = mode.facts().equality;
        let mut before = ends[..index].iter();
        let is_repeated = before.any(|other| other.is_same_hook(end, equality));
        if !is_repeated {
            due.push(end.end_at(point, entry));
        }
    }
    mode.order(point, &mut due, |end| end.entry.priority);

    let mut ran = Vec::new();
    let mut read = Vec::new();
    let mut events = Vec::new();
    for mut end in due {
        mode.cap(&mut end);
        if end.kind != EndKind::ExecFailed && end.entry.allowed != Some(false) {
            ran.push(end.name.to_owned());
        }
        let verdict = mode.judge(&end, OnFailure::Contract);
        events.extend(mode.event(&end));
        let is_last = scheduling.ends_after(&verdict);
        read.push((end.name, verdict));
        if is_last {
            break;
        }
    }
    let hooks: Vec<_> = read
        .iter()
        .map(|(name, verdict)| (*name, verdict))
        .collect();
    let folded = mode.fold(point, &hooks);
    let verdicts: Vec<_> = read.into_iter().map(|(_, verdict)| verdict).collect();
    let pushes = verdicts.iter().filter_map(|verdict| verdict.push.clone());
    Ok(Reading {
        events,
        folded,
        pushes: pushes.collect(),
        ran,
        verdicts,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;
    use crate::ReportedKind;

    fn exited(code: i32, stdout: &str) -> ExternalEnd {
        ExternalEnd {
            command: "notify".to_owned(),
            config: Map::new(),
            duration: None,
            error: String::new(),
            kind: EndKind::Exited(code),
            name: format!("hook {code}"),
            stderr: Vec::new(),
            stdout: stdout.into(),
            stdout_truncated: false,
            turn: None,
        }
    }

    #[test]
    fn what_a_runner_tells_is_one_end() {
        let unreported = ReportedKind::default();
        let exit = Some(0);
        let exited = ReportedKind {
            exit_code: exit,
            ..unreported
        };
        let late = ReportedKind {
            timed_out: true,
            ..unreported
        };
        for (reported, kind) in [
            (exited, Some(EndKind::Exited(0))),
            (
                ReportedKind {
                    signal: Some(9),
                    ..unreported
                },
                Some(EndKind::Signaled(9)),
            ),
            (late, Some(EndKind::TimedOut)),
            (
                ReportedKind {
                    signal: Some(9),
                    ..late
                },
                Some(EndKind::TimedOut),
            ),
            (
                ReportedKind {
                    exit_code: Some(143),
                    ..late
                },
                Some(EndKind::TimedOut),
            ),
            (
                ReportedKind {
                    spawn_error: Some("ENOENT"),
                    ..unreported
                },
                Some(EndKind::ExecFailed),
            ),
            (unreported, None),
            (
                ReportedKind {
                    signal: Some(0),
                    ..unreported
                },
                None,
            ),
            (
                ReportedKind {
                    signal: Some(9),
                    ..exited
                },
                None,
            ),
            (
                ReportedKind {
                    spawn_error: Some(""),
                    ..exited
                },
                None,
            ),
        ] {
            assert_eq!(reported.kind().ok(), kind, "{reported:?}");
        }
    }

    #[test]
    fn hooks_that_are_not_merged_are_told_together() {
        let push = r#"{"wake": true, "message": "m", "push_when": true}"#;
        let ends = [exited(0, push), exited(1, push), exited(0, push)];

        let reading = read(Mode::ReynPush, "turn_end", &ends).unwrap();

        assert_eq!(reading.verdicts.len(), 3);
        assert_eq!(reading.pushes.len(), 2);
        assert_eq!(reading.ran, ["hook 0", "hook 1", "hook 0"]);
        assert_eq!(reading.events.len(), 3);
        let answer = Verdict {
            failed: true,
            ..Verdict::default()
        };
        assert_eq!(reading.folded.answer, answer);
    }

    #[test]
    fn a_contracts_own_cap_holds_for_given_ends() {
        let directive = r#"{"wake": true, "message": "m", "push_when": true}"#;
        let long = format!("{directive}{}", " ".repeat(10 * 1024 * 1024));
        let reading = read(Mode::ReynPush, "turn_end", &[exited(0, &long)]).unwrap();
        assert_eq!(reading.pushes, []);
    }

    #[test]
    fn a_point_or_key_that_is_none_is_named() {
        let error = read(Mode::Loom, "tool.during", &[]).unwrap_err();
        assert_eq!(error.field, "event.point");
        let mut end = exited(0, "");
        end.config.insert("timeout".to_owned(), 3.into());
        let error = read(Mode::Loom, "tool.pre", &[end]).unwrap_err();
        assert_eq!(error.field, "ends[0].config.timeout");
    }
}
