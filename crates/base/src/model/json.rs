//! Scans of JSON text that build no tree.
//!
//! Everything here takes text whose grammar `serde_json` has already accepted, so none of it needs to report a fault. A
//! visitor that decodes the values would refuse valid JSON without a Rust value, such as numbers beyond `f64`, which must
//! pass through unchanged.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    iter,
    ops::Range,
};

/// Blanks JavaScript's comments out of a text, so that all else keeps its offset. The text need not be JSON otherwise.
pub fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let (is_comment, end) = match rest.as_bytes() {
            [b'/', b'/', ..] => (true, rest.find(['\n', '\r'])),
            [b'/', b'*', ..] => (true, rest[2..].find("*/").map(|offset| offset + 4)),
            [b'"', ..] => (false, end_of_string(rest)),
            _ => {
                let more = rest.char_indices().skip(1);
                let mut more = more.filter(|(_, c)| matches!(c, '"' | '/'));
                (false, more.next().map(|(offset, _)| offset))
            }
        };
        let (part, after) = rest.split_at(end.unwrap_or(rest.len()));
        if is_comment {
            for c in part.chars() {
                match c {
                    '\n' | '\r' => out.push(c),
                    c => out.extend(iter::repeat_n(' ', c.len_utf8())),
                }
            }
        } else {
            out.push_str(part);
        }
        rest = after;
    }
    out
}

/// Returns the end of the string at a text's start; `None` if unterminated.
fn end_of_string(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    let mut more = text.char_indices().skip(1);
    more.find_map(|(offset, c)| {
        let is_end = c == '"' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        is_end.then_some(offset + 1)
    })
}

/// The deepest nesting of arrays and objects.
pub const MAX_DEPTH: usize = 128;

/// Appends a document without the white space between its tokens. Numbers and strings stay as they are written.
pub fn compact_into(json: &str, out: &mut String) {
    let (mut in_string, mut escaped) = (false, false);
    out.extend(json.chars().filter(|&c| {
        if in_string {
            in_string = escaped || c != '"';
            escaped = !escaped && c == '\\';
            return true;
        }
        in_string = c == '"';
        !c.is_ascii_whitespace()
    }));
}

/// Returns where a document first nests deeper than [`MAX_DEPTH`], as a byte offset.
pub fn first_too_deep(json: &str) -> Option<usize> {
    let mut depth = 0_usize;
    marks(json).find_map(|mark| match mark {
        Punctuation::Close => {
            depth = depth.saturating_sub(1);
            None
        }
        Punctuation::Colon | Punctuation::Text(_) => None,
        Punctuation::Open(offset) => {
            depth += 1;
            (depth > MAX_DEPTH).then_some(offset)
        }
    })
}

/// Returns the byte offset of the first duplicate key in an object. Keys are equal if they are after decoding: `"a"` repeats
/// `"\u0061"`.
///
/// Keys are compared when their object ends. With a set of seen keys, an event of nothing but keys would cost many times
/// its own size.
pub fn first_repeated_key(json: &str) -> Option<usize> {
    let hashes = RandomState::new();
    let mut keys: Vec<OpenKey> = Vec::new();
    let mut opened = Vec::new();
    let mut text = 0..0;
    marks(json).find_map(|mark| match mark {
        Punctuation::Close => {
            let start = opened.pop().unwrap_or(0);
            let repeated = repeated_key(json, &mut keys[start..]);
            keys.truncate(start);
            repeated
        }
        // Outside a string, a colon follows nothing but a key.
        Punctuation::Colon => {
            let mut hasher = hashes.build_hasher();
            code_points(&json[text.clone()]).for_each(|point| hasher.write_u32(point));
            keys.push(OpenKey {
                hash: hasher.finish(),
                start: text.start,
            });
            None
        }
        Punctuation::Open(_) => {
            opened.push(keys.len());
            None
        }
        Punctuation::Text(range) => {
            text = range;
            None
        }
    })
}

/// A string that is a value. Both ranges are without the quotes, and as it is written.
#[derive(Debug, PartialEq)]
pub struct StringValue {
    /// The key of this value; `None` for an array's element and the top level.
    pub key: Option<Range<usize>>,
    /// The string.
    pub text: Range<usize>,
}

/// Returns the strings of a document that are values, in order.
pub fn string_values(json: &str) -> impl Iterator<Item = StringValue> {
    let mut marks = marks(json).peekable();
    let mut key = None;
    iter::from_fn(move || {
        loop {
            match marks.next()? {
                Punctuation::Close | Punctuation::Open(_) => key = None,
                Punctuation::Colon => {}
                Punctuation::Text(text) if matches!(marks.peek(), Some(Punctuation::Colon)) => {
                    key = Some(text)
                }
                Punctuation::Text(text) => {
                    let key = key.take();
                    return Some(StringValue { key, text });
                }
            }
        }
    })
}

/// A key of an object that has not ended.
struct OpenKey {
    /// A hash keyed by a secret of this pass, against prepared collisions.
    hash: u64,
    /// The offset of its text, after the quote.
    start: usize,
}

/// A character of a document's structure.
enum Punctuation {
    /// The end of an array or object.
    Close,
    /// Between a key and its value.
    Colon,
    /// The start of an array or object.
    Open(usize),
    /// A string, without its quotes.
    Text(Range<usize>),
}

fn marks(json: &str) -> impl Iterator<Item = Punctuation> {
    let bytes = json.as_bytes();
    let mut offset = 0;
    iter::from_fn(move || {
        loop {
            let start = offset;
            offset += 1;
            match bytes.get(start)? {
                b'"' => {
                    let end = string_end(bytes, offset);
                    offset = end + 1;
                    return Some(Punctuation::Text(start + 1..end));
                }
                b':' => return Some(Punctuation::Colon),
                b'[' | b'{' => return Some(Punctuation::Open(start)),
                b']' | b'}' => return Some(Punctuation::Close),
                _ => {}
            }
        }
    })
}

fn repeated_key(json: &str, keys: &mut [OpenKey]) -> Option<usize> {
    let text =
        |key: &OpenKey| code_points(&json[key.start..string_end(json.as_bytes(), key.start)]);
    keys.sort_unstable_by(|a, b| {
        let by_text = || text(a).cmp(text(b));
        a.hash
            .cmp(&b.hash)
            .then_with(by_text)
            .then(a.start.cmp(&b.start))
    });
    keys.windows(2)
        .filter(|pair| pair[0].hash == pair[1].hash && text(&pair[0]).eq(text(&pair[1])))
        .map(|pair| pair[1].start - 1)
        .min()
}

/// Returns the offset of the closing quote of a string whose text starts at `offset`.
fn string_end(json: &[u8], mut offset: usize) -> usize {
    while let Some(byte) = json.get(offset).filter(|byte| **byte != b'"') {
        offset += if *byte == b'\\' { 2 } else { 1 };
    }
    offset
}

/// Decodes a string's escapes. A surrogate without its other half, which is valid JSON, stands for itself.
fn code_points(text: &str) -> impl Iterator<Item = u32> {
    let mut rest = text;
    iter::from_fn(move || {
        let (first, tail) = code_unit(rest)?;
        rest = tail;
        if (0xD800..0xDC00).contains(&first)
            && let Some((second @ 0xDC00..0xE000, tail)) = code_unit(rest)
        {
            rest = tail;
            return Some(0x1_0000 + ((first - 0xD800) << 10) + (second - 0xDC00));
        }
        Some(first)
    })
}

/// Splits off one character, or one escape; half of a surrogate pair counts as one.
fn code_unit(text: &str) -> Option<(u32, &str)> {
    let mut chars = text.chars();
    let first = chars.next()?;
    if first != '\\' {
        return Some((first.into(), chars.as_str()));
    }
    let unit = match chars.next()? {
        'b' => 0x08,
        'f' => 0x0C,
        'n' => 0x0A,
        'r' => 0x0D,
        't' => 0x09,
        'u' => {
            let hex = chars.as_str().get(..4)?;
            return Some((u32::from_str_radix(hex, 16).ok()?, &chars.as_str()[4..]));
        }
        other => other.into(),
    };
    Some((unit, chars.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compact(json: &str) -> String {
        let mut out = String::new();
        compact_into(json, &mut out);
        out
    }

    #[test]
    fn compacting_touches_nothing_inside_strings_and_numbers() {
        assert_eq!(
            compact(
                "{ \"a b\" :\n[ 1.50E+0 ,\t\"x \\\" y\\\\\" , 123456789012345678901234567890 ]\r\n}"
            ),
            "{\"a b\":[1.50E+0,\"x \\\" y\\\\\",123456789012345678901234567890]}"
        );
    }

    #[test]
    fn depth_counts_brackets_outside_strings_only() {
        let nested = |depth: usize| format!("{}\"[{{\"{}", "[".repeat(depth), "]".repeat(depth));
        assert_eq!(first_too_deep(&nested(MAX_DEPTH)), None);
        assert_eq!(first_too_deep(&nested(MAX_DEPTH + 1)), Some(MAX_DEPTH));
    }

    #[test]
    fn strings_are_found_with_the_keys_whose_values_they_are() {
        let json = r#"{"a":"b","c":[{"d":"\"e"},"f",1],"g":2,"h":{},"i":["j"]}"#;
        let all: Vec<_> = string_values(json)
            .map(|value| (value.key.map(|key| &json[key]), &json[value.text]))
            .collect();
        assert_eq!(
            all,
            [
                (Some("a"), "b"),
                (Some("d"), "\\\"e"),
                (None, "f"),
                (None, "j")
            ]
        );
        assert_eq!(string_values("\"x\"").count(), 1);
        assert_eq!(string_values("1").count(), 0);
    }

    #[test]
    fn comments_are_blank_and_all_else_stays_where_it_is() {
        for (text, expected) in [
            ("{\"a\": 1} // é\r\n", "{\"a\": 1}      \r\n"),
            ("{/* é\n */\"a\":1}", "{     \n   \"a\":1}"),
            (r#"{"//":"/* \" */"}"#, r#"{"//":"/* \" */"}"#),
            (r#"{"a\\":1}//"#, r#"{"a\\":1}  "#),
            ("[1/2]/", "[1/2]/"),
            ("[1]/* \"", "[1]    "),
            ("\"no end // \\", "\"no end // \\"),
        ] {
            assert_eq!(without_comments(text), expected, "{text}");
            assert_eq!(without_comments(text).len(), text.len());
        }
    }

    #[test]
    fn siblings_do_not_add_up_to_depth() {
        assert_eq!(
            first_too_deep(&format!("[{}]", vec!["[]"; 500].join(","))),
            None
        );
    }

    #[test]
    fn repeated_keys_are_found_in_any_object_and_spelling() {
        for (json, expected) in [
            (r#"{"a":1,"a":2}"#, Some(7)),
            (r#"{"a":1,"\u0061":2}"#, Some(7)),
            (r#"{"\ud83d\ude00":1,"😀":2}"#, Some(18)),
            (r#"{"\n":1,"\u000A":2}"#, Some(8)),
            (r#"{"\"":1,"b":2,"\"":3}"#, Some(14)),
            (r#"[{"x":{"k":[{"k":1}],"k":2}}]"#, Some(21)),
            (r#"{"b":{"a":1},"a":{"a":2},"c":[{"a":1},{"a":1}]}"#, None),
            (r#"{"a":"a","b":"a:","\ud800":1,"\ud801":2}"#, None),
            (r#"{"A":1,"a":2,"":3}"#, None),
            (r#"{"":1,"":2}"#, Some(6)),
            ("[1,\"a\"]", None),
            ("7", None),
        ] {
            assert_eq!(first_repeated_key(json), expected, "{json}");
        }
    }
}
