//! Which events an entry is for, beyond its point.

use std::collections::BTreeMap;

use glob::Pattern;
use regex::Regex;
use serde_json::{Map, Value};

use crate::{contract::Mode, request::InvalidField};

/// What an entry's matcher says.
#[derive(Clone, Debug, Default)]
pub enum Matcher {
    /// Every event of its point.
    #[default]
    Always,
    /// Members of the event, each with what it must be. One that is absent never matches.
    Fields(BTreeMap<String, Field>),
    /// A pattern of file names on the subject.
    Globs(Vec<Pattern>),
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
    Glob(Pattern),
}

impl Matcher {
    /// Reads a matcher in the spelling of a contract's entries.
    ///
    /// # Errors
    ///
    /// The contract's entries have none, or it is no regular expression.
    pub fn parse(mode: Mode, text: &str) -> Result<Self, InvalidField> {
        if matches!(text, "" | "*") {
            return Ok(Self::Always);
        }
        let pattern = |text: &str| {
            let compiled = Regex::new(text).map_err(|error| {
                // The lines before the last draw the expression.
                let shown = error.to_string();
                let why = shown.lines().last().unwrap_or_default().trim();
                let why = why.strip_prefix("error: ").unwrap_or(why);
                let problem = format!("is no regular expression: {why}");
                InvalidField::new("matcher", problem)
            })?;
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
                let glob = |text: &str| {
                    Pattern::new(text.trim()).map_err(|error| {
                        let problem = format!("is no pattern of names: {error}");
                        InvalidField::new("matcher", problem)
                    })
                };
                let globs = text.split(',').map(glob).collect::<Result<_, _>>()?;
                Ok(Self::Globs(globs))
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
    /// A pattern is none.
    pub fn fields(map: &Map<String, Value>) -> Result<Self, InvalidField> {
        let field = |(name, value): (&String, &Value)| {
            let glob = value
                .as_str()
                .filter(|_| matches!(name.as_str(), "path" | "uri"));
            let field = match glob {
                Some(text) => {
                    let pattern = Pattern::new(text).map_err(|error| {
                        let problem = format!("is no pattern of names: {error}");
                        InvalidField::new(format!("matcher.{name}"), problem)
                    })?;
                    Field::Glob(pattern)
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

    /// Says whether an event is meant; `subject` is the tool's name, or what the point has in its place.
    pub fn matches(&self, subject: Option<&str>, event: &Map<String, Value>) -> bool {
        match self {
            Self::Always => true,
            Self::Fields(fields) => {
                fields
                    .iter()
                    .all(|(name, field)| match (field, event.get(name)) {
                        (Field::Exactly(value), Some(found)) => value == found,
                        (Field::Glob(pattern), Some(Value::String(text))) => pattern.matches(text),
                        (_, _) => false,
                    })
            }
            Self::Globs(globs) => {
                subject.is_some_and(|subject| globs.iter().any(|glob| glob.matches(subject)))
            }
            Self::Names(names) => {
                subject.is_some_and(|subject| names.iter().any(|name| name == subject))
            }
            Self::Pattern(pattern) => subject.is_some_and(|subject| pattern.is_match(subject)),
        }
    }
}

fn is_of_a_list(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | ',' | '|' | ' ')
}

/// Returns what matchers at a point look at: the tool's name, else the member that the contracts name in its place.
pub fn subject<'a>(tool: Option<&'a str>, event: &'a Map<String, Value>) -> Option<&'a str> {
    const MEMBERS: [&str; 8] = [
        "tool_name",
        "toolName",
        "source",
        "trigger",
        "notification_type",
        "agent_type",
        "reason",
        "command",
    ];
    let named = tool.filter(|name| !name.is_empty());
    named.or_else(|| {
        MEMBERS
            .iter()
            .find_map(|member| event.get(*member).and_then(Value::as_str))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn matches(mode: Mode, text: &str, tool: &str) -> bool {
        let matcher = Matcher::parse(mode, text).unwrap();
        matcher.matches(Some(tool), &Map::new())
    }

    #[test]
    fn globs_and_everything_match() {
        assert!(matches(Mode::Loom, "", "shell"));
        assert!(matches(Mode::Loom, "*", "shell"));
        assert!(matches(Mode::Loom, "fs_*, shell", "fs_write"));
        assert!(!matches(Mode::Loom, "fs_*", "shell"));
    }

    #[test]
    fn what_a_contract_cannot_match_is_refused() {
        assert!(Matcher::parse(Mode::Basecoat, "x").is_err());
        assert!(Matcher::parse(Mode::Loom, "[").is_err());
    }

    #[test]
    fn members_are_compared_and_an_absent_one_never_matches() {
        let map = json!({"path": "/src/*.rs", "event_type": "modified"});
        let matcher = Matcher::fields(map.as_object().unwrap()).unwrap();
        for (event, expected) in [
            (
                json!({"path": "/src/a/b.rs", "event_type": "modified"}),
                true,
            ),
            (
                json!({"path": "/src/a.py", "event_type": "modified"}),
                false,
            ),
            (json!({"path": "/src/a.rs", "event_type": "created"}), false),
            (json!({"path": "/src/a.rs"}), false),
            (json!({"path": 1, "event_type": "modified"}), false),
        ] {
            let event = event.as_object().unwrap();
            assert_eq!(matcher.matches(None, event), expected, "{event:?}");
        }
        assert!(
            Matcher::fields(&Map::new())
                .unwrap()
                .matches(None, &Map::new())
        );
    }

    #[test]
    fn a_subject_is_the_tool_or_what_stands_in_its_place() {
        let event = json!({"source": "resume", "tool_name": 1});
        let event = event.as_object().unwrap();
        assert_eq!(subject(Some("shell"), event), Some("shell"));
        assert_eq!(subject(Some(""), event), Some("resume"));
        assert_eq!(subject(None, &Map::new()), None);
    }
}
