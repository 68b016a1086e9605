//! Writes to stdout and stderr. Text for people shows every character: names of others cannot steer a terminal or reorder it.

use std::{
    borrow::Cow,
    io::{self, IsTerminal, Write},
    sync::LazyLock,
};

use serde::Serialize;
use serde_json::json;
use uuid::Uuid;

use hookjail_base::{
    model::{plain, visible, visible_json},
    util::journald::stderr_is_journald,
};

use crate::Failure;

/// The beginning of a colour in text. No text of others has it, since each process makes its own.
static COLOR: LazyLock<String> = LazyLock::new(|| format!("\u{fdd0}{}", Uuid::now_v7().simple()));

/// The end of a colour's number.
const COLOR_END: char = 'm';

/// Writes text for people to stdout. A closed stdout is ignored.
pub fn text(text: &str) {
    raw(shown(text).as_bytes());
}

/// Writes a line for people to stdout, regardless of line ends in its text.
pub fn line(line: &str) {
    text(&format!("{}\n", plain(line)));
}

/// Writes a document to stdout: to a terminal as text, elsewhere as it is.
pub fn document(document: &str) {
    match io::stdout().is_terminal() {
        true => text(document),
        false => raw(document.as_bytes()),
    }
}

/// Writes bytes to stdout as they are. A closed stdout is ignored.
pub fn raw(bytes: &[u8]) {
    try_stdout(bytes);
}

/// Writes bytes to stdout as they are, and returns whether more may be written.
pub fn try_stdout(bytes: &[u8]) -> bool {
    let mut out = io::stdout().lock();
    let written = out.write_all(bytes).and_then(|()| out.flush());
    if let Err(error) = &written
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        stderr(&format!("hookjail: cannot write to stdout: {error}"));
    }
    written.is_ok()
}

/// Writes bytes to stderr as they are. A closed stderr is ignored.
pub fn raw_stderr(bytes: &[u8]) {
    drop(io::stderr().lock().write_all(bytes));
}

/// Writes text for people to stderr. A closed stderr is ignored.
pub fn stderr_text(text: &str) {
    raw_stderr(shown(text).as_bytes());
}

/// Writes a line for people to stderr, regardless of line ends in its text. A closed stderr is ignored.
pub fn stderr(line: &str) {
    stderr_text(&format!("{}\n", plain(line)));
}

/// Writes a value as one line of JSON.
pub fn json_line(value: &impl Serialize) {
    // Serialisation fails only for keys that are not strings, and no printed value has any.
    let mut line = serde_json::to_string(value).unwrap_or_default();
    line.push('\n');
    raw(visible_json(&line).as_bytes());
}

/// Replaces invisible characters, except for the colours of [`Style`].
pub fn shown(text: &str) -> Cow<'_, str> {
    let mut parts = text.split(&**COLOR);
    let first = visible(parts.next().unwrap_or_default());
    let colored = parts.map(|part| match part.split_once(COLOR_END) {
        Some((number, rest)) => format!("\x1b[{number}m{}", visible(rest)),
        None => visible(part).into_owned(),
    });
    match colored.collect::<String>() {
        colored if colored.is_empty() => first,
        colored => Cow::Owned(format!("{first}{colored}")),
    }
}

/// Prints why a subcommand failed: for people on stderr, for programs on stdout.
pub fn failure(failure: &Failure, as_json: bool) {
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
    let user = failure.metadata.get("approve_as");
    let user = user.map_or_else(String::new, |user| format!(", {user} runs"));
    let approve = approve.map_or_else(String::new, |approve| {
        format!("; to allow it{user}: {approve}")
    });
    let text = format!("hookjail: {reason}{}{approve}", failure.message);
    // The priority of an error: without one, a line to journald is information.
    let priority = if stderr_is_journald() { "<3>" } else { "" };
    for (index, line) in text.split('\n').enumerate() {
        // The mark shows that a line which foreign text began is not hookjail's.
        let mark = if index == 0 { "" } else { "  | " };
        stderr(&format!("{priority}{mark}{line}"));
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
pub struct Style {
    colors: bool,
}

impl Style {
    /// Colours only for a terminal, and only if `NO_COLOR` is not set.
    pub fn of_stdout() -> Self {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self {
            colors: wanted && io::stdout().is_terminal(),
        }
    }

    pub fn good(self, text: &str) -> String {
        self.paint("32", text)
    }

    pub fn warn(self, text: &str) -> String {
        self.paint("33", text)
    }

    pub fn bad(self, text: &str) -> String {
        self.paint("31", text)
    }

    pub fn strong(self, text: &str) -> String {
        self.paint("1", text)
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.colors {
            let color = &*COLOR;
            format!("{color}{code}{COLOR_END}{text}{color}0{COLOR_END}")
        } else {
            text.to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_has_the_colors_of_its_style_and_no_others() {
        let style = Style { colors: true };
        let text = format!("a \x1b[31m{} \u{9b}2J", style.bad("no\x1b[0m"));
        assert_eq!(
            shown(&text),
            "a \u{fffd}[31m\x1b[31mno\u{fffd}[0m\x1b[0m \u{fffd}2J"
        );
        let plain = Style { colors: false };
        assert_eq!(shown(&plain.bad("no")), "no");
        // Marks of another process are text.
        let foreign = format!("\u{fdd0}{}31m", Uuid::nil().simple());
        assert_eq!(shown(&foreign), foreign);
    }
}
