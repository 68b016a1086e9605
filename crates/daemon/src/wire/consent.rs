//! `hookjail.v1.ConsentService`: questions to operators, and the allowlist.

use std::{
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio_stream::{Stream, wrappers::ReceiverStream};
use tonic::{Request, Response, Status};

use hookjail_base::{
    model::{InvalidField, Peer, ProfileName, command_line, is_plain},
    refusal::{Reason, Refusal, Stop, chain},
};
use hookjail_proto::{self as pb, consent_service_server::ConsentService};
use hookjail_sandbox::{
    program::{Digest, OpenedFor, Program, Role},
    rootfs::View,
};

use super::{axis_report, decode, host::timestamp, service::peer, status};
use crate::{
    consent::{
        Consents,
        allowlist::Entry,
        pending::{Decided, Listening, News, OpenQuestion, OperatorAnswer, Question, Subject},
    },
    pipeline::Pipeline,
};

/// The most news queued for a client that reads slowly.
const MAX_NEWS: usize = 16;

/// The timeout of hashing a command's files for a consent over the wire.
const HASH_TIMEOUT: Duration = Duration::from_secs(60);

/// `hookjail.v1.ConsentService` over a pipeline.
#[derive(Clone, Debug)]
pub(super) struct Operators {
    pub(super) pipeline: Arc<Pipeline>,
}

impl Operators {
    /// Admits peers that may answer for the operator.
    fn admit<T>(&self, request: &Request<T>) -> Result<Peer, Status> {
        let peer = peer(request.extensions())?;
        let Pipeline { gate, sandbox, .. } = &*self.pipeline;
        gate.admit_operator(&peer, sandbox)
            .map_err(|refusal| status(&refusal, ""))?;
        Ok(peer)
    }

    fn consents(&self) -> &Consents {
        self.pipeline.gate.consents()
    }

    /// Encodes a question: the command, and its profile's axes as enforced on this host.
    async fn describe(&self, open_question: &OpenQuestion) -> pb::PendingConsent {
        let Question {
            hook,
            peer,
            request_id,
            subject,
            why,
            workspace,
        } = &open_question.question;
        let pending = pb::PendingConsent {
            consent_id: open_question.id.clone(),
            expires_at: Some(timestamp(open_question.expires_at)),
            hook_name: hook.clone(),
            peer: peer.to_string(),
            request_id: request_id.clone(),
            why: why.clone(),
            workspace: workspace.clone(),
            ..pb::PendingConsent::default()
        };
        let (command, diff, digests, policy) = match subject {
            Subject::Command {
                command,
                diff,
                digests,
                policy,
            } => (command, diff, digests, policy),
            Subject::Tool { input, name } => {
                return pb::PendingConsent {
                    tool_input_json: input.clone(),
                    tool_name: name.clone(),
                    ..pending
                };
            }
        };
        let selected = self.pipeline.sandbox.select(policy, &policy.digest).await;
        // A profile that is not confirmed has none; a run under it is refused after the answer, with that reason.
        let axes = selected.map_or_else(
            |_| Vec::new(),
            |selected| {
                let axes = selected.prepared.axes().iter();
                axes.map(|(axis, coverage)| axis_report(axis, coverage, *policy.demands.get(axis)))
                    .collect()
            },
        );
        pb::PendingConsent {
            axes,
            command: command.clone(),
            diff: diff.clone(),
            digests: digests.iter().map(digest_message).collect(),
            egress: (policy.egress.allowed.iter())
                .map(ToString::to_string)
                .collect(),
            profile: policy.name.to_string(),
            profile_description: policy.description.clone(),
            requests: (policy.egress.requests.iter())
                .map(ToString::to_string)
                .collect(),
            ..pending
        }
    }

    async fn tell(
        self,
        listening: Option<Listening>,
        open: Vec<Arc<OpenQuestion>>,
        sender: mpsc::Sender<Result<pb::WatchResponse, Status>>,
    ) {
        let send = async |news| {
            let response = pb::WatchResponse { news: Some(news) };
            sender.send(Ok(response)).await.is_ok()
        };
        for open_question in open {
            let pending = self.describe(&open_question).await;
            if !send(pb::watch_response::News::Pending(pending)).await {
                return;
            }
        }
        let Some(mut listening) = listening else {
            return;
        };
        loop {
            let news = tokio::select! {
                news = listening.next() => news,
                // A disconnected client ends the stream even while there is no news.
                () = sender.closed() => return,
            };
            let news = match news {
                Some(News::Asked(open_question)) => {
                    pb::watch_response::News::Pending(self.describe(&open_question).await)
                }
                Some(News::Settled {
                    decision,
                    expired,
                    id,
                }) => pb::watch_response::News::Settled(pb::SettledConsent {
                    consent_id: id,
                    decision: decision_message(decision).into(),
                    expired,
                }),
                None if listening.is_closed() => return,
                None => {
                    let message =
                        "this listener was too slow and did not get all news; watch again";
                    let refusal = Refusal::new(Reason::Overloaded, message);
                    // Fails only where the client has disconnected.
                    drop(sender.send(Err(status(&refusal, ""))).await);
                    return;
                }
            };
            if !send(news).await {
                return;
            }
        }
    }

    async fn entry(&self, request: pb::AllowRequest, peer: &Peer) -> Result<Entry, Stop> {
        let field = |field: &str, problem: &str| InvalidField::new(field, problem);
        let profile = match request.profile.as_str() {
            "" => None,
            name => Some(ProfileName::parse(name).ok_or_else(|| field("profile", "is no name"))?),
        };
        let rules = self.pipeline.gate.rules();
        let policy = profile.as_ref().map(|name| {
            rules.registry.find(name).ok_or_else(|| {
                let message = rules.registry.absence(name.as_str());
                Refusal::new(Reason::ProfileUnknown, message)
            })
        });
        let policy = policy.transpose()?;
        let mut argv: Vec<std::ffi::OsString> = request.argv.into_iter().map(Into::into).collect();
        let sandbox = &self.pipeline.sandbox;
        let (search, view) = match policy {
            Some(policy) => (&policy.environment.path[..], sandbox.view(&policy.files)),
            None if sandbox.has_root() => {
                let problem = "must be set, as with `container.root` it determines the file that a path names";
                return Err(field("profile", problem).into());
            }
            None => (&[][..], View::HOST),
        };
        let path = Program::find(&argv, search, view)?;
        let digests = if request.digests.is_empty() {
            let opened_for = OpenedFor::caller(peer, sandbox.switches_uid());
            let scope = Some(request.working_dir_scope.as_str()).filter(|it| !it.is_empty());
            let opened = Program::open(
                path.clone(),
                &argv,
                &[],
                scope.map(Path::new),
                opened_for,
                view,
            )?;
            let deadline = Instant::now() + HASH_TIMEOUT;
            let hashed = self.pipeline.gate.hash(opened, peer.uid, deadline).await?;
            hashed.digests
        } else {
            let digests = request.digests.into_iter().enumerate();
            digests
                .map(|(index, digest)| given_digest(index, digest))
                .collect::<Result<Vec<_>, _>>()?
        };
        // A consent names the program by its path.
        argv[0] = path.into_os_string();
        let command = command_line(&argv).ok_or_else(|| field("argv", "is not UTF-8"))?;
        let approved_by = format!("{peer} by ConsentService");
        let mut entry = Entry::new(
            command,
            digests,
            policy.map(|policy| &**policy),
            approved_by,
        );
        if let Some(valid_for) = request.valid_for {
            let end = Duration::try_from(valid_for)
                .ok()
                .and_then(|length| Timestamp::now().checked_add(length).ok());
            entry.expires_at = Some(end.ok_or_else(|| field("valid_for", "is no length of time"))?);
        }
        if !request.working_dir_scope.is_empty() {
            let scope = PathBuf::from(request.working_dir_scope);
            if !is_plain(&scope) {
                let problem = "is not an absolute path without `.` and `..`";
                return Err(field("working_dir_scope", problem).into());
            }
            entry.working_dir_scope = Some(scope);
        }
        Ok(entry)
    }
}

/// Decodes the digest that a file must have.
fn given_digest(index: usize, digest: pb::Digest) -> Result<Digest, InvalidField> {
    let field =
        |name: &str, problem: &str| InvalidField::new(format!("digests[{index}].{name}"), problem);
    let role = Role::parse(&digest.role)
        .ok_or_else(|| field("role", "must be `program`, `interpreter` or `argument`"))?;
    if !hookjail_base::model::is_sha256(&digest.sha256) {
        return Err(field("sha256", "is not 64 lower-case hexadecimal digits"));
    }
    if !is_plain(std::path::Path::new(&digest.path)) {
        return Err(field(
            "path",
            "is not an absolute path without `.` and `..`",
        ));
    }
    Ok(Digest {
        path: digest.path,
        role,
        roots: false,
        sha256: digest.sha256,
    })
}

fn stopped(stop: Stop) -> Status {
    match stop {
        Stop::Refusal(refusal) => status(&refusal, ""),
        Stop::Fault(fault) => {
            tracing::error!(error = chain(&fault), "consent request failed");
            super::status::fault("")
        }
    }
}

fn digest_message(digest: &Digest) -> pb::Digest {
    pb::Digest {
        path: digest.path.clone(),
        role: digest.role.name().to_owned(),
        sha256: digest.sha256.clone(),
    }
}

fn entry_message(entry: &Entry) -> pb::AllowedHook {
    let text = |path: &PathBuf| path.display().to_string();
    pb::AllowedHook {
        // A runtime's own entries hold any text that it wrote there; a text that is not a time is left out.
        approved_at: entry.approved_at.parse().ok().map(timestamp),
        approved_by: entry.approved_by.clone().unwrap_or_default(),
        command: entry.command.clone(),
        digests: entry.digests.iter().map(digest_message).collect(),
        expires_at: entry.expires_at.map(timestamp),
        profile: entry.profile.clone().unwrap_or_default(),
        working_dir_scope: entry
            .working_dir_scope
            .as_ref()
            .map(text)
            .unwrap_or_default(),
    }
}

const fn decision_message(decision: OperatorAnswer) -> pb::ConsentDecision {
    match decision {
        OperatorAnswer::Always => pb::ConsentDecision::Always,
        OperatorAnswer::No => pb::ConsentDecision::No,
        OperatorAnswer::Once => pb::ConsentDecision::Once,
    }
}

type NewsStream = Pin<Box<dyn Stream<Item = Result<pb::WatchResponse, Status>> + Send>>;

#[tonic::async_trait]
impl ConsentService for Operators {
    type WatchStream = NewsStream;

    async fn watch(
        &self,
        request: Request<pb::WatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        self.admit(&request)?;
        let request = request.into_inner();
        let pending = self.consents().pending();
        let (listening, open) = if request.pending_only {
            (None, pending.open(&request.request_id))
        } else {
            let (listening, open) = pending.listen(&request.request_id);
            (Some(listening), open)
        };
        let (sender, receiver) = mpsc::channel(MAX_NEWS);
        tokio::spawn(self.clone().tell(listening, open, sender));
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }

    async fn decide(
        &self,
        request: Request<pb::DecideRequest>,
    ) -> Result<Response<pb::DecideResponse>, Status> {
        let peer = self.admit(&request)?;
        let request = request.into_inner();
        let invalid = |problem| {
            let field = InvalidField::new("decision", problem);
            status(&field.into(), "")
        };
        let decision = pb::ConsentDecision::try_from(request.decision);
        let decision = match decode::known(decision, "decision") {
            Ok(pb::ConsentDecision::Always) => OperatorAnswer::Always,
            Ok(pb::ConsentDecision::Once) => OperatorAnswer::Once,
            Ok(pb::ConsentDecision::No) => OperatorAnswer::No,
            Ok(pb::ConsentDecision::Unspecified) => return Err(invalid("is not given")),
            Err(field) => return Err(status(&field.into(), "")),
        };
        let decided = Decided {
            by: peer.clone(),
            decision,
        };
        let counted = self
            .consents()
            .pending()
            .decide(&request.consent_id, decided);
        tracing::info!(
            id = request.consent_id,
            ?decision,
            %peer,
            counted,
            "question to the operator answered"
        );
        Ok(Response::new(pb::DecideResponse { counted }))
    }

    async fn list_allowed(
        &self,
        request: Request<pb::ListAllowedRequest>,
    ) -> Result<Response<pb::ListAllowedResponse>, Status> {
        self.admit(&request)?;
        let entries = self.consents().allowed();
        let entries = entries.map_err(|refusal| status(&refusal, ""))?;
        Ok(Response::new(pb::ListAllowedResponse {
            allowed: entries.iter().map(entry_message).collect(),
        }))
    }

    async fn allow(
        &self,
        request: Request<pb::AllowRequest>,
    ) -> Result<Response<pb::AllowResponse>, Status> {
        let peer = self.admit(&request)?;
        let entry = self.entry(request.into_inner(), &peer).await;
        let entry = entry.map_err(stopped)?;
        let allowed = Some(entry_message(&entry));
        tracing::info!(command = entry.command, %peer, "command allowed");
        self.consents().allow(entry).await.map_err(stopped)?;
        Ok(Response::new(pb::AllowResponse { allowed }))
    }

    async fn revoke(
        &self,
        request: Request<pb::RevokeRequest>,
    ) -> Result<Response<pb::RevokeResponse>, Status> {
        let peer = self.admit(&request)?;
        let command = request.into_inner().command;
        let revoked = self.consents().revoke(command.clone()).await;
        let revoked = revoked.map_err(stopped)?;
        tracing::info!(command, %peer, revoked, "consent revoked");
        Ok(Response::new(pb::RevokeResponse {
            revoked: u32::try_from(revoked).unwrap_or(u32::MAX),
        }))
    }
}
