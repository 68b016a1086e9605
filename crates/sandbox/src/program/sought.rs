//! Interpreters that a hook finds by `PATH`: a file that hooks or agents can write takes none of their names.

use std::{
    fs,
    path::{Path, PathBuf},
    slice,
};

use hookjail_base::{
    interpreter::{are_one_program, is_known},
    refusal::{Refusal, unless_lacking},
};
use hookjail_sys::BY_NAME;

use super::{OpenedFor, on_path, real_path};
use crate::rootfs::View;

/// The most names of a directory that are looked at.
const MOST_NAMES: usize = 4096;

/// Returns the directories of a `PATH` in which hooks or agents write, and that give the name of an interpreter, which another
/// directory has, to a file of theirs. A link to a program of the name elsewhere is none, as virtual environments have it.
/// A directory that cannot be read, or has more than 4096 names, counts as one.
///
/// # Errors
///
/// `OVERLOADED` where the system lacks a resource for the search.
pub fn misleading(
    path: &[PathBuf],
    written: &[PathBuf],
    opened_for: OpenedFor<'_>,
    view: View<'_>,
) -> Result<Vec<PathBuf>, Refusal> {
    let _as_peer = opened_for.rights();
    let is_written = |it: &Path| written.iter().any(|written| it.starts_with(written));
    let lies_there = |directory: &PathBuf| {
        is_written(directory) || directory.canonicalize().is_ok_and(|it| is_written(&it))
    };
    let (theirs, others): (Vec<_>, Vec<_>) = path.iter().cloned().partition(lies_there);
    let mut misleading = Vec::new();
    for directory in theirs {
        let mut is_misleading = true;
        if let Some(names) = interpreters_in(&directory)? {
            is_misleading = false;
            for name in &names {
                let replaces = on_path(name, &others, view)?.is_some();
                is_misleading |= replaces && !leads_away(&directory, name, &is_written, view)?;
            }
        }
        if is_misleading {
            misleading.push(directory);
        }
    }
    Ok(misleading)
}

/// Returns the names of interpreters that a directory has; `None` where it cannot be read whole.
fn interpreters_in(directory: &Path) -> Result<Option<Vec<PathBuf>>, Refusal> {
    let what = format_args!("`{}`", directory.display());
    let Ok(entries) = unless_lacking(what, fs::read_dir(directory))? else {
        return Ok(None);
    };
    let mut names = Vec::new();
    for (index, entry) in entries.enumerate() {
        match entry {
            Ok(entry) if index < MOST_NAMES => names.push(PathBuf::from(entry.file_name())),
            Ok(_) | Err(_) => return Ok(None),
        }
    }
    names.retain(|name| is_known(name));
    Ok(Some(names))
}

/// Returns whether a name of a directory leads to the program of that name elsewhere, or to none.
fn leads_away(
    directory: &Path,
    name: &Path,
    is_written: &impl Fn(&Path) -> bool,
    view: View<'_>,
) -> Result<bool, Refusal> {
    let Some(found) = on_path(name, slice::from_ref(&directory.to_owned()), view)? else {
        return Ok(true);
    };
    let what = format_args!("`{}`", found.display());
    let real = match unless_lacking(what, view.open(&found, BY_NAME))? {
        Ok(file) => real_path(&found, &file)?,
        Err(_) => None,
    };
    Ok(real.is_some_and(|real| !is_written(&real) && are_one_program(name, &real)))
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, Permissions},
        os::unix::fs::{PermissionsExt, symlink},
    };

    use super::*;

    #[test]
    fn a_file_that_agents_write_takes_no_interpreters_name() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let [workspace, elsewhere] = ["w", "elsewhere"].map(|it| root.join(it));
        for directory in [&workspace, &elsewhere] {
            fs::create_dir(directory).unwrap();
        }
        let write = |path: PathBuf| {
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        };
        for name in ["python3.12", "python3", "true", "tool"] {
            write(elsewhere.join(name));
        }
        for name in ["planted", "tool", "node"] {
            write(workspace.join(name));
        }
        let path = [workspace.clone(), elsewhere.clone()];
        let found = |path: &[PathBuf]| {
            let written = slice::from_ref(&workspace);
            misleading(path, written, OpenedFor::Oneself, View::HOST).unwrap()
        };
        // No other directory has `node`, and `tool` is no interpreter.
        assert_eq!(found(&path), [""; 0].map(PathBuf::from));
        for (target, is_misleading) in [
            (elsewhere.join("python3.12"), false),
            (elsewhere.join("python3"), false),
            (elsewhere.join("true"), true),
            (workspace.join("planted"), true),
        ] {
            symlink(&target, workspace.join("python3")).unwrap();
            let expected = if is_misleading { &path[..1] } else { &[] };
            assert_eq!(found(&path), expected, "{target:?}");
            fs::remove_file(workspace.join("python3")).unwrap();
        }
        write(workspace.join("python3"));
        assert_eq!(found(&path), path[..1]);
        assert_eq!(found(&path[1..]), [""; 0].map(PathBuf::from));
        // By a link the directory is the same; one that is not there may be made while the hook runs.
        symlink(&workspace, root.join("link")).unwrap();
        for other in [root.join("link"), workspace.join("absent")] {
            let path = [other, elsewhere.clone()];
            assert_eq!(found(&path), path[..1]);
        }
    }
}
