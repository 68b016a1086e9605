//! Matchers: selection of events within a lifecycle point.
//!
//! A matcher may not hide a hook: one without a subject, or with a subject beyond its limit, matches.

use std::{borrow::Cow, collections::BTreeMap};

use regex::{Regex, RegexBuilder};
use serde_json::{Map, Value};

use hookjail_base::model::InvalidField;

use super::{Members, Mode, Subject, Tool, runtime::named, text};

/// The maximum length of a matcher, bytes.
const MAX_MATCHER: usize = 4 * 1024;

/// The maximum size of a compiled matcher and of its cache, bytes each.
const MAX_COMPILED: usize = 256 * 1024;

/// The maximum number of steps of a search with look-around or back references.
const MAX_STEPS: usize = 100_000;

/// The maximum length of a subject that is searched, bytes. A longer one matches everything, as searching takes time by
/// its length.
const MAX_SUBJECT: usize = 16 * 1024;

/// An entry's matcher.
#[derive(Clone, Debug, Default)]
pub enum Matcher {
    /// Every event of its point.
    #[default]
    Always,
    /// Members of the event with their required values. An absent one never matches.
    Fields(BTreeMap<String, Field>),
    /// Subjects by name.
    Names(Vec<String>),
    /// A regular expression on the subject.
    Pattern(Box<Expression>),
}

/// A regular expression of a matcher.
#[derive(Clone, Debug)]
pub enum Expression {
    /// One without look-around and back references.
    Linear(Regex),
    /// One with them, searched in at most `MAX_STEPS`.
    Stepped(fancy_regex::Regex),
}

impl Expression {
    fn compile(text: &str) -> Result<Self, String> {
        compiled(text).map(Self::Linear).or_else(|problem| {
            let stepped = fancy_regex::RegexBuilder::new(text)
                .backtrack_limit(MAX_STEPS)
                .delegate_dfa_size_limit(MAX_COMPILED)
                .delegate_size_limit(MAX_COMPILED)
                .build();
            // An expression above the limits fails alike in both.
            stepped.map(Self::Stepped).map_err(|_| problem)
        })
    }

    /// Returns whether the expression is found in a text. A search that takes too many steps finds it.
    fn is_match(&self, text: &str) -> bool {
        match self {
            Self::Linear(regex) => regex.is_match(text),
            Self::Stepped(regex) => regex.is_match(text).unwrap_or(true),
        }
    }
}

/// Required value of an event's member.
#[derive(Clone, Debug)]
pub enum Field {
    /// This value.
    Exactly(Value),
    /// A string that matches a glob pattern.
    Glob(Regex),
}

impl Matcher {
    /// Parses a matcher in the spelling of a contract's entries.
    ///
    /// White space around it is ignored. Where the runtime has no matchers at the point, the text is not parsed.
    ///
    /// # Errors
    ///
    /// Refuses a matcher of a contract without matchers, an invalid regular expression, and one above the size limits.
    pub fn parse(mode: Mode, point: &str, text: &str) -> Result<Self, InvalidField> {
        let text = text.trim();
        if matches!(text, "" | "*") {
            return Ok(Self::Always);
        }
        of_bounded_length(text).map_err(wrong)?;
        let subject = (mode.facts().subject)(point);
        if subject == Subject::Nothing {
            return Ok(Self::Always);
        }
        let facts = mode.facts();
        let Some(matcher) = mode.rules().matcher else {
            let contract = facts.contract;
            return Err(wrong(format!("is not a key of entries under `{contract}`")));
        };
        matcher(subject, text)
    }

    /// Parses a regular expression.
    pub(super) fn pattern(text: &str) -> Result<Self, InvalidField> {
        let compiled = Expression::compile(text).map_err(wrong)?;
        Ok(Self::Pattern(Box::new(compiled)))
    }

    /// Parses a regular expression that must match the whole subject.
    pub(super) fn whole(text: &str) -> Result<Self, InvalidField> {
        Self::pattern(&format!("^(?:{text})$"))
    }

    /// Parses names between separators.
    pub(super) fn names(text: &str, separators: &[char]) -> Self {
        let names = text.split(separators).map(|name| name.trim().to_owned());
        Self::Names(names.collect())
    }

    /// Parses names between separators if the text consists of ASCII letters, digits, separators and `others`; else a
    /// regular expression.
    pub(super) fn listed(
        text: &str,
        others: &str,
        separators: &[char],
    ) -> Result<Self, InvalidField> {
        let is_of_a_list =
            |c: char| c.is_ascii_alphanumeric() || others.contains(c) || separators.contains(&c);
        if text.chars().all(is_of_a_list) {
            return Ok(Self::names(text, separators));
        }
        Self::pattern(text)
    }

    /// Parses names and regular expressions between `|`, each without white space around it. A text that begins with `^` or `(` is
    /// one expression.
    pub(super) fn alternatives(text: &str) -> Result<Self, InvalidField> {
        if text.starts_with(['^', '(']) {
            return Self::pattern(text);
        }
        let entries = split_alternatives(text).map(trimmed);
        let entries: Vec<_> = entries.filter(|entry| !entry.is_empty()).collect();
        match entries.iter().any(|entry| matches!(*entry, "*" | ".*")) {
            true => Ok(Self::Always),
            false => Self::pattern(&entries.join("|")),
        }
    }

    /// Parses glob patterns between commas.
    pub(super) fn globs(text: &str) -> Result<Self, InvalidField> {
        let globs = text.split(',').map(|glob| glob_expression(glob.trim()));
        let globs = globs.collect::<Result<Vec<_>, _>>().map_err(wrong)?;
        Self::pattern(&globs.join("|"))
    }

    /// Parses a map of members: `uri` and `path` are glob patterns, other values are compared.
    ///
    /// # Errors
    ///
    /// Refuses an invalid glob pattern, and one above the size limits.
    pub fn fields(map: &Map<String, Value>) -> Result<Self, InvalidField> {
        let field = |(name, value): (&String, &Value)| {
            let glob = value
                .as_str()
                .filter(|_| matches!(name.as_str(), "path" | "uri"));
            let field =
                match glob {
                    Some(text) => {
                        let pattern = of_bounded_length(text)
                            .and_then(|()| compiled(&glob_expression(text)?));
                        Field::Glob(pattern.map_err(|problem| {
                            InvalidField::new(format!("matcher.{name}"), problem)
                        })?)
                    }
                    None => Field::Exactly(value.clone()),
                };
            Ok((name.clone(), field))
        };
        let fields: BTreeMap<_, _> = map.iter().map(field).collect::<Result<_, _>>()?;
        Ok(if fields.is_empty() {
            Self::Always
        } else {
            Self::Fields(fields)
        })
    }

    /// Returns whether the matcher matches an event, under this contract.
    pub fn matches(
        &self,
        mode: Mode,
        point: &str,
        tool: Option<&Tool>,
        event: &Members<'_>,
    ) -> bool {
        let is_meant =
            |is: &dyn Fn(&str) -> bool| Subjects::new(mode, point, tool, event).any(mode, is);
        match self {
            Self::Always => true,
            Self::Fields(fields) => fields.iter().all(|(name, field)| {
                event.last(name).is_some_and(|member| match field {
                    // JSON that does not parse to a `Value` cannot be named in a file of hooks.
                    Field::Exactly(value) => {
                        serde_json::from_str(member.get()).is_ok_and(|found: Value| found == *value)
                    }
                    Field::Glob(pattern) => text(member)
                        .is_some_and(|text| text.len() > MAX_SUBJECT || pattern.is_match(&text)),
                })
            }),
            Self::Names(names) => is_meant(&|subject| names.iter().any(|name| name == subject)),
            Self::Pattern(pattern) => is_meant(&|subject| pattern.is_match(subject)),
        }
    }
}

/// The subjects of matchers at a point.
#[derive(Debug)]
pub(super) struct Subjects<'a> {
    /// The subjects; none of them is unreadable or too long.
    all: Vec<Cow<'a, str>>,
}

impl<'a> Subjects<'a> {
    /// Collects the subjects of matchers at a point.
    ///
    /// They are the tools of the request and of the event, or the contract's subject in the tool's place. A member that
    /// is not a string, is empty or is longer than 16 KiB cannot be searched.
    pub(super) fn new(
        mode: Mode,
        point: &str,
        tool: Option<&'a Tool>,
        event: &Members<'_>,
    ) -> Self {
        let member = |names: &[&str]| names.iter().find_map(|name| event.last(name)).map(text);
        let (named, of_event) = match (mode.facts().subject)(point) {
            Subject::FileName(name) => {
                let file = |path: String| path.rsplit('/').next().map(str::to_owned);
                (None, member(&[name]).map(|path| path.and_then(file)))
            }
            Subject::Member(names) => (None, member(names)),
            Subject::Nothing => (None, None),
            Subject::Tool => {
                let named = tool.map(|tool| tool.name.as_str());
                let named = named.filter(|name| !name.is_empty());
                (named, member(&["tool_name", "toolName"]))
            }
        };
        let named = named.map(|name| Some(Cow::Borrowed(name)));
        let of_event = of_event.map(|text| text.map(Cow::Owned));
        let readable = |subject: &Cow<'_, str>| (1..=MAX_SUBJECT).contains(&subject.len());
        let all = named.into_iter().chain(of_event);
        let all = all.map(|subject| subject.filter(readable));
        Self {
            // An unreadable subject could be any matcher's.
            all: all.collect::<Option<_>>().unwrap_or_default(),
        }
    }

    /// Returns whether the predicate holds for any subject, under any of its names. Without subjects every matcher matches.
    pub(super) fn any(&self, mode: Mode, is: impl Fn(&str) -> bool) -> bool {
        let others = mode.facts().other_names;
        let is_one = |subject: &Cow<'_, str>| {
            let others = named(others, subject).unwrap_or_default();
            is(subject) || others.iter().any(|name| is(name))
        };
        self.all.is_empty() || self.all.iter().any(is_one)
    }
}

fn wrong(problem: String) -> InvalidField {
    InvalidField::new("matcher", problem)
}

fn of_bounded_length(text: &str) -> Result<(), String> {
    if text.len() > MAX_MATCHER {
        return Err(format!(
            "is {} bytes long; shorten it to at most {MAX_MATCHER}",
            text.len()
        ));
    }
    Ok(())
}

/// Splits a regular expression at each `|` outside of groups and character classes.
fn split_alternatives(text: &str) -> impl Iterator<Item = &str> {
    let (mut is_escaped, mut is_in_class, mut depth) = (false, false, 0_usize);
    text.split(move |c| {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            ']' => is_in_class = false,
            _ if is_in_class => {}
            '[' => is_in_class = true,
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            '|' => return depth == 0,
            _ => {}
        }
        false
    })
}

/// Removes white space around an alternative, but not where a backslash escapes it.
fn trimmed(entry: &str) -> &str {
    let entry = entry.trim_start();
    let ends = entry.trim_end();
    let backslashes = ends.len() - ends.trim_end_matches('\\').len();
    match entry[ends.len()..].chars().next() {
        Some(space) if backslashes % 2 == 1 => &entry[..ends.len() + space.len_utf8()],
        Some(_) | None => ends,
    }
}

/// Compiles a regular expression within the size limits of matchers.
pub(super) fn compiled(text: &str) -> Result<Regex, String> {
    let built = RegexBuilder::new(text)
        .size_limit(MAX_COMPILED)
        .dfa_size_limit(MAX_COMPILED)
        .build();
    built.map_err(|error| {
        if let regex::Error::CompiledTooBig(most) = error {
            return format!(
                "becomes larger than {most} bytes when it is compiled; write it shorter"
            );
        }
        // Only the last line has the message; the lines before show the expression.
        let shown = error.to_string();
        let why = shown.lines().last().unwrap_or_default().trim();
        let why = why.strip_prefix("error: ").unwrap_or(why);
        format!("is no regular expression: {why}")
    })
}

/// Translates a glob pattern to a regular expression. `*` is any text, `?` one character, `[…]` one of these, `[!…]`
/// one of no others.
fn glob_expression(glob: &str) -> Result<String, String> {
    let mut expression = String::from("(?s)^");
    let mut rest = glob.chars();
    while let Some(c) = rest.next() {
        match c {
            '*' => {
                // Several `*` in a row equal one.
                if !expression.ends_with(".*") {
                    expression.push_str(".*");
                }
            }
            '?' => expression.push('.'),
            '[' => {
                let class = rest.as_str();
                let negated = class.starts_with('!');
                let members = &class[usize::from(negated)..];
                // A closing bracket in the first place is a member.
                let end = members.char_indices().skip(1).find(|(_, c)| *c == ']');
                let (end, _) = end.ok_or_else(|| {
                    format!("is no pattern of names: `[{class}` has no closing bracket")
                })?;
                expression.push_str(if negated { "[^" } else { "[" });
                for c in members[..end].chars() {
                    match c {
                        '-' => expression.push(c),
                        c => expression.push_str(&regex::escape(c.encode_utf8(&mut [0; 4]))),
                    }
                }
                expression.push(']');
                rest = members[end + 1..].chars();
            }
            literal => expression.push_str(&regex::escape(literal.encode_utf8(&mut [0; 4]))),
        }
    }
    expression.push('$');
    Ok(expression)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// Returns a point where the contract's matchers have the tool as subject.
    fn tool_point(mode: Mode) -> &'static str {
        match mode.facts().contract {
            "copilot" | "cursor" => "preToolUse",
            "gemini_cli" => "BeforeTool",
            _ => "PreToolUse",
        }
    }

    fn is_due(mode: Mode, text: &str, point: &str, event: &str) -> bool {
        let event = Members::of_event(event.as_bytes()).unwrap();
        let matcher = Matcher::parse(mode, point, text).unwrap();
        matcher.matches(mode, point, None, &event)
    }

    fn named(tool: Option<&str>) -> Option<Tool> {
        tool.map(|name| Tool {
            name: name.to_owned(),
            ..Tool::default()
        })
    }

    fn matches(matcher: &Matcher, tool: Option<&str>, event: &str) -> bool {
        let event = Members::of_event(event.as_bytes()).unwrap();
        matcher.matches(Mode::ClaudeCode, "PreToolUse", named(tool).as_ref(), &event)
    }

    fn due(mode: Mode, matcher: &Matcher, event: &str) -> bool {
        let event = Members::of_event(event.as_bytes()).unwrap();
        matcher.matches(mode, tool_point(mode), None, &event)
    }

    fn takes(mode: Mode, text: &str, tool: &str) -> bool {
        let event = Members::default();
        let matcher = Matcher::parse(mode, tool_point(mode), text).unwrap();
        matcher.matches(mode, tool_point(mode), named(Some(tool)).as_ref(), &event)
    }

    #[test]
    fn a_tool_is_found_by_every_name_that_its_runtime_takes_for_it() {
        for (mode, matcher, tool, expected) in [
            (Mode::Codex, "Edit|Write", "apply_patch", true),
            (Mode::Codex, "^Edit$", "apply_patch", true),
            (Mode::Codex, "apply_patch", "apply_patch", true),
            (Mode::Codex, "^Bash$", "apply_patch", false),
            (Mode::ClaudeCode, "Edit|Write", "apply_patch", false),
            (Mode::ClaudeCode, "Task", "Agent", true),
            (Mode::ClaudeCode, "Bash|Task", "Agent", true),
            (Mode::ClaudeCode, "^Task$", "Agent", true),
            (Mode::ClaudeCode, "Agent", "Agent", true),
            (Mode::ClaudeCode, "KillShell", "TaskStop", true),
            (Mode::ClaudeCode, "BashOutputTool", "TaskOutput", true),
            (Mode::ClaudeCode, "Bash", "Agent", false),
        ] {
            assert_eq!(takes(mode, matcher, tool), expected, "{matcher} {tool}");
        }
        for mode in [
            Mode::ClaudeCode,
            Mode::Codex,
            Mode::Copilot,
            Mode::GeminiCli,
            Mode::Loom,
        ] {
            for matcher in ["shell ", " shell", " * ", " "] {
                assert!(takes(mode, matcher, "shell"), "{mode:?} {matcher:?}");
            }
        }
    }

    #[test]
    fn each_point_has_a_subject_of_its_own() {
        const CLAUDE: Mode = Mode::ClaudeCode;
        for (mode, point, matcher, event, expected) in [
            (
                CLAUDE,
                "ConfigChange",
                "skills",
                r#"{"source":"user_settings"}"#,
                false,
            ),
            (
                CLAUDE,
                "Elicitation",
                "mail",
                r#"{"agent_type":"a","mcp_server_name":"mail"}"#,
                true,
            ),
            (
                CLAUDE,
                "Elicitation",
                "mail",
                r#"{"agent_type":"a","mcp_server_name":"chat"}"#,
                false,
            ),
            (
                CLAUDE,
                "ElicitationResult",
                "mail",
                r#"{"mcp_server_name":"mail"}"#,
                true,
            ),
            (
                CLAUDE,
                "ElicitationResult",
                "mail",
                r#"{"mcp_server_name":"chat"}"#,
                false,
            ),
            (
                CLAUDE,
                "FileChanged",
                "pack",
                r#"{"file_path":"/a/pack","source":"x"}"#,
                true,
            ),
            (
                CLAUDE,
                "FileChanged",
                r"\.env",
                r#"{"file_path":"/a/.env"}"#,
                true,
            ),
            (
                CLAUDE,
                "FileChanged",
                "pack",
                r#"{"file_path":"/pack/other"}"#,
                false,
            ),
            (
                CLAUDE,
                "InstructionsLoaded",
                "include",
                r#"{"load_reason":"include"}"#,
                true,
            ),
            (
                CLAUDE,
                "InstructionsLoaded",
                "include",
                r#"{"load_reason":"compact"}"#,
                false,
            ),
            (
                CLAUDE,
                "Notification",
                "idle_prompt",
                r#"{"notification_type":"auth"}"#,
                false,
            ),
            (
                CLAUDE,
                "PreCompact",
                "auto",
                r#"{"trigger":"manual","reason":"auto"}"#,
                false,
            ),
            (
                CLAUDE,
                "SessionEnd",
                "logout",
                r#"{"agent_type":"a","reason":"logout"}"#,
                true,
            ),
            (
                CLAUDE,
                "SessionEnd",
                "logout",
                r#"{"source":"logout","reason":"clear"}"#,
                false,
            ),
            (
                CLAUDE,
                "StopFailure",
                "rate_limit",
                r#"{"error":"rate_limit"}"#,
                true,
            ),
            (
                CLAUDE,
                "StopFailure",
                "rate_limit",
                r#"{"error":"overloaded"}"#,
                false,
            ),
            (CLAUDE, "SubagentStart", "a", r#"{"agent_type":"a"}"#, true),
            (CLAUDE, "SubagentStart", "b", r#"{"agent_type":"a"}"#, false),
            (
                CLAUDE,
                "UserPromptExpansion",
                "deploy",
                r#"{"command_name":"deploy"}"#,
                true,
            ),
            (
                CLAUDE,
                "UserPromptExpansion",
                "deploy",
                r#"{"command_name":"test"}"#,
                false,
            ),
            // The subject of a new point need not be known.
            (
                CLAUDE,
                "PreModelSwitch",
                "opus",
                r#"{"agent_type":"a","to":"opus"}"#,
                true,
            ),
            (CLAUDE, "NewPoint", "opus", r#"{"tool_name":"Bash"}"#, false),
            (
                Mode::Codex,
                "SessionStart",
                "resume",
                r#"{"source":"startup"}"#,
                false,
            ),
            (
                Mode::Codex,
                "StopFailure",
                "overloaded",
                r#"{"error":"rate_limit"}"#,
                false,
            ),
            (
                Mode::Copilot,
                "notification",
                "agent_idle",
                r#"{"notification_type":"shell"}"#,
                false,
            ),
            (
                Mode::Copilot,
                "subagentStart",
                "a",
                r#"{"agentName":"b"}"#,
                false,
            ),
            (
                Mode::Copilot,
                "sessionStart",
                "x",
                r#"{"source":"new"}"#,
                true,
            ),
            (
                Mode::Cursor,
                "beforeShellExecution",
                "curl",
                r#"{"command":"curl a"}"#,
                true,
            ),
            (
                Mode::Cursor,
                "beforeShellExecution",
                "curl",
                r#"{"command":"ls"}"#,
                false,
            ),
            (
                Mode::Cursor,
                "subagentStart",
                "shell",
                r#"{"subagent_type":"explore"}"#,
                false,
            ),
            (Mode::Cursor, "stop", "x", r#"{"reason":"completed"}"#, true),
            (
                Mode::GeminiCli,
                "Notification",
                "x",
                r#"{"notification_type":"ToolPermission"}"#,
                true,
            ),
            (
                Mode::GeminiCli,
                "SessionStart",
                "startup",
                r#"{"source":"startup"}"#,
                true,
            ),
            (
                Mode::GeminiCli,
                "SessionStart",
                "start",
                r#"{"source":"startup"}"#,
                false,
            ),
        ] {
            let found = is_due(mode, matcher, point, event);
            assert_eq!(found, expected, "{mode:?} {point} {matcher} {event}");
        }
    }

    #[test]
    fn a_matcher_where_there_are_none_hides_no_hook() {
        for (mode, point) in [
            (Mode::ClaudeCode, "UserPromptSubmit"),
            (Mode::ClaudeCode, "PostToolBatch"),
            (Mode::ClaudeCode, "Stop"),
            (Mode::ClaudeCode, "TeammateIdle"),
            (Mode::ClaudeCode, "TaskCreated"),
            (Mode::ClaudeCode, "TaskCompleted"),
            (Mode::ClaudeCode, "WorktreeCreate"),
            (Mode::ClaudeCode, "WorktreeRemove"),
            (Mode::ClaudeCode, "MessageDisplay"),
            (Mode::ClaudeCode, "CwdChanged"),
            (Mode::Codex, "UserPromptSubmit"),
            (Mode::Codex, "Stop"),
            (Mode::Codex, "Interrupt"),
            (Mode::Copilot, "agentStop"),
            (Mode::Cursor, "beforeSubmitPrompt"),
            (Mode::GeminiCli, "BeforeAgent"),
            (Mode::GeminiCli, "BeforeModel"),
        ] {
            for matcher in ["foo", "a("] {
                let event = r#"{"reason":"x","source":"x","tool_name":"x"}"#;
                assert!(is_due(mode, matcher, point, event), "{mode:?} {point}");
            }
        }
    }

    #[test]
    fn codex_takes_plain_names_whole() {
        for (matcher, tool, expected) in [
            ("Bash", "BashOutput", false),
            ("Edit|Bash", "Bash", true),
            ("mcp__memory", "mcp__memory__create", false),
            ("^Bash", "BashOutput", true),
            ("mcp__memory__.*", "mcp__memory__create", true),
        ] {
            assert_eq!(
                takes(Mode::Codex, matcher, tool),
                expected,
                "{matcher} {tool}"
            );
        }
    }

    #[test]
    fn globs_and_everything_match() {
        for (glob, tool, expected) in [
            ("", "shell", true),
            ("*", "shell", true),
            ("fs_*, shell", "fs_write", true),
            ("fs_*, shell", "shell", true),
            ("fs_*", "shell", false),
            ("fs", "fs_write", false),
            ("f?_**", "fs_a/b\nc", true),
            ("a.b", "axb", false),
            ("{a,b}", "a", false),
            ("[!a-c]x", "dx", true),
            ("[!a-c]x", "bx", false),
            ("[]^&&~]", "]", true),
            ("[]^&&~]", "&", true),
            ("[]^&&~]", "a", false),
        ] {
            assert_eq!(takes(Mode::Loom, glob, tool), expected, "{glob} {tool}");
        }
    }

    #[test]
    fn what_a_contract_cannot_match_is_refused() {
        assert!(Matcher::parse(Mode::Basecoat, "PreToolUse", "x").is_err());
        for glob in ["[", "a[]", "[!]"] {
            let problem = Matcher::parse(Mode::Loom, "PreToolUse", glob)
                .unwrap_err()
                .problem;
            assert!(problem.starts_with("is no pattern of names: "), "{problem}");
        }
        let problem = Matcher::parse(Mode::Codex, "PreToolUse", "a(")
            .unwrap_err()
            .problem;
        assert_eq!(problem, "is no regular expression: unclosed group");
    }

    #[test]
    fn a_matcher_may_look_around_within_a_number_of_steps() {
        for (mode, text, tool, expected) in [
            (Mode::ClaudeCode, "^(?!Read).*", "Bash", true),
            (Mode::ClaudeCode, "^(?!Read).*", "ReadFile", false),
            (Mode::GeminiCli, "^(?!read_file$)", "read_file", false),
            (Mode::GeminiCli, "(?<=_)file", "write_file", true),
            (
                Mode::QwenCode,
                "^(?!read_file).*",
                "run_shell_command",
                true,
            ),
            (Mode::Copilot, r"(\w)\1", "ee", true),
            (Mode::Copilot, r"(\w)\1", "ef", false),
        ] {
            assert_eq!(takes(mode, text, tool), expected, "{mode:?} {text} {tool}");
        }
        // All ways to share the text are 2^60 steps; a search that is given up hides no hook.
        let hopeless = r"^(?:(?=a)a|(?=a)a)+x";
        assert!(takes(Mode::ClaudeCode, hopeless, &"a".repeat(60)));
        let large = r"(?=(\w{20}){6}x)";
        let problem = Matcher::parse(Mode::ClaudeCode, "PreToolUse", large).unwrap_err();
        assert!(problem.problem.starts_with("is no regular expression"));
    }

    #[test]
    fn qwen_code_separates_names_and_expressions() {
        for (text, tool, expected) in [
            ("Shell", "run_shell_command", true),
            ("Bash", "run_shell_command", true),
            ("ShellTool", "run_shell_command", true),
            ("ReadFile | Shell", "run_shell_command", true),
            ("read_file|write_file", "edit", false),
            ("write_.*|Edit", "edit", true),
            ("write_.*|Edit", "write_file", true),
            ("WebFetch|", "read_file", false),
            (".*|WebFetch", "read_file", true),
            (".*", "read_file", true),
            ("^(read_file|edit)$", "edit", true),
            ("(read|write)_file|x", "write_file", true),
            ("mcp__[a|b]__x|y", "mcp__b__x", true),
            (r"a\|b", "a|b", true),
        ] {
            assert_eq!(takes(Mode::QwenCode, text, tool), expected, "{text} {tool}");
        }
    }

    #[test]
    fn a_matcher_has_a_bounded_length_and_size_and_takes_linear_time() {
        let long = "a|".repeat(4096);
        let problem = Matcher::parse(Mode::Codex, "PreToolUse", &long)
            .unwrap_err()
            .problem;
        assert_eq!(problem, "is 8192 bytes long; shorten it to at most 4096");
        let large = r"(\w{20}){6}x";
        let problem = Matcher::parse(Mode::Codex, "PreToolUse", large)
            .unwrap_err()
            .problem;
        assert!(problem.starts_with("becomes larger than "), "{problem}");
        assert!(
            Matcher::parse(Mode::Codex, "PreToolUse", r"^mcp__\w+__(?:read|write)_\w+$").is_ok()
        );
        // One call for each `*` would need a stack for each, and all ways to share the text would need for ever.
        let stars = "*a".repeat(200);
        assert!(!takes(Mode::Loom, &stars, &"a".repeat(199)));
        assert!(takes(Mode::Loom, &stars, &"a".repeat(200)));
    }

    #[test]
    fn members_are_compared_and_an_absent_one_never_matches() {
        let map = json!({"path": "/src/*.rs", "event_type": "modified", "depth": 1});
        let matcher = Matcher::fields(map.as_object().unwrap()).unwrap();
        for (event, expected) in [
            (
                r#"{"path":"/src/a/b.rs","event_type":"modified","depth":1}"#,
                true,
            ),
            (
                r#"{"path":"/src/\ud800.rs","event_type":"modified","depth":1}"#,
                true,
            ),
            (
                r#"{"path":"/src/a.py","event_type":"modified","depth":1}"#,
                false,
            ),
            (
                r#"{"path":"/src/a.rs","event_type":"created","depth":1}"#,
                false,
            ),
            (
                r#"{"path":"/src/a.rs","event_type":"modified","depth":1e999}"#,
                false,
            ),
            (r#"{"path":"/src/a.rs"}"#, false),
            (r#"{"path":1,"event_type":"modified","depth":1}"#, false),
        ] {
            assert_eq!(matches(&matcher, None, event), expected, "{event:?}");
        }
        assert!(matches(&Matcher::fields(&Map::new()).unwrap(), None, ""));
    }

    #[test]
    fn a_matcher_looks_at_every_tool_that_is_named() {
        let shell = Matcher::parse(Mode::ClaudeCode, "PreToolUse", "shell|resume").unwrap();
        for (tool, event, expected) in [
            (Some("shell"), r#"{"tool_name":"read"}"#, true),
            (Some("read"), r#"{"source":"resume"}"#, false),
            (None, r#"{"toolName":"read"}"#, false),
            (Some("read"), "", false),
            // Where two are named, one is enough.
            (Some("read"), r#"{"tool_name":"shell"}"#, true),
            // A subject that cannot be examined could be anything.
            (None, "", true),
            (None, r#"{"source":"startup"}"#, true),
            (Some(""), r#"{"source":"startup"}"#, true),
            (None, r#"{"tool_name":1,"source":"startup"}"#, true),
            (None, r#"{"tool_name":"","source":"startup"}"#, true),
            (Some("read"), r#"{"tool_name":null}"#, true),
        ] {
            assert_eq!(matches(&shell, tool, event), expected, "{tool:?} {event}");
        }
        let long = format!(r#"{{"tool_name":"{}"}}"#, "a".repeat(MAX_SUBJECT + 1));
        assert!(matches(&shell, None, &long));
    }

    /// Generates a JSON value that a model can have a runtime write. Such values have halves of surrogate pairs, numbers
    /// beyond any type, NUL and keys that repeat or look like the tool's.
    fn value() -> impl Strategy<Value = String> {
        let text = || {
            r#"([a-z/é😀]|\\u0000|\\ud800|\\udc00|\\n|\\"|\\u0061){0,6}"#
                .prop_map(|text| format!("\"{text}\""))
        };
        let leaf = prop_oneof![
            text(),
            "-?[1-9][0-9]{0,30}(\\.[0-9]{1,3})?([eE][+-]?[0-9]{1,4})?",
            Just("null".to_owned()),
            Just("true".to_owned()),
            (100_usize..127).prop_map(|depth| format!(
                "{}{}",
                "[".repeat(depth),
                "]".repeat(depth)
            )),
        ];
        let key = prop_oneof![
            text(),
            Just("\"tool_name\"".to_owned()),
            Just("\"source\"".to_owned())
        ];
        leaf.prop_recursive(3, 24, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4)
                    .prop_map(|all| format!("[{}]", all.join(","))),
                prop::collection::vec((key.clone(), inner), 0..4).prop_map(|all| {
                    let all: Vec<_> = all
                        .iter()
                        .map(|(key, value)| format!("{key}:{value}"))
                        .collect();
                    format!("{{{}}}", all.join(", "))
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn of_every_event_that_is_accepted_a_matcher_that_names_the_tool_matches(
            before in prop::collection::vec((r"[a-c\u{e9}]{1,3}", value()), 0..3),
            behind in prop::collection::vec((r"([d-f]|\\ud800){1,3}", value()), 0..3),
            key in prop_oneof![Just("tool_name"), Just("toolName"), Just("\\u0074ool_name")],
            tool in "[A-Za-z_]{1,12}",
        ) {
            let members = |all: &[(String, String)]| all.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect::<Vec<_>>();
            let mut all = members(&before);
            all.push(format!("\"{key}\":\"{tool}\""));
            all.extend(members(&behind));
            let event = format!("{{{}}}", all.join(","));
            prop_assume!(hookjail_base::model::event::parse_event(event.clone().into(), 1 << 20).is_ok());
            for mode in [Mode::ClaudeCode, Mode::Codex, Mode::Copilot, Mode::Cursor, Mode::DockerAgent, Mode::GeminiCli, Mode::Loom, Mode::QwenCode] {
                let matcher = Matcher::parse(mode, tool_point(mode), &tool).unwrap();
                prop_assert!(due(mode, &matcher, &event), "{mode:?} {tool} {event}");
                let other = Matcher::parse(mode, tool_point(mode), "0ther").unwrap();
                prop_assert!(!due(mode, &other, &event));
            }
        }
    }
}
