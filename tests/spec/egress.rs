//! Under `network = "named"` a hook reaches the hosts of its profile, and nothing else, without its help.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start clients, never a hook"
)]

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{Ipv6Addr, TcpListener},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use base64::{Engine, prelude::BASE64_STANDARD};
use hookjail::pb;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::{
    ServerConfig, ServerConnection, Stream,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::{
    fail_closed::FakeKernel,
    support::{Daemon, Setup, contained, hook, needs_no_container, needs_root, reason, without},
};

pub(crate) const PYTHON: &str = "/usr/bin/python3";

/// A server's end of a connection by TLS.
pub(crate) type TlsStream<'a> = Stream<'a, ServerConnection, std::net::TcpStream>;

/// A server on loopback that returns what it gets, and counts who came.
pub(crate) struct Server {
    came: Arc<AtomicUsize>,
    pub(crate) port: u16,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::serving("127.0.0.1", |mut stream| {
            let mut bytes = [0; 4096];
            while let Ok(read @ 1..) = stream.read(&mut bytes) {
                if stream.write_all(&bytes[..read]).is_err() {
                    return;
                }
            }
        })
    }

    /// Returns a server that speaks TLS, with its certificate as PEM for these names.
    pub(crate) fn of_tls(names: &[&str]) -> (Self, String) {
        Self::speaking_tls(names, |stream| {
            let mut bytes = [0; 4096];
            while let Ok(read @ 1..) = stream.read(&mut bytes) {
                if stream.write_all(&bytes[..read]).is_err() {
                    return;
                }
            }
        })
    }

    /// Returns a server that speaks another protocol inside TLS.
    pub(crate) fn speaking_tls(
        names: &[&str],
        speak: impl Fn(&mut TlsStream<'_>) + Clone + Send + 'static,
    ) -> (Self, String) {
        let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
        let CertifiedKey { cert, signing_key } = generate_simple_self_signed(names).unwrap();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(signing_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key)
            .unwrap();
        let config = Arc::new(config);
        let server = Self::serving("127.0.0.1", move |mut stream| {
            let Ok(mut connection) = ServerConnection::new(Arc::clone(&config)) else {
                return;
            };
            speak(&mut Stream::new(&mut connection, &mut stream));
        });
        let encoded = BASE64_STANDARD.encode(cert.der());
        let pem = format!("-----BEGIN CERTIFICATE-----\n{encoded}\n-----END CERTIFICATE-----\n");
        (server, pem)
    }

    pub(crate) fn serving(
        address: &str,
        serve: impl Fn(std::net::TcpStream) + Clone + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind((address, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let came = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&came);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                count.fetch_add(1, Ordering::SeqCst);
                let serve = serve.clone();
                thread::spawn(move || serve(stream));
            }
        });
        Self { came, port }
    }

    pub(crate) fn came(&self) -> usize {
        self.came.load(Ordering::SeqCst)
    }
}

/// Returns a daemon with the profile `named`, which reaches these hosts.
async fn daemon(egress: &[String], more: &str) -> Daemon {
    daemon_behind(Vec::new(), egress, more).await
}

/// Returns a daemon that another program starts.
async fn daemon_behind(wrapper: Vec<String>, egress: &[String], more: &str) -> Daemon {
    Daemon::with(Setup {
        profiles: vec![("named".to_owned(), named_profile(egress, more))],
        wrapper,
        ..Setup::default()
    })
    .await
}

/// Returns the text of a profile that reaches these hosts.
pub(crate) fn named_profile(egress: &[String], more: &str) -> String {
    let egress: Vec<_> = egress.iter().map(|it| format!("{it:?}")).collect();
    format!(
        "description = \"Named hosts.\"\nextends = [\"pipeline\", \"certificates\"]\nnetwork = \"named\"\nwarm = 0\negress = [{}]\n{more}",
        egress.join(", ")
    )
}

/// Returns a daemon with a profile `named` and keys of its configuration.
pub(crate) async fn daemon_of(profile: &str, config: &str) -> Daemon {
    Daemon::with(Setup {
        config: config.to_owned(),
        profiles: vec![("named".to_owned(), profile.to_owned())],
        ..Setup::default()
    })
    .await
}

/// Beginning of every client of these tests.
pub(crate) const PRELUDE: &str = r#"
import errno, json, os, signal, socket, ssl, struct, sys, threading, time
def to(address, family=socket.AF_INET, kind=socket.SOCK_STREAM):
    try:
        s = socket.socket(family, kind)
        s.settimeout(20)
        s.connect(address)
        s.sendall(b"ping")
        got = s.recv(100)
        return got.decode() or "closed"
    except OSError as e:
        return errno.errorcode.get(e.errno, str(e))
def name(host, port):
    try:
        return to(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][4])
    except socket.gaierror as e:
        return "gaierror"
"#;

pub(crate) fn python(script: &str) -> pb::ExecuteRequest {
    let text = format!("{PRELUDE}\n{script}");
    let mut request = hook([PYTHON, "-c", &text]);
    request.profile = "named".to_owned();
    request
}

pub(crate) async fn printed(daemon: &Daemon, script: &str) -> (Value, pb::ExecuteResponse) {
    output_of(daemon, python(script)).await
}

/// Returns the JSON that a hook prints, and its answer.
pub(crate) async fn output_of(
    daemon: &Daemon,
    request: pb::ExecuteRequest,
) -> (Value, pb::ExecuteResponse) {
    let response = daemon.run(request).await.unwrap();
    let text = String::from_utf8_lossy(&response.stdout).into_owned();
    let stderr = String::from_utf8_lossy(&response.stderr).into_owned();
    let value = serde_json::from_str(&text).unwrap_or(Value::Null);
    assert!(!value.is_null(), "{text} {stderr}");
    (value, response)
}

/// Returns what an unconfined client prints.
fn bare(script: &str) -> Value {
    let text = format!("{PRELUDE}\n{script}");
    let done = Command::new(PYTHON).args(["-c", &text]).output().unwrap();
    serde_json::from_slice(&done.stdout).unwrap()
}

/// Returns the end record's connections of the last run, without times.
pub(crate) fn recorded(daemon: &Daemon) -> Vec<Value> {
    let ended = daemon
        .journal()
        .into_iter()
        .rfind(|it| it["record"] == "ended");
    let mut lines = ended.unwrap()["egress"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    for line in &mut lines {
        line.as_object_mut().unwrap().remove("ms");
    }
    lines
}

#[tokio::test]
async fn rules_that_are_none_and_networks_that_need_them_are_refused_with_a_fix() {
    for (network, egress, part) in [
        ("named", "", "`egress` names no host"),
        ("none", "\"a.org:443\"", "set `network = \"named\"`"),
        ("named", "\"a.org\"", "has no port"),
        ("named", "\"*.org:443\"", "at least two labels"),
        ("named", "\"10.0.0.1:443\"", "add ` any` or ` http`"),
    ] {
        let text = format!(
            "description = \"x\"\nextends = \"strict\"\nnetwork = {network:?}\negress = [{egress}]\n"
        );
        let daemon = Daemon::with(Setup {
            profiles: vec![("named".to_owned(), text)],
            ..Setup::default()
        })
        .await;
        let mut request = hook(["/bin/true"]);
        request.profile = "named".to_owned();
        let error = daemon.run(request).await.unwrap_err();
        assert!(error.message().contains(part), "{part}: {error}");
    }
}

#[tokio::test]
async fn a_run_proves_that_a_connection_to_no_host_is_refused() {
    needs_no_container();
    let daemon = daemon(&["127.0.0.1:1 any".to_owned()], "").await;
    let mut request = hook(["/bin/true"]);
    let seen = |response: &pb::ExecuteResponse| {
        let mut evidence = response.confinement.iter().flat_map(|it| &it.evidence);
        let seen = evidence.find(|it| it.check == "canary_unnamed");
        seen.map(|it| it.observed.clone())
    };
    assert_eq!(seen(&daemon.run(request.clone()).await.unwrap()), None);
    request.profile = "named".to_owned();
    let response = daemon.run(request).await.unwrap();
    assert_eq!(seen(&response).as_deref(), Some("refused"));
    // The connection is not one of the hook's.
    assert_eq!(recorded(&daemon), Vec::<Value>::new());
    assert_eq!(response.denials, []);
}

#[tokio::test]
async fn where_another_filter_listens_a_profile_that_names_hosts_is_refused() {
    needs_no_container();
    let kernel = FakeKernel::build();
    // An older Landlock is faked by a filter with a listener.
    let wrapper = kernel.wrapper(&["--landlock", "6"]);
    let daemon = daemon_behind(wrapper, &["127.0.0.1:1 any".to_owned()], "").await;
    let mut request = hook(["/bin/true"]);
    // The control: others are served.
    let served = daemon.run(request.clone()).await.unwrap();
    assert_eq!(served.outcome.unwrap().exit_code, Some(0));
    request.profile = "named".to_owned();
    let error = daemon.run(request).await.unwrap_err();
    assert_eq!(reason(&error), "BACKEND_UNCONFIRMED");
    let part = "`network = \"named\"` needs a filter that reports to the daemon";
    assert!(error.message().contains(part), "{error}");
}

#[tokio::test]
async fn a_profile_beyond_the_hosts_that_the_operator_allows_is_not_served() {
    let profile = |host: &str| {
        format!(
            "description = \"x\"\nextends = \"strict\"\nnetwork = \"named\"\negress = [\"{host}\"]\n"
        )
    };
    let daemon = Daemon::with(Setup {
        config: "[egress]\nallow = [\"*.corp.example:443\"]\n".to_owned(),
        profiles: vec![
            ("inside".to_owned(), profile("a.corp.example:443")),
            ("outside".to_owned(), profile("b.example:443")),
            (
                "every".to_owned(),
                "description = \"x\"\nextends = \"strict\"\nnetwork = \"outbound\"\n".to_owned(),
            ),
        ],
        ..Setup::default()
    })
    .await;
    let run = |profile: &str| {
        let mut request = hook(["/bin/true"]);
        request.profile = profile.to_owned();
        daemon.run(request)
    };
    if !contained() {
        let served = run("inside").await.unwrap();
        assert_eq!(served.outcome.unwrap().exit_code, Some(0));
    }
    for (profile, part) in [
        ("outside", "`b.example:443` is beyond `egress.allow`"),
        ("every", "`network = \"outbound\"` is beyond `egress.allow`"),
    ] {
        let error = run(profile).await.unwrap_err();
        assert_eq!(reason(&error), "PROFILE_UNKNOWN");
        assert!(error.message().contains(part), "{error}");
    }
}

mod with_tools {
    use super::*;

    /// Answer of the server of everyday clients: a list of references, as git reads it of files.
    const ANSWER: &str = "da39a3ee5e6b4b0d3255bfef95601890afd80709\trefs/heads/main\n";

    #[tokio::test]
    #[ignore = "needs bash, curl, git, node, perl and python3"]
    async fn everyday_clients_work_unconfigured_by_name() {
        needs_no_container();
        let server = Server::serving("127.0.0.1", |mut stream| {
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            while lines
                .next()
                .is_some_and(|line| line.is_ok_and(|line| !line.is_empty()))
            {}
            let length = ANSWER.len();
            let head = format!(
                "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {length}\r\nContent-Type: text/plain\r\n\r\n"
            );
            drop(stream.write_all(format!("{head}{ANSWER}").as_bytes()));
        });
        let place = format!("localhost:{}", server.port);
        let egress = [
            format!("{place} http"),
            format!("127.0.0.1:{} http", server.port),
        ];
        let daemon = daemon(&egress, "").await;
        let url = format!("http://{place}/r");
        let bash = format!(
            "exec 3<>/dev/tcp/{} && printf 'GET /r HTTP/1.1\\r\\nHost: {place}\\r\\n\\r\\n' >&3 && while IFS= read -r l; do printf '%s\\n' \"$l\"; done <&3",
            place.replace(':', "/")
        );
        let perl = format!("use HTTP::Tiny; print HTTP::Tiny->new->get('{url}')->{{content}}");
        let urllib = format!(
            "import urllib.request; print(urllib.request.urlopen('{url}').read().decode(), end='')"
        );
        let fetch =
            format!("fetch('{url}').then(r => r.text()).then(t => process.stdout.write(t))");
        let get = format!("require('http').get('{url}', r => r.pipe(process.stdout))");
        let clients: [&[&str]; 7] = [
            &["/bin/bash", "-c", &bash],
            &["/usr/bin/curl", "-sS", &url],
            &["/usr/bin/git", "ls-remote", &url],
            &["/usr/bin/perl", "-e", &perl],
            &[PYTHON, "-c", &urllib],
            &["/usr/bin/env", "node", "-e", &fetch],
            &["/usr/bin/env", "node", "-e", &get],
        ];
        for client in clients {
            let bare = Command::new(client[0])
                .args(&client[1..])
                .env("HOME", "/")
                .output()
                .unwrap();
            let bare = String::from_utf8_lossy(&bare.stdout).into_owned();
            assert!(bare.ends_with(ANSWER), "bare: {client:?} {bare}");
            let before = server.came();

            let mut request = hook([client[0]]);
            let argv = client.iter().map(|&word| word.to_owned());
            request.hook.as_mut().unwrap().argv = argv.collect();
            request.profile = "named".to_owned();
            let response = daemon.run(request).await.unwrap();

            let stdout = String::from_utf8_lossy(&response.stdout);
            let stderr = String::from_utf8_lossy(&response.stderr);
            assert!(stdout.ends_with(ANSWER), "{client:?} {stdout} {stderr}");
            assert!(server.came() > before, "{client:?}");
        }
        // The control: the same name at another port.
        let closed = Server::start();
        let other = format!("http://localhost:{}/r", closed.port);
        let mut request = hook(["/usr/bin/curl", "-sS", &other]);
        request.profile = "named".to_owned();
        let response = daemon.run(request).await.unwrap();
        assert_eq!(
            (response.outcome.unwrap().exit_code, closed.came()),
            (Some(7), 0)
        );
    }

    #[tokio::test]
    #[ignore = "needs python3"]
    async fn a_killed_daemon_ends_the_connections_of_its_hooks() {
        needs_no_container();
        let (report, mut reported) = tokio::sync::mpsc::unbounded_channel();
        let server = Server::serving("127.0.0.1", move |mut stream| {
            let mut bytes = [0; 100];
            loop {
                // A reset is an end, too.
                let read = stream.read(&mut bytes).unwrap_or_default();
                if report.send(read).is_err() || read == 0 {
                    return;
                }
            }
        });
        let port = server.port;
        let daemon = daemon(&[format!("127.0.0.1:{port} any")], "").await;
        let script = format!(
            "s = socket.create_connection(('127.0.0.1', {port})); s.sendall(b'ping'); time.sleep(60)"
        );
        let mut client = daemon.client();
        let running = tokio::spawn(async move { client.execute(python(&script)).await });
        let soon = Duration::from_secs(20);
        assert_eq!(timeout(soon, reported.recv()).await, Ok(Some(4)));
        // The control: the connection stays while the daemon lives.
        assert!(
            timeout(Duration::from_millis(300), reported.recv())
                .await
                .is_err()
        );

        let directory = daemon.kill();

        assert_eq!(timeout(soon, reported.recv()).await, Ok(Some(0)));
        running.await.unwrap().unwrap_err();
        drop(directory);
    }

    #[tokio::test]
    #[ignore = "needs python3"]
    async fn a_request_narrows_a_profile_to_some_of_its_hosts() {
        needs_no_container();
        let (kept, other) = (Server::start(), Server::start());
        let rules = [&kept, &other].map(|server| format!("127.0.0.1:{} any", server.port));
        let daemon = daemon(&rules, "").await;
        let script = format!(
            "print(json.dumps([to(('127.0.0.1', port)) for port in ({}, {})]))",
            kept.port, other.port
        );
        // The control.
        let (seen, _) = printed(&daemon, &script).await;
        assert_eq!(seen, json!(["ping", "ping"]));

        let mut request = python(&script);
        let narrow = |egress: &str| {
            Some(pb::Narrow {
                egress: vec![egress.to_owned()],
                ..pb::Narrow::default()
            })
        };
        request.narrow = narrow(&rules[0]);
        let response = daemon.run(request.clone()).await.unwrap();
        let seen: Value = serde_json::from_slice(&response.stdout).unwrap();
        assert_eq!(seen, json!(["ping", "EACCES"]));
        assert_eq!((kept.came(), other.came()), (2, 1));

        for (egress, expected) in [
            ("127.0.0.2:1 any", "PROFILE_WIDENED"),
            ("127.0.0.1", "INVALID_REQUEST"),
        ] {
            request.narrow = narrow(egress);
            let error = daemon.run(request.clone()).await.unwrap_err();
            assert_eq!(reason(&error), expected, "{error}");
        }
    }

    #[tokio::test]
    #[ignore = "needs python3"]
    async fn a_hook_reaches_the_hosts_of_its_profile_and_no_others() {
        needs_no_container();
        let (allowed, other) = (Server::start(), Server::start());
        let (port, closed) = (allowed.port, other.port);
        let rules = [
            format!("localhost:{port} any"),
            format!("127.0.0.1:{port} any"),
        ];
        let daemon = daemon(&rules, "").await;
        let script = format!(
            "print(json.dumps([name('localhost', {port}), to(('127.0.0.1', {port})), name('LOCALHOST.', {port}),\n\
             to(('::ffff:127.0.0.1', {port}), socket.AF_INET6), to(('::1', {port}), socket.AF_INET6),\n\
             name('localhost', {closed}), to(('127.0.0.1', {closed})), to(('::ffff:127.0.0.1', {closed}), socket.AF_INET6),\n\
             name('paste.example', {port}), to(('169.254.169.254', 80)), to(('198.18.9.9', {port})), \
             to(('0.0.0.0', {closed})), to(('127.0.0.2', {port}))]))"
        );
        let (seen, response) = printed(&daemon, &script).await;
        let refused = ["EACCES"; 8].map(Value::from);
        let expected = [&["ping"; 5].map(Value::from)[..], &refused].concat();
        assert_eq!(seen, Value::from(expected));
        assert_eq!((allowed.came(), other.came()), (5, 0));

        let denied = |target: &str| {
            let denials = response.denials.iter();
            denials
                .clone()
                .find(|it| it.target == target && !it.incidental)
                .cloned()
        };
        let denial = denied(&format!("paste.example:{port}")).unwrap();
        assert_eq!((&*denial.operation, &*denial.source), ("connect", "relay"));
        assert_eq!(denial.axis(), pb::Axis::Network);
        let line = format!("add \"paste.example:{port} any\" to `egress` of profile `named`");
        assert_eq!(denial.suggestion, line);
        assert_eq!(denied(&format!("127.0.0.1:{closed}")).unwrap().times, 2);
        assert!(response.verdict.unwrap().sandbox_denied);
        let ended = daemon.journal().pop().unwrap();
        assert_eq!(ended["denied"], json!(["connect"]));
        let lines = recorded(&daemon);
        assert_eq!(lines.len(), 13);
        let first = json!({
            "host": "localhost", "port": port, "address": "127.0.0.1", "sent_bytes": 4, "received_bytes": 4,
        });
        assert_eq!(lines[0], first);
        assert_eq!(lines[8]["denied"], "is not in `egress`");
        // The control: without confinement the same client reaches both.
        let script =
            format!("print(json.dumps([name('localhost', {port}), name('localhost', {closed})]))");
        assert_eq!(bare(&script), json!(["ping", "ping"]));
    }

    #[tokio::test]
    #[ignore = "needs python3"]
    async fn a_server_name_other_than_the_rules_reaches_nothing() {
        needs_no_container();
        let (server, certificate) = Server::of_tls(&["localhost", "evil.example"]);
        let port = server.port;
        // The address is one that names may lead to, and no hook may connect to by itself.
        let rules = [
            format!("localhost:{port}"),
            format!("127.0.0.0/8:{port} http"),
        ];
        let daemon = daemon(&rules, "").await;
        let script = format!(
            r#"
def tls(server_name, pieces=None):
    try:
        address = socket.getaddrinfo("localhost", {port}, type=socket.SOCK_STREAM)[0][4]
        raw = socket.create_connection(address, 20)
        context = ssl.create_default_context(cadata={certificate:?})
        context.check_hostname = False
        if pieces is None:
            s = context.wrap_socket(raw, server_hostname=server_name)
        else:
            into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
            o = context.wrap_bio(into, out, server_hostname=server_name)
            while True:
                try:
                    o.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    data = out.read()
                    for at in range(0, len(data), pieces):
                        raw.sendall(data[at:at + pieces]); time.sleep(0.001)
                    into.write(raw.recv(65536))
            raw.sendall(out.read())
            return "whole"
        s.sendall(b"ping")
        return s.recv(100).decode()
    except OSError as e:
        return errno.errorcode.get(e.errno, type(e).__name__)
def plain():
    address = socket.getaddrinfo("localhost", {port}, type=socket.SOCK_STREAM)[0][4]
    return to(address)
print(json.dumps([tls("localhost"), tls("LocalHost"), tls("localhost", 7), tls("evil.example"), tls(None), plain()]))
"#
        );
        let (seen, response) = printed(&daemon, &script).await;
        let seen: Vec<_> = seen
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it.as_str().unwrap())
            .collect();
        assert_eq!(seen[..3], ["ping", "ping", "whole"]);
        for refused in &seen[3..] {
            assert!(
                ["ECONNRESET", "SSLEOFError", "EPIPE"].contains(refused),
                "{seen:?}"
            );
        }
        assert_eq!(server.came(), 3);
        let rules: Vec<_> = response
            .denials
            .iter()
            .filter(|it| !it.incidental)
            .map(|it| &*it.rule)
            .collect();
        let expected = [
            "was asked for by the server name `evil.example`",
            "was asked for by no server name",
            "got no TLS; write ` any` behind the port where it speaks something else",
        ];
        assert_eq!(
            rules,
            expected.map(|why| format!("`localhost:{port}` {why}"))
        );
        // The control: the server itself takes any name.
        assert_eq!(bare(&script).as_array().unwrap()[3], "ping");
    }

    /// A server of HTTP/1.1 that answers with what it was sent. Ends when dropped.
    struct HttpServer {
        child: Child,
        port: u16,
    }

    impl HttpServer {
        fn start() -> Self {
            let text = r#"
import http.server, json
hosts = []
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        hosts.extend(self.headers.get_all("Host") or ["none"])
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        while "Content-Length" not in self.headers and self.headers.get("Transfer-Encoding") == "chunked":
            size = int(self.rfile.readline() or b"0", 16); body += self.rfile.read(size); self.rfile.readline()
            if not size: break
        if self.path == "/hosts": self.path = hosts
        if self.path == "/offer": self.path = [self.headers.get(name) for name in ("Connection", "HTTP2-Settings", "Upgrade")]
        answer = json.dumps([self.command, self.path, self.headers.get_all("Host"), len(body)]).encode()
        self.send_response(200); self.send_header("Content-Length", str(len(answer))); self.end_headers(); self.wfile.write(answer)
    do_POST = do_GET
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"#;
            let mut child = Command::new(PYTHON)
                .args(["-c", text])
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut line = String::new();
            let stdout = child.stdout.take().unwrap();
            BufReader::new(stdout).read_line(&mut line).unwrap();
            Self {
                child,
                port: line.trim().parse().unwrap(),
            }
        }
    }

    impl Drop for HttpServer {
        fn drop(&mut self) {
            self.child.kill().unwrap();
            self.child.wait().unwrap();
        }
    }

    #[tokio::test]
    #[ignore = "needs python3"]
    async fn each_request_of_a_connection_is_for_the_host_of_its_rule() {
        needs_no_container();
        let server = HttpServer::start();
        let port = server.port;
        let rules = [
            format!("localhost:{port} http"),
            format!("127.0.0.1:{port} http"),
        ];
        let daemon = daemon(&rules, "").await;
        let script = format!(
            r#"
import http.client
def raw(text):
    s = socket.create_connection(("127.0.0.1", {port}), 20)
    s.sendall(text.replace("\n", "\r\n").encode())
    if text.startswith("SSH"):
        try: s.shutdown(socket.SHUT_WR)
        except OSError: pass  # It may be answered and closed before.
    got = b""
    while b"\r\n\r\n" not in got:
        data = s.recv(65536)
        if not data: break
        got += data
    return got.split(b"\r\n")[0].decode()
c = http.client.HTTPConnection("localhost", {port}, timeout=20)
def asked(method, path, body=None, headers={{}}):
    try:
        c.request(method, path, body, headers, encode_chunked="Transfer-Encoding" in headers)
        r = c.getresponse(); text = r.read().decode()
        return json.loads(text) if r.status == 200 else [r.status, text]
    except Exception as e:
        return repr(e)
seen = dict(
    get=asked("GET", "/a?b"),
    again=asked("POST", "/c", b"x" * 70000),
    chunked=asked("POST", "/d", iter([b"one", b"two"]), {{"Transfer-Encoding": "chunked"}}),
    other=asked("GET", "/", None, {{"Host": "evil.example"}}),
)
host = "Host: 127.0.0.1:{port}\n"
seen.update(
    address=raw("GET / HTTP/1.1\n" + host + "\n"),
    absolute=raw("GET http://127.0.0.1:{port}/x HTTP/1.1\n" + host + "\n"),
    absolute_other=raw("GET http://evil.example/x HTTP/1.1\n" + host + "\n"),
    two=raw("GET / HTTP/1.1\n" + host + "Host: evil.example\n\n"),
    none=raw("GET / HTTP/1.1\n\n"),
    empty=raw("GET / HTTP/1.1\nHost:\n\n"),
    port=raw("GET / HTTP/1.1\nHost: 127.0.0.1:1\n\n"),
    user=raw("GET / HTTP/1.1\nHost: a@127.0.0.1:{port}\n\n"),
    upgrade=raw("GET / HTTP/1.1\n" + host + "Connection: upgrade\nUpgrade: websocket\n\n"),
    two_upgrades=raw("GET / HTTP/1.1\n" + host + "Connection: upgrade\nUpgrade: h2c\nUpgrade: websocket\n\n"),
    offer=asked("GET", "/offer", None, {{"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": "AAMAAABk"}}),
    connect=raw("CONNECT evil.example:443 HTTP/1.1\n" + host + "\n"),
    smuggled=raw("POST / HTTP/1.1\n" + host + "Content-Length: 4\nTransfer-Encoding: chunked\n\n0\n\nGET /evil HTTP/1.1\nHost: evil.example\n\n"),
    hidden=raw("POST / HTTP/1.1\n" + host + "Content-Length: 4\nTransfer-Encoding: chunked\n\n2a\nGET /evil HTTP/1.1\nHost: evil.example\n\n\n0\n\n"),
    other_protocol=raw("SSH-2.0-x\n"),
)
c = http.client.HTTPConnection("localhost", {port}, timeout=20)
seen["hosts"] = sorted(set(asked("GET", "/hosts")[1]))
print(json.dumps(seen))
"#
        );
        let (seen, response) = printed(&daemon, &script).await;
        let host = format!("localhost:{port}");
        assert_eq!(seen["get"], json!(["GET", "/a?b", [host], 0]));
        assert_eq!(seen["again"], json!(["POST", "/c", [host], 70000]));
        assert_eq!(seen["chunked"], json!(["POST", "/d", [host], 6]));
        let text = format!("localhost:{port} was sent a request for another host\n");
        assert_eq!(seen["other"], json!([403, text]));
        // The offer is left out, not taken.
        assert_eq!(seen["offer"], json!(["GET", [null, null, null], [host], 0]));
        for allowed in ["address", "absolute"] {
            assert_eq!(seen[allowed], "HTTP/1.1 200 OK", "{allowed}");
        }
        for refused in [
            "absolute_other",
            "two",
            "none",
            "empty",
            "port",
            "user",
            "upgrade",
            "two_upgrades",
            "connect",
        ] {
            assert_eq!(seen[refused], "HTTP/1.1 403 Forbidden", "{refused}");
        }
        // As two readers of one body see it, no request for another host came.
        let hosts = [format!("127.0.0.1:{port}"), format!("localhost:{port}")];
        assert_eq!(seen["hosts"], json!(hosts));
        let smuggled = seen["smuggled"].as_str().unwrap();
        assert!(
            smuggled.contains(" 400 ") || smuggled.contains(" 200 "),
            "{smuggled}"
        );
        let other = seen["other_protocol"].as_str().unwrap();
        assert!(other.contains(" 400 "), "{other}");
        assert!(response.verdict.unwrap().sandbox_denied);
        // The control: the server itself takes any host.
        assert_eq!(bare(&script)["other"][2], json!(["evil.example"]));
    }

    #[tokio::test]
    #[ignore = "needs python3"]
    async fn no_other_way_of_sending_leads_past_the_relay() {
        needs_no_container();
        let (allowed, other) = (Server::start(), Server::start());
        let (port, closed) = (allowed.port, other.port);
        let datagrams = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        datagrams.set_nonblocking(true).unwrap();
        let udp = datagrams.local_addr().unwrap().port();
        let daemon = daemon(&[format!("127.0.0.1:{port} any")], "").await;
        let script = format!(
            r#"
FAST = 0x20000000
def tried(act):
    try:
        return act() or "done"
    except OSError as e:
        return errno.errorcode.get(e.errno, str(e))
there = ("127.0.0.1", {closed})
def stream(): return socket.socket(socket.AF_INET, socket.SOCK_STREAM)
def option(level, name, value):
    s = stream(); s.setsockopt(level, name, value); s.connect(there); s.send(b"x")
def reconnect():
    s = stream(); s.connect(("127.0.0.1", {port}))
    try: s.connect(there)
    except OSError as e:
        if e.errno not in (errno.EISCONN, errno.EACCES): raise
    s.sendall(b"ping"); return s.recv(9).decode()
def ended():
    # A connection that is over, on a socket that is still open.
    s = stream(); s.connect(("127.0.0.1", {port})); s.shutdown(socket.SHUT_RDWR); time.sleep(0.3)
    try: s.connect(("127.0.0.1", {port}))
    except OSError as e:
        if e.errno != errno.EISCONN: raise
        return "refused"
    s.sendall(b"ping"); return "refused" if s.recv(9) == b"ping" else "dead"
def duplicate():
    s = stream(); d = s.dup(); s.connect(("127.0.0.1", {port})); d.sendall(b"ping"); return d.recv(9).decode()
def passed():
    a, b = socket.socketpair()
    s = stream(); socket.send_fds(a, [b"x"], [s.fileno()])
    _, fds, _, _ = socket.recv_fds(b, 1, 1)
    t = socket.socket(fileno=fds[0]); t.connect(there)
print(json.dumps(dict(
    sendto=tried(lambda: stream().sendto(b"x", FAST, there) and None),
    sendmsg=tried(lambda: stream().sendmsg([b"x"], [], FAST, there) and None),
    fast_connect=tried(lambda: option(socket.IPPROTO_TCP, 30, 1)),
    device=tried(lambda: option(socket.SOL_SOCKET, 25, b"lo")),
    mptcp=tried(lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262).connect(there)),
    udp=tried(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", {udp})) and None),
    udp6=tried(lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).sendto(b"x", ("::1", {udp})) and None),
    raw=tried(lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1) and None),
    ping=tried(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 1) and None),
    packet=tried(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 3) and None),
    vsock=tried(lambda: socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM) and None),
    unix=tried(lambda: socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) and None),
    bind=tried(lambda: stream().bind(("127.0.0.1", 0))),
    passed=tried(passed),
    ended=tried(ended),
    reconnect=tried(reconnect),
    duplicate=tried(duplicate),
)))
"#
        );
        let (seen, _) = printed(&daemon, &script).await;
        for (what, seen) in seen.as_object().unwrap() {
            let expected = match &**what {
                "reconnect" | "duplicate" => "ping",
                "ended" => "refused",
                "passed" => "EACCES",
                _ => "EPERM",
            };
            assert_eq!(seen, expected, "{what}");
        }
        assert_eq!(other.came(), 0);
        assert!(datagrams.recv(&mut [0; 9]).is_err());
        let seen = bare(&script);
        for what in ["sendto", "sendmsg", "udp", "bind", "passed", "unix"] {
            assert_eq!(seen[what], "done", "the control: {what}");
        }
        assert!(other.came() >= 3);
    }

    #[tokio::test]
    #[ignore = "needs python3"]
    async fn an_address_or_a_descriptor_that_changes_meanwhile_counts_as_it_was_copied() {
        needs_no_container();
        let (allowed, other) = (Server::start(), Server::start());
        let (port, closed) = (allowed.port, other.port);
        let more = "[limits]\negress_connections = 4096\n";
        let daemon = daemon(&[format!("127.0.0.1:{port} any")], more).await;
        let script = format!(
            r#"
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
address = (ctypes.c_ubyte * 16)(*struct.pack("=H", 2), *struct.pack("!H", {port}), 127, 0, 0, 1)
ports = struct.pack("!H", {port}), struct.pack("!H", {closed})
over = False
def flip():
    at = 0
    while not over:
        at ^= 1
        address[2], address[3] = ports[at]
thread = threading.Thread(target=flip); thread.start()
counts = {{}}
for _ in range(1500):
    s = socket.socket()
    if libc.connect(s.fileno(), address, 16) < 0:
        end = errno.errorcode[ctypes.get_errno()]
    else:
        end = "connected"
    counts[end] = counts.get(end, 0) + 1
    s.close()
over = True; thread.join()
print(json.dumps(counts))
"#
        );
        let (seen, _) = printed(&daemon, &script).await;
        let counts = seen.as_object().unwrap();
        let count = |end: &str| counts.get(end).and_then(Value::as_u64).unwrap_or(0);
        assert_eq!(count("connected") + count("EACCES"), 1500, "{seen}");
        assert!(count("connected") > 0 && count("EACCES") > 0, "{seen}");
        assert_eq!(other.came(), 0);
    }

    #[tokio::test]
    #[ignore = "needs python3"]
    async fn a_daemon_that_stands_still_holds_connections_up_and_loses_none() {
        needs_no_container();
        let server = Server::start();
        let port = server.port;
        let daemon = daemon(&[format!("127.0.0.1:{port} any")], "").await;
        let script = format!(
            r#"
began = time.monotonic()
longest, ends = 0, set()
while time.monotonic() - began < 4:
    before = time.monotonic()
    ends.add(to(("127.0.0.1", {port})))
    longest = max(longest, time.monotonic() - before)
    time.sleep(0.01)
print(json.dumps([sorted(ends), longest > 1]))"#
        );
        let pid = Pid::from_raw(daemon.pid().cast_signed());
        let stop = async {
            tokio::time::sleep(Duration::from_millis(1200)).await;
            kill(pid, Signal::SIGSTOP).unwrap();
            tokio::time::sleep(Duration::from_millis(1200)).await;
            kill(pid, Signal::SIGCONT).unwrap();
        };
        let ((seen, _), ()) = tokio::join!(printed(&daemon, &script), stop);
        assert_eq!(seen, json!([["ping"], true]));
    }

    #[tokio::test]
    #[ignore = "needs python3"]
    async fn many_connections_at_once_work_while_signals_come() {
        needs_no_container();
        let server = Server::start();
        let port = server.port;
        let more = "[limits]\negress_connections = 2000\ntasks = 512\n";
        let daemon = daemon(
            &[
                format!("localhost:{port} any"),
                format!("127.0.0.1:{port} any"),
            ],
            more,
        )
        .await;
        let script = format!(
            r#"
# As Go has them: a call is made again.
signal.signal(signal.SIGALRM, lambda *_: None)
signal.siginterrupt(signal.SIGALRM, False)
signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
counts = {{}}
lock = threading.Lock()
def work():
    for _ in range(10):
        end = name("localhost", {port})
        with lock: counts[end] = counts.get(end, 0) + 1
threads = [threading.Thread(target=work) for _ in range(60)]
for t in threads: t.start()
for t in threads: t.join()
# Of the main thread, which gets the signals.
for _ in range(100):
    end = name("localhost", {port})
    counts[end] = counts.get(end, 0) + 1
signal.setitimer(signal.ITIMER_REAL, 0)
print(json.dumps(counts))
"#
        );
        let (seen, _) = printed(&daemon, &script).await;
        assert_eq!(seen, json!({"ping": 700}));
        let ended = daemon
            .journal()
            .into_iter()
            .rfind(|it| it["record"] == "ended");
        assert_eq!(ended.unwrap()["more_egress"], 700 - 64);
    }

    #[tokio::test]
    #[ignore = "needs python3"]
    async fn a_run_is_held_to_its_connections_and_bytes() {
        needs_no_container();
        let server = Server::start();
        let port = server.port;
        let more = "[limits]\negress_connections = 3\negress_bytes = \"1KiB\"\n";
        let daemon = daemon(&[format!("127.0.0.1:{port} any")], more).await;
        let script = format!(
            r#"
def sends(count):
    try:
        s = socket.create_connection(("127.0.0.1", {port}), 20)
        s.sendall(b"x" * count)
        got = 0
        while got < count:
            data = s.recv(65536)
            if not data: break
            got += len(data)
        return got
    except OSError as e:
        return errno.errorcode[e.errno]
print(json.dumps([sends(1000), sends(24), sends(1), sends(1)]))
"#
        );
        let (seen, response) = printed(&daemon, &script).await;
        assert_eq!(seen, json!([1000, 24, "ECONNRESET", "EACCES"]));
        let rules: Vec<_> = response.denials.iter().map(|it| &*it.rule).collect();
        for (rule, key) in rules
            .iter()
            .zip(["limits.egress_bytes", "limits.egress_connections"])
        {
            assert!(rule.contains(key), "{rules:?}");
        }
    }

    #[tokio::test]
    #[ignore = "needs python3"]
    async fn either_end_may_close_its_half_first_and_both_ends_without_waiting() {
        needs_no_container();
        let server = Server::serving("127.0.0.1", |mut stream| {
            let mut all = Vec::new();
            if stream.read_to_end(&mut all).is_ok() {
                let _gone = stream.write_all(format!("{} bytes", all.len()).as_bytes());
            }
        });
        let port = server.port;
        let daemon = daemon(&[format!("127.0.0.1:{port} any")], "").await;
        let script = format!(
            r#"
s = socket.socket(); s.setblocking(False)
try: s.connect(("127.0.0.1", {port})); begun = "at once"
except BlockingIOError: begun = "in progress"
import select
select.select([], [s], [], 20)
s.setblocking(True); s.settimeout(20)
s.sendall(b"x" * 100000); s.shutdown(socket.SHUT_WR)
print(json.dumps([s.recv(100).decode(), s.recv(100).decode(), s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)]))
"#
        );
        let (seen, _) = printed(&daemon, &script).await;
        assert_eq!(seen, json!(["100000 bytes", "", 0]));
    }

    /// As `socat` and `nc` do.
    #[tokio::test]
    #[ignore = "needs python3"]
    async fn a_client_that_sends_no_more_gets_the_answer_to_its_request() {
        needs_no_container();
        let server = Server::serving("127.0.0.1", |mut stream| {
            let mut some = [0; 1000];
            // Long enough for the client's end to arrive before.
            if stream.read(&mut some).is_ok() {
                std::thread::sleep(Duration::from_millis(300));
                let _gone = stream.write_all(b"HTTP/1.0 200 OK\r\nContent-Length: 6\r\n\r\nanswer");
            }
        });
        let port = server.port;
        let daemon = daemon(&[format!("127.0.0.1:{port} http")], "").await;
        let script = format!(
            r#"
s = socket.create_connection(("127.0.0.1", {port}), 20)
s.sendall(b"GET / HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\n\r\n"); s.shutdown(socket.SHUT_WR)
print(json.dumps(s.makefile().read().split("\n")[-1]))
"#
        );
        assert_eq!(bare(&script), json!("answer"));
        let (seen, _) = printed(&daemon, &script).await;
        assert_eq!(seen, json!("answer"));
    }

    #[tokio::test]
    #[ignore = "needs python3"]
    async fn programs_that_read_tables_of_names_find_those_of_the_run_in_a_view() {
        needs_no_container();
        let server = Server::start();
        let port = server.port;
        let rules = [
            format!("127.0.0.1:{port} any"),
            format!("localhost:{port} any"),
            "a.example:443".to_owned(),
        ];
        let daemon = daemon(&rules, "view = \"own\"\n").await;
        let script = format!(
            "tables = [open('/etc/' + it).read() for it in ('hosts', 'resolv.conf')]\n\
             print(json.dumps([*tables, name('localhost', {port}), name('a.example', {port})]))"
        );
        let (seen, _) = printed(&daemon, &script).await;
        let hosts = "198.18.0.1 a.example\n198.18.0.2 localhost\n";
        let name_servers = "nameserver 127.0.0.1\noptions use-vc ndots:0\n";
        assert_eq!(seen, json!([hosts, name_servers, "ping", "EACCES"]));
        // The machine has others.
        assert_ne!(std::fs::read_to_string("/etc/hosts").unwrap(), hosts);
    }

    #[tokio::test]
    #[ignore = "needs python3"]
    async fn two_runs_share_no_name_and_no_address() {
        needs_no_container();
        let server = Server::start();
        let port = server.port;
        let daemon = daemon(
            &[
                format!("localhost:{port} any"),
                format!("127.0.0.0/8:{port} any"),
            ],
            "",
        )
        .await;
        // The first holds an address that was made up for it until the second has tried it.
        let workspace = daemon.workspace();
        let first = format!(
            "socket.getaddrinfo('another.example', {port})\naddress = socket.getaddrinfo('localhost', {port})[0][4][0]\nprint(json.dumps([address, to((address, {port})), to(('198.18.0.2', {port}))]))"
        );
        let (seen, _) = printed(&daemon, &first).await;
        assert_eq!(seen, json!(["198.18.0.1", "ping", "EACCES"]));
        let second = format!(
            "early = to(('198.18.0.2', {port}))\nother = socket.getaddrinfo('other.example', {port})[0][4][0]\n\
             print(json.dumps([early, other, to((other, {port}))]))"
        );
        let (seen, _) = printed(&daemon, &second).await;
        assert_eq!(seen, json!(["EACCES", "198.18.0.2", "EACCES"]));
        assert_eq!(server.came(), 1);
        drop(workspace);
    }

    #[tokio::test]
    #[ignore = "needs python3"]
    async fn a_client_that_takes_ipv6_alone_is_served() {
        needs_no_container();
        if TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_err() {
            println!("left out: this machine has no IPv6");
            return;
        }
        let server = Server::serving("::1", |mut stream| {
            let mut bytes = [0; 100];
            if let Ok(read) = stream.read(&mut bytes) {
                let _gone = stream.write_all(&bytes[..read]);
            }
        });
        let port = server.port;
        let daemon = daemon(&[format!("[::1]:{port} any")], "").await;
        let script = format!(
            "s = socket.socket(socket.AF_INET6); s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)\n\
             s.connect(('::1', {port})); s.sendall(b'ping')\nprint(json.dumps(s.recv(9).decode()))"
        );
        assert_eq!(printed(&daemon, &script).await.0, json!("ping"));
    }
}

mod as_root {
    use super::*;

    #[tokio::test]
    #[ignore = "needs root and python3"]
    async fn a_name_is_looked_up_and_judged_with_each_connection() {
        needs_root();
        let server = Server::start();
        let port = server.port;
        let hosts = tempfile::NamedTempFile::new().unwrap();
        let lead =
            |address: &str| std::fs::write(&hosts, format!("{address} moves.example\n")).unwrap();
        lead("127.0.0.1");
        let place = hosts.path().display();
        let mounted = format!("mount --bind {place} /etc/hosts && exec \"$@\"");
        let wrapper = ["unshare", "--mount", "/bin/sh", "-c", &mounted, "sh"];
        let rules = [
            format!("moves.example:{port} any"),
            format!("127.0.0.1:{port} any"),
        ];
        let daemon = daemon_behind(wrapper.map(str::to_owned).into(), &rules, "").await;
        let script = format!("print(json.dumps(name('moves.example', {port})))");
        // The control.
        let (seen, _) = printed(&daemon, &script).await;
        assert_eq!((seen, server.came()), (json!("ping"), 1));

        lead("127.0.0.2");
        let (seen, response) = printed(&daemon, &script).await;
        assert_eq!((seen, server.came()), (json!("ECONNRESET"), 1));
        let rule = "resolves to 127.0.0.2, which is not public and not in `egress`";
        let mut denials = response.denials.iter();
        let denial = denials.find(|it| it.rule.ends_with(rule)).unwrap();
        let line = format!("add \"127.0.0.2:{port} any\" to `egress` of profile `named`");
        assert_eq!(denial.suggestion, line);
    }

    #[tokio::test]
    #[ignore = "needs root"]
    async fn a_daemon_that_may_trace_no_other_user_connects_hooks_all_the_same() {
        needs_root();
        let (allowed, other) = (Server::start(), Server::start());
        let (port, closed) = (allowed.port, other.port);
        let rules = [format!("127.0.0.1:{port} any")];
        let daemon = daemon_behind(without("-sys_ptrace"), &rules, "").await;
        // The control: without that right it cannot see the memory of another user's process.
        let status = std::fs::read_to_string(format!("/proc/{}/status", daemon.pid())).unwrap();
        let effective = status
            .lines()
            .find_map(|line| line.strip_prefix("CapEff:"))
            .unwrap();
        let effective = u64::from_str_radix(effective.trim(), 16).unwrap();
        assert_eq!(effective >> 19 & 1, 0, "{effective:x}");
        let script = format!(
            "print(json.dumps([to(('127.0.0.1', {port})), to(('127.0.0.1', {closed})), name('a.example', 80)]))"
        );
        let (seen, _) = printed(&daemon, &script).await;
        assert_eq!(seen, json!(["ping", "EACCES", "EACCES"]));
        assert_eq!((allowed.came(), other.came()), (1, 0));
    }
}
