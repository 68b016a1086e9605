//! Disks that others fill.

use std::{
    fs::{self, File},
    io::Write,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use nix::fcntl::{Flock, FlockArg};
use tempfile::TempDir;

use crate::{
    scene::Scene,
    signals::{agree, metered},
    support::{directory, sh},
    witness::{Again, Mount},
};

/// The size of a disk: the journal of the whole load fits.
const SIZE: &str = "size=64m,mode=";

/// Fills the disk that the journal is on.
pub(crate) async fn the_disk_of_the_state_is_full(scene: &mut Scene) {
    let home = directory();
    disk(scene, &home, "state", "0700");
    fill(scene, home, "state/filler", Some("AUDIT_UNAVAILABLE")).await;
}

/// Fills the disk that hooks have their scratch directories on.
pub(crate) async fn the_disk_of_the_hooks_is_full(scene: &mut Scene) {
    let home = directory();
    disk(scene, &home, "run", "0711");
    fill(scene, home, "run/filler", None).await;
}

/// Takes every inode of the disk that hooks have their scratch directories on.
pub(crate) async fn the_disk_of_the_hooks_has_no_inode(scene: &mut Scene) {
    let home = directory();
    let run = home.path().join("run");
    fs::create_dir(&run).unwrap();
    scene.keep(Mount::tmpfs(&run, "nr_inodes=2000,mode=0711"));
    let filler = run.join("filler");
    scene.start_in(home, metered()).await;
    fs::create_dir(&filler).unwrap();
    scene.load(8);
    for _ in 0..scene.rounds(2, 10) {
        scene.a_while().await;
        let directory = filler.clone();
        let mut number = 0_u64;
        let taken = Again::and_again(move || {
            while File::create_new(directory.join(number.to_string())).is_ok() {
                number += 1;
            }
            thread::sleep(Duration::from_millis(5));
        });
        scene.until_told("OVERLOADED").await;
        agree(scene, false).await;
        drop(taken);
        for file in fs::read_dir(&filler).unwrap() {
            fs::remove_file(file.unwrap().path()).unwrap();
        }
        scene.served_again(Instant::now()).await;
        agree(scene, true).await;
    }
}

/// Fills a disk that has the journal and the scratch directories.
pub(crate) async fn one_disk_for_both_is_full(scene: &mut Scene) {
    let home = directory();
    disk(scene, &home, "disk", "0711");
    for name in ["state", "run"] {
        let (source, place) = (home.path().join("disk").join(name), home.path().join(name));
        fs::create_dir(&source).unwrap();
        fs::create_dir(&place).unwrap();
        scene.keep(Mount::new(&["--bind", source.to_str().unwrap()], &place));
    }
    fill(scene, home, "disk/filler", Some("AUDIT_UNAVAILABLE")).await;
}

/// Has every record wait, as on a disk that does not answer, by holding the lock that each is written under.
pub(crate) async fn the_journal_hangs(scene: &mut Scene) {
    scene.start(metered()).await;
    scene.load(8);
    for round in 0..scene.rounds(2, 10) {
        scene.a_while().await;
        let lock = File::open(scene.home().join("state/audit/journal.lock")).unwrap();
        let held = Flock::lock(lock, FlockArg::LockExclusive).unwrap();
        // Recorded answers may still be on their way; after that the control: no hook has an end.
        tokio::time::sleep(Duration::from_millis(300)).await;
        let before = scene.answered();
        tokio::time::sleep(Duration::from_secs(1)).await;
        let answers = scene.ended_since(before);
        if answers > 0 {
            scene.wrong(format!("{answers} ends while nothing can be recorded"));
        }
        // Every other round the disk is given up.
        if round % 2 == 1 {
            agree(scene, false).await;
        }
        drop(held);
        scene.served_again(Instant::now()).await;
        agree(scene, true).await;
    }
}

/// No caller gets another answer then: the control.
async fn until_no_hook_can_write(scene: &Scene) {
    loop {
        let answer = scene.daemon().run(sh("strict", "echo x >$TMPDIR/x")).await;
        if answer.is_ok_and(|response| response.outcome.unwrap().exit_code != Some(0)) {
            return;
        }
    }
}

fn disk(scene: &mut Scene, home: &TempDir, name: &str, mode: &str) {
    let place = home.path().join(name);
    fs::create_dir(&place).unwrap();
    scene.keep(Mount::tmpfs(&place, &format!("{SIZE}{mode}")));
}

/// Keeps a disk full for a while, and makes room again; over and over. Meanwhile a caller gets `reason`.
async fn fill(scene: &mut Scene, home: TempDir, filler: &str, reason: Option<&str>) {
    let filler = home.path().join(filler);
    scene.start_in(home, metered()).await;
    scene.load(8);
    scene.until_each_has_ended().await;
    for _ in 0..scene.rounds(2, 10) {
        scene.a_while().await;
        let file = filler.clone();
        let full = Again::and_again(move || write_until_full(&file));
        match reason {
            Some(reason) => {
                scene.until_told(reason).await;
                agree(scene, false).await;
            }
            None => until_no_hook_can_write(scene).await,
        }
        scene.a_while().await;
        drop(full);
        fs::remove_file(&filler).unwrap();
        scene.served_again(Instant::now()).await;
        agree(scene, true).await;
    }
}

/// Takes all room that is there, to the last byte.
fn write_until_full(path: &Path) {
    let mut file = File::options()
        .create(true)
        .append(true)
        .open(path)
        .unwrap();
    for size in [1 << 16, 1 << 12, 1] {
        while file.write_all(&vec![0; size]).is_ok() {}
    }
    // The room is taken again and again, and a process that gives some back in between needs a processor for that.
    thread::sleep(Duration::from_millis(5));
}
