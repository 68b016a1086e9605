//! `hookjail ps` and `hookjail kill`: the runs that a daemon has in work.

use std::{path::PathBuf, process::ExitCode, time::Duration};

use clap::Args;
use nix::unistd::{Uid, User};

use hookjail_base::model::plain;
use hookjail_client::{
    Failure,
    output::{self, Style},
};
use hookjail_proto as pb;

use super::{
    Context,
    admin::{ask, socket},
    rows::quoted,
};
use hookjail_daemon::wire::json;

/// Maximum number of characters of a command that a line shows.
const COMMAND_CHARS: usize = 60;

/// List the hooks that the daemon has in work.
///
/// A hook is `queued` (no place is free), `asking` (an operator has to allow it), `starting` or `running`.
#[derive(Debug, Args)]
pub(super) struct PsArgs {
    /// The daemon's admin socket [default: that of the configuration]
    #[arg(long, value_name = "ADDR")]
    connect: Option<PathBuf>,
}

impl PsArgs {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        let socket = socket(context, self.connect.as_deref())?;
        let response = ask(&socket, async |client| {
            client.list_runs(pb::ListRunsRequest {}).await
        })?;
        if context.call.json {
            output::json_line(&json::render(&response, "hookjail.v1.ListRunsResponse")?);
        } else {
            output::text(&table(&response.runs));
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Kill a hook that the daemon has in work, with all its processes.
///
/// The answer and the journal report that an operator killed it. A guard that is killed has failed.
#[derive(Debug, Args)]
pub(super) struct KillArgs {
    /// The run's id, as `ps` shows it, or its unique beginning of at least four characters
    id: String,
    /// The daemon's admin socket [default: that of the configuration]
    #[arg(long, value_name = "ADDR")]
    connect: Option<PathBuf>,
}

impl KillArgs {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        let socket = socket(context, self.connect.as_deref())?;
        let request = pb::KillRunRequest { run_id: self.id };
        let response = ask(&socket, async |client| client.kill_run(request).await)?;
        if context.call.json {
            output::json_line(&json::render(&response, "hookjail.v1.KillRunResponse")?);
        } else {
            let run = response.run.unwrap_or_default();
            let how = match response.end.as_str() {
                "" => "asked to end, and has not ended yet".to_owned(),
                "killed" => "killed".to_owned(),
                "refused" => "refused: its hook was not started".to_owned(),
                end => format!("had ended by itself: {end}"),
            };
            output::line(&format!("{} {}: {how}", run.run_id, hook(&run)));
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn table(runs: &[pb::RunInWork]) -> String {
    let style = Style::of_stdout();
    if runs.is_empty() {
        return "no hook is in work\n".to_owned();
    }
    let titles = [
        "RUN", "STATE", "AGE", "LEFT", "PROFILE", "AT", "CALLER", "HOOK",
    ];
    let mut rows = vec![titles.map(str::to_owned)];
    rows.extend(runs.iter().map(row));
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or_default()
    };
    let widths: Vec<_> = (0..titles.len()).map(width).collect();
    let line = |row: &[String; 8]| {
        let cells = row.iter().zip(&widths);
        let cells: Vec<_> = cells
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        cells.join("  ").trim_end().to_owned()
    };
    let (title, rest) = (line(&rows[0]), &rows[1..]);
    let lines = rest.iter().map(|row| format!("{}\n", line(row)));
    format!("{}\n{}", style.strong(&title), lines.collect::<String>())
}

fn row(run: &pb::RunInWork) -> [String; 8] {
    let point = match run.point.as_str() {
        "" => run.contract.clone(),
        point => format!("{} {point}", run.contract),
    };
    [
        plain(&run.run_id),
        state(run).to_owned(),
        length(run.age),
        run.left
            .map_or_else(|| "-".to_owned(), |left| length(Some(left))),
        plain(&run.profile),
        plain(&point),
        caller(run),
        plain(&hook(run)),
    ]
}

/// Returns the word for how far a run has come.
pub(super) fn state(run: &pb::RunInWork) -> &'static str {
    match run.state() {
        pb::RunState::Asking => "asking",
        pb::RunState::Queued => "queued",
        pb::RunState::Running => "running",
        pb::RunState::Starting => "starting",
        pb::RunState::Unspecified => "?",
    }
}

/// Returns the hook's name and its command, as far as a line has room.
pub(super) fn hook(run: &pb::RunInWork) -> String {
    let words = quoted(&run.argv);
    let mut shown: String = words.chars().take(COMMAND_CHARS).collect();
    if shown.len() < words.len() {
        shown.push('…');
    }
    match run.hook.as_str() {
        "" => shown,
        name => format!("{name}: {shown}"),
    }
}

/// Returns uid and name of a caller, and its process.
fn caller(run: &pb::RunInWork) -> String {
    let uid = run.peer_uid();
    let user = User::from_uid(Uid::from_raw(uid)).ok().flatten();
    let name = user.map_or_else(String::new, |user| format!("({})", user.name));
    let pid = run
        .peer_pid
        .map_or_else(String::new, |pid| format!(" pid {pid}"));
    plain(&format!("{uid}{name}{pid}"))
}

/// Renders a length of time shortly: `4.2s`, `3m05s`, `2h05m`.
pub(super) fn length(length: Option<prost_types::Duration>) -> String {
    let length = length.and_then(|length| Duration::try_from(length).ok());
    let length = length.unwrap_or_default();
    let (seconds, minutes) = (length.as_secs(), length.as_secs() / 60);
    match minutes {
        0 => format!("{seconds}.{}s", length.subsec_millis() / 100),
        1..60 => format!("{minutes}m{:02}s", seconds % 60),
        _ => format!("{}h{:02}m", minutes / 60, minutes % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_are_short() {
        for (millis, expected) in [
            (0, "0.0s"),
            (59_960, "59.9s"),
            (185_000, "3m05s"),
            (7_500_000, "2h05m"),
        ] {
            let span = prost_types::Duration::try_from(Duration::from_millis(millis)).unwrap();
            assert_eq!(length(Some(span)), expected);
        }
    }
}
