//! Time that stands still or jumps.

use std::{
    fs::File,
    os::unix::fs::FileExt,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;

use crate::{
    scene::Scene,
    support::{Setup, directory},
};

/// Stops the daemon for longer than many of its hooks may take.
pub(crate) async fn the_daemon_is_stopped(scene: &mut Scene) {
    scene.start(Setup::default()).await;
    scene.load(8);
    for _ in 0..scene.rounds(2, 10) {
        scene.a_while().await;
        scene.signal(Signal::SIGSTOP);
        tokio::time::sleep(Duration::from_millis(1500)).await;
        scene.signal(Signal::SIGCONT);
        scene.served_again(Instant::now()).await;
    }
}

/// Has the daemon's wall clock show other times, by a library that answers in the place of the kernel.
pub(crate) async fn the_wall_clock_jumps(scene: &mut Scene) {
    const HOUR: i64 = 3600;
    const YEAR: i64 = 365 * 24 * HOUR;
    let home = directory();
    let (library, offset) = (home.path().join("clock.so"), home.path().join("offset"));
    compile("clock.c", &library);
    let file = File::create(&offset).unwrap();
    // Never cut, as the daemon has it mapped.
    let set = |seconds: i64| file.write_all_at(&seconds.to_ne_bytes(), 0).unwrap();
    set(0);
    let env = |name: &str, path: &Path| (name.to_owned(), path.display().to_string());
    let setup = Setup {
        env: vec![env("LD_PRELOAD", &library), env("FAULTS_CLOCK", &offset)],
        ..Setup::default()
    };
    scene.start_in(home, setup).await;
    scene.load(8);
    for _ in 0..scene.rounds(1, 5) {
        for jump in [HOUR, -HOUR, YEAR, -20 * YEAR, 0] {
            set(jump);
            let jumped = Instant::now();
            scene.a_while().await;
            scene.served_again(jumped).await;
        }
    }
}

/// Compiles a library that is put before the system's own.
pub(crate) fn compile(source: &str, library: &Path) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/faults")
        .join(source);
    let mut command = Command::new("cc");
    command.args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"]);
    let compiled = command.arg(library).arg(source).output();
    let compiled = compiled.expect("cc is installed");
    assert!(compiled.status.success(), "{compiled:?}");
}
