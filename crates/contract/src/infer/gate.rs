//! infer's gate: decides which commands run without approval.
//!
//! A command must be one clean command, name no file outside of the project and match an entry of the list whole, or the
//! list must let everything through. Where a shell would see more in a command than a plain parsing of its quotes does,
//! the shell's view counts.

use std::{path::Path, sync::LazyLock};

use regex::{Regex, RegexBuilder};
use regex_syntax::hir::literal::{Extractor, Literal};

use self::{path::Line, text::Text};

mod path;
mod text;

/// The gate's decision on a command.
#[must_use]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Gate {
    /// The command may run.
    Allowed,
    /// The command may not run.
    Refused {
        /// The remedy; empty where the command only is not on the list.
        hint: &'static str,
    },
}

/// Checks a command against the entries for all modes and the agent's mode.
///
/// An entry is a regular expression in RE2's syntax that must match the whole command, without trailing redirections
/// that discard output. An empty or invalid entry allows nothing. The command runs in the workspace; where that is not
/// known, no absolute path is of the project. Linear in time.
pub fn gate(command: &str, list: &[String], workspace: Option<&Path>) -> Gate {
    let command = command.trim();
    if command.is_empty() {
        return Gate::Refused { hint: "" };
    }
    if list.iter().any(|entry| ALLOW_ALL.contains(&entry.trim())) {
        return Gate::Allowed;
    }
    match clean(command, workspace) {
        Err(hint) => Gate::Refused { hint },
        Ok(command) if list.iter().any(|entry| lets_through(entry, &command)) => Gate::Allowed,
        Ok(_) => Gate::Refused { hint: "" },
    }
}

/// Returns whether an entry for a command names its program.
///
/// The first word of every match is then one of a few literal ones. An entry that matches everything names none.
pub fn names(command: &str, list: &[String], workspace: Option<&Path>) -> bool {
    clean(command.trim(), workspace).is_ok_and(|command| {
        let names = |entry: &&String| names_programs(entry) && lets_through(entry, &command);
        list.iter().find(names).is_some()
    })
}

/// Returns why an entry is no regular expression, if so, and matches nothing.
pub fn fault(entry: &str) -> Option<&'static str> {
    let is_one = !entry.is_empty() && compiled(&in_ascii(entry)).is_ok();
    (!is_one).then_some("is no regular expression, and lets nothing through")
}

/// Returns whether every match of an entry begins with one of a few whole words.
///
/// A variable or an assignment does not count: the program is another word then.
pub fn names_programs(entry: &str) -> bool {
    let Ok(parsed) = regex_syntax::parse(&format!("(?s:{})", in_ascii(entry))) else {
        return false;
    };
    let mut beginnings = Extractor::new();
    beginnings.limit_literal_len(LONGEST_BEGINNING);
    let beginnings = beginnings.extract(&parsed);
    let names_one = |beginning: &Literal| {
        let bytes = beginning.as_bytes();
        let end = bytes.iter().position(u8::is_ascii_whitespace);
        // A prefix of a match must contain the end of its first word.
        let word = &bytes[..end.unwrap_or(bytes.len())];
        let is_whole = end.is_some() || beginning.is_exact();
        is_whole && !word.is_empty() && !word.iter().any(|byte| b"$=".contains(byte))
    };
    beginnings
        .literals()
        .is_some_and(|all| !all.is_empty() && all.iter().all(names_one))
}

/// Returns how to fix a refused command; empty if it is one clean command in the project.
pub fn hint(command: &str, workspace: Option<&Path>) -> &'static str {
    clean(command.trim(), workspace).err().unwrap_or_default()
}

/// Forms of an entry that match everything, so that no command need be clean.
const ALLOW_ALL: [&str; 8] = [".*", "^.*$", "^.*", ".*$", ".+", "^.+$", "^.+", ".+$"];

const SUBSTITUTION: &str =
    "a command or process substitution is not let through; run the inner command by itself";
const QUOTES: &str = "the quotes of the command do not balance, or stand inside a `\"${…}\"`";
const SEVERAL: &str =
    "only a single command is let through: no pipes, `&&`, `||`, `;`, `&` or line breaks";
const VARIABLE: &str = "a command that prints or publishes may not expand a variable; put a literal `$` in single quotes";
const REDIRECT: &str =
    "output may not go to a file; `>/dev/null` and `2>&1` at the end are let through";
const FIND: &str =
    "`find` may only look: its actions that execute, write or delete are not let through";
const WRITES: &str = "an option or operand of the command writes a file; print the output instead";
const PATH: &str = "a path is outside of the project, protected or dependent on the environment; name plain paths inside of the project";

/// Actions of `find` that do more than read.
const FIND_ACTIONS: [&str; 9] = [
    "-delete", "-exec", "-execdir", "-fls", "-fprint", "-fprint0", "-fprintf", "-ok", "-okdir",
];

/// The maximum size of an entry's compiled program, bytes.
const SIZE_LIMIT: usize = 1 << 20;

/// Returns a command without trailing redirections, or why it is not clean or leaves the project.
fn clean(command: &str, workspace: Option<&Path>) -> Result<String, &'static str> {
    let mut text = Text::read(command);
    if text.substitutes() {
        return Err(SUBSTITUTION);
    }
    if !text.is_balanced {
        return Err(QUOTES);
    }
    if text.is_several() {
        return Err(SEVERAL);
    }
    while text.strip_redirection() {}
    if text.is_empty() {
        return Err("");
    }
    let words = text.words();
    let line = Line::new(&words);
    let prints = match (line.name(), &line.rest[..]) {
        ("echo" | "printf", _) => true,
        ("gh", ["issue" | "pr", action, ..]) => matches!(*action, "create" | "comment" | "edit"),
        _ => false,
    };
    if prints && text.expands() {
        return Err(VARIABLE);
    }
    if text.redirects() {
        return Err(REDIRECT);
    }
    if line.name() == "find" && line.rest.iter().any(|word| FIND_ACTIONS.contains(word)) {
        return Err(FIND);
    }
    if line.writes() {
        return Err(WRITES);
    }
    if line.leaves(workspace) {
        return Err(PATH);
    }
    Ok(text.into_line())
}

fn compiled(pattern: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(pattern).size_limit(SIZE_LIMIT).build()
}

fn lets_through(entry: &str, command: &str) -> bool {
    if entry.is_empty() {
        return false;
    }
    let entry = in_ascii(entry);
    // Compiled alone first: an unbalanced parenthesis could escape the group added below.
    let is_one = compiled(&entry).is_ok();
    is_one && compiled(&format!(r"\A(?s:{entry})\z")).is_ok_and(|whole| whole.is_match(command))
}

/// The maximum length of the common prefix of an entry's matches that is examined, bytes.
const LONGEST_BEGINNING: usize = 4096;

/// Rewrites classes that are ASCII in RE2 and wider here.
fn in_ascii(entry: &str) -> String {
    static ESCAPES: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"(?s)\\.").ok());
    let Some(escapes) = ESCAPES.as_ref() else {
        return entry.to_owned();
    };
    let ascii = |found: &regex::Captures<'_>| match &found[0] {
        r"\d" => "[0-9]".to_owned(),
        r"\D" => "[^0-9]".to_owned(),
        r"\s" => r"[\t\n\f\r ]".to_owned(),
        r"\S" => r"[^\t\n\f\r ]".to_owned(),
        r"\w" => "[0-9A-Za-z_]".to_owned(),
        r"\W" => "[^0-9A-Za-z_]".to_owned(),
        other => other.to_owned(),
    };
    escapes.replace_all(entry, ascii).into_owned()
}

#[cfg(test)]
mod tests;
