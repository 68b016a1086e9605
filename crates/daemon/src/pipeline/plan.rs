//! Planning: policy, command, limits and backend of one run, resolved.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use hookjail_base::{
    model::{Consent, InvalidField, Peer},
    refusal::{Fact, Reason, Refusal, Stop},
    util::shares::Share,
};
use hookjail_policy::{
    Access, GrantPlace, GrantSpec, Policy,
    environment::Variables,
    narrow::{Bindings, narrow},
};
use hookjail_sandbox::{
    Cache, Confinement, Confirmation, GrantRequest, HookTask, Opened, Prepared, Selected, Skipped,
    process::Chunk,
    program::{OpenedFor, Program, misleading},
};

use super::{Admitted, Call, Purpose, places::Place, runs::RunInWork};
use crate::{git::GitPlaces, request::Request, traces::Trace};

/// A run as planned: the data that later stages and the reply read.
///
/// Only [`Plan::resolve`] makes one. Every stage value from the plan on carries it.
#[derive(Debug)]
pub(crate) struct Run {
    /// The time of the request's arrival.
    pub(crate) arrived: Instant,
    /// Ends the run when cancelled.
    pub(crate) cancel: CancellationToken,
    /// The command as the allowlist spells it.
    pub(crate) command: String,
    /// The deadline of the run.
    pub(crate) deadline: Instant,
    /// The request's share of the memory for all requests in work.
    pub(crate) held: Arc<Share>,
    /// The run's id.
    pub(crate) id: String,
    /// The run in the list of runs; `None` for a preview.
    pub(crate) listed: Option<Arc<RunInWork>>,
    /// The skipped backends, which the operator prefers to the selected one, each with its reason.
    pub(crate) passed_over: Vec<Skipped>,
    /// The caller.
    pub(crate) peer: Peer,
    /// The profile, narrowed by the request, with the workspace and the source bound.
    pub(crate) policy: Policy,
    /// The backend's instructions.
    pub(crate) prepared: Prepared,
    /// The program.
    pub(crate) program: Program,
    /// The time in the queue.
    pub(crate) queued: Duration,
    /// The request.
    pub(crate) request: Box<Request>,
    /// The wall time from arrival to `deadline`.
    pub(crate) timeout: Duration,
    /// The call's trace, if it has one.
    pub(crate) trace: Option<Arc<Trace>>,
    _place: Place,
}

/// A run, with the data that only its announcement and its start need.
#[derive(Debug)]
pub struct Plan {
    /// The operator that approved the run, if any.
    pub(crate) answered_by: Option<Peer>,
    /// The sender of output chunks.
    pub(crate) chunks: Option<mpsc::Sender<Chunk>>,
    /// The proof of the policy on this host.
    pub(crate) confirmation: Arc<Confirmation>,
    /// The consent by which the hook may run.
    pub(crate) consent: Consent,
    /// The hook's environment.
    pub(crate) environment: Variables,
    /// SHA-256 of the request without environment values, if it has an idempotency key.
    pub(crate) named: Option<[u8; 32]>,
    /// The opened files that the policy grants.
    pub(crate) opened: Opened,
    /// The version of the administrator's files; `None` = they have none.
    pub(crate) policy_version: Option<Arc<str>>,
    /// The run. Boxed, as a run lives as long as the hook runs, and is moved often.
    pub(crate) run: Box<Run>,
    /// The hook's stdin.
    pub(crate) stdin: Bytes,
}

impl Run {
    /// Returns the operator who killed the run, if one did.
    pub(super) fn killed_by(&self) -> Option<Peer> {
        self.listed.as_ref().and_then(|listed| listed.killed_by())
    }
}

impl Plan {
    /// Resolves an admitted request: narrows its profile, selects a confirmed backend, builds stdin.
    ///
    /// # Errors
    ///
    /// Refuses a request that widens the profile, a policy that no backend enforces or confirms, and a backend without
    /// confinement where the request requires it. Also refuses environments and events that cannot be built, and paths
    /// that cannot be opened.
    pub(crate) async fn resolve(
        admitted: Admitted,
        sandbox: &Confinement,
    ) -> Result<Box<Self>, Stop> {
        let request = &admitted.request;
        let base = &admitted.policy;
        let cache = sandbox
            .caches()
            .find(base, request.hook.workspace.as_deref());
        let bound = narrowed(base, request, cache.as_ref())?;
        let policy = with_git(bound, request, admitted.git.as_ref());
        let select = || async { Ok(sandbox.select(&policy, &base.digest).await?) };
        let selected = sandbox.obtain(admitted.deadline, select).await?;
        if request.require_confirmed {
            check_confines(&selected)?;
        }
        let mut environment = Variables::resolve(&policy, &request.hook, request.depth)?;
        if policy.environment.caller_path {
            let misleading = misleading(
                &environment.path(),
                &written(&policy, request.hook.workspace.as_deref()),
                OpenedFor::caller(&admitted.call.peer, sandbox.switches_uid()),
                sandbox.view(&policy.files),
            )?;
            environment.put_last(&misleading);
            for directory in &misleading {
                let run_id = &*admitted.call.run_id;
                let directory = directory.display();
                tracing::info!(%run_id, "`{directory}` comes last in PATH: hooks can write there, and it has an interpreter of its own");
            }
        }
        if let Some(trace) = &admitted.call.trace {
            let context = trace.context();
            environment.set_trace(&policy, context.parent(), &context.state);
        }
        let creates = admitted.call.purpose == Purpose::Run;
        if let Some(cache) = cache.filter(|_| creates) {
            cache.make().await?;
        }
        let directories: Vec<_> = request.contract.directories().into_iter().collect();
        let open = || async {
            let wanted = GrantRequest {
                hook: &request.hook,
                of_operator: &base.files,
                peer: &admitted.call.peer,
                creates,
                deadline: admitted.deadline,
                git: (admitted.git.as_ref()).map(|git| (&*git.common, &*git.own)),
                open: &directories,
            };
            let opened = Opened::open(sandbox.places(), &selected.prepared, &policy, wanted).await;
            opened.map_err(Stop::from)
        };
        let opened = sandbox.obtain(admitted.deadline, open).await?;
        let stdin = request.contract.stdin(&request.event, &request.envelope)?;
        let start = (environment, opened, stdin);
        Ok(Box::new(Self::assemble(admitted, policy, selected, start)))
    }

    fn assemble(
        admitted: Admitted,
        policy: Policy,
        selected: Selected,
        (environment, opened, stdin): (Variables, Opened, Bytes),
    ) -> Self {
        let Selected {
            confirmation,
            passed_over,
            prepared,
        } = selected;
        let Admitted {
            answered_by,
            call,
            command,
            consent,
            deadline,
            git: _,
            place,
            policy: _,
            policy_version,
            program,
            queued,
            request,
            timeout,
        } = admitted;
        let Call {
            arrived,
            cancel,
            caller_timeout: _,
            chunks,
            held,
            listed,
            named,
            peer,
            purpose: _,
            run_id: id,
            trace,
        } = call;
        let run = Box::new(Run {
            _place: place,
            arrived,
            cancel,
            command,
            deadline,
            held,
            id,
            listed,
            passed_over,
            peer,
            policy,
            prepared,
            program,
            queued,
            request,
            timeout,
            trace,
        });
        Self {
            answered_by,
            chunks,
            confirmation,
            consent,
            environment,
            named,
            opened,
            policy_version,
            run,
            stdin,
        }
    }

    /// Returns the task for a sandbox to start.
    pub(super) fn task(&self) -> HookTask<'_> {
        let run = &*self.run;
        HookTask {
            caller: &run.peer,
            cancel: &run.cancel,
            deadline: run.deadline,
            environment: &self.environment,
            opened: &self.opened,
            policy: &run.policy,
            prepared: &run.prepared,
            program: &run.program,
            session: &run.request.session,
            stdin: &self.stdin,
            workspace: run.request.hook.workspace.as_deref(),
        }
    }
}

/// Returns the profile, bound to a request's directories and narrowed by it.
fn narrowed(profile: &Policy, request: &Request, cache: Option<&Cache>) -> Result<Policy, Refusal> {
    let transcripts = match profile.files.transcripts.is_empty() {
        true => Vec::new(),
        false => request.contract.transcripts(&request.event),
    };
    let bound = Bindings {
        cache: cache.map(Cache::path),
        transcripts: &transcripts,
        source: request.hook.source.as_deref(),
        workspace: request.hook.workspace.as_deref(),
        workspace_withheld: request.withheld.is_some(),
    };
    let narrowed = narrow(profile, bound, &request.narrow).map_err(|widened| {
        let field = InvalidField::new(widened.field(), widened.to_string());
        Refusal {
            message: widened.to_string(),
            ..Refusal::field(widened.reason(), field)
        }
    })?;
    Ok(Policy {
        umask: profile.metadata.umask(request.hook.umask),
        ..narrowed
    })
}

/// Returns the directories that hooks or agents write, without links too.
fn written(policy: &Policy, workspace: Option<&Path>) -> Vec<PathBuf> {
    let grants = policy.files.system.iter().chain(&policy.files.named);
    let grants = grants.filter_map(|grant| match &grant.place {
        GrantPlace::Path(path) => (grant.access == Access::Write).then_some(path.as_path()),
        GrantPlace::Entries(_) | GrantPlace::Source { .. } | GrantPlace::Workspace { .. } => None,
    });
    let named: Vec<_> = grants.chain(workspace).map(Path::to_owned).collect();
    let real: Vec<_> = named
        .iter()
        .filter_map(|it| it.canonicalize().ok())
        .collect();
    [named, real].concat()
}

/// Adds the directories of git that belong to the workspace and lie elsewhere, granted as the workspace is.
fn with_git(mut policy: Policy, request: &Request, git: Option<&GitPlaces>) -> Policy {
    let workspace = request.hook.workspace.as_deref();
    let (Some(workspace), Some(git)) = (workspace, git) else {
        return policy;
    };
    let mut named = policy.files.named.iter();
    let whole = GrantPlace::Path(workspace.components().collect());
    let Some(access) = named
        .find(|grant| grant.place == whole)
        .map(|grant| grant.access)
    else {
        return policy;
    };
    let outside = git
        .outermost()
        .filter(|place| !place.starts_with(workspace));
    policy.files.named.extend(outside.map(|place| GrantSpec {
        access,
        create: false,
        optional: false,
        place: GrantPlace::Path(place.to_owned()),
    }));
    policy
}

/// Refuses a backend without confinement.
fn check_confines(selected: &Selected) -> Result<(), Refusal> {
    let Selected {
        passed_over,
        prepared,
        ..
    } = selected;
    if prepared.confines() {
        return Ok(());
    }
    let before = passed_over.iter().map(|it| it.refusal.message.as_str());
    let nothing = format!(
        "backend `{}` confines nothing and the request requires confirmed confinement (`require_confirmed`)",
        prepared.backend
    );
    let message = before
        .chain([nothing.as_str()])
        .collect::<Vec<_>>()
        .join("; ");
    Err(Refusal::new(Reason::BackendUnconfirmed, message)
        .with(Fact::Backend(prepared.backend.as_str())))
}
