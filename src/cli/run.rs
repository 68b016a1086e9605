//! `hookjail run`: runs one hook, by a daemon or privately.

use std::{
    fs,
    io::{self, IsTerminal, Read},
    os::fd::AsFd,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Instant,
};

use nix::poll::{PollFd, PollFlags, poll};
use tonic::transport::Channel;
use uuid::Uuid;

use hookjail_base::model::{Consent, plain};
use hookjail_client::{
    FAILED, Failure, Local, RunArgs,
    arguments::{as_typed, contract, exit_code, with_place},
    connect, output,
    run_as::{self, Way},
    server,
};
use hookjail_policy::WorkspaceRoots;
use hookjail_proto::{self as pb, hook_service_client::HookServiceClient};

use super::{
    Context,
    consent::asking,
    private_server, rehearse,
    rows::shell_line,
    show::{show, show_preview},
};
use hookjail_daemon::{config::Config, consent::ConsentRule, daemon::Assembly, wire::json};

/// The warning where nothing confined a hook.
pub(super) const UNCONFINED: &str =
    "hookjail: the hook ran UNCONFINED: backend `noop` confines nothing";
/// The silence of stdin after which a hint is printed, milliseconds.
const STDIN_SILENCE_MS: u16 = 2000;

/// Runs a hook, in a runtime's place if the command line names one.
pub(super) fn run(arguments: &RunArgs, context: &Context) -> Result<ExitCode, Failure> {
    if let Some(name) = &arguments.place.runtime {
        return Ok(match run_as::parse(name) {
            Ok(runtime) if arguments.place.rehearse => {
                rehearse::in_place(arguments, runtime, context)
            }
            Ok(runtime) => run_as::run(arguments, runtime, &context.call, &AnyAddress),
            Err(names) => run_as::refuse(arguments, &names),
        });
    }
    let daemon = server::of_call(
        &context.call,
        arguments.connect.as_deref(),
        arguments.private,
    );
    let served_by = server::described(daemon.as_deref());
    let event = event(arguments.event.as_deref())?;
    let request = pb::ExecuteRequest {
        contract: contract(&arguments.contract)?.into(),
        request_id: Uuid::now_v7().to_string(),
        ..arguments.request(&context.call, event, Path::to_owned)?
    };
    if arguments.dry_run {
        let response = call(context, daemon, request, preview)?;
        if context.call.json {
            output::json_line(&json::render(&response, "hookjail.v1.PreviewResponse")?);
        } else {
            show_preview(&response);
        }
        return Ok(match response.refusal {
            None => ExitCode::SUCCESS,
            Some(_) => ExitCode::from(FAILED),
        });
    }
    // Consent questions are shown at this terminal, if the daemon accepts this user's answer.
    let is_asked = daemon.is_some() && !context.call.json && io::stderr().is_terminal();
    let response = call(context, daemon, request, async |channel, request| {
        ask(channel, request, is_asked).await
    })?;
    let confinement = response.confinement.as_ref();
    if confinement.is_some_and(|it| it.unconfined) {
        output::stderr(UNCONFINED);
    }
    if context.call.json {
        let mut reply = json::render(&response, "hookjail.v1.ExecuteResponse")?;
        reply["servedBy"] = served_by.into();
        output::json_line(&reply);
    } else if arguments.mirror {
        mirror(&response);
    } else {
        let command = shell_line(&arguments.command);
        let learn = format!("hookjail learn -- {command}");
        show(&response, (&served_by, arguments.verbose), &learn);
    }
    Ok(ExitCode::from(exit_code(&response)))
}

/// Calls in a hook's place, over the network too.
struct AnyAddress;

impl Way for AnyAddress {
    fn execute(
        &self,
        daemon: &Path,
        request: pb::ExecuteRequest,
        until: Option<Instant>,
    ) -> Result<pb::ExecuteResponse, Failure> {
        if connect::url(daemon).is_none() {
            return Local.execute(daemon, request, until);
        }
        server::by_daemon(daemon, request, async |channel, request| {
            let answer = run_as::call(HookServiceClient::new(channel), request, until);
            match until {
                None => answer.await,
                Some(until) => tokio::time::timeout_at(until.into(), answer)
                    .await
                    .unwrap_or_else(|_| Err(run_as::late())),
            }
        })
    }

    fn preview(
        &self,
        daemon: &Path,
        request: pb::PreviewRequest,
    ) -> Result<pb::PreviewResponse, Failure> {
        if connect::url(daemon).is_none() {
            return Local.preview(daemon, request);
        }
        server::by_daemon(daemon, request, async |channel, request| {
            run_as::preview(HookServiceClient::new(channel), request).await
        })
    }
}

/// Calls a daemon, or a private server.
fn call<T>(
    context: &Context,
    daemon: Option<PathBuf>,
    request: pb::ExecuteRequest,
    call: impl AsyncFnOnce(Channel, pb::ExecuteRequest) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let answer = match daemon {
        Some(socket) => server::by_daemon(&socket, request, call),
        None => {
            let (config, consent) = private(context, &request)?;
            private_server::privately(config, consent, request, call)
        }
    };
    answer.map_err(|failure| match context.call.json {
        true => failure,
        false => Failure {
            message: with_place(as_typed(&failure.message)),
            ..failure
        },
    })
}

/// Returns the private daemon's configuration: the user's own, with this command allowed.
pub(super) fn private(
    context: &Context,
    request: &pb::ExecuteRequest,
) -> Result<(Config, ConsentRule), Failure> {
    let mut config = context.load()?;
    let named = request
        .hook
        .as_ref()
        .map(|hook| PathBuf::from(&hook.workspace));
    let offered = (request.offer.as_ref()).map(|offer| PathBuf::from(&offer.workspace));
    let [named, offered] = [named, offered].map(|it| it.filter(|path| path.is_absolute()));
    if named.is_none() && offered.is_none() {
        return Ok((config, ConsentRule::Given(Consent::Typed)));
    }
    let (homes, judge) = judge(context, &config)?;
    let mut add = |workspace: &Path| config.workspace_roots.add(workspace, &homes, &judge);
    if let Some(workspace) = named {
        let added = add(&workspace);
        added.map_err(|why| Failure::new(format!("`{}` {why}", workspace.display())))?;
    }
    // Refused or withheld where the profile needs it, by the reason that the request's check has then.
    if let Some(workspace) = offered {
        add(&workspace).ok();
    }
    // Typing a command is consent to it, under the typed profile.
    Ok((config, ConsentRule::Given(Consent::Typed)))
}

/// Returns the user's homes, and the roots by which directories of a typed command are judged.
pub(super) fn judge(
    context: &Context,
    config: &Config,
) -> Result<(Vec<PathBuf>, WorkspaceRoots), Failure> {
    let registry = Assembly::registry(config)?;
    let roots = Assembly::roots(config, &registry);
    Ok((context.call.paths.own_homes(), roots))
}

/// Prints the hook's output, and notes where it is incomplete.
fn mirror(response: &pb::ExecuteResponse) {
    output::raw(&response.stdout);
    output::raw_stderr(&response.stderr);
    if response.stdout_truncated || response.stderr_truncated || response.cut_for_reply {
        output::stderr("hookjail: the hook printed more than is kept");
    }
    if !response.exec_problem.is_empty() {
        output::stderr(&format!("hookjail: {}", plain(&response.exec_problem)));
    }
}

/// Reads the event: a file, or stdin unless that is a terminal.
pub(super) fn event(file: Option<&Path>) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    match file {
        Some(path) if path.as_os_str() != "-" => {
            bytes = fs::read(path).map_err(|error| {
                Failure::new(format!(
                    "cannot read the event `{}`: {error}",
                    path.display()
                ))
            })?;
        }
        None if io::stdin().is_terminal() => {}
        Some(_) | None => {
            hint_at_waiting();
            io::stdin().lock().read_to_end(&mut bytes)?;
        }
    }
    Ok(bytes)
}

/// Hints on stderr that this program waits for its event.
fn hint_at_waiting() {
    let stdin = io::stdin();
    let mut ready = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
    if poll(&mut ready, STDIN_SILENCE_MS) == Ok(0) {
        output::stderr(
            "hookjail: the event is read from stdin, which is open and silent; give --event FILE, or </dev/null",
        );
    }
}

/// Calls until there is an answer or a signal, and shows consent questions at this terminal if it is to be asked.
///
/// The dropped call then ends the run.
async fn ask(
    channel: Channel,
    request: pb::ExecuteRequest,
    is_asked: bool,
) -> Result<pb::ExecuteResponse, Failure> {
    let id = request.request_id.clone();
    let mut service = HookServiceClient::new(channel.clone());
    let answer = connect::execute(&mut service, connect::in_trace(request));
    let answer = server::until_interrupted(answer);
    match is_asked {
        true => asking(channel, id, answer).await,
        false => answer.await,
    }
}

/// Requests a preview.
async fn preview(
    channel: Channel,
    request: pb::ExecuteRequest,
) -> Result<pb::PreviewResponse, Failure> {
    let request = pb::PreviewRequest {
        request: Some(request),
    };
    let request = connect::in_trace(request);
    let response = HookServiceClient::new(channel).preview(request).await;
    Ok(response.map_err(connect::refused)?.into_inner())
}
