//! `hook.toml`: a hook's own statement of its name, purpose, command, points, needs and tests.
//!
//! The statement comes with the hook. By itself it gives no right: its needs become a profile once somebody agrees.

use std::{
    collections::BTreeMap,
    path::{Component, Path, PathBuf},
};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use toml::{Table, Value};

use hookjail_base::{
    model::{ProfileName, is_unseen},
    util::keyed_toml,
};

use crate::profile::ProfileFile;

/// The name of the file, and the end of the names of those that stand beside several hooks.
pub const FILE: &str = "hook.toml";

/// The keys of a profile that its operator alone sets.
pub const OPERATORS: [&str; 3] = ["description", "granted_by", "part"];

/// The begin of the name of each profile that is made of needs.
const MADE: &str = "hook-";

/// The longest name, characters.
const LONGEST_NAME: usize = 60;

/// The longest purpose, characters.
const LONGEST_PURPOSE: usize = 200;

/// A hook's declaration.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Declaration of a hook")]
pub struct Declaration {
    /// The command: words, or a line of them. Words that name files are relative to the declaration.
    #[serde(deserialize_with = "words")]
    #[schemars(with = "LineOrWords")]
    pub command: Vec<String>,
    /// The name, in at most 60 characters.
    pub name: String,
    /// The needs: the name of a profile, or the keys of one. Default: the default of `install`, `develop`.
    #[serde(default)]
    #[schemars(schema_with = "schema_of_needs")]
    pub needs: Option<Needs>,
    /// The lifecycle points, by runtime: `RUNTIME = ["POINT"]`. Default: any.
    #[serde(default)]
    pub points: BTreeMap<String, Vec<String>>,
    /// The purpose, in at most 200 characters.
    pub purpose: String,
    /// The files of tests, relative to the declaration.
    #[serde(default)]
    pub tests: Vec<PathBuf>,
}

/// A hook's needs.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(untagged)]
pub enum Needs {
    /// The name of a profile.
    Profile(String),
    /// The keys of a profile.
    Own(Table),
}

/// A command as it is written.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
enum LineOrWords {
    Line(String),
    Words(Vec<String>),
}

/// A declaration that cannot be one.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct DeclarationError(String);

impl Declaration {
    /// Returns the schema of the file.
    pub fn schema(generator: SchemaGenerator) -> Schema {
        generator.into_root_schema_for::<Self>()
    }

    /// Parses a file.
    ///
    /// # Errors
    ///
    /// Names the key that is unknown, missing or has an invalid value.
    pub fn parse(text: &str) -> Result<Self, DeclarationError> {
        let read: Self = keyed_toml::read(text).map_err(|error| match error.as_invalid() {
            Some((key, problem)) => DeclarationError(format!("`{key}` {problem}")),
            None => DeclarationError(error.to_string()),
        })?;
        read.check()?;
        Ok(read)
    }

    fn check(&self) -> Result<(), DeclarationError> {
        let wrong =
            |key: &str, problem: String| Err(DeclarationError(format!("`{key}` {problem}")));
        for (key, text, longest) in [
            ("name", &self.name, LONGEST_NAME),
            ("purpose", &self.purpose, LONGEST_PURPOSE),
        ] {
            if text.trim().is_empty() {
                return wrong(key, "is blank; describe the hook".to_owned());
            }
            if text.chars().any(|c| c.is_control() || is_unseen(c)) {
                return wrong(
                    key,
                    "has characters that cannot be seen; keep to one line".to_owned(),
                );
            }
            let length = text.chars().count();
            if length > longest {
                let problem = format!("has {length} characters; keep to {longest}");
                return wrong(key, problem);
            }
        }
        if let Some(test) = self.tests.iter().find(|it| !is_below(it)) {
            let problem = format!("names `{}`; name a file beside or below", test.display());
            return wrong("tests", problem);
        }
        if let Some(Needs::Profile(name)) = &self.needs
            && ProfileName::parse(name).is_none()
        {
            return wrong("needs", format!("is `{name}`, which is no profile's name"));
        }
        if let Some(Needs::Own(keys)) = &self.needs {
            if let Some(key) = OPERATORS.into_iter().find(|key| keys.contains_key(*key)) {
                return wrong(
                    "needs",
                    format!("has `{key}`, which its user decides; leave it out"),
                );
            }
            if !keys.contains_key("extends") {
                return wrong(
                    "needs",
                    "extends no profile; name one by `extends`".to_owned(),
                );
            }
            ProfileFile::parse(&self.text(keys))
                .map_err(|cause| DeclarationError(format!("`needs`: {cause}")))?;
        }
        Ok(())
    }

    /// Returns the profile of its needs: the name, and its text where it is one of its own; `None` where it names no needs.
    ///
    /// The name of a profile of its own has a digest of the needs, so that other needs are another profile.
    #[must_use]
    pub fn profile(&self) -> Option<(ProfileName, Option<String>)> {
        match self.needs.as_ref()? {
            Needs::Profile(name) => Some((ProfileName::parse(name)?, None)),
            Needs::Own(keys) => {
                let digest = format!("{:x}", Sha256::digest(toml::to_string(keys).ok()?));
                let slug = slug(&self.name);
                let name = ProfileName::parse(&format!("{MADE}{slug}{}", digest.get(..8)?))?;
                Some((name, Some(self.text(keys))))
            }
        }
    }

    /// Returns the text of a profile with these keys. The purpose is left out, as it is no need.
    fn text(&self, keys: &Table) -> String {
        let mut keys = keys.clone();
        let description = format!("the needs that a hook declares: {}", self.name);
        keys.insert("description".to_owned(), Value::String(description));
        keys.insert(
            "granted_by".to_owned(),
            Value::String("operator".to_owned()),
        );
        toml::to_string(&keys).unwrap_or_default()
    }
}

/// Returns whether a relative path leads to no other directory than one below.
fn is_below(path: &Path) -> bool {
    let mut components = path.components();
    components.all(|it| matches!(it, Component::Normal(_)))
}

/// Returns whether a profile has the name of one that is made of needs.
#[must_use]
pub fn is_made(profile: &str) -> bool {
    profile.starts_with(MADE)
}

/// Returns the letters and digits of a name, with a dash for each gap and one at the end.
fn slug(name: &str) -> String {
    const LONGEST: usize = 40;
    let words = name.split(|c: char| !c.is_ascii_alphanumeric());
    let mut slug = String::new();
    for word in words.filter(|word| !word.is_empty()) {
        if slug.len() + word.len() > LONGEST {
            break;
        }
        slug.push_str(&word.to_ascii_lowercase());
        slug.push('-');
    }
    slug
}

impl Needs {
    /// Returns the names that they are or extend: a profile, and parts.
    #[must_use]
    pub fn extends(&self) -> Vec<&str> {
        match self {
            Self::Profile(name) => vec![name],
            Self::Own(keys) => match keys.get("extends") {
                Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
                Some(name) => name.as_str().into_iter().collect(),
                None => Vec::new(),
            },
        }
    }

    /// Returns the hosts that they name, as they are written: rules of `egress`, and URLs of `requests`.
    #[must_use]
    pub fn hosts(&self) -> Vec<&str> {
        let rules = self.entries("egress").filter_map(Value::as_str);
        let urls = self.entries("requests");
        let urls = urls.filter_map(|request| request.get("url")?.as_str());
        rules.chain(urls).collect()
    }

    /// Returns the names of the secrets that they name.
    #[must_use]
    pub fn secrets(&self) -> Vec<&str> {
        let requests = self.entries("requests");
        let names = requests.filter_map(|request| request.get("secret")?.as_str());
        names.collect()
    }

    /// Returns the entries of a list.
    fn entries(&self, key: &str) -> impl Iterator<Item = &Value> {
        let list = match self {
            Self::Profile(_) => None,
            Self::Own(keys) => keys.get(key).and_then(Value::as_array),
        };
        list.into_iter().flatten()
    }

    /// Returns whether they set variables.
    #[must_use]
    pub fn sets_variables(&self) -> bool {
        matches!(self, Self::Own(keys) if keys.contains_key("environment"))
    }
}

/// Returns the text of a profile that only extends others.
#[must_use]
pub fn extending(names: &[&str]) -> String {
    let names = names.iter().map(|name| Value::String((*name).to_owned()));
    let entries = [
        (
            "description",
            Value::String("profiles that others extend".to_owned()),
        ),
        ("extends", Value::Array(names.collect())),
        ("granted_by", Value::String("operator".to_owned())),
    ];
    let table: Table = entries
        .map(|(key, value)| (key.to_owned(), value))
        .into_iter()
        .collect();
    toml::to_string(&table).unwrap_or_default()
}

fn words<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let words = match LineOrWords::deserialize(deserializer)? {
        LineOrWords::Line(line) => shlex::split(&line)
            .ok_or_else(|| keyed_toml::invalid("has a quote without an end; close it"))?,
        LineOrWords::Words(words) => words,
    };
    match words.first().is_some_and(|word| !word.is_empty()) {
        true => Ok(words),
        false => Err(keyed_toml::invalid(
            "has no word; name the hook's program or script",
        )),
    }
}

/// Returns the schema of `needs`: a name, or the keys of a profile but those that its operator sets.
fn schema_of_needs(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = generator
        .clone()
        .into_root_schema_for::<ProfileFile>()
        .to_value();
    let definitions = schema.as_object_mut().and_then(|it| it.remove("$defs"));
    if let Some(definitions) = definitions.as_ref().and_then(|it| it.as_object()) {
        for (name, definition) in definitions {
            let all = generator.definitions_mut();
            all.entry(name.clone())
                .or_insert_with(|| definition.clone());
        }
    }
    if let Some(schema) = schema.as_object_mut() {
        schema.remove("$schema");
        schema.remove("title");
        schema.insert("required".to_owned(), serde_json::json!(["extends"]));
        let properties = schema
            .get_mut("properties")
            .and_then(|it| it.as_object_mut());
        if let Some(properties) = properties {
            properties.retain(|key, _| !OPERATORS.contains(&key.as_str()));
        }
    }
    json_schema!({
        "anyOf": [{ "type": "string", "description": "The name of a profile." }, schema, { "type": "null" }],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "name = \"Post: the summary\"\npurpose = \"Posts each summary.\"\ncommand = \"python3 post.py\"\n";

    fn parsed(more: &str) -> Result<Declaration, String> {
        Declaration::parse(&format!("{HEAD}{more}")).map_err(|error| error.to_string())
    }

    #[test]
    fn needs_are_a_profile_by_name_or_one_that_is_named_by_its_digest() {
        assert_eq!(parsed("").unwrap().profile(), None);
        let (name, text) = parsed("needs = \"pipeline\"").unwrap().profile().unwrap();
        assert_eq!((name.as_str(), text), ("pipeline", None));
        let slack = "[needs]\nextends = \"pipeline\"\nnetwork = \"named\"\negress = [\"hooks.slack.com:443\"]";
        let (name, text) = parsed(slack).unwrap().profile().unwrap();
        let (other, _) = parsed(&slack.replace("slack", "teams"))
            .unwrap()
            .profile()
            .unwrap();
        assert!(
            name.as_str().starts_with("hook-post-the-summary-"),
            "{name}"
        );
        assert!(is_made(name.as_str()) && name != other);
        let text = text.unwrap();
        assert!(text.contains("granted_by = \"operator\""), "{text}");
        assert!(ProfileFile::parse(&text).is_ok());
    }

    #[test]
    fn tests_lie_beside_or_below() {
        let tests = parsed("tests = [\"a.hooktest.toml\", \"b/c.hooktest.toml\"]")
            .unwrap()
            .tests;
        assert_eq!(tests.len(), 2);
    }

    #[test]
    fn the_example_of_the_page_is_a_declaration() {
        let page = include_str!("../../../docs/declarations.md");
        let example = page.split("```toml\n").nth(1).unwrap();
        let declared = Declaration::parse(example.split("```").next().unwrap()).unwrap();
        assert_eq!(declared.points.len(), 2);
        let needs = declared.needs.as_ref().unwrap();
        assert_eq!(needs.hosts(), ["https://hooks.slack.com/services/"]);
        assert_eq!(needs.secrets(), ["slack-webhook"]);
        assert!(declared.profile().unwrap().1.is_some());
    }

    #[test]
    fn a_purpose_changes_no_profile() {
        let needs = "[needs]\nextends = \"pipeline\"\n";
        let one = parsed(needs).unwrap().profile();
        let other = format!("{}{needs}", HEAD.replace("Posts each", "Sends every"));
        assert_eq!(Declaration::parse(&other).unwrap().profile(), one);
    }

    #[test]
    fn what_a_declaration_cannot_say_is_named() {
        for (more, part) in [
            ("color = \"red\"", "`color`"),
            ("needs = \"No such!\"", "`needs`"),
            ("[needs]\nnetwork = \"named\"", "name one by `extends`"),
            (
                "[needs]\nextends = \"strict\"\ngranted_by = \"anyone\"",
                "`granted_by`",
            ),
            ("[needs]\nextends = \"strict\"\nnet = 1", "`needs`: "),
            (
                "tests = [\"../other.hooktest.toml\"]",
                "`tests` names `../other.hooktest.toml`",
            ),
            ("tests = [\"/etc/passwd\"]", "`tests` names"),
            ("tests = [\"a/../../b\"]", "`tests` names"),
        ] {
            let error = parsed(more).unwrap_err();
            assert!(error.contains(part), "{more}: {error}");
        }
        for (head, part) in [
            (HEAD.replace("Post: the summary", "  "), "`name` is blank"),
            (HEAD.replace("Post: the summary", "a\\nb"), "cannot be seen"),
            (
                HEAD.replace("Posts", "\\u202EPosts"),
                "`purpose` has characters",
            ),
            (HEAD.replace("Posts", &"a".repeat(200)), "keep to 200"),
            (
                HEAD.replace("python3 post.py", "'"),
                "`command` has a quote",
            ),
            (HEAD.replace("python3 post.py", ""), "`command` has no word"),
        ] {
            let error = Declaration::parse(&head).unwrap_err().to_string();
            assert!(error.contains(part), "{head}: {error}");
        }
    }
}
