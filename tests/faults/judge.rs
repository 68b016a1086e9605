//! Whether answers, the journal, and the marks that hooks leave agree.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::load::{Call, Said, says_it_did_not_run, says_it_is_done};

/// Contradictions among answers, journal and marks.
#[derive(Debug, Default)]
pub(crate) struct Judged {
    pub(crate) doubled: Vec<String>,
    pub(crate) lost: Vec<String>,
    pub(crate) unanswered: Vec<String>,
    pub(crate) untrue: Vec<String>,
}

impl Judged {
    pub(crate) fn new(calls: &[Call], marks: &BTreeMap<String, usize>, records: &[Value]) -> Self {
        let mut judged = Self::default();
        judged.journal(calls, marks, records);
        judged.words(calls, marks);
        judged
    }

    /// Everything that was acknowledged or ran is in the journal, once, and each run has its end.
    fn journal(&mut self, calls: &[Call], marks: &BTreeMap<String, usize>, records: &[Value]) {
        let text =
            |record: &Value, name: &str| record[name].as_str().unwrap_or_default().to_owned();
        // Files that were removed as too old are no loss.
        let oldest = records.first().map_or(0, |first| number(first, "sequence"));
        let mut by_sequence = BTreeMap::new();
        let mut started = BTreeMap::new();
        let mut ended = BTreeSet::new();
        let mut requests = BTreeSet::new();
        for record in records {
            let run = text(record, "run_id");
            by_sequence.insert(number(record, "sequence"), text(record, "hash"));
            match &*text(record, "record") {
                "started" => {
                    let request = text(record, "request_id");
                    requests.insert(request.clone());
                    if started.insert(run, request).is_some() {
                        self.doubled.push(format!("two starts: {record}"));
                    }
                }
                "ended" | "interrupted" => {
                    let is_first = ended.insert(run);
                    if !is_first {
                        self.doubled.push(format!("two ends: {record}"));
                    }
                }
                "refused" if !run.is_empty() => {
                    ended.insert(run);
                }
                "lost" => self
                    .lost
                    .push(format!("the journal reports a loss: {record}")),
                _ => {}
            }
        }
        let open = started.iter().filter(|(run, _)| !ended.contains(*run));
        self.lost
            .extend(open.map(|(run, request)| format!("the end of run {run}, request {request}")));
        for call in calls {
            let Said::Ended(response) = &call.said else {
                continue;
            };
            let audit = response.audit.as_ref().unwrap();
            if audit.sequence >= oldest && by_sequence.get(&audit.sequence) != Some(&audit.hash) {
                self.lost
                    .push(format!("the end of {} that was answered", call.id));
            }
        }
        if oldest <= 1 {
            let unannounced = marks.keys().filter(|id| !requests.contains(*id));
            self.lost
                .extend(unannounced.map(|id| format!("the start of {id}, which ran")));
        }
    }

    /// Checks that the answers to callers are true.
    fn words(&mut self, calls: &[Call], marks: &BTreeMap<String, usize>) {
        let mut answers = BTreeMap::<_, Vec<_>>::new();
        for call in calls {
            answers.entry(&call.id).or_default().push(&call.said);
        }
        for (id, replies) in answers {
            let ran = marks.get(id).copied().unwrap_or_default();
            if ran > 1 {
                self.doubled.push(format!("{id} ran {ran} times"));
            }
            let labels: Vec<_> = replies.iter().map(|reply| reply.label()).collect();
            if ran == 0 && replies.iter().any(|reply| says_it_is_done(reply)) {
                self.untrue.push(format!("{id} did not run: {labels:?}"));
            }
            if ran > 0 && replies.iter().all(|reply| matches!(reply, Said::Lost)) {
                self.unanswered.push(id.clone());
            }
            if ran > 0 && replies.iter().all(|reply| says_it_did_not_run(reply)) {
                self.untrue.push(format!("{id} ran: {labels:?}"));
            }
        }
    }
}

fn number(record: &Value, name: &str) -> u64 {
    record[name].as_u64().unwrap_or_default()
}

/// Shows that it sees what is wrong: a judge who never finds anything would pass every fault.
pub(crate) fn the_judge_sees_what_is_wrong() {
    use std::time::Instant;

    use hookjail::pb::{AuditReference, ExecuteResponse, Outcome, OutcomeKind};
    use serde_json::json;

    let ended = |sequence, hash: &str| {
        let outcome = Outcome {
            kind: OutcomeKind::Exited.into(),
            exit_code: Some(0),
            ..Outcome::default()
        };
        let audit = AuditReference {
            run_id: "r".to_owned(),
            sequence,
            hash: hash.to_owned(),
        };
        Said::Ended(Box::new(ExecuteResponse {
            outcome: Some(outcome),
            audit: Some(audit),
            ..ExecuteResponse::default()
        }))
    };
    let refused = |released| Said::Refused {
        message: String::new(),
        reason: "OVERLOADED".to_owned(),
        released,
    };
    let started =
        json!({"record": "started", "sequence": 1, "run_id": "r", "request_id": "a", "hash": "1"});
    let end = json!({"record": "ended", "sequence": 2, "run_id": "r", "hash": "2"});
    let found = |replies: &[Said], ran: usize, records: &[&Value]| {
        let call = |reply: &Said| Call::new("a".to_owned(), Instant::now(), reply.clone());
        let calls: Vec<_> = replies.iter().map(call).collect();
        let marks = (ran > 0).then(|| ("a".to_owned(), ran));
        let records: Vec<_> = records.iter().map(|&record| record.clone()).collect();
        let judged = Judged::new(&calls, &marks.into_iter().collect(), &records);
        [
            judged.lost.len(),
            judged.doubled.len(),
            judged.untrue.len(),
            judged.unanswered.len(),
        ]
    };
    let one = std::slice::from_ref;
    let (good, whole) = (ended(2, "2"), [&started, &end]);
    assert_eq!(found(one(&good), 1, &whole), [0, 0, 0, 0]);
    assert_eq!(
        found(&[refused(false), good.clone()], 1, &whole),
        [0, 0, 0, 0]
    );
    assert_eq!(found(&[refused(true)], 1, &whole), [0, 0, 0, 0]);
    // The end that was answered is not there, or another; a run has none; a start is missing.
    assert_eq!(found(&[ended(3, "2")], 1, &whole), [1, 0, 0, 0]);
    assert_eq!(found(&[ended(2, "x")], 1, &whole), [1, 0, 0, 0]);
    assert_eq!(found(&[refused(true)], 1, &[&started]), [1, 0, 0, 0]);
    assert_eq!(found(&[refused(true)], 1, &[]), [1, 0, 0, 0]);
    let lost = json!({"record": "lost", "sequence": 3});
    assert_eq!(found(one(&good), 1, &[&started, &end, &lost]), [1, 0, 0, 0]);
    // The hook ran twice; a run has two starts, or two ends.
    assert_eq!(found(one(&good), 2, &whole), [0, 1, 0, 0]);
    assert_eq!(
        found(one(&good), 1, &[&started, &started, &end]),
        [0, 1, 0, 0]
    );
    assert_eq!(found(one(&good), 1, &[&started, &end, &end]), [0, 1, 0, 0]);
    // The hook ran and the answer denies it, or the other way round.
    assert_eq!(found(&[refused(false)], 1, &whole), [0, 0, 1, 0]);
    assert_eq!(found(&[good], 0, &whole), [0, 0, 1, 0]);
    // The hook ran, and no caller got an answer.
    assert_eq!(found(&[Said::Lost], 1, &whole), [0, 0, 0, 1]);
    assert_eq!(found(&[Said::Unheard], 1, &whole), [0, 0, 0, 0]);
}
