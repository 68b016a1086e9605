//! The root of containers: an unpacked image, identified by a digest of its tree.

mod tree;

use std::{
    fs::{File, Metadata},
    io,
    os::{
        fd::OwnedFd,
        unix::fs::{OpenOptionsExt, PermissionsExt},
    },
    path::{Path, PathBuf},
};

use nix::{errno::Errno, fcntl::OFlag};

pub(crate) use self::tree::{TreeDigest, TreeError, digest};
use crate::{
    policy::{Files, GrantPlace, GrantSpec},
    sys::{BY_NAME, Links, locate, open_in_root},
};

/// The program that every root must have: most hooks are lines of it.
const SHELL: &str = "/bin/sh";

/// A root, as the operator names it.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct RootSpec {
    /// Of all that is in it.
    pub digest: TreeDigest,
    /// Where it lies: absolute.
    pub path: PathBuf,
}

/// A root that cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RootError {
    /// Its content is not what the operator named.
    #[error(
        "it has the digest `{found}`, and `container.root_digest` is `{expected}`: find out who changed it, or write the new digest"
    )]
    Digest {
        /// The digest in the configuration.
        expected: TreeDigest,
        /// What it is.
        found: TreeDigest,
    },
    /// It is not there, or is no directory.
    #[error("it cannot be opened as a directory: {0}")]
    Open(#[source] io::Error),
    /// Hooks would find no shell in it.
    #[error(
        "it has no program `{SHELL}`: unpack a whole system, with a shell, its libraries and what hooks need"
    )]
    Shell,
    /// Something in it is not as it must be.
    #[error(transparent)]
    Tree(#[from] TreeError),
}

/// A root, opened.
#[derive(Debug)]
pub(crate) struct Root {
    directory: OwnedFd,
    path: PathBuf,
}

impl Root {
    /// Opens a root. What is in it is looked at by [`Self::verify`].
    ///
    /// # Errors
    ///
    /// It is not there, or is no directory.
    pub(crate) fn open(spec: &RootSpec) -> Result<Self, RootError> {
        let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW;
        let directory = locate(&spec.path, flags, Links::Followed)
            .map_err(|errno| RootError::Open(errno.into()))?;
        Ok(Self {
            directory,
            path: spec.path.clone(),
        })
    }

    /// Verifies its owners, modes and content against the configured digest.
    ///
    /// # Errors
    ///
    /// Names what is not as it must be.
    pub(crate) fn verify(&self, spec: &RootSpec) -> Result<(), RootError> {
        let found = digest(&self.path)?;
        if found != spec.digest {
            let expected = spec.digest.clone();
            return Err(RootError::Digest { expected, found });
        }
        let shell = self.open_in(Path::new(SHELL), BY_NAME);
        let program = |found: Metadata| found.is_file() && found.permissions().mode() & 0o111 != 0;
        match shell.is_ok_and(|shell| shell.metadata().is_ok_and(program)) {
            true => Ok(()),
            false => Err(RootError::Shell),
        }
    }

    /// Returns where it lies.
    #[cfg(target_os = "linux")]
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether the root provides a path. Devices and processes are the host's and the container's.
    pub(crate) fn has(path: &Path) -> bool {
        !["/dev", "/proc"].iter().any(|own| path.starts_with(own))
    }

    /// Opens what an absolute path leads to in it; symbolic links lead nowhere else.
    ///
    /// # Errors
    ///
    /// Returns the system's error.
    pub(crate) fn open_in(&self, path: &Path, flags: OFlag) -> Result<File, Errno> {
        open_in_root(&self.directory, path, flags).map(File::from)
    }
}

/// Resolves a hook's paths: system grants in the root, anything else on the host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a>(Option<(&'a Root, &'a Files)>);

impl<'a> View<'a> {
    /// Every path is the host's.
    pub(crate) const HOST: View<'static> = View(None);

    /// Returns the view of hooks under a profile that grants these files.
    pub(crate) fn of(root: Option<&'a Root>, files: &'a Files) -> Self {
        Self(root.map(|root| (root, files)))
    }

    /// Opens what a path leads to.
    ///
    /// # Errors
    ///
    /// Returns the system's error.
    pub(crate) fn open(&self, path: &Path, flags: OFlag) -> io::Result<File> {
        match self.root_of(path) {
            Some(root) => Ok(root.open_in(path, flags)?),
            None => File::options()
                .read(true)
                .custom_flags(flags.bits())
                .open(path),
        }
    }

    /// Looks at what a path leads to.
    ///
    /// # Errors
    ///
    /// Returns the system's error.
    pub(crate) fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        self.open(path, BY_NAME)?.metadata()
    }

    /// Returns the root, if it is there that a path leads to. Of two grants, one below the other, the nearer one decides.
    pub(crate) fn root_of(&self, path: &Path) -> Option<&'a Root> {
        let (root, files) = self.0?;
        let nearest = |grants: &[GrantSpec]| {
            let granted = grants.iter().filter_map(|grant| match &grant.place {
                GrantPlace::Path(granted) => path.starts_with(granted).then_some(granted),
                GrantPlace::Source { .. } | GrantPlace::Workspace { .. } => None,
            });
            granted.map(|granted| granted.components().count()).max()
        };
        let is = Root::has(path) && nearest(&files.system) > nearest(&files.named);
        is.then_some(root)
    }
}
