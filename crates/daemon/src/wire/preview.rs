//! Encodes previews as replies.

use std::path::Path;

use tonic::Status;

use hookjail_proto as pb;

use hookjail_base::{
    model::{
        OnOutputLimit,
        axis::{Axis, Coverage},
    },
    refusal::{Fault, Reason, Refusal, Stop, chain},
};
use hookjail_journal::record::WITHHELD;
use hookjail_policy::{
    Access, Limits,
    explain::{Grantor, Reach},
    rights::{FileRight, FileRights},
    starts_in,
};
use hookjail_sandbox::{BackendName, Prepared};

use super::{axis_report, encode::passed_over_message, facts::facts, host::timestamp, status};
use crate::{
    consent::allowlist::typed,
    pipeline::{Admission, Plan, Preview, Run},
    request::Withheld,
};

/// Returns whether a preview's response holds this refusal, instead of a status.
///
/// That is so for valid requests of allowed callers.
pub(super) const fn is_an_answer(reason: Reason) -> bool {
    match reason {
        Reason::CallerIsAHook
        | Reason::Canceled
        | Reason::EventTooLarge
        | Reason::InvalidRequest
        | Reason::Killed
        | Reason::PeerNotAllowed
        | Reason::PeerUnknown
        | Reason::ReloadRefused
        | Reason::RunUnknown => false,
        Reason::AlreadyRan
        | Reason::AuditUnavailable
        | Reason::BackendUnconfirmed
        | Reason::ConsentRequired
        | Reason::Deadline
        | Reason::DigestMismatch
        | Reason::Draining
        | Reason::GrantMissing
        | Reason::NotAllowlisted
        | Reason::Overloaded
        | Reason::RecursionLimit
        | Reason::PolicyUnenforceable
        | Reason::ProfileUnknown
        | Reason::ProfileWidened
        | Reason::RateLimited
        | Reason::RecordTooLarge
        | Reason::RequestIdConflict
        | Reason::Unsupported => true,
    }
}

/// Encodes a refusal as a response.
pub(super) fn refused(refusal: &Refusal, request_id: &str) -> Result<pb::PreviewResponse, Status> {
    if !is_an_answer(refusal.reason) {
        return Err(status::status(refusal, request_id));
    }
    let mut metadata = facts(refusal);
    if let Some(approve) = metadata.get_mut("approve") {
        *approve = typed(approve);
    }
    metadata.insert("request_id".to_owned(), request_id.to_owned());
    Ok(pb::PreviewResponse {
        refusal: Some(pb::Refusal {
            message: refusal.message.clone(),
            metadata,
            reason: refusal.reason.as_str().to_owned(),
        }),
        request_id: request_id.to_owned(),
        ..pb::PreviewResponse::default()
    })
}

/// Encodes a preview.
///
/// # Errors
///
/// Returns the status of a fault, or of a refusal that is no answer ([`is_an_answer`]).
pub(super) fn encode(preview: &Preview) -> Result<pb::PreviewResponse, Status> {
    let id = &preview.request_id;
    let stopped = |stop: &Stop| match stop {
        Stop::Refusal(refusal) => refused(refusal, id),
        Stop::Fault(fault) => Err(failed(fault, id)),
    };
    let mut response = match preview.outlook() {
        Ok(plan) => planned(plan).or_else(|fault| stopped(&fault.into()))?,
        Err(stop) => stopped(stop)?,
    };
    response.request_id.clone_from(id);
    preview
        .contract_version
        .clone_into(&mut response.contract_version);
    if let Some(admission) = &preview.admission {
        admitted(admission, &mut response);
    }
    Ok(response)
}

fn failed(fault: &Fault, request_id: &str) -> Status {
    tracing::error!(error = chain(fault), request = request_id, "preview failed");
    status::fault(request_id)
}

fn admitted(admission: &Admission, response: &mut pb::PreviewResponse) {
    let argv = admission.argv.iter();
    response.argv = argv
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    admission.consent.name().clone_into(&mut response.consent);
    let file = |digest: &hookjail_sandbox::program::Digest| pb::HashedFile {
        path: digest.path.clone(),
        role: digest.role.name().to_owned(),
        sha256: digest.sha256.clone(),
    };
    response.files = admission.digests.iter().map(file).collect();
    response.timeout = prost_types::Duration::try_from(admission.timeout).ok();
    let confinement = response.confinement.get_or_insert_default();
    confinement.profile.clone_from(&admission.profile);
    confinement
        .profile_digest
        .clone_from(&admission.profile_digest);
}

fn planned(plan: &Plan) -> Result<pb::PreviewResponse, Fault> {
    let run = &*plan.run;
    let policy = &run.policy;
    let hook = &run.request.hook;
    let names = plan.environment.names().into_iter();
    let confines = run.prepared.confines();
    let grants = if confines { grants(run)? } else { Vec::new() };
    let axes = run.prepared.axes().iter();
    Ok(pb::PreviewResponse {
        confinement: Some(pb::Confinement {
            axes: axes
                .map(|(axis, coverage)| axis_report(axis, coverage, *policy.demands.get(axis)))
                .collect(),
            backend: run.prepared.backend.as_str().to_owned(),
            confirmed: confines,
            evidence: run.request.withheld.iter().map(withheld).collect(),
            landlock_abi: run.prepared.landlock_abi,
            passed_over: run.passed_over.iter().map(passed_over_message).collect(),
            unconfined: !confines,
            ..pb::Confinement::default()
        }),
        environment_names: names
            .map(|name| name.to_string_lossy().into_owned())
            .collect(),
        grants,
        limits: Some(limits(&policy.limits, &run.prepared)),
        metadata: policy.metadata.name().to_owned(),
        network: policy.network.name().to_owned(),
        spawn: policy.spawn.name().to_owned(),
        stdin_bytes: plan.stdin.len() as u64,
        tested_at: confines.then(|| timestamp(plan.confirmation.tested_at)),
        working_dir: starts_in(policy, hook)
            .map(|path| path.display().to_string())
            .unwrap_or_default(),
        ..pb::PreviewResponse::default()
    })
}

fn withheld(withheld: &Withheld) -> pb::Evidence {
    pb::Evidence {
        axis: pb::Axis::Unspecified.into(),
        check: WITHHELD.to_owned(),
        observed: withheld.to_string(),
    }
}

fn limits(limits: &Limits, prepared: &Prepared) -> pb::Limits {
    let enforced = |axis| matches!(prepared.axes().get(axis), Coverage::Enforced { .. });
    let scratch = match prepared.backend {
        BackendName::CONTAINER => Some(limits.scratch_in_memory()),
        backend => limits.scratch.filter(|_| backend.confines()),
    };
    pb::Limits {
        address_space: limits.address_space,
        cpus: (limits.cpus.filter(|_| enforced(Axis::Cpu))).map(|cpus| f64::from(cpus) / 1000.0),
        file_size: limits.file_size,
        open_files: limits.open_files,
        output_bytes: limits.output_bytes,
        output_kills: limits.on_output_limit == OnOutputLimit::Kill,
        memory: limits.memory.filter(|_| enforced(Axis::Memory)),
        scratch: scratch.map(|limits| limits.bytes),
        scratch_files: scratch.map(|limits| limits.files),
        tasks: enforced(Axis::Pids).then_some(limits.tasks),
    }
}

/// Returns the run's path grants.
fn grants(run: &Run) -> Result<Vec<pb::Grant>, Fault> {
    let examine = |error| Fault::new("cannot examine what is granted", error);
    // All rights: the grants are shown as configured, not as this kernel supports them.
    let all = FileRights::new(&FileRight::ALL);
    let files = &run.policy.files;
    let mut reach = Reach::locate(files, None, all)
        .map_err(examine)?
        .with_scratch(Path::new(""));
    for digest in &run.program.digests {
        reach = reach
            .with_program(Path::new(&digest.path))
            .map_err(examine)?;
    }
    let grant = |granted: &hookjail_policy::explain::GrantedPath| {
        let (access, origin) = match &granted.by {
            Grantor::Profile(grant) if files.system.contains(grant) => (grant.access, "system"),
            Grantor::Profile(grant) => (grant.access, "named"),
            Grantor::Program(_) => (Access::Execute, "hook"),
            Grantor::Scratch => (Access::Write, "scratch"),
            Grantor::State(_) | Grantor::View => (Access::Write, "view"),
        };
        pb::Grant {
            access: access.name().to_owned(),
            origin: origin.to_owned(),
            path: granted.place.path().display().to_string(),
        }
    };
    Ok(reach.granted().map(grant).collect())
}
