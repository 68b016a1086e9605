//! Which events an entry is for, beyond its point.
//!
//! A matcher may not hide a hook: one that has nothing to look at, or more than it looks at, matches.

use std::{borrow::Cow, collections::BTreeMap};

use regex::{Regex, RegexBuilder};
use serde_json::{Map, Value};

use crate::{
    contract::{Members, Mode, text},
    request::InvalidField,
};

/// How long a matcher may be, bytes.
const MAX_MATCHER: usize = 4 * 1024;

/// How large a matcher may become when it is compiled, and what it may keep while it looks, bytes each.
const MAX_COMPILED: usize = 256 * 1024;

/// How long a subject is looked at, bytes. A longer one matches everything, as searching takes time by its length.
const MAX_SUBJECT: usize = 16 * 1024;

/// What an entry's matcher says.
#[derive(Clone, Debug, Default)]
pub enum Matcher {
    /// Every event of its point.
    #[default]
    Always,
    /// Members of the event, each with what it must be. One that is absent never matches.
    Fields(BTreeMap<String, Field>),
    /// Subjects by name.
    Names(Vec<String>),
    /// A regular expression on the subject.
    Pattern(Box<Regex>),
}

/// What a member of an event must be.
#[derive(Clone, Debug)]
pub enum Field {
    /// This value.
    Exactly(Value),
    /// A text that fits a pattern of file names.
    Glob(Regex),
}

impl Matcher {
    /// Reads a matcher in the spelling of a contract's entries. White space around it is none of it.
    ///
    /// # Errors
    ///
    /// The contract's entries have none, it is no regular expression, or it is larger than matchers may be.
    pub fn parse(mode: Mode, text: &str) -> Result<Self, InvalidField> {
        let text = text.trim();
        if matches!(text, "" | "*") {
            return Ok(Self::Always);
        }
        let field = |problem| InvalidField::new("matcher", problem);
        of_bounded_length(text).map_err(field)?;
        let pattern = |text: &str| {
            let compiled = compiled(text).map_err(field)?;
            Ok(Self::Pattern(Box::new(compiled)))
        };
        let whole = || pattern(&format!("^(?:{text})$"));
        match mode.contract_name() {
            "claude_code" if text.chars().all(is_of_a_list) => {
                let names = text.split(['|', ',']).map(|name| name.trim().to_owned());
                Ok(Self::Names(names.collect()))
            }
            "claude_code" | "codex" | "cursor" | "gemini_cli" => pattern(text),
            "copilot" | "docker_agent" => whole(),
            "loom" => {
                let globs = text.split(',').map(|glob| glob_expression(glob.trim()));
                let globs = globs.collect::<Result<Vec<_>, _>>().map_err(field)?;
                pattern(&globs.join("|"))
            }
            contract => {
                let problem = format!("is not a key of entries under `{contract}`");
                Err(InvalidField::new("matcher", problem))
            }
        }
    }

    /// Reads reyn's map of members: `uri` and `path` are patterns of file names, everything else is compared.
    ///
    /// # Errors
    ///
    /// A pattern is none, or larger than matchers may be.
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

    /// Says whether an event is meant, by an entry of this contract.
    pub(crate) fn matches(&self, mode: Mode, subjects: &Subjects<'_>, event: &Members<'_>) -> bool {
        match self {
            Self::Always => true,
            Self::Fields(fields) => fields.iter().all(|(name, field)| {
                event.last(name).is_some_and(|member| match field {
                    // What has no `Value` is none that a file of hooks can name.
                    Field::Exactly(value) => {
                        serde_json::from_str(member.get()).is_ok_and(|found: Value| found == *value)
                    }
                    Field::Glob(pattern) => text(member)
                        .is_some_and(|text| text.len() > MAX_SUBJECT || pattern.is_match(&text)),
                })
            }),
            Self::Names(names) => {
                subjects.any(mode, |subject| names.iter().any(|name| name == subject))
            }
            Self::Pattern(pattern) => subjects.any(mode, |subject| pattern.is_match(subject)),
        }
    }
}

/// What matchers at a point look at.
#[derive(Debug)]
pub(crate) struct Subjects<'a> {
    /// None of them is unreadable or too long.
    all: Vec<Cow<'a, str>>,
}

impl<'a> Subjects<'a> {
    /// Finds them: the tool that the request names, and the tool that the event names, or the member that the contracts have
    /// in its place. A member that is no text, an empty one or more than 16 KiB of it, cannot be looked at.
    pub(crate) fn of(point: &str, tool: Option<&'a str>, event: &Members<'_>) -> Self {
        const MEMBERS: [&str; 10] = [
            "tool_name",
            "toolName",
            "source",
            "trigger",
            "notification_type",
            "mcp_server_name",
            "command_name",
            "agent_type",
            "reason",
            "command",
        ];
        // Every event of a subagent, or of a session that was started as one, has it: there it says who asks, and not for what.
        let is_of_agents = point.contains("ubagent");
        let named = tool.filter(|name| !name.is_empty()).map(Cow::Borrowed);
        let members = MEMBERS
            .iter()
            .filter(|member| is_of_agents || **member != "agent_type");
        let own = members.into_iter().find_map(|member| event.last(member));
        let own = own.map(|member| text(member).map(Cow::Owned));
        let given = named.map(Some).into_iter().chain(own);
        let readable = |subject: &Cow<'_, str>| (1..=MAX_SUBJECT).contains(&subject.len());
        let all = given.map(|subject| subject.filter(readable));
        Self {
            // One that cannot be looked at could be what any matcher is for.
            all: all.collect::<Option<_>>().unwrap_or_default(),
        }
    }

    /// Says whether a matcher takes one of them, by any name that its contract knows; where there is none, every matcher does.
    fn any(&self, mode: Mode, is: impl Fn(&str) -> bool) -> bool {
        let is_one = |subject: &Cow<'_, str>| {
            is(subject) || mode.other_names(subject).iter().any(|name| is(name))
        };
        self.all.is_empty() || self.all.iter().any(is_one)
    }
}

fn of_bounded_length(text: &str) -> Result<(), String> {
    if text.len() > MAX_MATCHER {
        return Err(format!(
            "is {} bytes long; at most {MAX_MATCHER} are accepted",
            text.len()
        ));
    }
    Ok(())
}

/// Compiles a regular expression within the bounds of matchers.
fn compiled(text: &str) -> Result<Regex, String> {
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
        // The lines before the last draw the expression.
        let shown = error.to_string();
        let why = shown.lines().last().unwrap_or_default().trim();
        let why = why.strip_prefix("error: ").unwrap_or(why);
        format!("is no regular expression: {why}")
    })
}

/// Translates a pattern of file names: `*` any text, `?` one character, `[…]` one of these, `[!…]` one of no others.
fn glob_expression(glob: &str) -> Result<String, String> {
    let mut expression = String::from("(?s)^");
    let mut rest = glob.chars();
    while let Some(c) = rest.next() {
        match c {
            '*' => {
                // Several in a row say no more than one.
                if !expression.ends_with(".*") {
                    expression.push_str(".*");
                }
            }
            '?' => expression.push('.'),
            '[' => {
                let class = rest.as_str();
                let negated = class.starts_with('!');
                let members = &class[usize::from(negated)..];
                // A bracket that comes first is a member.
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

fn is_of_a_list(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | ',' | '|' | ' ')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn is_due(mode: Mode, text: &str, point: &str, event: &str) -> bool {
        let event = Members::of_event(event.as_bytes()).unwrap();
        let matcher = Matcher::parse(mode, text).unwrap();
        matcher.matches(mode, &Subjects::of(point, None, &event), &event)
    }

    fn matches(matcher: &Matcher, tool: Option<&str>, event: &str) -> bool {
        let event = Members::of_event(event.as_bytes()).unwrap();
        matcher.matches(Mode::Observe, &Subjects::of("", tool, &event), &event)
    }

    fn takes(mode: Mode, text: &str, tool: &str) -> bool {
        let event = Members::default();
        let matcher = Matcher::parse(mode, text).unwrap();
        matcher.matches(mode, &Subjects::of("", Some(tool), &event), &event)
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
    fn who_asks_is_no_subject_but_where_agents_begin_and_end() {
        for (point, matcher, event, expected) in [
            (
                "Elicitation",
                "mail",
                r#"{"agent_type":"a","mcp_server_name":"mail"}"#,
                true,
            ),
            (
                "Elicitation",
                "mail",
                r#"{"agent_type":"a","mcp_server_name":"chat"}"#,
                false,
            ),
            (
                "UserPromptExpansion",
                "deploy",
                r#"{"agent_type":"a","command_name":"deploy"}"#,
                true,
            ),
            (
                "SessionEnd",
                "logout",
                r#"{"agent_type":"a","reason":"logout"}"#,
                true,
            ),
            // What a point is about need not be known.
            (
                "PreModelSwitch",
                "opus",
                r#"{"agent_type":"a","to":"opus"}"#,
                true,
            ),
            ("SubagentStart", "a", r#"{"agent_type":"a"}"#, true),
            ("SubagentStart", "b", r#"{"agent_type":"a"}"#, false),
        ] {
            let found = is_due(Mode::ClaudeCode, matcher, point, event);
            assert_eq!(found, expected, "{point} {matcher} {event}");
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
        assert!(Matcher::parse(Mode::Basecoat, "x").is_err());
        for glob in ["[", "a[]", "[!]"] {
            let problem = Matcher::parse(Mode::Loom, glob).unwrap_err().problem;
            assert!(problem.starts_with("is no pattern of names: "), "{problem}");
        }
        let problem = Matcher::parse(Mode::Codex, "a(").unwrap_err().problem;
        assert_eq!(problem, "is no regular expression: unclosed group");
    }

    #[test]
    fn a_matcher_has_a_bounded_length_and_size_and_takes_linear_time() {
        let long = "a|".repeat(4096);
        let problem = Matcher::parse(Mode::Codex, &long).unwrap_err().problem;
        assert_eq!(problem, "is 8192 bytes long; at most 4096 are accepted");
        let large = r"(\w{20}){6}x";
        let problem = Matcher::parse(Mode::Codex, large).unwrap_err().problem;
        assert!(problem.starts_with("becomes larger than "), "{problem}");
        assert!(Matcher::parse(Mode::Codex, r"^mcp__\w+__(?:read|write)_\w+$").is_ok());
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
    fn a_matcher_looks_at_the_tool_or_what_stands_in_its_place() {
        let shell = Matcher::parse(Mode::ClaudeCode, "shell|resume").unwrap();
        for (tool, event, expected) in [
            (Some("shell"), r#"{"source":"startup"}"#, true),
            (Some(""), r#"{"source":"resume"}"#, true),
            (None, r#"{"source":"startup"}"#, false),
            (Some("read"), "", false),
            // Where two are named, one is enough.
            (Some("read"), r#"{"tool_name":"shell"}"#, true),
            // What cannot be looked at could be anything.
            (None, "", true),
            (None, r#"{"tool_name":1,"source":"startup"}"#, true),
            (None, r#"{"tool_name":"","source":"startup"}"#, true),
            (Some("read"), r#"{"tool_name":null}"#, true),
        ] {
            assert_eq!(matches(&shell, tool, event), expected, "{tool:?} {event}");
        }
        let long = format!(r#"{{"command":"{}"}}"#, "a".repeat(MAX_SUBJECT + 1));
        assert!(matches(&shell, None, &long));
    }

    /// A JSON value as a model can have a runtime write it: with halves of surrogate pairs, numbers beyond any type, NUL and
    /// keys that repeat or look like the tool's.
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
            prop_assume!(crate::event::parse_event(event.clone().into(), 1 << 20).is_ok());
            for mode in [Mode::ClaudeCode, Mode::Codex, Mode::Copilot, Mode::Cursor, Mode::DockerAgent, Mode::GeminiCli, Mode::Loom] {
                let matcher = Matcher::parse(mode, &tool).unwrap();
                prop_assert!(matches(&matcher, None, &event), "{mode:?} {tool} {event}");
                let other = Matcher::parse(mode, "0ther").unwrap();
                prop_assert!(!matches(&other, None, &event));
            }
        }
    }
}
