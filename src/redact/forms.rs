//! The forms of a value in JSON, URLs and base64.

use std::{collections::BTreeSet, fmt::Write};

use base64::{
    Engine,
    engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD},
};

/// Returns the value and every form of it that is searched for, each once.
pub(super) fn of(value: &[u8]) -> BTreeSet<Vec<u8>> {
    let mut forms = BTreeSet::from([value.to_vec()]);
    // Where a value is no UTF-8, texts show it with replacement characters.
    let text = String::from_utf8_lossy(value);
    forms.insert(text.as_bytes().to_vec());
    for style in JsonStyle::all() {
        let once = style.escape(&text);
        // JSON within a JSON string, as a tool's input often is.
        forms.insert(style.escape(&once).into_bytes());
        forms.insert(once.into_bytes());
    }
    forms.extend(percent(value));
    forms.extend(base64(value));
    forms
}

/// A JSON writer's way to spell a string, beyond what it must escape.
#[derive(Clone, Copy)]
struct JsonStyle {
    /// Whether non-ASCII characters are escaped (Python).
    ascii: bool,
    digits: Digits,
    /// Whether `<`, `>`, `&` and the line separators are escaped (Go).
    html: bool,
    /// Whether `/` is escaped (PHP).
    slash: bool,
}

/// The letters among hexadecimal digits; upper-case ones are .NET's.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Digits {
    Lower,
    Upper,
}

impl JsonStyle {
    /// Returns every combination.
    fn all() -> impl Iterator<Item = Self> {
        (0..8).flat_map(|bits| {
            [Digits::Lower, Digits::Upper].map(|digits| Self {
                ascii: bits & 1 != 0,
                digits,
                html: bits & 2 != 0,
                slash: bits & 4 != 0,
            })
        })
    }

    fn escape(self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        for c in text.chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\u{8}' => out.push_str("\\b"),
                '\u{c}' => out.push_str("\\f"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '/' if self.slash => out.push_str("\\/"),
                c if c < ' '
                    || (self.html && matches!(c, '<' | '>' | '&' | '\u{2028}' | '\u{2029}'))
                    || (self.ascii && !c.is_ascii()) =>
                {
                    self.units(c, &mut out);
                }
                c => out.push(c),
            }
        }
        out
    }

    fn units(self, c: char, out: &mut String) {
        for unit in c.encode_utf16(&mut [0; 2]) {
            let written = if self.digits == Digits::Upper {
                write!(out, "\\u{unit:04X}")
            } else {
                write!(out, "\\u{unit:04x}")
            };
            debug_assert!(written.is_ok(), "writing to a string does not fail");
        }
    }
}

/// Characters beside letters and digits that URL encoders do not encode. In this order: RFC 3986; `encodeURIComponent`;
/// Python's `quote`; forms.
const PLAIN: [&[u8]; 4] = [b"-._~", b"-._~!*'()", b"-._~/", b"*-._"];

fn percent(value: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let spaces = [&b"%20"[..], b"+"];
    let styles = PLAIN
        .into_iter()
        .flat_map(move |plain| spaces.map(|space| (plain, space)))
        .flat_map(|(plain, space)| {
            [Digits::Lower, Digits::Upper].map(|digits| (plain, space, digits))
        });
    styles.map(move |(plain, space, digits)| {
        let mut out = Vec::with_capacity(value.len());
        for byte in value {
            match byte {
                b' ' => out.extend_from_slice(space),
                byte if byte.is_ascii_alphanumeric() || plain.contains(byte) => out.push(*byte),
                byte if digits == Digits::Upper => {
                    out.extend_from_slice(format!("%{byte:02X}").as_bytes())
                }
                byte => out.extend_from_slice(format!("%{byte:02x}").as_bytes()),
            }
        }
        out
    })
}

/// Returns the base64 characters that only the value determines, for each of three alignments.
///
/// Three bytes are four characters. A value that begins after one or two bytes of a group shares a character with them,
/// and one that ends within a group shares its last character with the bytes after it; shared characters and the
/// padding are left out.
fn base64(value: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let alphabets = [STANDARD_NO_PAD, URL_SAFE_NO_PAD];
    alphabets.into_iter().flat_map(move |alphabet| {
        [(0, 0), (1, 2), (2, 3)].map(|(before, shared)| {
            let mut bytes = vec![0; before];
            bytes.extend_from_slice(value);
            let mut text = alphabet.encode(&bytes).into_bytes();
            if bytes.len() % 3 != 0 {
                text.pop();
            }
            text.split_off(shared)
        })
    })
}
