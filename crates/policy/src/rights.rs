//! The rights of grants, in one table for rulesets and explanations.

use super::Access;

/// A right on a file or a directory.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum FileRight {
    /// Execute a file.
    Execute,
    /// Send requests to a device.
    IoctlDevice,
    /// Make a block device.
    MakeBlock,
    /// Make a character device.
    MakeChar,
    /// Make a directory.
    MakeDirectory,
    /// Make a named pipe.
    MakeFifo,
    /// Make a regular file.
    MakeFile,
    /// Make a symbolic link.
    MakeLink,
    /// Make a socket with a path.
    MakeSocket,
    /// List a directory.
    ReadDirectory,
    /// Read a file.
    ReadFile,
    /// Rename or link a file into another directory.
    Refer,
    /// Remove an empty directory.
    RemoveDirectory,
    /// Remove a file.
    RemoveFile,
    /// Connect to a socket with a path.
    ResolveSocket,
    /// Truncate a file.
    Truncate,
    /// Write a file.
    WriteFile,
}

impl FileRight {
    /// Every right.
    pub const ALL: [Self; 17] = [
        Self::Execute,
        Self::IoctlDevice,
        Self::MakeBlock,
        Self::MakeChar,
        Self::MakeDirectory,
        Self::MakeFifo,
        Self::MakeFile,
        Self::MakeLink,
        Self::MakeSocket,
        Self::ReadDirectory,
        Self::ReadFile,
        Self::Refer,
        Self::RemoveDirectory,
        Self::RemoveFile,
        Self::ResolveSocket,
        Self::Truncate,
        Self::WriteFile,
    ];

    /// Returns a description of its use.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Execute => "execute files",
            Self::IoctlDevice => "send requests to devices",
            Self::MakeBlock => "make block devices",
            Self::MakeChar => "make character devices",
            Self::MakeDirectory => "make directories",
            Self::MakeFifo => "make named pipes",
            Self::MakeFile => "make files",
            Self::MakeLink => "make symbolic links",
            Self::MakeSocket => "make sockets",
            Self::ReadDirectory => "list directories",
            Self::ReadFile => "read files",
            Self::Refer => "move files to another directory",
            Self::RemoveDirectory => "remove directories",
            Self::RemoveFile => "remove files",
            Self::ResolveSocket => "connect to sockets",
            Self::Truncate => "truncate files",
            Self::WriteFile => "write files",
        }
    }
}

/// A set of rights.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct FileRights(u32);

impl FileRights {
    /// Returns the set of these rights.
    pub const fn new(rights: &[FileRight]) -> Self {
        let mut bits = 0;
        let mut index = 0;
        while index < rights.len() {
            bits |= 1 << rights[index] as u32;
            index += 1;
        }
        Self(bits)
    }

    /// Returns the rights that this set and another have together.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the rights that both sets have.
    #[must_use]
    pub const fn common(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns the rights of this set that another does not have.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns whether a right is in the set.
    pub const fn has(self, right: FileRight) -> bool {
        self.0 & 1 << right as u32 != 0
    }

    /// Returns whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Iterates over the rights of the set.
    pub fn iter(self) -> impl Iterator<Item = FileRight> {
        FileRight::ALL
            .into_iter()
            .filter(move |right| self.has(*right))
    }
}

/// The rights on one path.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Rights {
    /// The rights on a directory.
    Directory(Access),
    /// The rights on a file.
    File(Access),
    /// The directory for temporary files of a run with a view of its own: all but making device nodes.
    Private,
    /// The scratch directory: all but executing and making device nodes, pipes and sockets.
    Scratch,
}

impl Rights {
    /// Returns the rights of an access to a directory or to another file.
    pub const fn for_access(access: Access, is_directory: bool) -> Self {
        if is_directory {
            Self::Directory(access)
        } else {
            Self::File(access)
        }
    }

    /// Returns the rights on the path and below it.
    pub const fn allowed(self) -> FileRights {
        match self {
            Self::Directory(access) => on_directory(access),
            Self::File(access) => on_directory(access).common(OF_FILES),
            Self::Private => CHANGE.and(FileRights::new(&[
                FileRight::Execute,
                FileRight::MakeFifo,
                FileRight::MakeSocket,
            ])),
            Self::Scratch => CHANGE,
        }
    }
}

const fn on_directory(access: Access) -> FileRights {
    let execute = FileRights::new(&[FileRight::Execute]);
    match access {
        Access::Execute => READ.and(execute),
        Access::Read => READ,
        Access::Write => CHANGE.and(execute),
        Access::WriteFile => FileRights::new(&[
            FileRight::ReadFile,
            FileRight::Truncate,
            FileRight::WriteFile,
        ]),
    }
}

/// Reading.
const READ: FileRights = FileRights::new(&[FileRight::ReadDirectory, FileRight::ReadFile]);

/// Reading and changing, without making sockets, pipes and device nodes. A process that opens one in a granted
/// directory could be blocked or worse.
const CHANGE: FileRights = READ.and(FileRights::new(&[
    FileRight::MakeDirectory,
    FileRight::MakeFile,
    FileRight::MakeLink,
    FileRight::Refer,
    FileRight::RemoveDirectory,
    FileRight::RemoveFile,
    FileRight::ResolveSocket,
    FileRight::Truncate,
    FileRight::WriteFile,
]));

/// Rights that apply to files themselves; the others apply to directories.
pub const OF_FILES: FileRights = FileRights::new(&[
    FileRight::Execute,
    FileRight::IoctlDevice,
    FileRight::ReadFile,
    FileRight::ResolveSocket,
    FileRight::Truncate,
    FileRight::WriteFile,
]);
