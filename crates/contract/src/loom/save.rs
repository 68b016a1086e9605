//! `save_json`: each event as a line of a file in the profile's directory.
//!
//! The operator's configuration names the profile's file, which names this one by a relative path without links.

use std::path::{Component, Path, PathBuf};

use super::payload::Payload;
use crate::hook_file::hookjail;

/// The name of the program, and of the action.
pub const NAME: &str = "save_json";

/// Destination and form of saved events.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Save {
    /// The directory of the profile.
    pub directory: PathBuf,
    /// The form of the events.
    pub payload: Payload,
    /// The file below the directory, a path of plain names.
    pub path: PathBuf,
}

impl Save {
    /// Names a file below the profile's directory; `None` where the path leads elsewhere.
    pub fn below(directory: &Path, path: &str, payload: Payload) -> Option<Self> {
        let path = Path::new(path);
        let is_plain = |component| matches!(component, Component::Normal(_));
        let named = path.components().next().is_some() && path.components().all(is_plain);
        named.then(|| Self {
            directory: directory.to_owned(),
            payload,
            path: path.to_owned(),
        })
    }

    /// Returns the file's path.
    pub fn path(&self) -> PathBuf {
        self.directory.join(&self.path)
    }

    /// Returns the command, as a record names it.
    pub fn argv(&self) -> Vec<String> {
        hookjail(NAME, &[self.path().to_string_lossy().into_owned()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_file_below_the_directory_is_named() {
        let payload = || Payload {
            profile: "coder".to_owned(),
        };
        let below = |path| Save::below(Path::new("/p"), path, payload()).map(|save| save.path());
        assert_eq!(below("a/b.jsonl"), Some("/p/a/b.jsonl".into()));
        for elsewhere in ["", "/etc/passwd", "../x", "a/../../x", "./x"] {
            assert_eq!(below(elsewhere), None, "{elsewhere}");
        }
    }
}
