//! Callers, each with a connection of its own, whose hooks say themselves that they ran.

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

/// How long a caller waits before it asks again.
const PAUSE: Duration = Duration::from_millis(20);

/// What a caller was told.
#[derive(Clone, Debug)]
pub(crate) enum Said {
    /// The hook ran, and this became of it.
    Ended(Box<pb::ExecuteResponse>),
    /// It was refused.
    Refused {
        /// The stable reason.
        reason: String,
        /// That it ran all the same.
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
    pub(crate) fn of(
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

    /// Whether the hook may be asked for again under the same id: the caller knows that it did not run.
    fn did_not_run(&self) -> bool {
        matches!(
            self,
            Self::Refused {
                released: false,
                ..
            }
        )
    }

    /// Whether its caller asks for the hook again: it did not run, and the caller's time is not over.
    fn may_be_repeated(&self) -> bool {
        let is_late = matches!(self, Self::Refused { reason, .. } if reason == "DEADLINE");
        self.did_not_run() && !is_late
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
    /// The request's id; the same again where a caller asked again.
    pub(crate) id: String,
    /// Which caller.
    pub(crate) caller: usize,
    /// When it asked.
    pub(crate) asked: Instant,
    /// When it was answered.
    pub(crate) answered: Instant,
    /// What it was told.
    pub(crate) said: Said,
}

/// Who calls and is none of the load's callers.
pub(crate) const NO_CALLER: usize = usize::MAX;

impl Call {
    /// Returns a call of somebody who is none of the load's callers.
    pub(crate) fn new(id: String, asked: Instant, said: Said) -> Self {
        Self {
            id,
            caller: NO_CALLER,
            asked,
            answered: Instant::now(),
            said,
        }
    }
}

/// Where hooks leave their marks.
const MARKS: &str = "ran";

/// How a hook does: it is told its id by its event, so that the same command does for all.
const MARK: &str = "read -r id; echo $id >>ran || exit 9";

/// The hook that is a script.
const SCRIPT: &str = "hook.sh";

/// Makes the file in which hooks, whatever their uid, say that they ran.
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

/// Returns a request whose hook first says that it ran, and then does something in `sh`.
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

/// Callers that ask one hook after the other until they are told to stop.
#[derive(Debug)]
pub(crate) struct Load {
    calls: Arc<Mutex<Vec<Call>>>,
    callers: Vec<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
}

impl Load {
    /// Has so many callers begin, the ids of whose requests begin with a word of their own. `marker` is an argument of every
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
                let asked = Instant::now();
                let answer = tokio::time::timeout(PATIENCE, client.execute(request.clone())).await;
                let said = Said::of(answer);
                let (again, ended) = (said.may_be_repeated(), matches!(said, Said::Ended(_)));
                self.calls.lock().unwrap().push(Call {
                    id: id.clone(),
                    caller: self.number,
                    asked,
                    answered: Instant::now(),
                    said,
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
        match number % 16 {
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

/// Returns a channel that connects when it is used first, and again whenever its connection is lost: to whoever listens then.
pub(crate) fn reconnecting(socket: PathBuf) -> Channel {
    endpoint().connect_with_connector_lazy(service_fn(move |_| dial(socket.clone())))
}

/// Whether an answer says that the hook came to its own end.
pub(crate) fn says_it_is_done(said: &Said) -> bool {
    let Said::Ended(response) = said else {
        return false;
    };
    let outcome = response.outcome.unwrap();
    outcome.kind() == OutcomeKind::Exited && outcome.exit_code == Some(0)
}

/// Whether an answer says that the hook did not run.
pub(crate) fn says_it_did_not_run(said: &Said) -> bool {
    match said {
        Said::Ended(response) => response.outcome.unwrap().kind() == OutcomeKind::ExecFailed,
        Said::Refused { .. } | Said::Fault | Said::Lost | Said::Nothing | Said::Unheard => {
            said.did_not_run()
        }
    }
}
