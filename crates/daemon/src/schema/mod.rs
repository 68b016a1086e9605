//! JSON Schemas of hookjail's files, generated from the types that read them.
//!
//! A schema describes the form of a file. Conditions between values (`default` below `maximum`, paths that exist) are checked by the
//! readers of the file.

use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Map, Value};

use hookjail_journal::record::Line;
use hookjail_policy::{declaration::Declaration, profile::ProfileFile};

use crate::{config, consent::allowlist::Allowlist};

/// A file, or a line of one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Form {
    /// `allowlist.json`.
    Allowlist,
    /// A line of `audit/journal.jsonl`.
    Audit,
    /// `hookjail.toml`.
    Config,
    /// `hook.toml`, beside a hook.
    Hook,
    /// `NAME.toml` in a directory of profiles.
    Profile,
}

impl Form {
    /// Every form.
    pub const ALL: [Self; 5] = [
        Self::Allowlist,
        Self::Audit,
        Self::Config,
        Self::Hook,
        Self::Profile,
    ];

    /// Returns its name, as the command line and the files of schemas spell it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Allowlist => "allowlist",
            Self::Audit => "audit",
            Self::Config => "config",
            Self::Hook => "hook",
            Self::Profile => "profile",
        }
    }

    /// Returns its schema.
    pub fn schema(self) -> Value {
        let generator = SchemaSettings::draft2020_12().into_generator();
        let schema = match self {
            Self::Allowlist => Allowlist::schema(generator),
            Self::Audit => Line::schema(generator),
            Self::Config => config::schema(generator),
            Self::Hook => Declaration::schema(generator),
            Self::Profile => ProfileFile::schema(generator),
        };
        sorted(schema.to_value())
    }
}

/// Returns the schema of a type that reads a whole file.
pub fn of_file<T: JsonSchema>() -> Value {
    let generator = SchemaSettings::draft2020_12().into_generator();
    sorted(generator.into_root_schema_for::<T>().to_value())
}

/// Puts keys in order, whichever order maps of JSON keep in this build.
fn sorted(value: Value) -> Value {
    match value {
        Value::Array(values) => values.into_iter().map(sorted).collect(),
        Value::Object(members) => {
            let mut members: Vec<_> = members.into_iter().collect();
            members.sort_by(|(one, _), (other, _)| one.cmp(other));
            let members = members.into_iter().map(|(key, value)| (key, sorted(value)));
            Value::Object(members.collect::<Map<_, _>>())
        }
        Value::Bool(_) | Value::Null | Value::Number(_) | Value::String(_) => value,
    }
}

#[cfg(test)]
mod tests;
