//! `hookjail status`: whether the daemon serves, and how it is.

use std::{path::PathBuf, process::ExitCode, time::Duration};

use clap::Args;
use jiff::Timestamp;

use hookjail_client::{
    Failure,
    output::{self, Style},
};
use hookjail_proto as pb;

use super::{
    Context,
    admin::{ask, socket_of_running},
    install::Here,
    log::Troubles,
    ps::length,
    rows::Rows,
    success,
};
use hookjail_daemon::wire::json;

/// Show whether the daemon serves, and how it is.
///
/// Exits with 0 where it serves, with 1 where it refuses every request, with 125 where none can be reached.
#[derive(Debug, Args)]
pub(super) struct StatusArgs {
    /// The daemon's admin socket [default: that of the configuration]
    #[arg(long, value_name = "ADDR")]
    connect: Option<PathBuf>,
}

impl StatusArgs {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        let socket = socket_of_running(context, self.connect.as_deref())?;
        let status = ask(&socket, async |client| {
            client.status(pb::StatusRequest {}).await
        })?;
        // A configuration that was broken since is the daemon's to report.
        let local = Here::look(context);
        // The journal of another user's daemon is asked by `hookjail log --connect`.
        let troubles = Troubles::read(context).unwrap_or_default();
        if context.call.json {
            let mut status = json::render(&status, "hookjail.v1.StatusResponse")?;
            status["refusedHere"] = local.ok().map(|local| local.refused).into();
            status["deniedHooks"] = troubles.denied.into();
            status["hooksWithoutWorkspace"] = troubles.without_workspace.into();
            status["refusedCalls"] = troubles.refused_calls.into();
            status["refusedSince"] = troubles.refused_since.map(|it| it.to_string()).into();
            output::json_line(&status);
        } else {
            rows(&status, local.as_ref(), &troubles).print();
        }
        Ok(success(status.serving))
    }
}

fn rows(status: &pb::StatusResponse, local: Result<&Here, &Failure>, troubles: &Troubles) -> Rows {
    let style = Style::of_stdout();
    let summary = match status.serving {
        true => style.good(&status.summary),
        false => style.bad(&status.summary),
    };
    let or = |text: &str, other: &str| if text.is_empty() { other } else { text }.to_owned();
    let hooks = format!(
        "{} running, {} queued, {} questions to the operator",
        status.running, status.queued, status.questions
    );
    let mut rows = Rows::plain("  ", 14);
    rows.line(format!("hookjail {}: {summary}", status.version));
    rows.row(
        "hooks here",
        match local {
            Ok(local) if local.refused == 0 => local.to_string(),
            Ok(local) => style.bad(&local.to_string()),
            Err(failure) => {
                let why = failure.message.lines().next().unwrap_or_default();
                style.bad(&format!("unknown: {why}"))
            }
        },
    );
    for (name, value) in troubles.words() {
        rows.row(name, style.bad(&value));
    }
    if let Some(value) = troubles.workspace() {
        rows.row("workspace", value);
    }
    for (name, value) in [
        (
            "process",
            format!("{}, up {}", status.pid, length(status.uptime)),
        ),
        (
            "socket",
            or(&status.socket, "passed by the service manager"),
        ),
        ("admin socket", or(&status.admin_socket, "none")),
        ("metrics", or(&status.metrics, "off")),
        ("network", network(status.network.as_ref())),
        ("traces", traces(status.traces.as_ref())),
        ("backends", backends(&status.backends)),
        ("profiles", profiles(&status.profiles)),
        ("hooks", hooks),
        ("interpreters", waiting(&status.waiting.unwrap_or_default())),
        (
            "journal",
            journal(&status.journal.clone().unwrap_or_default()),
        ),
        (
            "configuration",
            configuration(&status.configuration.clone().unwrap_or_default()),
        ),
    ] {
        rows.row(name, value);
    }
    rows
}

fn network(network: Option<&pb::NetworkStatus>) -> String {
    let Some(network) = network else {
        return "off".to_owned();
    };
    let pb::NetworkStatus {
        address,
        clients,
        plaintext_uid,
        users,
    } = network;
    match plaintext_uid {
        None => format!("{address}, mutual TLS, {clients} clients, {users} users"),
        Some(uid) => format!("{address}, WITHOUT TLS: every caller is uid {uid}"),
    }
}

fn traces(traces: Option<&pb::TracesStatus>) -> String {
    let Some(traces) = traces else {
        return "off".to_owned();
    };
    let pb::TracesStatus {
        dropped,
        endpoint,
        last_export,
        problem,
    } = traces;
    let last = match (last_export, problem.as_str()) {
        (None, _) => "nothing exported yet".to_owned(),
        (exported, "") => format!("last export {}", time(*exported)),
        (failed, problem) => format!("last export failed {}: {problem}", time(*failed)),
    };
    format!("{endpoint}, {dropped} spans dropped, {last}")
}

/// Returns how many interpreters wait, and what that has saved.
fn waiting(waiting: &pb::WaitingStatus) -> String {
    let pb::WaitingStatus {
        discarded,
        processes,
        runs,
        saved,
    } = waiting;
    let saved = saved.and_then(|saved| Duration::try_from(saved).ok());
    let saved = saved.unwrap_or_default().as_secs_f64();
    format!(
        "{processes} waiting, {runs} runs began in one and saved {saved:.1} s, {discarded} ended unused"
    )
}

fn backends(backends: &[pb::BackendStatus]) -> String {
    let one = |backend: &pb::BackendStatus| {
        let pb::BackendStatus {
            available,
            backend,
            confines,
            reason,
            ..
        } = backend;
        match (available, confines) {
            (false, _) => format!("{backend} (not here: {reason})"),
            (true, false) => format!("{backend} (UNCONFINED)"),
            (true, true) => backend.clone(),
        }
    };
    let all: Vec<_> = backends.iter().map(one).collect();
    all.join(", ")
}

fn profiles(profiles: &[pb::ProfileConfirmation]) -> String {
    let names = |confirmed: bool| {
        let of_kind = profiles.iter().filter(|it| it.confirmed == confirmed);
        let names: Vec<_> = of_kind.map(|it| it.name.as_str()).collect();
        names.join(", ")
    };
    let (confirmed, not) = (names(true), names(false));
    match (confirmed.as_str(), not.as_str()) {
        ("", "") => "none".to_owned(),
        (all, "") => format!("{all}: confirmed"),
        ("", none) => format!("{none}: not confirmed"),
        (some, others) => format!("{some}: confirmed; {others}: not confirmed"),
    }
}

fn journal(journal: &pb::JournalStatus) -> String {
    let pb::JournalStatus {
        directory,
        failures,
        last_failure,
        problem,
        records,
    } = journal;
    let failed = last_failure.map_or_else(String::new, |failed| {
        format!(", {failures} failures, the last at {}", time(Some(failed)))
    });
    let problem = match problem.as_str() {
        "" => String::new(),
        problem => format!("; cannot be written: {problem}"),
    };
    format!("{directory}, {records} records written{failed}{problem}")
}

fn configuration(configuration: &pb::ConfigurationStatus) -> String {
    let version = match configuration.policy_version.as_str() {
        "" => String::new(),
        version => format!("policy {version}, "),
    };
    let loaded = format!("{version}loaded {}", time(configuration.loaded));
    let Some(refused) = configuration.refused else {
        return loaded;
    };
    let refused = time(Some(refused));
    // An error of TOML goes on with a picture of the place.
    let why = configuration.refusal.lines().next().unwrap_or_default();
    format!("{loaded}; reload refused {refused}: {why}")
}

/// Renders a time to the second.
fn time(time: Option<prost_types::Timestamp>) -> String {
    let time = time.and_then(|time| Timestamp::from_second(time.seconds).ok());
    time.map_or_else(|| "?".to_owned(), |time| time.to_string())
}
