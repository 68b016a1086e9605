//! An operator's actions while calls are made.

use std::{
    fs,
    time::{Duration, Instant},
};

use crate::{
    scene::Scene,
    support::{SHIPPED, Setup},
    witness::hookjail,
};

/// Has the journal begin a new file all the time, and looks whether its chain holds.
pub(crate) async fn the_journal_rotates(scene: &mut Scene) {
    const KEPT: usize = 3;
    scene
        .start(Setup {
            config: format!("[audit]\nrotate_bytes = \"64KiB\"\nkeep_files = {KEPT}\n"),
            ..Setup::default()
        })
        .await;
    scene.load(8);
    let config = scene.home().join("hookjail.toml");
    let begun = Instant::now();
    for _ in 0..scene.rounds(8, 100) {
        let verified = hookjail(&config, &["audit", "verify"]).output().unwrap();
        if !verified.status.success() {
            scene.wrong(format!("audit verify: {verified:?}"));
        }
        let files = fs::read_dir(scene.home().join("state/audit")).unwrap();
        let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
        let names = files.map(|entry| name(entry.unwrap()));
        let journals = names.filter(|name| name.starts_with("journal") && name.ends_with("jsonl"));
        let count = journals.count();
        // For a moment a new file is there before the oldest goes.
        if count > KEPT + 2 {
            scene.wrong(format!("{count} files of the journal"));
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    scene.served_again(begun).await;
}

/// Has the daemon read its configuration again and again, which every other time is wrong.
pub(crate) async fn the_configuration_is_reloaded(scene: &mut Scene) {
    scene
        .start(Setup {
            shipped: &SHIPPED,
            ..Setup::default()
        })
        .await;
    scene.load(8);
    let home = scene.home();
    let (file, former) = (home.join("hookjail.toml"), home.join("own.toml"));
    let good = fs::read_to_string(&file).unwrap();
    fs::write(&former, &good).unwrap();
    let socket = home.join("sock-admin");
    let hook = "[[hook]]\ncommand = [\"/bin/true\"]\nprofiles = [\"network\"]\n";
    let texts = [
        (format!("{good}\nnonsense = 1\n"), 125),
        (format!("{good}\n{hook}"), 0),
        (format!("{good}\n[[hook]]\n"), 125),
        (good.clone(), 0),
        ("\0".to_owned(), 125),
        (
            good.replace("[profiles]", "[audit]\nkeep_files = 7\n[profiles]"),
            125,
        ),
        (format!("{hook}\n{good}"), 0),
    ];
    let begun = Instant::now();
    for _ in 0..scene.rounds(1, 10) {
        for (text, expected) in &texts {
            fs::write(&file, text).unwrap();
            let words = ["reload", "--connect", socket.to_str().unwrap()];
            let reloaded = hookjail(&former, &words).output().unwrap();
            if reloaded.status.code() != Some(*expected) {
                scene.wrong(format!("a reload of {text:?}: {reloaded:?}"));
            }
            scene.a_while().await;
        }
    }
    fs::write(&file, &good).unwrap();
    scene.served_again(begun).await;
}
