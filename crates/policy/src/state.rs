//! Names in directories that a view covers.

use std::{
    ffi::OsStr,
    fs, io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// Returns the entries of a directory; none where it cannot be listed.
///
/// # Errors
///
/// Returns the error of reading an entry.
pub(crate) fn entries(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let Ok(listed) = fs::read_dir(directory) else {
        return Ok(Vec::new());
    };
    listed.map(|entry| Ok(entry?.path())).collect()
}

/// Returns what a directory of files that last closes of the machine's one, which has grants below it.
///
/// # Errors
///
/// Returns the error of listing a directory.
pub(crate) fn closed(directory: &Path, granted: &[&Path]) -> io::Result<Vec<PathBuf>> {
    let mut closed = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        if kind.is_symlink() || granted.contains(&&*path) {
            continue;
        }
        if kind.is_dir() && granted.iter().any(|granted| granted.starts_with(&path)) {
            closed.extend(self::closed(&path, granted)?);
        } else if !is_data(&entry.file_name(), kind.is_dir()) {
            closed.push(path);
        }
    }
    Ok(closed)
}

/// Returns whether a name is one of a log, a table or a count: an agent obeys none of these.
pub fn is_data(name: &OsStr, is_directory: bool) -> bool {
    const DIRECTORIES: [&str; 4] = ["log", "metrics", "state", "stats"];
    const ENDS: [&str; 12] = [
        ".count",
        ".csv",
        ".db",
        ".db-journal",
        ".db-shm",
        ".db-wal",
        ".jsonl",
        ".lock",
        ".log",
        ".sqlite",
        ".tsv",
        ".txt",
    ];
    let name = String::from_utf8_lossy(name.as_bytes()).to_lowercase();
    if is_directory {
        return DIRECTORIES.iter().any(|word| name.contains(word));
    }
    // The history of prompts is the agent's own.
    ENDS.iter().any(|end| name.ends_with(end)) && !name.starts_with("history")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_data_are_known_and_those_of_rules_are_not() {
        let is = |name: &str, is_directory| is_data(name.as_ref(), is_directory);
        for name in ["tool-log.txt", "usage.CSV", "events.jsonl", "x.db-wal"] {
            assert!(is(name, false), "{name}");
        }
        for name in ["history.jsonl", "settings.json", "CLAUDE.md", "rules.toml"] {
            assert!(!is(name, false), "{name}");
        }
        assert!(is("hooks-logs", true) && !is("agents", true) && !is("plugins", true));
    }
}
