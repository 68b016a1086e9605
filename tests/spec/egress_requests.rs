//! Under `network = "named"` the daemon makes requests by TLS in a hook's place, with secrets that the hook never has.

#![expect(
    clippy::disallowed_methods,
    reason = "a test reloads its daemon, never a hook"
)]

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use hookjail::pb;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    egress::{PRELUDE, PYTHON, Server, TlsStream, daemon_of, named_profile, output_of, recorded},
    egress_ways::{Answer, ProxyServer},
    support::{Daemon, dispatch_at, hook, needs_no_container},
    witness::hookjail,
};

const SECRET: &str = "tok-3f9a7c51-not-for-hooks";

/// A server of HTTP by TLS that notes the requests, each as its lines.
struct Api {
    pem: String,
    seen: Arc<Mutex<Vec<Vec<String>>>>,
    server: Server,
}

impl Api {
    fn start(name: &str) -> Self {
        let seen: Arc<Mutex<Vec<Vec<String>>>> = Arc::default();
        let noted = Arc::clone(&seen);
        let (server, pem) = Server::speaking_tls(&[name], move |stream| answer(stream, &noted));
        Self { pem, seen, server }
    }

    /// Returns the requests, and forgets them.
    fn take(&self) -> Vec<Vec<String>> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }
}

fn answer(stream: &mut TlsStream<'_>, noted: &Mutex<Vec<Vec<String>>>) {
    let mut reader = BufReader::new(stream);
    loop {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            match reader.read_line(&mut line) {
                Ok(0) | Err(_) => return,
                Ok(_) if line == "\r\n" => break,
                Ok(_) => lines.push(line.trim_end().to_owned()),
            }
        }
        let length = lines.iter().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("content-length")
                .then(|| value.parse().unwrap())
        });
        let mut body = vec![0; length.unwrap_or(0)];
        reader.read_exact(&mut body).unwrap();
        noted.lock().unwrap().push(lines);
        let text = format!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", "ok");
        if reader.get_mut().write_all(text.as_bytes()).is_err() {
            return;
        }
    }
}

/// A directory with a secret and an authority, and the configuration that names them.
struct Files {
    config: String,
    directory: TempDir,
}

impl Files {
    fn make(pem: &str) -> Self {
        let directory = TempDir::new().unwrap();
        let (ca, secret) = (
            directory.path().join("ca.pem"),
            directory.path().join("secret"),
        );
        fs::write(&ca, pem).unwrap();
        fs::set_permissions(&ca, fs::Permissions::from_mode(0o644)).unwrap();
        let config =
            format!("[[secret]]\nname = \"token\"\nfile = {secret:?}\n[egress]\nca = {ca:?}\n");
        let files = Self { config, directory };
        files.put(SECRET);
        files
    }

    fn secret(&self) -> PathBuf {
        self.directory.path().join("secret")
    }

    fn put(&self, secret: &str) {
        fs::write(self.secret(), secret).unwrap();
        fs::set_permissions(self.secret(), fs::Permissions::from_mode(0o600)).unwrap();
    }
}

/// The one command of these tests, to which the configuration gives the profile. The command runs the script of its event.
const COMMAND: [&str; 3] = [
    PYTHON,
    "-c",
    "import json, sys; exec(json.load(sys.stdin)['script'])",
];

/// Returns a daemon with these requests under the profile `named`.
async fn daemon_with(requests: &str, config: &str) -> Daemon {
    let profile = named_profile(&[], &format!("granted_by = \"operator\"\n{requests}"));
    let grant = format!("[[hook]]\ncommand = {COMMAND:?}\nprofiles = [\"named\"]\n");
    daemon_of(&profile, &format!("{grant}{config}")).await
}

async fn printed(daemon: &Daemon, script: &str) -> (Value, pb::ExecuteResponse) {
    let script = format!("{PRELUDE}\n{script}");
    let mut request = hook(COMMAND);
    request.profile = "named".to_owned();
    request.event = dispatch_at("", &json!({ "script": script })).event;
    output_of(daemon, request).await
}

const CLIENT: &str = r#"
import http.client, os
def asked(method, path, headers={}, host=None, port=None, body=None):
    try:
        c = http.client.HTTPConnection(host or HOST, port or PORT, timeout=20)
        c.putrequest(method, path, skip_host="Host" in headers)
        for name, value in headers.items(): c.putheader(name, value)
        if body is not None: c.putheader("Content-Length", str(len(body)))
        c.endheaders(body)
        r = c.getresponse()
        return [r.status, r.read().decode()]
    except Exception as e:
        return type(e).__name__
"#;

fn script(host: &str, port: u16, call: &str) -> String {
    format!("HOST, PORT = {host:?}, {port}\n{CLIENT}\nprint(json.dumps({call}))")
}

/// Returns the values of a header of a request.
fn values<'a>(request: &'a [String], name: &str) -> Vec<&'a str> {
    let headers = request.iter().filter_map(|line| line.split_once(": "));
    let named = headers.filter(|(found, _)| found.eq_ignore_ascii_case(name));
    named.map(|(_, value)| value).collect()
}

/// Returns whether a text is in a file below a directory.
fn is_below(directory: &Path, text: &str) -> bool {
    let entries = fs::read_dir(directory).into_iter().flatten();
    entries
        .map(|it| it.unwrap().path())
        .any(|path| match path.is_dir() {
            true => is_below(&path, text),
            false => fs::read(&path).is_ok_and(|bytes| {
                bytes
                    .windows(text.len())
                    .any(|part| part == text.as_bytes())
            }),
        })
}

#[tokio::test]
async fn requests_that_cannot_be_made_are_refused_with_the_profile() {
    let url = "url = \"https://b.a.example/\"\n";
    let header = "header = \"X: {secret}\"";
    for (requests, egress, part) in [
        (
            format!("{url}secret = \"none\"\n{header}"),
            "",
            "names the secret `none`, which no `[[secret]]`",
        ),
        (
            format!("{url}secret = \"ticket\"\n{header}"),
            "",
            "names the secret `ticket`, which no `[[secret]]`",
        ),
        (
            "url = \"http://b.a.example/\"".to_owned(),
            "",
            "is no URL of `https`",
        ),
        (
            format!("{url}secret = \"token\""),
            "",
            "`requests.secret` has no place",
        ),
        (
            format!("{url}secret = \"token\"\n{header}"),
            "anyone",
            "`granted_by` is \"anyone\", and `requests` sends a secret",
        ),
        (
            url.to_owned(),
            "egress = [\"*.a.example:443\"]\n",
            "`egress` has `*.a.example:443`",
        ),
    ] {
        let (granter, egress) = match egress {
            "anyone" => ("anyone", ""),
            egress => ("operator", egress),
        };
        let profile = format!(
            "description = \"x\"\nextends = \"strict\"\ngranted_by = {granter:?}\nnetwork = \"named\"\n{egress}[[requests]]\n{requests}\n"
        );
        let ticket = "[[secret]]\nname = \"ticket\"\npattern = \"T-[0-9]{6}\"\n";
        let daemon = daemon_of(&profile, ticket).await;
        let mut request = hook(["/bin/true"]);
        request.profile = "named".to_owned();
        let error = daemon.run(request).await.unwrap_err();
        assert!(error.message().contains(part), "{part}: {error}");
    }
}

mod with_tools {
    use super::*;

    #[tokio::test]
    #[ignore = "needs python3"]
    async fn a_hook_asks_in_the_clear_and_the_daemon_by_tls_with_the_secret() {
        needs_no_container();
        let api = Api::start("localhost");
        let port = api.server.port;
        let files = Files::make(&api.pem);
        let requests = format!(
            "[[requests]]\nurl = \"https://localhost:{port}/api\"\nmethods = [\"GET\", \"POST\"]\nsecret = \"token\"\nheader = \"Authorization: Bearer {{secret}}\"\n\
             [[requests]]\nurl = \"https://localhost:{port}/open/\"\n"
        );
        let daemon = daemon_with(&requests, &files.config).await;
        let text = script(
            "localhost",
            port,
            r#"dict(
            get=asked("GET", "/api/x?filter[a]=b", {"Authorization": "Bearer mine", "authorization": "Basic bWluZQ=="}),
            post=asked("POST", "/api", body=b"x" * 70000),
            open=asked("DELETE", "/open/x"),
            method=asked("DELETE", "/api/x"),
            path=asked("GET", "/other"),
            upward=asked("GET", "/api/../other"),
            encoded=asked("GET", "/api/%2e%2e/other"),
            host=asked("GET", "/api/x", {"Host": "evil.example"}),
            upgrade=asked("GET", "/api/x", {"Connection": "upgrade", "Upgrade": "websocket"}),
            elsewhere=asked("GET", "/api/x", port=1),
            seen=sorted(k for k, v in os.environ.items() if "tok-" in v),
        )"#,
        );
        let (seen, response) = printed(&daemon, &text).await;
        let ok = json!([200, "ok"]);
        for allowed in ["get", "post", "open"] {
            assert_eq!(seen[allowed], ok, "{allowed}: {seen}");
        }
        let refused = |path: &str| {
            json!([
                403,
                format!("localhost:{port} was sent `{path}`, which is not in `requests`\n")
            ])
        };
        assert_eq!(seen["method"], refused("DELETE /api/x"));
        assert_eq!(seen["path"], refused("GET /other"));
        assert_eq!(seen["upward"], refused("GET /api/../other"));
        assert_eq!(seen["encoded"], refused("GET /api/%2e%2e/other"));
        assert_eq!(seen["host"][0], 403);
        assert_eq!(seen["upgrade"][0], 403);
        assert_eq!(seen["elsewhere"], "PermissionError");
        assert_eq!(seen["seen"], json!([]));

        let requests = api.take();
        let firsts: Vec<_> = requests.iter().map(|it| &*it[0]).collect();
        assert_eq!(
            firsts,
            [
                "GET /api/x?filter[a]=b HTTP/1.1",
                "POST /api HTTP/1.1",
                "DELETE /open/x HTTP/1.1"
            ]
        );
        let bearer = format!("Bearer {SECRET}");
        assert_eq!(values(&requests[0], "authorization"), [&*bearer]);
        assert_eq!(values(&requests[1], "authorization"), [&*bearer]);
        assert_eq!(values(&requests[1], "content-length"), ["70000"]);
        assert!(values(&requests[2], "authorization").is_empty());
        let host = format!("localhost:{port}");
        assert!(requests.iter().all(|it| values(it, "host") == [&*host]));

        let lines = recorded(&daemon);
        assert_eq!(lines[0]["secrets"], json!(["token"]));
        assert_eq!(lines[2]["secrets"], Value::Null);
        assert_eq!(lines[3]["secrets"], Value::Null);
        let rules: Vec<_> = response.denials.iter().map(|it| &*it.rule).collect();
        assert!(
            rules.iter().any(|it| it.contains("was sent `GET /other`")),
            "{rules:?}"
        );
        assert!(
            !is_below(daemon.path(), SECRET),
            "the secret is in a file of the daemon's"
        );

        // Another value counts from the next request on; without one nothing is sent.
        let again = script("localhost", port, r#"asked("GET", "/api/x")"#);
        files.put("tok-another-value");
        assert_eq!(printed(&daemon, &again).await.0, ok);
        assert_eq!(
            values(&api.take()[0], "authorization"),
            ["Bearer tok-another-value"]
        );
        fs::remove_file(files.secret()).unwrap();
        let (seen, _) = printed(&daemon, &again).await;
        let text =
            format!("localhost:{port} was not sent the secret `token`, which cannot be used\n");
        assert_eq!(seen, json!([502, text]));
        assert!(api.take().is_empty());
        assert!(
            daemon
                .log()
                .contains("a hook's request is not sent: cannot use the secret `token`")
        );
    }

    #[tokio::test]
    #[ignore = "needs python3"]
    async fn tls_to_a_host_of_requests_is_refused_and_a_host_without_trust_gets_no_secret() {
        needs_no_container();
        let api = Api::start("localhost");
        let port = api.server.port;
        let requests = format!(
            "[[requests]]\nurl = \"https://localhost:{port}\"\nsecret = \"token\"\nheader = \"X-Token: {{secret}}\"\n"
        );
        let files = Files::make(&api.pem);
        let by_tls = format!(
            r#"
context = ssl.create_default_context(cadata="""{}""")
def tls():
    try:
        s = context.wrap_socket(socket.create_connection(("localhost", {port}), 20), server_hostname="localhost")
        s.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        return s.recv(100).decode()
    except OSError as e:
        return type(e).__name__
print(json.dumps(tls()))"#,
            api.pem
        );
        let daemon = daemon_with(&requests, &files.config).await;
        let (seen, response) = printed(&daemon, &by_tls).await;
        assert!(!seen.as_str().unwrap().starts_with("HTTP"), "{seen}");
        let rules: Vec<_> = response.denials.iter().map(|it| &*it.rule).collect();
        let part = "got no HTTP/1.1; use `http://` and the name";
        assert!(rules.iter().any(|it| it.contains(part)), "{rules:?}");
        let program = script("localhost", port, r#"asked("GET", "/x")"#);
        // The control.
        assert_eq!(printed(&daemon, &program).await.0, json!([200, "ok"]));
        assert_eq!(api.take().len(), 1);

        // Another authority's certificate.
        let files = Files::make(&Api::start("localhost").pem);
        let daemon = daemon_with(&requests, &files.config).await;
        let (seen, _) = printed(&daemon, &program).await;
        let text = seen[1].as_str().unwrap();
        assert_eq!(seen[0], 502);
        assert!(
            text.contains("no trusted TLS: invalid peer certificate"),
            "{text}"
        );
        assert!(api.take().is_empty());
        // The certificate is replaced, and the new one counts from a reload on.
        fs::write(files.directory.path().join("ca.pem"), &api.pem).unwrap();
        let config = daemon.path().join("hookjail.toml");
        let reloaded = hookjail(&config, &["reload"]).output().unwrap();
        assert!(reloaded.status.success(), "{reloaded:?}");
        assert_eq!(printed(&daemon, &program).await.0, json!([200, "ok"]));
    }

    #[tokio::test]
    #[ignore = "needs python3"]
    async fn a_url_that_is_a_secret_has_a_stand_in_which_leads_through_a_proxy_too() {
        needs_no_container();
        let api = Api::start("hooks.corp-only.example");
        let proxy = ProxyServer::start(api.server.port, Answer::Status("200 OK"));
        let files = Files::make(&api.pem);
        let path = "/services/T0123/B0456/9f8e7d6c5b4a";
        files.put(&format!("https://hooks.corp-only.example{path}\n"));
        let requests = "[[requests]]\nurl = \"https://hooks.corp-only.example/services/\"\nsecret = \"token\"\nvariable = \"WEBHOOK_URL\"\n";
        let config = format!("{}proxy = {:?}\n", files.config, proxy.url());
        let daemon = daemon_with(requests, &config).await;
        let text = format!(
            r#"{CLIENT}
import urllib.request
HOST, PORT = "hooks.corp-only.example", 80
url = os.environ["WEBHOOK_URL"]
print(json.dumps([url, urllib.request.urlopen(url, b'{{"text": "done"}}').read().decode(),
    asked("POST", "{path}"), asked("GET", "/hookjail/token?thread=1"), asked("GET", "/hookjail/other"),
    asked("POST", "/hookjail/token", port=443)]))"#
        );
        let (seen, _) = printed(&daemon, &text).await;
        assert_eq!(seen[0], "http://hooks.corp-only.example/hookjail/token");
        assert_eq!(seen[1], "ok");
        assert_eq!(seen[2][0], 403);
        assert_eq!(seen[3], json!([200, "ok"]));
        assert_eq!(seen[4][0], 403);
        assert_eq!(seen[5], json!([200, "ok"]));
        let requests = api.take();
        let firsts: Vec<_> = requests.iter().map(|it| &*it[0]).collect();
        assert_eq!(
            firsts,
            [
                format!("POST {path} HTTP/1.1"),
                format!("GET {path}?thread=1 HTTP/1.1"),
                format!("POST {path} HTTP/1.1")
            ]
        );
        assert!(
            requests
                .iter()
                .all(|it| values(it, "host") == ["hooks.corp-only.example"])
        );
        let connects = proxy.heads();
        assert!(
            connects
                .iter()
                .all(|it| it[0] == "CONNECT hooks.corp-only.example:443 HTTP/1.1")
        );

        // A URL of another host, or outside of the rule's, is not used.
        let program = script(
            "hooks.corp-only.example",
            80,
            r#"asked("POST", "/hookjail/token")"#,
        );
        for secret in [
            "https://evil.example/services/x",
            "https://hooks.corp-only.example/other",
            "not a URL at all",
        ] {
            files.put(secret);
            let (seen, _) = printed(&daemon, &program).await;
            let text = "hooks.corp-only.example:80 was not sent the secret `token`, which cannot be used\n";
            assert_eq!(seen, json!([502, text]), "{secret}");
        }
        assert!(api.take().is_empty());
    }

    #[tokio::test]
    #[ignore = "needs python3"]
    async fn a_secret_that_a_host_returns_is_found_in_what_the_hook_prints() {
        needs_no_container();
        // A host that returns what it is sent is one that gives the secret away; where output is redacted it stays in.
        let (server, pem) = Server::speaking_tls(&["localhost"], |stream| {
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && stream.read_exact(&mut byte).is_ok() {
                head.push(byte[0]);
            }
            let text = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", head.len());
            drop(stream.write_all(text.as_bytes()));
            drop(stream.write_all(&head));
        });
        let files = Files::make(&pem);
        let requests = format!(
            "[output]\nredact = true\n[[requests]]\nurl = \"https://localhost:{}\"\nsecret = \"token\"\nheader = \"X-Token: {{secret}}\"\n",
            server.port
        );
        let daemon = daemon_with(&requests, &files.config).await;
        let (seen, _) = printed(
            &daemon,
            &script("localhost", server.port, r#"asked("GET", "/")"#),
        )
        .await;
        let text = seen[1].as_str().unwrap();
        assert!(text.contains("x-token: [redacted:token]"), "{text}");
    }
}
