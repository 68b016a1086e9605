//! `add_directory_listing`: adds a listing of the working directory at the start of a session.

use super::warning;
use crate::{
    contract::{Verdict, plain},
    workspace::{Named, Opened},
};

/// The maximum number of listed entries.
const NAMED: usize = 100;

/// The maximum number of entries that are read.
const SEEN: usize = 10_000;

/// Names the first of its visible entries in their order. Nothing in a name can look like another line.
pub(super) fn verdict(directory: &Opened) -> Verdict {
    let (mut entries, more) = match directory.list(SEEN) {
        Ok(listed) => listed,
        Err(error) => {
            let what = "`add_directory_listing` lists nothing: the directory cannot be read";
            return warning(format!("{what}: {error}"));
        }
    };
    entries.sort();
    if entries.is_empty() {
        return Verdict::default();
    }
    let path = plain(&directory.path().to_string_lossy(), &[]);
    let mut text = format!("Top-level entries in {path}:\n");
    for entry in entries.iter().take(NAMED) {
        text.push_str("\n- ");
        text.push_str(&shown(entry));
    }
    let left = entries.len().saturating_sub(NAMED);
    if more {
        text.push_str(&format!("\n... and at least {left} more"));
    } else if left > 0 {
        text.push_str(&format!("\n... and {left} more"));
    }
    Verdict {
        additional_context: vec![text],
        ..Verdict::default()
    }
}

fn shown(entry: &Named) -> String {
    let slash = if entry.is_directory { "/" } else { "" };
    format!(
        "{}{slash}",
        plain(&String::from_utf8_lossy(&entry.name), &[])
    )
}
