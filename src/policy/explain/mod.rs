//! Explains what a policy allows by the table that rulesets are built from.
//!
//! Two steps. [`Target::locate`] and [`Reach::locate`] look at the file system, because a grant is an inode and not a
//! text; [`Reach::decide`] is pure. Rights that no rule can say anything about (file permissions, what a system call
//! filter refuses) are not asked here: [`crate::sandbox::explain`] puts both together.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
};

use super::{
    Access, Files, GrantPlace, GrantSpec,
    forbidden::Forbidden,
    located::Located,
    profile::grants::ungrantable,
    rights::{FileRight, FileRights, OF_FILES, Rights},
};

/// An operation on a path.
///
/// There is one for each answer that grants can give: no [`Access`] lets a hook make files and not directories, or write a file and
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
    /// It cannot be examined.
    Unknown,
}

impl FileKind {
    fn at(path: &Path, follow: bool) -> Self {
        let metadata = if follow {
            fs::metadata(path)
        } else {
            fs::symlink_metadata(path)
        };
        let of = match metadata {
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
        if of.is_dir() {
            Self::Directory
        } else if of.is_symlink() {
            Self::Link
        } else if of.is_file() {
            Self::File
        } else {
            Self::Special
        }
    }

    /// Returns the rights to give one of this kind a new name in a directory. No grant has those for special files.
    const fn made_by(self) -> FileRights {
        match self {
            Self::Directory => FileRights::of(&[FileRight::MakeDirectory]),
            Self::File | Self::Missing | Self::Unknown => FileRights::of(&[FileRight::MakeFile]),
            Self::Link => FileRights::of(&[FileRight::MakeLink]),
            Self::Special => FileRights::of(&[
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
            true => FileRights::of(&[FileRight::RemoveDirectory]),
            false => FileRights::of(&[FileRight::RemoveFile]),
        }
    }
}

/// A path of an operation, located.
#[derive(Clone, Debug)]
pub struct Target {
    kind: FileKind,
    object: Located,
    parent: Located,
}

impl Target {
    /// Looks for what an operation on a path would reach. What cannot be examined is judged by its path alone.
    pub fn locate(operation: Operation, path: &Path) -> Self {
        Self::find(path, operation.follows())
    }

    /// Looks for where an operation's second path leads.
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
        // Links in /proc lead elsewhere for every process: they say nothing about a hook's.
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
                kind: FileKind::at(object.path(), follow),
                object,
                parent,
            },
            Err(_) => Self::imagined(path, FileKind::Unknown),
        }
    }

    /// Returns what lies there.
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

/// The source of a grant.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Grantor {
    /// A grant of the profile.
    Profile(GrantSpec),
    /// The hook's own program or script, granted for its run.
    Program(PathBuf),
    /// The scratch directory of the run.
    Scratch,
}

impl fmt::Display for Grantor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Profile(grant) => write!(f, "`{}` is granted ({})", grant.place, grant.access),
            Self::Program(path) => write!(f, "`{}` is the hook itself", path.display()),
            Self::Scratch => f.write_str("it lies in the scratch directory of the run"),
        }
    }
}

/// One granted place.
#[derive(Clone, Debug)]
pub struct GrantedPath {
    /// Who grants it.
    pub by: Grantor,
    /// Where it leads.
    pub place: Located,
    /// What may be done there.
    pub rights: Rights,
}

/// Everything a run reaches by its path.
#[derive(Clone, Debug)]
pub struct Reach {
    files: Files,
    granted: Vec<GrantedPath>,
    handled: FileRights,
    missing: Vec<GrantSpec>,
    /// What is mounted in the workspace for a run, the outermost first.
    mounts: Vec<MountPoint>,
    workspace: Option<PathBuf>,
}

/// A path in the workspace that is a mount point, because something there is read-only.
#[derive(Clone, Debug)]
struct MountPoint {
    place: Located,
    read_only: bool,
}

impl Reach {
    /// Resolves a policy's grants on this host by inode, as a run does. Links in system grants are followed. All grants must be
    /// bound (see [`super::narrow::narrow`]). `handled` are the rights that the host's mechanism handles; no other is refused.
    ///
    /// # Errors
    ///
    /// A granted path cannot be examined.
    pub fn locate(
        files: &Files,
        workspace: Option<&Path>,
        handled: FileRights,
    ) -> io::Result<Self> {
        let mut reach = Self {
            files: files.clone(),
            granted: Vec::new(),
            handled,
            missing: Vec::new(),
            mounts: Vec::new(),
            workspace: workspace.map(Path::to_owned),
        };
        let system = files.system.iter().map(|grant| (grant, true));
        let named = files.named.iter().map(|grant| (grant, false));
        for (grant, follow) in system.chain(named) {
            let GrantPlace::Path(path) = &grant.place else {
                reach.missing.push(grant.clone());
                continue;
            };
            let place = Located::find(path)?;
            // A named grant is opened without following any link, and refused where there is one.
            if !place.exists() || (!follow && place.path() != path) {
                if !grant.optional {
                    reach.missing.push(grant.clone());
                }
                continue;
            }
            reach.add(grant, place);
        }
        reach.mounts = mounts(files, workspace)?;
        Ok(reach)
    }

    fn add(&mut self, grant: &GrantSpec, place: Located) {
        let is_directory = FileKind::at(place.path(), true) == FileKind::Directory;
        self.granted.push(GrantedPath {
            by: Grantor::Profile(self.spelled(grant)),
            place,
            rights: Rights::of(grant.access, is_directory),
        });
    }

    /// Adds the scratch directory, which need not exist.
    #[must_use]
    pub fn with_scratch(mut self, path: &Path) -> Self {
        let found = Located::find(path).ok().filter(|_| path.is_absolute());
        self.granted.push(GrantedPath {
            by: Grantor::Scratch,
            place: found.unwrap_or_else(|| Located::imagined(path)),
            rights: Rights::Scratch,
        });
        self
    }

    /// Adds a file of the hook's own: its program, interpreter or script.
    ///
    /// # Errors
    ///
    /// It cannot be examined.
    pub fn with_program(mut self, path: &Path) -> io::Result<Self> {
        self.granted.push(GrantedPath {
            by: Grantor::Program(path.to_owned()),
            place: Located::find(path)?,
            rights: Rights::File(Access::Execute),
        });
        Ok(self)
    }

    /// Iterates over what is granted.
    pub fn granted(&self) -> impl Iterator<Item = &GrantedPath> {
        self.granted.iter()
    }

    /// Iterates over grants for which every run is refused: missing, or behind a link.
    pub fn missing(&self) -> impl Iterator<Item = &GrantSpec> {
        self.missing.iter()
    }

    /// Returns the rights on a path: the sum of the grants it lies in.
    fn rights_on(&self, place: &Located) -> FileRights {
        self.holding(place)
            .fold(FileRights::default(), |sum, granted| {
                sum.and(granted.rights.allowed())
            })
            .common(self.handled)
    }

    fn holding<'a>(&'a self, place: &'a Located) -> impl Iterator<Item = &'a GrantedPath> {
        self.granted
            .iter()
            .filter(|granted| granted.place.holds(place))
    }

    /// Decides about an operation; `destination` is the second path of those that have one.
    pub fn decide(
        &self,
        operation: Operation,
        target: &Target,
        destination: Option<&Target>,
        forbidden: &Forbidden,
    ) -> GrantDecision {
        let (at, how, remedy) = match self.judge(operation, target, destination) {
            Ok(by) => match self.mounted(operation, target, destination) {
                None => return GrantDecision::Allowed { by },
                Some((at, how)) => (
                    at,
                    how,
                    Remedy::Never(
                        "`files.read_only` keeps something there as it is; a profile without that allows it"
                            .to_owned(),
                    ),
                ),
            },
            Err(lack) => (
                lack.at,
                lack.how,
                self.remedy(operation, target, destination, lack, forbidden),
            ),
        };
        GrantDecision::Refused(GrantRefusal {
            at: at.path().to_owned(),
            how,
            remedy,
        })
    }

    /// Returns whether the grants allow an operation.
    #[must_use]
    pub fn allows(
        &self,
        operation: Operation,
        target: &Target,
        destination: Option<&Target>,
    ) -> bool {
        self.judge(operation, target, destination).is_ok()
            && self.mounted(operation, target, destination).is_none()
    }

    /// Compares an operation with the grants alone. Returns who grants it.
    fn judge<'a>(
        &'a self,
        operation: Operation,
        target: &'a Target,
        destination: Option<&'a Target>,
    ) -> Result<Vec<Grantor>, Lack<'a>> {
        let needs = needs(operation, target, destination);
        let refer = FileRights::of(&[FileRight::Refer]);
        // Taking a file elsewhere is refused by every ruleset of every kernel unless it is allowed: handled or not.
        let checked = self.handled.and(refer);
        let lacks: Vec<(&Located, FileRights)> = needs
            .iter()
            .map(|(place, rights)| {
                let wanted = rights.common(checked);
                (*place, wanted.without(self.rights_on(place)))
            })
            .filter(|(_, lacking)| !lacking.is_empty())
            .collect();
        // What is plainly not granted comes first; the kernel answers EACCES for it, and EXDEV for the rest.
        if let Some(&(at, rights)) = lacks
            .iter()
            .find(|(_, lacking)| !lacking.without(refer).is_empty())
        {
            let how = How::NotGranted(rights);
            return Err(Lack { at, how, lacks });
        }
        if let Some(&(at, rights)) = lacks.first() {
            let how = How::NotBetween(rights);
            return Err(Lack { at, how, lacks });
        }
        if let Some(destination) = destination
            && target.parent.path() != destination.parent.path()
        {
            let gained = self
                .rights_on(&destination.parent)
                .without(self.rights_on(&target.object));
            let gained = if target.kind == FileKind::Directory {
                gained
            } else {
                gained.common(OF_FILES)
            };
            if !gained.is_empty() {
                return Err(Lack {
                    at: &destination.parent,
                    how: How::NotBetween(gained),
                    lacks: Vec::new(),
                });
            }
        }
        let mut by: Vec<Grantor> = Vec::new();
        for (place, rights) in needs {
            let useful = |granted: &&GrantedPath| {
                let allowed = granted.rights.allowed();
                !allowed.common(rights).common(self.handled).is_empty()
            };
            for granted in self.holding(place).filter(useful) {
                if !by.contains(&granted.by) {
                    by.push(granted.by.clone());
                }
            }
        }
        Ok(by)
    }

    /// Returns how the mounts refuse what grants allow, if they do.
    fn mounted<'a>(
        &'a self,
        operation: Operation,
        target: &'a Target,
        destination: Option<&'a Target>,
    ) -> Option<(&'a Located, How)> {
        let of = |place: &Located| {
            let mut holding = self.mounts.iter().rev();
            holding.find(|mount| mount.place.holds(place))
        };
        let names: Vec<&Target> = match operation {
            Operation::Execute | Operation::List | Operation::Read => return None,
            Operation::Write if target.kind != FileKind::Missing => Vec::new(),
            Operation::Create | Operation::Remove | Operation::Write => vec![target],
            Operation::Link => destination.into_iter().collect(),
            Operation::Rename => [target].into_iter().chain(destination).collect(),
        };
        let mut changed: Vec<_> = names.iter().map(|name| &name.parent).collect();
        if names.is_empty() {
            changed.push(&target.object);
        }
        let is_kept = |place: &&Located| of(place).is_some_and(|mount| mount.read_only);
        if let Some(at) = changed.into_iter().find(is_kept) {
            return Some((at, How::ReadOnly));
        }
        let is_point = |place: &&Located| {
            let mut mounts = self.mounts.iter();
            mounts.any(|mount| mount.place.path() == place.path())
        };
        if matches!(operation, Operation::Remove | Operation::Rename)
            && let Some(at) = names.iter().map(|name| &name.object).find(is_point)
        {
            return Some((at, How::MountPoint));
        }
        let beside = &destination?.parent;
        let place = |place: &Located| of(place).map(|mount| mount.place.path());
        // A link is made from the file itself, which may be a mount point.
        let from = match operation == Operation::Link {
            true => &target.object,
            false => &target.parent,
        };
        (place(from) != place(beside)).then_some((beside, How::OtherMount))
    }

    /// Returns what would allow an operation.
    fn remedy(
        &self,
        operation: Operation,
        target: &Target,
        destination: Option<&Target>,
        lack: Lack<'_>,
        forbidden: &Forbidden,
    ) -> Remedy {
        let never = |why: &str| Remedy::Never(why.to_owned());
        if lack.lacks.is_empty() {
            return never(
                "what is moved or linked may not lie where more can be done with it; copy it",
            );
        }
        if matches!(lack.how, How::NotBetween(_)) && !self.handled.has(FileRight::Refer) {
            return never("this kernel's Landlock allows it to nobody; copy it");
        }
        if operation == Operation::Write
            && target.kind == FileKind::Missing
            && target.parent.exists()
        {
            // A file that is made before the hook starts is less than the directory in which the hook could make it.
            let lacking = FileRights::of(&[FileRight::WriteFile]);
            let found = self.grants_for(vec![(&target.object, lacking)], &target.object, forbidden);
            if let Ok((_, grants)) = found {
                return Remedy::Grants(grants);
            }
        }
        let (extended, grants) = match self.grants_for(lack.lacks, &target.object, forbidden) {
            Ok(found) => found,
            Err(remedy) => return remedy,
        };
        // What comes out is tried: two grants may contradict each other.
        match extended.judge(operation, target, destination) {
            Ok(_) => Remedy::Grants(grants),
            Err(_) => {
                never("no set of grants allows it without allowing more at its new place; copy it")
            }
        }
    }

    /// Finds the smallest grants for the rights that are lacking. They are on as little as can be named, with as little access as
    /// does it. `object` is the path in question, and not a directory on the way. Returns what would be reached with them, and them
    /// as a profile spells them; or why the rules for profiles forbid it.
    fn grants_for(
        &self,
        lacks: Vec<(&Located, FileRights)>,
        object: &Located,
        forbidden: &Forbidden,
    ) -> Result<(Self, Vec<GrantSpec>), Remedy> {
        let mut extended = self.clone();
        let mut files = self.files.clone();
        let mut grants: Vec<GrantSpec> = Vec::new();
        for (place, lacking) in lacks {
            // What is to be made needs a directory that is there. What is to be read can be named before it is, and what
            // cannot be examined from here may well be there.
            let is_object = std::ptr::eq(place, object);
            let there = |path: &&Path| is_object || path.try_exists().unwrap_or(true);
            let path = place.path().ancestors().find(there);
            let path = path.unwrap_or(place.path());
            if let Some(why) = ungrantable(path) {
                return Err(Remedy::Never(format!(
                    "`{}` can never be granted: {why}",
                    path.display()
                )));
            }
            if let Ok(Some(own)) = forbidden.reached_by(path) {
                return Err(Remedy::Never(format!(
                    "`{}` can never be granted: it reaches the daemon's own `{}`",
                    path.display(),
                    own.display()
                )));
            }
            let kind = FileKind::at(path, true);
            let is_directory = match kind {
                FileKind::Directory => true,
                FileKind::Missing | FileKind::Unknown => {
                    !is_object || lacking.has(FileRight::ReadDirectory)
                }
                FileKind::File | FileKind::Link | FileKind::Special => false,
            };
            // A grant takes the place of one on the same path, so it must allow what that one did.
            let before = files.named.iter().filter(|grant| is_on(grant, path));
            let wanted = before.fold(lacking, |wanted, grant| {
                wanted.and(Rights::of(grant.access, is_directory).allowed())
            });
            let enough = SMALLEST_FIRST.into_iter().find(|&access| {
                let given = Rights::of(access, is_directory).allowed();
                // A file to write is granted as a file; on a directory it would be refused when it is opened.
                (access != Access::WriteFile || !is_directory)
                    && wanted.common(self.handled).without(given).is_empty()
            });
            let Some(access) = enough else {
                let words = words(lacking);
                return Err(Remedy::Never(format!("no profile lets a hook {words}")));
            };
            let grant = GrantSpec {
                access,
                // What is missing would have every run refused.
                create: access == Access::WriteFile && kind == FileKind::Missing,
                optional: false,
                place: GrantPlace::Path(path.to_owned()),
            };
            extended.granted.push(GrantedPath {
                by: Grantor::Profile(grant.clone()),
                place: Located::find(path).unwrap_or_else(|_| Located::imagined(path)),
                rights: Rights::of(access, is_directory),
            });
            grants.retain(|other| !is_on(other, path));
            grants.push(grant);
        }
        files
            .named
            .retain(|old| grants.iter().all(|grant| grant.place != old.place));
        files.named.extend(grants.iter().cloned());
        if let Some((inner, outer)) = files.below_writable() {
            return Err(Remedy::Never(format!(
                "no profile that grants `{}` read-only can grant `{}` writable",
                self.spelled(inner).place,
                self.spelled(outer).place
            )));
        }
        let grants = grants.iter().map(|grant| self.spelled(grant)).collect();
        Ok((extended, grants))
    }

    /// Returns a grant as a profile would spell it: below `${workspace}` where it lies there.
    fn spelled(&self, grant: &GrantSpec) -> GrantSpec {
        let below = match (&grant.place, &self.workspace) {
            (GrantPlace::Path(path), Some(workspace)) => path.strip_prefix(workspace).ok(),
            (GrantPlace::Path(_) | GrantPlace::Source { .. } | GrantPlace::Workspace { .. }, _) => {
                None
            }
        };
        let place = below.map_or_else(
            || grant.place.clone(),
            |below| GrantPlace::Workspace {
                below: below.to_owned(),
                if_bound: false,
            },
        );
        GrantSpec {
            place,
            ..grant.clone()
        }
    }
}

fn is_on(grant: &GrantSpec, path: &Path) -> bool {
    matches!(&grant.place, GrantPlace::Path(of) if of == path)
}

const SMALLEST_FIRST: [Access; 4] = [
    Access::Read,
    Access::WriteFile,
    Access::Execute,
    Access::Write,
];

/// What an operation lacks.
struct Lack<'a> {
    at: &'a Located,
    how: How,
    /// What is not granted where; nothing where the new place of a file allows more than the old one.
    lacks: Vec<(&'a Located, FileRights)>,
}

/// Returns where an operation needs which rights.
fn needs<'a>(
    operation: Operation,
    target: &'a Target,
    destination: Option<&'a Target>,
) -> Vec<(&'a Located, FileRights)> {
    let at = |place, rights: &[FileRight]| vec![(place, FileRights::of(rights))];
    let (object, parent) = (&target.object, &target.parent);
    let make: &[FileRight] = &[FileRight::MakeFile, FileRight::WriteFile];
    match operation {
        Operation::Create => at(parent, make),
        // The kernel opens a program to read it, too.
        Operation::Execute => at(object, &[FileRight::Execute, FileRight::ReadFile]),
        Operation::Link => between(target, destination.unwrap_or(target), false),
        Operation::Read if target.kind != FileKind::Directory => at(object, &[FileRight::ReadFile]),
        Operation::List | Operation::Read => at(object, &[FileRight::ReadDirectory]),
        Operation::Remove => vec![(parent, target.kind.removed_by())],
        Operation::Rename => between(target, destination.unwrap_or(target), true),
        Operation::Write if target.kind == FileKind::Missing => at(parent, make),
        Operation::Write => at(object, &[FileRight::WriteFile]),
    }
}

/// Returns the rights that renaming a file takes, within a directory or across two.
fn between<'a>(from: &'a Target, to: &'a Target, removes: bool) -> Vec<(&'a Located, FileRights)> {
    let mut source = FileRights::default();
    let mut goal = from.kind.made_by();
    if removes {
        source = from.kind.removed_by();
        if to.kind != FileKind::Missing {
            goal = goal.and(to.kind.removed_by());
        }
    }
    if from.parent.path() == to.parent.path() {
        return vec![(&from.parent, source.and(goal))];
    }
    let refer = FileRights::of(&[FileRight::Refer]);
    vec![
        (&from.parent, source.and(refer)),
        (&to.parent, goal.and(refer)),
    ]
}

/// The decision of a policy's grants.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum GrantDecision {
    /// It does not refuse it.
    Allowed {
        /// Who grants it; nobody where it takes no grant.
        by: Vec<Grantor>,
    },
    /// It refuses it.
    Refused(GrantRefusal),
}

/// A refusal by the grants.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct GrantRefusal {
    /// The path on which something is not granted.
    pub at: PathBuf,
    /// How it is refused.
    pub how: How,
    /// What would allow it.
    pub remedy: Remedy,
}

/// Finds what is mounted for a run, as [`Files::read_only`] has it.
fn mounts(files: &Files, workspace: Option<&Path>) -> io::Result<Vec<MountPoint>> {
    let Some(workspace) = workspace else {
        return Ok(Vec::new());
    };
    let mut mounts: Vec<MountPoint> = Vec::new();
    for kept in &files.read_only {
        let mut way: Vec<_> = kept.below.ancestors().collect();
        way.pop();
        for below in way.into_iter().rev() {
            let path = workspace.join(below);
            let place = Located::name(&path)?;
            if !place.exists() {
                break;
            }
            let is_directory = FileKind::at(&path, false) == FileKind::Directory;
            let read_only = below == kept.below || !is_directory;
            match mounts
                .iter_mut()
                .find(|mount| mount.place.path() == place.path())
            {
                Some(mount) => mount.read_only |= read_only,
                None => mounts.push(MountPoint { place, read_only }),
            }
            if !is_directory {
                break;
            }
        }
    }
    mounts.sort_by(|one, other| one.place.path().cmp(other.place.path()));
    Ok(mounts)
}

/// The kind of a refusal.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum How {
    /// Its name is that of a mount point.
    MountPoint,
    /// It may not change directory, because it would gain, or lacks, these rights.
    NotBetween(FileRights),
    /// These rights are not granted.
    NotGranted(FileRights),
    /// It would go from one mount to another.
    OtherMount,
    /// It stays read-only.
    ReadOnly,
}

impl fmt::Display for GrantRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.at.display();
        match self.how {
            How::MountPoint => write!(f, "`{at}` is mounted for the hook and keeps its name"),
            How::OtherMount => write!(f, "`{at}` is of another mount for the hook"),
            How::ReadOnly => write!(f, "`{at}` stays read-only"),
            How::NotBetween(rights) if rights.has(FileRight::Refer) => {
                write!(f, "no grant lets a hook {} at `{at}`", words(rights))
            }
            How::NotBetween(rights) => {
                write!(
                    f,
                    "at `{at}` a hook could {}, and not where it lies now",
                    words(rights)
                )
            }
            How::NotGranted(rights) => {
                write!(f, "no grant lets a hook {} at `{at}`", words(rights))
            }
        }
    }
}

/// The smallest thing that would allow what is refused.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Remedy {
    /// These grants under `files.named`.
    Grants(Vec<GrantSpec>),
    /// Nothing can, for this reason.
    Never(String),
    /// A key of the profile with another value.
    Setting(&'static str, &'static str),
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Grants(grants) => {
                let entry = |grant: &GrantSpec| grant.entry(&grant.place.to_string());
                let grants: Vec<_> = grants.iter().map(entry).collect();
                write!(f, "files.named = [{}]", grants.join(", "))
            }
            Self::Never(why) => write!(f, "nothing can: {why}"),
            Self::Setting(key, value) => write!(f, "{key} = \"{value}\""),
        }
    }
}

fn words(rights: FileRights) -> String {
    let words: Vec<_> = rights.iter().map(FileRight::words).collect();
    words.join(", ")
}

#[cfg(test)]
mod tests;
