//! What the sandbox refused in a run is said, as far as the daemon can know it.

use std::{fs, os::fd::AsRawFd, path::Path};

use hookjail::pb;
use nix::{
    fcntl::Flock,
    sys::socket::{
        AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto,
        socket,
    },
};

use crate::{
    attempts::Probe,
    doors::{Denial, Door, doors},
    fail_closed::FakeKernel,
    support::{Daemon, Setup, alone, hook, needs_root, sh},
};

/// Returns the calls that the daemon refused, as operation, axis and how often. What the audit log says comes with them where a
/// host audits.
fn denials(response: &pb::ExecuteResponse) -> Vec<(String, pb::Axis, u64)> {
    let denial = |of: &pb::Denial| (of.operation.clone(), of.axis(), of.times);
    let asked = response.denials.iter();
    asked
        .filter(|denial| denial.source != "audit_log")
        .map(denial)
        .collect()
}

/// Returns from what the daemon knows, the audit log left out.
fn sources(response: &pb::ExecuteResponse) -> Vec<&str> {
    let sources = response.denial_sources.iter().map(String::as_str);
    sources.filter(|source| *source != "audit_log").collect()
}

fn is_log_read(response: &pb::ExecuteResponse) -> bool {
    response.denial_sources.len() > sources(response).len()
}

#[tokio::test]
async fn a_refused_fork_is_told_from_a_hook_that_blocks() {
    let daemon = Daemon::start().await;

    let refused = daemon
        .run(sh("strict", "/bin/ls / | /bin/cat"))
        .await
        .unwrap();
    let blocking = daemon.run(sh("strict", "exit 2")).await.unwrap();

    // dash ends alike.
    let code = |response: &pb::ExecuteResponse| response.outcome.unwrap().exit_code;
    assert_eq!((code(&refused), code(&blocking)), (Some(2), Some(2)));
    assert!(refused.verdict.as_ref().unwrap().sandbox_denied);
    assert!(!blocking.verdict.as_ref().unwrap().sandbox_denied);
    assert_eq!(denials(&blocking), []);
    let denial = &refused.denials[0];
    assert!(
        ["clone", "fork", "vfork"].contains(&&*denial.operation),
        "{denial:?}"
    );
    assert_eq!(denial.axis(), pb::Axis::Spawn);
    assert_eq!(
        (&*denial.source, &*denial.confidence),
        ("seccomp", "certain")
    );
    assert_eq!(denial.suggestion, "spawn = \"processes\"");
    assert_eq!(sources(&refused), ["seccomp", "sigsys"]);
    // It is written down too.
    let ended: Vec<_> = daemon
        .journal()
        .into_iter()
        .filter(|record| record["record"] == "ended")
        .collect();
    assert_eq!(ended[0]["denied"][0], *denial.operation);
    assert_eq!(ended[1].get("denied"), None);
}

#[tokio::test]
async fn denied_calls_are_counted_and_explained_whoever_of_the_run_makes_them() {
    let (probe, daemon) = (Probe::build(), Daemon::start().await);
    let path = probe.path().display().to_string();

    let script = format!("for i in 1 2 3; do {path} make-socket 2 1 0; done; exit 0");
    let mut request = sh("workspace-ro", &script);
    request.hook.as_mut().unwrap().workspace = daemon.workspace().display().to_string();
    let program = daemon.workspace().join("attempt");
    std::fs::copy(&path, &program).unwrap();
    request.hook.as_mut().unwrap().argv[2] = script.replace(&path, program.to_str().unwrap());
    let response = daemon.run(request).await.unwrap();

    assert_eq!(
        denials(&response),
        [("socket".to_owned(), pb::Axis::Network, 3)]
    );
    assert_eq!(response.denials[0].suggestion, "network = \"outbound\"");
    // Files are not seen, so that the list may not be all.
    assert!(is_log_read(&response) || !response.denials_observable);
}

/// Or every hook that bash runs would seem to have been refused something.
#[tokio::test]
async fn what_c_libraries_ask_on_their_own_is_listed_and_counts_for_nothing() {
    let (probe, daemon) = (Probe::build(), Daemon::start().await);
    // A stream socket of the family AF_UNIX that neither blocks nor survives an exec, and one that blocks.
    let asked = (libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK).to_string();
    for (kind, expected) in [(&*asked, false), ("1", true)] {
        let words = ["make-socket", "1", kind, "0"].map(str::to_owned);
        let response = daemon.run(probe.hook("strict", &words)).await.unwrap();
        assert_eq!(
            denials(&response),
            [("socket".to_owned(), pb::Axis::Network, 1)]
        );
        assert!(
            response.denials[0]
                .target
                .starts_with("domain=AF_UNIX type=SOCK_STREAM")
        );
        assert_eq!(response.denials[0].incidental, !expected);
        assert_eq!(response.verdict.unwrap().sandbox_denied, expected);
    }
}

/// However much it is, the reply stays as short as its caller takes.
#[tokio::test]
async fn a_hook_that_is_denied_everything_gets_a_reply_of_the_usual_length() {
    let (probe, daemon) = (Probe::build(), Daemon::start().await);
    let mut words = vec!["doors".to_owned()];
    let errno = |door: &Door| door.denial == Denial::Errno(libc::EPERM);
    let denied: Vec<_> = doors(false).into_iter().filter(errno).collect();
    words.extend(denied.iter().map(|door| door.number.to_string()));

    let response = daemon.run(probe.hook("strict", &words)).await.unwrap();

    let length: usize = response
        .denials
        .iter()
        .map(prost::Message::encoded_len)
        .sum();
    assert!((2_000..16 * 1024).contains(&length), "{length}");
    assert!(response.denials.len() < denied.len());
    assert!(!response.denials_observable);
    assert!(response.verdict.unwrap().sandbox_denied);
}

#[tokio::test]
async fn a_killed_hook_is_denied_something_whatever_it_was() {
    let (probe, daemon) = (Probe::build(), Daemon::start().await);

    let words = ["call", "mount", "0"].map(str::to_owned);
    let response = daemon.run(probe.hook("strict", &words)).await.unwrap();

    assert!(response.verdict.as_ref().unwrap().sandbox_denied);
    let killed = &response.denials[0];
    if killed.source == "audit_log" {
        assert!(is_log_read(&response));
        assert_eq!(killed.operation, "mount");
    } else {
        assert_eq!((&*killed.source, &*killed.operation), ("sigsys", ""));
    }
}

#[tokio::test]
async fn many_hooks_at_once_are_each_told_their_own() {
    let (probe, daemon) = (Probe::build(), Daemon::start().await);
    let runs: Vec<_> = (0..24)
        .map(|number| {
            // One in two is denied something.
            let words: &[&str] = match number % 2 {
                0 => &["make-socket", "2", "1", "0"],
                _ => &["say", "nothing"],
            };
            let words: Vec<_> = words.iter().map(|&word| word.to_owned()).collect();
            let mut client = daemon.client();
            let request = probe.hook("strict", &words);
            tokio::spawn(async move { client.execute(request).await.unwrap().into_inner() })
        })
        .collect();

    for (number, run) in runs.into_iter().enumerate() {
        let expected = match number % 2 {
            0 => vec![("socket".to_owned(), pb::Axis::Network, 1)],
            _ => Vec::new(),
        };
        assert_eq!(denials(&run.await.unwrap()), expected, "{number}");
    }
}

#[tokio::test]
async fn under_a_filter_that_listens_already_calls_are_refused_and_that_is_not_seen() {
    let (probe, kernel) = (Probe::build(), FakeKernel::build());
    // An older Landlock is faked by a filter with a listener.
    let daemon = kernel.daemon(&["--landlock", "6"]).await;

    let words = ["make-socket", "2", "1", "0"].map(str::to_owned);
    let response = daemon.run(probe.hook("strict", &words)).await.unwrap();

    assert_eq!(response.outcome.unwrap().exit_code, Some(libc::EPERM));
    assert_eq!(denials(&response), []);
    assert_eq!(response.denial_sources, ["sigsys"]);
    assert!(!response.denials_observable);
}

/// Auditing, switched on until this is dropped, and of no other test meanwhile: the log is of the whole machine, and of a call
/// for which a stranger was killed no daemon can tell whether it was of its own hooks.
struct Auditing {
    was_on: bool,
    _alone: Flock<fs::File>,
}

impl Auditing {
    /// Switches it on. Needs root, outside of containers, and a kernel that writes what Landlock refuses into its audit log.
    fn on() -> Self {
        needs_root();
        let pids = fs::read_link("/proc/self/ns/pid").unwrap();
        assert_eq!(
            pids,
            Path::new("pid:[4026531836]"),
            "this test needs the first process id namespace, whose ids are in the audit log"
        );
        let abi = hookjail::testing::sys::landlock_abi().unwrap();
        assert!(abi >= 7, "this test needs Landlock ABI 7: this is {abi}");
        let alone = alone();
        let auditing = Self {
            was_on: is_auditing().expect("this test needs a kernel that audits"),
            _alone: alone,
        };
        audit(true);
        let on = is_auditing();
        assert_eq!(on, Some(true), "this test needs auditing to be switched on");
        auditing
    }
}

impl Drop for Auditing {
    fn drop(&mut self) {
        audit(self.was_on);
    }
}

fn is_auditing() -> Option<bool> {
    const GET: u16 = 1000;
    let answer = ask_audit(GET, &[])?;
    let enabled = answer.get(20..24)?.try_into().unwrap();
    (answer[4..6] == GET.to_ne_bytes()).then_some(u32::from_ne_bytes(enabled) != 0)
}

fn audit(on: bool) {
    const SET: u16 = 1001;
    // The mask that says which field counts, and that field.
    let mut status = [0; 40];
    status[..4].copy_from_slice(&1_u32.to_ne_bytes());
    status[4..8].copy_from_slice(&u32::from(on).to_ne_bytes());
    ask_audit(SET, &status);
}

/// Asks the kernel about auditing and returns what it answers first.
fn ask_audit(kind: u16, body: &[u8]) -> Option<Vec<u8>> {
    let socket = socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkAudit,
    )
    .ok()?;
    let length = u32::try_from(16 + body.len()).unwrap();
    let flags: u16 = if body.is_empty() { 1 } else { 5 };
    let mut message = length.to_ne_bytes().to_vec();
    message.extend(kind.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    message.extend([1, 0, 0, 0, 0, 0, 0, 0]);
    message.extend(body);
    let kernel = NetlinkAddr::new(0, 0);
    sendto(socket.as_raw_fd(), &message, &kernel, MsgFlags::empty()).ok()?;
    let mut answer = vec![0; 16 * 1024];
    let length = recv(socket.as_raw_fd(), &mut answer, MsgFlags::empty()).ok()?;
    answer.truncate(length);
    Some(answer)
}

/// Returns what the audit log says of files, as operation and path.
fn of_files(response: &pb::ExecuteResponse) -> Vec<(&str, &str)> {
    let logged = response.denials.iter();
    logged
        .filter(|denial| denial.source == "audit_log" && denial.target.starts_with('/'))
        .map(|denial| (&*denial.operation, &*denial.target))
        .collect()
}

/// Starts a daemon that reads the log, in a test that has `Auditing`.
async fn reading() -> Daemon {
    Daemon::with(Setup {
        alone: true,
        config: "[hooks]\nread_audit_log = true\n".to_owned(),
        ..Setup::default()
    })
    .await
}

/// How often a hook is run of which the log may not tell all: what any process on the machine is refused while it ends makes a
/// daemon doubt, as it should.
const TRIES: usize = 5;

/// Runs a hook of which all that it was refused is told.
async fn whole(daemon: &Daemon, request: pb::ExecuteRequest) -> pb::ExecuteResponse {
    let mut response = daemon.run(request.clone()).await.unwrap();
    for _ in 1..TRIES {
        if response.denials_observable {
            break;
        }
        response = daemon.run(request.clone()).await.unwrap();
    }
    assert!(
        response.denials_observable,
        "{response:?}\n{}",
        daemon.log()
    );
    response
}

mod with_audit_log {
    use super::*;

    #[tokio::test]
    #[ignore = "needs root, Landlock ABI 7 and auditing"]
    async fn a_refused_redirection_is_told_from_a_hook_that_blocks() {
        let _auditing = Auditing::on();
        let daemon = reading().await;

        let target = "/etc/hookjail-test";
        let refused = whole(&daemon, sh("strict", &format!("echo x > {target}"))).await;
        let blocking = whole(&daemon, sh("strict", "exit 2")).await;

        let code = |response: &pb::ExecuteResponse| response.outcome.unwrap().exit_code;
        assert_eq!((code(&refused), code(&blocking)), (Some(2), Some(2)));
        assert!(!Path::new(target).exists());
        assert!(refused.verdict.as_ref().unwrap().sandbox_denied);
        assert!(!blocking.verdict.as_ref().unwrap().sandbox_denied);
        assert_eq!(refused.denial_sources, ["seccomp", "sigsys", "audit_log"]);
        // It is the directory that may not be changed.
        assert_eq!(of_files(&refused), [("make_reg", "/etc")]);
        assert_eq!(of_files(&blocking), []);
        let denial = &refused.denials[0];
        assert_eq!((denial.axis(), denial.times), (pb::Axis::Write, 1));
        assert_eq!(denial.confidence, "certain");
        assert_eq!(denial.rule, "no grant lets a hook make files at `/etc`");
        let journal = daemon.journal();
        let denied = |response: &pb::ExecuteResponse| {
            let sequence = response.audit.as_ref().unwrap().sequence;
            let mut records = journal
                .iter()
                .filter(|record| record["sequence"] == sequence);
            records.next().unwrap().get("denied").cloned()
        };
        assert_eq!(denied(&refused), Some(serde_json::json!(["make_reg"])));
        assert_eq!(denied(&blocking), None);
    }

    #[tokio::test]
    #[ignore = "needs root, Landlock ABI 7 and auditing"]
    async fn a_refused_read_comes_with_the_smallest_grant_whatever_the_file_is_named() {
        let _auditing = Auditing::on();
        let daemon = reading().await;

        let names = [
            "plain",
            "with a space",
            "forged\" domain=1 path=\"x",
            "\u{e9}\n",
        ];
        for name in names {
            let file = daemon.outside(name);
            fs::write(&file, "secret\n").unwrap();
            let quoted = shlex::try_quote(file.to_str().unwrap()).unwrap();
            let script = format!("read line < {quoted}; exit 0");
            let response = whole(&daemon, sh("strict", &script)).await;

            let path = file.to_str().unwrap();
            assert_eq!(of_files(&response), [("read_file", path)], "{name:?}");
            let denial = &response.denials[0];
            // Below the daemon's own directory in no way, so that it can be granted.
            let granted = toml::Value::String(path.to_owned());
            assert_eq!(
                denial.suggestion,
                format!("files.named = [{{ path = {granted}, access = \"read\" }}]")
            );
            assert_eq!(denial.axis(), pb::Axis::Read);
            assert!(response.verdict.unwrap().sandbox_denied);
        }
    }

    #[tokio::test]
    #[ignore = "needs root, Landlock ABI 7 and auditing"]
    async fn many_hooks_at_once_are_each_told_their_own_files() {
        let _auditing = Auditing::on();
        let daemon = reading().await;
        let runs: Vec<_> = (0..24)
            .map(|number| {
                let file = daemon.outside(&number.to_string());
                fs::write(&file, "secret\n").unwrap();
                let path = file.to_str().unwrap().to_owned();
                // One in two is denied something.
                let script = match number % 2 {
                    0 => format!("read line < {path}"),
                    _ => "exit 0".to_owned(),
                };
                let mut client = daemon.client();
                let request = sh("strict", &script);
                let run =
                    tokio::spawn(
                        async move { client.execute(request).await.unwrap().into_inner() },
                    );
                (number, path, script, run)
            })
            .collect();

        for (number, path, script, run) in runs {
            let mut response = run.await.unwrap();
            if !response.denials_observable {
                response = whole(&daemon, sh("strict", &script)).await;
            }
            let expected = match number % 2 {
                0 => vec![("read_file", &*path)],
                _ => Vec::new(),
            };
            assert_eq!(of_files(&response), expected, "{number}");
        }
    }

    #[tokio::test]
    #[ignore = "needs root, Landlock ABI 7 and auditing"]
    async fn where_all_sources_told_all_an_empty_list_means_that_nothing_was_refused() {
        let _auditing = Auditing::on();
        let daemon = reading().await;

        let response = whole(&daemon, sh("strict", "exit 0")).await;

        assert_eq!(response.denials, []);
    }

    #[tokio::test]
    #[ignore = "needs root, Landlock ABI 7 and auditing"]
    async fn where_auditing_was_switched_off_meanwhile_an_empty_list_means_nothing() {
        let _auditing = Auditing::on();
        let daemon = reading().await;
        audit(false);

        let response = daemon.run(sh("strict", "exit 0")).await.unwrap();

        assert_eq!(response.denials, []);
        assert!(!response.denials_observable);
    }

    #[tokio::test]
    #[ignore = "needs root, Landlock ABI 7 and auditing"]
    async fn calls_that_only_the_closing_filter_refuses_are_in_the_log() {
        let _auditing = Auditing::on();
        let (probe, daemon) = (Probe::build(), reading().await);

        // `setpgid`, which the set-up needs and a hook must not have.
        let words = ["call", "setpgid", "0"].map(str::to_owned);
        let response = whole(&daemon, probe.hook("strict", &words)).await;

        let setpgid: Vec<_> = response
            .denials
            .iter()
            .filter(|denial| denial.operation == "setpgid")
            .collect();
        assert_eq!(setpgid.len(), 1);
        assert_eq!((&*setpgid[0].source, setpgid[0].times), ("audit_log", 1));
        assert!(response.verdict.unwrap().sandbox_denied);
    }
}

mod with_tools {
    use super::*;

    #[tokio::test]
    #[ignore = "needs bash"]
    async fn a_copy_and_a_here_string_are_no_denial() {
        let daemon = Daemon::start().await;
        let script = "echo x >one && cp one two && read -r line <<<text && [ \"$line\" = text ]";
        let mut request = hook(["bash", "-c", script]);
        request.profile = "workspace-rw".to_owned();
        request.hook.as_mut().unwrap().workspace = daemon.workspace().display().to_string();

        let response = daemon.run(request).await.unwrap();

        assert_eq!(response.outcome.unwrap().exit_code, Some(0), "{response:?}");
        assert!(daemon.workspace().join("two").exists());
        let calls = denials(&response).into_iter().map(|(call, ..)| call);
        let calls: Vec<_> = calls.collect();
        assert!(calls.contains(&"ioctl".to_owned()), "{calls:?}");
        assert!(calls.contains(&"fcntl".to_owned()), "{calls:?}");
        assert!(!response.verdict.unwrap().sandbox_denied, "{calls:?}");
    }
}
