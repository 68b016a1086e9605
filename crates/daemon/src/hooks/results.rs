//! Stores long tool results for a limited time, in files that their agent can read.
//!
//! An agent runs as the calling user, so the files here belong to that user and are open to no other. No profile can
//! grant the directory to a hook.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Write},
    os::{
        fd::OwnedFd,
        unix::{ffi::OsStrExt, fs::MetadataExt},
    },
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use nix::{
    dir::Dir,
    errno::Errno,
    fcntl::OFlag,
    sys::stat::{Mode, SFlag, fstatat, mkdirat},
    unistd::{UnlinkatFlags, geteuid, unlinkat},
};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use hookjail_base::{model::Peer, redact::Redactor};

use hookjail_sys::{FileRights, Links, locate, open_beneath};

/// The maximum age of a result whose session does not end.
const AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// The maximum size of one user's results, bytes.
const BYTES: u64 = 64 << 20;

/// The maximum number of one user's results.
const COUNT: usize = 64;

/// The maximum number of directory entries that are read. No more are made here.
const ENTRIES: usize = 4096;

/// The name of the directory in a daemon's own place.
const OWN: &str = "results";

/// The directory's name in a directory that other programs of the user share.
const AMONG_OTHERS: &str = "hookjail-results";

/// The store of tool results.
#[derive(Clone, Debug)]
pub(crate) struct Results {
    runtime: PathBuf,
}

/// The store with a user's rights, and the secrets to redact.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResultsOf<'a> {
    /// The agent's user.
    pub peer: &'a Peer,
    /// Redacts registered secrets in written results.
    pub redactor: &'a Redactor,
    /// The store.
    pub results: &'a Results,
}

impl ResultsOf<'_> {
    /// Keeps a result of a session and returns the file's path. Older results are removed where there are too many.
    ///
    /// # Errors
    ///
    /// Fails if there is no place for this user, the directory is not that user's alone, the result is too large, or a
    /// system call fails.
    pub(crate) fn keep(&self, session: &str, text: &str) -> io::Result<PathBuf> {
        let text = self.redactor.text(text);
        let shelf = self.results.shelf(self.peer)?;
        shelf.make_room(text.len() as u64)?;
        let name = format!("{}{}.txt", of_session(session), Uuid::now_v7().simple());
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL;
        let mode = Mode::S_IRUSR | Mode::S_IWUSR;
        let file = open_beneath(
            &shelf.directory,
            Path::new(&name),
            flags,
            mode,
            Links::Refused,
        )?;
        if let Err(error) = File::from(file).write_all(text.as_bytes()) {
            shelf.remove(name.as_ref())?;
            return Err(error);
        }
        Ok(shelf.path.join(name))
    }

    /// Removes all results of a session.
    ///
    /// # Errors
    ///
    /// As [`Self::keep`].
    pub(crate) fn forget(&self, session: &str) -> io::Result<()> {
        let shelf = match self.results.shelf(self.peer) {
            // Without a place for this user, no result is kept.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            shelf => shelf?,
        };
        let of_session = of_session(session);
        for kept in shelf.all()? {
            if kept.name.as_bytes().starts_with(of_session.as_bytes()) {
                shelf.remove(&kept.name)?;
            }
        }
        Ok(())
    }
}

impl Results {
    /// Opens the store below a daemon's runtime directory, and removes expired results. The runtime directory must
    /// exist.
    ///
    /// # Errors
    ///
    /// Returns the error of the system.
    pub(crate) fn below(runtime: &Path) -> io::Result<Self> {
        let results = Self {
            runtime: runtime.canonicalize()?,
        };
        let own = Peer {
            gid: nix::unistd::getegid().as_raw(),
            groups: Arc::default(),
            pid: None,
            remote: None,
            uid: geteuid().as_raw(),
        };
        if results.runtime.join(OWN).exists() {
            results.shelf(&own)?.make_room(0)?;
        }
        Ok(results)
    }

    /// Opens a user's directory, and creates it where it is missing.
    fn shelf(&self, peer: &Peer) -> io::Result<Shelf> {
        let own = geteuid();
        let (parent, name) = if peer.uid == own.as_raw() {
            (self.runtime.clone(), OWN)
        } else if own.is_root() {
            // Each user's results are in that user's runtime directory: in the daemon's own, any user could use up the
            // space of others.
            (
                PathBuf::from(format!("/run/user/{}", peer.uid)),
                AMONG_OTHERS,
            )
        } else {
            let message = "the daemon cannot make a file of the user who asks";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
        };
        let rights = own
            .is_root()
            .then(|| FileRights::of(peer.uid, peer.gid, &peer.groups));
        let above = locate(&parent, OFlag::O_DIRECTORY, Links::Refused)?;
        match mkdirat(&above, name, Mode::S_IRWXU) {
            Ok(()) | Err(Errno::EEXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY;
        let directory = open_beneath(
            &above,
            Path::new(name),
            flags,
            Mode::empty(),
            Links::Refused,
        )?;
        let directory = File::from(directory);
        let metadata = directory.metadata()?;
        if metadata.uid() != peer.uid || metadata.mode() & 0o077 != 0 {
            let message = "where results are kept is not the user's alone";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
        }
        Ok(Shelf {
            _rights: rights,
            directory: directory.into(),
            path: parent.join(name),
        })
    }
}

/// The results of a user.
struct Shelf {
    _rights: Option<FileRights>,
    directory: OwnedFd,
    path: PathBuf,
}

/// A result that is kept.
struct Kept {
    bytes: u64,
    /// Seconds since 1970.
    changed: i64,
    name: OsString,
}

impl Shelf {
    /// Removes expired results, and the oldest ones until there is room for another.
    fn make_room(&self, bytes: u64) -> io::Result<()> {
        if bytes > BYTES {
            return Err(io::Error::other(format!("it is larger than {BYTES} bytes")));
        }
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let oldest = now.unwrap_or_default().saturating_sub(AGE).as_secs();
        let mut all = self.all()?;
        all.sort_by(|a, b| (a.changed, &a.name).cmp(&(b.changed, &b.name)));
        let mut count = all.len();
        let mut kept: u64 = all.iter().map(|kept| kept.bytes).sum();
        for result in all {
            let is_old = u64::try_from(result.changed).is_ok_and(|changed| changed < oldest);
            if !is_old && count < COUNT && kept.saturating_add(bytes) <= BYTES {
                break;
            }
            self.remove(&result.name)?;
            count -= 1;
            kept -= result.bytes;
        }
        Ok(())
    }

    fn all(&self) -> io::Result<Vec<Kept>> {
        let mut all = Vec::new();
        let directory = Dir::from_fd(self.directory.try_clone()?)?;
        for entry in directory.into_iter().take(ENTRIES) {
            let name = OsString::from(std::ffi::OsStr::from_bytes(entry?.file_name().to_bytes()));
            let flags = nix::fcntl::AtFlags::AT_SYMLINK_NOFOLLOW;
            let Ok(status) = fstatat(&self.directory, name.as_os_str(), flags) else {
                continue;
            };
            if status.st_mode & SFlag::S_IFMT.bits() == SFlag::S_IFREG.bits() {
                all.push(Kept {
                    bytes: u64::try_from(status.st_size).unwrap_or_default(),
                    changed: status.st_mtime,
                    name,
                });
            }
        }
        Ok(all)
    }

    /// Removes a result, unless it is already gone.
    fn remove(&self, name: &std::ffi::OsStr) -> io::Result<()> {
        match unlinkat(&self.directory, name, UnlinkatFlags::NoRemoveDir) {
            Ok(()) | Err(Errno::ENOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

/// Returns the file name prefix of a session's results.
fn of_session(session: &str) -> String {
    let digest = format!("{:x}", Sha256::digest(session));
    format!("{}-", &digest[..16])
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{PermissionsExt, symlink},
        sync::LazyLock,
    };

    use super::*;
    use hookjail_base::redact::secret::Secret;

    fn own() -> Peer {
        Peer {
            gid: nix::unistd::getegid().as_raw(),
            groups: Arc::default(),
            pid: None,
            remote: None,
            uid: geteuid().as_raw(),
        }
    }

    /// Returns this user's store, without secrets to redact.
    fn of_own(results: &Results) -> ResultsOf<'_> {
        static NOTHING: LazyLock<Redactor> = LazyLock::new(Redactor::default);
        static OWN: LazyLock<Peer> = LazyLock::new(own);
        ResultsOf {
            peer: &OWN,
            redactor: &NOTHING,
            results,
        }
    }

    fn names(runtime: &Path) -> usize {
        fs::read_dir(runtime.join(OWN)).map_or(0, Iterator::count)
    }

    #[test]
    fn a_result_is_its_users_alone_without_secrets_and_gone_when_its_session_is() {
        let directory = tempfile::tempdir().unwrap();
        let results = Results::below(directory.path()).unwrap();
        let secret = Secret::new("key", b"KEY-12345".to_vec()).unwrap();
        let redactor = Redactor::new(vec![secret]).unwrap();
        let own_results = ResultsOf {
            peer: &own(),
            redactor: &redactor,
            results: &results,
        };
        let one = own_results.keep("one", "a KEY-12345 b").unwrap();
        let two = own_results.keep("two", "c").unwrap();
        assert_eq!(fs::read_to_string(&one).unwrap(), "a [redacted:key] b");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&one), mode(one.parent().unwrap())), (0o600, 0o700));
        own_results.forget("one").unwrap();
        assert_eq!((one.exists(), two.exists()), (false, true));
        fs::remove_dir_all(directory.path()).unwrap();
        own_results.forget("two").unwrap();
        assert!(own_results.keep("two", "c").is_err());
    }

    #[test]
    fn the_oldest_give_way_and_what_is_too_large_is_not_kept() {
        let directory = tempfile::tempdir().unwrap();
        let results = Results::below(directory.path()).unwrap();
        let own_results = of_own(&results);
        let first = own_results.keep("s", "first").unwrap();
        let before = SystemTime::now() - Duration::from_secs(9);
        File::options()
            .write(true)
            .open(&first)
            .unwrap()
            .set_modified(before)
            .unwrap();
        for _ in 1..COUNT {
            own_results.keep("s", "x").unwrap();
        }
        assert_eq!((names(directory.path()), first.exists()), (COUNT, true));
        let last = own_results.keep("s", "last").unwrap();
        assert_eq!((names(directory.path()), first.exists()), (COUNT, false));
        // All others have to go for it.
        File::options()
            .write(true)
            .open(&last)
            .unwrap()
            .set_len(BYTES)
            .unwrap();
        own_results.keep("s", "one more").unwrap();
        assert_eq!((names(directory.path()), last.exists()), (1, false));
        let shelf = results.shelf(&own()).unwrap();
        assert!(shelf.make_room(BYTES + 1).is_err());
    }

    #[test]
    fn what_a_day_has_passed_for_is_removed_when_a_daemon_starts() {
        let directory = tempfile::tempdir().unwrap();
        let results = Results::below(directory.path()).unwrap();
        let own_results = of_own(&results);
        let [old, new] = ["old", "new"].map(|text| own_results.keep("s", text).unwrap());
        let file = File::options().write(true).open(&old).unwrap();
        file.set_modified(SystemTime::now() - AGE - Duration::from_secs(9))
            .unwrap();
        Results::below(directory.path()).unwrap();
        assert_eq!((old.exists(), new.exists()), (false, true));
    }

    #[test]
    fn nothing_is_kept_where_others_can_look_or_a_link_leads() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join(OWN);
        let results = Results::below(directory.path()).unwrap();
        let own_results = of_own(&results);
        fs::create_dir(&place).unwrap();
        fs::set_permissions(&place, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(own_results.keep("s", "x").is_err());
        assert_eq!(names(directory.path()), 0);
        fs::remove_dir(&place).unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        symlink(elsewhere.path(), &place).unwrap();
        assert!(own_results.keep("s", "x").is_err());
        assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
        fs::remove_file(&place).unwrap();
        own_results.keep("s", "x").unwrap();
    }
}
