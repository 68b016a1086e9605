//! Syscalls made up by chance, made by a hook: every one must be answered by the rules of the table and of the grants, and
//! nothing outside may change.
//!
//! `HOOKJAIL_FUZZ_SECONDS` is the duration (a few by default), `HOOKJAIL_FUZZ_SEED` repeats the calls of an earlier run. A
//! break is made as small as it gets and printed so that `HOOKJAIL_FUZZ_REPLAY` makes those calls alone:
//!
//! ```sh
//! HOOKJAIL_FUZZ_SECONDS=3600 cargo test --test spec escape_fuzz -- --nocapture
//! HOOKJAIL_FUZZ_REPLAY='strict 29:x2,x1,x0' cargo test --test spec escape_fuzz -- --nocapture
//! ```

#![expect(
    clippy::print_stdout,
    reason = "prints the calls, and how to repeat them"
)]

mod bench;
mod calls;
mod generate;
mod grant_sets;
mod model;
mod shapes;

use std::{
    env,
    time::{Duration, Instant},
};

use self::{
    bench::{Bench, Break, Side, Tally},
    calls::{Call, Chance, decode},
    model::Verdict,
};

/// Number of calls of one hook.
const BATCH: usize = 400;

/// Number of rounds of a profile before the next has its turn.
const TURN: u64 = 4;

#[tokio::test]
async fn calls_made_up_by_chance_are_answered_as_specified_and_change_nothing_outside() {
    let mut bench = Bench::start(None).await;
    if let Ok(replay) = env::var("HOOKJAIL_FUZZ_REPLAY") {
        return again(&mut bench, &replay).await;
    }
    let seed = number("HOOKJAIL_FUZZ_SEED").unwrap_or_else(|| {
        let random = uuid::Uuid::now_v7().as_u128();
        u64::try_from(random & u128::from(u64::MAX)).unwrap()
    });
    let time = Duration::from_secs(number("HOOKJAIL_FUZZ_SECONDS").unwrap_or(4));
    let mut tally = Tally::default();

    let found = search(&mut bench, seed, time, &mut tally).await;

    report(seed, &tally, found.as_deref());
    bench.assert_well().await;
    assert!(found.is_none(), "{}", found.unwrap());
    // The search has reached all kinds of results: else it would also find nothing where nothing works.
    assert!(tally.distinct.len() > 300, "{tally:?}");
    assert!(tally.allowed > 0 && tally.refused > 0 && tally.killed > 0);
    assert!(tally.opened > 0 && tally.changed > 0, "{tally:?}");
}

/// Shows that the fuzzer finds missing elements. `HOOKJAIL_FUZZ_WEAKEN` names other elements to take out, one after the other.
#[cfg(debug_assertions)]
#[tokio::test]
#[ignore = "takes minutes: up to one for each element"]
async fn an_element_that_is_taken_out_of_the_policy_is_found_within_a_minute() {
    let elements = env::var("HOOKJAIL_FUZZ_WEAKEN").unwrap_or_else(|_| ELEMENTS.join(" "));
    for element in elements.split_whitespace() {
        // The daemon's own proof would refuse to run anything.
        let mut bench = Bench::start(Some(&format!("{element} proof:self-test"))).await;
        let mut tally = Tally::default();
        let time = Duration::from_secs(60);
        let found = search(&mut bench, 1, time, &mut tally).await;
        println!(
            "{element}: found after {:?}; {} calls with those that made it small: {}",
            tally.found_after,
            tally.calls,
            found.as_deref().unwrap_or("nothing"),
        );
        let in_time = tally.found_after.is_some_and(|after| after < time);
        assert!(in_time, "without {element}: {:?}", tally.found_after);
    }
}

/// Each of them stops something that nothing else stops. Without `landlock:ReadFile` the daemon runs nothing: its canary opens.
#[cfg(debug_assertions)]
const ELEMENTS: &[&str] = &[
    "seccomp:socket",
    "seccomp:chmod",
    "seccomp:ptrace",
    "seccomp:io_uring_setup",
    "closing:setpgid",
    "argument:socketpair:1",
    "argument:prlimit64:0",
    "guard:x32",
    "landlock:ReadDir",
    "landlock:WriteFile",
    "landlock:Truncate",
    "landlock:Execute",
    "landlock:MakeReg",
    "landlock:MakeDir",
    "landlock:MakeSym",
    "landlock:RemoveFile",
    "landlock:RemoveDir",
    "landlock:Signal",
];

/// Makes up calls until something breaks or the time is over. Returns a break, made as small as it gets.
async fn search(bench: &mut Bench, seed: u64, time: Duration, tally: &mut Tally) -> Option<String> {
    let begin = Instant::now();
    let sides = ["strict", "pipeline", "outbound"].map(|profile| bench.side(profile));
    for round in 0.. {
        let turn = usize::try_from(round / TURN).unwrap();
        let side = &sides[turn % sides.len()];
        let mut chance = Chance(seed.wrapping_add(round));
        let mut calls = Vec::new();
        while calls.len() < BATCH {
            let call = bench.pools.call(&mut chance, &side.model.spec);
            if side.model.verdict(&call, 0) != Verdict::Killed {
                calls.push(call);
            }
        }
        if let Some(found) = bench.round(side, &calls, tally).await {
            tally.found_after = Some(begin.elapsed());
            return Some(describe(bench, side, calls, found, tally).await);
        }
        for _ in 0..2 {
            let call = bench.pools.deadly(&mut chance, &side.model.spec);
            tally.distinct.insert(call.number());
            if let Some(found) = bench.deadly(side, &call, tally).await {
                tally.found_after = Some(begin.elapsed());
                return Some(words(bench, side, &[call], &found));
            }
        }
        if round % 8 == 0 {
            bench.assert_well().await;
        }
        if begin.elapsed() > time {
            break;
        }
    }
    None
}

/// Makes the calls that break something as few and as simple as it gets, by having them made again.
async fn describe(
    bench: &mut Bench,
    side: &Side,
    mut calls: Vec<Call>,
    mut found: Break,
    tally: &mut Tally,
) -> String {
    if let Some(last) = found.at {
        calls.truncate(last + 1);
    }
    // By halves, quarters and so on, each left out where the rest breaks as well; the last call alone first, which is most
    // often all it takes.
    let last = calls[calls.len() - 1..].to_vec();
    if let Some(same) = bench.round(side, &last, tally).await {
        (calls, found) = (last, same);
    }
    let mut part = calls.len().div_ceil(2);
    // A break that does not repeat each time is not worth more.
    let give_up = Instant::now() + Duration::from_secs(30);
    while calls.len() > 1 && Instant::now() < give_up {
        let mut start = 0;
        while start < calls.len() && calls.len() > 1 {
            let end = (start + part).min(calls.len());
            let rest = [&calls[..start], &calls[end..]].concat();
            match bench.round(side, &rest, tally).await {
                Some(same) => (calls, found) = (rest, same),
                None => start = end,
            }
        }
        if part == 1 {
            break;
        }
        part = part.div_ceil(2);
    }
    for index in 0..calls.len() {
        if calls.len() > 20 {
            break;
        }
        while let Some((simpler, same)) = simplified(bench, side, &calls, index, tally).await {
            (calls, found) = (simpler, same);
        }
    }
    words(bench, side, &calls, &found)
}

/// Returns the calls with one of them simpler that break as well.
async fn simplified(
    bench: &mut Bench,
    side: &Side,
    calls: &[Call],
    index: usize,
    tally: &mut Tally,
) -> Option<(Vec<Call>, Break)> {
    for simpler in calls[index].simpler() {
        let mut calls = calls.to_vec();
        calls[index] = simpler;
        let killed = side.model.verdict(&calls[index], 0) == Verdict::Killed;
        if let Some(same) = bench.round(side, &calls, tally).await
            && !killed
        {
            return Some((calls, same));
        }
    }
    None
}

/// Returns the description of a break and the command line that repeats it.
fn words(bench: &Bench, side: &Side, calls: &[Call], found: &Break) -> String {
    let names: Vec<_> = calls
        .iter()
        .map(|call| hookjail_sandbox::seccomp::syscalls::name(call.number()).unwrap_or("?"))
        .collect();
    format!(
        "BREAK under `{profile}` by {names:?}: {what}\nHOOKJAIL_FUZZ_REPLAY='{profile} {calls}'",
        calls = bench.abstracted(calls),
        profile = side.profile,
        what = found.what,
    )
}

/// Repeats the calls of a replay.
async fn again(bench: &mut Bench, replay: &str) {
    let (profile, calls) = replay.split_once(' ').expect("a profile and calls");
    let side = bench.side(profile);
    let mut tally = Tally::default();
    let (deadly, calls): (Vec<_>, Vec<_>) = decode(&bench.insert(calls))
        .into_iter()
        .partition(|call| side.model.verdict(call, 0) == Verdict::Killed);
    for call in &deadly {
        let found = bench.deadly(&side, call, &mut tally).await;
        assert!(found.is_none(), "{call}: {found:?}");
    }
    let found = bench.round(&side, &calls, &mut tally).await;
    println!("{calls:?}: {found:?}");
    bench.assert_well().await;
    assert!(found.is_none(), "{found:?}");
}

fn report(seed: u64, tally: &Tally, found: Option<&str>) {
    println!(
        "HOOKJAIL_FUZZ_SEED={seed}: {} calls of {} numbers by {} hooks: {} allowed, {} refused, {} killed; {} files opened, {} paths \
         changed, {} hooks ended by a call; {} breaks",
        tally.calls + tally.killed,
        tally.distinct.len(),
        tally.hooks,
        tally.allowed,
        tally.refused,
        tally.killed,
        tally.opened,
        tally.changed,
        tally.ended,
        u8::from(found.is_some()),
    );
    if let Some(found) = found {
        println!("{found}");
    }
}

fn number(name: &str) -> Option<u64> {
    env::var(name)
        .ok()
        .map(|value| value.parse().expect("a number"))
}
