//! Callers, each with a connection of its own, whose hooks mark themselves that they ran.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use hookjail::pb::{self, OutcomeKind, hook_service_client::HookServiceClient};
use tokio::task::JoinHandle;
use tonic::{Status, transport::Channel};
use tonic_types::StatusExt;
use tower::service_fn;

use crate::{
    support::{dial, endpoint, sh},
    witness::event,
};

/// After which time a caller gives up: far longer than any call may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// The time for which a caller waits before a retry.
const PAUSE: Duration = Duration::from_millis(20);

/// The answer to a caller.
#[derive(Clone, Debug)]
pub(crate) enum Said {
    /// The hook ran, with this result.
    Ended(Box<pb::ExecuteResponse>),
    /// The request was refused.
    Refused {
        message: String,
        /// The stable reason.
        reason: String,
        /// Whether the hook ran all the same.
        released: bool,
    },
    /// Something broke on the daemon's side.
    Fault,
    /// The connection was lost or could not be made.
    Lost,
    /// Nothing, for as long as anybody would wait.
    Nothing,
    /// The caller went away before.
    Unheard,
}

impl Said {
    /// Reads an answer.
    pub(crate) fn from_answer(
        answer: Result<Result<tonic::Response<pb::ExecuteResponse>, Status>, impl Sized>,
    ) -> Self {
        let status = match answer {
            Ok(Ok(response)) => return Self::Ended(Box::new(response.into_inner())),
            Ok(Err(status)) => status,
            Err(_) => return Self::Nothing,
        };
        let details = status.get_error_details();
        if let Some(info) = details.error_info() {
            return Self::Refused {
                message: status.message().to_owned(),
                reason: info.reason.clone(),
                released: info.metadata.contains_key("released"),
            };
        }
        if details.request_info().is_some() {
            Self::Fault
        } else {
            Self::Lost
        }
    }

    /// Whether the request may be retried under the same id: the answer proves that the hook did not run.
    fn did_not_run(&self) -> bool {
        matches!(
            self,
            Self::Refused {
                released: false,
                ..
            }
        )
    }

    /// Whether its caller retries: the hook did not run, and the caller's time is not over.
    fn may_be_repeated(&self) -> bool {
        let is_late = matches!(self, Self::Refused { reason, .. } if reason == "DEADLINE");
        self.did_not_run() && !is_late
    }

    /// Returns the message of a refusal.
    pub(crate) fn refusal(&self) -> Option<&str> {
        match self {
            Self::Refused { message, .. } => Some(message),
            Self::Ended(_) | Self::Fault | Self::Lost | Self::Nothing | Self::Unheard => None,
        }
    }

    /// Returns it in a word or two.
    pub(crate) fn label(&self) -> String {
        match self {
            Self::Ended(response) => {
                let outcome = response.outcome.unwrap();
                let kind = outcome.kind().as_str_name();
                let kind = kind.trim_start_matches("OUTCOME_KIND_");
                match outcome.exit_code {
                    None | Some(0) => kind.to_owned(),
                    Some(code) => format!("{kind} {code}"),
                }
            }
            Self::Refused {
                reason,
                released: true,
                ..
            } => format!("{reason} (ran)"),
            Self::Refused { reason, .. } => reason.clone(),
            Self::Fault => "INTERNAL".to_owned(),
            Self::Lost => "connection lost".to_owned(),
            Self::Nothing => "no answer".to_owned(),
            Self::Unheard => "(caller gone)".to_owned(),
        }
    }
}

/// One call and what came of it.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// The request's id; the same for a retry.
    pub(crate) id: String,
    /// The caller's number.
    pub(crate) caller: usize,
    /// The time of the request.
    pub(crate) asked: Instant,
    /// The time of the answer.
    pub(crate) answered: Instant,
    /// The answer.
    pub(crate) said: Said,
}

/// The number of the load's requests after which each caller begins anew with the same hooks.
pub(crate) const HOOKS: usize = 16;

/// The number of a caller outside of the load.
pub(crate) const NO_CALLER: usize = usize::MAX;

impl Call {
    /// Returns a call of a caller outside of the load.
    pub(crate) fn new(id: String, begun: Instant, reply: Said) -> Self {
        Self {
            id,
            caller: NO_CALLER,
            asked: begun,
            answered: Instant::now(),
            said: reply,
        }
    }

    /// Returns the number of the load's hook that has ended by this answer.
    pub(crate) fn ended_hook(&self) -> Option<usize> {
        let (_, count) = self.id.rsplit_once('-')?;
        let count: usize = count.parse().ok()?;
        let is_end = self.caller != NO_CALLER && matches!(self.said, Said::Ended(_));
        is_end.then(|| (self.caller + count) % HOOKS)
    }
}

/// The file in which hooks leave their marks.
const MARKS: &str = "ran";

/// The script by which a hook marks its run: its event has its id, so that the same command does for all.
const MARK: &str = "read -r id; echo $id >>ran || exit 9";

/// The hook that is a script.
const SCRIPT: &str = "hook.sh";

/// Makes the file in which hooks of any uid mark that they ran.
pub(crate) fn make_marks(workspace: &Path) {
    let marks = workspace.join(MARKS);
    if !marks.exists() {
        fs::write(&marks, "").unwrap();
        fs::set_permissions(&marks, fs::Permissions::from_mode(0o666)).unwrap();
    }
}

/// Makes a hook that is a script of its own, which is copied for every run.
pub(crate) fn make_script(workspace: &Path, marker: &str) {
    let script = workspace.join(SCRIPT);
    fs::write(&script, format!("#!/bin/sh\n{MARK}; : {marker}\n")).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Returns how often the hook of each request ran.
pub(crate) fn marks(workspace: &Path) -> BTreeMap<String, usize> {
    let mut marks = BTreeMap::new();
    for id in fs::read_to_string(workspace.join(MARKS)).unwrap().lines() {
        *marks.entry(id.to_owned()).or_default() += 1;
    }
    marks
}

/// Returns a request whose hook first marks that it ran, and then does something in `sh`.
pub(crate) fn marking(workspace: &Path, id: &str, script: &str) -> pb::ExecuteRequest {
    let mut request = sh("workspace-rw", &format!("{MARK}; {script}"));
    request.event = event(format!("{id}\n"));
    request.hook.as_mut().unwrap().workspace = workspace.display().to_string();
    request.request_id = id.to_owned();
    request.timeout = Some(milliseconds(10_000));
    request
}

pub(crate) fn milliseconds(count: i32) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::from(count / 1000),
        nanos: count % 1000 * 1_000_000,
    }
}

/// Callers that request one hook after the other until they are stopped.
#[derive(Debug)]
pub(crate) struct Load {
    calls: Arc<Mutex<Vec<Call>>>,
    callers: Vec<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
}

impl Load {
    /// Has a number of callers begin, the ids of whose requests begin with a word of their own. `marker` is an argument of every
    /// process of their hooks.
    pub(crate) fn begin(
        callers: usize,
        word: &str,
        socket: &Path,
        workspace: &Path,
        marker: &str,
    ) -> Self {
        let calls = Arc::default();
        let stop = Arc::default();
        let caller = |number| {
            let caller = Caller {
                calls: Arc::clone(&calls),
                marker: marker.to_owned(),
                number,
                socket: socket.to_owned(),
                stop: Arc::clone(&stop),
                word: word.to_owned(),
                workspace: workspace.to_owned(),
            };
            tokio::spawn(caller.ask())
        };
        Self {
            callers: (0..callers).map(caller).collect(),
            calls,
            stop,
        }
    }

    /// Returns how many callers there are.
    pub(crate) fn callers(&self) -> usize {
        self.callers.len()
    }

    /// Looks at the calls that were answered so far.
    pub(crate) fn so_far<T>(&self, look: impl FnOnce(&[Call]) -> T) -> T {
        look(&self.calls.lock().unwrap())
    }

    /// Has each caller make its call to the end and no other; returns all.
    pub(crate) async fn end(self) -> Vec<Call> {
        self.stop.store(true, Ordering::Relaxed);
        for caller in self.callers {
            caller.await.unwrap();
        }
        std::mem::take(&mut self.calls.lock().unwrap())
    }
}

struct Caller {
    calls: Arc<Mutex<Vec<Call>>>,
    marker: String,
    number: usize,
    socket: PathBuf,
    stop: Arc<AtomicBool>,
    word: String,
    workspace: PathBuf,
}

impl Caller {
    /// Asks for one hook after the other; for the same again where it did not run for another reason than its deadline.
    async fn ask(self) {
        let mut client = HookServiceClient::new(reconnecting(self.socket.clone()));
        let mut count = 0;
        while !self.stop.load(Ordering::Relaxed) {
            let id = format!("{}-{}-{count}", self.word, self.number);
            let request = self.request(&id, self.number + count);
            count += 1;
            loop {
                let begun = Instant::now();
                let answer = tokio::time::timeout(PATIENCE, client.execute(request.clone())).await;
                let reply = Said::from_answer(answer);
                let (again, ended) = (reply.may_be_repeated(), matches!(reply, Said::Ended(_)));
                self.calls.lock().unwrap().push(Call {
                    id: id.clone(),
                    caller: self.number,
                    asked: begun,
                    answered: Instant::now(),
                    said: reply,
                });
                if !ended {
                    tokio::time::sleep(PAUSE).await;
                }
                if !again || self.stop.load(Ordering::Relaxed) {
                    break;
                }
            }
        }
    }

    /// Most hooks are over at once; some are scripts, take their time, leave processes and files behind, or run into their deadline.
    fn request(&self, id: &str, number: usize) -> pb::ExecuteRequest {
        let marker = &self.marker;
        let sleeps = format!("sleep {marker}");
        match number % HOOKS {
            3 | 11 => marking(&self.workspace, id, &format!("sleep 0.2; : {marker}")),
            5 => {
                let script = format!("echo litter >$TMPDIR/litter; {sleeps} & {sleeps} & exit 0");
                marking(&self.workspace, id, &script)
            }
            9 => pb::ExecuteRequest {
                timeout: Some(milliseconds(100)),
                ..marking(&self.workspace, id, &format!("{sleeps} & {sleeps}"))
            },
            13 => {
                let mut request = marking(&self.workspace, id, "");
                let script = self.workspace.join(SCRIPT).display().to_string();
                request.hook.as_mut().unwrap().argv = vec![script];
                request
            }
            _ => marking(&self.workspace, id, &format!(": {marker}")),
        }
    }
}

/// Returns a channel that connects when it is used first, and again whenever its connection is lost: to the daemon that listens then.
pub(crate) fn reconnecting(socket: PathBuf) -> Channel {
    endpoint().connect_with_connector_lazy(service_fn(move |_| dial(socket.clone())))
}

/// Whether an answer reports that the hook came to its own end.
pub(crate) fn says_it_is_done(reply: &Said) -> bool {
    let Said::Ended(response) = reply else {
        return false;
    };
    let outcome = response.outcome.unwrap();
    outcome.kind() == OutcomeKind::Exited && outcome.exit_code == Some(0)
}

/// Whether an answer reports that the hook did not run.
pub(crate) fn says_it_did_not_run(reply: &Said) -> bool {
    match reply {
        Said::Ended(response) => response.outcome.unwrap().kind() == OutcomeKind::ExecFailed,
        Said::Refused { .. } | Said::Fault | Said::Lost | Said::Nothing | Said::Unheard => {
            reply.did_not_run()
        }
    }
}
