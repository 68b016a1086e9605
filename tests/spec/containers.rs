//! The container backend: what holds for it beside what holds for every backend.
//!
//! What every backend does alike is shown by running the other chapters with `HOOKJAIL_TEST_RUNTIME`, which has all daemons
//! confine by that OCI runtime. `HOOKJAIL_MUST_HAVE`, where it is set, lists the runtimes that must be there, by blanks: a
//! test that could not try one of them fails then, and says so otherwise.

#![expect(
    clippy::print_stdout,
    reason = "says which runtimes could not be tried"
)]

use std::{
    env, fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
};

use hookjail::pb;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use tokio::sync::Mutex;

use crate::{
    support::{Daemon, Setup, directory, hook, in_containers, reason, sh},
    witness::{Again, a_minute, end, event, processes_with, until, until_gone, wall_time, writing},
};

/// Where distributions have OCI runtimes.
const RUNTIMES: [&str; 4] = [
    "/usr/bin/crun",
    "/usr/bin/runc",
    "/usr/sbin/runc",
    "/usr/bin/youki",
];

/// Returns a set-up for each runtime that can be tried here.
fn setups() -> Vec<(String, Setup)> {
    let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
    let paths = RUNTIMES.map(Path::new).into_iter();
    let mut found: Vec<_> = paths
        // One that is a link is refused, and stands for one of the others.
        .filter(|path| path.symlink_metadata().is_ok_and(|found| found.is_file()))
        .filter(|path| name(path) != "crun" || !hybrid() || nix::unistd::geteuid().is_root())
        .map(|path| {
            let setup = Setup {
                config: in_containers(path),
                wrapper: wrapper(),
                ..Setup::default()
            };
            (name(path), setup)
        })
        .collect();
    found.dedup_by(|one, other| one.0 == other.0);
    for runtime in ["crun", "runc"] {
        if found.iter().any(|(name, _)| name == runtime) {
            continue;
        }
        let must = env::var("HOOKJAIL_MUST_HAVE").unwrap_or_default();
        assert!(
            !must.split_whitespace().any(|name| name == runtime),
            "{runtime} must be here"
        );
        println!("skipped: {runtime} is not installed, or refuses this host's control groups");
    }
    found
}

/// Whether crun refuses this host for its control groups.
fn hybrid() -> bool {
    fs::read_to_string("/sys/fs/cgroup/unified/cgroup.controllers").is_ok()
}

/// Root can take away what crun does not like.
fn wrapper() -> Vec<String> {
    if !hybrid() || !nix::unistd::geteuid().is_root() {
        return Vec::new();
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/testenv/hybrid-free.sh");
    vec![script.display().to_string()]
}

#[tokio::test]
async fn a_hook_in_a_container_is_told_and_recorded_as_such() {
    for (runtime, setup) in setups() {
        let daemon = Daemon::with(setup).await;
        let mut request = sh("pipeline", "cat; echo problem >&2; exit 7");
        request.event = event(r#"{"a":1}"#);
        let response = daemon.run(request).await.unwrap();

        assert_eq!(
            end(&response),
            (pb::OutcomeKind::Exited, Some(7), None),
            "{runtime}"
        );
        assert_eq!(&response.stdout[..], br#"{"a":1}"#);
        assert_eq!(&response.stderr[..], b"problem\n");
        let confinement = response.confinement.unwrap();
        assert_eq!(confinement.backend, "container");
        assert!(confinement.confirmed);
        let seen = |check: &str| {
            let found = confinement.evidence.iter().find(|seen| seen.check == check);
            found
                .unwrap_or_else(|| panic!("{check}: {confinement:?}"))
                .observed
                .clone()
        };
        assert!(seen("namespaces").starts_with("ipc mnt pid uts net"));
        assert_eq!(seen("canary_denied"), "ENOENT");
        assert_eq!(seen("capabilities"), "none");
        assert!(seen("seccomp_filters").parse::<u32>().unwrap() > 0);
        let journal = daemon.journal();
        let started = journal
            .iter()
            .find(|record| record["record"] == "started")
            .unwrap();
        assert!(
            started.to_string().contains(r#""backend":"container""#),
            "{started}"
        );
    }
}

#[tokio::test]
async fn what_is_not_granted_is_not_there() {
    for (runtime, setup) in setups() {
        let daemon = Daemon::with(setup).await;
        let outside = daemon.outside("secret");
        fs::write(&outside, "secret").unwrap();
        let script = format!(
            "ls -a / | tr '\\n' ' '; cat {}; ls /dev /proc | grep -v '^[0-9]' | tr '\\n' ' '",
            outside.display()
        );
        let response = daemon.run(sh("pipeline", &script)).await.unwrap();

        let said = String::from_utf8_lossy(&response.stdout).into_owned();
        let (root, rest) = said.split_at(said.find("/dev:").unwrap_or(said.len()));
        for name in ["home", "root", "boot", "sys", "srv", "var"] {
            // A test's own directory may lie there.
            let own = daemon.path().starts_with(Path::new("/").join(name));
            assert!(
                own || !root.split(' ').any(|there| there == name),
                "{runtime}: {said}"
            );
        }
        assert!(!said.contains("secret"), "{said}");
        assert_eq!(
            rest.split_whitespace().collect::<Vec<_>>().join(" "),
            "/dev: null urandom /proc: self thread-self"
        );
    }
}

#[tokio::test]
async fn what_is_written_to_a_granted_workspace_stays_and_what_is_written_to_scratch_goes() {
    for (runtime, setup) in setups() {
        let daemon = Daemon::with(setup).await;
        let script = "echo kept > kept; echo gone > $HOME/gone; cat kept $HOME/gone; pwd";
        let response = daemon.run(writing(&daemon, script)).await.unwrap();

        let expected = format!("kept\ngone\n{}\n", daemon.workspace().display());
        assert_eq!(
            String::from_utf8_lossy(&response.stdout),
            expected,
            "{runtime}: {response:?}"
        );
        let kept = fs::read_to_string(daemon.workspace().join("kept"));
        assert_eq!(kept.unwrap(), "kept\n");
        assert!(daemon.scratch_directories().is_empty());
    }
}

/// A runtime that is killed with its daemon leaves an empty control group: what looks for those must be alone.
static CONTROL_GROUPS: Mutex<()> = Mutex::const_new(());

#[tokio::test]
async fn the_tree_in_a_container_dies_at_the_deadline_and_with_its_daemon() {
    let _alone = CONTROL_GROUPS.lock().await;
    for (_, setup) in setups() {
        let mut daemon = Daemon::with(setup).await;
        let (first, second) = (a_minute(), a_minute());
        let script = |time: &str| format!("sleep {time} & (sleep {time} &) ; sleep {time}");
        let mut request = sh("pipeline", &script(&first));
        request.timeout = wall_time(3);
        let response = daemon.run(request).await.unwrap();
        assert_eq!(end(&response).0, pb::OutcomeKind::TimedOut);
        until_gone(&format!("sleep {first}")).await;

        let (mut client, request) = (daemon.client(), sh("pipeline", &script(&second)));
        let running = tokio::spawn(async move { client.execute(request).await });
        let there = || processes_with(&format!("sleep {second}")).len() >= 3;
        until("the hook to run", there).await;
        daemon.child().kill().unwrap();
        until_gone(&format!("sleep {second}")).await;
        until_gone(&daemon.path().display().to_string()).await;
        assert!(running.await.unwrap().is_err());
    }
}

#[tokio::test]
async fn nothing_of_a_container_is_left_when_its_run_has_ended() {
    let _alone = CONTROL_GROUPS.lock().await;
    for (_, setup) in setups() {
        let before = control_groups(Path::new("/sys/fs/cgroup"));
        let daemon = Daemon::with(setup).await;
        for script in ["exit 0", "kill -KILL $$", "sleep 100"] {
            let mut request = sh("pipeline", script);
            request.timeout = wall_time(2);
            daemon.run(request).await.unwrap();
        }
        let missing = daemon.run(hook(["/usr/bin/nowhere"])).await;
        assert_eq!(reason(&missing.unwrap_err()), "INVALID_REQUEST");
        assert!(daemon.scratch_directories().is_empty());
        until("the end of all control groups", || {
            let now = control_groups(Path::new("/sys/fs/cgroup"));
            now.iter().all(|group| before.contains(group))
        })
        .await;
    }
}

/// Returns control groups that a runtime has made for our containers.
fn control_groups(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        if entry.file_name().to_string_lossy().starts_with("hookjail-") {
            found.push(entry.path());
        }
        found.extend(control_groups(&entry.path()));
    }
    found
}

#[tokio::test]
async fn a_container_that_breaks_under_its_hook_is_a_fault() {
    for (_, setup) in setups() {
        let daemon = Daemon::with(setup).await;
        let time = a_minute();
        let (mut client, request) = (daemon.client(), sh("strict", &format!("exec sleep {time}")));
        let running = tokio::spawn(async move { client.execute(request).await });
        let marker = format!("sleep {time}");
        until("the hook to run", || first_of(&marker).is_some()).await;
        // Its first process, as the host sees it: the parent of the hook.
        kill(first_of(&marker).unwrap(), Signal::SIGKILL).unwrap();

        let status = running.await.unwrap().unwrap_err();
        assert_eq!(status.code(), tonic::Code::Internal, "{status:?}");
        assert!(
            daemon
                .log()
                .contains("ended without saying how the hook did"),
            "{}",
            daemon.log()
        );
        until_gone(&marker).await;
        assert_eq!(daemon.records().last().unwrap(), "refused");
        let next = daemon.run(hook(["/bin/echo", "next"])).await.unwrap();
        assert_eq!(&next.stdout[..], b"next\n");
    }
}

/// Returns the parent of the process whose arguments are these.
fn first_of(marker: &str) -> Option<Pid> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let status = processes.filter_map(|entry| {
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        (line.trim() == marker).then(|| fs::read_to_string(entry.path().join("status")).ok())?
    });
    let parents = status.filter_map(|status| {
        let line = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
        line.trim().parse().ok()
    });
    parents.last().map(Pid::from_raw)
}

#[tokio::test]
async fn names_of_any_kind_stay_names() {
    for (runtime, setup) in setups() {
        let daemon = Daemon::with(setup).await;
        for name in [
            "--privileged",
            "a,ro",
            "a:b",
            "quote\"brace}",
            "line\nbreak",
            "back\\slash\\040",
            "blank and \u{e9}",
        ] {
            let workspace = daemon.workspace().join(name);
            fs::create_dir(&workspace).unwrap();
            fs::set_permissions(&workspace, fs::Permissions::from_mode(0o777)).unwrap();
            let mut request = sh("workspace-rw", "printf '%s\\n' \"$1\" > kept; exit 3");
            let asked = request.hook.as_mut().unwrap();
            asked.workspace = workspace.display().to_string();
            asked.argv.extend(["--rootfs".to_owned(), name.to_owned()]);
            let response = daemon.run(request).await.unwrap();

            assert_eq!(
                end(&response).1,
                Some(3),
                "{runtime}: {name:?} {response:?}"
            );
            assert_eq!(
                fs::read_to_string(workspace.join("kept")).unwrap(),
                format!("{name}\n")
            );
        }
    }
}

#[tokio::test]
async fn a_workspace_that_is_swapped_for_a_link_is_never_mounted() {
    for (_, setup) in setups() {
        let daemon = Daemon::with(setup).await;
        let (workspace, link) = (daemon.workspace().join("w"), daemon.workspace().join("l"));
        let outside = daemon.outside("o");
        for directory in [&workspace, &outside] {
            fs::create_dir(directory).unwrap();
            fs::set_permissions(directory, fs::Permissions::from_mode(0o777)).unwrap();
        }
        fs::write(workspace.join("file"), "granted").unwrap();
        fs::write(outside.join("file"), "secret").unwrap();
        symlink(&outside, &link).unwrap();
        let swapping = Again::swap(workspace.clone(), link);
        let (mut ran, mut refused) = (0, 0);
        for _ in 0..40 {
            let mut request = sh("workspace-ro", "cat file");
            request.hook.as_mut().unwrap().workspace = workspace.display().to_string();
            match daemon.run(request).await {
                Ok(response) => {
                    assert_eq!(&response.stdout[..], b"granted", "{response:?}");
                    ran += 1;
                }
                Err(_) => refused += 1,
            }
        }
        drop(swapping);
        println!("{ran} ran, {refused} were refused");
        assert!(refused > 0);
    }
}

/// A runtime that is none: another program under its name.
fn stand_in(directory: &Path, program: &str) -> PathBuf {
    let path = directory.join("crun");
    fs::copy(program, &path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// Returns the message with which a hook is refused by a daemon that has this runtime.
async fn refusal(runtime: &Path) -> String {
    let setup = Setup {
        config: in_containers(runtime),
        ..Setup::default()
    };
    let daemon = Daemon::with(setup).await;
    let status = daemon.run(hook(["/bin/true"])).await.unwrap_err();
    assert_eq!(reason(&status), "BACKEND_UNCONFIRMED", "{status:?}");
    status.message().to_owned()
}

#[tokio::test]
async fn a_runtime_that_is_missing_or_that_others_can_change_is_refused_by_name() {
    let directory = directory();
    let missing = directory.path().join("crun");
    let message = refusal(&missing).await;
    assert!(
        message.contains(&missing.display().to_string()),
        "{message}"
    );
    assert!(message.contains("container.runtime"), "{message}");

    let runtime = stand_in(directory.path(), "/bin/true");
    fs::set_permissions(&runtime, fs::Permissions::from_mode(0o775)).unwrap();
    let message = refusal(&runtime).await;
    assert!(message.contains("others can write it"), "{message}");
}

#[tokio::test]
async fn a_runtime_that_fails_or_makes_nothing_has_no_hook_run() {
    let directory = directory();
    let message = refusal(&stand_in(directory.path(), "/bin/false")).await;
    assert!(
        message.contains("made no container (exit code 1)"),
        "{message}"
    );

    let message = refusal(&stand_in(directory.path(), "/bin/true")).await;
    assert!(
        message.contains("made no container (exit code 0)"),
        "{message}"
    );
}
