//! `hookjail run --as RUNTIME --rehearse`: compares a hook's bare and confined runs.
//!
//! Confinement can silence a guard: one that cannot read its rules' directory and exits with 0 looks like one that
//! approves. Only the comparison shows the difference, so it is made at a person's terminal.

use std::{
    ffi::OsString,
    io::Write,
    os::unix::process::{CommandExt, ExitStatusExt},
    process::{Command, ExitCode, Output, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use nix::{
    errno::Errno,
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use serde_json::json;

use super::{
    Context, Failure, output, private_server::SIGNALED, program::resolve_program,
    run_as::StandInHook, show::plain,
};
use crate::contract::adopt::HookOutput;

/// The timeout of a bare hook without one of command line or contract.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

/// The end of a hook, and the runtime's interpretation of it.
struct BareEnd {
    is_no: bool,
    said: HookOutput,
}

/// Compares a hook's bare and confined runs for one payload.
///
/// Both runs are real: files that the hook writes are written. Exits with 0 where both results are the same, otherwise
/// with 1.
///
/// # Errors
///
/// Fails where either run is impossible.
pub(super) fn run(
    hook: &StandInHook<'_>,
    context: &Context,
    payload: &[u8],
) -> Result<ExitCode, Failure> {
    // First, as the private daemon must be started before any thread.
    let confined = hook.privately(context, payload.to_vec())?;
    let bare = bare(
        &hook.run.command,
        payload,
        hook.timeout().unwrap_or(DEFAULT_TIMEOUT),
    )?;
    let ends = [bare, confined].map(|said| BareEnd {
        is_no: hook.takes_for_no(&said),
        said,
    });
    let differ = differences(&ends);
    show(context, &ends, &differ);
    Ok(if differ.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Runs the hook as its runtime does, with this process's environment and directory.
fn bare(command: &[OsString], payload: &[u8], limit: Duration) -> Result<HookOutput, Failure> {
    let argv = resolve_program(command.to_vec())?;
    let Output {
        status,
        stderr,
        stdout,
    } = output_of(&argv, payload, limit)?;
    let low = |value: Option<i32>| value.and_then(|value| u8::try_from(value).ok());
    let by_signal = || SIGNALED.saturating_add(low(status.signal()).unwrap_or_default());
    Ok(HookOutput {
        code: low(status.code()).unwrap_or_else(by_signal),
        stderr,
        stdout,
    })
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one process that is to be unconfined: whoever types the command asks to see it bare"
)]
fn output_of(argv: &[OsString], payload: &[u8], limit: Duration) -> Result<Output, Failure> {
    let (program, arguments) = argv
        .split_first()
        .ok_or_else(|| Failure::new("no command"))?;
    let mut command = Command::new(program);
    command.args(arguments).process_group(0);
    let piped = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = piped
        .spawn()
        .map_err(|error| Failure::new(format!("cannot start `{}`: {error}", program.display())))?;
    let group = i32::try_from(child.id()).map(Pid::from_raw)?;
    let stdin = child.stdin.take();
    let payload = payload.to_vec();
    let (sender, ended) = mpsc::channel();
    thread::spawn(move || {
        if let Some(mut stdin) = stdin {
            // A hook need not read its stdin.
            drop(stdin.write_all(&payload));
        }
    });
    // The receiver is gone after the timeout.
    thread::spawn(move || drop(sender.send(child.wait_with_output())));
    let output = ended.recv_timeout(limit);
    match killpg(group, Signal::SIGKILL) {
        Ok(()) | Err(Errno::ESRCH) => {}
        Err(error) => return Err(error.into()),
    }
    let late = |_| {
        Failure::new(format!(
            "without hookjail the hook took longer than {limit:?}"
        ))
    };
    Ok(output.map_err(late)??)
}

/// Returns the differences between a bare and a confined run.
fn differences([bare, confined]: &[BareEnd; 2]) -> Vec<&'static str> {
    [
        (
            bare.is_no && !confined.is_no,
            "it stops without hookjail, and lets pass with it",
        ),
        (
            !bare.is_no && confined.is_no,
            "it lets pass without hookjail, and stops with it",
        ),
        (
            bare.said.code != confined.said.code,
            "its exit codes differ",
        ),
        (
            bare.said.stdout != confined.said.stdout,
            "its answers on stdout differ",
        ),
    ]
    .into_iter()
    .filter_map(|(differs, words)| differs.then_some(words))
    .collect()
}

fn show(context: &Context, ends: &[BareEnd; 2], differ: &[&str]) {
    let [bare, confined] = ends;
    if context.json {
        let ended = |ended: &BareEnd| {
            json!({
                "exitCode": ended.said.code,
                "stderr": String::from_utf8_lossy(&ended.said.stderr),
                "stdout": String::from_utf8_lossy(&ended.said.stdout),
                "stops": ended.is_no,
            })
        };
        output::json_line(&json!({
            "bare": ended(bare),
            "confined": ended(confined),
            "differences": differ,
        }));
        return;
    }
    let mut text = String::new();
    for (name, ended) in [("bare", bare), ("confined", confined)] {
        let verdict = if ended.is_no { "stops" } else { "lets pass" };
        text.push_str(&format!(
            "{name:<9} exit code {}, {verdict}\n",
            ended.said.code
        ));
        for (stream, bytes) in [
            ("stdout", &ended.said.stdout),
            ("stderr", &ended.said.stderr),
        ] {
            for line in String::from_utf8_lossy(bytes).lines() {
                text.push_str(&format!("          {stream}: {}\n", plain(line)));
            }
        }
    }
    text.push_str(&match differ {
        [] => "same      confinement changes nothing here\n".to_owned(),
        differ => format!("DIFFERENT {}\n", differ.join("; ")),
    });
    output::stdout(text.as_bytes());
}
