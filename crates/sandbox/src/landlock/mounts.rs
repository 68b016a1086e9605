//! Mounts of a child: paths that stay read-only, scratch with a limit, a view of its own with files that last.

use std::{collections::BTreeSet, fs::File, io, os::fd::OwnedFd, path::Path, sync::Arc};

use hookjail_base::refusal::Fault;
use hookjail_policy::{
    Access, HookView, Keep, ScratchLimits,
    rights::{FileRight, FileRights as GrantedRights, OF_FILES, Rights},
};
use hookjail_sys::{
    Bind, BindKind, ClosedPaths, Entrance, FileRights, Found, Mounts, OwnIds, Placed, Private,
    ReadOnly, TerminalRights, Tmpfs, View,
};

use crate::{
    Runner, Task,
    landlock::kernel_rights,
    mutants,
    resources::state::mirror::shown,
    run::{
        grants::OpenGrant,
        read_only::{Closed, Instead, Kept},
        task::Action,
        view::{Cover, Placement, private, without_links},
    },
    seccomp::FilterSpec,
};

/// Rights on the pseudo-terminals of a run with a view of its own.
const TERMINALS: GrantedRights = GrantedRights::new(&[
    FileRight::IoctlDevice,
    FileRight::ReadDirectory,
    FileRight::ReadFile,
    FileRight::WriteFile,
]);

/// Returns the rights on the directory for temporary files.
pub(super) const fn temporary_rights(task: &Task<'_>) -> Rights {
    match task.policy.view {
        HookView::Machine => Rights::Scratch,
        HookView::Own => Rights::Private,
    }
}

/// Returns the mounts of a confined child, if it needs any.
pub(super) fn mounts_of(
    runner: &Runner,
    spec: &FilterSpec,
    task: &Task<'_>,
    (scratch, lasting): (&Arc<OwnedFd>, Lasting),
) -> Result<Option<Mounts>, Fault> {
    let fault = |e: io::Error| Fault::new("cannot prepare the mounts of a run", e);
    let identity = task.identity.as_ref();
    let kept = task.kept.filter(|_| !mutants::lacks("set-up", "read-only"));
    let read_only = kept.map(|kept| read_only_of(kept, &runner.closed));
    let read_only = read_only.transpose().map_err(fault)?;
    let limits = (task.policy.limits.scratch).filter(|_| !mutants::lacks("set-up", "scratch"));
    let path = task.directory.scratch();
    let tmpfs = limits.map(|ScratchLimits { bytes, files }| {
        let rights = kernel_rights(temporary_rights(task).allowed(), spec.landlock_abi);
        Tmpfs::covering((&path, scratch), (bytes, files), identity, rights)
    });
    let tmpfs = tmpfs.transpose().map_err(fault)?;
    let view = match task.policy.view {
        HookView::Machine => None,
        HookView::Own => Some(view_of(spec, task, (scratch, lasting)).map_err(fault)?),
    };
    if read_only.is_none() && tmpfs.is_none() && view.is_none() {
        return Ok(None);
    }
    let working_dir = match task.working_dir {
        Some(named) => Some(Found::new(&named.path, &named.opened)),
        None if tmpfs.is_some() => None,
        None => Some(Found::new(&path, scratch)),
    };
    Ok(Some(Mounts {
        // A daemon that gives hooks their own uids is root's and needs no user namespace.
        ids: identity.is_none().then(OwnIds::get),
        read_only,
        scratch: tmpfs,
        view,
        working_dir: working_dir.transpose().map_err(fault)?,
    }))
}

/// Returns what a child sees in the place of the machine's.
fn view_of(
    spec: &FilterSpec,
    task: &Task<'_>,
    (scratch, lasting): (&Arc<OwnedFd>, Lasting),
) -> io::Result<View> {
    let path = task.directory.scratch();
    let placed = placed(task);
    let scripts = placed.iter().map(|placement| {
        Ok(Placed {
            place: Found::new(&placement.place, &placement.original)?,
            source: Found::new(&placement.copy_path, &placement.copy)?,
        })
    });
    let scripts = scripts.collect::<io::Result<_>>()?;
    let temporary = task.state.as_ref().and_then(|it| it.temporary.as_ref());
    let cover = Cover {
        in_memory: task.policy.limits.scratch.is_some(),
        opened: temporary.map_or(scratch, |kept| &kept.opened),
        path: temporary.map_or(&path, |kept| &kept.path),
    };
    // Grants below a directory of files that last are shown in it.
    let shown_there = |grant: &OpenGrant| {
        let mut lasting = lasting.shown.iter();
        lasting.any(|shown| grant.path.starts_with(&shown.path))
    };
    let granted = lasting.granted.iter();
    let granted = granted.filter(|grant| !shown_there(grant));
    let granted: Vec<_> = granted.chain(&lasting.shown).collect();
    let private = private(cover, &granted)?;
    Ok(View {
        // First, and so seen through what covers the directories above them.
        private: lasting.private.into_iter().chain(private).collect(),
        proc_rights: kernel_rights(Rights::Directory(Access::Read).allowed(), spec.landlock_abi),
        scripts,
        terminals: TerminalRights {
            directory: kernel_rights(TERMINALS, spec.landlock_abi),
            file: kernel_rights(TERMINALS.common(OF_FILES), spec.landlock_abi),
        },
    })
}

/// Returns what a view shows of the run itself, and of the mounts that it gets later.
///
/// # Errors
///
/// Returns the error of making what lies in the places of others.
pub(super) fn of_run(
    runner: &Runner,
    task: &Task<'_>,
    scratch: &Arc<OwnedFd>,
) -> io::Result<Vec<OpenGrant>> {
    let scratch = OpenGrant {
        path: task.directory.scratch(),
        rights: Rights::Private,
        target: Arc::clone(scratch),
    };
    let mut shown = vec![runner.granted_canary(), scratch];
    let instead = [Instead::Directory, Instead::Empty, Instead::File];
    for instead in instead.into_iter().filter(|_| task.waits) {
        let (path, opened) = runner.closed.get(instead)?;
        shown.push(OpenGrant {
            path: path.clone(),
            rights: match instead {
                Instead::Directory | Instead::Empty => Rights::Directory(Access::Read),
                Instead::File => Rights::File(Access::Read),
            },
            target: Arc::clone(opened),
        });
    }
    Ok(shown)
}

/// Returns the scripts of a hook that are shown at their own paths.
fn placed<'a>(task: &'a Task<'_>) -> &'a [Placement] {
    match &task.action {
        Action::Execute(execution) => &execution.placed,
        Action::Probe(_) => &[],
    }
}

/// Files that outlast the run, as a view shows them.
#[derive(Debug, Default)]
pub(super) struct Lasting {
    /// The grants, scripts that lie in none of them, and the run's own directories, at the paths at which a view shows them.
    granted: Vec<OpenGrant>,
    /// Mounts that cover directories of the machine.
    private: Vec<Private>,
    /// The directories that cover them.
    shown: Vec<OpenGrant>,
    /// The directory of the session's temporary files.
    temporary: Option<OpenGrant>,
}

impl Lasting {
    /// Prepares what is shown, with the rights of the hook's user.
    ///
    /// # Errors
    ///
    /// Returns the error of making an entry.
    pub(super) fn prepare(task: &Task<'_>, of_run: &[OpenGrant]) -> io::Result<Self> {
        let placed = placed(task);
        // Granted by themselves.
        let alone = |place: &Path| !task.granted().any(|grant| place.starts_with(&grant.path));
        let alone = placed.iter().filter(|placement| alone(&placement.place));
        let alone = alone.map(|placement| {
            Ok(OpenGrant {
                path: placement.place.clone(),
                rights: Rights::File(Access::Execute),
                target: Arc::new(placement.copy.try_clone()?.into()),
            })
        });
        let alone = alone.collect::<io::Result<Vec<_>>>()?;
        let places = &task.policy.files.state;
        let mut lasting = match task.policy.view {
            HookView::Machine => return Ok(Self::default()),
            HookView::Own => Self {
                granted: without_links(task.granted().chain(&alone).chain(of_run), places),
                ..Self::default()
            },
        };
        let Some(state) = &task.state else {
            return Ok(lasting);
        };
        lasting.temporary = state.temporary.as_ref().map(|kept| OpenGrant {
            path: kept.path.clone(),
            rights: Rights::Private,
            target: Arc::clone(&kept.opened),
        });
        let granted: Vec<_> = lasting.granted.iter().collect();
        let identity = task.identity.as_ref();
        let _as_user = identity.map(|it| FileRights::for_user(it.uid, it.gid, &it.groups));
        // In order: a place comes after those that contain it, and is shown with them.
        for place in places.iter().collect::<BTreeSet<_>>() {
            let is_shown = |shown: &OpenGrant| place.starts_with(&shown.path);
            if lasting.shown.iter().any(is_shown) {
                continue;
            }
            if let Some((private, grant)) = shown(state, place, &granted, placed, places)? {
                lasting.private.push(private);
                lasting.shown.push(grant);
            }
        }
        Ok(lasting)
    }

    /// Returns the grants on directories of files that last.
    pub(super) fn grants(&self) -> Vec<OpenGrant> {
        self.shown.iter().chain(&self.temporary).cloned().collect()
    }
}

/// Keeps paths of a workspace in the view of a process that waits.
///
/// They are found from the root directory: a view covers directories that lead to them. None is left out for lying below no grant:
/// the path of a grant may be a link.
///
/// # Errors
///
/// Returns the error of a mount, also for a path that the view does not show, and where a granted directory does not lie at its path
/// any more.
pub(crate) fn keep_in(
    view: &Entrance,
    kept: &Kept,
    grants: &[OpenGrant],
    closed: &Closed,
) -> io::Result<()> {
    let root = Path::new("/");
    let points = kept.points.iter();
    let places = points.map(|(below, keep)| (kept.workspace.join(below), *keep));
    let places: Vec<_> = places.collect();
    let holding = grants.iter().filter(|grant| {
        let mut places = places.iter();
        places.any(|(place, _)| place.starts_with(&grant.path))
    });
    let held = holding.map(|grant| Found::new(&grant.path, &grant.target));
    let held = held.collect::<io::Result<_>>()?;
    let binds = places.iter().map(|(place, keep)| {
        let below = place.strip_prefix(root).unwrap_or(place);
        (below, *keep)
    });
    let workspace = Found::new(root, File::open(root)?)?;
    let hides_directories = kept.hides_directories;
    view.keep(&read_only(
        binds,
        (workspace, held),
        (closed, hides_directories),
    )?)
}

/// Returns the paths of a workspace that a child keeps.
fn read_only_of(kept: &Kept, closed: &Closed) -> io::Result<ReadOnly> {
    let points = kept.points.iter();
    let points = points.map(|(below, keep)| (&**below, *keep));
    let workspace = Found::new(&kept.workspace, &kept.target)?;
    let held = Vec::new();
    read_only(points, (workspace, held), (closed, kept.hides_directories))
}

/// Returns the mounts that keep paths below a directory, in order.
fn read_only<'a>(
    points: impl Iterator<Item = (&'a Path, Keep)> + Clone,
    (workspace, held): (Found, Vec<Found>),
    (closed, hides_directories): (&Closed, bool),
) -> io::Result<ReadOnly> {
    let binds = points.clone().map(|(below, keep)| {
        Bind::new(
            below,
            match keep {
                Keep::Empty => BindKind::Empty,
                Keep::Hidden => BindKind::Hidden,
                Keep::Name => BindKind::Name,
                Keep::Unchanged => BindKind::ReadOnly,
            },
        )
    });
    let binds: Option<Vec<_>> = binds.collect();
    let has = |keep: Keep| points.clone().any(|(_, it)| it == keep);
    let closed = |instead, is_needed: bool| {
        let entry = is_needed.then(|| closed.get(instead)).transpose()?;
        let found = entry.map(|(path, opened)| Found::new(path, opened));
        found.transpose()
    };
    Ok(ReadOnly {
        binds: binds.ok_or(io::ErrorKind::InvalidInput)?,
        closed: ClosedPaths {
            directory: closed(Instead::Directory, hides_directories)?,
            empty: closed(Instead::Empty, has(Keep::Empty))?,
            file: closed(Instead::File, has(Keep::Hidden))?,
        },
        held,
        workspace,
    })
}
