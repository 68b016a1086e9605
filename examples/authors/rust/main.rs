//! Runs one hook of a runtime before a tool call: `author EVENT HOOK`. With exit code 0 the call may proceed, with 2 not.
#![expect(clippy::disallowed_methods, reason = "this example starts hookjail")]
#![expect(clippy::print_stdout, reason = "its user reads that")]

use std::{env, path::Path, process::Command, process::ExitCode};

use serde_json::Value;

const PROFILE: &str = "workspace-ro";

/// Has `hookjail run` answer about a hook, in JSON.
fn hookjail(options: &[&str], event: &str, hook: &Path) -> Result<Value, String> {
    let contract = ["--contract", "claude-code", "--point", "PreToolUse"];
    let output = Command::new("hookjail")
        .args(["run", "--json", "--profile", PROFILE, "--event", event])
        .args(contract)
        .args(options)
        .arg("--")
        .arg(hook)
        .output()
        .map_err(|error| format!("hookjail is not there: {error}"))?;
    let answer = serde_json::from_slice::<Value>(&output.stdout);
    let answer = answer.map_err(|_| "hookjail gives no answer".to_owned())?;
    match answer["error"]["message"].as_str() {
        Some(message) => Err(format!("hookjail refuses the hook: {message}")),
        None => Ok(answer),
    }
}

/// Shows what the hook could do and the bytes that a trust is about, and runs it by the daemon. Fails where the call must not go on.
fn run(event: &str, hook: &Path) -> Result<(), String> {
    let needs = hookjail(&["--private", "--dry-run"], event, hook)?;
    println!("{} runs under the profile {PROFILE}", hook.display());
    println!("  network  {}", needs["network"]);
    for file in needs["files"].as_array().into_iter().flatten() {
        println!("  sha256   {}  {}", file["sha256"], file["path"]);
    }
    let daemon = env::var("HOOKJAIL_ADDR").map_err(|_| "HOOKJAIL_ADDR names no daemon")?;
    let answer = hookjail(&["--connect", &daemon, "--timeout", "10s"], event, hook)?;
    let passes = ["DECISION_ALLOW", "DECISION_NONE"].map(Value::from);
    let verdict = &answer["verdict"];
    match answer["confinement"]["confirmed"] == true && passes.contains(&verdict["decision"]) {
        true => Ok(()),
        false => Err(verdict["reason"].to_string()),
    }
}

fn main() -> ExitCode {
    let [event, hook] = [1, 2].map(|word| env::args().nth(word).unwrap_or_default());
    let hook = Path::new(&hook).canonicalize();
    let ended = hook.map_err(|error| error.to_string());
    if let Err(why) = ended.and_then(|hook| run(&event, &hook)) {
        println!("denied: {why}");
        return ExitCode::from(2);
    }
    println!("allowed");
    ExitCode::SUCCESS
}
