//! Claude Code's `if`: a permission rule that a tool call must match.
//!
//! A rule that cannot be evaluated here lets the hook run: a filter must not hide a guard.

use regex::Regex;
use serde_json::value::RawValue;

use hookjail_base::model::variable::is_name;

use crate::{
    Json, Members, Mode, Tool,
    matcher::{Subjects, compiled},
    text,
};

/// The maximum length of a rule, bytes.
const MAX_RULE: usize = 4096;

/// The maximum length of a command that is examined, bytes.
const MAX_COMMAND: usize = 64 * 1024;

/// The points at which Claude Code reads filters.
const POINTS: [&str; 5] = [
    "PermissionDenied",
    "PermissionRequest",
    "PostToolUse",
    "PostToolUseFailure",
    "PreToolUse",
];

/// Tools that change files: a rule for one of them may be meant for all.
const EDITORS: [&str; 4] = ["Edit", "MultiEdit", "NotebookEdit", "Write"];

/// Words that may precede a command on its line, such as `sudo`.
const BEFORE_COMMANDS: [&str; 45] = [
    "!", ".", "bash", "builtin", "busybox", "case", "command", "coproc", "dash", "do", "doas",
    "done", "elif", "else", "env", "eval", "exec", "fi", "find", "flock", "for", "function", "if",
    "ionice", "ksh", "nice", "noglob", "nohup", "parallel", "select", "setsid", "sh", "source",
    "stdbuf", "su", "sudo", "then", "time", "timeout", "trap", "until", "watch", "while", "xargs",
    "zsh",
];

/// A filter of tool calls.
#[derive(Clone, Debug)]
pub struct Filter {
    specifier: Specifier,
    text: String,
    tool: Regex,
}

/// Condition of a rule beside the tool's name.
#[derive(Clone, Debug)]
enum Specifier {
    /// A command of the shell's line matches.
    Command(Box<Regex>),
    /// Nothing.
    None,
    /// A condition that is not evaluated.
    Unread,
}

impl Filter {
    /// Parses a rule: `Tool` or `Tool(specifier)`; `None` for other texts.
    pub fn parse(text: &str) -> Option<Self> {
        let rule = text.trim();
        if rule.len() > MAX_RULE {
            return None;
        }
        let (tool, specifier) = match rule.split_once('(') {
            Some((tool, rest)) => (tool, Some(rest.strip_suffix(')')?)),
            None => (rule, None),
        };
        let is_of_names = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '*');
        if tool.is_empty() || !tool.chars().all(is_of_names) {
            return None;
        }
        let specifier = match specifier.map(str::trim) {
            None | Some("" | "*") => Specifier::None,
            // A backslash may escape a star, so such a pattern is not evaluated.
            Some(command) if tool == "Bash" && !command.contains('\\') => {
                Specifier::Command(Box::new(command_pattern(command)?))
            }
            Some(_) => Specifier::Unread,
        };
        Some(Self {
            specifier,
            text: rule.to_owned(),
            tool: compiled(&tool_pattern(tool)).ok()?,
        })
    }

    /// Returns whether Claude Code reads filters at a point.
    pub fn is_read_at(point: &str) -> bool {
        POINTS.contains(&point)
    }

    /// Returns the rule verbatim.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns whether the whole rule is evaluated.
    pub const fn is_whole(&self) -> bool {
        !matches!(self.specifier, Specifier::Unread)
    }

    /// Returns whether a hook runs at an event.
    pub fn lets_through(
        &self,
        mode: Mode,
        point: &str,
        tool: Option<&Tool>,
        event: &Members<'_>,
    ) -> bool {
        if !Self::is_read_at(point) {
            return true;
        }
        let subjects = Subjects::new(mode, point, tool, event);
        if !subjects.any(mode, |name| self.names(name)) {
            return false;
        }
        let Specifier::Command(pattern) = &self.specifier else {
            return true;
        };
        let of_request = tool.and_then(|tool| tool.input.as_ref());
        let of_event = ["tool_input", "toolInput"].map(|name| event.last(name));
        let mut inputs = of_event
            .into_iter()
            .flatten()
            .map(RawValue::get)
            .chain(of_request.map(Json::as_str))
            .peekable();
        inputs.peek().is_none() || inputs.any(|input| runs(input, pattern))
    }

    /// Returns whether the rule covers a tool.
    fn names(&self, tool: &str) -> bool {
        let is_editor = |name: &str| EDITORS.contains(&name);
        let is_of_editors = EDITORS.iter().any(|name| self.tool.is_match(name));
        self.tool.is_match(tool) || is_of_editors && is_editor(tool)
    }
}

/// Returns whether a tool's input runs a matching command, or an unparseable one.
fn runs(input: &str, pattern: &Regex) -> bool {
    let members = Members::parse(input).ok();
    let command = members.and_then(|members| members.last("command").and_then(text));
    let commands = command
        .filter(|command| command.len() <= MAX_COMMAND)
        .and_then(|command| commands(&command));
    commands.is_none_or(|commands| commands.iter().any(|command| pattern.is_match(command)))
}

/// Translates a tool's name, in which `*` is any part. A server's name matches all its tools.
fn tool_pattern(name: &str) -> String {
    let parts: Vec<_> = name.split('*').map(regex::escape).collect();
    let is_server = name.starts_with("mcp__") && !name["mcp__".len()..].contains("__");
    let tools = if is_server { "(?:__.*)?" } else { "" };
    format!("^{}{tools}$", parts.join(".*"))
}

/// Translates a command pattern to a regular expression. `*` is any text, and a last one after a space, or `:*`,
/// nothing too.
fn command_pattern(command: &str) -> Option<Regex> {
    let command = spaced(command);
    let (start, end) = match command
        .strip_suffix(":*")
        .or_else(|| command.strip_suffix(" *"))
    {
        Some(start) => (start, "(?: .*)?"),
        None => (command.as_str(), ""),
    };
    let parts: Vec<_> = start.split('*').map(regex::escape).collect();
    compiled(&format!("(?s)^{}{end}$", parts.join(".*"))).ok()
}

/// Collapses white space to single spaces.
fn spaced(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Splits a shell's line into its commands; `None` where only a shell can.
///
/// Each is listed with and without its variable assignments and its quotes.
fn commands(line: &str) -> Option<Vec<String>> {
    let mut all = vec![String::new()];
    let mut quote = None;
    for c in line.chars() {
        match (quote, c) {
            (Some('\''), c) if c != '\'' => {}
            (_, '$' | '`' | '\\') => return None,
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '(' | ')' | '{' | '}' | '<' | '>' | '#' | '\r') => return None,
            (None, ';' | '|' | '&' | '\n') => {
                all.push(String::new());
                continue;
            }
            (None, _) => {}
        }
        all.last_mut()?.push(c);
    }
    if quote.is_some() {
        return None;
    }
    let mut found = Vec::new();
    for command in all {
        let command = spaced(&command);
        let mut rest = command.as_str();
        while let Some((word, after)) = rest.split_once(' ').filter(|(word, _)| sets(word)) {
            if word.contains(['\'', '"']) {
                return None;
            }
            rest = after;
        }
        let program = rest.split(' ').next().unwrap_or_default();
        if program.contains(['\'', '"', '*', '?', '[']) || BEFORE_COMMANDS.contains(&program) {
            return None;
        }
        // A rule may be meant with or without quotes, so both forms are listed.
        found.push(rest.replace(['\'', '"'], ""));
        found.push(rest.to_owned());
        found.push(command);
    }
    Some(found)
}

/// Returns whether a word sets a variable.
fn sets(word: &str) -> bool {
    word.split_once('=')
        .is_some_and(|(name, _)| is_name(name.strip_suffix('+').unwrap_or(name)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn lets_through(rule: &str, tool: &str, input: &serde_json::Value) -> bool {
        let event = json!({"tool_name": tool, "tool_input": input}).to_string();
        let event = Members::of_event(event.as_bytes()).unwrap();
        let filter = Filter::parse(rule).unwrap();
        filter.lets_through(Mode::ClaudeCode, "PreToolUse", None, &event)
    }

    #[test]
    fn a_command_is_compared_by_each_of_its_parts() {
        for (rule, command, expected) in [
            ("Bash(git *)", "git push", true),
            ("Bash(git *)", "git", true),
            ("Bash(git *)", "gitk", false),
            ("Bash(git *)", "ls", false),
            ("Bash(git:*)", "git  push", true),
            ("Bash(git:*)", "gitk", false),
            ("Bash(git*)", "gitk", true),
            ("Bash(git push)", "git push", true),
            ("Bash(git push)", "git push -f", false),
            ("Bash(git push *)", "git \"push\" -f", true),
            ("Bash(git push *)", "git pu'sh' -f", true),
            ("Bash(git * main)", "git push origin main", true),
            ("Bash(git * main)", "git push origin dev", false),
            ("Bash(* --force)", "git push --force", true),
            ("Bash(rm *)", "ls && rm -r x", true),
            ("Bash(rm *)", "ls; cat x | rm -r x", true),
            ("Bash(rm *)", "ls\nrm -r x", true),
            ("Bash(rm *)", "A=1 B+=2 rm -r x", true),
            ("Bash(rm *)", "echo 'rm -r x'", false),
            ("Bash(rm *)", "echo \"; rm -r x\"", false),
            (
                "Bash(git commit * --amend)",
                "git commit -m 'a;b' --amend",
                true,
            ),
            ("Bash", "ls", true),
            ("Bash()", "ls", true),
            ("Bash(*)", "ls", true),
        ] {
            let found = lets_through(rule, "Bash", &json!({"command": command}));
            assert_eq!(found, expected, "{rule} {command}");
        }
    }

    #[test]
    fn what_only_a_shell_can_say_hides_no_hook() {
        for command in [
            "$(rm -r x)",
            "echo `rm -r x`",
            "echo \"$(rm -r x)\"",
            "$X -r x",
            "r\\m -r x",
            "'rm' -r x",
            "\"rm\" -r x",
            "(rm -r x)",
            "{ rm -r x; }",
            "if true; then rm -r x; fi",
            "! rm -r x",
            "timeout 5 rm -r x",
            "sudo rm -r x",
            "env -i rm -r x",
            "sh -c 'rm -r x'",
            "ls | xargs rm -r",
            "r? -r x",
            "A[0]=1 rm -r x",
            "A='x y' rm -r x",
            "ls > x",
            "ls # x",
            "echo 'open",
        ] {
            assert!(
                lets_through("Bash(rm *)", "Bash", &json!({"command": command})),
                "{command}"
            );
        }
        let long = format!("echo {}", "a".repeat(MAX_COMMAND));
        for input in [
            json!({"command": long}),
            json!({"command": 1}),
            json!({}),
            json!("ls"),
        ] {
            assert!(lets_through("Bash(rm *)", "Bash", &input), "{input}");
        }
        assert!(!lets_through(
            "Bash(rm *)",
            "Bash",
            &json!({"command": "ls"})
        ));
        assert!(lets_through(
            r"Bash(ls \*)",
            "Bash",
            &json!({"command": "rm"})
        ));
    }

    #[test]
    fn a_rule_is_for_the_tool_that_it_names() {
        let input = json!({"file_path": "/x.rs"});
        for (rule, tool, expected) in [
            ("Edit(*.ts)", "Edit", true),
            ("Edit(*.ts)", "Write", true),
            ("Edit(*.ts)", "Read", false),
            ("Edit(*.ts)", "Bash", false),
            ("Read", "Read", true),
            ("Read", "Edit", false),
            ("Task", "Agent", true),
            ("mcp__mail", "mcp__mail__send", true),
            ("mcp__mail", "mcp__mailer__send", false),
            ("mcp__mail__*", "mcp__mail__send", true),
            ("mcp__mail__read", "mcp__mail__send", false),
        ] {
            assert_eq!(lets_through(rule, tool, &input), expected, "{rule} {tool}");
        }
        let path = Filter::parse("Edit(*.ts)").unwrap();
        assert!(!path.is_whole());
        for text in ["", "(git *)", "Bash(git *", "Bash git", "Bash(a) "] {
            let expected = text == "Bash(a) ";
            assert_eq!(Filter::parse(text).is_some(), expected, "{text}");
        }
    }

    #[test]
    fn a_call_that_the_request_names_counts_as_well_and_none_hides_no_hook() {
        let filter = Filter::parse("Bash(git *)").unwrap();
        let lets_through = |name: &str, input: Option<&str>, event: &str, point: &str| {
            let tool = Tool {
                input: input.map(Json::checked),
                name: name.to_owned(),
                ..Tool::default()
            };
            let event = Members::of_event(event.as_bytes()).unwrap();
            filter.lets_through(Mode::ClaudeCode, point, Some(&tool), &event)
        };
        let (git, ls) = (r#"{"command":"git push"}"#, r#"{"command":"ls"}"#);
        assert!(lets_through("Bash", Some(git), "{}", "PreToolUse"));
        assert!(!lets_through("Bash", Some(ls), "{}", "PreToolUse"));
        assert!(!lets_through("Read", Some(git), "{}", "PreToolUse"));
        assert!(lets_through(
            "Bash",
            Some(ls),
            &format!(r#"{{"tool_input":{git}}}"#),
            "PreToolUse"
        ));
        assert!(lets_through("Bash", None, "{}", "PreToolUse"));
        assert!(lets_through("", None, "{}", "PreToolUse"));
        assert!(lets_through("Read", Some(ls), "{}", "Stop"));
    }
}
