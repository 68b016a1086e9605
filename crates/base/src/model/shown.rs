//! Recognises and replaces characters that a reader would not see as they are.

use std::{borrow::Cow, fmt::Write};

/// Returns whether a character steers a terminal, is invisible, or reorders others.
pub fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
                | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
                | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}'
        )
}

/// Returns whether a text is printable ASCII with white space. Nearly all texts are, and bytes are compared faster than characters.
fn is_plain_ascii(text: &str) -> bool {
    let is_seen = |byte: u8| matches!(byte, b' '..=b'~' | b'\t' | b'\n' | b'\r');
    text.bytes().all(is_seen)
}

/// Replaces the characters of a text that a reader would not see as they are, but for tabs and line ends.
pub fn visible(text: &str) -> Cow<'_, str> {
    let is_hidden = |c: char| is_unseen(c) && c != '\n' && c != '\t';
    if !text.contains(is_hidden) {
        return text.into();
    }
    let shown = text.chars().map(|c| match is_hidden(c) {
        true => char::REPLACEMENT_CHARACTER,
        false => c,
    });
    shown.collect::<String>().into()
}

/// Replaces them in one line, in which a line end is not seen as it is either.
#[must_use]
pub fn plain(line: &str) -> String {
    visible(line).replace('\n', "\u{fffd}")
}

/// Text for people, line by line: a line end within a line is replaced, so that no name of others begins one.
#[derive(Clone, Debug, Default)]
pub struct Lines(String);

impl Lines {
    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Adds a line.
    pub fn add(&mut self, line: impl AsRef<str>) {
        self.0.push_str(&plain(line.as_ref()));
        self.0.push('\n');
    }
}

/// Replaces them in JSON by escapes, which mean the same there.
pub fn visible_json(json: &str) -> Cow<'_, str> {
    // Between strings there is only white space of these, and within them none.
    let is_hidden = |c: char| is_unseen(c) && !matches!(c, '\n' | '\r' | '\t');
    if is_plain_ascii(json) || !json.contains(is_hidden) {
        return json.into();
    }
    let mut shown = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        if !is_hidden(c) {
            shown.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            // A `String` takes everything.
            write!(shown, "\\u{unit:04x}").unwrap_or_default();
        }
    }
    shown.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HIDDEN: &str = "a\u{1b}[2J\u{7f}\u{9b}31m\u{202e}b\u{200b}\u{e0041}\tc\n\u{e4}";

    #[test]
    fn a_text_keeps_what_is_seen_tabs_and_line_ends() {
        let expected = "a\u{fffd}[2J\u{fffd}\u{fffd}31m\u{fffd}b\u{fffd}\u{fffd}\tc\n\u{e4}";
        assert_eq!(visible(HIDDEN), expected);
        assert!(matches!(visible("plain\t\u{e4}\n"), Cow::Borrowed(_)));
    }

    #[test]
    fn a_line_stays_one() {
        let mut lines = Lines::default();
        for line in ["a\nb", "c\r\n", "\u{2028}d\te"] {
            lines.add(line);
        }
        assert_eq!(
            lines.as_str(),
            "a\u{fffd}b\nc\u{fffd}\u{fffd}\n\u{fffd}d\te\n"
        );
    }

    #[test]
    fn json_means_the_same_with_escapes() {
        let value = serde_json::json!({ HIDDEN: [HIDDEN] });
        let json = serde_json::to_string(&value).unwrap();
        assert!(json.contains(is_unseen), "the control: {json:?}");
        let shown = visible_json(&json);
        assert!(!shown.contains(is_unseen), "{shown:?}");
        let read: serde_json::Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(read, value);
        assert!(matches!(visible_json("{\"a\": 1}\r\n"), Cow::Borrowed(_)));
    }
}
