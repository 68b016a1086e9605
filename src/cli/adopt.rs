//! `hookjail run --as RUNTIME`: one hook in its runtime's place, so that the runtime notices nothing but refusals.

use std::{
    env,
    io::{self, Read},
    process::ExitCode,
    time::Duration,
};

use tonic::transport::Channel;

use super::{
    Context, Failure, output,
    run::{Run, exit_code, policy},
    served,
};
use crate::{
    contract::native::{Runtime, Said},
    pb::{self, hook_service_client::HookServiceClient},
    policy::environment,
};

/// What recognises the runtime from its payload.
const AUTO: &str = "auto";

/// How much of what a hook prints can be mirrored, both streams together, bytes.
const REPLY: u64 = 64 * 1024 * 1024;

/// How much earlier than the runtime's own timer an answer is given.
const MARGIN: Duration = Duration::from_secs(1);

/// How much longer than the run itself its answer is waited for.
const SLACK: Duration = Duration::from_secs(3);

/// Parses a runtime's name; `None` is to be recognised.
pub(super) fn parse(name: &str) -> Result<Option<Runtime>, String> {
    if name == AUTO {
        return Ok(None);
    }
    let known = Runtime::ALL.into_iter().find(|(known, _)| *known == name);
    known.map(|(_, runtime)| Some(runtime)).ok_or_else(|| {
        let names: Vec<_> = Runtime::ALL.iter().map(|(name, _)| *name).collect();
        format!("one of {AUTO}, {}", names.join(", "))
    })
}

/// Runs a hook, and ends as it did. Where there is no such end, the runtime is told no at a gate, and elsewhere that nothing
/// is to be read from this.
pub(super) fn run(run: &Run, named: Option<Runtime>, context: &Context) -> ExitCode {
    let mut payload = Vec::new();
    let read = io::stdin().lock().read_to_end(&mut payload);
    let Some(runtime) = named.or_else(|| Runtime::recognise(&payload)) else {
        let why =
            "hookjail: the payload on stdin does not tell which runtime this is; name it with --as";
        // Nearly every runtime takes this for a no.
        return say(&Said {
            code: 2,
            stderr: why.to_owned(),
            stdout: String::new(),
        });
    };
    let point = match run.point.as_str() {
        "" => runtime.point(&payload),
        point => Some(point.to_owned()),
    };
    let is_gate = !run.place.observe && (run.place.gate || runtime.is_gate(point.as_deref()));
    let point = point.unwrap_or_default();
    let hook = Hook {
        point: &point,
        run,
        runtime,
    };
    let ended = read
        .map_err(Failure::from)
        .and_then(|_| hook.ask(context, payload));
    match ended.and_then(|response| hook.end(&response)) {
        Ok(Ended {
            said,
            stderr,
            stdout,
        }) => {
            output::stdout(&stdout);
            output::raw_stderr(&stderr);
            ExitCode::from(said)
        }
        Err(failure) => {
            let reason = failure.reason.map(|reason| format!("{reason}: "));
            let why = format!(
                "hookjail: {}{}",
                reason.unwrap_or_default(),
                failure.message
            );
            say(&if is_gate {
                runtime.no(&point, &why)
            } else {
                runtime.failed(&point, &why)
            })
        }
    }
}

fn say(said: &Said) -> ExitCode {
    output::stdout(said.stdout.as_bytes());
    output::stderr(&said.stderr);
    ExitCode::from(said.code)
}

/// A hook in its runtime's place.
struct Hook<'a> {
    point: &'a str,
    run: &'a Run,
    runtime: Runtime,
}

/// How the hook itself ended.
struct Ended {
    said: u8,
    stderr: Vec<u8>,
    stdout: Vec<u8>,
}

impl Hook<'_> {
    fn ask(&self, context: &Context, payload: Vec<u8>) -> Result<pb::ExecuteResponse, Failure> {
        let Some(socket) = served::daemon(context, self.run.connect.as_deref()) else {
            return Err(Failure::new(
                "no daemon is set up: start `hookjail serve`, or name its socket with --connect",
            ));
        };
        let mode = self.runtime.mode();
        let mut request = self.run.request(context, mode, Vec::new())?;
        if let (Some(hook), Some(policy)) = (
            &mut request.hook,
            policy(context, self.run.profile_of(mode)),
        ) {
            // What the runtime tells its hooks, as far as the profile lets it in.
            let told = env::vars_os()
                .filter_map(|(name, value)| {
                    Some((name.into_string().ok()?, value.into_string().ok()?))
                })
                .filter(|(name, _)| environment::admits(&policy, name));
            for (name, value) in told {
                hook.env.entry(name).or_insert(value);
            }
        }
        let request = pb::ExecuteRequest {
            contract: super::run::contract(mode.contract_name())?.into(),
            event: Some(pb::Event {
                json: payload.into(),
                point: self.point.to_owned(),
                raw: true,
            }),
            max_reply_bytes: Some(REPLY),
            mode: mode.mode_name().to_owned(),
            on_failure: if self.run.place.fail_closed {
                pb::OnFailure::Closed.into()
            } else {
                pb::OnFailure::Contract.into()
            },
            ..request
        };
        // The runtime's own timer would let things go on.
        let own = mode.defaults(self.point).timeout;
        let timeout = self
            .run
            .timeout
            .or_else(|| own.map(|own| own.saturating_sub(MARGIN.min(own / 10))));
        let request = pb::ExecuteRequest {
            timeout: timeout.map(prost_types::Duration::try_from).transpose()?,
            ..request
        };
        served::by_daemon(&socket, request, async |channel, request| {
            call(channel, request, timeout).await
        })
    }

    /// Returns how the hook itself ended.
    ///
    /// # Errors
    ///
    /// It did not end by itself, or what it said cannot be given on whole.
    fn end(&self, response: &pb::ExecuteResponse) -> Result<Ended, Failure> {
        use pb::OutcomeKind as Kind;
        let outcome = response.outcome.unwrap_or_default();
        let kind = outcome.kind();
        if !matches!(kind, Kind::Exited | Kind::Signaled) {
            let kind = kind.as_str_name().trim_start_matches("OUTCOME_KIND_");
            let kind = kind.to_lowercase().replace('_', " ");
            return Err(Failure::new(format!("the hook was ended: {kind}")));
        }
        if response.stdout_truncated || response.stderr_truncated || response.cut_for_reply {
            return Err(Failure::new("the hook printed more than can be given on"));
        }
        let verdict = response.verdict.clone().unwrap_or_default();
        let stops = matches!(verdict.decision(), pb::Decision::Block | pb::Decision::Deny);
        if self.run.place.fail_closed && verdict.failed && stops {
            return Err(Failure::new(verdict.reason));
        }
        Ok(Ended {
            said: exit_code(response),
            stderr: response.stderr.to_vec(),
            stdout: response.stdout.to_vec(),
        })
    }
}

/// Asks, and waits no longer than the run may take.
async fn call(
    channel: Channel,
    request: pb::ExecuteRequest,
    timeout: Option<Duration>,
) -> Result<pb::ExecuteResponse, Failure> {
    let largest = usize::try_from(2 * REPLY).unwrap_or(usize::MAX);
    let mut client = HookServiceClient::new(channel).max_decoding_message_size(largest);
    let answer = served::until_interrupted(client.execute(request));
    match timeout {
        None => answer.await,
        Some(timeout) => tokio::time::timeout(timeout + SLACK, answer)
            .await
            .unwrap_or_else(|_| Err(Failure::new("the daemon did not answer in time"))),
    }
}
