//! Faults, each injected while calls are made of a real daemon. Measures the answers, and how soon the daemon serves again by
//! itself. Checks that no record was lost or doubled, no answer false, and nothing left.
//!
//! `HOOKJAIL_FAULTS=short cargo test --test faults` takes a minute or two, `HOOKJAIL_FAULTS=long` more rounds
//! of each; without it they are skipped. `UPDATE_DOCS=1` writes the table into docs/reliability.md.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, prints what it saw, and starts daemons"
)]

mod calls;
mod clients;
mod disks;
mod ends;
mod judge;
mod limits;
mod load;
mod operator;
mod power;
mod scene;
mod signals;
#[expect(dead_code, reason = "shared with the promises, which need more")]
#[path = "../support/mod.rs"]
mod support;
mod time;
#[expect(dead_code, reason = "shared with the promises, which need more")]
#[path = "../support/witness.rs"]
mod witness;

use std::{
    env, fs, io, iter,
    path::Path,
    pin::Pin,
    process::ExitCode,
    sync::{Arc, Mutex},
    time::Duration,
};

use libtest_mimic::{Arguments, Failed, Trial};

use scene::{Row, Scene};

/// Something that goes wrong around the daemon.
#[derive(Clone, Copy, Debug)]
struct Fault {
    /// The test's name.
    name: &'static str,
    /// The fault in words, for the table.
    what: &'static str,
    /// The maximum time until every caller is served again once it is over.
    bound: Duration,
    /// The answers that callers may get, besides ends of their hooks and passed deadlines.
    told: &'static [&'static str],
    /// Answers of hooks that ran may be lost with their connections.
    loses_answers: bool,
    /// Only root can do it.
    needs_root: bool,
    /// Does it to a daemon that it starts itself.
    play: Play,
}

type Play = for<'a> fn(&'a mut Scene) -> Pin<Box<dyn Future<Output = ()> + 'a>>;

impl Fault {
    /// A fault that any user can cause, and callers do not notice.
    const fn unnoticed(name: &'static str, what: &'static str, play: Play) -> Self {
        Self {
            name,
            what,
            bound: Duration::from_secs(5),
            told: &[],
            loses_answers: false,
            needs_root: false,
            play,
        }
    }

    const fn of_a_full_disk(name: &'static str, what: &'static str, play: Play) -> Self {
        Self {
            told: FULL,
            needs_root: true,
            ..Self::unnoticed(name, what, play)
        }
    }
}

const LOST: &str = "connection lost";
const FULL: &[&str] = &["AUDIT_UNAVAILABLE", "AUDIT_UNAVAILABLE (ran)", "OVERLOADED"];

/// Every fault: its function, what it is in a few words, and what it may do to callers.
const FAULTS: &[Fault] = &[
    Fault {
        told: &[LOST],
        loses_answers: true,
        ..Fault::unnoticed(
            "the_daemon_is_killed",
            "`kill -9` of the daemon, another is started on its state",
            |scene| Box::pin(ends::the_daemon_is_killed(scene)),
        )
    },
    Fault::unnoticed("the_keeper_is_killed", "`kill -9` of the keeper", |scene| {
        Box::pin(ends::the_keeper_is_killed(scene))
    }),
    Fault {
        told: &[LOST, "DRAINING", "CANCELED"],
        ..Fault::unnoticed(
            "the_daemon_is_told_to_end",
            "SIGTERM, another is started on its state once it has drained",
            |scene| Box::pin(ends::the_daemon_is_told_to_end(scene)),
        )
    },
    Fault {
        told: &[LOST, "DRAINING", "CANCELED"],
        ..Fault::unnoticed(
            "the_daemon_is_replaced",
            "upgrade: another daemon takes the listening socket while the first drains",
            |scene| Box::pin(ends::the_daemon_is_replaced(scene)),
        )
    },
    Fault::unnoticed(
        "the_daemon_is_stopped",
        "SIGSTOP of the daemon across deadlines, then SIGCONT",
        |scene| Box::pin(time::the_daemon_is_stopped(scene)),
    ),
    Fault::unnoticed(
        "the_wall_clock_jumps",
        "the wall clock jumps by hours and years, forth and back",
        |scene| Box::pin(time::the_wall_clock_jumps(scene)),
    ),
    Fault::of_a_full_disk(
        "the_disk_of_the_state_is_full",
        "the disk of the state is full, then has room",
        |scene| Box::pin(disks::the_disk_of_the_state_is_full(scene)),
    ),
    Fault::of_a_full_disk(
        "the_disk_of_the_hooks_is_full",
        "the disk of the scratch directories is full, then has room",
        |scene| Box::pin(disks::the_disk_of_the_hooks_is_full(scene)),
    ),
    Fault::of_a_full_disk(
        "one_disk_for_both_is_full",
        "the one disk of both is full, then has room",
        |scene| Box::pin(disks::one_disk_for_both_is_full(scene)),
    ),
    Fault {
        needs_root: true,
        told: &["OVERLOADED", "BACKEND_UNCONFIRMED"],
        ..Fault::unnoticed(
            "the_disk_of_the_hooks_has_no_inode",
            "the disk of the scratch directories has no inode, then has",
            |scene| Box::pin(disks::the_disk_of_the_hooks_has_no_inode(scene)),
        )
    },
    Fault {
        told: &["AUDIT_UNAVAILABLE", "AUDIT_UNAVAILABLE (ran)"],
        ..Fault::unnoticed(
            "the_journal_hangs",
            "records cannot be written for a second, and for some more, then can",
            |scene| Box::pin(disks::the_journal_hangs(scene)),
        )
    },
    Fault {
        told: &[
            "OVERLOADED",
            "OVERLOADED (ran)",
            "AUDIT_UNAVAILABLE",
            "AUDIT_UNAVAILABLE (ran)",
        ],
        ..Fault::unnoticed(
            "descriptors_run_out",
            "the daemon may open no more files, then as many as before",
            |scene| Box::pin(limits::descriptors_run_out(scene)),
        )
    },
    Fault {
        told: &["OVERLOADED"],
        ..Fault::unnoticed(
            "descriptors_are_few",
            "a limit of 384 descriptors from the start, 24 callers",
            |scene| Box::pin(limits::descriptors_are_few(scene)),
        )
    },
    Fault {
        told: &[
            "OVERLOADED",
            "OVERLOADED (ran)",
            "AUDIT_UNAVAILABLE",
            "AUDIT_UNAVAILABLE (ran)",
            // Where a disk fails, which is no lack of resources: in a run, and in a self-test.
            "INTERNAL",
            "BACKEND_UNCONFIRMED",
            LOST,
        ],
        loses_answers: true,
        ..Fault::unnoticed(
            "calls_fail",
            "each syscall that can lack something fails: the first in a request, then the second, and so on",
            |scene| Box::pin(calls::calls_fail(scene)),
        )
    },
    Fault {
        told: &["(caller gone)"],
        ..Fault::unnoticed(
            "clients_are_slow_silent_or_gone",
            "connections that send nothing or half a word, callers that go away, readers that pause",
            |scene| Box::pin(clients::clients_are_slow_silent_or_gone(scene)),
        )
    },
    Fault::unnoticed(
        "the_journal_rotates",
        "a new file of the journal every 64 KiB, 3 kept, verified all the while",
        |scene| Box::pin(operator::the_journal_rotates(scene)),
    ),
    Fault::unnoticed(
        "the_configuration_is_reloaded",
        "reloads, by turns of what is right and of what is wrong",
        |scene| Box::pin(operator::the_configuration_is_reloaded(scene)),
    ),
];

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // One daemon at a time: the resources of one fault are not to be another's delay.
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
            println!("{row}");
            let wrong = row.wrong();
            rows.lock().unwrap().push(row);
            wrong.map_or(Ok(()), |wrong| Err(wrong.into()))
        })
        .with_ignored_flag(form.is_none() || (fault.needs_root && !is_root))
    });
    let cuts = power::POLICIES.map(|policy| {
        Trial::test(format!("the_power_is_cut::{policy}"), move || {
            if !power::has_disks() {
                println!("skipped: no disk in a file can be mounted here");
                return Ok(());
            }
            let findings =
                runtime()?.block_on(power::the_power_is_cut(policy, if long { 30 } else { 2 }));
            println!("{policy}: {findings}");
            findings.wrong().map_or(Ok(()), |wrong| Err(wrong.into()))
        })
        .with_ignored_flag(form.is_none() || !is_root)
    });
    let judge = Trial::test("the_judge_sees_what_is_wrong", || {
        judge::the_judge_sees_what_is_wrong();
        Ok(())
    });
    let trials = iter::once(judge).chain(trials).chain(cuts).collect();
    if form.is_none() && !arguments.list {
        println!("faults are played where HOOKJAIL_FAULTS is `short` or `long`");
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    let rows = rows.lock().unwrap();
    if !rows.is_empty() {
        println!("{}", scene::table(&rows));
    }
    if env::var_os("UPDATE_DOCS").is_some_and(|value| value == "1") {
        update(&scene::table(&rows));
    }
    conclusion.exit_code()
}

fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
}

/// Plays one fault on a runtime of its own, which takes all tasks of the load with it.
fn run(fault: &Fault, long: bool) -> Result<Row, Failed> {
    if fault.needs_root {
        support::needs_root();
    }
    let runtime = runtime()?;
    let row = runtime.block_on(async {
        let mut scene = Scene::new(fault, long);
        (fault.play)(&mut scene).await;
        scene.end().await
    });
    runtime.shutdown_timeout(Duration::from_secs(5));
    Ok(row)
}

/// Puts the table into the document in the place of the one that is there.
fn update(table: &str) {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reliability.md");
    let text = fs::read_to_string(&page).unwrap();
    let head = Row::HEADER.lines().next().unwrap();
    let (before, from) = text.split_once(head).expect("the page has the table");
    let after = from.split_once("\n\n").map_or("", |(_, after)| after);
    fs::write(page, format!("{before}{table}\n{after}")).unwrap();
}
