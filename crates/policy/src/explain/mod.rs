//! Explains what a policy allows, by the table that rulesets are built from.
//!
//! Two steps. [`Target::locate`] and [`Reach::locate`] look at the file system, because a grant applies to an inode and
//! not to a path's text; [`Reach::decide`] is pure. File permissions and syscall filters are not considered here:
//! `explain` of the sandbox combines both.

mod mounts;
mod operation;
mod remedy;
mod uses;

use std::{
    collections::BTreeSet,
    fmt, io,
    path::{Path, PathBuf},
};

use self::{
    mounts::{MountPoint, mounts},
    operation::needs,
};

pub use self::{
    operation::{FileKind, Operation, Target},
    remedy::Remedy,
    uses::Use,
};
use super::{
    Access, Files, GrantPlace, GrantSpec, HookView, Network, Policy, SHARED,
    egress::NAME_TABLES,
    forbidden::Forbidden,
    located::Located,
    rights::{FileRight, FileRights, OF_FILES, Rights},
    state,
};

/// The source of a grant.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Grantor {
    /// A grant of the profile.
    Profile(GrantSpec),
    /// The hook's own program or script, granted for its run.
    Program(PathBuf),
    /// The scratch directory of the run.
    Scratch,
    /// A directory in whose place hooks have files of their own that last.
    State(PathBuf),
    /// The run's own view of the machine.
    View,
}

impl fmt::Display for Grantor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Profile(grant) => write!(f, "`{}` is granted ({})", grant.place, grant.access),
            Self::Program(path) => write!(f, "`{}` is the hook itself", path.display()),
            Self::Scratch => f.write_str("the path lies in the scratch directory of the run"),
            Self::State(path) => write!(
                f,
                "hooks have files of their own in the place of `{}`",
                path.display()
            ),
            Self::View => f.write_str("the run has one of its own there"),
        }
    }
}

/// One granted place.
#[derive(Clone, Debug)]
pub struct GrantedPath {
    /// The source of the grant.
    pub by: Grantor,
    /// The resolved path.
    pub place: Located,
    /// The granted rights.
    pub rights: Rights,
}

/// Everything a run reaches by its path.
#[derive(Clone, Debug)]
pub struct Reach {
    /// The machine's own files in directories that a view covers: they cannot be opened, or are not there.
    closed: BTreeSet<PathBuf>,
    files: Files,
    granted: Vec<GrantedPath>,
    handled: FileRights,
    missing: Vec<GrantSpec>,
    /// The mount points in the workspace for a run, the outermost first.
    mounts: Vec<MountPoint>,
    workspace: Option<PathBuf>,
}

impl Reach {
    /// Resolves a policy's grants on this host by inode, as a run does. Links in system grants are followed. All grants must be
    /// bound (see [`super::narrow::narrow`]). `handled` are the rights that the host's mechanism handles; no other is refused.
    ///
    /// # Errors
    ///
    /// Fails if a granted path cannot be examined.
    pub fn locate(
        files: &Files,
        workspace: Option<&Path>,
        handled: FileRights,
    ) -> io::Result<Self> {
        let mut reach = Self {
            closed: BTreeSet::new(),
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
            let path = match &grant.place {
                GrantPlace::Path(path) => path,
                GrantPlace::Entries(entries) => {
                    // An entry that cannot be examined cannot be opened for a run either, and is left out there.
                    let found = entries.existing()?.into_iter();
                    let found = found.filter_map(|path| Located::find(&path).ok());
                    for place in found.filter(Located::exists) {
                        reach.add(grant, place);
                    }
                    continue;
                }
                GrantPlace::Source { .. } | GrantPlace::Workspace { .. } => {
                    reach.missing.push(grant.clone());
                    continue;
                }
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
        let is_directory = FileKind::from_path(place.path(), true) == FileKind::Directory;
        self.granted.push(GrantedPath {
            by: Grantor::Profile(self.spelled(grant)),
            place,
            rights: Rights::for_access(grant.access, is_directory),
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

    /// Adds the places that a policy's view brings: directories for temporary files that exist and are not granted, `/proc`, tables
    /// of names, and those of files that last. Everything else must be added before.
    ///
    /// # Errors
    ///
    /// Fails if a place cannot be examined.
    pub fn with_view(mut self, policy: &Policy) -> io::Result<Self> {
        if policy.view == HookView::Machine {
            return Ok(self);
        }
        for granted in &mut self.granted {
            if granted.by == Grantor::Scratch {
                granted.rights = Rights::Private;
            }
        }
        let proc = (Path::new("/proc"), Rights::Directory(Access::Read));
        let shared = SHARED.map(|shared| (Path::new(shared), Rights::Private));
        for (path, rights) in shared.into_iter().chain([proc]) {
            let place = Located::find(path)?;
            let is_granted = self.holding(&place).next().is_some();
            if place.exists() && !is_granted {
                if rights == Rights::Private {
                    self.closed.extend(state::entries(path)?);
                }
                self.granted.push(GrantedPath {
                    by: Grantor::View,
                    place,
                    rights,
                });
            }
        }
        if policy.network == Network::Named {
            for path in NAME_TABLES {
                let place = Located::find(Path::new(path))?;
                if place.exists() {
                    self.granted.push(GrantedPath {
                        by: Grantor::View,
                        place,
                        rights: Rights::File(Access::Read),
                    });
                }
            }
        }
        if policy.state.is_some() {
            // Inner places before outer ones, whose files are others.
            for path in policy.files.state.iter().rev() {
                self.add_state(path)?;
            }
        }
        Ok(self)
    }

    /// Adds a directory in whose place hooks have files that last, unless it is missing, a link or granted as a whole.
    fn add_state(&mut self, path: &Path) -> io::Result<()> {
        let place = Located::find(path)?;
        let is_granted = self.holding(&place).next().is_some();
        if !place.exists() || place.path() != path || is_granted {
            return Ok(());
        }
        let granted = self.granted.iter().map(|granted| granted.place.path());
        let granted: Vec<_> = granted
            .filter(|granted| granted.starts_with(path))
            .collect();
        let closed = state::closed(path, &granted)?;
        self.closed.extend(closed);
        self.granted.push(GrantedPath {
            by: Grantor::State(path.to_owned()),
            place,
            rights: Rights::Scratch,
        });
        Ok(())
    }

    /// Adds a file of the hook's own: its program, interpreter or script.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be examined.
    pub fn with_program(mut self, path: &Path) -> io::Result<Self> {
        self.granted.push(GrantedPath {
            by: Grantor::Program(path.to_owned()),
            place: Located::find(path)?,
            rights: Rights::File(Access::Execute),
        });
        Ok(self)
    }

    /// Iterates over the granted places.
    pub fn granted(&self) -> impl Iterator<Item = &GrantedPath> {
        self.granted.iter()
    }

    /// Iterates over grants for which every run is refused: missing, or behind a link.
    pub fn missing(&self) -> impl Iterator<Item = &GrantSpec> {
        self.missing.iter()
    }

    /// Returns the rights on a path: the union of the grants that contain it.
    fn rights_on(&self, place: &Located) -> FileRights {
        self.holding(place)
            .fold(FileRights::default(), |sum, granted| {
                sum.and(granted.rights.allowed())
            })
            .common(self.handled)
    }

    fn holding<'a>(&'a self, place: &'a Located) -> impl Iterator<Item = &'a GrantedPath> {
        let holding = self.granted.iter();
        holding.filter(|granted| granted.place.holds(place) && !self.is_machines(granted, place))
    }

    /// Returns whether a place in a directory that a view covers is the machine's own: closed, or shown with rights of its own.
    fn is_machines(&self, granted: &GrantedPath, place: &Located) -> bool {
        match granted.by {
            Grantor::Profile(_) | Grantor::Program(_) | Grantor::Scratch => return false,
            Grantor::State(_) | Grantor::View => {}
        }
        let above = place.path().ancestors();
        let mut above = above.take_while(|above| *above != granted.place.path());
        let mut others = self.granted.iter();
        above.any(|above| self.closed.contains(above))
            || others.any(|other| {
                let lies_in =
                    other.place.path() != granted.place.path() && granted.place.holds(&other.place);
                lies_in && other.place.holds(place)
            })
    }

    /// Decides about an operation; `destination` is the second path of those that have one.
    pub fn decide(
        &self,
        operation: Operation,
        target: &Target,
        destination: Option<&Target>,
        forbidden: &Forbidden,
    ) -> GrantDecision {
        let (place, how, remedy) = match self.judge(operation, target, destination) {
            Ok(grantors) => match self.mounted(operation, target, destination) {
                None => return GrantDecision::Allowed { by: grantors },
                Some((place, how)) => (place, how, Remedy::Never(how.kept_by().to_owned())),
            },
            Err(lack) => (
                lack.at,
                lack.how,
                self.remedy(operation, target, destination, lack, forbidden),
            ),
        };
        GrantDecision::Refused(GrantRefusal {
            at: place.path().to_owned(),
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

    /// Compares an operation with the grants alone, without mounts. Returns the sources of the grants.
    fn judge<'a>(
        &'a self,
        operation: Operation,
        target: &'a Target,
        destination: Option<&'a Target>,
    ) -> Result<Vec<Grantor>, Lack<'a>> {
        let needs = needs(operation, target, destination);
        let refer = FileRights::new(&[FileRight::Refer]);
        // Every ruleset refuses moving a file to another directory unless it is allowed, whether the right is handled
        // or not.
        let checked = self.handled.and(refer);
        let lacks: Vec<(&Located, FileRights)> = needs
            .iter()
            .map(|(place, rights)| {
                let wanted = rights.common(checked);
                (*place, wanted.without(self.rights_on(place)))
            })
            .filter(|(_, lacking)| !lacking.is_empty())
            .collect();
        // Missing rights other than `Refer` come first: the kernel returns EACCES for them, and EXDEV for `Refer`.
        if let Some(&(place, rights)) = lacks
            .iter()
            .find(|(_, lacking)| !lacking.without(refer).is_empty())
        {
            let how = How::NotGranted(rights);
            return Err(Lack {
                at: place,
                how,
                lacks,
            });
        }
        if let Some(&(place, rights)) = lacks.first() {
            let how = How::NotBetween(rights);
            return Err(Lack {
                at: place,
                how,
                lacks,
            });
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
        let mut grantors: Vec<Grantor> = Vec::new();
        for (place, rights) in needs {
            let useful = |granted: &&GrantedPath| {
                let allowed = granted.rights.allowed();
                !allowed.common(rights).common(self.handled).is_empty()
            };
            for granted in self.holding(place).filter(useful) {
                if !grantors.contains(&granted.by) {
                    grantors.push(granted.by.clone());
                }
            }
        }
        Ok(grantors)
    }
}

/// The rights that an operation lacks.
struct Lack<'a> {
    at: &'a Located,
    how: How,
    /// The missing rights by place. Empty where the new place of a file allows more than the old one.
    lacks: Vec<(&'a Located, FileRights)>,
}

/// The decision of a policy's grants.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum GrantDecision {
    /// The grants allow the operation.
    Allowed {
        /// The sources of the grants; empty where none is needed.
        by: Vec<Grantor>,
    },
    /// The grants refuse the operation.
    Refused(GrantRefusal),
}

/// A refusal by the grants.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct GrantRefusal {
    /// The path on which a right is missing.
    pub at: PathBuf,
    /// The kind of refusal.
    pub how: How,
    /// The change that would allow it.
    pub remedy: Remedy,
}

/// The kind of a refusal.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum How {
    /// The path is hidden.
    Hidden,
    /// The path is a mount point, which cannot be removed or renamed.
    MountPoint,
    /// The file may not change directory, because it would gain, or lacks, these rights.
    NotBetween(FileRights),
    /// These rights are not granted.
    NotGranted(FileRights),
    /// The file would move from one mount to another.
    OtherMount,
    /// The path stays read-only.
    ReadOnly,
}

impl How {
    /// Returns what keeps something of the workspace as it is.
    const fn kept_by(self) -> &'static str {
        match self {
            Self::Hidden => {
                "`files.hidden` has its name; use a profile with the part `project-secrets`"
            }
            Self::MountPoint
            | Self::NotBetween(_)
            | Self::NotGranted(_)
            | Self::OtherMount
            | Self::ReadOnly => {
                "the profile keeps that as it is, as agents, editors or git run what lies there; write to another directory"
            }
        }
    }
}

impl fmt::Display for GrantRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.at.display();
        match self.how {
            How::Hidden => write!(f, "`{place}` is hidden"),
            How::MountPoint => write!(f, "`{place}` is mounted for the hook and keeps its name"),
            How::OtherMount => write!(f, "`{place}` is of another mount for the hook"),
            How::ReadOnly => write!(f, "`{place}` stays read-only"),
            How::NotBetween(rights) if rights.has(FileRight::Refer) => {
                write!(f, "no grant lets a hook {} at `{place}`", words(rights))
            }
            How::NotBetween(rights) => {
                write!(
                    f,
                    "at `{place}` a hook could {}, and not where it lies now",
                    words(rights)
                )
            }
            How::NotGranted(rights) => {
                write!(f, "no grant lets a hook {} at `{place}`", words(rights))
            }
        }
    }
}

fn words(rights: FileRights) -> String {
    let words: Vec<_> = rights.iter().map(FileRight::words).collect();
    words.join(", ")
}

#[cfg(test)]
mod tests;
