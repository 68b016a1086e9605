//! The whole `Execute` call against raw `posix_spawn` of the same hook, interleaved: only their ratio means anything.
//!
//! `cargo bench --bench execute -- [--iterations N] [--only NAME] [--json] [--report DIR]`. With `--report` other ways to run the same
//! command are taken in turn with these, as far as they are installed, and a table and a plot are written.

#![expect(
    unsafe_code,
    reason = "the raw side is libc's own posix_spawn, without any help"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "starts a daemon and a compiler, never a confined hook"
)]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark prints"
)]

use std::{
    collections::BTreeMap,
    env,
    error::Error,
    ffi::CString,
    fs::{self, File},
    hint::black_box,
    io::{self, Read, Write},
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::fs::PermissionsExt,
    },
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    ptr,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use hookjail::pb::{self, hook_service_client::HookServiceClient};
use hookjail_base::util::user_paths::UserPaths;
use hookjail_daemon::testing::{
    config::{Config, ProcessEnv},
    consent::{ConsentRule, Operator},
    daemon::Assembly,
    hooks::valve::{OnLimit, Valve},
    wire::{Incoming, Server, WireLimits},
};
use nix::{fcntl::OFlag, unistd::pipe2};
use serde_json::{Value, json};
use tokio::{runtime::Runtime, task::JoinSet};
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

/// The event: 1 KiB of JSON on one line.
const EVENT_BYTES: usize = 1024;
/// The resident memory of the bloated daemon.
const BLOAT_BYTES: usize = 500 * 1024 * 1024;
const IN_FLIGHT: usize = 16;
const ROUNDS: usize = 5;
/// Processes that wait start between two calls, and not beside what is measured.
const BETWEEN_WARM: Duration = Duration::from_millis(150);
/// The most rounds with such pauses.
const WARM_ROUNDS: usize = 100;
const WARM_UP: usize = 20;

fn main() -> ExitCode {
    match measure() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("execute: {error}");
            ExitCode::FAILURE
        }
    }
}

mod guards;
#[path = "../lane/mod.rs"]
#[expect(dead_code, reason = "shared with other benchmarks, which need more")]
mod lane;
mod report;

use self::lane::{Daemon, Outcome, configuration, connect, directory};

fn measure() -> Outcome<()> {
    let arguments = Arguments::of_process()?;
    // To be done before the first thread is started; for the daemon inside this process.
    let assembly = Assembly::begin()?;
    let directory = directory()?;
    let client = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let daemon = Connected::start(&client)?;

    let mut cases = Vec::new();
    match no_op(directory.path()) {
        Ok(program) => cases.push(Case::new("no-op", "strict", &[&program], "")),
        Err(error) => eprintln!("SKIP: no-op: no static program can be made: {error}"),
    }
    for (name, profile, argv, stdout) in COMMANDS {
        cases.push(Case::new(name, profile, argv, stdout));
    }

    for (name, interpreter, file, script) in INTERPRETED {
        if !Path::new(interpreter).exists() {
            eprintln!("SKIP: {name}: there is no {interpreter}");
            continue;
        }
        let path = directory.path().join(file);
        fs::write(&path, script)?;
        let path = path.display().to_string();
        for (name, profile) in [(name, "strict"), (warm(name), "warm")] {
            cases.push(Case::new(
                name,
                profile,
                &[interpreter, &path],
                "{\"size\": 1007}\n",
            ));
        }
    }

    if let Some(directory) = &arguments.report {
        return report::write(&client, &daemon, &cases, arguments.iterations, directory);
    }
    let mut report = Report::default();
    for case in cases.iter().filter(|case| arguments.wants(case.name)) {
        let times = interleave(&client, &daemon.channel, case, arguments.iterations, &[])?;
        report.latency(case.name, &times);
    }
    for case in &cases {
        let name = format!("{}-x{IN_FLIGHT}", case.name);
        if matches!(case.name, "no-op" | "true") && arguments.wants(&name) {
            let (raw, call) = throughput(&client, &daemon.channel, case, arguments.iterations)?;
            report.throughput(&name, raw, call);
        }
    }
    drop(daemon);
    if arguments.wants("bloat") {
        let case = Case::new("bloat", "strict", &["/bin/true"], "");
        bloat(
            &assembly,
            &client,
            &case,
            arguments.iterations,
            directory.path(),
            &mut report,
        )?;
    }
    report.print(arguments.json);
    Ok(())
}

/// Commands, each with its name, profile and output.
const COMMANDS: [(&str, &str, &[&str], &str); 3] = [
    ("true", "strict", &["/bin/true"], ""),
    (
        "sh-read",
        "strict",
        &["/bin/sh", "-c", "read x; echo {}"],
        "{}\n",
    ),
    (
        "sh-cat",
        "pipeline",
        &["/bin/sh", "-c", "cat >/dev/null; echo {}"],
        "{}\n",
    ),
];

/// Returns the pause before a round; `HOOKJAIL_BENCH_PAUSE` has other milliseconds.
fn pause_of(case: &Case) -> Duration {
    let named = env::var("HOOKJAIL_BENCH_PAUSE")
        .ok()
        .and_then(|text| text.parse().ok());
    named.map_or_else(
        || match case.name {
            name if name.ends_with("-warm") => BETWEEN_WARM,
            _ => Duration::ZERO,
        },
        Duration::from_millis,
    )
}

/// Hooks of interpreters: each reads the event as JSON and prints a decision.
const INTERPRETED: [(&str, &str, &str, &str); 2] = [
    (
        "python",
        "/usr/bin/python3",
        "hook.py",
        "import json, sys\nevent = json.load(sys.stdin)\nprint(json.dumps({'size': len(event['user_text'])}))\n",
    ),
    (
        "node",
        "/usr/bin/node",
        "hook.js",
        "let text = '';\nprocess.stdin.on('data', (piece) => { text += piece; });\nprocess.stdin.on('end', () => {\n  const event = JSON.parse(text);\n  console.log(`{\"size\": ${event.user_text.length}}`);\n});\n",
    ),
];

/// Returns the name of a case whose interpreter waits.
fn warm(name: &str) -> &'static str {
    match name {
        "python" => "python-warm",
        _ => "node-warm",
    }
}

struct Arguments {
    iterations: usize,
    json: bool,
    only: Option<String>,
    report: Option<PathBuf>,
}

impl Arguments {
    fn of_process() -> Outcome<Self> {
        let mut arguments = Self {
            iterations: 200,
            json: false,
            only: None,
            report: None,
        };
        let mut words = env::args().skip(1);
        while let Some(word) = words.next() {
            match word.as_str() {
                // Cargo's own.
                "--bench" => {}
                "--iterations" => {
                    arguments.iterations = words.next().ok_or("--iterations wants N")?.parse()?;
                }
                "--json" => arguments.json = true,
                "--only" => arguments.only = Some(words.next().ok_or("--only wants a name")?),
                "--report" => {
                    arguments.report = Some(words.next().ok_or("--report wants DIR")?.into());
                }
                other => return Err(format!("unknown argument `{other}`").into()),
            }
        }
        arguments.iterations = arguments.iterations.max(10);
        Ok(arguments)
    }

    fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only == name)
    }
}

/// A hook, how it is confined and what it must print.
struct Case {
    argv: Vec<String>,
    name: &'static str,
    profile: &'static str,
    stdout: &'static str,
}

impl Case {
    fn new(name: &'static str, profile: &'static str, argv: &[&str], stdout: &'static str) -> Self {
        Self {
            argv: argv.iter().map(|&word| word.to_owned()).collect(),
            name,
            profile,
            stdout,
        }
    }

    /// Returns whether a process waits for each run.
    fn is_warm(&self) -> bool {
        self.profile.starts_with("warm")
    }

    fn request(&self) -> pb::ExecuteRequest {
        pb::ExecuteRequest {
            event: Some(pb::Event {
                json: event().into(),
                ..pb::Event::default()
            }),
            hook: Some(pb::Hook {
                argv: self.argv.clone(),
                ..pb::Hook::default()
            }),
            profile: self.profile.to_owned(),
            ..pb::ExecuteRequest::default()
        }
    }

    /// A sandbox that breaks the hook looks fast: every end is looked at.
    fn check(&self, exit_code: Option<i32>, stdout: &[u8]) -> Outcome<()> {
        if exit_code == Some(0) && stdout == self.stdout.as_bytes() {
            return Ok(());
        }
        let shown = String::from_utf8_lossy(stdout);
        Err(format!("{}: exit {exit_code:?}, stdout {shown:?}", self.name).into())
    }
}

fn event() -> Vec<u8> {
    let frame = r#"{"user_text":""}"#;
    let text = "x".repeat(EVENT_BYTES - 1 - frame.len());
    format!("{{\"user_text\":\"{text}\"}}\n").into_bytes()
}

/// Makes a static program that does nothing but exit.
fn no_op(directory: &Path) -> Outcome<String> {
    let source = directory.join("no-op.c");
    let program = directory.join("no-op");
    let exit = if cfg!(target_arch = "x86_64") {
        "mov $60, %eax; xor %edi, %edi; syscall"
    } else if cfg!(target_arch = "aarch64") {
        "mov x8, #93; mov x0, #0; svc #0"
    } else {
        return Err("this architecture's exit is not written down here".into());
    };
    fs::write(
        &source,
        format!("void _start(void) {{ __asm__ volatile(\"{exit}\"); for (;;); }}\n"),
    )?;
    let made = Command::new("cc")
        .args(["-static", "-nostdlib", "-O1", "-o"])
        .args([&program, &source])
        .output()?;
    if !made.status.success() {
        return Err(String::from_utf8_lossy(&made.stderr).into());
    }
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    Ok(program.display().to_string())
}

/// A daemon of the binary that is measured, and a connection to it.
struct Connected {
    channel: Channel,
    daemon: Daemon,
}

impl Connected {
    fn start(client: &Runtime) -> Outcome<Self> {
        let directory = directory()?;
        write_profile(directory.path())?;
        let program = Path::new(env!("CARGO_BIN_EXE_hookjail"));
        let daemon = Daemon::start(program, directory, "")?;
        let channel = connect(client, &daemon.socket())?;
        Ok(Self { channel, daemon })
    }
}

/// Writes the profile under which processes wait.
fn write_profile(directory: &Path) -> io::Result<()> {
    let text = "description = \"With processes that wait\"\nextends = \"strict\"\nwarm = 2\n";
    fs::write(directory.join("profiles/warm.toml"), text)
}

/// A command that is executed without any daemon, ready to be handed to the kernel.
struct Raw {
    argv: Vec<CString>,
    event: Vec<u8>,
}

impl Raw {
    fn new(words: &[String]) -> Outcome<Self> {
        let argv = words.iter().map(|word| CString::new(word.as_str()));
        Ok(Self {
            argv: argv.collect::<Result<_, _>>()?,
            event: event(),
        })
    }

    /// Spawns, feeds, reads to end-of-file and waits.
    fn run(&self) -> Outcome<(Option<i32>, Vec<u8>)> {
        let (stdin, feed) = pipe2(OFlag::O_CLOEXEC)?;
        let (output, stdout) = pipe2(OFlag::O_CLOEXEC)?;
        let pid = self.spawn(&stdin, &stdout)?;
        drop((stdin, stdout));
        match File::from(feed).write_all(&self.event) {
            Ok(()) => {}
            // A hook need not read.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            Err(error) => return Err(error.into()),
        }
        let mut text = Vec::new();
        File::from(output).read_to_end(&mut text)?;
        let mut status = 0;
        // SAFETY: `status` outlives the call; the child is this function's own.
        let waited = unsafe { libc::waitpid(pid, &raw mut status, 0) };
        if waited != pid {
            return Err(io::Error::last_os_error().into());
        }
        let code = libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status));
        Ok((code, text))
    }

    fn spawn(&self, stdin: &OwnedFd, stdout: &OwnedFd) -> Outcome<i32> {
        let path = CString::new("PATH=/usr/bin:/bin")?;
        let environment = [path.as_ptr().cast_mut(), ptr::null_mut()];
        let argv: Vec<_> = self
            .argv
            .iter()
            .map(|word| word.as_ptr().cast_mut())
            .chain([ptr::null_mut()])
            .collect();
        let mut pid = 0;
        let mut actions = std::mem::MaybeUninit::<libc::posix_spawn_file_actions_t>::uninit();
        // SAFETY: initializes what it is given.
        check(unsafe { libc::posix_spawn_file_actions_init(actions.as_mut_ptr()) })?;
        // SAFETY: initialized above; the descriptors are open until the spawn is over.
        check(unsafe {
            libc::posix_spawn_file_actions_adddup2(actions.as_mut_ptr(), stdin.as_raw_fd(), 0)
        })?;
        // SAFETY: as above.
        check(unsafe {
            libc::posix_spawn_file_actions_adddup2(actions.as_mut_ptr(), stdout.as_raw_fd(), 1)
        })?;
        // SAFETY: both lists end with a null pointer, and they and what they point to outlive the call.
        let spawned = check(unsafe {
            libc::posix_spawn(
                &raw mut pid,
                argv[0],
                actions.as_ptr(),
                ptr::null(),
                argv.as_ptr(),
                environment.as_ptr(),
            )
        });
        // SAFETY: initialized above and not used again.
        check(unsafe { libc::posix_spawn_file_actions_destroy(actions.as_mut_ptr()) })?;
        spawned.map(|()| pid)
    }
}

fn check(errno: i32) -> Outcome<()> {
    match errno {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno).into()),
    }
}

/// Times of one case.
#[derive(Default)]
struct Times {
    /// Times of other ways to run the command.
    others: Vec<Vec<Duration>>,
    /// Times of a call that starts nothing: the cost of gRPC itself.
    bare: Vec<Duration>,
    call: Vec<Duration>,
    raw: Vec<Duration>,
    /// Times of the call from release to the end, as the daemon reports them.
    run: Vec<Duration>,
    /// Times of the call from arrival to release, as the daemon reports them.
    setup: Vec<Duration>,
}

/// Takes both sides in turn, so that other work of the machine falls on both.
fn interleave(
    runtime: &Runtime,
    channel: &Channel,
    case: &Case,
    iterations: usize,
    others: &[Raw],
) -> Outcome<Times> {
    let mut client = HookServiceClient::new(channel.clone());
    let mut health = HealthClient::new(channel.clone());
    let raw = Raw::new(&case.argv)?;
    let mut times = Times {
        others: vec![Vec::new(); others.len()],
        ..Times::default()
    };
    let waits = case.is_warm();
    let pause = pause_of(case);
    let iterations = if waits {
        iterations.min(WARM_ROUNDS)
    } else {
        iterations
    };
    for iteration in 0..iterations + WARM_UP {
        thread::sleep(pause);
        let begin = Instant::now();
        let (code, stdout) = raw.run()?;
        let raw_time = begin.elapsed();
        case.check(code, &stdout)?;

        let request = case.request();
        let begin = Instant::now();
        let response = runtime.block_on(client.execute(request))?.into_inner();
        let call_time = begin.elapsed();
        check_response(case, &response)?;
        let evidence = response.confinement.iter().flat_map(|it| &it.evidence);
        if waits && iteration >= WARM_UP && !evidence.into_iter().any(|it| it.check == "warm") {
            return Err(format!("{}: no process had waited", case.name).into());
        }

        for (other, times) in others.iter().zip(&mut times.others) {
            let begin = Instant::now();
            let (code, stdout) = other.run()?;
            let time = begin.elapsed();
            case.check(code, &stdout)?;
            if iteration >= WARM_UP {
                times.push(time);
            }
        }

        // The cost of any call at such a moment: the caches are full of a process that has just ended.
        raw.run()?;
        let begin = Instant::now();
        runtime.block_on(health.check(HealthCheckRequest::default()))?;
        let bare_time = begin.elapsed();
        if iteration >= WARM_UP {
            times.raw.push(raw_time);
            times.call.push(call_time);
            times.bare.push(bare_time);
            let usage = response.usage.unwrap_or_default();
            times.run.push(duration(usage.run));
            times.setup.push(duration(usage.setup));
        }
    }
    Ok(times)
}

fn duration(span: Option<prost_types::Duration>) -> Duration {
    span.and_then(|span| span.try_into().ok())
        .unwrap_or_default()
}

fn check_response(case: &Case, response: &pb::ExecuteResponse) -> Outcome<()> {
    let end = response.outcome.as_ref().and_then(|o| o.exit_code);
    case.check(end, &response.stdout)
}

/// Returns hooks per second with [`IN_FLIGHT`] at once, raw and by the daemon: the medians of rounds taken in turn.
fn throughput(
    runtime: &Runtime,
    channel: &Channel,
    case: &Case,
    iterations: usize,
) -> Outcome<(f64, f64)> {
    let each = (iterations / IN_FLIGHT).max(4);
    let raw = Raw::new(&case.argv)?;
    let (mut raws, mut calls) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        thread::scope(|scope| -> Outcome<()> {
            let work = || {
                (0..each)
                    .try_for_each(|_| {
                        let (code, stdout) = raw.run()?;
                        case.check(code, &stdout)
                    })
                    .map_err(|error: Box<dyn Error>| error.to_string())
            };
            let threads: Vec<_> = (0..IN_FLIGHT).map(|_| scope.spawn(work)).collect();
            for thread in threads {
                thread.join().map_err(|_| "a thread panicked")??;
            }
            Ok(())
        })?;
        raws.push(begin.elapsed());

        let begin = Instant::now();
        runtime.block_on(async {
            let mut tasks = JoinSet::new();
            for _ in 0..IN_FLIGHT {
                let mut client = HookServiceClient::new(channel.clone());
                let request = case.request();
                tasks.spawn(async move {
                    let mut responses = Vec::new();
                    for _ in 0..each {
                        responses.push(client.execute(request.clone()).await?.into_inner());
                    }
                    Ok::<_, tonic::Status>(responses)
                });
            }
            while let Some(responses) = tasks.join_next().await {
                for response in responses?? {
                    check_response(case, &response)?;
                }
            }
            Ok::<_, Box<dyn Error>>(())
        })?;
        calls.push(begin.elapsed());
    }
    let rate = |times: &mut Vec<Duration>| {
        let hooks = u32::try_from(IN_FLIGHT * each).map_or(f64::NAN, f64::from);
        hooks / quantile(times, 50).as_secs_f64()
    };
    Ok((rate(&mut raws), rate(&mut calls)))
}

/// Serves from inside this process, which then grows: the daemon itself has no knob for that.
fn bloat(
    assembly: &Assembly,
    client: &Runtime,
    case: &Case,
    iterations: usize,
    directory: &Path,
    report: &mut Report,
) -> Outcome<()> {
    write_profile(directory)?;
    let config = Config::parse(
        &configuration(directory),
        &ProcessEnv::read(UserPaths::read()),
    )?;
    let consent = ConsentRule::Operator(Operator {
        accept_all: true,
        allowlist: config.allowlist(),
        own: BTreeMap::new(),
        references: hookjail_policy::References::default(),
        wait: config.consent.wait.0,
    });
    let server = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let shutdown = CancellationToken::new();
    let socket = directory.join("sock");
    let served = {
        let _entered = server.enter();
        let serving = Server {
            network: None,
            hurry: CancellationToken::new(),
            configured: std::sync::Arc::default(),
            valve: std::sync::Arc::new(Valve::new(0, OnLimit::Warn)),
            drain: config.server.drain.0,
            limits: WireLimits {
                event_bytes: config.hooks.event_bytes(),
                ..WireLimits::default()
            },
            pipeline: Arc::new(assembly.pipeline(&config, consent)?),
            shutdown: shutdown.clone(),
            steering: None,
        };
        server.spawn(serving.serve(Incoming::bind(&socket, 0o600)?.0))
    };
    let channel = connect(client, &socket)?;
    report.latency(
        "small",
        &interleave(client, &channel, case, iterations, &[])?,
    );
    let ballast = vec![1_u8; BLOAT_BYTES];
    let bloated = interleave(client, &channel, case, iterations, &[])?;
    black_box(&ballast);
    report.latency("500 MB", &bloated);
    drop(ballast);
    shutdown.cancel();
    server.block_on(served)??;
    Ok(())
}

/// Returns the value below which `percent` of the times lie.
fn quantile(times: &mut [Duration], percent: usize) -> Duration {
    times.sort_unstable();
    times[(times.len() - 1) * percent / 100]
}

#[derive(Default)]
struct Report {
    lines: Vec<String>,
    values: Vec<Value>,
}

impl Report {
    fn latency(&mut self, name: &str, times: &Times) {
        let (mut raw, mut call) = (times.raw.clone(), times.call.clone());
        let mut quantiles_at = |percent| {
            let microseconds = |time: Duration| time.as_secs_f64() * 1e6;
            let (raw, call) = (quantile(&mut raw, percent), quantile(&mut call, percent));
            (microseconds(raw), microseconds(call))
        };
        let ((raw_50, call_50), (raw_10, call_10)) = (quantiles_at(50), quantiles_at(10));
        let microseconds =
            |times: &[Duration]| quantile(&mut times.to_vec(), 50).as_secs_f64() * 1e6;
        let (setup, run) = (microseconds(&times.setup), microseconds(&times.run));
        let bare = microseconds(&times.bare);
        let (ratio_50, ratio_10) = (call_50 / raw_50, call_10 / raw_10);
        if self.lines.is_empty() {
            self.lines.push(format!(
                "{:<12}{:>10}{:>10}{:>8}{:>12}{:>10}{:>8}{:>10}{:>10}{:>10}",
                "",
                "raw p50",
                "call p50",
                "ratio",
                "raw p10",
                "call p10",
                "ratio",
                "set-up",
                "run",
                "bare"
            ));
        }
        self.lines.push(format!(
            "{name:<12}{raw_50:>8.0}µs{call_50:>8.0}µs{ratio_50:>8.2}{raw_10:>10.0}µs{call_10:>8.0}µs{ratio_10:>8.2}{setup:>8.0}µs{run:>8.0}µs{bare:>8.0}µs"
        ));
        self.values.push(json!({
            "case": name, "iterations": times.raw.len(),
            "rawP50Us": raw_50, "callP50Us": call_50, "ratioP50": ratio_50,
            "rawP10Us": raw_10, "callP10Us": call_10, "ratioP10": ratio_10,
            "setupP50Us": setup, "runP50Us": run, "bareP50Us": bare,
        }));
    }

    fn throughput(&mut self, name: &str, raw: f64, call: f64) {
        let ratio = call / raw;
        self.lines.push(format!(
            "{name:<12}{raw:>8.0}/s{call:>8.0}/s{ratio:>8.2}   (hooks each second: more is better)"
        ));
        self.values.push(
            json!({ "case": name, "rawPerSecond": raw, "callPerSecond": call, "ratio": ratio }),
        );
    }

    fn print(&self, as_json: bool) {
        if as_json {
            println!("{}", json!({ "cases": self.values }));
        } else {
            println!("{}", self.lines.join("\n"));
        }
    }
}
