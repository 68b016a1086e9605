//! Many calls at once: how late a deadline ends its hook, what a quiet caller waits for beside busy ones, what a waiting hook holds.
//!
//! `cargo bench --bench concurrency -- [--program FILE]`. As root the callers are different users; as an ordinary user they are one. Takes
//! about a minute.

#![expect(
    clippy::disallowed_methods,
    reason = "starts a daemon and clients, never a confined hook"
)]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark prints"
)]

use std::{
    env,
    error::Error,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

use hookjail::pb::{self, hook_service_client::HookServiceClient};
use nix::unistd::geteuid;
use tokio::{runtime::Runtime, task::JoinSet};

#[expect(dead_code, reason = "shared with other benchmarks, which need more")]
mod lane;

use self::lane::{Daemon, Lane, Outcome, connect, directory};

/// Calls that have deadlines at once.
const AT_ONCE: usize = 16;
/// Deadlines of each of them.
const DEADLINES: usize = 40;
const DEADLINE: Duration = Duration::from_millis(200);
/// The first uid of the callers, where they are different users.
const FIRST_USER: u32 = 61_000;
const BUSY: u32 = 4;
const QUIET_CALLS: usize = 300;
/// Hooks that run or wait for a place.
const WAITING: usize = 2000;
const MIB: f64 = (1 << 20) as f64;

fn main() -> ExitCode {
    if let Some(done) = lane::client::serve_if_named() {
        return done;
    }
    match measure() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("concurrency: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure() -> Outcome<()> {
    let mut program = PathBuf::from(env!("CARGO_BIN_EXE_hookjail"));
    let mut words = env::args().skip(1);
    while let Some(word) = words.next() {
        match &*word {
            "--program" => program = words.next().ok_or("`--program` needs a value")?.into(),
            "--bench" => {}
            other => return Err(format!("`{other}` is not one of the arguments").into()),
        }
    }
    let client = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    deadlines(&client, &program)?;
    for width in [1, 4] {
        quiet_caller(&program, width)?;
    }
    memory(&client, &program, 256)?;
    memory(&client, &program, WAITING)
}

/// Measures from deadlines to the answers that report them: by then the hook and all that it started is dead.
fn deadlines(client: &Runtime, program: &Path) -> Outcome<()> {
    let daemon = Daemon::start(program, directory()?, "")?;
    let channel = connect(client, &daemon.socket())?;
    let late = client.block_on(async {
        let mut tasks = JoinSet::new();
        for _ in 0..AT_ONCE {
            let mut hooks = HookServiceClient::new(channel.clone());
            tasks.spawn(async move {
                let mut late = Vec::new();
                for _ in 0..DEADLINES {
                    let start = Instant::now();
                    // With a process below it.
                    let answer = hooks.execute(request("sleep 60; :", DEADLINE)).await?;
                    let took = start.elapsed();
                    if kind(answer.get_ref()) != Some(pb::OutcomeKind::TimedOut) {
                        return Err("a hook did not end by its deadline".into());
                    }
                    late.push(took.saturating_sub(DEADLINE));
                }
                Ok::<_, Box<dyn Error + Send + Sync>>(late)
            });
        }
        let mut all = Vec::new();
        while let Some(late) = tasks.join_next().await {
            all.extend(late??);
        }
        Ok::<_, Box<dyn Error + Send + Sync>>(all)
    });
    let mut late = late.map_err(|error| error.to_string())?;
    let [half, most] = quantiles(&mut late);
    println!("deadline to answer, {AT_ONCE} at once: p50 {half:.1} ms, p99 {most:.1} ms");
    Ok(())
}

/// Measures the latency of a caller with one call at a time, alone and beside busy ones with `width` calls at once each.
fn quiet_caller(program: &Path, width: usize) -> Outcome<()> {
    let last = FIRST_USER + BUSY;
    let users = geteuid().is_root();
    let more = if users {
        let callers: Vec<_> = (FIRST_USER..=last).map(|uid| uid.to_string()).collect();
        format!("callers = [{}]\n", callers.join(", "))
    } else {
        String::new()
    };
    let daemon = Daemon::start(program, directory()?, &more)?;
    fs::set_permissions(daemon.socket(), fs::Permissions::from_mode(0o666))?;
    let start = |number| {
        let user = users.then_some(FIRST_USER + number);
        Lane::start(&daemon.socket(), user, &["/bin/true"])
    };
    let mut quiet = start(BUSY)?;
    let mut calls = |number: usize| -> Outcome<Vec<Duration>> {
        let mut times = Vec::new();
        for _ in 0..number {
            quiet.ask("one")?;
            let nanoseconds = quiet.answer()?;
            times.push(Duration::from_nanos(*nanoseconds.first().ok_or("no time")?));
            thread::sleep(Duration::from_millis(5));
        }
        Ok(times)
    };
    calls(20)?;
    let [alone, _] = quantiles(&mut calls(QUIET_CALLS)?);
    let mut busy = (0..BUSY).map(start).collect::<Outcome<Vec<_>>>()?;
    for lane in &mut busy {
        lane.ask(&format!("tp 8 {width}"))?;
    }
    thread::sleep(Duration::from_secs(1));
    let [half, most] = quantiles(&mut calls(QUIET_CALLS)?);
    let mut served = 0;
    for lane in &busy {
        served += lane.answer()?.first().ok_or("no count")?;
    }
    println!(
        "a quiet caller: alone p50 {alone:.2} ms; beside {BUSY}×{width} calls ({}/s): p50 {half:.2} ms, p99 {most:.2} ms, {:.1} of alone",
        served / 8,
        most / alone
    );
    Ok(())
}

/// Measures the daemon's memory while many hooks are in work, of which `at_once` run at once, and afterwards.
fn memory(client: &Runtime, program: &Path, at_once: usize) -> Outcome<()> {
    let more = format!("[hooks]\nmax_concurrent = {at_once}\nmax_queued = {WAITING}\n");
    let daemon = Daemon::start(program, directory()?, &more)?;
    let channel = connect(client, &daemon.socket())?;
    let resident = || -> Outcome<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", daemon.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let size = line.and_then(|line| line.split_whitespace().next());
        Ok(size.ok_or("no size")?.parse::<f64>()? * 1024.0)
    };
    let all = |number: usize, script: &'static str, time: Duration| {
        let mut tasks = JoinSet::new();
        for _ in 0..number {
            let mut hooks = HookServiceClient::new(channel.clone());
            tasks.spawn_on(
                async move { hooks.execute(request(script, time)).await },
                client.handle(),
            );
        }
        tasks
    };
    client.block_on(all(64, "exit 0", Duration::from_secs(60)).join_all());
    let before = resident()?;
    let waiting = all(WAITING, "exec sleep 12", Duration::from_secs(300));
    client.block_on(async { tokio::time::sleep(Duration::from_secs(10)).await });
    let during = resident()?;
    let answers = client.block_on(waiting.join_all());
    let failed = answers.iter().filter(|answer| {
        let kind = answer.as_ref().ok().and_then(|it| kind(it.get_ref()));
        kind != Some(pb::OutcomeKind::Exited)
    });
    let failed = failed.count();
    thread::sleep(Duration::from_secs(15));
    let after = resident()?;
    println!(
        "{WAITING} hooks, {at_once} at once, {failed} failed: resident {:.1} MiB before, {:.1} while they wait ({:.1} KiB each), {:.1} after",
        before / MIB,
        during / MIB,
        (during - before) / 1024.0 / WAITING as f64,
        after / MIB
    );
    Ok(())
}

fn kind(answer: &pb::ExecuteResponse) -> Option<pb::OutcomeKind> {
    Some(answer.outcome.as_ref()?.kind())
}

fn request(script: &str, time: Duration) -> pb::ExecuteRequest {
    pb::ExecuteRequest {
        hook: Some(pb::Hook {
            argv: ["/bin/sh", "-c", script].map(str::to_owned).to_vec(),
            ..pb::Hook::default()
        }),
        profile: "pipeline".to_owned(),
        timeout: time.try_into().ok(),
        ..pb::ExecuteRequest::default()
    }
}

/// Returns the half and the 99th percentile, in milliseconds.
fn quantiles(times: &mut [Duration]) -> [f64; 2] {
    times.sort_unstable();
    [times.len() / 2, times.len() * 99 / 100].map(|position| {
        times
            .get(position)
            .map_or(0.0, |it| it.as_secs_f64() * 1000.0)
    })
}
