//! Limits of a process that are reached.

use std::{fs, process::Command, time::Instant};

use crate::{scene::Scene, support::Setup};

/// Has the daemon open nothing more for a while.
pub(crate) async fn descriptors_run_out(scene: &mut Scene) {
    scene.start(Setup::default()).await;
    scene.load(8);
    let before = limit(scene, None);
    for _ in 0..scene.rounds(2, 10) {
        scene.a_while().await;
        let open = fs::read_dir(format!("/proc/{}/fd", scene.daemon().pid()));
        limit(scene, Some(&open.unwrap().count().to_string()));
        scene.a_while().await;
        limit(scene, Some(&before));
        scene.served_again(Instant::now()).await;
    }
}

/// Gives the daemon few from the start, and more callers than those are enough for.
pub(crate) async fn descriptors_are_few(scene: &mut Scene) {
    let setup = Setup {
        wrapper: ["/bin/sh", "-c", "ulimit -n 384; exec \"$@\"", "sh"]
            .map(str::to_owned)
            .into(),
        ..Setup::default()
    };
    scene.start(setup).await;
    scene.load(24);
    for _ in 0..scene.rounds(2, 10) {
        scene.a_while().await;
    }
    scene.served_again(Instant::now()).await;
}

/// Sets how many descriptors the daemon may have, not what it may raise that to; returns how many it may have now.
fn limit(scene: &Scene, soft: Option<&str>) -> String {
    let option = soft.map_or_else(|| "--nofile".to_owned(), |soft| format!("--nofile={soft}:"));
    let output = Command::new("prlimit")
        .arg(format!("--pid={}", scene.daemon().pid()))
        .args([&option, "--output=SOFT", "--noheadings"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}
