//! A response lists the refusals of the sandbox in a run, as far as the daemon can observe them.

use hookjail::pb;

use crate::{
    attempts::Probe,
    doors::{Denial, Door, doors},
    fail_closed::FakeKernel,
    support::{Daemon, hook, sh},
};

/// Returns the calls that the daemon refused, as operation, axis and how often.
fn denials(response: &pb::ExecuteResponse) -> Vec<(String, pb::Axis, u64)> {
    let denial = |denied: &pb::Denial| (denied.operation.clone(), denied.axis(), denied.times);
    response.denials.iter().map(denial).collect()
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
    assert_eq!(refused.denial_sources, ["seccomp", "sigsys"]);
    // The refusal is written down too.
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
}

/// Or every hook that bash runs would seem to have been refused something.
#[tokio::test]
async fn what_c_libraries_ask_on_their_own_is_listed_and_counts_for_nothing() {
    let (probe, daemon) = (Probe::build(), Daemon::start().await);
    // A stream socket of the family AF_UNIX that neither blocks nor survives an exec, and one that blocks.
    let socket_type = (libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK).to_string();
    for (kind, expected) in [(&*socket_type, false), ("1", true)] {
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
        let ended = daemon.journal().pop().unwrap();
        let recorded = ["denied", "incidental"].map(|member| ended.get(member).is_some());
        assert_eq!(recorded, [expected, !expected], "{ended}");
        assert_eq!(response.verdict.unwrap().sandbox_denied, expected);
    }
}

/// With any number of denials the reply stays as short as its caller accepts.
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
    assert!(response.verdict.unwrap().sandbox_denied);
}

#[tokio::test]
async fn a_killed_hook_is_denied_something_whatever_it_was() {
    let (probe, daemon) = (Probe::build(), Daemon::start().await);

    let words = ["call", "mount", "0"].map(str::to_owned);
    let response = daemon.run(probe.hook("strict", &words)).await.unwrap();

    assert!(response.verdict.as_ref().unwrap().sandbox_denied);
    let killed = &response.denials[0];
    assert_eq!((&*killed.source, &*killed.operation), ("sigsys", ""));
}

#[tokio::test]
async fn many_hooks_at_once_are_each_told_their_own() {
    let (probe, daemon) = (Probe::build(), Daemon::start().await);
    let runs: Vec<_> = (0..24)
        .map(|number| {
            // One run in two has a denial.
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
        // `cp` asks to share the file's blocks, and is answered as by a file system that cannot.
        assert!(calls.contains(&"fcntl".to_owned()), "{calls:?}");
        assert!(!calls.contains(&"ioctl".to_owned()), "{calls:?}");
        assert!(!response.verdict.unwrap().sandbox_denied, "{calls:?}");
    }
}
