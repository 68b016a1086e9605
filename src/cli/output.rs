//! Writes to stdout and stderr.

use std::io::{self, IsTerminal, Write};

use serde::Serialize;
use serde_json::json;

use super::Failure;
use crate::daemon;

/// Writes to stdout. A closed stdout is ignored.
pub(super) fn stdout(bytes: &[u8]) {
    try_stdout(bytes);
}

/// Writes to stdout, and returns whether more may be written.
pub(super) fn try_stdout(bytes: &[u8]) -> bool {
    let mut out = io::stdout().lock();
    let written = out.write_all(bytes).and_then(|()| out.flush());
    if let Err(error) = &written
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        stderr(&format!("hookjail: cannot write to stdout: {error}"));
    }
    written.is_ok()
}

/// Writes bytes to stderr unescaped. A closed stderr is ignored.
pub(super) fn raw_stderr(bytes: &[u8]) {
    drop(io::stderr().lock().write_all(bytes));
}

/// Writes a line to stderr. A closed stderr is ignored.
pub(super) fn stderr(line: &str) {
    drop(writeln!(io::stderr().lock(), "{line}"));
}

/// Writes a value as one line of JSON.
pub(super) fn json_line(value: &impl Serialize) {
    // Serialisation fails only for keys that are not strings, and no printed value has any.
    let mut line = serde_json::to_vec(value).unwrap_or_default();
    line.push(b'\n');
    stdout(&line);
}

/// Prints why a subcommand failed: for people on stderr, for programs on stdout.
pub(super) fn failure(failure: &Failure, as_json: bool) {
    if as_json {
        let error = json!({
            "code": failure.status,
            "reason": failure.reason,
            "message": failure.message,
            "metadata": failure.metadata,
        });
        json_line(&json!({ "error": error }));
        return;
    }
    let reason = failure
        .reason
        .as_ref()
        .map_or_else(String::new, |reason| format!("{reason}: "));
    // The command that lifts a refusal is for people only: a program that reads it may pass it to a model.
    let approve = failure.metadata.get("approve");
    let approve = approve.filter(|_| io::stderr().is_terminal());
    let by = failure.metadata.get("approve_as");
    let by = by.map_or_else(String::new, |who| format!(", {who} runs"));
    let approve = approve.map_or_else(String::new, |approve| {
        format!("; to allow it{by}: {approve}")
    });
    let text = format!("hookjail: {reason}{}{approve}", failure.message);
    if daemon::stderr_is_journald() {
        // The priority of an error: without one, a line to journald is information.
        text.lines().for_each(|line| stderr(&format!("<3>{line}")));
    } else {
        stderr(&text);
    }
    if io::stderr().is_terminal() {
        stderr_lines(failure);
    }
}

/// Prints the configuration lines that would lift a refusal.
fn stderr_lines(failure: &Failure) {
    let Some(lines) = failure.metadata.get("configure") else {
        return;
    };
    let file = failure.metadata.get("configuration");
    let file = file.map_or("the daemon's configuration", String::as_str);
    stderr(&format!(
        "to allow it, in {file}, and then `hookjail reload`:"
    ));
    for line in lines.lines() {
        stderr(&format!("  {line}"));
    }
}

/// The highlighting of text on this stdout.
#[derive(Clone, Copy, Debug)]
pub(super) struct Style {
    colors: bool,
}

impl Style {
    /// Colours only for a terminal, and only if `NO_COLOR` is not set.
    pub(super) fn of_stdout() -> Self {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self {
            colors: wanted && io::stdout().is_terminal(),
        }
    }

    pub(super) fn good(self, text: &str) -> String {
        self.paint("32", text)
    }

    pub(super) fn warn(self, text: &str) -> String {
        self.paint("33", text)
    }

    pub(super) fn bad(self, text: &str) -> String {
        self.paint("31", text)
    }

    pub(super) fn strong(self, text: &str) -> String {
        self.paint("1", text)
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.colors {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}
