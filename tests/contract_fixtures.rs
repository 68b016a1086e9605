//! Runs every folder under `tests/fixtures/contract/<contract>/`.
//!
//! `case.json` says how a hook ended and `stdout` what it printed; `expected.json` holds the whole verdict and the contract's
//! event. Where there is an `event.json`, `stdin.json` is what the hook must read, byte for byte. A new case needs no Rust.

#![expect(
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panicking and prints for people"
)]

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use hookjail::{
    contract::{End, EndKind, Mode, tighten},
    request::{Event, OnFailure},
};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Case {
    command: String,
    end: CaseEnd,
    mode: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    on_failure: CaseOnFailure,
    point: String,
    #[serde(default)]
    raw: bool,
    #[serde(default)]
    stdout_truncated: bool,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
enum CaseEnd {
    Canceled,
    ExecFailed,
    Exited(i32),
    OutputLimit,
    Signaled(i32),
    TimedOut,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
enum CaseOnFailure {
    Closed,
    #[default]
    Contract,
}

#[test]
fn every_reyn_case_holds() {
    run_all("reyn", 40);
}

#[test]
fn every_observe_case_holds() {
    run_all("observe", 5);
}

fn run_all(contract: &str, at_least: usize) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/contract")
        .join(contract);
    let mut folders: Vec<PathBuf> = fs::read_dir(&root)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    folders.sort();
    println!("{contract}: {} cases", folders.len());
    assert!(
        folders.len() >= at_least,
        "{} holds only {} cases",
        root.display(),
        folders.len()
    );
    let broken: Vec<String> = folders
        .iter()
        .filter_map(|folder| run(contract, folder).err())
        .collect();
    assert!(
        broken.is_empty(),
        "{} of {} cases:\n{}",
        broken.len(),
        folders.len(),
        broken.join("\n")
    );
}

fn run(contract: &str, folder: &Path) -> Result<(), String> {
    let case: Case = serde_json::from_slice(&fs::read(folder.join("case.json")).unwrap())
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mode = Mode::parse(contract, &case.mode).unwrap();

    if let Some(event) = read_optional(&folder.join("event.json")) {
        let event = Event {
            json: Bytes::from(event),
            point: case.point.clone(),
            raw: case.raw,
        };
        let stdin = mode.stdin(&event).unwrap();
        same(
            folder,
            "stdin",
            &String::from_utf8_lossy(&stdin).into_owned(),
            &fs::read_to_string(folder.join("stdin.json")).unwrap(),
        )?;
    }

    let stdout = fs::read(folder.join("stdout")).unwrap();
    let stderr = read_optional(&folder.join("stderr")).unwrap_or_default();
    let end = End {
        command: &case.command,
        kind: match case.end {
            CaseEnd::Canceled => EndKind::Canceled,
            CaseEnd::ExecFailed => EndKind::ExecFailed,
            CaseEnd::Exited(code) => EndKind::Exited(code),
            CaseEnd::OutputLimit => EndKind::OutputLimit,
            CaseEnd::Signaled(signal) => EndKind::Signaled(signal),
            CaseEnd::TimedOut => EndKind::TimedOut,
        },
        name: &case.name,
        point: &case.point,
        stderr: &stderr,
        stdout: &stdout,
        stdout_truncated: case.stdout_truncated,
    };
    let on_failure = match case.on_failure {
        CaseOnFailure::Closed => OnFailure::Closed,
        CaseOnFailure::Contract => OnFailure::Contract,
    };
    let found =
        json!({ "event": mode.event(&end), "verdict": tighten(mode.interpret(&end), on_failure) });
    let expected: Value =
        serde_json::from_slice(&fs::read(folder.join("expected.json")).unwrap()).unwrap();
    same(folder, "end", &found, &expected)
}

fn same<T: fmt::Debug + PartialEq>(
    folder: &Path,
    what: &str,
    found: &T,
    expected: &T,
) -> Result<(), String> {
    let name = folder.file_name().unwrap_or_default().display();
    (found == expected)
        .then_some(())
        .ok_or_else(|| format!("{name} {what}:\n  found    {found:?}\n  expected {expected:?}"))
}

fn read_optional(path: &Path) -> Option<Vec<u8>> {
    match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        read => Some(read.unwrap()),
    }
}
