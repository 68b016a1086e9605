//! Files that a run with a view of its own sees in the place of the machine's.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::CString,
    fs::{self, File},
    io,
    os::{fd::AsFd, unix::ffi::OsStringExt},
    path::{Path, PathBuf},
};

use hookjail_base::util::outermost::Outermost;
use hookjail_policy::{Access, SHARED, rights::Rights};
use hookjail_sys::{Exposed, Found, MAX_EXPOSED, Private};

use crate::{resources::state::mirror::make_place, run::grants::OpenGrant};

/// The shared directory that programs use unless a variable names another.
pub(crate) const TEMPORARY: &str = "/tmp";

/// A verified file that is shown at its original's path.
#[derive(Debug)]
pub(crate) struct Placement {
    /// The verified file.
    pub copy: File,
    /// Its path.
    pub copy_path: PathBuf,
    /// The original.
    pub original: File,
    /// The original's path, free of links.
    pub place: PathBuf,
}

/// The directory that covers shared ones: the one for temporary files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cover<'a, F> {
    /// Whether it is a file system in memory, which the child mounts.
    pub in_memory: bool,
    /// The directory.
    pub opened: &'a F,
    /// Its path.
    pub path: &'a Path,
}

/// Returns whether a view covers a shared directory. A run that is granted all of one keeps it.
pub(crate) fn covers<'a>(shared: &Path, mut granted: impl Iterator<Item = &'a Path>) -> bool {
    !granted.any(|path| shared.starts_with(path))
        && fs::symlink_metadata(shared).is_ok_and(|found| found.is_dir())
}

/// Returns grants with the paths at which a view shows them. Below a covered directory, a grant inside another one is shown
/// with that, so that its own path leads through the links there.
pub(crate) fn without_links<'a>(
    granted: impl Iterator<Item = &'a OpenGrant> + Clone,
    state: &[PathBuf],
) -> Vec<OpenGrant> {
    let covered = SHARED.iter().map(Path::new);
    let covered = covered.chain(state.iter().map(|path| &**path));
    let covered = Outermost::new(covered.map(|path| (path, ())));
    let below = granted.clone().map(|grant| &*grant.path);
    let below = below.filter(|path| covered.containing(path).is_some());
    let below: BTreeSet<&Path> = below.collect();
    let lies_in_another = |path: &Path| {
        let mut above = path.ancestors().skip(1);
        below.contains(path) && above.any(|above| below.contains(above))
    };
    let shown = granted.map(|grant| {
        let real = lies_in_another(&grant.path).then(|| fs::canonicalize(&grant.path).ok());
        OpenGrant {
            path: real.flatten().unwrap_or_else(|| grant.path.clone()),
            ..grant.clone()
        }
    });
    shown.collect()
}

/// Returns the shared directories that are covered, with what is granted below them: nothing else of them is there.
///
/// Rules of Landlock are inherited from the directory that covers, so what may not be written or executed is mounted so.
///
/// # Errors
///
/// Returns the error of examining a path, or of making its place.
pub(crate) fn private<F: AsFd>(
    cover: Cover<'_, F>,
    granted: &[&OpenGrant],
) -> io::Result<Vec<Private>> {
    let paths = || granted.iter().map(|grant| &*grant.path);
    let all = Outermost::new(SHARED.map(|shared| (Path::new(shared), ())));
    let below: Vec<_> = (granted.iter())
        .filter(|grant| all.containing(&grant.path).is_some())
        .collect();
    let mut private = Vec::new();
    for shared in SHARED.map(Path::new) {
        if !covers(shared, paths()) {
            continue;
        }
        // In order: a path comes after those that contain it.
        let below: BTreeMap<_, _> = (below.iter())
            .filter(|grant| grant.path.starts_with(shared))
            .map(|grant| (&*grant.path, **grant))
            .collect();
        if below.len() > MAX_EXPOSED || (cover.in_memory && !below.is_empty()) {
            continue;
        }
        let mut exposed = Vec::new();
        // Files that a hook made there would be lost without a message.
        let ways: BTreeSet<_> = below
            .keys()
            .filter_map(|path| Some(shared.join(path.strip_prefix(shared).ok()?.iter().next()?)))
            .filter(|way| !below.contains_key(&**way))
            .map(|way| CString::new(way.into_os_string().into_vec()))
            .collect::<Result<_, _>>()?;
        for (path, grant) in below {
            let is_directory = !matches!(grant.rights, Rights::File(_));
            if let Ok(below) = path.strip_prefix(shared) {
                make_place(cover.opened.as_fd(), below, is_directory)?;
            }
            let found = Found::new(path, &grant.target)?;
            exposed.push(self::exposed(grant.rights, found));
        }
        private.push(Private {
            covered: Found::new(shared, File::open(shared)?)?,
            exposed,
            ways: ways.into_iter().collect(),
            source: (!cover.in_memory)
                .then(|| Found::new(cover.path, cover.opened))
                .transpose()?,
        });
    }
    Ok(private)
}

/// Returns a path that stays visible, with what a right allows there.
pub(crate) fn exposed(rights: Rights, path: Found) -> Exposed {
    Exposed {
        executes: executes(rights),
        is_writable: is_writable(rights),
        path,
    }
}

const fn access(rights: Rights) -> Access {
    match rights {
        Rights::Directory(access) | Rights::File(access) => access,
        Rights::Private | Rights::Scratch => Access::Write,
    }
}

const fn executes(rights: Rights) -> bool {
    matches!(access(rights), Access::Execute | Access::Write)
}

/// Returns whether a right allows writing.
pub(crate) const fn is_writable(rights: Rights) -> bool {
    !access(rights).is_read_only()
}
