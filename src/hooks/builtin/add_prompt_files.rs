//! `add_prompt_files`: the model is given at every turn what files of the workspace say.
//!
//! docker-agent also looks into the user's home directory and above the workspace. Neither is looked at here.

use std::path::Path;

use crate::{
    contract::{Verdict, plain},
    model::InvalidField,
    workspace::{Content, Opened},
};

/// How many files an entry may name.
const FILES: usize = 16;

/// The longest file that is read, bytes.
const BYTES: usize = 64 * 1024;

/// Reads the arguments: the files' names.
pub(super) fn names(args: &[String]) -> Result<Vec<String>, InvalidField> {
    let wrong = |problem: String| Err(InvalidField::new("args", problem));
    if args.is_empty() || args.len() > FILES {
        return wrong(format!(
            "must name the files that `add_prompt_files` reads, 1 to {FILES} of them"
        ));
    }
    for name in args {
        let dots = |part: &str| matches!(part, "" | "." | "..");
        if name.starts_with("--") {
            return wrong(format!("hold `{name}`: no option is served, only names"));
        }
        if name.contains(char::is_control) || name.split('/').any(dots) {
            let name = plain(name, &[]);
            return wrong(format!(
                "hold `{name}`, which is no name of a file, or path of one below the working directory"
            ));
        }
    }
    Ok(args.to_vec())
}

/// Gives what each file says, the nearest of its name in the working directory or above it. One that is there and not read
/// is a warning: whoever named it counts on it.
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
