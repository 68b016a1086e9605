//! `add_directory_listing`: adds a listing of the working directory at the start of a session.

use hookjail_contract::{Findings, plain};

use crate::look::{Named, Place};

/// The maximum number of listed entries.
const NAMED: usize = 100;

/// The maximum number of entries that are read.
const SEEN: usize = 10_000;

/// Lists the directory's first visible entries in order. Names are made plain, so that none can look like another line.
pub(crate) fn findings(place: &Place) -> Findings {
    let (mut entries, more) = match place.list(SEEN) {
        Ok(listed) => listed,
        Err(error) => {
            let what = "`add_directory_listing` lists nothing: the directory cannot be read";
            return Findings {
                warnings: vec![format!("{what}: {error}")],
                ..Findings::default()
            };
        }
    };
    entries.sort();
    if entries.is_empty() {
        return Findings::default();
    }
    let path = plain(&place.path().to_string_lossy(), &[]);
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
    Findings {
        context: vec![text],
        ..Findings::default()
    }
}

fn shown(entry: &Named) -> String {
    let slash = if entry.is_directory { "/" } else { "" };
    format!(
        "{}{slash}",
        plain(&String::from_utf8_lossy(&entry.name), &[])
    )
}
