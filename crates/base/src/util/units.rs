//! Durations and sizes as configuration files and command lines spell them.

use std::{borrow::Cow, fmt, time::Duration};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, Visitor},
};

/// A duration: `500ms`, `1s`, `2m`, `1h`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Span(pub Duration);

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
pub struct Size(pub u64);

impl Size {
    /// Returns the number of bytes, or the largest that there can be in memory.
    pub fn to_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

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

/// A number of processors, in thousandths; or, by `none`, no limit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct OptionalCpus(pub Option<u32>);

/// The least and the largest limit, thousandths of a processor. The kernel limits to no less than a millisecond in each period.
const CPUS: [u32; 2] = [10, 1_000_000];

impl OptionalCpus {
    /// Returns the limit of a number of processors, to a thousandth.
    fn from_count(cpus: f64) -> Option<Self> {
        let thousandths = (cpus * 1000.0).round();
        let [least, most] = CPUS;
        let holds = (f64::from(least)..=f64::from(most)).contains(&thousandths);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a whole number within the range"
        )]
        holds.then_some(Self(Some(thousandths as u32)))
    }
}

impl<'de> Deserialize<'de> for OptionalCpus {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Processors)
    }
}

impl Serialize for OptionalCpus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Some(thousandths) if thousandths % 1000 == 0 => {
                serializer.serialize_u32(thousandths / 1000)
            }
            Some(thousandths) => serializer.serialize_f64(f64::from(thousandths) / 1000.0),
            None => serializer.serialize_str(NONE),
        }
    }
}

impl JsonSchema for OptionalCpus {
    fn schema_name() -> Cow<'static, str> {
        "Cpus".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let [least, most] = CPUS.map(|thousandths| f64::from(thousandths) / 1000.0);
        json_schema!({
            "description": "A number of processors, such as 2 or 0.5, or `none` for no limit.",
            "anyOf": [{ "type": "number", "minimum": least, "maximum": most }, { "const": NONE }],
        })
    }
}

struct Processors;

impl Visitor<'_> for Processors {
    type Value = OptionalCpus;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of processors from 0.01 to 1000, such as 2 or 0.5, or `none`")
    }

    fn visit_i64<E: de::Error>(self, cpus: i64) -> Result<OptionalCpus, E> {
        let small = i32::try_from(cpus).ok();
        let limit = small.and_then(|cpus| OptionalCpus::from_count(cpus.into()));
        limit.ok_or_else(|| E::invalid_value(de::Unexpected::Signed(cpus), &self))
    }

    fn visit_u64<E: de::Error>(self, cpus: u64) -> Result<OptionalCpus, E> {
        let small = u32::try_from(cpus).ok();
        let limit = small.and_then(|cpus| OptionalCpus::from_count(cpus.into()));
        limit.ok_or_else(|| E::invalid_value(de::Unexpected::Unsigned(cpus), &self))
    }

    fn visit_f64<E: de::Error>(self, cpus: f64) -> Result<OptionalCpus, E> {
        let limit = OptionalCpus::from_count(cpus);
        limit.ok_or_else(|| E::invalid_value(de::Unexpected::Float(cpus), &self))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<OptionalCpus, E> {
        match text {
            NONE => Ok(OptionalCpus(None)),
            other => Err(E::invalid_value(de::Unexpected::Str(other), &self)),
        }
    }
}

/// A limit that a profile can switch off by `none`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum OptionalSize {
    /// This many bytes.
    At(Size),
    /// No limit.
    None,
}

impl OptionalSize {
    pub fn from_bytes(bytes: Option<u64>) -> Self {
        bytes.map_or(Self::None, |bytes| Self::At(Size(bytes)))
    }

    pub const fn bytes(self) -> Option<u64> {
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
    fn processors_are_read_and_written_back_to_a_thousandth() {
        #[derive(Debug, Deserialize, Serialize)]
        struct Doc {
            cpus: OptionalCpus,
        }
        for (text, limit) in [
            ("2", Some(2000)),
            ("0.5", Some(500)),
            ("0.01", Some(10)),
            ("1.001", Some(1001)),
            ("1000", Some(1_000_000)),
            ("\"none\"", None),
        ] {
            let line = format!("cpus = {text}\n");
            let doc: Doc = toml::from_str(&line).unwrap();
            assert_eq!(doc.cpus.0, limit, "{text}");
            assert_eq!(toml::to_string(&doc).unwrap(), line);
        }
        for bad in [
            "0",
            "-1",
            "0.001",
            "1001",
            "nan",
            "inf",
            "\"1\"",
            "true",
            "9223372036854775807",
        ] {
            let doc = toml::from_str::<Doc>(&format!("cpus = {bad}"));
            let why = doc.unwrap_err().to_string();
            assert!(why.contains("number of processors"), "{bad}: {why}");
        }
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
