//! Durations and sizes as profile files spell them.

use std::{borrow::Cow, fmt, time::Duration};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, Visitor},
};

/// A duration: `500ms`, `1s`, `2m`, `1h`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Span(pub(crate) Duration);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.as_millis();
        let (per, unit) = SPANS
            .into_iter()
            .rev()
            .find(|&(per, _)| millis.is_multiple_of(per.into()))
            .unwrap_or(SPANS[0]);
        write!(f, "{}{unit}", millis / u128::from(per))
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let millis = count(&text, &SPANS).ok_or_else(|| {
            de::Error::custom(format!(
                "`{text}` is not a duration such as `500ms`, `10s`, `2m` or `1h`"
            ))
        })?;
        Ok(Self(Duration::from_millis(millis)))
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A number of bytes: an integer, or `64KiB`, `10MiB`, `4GiB`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Size(pub(crate) u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (per, unit) = SIZES
            .into_iter()
            .rev()
            .find(|&(per, _)| self.0.is_multiple_of(per))
            .unwrap_or(SIZES[0]);
        write!(f, "{}{unit}", self.0 / per)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match deserializer.deserialize_any(Bytes)? {
            OptionalSize::At(size) => Ok(size),
            OptionalSize::None => Err(de::Error::custom(
                "this limit cannot be `none`: give a size such as `10MiB`",
            )),
        }
    }
}

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A limit that a profile can switch off by `none`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum OptionalSize {
    /// This many bytes.
    At(Size),
    /// No limit.
    None,
}

impl OptionalSize {
    pub(super) fn of(bytes: Option<u64>) -> Self {
        bytes.map_or(Self::None, |bytes| Self::At(Size(bytes)))
    }

    pub(super) const fn bytes(self) -> Option<u64> {
        match self {
            Self::At(Size(bytes)) => Some(bytes),
            Self::None => None,
        }
    }
}

impl<'de> Deserialize<'de> for OptionalSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Bytes)
    }
}

impl Serialize for OptionalSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::At(size) => size.serialize(serializer),
            Self::None => serializer.serialize_str(NONE),
        }
    }
}

impl JsonSchema for Span {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A duration: `500ms`, `10s`, `2m`, `1h`.",
            "type": "string",
            "pattern": one_of(&SPANS),
        })
    }
}

impl JsonSchema for Size {
    fn schema_name() -> Cow<'static, str> {
        "Size".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A number of bytes, or a size: `64KiB`, `10MiB`, `4GiB`.",
            "type": ["integer", "string"],
            "minimum": 0,
            "pattern": one_of(&SIZES),
        })
    }
}

impl JsonSchema for OptionalSize {
    fn schema_name() -> Cow<'static, str> {
        "Bound".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let size = generator.subschema_for::<Size>();
        json_schema!({
            "description": "A size, or `none` for no limit.",
            "anyOf": [size, { "const": NONE }],
        })
    }
}

/// Returns the regular expression of digits and one of these units, as [`count`] reads them.
fn one_of(units: &[(u64, &str)]) -> String {
    let units: Vec<_> = units.iter().map(|(_, unit)| *unit).collect();
    format!("^[0-9]+({})$", units.join("|"))
}

struct Bytes;

impl Visitor<'_> for Bytes {
    type Value = OptionalSize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a size: an integer of bytes, or a string such as `64KiB`, `10MiB` or `4GiB`")
    }

    fn visit_i64<E: de::Error>(self, bytes: i64) -> Result<OptionalSize, E> {
        let bytes = u64::try_from(bytes)
            .map_err(|_| E::invalid_value(de::Unexpected::Signed(bytes), &self))?;
        Ok(OptionalSize::At(Size(bytes)))
    }

    fn visit_u64<E: de::Error>(self, bytes: u64) -> Result<OptionalSize, E> {
        Ok(OptionalSize::At(Size(bytes)))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<OptionalSize, E> {
        if text == NONE {
            return Ok(OptionalSize::None);
        }
        let bytes = count(text, &SIZES)
            .ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))?;
        Ok(OptionalSize::At(Size(bytes)))
    }
}

/// Parses digits and a unit; `None` for anything else, and for too large numbers.
fn count(text: &str, units: &[(u64, &str)]) -> Option<u64> {
    let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let (per, _) = units.iter().find(|(_, name)| *name == unit)?;
    digits.parse::<u64>().ok()?.checked_mul(*per)
}

const NONE: &str = "none";
const SIZES: [(u64, &str); 4] = [
    (1, "B"),
    (1 << 10, "KiB"),
    (1 << 20, "MiB"),
    (1 << 30, "GiB"),
];
const SPANS: [(u64, &str); 4] = [(1, "ms"), (1_000, "s"), (60_000, "m"), (3_600_000, "h")];

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize, Serialize)]
    struct Doc {
        bound: OptionalSize,
        size: Size,
        span: Span,
    }

    #[test]
    fn units_are_read_and_written_back() {
        let text = "bound = \"none\"\nsize = \"10MiB\"\nspan = \"90s\"\n";

        let doc: Doc = toml::from_str(text).unwrap();

        assert_eq!(doc.bound, OptionalSize::None);
        assert_eq!(doc.size, Size(10 << 20));
        assert_eq!(doc.span, Span(Duration::from_secs(90)));
        assert_eq!(toml::to_string(&doc).unwrap(), text);
    }

    #[test]
    fn the_largest_exact_unit_is_written() {
        assert_eq!(Span(Duration::from_secs(3600)).to_string(), "1h");
        assert_eq!(Span(Duration::from_millis(1500)).to_string(), "1500ms");
        assert_eq!(Size(1536).to_string(), "1536B");
        assert_eq!(Size(4 << 30).to_string(), "4GiB");
    }

    #[test]
    fn anything_else_is_refused() {
        for bad in [
            "10",
            "",
            "s",
            "1.5s",
            "-1s",
            "1 s",
            "1S",
            "18446744073709551615h",
        ] {
            let span = toml::from_str::<Doc>(&format!("bound = 1\nsize = 1\nspan = \"{bad}\""));
            assert!(span.is_err(), "{bad}");
        }
        for bad in [
            "\"none\"",
            "\"10MB\"",
            "\"10\"",
            "-1",
            "1.5",
            "\"18446744073709551615KiB\"",
            "true",
        ] {
            let size = toml::from_str::<Doc>(&format!("bound = 1\nsize = {bad}\nspan = \"1s\""));
            assert!(size.is_err(), "{bad}");
        }
    }
}
