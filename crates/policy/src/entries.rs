//! Grants on entries of a directory by a pattern of their names, for places whose names differ between versions.

use std::{
    ffi::OsStr,
    fmt, fs, io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use super::names::NamePattern;

/// The entries of a directory whose names match: `/etc/java-*`.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Entries {
    directory: PathBuf,
    name: NamePattern,
}

impl Entries {
    /// Reads an absolute path whose last part has one `*`; `None` where it has none.
    ///
    /// # Errors
    ///
    /// Returns the rule that the path breaks.
    pub(super) fn parse(path: &Path) -> Result<Option<Self>, &'static str> {
        let text = path.to_str().unwrap_or_default();
        let Some((directory, name)) = text.rsplit_once('/').filter(|_| text.contains('*')) else {
            return Ok(None);
        };
        if directory.contains('*') {
            return Err("has a `*` before its last part");
        }
        let name = NamePattern::parse(name)?;
        if directory.is_empty() {
            return Err("matches directories of the root; name each");
        }
        Ok(Some(Self {
            directory: directory.into(),
            name,
        }))
    }

    /// Returns the directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns whether a name matches. Hidden names match only where the pattern begins with their dot.
    pub fn matches(&self, name: &OsStr) -> bool {
        let is_hidden = name.as_bytes().starts_with(b".");
        self.name.matches(name) && !(is_hidden && self.name.begins_open())
    }

    /// Returns the paths that match now, sorted; none where there is no such directory.
    ///
    /// # Errors
    ///
    /// Fails if the directory cannot be listed.
    pub fn existing(&self) -> io::Result<Vec<PathBuf>> {
        let listed = match fs::read_dir(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            listed => listed?,
        };
        let mut found = Vec::new();
        for entry in listed {
            let entry = entry?;
            if self.matches(&entry.file_name()) {
                found.push(entry.path());
            }
        }
        found.sort();
        Ok(found)
    }
}

/// The path, as a profile spells it.
impl fmt::Display for Entries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.directory.display(), self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_star_in_the_last_part_stands_for_the_rest_of_a_name() {
        let pattern = |text: &str| Entries::parse(Path::new(text));
        assert_eq!(pattern("/etc/java"), Ok(None));
        for wrong in ["/etc/*", "/etc/*/x", "/etc/a*b*", "/x*", "/etc/*/x*"] {
            assert!(pattern(wrong).is_err(), "{wrong}");
        }
        for (text, name, expected) in [
            ("/etc/java-*", "java-17-openjdk", true),
            ("/etc/java-*", "java-", true),
            ("/etc/java-*", "java", false),
            ("/etc/*-release", "os-release", true),
            ("/etc/*-release", ".x-release", false),
            ("/etc/ab*bc", "abc", false),
        ] {
            let entries = pattern(text).unwrap().unwrap();
            assert_eq!(entries.to_string(), text);
            assert_eq!(entries.matches(OsStr::new(name)), expected, "{text} {name}");
        }
    }

    #[test]
    fn what_matches_is_found_and_a_missing_directory_has_nothing() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["java-17", "java-21", "other"] {
            fs::write(directory.path().join(name), "").unwrap();
        }
        let entries = |below: &str| {
            Entries::parse(&directory.path().join(below))
                .unwrap()
                .unwrap()
        };
        let found = entries("java-*").existing().unwrap();
        assert_eq!(
            found,
            ["java-17", "java-21"].map(|name| directory.path().join(name))
        );
        assert!(entries("none/java-*").existing().unwrap().is_empty());
    }
}
