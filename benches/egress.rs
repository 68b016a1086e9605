//! Costs of a hook's connection under `network = "named"`, beside no hookjail, a proxy that the client cooperates with, and `outbound`.
//!
//! `cargo bench --bench egress -- [--program FILE] [--rounds N]`. A Python client connects over loopback, interleaved in each of these ways.
//! Prints medians as multiples of the bare ones: a connect, a connect with a round trip, and the time of 16 MiB there and back.

#![expect(
    clippy::disallowed_methods,
    reason = "starts a daemon and a bare client, never a confined hook"
)]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark prints"
)]

use std::{
    env, fs,
    io::{BufRead, BufReader, Read, Write, copy},
    net::{Shutdown, TcpListener, TcpStream},
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::{Command, ExitCode},
    thread,
};

use hookjail::pb::{self, hook_service_client::HookServiceClient};
use tokio::runtime::Runtime;
use tonic::transport::Channel;

#[expect(dead_code, reason = "shared with other benchmarks, which need more")]
mod lane;

use self::lane::{Daemon, Outcome, connect, directory};

const PYTHON: &str = "/usr/bin/python3";

/// Prints nanoseconds: the median connect, the median connect with a round trip, and all bytes there and back.
const CLIENT: &str = r#"
import socket, statistics, sys, threading, time
host, port, proxied = "127.0.0.1", int(sys.argv[1]), int(sys.argv[2])
def opened():
    s = socket.create_connection((host, proxied or port))
    if proxied:
        s.sendall(b"CONNECT %s:%d HTTP/1.1\r\n\r\n" % (host.encode(), port))
        while not s.recv(4096).endswith(b"\r\n\r\n"):
            pass
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return s
connects, trips = [], []
for _ in range(150):
    began = time.perf_counter_ns()
    s = opened()
    connects.append(time.perf_counter_ns() - began)
    s.sendall(b"ping")
    s.recv(4)
    trips.append(time.perf_counter_ns() - began)
    s.close()
s, size = opened(), 16 << 20
began = time.perf_counter_ns()
threading.Thread(target=s.sendall, args=(bytes(size),)).start()
while size > 0:
    size -= len(s.recv(1 << 18))
print(statistics.median_low(connects), statistics.median_low(trips), time.perf_counter_ns() - began)
"#;

/// The ways of a connection, as they are printed.
const WAYS: [&str; 4] = ["bare", "bare, by a proxy", "outbound", "named"];

/// The measures of each way.
type Times = [u64; 3];

fn main() -> ExitCode {
    match measure() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("egress: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure() -> Outcome<()> {
    let mut program = PathBuf::from(env!("CARGO_BIN_EXE_hookjail"));
    let mut rounds = 9;
    let mut words = env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("`{word}` needs a value"));
        match &*word {
            "--program" => program = value()?.into(),
            "--rounds" => rounds = value()?.parse::<usize>()?.max(1),
            "--bench" => {}
            other => return Err(format!("`{other}` is not one of the arguments").into()),
        }
    }
    let server = serve(|stream| echo(&stream, &stream))?;
    let proxy = serve(pass_on)?;
    let directory = directory()?;
    for (name, network) in [
        (
            "named",
            format!("\"named\"\negress = [\"127.0.0.1:{server} any\"]"),
        ),
        ("outbound", "\"outbound\"".to_owned()),
    ] {
        let path = directory.path().join(format!("profiles/{name}.toml"));
        let text = format!(
            "description = \"{name}\"\nextends = \"pipeline\"\ngranted_by = \"anyone\"\nwarm = 0\nnetwork = {network}\n"
        );
        fs::write(&path, text)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o644))?;
    }
    let daemon = Daemon::start(&program, directory, "")?;
    let client = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let channel = connect(&client, &daemon.socket())?;
    let mut all: [Vec<Times>; WAYS.len()] = Default::default();
    for _ in 0..rounds {
        for (way, times) in WAYS.iter().zip(&mut all) {
            times.push(match *way {
                "bare" => bare(server, 0)?,
                "bare, by a proxy" => bare(server, proxy)?,
                profile => confined(&client, &channel, profile, server)?,
            });
        }
    }
    let [first, ..] = &all;
    let base = medians(first);
    println!("| way | connect | with a round trip | 16 MiB there and back |\n|---|---|---|---|");
    for (way, times) in WAYS.iter().zip(&all) {
        let [connect, trip, bytes] = medians(times);
        let [of_connect, of_trip, of_bytes] = base;
        println!(
            "| {way} | {:.2} | {:.2} | {:.2} |",
            connect / of_connect,
            trip / of_trip,
            bytes / of_bytes
        );
    }
    Ok(())
}

fn medians(times: &[Times]) -> [f64; 3] {
    [0, 1, 2].map(|part| {
        let mut sorted: Vec<u64> = times.iter().map(|it| it[part]).collect();
        sorted.sort_unstable();
        sorted[sorted.len() / 2] as f64
    })
}

fn bare(server: u16, proxy: u16) -> Outcome<Times> {
    let done = Command::new(PYTHON)
        .args(["-c", CLIENT, &server.to_string(), &proxy.to_string()])
        .output()?;
    read(&done.stdout, &done.stderr)
}

fn confined(client: &Runtime, channel: &Channel, profile: &str, server: u16) -> Outcome<Times> {
    let argv = [PYTHON, "-c", CLIENT, &server.to_string(), "0"].map(str::to_owned);
    let request = pb::ExecuteRequest {
        hook: Some(pb::Hook {
            argv: argv.into(),
            ..pb::Hook::default()
        }),
        profile: profile.to_owned(),
        ..pb::ExecuteRequest::default()
    };
    let mut hooks = HookServiceClient::new(channel.clone());
    let response = client.block_on(hooks.execute(request))?.into_inner();
    read(&response.stdout, &response.stderr)
}

fn read(stdout: &[u8], stderr: &[u8]) -> Outcome<Times> {
    let text = String::from_utf8_lossy(stdout);
    let numbers: Result<Vec<u64>, _> = text.split_whitespace().map(str::parse).collect();
    let times = numbers.ok().and_then(|numbers| numbers.try_into().ok());
    times.ok_or_else(|| String::from_utf8_lossy(stderr).into_owned().into())
}

/// Serves connections on loopback for as long as this process lives. Returns the port.
fn serve(each: fn(TcpStream)) -> Outcome<u16> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            stream.set_nodelay(true).ok();
            thread::spawn(move || each(stream));
        }
    });
    Ok(port)
}

/// Returns what comes. A client that goes away ends it.
fn echo(mut source: &TcpStream, mut sink: &TcpStream) {
    let mut bytes = vec![0; 1 << 18];
    while let Ok(read @ 1..) = source.read(&mut bytes) {
        if sink.write_all(&bytes[..read]).is_err() {
            return;
        }
    }
}

/// Connects a client to the host of its `CONNECT`, and copies both ways.
fn pass_on(stream: TcpStream) {
    let passed = || -> Outcome<()> {
        let mut lines = BufReader::with_capacity(1, stream.try_clone()?);
        let (mut first, mut rest) = (String::new(), String::new());
        lines.read_line(&mut first)?;
        lines.read_line(&mut rest)?;
        let place = first.split(' ').nth(1).ok_or("no place")?;
        let host = TcpStream::connect(place)?;
        host.set_nodelay(true)?;
        (&stream).write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
        thread::scope(|scope| {
            scope.spawn(|| {
                copy(&mut &stream, &mut &host).ok();
                host.shutdown(Shutdown::Write).ok();
            });
            copy(&mut &host, &mut &stream).ok();
            stream.shutdown(Shutdown::Write).ok();
        });
        Ok(())
    };
    if let Err(error) = passed() {
        eprintln!("the proxy: {error}");
    }
}
