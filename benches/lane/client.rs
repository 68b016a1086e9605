//! Makes calls for a harness that times several ways to run the same command.

use std::{
    env,
    error::Error,
    ffi::OsString,
    io::{self, BufRead, Write},
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::Parser;
use hookjail::pb::{self, hook_service_client::HookServiceClient};
use hookjail_base::util::user_paths::UserPaths;
use hookjail_client::{connect, output};
use tokio::task::JoinSet;
use tonic::transport::Channel;

/// The first argument of a benchmark that is to be a lane.
pub(crate) const NAME: &str = "bench-lane";

/// Size of the event, bytes.
const EVENT_BYTES: usize = 1024;

/// Run a command repeatedly, as lines of stdin request, and print how long it took.
///
/// Prints `ready` once connected. `one` runs it once and prints nanoseconds, negative where it did not exit with 0. `tp SECONDS W` keeps W
/// calls in work and prints `COUNT ELAPSED_NS P50_NS P99_NS`, with -1 as the count where one failed. Each event is 1 KiB.
#[derive(Debug, Parser)]
#[command(name = NAME)]
pub(crate) struct LaneArguments {
    /// The daemon's socket
    #[arg(long, value_name = "ADDR")]
    connect: PathBuf,
    /// The profile
    #[arg(long, default_value = "strict")]
    profile: String,
    /// The command, which must have a consent
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<String>,
}

/// Serves as a lane by the arguments of this process if the first one names the lane.
pub(crate) fn serve_if_named() -> Option<ExitCode> {
    let is_asked = env::args_os().nth(1).is_some_and(|word| word == NAME);
    is_asked.then(|| serve(env::args_os().skip(1)))
}

/// Serves as a lane on stdin and stdout; the first word is the program's name.
pub(crate) fn serve(words: impl Iterator<Item = OsString>) -> ExitCode {
    let arguments = LaneArguments::parse_from(words);
    match arguments.run(io::stdin().lock(), io::stdout()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::stderr(&format!("{NAME}: {error}"));
            ExitCode::FAILURE
        }
    }
}

impl LaneArguments {
    /// Makes calls as lines request, and writes a line about each.
    pub(crate) fn run(
        &self,
        lines: impl BufRead,
        mut answers: impl Write,
    ) -> Result<(), Box<dyn Error>> {
        let runtime = connect::runtime()?;
        let socket = connect::socket(&UserPaths::read(), &self.connect);
        let socket = socket.ok_or("`--connect` names no socket")?;
        let channel = connect::block_on(&runtime, connect::connect(&socket));
        let lane = Lane {
            client: HookServiceClient::new(channel.map_err(|failure| failure.message)?),
            request: self.request(),
        };
        writeln!(answers, "ready")?;
        for line in lines.lines() {
            let line = line?;
            let words: Vec<&str> = line.split_whitespace().collect();
            let answer = match words[..] {
                ["one"] => connect::block_on(&runtime, lane.one()).to_string(),
                ["tp", seconds, at_once] => {
                    let time = Duration::from_secs(seconds.parse()?);
                    connect::block_on(&runtime, lane.throughput(time, at_once.parse()?))
                }
                _ => return Err(format!("`{line}` is neither `one` nor `tp SECONDS W`").into()),
            };
            writeln!(answers, "{answer}")?;
        }
        Ok(())
    }

    fn request(&self) -> pb::ExecuteRequest {
        let frame = r#"{"text":""}"#;
        let event = format!(r#"{{"text":"{}"}}"#, "x".repeat(EVENT_BYTES - frame.len()));
        pb::ExecuteRequest {
            event: Some(pb::Event {
                json: event.into(),
                ..pb::Event::default()
            }),
            hook: Some(pb::Hook {
                argv: self.command.clone(),
                ..pb::Hook::default()
            }),
            profile: self.profile.clone(),
            ..pb::ExecuteRequest::default()
        }
    }
}

/// A connection, and what is asked over it.
#[derive(Clone, Debug)]
struct Lane {
    client: HookServiceClient<Channel>,
    request: pb::ExecuteRequest,
}

impl Lane {
    /// Makes a call; returns its nanoseconds, negative where the hook did not exit with 0.
    async fn one(&self) -> i64 {
        let (mut client, request) = (self.client.clone(), self.request.clone());
        let begun = Instant::now();
        let answer = client.execute(request).await;
        let took = nanoseconds(begun.elapsed());
        let code = match answer {
            Ok(response) => response.into_inner().outcome.and_then(|it| it.exit_code),
            Err(status) => {
                output::stderr(&format!("{NAME}: {}", status.message()));
                None
            }
        };
        if code == Some(0) { took } else { -took }
    }

    /// Keeps `at_once` calls in work; returns the line about them.
    async fn throughput(&self, time: Duration, at_once: u32) -> String {
        let begun = Instant::now();
        let mut workers = JoinSet::new();
        for _ in 0..at_once {
            let lane = self.clone();
            workers.spawn(async move {
                let mut times = Vec::new();
                while begun.elapsed() < time {
                    times.push(lane.one().await);
                }
                times
            });
        }
        let mut times: Vec<i64> = workers.join_all().await.into_iter().flatten().collect();
        let elapsed = nanoseconds(begun.elapsed());
        times.sort_unstable();
        let quantile = |percent: usize| {
            times
                .get(times.len().saturating_sub(1) * percent / 100)
                .copied()
        };
        let count = match times.first() {
            Some(least) if *least < 0 => "-1".to_owned(),
            _ => times.len().to_string(),
        };
        let [half, most] = [50, 99].map(|percent| quantile(percent).unwrap_or(0));
        format!("{count} {elapsed} {half} {most}")
    }
}

fn nanoseconds(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}
