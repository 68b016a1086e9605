//! The operator is asked about commands without a consent, and answers.

#![expect(
    clippy::disallowed_methods,
    clippy::panic,
    reason = "tests start the command line itself, never a hook, and fail by panicking"
)]

use std::{
    fs::{self, Permissions},
    io::{BufRead, BufReader, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Stdio},
    time::Duration,
};

use hookjail::pb::{
    self, ConsentDecision, OutcomeKind, consent_service_client::ConsentServiceClient,
    watch_response::News,
};
use serde_json::json;
use tokio::task::JoinHandle;
use tonic::{Code, Request, Status, Streaming, transport::Channel};

use crate::{
    support::{Daemon, Setup, hook, inline, reason, sh},
    witness::{NOBODY, a_minute, ask_as, end, hookjail, json as printed, until, wall_time},
};

async fn daemon(config: &str) -> Daemon {
    Daemon::with(Setup {
        ask_for_consent: true,
        config: config.to_owned(),
        ..Setup::default()
    })
    .await
}

fn operator(daemon: &Daemon) -> ConsentServiceClient<Channel> {
    ConsentServiceClient::new(daemon.channel())
}

/// A listener, until it is dropped.
struct Listener(Streaming<pb::WatchResponse>);

impl Listener {
    async fn new(daemon: &Daemon) -> Self {
        let news = operator(daemon).watch(pb::WatchRequest::default()).await;
        Self(news.unwrap().into_inner())
    }

    async fn news(&mut self) -> News {
        let message = tokio::time::timeout(Duration::from_secs(20), self.0.message()).await;
        let message = message.expect("news in time").unwrap();
        message.expect("news").news.unwrap()
    }

    async fn question(&mut self) -> pb::PendingConsent {
        match self.news().await {
            News::Pending(pending) => pending,
            News::Settled(settled) => panic!("{settled:?}"),
        }
    }

    /// Has a hook run in the background, and waits for the question about it.
    async fn asked_about(
        &mut self,
        daemon: &Daemon,
        request: pb::ExecuteRequest,
    ) -> (Running, pb::PendingConsent) {
        let running = begin(daemon, request);
        (running, self.question().await)
    }

    async fn settled(&mut self) -> (String, ConsentDecision, bool) {
        match self.news().await {
            News::Settled(settled) => (
                settled.consent_id.clone(),
                settled.decision(),
                settled.expired,
            ),
            News::Pending(pending) => panic!("{pending:?}"),
        }
    }
}

async fn decide(daemon: &Daemon, id: &str, decision: ConsentDecision) -> bool {
    let request = pb::DecideRequest {
        consent_id: id.to_owned(),
        decision: decision.into(),
    };
    let answer = operator(daemon).decide(request).await;
    answer.unwrap().into_inner().counted
}

type Running = JoinHandle<Result<pb::ExecuteResponse, Status>>;

/// Has a hook run in the background.
fn begin(daemon: &Daemon, request: pb::ExecuteRequest) -> Running {
    let mut client = daemon.client();
    tokio::spawn(async move {
        client
            .execute(request)
            .await
            .map(tonic::Response::into_inner)
    })
}

async fn refused(running: Running) -> (String, String) {
    let status = running.await.unwrap().unwrap_err();
    (reason(&status), status.message().to_owned())
}

fn script(daemon: &Daemon, text: &str) -> PathBuf {
    let path = daemon.outside("hook.sh");
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    path
}

fn run_script(path: &Path) -> pb::ExecuteRequest {
    hook([path.to_str().unwrap()])
}

fn consents(daemon: &Daemon) -> Vec<serde_json::Value> {
    let text = fs::read(daemon.path().join("state/allowlist.json")).unwrap_or(b"[]".to_vec());
    serde_json::from_slice(&text).unwrap()
}

#[tokio::test]
async fn a_question_names_the_hosts_and_each_request_with_its_secret() {
    let profile = "description = \"x\"\nextends = \"strict\"\ngranted_by = \"operator\"\nnetwork = \"named\"\negress = [\"a.example:443\"]\n\
        [[requests]]\nurl = \"https://b.example/x/\"\nmethods = [\"GET\"]\nsecret = \"token\"\nheader = \"X-Token: {secret}\"\n";
    let directory = tempfile::TempDir::new().unwrap();
    let secret = directory.path().join("secret");
    fs::write(&secret, "not for hooks").unwrap();
    fs::set_permissions(&secret, Permissions::from_mode(0o600)).unwrap();
    let daemon = Daemon::with(Setup {
        ask_for_consent: true,
        config: format!("[[secret]]\nname = \"token\"\nfile = {secret:?}\n"),
        profiles: vec![("named".to_owned(), profile.to_owned())],
        ..Setup::default()
    })
    .await;
    let mut listener = Listener::new(&daemon).await;
    let mut request = run_script(&script(&daemon, "echo ran"));
    request.profile = "named".to_owned();
    let (running, question) = listener.asked_about(&daemon, request).await;
    assert_eq!(question.egress, ["a.example:443", "b.example:443 https"]);
    let sent = "GET https://b.example/x/ with the secret `token` as `X-Token`";
    assert_eq!(question.requests, [sent]);
    assert!(decide(&daemon, &question.consent_id, ConsentDecision::No).await);
    refused(running).await;
}

#[tokio::test]
async fn a_hook_that_nobody_allowed_waits_for_an_answer_and_always_is_remembered() {
    let daemon = daemon("").await;
    let path = script(&daemon, "echo ran");
    let mut listener = Listener::new(&daemon).await;
    let mut request = run_script(&path);
    request.hook.as_mut().unwrap().name = "guard".to_owned();
    request.request_id = "r1".to_owned();
    let running = begin(&daemon, request.clone());

    let question = listener.question().await;

    assert_eq!(question.command, path.to_str().unwrap());
    assert_eq!(
        (question.hook_name.as_str(), question.request_id.as_str()),
        ("guard", "r1")
    );
    assert_eq!(question.profile, "strict");
    assert!(
        !question.profile_description.is_empty() && question.axes.len() == 14,
        "{question:?}"
    );
    let files: Vec<_> = question
        .digests
        .iter()
        .map(|d| (d.path.as_str(), d.role.as_str()))
        .collect();
    assert_eq!(
        files,
        [
            (path.to_str().unwrap(), "program"),
            ("/bin/sh", "interpreter")
        ]
    );
    assert!(
        question
            .peer
            .starts_with(&format!("uid={}", nix::unistd::geteuid()))
    );
    assert_eq!(daemon.records(), [""; 0]);
    assert!(decide(&daemon, &question.consent_id, ConsentDecision::Always).await);
    let response = running.await.unwrap().unwrap();
    assert_eq!(
        (end(&response).0, response.stdout.as_ref()),
        (OutcomeKind::Exited, &b"ran\n"[..])
    );
    assert_eq!(
        listener.settled().await,
        (question.consent_id, ConsentDecision::Always, false)
    );
    let start = &daemon.journal()[0];
    assert_eq!(start["consent"], "listener_always");
    assert_eq!(start["answered_by"]["uid"], nix::unistd::geteuid().as_raw());
    assert_eq!(consents(&daemon)[0]["command"], path.to_str().unwrap());
    // And there is no further question about it, with a listener or without.
    drop(listener);
    request.request_id.clear();
    daemon.run(request).await.unwrap();
    assert_eq!(daemon.journal()[2]["consent"], "allowlist");
}

#[tokio::test]
async fn yes_is_for_once_and_no_is_a_refusal() {
    let daemon = daemon("").await;
    let path = script(&daemon, "echo ran");
    let mut listener = Listener::new(&daemon).await;
    let (running, question) = listener.asked_about(&daemon, run_script(&path)).await;
    assert!(decide(&daemon, &question.consent_id, ConsentDecision::Once).await);
    running.await.unwrap().unwrap();
    assert_eq!(daemon.journal()[0]["consent"], "listener_once");
    assert_eq!(consents(&daemon), [json!(null); 0]);
    listener.settled().await;

    let (running, question) = listener.asked_about(&daemon, run_script(&path)).await;
    assert!(decide(&daemon, &question.consent_id, ConsentDecision::No).await);

    let (reason, message) = refused(running).await;
    assert_eq!(reason, "CONSENT_REQUIRED");
    assert!(message.contains("denied it"), "{message}");
    assert_eq!(consents(&daemon), [json!(null); 0]);
    assert_eq!(daemon.records(), ["started", "ended", "refused"]);
}

#[tokio::test]
async fn silence_is_a_no() {
    let daemon = daemon("[consent]\nwait = \"300ms\"\n").await;
    let path = script(&daemon, "echo ran");
    let mut listener = Listener::new(&daemon).await;

    let running = begin(&daemon, run_script(&path));

    let question = listener.question().await;
    let (reason, message) = refused(running).await;
    assert_eq!(reason, "CONSENT_REQUIRED");
    assert!(message.contains("did not answer in time"), "{message}");
    // The way to allow it is for an operator, not for a reader of messages.
    assert!(!message.contains("hookjail consent"), "{message}");
    let id = question.consent_id.clone();
    assert_eq!(listener.settled().await, (id, ConsentDecision::No, true));
    assert!(!decide(&daemon, &question.consent_id, ConsentDecision::Always).await);
    assert_eq!(consents(&daemon), [json!(null); 0]);
    // A listener that went away is none.
    drop(listener);
    let mut gone = false;
    while !gone {
        let status = daemon.run(run_script(&path)).await.unwrap_err();
        gone = status.message().contains("no consent allows");
    }
}

#[tokio::test]
async fn a_listener_that_vanishes_is_no_answer() {
    let daemon = daemon("[consent]\nwait = \"500ms\"\n").await;
    let path = script(&daemon, "echo ran");
    let mut listener = Listener::new(&daemon).await;
    let running = begin(&daemon, run_script(&path));
    listener.question().await;

    drop(listener);

    assert_eq!(refused(running).await.0, "CONSENT_REQUIRED");
    assert_eq!(daemon.records(), ["refused"]);
}

#[tokio::test]
async fn the_first_answer_counts_and_the_other_listeners_are_told() {
    let daemon = daemon("").await;
    let path = script(&daemon, "echo ran");
    let (mut one, mut other) = (Listener::new(&daemon).await, Listener::new(&daemon).await);
    let running = [(); 3].map(|()| begin(&daemon, run_script(&path)));
    let mut ids = Vec::new();
    for _ in 0..3 {
        let id = one.question().await.consent_id;
        assert_eq!(other.question().await.consent_id, id);
        ids.push(id);
    }
    // A later listener sees the open questions.
    let mut late = Listener::new(&daemon).await;
    let mut open = Vec::new();
    for _ in 0..3 {
        open.push(late.question().await.consent_id);
    }
    assert_eq!(open, ids);

    // An answer for good is one to the same question of the others, too.
    assert!(decide(&daemon, &ids[1], ConsentDecision::Always).await);

    for id in &ids {
        assert!(!decide(&daemon, id, ConsentDecision::No).await);
    }
    for running in running {
        running.await.unwrap().unwrap();
    }
    for listener in [&mut one, &mut other, &mut late] {
        let mut settled = Vec::new();
        for _ in 0..3 {
            let (id, decision, expired) = listener.settled().await;
            assert_eq!((decision, expired), (ConsentDecision::Always, false));
            settled.push(id);
        }
        settled.sort();
        assert_eq!(settled, ids);
    }
    assert_eq!(consents(&daemon).len(), 1);
}

#[tokio::test]
async fn a_script_that_changed_is_shown_with_what_changed() {
    let daemon = daemon("").await;
    let path = script(&daemon, "echo one\necho two");
    let mut listener = Listener::new(&daemon).await;
    let (running, question) = listener.asked_about(&daemon, run_script(&path)).await;
    assert_eq!(question.diff, "");
    decide(&daemon, &question.consent_id, ConsentDecision::Always).await;
    running.await.unwrap().unwrap();
    listener.settled().await;

    script(&daemon, "echo one\necho three");
    let (running, question) = listener.asked_about(&daemon, run_script(&path)).await;

    assert!(question.why.contains("changed since"), "{}", question.why);
    let changed: Vec<_> = question.diff.lines().skip(3).collect();
    assert_eq!(
        changed,
        [" #!/bin/sh", " echo one", "-echo two", "+echo three"]
    );
    decide(&daemon, &question.consent_id, ConsentDecision::No).await;
    assert_eq!(refused(running).await.0, "CONSENT_REQUIRED");
    listener.settled().await;
    drop(listener);
    until("the daemon's noticing", || {
        !fs::read_to_string(daemon.path().join("log"))
            .unwrap()
            .is_empty()
    })
    .await;
    let mut last = String::new();
    while last != "DIGEST_MISMATCH" {
        last = reason(&daemon.run(run_script(&path)).await.unwrap_err());
    }
}

/// The digest decides, but an operator reads the diff.
#[tokio::test]
async fn what_is_shown_as_changed_is_of_the_content_that_is_asked_about() {
    use std::os::unix::fs::FileExt;

    let daemon = daemon("").await;
    let path = script(&daemon, "echo old");
    let mut listener = Listener::new(&daemon).await;
    let (running, question) = listener.asked_about(&daemon, run_script(&path)).await;
    decide(&daemon, &question.consent_id, ConsentDecision::Always).await;
    running.await.unwrap().unwrap();
    listener.settled().await;
    let shown_change = async |listener: &mut Listener| {
        let running = begin(&daemon, run_script(&path));
        tokio::select! {
            question = listener.question() => {
                decide(&daemon, &question.consent_id, ConsentDecision::No).await;
                listener.settled().await;
                let mut digests = question.digests.into_iter();
                let script = digests.find(|it| it.role == "program").unwrap();
                Some((script.sha256, question.diff))
            }
            // The file was rewritten while it was hashed.
            () = async { while !running.is_finished() { tokio::task::yield_now().await } } => None,
        }
    };
    let mut known = Vec::new();
    for text in ["one", "two"] {
        script(&daemon, &format!("echo {text}"));
        let (sha256, diff) = shown_change(&mut listener).await.unwrap();
        assert!(diff.contains(&format!("+echo {text}")), "{diff}");
        known.push((sha256, format!("+echo {text}")));
    }
    if nix::unistd::geteuid().is_root() {
        // A file that root alone can write is taken as it is.
        std::os::unix::fs::chown(&path, Some(crate::witness::NOBODY), None).unwrap();
    }
    let file = fs::File::options().write(true).open(&path).unwrap();
    let rewriting = crate::witness::Again::and_again(move || {
        for text in ["one", "two"] {
            file.write_at(text.as_bytes(), 15).unwrap();
            std::thread::sleep(Duration::from_micros(300));
        }
    });

    let mut questions = 0;
    for round in 0..60_000 {
        // The scheduler decides which of the two comes first.
        if round >= 600 && questions > 0 {
            break;
        }
        let Some((sha256, diff)) = shown_change(&mut listener).await else {
            continue;
        };
        questions += 1;
        let (_, shown) = known.iter().find(|(it, _)| *it == sha256).unwrap();
        assert!(diff.is_empty() || diff.contains(shown), "{shown}: {diff}");
    }
    drop(rewriting);
    assert!(questions > 0);
}

#[tokio::test]
async fn what_changes_while_the_operator_is_asked_does_not_run() {
    for decision in [ConsentDecision::Always, ConsentDecision::Once] {
        let daemon = daemon("").await;
        let path = script(&daemon, "echo shown >&2");
        let mut listener = Listener::new(&daemon).await;
        let (running, question) = listener.asked_about(&daemon, run_script(&path)).await;
        script(&daemon, "echo other >&2");

        decide(&daemon, &question.consent_id, decision).await;

        let (reason, message) = refused(running).await;
        assert_eq!(reason, "DIGEST_MISMATCH");
        assert!(
            message.contains("changed while the operator was asked"),
            "{message}"
        );
        assert_eq!(consents(&daemon), [json!(null); 0]);
        assert_eq!(daemon.records(), ["refused"]);
    }
}

/// A file that is away at the moment of the answer is bound to nothing, and could be back as anything a moment later.
#[tokio::test]
async fn a_file_that_is_away_when_the_answer_comes_does_not_run() {
    for (decision, away, expected) in [
        (ConsentDecision::Once, "hook.sh", "INVALID_REQUEST"),
        (ConsentDecision::Once, "more.sh", "DIGEST_MISMATCH"),
        (ConsentDecision::Always, "more.sh", "DIGEST_MISMATCH"),
    ] {
        let daemon = daemon("").await;
        let path = script(&daemon, "echo shown");
        let more = daemon.outside("more.sh");
        fs::write(&more, "echo more\n").unwrap();
        let [path, more] = [path, more].map(|path| path.display().to_string());
        let mut listener = Listener::new(&daemon).await;
        let mut request = hook(["/bin/sh", &path]);
        if away == "more.sh" {
            request.hook.as_mut().unwrap().argv.push(more);
        }
        let (running, question) = listener.asked_about(&daemon, request).await;
        let away = daemon.outside(away);
        fs::rename(&away, away.with_extension("away")).unwrap();

        decide(&daemon, &question.consent_id, decision).await;

        assert_eq!(refused(running).await.0, expected);
        assert_eq!(consents(&daemon), [json!(null); 0]);
        assert_eq!(daemon.records(), ["refused"]);
    }
}

/// Returns a daemon that has a profile `mine`, and a request for a hook under it.
async fn with_a_profile() -> (Daemon, pb::ExecuteRequest) {
    let daemon = Daemon::with(Setup {
        ask_for_consent: true,
        profiles: vec![("mine".to_owned(), profile(""))],
        ..Setup::default()
    })
    .await;
    let request = pb::ExecuteRequest {
        profile: "mine".to_owned(),
        ..hook(["/bin/true"])
    };
    (daemon, request)
}

fn profile(more: &str) -> String {
    format!("description = \"mine\"\nextends = \"strict\"\n{more}\n")
}

/// Has a daemon read its profile `mine` anew.
fn reload(daemon: &Daemon, mine: &str) {
    fs::write(daemon.path().join("profiles/mine.toml"), mine).unwrap();
    let socket = daemon.path().join("sock-admin");
    let words = ["reload", "--connect", socket.to_str().unwrap()];
    let reloaded = hookjail(&daemon.path().join("hookjail.toml"), &words).output();
    assert!(reloaded.as_ref().unwrap().status.success(), "{reloaded:?}");
}

/// A run that waits has not begun: a reload affects it, too.
#[tokio::test]
async fn an_answer_has_nothing_run_under_a_profile_that_changed_while_it_was_awaited() {
    let (daemon, request) = with_a_profile().await;
    let mut listener = Listener::new(&daemon).await;
    let changed = profile("[time]\nmaximum = \"7m\"");
    // The second is the control: a reload that leaves the profile as it is.
    for is_refused in [true, false] {
        let (running, question) = listener.asked_about(&daemon, request.clone()).await;
        reload(&daemon, &changed);

        decide(&daemon, &question.consent_id, ConsentDecision::Always).await;

        if is_refused {
            assert_eq!(refused(running).await.0, "DIGEST_MISMATCH");
            assert_eq!(consents(&daemon), [json!(null); 0]);
            listener.settled().await;
        } else {
            running.await.unwrap().unwrap();
        }
    }
}

#[tokio::test]
async fn a_consent_ends_when_its_profile_allows_more_and_the_operator_is_told_what_changed() {
    let (daemon, request) = with_a_profile().await;
    let mut listener = Listener::new(&daemon).await;
    let (running, question) = listener.asked_about(&daemon, request.clone()).await;
    decide(&daemon, &question.consent_id, ConsentDecision::Always).await;
    running.await.unwrap().unwrap();
    listener.settled().await;
    daemon.run(request.clone()).await.unwrap();
    let was = consents(&daemon)[0]["profile_digest"].clone();
    // A profile that allows less is covered.
    reload(&daemon, &profile("[time]\nmaximum = \"7m\""));
    daemon.run(request.clone()).await.unwrap();
    reload(&daemon, &profile("[time]\nmaximum = \"40m\""));

    let (running, question) = listener.asked_about(&daemon, request.clone()).await;

    assert!(
        question.why.contains("profile `mine` changed"),
        "{question:?}"
    );
    assert!(question.why.contains(was.as_str().unwrap()), "{question:?}");
    assert!(
        question.diff.contains("+maximum = \"40m\""),
        "{}",
        question.diff
    );
    decide(&daemon, &question.consent_id, ConsentDecision::Always).await;
    running.await.unwrap().unwrap();
    assert_eq!(consents(&daemon).len(), 1);
    assert_ne!(consents(&daemon)[0]["profile_digest"], was);

    // An entry of earlier versions has no digest of its profile: such an entry is read, and counts no more.
    let mut entries = consents(&daemon);
    entries[0].as_object_mut().unwrap().remove("profile_digest");
    let list = daemon.path().join("state/allowlist.json");
    fs::write(&list, serde_json::to_vec(&entries).unwrap()).unwrap();
    listener.settled().await;
    let (running, question) = listener.asked_about(&daemon, request).await;
    assert!(
        question.why.contains("allow the command again"),
        "{question:?}"
    );
    decide(&daemon, &question.consent_id, ConsentDecision::No).await;
    assert_eq!(refused(running).await.0, "CONSENT_REQUIRED");
}

#[tokio::test]
async fn the_operators_time_is_not_the_hooks() {
    let daemon = daemon("").await;
    let mut listener = Listener::new(&daemon).await;
    let request = pb::ExecuteRequest {
        timeout: wall_time(2),
        ..hook(["/bin/true"])
    };
    // Another hook with as much time, which it uses up.
    let clock = pb::ExecuteRequest {
        timeout: wall_time(2),
        ..hook(["/bin/sleep", &a_minute()])
    };
    let allow = pb::AllowRequest {
        argv: clock.hook.clone().unwrap().argv,
        profile: "strict".to_owned(),
        ..pb::AllowRequest::default()
    };
    operator(&daemon).allow(allow).await.unwrap();
    let (running, question) = listener.asked_about(&daemon, request.clone()).await;

    // This hook began later than the one that waits, so at its end the other's time is over, too.
    let response = daemon.run(clock).await.unwrap();
    assert_eq!(end(&response).0, OutcomeKind::TimedOut);

    decide(&daemon, &question.consent_id, ConsentDecision::Once).await;

    let response = running.await.unwrap().unwrap();
    assert_eq!(end(&response), (OutcomeKind::Exited, Some(0), None));
    listener.settled().await;
    // The caller's is: the question ends before its timer.
    let mut hasty = Request::new(pb::ExecuteStreamRequest {
        request: Some(request),
    });
    hasty.set_timeout(Duration::from_millis(800));
    let stream = daemon.client().execute_stream(hasty).await.unwrap();
    let status = stream.into_inner().message().await.unwrap_err();
    assert_eq!(reason(&status), "CONSENT_REQUIRED");
}

#[tokio::test]
async fn a_caller_that_goes_away_withdraws_its_question() {
    let daemon = daemon("").await;
    let path = script(&daemon, "echo ran");
    let mut listener = Listener::new(&daemon).await;
    let (running, question) = listener.asked_about(&daemon, run_script(&path)).await;

    running.abort();

    let id = question.consent_id.clone();
    assert_eq!(listener.settled().await, (id, ConsentDecision::No, false));
    assert!(!decide(&daemon, &question.consent_id, ConsentDecision::Always).await);
    until("the record", || daemon.records() == ["refused"]).await;
    assert_eq!(consents(&daemon), [json!(null); 0]);
}

#[tokio::test]
async fn a_hook_that_waits_for_an_answer_takes_no_place_of_another() {
    let daemon = daemon("[hooks]\nmax_concurrent = 1\nmax_queued = 0\n").await;
    let path = script(&daemon, "echo ran");
    let mut listener = Listener::new(&daemon).await;
    let waiting = begin(&daemon, run_script(&path));
    let question = listener.question().await;
    let allow = pb::AllowRequest {
        argv: vec!["/bin/true".to_owned()],
        profile: "strict".to_owned(),
        ..pb::AllowRequest::default()
    };
    operator(&daemon).allow(allow).await.unwrap();

    daemon.run(hook(["/bin/true"])).await.unwrap();

    decide(&daemon, &question.consent_id, ConsentDecision::Once).await;
    waiting.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_daemon_that_ends_asks_nobody_any_more() {
    let daemon = daemon("").await;
    let path = script(&daemon, "echo ran");
    let mut listener = Listener::new(&daemon).await;
    let running = begin(&daemon, run_script(&path));
    listener.question().await;

    let pid = nix::unistd::Pid::from_raw(i32::try_from(daemon.pid()).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();

    assert_eq!(refused(running).await.0, "DRAINING");
    listener.settled().await;
    assert!(listener.0.message().await.unwrap().is_none());
}

/// Returns the keys on consent of the configuration in the sidecar's manifest.
fn of_the_sidecar() -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/kubernetes/sidecar.yaml");
    let text = fs::read_to_string(file).unwrap();
    let (_, keys) = text.split_once("[consent]\n").unwrap();
    let (keys, _) = keys.split_once("\n\n").unwrap();
    format!("[consent]\n{keys}\n")
}

#[tokio::test]
async fn no_consent_is_given_at_run_time_where_that_is_configured_and_the_list_counts() {
    let daemon = daemon(&of_the_sidecar()).await;
    let path = script(&daemon, "echo ran");
    let argv = vec![path.to_str().unwrap().to_owned()];
    let allow = pb::AllowRequest {
        argv,
        ..pb::AllowRequest::default()
    };
    let revoke = pb::RevokeRequest {
        command: path.to_str().unwrap().to_owned(),
    };
    let mut client = operator(&daemon);
    let refusals = [
        client.allow(allow.clone()).await.err(),
        client.decide(pb::DecideRequest::default()).await.err(),
        client.list_allowed(pb::ListAllowedRequest {}).await.err(),
        client.revoke(revoke.clone()).await.err(),
        client.watch(pb::WatchRequest::default()).await.err(),
    ];
    for refusal in refusals {
        let refusal = refusal.unwrap();
        assert_eq!(refusal.code(), Code::PermissionDenied, "{refusal}");
        assert_eq!(reason(&refusal), "PEER_NOT_ALLOWED", "{refusal}");
        assert!(refusal.message().contains("consent.runtime"), "{refusal}");
    }
    let refusal = daemon.run(run_script(&path)).await.unwrap_err();
    assert_eq!(reason(&refusal), "CONSENT_REQUIRED", "{refusal}");

    // The controls: the file's owner allows it there, and without the key a client does.
    let config = daemon.path().join("hookjail.toml");
    let words = ["allow", "--", path.to_str().unwrap()];
    let allowed = hookjail(&config, &words).output().unwrap();
    assert!(allowed.status.success(), "{allowed:?}");
    let response = daemon.run(run_script(&path)).await.unwrap();
    assert_eq!(response.stdout, &b"ran\n"[..]);
    let daemon = self::daemon("").await;
    operator(&daemon).allow(allow).await.unwrap();
    operator(&daemon).revoke(revoke).await.unwrap();
}

#[tokio::test]
async fn consents_are_given_listed_and_taken_back_over_the_wire() {
    let daemon = daemon("").await;
    let path = script(&daemon, "echo ran");
    let mut client = operator(&daemon);
    let allow = pb::AllowRequest {
        argv: vec![path.to_str().unwrap().to_owned()],
        profile: "strict".to_owned(),
        valid_for: wall_time(3600),
        ..pb::AllowRequest::default()
    };

    let allowed = client
        .allow(allow)
        .await
        .unwrap()
        .into_inner()
        .allowed
        .unwrap();

    assert_eq!(allowed.digests.len(), 2);
    assert!(allowed.approved_by.contains("ConsentService"));
    daemon.run(run_script(&path)).await.unwrap();
    let listed = client
        .list_allowed(pb::ListAllowedRequest {})
        .await
        .unwrap();
    assert_eq!(listed.into_inner().allowed, [allowed]);
    let revoke = pb::RevokeRequest {
        command: path.to_str().unwrap().to_owned(),
    };
    assert_eq!(
        client
            .revoke(revoke.clone())
            .await
            .unwrap()
            .into_inner()
            .revoked,
        1
    );
    assert_eq!(client.revoke(revoke).await.unwrap().into_inner().revoked, 0);
    let refusal = daemon.run(run_script(&path)).await.unwrap_err();
    assert_eq!(reason(&refusal), "CONSENT_REQUIRED");
}

#[tokio::test]
async fn a_command_is_allowed_by_digest_before_its_files_are_there() {
    use sha2::{Digest, Sha256};
    let daemon = daemon("").await;
    let sha = |bytes: &[u8]| format!("{:x}", Sha256::digest(bytes));
    let path = daemon.outside("hook.sh");
    let text = "#!/bin/sh\necho ran\n";
    let digest = |path: &str, role: &str, sha256: String| pb::Digest {
        path: path.to_owned(),
        role: role.to_owned(),
        sha256,
    };
    let allow = pb::AllowRequest {
        argv: vec![path.to_str().unwrap().to_owned()],
        digests: vec![
            digest(path.to_str().unwrap(), "program", sha(text.as_bytes())),
            digest("/bin/sh", "interpreter", sha(&fs::read("/bin/sh").unwrap())),
        ],
        working_dir_scope: daemon.workspace().display().to_string(),
        ..pb::AllowRequest::default()
    };
    operator(&daemon).allow(allow.clone()).await.unwrap();
    script(&daemon, "echo ran");

    let mut within = run_script(&path);
    within.profile = "workspace-ro".to_owned();
    within.hook.as_mut().unwrap().workspace = daemon.workspace().display().to_string();
    daemon.run(within.clone()).await.unwrap();

    // Not elsewhere, and not with other content.
    let elsewhere = daemon.run(run_script(&path)).await.unwrap_err();
    assert_eq!(reason(&elsewhere), "CONSENT_REQUIRED");
    script(&daemon, "echo other");
    assert_eq!(
        reason(&daemon.run(within).await.unwrap_err()),
        "DIGEST_MISMATCH"
    );
    // A value that is no digest, no role or no path is named.
    for (index, digest, field) in [
        (
            0,
            digest("/x", "program", "0".repeat(63)),
            "digests[0].sha256",
        ),
        (1, digest("/x", "script", "0".repeat(64)), "digests[1].role"),
        (
            1,
            digest("x", "argument", "0".repeat(64)),
            "digests[1].path",
        ),
    ] {
        let mut allow = allow.clone();
        allow.digests[index] = digest;
        let status = operator(&daemon).allow(allow).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert_eq!(crate::support::field(&status), field);
    }
}

/// A person at `hookjail consent watch`.
struct Person {
    child: Child,
    shown: std::sync::Arc<std::sync::Mutex<String>>,
}

impl Person {
    async fn new(daemon: &Daemon) -> Self {
        let socket = daemon.path().join("sock");
        let words = ["consent", "watch", "--connect", socket.to_str().unwrap()];
        let mut command = hookjail(&daemon.path().join("hookjail.toml"), &words);
        let command = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stderr = child.stderr.take().unwrap();
        let person = Self::before(child);
        let mut ready = String::new();
        BufReader::new(stderr).read_line(&mut ready).unwrap();
        assert!(ready.contains("listening"), "{ready}");
        person
    }

    /// Returns a person before a program that has pipes for stdin and stdout.
    fn before(mut child: Child) -> Self {
        let shown = std::sync::Arc::<std::sync::Mutex<String>>::default();
        let seen = shown.clone();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(read @ 1..) = std::io::Read::read(&mut stdout, &mut bytes) {
                seen.lock()
                    .unwrap()
                    .push_str(&String::from_utf8_lossy(&bytes[..read]));
            }
        });
        Self { child, shown }
    }

    /// Waits for the question, and answers.
    async fn answers(&mut self, text: &str) {
        tokio::time::sleep(Duration::from_millis(1100)).await;
        self.types(text);
    }

    fn types(&mut self, text: &str) {
        self.child
            .stdin
            .as_mut()
            .unwrap()
            .write_all(text.as_bytes())
            .unwrap();
    }

    async fn sees(&self, text: &str) {
        until(text, || self.shown.lock().unwrap().contains(text)).await;
    }
}

impl Drop for Person {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[tokio::test]
async fn two_people_watch_and_the_one_who_is_quicker_decides() {
    let daemon = daemon("").await;
    let path = script(&daemon, "echo ran");
    let (mut quick, slow) = (Person::new(&daemon).await, Person::new(&daemon).await);

    let hostile = "evil\u{1b}[2Jname\u{202e}";
    let running = begin(&daemon, hook([path.to_str().unwrap(), hostile]));
    for person in [&quick, &slow] {
        person.sees("[a]lways, [y]es this once, [N]o: ").await;
        person.sees(path.to_str().unwrap()).await;
    }
    quick.types("what?\n");
    until("another prompt", || {
        quick.shown.lock().unwrap().matches("[a]lways").count() == 2
    })
    .await;
    assert_eq!(consents(&daemon), [json!(null); 0]);
    quick.answers("A\n").await;

    running.await.unwrap().unwrap();
    slow.sees("answered elsewhere: always").await;
    assert_eq!(consents(&daemon).len(), 1);
    let shown = slow.shown.lock().unwrap().clone();
    assert!(
        !shown.contains('\u{1b}') && !shown.contains('\u{202e}'),
        "{shown:?}"
    );
    let escaped = r"$'evil\x1b[2Jname\xe2\x80\xae'";
    assert!(shown.contains(escaped), "{shown:?}");
}

/// The asking process decides when a question goes and another one comes in its place.
#[tokio::test]
async fn an_answer_is_to_the_question_that_was_read() {
    let daemon = daemon("").await;
    let path = script(&daemon, "echo ran");
    let mut person = Person::new(&daemon).await;
    let first = begin(&daemon, hook([path.to_str().unwrap(), "first"]));
    person.sees("[N]o: ").await;
    first.abort();
    let second = begin(&daemon, hook([path.to_str().unwrap(), "second"]));
    person.sees("second").await;

    // An answer that was meant for the first question.
    person.types("A\n");

    person.sees("ignored: typed before").await;
    assert_eq!(consents(&daemon), [json!(null); 0]);
    // The control: the second question is still open, and a person who has read it answers it.
    person.answers("A\n").await;
    second.await.unwrap().unwrap();
    assert_eq!(consents(&daemon).len(), 1);
}

#[tokio::test]
async fn who_runs_a_hook_at_a_terminal_is_asked_there() {
    let daemon = daemon("").await;
    let path = script(&daemon, "echo ran");
    let socket = daemon.path().join("sock");
    let line = format!(
        "{} run --connect {} -- {}",
        crate::support::program().display(),
        socket.display(),
        path.display()
    );
    for (answer, code, shown_word) in [("n", 125, "denied it"), ("y", 0, "ran"), ("A", 0, "ran")] {
        // `script` gives its command a terminal, and passes on what is typed.
        let mut terminal = crate::support::command("script");
        terminal.args(["--quiet", "--return", "--command", &line, "/dev/null"]);
        terminal.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut person = Person::before(terminal.spawn().unwrap());
        // Text that is typed before there is a question is no answer to it.
        person.sees("[N]o: ").await;
        person.answers(&format!("{answer}\n")).await;
        let mut status = None;
        until("the end of the run", || {
            status = person.child.try_wait().unwrap();
            status.is_some()
        })
        .await;
        person.sees(shown_word).await;
        let shown = person.shown.lock().unwrap().clone();
        assert_eq!(status.unwrap().code(), Some(code), "{answer}: {shown}");
    }
    assert_eq!(consents(&daemon).len(), 1);
}

#[tokio::test]
async fn questions_are_listed_and_answered_by_their_ids() {
    let daemon = daemon("").await;
    let path = script(&daemon, "echo ran");
    let mut listener = Listener::new(&daemon).await;
    let socket = daemon.path().join("sock");
    let consent = |words: &[&str]| {
        let connect = ["--connect", socket.to_str().unwrap()];
        let words = [&["consent", "--json"], &words[..1], &connect, &words[1..]].concat();
        hookjail(&daemon.path().join("hookjail.toml"), &words)
            .output()
            .unwrap()
    };
    assert!(consent(&["pending"]).stdout.is_empty());
    for (answer, runs) in [
        (vec!["deny"], false),
        (vec!["approve", "--once"], true),
        (vec!["approve"], true),
    ] {
        let running = begin(&daemon, run_script(&path));
        let id = listener.question().await.consent_id;
        let pending = printed(&consent(&["pending"]));
        assert_eq!(pending["consentId"], id.as_str());
        let words: Vec<_> = answer.iter().copied().chain([id.as_str()]).collect();

        let answered = consent(&words);

        assert_eq!(printed(&answered)["counted"], true, "{answered:?}");
        assert_eq!(running.await.unwrap().is_ok(), runs, "{answer:?}");
        let again = consent(&words);
        assert_eq!(
            (again.status.code(), &printed(&again)["counted"]),
            (Some(1), &json!(false))
        );
        listener.settled().await;
    }
    assert_eq!(consents(&daemon).len(), 1);
}

#[tokio::test]
async fn consents_are_exported_and_imported() {
    let one = daemon("").await;
    let path = script(&one, "echo ran");
    let consent = |daemon: &Daemon, words: &[&str]| {
        let words = [&["consent"], words].concat();
        let mut command = hookjail(&daemon.path().join("hookjail.toml"), &words);
        command.env("HOME", daemon.path()).output().unwrap()
    };
    let within = one.workspace();
    let within = within.to_str().unwrap();
    consent(&one, &["allow", "--", path.to_str().unwrap()]);
    consent(&one, &["allow", "--within", within, "--", "/bin/true"]);
    let exported = consent(&one, &["export"]).stdout;
    let other = daemon("").await;
    let file = other.path().join("export.json");
    fs::write(&file, &exported).unwrap();
    assert_eq!(
        reason(&other.run(run_script(&path)).await.unwrap_err()),
        "CONSENT_REQUIRED"
    );

    let imported = consent(&other, &["import", file.to_str().unwrap()]);

    assert_eq!(imported.stdout, b"imported: 2\n", "{imported:?}");
    other.run(run_script(&path)).await.unwrap();
    assert_eq!(consents(&other), consents(&one));
    // An entry of reyn's does not loosen a consent that is bound to content, and a file that is no list changes nothing.
    let loose = json!([{"command": "/bin/true", "approved_at": "2026-01-01T00:00:00+00:00", "script_mtime": null}]);
    fs::write(&file, loose.to_string()).unwrap();
    let again = consent(&other, &["--json", "import", file.to_str().unwrap()]);
    assert_eq!(printed(&again), json!({"imported": 0, "skipped": 1}));
    fs::write(&file, "[{\"command\": 1}]").unwrap();
    assert_eq!(
        consent(&other, &["import", file.to_str().unwrap()])
            .status
            .code(),
        Some(125)
    );
    assert_eq!(consents(&other), consents(&one));
}

#[tokio::test]
async fn looms_approve_asks_the_operator_about_the_tool() {
    let directory = crate::support::directory();
    let file = directory.path().join("agent.json");
    let hooks = json!({"hooks": {"onToolCall": [{"action": "approve", "tools": ["shell"], "timeoutMs": 60_000}]}});
    fs::write(&file, hooks.to_string()).unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    let setup = Setup {
        config: format!("[[hooks_file]]\ncontract = \"loom\"\npath = {file:?}\n"),
        ..Setup::default()
    };
    let daemon = Daemon::in_directory(directory, setup).await.unwrap();
    let about = |tool: &str| pb::DispatchRequest {
        tool: Some(pb::Tool {
            input_json: json!({"cmd": "rm -rf /"}).to_string(),
            name: tool.to_owned(),
            ..pb::Tool::default()
        }),
        ..crate::support::dispatch_at("tool.pre", &json!({}))
    };
    // No listener: no. (There is no question about a tool that the hook does not match.)
    let answer = daemon.dispatch(about("shell")).await.answer.unwrap();
    assert_eq!(answer.decision(), pb::Decision::Deny);
    assert!(answer.reason.contains("no operator listens"), "{answer:?}");
    assert!(daemon.dispatch(about("other")).await.hooks.is_empty());

    let mut listener = Listener::new(&daemon).await;
    for (decision, expected) in [
        (ConsentDecision::Once, pb::Decision::Allow),
        (ConsentDecision::No, pb::Decision::Deny),
        (ConsentDecision::Always, pb::Decision::Allow),
    ] {
        let mut client = daemon.client();
        let request = about("shell");
        let dispatched = tokio::spawn(async move { client.dispatch(request).await });
        let question = listener.question().await;
        assert_eq!(
            (question.tool_name.as_str(), question.command.as_str()),
            ("shell", "")
        );
        assert_eq!(question.tool_input_json, r#"{"cmd":"rm -rf /"}"#);
        assert_eq!(question.hook_name, "hooks.onToolCall[0]:approve");

        assert!(decide(&daemon, &question.consent_id, decision).await);

        let response = dispatched.await.unwrap().unwrap().into_inner();
        assert_eq!(
            response.answer.unwrap().decision(),
            expected,
            "{decision:?}"
        );
        listener.settled().await;
    }
    assert_eq!(consents(&daemon), [json!(null); 0]);
}

#[tokio::test]
async fn an_operator_is_asked_about_the_call_that_the_event_tells() {
    let directory = crate::support::directory();
    let file = directory.path().join("agent.json");
    let hooks = json!({"hooks": {"onToolCall": [{"action": "approve", "timeoutMs": 60_000}]}});
    fs::write(&file, hooks.to_string()).unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    let setup = Setup {
        config: format!("[[hooks_file]]\ncontract = \"loom\"\npath = {file:?}\n"),
        ..Setup::default()
    };
    let daemon = Daemon::in_directory(directory, setup).await.unwrap();
    let mut listener = Listener::new(&daemon).await;
    let other = pb::Tool {
        input_json: json!({"path": "README.md"}).to_string(),
        name: "read_file".to_owned(),
        ..pb::Tool::default()
    };
    let event = json!({"toolName": "shell", "toolInput": {"cmd": "rm -rf /"}});
    for tool in [None, Some(other.clone())] {
        let mut client = daemon.client();
        let request = pb::DispatchRequest {
            tool,
            ..crate::support::dispatch_at("tool.pre", &event)
        };
        let dispatched = tokio::spawn(async move { client.dispatch(request).await });
        let question = listener.question().await;
        assert_eq!(
            (
                question.tool_name.as_str(),
                question.tool_input_json.as_str()
            ),
            ("shell", r#"{"cmd":"rm -rf /"}"#)
        );
        assert!(decide(&daemon, &question.consent_id, ConsentDecision::No).await);
        dispatched.await.unwrap().unwrap();
        listener.settled().await;
    }
    // A call without a name is refused without a question; half a name is none.
    for event in [json!({}), json!({"toolName": 7}), json!({"toolName": ""})] {
        let answer = daemon
            .dispatch(crate::support::dispatch_at("tool.pre", &event))
            .await;
        let answer = answer.answer.unwrap();
        assert_eq!(answer.decision(), pb::Decision::Deny, "{event}");
        assert!(answer.reason.contains("must name the tool"), "{answer:?}");
    }
}

/// An entry as reyn writes it.
fn of_reyn(command: &str, modified: Option<f64>) -> serde_json::Value {
    json!({"command": command, "approved_at": "2026-01-02T03:04:05.678901+00:00", "script_mtime": modified})
}

fn modified(path: &Path) -> f64 {
    let modified = fs::metadata(path).unwrap().modified().unwrap();
    modified
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_secs_f64()
}

fn reyns(path: &Path) -> pb::ExecuteRequest {
    pb::ExecuteRequest {
        contract: pb::Contract::Reyn.into(),
        mode: "shell_exec".to_owned(),
        event: crate::witness::event("{}"),
        ..run_script(path)
    }
}

#[tokio::test]
async fn reyns_own_list_counts_for_its_hooks_once_and_is_bound_to_content_then() {
    for named in [false, true] {
        let directory = crate::support::directory();
        let list = directory.path().join(if named {
            "mine.json"
        } else {
            ".reyn/shell-hooks-allowlist.json"
        });
        let setup = Setup {
            ask_for_consent: true,
            env: if named {
                vec![(
                    "REYN_SHELL_HOOKS_ALLOWLIST".to_owned(),
                    list.display().to_string(),
                )]
            } else {
                Vec::new()
            },
            ..Setup::default()
        };
        let daemon = Daemon::in_directory(directory, setup).await.unwrap();
        let path = script(&daemon, "echo ran");
        fs::create_dir_all(list.parent().unwrap()).unwrap();
        let write = |entries: serde_json::Value| {
            fs::write(&list, entries.to_string()).unwrap();
            fs::set_permissions(&list, Permissions::from_mode(0o600)).unwrap();
        };
        let text = path.to_str().unwrap();
        // Another time of modification, another command, another contract: none of them counts.
        write(json!([
            of_reyn(text, Some(modified(&path) - 1.0)),
            of_reyn("/bin/other", None)
        ]));
        assert_eq!(
            reason(&daemon.run(reyns(&path)).await.unwrap_err()),
            "CONSENT_REQUIRED"
        );
        write(json!([of_reyn(text, Some(modified(&path) + 0.005))]));
        assert_eq!(
            reason(&daemon.run(run_script(&path)).await.unwrap_err()),
            "CONSENT_REQUIRED"
        );
        assert_eq!(consents(&daemon), [json!(null); 0]);

        daemon.run(reyns(&path)).await.unwrap();

        assert_eq!(consents(&daemon)[0]["digests"].as_array().unwrap().len(), 2);
        // Content counts from now on, not its time.
        let time = fs::metadata(&path).unwrap().modified().unwrap();
        script(&daemon, "echo other");
        fs::File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_modified(time)
            .unwrap();
        assert_eq!(
            reason(&daemon.run(reyns(&path)).await.unwrap_err()),
            "DIGEST_MISMATCH"
        );
        let other_profile = pb::ExecuteRequest {
            profile: "pipeline".to_owned(),
            ..reyns(&path)
        };
        assert_eq!(
            reason(&daemon.run(other_profile).await.unwrap_err()),
            "CONSENT_REQUIRED"
        );
        // A consent that is revoked in reyn's list is revoked in hookjail's.
        let revoke = pb::RevokeRequest {
            command: text.to_owned(),
        };
        assert_eq!(
            operator(&daemon)
                .revoke(revoke)
                .await
                .unwrap()
                .into_inner()
                .revoked,
            2
        );
        assert_eq!(
            reason(&daemon.run(reyns(&path)).await.unwrap_err()),
            "CONSENT_REQUIRED"
        );
        // A list that others could have written allows nothing.
        write(json!([of_reyn(text, None)]));
        fs::set_permissions(&list, Permissions::from_mode(0o666)).unwrap();
        let refusal = daemon.run(reyns(&path)).await.unwrap_err();
        assert_eq!(reason(&refusal), "CONSENT_REQUIRED");
        assert!(
            refusal.message().contains("others can write it"),
            "{refusal:?}"
        );
    }
}

#[tokio::test]
async fn infers_list_is_consent_where_the_operator_has_it_so_and_is_bound_to_content_then() {
    const LISTED: [&str; 3] = ["gate", "consent", "consent"];
    for (index, listed) in LISTED.into_iter().enumerate() {
        let directory = crate::support::directory();
        fs::create_dir(directory.path().join("outside")).unwrap();
        let path = directory.path().join("outside/notify.sh");
        let line = format!("{} done", path.display());
        let entry = path.display().to_string().replace('.', r"\\.");
        // In hookjail's configuration, or in infer's own.
        let of_infer = directory.path().join("config.yaml");
        let list = format!("[\"{entry} .*\"]");
        fs::write(
            &of_infer,
            format!("tools: {{bash: {{mode: {{plan: {{allow: {list}}}}}}}}}\n"),
        )
        .unwrap();
        fs::set_permissions(&of_infer, Permissions::from_mode(0o600)).unwrap();
        let lists = match index {
            2 => format!("file = {of_infer:?}"),
            _ => format!("plan = {list}"),
        };
        let command = |name: &str, line: &str| {
            format!(
                "[[hook]]\nname = {name:?}\ncontract = \"infer\"\npoint = \"post_tool\"\ncommand = {line:?}\n"
            )
        };
        let config = format!(
            "[infer]\nlisted = {listed:?}\n{lists}\n{}{}",
            command("notify", &line),
            command("default", "pwd"),
        );
        let setup = Setup {
            ask_for_consent: true,
            config,
            ..Setup::default()
        };
        let daemon = Daemon::in_directory(directory, setup).await.unwrap();
        let write = |text: &str| {
            fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        };
        write("echo ran");
        let reasons = async |mode: &str, brought: Vec<pb::InlineHook>| {
            let request = pb::DispatchRequest {
                contract: pb::Contract::Infer.into(),
                inline_hooks: brought,
                mode_key: mode.to_owned(),
                session_id: "s".to_owned(),
                ..crate::support::dispatch_at("post_tool", &json!({}))
            };
            let response = daemon.dispatch(request).await;
            let outcomes = response.events.iter().map(|event| {
                let event: serde_json::Value = serde_json::from_str(&event.json).unwrap();
                let reason = event["reason"].as_str().unwrap_or("ran");
                format!("{}: {reason}", event["name"].as_str().unwrap())
            });
            outcomes.collect::<Vec<_>>()
        };
        let default = "default: consent_refused";

        // Let through by `.*` alone, or by an unwritten default: no person's consent.
        let auto = reasons("auto", Vec::new()).await;
        assert_eq!(auto, ["notify: consent_refused", default], "{listed}");
        assert_eq!(consents(&daemon), [json!(null); 0]);
        let plan = reasons("standard", vec![inline("mine", &line)]).await;
        assert_eq!(
            plan,
            ["notify: not_allowlisted", default, "mine: not_allowlisted"],
            "{listed}"
        );
        let plan = reasons("plan", Vec::new()).await;
        if listed == "gate" {
            assert_eq!(plan, ["notify: consent_refused", default]);
            assert_eq!(consents(&daemon), [json!(null); 0]);
            continue;
        }
        assert_eq!(plan, ["notify: ran", default]);
        let other = format!("{} other", path.display());
        assert_eq!(
            reasons("plan", vec![inline("mine", &other)]).await[2],
            "mine: consent_refused"
        );
        let recorded = consents(&daemon);
        assert_eq!(
            (recorded.len(), &recorded[0]["approved_by"]),
            (1, &json!("infer's list"))
        );
        assert!(
            recorded[0]["digests"].to_string().contains("notify.sh"),
            "{recorded:?}"
        );
        // Content counts from now on.
        write("echo other");
        assert_eq!(
            reasons("plan", Vec::new()).await,
            ["notify: consent_refused", default]
        );
    }
}

#[tokio::test]
async fn reyns_environment_accepts_its_hooks_and_no_others() {
    let daemon = Daemon::with(Setup {
        ask_for_consent: true,
        env: vec![("REYN_ACCEPT_HOOKS".to_owned(), " 1 ".to_owned())],
        ..Setup::default()
    })
    .await;
    let path = script(&daemon, "echo ran");
    let other = daemon.run(sh("strict", "exit 0")).await.unwrap_err();
    assert_eq!(reason(&other), "CONSENT_REQUIRED");

    daemon.run(reyns(&path)).await.unwrap();

    assert_eq!(daemon.journal()[1]["consent"], "environment");
    assert_eq!(consents(&daemon).len(), 1);
}

#[tokio::test]
async fn eight_writers_of_two_daemons_and_the_command_line_lose_no_entry() {
    let one = daemon("").await;
    let directory = crate::support::directory();
    std::os::unix::fs::symlink(one.path().join("state"), directory.path().join("state")).unwrap();
    let setup = Setup {
        ask_for_consent: true,
        ..Setup::default()
    };
    let two = Daemon::in_directory(directory, setup).await.unwrap();
    let seconds = std::env::var("HOOKJAIL_WRITERS_SECONDS").ok();
    let seconds = seconds.map_or(2, |seconds| seconds.parse().unwrap());
    let end = std::time::Instant::now() + Duration::from_secs(seconds);
    let list = one.path().join("state/allowlist.json");
    let reading = crate::witness::Again::and_again(move || {
        let text = fs::read(&list).unwrap_or(b"[]".to_vec());
        serde_json::from_slice::<Vec<serde_json::Value>>(&text).unwrap();
    });

    let mut writers = Vec::new();
    for writer in 0..6 {
        let daemon = if writer % 2 == 0 { &one } else { &two };
        let mut client = operator(daemon);
        writers.push(tokio::spawn(async move {
            let mut written = Vec::new();
            while std::time::Instant::now() < end {
                let word = format!("{writer}-{}", written.len());
                let request = pb::AllowRequest {
                    argv: vec!["/bin/echo".to_owned(), word.clone()],
                    profile: "strict".to_owned(),
                    ..pb::AllowRequest::default()
                };
                client.allow(request).await.unwrap();
                written.push(word);
            }
            written
        }));
    }
    for writer in 6..8 {
        let config = one.path().join("hookjail.toml");
        writers.push(tokio::task::spawn_blocking(move || {
            let mut written = Vec::new();
            while std::time::Instant::now() < end {
                let word = format!("{writer}-{}", written.len());
                let words = ["allow", "--", "/bin/echo", &word];
                let output = hookjail(&config, &words).output().unwrap();
                assert!(output.status.success(), "{output:?}");
                written.push(word);
            }
            written
        }));
    }
    let mut expected = Vec::new();
    for writer in writers {
        let written = writer.await.unwrap();
        assert!(!written.is_empty());
        expected.extend(written.into_iter().map(|word| format!("/bin/echo {word}")));
    }
    drop(reading);

    let listed = consents(&one).into_iter();
    let mut listed: Vec<_> = listed
        .map(|entry| entry["command"].as_str().unwrap().to_owned())
        .collect();
    listed.sort();
    expected.sort();
    assert_eq!(listed, expected);
}

mod as_root {
    use super::*;
    use crate::support::needs_root;

    #[tokio::test]
    #[ignore = "needs root"]
    async fn only_who_is_listed_answers_for_the_operator_and_no_hook_does() {
        needs_root();
        let (a_hooks, range) = crate::witness::a_hooks_uid();
        let caller = NOBODY;
        let config = format!(
            "{range}[server]\ncallers = [{caller}, {a_hooks}]\nsocket_mode = \"0660\"\n[consent]\noperators = [{a_hooks}, 4711]\n"
        );
        let daemon = daemon(&config).await;
        for (user, expected) in [(NOBODY, "PEER_NOT_ALLOWED"), (a_hooks, "CALLER_IS_A_HOOK")] {
            for (command, words) in [
                ("consent pending", &[][..]),
                ("consent approve", &["x"]),
                ("consent watch", &[]),
            ] {
                let output = ask_as(user, &daemon, "sock", command, words);
                assert_eq!(printed(&output)["error"]["reason"], expected, "{output:?}");
            }
        }
        // A listed operator may answer, and run nothing.
        let output = ask_as(4711, &daemon, "sock", "consent approve", &["x"]);
        assert_eq!(
            printed(&output),
            json!({"counted": false, "id": "x"}),
            "{output:?}"
        );
        let output = ask_as(4711, &daemon, "sock", "run", &["--", "/bin/true"]);
        assert_eq!(printed(&output)["error"]["reason"], "PEER_NOT_ALLOWED");
    }
}

mod with_tools {
    use super::*;

    /// Starts the program of its words at a terminal of its own, gives the answer at its question, and ends like the program.
    const AT_A_TERMINAL: &str = r#"
import os, pty, sys, time
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[2], sys.argv[2:])
shown = b""
while b"[N]o: " not in shown:
    shown += os.read(terminal, 4096)
time.sleep(1.3)
os.write(terminal, sys.argv[1].encode())
try:
    while os.read(terminal, 4096):
        pass
except OSError:
    pass
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"#;

    #[tokio::test]
    #[ignore = "needs python3"]
    async fn who_is_asked_at_a_terminal_and_presses_enter_or_leaves_says_no_at_once() {
        let daemon = daemon("").await;
        let socket = daemon.path().join("sock").display().to_string();
        let program = env!("CARGO_BIN_EXE_hookjail");
        for (answer, code) in [("y\n", 0), ("\n", 125), ("\u{4}", 125)] {
            let mut terminal = crate::support::command("python3");
            terminal.args(["-c", AT_A_TERMINAL, answer, program]);
            terminal.args(["run", "--connect", &socket, "--", "/bin/true"]);
            let began = std::time::Instant::now();
            let ended = tokio::task::spawn_blocking(move || terminal.output().unwrap());
            let output = ended.await.unwrap();
            assert_eq!(output.status.code(), Some(code), "{answer:?} {output:?}");
            // A question without an answer stays open for a minute.
            assert!(began.elapsed() < Duration::from_secs(30), "{answer:?}");
        }
        assert_eq!(daemon.records(), ["started", "ended", "refused", "refused"]);
    }
}
