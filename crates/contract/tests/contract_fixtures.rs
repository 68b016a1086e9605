//! Runs every folder under `tests/fixtures/contract/<contract>/`.
//!
//! A folder with a `case.json` is about one hook. `case.json` has the end of the hook, and `stdout` its output, as has
//! `stderr`, if there is one. `expected.json` holds the whole verdict and the contract's event. Where there is an `event.json`,
//! `stdin.json`, if there is one, is what the hook must read, byte for byte.
//!
//! A folder with a `line.json` is about several: a line of `hookjail interpret` without `contract` and `id`, and in
//! `expected.json` the whole answer. A folder with a `gate.json` asks infer's gate. A new case needs no Rust.

#![expect(
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panicking and prints for people"
)]

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use bytes::Bytes;
use hookjail_base::model::{Event, OnFailure};
use hookjail_contract::{
    Bearing, Budget, End, EndKind, Envelope, ExternalEnd, Json, Mode, Tool, infer_gate, read,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Case {
    #[serde(default)]
    bearing: CaseBearing,
    /// Lines of stderr about files that the user cannot open.
    #[serde(default)]
    closed: Vec<String>,
    command: String,
    #[serde(default)]
    config: Map<String, Value>,
    duration_ms: Option<u64>,
    end: CaseEnd,
    #[serde(default)]
    envelope: CaseEnvelope,
    #[serde(default)]
    error: String,
    mode: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    on_failure: CaseOnFailure,
    point: String,
    #[serde(default)]
    raw: bool,
    /// The release of the runtime in which the end was seen to be read like this; empty where only its documents have it so.
    #[serde(default)]
    seen: String,
    #[serde(default)]
    session: String,
    #[serde(default)]
    stdout_truncated: bool,
    turn: Option<u64>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
enum CaseEnd {
    Canceled,
    ExecFailed,
    Exited(i32),
    Killed,
    OutputLimit,
    Signaled(i32),
    TimedOut,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
enum CaseBearing {
    Confined,
    Denied,
    ProcessDenied,
    #[default]
    Unknown,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
enum CaseOnFailure {
    Closed,
    #[default]
    Contract,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct CaseEnvelope {
    agent: String,
    branch: String,
    /// Tokens used, tokens available.
    budget: Option<(u64, u64)>,
    cwd: String,
    parent_session: String,
    repository: String,
    session: String,
    timestamp: Option<String>,
    tool: Option<CaseTool>,
    turn: Option<u64>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct CaseTool {
    duration_ms: Option<u64>,
    error: String,
    input: Option<Value>,
    name: String,
    response: Option<Value>,
    success: Option<bool>,
    use_id: String,
}

/// Several ends.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    point: String,
    #[serde(default)]
    mode: String,
    #[serde(default)]
    config: Map<String, Value>,
    ends: Vec<ExternalEnd>,
}

/// A command, the list that it must be on, and the workspace that it must not leave.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GateCase {
    command: String,
    allow: Vec<String>,
    allowed: bool,
    workspace: Option<PathBuf>,
}

#[test]
fn every_basecoat_case_holds() {
    run_all("basecoat", 40);
}

#[test]
fn every_claude_code_case_holds() {
    run_all("claude_code", 15);
}

#[test]
fn every_codex_case_holds() {
    run_all("codex", 15);
}

#[test]
fn every_copilot_case_holds() {
    run_all("copilot", 15);
}

#[test]
fn every_cursor_case_holds() {
    run_all("cursor", 15);
}

#[test]
fn every_gemini_cli_case_holds() {
    run_all("gemini_cli", 15);
}

#[test]
fn every_loom_case_holds() {
    run_all("loom", 40);
}

#[test]
fn every_observe_case_holds() {
    run_all("observe", 5);
}

#[test]
fn every_docker_agent_case_holds() {
    run_all("docker_agent", 45);
}

#[test]
fn every_infer_case_holds() {
    run_all("infer", 42);
}

#[test]
fn every_qwen_code_case_holds() {
    run_all("qwen_code", 45);
}

#[test]
fn every_reyn_case_holds() {
    run_all("reyn", 40);
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
    if let Some(gate) = read_optional(&folder.join("gate.json")) {
        let case: GateCase = parsed(folder, &gate);
        let gate = infer_gate::gate(&case.command, &case.allow, case.workspace.as_deref());
        let allowed = gate == infer_gate::Gate::Allowed;
        return same(folder, "gate", &allowed, &case.allowed);
    }
    let found = match read_optional(&folder.join("line.json")) {
        Some(line) => several(contract, parsed(folder, &line)),
        None => {
            let case = fs::read(folder.join("case.json")).unwrap();
            one(contract, folder, parsed(folder, &case))?
        }
    };
    let expected: Value = parsed(folder, &fs::read(folder.join("expected.json")).unwrap());
    same(folder, "end", &found, &expected)
}

fn several(contract: &str, line: Line) -> Value {
    let mode = Mode::parse(contract, &line.mode).unwrap();
    let of_all = |end: ExternalEnd| ExternalEnd {
        config: line.config.clone().into_iter().chain(end.config).collect(),
        ..end
    };
    let ends: Vec<_> = line.ends.into_iter().map(of_all).collect();
    match read(mode, &line.point, &ends) {
        Ok(reading) => json!(reading),
        Err(error) => json!({ "error": error.to_string() }),
    }
}

fn one(contract: &str, folder: &Path, case: Case) -> Result<Value, String> {
    let mode = Mode::parse(contract, &case.mode).unwrap();
    let is_release = case.seen.is_empty() || case.seen.contains(|c: char| c.is_ascii_digit());
    assert!(is_release, "{}: `seen` names a release", folder.display());
    let event = read_optional(&folder.join("event.json"));
    if let Some(expected) = read_optional(&folder.join("stdin.json")) {
        let event = Event {
            json: Bytes::from(event.clone().unwrap()),
            point: case.point.clone(),
            raw: case.raw,
        };
        let stdin = mode.stdin(&event, &envelope(case.envelope)).unwrap();
        same(
            folder,
            "stdin",
            &String::from_utf8_lossy(&stdin).into_owned(),
            &String::from_utf8(expected).unwrap(),
        )?;
    }

    let stdout = fs::read(folder.join("stdout")).unwrap();
    let stderr = read_optional(&folder.join("stderr")).unwrap_or_default();
    let end = End {
        at: None,
        bearing: match case.bearing {
            CaseBearing::Confined => Bearing::Confined,
            CaseBearing::Denied => Bearing::Denied,
            CaseBearing::ProcessDenied => Bearing::ProcessDenied,
            CaseBearing::Unknown => Bearing::Unknown,
        },
        closed: &case.closed,
        command: &case.command,
        duration: case.duration_ms.map(Duration::from_millis),
        entry: mode.entry(&case.config).unwrap(),
        error: &case.error,
        event: event.as_deref().unwrap_or_default(),
        kind: match case.end {
            CaseEnd::Canceled => EndKind::Canceled,
            CaseEnd::ExecFailed => EndKind::ExecFailed,
            CaseEnd::Exited(code) => EndKind::Exited(code),
            CaseEnd::Killed => EndKind::Killed,
            CaseEnd::OutputLimit => EndKind::OutputLimit,
            CaseEnd::Signaled(signal) => EndKind::Signaled(signal),
            CaseEnd::TimedOut => EndKind::TimedOut,
        },
        name: &case.name,
        point: &case.point,
        session: &case.session,
        stderr: &stderr,
        stdout: &stdout,
        stdout_truncated: case.stdout_truncated,
        turn: case.turn,
    };
    let on_failure = match case.on_failure {
        CaseOnFailure::Closed => OnFailure::Closed,
        CaseOnFailure::Contract => OnFailure::Contract,
    };
    Ok(json!({ "event": mode.event(&end), "verdict": mode.judge(&end, on_failure) }))
}

fn envelope(case: CaseEnvelope) -> Envelope {
    let tool = |tool: CaseTool| Tool {
        duration_ms: tool.duration_ms,
        error: tool.error,
        input: tool.input.map(Json::from),
        name: tool.name,
        response: tool.response.map(Json::from),
        success: tool.success,
        use_id: tool.use_id,
    };
    Envelope {
        agent: case.agent,
        branch: case.branch,
        budget: case.budget.map(|(used_tokens, effective_limit)| Budget {
            effective_limit,
            used_tokens,
        }),
        cwd: case.cwd,
        parent_session: case.parent_session,
        repository: case.repository,
        session: case.session,
        timestamp: case.timestamp.map(|time| time.parse().unwrap()),
        tool: case.tool.map(tool),
        turn: case.turn,
    }
}

fn parsed<'a, T: Deserialize<'a>>(folder: &Path, text: &'a [u8]) -> T {
    serde_json::from_slice(text).unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
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
