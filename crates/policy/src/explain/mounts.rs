//! Mount points in the workspace for a run, and the operations that they refuse.

use std::{io, path::Path};

use nix::unistd::geteuid;

use super::{
    How, Reach,
    operation::{FileKind, Operation, Target},
};
use crate::{Files, Keep, hidden::Searched, located::Located};

/// A path in the workspace that is a mount point, because something there is read-only or hidden.
#[derive(Clone, Debug)]
pub(super) struct MountPoint {
    keep: Keep,
    place: Located,
}

/// Finds the mount points for a run, by [`Files::read_only`], [`Files::unchanged`] and [`Files::hidden`].
pub(super) fn mounts(files: &Files, workspace: Option<&Path>) -> io::Result<Vec<MountPoint>> {
    let Some(workspace) = workspace else {
        return Ok(Vec::new());
    };
    let mut mounts: Vec<MountPoint> = Vec::new();
    let missing = files.unchanged.iter().map(|kept| (kept, true));
    for (kept, takes_name) in files
        .read_only
        .iter()
        .map(|kept| (kept, false))
        .chain(missing)
    {
        let mut way: Vec<_> = kept.below.ancestors().collect();
        way.pop();
        for below in way.into_iter().rev() {
            let path = workspace.join(below);
            let place = Located::name(&path)?;
            if !place.exists() {
                if takes_name {
                    let keep = Keep::Unchanged;
                    raise(&mut mounts, MountPoint { keep, place });
                }
                break;
            }
            let is_directory = FileKind::from_path(&path, false) == FileKind::Directory;
            let keep = match below == kept.below || !is_directory {
                false => Keep::Name,
                true => Keep::Unchanged,
            };
            raise(&mut mounts, MountPoint { keep, place });
            if !is_directory {
                break;
            }
        }
    }
    let searched = (&Searched::default(), geteuid().as_raw());
    let hidden = files.hidden_in(workspace, searched);
    let hidden = hidden.map_err(io::Error::other)?;
    for below in &hidden {
        let way = below.ancestors();
        for way in way.filter(|way| !way.as_os_str().is_empty()) {
            let place = Located::name(&workspace.join(way))?;
            let keep = match way == below {
                false => Keep::Name,
                true => Keep::Hidden,
            };
            raise(&mut mounts, MountPoint { keep, place });
        }
    }
    mounts.sort_by(|one, other| one.place.path().cmp(other.place.path()));
    Ok(mounts)
}

/// Adds a mount point, or keeps one at least in its way.
fn raise(mounts: &mut Vec<MountPoint>, point: MountPoint) {
    let mut known = mounts.iter_mut();
    match known.find(|mount| mount.place.path() == point.place.path()) {
        Some(mount) => mount.keep = mount.keep.max(point.keep),
        None => mounts.push(point),
    }
}

impl Reach {
    /// Returns how the mounts refuse what grants allow, if they do.
    pub(super) fn mounted<'a>(
        &'a self,
        operation: Operation,
        target: &'a Target,
        destination: Option<&'a Target>,
    ) -> Option<(&'a Located, How)> {
        let mount_of = |place: &Located| {
            let mut holding = self.mounts.iter().rev();
            holding.find(|mount| mount.place.holds(place))
        };
        let is_hidden =
            |place: &&Located| mount_of(place).is_some_and(|it| it.keep == Keep::Hidden);
        let opened = match operation {
            Operation::Create | Operation::Link | Operation::Remove | Operation::Rename => None,
            Operation::Execute | Operation::List | Operation::Read | Operation::Write => {
                Some(&target.object)
            }
        };
        if let Some(place) = opened.filter(is_hidden) {
            return Some((place, How::Hidden));
        }
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
        let is_kept =
            |place: &&Located| mount_of(place).is_some_and(|mount| mount.keep >= Keep::Unchanged);
        if let Some(place) = changed.into_iter().find(is_kept) {
            return Some((place, How::ReadOnly));
        }
        let is_point = |place: &&Located| {
            let mut mounts = self.mounts.iter();
            mounts.any(|mount| mount.place.path() == place.path())
        };
        if let Some(place) = names.iter().map(|name| &name.object).find(is_point) {
            return Some((place, How::MountPoint));
        }
        let parent = &destination?.parent;
        let place = |place: &Located| mount_of(place).map(|mount| mount.place.path());
        // A link is made from the file itself, which may be a mount point.
        let from = match operation == Operation::Link {
            true => &target.object,
            false => &target.parent,
        };
        (place(from) != place(parent)).then_some((parent, How::OtherMount))
    }
}
