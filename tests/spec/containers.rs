//! The container backend: its properties beside those of every backend.
//!
//! The other chapters show the properties of every backend: with `HOOKJAIL_TEST_RUNTIME` all their daemons confine by that OCI
//! runtime. Here most tests are made once for each runtime, and are ignored unless asked for. The tests of `with_crun` and
//! `with_runc` need that runtime, and crun needs root where control groups are hybrid.

#![expect(
    clippy::disallowed_methods,
    clippy::panic,
    reason = "tests start the command line itself, and what lays a root, never a hook, and fail by panicking"
)]
#![expect(clippy::print_stdout, reason = "prints how often each side won a race")]

use std::{
    fs,
    io::Write,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::Command,
};

use hookjail::pb;
use hookjail_sandbox::program::digest::hash_file;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use tokio::sync::Mutex;

use crate::{
    limits::are_killed_before_the_daemon,
    scratch,
    support::{Daemon, Setup, directory, hook, in_containers, needs_root, program, reason, sh},
    witness::{
        Again, a_minute, end, event, processes_with, until, until_clean, until_gone, wall_time,
        writing,
    },
};

/// Returns a set-up that confines by a runtime, which must be there and start here.
fn setup(runtime: &str) -> Setup {
    // Where distributions have it. One that is a link is refused, and stands for another.
    let paths = ["/usr/bin", "/usr/sbin"].map(|directory| Path::new(directory).join(runtime));
    let is_there = |path: &PathBuf| path.symlink_metadata().is_ok_and(|found| found.is_file());
    let found = paths.into_iter().find(is_there);
    let path = found.unwrap_or_else(|| panic!("this test needs {runtime}"));
    if runtime == "crun" && hybrid() {
        needs_root();
    }
    Setup {
        config: in_containers(&path),
        wrapper: wrapper(),
        ..Setup::default()
    }
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

async fn a_hook_in_a_container_is_told_and_recorded_as_such(runtime: &str) {
    let setup = setup(runtime);
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

async fn what_is_not_granted_is_not_there(runtime: &str) {
    let setup = setup(runtime);
    let daemon = Daemon::with(setup).await;
    let outside = daemon.outside("secret");
    fs::write(&outside, "secret").unwrap();
    let script = format!(
        "ls -a / | tr '\\n' ' '; cat {}; ls /dev /proc | grep -v '^[0-9]' | tr '\\n' ' '; find /sys /run /etc/hostname -type f -size +0 >&2",
        outside.display()
    );
    let response = daemon.run(sh("pipeline", &script)).await.unwrap();

    let listing = String::from_utf8_lossy(&response.stdout).into_owned();
    let (root, rest) = listing.split_at(listing.find("/dev:").unwrap_or(listing.len()));
    for name in ["home", "root", "boot", "sys", "srv", "var"] {
        // A test's own directory may lie there.
        let is_tests_own = daemon.path().starts_with(Path::new("/").join(name));
        assert!(
            is_tests_own || !root.split(' ').any(|there| there == name),
            "{runtime}: {listing}"
        );
    }
    assert!(!listing.contains("secret"), "{listing}");
    let full = String::from_utf8_lossy(&response.stderr).into_owned();
    assert!(!full.lines().any(|line| line.starts_with('/')), "{full}");
    assert_eq!(
        rest.split_whitespace().collect::<Vec<_>>().join(" "),
        "/dev: full null random urandom zero /proc: self thread-self"
    );
}

async fn what_is_written_to_a_granted_workspace_stays_and_what_is_written_to_scratch_goes(
    runtime: &str,
) {
    let setup = setup(runtime);
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
    until_clean(&daemon).await;
}

async fn a_scratch_directory_in_a_container_holds_what_its_profile_says(runtime: &str) {
    let daemon = Daemon::with(Setup {
        profiles: scratch::profiles(),
        ..setup(runtime)
    })
    .await;
    scratch::holds_so_much_and_no_more(&daemon, "roomy").await;
    // Without limits of its own it is as large as a file may be.
    let response = daemon.run(sh("pipeline", "exit 0")).await.unwrap();
    let evidence = response.confinement.unwrap().evidence;
    let seen = evidence.iter().find(|seen| seen.check == "scratch");
    assert_eq!(seen.unwrap().observed, "64MiB in 16384 files");
}

async fn a_script_is_read_by_the_interpreter_of_its_first_line(runtime: &str) {
    let setup = setup(runtime);
    let daemon = Daemon::with(setup).await;
    let script = daemon.workspace().join("hook.sh");
    fs::write(&script, "#!/bin/sh -u\necho \"$0 $1\"; exit 6\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let mut request = writing(&daemon, "");
    let hook = request.hook.as_mut().unwrap();
    hook.argv = vec![script.display().to_string(), "word".to_owned()];
    let response = daemon.run(request).await.unwrap();

    let printed = String::from_utf8_lossy(&response.stdout).into_owned();
    assert!(
        printed.ends_with("/hook.sh word\n"),
        "{runtime}: {response:?}"
    );
    assert_eq!(end(&response).1, Some(6));
}

/// A runtime that is killed with its daemon leaves an empty control group, so a test that looks for those must be alone.
static CONTROL_GROUPS: Mutex<()> = Mutex::const_new(());

async fn the_tree_in_a_container_dies_at_the_deadline_and_with_its_daemon(runtime: &str) {
    let _alone = CONTROL_GROUPS.lock().await;
    let setup = setup(runtime);
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
    let is_running = || processes_with(&format!("sleep {second}")).len() >= 3;
    until("the hook to run", is_running).await;
    daemon.child().kill().unwrap();
    until_gone(&format!("sleep {second}")).await;
    until_gone(&daemon.path().display().to_string()).await;
    assert!(running.await.unwrap().is_err());
}

async fn where_memory_runs_out_hooks_in_containers_are_killed_before_the_daemon(runtime: &str) {
    are_killed_before_the_daemon(Daemon::with(setup(runtime)).await).await;
}

async fn nothing_of_a_container_is_left_when_its_run_has_ended(runtime: &str) {
    let _alone = CONTROL_GROUPS.lock().await;
    let setup = setup(runtime);
    let before = control_groups(Path::new("/sys/fs/cgroup"));
    let daemon = Daemon::with(setup).await;
    for script in ["exit 0", "kill -KILL $$", "sleep 100"] {
        let mut request = sh("pipeline", script);
        request.timeout = wall_time(2);
        daemon.run(request).await.unwrap();
    }
    let missing = daemon.run(hook(["/usr/bin/nowhere"])).await;
    assert_eq!(reason(&missing.unwrap_err()), "INVALID_REQUEST");
    until_clean(&daemon).await;
    // A runtime gives a hook's user what its container has as standard input.
    let null = fs::metadata("/dev/null").unwrap();
    assert_eq!((null.uid(), null.mode() & 0o777), (0, 0o666));
    until("the end of all control groups", || {
        let now = control_groups(Path::new("/sys/fs/cgroup"));
        now.iter().all(|group| before.contains(group))
    })
    .await;
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

async fn a_container_that_breaks_under_its_hook_is_a_fault(runtime: &str) {
    let setup = setup(runtime);
    let daemon = Daemon::with(setup).await;
    let time = a_minute();
    let (mut client, request) = (daemon.client(), sh("strict", &format!("exec sleep {time}")));
    let running = tokio::spawn(async move { client.execute(request).await });
    let marker = format!("sleep {time}");
    until("the hook to run", || first_of(&marker).is_some()).await;
    // Its first process, as the host sees it: the parent of the hook. Its third task waits for the daemon's end, which it
    // starts once the daemon has looked at the hook.
    let first = first_of(&marker).unwrap();
    let tasks = || fs::read_dir(format!("/proc/{first}/task")).map_or(0, Iterator::count);
    until("the daemon to have looked", || tasks() == 3).await;
    kill(first, Signal::SIGKILL).unwrap();

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

async fn names_of_any_kind_stay_names(runtime: &str) {
    let setup = setup(runtime);
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
        let hook = request.hook.as_mut().unwrap();
        hook.workspace = workspace.display().to_string();
        hook.argv.extend(["--rootfs".to_owned(), name.to_owned()]);
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

async fn a_workspace_that_is_swapped_for_a_link_is_never_mounted(runtime: &str) {
    let setup = setup(runtime);
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

/// Makes a system of a few programs, each with the libraries that it names: a root of containers.
fn lay_root(root: &Path) {
    let copy = |file: &Path, target: &Path| {
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::copy(file, target).unwrap();
        fs::set_permissions(target, fs::Permissions::from_mode(0o755)).unwrap();
    };
    let below = |path: &str| root.join(path.trim_start_matches('/'));
    let cat = fs::canonicalize("/bin/cat").unwrap();
    let shell = fs::canonicalize("/bin/sh").unwrap();
    for program in [&program(), &cat, &shell] {
        let named = Command::new("ldd").arg(program).output().unwrap();
        let named = String::from_utf8(named.stdout).unwrap();
        for library in named
            .split_whitespace()
            .filter(|word| word.starts_with('/'))
        {
            copy(Path::new(library), &below(library));
        }
    }
    copy(&cat, &below("/bin/cat"));
    copy(&cat, &below("/usr/bin/only-here"));
    copy(&shell, &below("/bin/dash"));
    // The same program with another digest.
    let mut ours = fs::OpenOptions::new()
        .append(true)
        .open(below("/bin/dash"))
        .unwrap();
    ours.write_all(b"of the root").unwrap();
    // As images have it: a link that leads elsewhere on the host.
    symlink("/bin/dash", below("/bin/sh")).unwrap();
    fs::create_dir_all(below("/usr/share")).unwrap();
    fs::create_dir_all(below("/lib")).unwrap();
    fs::write(below("/usr/share/marker"), "of the root\n").unwrap();
    let made = Command::new("chmod")
        .args(["-R", "u=rwX,go=rX"])
        .arg(root)
        .status();
    assert!(made.unwrap().success());
}

/// Returns what `hookjail root-digest` prints.
fn root_digest(root: &Path) -> String {
    let output = crate::support::command(program())
        .arg("root-digest")
        .arg(root)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn with_root(config: &str, root: &Path, digest: &str) -> String {
    format!("{config}root = {root:?}\nroot_digest = {digest:?}\n")
}

async fn a_root_stands_in_for_the_hosts_system_and_its_programs_are_what_is_admitted(
    runtime: &str,
) {
    let place = directory();
    let root = place.path().join("root");
    lay_root(&root);
    let digest = root_digest(&root);
    let setup = setup(runtime);
    let script =
        "cat /usr/share/marker; for tool in cat ls only-here; do command -v $tool; done; exit 4";
    // The control: on the host there is no such file, and there is `ls`.
    let host = Daemon::with(Setup {
        config: setup.config.clone(),
        wrapper: setup.wrapper.clone(),
        ..Setup::default()
    })
    .await;
    let response = host.run(sh("pipeline", script)).await.unwrap();
    let listing = String::from_utf8_lossy(&response.stdout).into_owned();
    assert!(
        listing.contains("/ls\n") && !listing.contains("of the root"),
        "{runtime}: {listing}"
    );

    let setup = Setup {
        config: with_root(&setup.config, &root, &digest),
        ..setup
    };
    let daemon = Daemon::with(setup).await;
    let response = daemon.run(sh("pipeline", script)).await.unwrap();
    assert_eq!(
        String::from_utf8_lossy(&response.stdout),
        "of the root\n/bin/cat\n/usr/bin/only-here\n",
        "{runtime}: {response:?}"
    );
    assert_eq!(end(&response).1, Some(4));
    let evidence = response.confinement.unwrap().evidence;
    let seen = evidence.iter().find(|seen| seen.check == "root").unwrap();
    assert_eq!(seen.observed, digest);

    let admitted = fs::File::open(root.join("bin/dash")).unwrap();
    let admitted = hash_file(&admitted).unwrap();
    let journal = daemon.journal();
    let started = journal
        .iter()
        .find(|record| record["record"] == "started")
        .unwrap();
    assert!(started.to_string().contains(&admitted), "{started}");

    // A program that is only there, by its name; and a script of the host's by an interpreter of the root's.
    let mut request = hook(["only-here"]);
    request.event = event(r#"{"b":2}"#);
    let response = daemon.run(request).await.unwrap();
    assert_eq!(
        &response.stdout[..],
        br#"{"b":2}"#,
        "{runtime}: {response:?}"
    );
    let script = daemon.workspace().join("hook.sh");
    fs::write(&script, "#!/bin/sh\ncat /usr/share/marker\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let mut request = sh("pipeline", "");
    request.hook.as_mut().unwrap().argv = vec![script.display().to_string()];
    let response = daemon.run(request).await.unwrap();
    assert_eq!(
        &response.stdout[..],
        b"of the root\n",
        "{runtime}: {response:?}"
    );

    // A program of the host that the root does not have is not there.
    let missing = daemon.run(hook(["/usr/bin/env"])).await.unwrap_err();
    assert_eq!(reason(&missing), "INVALID_REQUEST");
}

/// Returns the message of `hookjail doctor` about a configuration that it refuses.
fn refused_root(root: &str, digest: &str) -> String {
    let place = directory();
    let config = place.path().join("hookjail.toml");
    let state = place.path().join("state");
    let text = with_root(
        &in_containers(Path::new("/usr/bin/crun")),
        Path::new(root),
        digest,
    );
    fs::write(
        &config,
        format!("[paths]\nstate = {state:?}\nruntime = {state:?}\n{text}"),
    )
    .unwrap();
    fs::set_permissions(&config, fs::Permissions::from_mode(0o600)).unwrap();
    let mut doctor = crate::support::command(program());
    let output = doctor
        .arg("--config")
        .arg(&config)
        .arg("doctor")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(125), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_root_that_is_not_as_it_must_be_is_refused_with_cause_and_fix() {
    let place = directory();
    let root = place.path().join("root");
    lay_root(&root);
    let (path, digest) = (root.display().to_string(), root_digest(&root));
    let other = format!("sha256:{}", "0".repeat(64));
    let named = |message: String, words: &[&str]| {
        let all = words.iter().all(|word| message.contains(word));
        assert!(all, "{message} instead of {words:?}");
    };
    named(
        refused_root("debian:12", &digest),
        &["container.root", "unpacked image"],
    );
    named(
        refused_root("root", &digest),
        &["container.root", "not an absolute path"],
    );
    named(
        refused_root(&path, "latest"),
        &["container.root_digest", "root-digest"],
    );
    named(
        refused_root(&path, &other),
        &[&digest, &other, "container.root_digest"],
    );
    named(
        refused_root("/nowhere/root", &digest),
        &["container.root", "cannot be opened"],
    );

    let library = root.join("usr/share/marker");
    fs::set_permissions(&library, fs::Permissions::from_mode(0o666)).unwrap();
    named(
        refused_root(&path, &digest),
        &["usr/share/marker", "others can write it", "chmod go-w"],
    );
    fs::set_permissions(&library, fs::Permissions::from_mode(0o644)).unwrap();
    fs::remove_file(root.join("bin/sh")).unwrap();
    let digest = root_digest(&root);
    named(refused_root(&path, &digest), &["no program `/bin/sh`"]);
}

/// A runtime that is none: another program under its name.
fn stand_in(directory: &Path, name: &str, program: &str) -> PathBuf {
    let path = directory.join(name);
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

    let runtime = stand_in(directory.path(), "crun", "/bin/true");
    fs::set_permissions(&runtime, fs::Permissions::from_mode(0o775)).unwrap();
    let message = refusal(&runtime).await;
    assert!(message.contains("others can write it"), "{message}");
}

#[tokio::test]
async fn a_runtime_that_fails_or_makes_nothing_has_no_hook_run() {
    let directory = directory();
    for (program, code) in [("/bin/false", 1), ("/bin/true", 0)] {
        let message = refusal(&stand_in(directory.path(), "crun", program)).await;
        let words = format!("made no container (exit code {code})");
        assert!(message.contains(&words), "{message}");
    }
}

/// Makes tests on a runtime.
macro_rules! on_a_runtime {
    ($module:ident, $runtime:literal, $needs:literal: $($test:ident)+) => {
        mod $module {
            $(
                #[tokio::test]
                #[ignore = $needs]
                async fn $test() {
                    super::$test($runtime).await;
                }
            )+
        }
    };
}

/// Makes tests on each runtime.
macro_rules! on_each_runtime {
    ($($test:ident)+) => {
        on_a_runtime!(with_crun, "crun", "needs crun": $($test)+);
        on_a_runtime!(with_runc, "runc", "needs runc": $($test)+);
    };
}

on_each_runtime! {
    a_hook_in_a_container_is_told_and_recorded_as_such
    what_is_not_granted_is_not_there
    what_is_written_to_a_granted_workspace_stays_and_what_is_written_to_scratch_goes
    a_scratch_directory_in_a_container_holds_what_its_profile_says
    a_script_is_read_by_the_interpreter_of_its_first_line
    the_tree_in_a_container_dies_at_the_deadline_and_with_its_daemon
    where_memory_runs_out_hooks_in_containers_are_killed_before_the_daemon
    nothing_of_a_container_is_left_when_its_run_has_ended
    a_container_that_breaks_under_its_hook_is_a_fault
    names_of_any_kind_stay_names
    a_workspace_that_is_swapped_for_a_link_is_never_mounted
    a_root_stands_in_for_the_hosts_system_and_its_programs_are_what_is_admitted
}
