//! Self-test fixture: files, some of which are granted.

use std::{
    fs::{self, File},
    io,
    os::{fd::AsFd, unix::fs::PermissionsExt},
    path::{Path, PathBuf},
};

use hookjail_policy::{Access, Keep, Policy, rights::Rights};
use hookjail_sys::{Attempt, Identity, Links};

use crate::{
    resources::scratch::{RunDir, wait_for_writers},
    run::{
        grants::{self, OpenGrant},
        read_only::Kept,
    },
};

/// Directory that serves as the workspace with its read-only paths.
pub(super) const WORKSPACE: &str = "workspace";
pub(super) const HIDDEN_FILE: &str = "around/hidden";
pub(super) const KEPT_DIRECTORY: &str = "around/directory";
pub(super) const KEPT_FILE: &str = "around/file";

/// Files of a self-test: some granted, some not, all accessible to the hook's user.
#[derive(Debug)]
pub(crate) struct Fixture {
    pub(super) denied: PathBuf,
    pub(super) granted: PathBuf,
    /// Directory owned by the hook's user that no policy grants.
    pub(super) outside: PathBuf,
    pub(super) scratch: PathBuf,
    /// File that serves as the daemon's open descriptor.
    pub(crate) witness: File,
}

impl Fixture {
    pub(crate) fn create(
        policy: &Policy,
        directory: &RunDir,
        (denied, granted): (&Path, &Path),
        identity: Option<&Identity>,
    ) -> io::Result<Self> {
        let scratch = directory.scratch();
        let outside = directory.outside(identity)?;
        for (path, mode) in [
            ("kept", 0o644),
            ("readable", 0o644),
            ("program", 0o755),
            ("granted-program", 0o755),
            ("readable-program", 0o755),
        ] {
            let path = outside.join(path);
            // No format that the kernel executes: neither ELF nor `#!`.
            fs::write(&path, "content\n")?;
            fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
            if let Some(Identity { uid, gid, .. }) = identity {
                std::os::unix::fs::chown(&path, Some(*uid), Some(*gid))?;
            }
            if mode & 0o111 != 0 {
                wait_for_writers(&path)?;
            }
        }
        // No grants below it: a container would otherwise show a directory with just those.
        let closed = outside.join("closed");
        fs::create_dir(&closed)?;
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o755))?;
        let workspace = outside.join(WORKSPACE);
        let keeping = [
            (workspace.clone(), true),
            (workspace.join("around"), true),
            (workspace.join(KEPT_DIRECTORY), true),
            (workspace.join(HIDDEN_FILE), false),
            (workspace.join(KEPT_FILE), false),
        ];
        let keeps = policy.files.keep();
        for (path, is_directory) in keeping.into_iter().filter(|_| keeps) {
            if is_directory {
                fs::create_dir(&path)?;
            } else {
                fs::write(&path, "content\n")?;
            }
            if let Some(Identity { uid, gid, .. }) = identity {
                std::os::unix::fs::chown(&path, Some(*uid), Some(*gid))?;
            }
        }
        let witness = File::open(denied)?;
        Ok(Self {
            denied: denied.to_owned(),
            granted: granted.to_owned(),
            outside,
            scratch,
            witness,
        })
    }

    /// Returns the paths that stay read-only within the confined child's writable ones, or are hidden.
    pub(crate) fn kept(&self) -> io::Result<Kept> {
        let workspace = self.outside.join(WORKSPACE);
        let (target, _) = grants::open(&workspace, Links::Refused)?;
        let points = [
            ("around", Keep::Name),
            (HIDDEN_FILE, Keep::Hidden),
            (KEPT_DIRECTORY, Keep::Unchanged),
            (KEPT_FILE, Keep::Unchanged),
        ];
        let points = points.map(|(below, keep)| (below.into(), keep));
        Ok(Kept {
            hides_directories: false,
            placeholders: None,
            points: points.into(),
            target,
            workspace,
        })
    }

    /// Returns the confined child's grants in the fixture.
    pub(crate) fn grants(&self, policy: &Policy) -> io::Result<Vec<OpenGrant>> {
        let open = |name: &str, access| -> io::Result<OpenGrant> {
            let path = self.outside.join(name);
            let (target, _) = grants::open(&path, Links::Refused)?;
            Ok(OpenGrant {
                path,
                rights: Rights::File(access),
                target: target.into(),
            })
        };
        let mut granted = vec![
            open("readable", Access::Read)?,
            open("granted-program", Access::Execute)?,
            open("readable-program", Access::Read)?,
        ];
        if policy.files.keep() {
            granted.push(OpenGrant {
                rights: Rights::Directory(Access::Write),
                ..open(WORKSPACE, Access::Write)?
            });
        }
        Ok(granted)
    }

    /// Returns the attempt to use one of the daemon's descriptors. The unconfined child has its descriptors closed too, so the
    /// positive control is the daemon's own use.
    pub(crate) fn descriptor(&self) -> Attempt {
        Attempt::descriptor(self.witness.as_fd())
    }
}
