//! Where confinement cannot be had, nothing runs. Where an older kernel has confinement, it holds there too.

#![expect(
    clippy::disallowed_methods,
    reason = "tests compile the program that makes the kernel look older"
)]

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use hookjail::pb::{self, sandbox_service_client::SandboxServiceClient};
use hookjail_sys as sys;
use tempfile::TempDir;
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

use crate::{
    attempts::Probe,
    matrix::{ALWAYS, WITH_PROCESSES, WITHOUT_PROCESSES},
    read_only::WITHOUT,
    support::{Daemon, Setup, directory, reason, sh},
    witness::{compiled_once, processes_with, until, until_gone, wall_time},
};

/// Signals that the daemon finds ignored and blocked: hooks must not.
const SURROUNDINGS: [&str; 3] = ["env", "--ignore-signal=USR1", "--block-signal=USR2"];

/// A program that starts others as if the kernel were older.
#[derive(Debug)]
pub(crate) struct FakeKernel {
    directory: TempDir,
}

impl FakeKernel {
    pub(crate) fn build() -> Self {
        let directory = directory();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/testenv/fakekernel.rs");
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let program = directory.path().join("fakekernel");
        compiled_once("fakekernel".to_owned(), &program, || {
            let mut command = Command::new(rustc);
            command.args(["--edition", "2021", "-A", "warnings", "-o"]);
            command.arg(&program);
            let compiled = command.arg(source).output().expect("rustc is installed");
            assert!(compiled.status.success(), "{compiled:?}");
        });
        Self { directory }
    }

    /// Returns the words that start a program on a kernel with these flaws.
    pub(crate) fn wrapper(&self, flaws: &[&str]) -> Vec<String> {
        let mut wrapper: Vec<_> = SURROUNDINGS.map(str::to_owned).into();
        if nix::unistd::geteuid().is_root() {
            wrapper.extend(["setpriv", "--groups", "4242"].map(str::to_owned));
        }
        wrapper.extend(self.around(flaws));
        wrapper
    }

    /// The same, with the signals and groups that are there.
    pub(crate) fn around(&self, flaws: &[&str]) -> Vec<String> {
        let program = self
            .directory
            .path()
            .join("fakekernel")
            .display()
            .to_string();
        let flaws = flaws.iter().map(|&flaw| flaw.to_owned());
        [program]
            .into_iter()
            .chain(flaws)
            .chain(["--".to_owned()])
            .collect()
    }

    /// Starts a daemon on a kernel with these flaws.
    pub(crate) async fn daemon(&self, flaws: &[&str]) -> Daemon {
        self.weakened(flaws, "").await
    }

    /// The same, with elements taken out of the daemon's policy, where the daemon is built so.
    pub(crate) async fn weakened(&self, flaws: &[&str], lacking: &str) -> Daemon {
        Daemon::with(Setup {
            wrapper: self.wrapper(flaws),
            env: vec![("HOOKJAIL_WEAKEN".to_owned(), lacking.to_owned())],
            ..Setup::default()
        })
        .await
    }
}

/// Runs a hook that leaves a witness in the workspace. Returns the refusal's reason, or nothing where the hook ran.
async fn ask(daemon: &Daemon, profile: &str) -> (Option<String>, PathBuf) {
    let witness = daemon.workspace().join("witness");
    let mut request = sh(profile, &format!("echo ran > {}", witness.display()));
    request.hook.as_mut().unwrap().workspace = daemon.workspace().display().to_string();
    let refusal = daemon.run(request).await.err();
    (refusal.map(|status| reason(&status)), witness)
}

#[tokio::test]
async fn where_landlock_or_seccomp_is_missing_or_refused_nothing_runs() {
    // The positive control: without flaws the same hook leaves its witness.
    let kernel = FakeKernel::build();
    let daemon = kernel.daemon(&[]).await;
    let (refusal, witness) = ask(&daemon, "workspace-rw").await;
    assert_eq!((refusal, witness.exists()), (None, true));
    drop(daemon);

    for flaws in [
        ["--landlock", "enosys"],
        ["--landlock", "eopnotsupp"],
        ["--errno", "landlock_restrict_self=1"],
        ["--errno", "landlock_restrict_self=7"],
        ["--errno", "seccomp=1"],
        ["--errno", "seccomp=38"],
    ] {
        let daemon = kernel.daemon(&flaws).await;
        for profile in ["workspace-rw", "strict"] {
            let (refusal, witness) = ask(&daemon, profile).await;
            let expected = (Some("BACKEND_UNCONFIRMED".to_owned()), false);
            assert_eq!((refusal, witness.exists()), expected, "{flaws:?} {profile}");
        }
        assert_eq!(daemon.records(), ["refused", "refused"], "{flaws:?}");
        let request = HealthCheckRequest::default();
        let health = HealthClient::new(daemon.channel()).check(request).await;
        let health = health.unwrap().into_inner();
        assert_eq!(health.status(), ServingStatus::NotServing, "{flaws:?}");
    }
}

/// A step of the set-up that fails on a kernel with this flaw.
type BrokenStep = (&'static str, &'static str);

/// Numbers and arguments as x86_64 has them.
const BROKEN_STEPS: &[BrokenStep] = &[
    // rt_sigaction of signal 40, which no other code sets.
    ("signals", "13/40=22"),
    ("process_group", "109=1"),
    ("stdio", "292/0@2=24"),
    // unshare; setsid of the hook; open_tree, move_mount, mount_setattr.
    ("tree", "272=1"),
    ("tree", "272=28"),
    ("process_group", "112=1"),
    ("read_only", "428=38"),
    ("read_only", "429=1"),
    ("parent_death_signal", "157/1=22"),
    ("working_directory", "81=13"),
    ("landlock", "446=7"),
    ("close_fds", "436=38"),
    ("limits", "302=1"),
];

/// The same where there is no tree.
const BROKEN_STEPS_OF_A_GROUP: &[BrokenStep] = &[
    // prctl(PR_SET_PDEATHSIG); and a parent that is not the daemon any more.
    ("parent_death_signal", "157/1=22"),
    ("parent_death_signal", "110=3"),
    ("close_fds", "292/524288@2=24"),
    ("close_fds", "436=38"),
];

/// The same of steps that only root takes.
const BROKEN_STEPS_OF_ROOT: &[BrokenStep] = &[
    ("identity", "116=1"),
    ("identity", "119=1"),
    ("identity", "117=11"),
    ("capabilities", "126=1"),
];

#[tokio::test]
async fn a_step_of_the_set_up_that_fails_is_named_and_nothing_runs() {
    each_is_named_and_nothing_runs(BROKEN_STEPS, "workspace-rw").await;
    // Root's mounts are first kept from the host's.
    let first = if nix::unistd::geteuid().is_root() {
        "tree"
    } else {
        "read_only"
    };
    each_is_named_and_nothing_runs(&[(first, "442=22")], "workspace-rw").await;
    each_is_named_and_nothing_runs(BROKEN_STEPS_OF_A_GROUP, "pipeline").await;
}

async fn each_is_named_and_nothing_runs(steps: &[BrokenStep], profile: &str) {
    let kernel = FakeKernel::build();
    for (step, flaw) in steps {
        let daemon = kernel.daemon(&["--errno", flaw]).await;

        let (refusal, witness) = ask(&daemon, profile).await;

        // EAGAIN and EMFILE prove nothing about the backend, but that a resource is lacking.
        let lacks = ["=11", "=24"].iter().any(|errno| flaw.ends_with(errno));
        let reason = if lacks {
            "OVERLOADED"
        } else {
            "BACKEND_UNCONFIRMED"
        };
        let expected = (Some(reason.to_owned()), false);
        assert_eq!((refusal, witness.exists()), expected, "{step} {flaw}");
        let last = daemon.journal().pop().unwrap();
        assert_eq!(last["record"], "refused", "{step} {flaw}");
        let message = last["message"].as_str().unwrap();
        assert!(message.contains(&format!("`{step}`")), "{flaw}: {message}");
        // Nor is anything left of a daemon with this flaw, its keeper included.
        let directory = daemon.path().display().to_string();
        drop(daemon);
        until_gone(&directory).await;
    }
}

#[tokio::test]
async fn a_self_test_that_shows_nothing_refuses_every_run_and_names_the_axis() {
    let kernel = FakeKernel::build();
    for (flaw, axis, attempt) in [
        // Attempts that fail without confinement as well: the positive control shows nothing.
        ("41/2=97", "network", "make an IPv4 socket"),
        ("76=5", "write", "empty a file by its path"),
    ] {
        let daemon = kernel.daemon(&["--errno", flaw]).await;

        let (refusal, witness) = ask(&daemon, "workspace-rw").await;

        let expected = (Some("BACKEND_UNCONFIRMED".to_owned()), false);
        assert_eq!((refusal, witness.exists()), expected, "{flaw}");
        let refused = daemon.journal().pop().unwrap();
        let message = refused["message"].as_str().unwrap();
        let named = format!("axis `{axis}`: {attempt}");
        assert!(message.contains(&named), "{flaw}: {message}");

        // And the status shows the leg that failed.
        let mut client = SandboxServiceClient::new(daemon.channel());
        let status = client.get_status(pb::GetStatusRequest {}).await.unwrap();
        let profiles = status.into_inner().profiles;
        let strict = profiles
            .iter()
            .find(|profile| profile.profile == "strict")
            .unwrap();
        assert!(
            !strict.confirmed && strict.reason.contains(&named),
            "{strict:?}"
        );
        let failed = strict
            .axes
            .iter()
            .flat_map(|axis| axis.deny.iter().chain(&axis.control));
        let failed: Vec<_> = failed.filter(|leg| !leg.held).collect();
        assert!(
            failed.iter().any(|leg| leg.attempt == attempt),
            "{failed:?}"
        );
    }
}

#[tokio::test]
async fn a_self_test_that_fails_later_ends_the_service_until_one_succeeds() {
    let daemon = Daemon::start().await;
    let mut client = SandboxServiceClient::new(daemon.channel());
    let health = || async {
        let mut client = HealthClient::new(daemon.channel());
        let health = client.check(HealthCheckRequest::default()).await.unwrap();
        health.into_inner().status()
    };
    assert_eq!(health().await, ServingStatus::Serving);

    let closed = daemon.close_canary();
    let tested = client.self_test(pb::SelfTestRequest::default()).await;

    assert!(
        tested
            .unwrap()
            .into_inner()
            .profiles
            .iter()
            .all(|of| !of.confirmed)
    );
    assert_eq!(health().await, ServingStatus::NotServing);
    let refusal = daemon.run(sh("strict", "echo ran")).await.unwrap_err();
    assert_eq!(reason(&refusal), "BACKEND_UNCONFIRMED");

    closed.open();
    let tested = client.self_test(pb::SelfTestRequest::default()).await;

    assert!(
        tested
            .unwrap()
            .into_inner()
            .profiles
            .iter()
            .all(|of| of.confirmed)
    );
    assert_eq!(health().await, ServingStatus::Serving);
    assert_eq!(
        daemon.run(sh("strict", "echo ran")).await.unwrap().stdout,
        "ran\n"
    );
}

#[tokio::test]
async fn where_no_further_domain_fits_nothing_runs() {
    let probe = Probe::build();
    let inside = |layers: &str| {
        let probe = probe.path().display().to_string();
        Daemon::with(Setup {
            // Inside a domain no process may mount, so the test uses a profile without paths that stay read-only.
            profiles: vec![("writing".to_owned(), WITHOUT.to_owned())],
            wrapper: vec![probe, "nest".to_owned(), layers.to_owned()],
            ..Setup::default()
        })
    };

    // A process has sixteen at most, and a hook needs one.
    let daemon = inside("15").await;
    let (control, witness) = ask(&daemon, "writing").await;
    assert_eq!((control, witness.exists()), (None, true));

    let daemon = inside("16").await;
    let (refusal, witness) = ask(&daemon, "writing").await;

    assert!(!witness.exists());
    assert_eq!(refusal.as_deref(), Some("BACKEND_UNCONFIRMED"));
    let refused = daemon.journal().pop().unwrap();
    assert!(refused["message"].as_str().unwrap().contains("`landlock`"));
}

#[tokio::test]
async fn a_child_that_hangs_before_its_exec_is_killed_at_the_deadline() {
    // dup3 with O_CLOEXEC, by which a child takes the program: a self-test has none, and so the daemon serves.
    let flaw = ["--hang", "292/524288@2"];
    let daemon = FakeKernel::build().daemon(&flaw).await;
    let witness = daemon.outside("witness");
    // A child has the daemon's arguments until it executes.
    let directory = daemon.path().display().to_string();
    let ours = || processes_with(&directory);
    let before = ours().len();
    let mut request = sh("pipeline", &format!("echo ran > {}", witness.display()));
    request.timeout = wall_time(1);

    let refused = daemon.run(request).await.unwrap_err();

    assert_eq!(reason(&refused), "DEADLINE");
    assert!(refused.message().contains("`close_fds`"), "{refused:?}");
    assert_eq!(daemon.records(), ["started", "refused"]);
    until("the end of the child", || ours().len() == before).await;
    assert!(!witness.exists());
}

#[tokio::test]
async fn where_a_child_or_its_rules_cannot_be_made_nothing_runs() {
    let kernel = FakeKernel::build();
    // landlock_add_rule; the one clone that starts hooks; openat2, which opens what is granted.
    let clone = format!("56/{}=11", sys::CLONE_FLAGS);
    for flaw in ["445=22", &clone, "openat2=38"] {
        let daemon = kernel.daemon(&["--errno", flaw]).await;

        let (refusal, witness) = ask(&daemon, "workspace-rw").await;

        assert!(
            refusal.is_some() && !witness.exists(),
            "{flaw}: {refusal:?}"
        );
        assert_eq!(daemon.records(), ["refused"], "{flaw}");
    }
}

/// Tries everything as if Landlock's ABI were `abi`.
async fn holds_at(abi: u32) {
    let real = sys::landlock_abi().unwrap();
    assert!(
        real >= abi,
        "this test needs Landlock ABI {abi}, and this kernel has {real}: nothing newer can be played"
    );
    let (kernel, probe) = (FakeKernel::build(), Probe::build());
    let daemon = kernel.daemon(&["--landlock", &abi.to_string()]).await;

    let response = daemon.run(sh("strict", ":")).await.unwrap();
    let confinement = response.confinement.unwrap();
    assert_eq!(
        (confinement.confirmed, confinement.landlock_abi),
        (true, abi)
    );

    let attempts = ALWAYS.iter().chain(WITHOUT_PROCESSES);
    let mut failures = probe.failures_of_hooks(&daemon, "strict", attempts).await;
    let attempts = ALWAYS.iter().chain(WITH_PROCESSES);
    failures.extend(probe.failures_of_hooks(&daemon, "pipeline", attempts).await);

    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[tokio::test]
async fn strict_and_pipeline_hold_with_the_first_landlock() {
    holds_at(1).await;
}

/// Returns `strict` with no axis required: all are in `wanted`.
pub(crate) fn demanding_nothing() -> String {
    let strict = include_str!("../../sandbox-profiles/strict.toml");
    let line = |name: &str| {
        let line = strict.lines().find(|line| line.starts_with(name)).unwrap();
        let (_, list) = line.split_once(" = ").unwrap();
        (line, list.trim_matches(['[', ']']))
    };
    let ((required, ours), (wanted, others)) = (line("required"), line("wanted"));
    strict.replace(required, "required = []").replace(
        wanted,
        &wanted.replace(others, &format!("{ours}, {others}")),
    )
}

/// Starts a daemon whose operator chose no confinement.
async fn unconfining() -> Daemon {
    Daemon::with(Setup {
        config: "[backends]\norder = [\"noop\"]\n".to_owned(),
        profiles: vec![("open".to_owned(), demanding_nothing())],
        ..Setup::default()
    })
    .await
}

#[tokio::test]
async fn without_confinement_a_hook_runs_only_where_operator_profile_and_request_all_say_so() {
    let daemon = unconfining().await;

    let (shipped, witness) = ask(&daemon, "strict").await;
    assert_eq!(shipped.as_deref(), Some("POLICY_UNENFORCEABLE"));
    let (by_default, _) = ask(&daemon, "open").await;
    assert_eq!(by_default.as_deref(), Some("BACKEND_UNCONFIRMED"));
    assert!(!witness.exists());

    let mut request = sh("open", &format!("echo ran > {}", witness.display()));
    request.require_confirmed = Some(false);
    let response = daemon.run(request).await.unwrap();
    assert!(witness.exists());

    let confinement = response.confinement.unwrap();
    let ignored = confinement
        .axes
        .iter()
        .all(|axis| axis.coverage() == pb::Coverage::Ignored && !axis.required);
    assert_eq!(
        (confinement.backend.as_str(), confinement.confirmed, ignored),
        ("noop", false, true)
    );
    let journal = daemon.journal();
    let kinds: Vec<_> = journal.iter().map(|record| &record["record"]).collect();
    assert_eq!(kinds, ["refused", "refused", "started", "ended"]);
    assert_eq!(journal[2]["backend"], "noop");
    assert_eq!(journal[3]["confirmed"], false);
    assert!(confinement.unconfined);
    assert_eq!(journal[2]["unconfined"], true);
    assert_eq!(journal[3]["unconfined"], true);
    assert!(daemon.log().contains("UNCONFINED"), "{}", daemon.log());
}

#[tokio::test]
async fn a_request_cannot_choose_to_be_unconfined() {
    let daemon = Daemon::with(Setup {
        profiles: vec![("open".to_owned(), demanding_nothing())],
        ..Setup::default()
    })
    .await;

    // Neither by not insisting nor by a profile that demands nothing: the operator did not name `noop`.
    let witness = daemon.outside("witness");
    let mut request = sh("open", &format!("echo ran > {}", witness.display()));
    request.require_confirmed = Some(false);
    let confinement = daemon.run(request).await.unwrap().confinement.unwrap();

    assert_eq!(
        (confinement.backend.as_str(), confinement.confirmed),
        ("landlock", true)
    );
    assert!(!witness.exists());
}

mod as_root {
    use super::*;
    use crate::support::needs_root;

    #[tokio::test]
    #[ignore = "needs root"]
    async fn a_step_of_the_set_up_that_only_root_takes_and_that_fails_is_named_and_nothing_runs() {
        needs_root();
        each_is_named_and_nothing_runs(BROKEN_STEPS_OF_ROOT, "workspace-rw").await;
    }
}

mod with_landlock_6 {
    use super::*;

    #[tokio::test]
    #[ignore = "needs a kernel with Landlock ABI 6"]
    async fn strict_and_pipeline_hold_where_landlock_knows_links_between_directories() {
        holds_at(2).await;
    }

    #[tokio::test]
    #[ignore = "needs a kernel with Landlock ABI 6"]
    async fn strict_and_pipeline_hold_where_landlock_knows_truncation() {
        holds_at(3).await;
    }

    #[tokio::test]
    #[ignore = "needs a kernel with Landlock ABI 6"]
    async fn strict_and_pipeline_hold_where_landlock_knows_tcp() {
        holds_at(4).await;
    }

    #[tokio::test]
    #[ignore = "needs a kernel with Landlock ABI 6"]
    async fn strict_and_pipeline_hold_where_landlock_knows_devices() {
        holds_at(5).await;
    }

    #[tokio::test]
    #[ignore = "needs a kernel with Landlock ABI 6"]
    async fn strict_and_pipeline_hold_where_landlock_knows_signals_and_abstract_sockets() {
        holds_at(6).await;
    }
}
