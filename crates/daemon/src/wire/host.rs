//! Encodes what this host enforces: backends, and profiles with evidence of their self-tests.

use jiff::Timestamp;

use hookjail_proto as pb;

use hookjail_base::model::axis::Axis;
use hookjail_policy::{Policy, Registry};
use hookjail_sandbox::{AxisProof, BackendStatus, Confinement, Prepared, ProbeResult, Skipped};

use super::axis_report;

/// Returns the status on this host of each backend in the operator's configuration.
pub fn backend_statuses(sandbox: &Confinement) -> Vec<pb::BackendStatus> {
    let probed = sandbox.probe().into_iter();
    let status = probed.map(|(name, probed)| {
        let (landlock_abi, reason, fix) = match &probed {
            Ok(host) => (host.landlock_abi, String::new(), String::new()),
            Err(absent) => (0, absent.why.clone(), absent.fix.clone()),
        };
        pb::BackendStatus {
            available: probed.is_ok(),
            backend: name.as_str().to_owned(),
            confines: name.confines(),
            fix,
            landlock_abi,
            reason,
        }
    });
    status.collect()
}

/// Returns a profile's status on this host, with evidence.
///
/// Runs the self-test on each of its backends that has no result yet.
pub async fn profile_status(sandbox: &Confinement, policy: &Policy) -> pb::ProfileStatus {
    let statuses = sandbox.survey(policy).await;
    let chosen = statuses.iter().position(BackendStatus::serves);
    // Where no backend serves the profile, the operator's first choice is shown.
    let shown = chosen.unwrap_or(0);
    let other = |(index, status)| pb::BackendStanding {
        passed_over: index < chosen.unwrap_or(usize::MAX),
        ..backend_standing(sandbox, policy, status)
    };
    let others = statuses.iter().enumerate();
    let others = others.filter(|(index, _)| *index != shown).map(other);
    let pb::BackendStanding {
        axes,
        backend,
        confirmed,
        passed_over: _,
        reason,
        tested_at,
    } = statuses
        .get(shown)
        .map(|status| backend_standing(sandbox, policy, status))
        .unwrap_or_default();
    pb::ProfileStatus {
        axes,
        backend,
        confirmed,
        others: others.collect(),
        profile: policy.name.to_string(),
        reason,
        tested_at,
        unconfined: chosen.is_some_and(|chosen| !statuses[chosen].confines()),
    }
}

/// Returns the statuses of profiles whose files cannot be loaded, with the reasons.
pub fn broken_profiles(registry: &Registry) -> impl Iterator<Item = pb::ProfileStatus> {
    registry.broken().map(|(profile, why)| pb::ProfileStatus {
        profile: profile.to_owned(),
        reason: why.to_owned(),
        ..pb::ProfileStatus::default()
    })
}

fn backend_standing(
    sandbox: &Confinement,
    policy: &Policy,
    status: &BackendStatus,
) -> pb::BackendStanding {
    let backend = status.backend();
    match status {
        BackendStatus::Serves(serves) => {
            let (prepared, confirmation) = &**serves;
            pb::BackendStanding {
                axes: evidence(sandbox, policy, prepared, &confirmation.proofs),
                backend: backend.as_str().to_owned(),
                confirmed: status.confines(),
                passed_over: false,
                reason: String::new(),
                tested_at: Some(timestamp(confirmation.tested_at)),
            }
        }
        BackendStatus::Skipped(passed_over) => {
            let Skipped {
                failed, refusal, ..
            } = &**passed_over;
            pb::BackendStanding {
                axes: failed
                    .as_ref()
                    .map(|(prepared, unconfirmed)| {
                        evidence(sandbox, policy, prepared, &unconfirmed.proofs)
                    })
                    .unwrap_or_default(),
                backend: backend.as_str().to_owned(),
                confirmed: false,
                passed_over: false,
                reason: format!("{}: {}", refusal.reason, refusal.message),
                // A failed self-test is not cached, so this result is new.
                tested_at: Some(timestamp(Timestamp::now())),
            }
        }
    }
}

fn evidence(
    sandbox: &Confinement,
    policy: &Policy,
    prepared: &Prepared,
    proofs: &[AxisProof],
) -> Vec<pb::AxisEvidence> {
    let legs = |legs: &[ProbeResult]| {
        let leg = |leg: &ProbeResult| pb::Leg {
            attempt: leg.name(),
            held: leg.held,
            observed: leg.observed.clone(),
        };
        legs.iter().map(leg).collect()
    };
    let axis = |(axis, coverage)| {
        let proof = proofs.iter().find(|proof| proof.axis == axis);
        pb::AxisEvidence {
            consequence: consequence(axis).to_owned(),
            control: proof.map(|proof| legs(&proof.control)).unwrap_or_default(),
            deny: proof.map(|proof| legs(&proof.deny)).unwrap_or_default(),
            fix: sandbox.remedy(axis, policy),
            report: Some(axis_report(axis, coverage, *policy.demands.get(axis))),
        }
    };
    prepared.axes().iter().map(axis).collect()
}

/// Returns what a gap on an axis means for the host.
const fn consequence(axis: Axis) -> &'static str {
    match axis {
        Axis::Cpu => "a hook can use all processor time until its deadline",
        Axis::Memory => "a hook can use all memory until its deadline",
        Axis::Metadata => {
            "a hook can learn which files exist outside its grants, how large they are and when they changed"
        }
        Axis::Pids => "a hook can start as many threads or processes as its user may",
        Axis::Devices
        | Axis::Environment
        | Axis::Execute
        | Axis::Ipc
        | Axis::Network
        | Axis::Output
        | Axis::Read
        | Axis::Spawn
        | Axis::Time
        | Axis::Write => "hooks under a profile that requires it are refused",
    }
}

pub(super) fn timestamp(time: Timestamp) -> prost_types::Timestamp {
    prost_types::Timestamp {
        nanos: time.subsec_nanosecond(),
        seconds: time.as_second(),
    }
}
