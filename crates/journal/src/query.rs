//! Selects records by a filter. An end record has only its run's id, so it is selected if its start was.

use std::{borrow::Cow, collections::BTreeSet, fmt};

use jiff::Timestamp;
use serde::{
    Deserialize, Deserializer,
    de::{Error, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

use super::record::{OutcomeKind, WITHHELD};

/// A filter of records.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct RecordFilter {
    /// Only this kind of end.
    pub end: Option<RequestEnd>,
    /// Only this hook.
    pub hook: Option<String>,
    /// Only requests of this uid.
    pub peer_uid: Option<u32>,
    /// Only this profile.
    pub profile: Option<String>,
    /// Only this run.
    pub run_id: Option<String>,
    /// Only this session.
    pub session: Option<String>,
    /// Not before.
    pub since: Option<Timestamp>,
    /// Not after.
    pub until: Option<Timestamp>,
}

impl RecordFilter {
    /// Returns whether the filter uses fields of a run's start record.
    pub const fn asks_for_runs(&self) -> bool {
        self.hook.is_some()
            || self.peer_uid.is_some()
            || self.profile.is_some()
            || self.run_id.is_some()
            || self.session.is_some()
    }
}

/// The end of a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RequestEnd {
    /// Its writer died.
    Interrupted,
    /// The hook ran.
    Outcome(OutcomeKind),
    /// The hook was not run.
    Refused,
}

impl fmt::Display for RequestEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interrupted => f.write_str("interrupted"),
            Self::Outcome(outcome) => outcome.fmt(f),
            Self::Refused => f.write_str("refused"),
        }
    }
}

impl RequestEnd {
    /// Reads the name of an end, as records spell it.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "interrupted" => Some(Self::Interrupted),
            "refused" => Some(Self::Refused),
            outcome => serde_json::from_value(outcome.into())
                .ok()
                .map(Self::Outcome),
        }
    }
}

/// The fields of a record for filters and one-line output; empty where absent.
///
/// But for those of the chain, one that has another form than this version's is empty, too: no record is lost for a field of it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct RecordFields<'a> {
    /// Its sequence number.
    pub sequence: u64,
    /// The time of writing.
    #[serde(borrow)]
    pub time: Cow<'a, str>,
    /// Its kind.
    #[serde(borrow)]
    pub record: Cow<'a, str>,
    /// Its hash.
    #[serde(borrow)]
    pub hash: Cow<'a, str>,
    /// The run.
    #[serde(borrow, deserialize_with = "text")]
    pub run_id: Cow<'a, str>,
    /// The hook's name.
    #[serde(borrow, deserialize_with = "text")]
    pub hook: Cow<'a, str>,
    /// The session.
    #[serde(borrow, deserialize_with = "text")]
    pub session: Cow<'a, str>,
    /// The contract.
    #[serde(borrow, deserialize_with = "text")]
    pub contract: Cow<'a, str>,
    /// The lifecycle point.
    #[serde(borrow, deserialize_with = "text")]
    pub point: Cow<'a, str>,
    /// The profile.
    #[serde(borrow, deserialize_with = "some_text")]
    pub profile: Option<Cow<'a, str>>,
    /// The caller.
    #[serde(deserialize_with = "fitting")]
    pub peer: Option<Asker>,
    /// The command.
    #[serde(deserialize_with = "fitting")]
    pub command: Option<super::record::CommandLine>,
    /// The outcome of the run.
    #[serde(deserialize_with = "fitting")]
    pub outcome: Option<OutcomeKind>,
    /// The exit code.
    #[serde(deserialize_with = "fitting")]
    pub exit_code: Option<i32>,
    /// The signal.
    #[serde(deserialize_with = "fitting")]
    pub signal: Option<i32>,
    /// The reason of a refusal.
    #[serde(borrow, deserialize_with = "text")]
    pub reason: Cow<'a, str>,
    /// The message of a refusal.
    #[serde(borrow, deserialize_with = "text")]
    pub message: Cow<'a, str>,
    /// Whether the run was unconfined.
    #[serde(deserialize_with = "fitting")]
    pub unconfined: bool,
    /// The contract's verdict.
    #[serde(deserialize_with = "fitting")]
    pub verdict: Option<super::record::VerdictLine>,
    /// The contract's own event, of an end. A start has the event that the hook was given.
    #[serde(deserialize_with = "fitting")]
    pub event: Option<super::record::EventLine>,
    /// The number of refusals that the record stands for.
    #[serde(deserialize_with = "fitting")]
    pub count: Option<u64>,
    /// The hook's measures.
    #[serde(deserialize_with = "fitting")]
    pub measures: serde_json::Map<String, serde_json::Value>,
    /// The run's use of time and memory.
    #[serde(deserialize_with = "fitting")]
    pub usage: Option<super::record::Usage>,
    /// Denied syscalls.
    #[serde(deserialize_with = "fitting")]
    pub denied: Vec<String>,
    /// Connections to other hosts.
    #[serde(deserialize_with = "fitting")]
    pub egress: Vec<super::record::EgressLine>,
    /// The consent by which the run was admitted.
    #[serde(borrow, deserialize_with = "text")]
    pub consent: Cow<'a, str>,
    /// The evidence of the confirmation.
    #[serde(deserialize_with = "fitting")]
    pub evidence: Vec<String>,
    /// The number of lines of stderr that report a refused access.
    #[serde(deserialize_with = "fitting")]
    pub refused_lines: usize,
    /// The hook's stderr.
    #[serde(deserialize_with = "fitting")]
    pub stderr: Option<super::record::Stream>,
    /// The workspace.
    #[serde(borrow, deserialize_with = "some_text")]
    pub workspace: Option<Cow<'a, str>>,
}

/// Reads a value of any form; the default where it is another than the field's.
fn fitting<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    let written = <&RawValue>::deserialize(deserializer)?;
    Ok(serde_json::from_str(written.get()).unwrap_or_default())
}

/// Reads a text, which is empty where there is another value.
fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Cow<'de, str>, D::Error> {
    deserializer.deserialize_any(Text)
}

/// Reads a text that may be absent.
fn some_text<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Cow<'de, str>>, D::Error> {
    let text = text(deserializer)?;
    Ok(Some(text).filter(|text| !text.is_empty()))
}

/// A visitor that takes any value and keeps texts.
struct Text;

impl<'de> Visitor<'de> for Text {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Self::Value, E> {
        Ok(Cow::default())
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(text.into())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Self::Value, E> {
        Ok(Cow::default())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Self::Value, E> {
        Ok(Cow::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Cow::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Cow::default())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(text.to_owned().into())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Self::Value, E> {
        Ok(Cow::default())
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Cow::default())
    }
}

/// The caller.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
pub struct Asker {
    /// Its user id.
    pub uid: u32,
}

impl<'a> RecordFields<'a> {
    /// Reads a line; `None` if it is no record.
    pub fn read(line: &'a [u8]) -> Option<Self> {
        let fields: Self = serde_json::from_slice(line).ok()?;
        (fields.sequence > 0).then_some(fields)
    }

    /// Returns the contract's own event of a run that is over.
    pub fn contract_event(&self) -> Option<&super::record::EventLine> {
        self.event.as_ref().filter(|_| self.record == "ended")
    }

    /// Returns why the run had no workspace, if one was withheld from it.
    pub fn withheld(&self) -> Option<&str> {
        let mut evidence = self.evidence.iter();
        evidence.find_map(|it| it.strip_prefix(WITHHELD)?.strip_prefix('='))
    }

    /// Returns how the request ended, if this record has its end.
    pub fn end(&self) -> Option<RequestEnd> {
        match &*self.record {
            "ended" => self.outcome.map(RequestEnd::Outcome),
            "interrupted" => Some(RequestEnd::Interrupted),
            "refused" => Some(RequestEnd::Refused),
            _ => None,
        }
    }
}

/// A selector of records, which are passed in order.
#[derive(Debug)]
pub struct RecordMatcher {
    filter: RecordFilter,
    /// The selected runs that have started and not ended.
    runs: BTreeSet<String>,
}

impl RecordMatcher {
    /// Creates a matcher, before the first record.
    pub const fn new(filter: RecordFilter) -> Self {
        Self {
            filter,
            runs: BTreeSet::new(),
        }
    }

    /// Returns whether the next record is selected.
    pub fn takes(&mut self, fields: &RecordFields<'_>) -> bool {
        let run = self.takes_run(fields);
        let RecordFilter {
            end, since, until, ..
        } = &self.filter;
        let time = || fields.time.parse::<Timestamp>().ok();
        run && end.is_none_or(|end| fields.end() == Some(end))
            && since.is_none_or(|since| time().is_some_and(|time| time >= since))
            && until.is_none_or(|until| time().is_some_and(|time| time <= until))
    }

    fn takes_run(&mut self, fields: &RecordFields<'_>) -> bool {
        if !self.filter.asks_for_runs() {
            return true;
        }
        let known = match &*fields.record {
            "ended" | "interrupted" | "refused" => self.runs.remove(&*fields.run_id),
            _ => false,
        };
        if known {
            return true;
        }
        let RecordFilter {
            hook,
            peer_uid,
            profile,
            run_id,
            session,
            ..
        } = &self.filter;
        let same = |wanted: &Option<String>, found: &str| {
            wanted.as_ref().is_none_or(|wanted| wanted == found)
        };
        let takes = same(hook, &fields.hook)
            && same(session, &fields.session)
            && same(profile, fields.profile.as_deref().unwrap_or_default())
            && same(run_id, &fields.run_id)
            && peer_uid.is_none_or(|uid| fields.peer.is_some_and(|peer| peer.uid == uid));
        if takes && fields.record == "started" {
            // Ids begin with the time of the run, so the first is the oldest, whose end is the least likely to come.
            if self.runs.len() >= MAX_OPEN_RUNS {
                self.runs.pop_first();
            }
            self.runs.insert(fields.run_id.clone().into_owned());
        }
        takes
    }
}

/// The most runs that may be open at once and still have their ends found.
const MAX_OPEN_RUNS: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    const RECORDS: [&str; 7] = [
        r#"{"sequence":1,"time":"2026-01-01T00:00:01Z","record":"started","run_id":"a","hook":"guard","session":"s","profile":"strict","peer":{"uid":7,"pid":1}}"#,
        r#"{"sequence":2,"time":"2026-01-01T00:00:02Z","record":"started","run_id":"b","hook":"other","session":"t","profile":"network","peer":{"uid":8}}"#,
        r#"{"sequence":3,"time":"2026-01-01T00:00:03Z","record":"ended","run_id":"b","outcome":"timed_out"}"#,
        r#"{"sequence":4,"time":"2026-01-01T00:00:04Z","record":"ended","run_id":"a","outcome":"exited","exit_code":0}"#,
        r#"{"sequence":5,"time":"2026-01-01T00:00:05Z","record":"refused","run_id":"c","hook":"guard","reason":"OVERLOADED","peer":{"uid":7}}"#,
        r#"{"sequence":6,"time":"2026-01-01T00:00:06Z","record":"torn","bytes":3,"text":"x"}"#,
        r#"{"sequence":7,"time":"2026-01-01T00:00:07Z","record":"interrupted","run_id":"z","started_by":"i","started_sequence":1}"#,
    ];

    fn taken(filter: RecordFilter) -> Vec<u64> {
        let mut matcher = RecordMatcher::new(filter);
        let records = RECORDS.map(|line| RecordFields::read(line.as_bytes()).unwrap());
        let taken = records.iter().filter(|record| matcher.takes(record));
        taken.map(|record| record.sequence).collect()
    }

    fn text(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn each_filter_takes_its_records_and_with_a_run_its_end() {
        let none = RecordFilter::default;
        let time = |second: i64| Some(Timestamp::from_second(1_767_225_600 + second).unwrap());
        let end = |name| Some(RequestEnd::parse(name).unwrap());
        for (filter, expected) in [
            (none(), vec![1, 2, 3, 4, 5, 6, 7]),
            (
                RecordFilter {
                    hook: text("guard"),
                    ..none()
                },
                vec![1, 4, 5],
            ),
            (
                RecordFilter {
                    session: text("t"),
                    ..none()
                },
                vec![2, 3],
            ),
            (
                RecordFilter {
                    profile: text("strict"),
                    ..none()
                },
                vec![1, 4],
            ),
            (
                RecordFilter {
                    peer_uid: Some(7),
                    ..none()
                },
                vec![1, 4, 5],
            ),
            (
                RecordFilter {
                    run_id: text("z"),
                    ..none()
                },
                vec![7],
            ),
            (
                RecordFilter {
                    run_id: text("b"),
                    ..none()
                },
                vec![2, 3],
            ),
            (
                RecordFilter {
                    end: end("exited"),
                    ..none()
                },
                vec![4],
            ),
            (
                RecordFilter {
                    end: end("refused"),
                    ..none()
                },
                vec![5],
            ),
            (
                RecordFilter {
                    end: end("interrupted"),
                    ..none()
                },
                vec![7],
            ),
            (
                RecordFilter {
                    since: time(3),
                    until: time(5),
                    ..none()
                },
                vec![3, 4, 5],
            ),
            // Its start was before.
            (
                RecordFilter {
                    hook: text("guard"),
                    since: time(2),
                    end: end("exited"),
                    ..none()
                },
                vec![4],
            ),
            (
                RecordFilter {
                    hook: text("guard"),
                    end: end("timed_out"),
                    ..none()
                },
                vec![],
            ),
        ] {
            let shown = format!("{filter:?}");
            assert_eq!(taken(filter), expected, "{shown}");
        }
        assert_eq!(RequestEnd::parse("escape"), None);
    }

    /// A record of each kind with every member that it can have, as this version writes it.
    fn full() -> Vec<serde_json::Value> {
        let peer = serde_json::json!({"pid": 7, "remote": "r", "uid": 1000});
        let captured = serde_json::json!({"cut": true, "lossy": true, "text": "{\"a\":1}"});
        let stream = serde_json::json!({"kept": captured, "sha256": "s", "total_bytes": 3, "truncated": true});
        let command = serde_json::json!({"argv": ["/a"], "lossy": true, "whole": {"bytes": 1, "sha256": "s", "words": 1}});
        let chain = serde_json::json!({"sequence": 1, "time": "2026-01-01T00:00:01Z", "instance": "i", "previous": "p", "hash": "h"});
        let records = [
            serde_json::json!({
                "record": "started", "run_id": "a", "request_id": "q", "hook": "guard", "command": command, "program": "/a",
                "digests": [{"path": "/a", "role": "program", "sha256": "s"}], "consent": "allowlist", "answered_by": peer,
                "contract": "reyn", "mode": "m", "point": "p", "session": "s", "peer": peer, "profile": "strict",
                "profile_digest": "d", "backend": "landlock", "passed_over": [], "unconfined": true, "axes": [],
                "timeout_ms": 1, "event_sha256": "s", "event_bytes": 1, "event": captured, "request_sha256": "s",
                "trace": "t", "environment": ["A"], "working_dir": "/w", "workspace": "/w",
            }),
            serde_json::json!({
                "record": "ended", "run_id": "a", "released": true, "outcome": "exited", "exit_code": 0, "signal": 9,
                "killed_by": peer, "stdout": stream, "stderr": stream, "verdict": {"decision": "DENY"},
                "event": {"fields": {}, "name": "hook_blocked"}, "measures": {"a": 1}, "confirmed": true, "unconfined": true,
                "evidence": ["workspace=none"], "denied": ["openat"], "incidental": ["openat"], "refused_lines": 1,
                "usage": {},
            }),
            serde_json::json!({
                "record": "refused", "run_id": "a", "request_id": "q", "reason": "OVERLOADED", "released": true, "count": 3,
                "message": "m", "killed_by": peer, "hook": "guard", "command": command, "peer": peer, "profile": "strict",
                "session": "s", "contract": "reyn", "point": "p", "trace": "t", "workspace": "/w",
            }),
            serde_json::json!({"record": "interrupted", "run_id": "a", "started_by": "i", "started_sequence": 1}),
            serde_json::json!({"record": "lost", "noted_hash": "h", "noted_sequence": 1}),
            serde_json::json!({"record": "rebooted", "boot_id": "b", "missing_ms": 35000, "noted_sequence": 1}),
            serde_json::json!({"record": "torn", "bytes": 3, "text": "x"}),
        ];
        let with_chain = records.into_iter().map(|record| {
            let mut record = record;
            let chain = chain.as_object().unwrap().clone();
            record.as_object_mut().unwrap().extend(chain);
            record
        });
        with_chain.collect()
    }

    #[test]
    fn every_kind_of_record_is_read_with_every_member() {
        for record in full() {
            let line = record.to_string();
            let fields = RecordFields::read(line.as_bytes()).unwrap();
            assert_eq!(fields.record, record["record"].as_str().unwrap());
            assert_eq!(fields.run_id, record["run_id"].as_str().unwrap_or_default());
            // The event of a start is the hook's input, and no event of the contract.
            let is_end = fields.record == "ended";
            assert_eq!(fields.contract_event().is_some(), is_end, "{line}");
        }
    }

    /// A later version may write it so. The chain holds, and no reader may leave the record out.
    #[test]
    fn a_member_of_another_form_leaves_out_itself_alone() {
        let forms = [
            serde_json::json!(null),
            serde_json::json!(true),
            serde_json::json!(-1.5),
            serde_json::json!("later"),
            serde_json::json!([{"a": [1]}]),
            serde_json::json!({"a": {"b": 1}}),
        ];
        for record in full() {
            let names = record.as_object().unwrap().keys().cloned();
            for name in names {
                if matches!(name.as_str(), "hash" | "record" | "sequence" | "time") {
                    continue;
                }
                for form in &forms {
                    let mut changed = record.clone();
                    changed[&name] = form.clone();
                    let line = changed.to_string();
                    let fields = RecordFields::read(line.as_bytes());
                    let fields = fields.unwrap_or_else(|| panic!("{line}"));
                    assert_eq!((fields.sequence, &*fields.hash), (1, "h"), "{line}");
                    let unfiltered = RecordFilter::default();
                    assert!(RecordMatcher::new(unfiltered).takes(&fields), "{line}");
                }
            }
        }
    }

    #[test]
    fn a_line_that_is_no_record_is_none() {
        for line in ["", "{}", "[]", "{\"sequence\":\"x\"}", "\u{0}"] {
            assert!(RecordFields::read(line.as_bytes()).is_none(), "{line}");
        }
    }
}
