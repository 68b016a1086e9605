//! Patterns of file names.

use std::{ffi::OsStr, fmt, os::unix::ffi::OsStrExt};

/// A file name, in which one `*` may stand for any letters.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct NamePattern {
    /// The letters after the `*`; `None` = there is no `*`.
    end: Option<String>,
    start: String,
}

impl NamePattern {
    /// Reads a pattern.
    ///
    /// # Errors
    ///
    /// Returns the rule that the pattern breaks.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let (start, end) = match text.split_once('*') {
            None => (text, None),
            Some((start, end)) => (start, Some(end)),
        };
        if text.contains(['/', '\0']) || ["", ".", ".."].contains(&text) {
            return Err("is no name of a file; write a name without `/`");
        }
        if end.is_some_and(|end| end.contains('*')) {
            return Err("has more than one `*`; write one");
        }
        if text == "*" {
            return Err("matches every name; write a part of the name beside the `*`");
        }
        Ok(Self {
            end: end.map(str::to_owned),
            start: start.to_owned(),
        })
    }

    /// Returns whether a name matches.
    pub fn matches(&self, name: &OsStr) -> bool {
        let (name, start) = (name.as_bytes(), self.start.as_bytes());
        let Some(end) = &self.end else {
            return name == start;
        };
        let rest = name.strip_prefix(start);
        rest.is_some_and(|rest| rest.ends_with(end.as_bytes()))
    }

    /// Returns whether it begins with its `*`.
    pub(super) fn begins_open(&self) -> bool {
        self.start.is_empty()
    }
}

/// The pattern, as a profile spells it.
impl fmt::Display for NamePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.start)?;
        match &self.end {
            None => Ok(()),
            Some(end) => write!(f, "*{end}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_star_stands_for_any_letters() {
        for (text, name, expected) in [
            (".env", ".env", true),
            (".env", ".env.local", false),
            (".env*", ".env", true),
            (".env*", ".envrc", true),
            ("*.pem", ".pem", true),
            ("*.pem", "server.pem", true),
            ("*.pem", "server.pem.txt", false),
            ("credentials*.json", "credentials.json", true),
            ("credentials*.json", "my-credentials.json", false),
            ("ab*bc", "abc", false),
        ] {
            let pattern = NamePattern::parse(text).unwrap();
            assert_eq!(pattern.to_string(), text);
            assert_eq!(pattern.matches(OsStr::new(name)), expected, "{text} {name}");
        }
        for wrong in ["", ".", "..", "*", "a*b*", "a/b", "/*.pem"] {
            assert!(NamePattern::parse(wrong).is_err(), "{wrong}");
        }
    }
}
