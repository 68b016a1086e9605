//! Files of hooks, each with what it comes to: `tests/fixtures/config/<contract>/good*` beside `….expected.json`, which is
//! what `hookjail hooks check --json` prints, and `bad*` beside `….expected.txt`, with which the error starts. `….given.json` has
//! the switches that are set, and the directory where relative ones start. A case is a file; adding one needs no Rust.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use hookjail::contract::hook_file::{Origin, Switches, contracts, read};
use hookjail_daemon::testing::hooks::show;
use serde::Deserialize;
use serde_json::Value;

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    base: Option<PathBuf>,
    #[serde(default)]
    env: BTreeMap<String, String>,
}

#[test]
fn every_file_is_read_as_expected() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/config");
    let mut wrong = Vec::new();
    for contract in contracts() {
        let cases = cases(&root.join(contract));
        assert!(cases.len() >= 6, "{contract} has {} cases", cases.len());
        wrong.extend(cases.iter().filter_map(|case| run(contract, case).err()));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// Returns the files that are no part of another's case.
fn cases(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut cases: Vec<_> = paths.filter(|path| !is_beside(path)).collect();
    cases.sort();
    cases
}

fn is_beside(path: &Path) -> bool {
    let name = path.file_name().unwrap().to_string_lossy();
    name.contains(".expected.") || name.contains(".given.")
}

fn run(contract: &str, case: &Path) -> Result<(), String> {
    let name = case.file_name().unwrap().to_string_lossy();
    let companion = |suffix| fs::read_to_string(case.with_extension(suffix)).ok();
    let conditions: Given = companion("given.json")
        .map(|text| serde_json::from_str(&text).unwrap())
        .unwrap_or_default();
    let origin = Origin {
        base: conditions.base.as_deref(),
        name: &name,
    };
    let switches = Switches::read(|name| conditions.env.get(name).cloned());
    let text = fs::read_to_string(case).unwrap();
    let found = read(contract, &text, &origin, &switches);
    let found = found
        .map(|read| show::file(&read))
        .map_err(|error| error.to_string());
    let expected = if name.starts_with("good") {
        let text = companion("expected.json").unwrap_or_default();
        Ok(serde_json::from_str::<Value>(&text).unwrap_or_default())
    } else {
        Err(companion("expected.txt")
            .unwrap_or_default()
            .trim()
            .to_owned())
    };
    let is_same = match (&found, &expected) {
        (Err(found), Err(start)) => !start.is_empty() && found.starts_with(start),
        (found, expected) => found == expected,
    };
    if is_same {
        return Ok(());
    }
    Err(format!(
        "{contract}/{name}\nexpected {expected:#?}\nfound {found:#?}"
    ))
}
