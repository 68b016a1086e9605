//! Edits values in a JSON or YAML text and leaves all other text unchanged.

use std::{collections::BTreeMap, ops::Range};

use saphyr_parser::{Event, Parser, ScalarStyle};
use serde_json::{Value, value::RawValue};

/// The syntax of settings.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Syntax {
    Json,
    Yaml,
}

/// A replacement of a range of text.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Edit {
    pub(super) place: Range<usize>,
    pub(super) text: String,
}

/// Returns a member's range and text in the entry at a path.
///
/// A path is such as `hooks.PreToolUse[0].hooks[1]`. `None` where there is no such member; in YAML only a literal
/// scalar is found, no alias.
pub(super) fn member(
    syntax: Syntax,
    text: &str,
    path: &str,
    key: &str,
) -> Option<(Range<usize>, Value)> {
    match syntax {
        Syntax::Json => json_member(text, path, key),
        Syntax::Yaml => yaml_member(text, path, key),
    }
}

/// Returns the range of the entry at a path of a JSON text.
pub(super) fn entry(text: &str, path: &str) -> Option<Range<usize>> {
    let whole: &RawValue = serde_json::from_str(text).ok()?;
    range(text, find(whole, path)?)
}

/// Returns the range of a value in the text that it was read from.
fn range(text: &str, value: &RawValue) -> Option<Range<usize>> {
    let start = value
        .get()
        .as_ptr()
        .addr()
        .checked_sub(text.as_ptr().addr())?;
    Some(start..start + value.get().len())
}

fn json_member(text: &str, path: &str, key: &str) -> Option<(Range<usize>, Value)> {
    let whole: &RawValue = serde_json::from_str(text).ok()?;
    let entry = find(whole, path)?;
    let value = *members(entry)?.get(key)?;
    let decoded = serde_json::from_str(value.get()).ok()?;
    Some((range(text, value)?, decoded))
}

/// One level of a YAML text: a list's index, or a map's current key.
enum YamlLevel {
    Item(usize),
    Key(Option<String>),
}

fn yaml_member(text: &str, path: &str, key: &str) -> Option<(Range<usize>, Value)> {
    let sought = match path {
        "" => key.to_owned(),
        path => format!("{path}.{key}"),
    };
    let mut levels: Vec<YamlLevel> = Vec::new();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.ok()?;
        let awaits_key = matches!(levels.last(), Some(YamlLevel::Key(None)));
        match event {
            Event::Scalar(name, ..) if awaits_key => {
                levels.pop();
                levels.push(YamlLevel::Key(Some(name.into_owned())));
            }
            Event::Scalar(value, style, ..) if spelled(&levels) == sought => {
                let place = written(text, span.start.index(), &value, style)?;
                return Some((place, Value::String(value.into_owned())));
            }
            // Only literal scalars are edited.
            Event::Alias(_) | Event::MappingStart(..) | Event::SequenceStart(..) if awaits_key => {
                return None;
            }
            Event::Alias(_) | Event::Scalar(..) => go_on(&mut levels),
            Event::MappingStart(..) => levels.push(YamlLevel::Key(None)),
            Event::SequenceStart(..) => levels.push(YamlLevel::Item(0)),
            Event::MappingEnd | Event::SequenceEnd => {
                levels.pop();
                go_on(&mut levels);
            }
            Event::DocumentEnd
            | Event::DocumentStart(_)
            | Event::Nothing
            | Event::StreamEnd
            | Event::StreamStart => {}
        }
    }
    None
}

/// Advances the path past a value.
fn go_on(levels: &mut [YamlLevel]) {
    match levels.last_mut() {
        Some(YamlLevel::Item(index)) => *index += 1,
        Some(YamlLevel::Key(key)) => *key = None,
        None => {}
    }
}

fn spelled(levels: &[YamlLevel]) -> String {
    let mut path = String::new();
    for level in levels {
        match level {
            YamlLevel::Item(index) => path.push_str(&format!("[{index}]")),
            YamlLevel::Key(key) => {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(key.as_deref().unwrap_or_default());
            }
        }
    }
    path
}

/// Returns the range of the scalar that begins at a character.
///
/// `None` for a block, and for one that continues in another line without quotes. The parser's end of a scalar may lie
/// behind a comment, so it is not used.
fn written(text: &str, start: usize, value: &str, style: ScalarStyle) -> Option<Range<usize>> {
    let (start, _) = text.char_indices().nth(start)?;
    let rest = &text[start..];
    let length = match style {
        ScalarStyle::Plain => rest.starts_with(value).then_some(value.len())?,
        ScalarStyle::DoubleQuoted => {
            let mut is_escaped = false;
            let mut inner = rest.strip_prefix('"')?.char_indices();
            let end = inner.find_map(|(position, c)| {
                let is_end = c == '"' && !is_escaped;
                is_escaped = c == '\\' && !is_escaped;
                is_end.then_some(position)
            });
            end? + 2
        }
        // A quote inside is doubled.
        ScalarStyle::SingleQuoted => {
            let inner = rest.strip_prefix('\'')?.replace("\'\'", "  ");
            inner.find('\'')? + 2
        }
        ScalarStyle::Folded | ScalarStyle::Literal => return None,
    };
    Some(start..start + length)
}

/// Applies edits that do not overlap.
pub(super) fn make(text: &str, edits: &[Edit]) -> String {
    let mut sorted: Vec<_> = edits.iter().collect();
    sorted.sort_by_key(|edit| std::cmp::Reverse(edit.place.start));
    let mut out = text.to_owned();
    for edit in sorted {
        out.replace_range(edit.place.clone(), &edit.text);
    }
    out
}

fn members(value: &RawValue) -> Option<BTreeMap<String, &RawValue>> {
    serde_json::from_str(value.get()).ok()
}

fn find<'a>(value: &'a RawValue, path: &str) -> Option<&'a RawValue> {
    if path.is_empty() {
        return Some(value);
    }
    if let Some(rest) = path.strip_prefix('[') {
        let (index, rest) = rest.split_once(']')?;
        let items: Vec<&RawValue> = serde_json::from_str(value.get()).ok()?;
        return find(items.get(index.parse::<usize>().ok()?)?, rest);
    }
    let path = path.strip_prefix('.').unwrap_or(path);
    // A key may contain a dot.
    members(value)?.into_iter().find_map(|(key, value)| {
        let rest = path.strip_prefix(key.as_str())?;
        if rest.is_empty() || rest.starts_with(['.', '[']) {
            find(value, rest)
        } else {
            None
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_edited_stays_byte_for_byte() {
        let text = "{ \"a\" : 1,\n\t\"hooks\":{\"tool.pre\":[ {\"x\":[]} , {\"command\" :  \"a \\u00e9\", \"z\":2}]}}\n";
        let member = |path, key| member(Syntax::Json, text, path, key);
        let (place, value) = member("hooks.tool.pre[1]", "command").unwrap();
        assert_eq!(&text[place.clone()], "\"a \\u00e9\"");
        assert_eq!(value, "a \u{e9}");
        let (first, _) = member("hooks.tool.pre[0]", "x").unwrap();
        let edits = [(place, "\"b\""), (first, "[1,2]")].map(|(place, text)| Edit {
            place,
            text: text.to_owned(),
        });
        let expected = "{ \"a\" : 1,\n\t\"hooks\":{\"tool.pre\":[ {\"x\":[1,2]} , {\"command\" :  \"b\", \"z\":2}]}}\n";
        assert_eq!(make(text, &edits), expected);
        for (path, key) in [
            ("hooks.tool.pre[2]", "command"),
            ("hooks.tool[0]", "x"),
            ("hooks.tool.pre[1]", "none"),
            ("none", "x"),
        ] {
            assert_eq!(member(path, key), None, "{path}");
        }
    }

    #[test]
    fn texts_of_yaml_are_found_however_they_are_written() {
        let text = "# \u{e9}\nhooks:\n  pre:\n  - matcher: a\n    hooks:\n    - {type: command, command: 'it''s \u{e9}'} # c\n    - command: |\n        one\n        two\n      timeout: 3\n    - &x\n      command: \"q\\n\"\n    - *x\n  other: [a, {command: plain words }]\n  more:\n  - command:  x y   # \"c\"\n  - command: 'x'   # it's\n  - command: x\n      y\n";
        let member = |path, key| member(Syntax::Yaml, text, path, key);
        for (path, written, value) in [
            ("hooks.pre[0].hooks[0]", "'it''s \u{e9}'", "it's \u{e9}"),
            ("hooks.pre[0].hooks[2]", "\"q\\n\"", "q\n"),
            ("hooks.other[1]", "plain words", "plain words"),
            ("hooks.more[0]", "x y", "x y"),
            ("hooks.more[1]", "'x'", "x"),
        ] {
            let (place, found) = member(path, "command").unwrap();
            assert_eq!((&text[place], found), (written, value.into()), "{path}");
        }
        for (path, key) in [
            ("hooks.pre[0].hooks[3]", "command"),
            ("hooks.pre[0].hooks[1]", "command"),
            ("hooks.pre[0]", "hooks"),
            ("hooks.pre[1]", "command"),
            ("hooks.more[2]", "command"),
        ] {
            assert_eq!(member(path, key), None, "{path}");
        }
    }
}
