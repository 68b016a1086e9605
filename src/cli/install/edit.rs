//! Changes of a JSON text that leave everything else as it is.

use std::{collections::BTreeMap, ops::Range};

use serde_json::value::RawValue;

/// What stands in a text instead of something else.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Edit {
    pub(super) place: Range<usize>,
    pub(super) text: String,
}

/// Returns where a member stands of the entry at a path such as `hooks.PreToolUse[0].hooks[1]`; `None` where there is none.
pub(super) fn member(text: &str, path: &str, key: &str) -> Option<Range<usize>> {
    let whole: &RawValue = serde_json::from_str(text).ok()?;
    let entry = find(whole, path)?;
    let value = *members(entry)?.get(key)?;
    let start = value
        .get()
        .as_ptr()
        .addr()
        .checked_sub(text.as_ptr().addr())?;
    Some(start..start + value.get().len())
}

/// Makes edits that do not overlap.
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
    // A key may have a point in it.
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
        let place = member(text, "hooks.tool.pre[1]", "command").unwrap();
        assert_eq!(&text[place.clone()], "\"a \\u00e9\"");
        let first = member(text, "hooks.tool.pre[0]", "x").unwrap();
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
            assert_eq!(member(text, path, key), None, "{path}");
        }
    }
}
