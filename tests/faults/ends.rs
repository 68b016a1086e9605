//! Daemons and keepers that are killed, asked to end or replaced.

use std::{
    fs,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::{fs::symlink, net::UnixListener},
    },
    time::Instant,
};

use nix::{
    fcntl::{FcntlArg, FdFlag, fcntl},
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::{
    scene::Scene,
    support::{Setup, directory},
    witness::{keeper_of, until},
};

/// Kills the daemon over and over, and starts another in its place, as a supervisor does.
pub(crate) async fn the_daemon_is_killed(scene: &mut Scene) {
    scene.start(Setup::default()).await;
    scene.load(8);
    for _ in 0..scene.rounds(3, 15) {
        scene.a_while().await;
        let killed = Instant::now();
        scene.kill_and_restart().await;
        scene.served_again(killed).await;
    }
}

/// Kills the keeper: another takes its place.
pub(crate) async fn the_keeper_is_killed(scene: &mut Scene) {
    scene.start(Setup::default()).await;
    scene.load(8);
    for _ in 0..scene.rounds(2, 10) {
        scene.a_while().await;
        let keeper = keeper_of(scene.daemon()).unwrap();
        kill(Pid::from_raw(keeper), Signal::SIGKILL).unwrap();
        let killed = Instant::now();
        until("another keeper", || {
            keeper_of(scene.daemon()).is_some_and(|next| next != keeper)
        })
        .await;
        scene.served_again(killed).await;
    }
}

/// Asks the daemon to end, and starts another when it has ended.
pub(crate) async fn the_daemon_is_told_to_end(scene: &mut Scene) {
    scene.start(Setup::default()).await;
    scene.load(8);
    for _ in 0..scene.rounds(2, 20) {
        scene.a_while().await;
        scene.signal(Signal::SIGTERM);
        scene.ended().await;
        let ended = Instant::now();
        scene.kill_and_restart().await;
        scene.served_again(ended).await;
    }
}

/// Hands the listening socket to one daemon after the other, as a service manager does, but without waiting for the first one's
/// end.
pub(crate) async fn the_daemon_is_replaced(scene: &mut Scene) {
    let home = directory();
    let socket = home.path().join("sock");
    let listener = OwnedFd::from(UnixListener::bind(&socket).unwrap());
    // Every process that is started from now on has it.
    fcntl(&listener, FcntlArg::F_SETFD(FdFlag::empty())).unwrap();
    let hand = format!(
        "export LISTEN_FDS=1 LISTEN_PID=$$; exec \"$@\" 3<&{}",
        listener.as_raw_fd()
    );
    let first = home.path().to_owned();
    let setup = Setup {
        wrapper: ["/bin/sh", "-c", &hand, "sh"].map(str::to_owned).into(),
        ..Setup::default()
    };
    scene.start_in(home, setup.clone()).await;
    scene.load(8);
    for _ in 0..scene.rounds(2, 20) {
        scene.a_while().await;
        let next = directory();
        // Where a daemon listens that is handed its socket.
        symlink(&socket, next.path().join("sock")).unwrap();
        fs::create_dir(next.path().join("profiles")).unwrap();
        let setup = Setup {
            beside: Some(first.clone()),
            ..setup.clone()
        };
        let begun = Instant::now();
        scene.signal(Signal::SIGTERM);
        scene.replace(next, setup).await;
        scene.served_again(begun).await;
    }
    fcntl(&listener, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).unwrap();
    scene.keep(listener);
}
