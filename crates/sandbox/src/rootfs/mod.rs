//! The root directory of containers: an unpacked image, identified by a digest of its tree.

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

use hookjail_policy::{Files, GrantPlace, GrantSpec};
use hookjail_sys::{BY_NAME, Links, locate, open_in_root};

pub use self::tree::{TreeDigest, TreeError, digest};

/// The program that every root must have: most hooks are shell commands.
const SHELL: &str = "/bin/sh";

/// A root, as the operator configures it.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct RootSpec {
    /// The digest of its tree.
    pub digest: TreeDigest,
    /// Its absolute path.
    pub path: PathBuf,
}

/// Error of a root that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RootError {
    /// Its tree does not have the configured digest.
    #[error(
        "the root has the digest `{found}`, and `container.root_digest` is `{expected}`; \
         check who changed it, or write the new digest"
    )]
    Digest {
        /// The digest in the configuration.
        expected: TreeDigest,
        /// The digest of its tree.
        found: TreeDigest,
    },
    /// The root cannot be opened as a directory.
    #[error("the root cannot be opened as a directory: {0}")]
    Open(#[source] io::Error),
    /// The root has no shell.
    #[error(
        "the root has no program `{SHELL}`: unpack a whole system, with a shell, libraries and the files that hooks need"
    )]
    Shell,
    /// Its tree has no digest.
    #[error(transparent)]
    Tree(#[from] TreeError),
}

/// A root, opened.
#[derive(Debug)]
pub struct Root {
    directory: OwnedFd,
    path: PathBuf,
}

impl Root {
    /// Opens a root, without the checks of [`Self::verify`].
    ///
    /// # Errors
    ///
    /// The root cannot be opened as a directory.
    pub fn open(spec: &RootSpec) -> Result<Self, RootError> {
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
    /// Fails if a file cannot be read or trusted, the digest differs, or there is no shell.
    pub fn verify(&self, spec: &RootSpec) -> Result<(), RootError> {
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

    /// Returns its path.
    #[cfg(target_os = "linux")]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether the root provides a path. `/dev` and `/proc` are provided otherwise.
    pub fn has(path: &Path) -> bool {
        !["/dev", "/proc"]
            .iter()
            .any(|special| path.starts_with(special))
    }

    /// Opens a file by an absolute path in the root. Symbolic links are resolved in it too.
    ///
    /// # Errors
    ///
    /// Returns the system's error.
    pub fn open_in(&self, path: &Path, flags: OFlag) -> Result<File, Errno> {
        open_in_root(&self.directory, path, flags).map(File::from)
    }
}

/// A resolver of hooks' paths: system grants in the root, others on the host.
#[derive(Clone, Copy, Debug)]
pub struct View<'a>(Option<(&'a Root, &'a Files)>);

impl<'a> View<'a> {
    /// The view without a root: every path is the host's.
    pub const HOST: View<'static> = View(None);

    /// Returns the view of hooks under a profile that grants these files.
    pub fn new(root: Option<&'a Root>, files: &'a Files) -> Self {
        Self(root.map(|root| (root, files)))
    }

    /// Opens the file at a path.
    ///
    /// # Errors
    ///
    /// Returns the system's error.
    pub fn open(&self, path: &Path, flags: OFlag) -> io::Result<File> {
        match self.root_of(path) {
            Some(root) => Ok(root.open_in(path, flags)?),
            None => File::options()
                .read(true)
                .custom_flags(flags.bits())
                .open(path),
        }
    }

    /// Returns the metadata of the file at a path.
    ///
    /// # Errors
    ///
    /// Returns the system's error.
    pub fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        self.open(path, BY_NAME)?.metadata()
    }

    /// Returns the root if a path is resolved in it. Of nested grants, the innermost decides.
    pub fn root_of(&self, path: &Path) -> Option<&'a Root> {
        let (root, files) = self.0?;
        let nearest = |grants: &[GrantSpec]| {
            let granted = grants.iter().filter_map(|grant| match &grant.place {
                GrantPlace::Path(granted) => path.starts_with(granted).then_some(granted),
                GrantPlace::Entries(_)
                | GrantPlace::Source { .. }
                | GrantPlace::Workspace { .. } => None,
            });
            granted.map(|granted| granted.components().count()).max()
        };
        let is = Root::has(path) && nearest(&files.system) > nearest(&files.named);
        is.then_some(root)
    }
}
