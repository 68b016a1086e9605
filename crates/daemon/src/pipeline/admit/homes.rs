//! Homes of callers.

use std::{
    collections::HashMap,
    fs,
    os::unix::fs::MetadataExt,
    path::PathBuf,
    sync::{Mutex, PoisonError},
};

use nix::unistd::{Uid, User};

use hookjail_base::model::{Peer, is_plain};

use hookjail_sys::FileRights;

/// Homes of callers, by uid, as the system's database had them at the first request.
#[derive(Debug, Default)]
pub(crate) struct Homes(Mutex<HashMap<u32, Vec<PathBuf>>>);

impl Homes {
    /// Returns the spellings of a caller's home; none where it has no directory of its own.
    pub(super) fn spellings(&self, peer: &Peer) -> Vec<PathBuf> {
        let known = |homes: &HashMap<u32, Vec<PathBuf>>| homes.get(&peer.uid).cloned();
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(homes) = known(&lock()) {
            return homes;
        }
        let user = User::from_uid(Uid::from_raw(peer.uid)).ok().flatten();
        let homes = user.map_or_else(Vec::new, |user| spellings_of(peer, user.dir));
        // One that is not there may be mounted later.
        if !homes.is_empty() {
            lock().insert(peer.uid, homes.clone());
        }
        homes
    }
}

/// Returns a home's path, and the one without links where that differs. A directory of another user is no home: several accounts may
/// share `/` or `/nonexistent`.
fn spellings_of(peer: &Peer, home: PathBuf) -> Vec<PathBuf> {
    let _as_caller = FileRights::for_user(peer.uid, peer.gid, &peer.groups);
    let is_own = fs::metadata(&home).is_ok_and(|it| it.is_dir() && it.uid() == peer.uid);
    if peer.uid == 0 || !is_own || !is_plain(&home) {
        return Vec::new();
    }
    let real = fs::canonicalize(&home).ok().filter(|real| *real != home);
    [home].into_iter().chain(real).collect()
}

#[cfg(test)]
mod tests {
    use std::{os::unix::fs::symlink, sync::Arc};

    use super::*;

    fn peer(uid: u32) -> Peer {
        Peer {
            gid: nix::unistd::getegid().as_raw(),
            groups: Arc::default(),
            pid: None,
            remote: None,
            uid,
        }
    }

    #[test]
    fn a_home_is_a_directory_of_its_user_and_has_the_spelling_without_links_too() {
        let directory = tempfile::tempdir().unwrap();
        let (home, link) = (directory.path().join("home"), directory.path().join("link"));
        fs::create_dir(&home).unwrap();
        symlink(&home, &link).unwrap();
        let uid = nix::unistd::geteuid();
        let expected = if uid.is_root() {
            // Root has none: its hooks run as the user `nobody`.
            vec![]
        } else {
            vec![link.clone(), home.canonicalize().unwrap()]
        };
        assert_eq!(spellings_of(&peer(uid.as_raw()), link), expected);
        for not_own in ["/", "/nonexistent", "relative"] {
            let homes = spellings_of(&peer(3_000_000_001), not_own.into());
            assert!(homes.is_empty(), "{homes:?}");
        }
    }
}
