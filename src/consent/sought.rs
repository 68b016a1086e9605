//! Interpreters that a hook finds by `PATH`: a file that hooks or agents can write takes none of their names.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    slice,
};

use nix::fcntl::OFlag;

use hookjail_base::refusal::{Refusal, unless_lacking};

use super::{
    interpreter::{are_one_program, is_known},
    program::{OpenedFor, on_path, real_path},
};
use crate::rootfs::View;

/// Returns the directories of a `PATH` that give the name of an interpreter to a file in directories that hooks or agents
/// write, before another directory has that name. A link to a program of the name elsewhere is none, as virtual
/// environments have it.
///
/// # Errors
///
/// `OVERLOADED` where the system lacks a resource for the search.
pub(crate) fn misleading(
    sought: &[OsString],
    path: &[PathBuf],
    written: &[PathBuf],
    opened_for: OpenedFor<'_>,
    view: View<'_>,
) -> Result<Vec<PathBuf>, Refusal> {
    let _as_peer = opened_for.rights();
    let is_written = |it: &Path| written.iter().any(|written| it.starts_with(written));
    let mut misleading = Vec::new();
    for name in sought.iter().map(Path::new).filter(|it| is_known(it)) {
        let mut before = Vec::new();
        for directory in path {
            let Some(found) = on_path(name, slice::from_ref(directory), view)? else {
                continue;
            };
            let opened = unless_lacking(
                format_args!("`{}`", found.display()),
                view.open(&found, OFlag::O_PATH),
            )?;
            let real = match opened {
                Ok(file) => real_path(&found, &file)?,
                Err(_) => None,
            };
            let leads_away = real.is_some_and(|real| {
                !is_written(&real) && (!is_written(&found) || are_one_program(name, &real))
            });
            if leads_away {
                misleading.append(&mut before);
                break;
            }
            before.push(directory.clone());
        }
    }
    Ok(misleading)
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
        let found = |name: &str, path: &[PathBuf]| {
            let written = slice::from_ref(&workspace);
            let sought = [OsString::from(name)];
            misleading(&sought, path, written, OpenedFor::Oneself, View::HOST).unwrap()
        };
        for (target, is_misleading) in [
            (elsewhere.join("python3.12"), false),
            (elsewhere.join("python3"), false),
            (elsewhere.join("true"), true),
            (workspace.join("planted"), true),
        ] {
            symlink(&target, workspace.join("python3")).unwrap();
            let expected = if is_misleading { &path[..1] } else { &[] };
            assert_eq!(found("python3", &path), expected, "{target:?}");
            assert_eq!(
                found("python3", &[path[1].clone(), path[0].clone()]),
                [""; 0].map(PathBuf::from)
            );
            fs::remove_file(workspace.join("python3")).unwrap();
        }
        write(workspace.join("python3"));
        assert_eq!(found("python3", &path), path[..1]);
        // No other directory has it, or it is no interpreter.
        for name in ["node", "tool"] {
            assert_eq!(found(name, &path), [""; 0].map(PathBuf::from), "{name}");
        }
    }
}
