//! Decodes single characters as writers of JSON, URLs, HTML and string literals encode them, whichever they encode.

use std::ops::Range;

/// The most bytes of an encoded character for each byte that it stands for, where writers encode at most twice.
pub(super) const MAX_EXPANSION: usize = 12;

/// The most digits of a character's number in HTML.
const MAX_DIGITS: usize = 7;

/// Characters that HTML has names for, as its writers use them.
const NAMED: [(&[u8], u8); 5] = [
    (b"amp;", b'&'),
    (b"apos;", b'\''),
    (b"gt;", b'>'),
    (b"lt;", b'<'),
    (b"quot;", b'"'),
];

/// A text whose encoded characters are decoded once.
pub(super) struct Decoded {
    pub(super) bytes: Vec<u8>,
    units: Vec<Unit>,
}

/// The place of an encoded character: the ends in both texts, and the lengths, bytes.
struct Unit {
    decoded: usize,
    decoded_bytes: u8,
    source: usize,
    source_bytes: u8,
}

impl Decoded {
    /// Returns the part of the encoded text that a part of the decoded one was made of, with whole encoded characters.
    pub(super) fn source(&self, part: Range<usize>) -> Range<usize> {
        let last = part.end.saturating_sub(1).max(part.start);
        self.place(part.start).start..self.place(last).end
    }

    /// Returns the place of a decoded byte in the encoded text.
    fn place(&self, decoded: usize) -> Range<usize> {
        let next = self.units.partition_point(|unit| unit.decoded <= decoded);
        if let Some(unit) = self.units.get(next) {
            let begin = unit.decoded - usize::from(unit.decoded_bytes);
            if begin <= decoded {
                return unit.source - usize::from(unit.source_bytes)..unit.source;
            }
        }
        let before = next.checked_sub(1).and_then(|last| self.units.get(last));
        let (decoded_end, source_end) = before.map_or((0, 0), |unit| (unit.decoded, unit.source));
        let source = source_end + (decoded - decoded_end);
        source..source + 1
    }
}

/// Decodes each encoded character of a text once; `None` where there is none.
pub(super) fn decode(text: &[u8]) -> Option<Decoded> {
    let is_first = |byte: &u8| matches!(byte, b'%' | b'&' | b'+' | b'\\');
    let first = text.iter().position(is_first)?;
    let mut bytes = Vec::with_capacity(text.len());
    bytes.extend_from_slice(&text[..first]);
    let mut units = Vec::new();
    let mut next = first;
    while let Some(byte) = text.get(next) {
        let encoded = is_first(byte).then(|| character(&text[next..])).flatten();
        let Some((character, source_bytes)) = encoded else {
            bytes.push(*byte);
            next += 1;
            continue;
        };
        let before = bytes.len();
        match character {
            Character::Byte(byte) => bytes.push(byte),
            Character::Char(c) => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
        next += usize::from(source_bytes);
        units.push(Unit {
            decoded: bytes.len(),
            decoded_bytes: u8::try_from(bytes.len() - before).unwrap_or(u8::MAX),
            source: next,
            source_bytes,
        });
    }
    (!units.is_empty()).then_some(Decoded { bytes, units })
}

/// An encoded character, which is a byte in URLs and string literals.
enum Character {
    Byte(u8),
    Char(char),
}

/// Returns the encoded character at the beginning of a text, and its length there, bytes.
fn character(text: &[u8]) -> Option<(Character, u8)> {
    match text {
        [b'+', ..] => Some((Character::Byte(b' '), 1)),
        [b'%', digits @ ..] => Some((Character::Byte(byte(digits)?), 3)),
        [b'\\', b'u', digits @ ..] => escaped(digits),
        [b'\\', b'x', digits @ ..] => Some((Character::Byte(byte(digits)?), 4)),
        [b'\\', letter, ..] => Some((Character::Byte(short(*letter)?), 2)),
        [b'&', b'#', b'x' | b'X', rest @ ..] => numbered(rest, 16, 3),
        [b'&', b'#', rest @ ..] => numbered(rest, 10, 2),
        [b'&', rest @ ..] => {
            let (name, byte) = NAMED.iter().find(|(name, _)| rest.starts_with(name))?;
            let bytes = u8::try_from(name.len() + 1).ok()?;
            Some((Character::Byte(*byte), bytes))
        }
        _ => None,
    }
}

/// Returns the number of hexadecimal digits.
fn number(digits: &[u8], radix: u32) -> Option<u32> {
    digits.iter().try_fold(0, |number: u32, digit| {
        let digit = char::from(*digit).to_digit(radix)?;
        number.checked_mul(radix)?.checked_add(digit)
    })
}

fn byte(digits: &[u8]) -> Option<u8> {
    u8::try_from(number(digits.get(..2)?, 16)?).ok()
}

/// Returns the byte of a backslash and one more character.
const fn short(letter: u8) -> Option<u8> {
    Some(match letter {
        b'"' | b'\'' | b'/' | b'\\' => letter,
        b'b' => 0x8,
        b'f' => 0xc,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        _ => return None,
    })
}

/// Returns the character of `\u` and four digits, or of two such, by the text after the first `\u`.
fn escaped(text: &[u8]) -> Option<(Character, u8)> {
    let unit = |digits: &[u8]| u16::try_from(number(digits.get(..4)?, 16)?).ok();
    let first = unit(text)?;
    if let Some(c) = char::from_u32(first.into()) {
        return Some((Character::Char(c), 6));
    }
    let second = unit(text.get(4..)?.strip_prefix(b"\\u")?)?;
    let mut decoded = char::decode_utf16([first, second]);
    Some((Character::Char(decoded.next()?.ok()?), 12))
}

/// Returns the character of a number in HTML, by the text after a prefix of that length in bytes.
fn numbered(text: &[u8], radix: u32, prefix: usize) -> Option<(Character, u8)> {
    let digits = text
        .iter()
        .take(MAX_DIGITS + 1)
        .position(|byte| *byte == b';')?;
    if digits == 0 {
        return None;
    }
    let c = char::from_u32(number(&text[..digits], radix)?)?;
    Some((Character::Char(c), u8::try_from(prefix + digits + 1).ok()?))
}
