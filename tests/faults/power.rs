//! Power cuts: the state is on a disk that stops in the middle, and loses what the kernel has not written.

use std::{
    collections::BTreeSet,
    fmt,
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;

use crate::{
    load::{Call, Load, make_marks, make_script, says_it_is_done},
    support::{Daemon, Setup, directory, hook},
    witness::{Mount, a_minute, hookjail, records},
};

/// Each policy of `audit.fsync`.
pub(crate) const POLICIES: [&str; 3] = ["always", "1s", "never"];

/// Stops a file system at once, as `FS_IOC_SHUTDOWN` without a flush of its log does.
const STOP: &str = "import fcntl, os, struct, sys
disk = os.open(sys.argv[1], os.O_RDONLY)
fcntl.ioctl(disk, 0x8004587D, struct.pack('I', 2))";

/// The findings of all rounds with one policy.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    answered: usize,
    missing: usize,
    rebooted: usize,
    rounds: usize,
    torn: usize,
    wrong: Vec<String>,
}

impl Findings {
    /// Returns the reason for which the test fails.
    pub(crate) fn wrong(&self) -> Option<String> {
        (!self.wrong.is_empty()).then(|| self.wrong.join("; "))
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            answered,
            missing,
            rebooted,
            rounds,
            torn,
            wrong,
        } = self;
        write!(
            f,
            "{rounds} rounds, {answered} answers, {missing} of them in no record, {torn} torn, {rebooted} rebooted, {} wrong",
            wrong.len()
        )
    }
}

/// Cuts the power of daemons with a policy.
pub(crate) async fn the_power_is_cut(policy: &str, rounds: usize) -> Findings {
    let mut findings = Findings::default();
    for round in 0..rounds {
        findings.rounds += 1;
        cut(policy, round, &mut findings).await;
    }
    if findings.rebooted == 0 {
        findings
            .wrong
            .push("no round shows that the host went down".to_owned());
    }
    findings
}

async fn cut(policy: &str, round: usize, findings: &mut Findings) {
    let home = directory();
    let image = home.path().join("disk.img");
    let state = home.path().join("state");
    fs::create_dir(&state).unwrap();
    let made = "truncate -s 48M \"$1\" && mkfs.ext4 -q -F \"$1\"";
    let made = Command::new("sh")
        .args(["-c", made, "sh"])
        .arg(&image)
        .status();
    assert!(made.unwrap().success(), "this test needs mkfs.ext4");
    let disk = mounted(&image, &state);
    let setup = Setup {
        config: format!(
            "[audit]\nfsync = \"{policy}\"\nrotate_bytes = \"64KiB\"\nkeep_files = 0\n"
        ),
        ..Setup::default()
    };
    let daemon = Daemon::in_directory(home, setup.clone()).await.unwrap();
    let (workspace, socket) = (daemon.workspace(), daemon.path().join("sock"));
    let marker = a_minute();
    make_marks(&workspace);
    make_script(&workspace, &marker);
    let load = Load::begin(4, "load", &socket, &workspace, &marker);
    tokio::time::sleep(Duration::from_millis(1000 + 37 * round as u64)).await;
    if round.is_multiple_of(2) {
        // The journal is on the disk, and what follows is not.
        let synced = Command::new("sync").arg("-f").arg(&state).status();
        assert!(synced.unwrap().success());
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let stopped = Command::new("python3")
        .args(["-c", STOP])
        .arg(&state)
        .status();
    assert!(stopped.unwrap().success(), "this test needs python3");
    tokio::time::sleep(Duration::from_millis(200)).await;
    let home = daemon.kill();
    let calls = load.end().await;
    free(&state);
    drop(disk);
    let _disk = mounted(&image, &state);
    let has_mark = boot(&state);

    let answered = answered(&calls);
    findings.answered += answered.len();
    match Daemon::in_directory(home, setup).await {
        Ok(next) => judge(&next, policy, &answered, has_mark, findings).await,
        Err(error) => findings
            .wrong
            .push(format!("round {round}: no start: {error}")),
    }
}

async fn judge(
    next: &Daemon,
    policy: &str,
    answered: &BTreeSet<String>,
    has_mark: bool,
    findings: &mut Findings,
) {
    next.run(hook(["/bin/true"])).await.unwrap();
    let records = records(next.path());
    let count = |kind: &str| records.iter().filter(|it| it["record"] == kind).count();
    let known: BTreeSet<_> = records
        .iter()
        .filter_map(|it| it["request_id"].as_str())
        .collect();
    let missing = answered
        .iter()
        .filter(|id| !known.contains(id.as_str()))
        .count();
    findings.missing += missing;
    findings.torn += count("torn");
    findings.rebooted += count("rebooted");
    if policy == "always" && missing > 0 {
        findings
            .wrong
            .push(format!("{missing} answers are in no record"));
    }
    if count("rebooted") != usize::from(has_mark) || count("lost") > 0 {
        let kinds: Vec<_> = records.iter().map(|it| &it["record"]).collect();
        findings
            .wrong
            .push(format!("a mark: {has_mark}; {kinds:?}"));
    }
    let file = next.path().join("hookjail.toml");
    let verified = hookjail(&file, &["audit", "verify"]).output().unwrap();
    let text = String::from_utf8_lossy(&verified.stdout);
    if !verified.status.success() || text.contains("the host went down") != has_mark {
        findings.wrong.push(format!("{verified:?}"));
    }
}

fn answered(calls: &[Call]) -> BTreeSet<String> {
    let done = calls.iter().filter(|call| says_it_is_done(&call.said));
    done.map(|call| call.id.clone()).collect()
}

/// Mounts a disk. A stopped one is still there where a process that ends has it in a namespace of its own.
fn mounted(image: &Path, place: &Path) -> Mount {
    let give_up = Instant::now() + Duration::from_secs(10);
    loop {
        let mount = Mount::new(&["-o", "loop", image.to_str().unwrap()], place);
        match fs::set_permissions(place, Permissions::from_mode(0o700)) {
            Ok(()) => return mount,
            Err(error) => assert!(Instant::now() < give_up, "the disk stays stopped: {error}"),
        }
        drop(mount);
        thread::sleep(Duration::from_millis(100));
    }
}

/// Unmounts a disk once nothing uses it any more: only then its log is replayed.
fn free(disk: &Path) {
    let give_up = Instant::now() + Duration::from_secs(10);
    while !Command::new("umount").arg(disk).status().unwrap().success() {
        assert!(Instant::now() < give_up, "the disk is still in use");
        thread::sleep(Duration::from_millis(100));
    }
}

/// Boots the host: the marks of writers are of another boot. Returns whether there is one.
fn boot(state: &Path) -> bool {
    let marks = fs::read_dir(state.join("audit/instances"));
    let marks: Vec<_> = marks
        .into_iter()
        .flatten()
        .map(|it| it.unwrap().path())
        .collect();
    for mark in &marks {
        fs::write(mark, "00000000-0000-0000-0000-000000000000").unwrap();
    }
    !marks.is_empty()
}

/// Returns whether this host has what a disk in a file needs.
pub(crate) fn has_disks() -> bool {
    let home: TempDir = directory();
    let probe = "truncate -s 8M \"$1/disk\" && mkfs.ext4 -q -F \"$1/disk\" && mkdir \"$1/at\" && mount -o loop \"$1/disk\" \"$1/at\" && umount \"$1/at\"";
    let made = Command::new("sh")
        .args(["-c", probe, "sh"])
        .arg(home.path())
        .output();
    made.is_ok_and(|made| made.status.success())
}
