//! A line of a runtime's settings, run confined, and back.

use std::{path::Path, time::Duration};

use crate::policy::units::Span;

/// What a shell reads as something else than a word. Variables, tildes and quotes are looked at apart.
const SHELLS: &[char] = &[
    '|', '&', ';', '<', '>', '(', ')', '`', '\\', '*', '?', '[', ']', '!', '#', '\n', '\r',
];

/// How much earlier than the runtime's own timer a hook has to end, at most.
const MARGIN: Duration = Duration::from_secs(3);

/// What a confined line says beside the command.
#[derive(Clone, Debug)]
pub(super) struct Form<'a> {
    /// The program that confines.
    pub(super) hookjail: &'a str,
    /// The lifecycle point, where the runtime's payloads do not name it.
    pub(super) point: Option<&'a str>,
    pub(super) profile: &'a str,
    pub(super) runtime: &'a str,
    /// The runtime's own timer, where its settings name one.
    pub(super) timeout: Option<Duration>,
}

impl Form<'_> {
    /// Returns the arguments up to the command.
    fn options(&self) -> Vec<String> {
        let mut words = ["run", "--as", self.runtime, "--profile", self.profile]
            .map(str::to_owned)
            .to_vec();
        if let Some(own) = self.timeout {
            let span = Span(own.saturating_sub(MARGIN.min(own / 10)));
            words.extend(["--timeout".to_owned(), span.to_string()]);
        }
        if let Some(point) = self.point {
            words.extend(["--point".to_owned(), point.to_owned()]);
        }
        words.extend(["--start", "--"].map(str::to_owned));
        words
    }

    /// Returns a program and its arguments, confined.
    pub(super) fn of_words(&self, words: &[String]) -> Vec<String> {
        let mut all = vec![self.hookjail.to_owned()];
        all.extend(self.options());
        all.extend_from_slice(words);
        all
    }

    /// Returns a shell's line, confined: as it is where it is one command, by a shell of its own where it is more. `None` where
    /// it has what no shell can be given.
    pub(super) fn of_line(&self, line: &str, is_one_command: bool) -> Option<String> {
        let hookjail = shlex::try_quote(self.hookjail).ok()?;
        let options = shlex::try_join(self.options().iter().map(String::as_str)).ok()?;
        let command = if is_one_command {
            line.to_owned()
        } else {
            in_a_shell(line)?
        };
        Some(format!("{hookjail} {options} {command}"))
    }
}

/// Returns a line as one that a shell of its own runs.
fn in_a_shell(line: &str) -> Option<String> {
    Some(format!("/bin/sh -c {}", shlex::try_quote(line).ok()?))
}

/// Returns what is run confined; `None` for a line that is not run by hookjail in its runtime's place.
pub(super) fn original(line: &str) -> Option<String> {
    if !is_confined(&shlex::split(line)?) {
        return None;
    }
    let (_, command) = line.split_once(" -- ")?;
    let words = shlex::split(command)?;
    if let [shell, option, inner] = words.as_slice()
        && shell == "/bin/sh"
        && option == "-c"
        && in_a_shell(inner).as_deref() == Some(command)
    {
        return Some(inner.clone());
    }
    Some(command.to_owned())
}

/// Returns the program and its arguments that are run confined.
pub(super) fn original_words(words: &[String]) -> Option<&[String]> {
    if !is_confined(words) {
        return None;
    }
    let dashes = words.iter().position(|word| word == "--")?;
    words.get(dashes + 1..)
}

/// Whether words are hookjail in a runtime's place.
fn is_confined(words: &[String]) -> bool {
    let [program, run, place, ..] = words else {
        return false;
    };
    Path::new(program)
        .file_name()
        .is_some_and(|name| name == "hookjail")
        && run == "run"
        && (place == "--as" || place.starts_with("--as="))
}

/// Returns the words of a line that is one command, as its shell makes them; `None` where the line is more, or says something
/// that only its shell knows. `value` knows variables.
pub(super) fn words(line: &str, value: impl Fn(&str) -> Option<String>) -> Option<Vec<String>> {
    let has_variables = line.contains(['$', '~']);
    // In single quotes they would be themselves.
    if line.contains(SHELLS) || has_variables && line.contains('\'') || line.contains("\"~") {
        return None;
    }
    let words = shlex::split(line)?;
    let words: Option<Vec<_>> = words.iter().map(|word| expand(word, &value)).collect();
    let words = words?;
    // An assignment before a command is the shell's.
    words
        .first()
        .filter(|word| !word.is_empty() && !word.contains('='))?;
    Some(words)
}

/// Puts values in the place of variables; `None` where one is not known, or a brace is another's.
fn expand(word: &str, value: &impl Fn(&str) -> Option<String>) -> Option<String> {
    let mut out = String::new();
    let mut rest = word;
    if let Some(below) = rest.strip_prefix('~') {
        if !below.is_empty() && !below.starts_with('/') {
            return None;
        }
        out.push_str(&value("HOME")?);
        rest = below;
    }
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        let (name, after) = match after.strip_prefix('{') {
            Some(braced) => braced.split_once('}')?,
            None => {
                let end = after.find(|c: char| c != '_' && !c.is_ascii_alphanumeric());
                after.split_at(end.unwrap_or(after.len()))
            }
        };
        out.push_str(&value(name)?);
        rest = after;
    }
    if out.contains(['{', '}']) || rest.contains(['{', '}']) {
        return None;
    }
    out.push_str(rest);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORM: Form<'_> = Form {
        hookjail: "/opt/hook jail/hookjail",
        point: None,
        profile: "develop",
        runtime: "claude-code",
        timeout: Some(Duration::from_secs(60)),
    };

    fn value(name: &str) -> Option<String> {
        match name {
            "CLAUDE_PROJECT_DIR" => Some("/p q".to_owned()),
            "HOME" => Some("/home/u".to_owned()),
            _ => None,
        }
    }

    #[test]
    fn one_command_is_told_from_what_only_a_shell_can_run() {
        for (line, expected) in [
            (
                "npx prettier --check .",
                &["npx", "prettier", "--check", "."][..],
            ),
            (
                r#""$CLAUDE_PROJECT_DIR"/.claude/hooks/guard.sh"#,
                &["/p q/.claude/hooks/guard.sh"],
            ),
            ("${CLAUDE_PROJECT_DIR}/x.py a", &["/p q/x.py", "a"]),
            ("~/.claude/hooks/log.sh", &["/home/u/.claude/hooks/log.sh"]),
            ("python3 -c 'print(1)'", &[]),
            ("jq -r .x | tee f", &[]),
            ("FOO=1 npm test", &[]),
            ("$OTHER/x.sh", &[]),
            ("'$HOME'/x", &[]),
            ("echo \"~/x\"", &[]),
            ("~root/x", &[]),
            ("ls {a,b}", &[]),
            ("npm test && git commit", &[]),
            ("", &[]),
        ] {
            let words = words(line, value).unwrap_or_default();
            assert_eq!(words, expected, "{line}");
        }
    }

    #[test]
    fn a_line_is_confined_and_comes_back_as_it_was() {
        for line in [
            "/srv/guard.sh",
            r#""$CLAUDE_PROJECT_DIR"/.claude/hooks/guard.sh --x 'a b'"#,
            "jq -r '.tool_input.command' | grep -q \"rm -rf\" && exit 2; exit 0",
            "/bin/sh -c 'echo it'\\''s'",
            "echo \u{e4}\n",
        ] {
            for is_one_command in [false, true] {
                let confined = FORM.of_line(line, is_one_command).unwrap();
                let start = "'/opt/hook jail/hookjail' run --as claude-code --profile develop --timeout 57s --start -- ";
                assert!(confined.starts_with(start), "{confined}");
                let back = original(&confined).unwrap();
                // What a shell was asked to run a shell for is run by it as well.
                let is_same = back == line
                    || format!("/bin/sh -c {}", shlex::try_quote(&back).unwrap()) == line;
                assert!(is_same, "{back:?} {line:?}");
            }
            assert_eq!(original(line), None);
        }
        assert_eq!(FORM.of_line("a\0b", false), None);
        let words = ["python3".to_owned(), "-x".to_owned(), "--".to_owned()];
        let confined = FORM.of_words(&words);
        assert_eq!(original_words(&confined), Some(&words[..]));
        assert_eq!(original_words(&words), None);
    }
}
