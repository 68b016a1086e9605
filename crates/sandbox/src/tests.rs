//! Compares the documents about backends with the code.

use std::{fs, path::Path};

use hookjail_base::model::{
    ProfileName,
    axis::{Axes, Axis, Coverage, Demand},
};
use hookjail_policy::{Policy, Registry};

use crate::{
    Backend, HookUsers, Noop, OwnUids, Runtime, RuntimeKind,
    container::Container,
    landlock::{Landlock, NEWEST_ABI},
    seatbelt,
};

/// Markers around the table.
const MARKS: [&str; 2] = ["<!-- axes: begin -->\n", "<!-- axes: end -->\n"];

#[test]
fn the_table_of_axes_in_the_docs_is_that_of_the_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/backends.md");
    let page = fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(MARKS[0]).unwrap();
    let (_, after) = rest.split_once(MARKS[1]).unwrap();
    let wanted = format!("{before}{}{}{}{after}", MARKS[0], table(), MARKS[1]);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, &wanted).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap();
    assert!(
        kept == wanted,
        "docs/backends.md: run this test with UPDATE_DOCS=1"
    );
}

fn table() -> String {
    let name = ProfileName::parse("strict").unwrap();
    let strict = Policy::clone(Registry::builtin().unwrap().find(&name).unwrap());
    let undemanding = Policy {
        demands: Axes::from_fn(|_| Demand::Wanted),
        ..strict.clone()
    };
    let container = |own_uid| {
        let kind = RuntimeKind::Crun;
        Container::new(
            Runtime {
                kind,
                path: "/usr/bin/crun".into(),
                root: None,
            },
            own_uid,
            None,
        )
    };
    let prepared = |backend: &dyn Backend| backend.prepare(&undemanding).unwrap().axes().clone();
    let columns = [
        (
            "landlock",
            [OwnUids::for_users(HookUsers::default()), OwnUids::NONE]
                .map(|own_uid| prepared(&Landlock::with_abi(NEWEST_ABI, own_uid))),
        ),
        (
            "container",
            [OwnUids::for_users(HookUsers::default()), OwnUids::NONE]
                .map(|own_uid| prepared(&container(own_uid))),
        ),
        ("seatbelt", [(); 2].map(|()| seatbelt::axes(&strict))),
        ("noop", [(); 2].map(|()| prepared(&Noop))),
    ];
    let names: Vec<_> = columns
        .iter()
        .map(|(name, _)| format!("`{name}`"))
        .collect();
    let mut table = format!(
        "| axis | {} |\n|---|{}\n",
        names.join(" | "),
        "---|".repeat(names.len())
    );
    for axis in Axis::ALL {
        let cells = columns.iter().map(|(_, [of_root, of_user])| {
            let [of_root, of_user] = [of_root, of_user].map(|axes| words(axes.get(axis)));
            if of_root == of_user {
                of_root
            } else {
                format!("{of_root}; without root {of_user}")
            }
        });
        let cells: Vec<_> = cells.collect();
        table += &format!("| `{axis}` | {} |\n", cells.join(" | "));
    }
    table
}

fn words(coverage: &Coverage) -> String {
    match coverage {
        Coverage::Degraded { by: means, gap } => format!("degraded, {means}: {gap}"),
        Coverage::Enforced { by: means } => format!("enforced, {means}"),
        Coverage::Ignored => "ignored".to_owned(),
    }
}
