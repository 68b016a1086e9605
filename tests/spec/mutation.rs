//! The policy with one element taken out at a time: something must detect each removal.
//!
//! `cargo test --test spec mutation -- --include-ignored --nocapture` prints for each element how its removal shows. An attempt
//! gets through, a call is not denied as documented, or the daemon refuses to run.
//! `HOOKJAIL_MUTANTS=N` tries every Nth element only.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    net::TcpStream,
};

use hookjail::policy::{HookView, Metadata, Network, Spawn};
use hookjail_sandbox::seccomp::{
    FilterSpec,
    rules::{Rule, rule},
    syscalls,
};
use hookjail_sys as sys;
use landlock::{ABI, Access as _, AccessFs, AccessNet, Scope};
use serde_json::Value;
use tonic_types::StatusExt;

use crate::{
    attempts::{Attempt, Control, Ends, Probe, result},
    doors::{Door, doors, open_doors},
    egress::{Server, named_profile, python},
    fail_closed::FakeKernel,
    matrix::{ALWAYS, WITH_PROCESSES, WITHOUT_PROCESSES},
    support::{Daemon, Setup, hook, needs_root, reason},
};

/// Elements whose removal no test here detects, each with the cause.
const ARGUED: &[(&str, &str)] = &[
    ("seccomp:sethostname", CAPABILITY),
    ("seccomp:setdomainname", CAPABILITY),
    ("seccomp:setgroups", CAPABILITY),
    ("seccomp:syslog", CAPABILITY),
    ("seccomp:vhangup", CAPABILITY),
    ("closing:setgroups", CAPABILITY),
    (
        "guard:arch",
        "every other program that is loaded checks the architecture as well",
    ),
    ("landlock:MakeBlock", CAPABILITY),
    (
        "landlock:Refer",
        "without it the kernel refuses every move between directories",
    ),
];

const CAPABILITY: &str =
    "the kernel asks for a capability, and a hook has none: attested in each run";

/// Defences in front of a right, and the attempt that must fail by the right alone.
type Behind = (
    &'static str,
    &'static [&'static str],
    &'static [&'static str],
);

/// Rights that another layer covers: with that taken out they must hold by themselves.
const BEHIND: &[Behind] = &[
    (
        "MakeChar",
        &["seccomp:mknod", "seccomp:mknodat"],
        &["whiteout", "{outside}/new"],
    ),
    (
        "MakeFifo",
        &["seccomp:mknod", "seccomp:mknodat"],
        &["pipe-file", "{outside}/new"],
    ),
    (
        "MakeSock",
        &["seccomp:mknod", "seccomp:mknodat"],
        &["socket-file-at", "{outside}/new"],
    ),
    (
        "IoctlDev",
        &["argument:ioctl:1"],
        &["device-request", "/dev/null"],
    ),
    (
        "ConnectTcp",
        &["seccomp:socket", "seccomp:connect"],
        &["tcp", "{tcp}"],
    ),
    (
        "BindTcp",
        &["seccomp:socket", "seccomp:bind"],
        &["tcp-bind"],
    ),
    (
        "AbstractUnixSocket",
        &["seccomp:socket", "seccomp:connect"],
        &["unix-stream", "{abstract}"],
    ),
];

#[tokio::test]
#[ignore = "takes minutes: every element is taken out"]
async fn something_notices_each_element_of_the_policy_that_is_taken_out() {
    let probe = Probe::build();
    let every: usize = std::env::var("HOOKJAIL_MUTANTS").map_or(1, |n| n.parse().unwrap());
    let mut layers: BTreeMap<String, (usize, usize, usize)> = BTreeMap::new();
    let mut faults = Vec::new();
    for (number, element) in elements().into_iter().enumerate() {
        if number % every != 0 {
            continue;
        }
        let layer = element.split(':').next().unwrap().to_owned();
        let (noticed, argued, total) = layers.entry(layer).or_default();
        *total += 1;
        let argument = ARGUED.iter().find(|(name, _)| *name == element);
        match (notice(&probe, &element).await, argument) {
            (Some(notice), None) => {
                *noticed += 1;
                println!("noticed  {element:<32} {}", notice.lines().next().unwrap());
            }
            (None, Some((_, why))) => {
                *argued += 1;
                println!("argued   {element:<32} {why}");
            }
            (None, None) => faults.push(format!("{element}: nothing notices")),
            (Some(notice), Some(_)) => faults.push(format!("{element}: argued, but {notice}")),
        }
    }
    for (layer, (noticed, argued, total)) in layers {
        println!("{layer}: {noticed} of {total} noticed, {argued} argued");
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Returns the names of all elements of `strict` and `pipeline` on this kernel.
fn elements() -> Vec<String> {
    let landlock_abi = sys::landlock_abi().unwrap();
    let abi = ABI::from(i32::try_from(landlock_abi).unwrap());
    let mut names: Vec<String> = Vec::new();
    names.extend(
        AccessFs::from_all(abi)
            .iter()
            .map(|right| format!("landlock:{right:?}")),
    );
    names.extend(
        AccessNet::from_all(abi)
            .iter()
            .map(|right| format!("landlock:{right:?}")),
    );
    names.extend(
        Scope::from_all(abi)
            .iter()
            .map(|scope| format!("landlock:{scope:?}")),
    );
    names.extend(["arch", "unknown", "x32"].map(|check| format!("guard:{check}")));
    names.extend(
        ["CORE", "FSIZE", "NOFILE", "SIGPENDING"].map(|limit| format!("limit:RLIMIT_{limit}")),
    );
    let strict = FilterSpec {
        landlock_abi,
        metadata: Metadata::Keep,
        mounts: false,
        network: Network::None,
        spawn: Spawn::Threads,
        view: HookView::Machine,
    };
    for (number, name) in syscalls::TABLE {
        match rule(&strict, *number) {
            Rule::Allow => {}
            Rule::AllowWhen { ways, .. } => {
                let mut arguments: Vec<_> = ways.iter().flatten().map(|test| test.index).collect();
                arguments.sort_unstable();
                arguments.dedup();
                names.extend(
                    arguments
                        .iter()
                        .map(|index| format!("argument:{name}:{index}")),
                );
            }
            Rule::Errno(_) | Rule::Kill => names.push(format!("seccomp:{name}")),
        }
    }
    let mut set_up = vec!["clone", "landlock_restrict_self", "seccomp", "setpgid"];
    if nix::unistd::geteuid().is_root() {
        set_up.extend(["capset", "setgroups"]);
        names.extend(["limit:RLIMIT_NPROC", "set-up:bounding"].map(str::to_owned));
    }
    names.extend(set_up.iter().map(|name| format!("closing:{name}")));
    names
}

/// Returns the first sign that an element is missing.
async fn notice(probe: &Probe, element: &str) -> Option<String> {
    let right = element.strip_prefix("landlock:").unwrap_or_default();
    if let Some((_, before, words)) = BEHIND.iter().find(|(name, ..)| *name == right) {
        let attempt = Attempt {
            row: "",
            words,
            control: Control::Works,
            ends: Ends::Refused(&[libc::EACCES, libc::EPERM]),
        };
        // Else the self-test would refuse to run what the other layer lacks.
        let mut lacking = vec!["proof:self-test"];
        lacking.extend(*before);
        let daemon = weakened(&lacking).await;
        let held = probe.failures_of_hooks(&daemon, "strict", [&attempt]).await;
        assert!(
            held.is_empty(),
            "{element} does not hold by itself: {held:?}"
        );
        lacking.push(element);
        let daemon = weakened(&lacking).await;
        return probe
            .failures_of_hooks(&daemon, "strict", [&attempt])
            .await
            .pop();
    }
    let daemon = weakened(&[element]).await;
    let name = element.split(':').nth(1).unwrap_or_default();
    for (profile, processes, attempts_of_profile) in [
        ("strict", false, WITHOUT_PROCESSES),
        ("pipeline", true, WITH_PROCESSES),
    ] {
        // The quick and the likely detectors first.
        let (likely, others): (Vec<Door>, Vec<Door>) = doors(processes)
            .into_iter()
            .partition(|door| door.name == name);
        let notice = open_doors(probe, &daemon, profile, &likely).await.pop();
        if notice.is_some() {
            return notice;
        }
        let notice = differing_state(probe, &daemon, profile).await;
        if notice.is_some() {
            return notice;
        }
        let attempts = attempts_of_profile.iter().chain(ALWAYS);
        for attempt in attempts {
            let notice = probe
                .failures_of_hooks(&daemon, profile, [attempt])
                .await
                .pop();
            if notice.is_some() {
                return notice;
            }
        }
        let notice = open_doors(probe, &daemon, profile, &others).await.pop();
        if notice.is_some() {
            return notice;
        }
    }
    None
}

/// Starts a daemon whose policy lacks elements.
async fn weakened(elements: &[&str]) -> Daemon {
    Daemon::with(Setup {
        env: vec![("HOOKJAIL_WEAKEN".to_owned(), elements.join(" "))],
        ..Setup::default()
    })
    .await
}

/// Has a hook report its own state; returns the report if it differs from the expected one.
async fn differing_state(probe: &Probe, daemon: &Daemon, profile: &str) -> Option<String> {
    let expected = [
        (vec!["descriptors"], None, "0 1 2 "),
        // A hook inherits no ignored and no blocked signal of the daemon.
        (vec!["raise", "10"], Some(libc::SIGUSR1), ""),
        (vec!["raise", "12"], Some(libc::SIGUSR2), ""),
        (
            vec!["state"],
            None,
            "core 0 0\nfiles 256\nno_new_privs 1\nleader 1\numask 77\n",
        ),
    ];
    let tasks = ["many-processes", "100"].map(str::to_owned);
    if profile == "pipeline" && nix::unistd::geteuid().is_root() {
        let seen = daemon.run(probe.hook(profile, &tasks)).await.map(result);
        if !seen
            .as_ref()
            .is_ok_and(|seen| seen.code == Some(libc::EAGAIN))
        {
            return Some(format!("`{profile}`: {tasks:?}: {seen:?}"));
        }
    }
    for (words, signal, expected) in expected {
        let words: Vec<_> = words.into_iter().map(str::to_owned).collect();
        let seen = match daemon.run(probe.hook(profile, &words)).await {
            Ok(response) => result(response),
            Err(status) => return Some(format!("refused: {}", status.message())),
        };
        if seen.signal != signal || !seen.said.ends_with(expected) {
            return Some(format!("`{profile}`: {words:?}: {seen:?}"));
        }
    }
    None
}

/// Steps that a kernel reports as done without doing them: the step, its flaw, whether only root takes it, and the defence
/// behind it where nothing detects the flaw.
const DEAD_STEPS: &[(&str, &str, bool, Option<&str>)] = &[
    ("signals", "13=0", false, None),
    ("process group", "109=0", false, None),
    ("stdio", "292/1@1=0", false, None),
    ("groups", "116=0", true, None),
    ("gid", "119=0", true, None),
    ("uid", "117=0", true, None),
    (
        "capabilities",
        "126=0",
        true,
        Some("giving up uid 0 clears them, which is attested"),
    ),
    (
        "parent death signal",
        "157/1=0",
        false,
        Some("the keeper kills what a killed daemon leaves"),
    ),
    ("parent", "110=0", false, None),
    ("working directory", "81=0", false, None),
    ("Landlock domain", "446=0", false, None),
    ("close descriptors", "436=0", false, None),
    ("limits", "302=0", false, None),
    // But for the one that returns a listener.
    ("filters", "317/0@1=0", false, None),
    ("signal mask", "14=0", false, None),
];

#[tokio::test]
async fn something_notices_each_step_of_the_set_up_that_only_seems_to_be_taken() {
    let (probe, kernel) = (Probe::build(), FakeKernel::build());
    // The positive control: nothing is detected where every step is taken.
    let daemon = kernel.daemon(&[]).await;
    assert_eq!(differing_state(&probe, &daemon, "strict").await, None);
    let state = probe.confined(&daemon, "strict", &["state"]).await;
    drop(daemon);

    let mut faults = Vec::new();
    for (step, flaw, only_root, argued) in DEAD_STEPS {
        if *only_root && !nix::unistd::geteuid().is_root() {
            continue;
        }
        let daemon = kernel.daemon(&["--errno", flaw]).await;
        let mut notice = differing_state(&probe, &daemon, "strict").await;
        if notice.is_none() {
            let now = probe.confined(&daemon, "strict", &["state"]).await;
            let now = who(&now.said);
            notice = (now != who(&state.said)).then(|| now.join(", "));
        }
        match (&notice, argued) {
            (Some(notice), None) => {
                println!("noticed  {step:<32} {}", notice.lines().next().unwrap())
            }
            (None, Some(why)) => println!("argued   {step:<32} {why}"),
            _ => faults.push(format!("{step}: {notice:?}, argued {argued:?}")),
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// A filter that only seems to be loaded: three proofs stand before a hook that would run without it.
#[tokio::test]
async fn each_proof_by_itself_refuses_filters_that_only_seem_to_be_loaded() {
    let (probe, kernel) = (Probe::build(), FakeKernel::build());
    for (lacking, expected) in [
        ("", "is not confirmed"),
        ("proof:attestation", "is not confirmed"),
        ("proof:self-test", "is not as planned"),
        ("proof:self-test proof:attestation", "answered"),
    ] {
        // But for the one that returns a listener, none is.
        let daemon = kernel.weakened(&["--errno", "317/0@1=0"], lacking).await;
        let words = ["call", "setpgid", "0", "0"].map(str::to_owned);
        let request = probe.hook("strict", &words);
        let seen = match daemon.run(request).await {
            Ok(response) => String::from_utf8_lossy(&response.stdout).into_owned(),
            Err(status) => status.message().to_owned(),
        };
        assert!(seen.contains(expected), "{lacking}: {seen}");
    }
}

/// Returns the ids that a hook reports, without its uid, which differs in each run.
fn who(state: &str) -> Vec<String> {
    let user = state.split_whitespace().nth(1).unwrap();
    let ids = state.lines().take(3);
    ids.map(|line| line.replace(user, "USER")).collect()
}

/// Elements taken out of the mechanism while the claims of the backend stay the same, by axis. Of access to devices, Landlock
/// refuses reading, so a hole there shows on `read` first.
const HOLES: &[(&str, &str)] = &[
    ("read", "landlock:ReadFile landlock:ReadDir"),
    ("write", "landlock:MakeReg"),
    ("write", "landlock:Truncate"),
    ("execute", "landlock:Execute"),
    ("network", "seccomp:socket"),
    ("spawn", "seccomp:setpgid"),
    ("ipc", "seccomp:shmget"),
    ("metadata", "seccomp:fchmodat"),
];

#[tokio::test]
async fn a_mechanism_with_a_hole_is_caught_by_the_self_test_on_the_axis_of_the_hole() {
    let root = nix::unistd::geteuid().is_root();
    // Where no uid counts them, the number of tasks is not claimed.
    let tasks = root.then_some(("pids", "limit:RLIMIT_NPROC"));
    for (axis, hole) in HOLES.iter().copied().chain(tasks) {
        let daemon = Daemon::with(Setup {
            env: vec![("HOOKJAIL_WEAKEN".to_owned(), hole.to_owned())],
            ..Setup::default()
        })
        .await;

        let refusal = daemon.run(hook(["/bin/true"])).await.expect_err(hole);

        assert_eq!(reason(&refusal), "BACKEND_UNCONFIRMED", "{hole}");
        let details = refusal.get_error_details();
        let metadata = &details.error_info().unwrap().metadata;
        let reported_axis = metadata.get("axis").map(String::as_str);
        assert_eq!(reported_axis, Some(axis), "{hole}: {}", refusal.message());
    }
}

/// Prints the result of a way, or the name of its error, in every run below.
const WAYS: &str = r#"
FAST = 0x20000000
def tried(act):
    try:
        return act() or "done"
    except OSError as e:
        return errno.errorcode.get(e.errno, type(e).__name__)
def stream(): return socket.socket(socket.AF_INET, socket.SOCK_STREAM)
def connected(host, port, *bytes):
    s = socket.create_connection((host, port), 20)
    for some in bytes: s.sendall(some)
    return s.recv(9).decode()
def echoed(host, port, size):
    s = socket.create_connection((host, port), 20)
    for _ in range(size // 100000):
        s.sendall(b"x" * 100000)
        if len(s.makefile("rb").read(100000)) < 100000: raise ConnectionResetError(errno.ECONNRESET, "ended")
    return "all"
def option(level, name, value):
    s = stream(); s.setsockopt(level, name, value); s.connect(there)
def tls(name):
    context = ssl.create_default_context(); context.check_hostname = False; context.verify_mode = ssl.CERT_NONE
    s = context.wrap_socket(socket.create_connection(("localhost", secure), 20), server_hostname=name)
    s.sendall(b"ping"); return s.recv(9).decode()
def asked(host):
    s = socket.create_connection(("localhost", web), 20)
    s.sendall(b"GET / HTTP/1.1\r\nConnection: close\r\nHost: " + host + b"\r\n\r\n")
    return s.makefile().readline().split()[1]
"#;

/// An element of the rules for named hosts, a way that it closes, and the result while it stands.
const OF_NAMED_HOSTS: &[(&str, &str, &[&str])] = &[
    (
        "argument:sendto:3",
        "stream().send(b'x', FAST) and None",
        &["EPERM"],
    ),
    (
        "argument:sendto:4",
        "stream().sendto(b'x', there) and None",
        &["EPERM"],
    ),
    (
        "argument:sendmsg:2",
        "stream().sendmsg([b'x'], [], FAST, there) and None",
        &["EPERM"],
    ),
    (
        "argument:setsockopt:2",
        "option(socket.IPPROTO_TCP, 30, 1)",
        &["EPERM"],
    ),
    (
        "argument:socket:0",
        "socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) and None",
        &["EPERM"],
    ),
    (
        "argument:socket:1",
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM) and None",
        &["EPERM"],
    ),
    (
        "argument:socket:2",
        "socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262) and None",
        &["EPERM"],
    ),
    (
        "seccomp:bind",
        "stream().bind(('127.0.0.1', 0))",
        &["EPERM"],
    ),
    ("seccomp:listen", "stream().listen()", &["EPERM"]),
    ("seccomp:accept4", "stream().accept()", &["EPERM"]),
    ("relay:rules", "connected(*there, b'ping')", &["EACCES"]),
    (
        "relay:server-name",
        "tls('evil.example')",
        &["ECONNRESET", "SSLEOFError", "EPIPE"],
    ),
    ("relay:host", "asked(b'evil.example')", &["403"]),
    (
        "relay:addresses",
        "connected('moves.example', moves, b'ping')",
        &["ECONNRESET"],
    ),
    (
        "relay:connections",
        "[connected('localhost', plain, b'ping') for _ in range(9)][-1]",
        &["EACCES"],
    ),
    (
        "relay:bytes",
        "echoed('localhost', plain, 300000)",
        &["ECONNRESET", "EPIPE"],
    ),
];

/// Answers a request over HTTP, and echoes any other input.
fn answer(mut stream: TcpStream) {
    let mut bytes = [0; 4096];
    while let Ok(read @ 1..) = stream.read(&mut bytes) {
        let reply = match bytes.starts_with(b"GET ") {
            true => &b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"[..],
            false => &bytes[..read],
        };
        if stream.write_all(reply).is_err() {
            return;
        }
    }
}

#[tokio::test]
#[ignore = "needs root and python3"]
async fn something_notices_each_rule_for_named_hosts_that_is_taken_out() {
    needs_root();
    let (plain, other) = (
        Server::serving("127.0.0.1", answer),
        Server::serving("127.0.0.1", answer),
    );
    let web = Server::serving("127.0.0.1", answer);
    let moves = Server::serving("127.0.0.2", answer);
    let (secure, _) = Server::of_tls(&["localhost"]);
    let hosts = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&hosts, "127.0.0.1 localhost\n127.0.0.2 moves.example\n").unwrap();
    let mounted = format!(
        "mount --bind {} /etc/hosts && exec \"$@\"",
        hosts.path().display()
    );
    let wrapper = ["unshare", "--mount", "/bin/sh", "-c", &mounted, "sh"].map(str::to_owned);
    let rules = [
        format!("localhost:{} any", plain.port),
        format!("localhost:{}", secure.port),
        format!("localhost:{} http", web.port),
        format!("moves.example:{} any", moves.port),
    ];
    let profile = named_profile(
        &rules,
        "[limits]\negress_connections = 8\negress_bytes = \"128KiB\"\n",
    );
    let head = format!(
        "plain, secure, web, moves, there = {}, {}, {}, {}, (\"127.0.0.1\", {})\n",
        plain.port, secure.port, web.port, moves.port, other.port
    );
    let mut faults = Vec::new();
    for (element, way, usual) in OF_NAMED_HOSTS {
        let mut seen = Vec::new();
        // Beneath them Landlock refuses connections of its own.
        for lacking in ["", element] {
            let lacking = format!("{lacking} proof:self-test landlock:ConnectTcp landlock:BindTcp");
            let daemon = Daemon::with(Setup {
                env: vec![("HOOKJAIL_WEAKEN".to_owned(), lacking)],
                profiles: vec![("named".to_owned(), profile.clone())],
                wrapper: wrapper.clone().into(),
                ..Setup::default()
            })
            .await;
            let script = format!("{head}{WAYS}\nprint(json.dumps(tried(lambda: {way})))");
            // Or the daemon itself detects it.
            let ran = daemon.run(python(&script)).await;
            seen.push(match ran {
                Ok(ran) => serde_json::from_slice(&ran.stdout).unwrap_or_default(),
                Err(refusal) => Value::from(refusal.message()),
            });
        }
        let is_usual = |seen: &Value| usual.iter().any(|usual| *usual == *seen);
        println!("{element}: {} instead of {}", seen[1], seen[0]);
        if !is_usual(&seen[0]) || is_usual(&seen[1]) {
            faults.push((element, seen));
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
    // The daemon sees no connection of a run that has no listener: the run's own proof does.
    let daemon = Daemon::with(Setup {
        env: vec![(
            "HOOKJAIL_WEAKEN".to_owned(),
            "seccomp:connect proof:self-test landlock:ConnectTcp".to_owned(),
        )],
        profiles: vec![("named".to_owned(), profile.clone())],
        wrapper: wrapper.clone().into(),
        ..Setup::default()
    })
    .await;
    let refusal = daemon.run(python("print(1)")).await.unwrap_err();
    assert_eq!(reason(&refusal), "BACKEND_UNCONFIRMED");
    assert!(
        refusal.message().contains("beside the daemon's relay"),
        "{refusal}"
    );
}
