//! Keeps approved texts, so that a later question shows what changed since.
//!
//! No decision uses these texts: the digests in the allowlist decide. They are stored in a directory beside the
//! allowlist, each under the digest of its content, as long as an allowlist entry has that digest.

use std::{
    collections::{HashMap, HashSet},
    fs::{self, File, OpenOptions},
    io::{self, Read},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use sha2::{Digest, Sha256};

use hookjail_base::{
    model::is_sha256,
    util::{diff::unified, trusted_file},
};

use hookjail_policy::{Policy, References};

use super::allowlist::Allowlist;

/// The largest text that is kept.
const MAX_TEXT_BYTES: usize = 256 * 1024;

/// The store of approved texts.
#[derive(Clone, Debug)]
pub struct Approved {
    /// Whether a profile, by its digest, is covered by one that was approved under another: both stand for contents.
    covered: Arc<Mutex<HashMap<(String, String), bool>>>,
    directory: PathBuf,
}

impl Approved {
    /// Returns the store beside an allowlist.
    #[must_use]
    pub fn for_allowlist(allowlist: &Path) -> Self {
        Self {
            covered: Arc::default(),
            directory: allowlist.with_extension("approved"),
        }
    }

    /// Stores a profile and scripts under their digests, and removes texts that no entry names.
    ///
    /// # Errors
    ///
    /// Fails where the directory cannot be written or a script cannot be read. A consent counts without its texts, so
    /// callers only log this.
    pub fn keep(
        &self,
        scripts: &[(File, String)],
        (profile, digest): (&str, &str),
        list: &Allowlist,
    ) -> io::Result<()> {
        trusted_file::directory(&self.directory).map_err(io::Error::other)?;
        self.drop_unnamed(list)?;
        self.write(digest, profile)?;
        for (script, sha256) in scripts {
            if let Some(text) = text(script, sha256)? {
                self.write(sha256, &text)?;
            }
        }
        Ok(())
    }

    fn write(&self, sha256: &str, text: &str) -> io::Result<()> {
        trusted_file::replace(&self.directory.join(sha256), text.as_bytes(), 0o600)
    }

    /// Returns a profile as it was approved under this digest; `None` where that text is not kept, or no longer means the same.
    fn profile(&self, digest: &str, now: &Policy, references: &References) -> Option<Policy> {
        let text = self.kept(digest)?;
        let policy = Policy::read(now.name.clone(), &text, references).ok()?;
        (policy.digest == digest).then_some(policy)
    }

    /// Returns whether a profile allows no more than the one that was approved under this digest, whose text is kept.
    pub(super) fn covers(&self, digest: &str, now: &Policy, references: &References) -> bool {
        let pair = (digest.to_owned(), now.digest.clone());
        let known = |covered: &Mutex<HashMap<_, _>>| {
            let covered = covered.lock().unwrap_or_else(PoisonError::into_inner);
            covered.get(&pair).copied()
        };
        if let Some(covers) = known(&self.covered) {
            return covers;
        }
        let Some(wider) = self.wider(digest, now, references) else {
            return false;
        };
        let mut covered = self.covered.lock().unwrap_or_else(PoisonError::into_inner);
        covered.insert(pair, wider.is_empty());
        wider.is_empty()
    }

    /// Returns what a profile allows and the one that was approved under this digest does not; `None` where that one is not kept.
    #[must_use]
    pub fn wider(
        &self,
        digest: &str,
        now: &Policy,
        references: &References,
    ) -> Option<Vec<String>> {
        let approved = self.profile(digest, now, references)?;
        Some(now.wider_than(&approved))
    }

    /// Returns the unified diff of a profile against the one that was approved under this digest; empty where that one is not kept.
    pub(super) fn profile_diff(&self, was: &str, now: &str) -> String {
        let old = self.kept(was);
        old.map_or_else(String::new, |old| of_approved(&old, now, "profile"))
    }

    /// Returns the unified diff of a script against the content that was approved under this digest. Empty where that text is not
    /// kept, or where the script's digest is no longer `now`.
    #[must_use]
    pub fn diff(&self, was: &str, path: &str, (script, now): (&File, &str)) -> String {
        let Some(old) = self.kept(was) else {
            return String::new();
        };
        match text(script, now) {
            Ok(Some(new)) => of_approved(&old, &new, path),
            Ok(None) | Err(_) => String::new(),
        }
    }

    fn kept(&self, sha256: &str) -> Option<String> {
        // A digest in the allowlist can be any text; as a file name it must not lead out of the directory.
        if !is_sha256(sha256) {
            return None;
        }
        let path = self.directory.join(sha256);
        let mut file = trusted_file::open(&path, OpenOptions::new().read(true)).ok()?;
        let mut text = String::new();
        file.read_to_string(&mut text).ok()?;
        Some(text)
    }

    fn drop_unnamed(&self, list: &Allowlist) -> io::Result<()> {
        let entries = list.entries();
        let digests = entries.iter().flat_map(|entry| &entry.digests);
        let digests = digests.map(|digest| digest.sha256.as_str());
        let profiles = entries.iter().flat_map(|entry| &entry.profile_digest);
        let named: HashSet<_> = digests.chain(profiles.map(String::as_str)).collect();
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            let name = entry.file_name();
            let unnamed = name
                .to_str()
                .is_some_and(|name| is_sha256(name) && !named.contains(name));
            if unnamed {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }
}

/// Reads a file if it is text, not too large, and of this digest. The digest is computed again: a process with the file
/// open for writing could otherwise show the operator one text and get an answer for another (TOCTOU).
fn text(file: &File, sha256: &str) -> io::Result<Option<String>> {
    let mut bytes = vec![0; MAX_TEXT_BYTES + 1];
    let mut length = 0;
    while length < bytes.len() {
        match file.read_at(
            &mut bytes[length..],
            u64::try_from(length).unwrap_or(u64::MAX),
        )? {
            0 => break,
            read => length += read,
        }
    }
    if length > MAX_TEXT_BYTES {
        return Ok(None);
    }
    bytes.truncate(length);
    if format!("{:x}", Sha256::digest(&bytes)) != sha256 {
        return Ok(None);
    }
    Ok(String::from_utf8(bytes)
        .ok()
        .filter(|text| !text.contains('\0')))
}

fn of_approved(old: &str, new: &str, path: &str) -> String {
    let (old, new) = (
        (&*format!("{path} (approved)"), old),
        (&*format!("{path} (now)"), new),
    );
    unified(old, new)
}
