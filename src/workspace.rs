//! Access to files of a request's workspace from inside the daemon. It has the caller's rights, leaves the workspace by
//! no link, and is not held up by what lies in it.
//!
//! Nothing here writes. The gate decides what may be a workspace.

use std::{
    ffi::OsStr,
    fs::File,
    io::{self, Read},
    os::{
        fd::OwnedFd,
        unix::{ffi::OsStrExt, fs::MetadataExt},
    },
    path::{Path, PathBuf},
};

use nix::{
    dir::Type,
    errno::Errno,
    fcntl::{AtFlags, OFlag},
    sys::stat::{Mode, SFlag, fstat, fstatat},
};

use crate::{
    model::{Peer, is_plain},
    sys::{BY_NAME, FileRights, Links, locate, open_beneath},
};

/// A directory of a workspace.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Directory {
    below: PathBuf,
    workspace: PathBuf,
}

/// The reason why no file is read.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub(crate) enum Elsewhere {
    /// The working directory lies in no workspace.
    #[error("the runtime's working directory does not lie in the workspace")]
    Outside,
    /// There is no workspace.
    #[error("the request binds no workspace")]
    Unbound,
}

impl Directory {
    /// Returns a runtime's working directory, or its workspace where none is known.
    ///
    /// # Errors
    ///
    /// There is no workspace, or the place lies elsewhere.
    pub(crate) fn of(cwd: &Path, workspace: Option<&Path>) -> Result<Self, Elsewhere> {
        let workspace = workspace.ok_or(Elsewhere::Unbound)?;
        let cwd = if cwd.as_os_str().is_empty() {
            workspace
        } else {
            cwd
        };
        let below = cwd.strip_prefix(workspace).ok();
        let below = below.filter(|_| is_plain(cwd));
        Ok(Self {
            below: below.ok_or(Elsewhere::Outside)?.to_owned(),
            workspace: workspace.to_owned(),
        })
    }

    /// Returns its absolute path.
    pub(crate) fn path(&self) -> PathBuf {
        self.workspace.join(&self.below)
    }

    /// Returns the workspace.
    pub(crate) fn workspace(&self) -> &Path {
        &self.workspace
    }

    /// Opens it with the rights of a caller, or the daemon's own for `None`. They last as long as what is returned, on
    /// this thread.
    ///
    /// # Errors
    ///
    /// Returns the error of the system.
    pub(crate) fn open(&self, reader: Option<Peer>) -> io::Result<Opened> {
        let rights = reader.map(|peer| FileRights::of(peer.uid, peer.gid));
        let root = locate(&self.workspace, OFlag::O_DIRECTORY, Links::Refused)?;
        let opened = Opened {
            _rights: rights,
            directory: self.clone(),
            reader,
            root,
        };
        // What a link leads out to is no directory of the workspace.
        opened.beneath(&self.below, BY_NAME | OFlag::O_DIRECTORY)?;
        Ok(opened)
    }
}

/// A directory of a workspace, opened.
#[derive(Debug)]
pub(crate) struct Opened {
    _rights: Option<FileRights>,
    directory: Directory,
    reader: Option<Peer>,
    root: OwnedFd,
}

/// An entry of a directory.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Named {
    /// Its name.
    pub(crate) name: Vec<u8>,
    /// Whether it is a directory itself; a link to one is not.
    pub(crate) is_directory: bool,
}

/// Content of a file, if it was read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Content {
    /// There is no such file.
    Absent,
    /// Not read, for this reason.
    Refused(String),
    /// The whole content.
    Text(String),
}

impl Opened {
    /// Returns its absolute path.
    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path()
    }

    /// Returns the workspace.
    pub(crate) fn workspace(&self) -> &Path {
        &self.directory.workspace
    }

    /// Returns it and the directories above it, up to the workspace. Each is its path in the workspace.
    pub(crate) fn upwards(&self) -> impl Iterator<Item = &Path> {
        self.directory.below.ancestors()
    }

    /// Lists at most this many entries without a leading dot, and whether more exist.
    ///
    /// # Errors
    ///
    /// Returns the error of the system, `EACCES` where the reader may not list it.
    pub(crate) fn list(&self, most: usize) -> io::Result<(Vec<Named>, bool)> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let directory = File::from(self.beneath(&self.directory.below, flags)?);
        self.check(&directory)?;
        let entries = nix::dir::Dir::from_fd(directory.try_clone()?.into())?;
        let mut all = Vec::new();
        for (seen, entry) in entries.into_iter().enumerate() {
            // Hidden ones too take their time.
            if seen == most {
                return Ok((all, true));
            }
            let entry = entry?;
            let name = entry.file_name().to_bytes().to_owned();
            if name.starts_with(b".") {
                continue;
            }
            let is_directory = match entry.file_type() {
                Some(kind) => kind == Type::Directory,
                None => is_directory(&directory, &name),
            };
            all.push(Named { name, is_directory });
        }
        Ok((all, false))
    }

    /// Reads a file of at most so many bytes; `path` is one in the workspace. What is no UTF-8 in it is replaced.
    pub(crate) fn read(&self, path: &Path, most: usize) -> Content {
        match self.bytes(path, most) {
            Ok(bytes) => Content::Text(String::from_utf8_lossy(&bytes).into_owned()),
            Err(error) => match error.raw_os_error().map(Errno::from_raw) {
                Some(Errno::EISDIR | Errno::ENOENT | Errno::ENOTDIR) => Content::Absent,
                Some(Errno::EXDEV) => Content::Refused("it leads out of the workspace".to_owned()),
                Some(errno) => Content::Refused(errno.desc().to_owned()),
                None => Content::Refused(error.to_string()),
            },
        }
    }

    /// Returns whether the directory or one above it has an entry of this name. It is a file or directory, and the
    /// search ends at the workspace.
    pub(crate) fn is_below(&self, name: &str) -> bool {
        self.upwards().any(|path| {
            self.kind(&path.join(name))
                .is_ok_and(|kind| kind == SFlag::S_IFDIR || kind == SFlag::S_IFREG)
        })
    }

    fn bytes(&self, path: &Path, most: usize) -> io::Result<Vec<u8>> {
        // A device could do something merely because it is opened.
        match self.kind(path)? {
            SFlag::S_IFREG => {}
            SFlag::S_IFDIR => return Err(Errno::EISDIR.into()),
            _ => return Err(io::Error::other("it is no regular file")),
        }
        // And what took the file's place since then must not hold us up.
        let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
        let file = File::from(self.beneath(path, flags)?);
        let metadata = self.check(&file)?;
        if !metadata.is_file() {
            return Err(io::Error::other("it is no regular file"));
        }
        let large = || io::Error::other(format!("it is larger than {most} bytes"));
        if metadata.len() > most as u64 {
            return Err(large());
        }
        let mut bytes = Vec::new();
        file.take(most as u64 + 1).read_to_end(&mut bytes)?;
        if bytes.len() > most {
            return Err(large());
        }
        Ok(bytes)
    }

    fn kind(&self, path: &Path) -> io::Result<SFlag> {
        let seen = self.beneath(path, BY_NAME)?;
        let mode = fstat(&seen)?.st_mode & SFlag::S_IFMT.bits();
        Ok(SFlag::from_bits_truncate(mode))
    }

    fn beneath(&self, path: &Path, flags: OFlag) -> Result<OwnedFd, Errno> {
        let path = if path.as_os_str().is_empty() {
            Path::new(".")
        } else {
            path
        };
        open_beneath(
            &self.root,
            path,
            flags,
            Mode::empty(),
            Links::FollowedByName,
        )
    }

    /// Rejects files readable only by a group of the daemon's. A thread that takes a caller's rights keeps its groups.
    fn check(&self, file: &File) -> io::Result<std::fs::Metadata> {
        let metadata = file.metadata()?;
        match self.reader {
            Some(peer) if !peer.may_read(metadata.uid(), metadata.mode()) => {
                Err(Errno::EACCES.into())
            }
            _ => Ok(metadata),
        }
    }
}

fn is_directory(directory: &File, name: &[u8]) -> bool {
    let name = OsStr::from_bytes(name);
    fstatat(directory, name, AtFlags::AT_SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| stat.st_mode & SFlag::S_IFMT.bits() == SFlag::S_IFDIR.bits())
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{PermissionsExt, symlink},
    };

    use nix::{sys::stat::Mode, unistd::mkfifo};

    use super::*;

    fn opened(workspace: &Path, cwd: &Path) -> Opened {
        let directory = Directory::of(cwd, Some(workspace)).unwrap();
        directory.open(None).unwrap()
    }

    #[test]
    fn only_what_lies_in_the_workspace_is_looked_at() {
        let of = |cwd: &str, workspace: Option<&str>| {
            Directory::of(Path::new(cwd), workspace.map(Path::new))
        };
        let path = |cwd| of(cwd, Some("/w/a")).map(|directory| directory.path());
        assert_eq!(path("").unwrap(), Path::new("/w/a"));
        assert_eq!(path("/w/a/b").unwrap(), Path::new("/w/a/b"));
        for outside in ["/w", "/w/ab", "/w/a/../b", "/w/a/./b", "a", "/"] {
            assert_eq!(path(outside), Err(Elsewhere::Outside), "{outside}");
        }
        assert_eq!(of("/w/a", None), Err(Elsewhere::Unbound));
    }

    #[test]
    fn a_file_is_read_also_through_a_link_that_stays_inside() {
        let workspace = tempfile::tempdir().unwrap();
        let root = workspace.path();
        fs::create_dir(root.join("sub")).unwrap();
        fs::write(root.join("sub/a"), "text").unwrap();
        symlink("sub/a", root.join("inside")).unwrap();
        let opened = opened(root, &root.join("sub"));
        for path in ["sub/a", "inside"] {
            let text = Content::Text("text".to_owned());
            assert_eq!(opened.read(Path::new(path), 4), text, "{path}");
        }
        let upwards: Vec<_> = opened.upwards().collect();
        assert_eq!(upwards, [Path::new("sub"), Path::new("")]);
        assert_eq!(opened.read(Path::new("b"), 4), Content::Absent);
        assert_eq!(opened.read(Path::new("sub"), 4), Content::Absent);
    }

    #[test]
    fn what_leads_out_blocks_or_is_too_large_is_refused() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret"), "text").unwrap();
        let workspace = tempfile::tempdir().unwrap();
        let root = workspace.path();
        symlink(outside.path().join("secret"), root.join("file")).unwrap();
        symlink(outside.path(), root.join("directory")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        symlink("/dev/zero", root.join("device")).unwrap();
        mkfifo(&root.join("fifo"), Mode::S_IRWXU).unwrap();
        let huge = File::create(root.join("huge")).unwrap();
        huge.set_len(100 * 1024 * 1024).unwrap();
        let opened = opened(root, root);
        for (path, why) in [
            ("file", "it leads out of the workspace"),
            ("directory/secret", "it leads out of the workspace"),
            ("../secret", "it leads out of the workspace"),
            ("/etc/hostname", "it leads out of the workspace"),
            ("loop", Errno::ELOOP.desc()),
            ("device", "it leads out of the workspace"),
            ("fifo", "it is no regular file"),
            ("huge", "it is larger than 4 bytes"),
        ] {
            let refused = Content::Refused(why.to_owned());
            assert_eq!(opened.read(Path::new(path), 4), refused, "{path}");
        }
        let link = root.join("directory");
        for (cwd, workspace) in [("", &*link), (link.to_str().unwrap(), root)] {
            let directory = Directory::of(Path::new(cwd), Some(workspace)).unwrap();
            assert!(directory.open(None).is_err(), "{cwd}");
        }
    }

    #[test]
    fn a_directory_is_listed_without_what_is_hidden_and_never_longer_than_asked() {
        let workspace = tempfile::tempdir().unwrap();
        let root = workspace.path();
        fs::create_dir(root.join("dir")).unwrap();
        for name in [".hidden", "a\nb", "c"] {
            fs::write(root.join(name), "").unwrap();
        }
        symlink("dir", root.join("link")).unwrap();
        let opened = opened(root, root);
        let (mut all, more) = opened.list(100).unwrap();
        all.sort();
        let named = |name: &str, is_directory| Named {
            name: name.into(),
            is_directory,
        };
        let expected = [
            named("a\nb", false),
            named("c", false),
            named("dir", true),
            named("link", false),
        ];
        assert_eq!((&all[..], more), (&expected[..], false));
        let (some, more) = opened.list(3).unwrap();
        assert!(some.len() <= 3 && more);
        assert!(opened.is_below("c") && !opened.is_below("d"));
    }

    mod as_root {
        use super::*;

        #[test]
        #[ignore = "needs root"]
        fn a_reader_sees_no_more_than_it_could_by_itself() {
            assert!(nix::unistd::geteuid().is_root(), "this test needs root");
            let workspace = tempfile::tempdir().unwrap();
            let root = workspace.path();
            fs::set_permissions(root, fs::Permissions::from_mode(0o711)).unwrap();
            for (name, mode) in [("ours", 0o600), ("group", 0o640), ("all", 0o644)] {
                fs::write(root.join(name), "text").unwrap();
                fs::set_permissions(root.join(name), fs::Permissions::from_mode(mode)).unwrap();
            }
            let peer = Peer {
                gid: 0,
                pid: None,
                uid: 65_533,
            };
            let directory = Directory::of(Path::new(""), Some(root)).unwrap();
            let opened = directory.open(Some(peer)).unwrap();
            let refused = Content::Refused(Errno::EACCES.desc().to_owned());
            assert_eq!(opened.read(Path::new("ours"), 4), refused);
            assert_eq!(opened.read(Path::new("group"), 4), refused);
            let text = Content::Text("text".to_owned());
            assert_eq!(opened.read(Path::new("all"), 4), text);
            assert!(opened.list(9).is_err());
            drop(opened);
            let opened = directory.open(None).unwrap();
            assert_eq!(opened.read(Path::new("ours"), 4), text);
        }
    }
}
