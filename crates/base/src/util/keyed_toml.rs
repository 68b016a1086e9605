//! Reads TOML into a type, with the key where it fails.

use std::fmt::Display;

use serde::de::{self, DeserializeOwned};
use serde_path_to_error::{Deserializer, Track};

/// A failure to read a text.
#[derive(Debug, thiserror::Error)]
pub enum KeyedTomlError {
    /// A key is unknown, or its value is invalid.
    #[error("`{key}`: {source}")]
    Key {
        /// The path of the key.
        key: String,
        /// The problem.
        source: erased_serde::Error,
    },
    /// The text is not TOML.
    #[error(transparent)]
    Syntax(#[from] toml::de::Error),
}

/// The character on both sides of the problem of an [`invalid`] value. The text of an error has more around it.
const MARK: char = '\0';

impl KeyedTomlError {
    /// Returns the key of an [`invalid`] value, and its problem.
    pub fn as_invalid(&self) -> Option<(&str, String)> {
        let Self::Key { key, source } = self else {
            return None;
        };
        let text = source.to_string();
        Some((key, text.split(MARK).nth(1)?.to_owned()))
    }
}

/// Returns the error of a value that has the type of its key and still cannot be.
pub fn invalid<E: de::Error>(problem: impl Display) -> E {
    E::custom(format_args!("{MARK}{problem}{MARK}"))
}

/// Reads a text.
///
/// The type sees a deserializer without a type of its own: the code that parses and tracks keys is compiled once, and not again for
/// each type that is read. That makes the program 1 MB smaller.
///
/// # Errors
///
/// Names the key.
pub fn read<T: DeserializeOwned>(text: &str) -> Result<T, KeyedTomlError> {
    let mut track = Track::new();
    let parsed = toml::Deserializer::parse(text)?;
    let tracked = Deserializer::new(parsed, &mut track);
    let read = erased_serde::deserialize(&mut <dyn erased_serde::Deserializer>::erase(tracked));
    read.map_err(|source| KeyedTomlError::Key {
        key: track.path().to_string(),
        source,
    })
}
