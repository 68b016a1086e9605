//! Limits of the scratch directory: on the size of all its files together, and on their number.

use std::{collections::HashMap, fs};

use hookjail::pb;
use tonic_types::StatusExt;

use crate::{
    fail_closed::FakeKernel,
    support::{Daemon, Setup, hook, reason, sh},
    witness::{a_minute, processes_that, until, until_clean},
};

/// Ways to fill the scratch directory. Each prints how far it came: of eight quarters of a mebibyte, of 32 names.
const FILLING: [(&str, &str, &str); 5] = [
    (
        "several files",
        "i=0; while [ $i -lt 8 ] && head -c 262144 /dev/urandom > $TMPDIR/$i; do i=$((i+1)); done; echo $i",
        "8",
    ),
    (
        "one file",
        "i=0; while [ $i -lt 8 ] && head -c 262144 /dev/urandom >> $TMPDIR/one; do i=$((i+1)); done; echo $i",
        "8",
    ),
    (
        "empty files",
        "i=0; while [ $i -lt 32 ] && true > $TMPDIR/$i; do i=$((i+1)); done; echo $i",
        "32",
    ),
    (
        "directories within each other",
        "cd $TMPDIR; i=0; while [ $i -lt 32 ] && mkdir d && cd d; do i=$((i+1)); done; echo $i",
        "32",
    ),
    (
        "links to a file that is there",
        "true > $TMPDIR/0; i=1; while [ $i -lt 32 ] && ln $TMPDIR/0 $TMPDIR/$i; do i=$((i+1)); done; echo $i",
        "32",
    ),
];

/// How far each comes in a mebibyte and 16 files.
const WITHIN: [&str; 5] = ["4", "4", "16", "16", "16"];

/// Returns the profiles `limited`, `limited-writer` and `roomy`, whose scratch directories are limited.
pub(crate) fn profiles() -> Vec<(String, String)> {
    let profile = |name: &str, parent: &str, limits: &str| {
        let text =
            format!("description = \"For tests.\"\nextends = {parent:?}\n[limits]\n{limits}\n");
        (name.to_owned(), text)
    };
    let small = "scratch = \"1MiB\"\nscratch_files = 16";
    vec![
        profile("limited", "pipeline", small),
        profile("limited-writer", "workspace-rw", small),
        profile("roomy", "pipeline", "scratch = \"64MiB\""),
    ]
}

/// Returns a set-up whose backend is Landlock, whose mounts these tests look at.
fn setup() -> Setup {
    Setup {
        config: "[backends]\norder = [\"landlock\"]\n".to_owned(),
        profiles: profiles(),
        ..Setup::default()
    }
}

/// Returns a run's outcome, its output, and its evidence.
async fn run(
    daemon: &Daemon,
    request: pb::ExecuteRequest,
) -> (Option<i32>, String, String, HashMap<String, String>) {
    let response = daemon.run(request).await.unwrap();
    let confinement = response.confinement.unwrap();
    assert!(confinement.confirmed);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
    let evidence = confinement.evidence.into_iter();
    (
        response.outcome.unwrap().exit_code,
        text(&response.stdout),
        text(&response.stderr),
        evidence.map(|seen| (seen.check, seen.observed)).collect(),
    )
}

/// Fills the scratch directory under a profile that limits it, and under `without`, where there is room.
pub(crate) async fn holds_so_much_and_no_more(daemon: &Daemon, without: &str) {
    for ((what, script, all), limit) in FILLING.into_iter().zip(WITHIN) {
        // The positive control.
        let seen = run(daemon, sh(without, script)).await;
        assert_eq!(seen.1, all, "{what}: {seen:?}");

        let seen = run(daemon, sh("limited", script)).await;
        assert_eq!(seen.1, limit, "{what}: {seen:?}");
        assert!(seen.2.contains("No space left"), "{what}: {seen:?}");
        assert_eq!(seen.3["scratch"], "1MiB in 16 files", "{what}");
    }
    // Removing a file frees its space.
    let again = "head -c 1048576 /dev/urandom > $TMPDIR/a; rm $TMPDIR/a; head -c 1048576 /dev/urandom > $TMPDIR/b && echo room";
    let seen = run(daemon, sh("limited", again)).await;
    assert_eq!(seen.1, "room", "{seen:?}");
    until_clean(daemon).await;
}

/// Requests a hook under a profile whose limit of the scratch directory cannot be set, and under one without a limit.
async fn only_the_limited_is_refused(daemon: &Daemon, why: &str) {
    for profile in ["limited", "roomy"] {
        let status = daemon.run(sh(profile, "exit 0")).await.unwrap_err();
        assert_eq!(reason(&status), "BACKEND_UNCONFIRMED", "{status:?}");
        let facts = status
            .get_error_details()
            .error_info()
            .unwrap()
            .metadata
            .clone();
        assert_eq!(facts["axis"], "write", "{status:?}");
        assert!(status.message().contains(why), "{status:?}");
        let fix = &facts["fix"];
        assert!(fix.contains("profile without `limits.scratch`"), "{fix}");
    }
    let seen = run(daemon, sh("pipeline", "exit 0")).await;
    assert_eq!(seen.0, Some(0), "{seen:?}");
}

#[tokio::test]
async fn a_scratch_directory_holds_so_many_bytes_and_files_and_no_more() {
    let daemon = Daemon::with(setup()).await;
    holds_so_much_and_no_more(&daemon, "pipeline").await;
    holds_so_much_and_no_more(&daemon, "roomy").await;
}

#[tokio::test]
async fn all_else_about_a_limited_scratch_directory_is_as_without_limits() {
    let daemon = Daemon::with(setup()).await;
    let script = "[ \"$PWD\" = \"$TMPDIR\" ] && echo here; echo x > made; cat made $TMPDIR/made; ls; id -u; id -g; \
                  stat -c '%u %g %a' . made; cp /bin/true own; ./own; echo $?; ls ..; echo x > ../beside; mkfifo f; rm made; \
                  mkdir -p a/b; mv a/b b; rmdir a b; ls";
    let mut seen = Vec::new();
    for profile in ["pipeline", "limited"] {
        seen.push(run(&daemon, sh(profile, script)).await);
    }
    assert_eq!(seen[0].1, seen[1].1, "{seen:?}");
    assert!(seen[0].1.starts_with("here\nx\nx\nmade\n"), "{seen:?}");
    let limited = |seen: &HashMap<String, String>| seen.contains_key("scratch");
    assert!(!limited(&seen[0].3) && limited(&seen[1].3), "{seen:?}");

    // With paths that stay read-only, which take the same namespace.
    let workspace = daemon.workspace().join("repository");
    fs::create_dir_all(workspace.join(".git/hooks")).unwrap();
    fs::write(workspace.join(".git/config"), "").unwrap();
    for path in ["", ".git", ".git/hooks", ".git/config"] {
        use std::os::unix::fs::PermissionsExt;
        let path = workspace.join(path);
        let mode = if path.is_dir() { 0o777 } else { 0o666 };
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let script = "pwd; echo x > made; echo x > .git/hooks/y || echo kept; head -c 2097152 /dev/urandom > $TMPDIR/a || echo full";
    let mut request = hook(["/bin/sh", "-c", script]);
    "limited-writer".clone_into(&mut request.profile);
    request.hook.as_mut().unwrap().workspace = workspace.display().to_string();
    let seen = run(&daemon, request).await;
    assert_eq!(
        seen.1,
        format!("{}\nkept\nfull", workspace.display()),
        "{seen:?}"
    );
    assert_eq!(seen.3["read_only"], "mounted");
    assert_eq!(seen.3["scratch"], "1MiB in 16 files");
    assert!(workspace.join("made").exists());
}

#[tokio::test]
async fn the_file_system_of_a_scratch_directory_is_the_runs_alone() {
    let daemon = Daemon::with(setup()).await;
    let marker = a_minute();
    let request = sh("limited", &format!("echo x > made; sleep {marker}"));
    let mut client = daemon.client();
    let call = tokio::spawn(async move { client.execute(request).await });
    let sleeping = || processes_that(|line| line.contains(&marker)).next();
    until("the hook's begin", || sleeping().is_some()).await;
    let directory = daemon.path().canonicalize().unwrap().display().to_string();
    let mounted = |who: &str| {
        let mounts = fs::read_to_string(format!("/proc/{who}/mountinfo")).unwrap();
        let mut lines = mounts.lines();
        lines.any(|line| line.contains(&directory) && line.contains("/run-"))
    };

    // The positive control: where the hook is, it is mounted.
    assert!(mounted(&sleeping().unwrap().0.to_string()));
    assert!(!mounted("self") && !mounted(&daemon.pid().to_string()));
    for run in daemon.scratch_directories() {
        let inside = fs::read_dir(run.join("tmp")).unwrap();
        assert_eq!(inside.count(), 0);
    }
    call.abort();
    until_clean(&daemon).await;
}

#[tokio::test]
async fn a_preview_shows_the_limits_of_the_scratch_directory() {
    let daemon = Daemon::with(setup()).await;
    for (profile, limits) in [
        ("limited", (Some(1 << 20), Some(16))),
        ("roomy", (Some(64 << 20), Some(16 << 10))),
        ("pipeline", (None, None)),
    ] {
        let request = pb::PreviewRequest {
            request: Some(sh(profile, "exit 0")),
        };
        let shown = daemon.client().preview(request).await.unwrap().into_inner();
        let shown = shown.limits.unwrap();
        assert_eq!((shown.scratch, shown.scratch_files), limits, "{profile}");
    }
}

#[tokio::test]
async fn where_scratch_cannot_be_limited_a_profile_that_limits_it_is_refused_and_others_serve() {
    let kernel = FakeKernel::build();
    // unshare: refused, none may be made, not there; mount: refused, no such file system.
    for flaw in ["272=1", "272=28", "272=38", "165=1", "165=19"] {
        let daemon = Daemon::with(Setup {
            wrapper: kernel.wrapper(&["--errno", flaw]),
            ..setup()
        })
        .await;
        only_the_limited_is_refused(&daemon, "`limits.scratch` takes a file system").await;
    }
}

#[cfg(debug_assertions)]
#[tokio::test]
async fn a_self_test_and_this_chapter_notice_where_scratch_is_not_limited() {
    let weakened = async |lacking: &str| {
        Daemon::with(Setup {
            env: vec![("HOOKJAIL_WEAKEN".to_owned(), lacking.to_owned())],
            ..setup()
        })
        .await
    };
    let (_, script, all) = FILLING[0];
    for (lacking, why) in [
        ("set-up:scratch", "fill scratch beyond its size"),
        // Without the self-test, each run reports for itself which step was not done.
        (
            "set-up:scratch proof:self-test",
            "its scratch directory was not limited",
        ),
    ] {
        let daemon = weakened(lacking).await;
        let status = daemon.run(sh("limited", script)).await.unwrap_err();
        assert_eq!(reason(&status), "BACKEND_UNCONFIRMED");
        assert!(status.message().contains(why), "{status:?}");
    }
    let daemon = weakened("set-up:scratch proof:self-test proof:attestation").await;
    let seen = run(&daemon, sh("limited", script)).await;
    assert_eq!(seen.1, all, "{seen:?}");
}

mod as_root {
    use super::*;
    use crate::support::{needs_root, without_sys_admin};

    #[tokio::test]
    #[ignore = "needs root"]
    async fn a_daemon_of_root_that_may_not_mount_refuses_a_limited_scratch_directory() {
        needs_root();
        let daemon = Daemon::with(Setup {
            wrapper: without_sys_admin(),
            ..setup()
        })
        .await;
        only_the_limited_is_refused(&daemon, "`limits.scratch` takes a file system").await;
    }
}
