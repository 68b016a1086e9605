//! A private daemon serves the process that started it, and ends with it.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start the daemon itself and its parent, never a hook"
)]

use std::{
    fs::{self, File, Permissions},
    io::{BufRead, BufReader, Read},
    net::TcpStream,
    os::unix::{
        fs::{MetadataExt, PermissionsExt},
        net::UnixStream,
        process::ExitStatusExt,
    },
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
};

use hookjail::pb::{self, OutcomeKind, hook_service_client::HookServiceClient};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tonic::transport::Channel;
use tower::service_fn;

use crate::{
    support::{dial, directory, endpoint, hook, journal, program, reason, sh},
    witness::{a_minute, assert_verifies, end, hookjail, processes_with, until, until_gone},
};

/// A private daemon, and the end of its stdin.
struct Private {
    child: Child,
    socket: PathBuf,
    stdin: Option<ChildStdin>,
}

/// A user's directories, which several private daemons may share.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        Self::with("")
    }

    /// Makes them with a configuration that has these tables, too.
    fn with(tables: &str) -> Self {
        let home = Self(directory());
        for (name, mode) in [("runtime", 0o755), ("workspace", 0o777)] {
            fs::create_dir(home.path(name)).unwrap();
            fs::set_permissions(home.path(name), Permissions::from_mode(mode)).unwrap();
        }
        let config = format!(
            "{tables}\n[hooks]\nworkspace_roots = [{:?}]\n[paths]\nstate = {:?}\nruntime = {:?}\n",
            home.path("workspace"),
            home.path("state"),
            home.path("run"),
        );
        fs::write(home.path("hookjail.toml"), config).unwrap();
        fs::set_permissions(home.path("hookjail.toml"), Permissions::from_mode(0o600)).unwrap();
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Returns the command of a private daemon, with its log in a file.
    fn command(&self) -> Command {
        let mut command = hookjail(&self.path("hookjail.toml"), &["serve", "--private"]);
        command.env("HOME", self.0.path());
        command.env("XDG_RUNTIME_DIR", self.path("runtime"));
        command.env("HOOKJAIL_ACCEPT_HOOKS", "1");
        command.stderr(
            File::options()
                .create(true)
                .append(true)
                .open(self.path("log"))
                .unwrap(),
        );
        command
    }

    fn start(&self) -> Private {
        let mut command = self.command();
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stdin = child.stdin.take();
        // Read to the end: no other process may hold it open.
        let mut line = String::new();
        let mut stdout = child.stdout.take().unwrap();
        stdout.read_to_string(&mut line).unwrap();
        let socket = self.socket(&line, child.id());
        Private {
            child,
            socket,
            stdin,
        }
    }

    /// Reads the line that a private daemon writes, which has nothing else in it.
    fn socket(&self, line: &str, pid: u32) -> PathBuf {
        assert_eq!(line.lines().count(), 1, "{line:?} {}", self.log());
        let report: serde_json::Value = serde_json::from_str(line).unwrap();
        let address = report["address"].as_str().unwrap();
        assert_eq!(
            report,
            serde_json::json!({ "address": address, "pid": pid })
        );
        PathBuf::from(address.strip_prefix("unix://").unwrap())
    }

    fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// Returns the existing directories of private daemons.
    fn directories(&self) -> Vec<PathBuf> {
        let found = fs::read_dir(self.path("runtime")).unwrap();
        found.map(|entry| entry.unwrap().path()).collect()
    }

    /// Begins a hook that takes a minute, with a process in the background.
    async fn begin(&self, daemon: &Private, marker: &str) -> tokio::task::JoinHandle<Answer> {
        let begun = self.path("workspace").join(marker);
        let script = format!("(sleep {marker} &) ; echo >{marker}; sleep {marker}");
        let mut request = sh("workspace-rw", &script);
        let workspace = self.path("workspace").canonicalize().unwrap();
        request.hook.as_mut().unwrap().workspace = workspace.display().to_string();
        let mut client = daemon.client().await;
        let call = tokio::spawn(async move { client.execute(request).await });
        until("the hook's begin", || begun.exists()).await;
        assert!(!processes_with(marker).is_empty());
        call
    }
}

type Answer = Result<tonic::Response<pb::ExecuteResponse>, tonic::Status>;

impl Private {
    async fn client(&self) -> HookServiceClient<Channel> {
        client(&self.socket).await
    }

    async fn status(&mut self) -> ExitStatus {
        let mut status = None;
        until("the daemon's end", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        })
        .await;
        status.unwrap()
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

async fn client(socket: &Path) -> HookServiceClient<Channel> {
    let socket = socket.to_owned();
    let connect = service_fn(move |_| dial(socket.clone()));
    HookServiceClient::new(endpoint().connect_with_connector(connect).await.unwrap())
}

#[tokio::test]
async fn it_says_where_it_listens_and_listens_nowhere_else() {
    let sockets = directory();
    let path = |name: &str| sockets.path().join(name);
    let home = Home::with(&format!(
        "[server]\nsocket = {:?}\nadmin_socket = {:?}\n[metrics]\nlisten = \"127.0.0.1:9399\"",
        path("sock"),
        path("admin")
    ));

    let mut daemon = home.start();

    let response = daemon
        .client()
        .await
        .execute(hook(["/bin/echo", "hello"]))
        .await;
    let response = response.unwrap().into_inner();
    assert_eq!(&response.stdout[..], b"hello\n");
    assert!(response.confinement.unwrap().confirmed);
    let directory = daemon.socket.parent().unwrap();
    assert_eq!(home.directories(), [directory]);
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!((mode(directory), mode(&daemon.socket)), (0o700, 0o600));
    assert!(!path("sock").exists() && !path("admin").exists());
    let refused = TcpStream::connect("127.0.0.1:9399").unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    drop(daemon.stdin.take());
    assert_eq!(daemon.status().await, ExitStatus::from_raw(0));
}

#[tokio::test]
async fn its_parents_end_or_a_signal_ends_it_with_its_hooks_and_its_directory() {
    for signal in [None, Some(Signal::SIGTERM), Some(Signal::SIGINT)] {
        let home = Home::new();
        let mut daemon = home.start();
        let marker = a_minute();
        let call = home.begin(&daemon, &marker).await;

        match signal {
            None => drop(daemon.stdin.take()),
            Some(signal) => {
                let pid = i32::try_from(daemon.child.id()).unwrap();
                kill(Pid::from_raw(pid), signal).unwrap();
            }
        }

        let response = call.await.unwrap().unwrap().into_inner();
        assert_eq!(end(&response).0, OutcomeKind::Canceled, "{signal:?}");
        let status = daemon.status().await;
        assert_eq!(status, ExitStatus::from_raw(0), "{signal:?} {}", home.log());
        assert_eq!(processes_with(&marker), [""; 0], "{signal:?}");
        assert_eq!(home.directories(), [""; 0].map(PathBuf::from), "{signal:?}");
        let records = journal(home.0.path());
        let records: Vec<_> = records.iter().map(|it| it["record"].as_str()).collect();
        assert_eq!(records, [Some("started"), Some("ended")], "{signal:?}");
        assert_verifies(home.0.path());
    }
}

#[tokio::test]
async fn a_parent_that_is_killed_takes_it_along() {
    let home = Home::new();
    let pipe = home.path("stdin");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    // The parent alone has the other end, which it opens after the daemon was started.
    let line = r#""$@" <stdin >stdout & exec 3>stdin; exec sleep 600"#;
    let daemon = home.command();
    let mut parent = Command::new("/bin/sh");
    parent
        .args(["-c", line, "sh"])
        .arg(daemon.get_program())
        .args(daemon.get_args());
    for (name, value) in daemon.get_envs() {
        match value {
            Some(value) => parent.env(name, value),
            None => parent.env_remove(name),
        };
    }
    let log = File::create(home.path("log")).unwrap();
    parent.current_dir(home.0.path()).stderr(log);
    let mut parent = parent.spawn().unwrap();
    let printed = || fs::read_to_string(home.path("stdout")).unwrap_or_default();
    until("the daemon's line", || printed().ends_with('\n')).await;
    let pid: serde_json::Value = serde_json::from_str(&printed()).unwrap();
    let pid = u32::try_from(pid["pid"].as_u64().unwrap()).unwrap();
    let socket = home.socket(&printed(), pid);
    let mut client = client(&socket).await;
    let marker = a_minute();
    let request = sh("pipeline", &format!("(sleep {marker} &) ; sleep {marker}"));
    let call = tokio::spawn(async move { client.execute(request).await });
    until("the hook's begin", || {
        processes_with(&marker)
            .iter()
            .filter(|it| it.starts_with("sleep"))
            .count()
            == 2
    })
    .await;

    parent.kill().unwrap();

    parent.wait().unwrap();
    until_gone(&marker).await;
    until("the daemon's end", || {
        fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|it| it.is_empty())
            || !Path::new(&format!("/proc/{pid}")).exists()
    })
    .await;
    assert_eq!(home.directories(), [""; 0].map(PathBuf::from));
    assert!(call.await.unwrap().is_ok(), "{}", home.log());
}

#[tokio::test]
async fn nothing_that_it_starts_has_its_stdin_or_stdout() {
    let home = Home::new();
    let mut command = home.command();
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let stdin = child.stdin.take();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    let pipes = [fd(stdin.as_ref().unwrap()), fd(stdout.get_ref())];
    let pipes = pipes.map(|fd| fs::read_link(format!("/proc/self/fd/{fd}")).unwrap());
    let daemon = Private {
        socket: home.socket(&line, child.id()),
        child,
        stdin,
    };
    let marker = a_minute();
    let call = home.begin(&daemon, &marker).await;

    // The daemon itself has its stdin; a child of a self-test has what it has, until it is set up.
    let expected = [(daemon.child.id(), pipes[0].clone())];
    until("nothing else has them", || holders(&pipes) == expected).await;
    drop(daemon);
    call.await.unwrap().unwrap_err();
    until_gone(&marker).await;
}

fn fd(file: &impl std::os::fd::AsRawFd) -> i32 {
    file.as_raw_fd()
}

/// Returns which processes have which of these pipes open, other than this one and those of other tests.
fn holders(pipes: &[PathBuf]) -> Vec<(u32, PathBuf)> {
    let test_pid = std::process::id();
    let processes = fs::read_dir("/proc").unwrap();
    let ids = processes.filter_map(|it| it.unwrap().file_name().to_str()?.parse().ok());
    // One that another test starts has this process's program, and all that is open, until it executes its own.
    let program = |id: u32| fs::read_link(format!("/proc/{id}/exe")).ok();
    let mut holders = Vec::new();
    for id in ids.filter(|id| program(*id) != program(test_pid)) {
        let open = fs::read_dir(format!("/proc/{id}/fd"));
        let open = open.into_iter().flatten().filter_map(Result::ok);
        let open = open.filter_map(|entry| fs::read_link(entry.path()).ok());
        holders.extend(open.filter(|it| pipes.contains(it)).map(|it| (id, it)));
    }
    holders
}

#[tokio::test]
async fn two_at_once_share_the_journal_and_the_consents_of_their_user() {
    let home = Home::new();
    let allow = ["allow", "--", "/bin/echo", "two"];
    let mut allowed = hookjail(&home.path("hookjail.toml"), &allow);
    let allowed = allowed.env("HOME", home.0.path()).output().unwrap();
    assert!(allowed.status.success(), "{allowed:?}");
    let start = || {
        let mut command = home.command();
        command.env("HOOKJAIL_ACCEPT_HOOKS", "0");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        let mut stdout = child.stdout.take().unwrap();
        stdout.read_to_string(&mut line).unwrap();
        Private {
            socket: home.socket(&line, child.id()),
            stdin: child.stdin.take(),
            child,
        }
    };
    let mut both = [start(), start()];
    assert_eq!(home.directories().len(), 2);
    let mut clients = Vec::new();
    for daemon in &both {
        clients.push(daemon.client().await);
    }

    for _ in 0..3 {
        for client in &mut clients {
            let response = client.execute(hook(["/bin/echo", "two"])).await.unwrap();
            assert_eq!(&response.into_inner().stdout[..], b"two\n");
            let refusal = client.execute(hook(["/bin/echo", "three"])).await;
            assert_eq!(reason(&refusal.unwrap_err()), "CONSENT_REQUIRED");
        }
    }

    drop(both[0].stdin.take());
    assert!(both[0].status().await.success());
    // The end of one is not the other's.
    let response = clients[1]
        .execute(hook(["/bin/echo", "two"]))
        .await
        .unwrap();
    assert_eq!(&response.into_inner().stdout[..], b"two\n");
    drop(both[1].stdin.take());
    assert!(both[1].status().await.success());
    let records = journal(home.0.path());
    let ended = records.iter().filter(|it| it["record"] == "ended");
    assert_eq!(ended.count(), 7);
    assert_verifies(home.0.path());
}

#[test]
fn one_without_a_parent_or_that_cannot_start_leaves_nothing() {
    // /dev/null ends at once, and is no failure.
    let home = Home::new();
    let ended = home.command().output().unwrap();
    assert!(ended.status.success(), "{}", home.log());
    assert!(home.directories().is_empty());
    // A parent that does not read the line is gone.
    let mut unread = home.command();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    unread.stdin(Stdio::piped()).stdout(writer);
    // Waiting would close its stdin.
    let mut unread = unread.spawn().unwrap();
    let stdin = unread.stdin.take();
    assert_eq!(unread.wait().unwrap().code(), Some(125), "{}", home.log());
    drop(stdin);
    assert!(home.directories().is_empty());
    // The administrator or the configuration forbids a private daemon.
    for (tables, problem) in [
        ("[run]\nprivate = false", "`run.private` is false"),
        ("[profiles]\nallow = [\"none-such\"]", "none-such"),
    ] {
        let home = Home::with(tables);
        let ended = home.command().output().unwrap();
        assert_eq!(ended.status.code(), Some(125), "{tables}");
        assert!(home.log().contains(problem), "{}", home.log());
        assert_eq!(ended.stdout, b"", "{tables}");
        assert!(home.directories().is_empty());
    }
}

#[test]
fn its_directory_is_where_no_other_user_can_replace_it_or_it_does_not_start() {
    let home = Home::new();
    let elsewhere = home.path("tmp");
    fs::create_dir(&elsewhere).unwrap();
    let start = |runtime: u32, temporary: u32| {
        for (path, mode) in [(&home.path("runtime"), runtime), (&elsewhere, temporary)] {
            fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        }
        let mut command = home.command();
        command.env("TMPDIR", &elsewhere).output().unwrap()
    };
    let refused = start(0o777, 0o777);
    assert_eq!(refused.status.code(), Some(125), "{}", home.log());
    assert!(home.log().contains("there is no directory for the socket"));
    for (runtime, temporary, place) in [
        (0o777, 0o1777, elsewhere.clone()),
        (0o700, 0o777, home.path("runtime")),
    ] {
        let served = start(runtime, temporary);
        assert!(served.status.success(), "{}", home.log());
        let report: serde_json::Value = serde_json::from_slice(&served.stdout).unwrap();
        let address = report["address"].as_str().unwrap();
        let begin = format!("unix://{}/hookjail-", place.display());
        assert!(address.starts_with(&begin), "{address} {begin}");
    }
}

mod as_root {
    use std::os::unix::fs::chown;

    use super::*;
    use crate::{
        support::needs_root,
        witness::{NOBODY, install},
    };

    /// Requests a hook as a user, at a socket.
    fn ask(home: &Home, user: u32, socket: &Path) -> String {
        let program = home.path("hookjail");
        if !program.exists() {
            install(&self::program(), &program);
        }
        let answer = Command::new("setpriv")
            .args([format!("--reuid={user}"), format!("--regid={user}")])
            .args(["--clear-groups"])
            .arg(program)
            .args(["run", "--json", "--connect"])
            .arg(socket)
            .args(["--", "/bin/echo", "hello"])
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let printed = [answer.stdout, answer.stderr].concat();
        String::from_utf8(printed).unwrap()
    }

    #[test]
    #[ignore = "needs root"]
    fn another_user_cannot_reach_it_and_is_refused_even_where_the_directory_is_opened() {
        needs_root();
        let home = Home::new();
        let daemon = home.start();
        UnixStream::connect(&daemon.socket).unwrap();
        // The control: the same call as the daemon's own user.
        assert!(ask(&home, 0, &daemon.socket).contains("OUTCOME_KIND_EXITED"));

        let refused = ask(&home, NOBODY, &daemon.socket);

        assert!(refused.contains("Permission denied"), "{refused}");
        fs::set_permissions(
            daemon.socket.parent().unwrap(),
            Permissions::from_mode(0o755),
        )
        .unwrap();
        let refused = ask(&home, NOBODY, &daemon.socket);
        assert!(refused.contains("Permission denied"), "{refused}");
        fs::set_permissions(&daemon.socket, Permissions::from_mode(0o666)).unwrap();
        chown(&daemon.socket, Some(NOBODY), Some(NOBODY)).unwrap();
        let refused = ask(&home, NOBODY, &daemon.socket);
        assert!(refused.contains("PERMISSION_DENIED"), "{refused}");
        let records = journal(home.0.path());
        assert_eq!(
            records.iter().filter(|it| it["record"] == "ended").count(),
            1
        );
    }
}
