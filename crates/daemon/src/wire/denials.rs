//! Encodes the denials of a hook, with the rules behind them.

use hookjail_proto as pb;

use hookjail_base::model::axis::Axis;
use hookjail_journal::record::OutcomeKind;
use hookjail_policy::HostSource;
use hookjail_sandbox::{
    BackendName, explain,
    seccomp::{FilterSpec, rules},
};

use super::encode::{RELAY, ReplyBudget, axis_message};
use crate::pipeline::Interpreted;
use hookjail_sandbox as sandbox;

/// The most text in the denials of a reply: half of the bytes that are kept free for all but output.
const MAX_DENIALS_BYTES: usize = ReplyBudget::ENVELOPE / 2;

pub(super) fn denials(interpreted: &Interpreted) -> Vec<pb::Denial> {
    // In a container no seccomp user notifications are answered.
    let prepared = &interpreted.run.prepared;
    let filters = prepared.filters;
    let filters = filters.filter(|_| prepared.backend == BackendName::LANDLOCK);
    let Some(spec) = filters else {
        return Vec::new();
    };
    // The hook's end does not show which call killed it.
    let is_killed = interpreted.outcome == OutcomeKind::EscapeAttempt;
    let killed = is_killed.then(|| pb::Denial {
        confidence: "certain".to_owned(),
        rule: "a process that makes a call that no hook needs is killed".to_owned(),
        source: "sigsys".to_owned(),
        times: 1,
        ..pb::Denial::default()
    });
    // The call that ended the hook comes first, so that it stays when the list is cut.
    let calls = interpreted.hook.denied.calls.iter();
    let all = killed
        .into_iter()
        .chain(calls.map(|denied| of_call(&spec, denied)))
        .chain(of_connections(interpreted));

    let mut room = MAX_DENIALS_BYTES;
    let fits = |denial: &pb::Denial| {
        let text = [
            &denial.operation,
            &denial.rule,
            &denial.suggestion,
            &denial.target,
        ];
        let length = text.iter().map(|text| text.len()).sum();
        let left = room.checked_sub(length);
        room = left.unwrap_or(room);
        left.is_some()
    };
    let mut reported: Vec<_> = all.filter(fits).collect();
    if let Some(redacted) = &interpreted.redacted {
        for denial in &mut reported {
            // The hook chooses the arguments.
            for text in [
                &mut denial.egress,
                &mut denial.rule,
                &mut denial.suggestion,
                &mut denial.target,
            ] {
                redacted.redactor().clean(text);
            }
        }
    }
    reported
}

/// Returns the denials of connections, one for each destination and reason.
fn of_connections(interpreted: &Interpreted) -> Vec<pb::Denial> {
    let policy = &interpreted.run.policy;
    let profile = &policy.name;
    let mut denials: Vec<pb::Denial> = Vec::new();
    for (connection, why) in interpreted.hook.connections.denied() {
        let target = connection.destination.to_string();
        let rule = format!("`{target}` {why}");
        let missing = connection.missing_rule().map(|it| it.to_string());
        let change = missing.as_ref().map(|missing| match policy.egress.source {
            HostSource::HttpAllow => {
                "nothing of a profile; name the address in the hook's URL and in `http.allow`"
                    .to_owned()
            }
            HostSource::Hook | HostSource::Profile => {
                format!("add \"{missing}\" to `egress` of profile `{profile}`")
            }
        });
        match denials.iter_mut().find(|it| it.rule == rule) {
            Some(known) => known.times += 1,
            None => denials.push(pb::Denial {
                axis: axis_message(Axis::Network).into(),
                confidence: "certain".to_owned(),
                operation: "connect".to_owned(),
                rule,
                source: RELAY.to_owned(),
                suggestion: change.unwrap_or_default(),
                egress: missing.unwrap_or_default(),
                target,
                times: 1,
                ..pb::Denial::default()
            }),
        }
    }
    denials
}

fn of_call(spec: &FilterSpec, denied: &sandbox::Denied) -> pb::Denial {
    let explanation = explain::call(spec, denied.number, &denied.arguments.map(Some));
    pb::Denial {
        axis: rules::axis(denied.number)
            .map_or(pb::Axis::Unspecified, axis_message)
            .into(),
        confidence: "certain".to_owned(),
        egress: String::new(),
        incidental: denied.is_incidental(),
        operation: denied.name(),
        rule: explanation.rule,
        source: "seccomp".to_owned(),
        suggestion: explanation
            .remedy
            .map(|remedy| remedy.to_string())
            .unwrap_or_default(),
        target: explain::about(denied.number, &denied.arguments),
        times: denied.times,
    }
}
