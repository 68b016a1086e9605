//! Encodes the denials of a hook, with the rules behind them.

use std::path::Path;

use super::encode::{ReplyBudget, ReportedDenials, axis_message};
use crate::{
    journal::record::OutcomeKind,
    pb,
    pipeline::{Interpreted, Run},
    policy::{explain::Reach, forbidden::Forbidden, rights::FileRight},
    sandbox::{
        self, BackendName, explain,
        seccomp::{FilterSpec, rules},
    },
    sys::FileRights,
};

/// The most text in the denials of a reply. It is half of what is kept free for all but output.
const MAX_DENIALS_BYTES: usize = ReplyBudget::ENVELOPE / 2;

pub(super) fn denials(interpreted: &Interpreted, forbidden: &Forbidden) -> ReportedDenials {
    let run = &interpreted.run;
    // In a container nobody asks about calls, and there is no Landlock to refuse anything.
    let filters = run.prepared.filters;
    let filters = filters.filter(|_| run.prepared.backend == BackendName::LANDLOCK);
    let Some(spec) = filters else {
        return ReportedDenials {
            cut: false,
            reported: Vec::new(),
        };
    };
    // What is looked at here are paths of the hook's choosing: its caller is told nothing that it could not see by itself.
    let peer = run.peer;
    let _as_caller = FileRights::of(peer.uid, peer.gid);
    let known = &interpreted.hook.denied;
    // The log says for which call; where it is not in use, the end of the hook says that it was one.
    let unnamed = interpreted.outcome == OutcomeKind::EscapeAttempt && known.killed.is_empty();
    let killed = unnamed.then(|| pb::Denial {
        confidence: "certain".to_owned(),
        rule: "whoever makes a call that no hook needs is killed".to_owned(),
        source: "sigsys".to_owned(),
        times: 1,
        ..pb::Denial::default()
    });
    // What ended the hook first, so that it is told whatever else there was.
    let named = known.killed.iter().map(|denied| of_call(&spec, denied));
    let calls = known.calls.iter().map(|denied| of_call(&spec, denied));
    let reach = (!known.blocked.is_empty()).then(|| reach(run, &spec));
    let of_access = |blocked| {
        let reach = reach.as_ref().and_then(Option::as_ref);
        of_access(blocked, known, reach, forbidden)
    };
    let accesses = known.blocked.iter().map(of_access);
    let all: Vec<_> = killed
        .into_iter()
        .chain(named)
        .chain(calls)
        .chain(accesses)
        .collect();

    let mut room = MAX_DENIALS_BYTES;
    let count = all.len();
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
    let mut reported: Vec<_> = all.into_iter().filter(fits).collect();
    if let Some(redacted) = &interpreted.redacted {
        for denial in &mut reported {
            // Paths and arguments are of the hook's choosing.
            for text in [&mut denial.rule, &mut denial.suggestion, &mut denial.target] {
                redacted.redactor().clean(text);
            }
        }
    }
    ReportedDenials {
        cut: reported.len() < count,
        reported,
    }
}

fn of_call(spec: &FilterSpec, denied: &sandbox::Denied) -> pb::Denial {
    let arguments = denied.arguments.map(|arguments| arguments.map(Some));
    let explanation = explain::call(spec, denied.number, &arguments.unwrap_or_default());
    let about = |arguments| explain::about(denied.number, &arguments);
    pb::Denial {
        axis: rules::axis(denied.number)
            .map_or(pb::Axis::Unspecified, axis_message)
            .into(),
        confidence: "certain".to_owned(),
        incidental: denied.is_incidental(),
        operation: denied.name(),
        rule: explanation.rule,
        source: denied
            .arguments
            .map_or("audit_log", |_| "seccomp")
            .to_owned(),
        suggestion: explanation
            .remedy
            .map(|remedy| remedy.to_string())
            .unwrap_or_default(),
        target: denied.arguments.map(about).unwrap_or_default(),
        times: denied.times,
    }
}

/// Returns all that a run reached by its path; `None` where that cannot be examined.
fn reach(run: &Run, spec: &FilterSpec) -> Option<Reach> {
    let workspace = run.request.hook.workspace.as_deref();
    let handled = explain::handled(spec.landlock_abi);
    let mut reach = Reach::locate(&run.policy.files, workspace, handled).ok()?;
    for digest in &run.program.digests {
        reach = reach.with_program(Path::new(&digest.path)).ok()?;
    }
    Some(reach)
}

fn of_access(
    blocked: &sandbox::Blocked,
    known: &sandbox::Known,
    reach: Option<&Reach>,
    forbidden: &Forbidden,
) -> pb::Denial {
    let rights = blocked.rights();
    let path = blocked.path.as_deref();
    let refused = reach
        .zip(path)
        .and_then(|(reach, path)| reach.refused(rights, path, forbidden));
    let (rule, suggestion) = match &refused {
        Some(refused) => (refused.to_string(), refused.remedy.to_string()),
        None if rights.has(FileRight::Refer) => (
            "what is moved or linked may not lie where more can be done with it".to_owned(),
            "nothing can: copy it".to_owned(),
        ),
        None => ("Landlock refused it".to_owned(), String::new()),
    };
    pb::Denial {
        axis: blocked
            .axis()
            .map_or(pb::Axis::Unspecified, axis_message)
            .into(),
        confidence: "certain".to_owned(),
        incidental: known.is_incidental(blocked),
        operation: blocked.name(),
        rule,
        source: "audit_log".to_owned(),
        suggestion,
        target: path
            .map(|path| path.to_string_lossy().into_owned())
            .unwrap_or_default(),
        times: blocked.times,
    }
}
