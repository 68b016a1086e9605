//! `add_prompt_files`: adds the content of workspace files at every turn.
//!
//! Its runtime also reads files in the user's home directory and above the workspace. Neither is read here.

use hookjail_contract::{Findings, plain};

use crate::look::{Content, Place, read};

/// The longest file that is read, bytes.
const BYTES: usize = 64 * 1024;

/// Returns the content of each file, the nearest in the working directory or above it. A file that exists and cannot be
/// read is a warning: the entry relies on it.
pub(crate) fn findings(names: &[String], place: &Place) -> Findings {
    let mut findings = Findings::default();
    let mut texts = Vec::new();
    for name in names {
        let Some((path, content)) = nearest(name, place) else {
            continue;
        };
        match content {
            Content::Text(text) => texts.push(format!("Instructions from: {path}\n{text}")),
            Content::Refused(why) => findings
                .warnings
                .push(format!("`add_prompt_files` leaves out `{path}`: {why}")),
            Content::Absent => {}
        }
    }
    if !texts.is_empty() {
        findings.context.push(texts.join("\n\n"));
    }
    findings
}

fn nearest(name: &str, place: &Place) -> Option<(String, Content)> {
    place.upwards().find_map(|above| {
        let path = above.join(name);
        let content = read(&path, BYTES);
        let shown = plain(&path.to_string_lossy(), &[]);
        (content != Content::Absent).then_some((shown, content))
    })
}
