//! Checks of names and paths.

use std::{fmt, os::unix::ffi::OsStrExt, path::Path};

use serde::Serialize;

use super::InvalidField;

/// Returns whether a path is absolute and without components `.` and `..`. Other paths could name another file than
/// they seem to.
pub fn is_plain(path: &Path) -> bool {
    let dots = |component: &[u8]| matches!(component, b"." | b"..");
    let mut components = path.as_os_str().as_bytes().split(|byte| *byte == b'/');
    path.is_absolute() && !components.any(dots)
}

/// The longest name, id or point.
const MAX_NAME_BYTES: usize = 256;

/// Checks a name, id or point of a request.
///
/// # Errors
///
/// Returns the problem as an error of this field.
pub fn check_name(field: &str, text: &str) -> Result<(), InvalidField> {
    if text.len() > MAX_NAME_BYTES {
        return Err(InvalidField::new(
            field,
            format!("is longer than {MAX_NAME_BYTES} bytes"),
        ));
    }
    if text.chars().any(char::is_control) {
        return Err(InvalidField::new(field, "holds a control character"));
    }
    Ok(())
}

/// A profile's name: 1 to 64 of `a-z 0-9 - _`, starting with a letter.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct ProfileName(String);

impl ProfileName {
    /// Parses a profile name.
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = text.bytes();
        let starts = bytes.next().is_some_and(|b| b.is_ascii_lowercase());
        let goes_on =
            bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_');
        (starts && goes_on && text.len() <= 64).then(|| Self(text.to_owned()))
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ProfileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns whether a text is a SHA-256 in lower-case hex.
pub fn is_sha256(text: &str) -> bool {
    let is_digit = |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    text.len() == 64 && text.bytes().all(is_digit)
}
