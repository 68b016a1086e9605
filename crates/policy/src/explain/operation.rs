//! Operations on paths, and the rights that each needs.

use std::{fs, io, path::Path};

use crate::{
    located::Located,
    rights::{FileRight, FileRights},
};

/// An operation on a path.
///
/// There is one for each answer that grants can give: no [`Access`](crate::Access) lets a hook make files and not directories, or write a file and
/// not truncate it. Device nodes, named pipes and sockets can be made under none.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Operation {
    /// Make a file, directory or symbolic link that does not exist.
    Create,
    /// Execute a file.
    Execute,
    /// Give a file a second name.
    Link,
    /// List a directory.
    List,
    /// Read a file.
    Read,
    /// Remove a file or an empty directory.
    Remove,
    /// Give a file or directory another name or place.
    Rename,
    /// Write or truncate a file.
    Write,
}

impl Operation {
    /// Every operation.
    pub const ALL: [Self; 8] = [
        Self::Create,
        Self::Execute,
        Self::Link,
        Self::List,
        Self::Read,
        Self::Remove,
        Self::Rename,
        Self::Write,
    ];

    /// Returns its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Execute => "execute",
            Self::Link => "link",
            Self::List => "list",
            Self::Read => "read",
            Self::Remove => "remove",
            Self::Rename => "rename",
            Self::Write => "write",
        }
    }

    /// Returns whether it takes a second path.
    pub const fn has_destination(self) -> bool {
        matches!(self, Self::Link | Self::Rename)
    }

    /// Returns whether it follows a link at the end of the path.
    const fn follows(self) -> bool {
        matches!(self, Self::Execute | Self::List | Self::Read | Self::Write)
    }
}

/// The type of the file at a path.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FileKind {
    /// A directory.
    Directory,
    /// A regular file.
    File,
    /// A symbolic link.
    Link,
    /// Nothing.
    Missing,
    /// A device node, named pipe or socket.
    Special,
    /// The file cannot be examined.
    Unknown,
}

impl FileKind {
    pub(super) fn from_path(path: &Path, follow: bool) -> Self {
        let metadata = if follow {
            fs::metadata(path)
        } else {
            fs::symlink_metadata(path)
        };
        let file_type = match metadata {
            Ok(metadata) => metadata.file_type(),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                return Self::Missing;
            }
            Err(_) => return Self::Unknown,
        };
        if file_type.is_dir() {
            Self::Directory
        } else if file_type.is_symlink() {
            Self::Link
        } else if file_type.is_file() {
            Self::File
        } else {
            Self::Special
        }
    }

    /// Returns the rights to give one of this kind a new name in a directory. No grant has those for special files.
    pub(super) const fn made_by(self) -> FileRights {
        match self {
            Self::Directory => FileRights::new(&[FileRight::MakeDirectory]),
            Self::File | Self::Missing | Self::Unknown => FileRights::new(&[FileRight::MakeFile]),
            Self::Link => FileRights::new(&[FileRight::MakeLink]),
            Self::Special => FileRights::new(&[
                FileRight::MakeBlock,
                FileRight::MakeChar,
                FileRight::MakeFifo,
                FileRight::MakeSocket,
            ]),
        }
    }

    /// Returns the right to take one of this kind away from a directory.
    fn removed_by(self) -> FileRights {
        match self == Self::Directory {
            true => FileRights::new(&[FileRight::RemoveDirectory]),
            false => FileRights::new(&[FileRight::RemoveFile]),
        }
    }
}

/// A path of an operation, located.
#[derive(Clone, Debug)]
pub struct Target {
    pub(super) kind: FileKind,
    pub(super) object: Located,
    pub(super) parent: Located,
}

impl Target {
    /// Locates the file that an operation on a path would reach. A file that cannot be examined is located by its path
    /// alone.
    pub fn locate(operation: Operation, path: &Path) -> Self {
        Self::find(path, operation.follows())
    }

    /// Locates an operation's second path.
    pub fn destination(path: &Path) -> Self {
        Self::find(path, false)
    }

    /// Returns a path in a place that does not exist yet, as a scratch directory.
    pub fn imagined(path: &Path, kind: FileKind) -> Self {
        let parent = path.parent().unwrap_or(path);
        Self {
            kind,
            object: Located::imagined(path),
            parent: Located::imagined(parent),
        }
    }

    fn find(path: &Path, follow: bool) -> Self {
        // Links in /proc lead elsewhere for every process, so the daemon's do not apply to a hook.
        if path.starts_with("/proc") {
            return Self::imagined(path, FileKind::Unknown);
        }
        let object = if follow {
            Located::find(path)
        } else {
            Located::name(path)
        };
        match object.and_then(|object| Ok((object.parent()?, object))) {
            Ok((parent, object)) => Self {
                kind: FileKind::from_path(object.path(), follow),
                object,
                parent,
            },
            Err(_) => Self::imagined(path, FileKind::Unknown),
        }
    }

    /// Returns the type of the file.
    pub const fn kind(&self) -> FileKind {
        self.kind
    }

    /// Returns the path without links, as far as it exists.
    pub fn path(&self) -> &Path {
        self.object.path()
    }

    /// Returns the directory that holds the name.
    pub fn parent(&self) -> &Path {
        self.parent.path()
    }
}

/// Returns the rights that an operation needs, by place.
pub(super) fn needs<'a>(
    operation: Operation,
    target: &'a Target,
    destination: Option<&'a Target>,
) -> Vec<(&'a Located, FileRights)> {
    let needs = |place, rights: &[FileRight]| vec![(place, FileRights::new(rights))];
    let (object, parent) = (&target.object, &target.parent);
    let make: &[FileRight] = &[FileRight::MakeFile, FileRight::WriteFile];
    match operation {
        Operation::Create => needs(parent, make),
        // The kernel also opens a program for reading.
        Operation::Execute => needs(object, &[FileRight::Execute, FileRight::ReadFile]),
        Operation::Link => between(target, destination.unwrap_or(target), false),
        Operation::Read if target.kind != FileKind::Directory => {
            needs(object, &[FileRight::ReadFile])
        }
        Operation::List | Operation::Read => needs(object, &[FileRight::ReadDirectory]),
        Operation::Remove => vec![(parent, target.kind.removed_by())],
        Operation::Rename => between(target, destination.unwrap_or(target), true),
        Operation::Write if target.kind == FileKind::Missing => needs(parent, make),
        Operation::Write => needs(object, &[FileRight::WriteFile]),
    }
}

/// Returns the rights for renaming or linking a file, within a directory or across two.
fn between<'a>(
    from: &'a Target,
    destination: &'a Target,
    removes: bool,
) -> Vec<(&'a Located, FileRights)> {
    let mut source = FileRights::default();
    let mut goal = from.kind.made_by();
    if removes {
        source = from.kind.removed_by();
        if destination.kind != FileKind::Missing {
            goal = goal.and(destination.kind.removed_by());
        }
    }
    if from.parent.path() == destination.parent.path() {
        return vec![(&from.parent, source.and(goal))];
    }
    let refer = FileRights::new(&[FileRight::Refer]);
    vec![
        (&from.parent, source.and(refer)),
        (&destination.parent, goal.and(refer)),
    ]
}
