//! The tables of `docs/contracts.md`, generated from the contracts.

use std::{collections::BTreeMap, env, fmt::Write, fs, time::Duration};

use hookjail_base::model::OnFailure;

use super::{End, EndKind, Equality, Mode, Scheduling, Stop, Verdict};

const BEGIN: &str = "<!-- table: begin -->\n";
const END: &str = "<!-- table: end -->\n";

/// The most common points for guards, in each contract's spelling.
const GATES: [&str; 6] = [
    "PreToolUse",
    "pre_tool_use",
    "preToolUse",
    "BeforeTool",
    "tool.pre",
    "pre_tool",
];

#[test]
fn the_tables_in_the_docs_are_those_of_the_code() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/contracts.md");
    let page = fs::read_to_string(path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (written, after) = rest.split_once(END).unwrap();
    let tables = tables();
    if env::var_os("UPDATE_DOCS").is_some_and(|value| value == "1") {
        fs::write(path, format!("{before}{BEGIN}{tables}{END}{after}")).unwrap();
        return;
    }
    assert_eq!(
        written, tables,
        "docs/contracts.md is not what the contracts do; this writes it: UPDATE_DOCS=1 cargo test --lib the_tables_in_the_docs"
    );
}

fn tables() -> String {
    let mut text = String::from("\n### How hooks are run\n\n");
    text += &table(
        &[
            "contract",
            "mode",
            "version",
            "a command line goes to",
            "profile",
            "timeout",
            "several hooks",
            "read of stdout",
            "points",
        ],
        Mode::ALL.map(|mode| {
            let defaults = mode.defaults("");
            let cap = mode.facts().output_cap;
            vec![
                format!("`{}`", mode.facts().contract),
                mode_name(mode),
                format!("`{}`", mode.facts().version),
                match mode.facts().is_process {
                    true => defaults.command.to_string(),
                    false => "nothing is run".to_owned(),
                },
                format!("`{}`", defaults.profile),
                by_point(mode, |point| time(mode.defaults(point).timeout)),
                by_point(mode, |point| {
                    format!("{}{}", scheduling(mode.scheduling(point)), equals(mode))
                }),
                cap.map_or("all".to_owned(), |cap| format!("{} MiB", cap >> 20)),
                match (mode.facts().points.len(), mode.facts().other_points) {
                    (0, _) => "any".to_owned(),
                    (count, None) => count.to_string(),
                    (count, Some(_)) => format!("{count}, and any other"),
                },
            ]
        }),
    );
    text += "\n### What stops a tool call\n\n";
    text += &table(
        &[
            "contract",
            "point",
            "exit 1",
            "exit 2",
            "exit 3",
            "timeout",
            "not started",
            "exit 0, `{` on stdout",
            "exit 0, other text",
            "exit 0, nothing",
        ],
        Mode::ALL.map(|mode| {
            let gate = gate(mode);
            let judged = |kind, stdout: &str| {
                let end = End {
                    kind,
                    point: gate,
                    stderr: b"why",
                    stdout: stdout.as_bytes(),
                    ..End::default()
                };
                spelled(&mode.judge(&end, OnFailure::Contract))
            };
            vec![
                full_name(mode),
                format!("`{gate}`"),
                judged(EndKind::Exited(1), ""),
                judged(EndKind::Exited(2), ""),
                judged(EndKind::Exited(3), ""),
                judged(EndKind::TimedOut, ""),
                judged(EndKind::ExecFailed, ""),
                judged(EndKind::Exited(0), "{"),
                judged(EndKind::Exited(0), "a word"),
                judged(EndKind::Exited(0), ""),
            ]
        }),
    );
    text += "\n### Which points can be stopped\n\n";
    text += &table(
        &[
            "contract",
            "`DENY` at",
            "`BLOCK` at",
            "`BLOCK`, which is to go on working, at",
            "nothing can be stopped at",
        ],
        contracts().map(|mode| {
            let others = |stop| (mode.facts().other_points == Some(stop)).then_some("any other");
            let points_with = |stop| {
                let points = mode
                    .facts()
                    .points
                    .iter()
                    .filter(|point| point.stop == stop);
                let names = points.map(|point| format!("`{}`", point.name));
                let names: Vec<_> = names.chain(others(stop).map(str::to_owned)).collect();
                names.join(", ")
            };
            vec![
                format!("`{}`", mode.facts().contract),
                points_with(Stop::Call),
                points_with(Stop::Operation),
                points_with(Stop::Ending),
                points_with(Stop::Nothing),
            ]
        }),
    );
    text += "\n### Keys of an entry\n\n";
    text += &table(
        &[
            "contract",
            "bear on how an end is read",
            "are taken and left",
        ],
        contracts().map(|mode| {
            let names = |names: Vec<&str>| {
                let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
                names.join(", ")
            };
            let facts = mode.facts();
            let keys = facts.keys.iter().map(|(name, _)| *name);
            vec![
                format!("`{}`", mode.facts().contract),
                names(["allowed"].into_iter().chain(keys).collect()),
                names(facts.carried.to_vec()),
            ]
        }),
    );
    text += "\n### What runtimes call Base Coat's points\n\n";
    text += &table(
        &[
            "Base Coat",
            "a dispatch under `basecoat` takes for the same",
        ],
        Mode::Basecoat.facts().points.iter().filter_map(|point| {
            let aliases = contracts().flat_map(|mode| {
                let shared = mode.facts().shared_points.iter();
                let shared = shared.filter(|(shared, _)| *shared == point.name);
                shared.map(move |(_, alias)| format!("`{alias}` ({})", mode.facts().contract))
            });
            let aliases: Vec<_> = aliases.collect();
            (!aliases.is_empty()).then(|| vec![format!("`{}`", point.name), aliases.join(", ")])
        }),
    );
    text + "\n"
}

/// Returns a mode of each contract that has rules of its own.
fn contracts() -> impl Iterator<Item = Mode> {
    Mode::ALL
        .into_iter()
        .filter(|mode| Mode::any_of(mode.facts().contract) == Some(*mode) && *mode != Mode::Observe)
}

fn table(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut text = format!("| {} |\n|{}\n", head.join(" | "), "---|".repeat(head.len()));
    for row in rows {
        writeln!(text, "| {} |", row.join(" | ")).unwrap();
    }
    text.replace("|  |", "| |").replace("|  |", "| |")
}

fn mode_name(mode: Mode) -> String {
    let names = mode.facts().modes.iter().filter(|name| !name.is_empty());
    let names: Vec<_> = names.map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

fn full_name(mode: Mode) -> String {
    match mode.mode_name() {
        "" => format!("`{}`", mode.facts().contract),
        name => format!("`{}`, `{name}`", mode.facts().contract),
    }
}

/// Lists the value of most points, and the points with another.
fn by_point(mode: Mode, value: impl Fn(&str) -> String) -> String {
    let common = value("");
    let mut others: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for point in mode.facts().points {
        let value = value(point.name);
        if value != common {
            others.entry(value).or_default().push(point.name);
        }
    }
    let others = others.into_iter().map(|(value, points)| {
        let points: Vec<_> = points.iter().map(|point| format!("`{point}`")).collect();
        format!("; {value} at {}", points.join(", "))
    });
    common + &others.collect::<String>()
}

fn time(timeout: Option<Duration>) -> String {
    timeout.map_or("the profile's".to_owned(), |timeout| {
        format!("{} s", timeout.as_secs_f64())
    })
}

fn equals(mode: Mode) -> &'static str {
    match mode.facts().equality {
        Equality::ButForTime => ", those once that differ at most in their time",
        Equality::Never => "",
        Equality::Whole => ", equal ones once",
    }
}

const fn scheduling(scheduling: Scheduling) -> &'static str {
    match scheduling {
        Scheduling::AtOnce => "side by side",
        Scheduling::InTurn => "in turn",
        Scheduling::Pipeline => "in turn, rewrites handed on",
        Scheduling::PriorityUntilBlock => "by priority, rewrites handed on, until one blocks",
        Scheduling::UntilBlock => "in turn, until one blocks",
    }
}

/// Returns the point before a tool call; of a contract without one, its first point.
fn gate(mode: Mode) -> &'static str {
    let names = || mode.facts().points.iter().map(|point| point.name);
    let gate = names().find(|name| GATES.contains(name));
    gate.or_else(|| names().next()).unwrap_or("any")
}

fn spelled(verdict: &Verdict) -> String {
    let decision = verdict.decision.as_str();
    let failed = if verdict.failed { ", failed" } else { "" };
    let stops = if verdict.decision.stops() { "**" } else { "" };
    format!("{stops}{decision}{stops}{failed}")
}
