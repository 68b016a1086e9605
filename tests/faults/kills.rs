//! Processes that are killed.

use std::time::Instant;

use crate::{scene::Scene, support::Setup};

/// Kills the daemon over and over, and starts another in its place, as a supervisor does.
pub(crate) async fn daemon(scene: &mut Scene) {
    scene.start(Setup::default()).await;
    scene.load(8);
    for _ in 0..scene.rounds(3, 30) {
        scene.a_while().await;
        let killed = Instant::now();
        scene.kill_and_restart().await;
        scene.served_again(killed).await;
    }
}
