//! The members of a JSON object, as they are written.
//!
//! This only splits objects. Each contract decides which of several members with one name counts, how keys are
//! compared, and what a value of the wrong type means.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, Visitor},
};
use serde_json::{Map, Value, value::RawValue};

use super::{InvalidField, json};

/// Reason why a text is not one JSON object.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fault {
    /// The text is no JSON document, or more follows it.
    NotJson,
    /// The document is no object.
    NotObject,
    /// The document nests deeper than [`json::MAX_DEPTH`].
    TooDeep,
}

/// Members of an object, in order.
#[derive(Debug, Default)]
pub struct Members<'a>(Vec<(Key, &'a RawValue)>);

/// A decoded key. Half of a surrogate pair, which is valid JSON, is encoded as UTF-8 would, in three bytes (WTF-8).
#[derive(Debug, PartialEq)]
pub struct Key(Vec<u8>);

impl Key {
    /// Returns whether the key is this name.
    pub fn is(&self, name: &str) -> bool {
        self.0 == name.as_bytes()
    }

    /// Returns the key as text, with U+FFFD for half of a surrogate pair.
    pub fn text(&self) -> Cow<'_, str> {
        lossy(&self.0)
    }

    /// Appends the key as a JSON string.
    pub fn write(&self, out: &mut String) {
        out.push('"');
        pieces(&self.0, |piece| match piece {
            StringPiece::Half(half) => out.push_str(&format!("\\u{half:04x}")),
            StringPiece::Text(text) => {
                let quoted = Value::from(text).to_string();
                out.push_str(&quoted[1..quoted.len() - 1]);
            }
        });
        out.push('"');
    }
}

/// A piece of a decoded string.
enum StringPiece<'a> {
    /// Half of a surrogate pair.
    Half(u16),
    /// Text in between.
    Text(&'a str),
}

/// Splits a decoded string at halves of surrogate pairs, which are three bytes each.
fn pieces(mut bytes: &[u8], mut each: impl FnMut(StringPiece<'_>)) {
    while !bytes.is_empty() {
        let half = bytes
            .windows(3)
            .position(|window| window[0] == 0xed && window[1] >= 0xa0);
        let (text, rest) = bytes.split_at(half.unwrap_or(bytes.len()));
        if !text.is_empty() {
            each(StringPiece::Text(&String::from_utf8_lossy(text)));
        }
        if let [_, high, low, rest @ ..] = rest {
            let bits = |byte: u8| u16::from(byte & 0x3f);
            each(StringPiece::Half(0xd000 | (bits(*high) << 6) | bits(*low)));
            bytes = rest;
        } else {
            bytes = &[];
        }
    }
}

/// Decodes a string to text, with U+FFFD for half of a surrogate pair.
fn lossy(bytes: &[u8]) -> Cow<'_, str> {
    str::from_utf8(bytes).map_or_else(
        |_| {
            let mut text = String::with_capacity(bytes.len());
            pieces(bytes, |piece| match piece {
                StringPiece::Half(_) => text.push(char::REPLACEMENT_CHARACTER),
                StringPiece::Text(piece) => text.push_str(piece),
            });
            Cow::Owned(text)
        },
        Cow::Borrowed,
    )
}

impl<'a> Members<'a> {
    /// Splits a document. White space around it is allowed, and so are repeated keys.
    pub fn parse(text: &'a str) -> Result<Self, Fault> {
        if serde_json::from_str(text)
            .is_ok_and(|document: &RawValue| json::first_too_deep(document.get()).is_some())
        {
            return Err(Fault::TooDeep);
        }
        Self::parse_at_any_depth(text)
    }

    /// Splits a document that was accepted, or of which only the members matter.
    pub fn parse_at_any_depth(text: &'a str) -> Result<Self, Fault> {
        let document: &RawValue = serde_json::from_str(text).map_err(|_| Fault::NotJson)?;
        Self::from_value(document).ok_or(Fault::NotObject)
    }

    /// Splits an accepted event; an absent event has no members. Every matcher, template, built-in hook and contract
    /// reads events this way: every accepted event can be read, and no member hides another.
    ///
    /// # Errors
    ///
    /// The event is no object.
    pub fn of_event(event: &'a [u8]) -> Result<Self, InvalidField> {
        let wrong = || InvalidField::new("event.json", "must be one JSON object");
        if event.is_empty() {
            return Ok(Self::default());
        }
        let text = str::from_utf8(event).map_err(|_| wrong())?;
        Self::parse_at_any_depth(text).map_err(|_| wrong())
    }

    /// Splits a value of a document; `None` if it is no object.
    pub fn from_value(value: &'a RawValue) -> Option<Self> {
        serde_json::from_str(value.get()).ok()
    }

    /// Returns the last member with a name.
    pub fn last(&self, name: &str) -> Option<&'a RawValue> {
        self.last_where(|key| key == name.as_bytes())
    }

    /// Returns the member with a name; `None` where several have it.
    pub fn only(&self, name: &str) -> Option<&'a RawValue> {
        let mut named = self.0.iter().filter(|(key, _)| key.0 == name.as_bytes());
        match (named.next(), named.next()) {
            (Some((_, value)), None) => Some(value),
            _ => None,
        }
    }

    /// Returns the members in order, with their names.
    pub fn iter(&self) -> impl Iterator<Item = (Cow<'_, str>, &'a RawValue)> {
        self.entries().map(|(key, value)| (key.text(), value))
    }

    /// Returns the members in order, with their keys as they are.
    pub fn entries(&self) -> impl Iterator<Item = (&Key, &'a RawValue)> {
        self.0.iter().map(|(key, value)| (key, *value))
    }

    /// Returns the members as values. One that has no [`Value`] (half of a surrogate pair, a number beyond `f64`) is a text:
    /// its own where it is a string, else as it is written.
    pub fn values(&self) -> Map<String, Value> {
        let value = |value: &RawValue| {
            serde_json::from_str(value.get()).unwrap_or_else(|_| {
                Value::from(text(value).unwrap_or_else(|| value.get().to_owned()))
            })
        };
        let members = self.iter();
        members
            .map(|(key, member)| (key.into_owned(), value(member)))
            .collect()
    }

    /// Returns whether a name occurs twice.
    pub fn repeat(&self) -> bool {
        let mut keys: Vec<_> = self.0.iter().map(|(key, _)| &key.0).collect();
        keys.sort_unstable();
        keys.windows(2).any(|pair| pair[0] == pair[1])
    }

    fn last_where(&self, is: impl Fn(&[u8]) -> bool) -> Option<&'a RawValue> {
        let mut members = self.0.iter().rev();
        members.find(|(key, _)| is(&key.0)).map(|(_, value)| *value)
    }
}

/// Returns whether a value is `null`.
pub fn is_null(value: &RawValue) -> bool {
    value.get() == "null"
}

/// Reads `true` and `false`.
pub fn boolean(value: &RawValue) -> Option<bool> {
    serde_json::from_str(value.get()).ok()
}

/// Reads a number.
pub fn number(value: &RawValue) -> Option<f64> {
    serde_json::from_str(value.get()).ok()
}

/// Reads a string. Half of a surrogate pair is no Unicode and cannot be delivered, so U+FFFD replaces it.
pub fn text(value: &RawValue) -> Option<String> {
    let Text(bytes) = serde_json::from_str(value.get()).ok()?;
    Some(lossy(&bytes).into_owned())
}

/// Reads an array of strings.
pub fn texts(value: &RawValue) -> Option<Vec<String>> {
    let values: Vec<&RawValue> = serde_json::from_str(value.get()).ok()?;
    values.into_iter().map(text).collect()
}

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct All;

        impl<'de> Visitor<'de> for All {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(All)
    }
}

struct Text(Vec<u8>);

struct Bytes;

impl Visitor<'_> for Bytes {
    type Value = Vec<u8>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
        Ok(bytes.to_vec())
    }
}

// As bytes, `serde_json` accepts strings with half of a surrogate pair.
impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_bytes(Bytes).map(Self)
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_bytes(Bytes).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    #[test]
    fn an_object_is_taken_apart_as_it_is_written() {
        let members = Members::parse(r#" {"a": 1e999, "\u0061":[ 2 ], "A":null, "\ud800":0} "#);
        let members = members.unwrap();
        let all: Vec<_> = members.iter().map(|(_, value)| value.get()).collect();
        assert_eq!(all, ["1e999", "[ 2 ]", "null", "0"]);
        assert_eq!(members.last("a").unwrap().get(), "[ 2 ]");
        assert!(members.last("b").is_none());
        assert!(members.repeat());
        assert!(!Members::parse(r#"{"a":1,"A":1}"#).unwrap().repeat());
    }

    #[test]
    fn what_is_not_one_object_is_told_apart() {
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(200), "]".repeat(200));
        for (text, fault) in [
            ("", Fault::NotJson),
            ("{\"a\":1", Fault::NotJson),
            ("{\"a\":1} x", Fault::NotJson),
            ("{'a':1}", Fault::NotJson),
            ("[]", Fault::NotObject),
            ("\"{}\"", Fault::NotObject),
            ("null", Fault::NotObject),
            (deep.as_str(), Fault::TooDeep),
        ] {
            assert_eq!(Members::parse(text).map(|_| ()), Err(fault), "{text}");
        }
    }

    #[test]
    fn values_are_of_their_type_or_nothing() {
        assert_eq!(boolean(&value("true")), Some(true));
        assert_eq!(boolean(&value("1")), None);
        assert_eq!(number(&value("-2.5")), Some(-2.5));
        assert_eq!(number(&value("\"1\"")), None);
        assert_eq!(number(&value("1e999")), None);
        assert_eq!(text(&value(r#""a\n\ud83d\ude00""#)).unwrap(), "a\n😀");
        assert_eq!(
            text(&value(r#""a\ud800b\udc00""#)).unwrap(),
            "a\u{fffd}b\u{fffd}"
        );
        assert_eq!(text(&value("null")), None);
        assert_eq!(text(&value("[97]")), None);
        assert_eq!(texts(&value(r#"["a",""]"#)).unwrap(), ["a", ""]);
        assert_eq!(texts(&value(r#"["a",1]"#)), None);
        assert!(is_null(&value("null")));
    }
}
