//! Computes the digest of a tree of files that no other user can change.

use std::{
    fmt,
    fs::{self, File, Metadata, OpenOptions},
    io,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};

use hookjail_base::util::trusted_file::{self, Untrusted};

/// The prefix of a digest's 64 hexadecimal digits.
const PREFIX: &str = "sha256:";

/// The SHA-256 of a tree: sorted paths with kind, mode, and content or target.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct TreeDigest(String);

impl TreeDigest {
    /// Parses a digest.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix(PREFIX)?;
        hookjail_base::model::is_sha256(digits).then(|| Self(digits.to_owned()))
    }
}

impl fmt::Display for TreeDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", self.0)
    }
}

/// Error of computing a tree's digest.
#[derive(Debug, thiserror::Error)]
#[error("`{}`: {cause}", path.display())]
pub struct TreeError {
    /// The cause.
    #[source]
    pub cause: TreeCause,
    /// The file at fault.
    pub path: PathBuf,
}

/// The problem with a file of a tree.
#[derive(Debug, thiserror::Error)]
pub enum TreeCause {
    /// The file is no regular file, directory or symbolic link.
    #[error("the file is a device, a socket or a pipe; remove it: devices come from the host")]
    Kind,
    /// A syscall failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Another user could change the file.
    #[error(transparent)]
    Untrusted(#[from] Untrusted),
}

/// Returns the digest of a tree.
///
/// # Errors
///
/// Names the first file that cannot be read, that users other than root and this process's can change, or that is no
/// regular file, directory or symbolic link.
pub fn digest(tree: &Path) -> Result<TreeDigest, TreeError> {
    let mut hasher = Sha256::new();
    let mut waiting = vec![tree.to_owned()];
    while let Some(path) = waiting.pop() {
        let below = enter(&mut hasher, tree, &path).map_err(|cause| TreeError { cause, path })?;
        waiting.extend(below);
    }
    Ok(TreeDigest(format!("{:x}", hasher.finalize())))
}

/// Hashes one path of a tree; returns a directory's entries in reverse order.
fn enter(hasher: &mut Sha256, tree: &Path, path: &Path) -> Result<Vec<PathBuf>, TreeCause> {
    let found = fs::symlink_metadata(path)?;
    let name = path.strip_prefix(tree).unwrap_or(path);
    let mut head = |kind: u8, found: &Metadata| {
        hasher.update([kind]);
        hasher.update((found.mode() & 0o7777).to_le_bytes());
        text(hasher, name.as_os_str().as_bytes());
    };
    if found.is_dir() {
        trusted_file::check_own_or_roots(&found)?;
        head(b'd', &found);
        let entries = fs::read_dir(path)?.map(|entry| Ok(entry?.path()));
        let mut below = entries.collect::<io::Result<Vec<_>>>()?;
        below.sort_by(|one, other| other.cmp(one));
        return Ok(below);
    }
    if found.is_file() {
        let mut file = trusted_file::open_own_or_roots(path, OpenOptions::new().read(true))?;
        let found = file.metadata()?;
        head(b'f', &found);
        content(hasher, &mut file, found.len())?;
    } else if found.is_symlink() {
        // A link's mode has no effect, and the directory's decides who can replace it.
        hasher.update(b"l");
        text(hasher, name.as_os_str().as_bytes());
        text(hasher, fs::read_link(path)?.as_os_str().as_bytes());
    } else {
        return Err(TreeCause::Kind);
    }
    Ok(Vec::new())
}

/// Hashes a text after its length, so that texts cannot run into each other.
fn text(hasher: &mut Sha256, text: &[u8]) {
    hasher.update((text.len() as u64).to_le_bytes());
    hasher.update(text);
}

fn content(hasher: &mut Sha256, file: &mut File, length: u64) -> io::Result<()> {
    hasher.update(length.to_le_bytes());
    let read = io::copy(file, hasher)?;
    if read == length {
        return Ok(());
    }
    Err(io::Error::other("the file was changed while it was read"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    type Change = fn(&Path);

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Makes a tree of a file, a link and a directory.
    fn tree(root: &Path) {
        fs::create_dir_all(root.join("bin")).unwrap();
        fs::write(root.join("bin/sh"), "shell").unwrap();
        symlink("sh", root.join("bin/dash")).unwrap();
        for path in [root.to_owned(), root.join("bin"), root.join("bin/sh")] {
            mode(&path, 0o755);
        }
    }

    #[test]
    fn equal_trees_have_one_digest_and_every_change_shows() {
        let base = tempfile::tempdir().unwrap();
        let (one, other) = (base.path().join("one"), base.path().join("other"));
        tree(&one);
        tree(&other);
        let kept = digest(&one).unwrap();
        assert_eq!(digest(&other).unwrap(), kept);
        assert_eq!(TreeDigest::parse(&kept.to_string()), Some(kept.clone()));

        let changes: [(&str, Change); 6] = [
            ("content", |root| {
                fs::write(root.join("bin/sh"), "other").unwrap()
            }),
            ("mode", |root| mode(&root.join("bin/sh"), 0o555)),
            ("a new file", |root| {
                fs::write(root.join("new"), "").unwrap();
                mode(&root.join("new"), 0o644);
            }),
            ("a file less", |root| {
                fs::remove_file(root.join("bin/sh")).unwrap()
            }),
            ("a name", |root| {
                fs::rename(root.join("bin"), root.join("sbin")).unwrap();
            }),
            ("where a link leads", |root| {
                fs::remove_file(root.join("bin/dash")).unwrap();
                symlink("/bin/sh", root.join("bin/dash")).unwrap();
            }),
        ];
        for (what, change) in changes {
            let root = base.path().join("changed");
            tree(&root);
            assert_eq!(digest(&root).unwrap(), kept, "{what}");
            change(&root);
            assert_ne!(digest(&root).unwrap(), kept, "{what}");
            fs::remove_dir_all(&root).unwrap();
        }
    }

    #[test]
    fn what_others_can_write_and_what_is_no_file_is_named() {
        let base = tempfile::tempdir().unwrap();
        let root = base.path().join("tree");
        tree(&root);
        assert!(digest(&root).is_ok());
        for (path, usual) in [("bin", 0o755), ("bin/sh", 0o755)] {
            mode(&root.join(path), 0o777);
            let error = digest(&root).unwrap_err();
            assert_eq!(error.path, root.join(path));
            assert!(error.to_string().contains("others can write it"), "{error}");
            mode(&root.join(path), usual);
        }
        nix::unistd::mkfifo(&root.join("pipe"), nix::sys::stat::Mode::S_IRUSR).unwrap();
        let error = digest(&root).unwrap_err();
        assert!(
            error.to_string().contains("a device, a socket or a pipe"),
            "{error}"
        );
    }

    #[test]
    fn a_digest_is_written_in_one_way() {
        let digits = "0a".repeat(32);
        assert!(TreeDigest::parse(&format!("sha256:{digits}")).is_some());
        for wrong in [
            &digits,
            "latest",
            "sha256:",
            &format!("sha256:{}", digits.to_uppercase()),
        ] {
            assert_eq!(TreeDigest::parse(wrong), None, "{wrong}");
        }
    }
}
