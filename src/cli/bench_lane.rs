//! `hookjail bench-lane`: makes calls for a harness that times several ways to run the same command.

use std::{
    ffi::OsString,
    io::{self, BufRead},
    os::unix::ffi::OsStringExt,
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::Args;
use tokio::task::JoinSet;
use tonic::transport::Channel;

use hookjail_client::{Failure, connect, output};
use hookjail_proto::{self as pb, hook_service_client::HookServiceClient};

use super::Context;

/// Size of the event, bytes.
const EVENT_BYTES: usize = 1024;

/// Run a command again and again, as lines of stdin say, and print how long it took.
///
/// Prints `ready` once connected. `one` runs it once and prints nanoseconds, negative where it did not exit with 0. `tp SECONDS W` keeps W
/// calls in work and prints `COUNT ELAPSED_NS P50_NS P99_NS`, with -1 as the count where one failed. Each event is 1 KiB.
#[derive(Debug, Args)]
pub(super) struct BenchLaneArgs {
    /// The daemon's socket, or its URL
    #[arg(long, value_name = "ADDR")]
    connect: PathBuf,
    /// The profile [default: strict]
    #[arg(long, default_value = "strict")]
    profile: String,
    /// The command, which must have a consent
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

impl BenchLaneArgs {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        let runtime = connect::runtime()?;
        let socket = connect::socket(&context.call.paths, &self.connect);
        let socket = socket.ok_or_else(|| Failure::new("`--connect` names no socket"))?;
        let channel = connect::block_on(&runtime, connect::connect(&socket))?;
        let lane = Lane {
            client: HookServiceClient::new(channel),
            request: self.request()?,
        };
        output::text("ready\n");
        for line in io::stdin().lock().lines() {
            let line = line?;
            let words: Vec<&str> = line.split_whitespace().collect();
            let answer = match words[..] {
                ["one"] => connect::block_on(&runtime, lane.one()).to_string(),
                ["tp", seconds, at_once] => {
                    let bad = |_| Failure::new(format!("`{line}` has something else than numbers"));
                    let seconds = seconds.parse::<u32>().map_err(bad)?;
                    let at_once = at_once.parse::<u32>().map_err(bad)?;
                    let time = Duration::from_secs(seconds.into());
                    connect::block_on(&runtime, lane.throughput(time, at_once))
                }
                _ => {
                    return Err(Failure::new(format!(
                        "`{line}` is neither `one` nor `tp SECONDS W`"
                    )));
                }
            };
            output::text(&format!("{answer}\n"));
        }
        Ok(ExitCode::SUCCESS)
    }

    fn request(&self) -> Result<pb::ExecuteRequest, Failure> {
        let text = |word: &OsString| {
            let word = String::from_utf8(word.clone().into_vec());
            word.map_err(|_| Failure::new("the command is no text"))
        };
        let frame = r#"{"text":""}"#;
        let event = format!(r#"{{"text":"{}"}}"#, "x".repeat(EVENT_BYTES - frame.len()));
        Ok(pb::ExecuteRequest {
            event: Some(pb::Event {
                json: event.into(),
                ..pb::Event::default()
            }),
            hook: Some(pb::Hook {
                argv: self.command.iter().map(text).collect::<Result<_, _>>()?,
                ..pb::Hook::default()
            }),
            profile: self.profile.clone(),
            ..pb::ExecuteRequest::default()
        })
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
                output::stderr(&format!("hookjail: {}", status.message()));
                None
            }
        };
        if code == Some(0) { took } else { -took }
    }

    /// Keeps so many calls in work; returns the line about them.
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
        let at = |percent: usize| {
            times
                .get(times.len().saturating_sub(1) * percent / 100)
                .copied()
        };
        let count = match times.first() {
            Some(least) if *least < 0 => "-1".to_owned(),
            _ => times.len().to_string(),
        };
        let [half, most] = [50, 99].map(|percent| at(percent).unwrap_or(0));
        format!("{count} {elapsed} {half} {most}")
    }
}

fn nanoseconds(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}
