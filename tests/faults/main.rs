//! Faults, each injected while calls are made of a real daemon: what callers saw, how soon it served again by itself, and that
//! no record was lost or doubled, no answer false, and nothing left.
//!
//! `HOOKJAIL_FAULTS=short cargo test --all-features --test faults` takes two minutes at most, `HOOKJAIL_FAULTS=long` more rounds
//! of each; without it they are skipped. `UPDATE_DOCS=1` writes the table into docs/reliability.md.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, prints what it saw, and starts daemons"
)]

mod kills;
mod load;
mod scene;
#[expect(dead_code, reason = "shared with the promises, which need more")]
#[path = "../support/mod.rs"]
mod support;
#[expect(dead_code, reason = "shared with the promises, which need more")]
#[path = "../support/witness.rs"]
mod witness;

use std::{
    env,
    pin::Pin,
    process::ExitCode,
    sync::{Arc, Mutex},
    time::Duration,
};

use libtest_mimic::{Arguments, Failed, Trial};

use scene::{Row, Scene};

/// Something that goes wrong around the daemon.
#[derive(Clone, Copy)]
struct Fault {
    /// The test's name.
    name: &'static str,
    /// What is done, for the table.
    what: &'static str,
    /// How soon every caller is served again once it is over.
    bound: Duration,
    /// Only root can do it.
    needs_root: bool,
    /// Does it to a daemon that it starts itself.
    play: Play,
}

type Play = for<'a> fn(&'a mut Scene) -> Pin<Box<dyn Future<Output = ()> + 'a>>;

const FAULTS: &[Fault] = &[Fault {
    name: "the_daemon_is_killed",
    what: "`kill -9` of the daemon, another is started on its state",
    bound: Duration::from_secs(5),
    needs_root: false,
    play: |scene| Box::pin(kills::daemon(scene)),
}];

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // One daemon at a time: what one fault takes is not to be another's delay.
    arguments.test_threads = Some(1);
    let form = env::var("HOOKJAIL_FAULTS").ok();
    let long = match form.as_deref() {
        Some("long") => true,
        Some("short") | None => false,
        Some(other) => panic!("HOOKJAIL_FAULTS is `short` or `long`, not {other}"),
    };
    let is_root = nix::unistd::geteuid().is_root();
    let rows = Arc::new(Mutex::new(Vec::new()));
    let trials = FAULTS.iter().map(|fault| {
        let rows = Arc::clone(&rows);
        Trial::test(fault.name, move || {
            let row = run(fault, long)?;
            println!("{}{row}", Row::HEADER);
            let wrong = row.wrong();
            rows.lock().unwrap().push(row);
            wrong.map_or(Ok(()), |wrong| Err(wrong.into()))
        })
        .with_ignored_flag(form.is_none() || (fault.needs_root && !is_root))
    });
    let conclusion = libtest_mimic::run(&arguments, trials.collect());
    let rows = rows.lock().unwrap();
    if !rows.is_empty() {
        println!("{}", scene::table(&rows));
    }
    conclusion.exit_code()
}

/// Plays one fault on a runtime of its own, which takes all tasks of the load with it.
fn run(fault: &Fault, long: bool) -> Result<Row, Failed> {
    if fault.needs_root {
        support::needs_root();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let row = runtime.block_on(async {
        let mut scene = Scene::new(fault, long);
        (fault.play)(&mut scene).await;
        scene.end().await
    });
    runtime.shutdown_timeout(Duration::from_secs(5));
    Ok(row)
}
