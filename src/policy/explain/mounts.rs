//! Mount points in the workspace for a run, and the operations that they refuse.

use std::{io, path::Path};

use super::{
    How, Reach,
    operation::{FileKind, Operation, Target},
};
use crate::policy::{Files, located::Located};

/// A path in the workspace that is a mount point, because something there is read-only.
#[derive(Clone, Debug)]
pub(super) struct MountPoint {
    place: Located,
    read_only: bool,
}

/// Finds the mount points for a run, by [`Files::read_only`].
pub(super) fn mounts(files: &Files, workspace: Option<&Path>) -> io::Result<Vec<MountPoint>> {
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

impl Reach {
    /// Returns how the mounts refuse what grants allow, if they do.
    pub(super) fn mounted<'a>(
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
}
