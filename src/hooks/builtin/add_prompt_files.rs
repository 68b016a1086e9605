//! `add_prompt_files`: adds the content of workspace files at every turn.
//!
//! Its runtime also reads files in the user's home directory and above the workspace. Neither is read here.

use std::path::Path;

use crate::{
    contract::{Verdict, plain},
    workspace::{Content, Opened},
};

/// The longest file that is read, bytes.
const BYTES: usize = 64 * 1024;

/// Returns each file's content, the nearest in the working directory or above it. One that is there and not read is a
/// warning: its entry relies on it.
pub(super) fn verdict(names: &[String], directory: &Opened) -> Verdict {
    let mut verdict = Verdict::default();
    let mut texts = Vec::new();
    for name in names {
        let Some((path, content)) = nearest(name, directory) else {
            continue;
        };
        match content {
            Content::Text(text) => texts.push(format!("Instructions from: {path}\n{text}")),
            Content::Refused(why) => verdict
                .warnings
                .push(format!("`add_prompt_files` leaves out `{path}`: {why}")),
            Content::Absent => {}
        }
    }
    if !texts.is_empty() {
        verdict.additional_context.push(texts.join("\n\n"));
    }
    verdict
}

fn nearest(name: &str, directory: &Opened) -> Option<(String, Content)> {
    directory.upwards().find_map(|above: &Path| {
        let path = above.join(name);
        let content = directory.read(&path, BYTES);
        let whole = directory.workspace().join(&path);
        let shown = plain(&whole.to_string_lossy(), &[]);
        (content != Content::Absent).then_some((shown, content))
    })
}
