//! `hookjail status`: whether the daemon serves, and how it is.

use std::{path::PathBuf, process::ExitCode};

use clap::Args;
use jiff::Timestamp;
use tonic::transport::Channel;

use hookjail_base::model::plain;
use hookjail_client::{
    Failure,
    output::{self, Style},
    server::by_daemon,
};
use hookjail_proto::{self as pb, admin_service_client::AdminServiceClient};

use super::{
    Context,
    admin::{answered, socket_of_running},
    ps::length,
};
use hookjail_daemon::wire::json;

/// The exit code of a daemon that is there and serves nothing.
const NOT_SERVING: u8 = 1;

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
        let status = by_daemon(&socket, pb::StatusRequest {}, async |channel, request| {
            let mut client = AdminServiceClient::<Channel>::new(channel);
            answered(client.status(request).await)
        })?;
        if context.call.json {
            output::json_line(&json::render(&status, "hookjail.v1.StatusResponse")?);
        } else {
            output::text(&text(&status, Style::of_stdout()));
        }
        Ok(if status.serving {
            ExitCode::SUCCESS
        } else {
            ExitCode::from(NOT_SERVING)
        })
    }
}

fn text(status: &pb::StatusResponse, style: Style) -> String {
    let summary = plain(&status.summary);
    let summary = if status.serving {
        style.good(&summary)
    } else {
        style.bad(&summary)
    };
    let or = |text: &str, other: &str| plain(if text.is_empty() { other } else { text });
    let rows = [
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
        (
            "hooks",
            format!(
                "{} running, {} queued, {} questions to the operator",
                status.running, status.queued, status.questions
            ),
        ),
        (
            "journal",
            journal(&status.journal.clone().unwrap_or_default()),
        ),
        (
            "configuration",
            configuration(&status.configuration.clone().unwrap_or_default()),
        ),
    ];
    let rows = rows.map(|(name, value)| format!("  {name:<14}{value}\n"));
    format!(
        "hookjail {}: {summary}\n{}",
        plain(&status.version),
        rows.concat()
    )
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
    plain(&match plaintext_uid {
        None => format!("{address}, mutual TLS, {clients} clients, {users} users"),
        Some(uid) => format!("{address}, WITHOUT TLS: everybody is uid {uid}"),
    })
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
        (at, "") => format!("last export {}", time(*at)),
        (at, problem) => format!("last export failed {}: {problem}", time(*at)),
    };
    plain(&format!("{endpoint}, {dropped} spans dropped, {last}"))
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
    plain(&all.join(", "))
}

fn profiles(profiles: &[pb::ProfileConfirmation]) -> String {
    let names = |confirmed: bool| {
        let of_kind = profiles.iter().filter(|it| it.confirmed == confirmed);
        let names: Vec<_> = of_kind.map(|it| it.name.as_str()).collect();
        names.join(", ")
    };
    let (confirmed, not) = (names(true), names(false));
    plain(&match (confirmed.as_str(), not.as_str()) {
        ("", "") => "none".to_owned(),
        (all, "") => format!("{all}: confirmed"),
        ("", none) => format!("{none}: not confirmed"),
        (some, others) => format!("{some}: confirmed; {others}: not confirmed"),
    })
}

fn journal(journal: &pb::JournalStatus) -> String {
    let pb::JournalStatus {
        directory,
        failures,
        last_failure,
        problem,
        records,
    } = journal;
    let failed = last_failure.map_or_else(String::new, |at| {
        format!(", {failures} failures, the last at {}", time(Some(at)))
    });
    let problem = match problem.as_str() {
        "" => String::new(),
        problem => format!("; cannot be written: {problem}"),
    };
    plain(&format!(
        "{directory}, {records} records written{failed}{problem}"
    ))
}

fn configuration(configuration: &pb::ConfigurationStatus) -> String {
    let loaded = format!("loaded {}", time(configuration.loaded));
    let Some(refused) = configuration.refused else {
        return loaded;
    };
    let refused = time(Some(refused));
    // An error of TOML goes on with a picture of the place.
    let why = configuration.refusal.lines().next().unwrap_or_default();
    plain(&format!("{loaded}; reload refused {refused}: {why}"))
}

/// Renders a time to the second.
fn time(at: Option<prost_types::Timestamp>) -> String {
    let at = at.and_then(|at| Timestamp::from_second(at.seconds).ok());
    at.map_or_else(|| "?".to_owned(), |at| at.to_string())
}
