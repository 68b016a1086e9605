//! `save_json`: each event as a line of a file in the profile's directory.
//!
//! The operator's configuration names the profile's file, which names this one by a relative path without links.

use std::path::{Component, Path, PathBuf};

use super::payload::Payload;
use crate::{Decision, Verdict};

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

    /// Builds the verdict of an observer, with a warning where the event is not saved.
    pub fn verdict(&self, problem: Option<String>) -> Verdict {
        let warning = |problem| {
            format!(
                "cannot save the event in `{}`: {problem}",
                self.path().display()
            )
        };
        Verdict {
            decision: Decision::Allow,
            warnings: problem.map(warning).into_iter().collect(),
            ..Verdict::default()
        }
    }
}
