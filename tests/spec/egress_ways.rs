//! The hosts of `network = "named"` are reached by the proxy of a network where there is one.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    os::unix::fs::PermissionsExt,
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use hookjail::pb;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    egress::{Server, daemon_of, named_profile, printed, python, recorded},
    support::{Daemon, needs_no_container},
};

const ECHO: &str = r#"
def echoed(host, port, more=lambda s: s):
    try:
        s = more(socket.create_connection((host, port), 20))
        s.sendall(b"ping")
        return s.recv(100).decode() or "closed"
    except OSError as e:
        return errno.errorcode.get(e.errno, type(e).__name__)
"#;

/// The answer of a proxy to a request, behind which it connects to a port of loopback if that is a success of `CONNECT`.
#[derive(Clone, Copy)]
pub(crate) enum Answer {
    Never,
    Status(&'static str),
    With { password: &'static str },
}

/// A proxy that notes the heads of requests.
pub(crate) struct ProxyServer {
    heads: Arc<Mutex<Vec<Vec<String>>>>,
    server: Server,
}

impl ProxyServer {
    pub(crate) fn start(host: u16, answer: Answer) -> Self {
        let heads: Arc<Mutex<Vec<Vec<String>>>> = Arc::default();
        let noted = Arc::clone(&heads);
        let server = Server::serving("127.0.0.1", move |stream| {
            serve(stream, host, answer, &noted)
        });
        Self { heads, server }
    }

    pub(crate) fn heads(&self) -> Vec<Vec<String>> {
        self.heads.lock().unwrap().clone()
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.server.port)
    }
}

fn serve(mut stream: TcpStream, host: u16, answer: Answer, noted: &Mutex<Vec<Vec<String>>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    loop {
        let mut head = Vec::new();
        for line in reader.by_ref().lines() {
            match line {
                Ok(line) if !line.is_empty() => head.push(line),
                Ok(_) => break,
                Err(_) => return,
            }
        }
        let Some(first) = head.first().cloned() else {
            return;
        };
        noted.lock().unwrap().push(head.clone());
        let status = match answer {
            Answer::Never => {
                // Until the other end gives up.
                drop(reader.read_to_end(&mut Vec::new()));
                return;
            }
            Answer::Status(status) => status,
            Answer::With { password } => {
                let expected = format!("proxy-authorization: Basic {password}");
                match head.iter().any(|line| line.eq_ignore_ascii_case(&expected)) {
                    true => "200 OK",
                    false => "407 Proxy Authentication Required",
                }
            }
        };
        let connects = first.starts_with("CONNECT ") && status.starts_with("200");
        let text = match connects {
            true => format!("HTTP/1.1 {status}\r\n\r\n"),
            false => format!("HTTP/1.1 {status}\r\nContent-Length: 4\r\n\r\npong"),
        };
        if stream.write_all(text.as_bytes()).is_err() {
            return;
        }
        if connects {
            let host = TcpStream::connect(("127.0.0.1", host)).unwrap();
            let (mut source, mut sink) = (host.try_clone().unwrap(), stream.try_clone().unwrap());
            thread::spawn(move || {
                drop(std::io::copy(&mut source, &mut sink));
                drop(sink.shutdown(std::net::Shutdown::Both));
            });
            drop(std::io::copy(&mut reader, &mut &host));
            return;
        }
    }
}

async fn daemon(egress: &[&str], config: &str) -> Daemon {
    let egress: Vec<_> = egress.iter().map(|&it| it.to_owned()).collect();
    daemon_of(&named_profile(&egress, ""), config).await
}

/// Returns why each connection failed, by host.
fn failures(daemon: &Daemon) -> Vec<(String, String)> {
    let text = |line: &Value, key: &str| line[key].as_str().unwrap_or_default().to_owned();
    let lines = recorded(daemon);
    let lines = lines
        .iter()
        .map(|line| (text(line, "host"), text(line, "failed")));
    lines.collect()
}

mod with_tools {
    use super::*;

    #[tokio::test]
    #[ignore = "needs python3"]
    async fn hosts_are_reached_by_the_proxy_that_alone_resolves_their_names() {
        needs_no_container();
        let (tls, pem) = Server::of_tls(&["hooks.corp-only.example"]);
        let plain = Server::start();
        let of_tls = ProxyServer::start(tls.port, Answer::Status("200 OK"));
        let egress = [
            "hooks.corp-only.example:443",
            "web.corp-only.example:8080 http",
            "near.corp-only.example:443",
            "127.0.0.1:PORT any",
        ]
        .map(|it| it.replace("PORT", &plain.port.to_string()));
        let egress: Vec<_> = egress.iter().map(|it| &**it).collect();
        let config = format!(
            "[egress]\nproxy = {:?}\ndirect = [\"near.corp-only.example:443\"]\n",
            of_tls.url()
        );
        let daemon = daemon(&egress, &config).await;
        let script = format!(
            r#"{ECHO}
import http.client
context = ssl.create_default_context(cadata="""{pem}""")
def by_tls(name): return lambda s: context.wrap_socket(s, server_hostname=name)
def get():
    c = http.client.HTTPConnection("web.corp-only.example", 8080, timeout=20)
    seen = []
    for path in ("/a?b", "/c"):
        c.request("GET", path, headers={{"Proxy-Authorization": "Basic aG9vazpvd24="}})
        seen.append(c.getresponse().read().decode())
    return seen
print(json.dumps([
    echoed("hooks.corp-only.example", 443, by_tls("hooks.corp-only.example")),
    echoed("hooks.corp-only.example", 443, by_tls("other.example")),
    get(),
    echoed("near.corp-only.example", 443, by_tls("near.corp-only.example")),
    echoed("127.0.0.1", {}),
    echoed("other.example", 443),
]))"#,
            plain.port
        );
        let (seen, _) = printed(&daemon, &script).await;
        assert_eq!(seen[0], "ping");
        // Compared as without a proxy.
        assert_ne!(seen[1], "ping");
        assert_eq!(seen[2], json!(["pong", "pong"]));
        assert_ne!(seen[3], "ping");
        assert_eq!(seen[4], "ping");
        assert_eq!(seen[5], "EACCES");
        let heads = of_tls.heads();
        let firsts: Vec<_> = heads.iter().map(|head| &*head[0]).collect();
        assert_eq!(
            firsts,
            [
                "CONNECT hooks.corp-only.example:443 HTTP/1.1",
                "GET http://web.corp-only.example:8080/a?b HTTP/1.1",
                "GET http://web.corp-only.example:8080/c HTTP/1.1",
            ]
        );
        let authorized = heads
            .iter()
            .flatten()
            .find(|line| line.to_ascii_lowercase().starts_with("proxy-authorization"));
        assert_eq!(authorized, None);
        assert_eq!((tls.came(), plain.came(), of_tls.server.came()), (1, 1, 2));
        let near = failures(&daemon)
            .into_iter()
            .find(|(host, _)| host.starts_with("near"));
        let (_, why) = near.unwrap();
        assert!(why.starts_with("has no address"), "{why}");
        let lines = recorded(&daemon);
        assert_eq!(lines[0]["address"], Value::Null, "{lines:?}");
        assert!(lines[0]["sent_bytes"].as_u64() > Some(4), "{lines:?}");
    }

    #[tokio::test]
    #[ignore = "needs python3"]
    async fn a_proxy_gets_the_password_of_the_operator_and_its_refusals_are_reported() {
        needs_no_container();
        let echo = Server::start();
        let script = format!(
            r#"{ECHO}
import http.client
def get():
    c = http.client.HTTPConnection("web.example", 80, timeout=20)
    c.request("GET", "/", headers={{"Proxy-Authorization": "Basic aG9vazpvd24="}})
    return c.getresponse().status
print(json.dumps([echoed("git.example", 22), get()]))"#
        );
        let egress = ["git.example:22 any", "web.example:80 http"];
        let directory = TempDir::new().unwrap();
        let file = directory.path().join("password");
        fs::write(&file, "user:open sesame\n").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        let password = format!("[[secret]]\nname = \"proxy\"\nfile = {file:?}\n");
        let encoded = "dXNlcjpvcGVuIHNlc2FtZQ==";
        for (answer, secret, expected, failed) in [
            (
                Answer::With { password: encoded },
                true,
                json!(["ping", 200]),
                "",
            ),
            (
                Answer::With { password: encoded },
                false,
                json!(["ECONNRESET", 502]),
                "a password is required; name a secret in `egress.proxy_secret`",
            ),
            (
                Answer::With {
                    password: "b3RoZXI=",
                },
                true,
                json!(["ECONNRESET", 502]),
                "the password of `egress.proxy_secret` is refused",
            ),
            (
                Answer::Status("403 Forbidden"),
                false,
                json!(["ECONNRESET", 403]),
                "answer 403 Forbidden",
            ),
            (
                Answer::Status("200 OK\r\nnot a header"),
                false,
                json!(["ECONNRESET", 502]),
                "invalid HTTP",
            ),
        ] {
            let proxy = ProxyServer::start(echo.port, answer);
            let url = proxy.url();
            let secret = match secret {
                true => format!("proxy_secret = \"proxy\"\n{password}"),
                false => String::new(),
            };
            let daemon = daemon(&egress, &format!("[egress]\nproxy = {url:?}\n{secret}")).await;
            let (seen, _) = printed(&daemon, &script).await;
            assert_eq!(seen, expected, "{failed}");
            let (_, why) = failures(&daemon).remove(0);
            assert!(why.contains(failed), "{why}");
            assert!(failed.is_empty() || why.contains(&url), "{why}");
            assert!(
                !daemon.log().contains("sesame"),
                "the password is in the log"
            );
        }
        // Nothing listens.
        let gone = ProxyServer::start(echo.port, Answer::Never)
            .url()
            .replace("127.0.0.1", "127.0.0.9");
        let daemon = daemon(&egress, &format!("[egress]\nproxy = {gone:?}\n")).await;
        let (seen, _) = printed(&daemon, &script).await;
        assert_eq!(seen, json!(["ECONNRESET", 502]));
        let (_, why) = failures(&daemon).remove(0);
        assert!(
            why.contains("cannot be reached: Connection refused"),
            "{why}"
        );
    }

    #[tokio::test]
    #[ignore = "needs python3"]
    async fn a_proxy_that_does_not_answer_holds_up_its_hook_alone_and_until_its_deadline() {
        needs_no_container();
        let echo = Server::start();
        let proxy = ProxyServer::start(echo.port, Answer::Never);
        let near = format!("127.0.0.1:{} any", echo.port);
        let egress = ["git.example:22 any", &near];
        let daemon = daemon(&egress, &format!("[egress]\nproxy = {:?}\n", proxy.url())).await;
        let mut request = python(&format!(
            "{ECHO}\nprint(json.dumps(echoed('git.example', 22)))"
        ));
        request.timeout = Some(prost_types::Duration {
            seconds: 3,
            nanos: 0,
        });
        let began = Instant::now();
        let script = format!(
            "{ECHO}\nprint(json.dumps(echoed('127.0.0.1', {})))",
            echo.port
        );
        let (held, other) = tokio::join!(daemon.run(request), printed(&daemon, &script));
        assert_eq!(other.0, "ping");
        let kind = held.unwrap().outcome.unwrap().kind();
        assert_eq!(kind, pb::OutcomeKind::TimedOut);
        assert!(
            began.elapsed() < Duration::from_secs(20),
            "{:?}",
            began.elapsed()
        );
        assert_eq!(proxy.heads().len(), 1);
    }

    #[tokio::test]
    #[ignore = "needs python3"]
    async fn a_proxy_by_tls_is_the_one_that_an_authority_names() {
        needs_no_container();
        let (proxy, pem) = Server::speaking_tls(&["localhost"], |stream| {
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") {
                if stream.read_exact(&mut byte).is_err() {
                    return;
                }
                head.push(byte[0]);
            }
            drop(stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n"));
            let mut bytes = [0; 100];
            while let Ok(read @ 1..) = stream.read(&mut bytes) {
                drop(stream.write_all(&bytes[..read]));
            }
        });
        let directory = TempDir::new().unwrap();
        let ca = directory.path().join("ca.pem");
        fs::write(&ca, pem).unwrap();
        let script = format!("{ECHO}\nprint(json.dumps(echoed('git.example', 22)))");
        let proxy_line = |host: &str| format!("proxy = \"https://{host}:{}\"\n", proxy.port);
        let trusted = format!("ca = {ca:?}\n");
        for (config, expected, failed) in [
            (proxy_line("localhost") + &trusted, "ping", ""),
            (
                proxy_line("localhost"),
                "ECONNRESET",
                "no trusted TLS: invalid peer certificate: UnknownIssuer",
            ),
            (
                proxy_line("127.0.0.1") + &trusted,
                "ECONNRESET",
                "no trusted TLS: invalid peer certificate: certificate not valid for name",
            ),
        ] {
            let daemon = daemon(&["git.example:22 any"], &format!("[egress]\n{config}")).await;
            let (seen, _) = printed(&daemon, &script).await;
            let (_, why) = failures(&daemon).remove(0);
            assert_eq!(seen, expected, "{why}");
            assert!(why.contains(failed), "{why}");
        }
    }
}
