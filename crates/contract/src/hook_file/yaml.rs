//! Parses YAML with bounds on the size of the expanded value.
//!
//! A crate that deserializes does not serve. The value of an unquoted `on` differs between the runtimes, a repeated key must
//! be an error, and the size of expanded aliases must be known before it is built.

use std::collections::BTreeMap;

use saphyr_parser::{Event, Parser, ScalarStyle, Tag};
use serde_json::{Map, Number, Value};

/// The maximum nesting depth of lists and maps.
const MAX_DEPTH: usize = 64;

/// The maximum total weight of all values, with every alias written out. Weight counts bytes of text and [`NODE`] for each
/// value.
const MAX_WEIGHT: usize = 16 * 1024 * 1024;

/// The weight of a value beside its text.
const NODE: usize = 16;

const TOO_LARGE: &str = "grows too large with its aliases written out";

/// YAML version, which decides the plain words that are booleans.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Version {
    /// YAML 1.1: `on`, `off`, `yes` and `no` too. A key that is true is renamed `on`, as it was written.
    V1_1,
    /// YAML 1.2: `true` and `false` alone.
    V1_2,
}

/// Parses a text of at most one document; an empty one is null.
///
/// # Errors
///
/// Fails, with the position, for invalid YAML, a repeated key, and too deep or too large values.
pub(crate) fn parse(text: &str, version: Version) -> Result<Value, String> {
    let mut tree = Tree::new(version);
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| {
            let (line, column) = (error.marker().line(), error.marker().col() + 1);
            format!("is no YAML: line {line}, column {column}: {}", error.info())
        })?;
        tree.take(event)
            .map_err(|problem| format!("line {}: {problem}", span.start.line()))?;
    }
    Ok(tree.root.unwrap_or_default())
}

/// A value and its weight.
#[derive(Clone, Debug)]
struct Node {
    /// The text of a plain scalar, which distinguishes `<<` from a quoted key of that name.
    plain: Option<String>,
    value: Value,
    weight: usize,
}

/// A list or map that is still open.
#[derive(Debug)]
struct Open {
    anchor: usize,
    kind: Kind,
    weight: usize,
}

#[derive(Debug)]
enum Kind {
    List(Vec<Value>),
    Map {
        key: Option<Key>,
        map: Map<String, Value>,
        merged: Vec<Map<String, Value>>,
    },
}

#[derive(Debug)]
enum Key {
    Merge,
    Name(String),
}

#[derive(Debug)]
struct Tree {
    anchors: BTreeMap<usize, Node>,
    open: Vec<Open>,
    root: Option<Value>,
    version: Version,
    weight: usize,
}

impl Tree {
    const fn new(version: Version) -> Self {
        Self {
            anchors: BTreeMap::new(),
            open: Vec::new(),
            root: None,
            version,
            weight: 0,
        }
    }

    fn take(&mut self, event: Event<'_>) -> Result<(), String> {
        match event {
            Event::Alias(anchor) => {
                let found = self.anchors.get(&anchor);
                let found = found.ok_or("an alias stands inside of what it names")?;
                let weight = self.weight + found.weight;
                let node = (weight <= MAX_WEIGHT).then(|| found.clone());
                self.weight = weight;
                self.place(node.ok_or(TOO_LARGE)?)
            }
            Event::DocumentStart(_) if self.root.is_some() => {
                Err("a second document starts; remove it".to_owned())
            }
            Event::MappingEnd | Event::SequenceEnd => self.close(),
            Event::MappingStart(anchor, tag) => {
                let kind = Kind::Map {
                    key: None,
                    map: Map::new(),
                    merged: Vec::new(),
                };
                self.start(anchor, tag.as_deref(), kind)
            }
            Event::Scalar(text, style, anchor, tag) => {
                let node = self.scalar(&text, style, tag.as_deref())?;
                self.charge(node.weight)?;
                self.name(anchor, &node)?;
                self.place(node)
            }
            Event::SequenceStart(anchor, tag) => {
                self.start(anchor, tag.as_deref(), Kind::List(Vec::new()))
            }
            Event::DocumentEnd
            | Event::DocumentStart(_)
            | Event::Nothing
            | Event::StreamEnd
            | Event::StreamStart => Ok(()),
        }
    }

    fn start(&mut self, anchor: usize, tag: Option<&Tag>, kind: Kind) -> Result<(), String> {
        let core =
            |tag: &Tag| tag.is_yaml_core_schema() && matches!(tag.suffix.as_str(), "map" | "seq");
        if let Some(tag) = tag.filter(|tag| !core(tag)) {
            return Err(unknown(tag));
        }
        if self.open.len() == MAX_DEPTH {
            return Err(format!("nests deeper than {MAX_DEPTH}"));
        }
        self.charge(NODE)?;
        self.open.push(Open {
            anchor,
            kind,
            weight: NODE,
        });
        Ok(())
    }

    fn close(&mut self) -> Result<(), String> {
        let Some(open) = self.open.pop() else {
            return Err("ends what has not started".to_owned());
        };
        let value = match open.kind {
            Kind::List(items) => Value::Array(items),
            Kind::Map { map, merged, .. } => Value::Object(merge(map, merged)),
        };
        let node = Node {
            plain: None,
            value,
            weight: open.weight,
        };
        self.name(open.anchor, &node)?;
        self.place(node)
    }

    /// Stores a value for its aliases.
    fn name(&mut self, anchor: usize, node: &Node) -> Result<(), String> {
        if anchor != 0 {
            self.charge(node.weight)?;
            self.anchors.insert(anchor, node.clone());
        }
        Ok(())
    }

    /// Adds to the weight, up to its limit.
    fn charge(&mut self, weight: usize) -> Result<(), String> {
        self.weight += weight;
        if self.weight > MAX_WEIGHT {
            return Err(TOO_LARGE.to_owned());
        }
        Ok(())
    }

    fn scalar(&self, text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<Node, String> {
        let is_text = match tag {
            None => style != ScalarStyle::Plain,
            Some(tag) if tag.is_yaml_core_schema() => match tag.suffix.as_str() {
                "str" => true,
                "bool" | "float" | "int" | "null" => false,
                _ => return Err(unknown(tag)),
            },
            Some(tag) => return Err(unknown(tag)),
        };
        let value = if is_text {
            Value::String(text.to_owned())
        } else {
            resolve(text, self.version)
        };
        Ok(Node {
            plain: (!is_text).then(|| text.to_owned()),
            value,
            weight: NODE + text.len(),
        })
    }

    /// Inserts a value into the enclosing list or map.
    fn place(&mut self, node: Node) -> Result<(), String> {
        let version = self.version;
        let Some(parent) = self.open.last_mut() else {
            self.root = Some(node.value);
            return Ok(());
        };
        parent.weight += node.weight;
        match &mut parent.kind {
            Kind::List(items) => items.push(node.value),
            Kind::Map { key, map, merged } => match key.take() {
                None => {
                    let new = name_of(node, version)?;
                    if let Key::Name(name) = &new
                        && map.contains_key(name)
                    {
                        return Err(format!("repeats the key `{}`", name.escape_debug()));
                    }
                    *key = Some(new);
                }
                Some(Key::Merge) => merged.extend(sources(node.value)?),
                Some(Key::Name(name)) => {
                    map.insert(name, node.value);
                }
            },
        }
        Ok(())
    }
}

/// Converts a value to a key.
fn name_of(node: Node, version: Version) -> Result<Key, String> {
    match (node.value, node.plain) {
        (_, Some(plain)) if plain == "<<" => Ok(Key::Merge),
        (Value::Bool(true), Some(_)) if version == Version::V1_1 => Ok(Key::Name("on".to_owned())),
        (Value::String(text), _) | (_, Some(text)) => Ok(Key::Name(text)),
        (_, None) => Err("a key is a list or map; write a word".to_owned()),
    }
}

/// Returns the maps that `<<` refers to.
fn sources(value: Value) -> Result<Vec<Map<String, Value>>, String> {
    let items = if let Value::Array(items) = value {
        items
    } else {
        vec![value]
    };
    let map = |item| {
        if let Value::Object(map) = item {
            return Ok(map);
        }
        Err("`<<` must name a map, or a list of maps".to_owned())
    };
    items.into_iter().map(map).collect()
}

/// Adds absent keys to a map; earlier sources have precedence.
fn merge(mut map: Map<String, Value>, merged: Vec<Map<String, Value>>) -> Map<String, Value> {
    for (key, value) in merged.into_iter().flatten() {
        map.entry(key).or_insert(value);
    }
    map
}

fn unknown(tag: &Tag) -> String {
    format!("the tag `{tag}` is not understood")
}

/// Converts a plain scalar to a typed value.
fn resolve(text: &str, version: Version) -> Value {
    let is_old = version == Version::V1_1;
    match text {
        "" | "~" | "NULL" | "Null" | "null" => return Value::Null,
        "TRUE" | "True" | "true" => return Value::Bool(true),
        "FALSE" | "False" | "false" => return Value::Bool(false),
        "ON" | "On" | "YES" | "Yes" | "on" | "yes" if is_old => return Value::Bool(true),
        "NO" | "No" | "OFF" | "Off" | "no" | "off" if is_old => return Value::Bool(false),
        _ => {}
    }
    number(text).map_or_else(|| Value::String(text.to_owned()), Value::Number)
}

fn number(text: &str) -> Option<Number> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let is_number = digits.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && digits.contains(|c: char| c.is_ascii_digit())
        && digits
            .chars()
            .all(|c| c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '-' | '+'));
    if !is_number {
        return None;
    }
    let whole = text.strip_prefix('+').unwrap_or(text).parse::<i64>().ok();
    whole
        .map(Number::from)
        .or_else(|| text.parse::<u64>().ok().map(Number::from))
        .or_else(|| Number::from_f64(text.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_what_they_look_like() {
        let text = "a: 1\nb: -2.5\nc: 'x'\nd: [true, ~, on, \"on\"]\ne: 1.2.3\nf: !!str 7\n";
        let expected = json!({"a": 1, "b": -2.5, "c": "x", "d": [true, null, "on", "on"], "e": "1.2.3", "f": "7"});
        assert_eq!(parse(text, Version::V1_2), Ok(expected));
        assert_eq!(parse("", Version::V1_2), Ok(Value::Null));
    }

    #[test]
    fn an_old_boolean_is_one_where_the_system_says_so() {
        let text = "on: turn_end\nwake: yes\n";
        let expected = json!({"on": "turn_end", "wake": true});
        assert_eq!(parse(text, Version::V1_1), Ok(expected));
        let expected = json!({"on": "turn_end", "wake": "yes"});
        assert_eq!(parse(text, Version::V1_2), Ok(expected));
        let quoted = parse("'on': 'yes'\n", Version::V1_1);
        assert_eq!(quoted, Ok(json!({"on": "yes"})));
        assert!(parse("on: a\ntrue: b\n", Version::V1_1).is_err());
    }

    #[test]
    fn aliases_and_merges_are_written_out() {
        let text =
            "base: &b {timeout: 5, type: command}\nhook:\n  <<: *b\n  timeout: 7\nagain: *b\n";
        let base = json!({"timeout": 5, "type": "command"});
        let expected =
            json!({"base": base, "hook": {"timeout": 7, "type": "command"}, "again": base});
        assert_eq!(parse(text, Version::V1_2), Ok(expected));
    }

    #[test]
    fn what_would_hide_something_is_refused() {
        for (text, problem) in [
            ("a: 1\na: 2\n", "line 2: repeats the key `a`"),
            ("a: &x [*x]\n", "line 1: an alias stands inside"),
            ("a: 1\n---\nb: 2\n", "a second document starts"),
            ("a: !cmd x\n", "line 1: the tag `!cmd` is not understood"),
            ("? [a]\n: 1\n", "a key is a list or map"),
            ("<<: 7\n", "`<<` must name a map"),
            ("a: [1\n", "is no YAML"),
            ("a: *b\n", "is no YAML"),
        ] {
            let error = parse(text, Version::V1_2).unwrap_err();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }

    #[test]
    fn a_billion_laughs_are_not_written_out() {
        let mut text = "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n".to_owned();
        for level in 1..40 {
            let aliases = vec![format!("*a{}", level - 1); 9].join(", ");
            text.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
        }
        let error = parse(&text, Version::V1_2).unwrap_err();
        assert!(error.contains("grows too large"), "{error}");
    }

    #[test]
    fn many_aliases_of_one_long_text_are_not_written_out() {
        let mut text = format!("a: &a {}\nb:\n", "x".repeat(256 * 1024));
        text.push_str(&"- *a\n".repeat(1000));
        let error = parse(&text, Version::V1_2).unwrap_err();
        assert!(error.contains("grows too large"), "{error}");
    }

    #[test]
    fn depth_is_bounded() {
        let error = parse(&"[".repeat(100), Version::V1_2).unwrap_err();
        assert!(error.contains("nests deeper than 64"), "{error}");
        assert!(parse(&"[".repeat(100_000), Version::V1_2).is_err());
        let block: String = (0..1000).map(|depth| " ".repeat(depth) + "-\n").collect();
        assert!(parse(&block, Version::V1_2).is_err());
    }
}
