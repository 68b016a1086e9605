//! The allowlist: the operator's consents in one JSON file.
//!
//! The file is an array of entries, in a format that a runtime also uses for its own. A runtime's entry has `command`,
//! `approved_at` and `script_mtime`; entries written here add the digests and the profile that the consent is bound to,
//! the profile by name and digest. Unknown keys are preserved, since runtimes and later versions may add their own:
//! none of them can make an entry allow more. An entry that means more than this version supports does not count, and
//! stays in the file ([`later`]).

pub mod later;

use std::{
    cmp::Reverse,
    collections::{BTreeSet, HashSet},
    ffi::{OsStr, OsString},
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};

use jiff::Timestamp;
use nix::fcntl::{Flock, FlockArg};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize, Serializer, ser::SerializeSeq};
use serde_json::{Map, Value};

use hookjail_base::{
    model::is_unseen,
    util::trusted_file::{self, Untrusted},
};

use self::later::LaterEntry;
use hookjail_policy::Policy;
use hookjail_sandbox::program::{
    Digest, Role,
    digest::{Stamp, settled},
};

/// The consents as the file held them when it was read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Allowlist {
    entries: Vec<Entry>,
    later: Vec<LaterEntry>,
}

impl Allowlist {
    /// Returns the schema of the file.
    pub(crate) fn schema(generator: SchemaGenerator) -> Schema {
        let mut schema = generator.into_root_schema_for::<Vec<Entry>>();
        schema.insert("title".to_owned(), "Allowlist of hookjail".into());
        schema
    }

    /// Reads the file. A missing one is an empty list.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, another user could write it, or it is not a list of entries. Why not an empty
    /// list for a malformed file, as a runtime may read it: the operator would not notice.
    pub fn load(path: &Path) -> Result<Self, AllowlistError> {
        let mut file = match trusted_file::open(path, OpenOptions::new().read(true)) {
            Ok(file) => file,
            Err(Untrusted::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Self::default());
            }
            Err(source) => {
                return Err(AllowlistError::Untrusted {
                    path: path.to_owned(),
                    source,
                });
            }
        };
        let mut text = Vec::new();
        file.read_to_end(&mut text)
            .map_err(|source| AllowlistError::unusable("read", path, source))?;
        Self::parse(&text).map_err(|source| AllowlistError::Malformed {
            path: path.to_owned(),
            source,
        })
    }

    /// Parses the content of a file.
    ///
    /// # Errors
    ///
    /// Fails if the text is not a list of entries.
    pub fn parse(text: &[u8]) -> serde_json::Result<Self> {
        let values: Vec<Value> = serde_json::from_slice(text)?;
        let (later, values) = later::apart(values);
        let entries = match later.is_empty() {
            // The text names the line of an error.
            true => serde_json::from_slice(text)?,
            false => serde_json::from_value(Value::Array(values))?,
        };
        Ok(Self { entries, later })
    }

    /// Adds an entry to the file and returns the new list.
    ///
    /// Replaces entries for the same command with the same profile and directory, unless relative paths in the command
    /// named other files then, and a runtime's own entries for the command. Blocks while another writer holds the lock.
    /// The file is replaced atomically, and on disk when this returns.
    ///
    /// # Errors
    ///
    /// As [`Allowlist::load`], and if the file cannot be locked or written. The file is then unchanged, unless only the
    /// sync of its directory failed.
    pub fn record(path: &Path, entry: Entry) -> Result<Self, AllowlistError> {
        let (_held, mut list) = Self::load_to_change(path)?;
        list.put(entry);
        list.store(path)?;
        Ok(list)
    }

    /// Adds entries to the file, all or none, and returns the new list.
    ///
    /// # Errors
    ///
    /// As [`Allowlist::record`].
    pub fn record_all(path: &Path, entries: Vec<Entry>) -> Result<Self, AllowlistError> {
        let (_held, mut list) = Self::load_to_change(path)?;
        for entry in entries {
            list.put(entry);
        }
        list.store(path)?;
        Ok(list)
    }

    fn put(&mut self, entry: Entry) {
        self.entries.retain(|old| {
            old.command != entry.command
                || !old.is_unbound()
                    && ((&old.profile, &old.working_dir_scope)
                        != (&entry.profile, &entry.working_dir_scope)
                        || old.starts_elsewhere(&entry))
        });
        self.later.retain(|old| {
            let old = &old.outline;
            (&old.command, &old.profile, &old.working_dir_scope)
                != (&entry.command, &entry.profile, &entry.working_dir_scope)
        });
        self.entries.push(entry);
    }

    /// Removes every entry for a command from the file and returns how many there were.
    ///
    /// # Errors
    ///
    /// As [`Allowlist::record`].
    pub fn revoke(path: &Path, command: &str) -> Result<usize, AllowlistError> {
        Self::revoke_those(path, |entry| entry.command == command)
    }

    /// Removes the entries of which something holds from the file and returns how many there were. An entry that does not
    /// count is judged by its outline.
    ///
    /// # Errors
    ///
    /// As [`Allowlist::record`].
    pub fn revoke_those(
        path: &Path,
        is_meant: impl Fn(&Entry) -> bool,
    ) -> Result<usize, AllowlistError> {
        let (_held, mut list) = Self::load_to_change(path)?;
        let before = list.entries.len() + list.later.len();
        list.entries.retain(|old| !is_meant(old));
        list.later.retain(|old| !is_meant(&old.outline));
        let revoked = before - list.entries.len() - list.later.len();
        if revoked > 0 {
            list.store(path)?;
        }
        Ok(revoked)
    }

    /// Looks a command up.
    pub(crate) fn check(&self, lookup: &Lookup<'_>) -> Check {
        self.found(lookup)
            .map(|entry| entry.check(lookup))
            // There may be several entries for a command, for different directories: one that fits is enough.
            .reduce(|first, next| if next == Check::Hit { next } else { first })
            .unwrap_or(Check::Missing)
    }

    /// Returns the directory that a consent to the command is limited to, for any content of its files.
    pub(crate) fn scope(&self, lookup: &Lookup<'_>) -> Option<&Path> {
        self.found(lookup)
            .find_map(|entry| entry.working_dir_scope.as_deref())
    }

    /// Returns the entries of a command for a profile and a place.
    fn found(&self, lookup: &Lookup<'_>) -> impl Iterator<Item = &Entry> {
        self.entries
            .iter()
            .filter(|entry| !entry.is_unbound() && entry.command == lookup.command)
            .filter(|entry| {
                entry
                    .profile
                    .as_deref()
                    .map_or(!lookup.is_grant, |name| name == lookup.profile)
            })
            .filter(|entry| entry.is_for(lookup.working_dir, lookup.workspace))
    }

    /// Returns the valid consents for a command, a profile and a start that mark arguments as data, those with the most first.
    /// The digests of the command's files do not matter.
    pub(crate) fn with_data(&self, sought: &Lookup<'_>) -> Vec<WithData> {
        let entries = self.entries.iter().filter(|entry| {
            !entry.data.is_empty()
                && !entry.is_unbound()
                && entry.command == sought.command
                && entry.profile.as_deref() == Some(sought.profile)
                && entry.is_for(sought.working_dir, sought.workspace)
                && entry.expires_at.is_none_or(|end| end > sought.now)
        });
        let with_data = entries.map(|entry| WithData {
            data: entry.data.iter().map(Into::into).collect(),
            files: entry.digests.iter().map(|it| it.path.clone()).collect(),
        });
        let mut with_data: Vec<_> = with_data.collect();
        with_data.sort_by_key(|it| Reverse(it.data.len()));
        with_data
    }

    /// Returns whether any consent marks arguments as data.
    pub(crate) fn has_data(&self) -> bool {
        self.entries.iter().any(|entry| !entry.data.is_empty())
    }

    /// Returns whether any consent, under any profile, binds this command to content.
    pub fn binds(&self, command: &str) -> bool {
        let bound = |entry: &Entry| !entry.is_unbound() && entry.command == command;
        // A consent that does not count keeps a runtime's own entry from counting in its place.
        let later = |entry: &LaterEntry| entry.outline.command == command;
        self.entries.iter().any(bound) || self.later.iter().any(later)
    }

    /// Returns whether any consent names this command, and no other profile. Digests are not compared.
    pub(crate) fn names(&self, command: &str, profile: &str) -> bool {
        self.entries.iter().any(|entry| {
            let of_profile = entry.profile.as_deref();
            entry.command == command && of_profile.is_none_or(|name| name == profile)
        })
    }

    /// Returns a runtime's own entries for a command, in the spelling of the runtime's configuration.
    pub(crate) fn unbound<'a>(&'a self, spelled: &'a str) -> impl Iterator<Item = &'a Entry> {
        let entries = self.entries.iter();
        entries.filter(move |entry| entry.is_unbound() && entry.command == spelled)
    }

    /// Returns the digests that a profile had when a command was allowed under it.
    pub(crate) fn profile_digests(&self, command: &str, profile: &str) -> BTreeSet<&str> {
        let entries = self
            .entries
            .iter()
            .filter(|entry| entry.command == command && entry.profile.as_deref() == Some(profile));
        entries
            .filter_map(|it| it.profile_digest.as_deref())
            .collect()
    }

    /// Returns the entries in the order of the file.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Returns the entries that do not count, as a later version wrote them.
    pub fn later(&self) -> &[LaterEntry] {
        &self.later
    }

    fn load_to_change(path: &Path) -> Result<(Flock<File>, Self), AllowlistError> {
        let untrusted = |path: &Path, source| AllowlistError::Untrusted {
            path: path.to_owned(),
            source,
        };
        let directory = directory(path);
        trusted_file::directory(directory).map_err(|source| untrusted(directory, source))?;
        let lock = with_suffix(path, "lock");
        let file = trusted_file::open(&lock, OpenOptions::new().write(true).create(true))
            .map_err(|source| untrusted(&lock, source))?;
        let held = Flock::lock(file, FlockArg::LockExclusive)
            .map_err(|(_, errno)| AllowlistError::unusable("lock", &lock, errno.into()))?;
        Ok((held, Self::load(path)?))
    }

    /// Puts this list in the file's place. The caller holds the lock.
    fn store(&self, path: &Path) -> Result<(), AllowlistError> {
        let new = with_suffix(path, "new");
        let write = || {
            let mut text = serde_json::to_vec_pretty(self)?;
            text.push(b'\n');
            // A file of this name is left over from a writer that died, since this process holds the lock.
            match fs::remove_file(&new) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
            let mut file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&new)?;
            file.write_all(&text)?;
            file.sync_all()?;
            fs::rename(&new, path)?;
            // The new name must be on disk too, or a consent that was revoked could come back.
            File::open(directory(path))?.sync_all()
        };
        write().map_err(|source| AllowlistError::unusable("write", path, source))
    }
}

impl Serialize for Allowlist {
    /// Writes what the file has: every entry, and those that do not count as they were.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(self.entries.len() + self.later.len()))?;
        for entry in &self.entries {
            list.serialize_element(entry)?;
        }
        for entry in &self.later {
            list.serialize_element(&entry.value)?;
        }
        list.end()
    }
}

/// A command to look up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lookup<'a> {
    /// The command, as [`hookjail_base::model::command_line`] writes it, its program by absolute path.
    pub command: &'a str,
    /// The digests of its files.
    pub digests: &'a [Digest],
    /// Whether the consent must grant the profile too, and therefore name it.
    pub is_grant: bool,
    /// The time.
    pub now: Timestamp,
    /// The profile it would run under.
    pub profile: &'a str,
    /// SHA-256 of that profile, resolved, and of each approved one that allows no less.
    pub profile_digests: &'a [String],
    /// The request's working directory.
    pub working_dir: Option<&'a Path>,
    /// The request's workspace.
    pub workspace: Option<&'a Path>,
}

/// The arguments that a consent marks as data, with the files that the consent is bound to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct WithData {
    pub(crate) data: Vec<OsString>,
    /// Their paths.
    pub(crate) files: HashSet<String>,
}

impl WithData {
    /// Returns it for files at other paths.
    pub(crate) fn moved(self, path: impl Fn(&Path) -> PathBuf) -> Self {
        let data = self.data.iter().map(|word| path(Path::new(word)).into());
        let files = self
            .files
            .iter()
            .map(|it| path(Path::new(it)).display().to_string());
        Self {
            data: data.collect(),
            files: files.collect(),
        }
    }
}

/// One consent.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Entry {
    /// The command line: words joined by spaces, quoted as a shell reads them.
    pub command: String,
    /// The time at which it was given: ISO 8601, in UTC.
    pub approved_at: String,
    /// When the script was last modified, in seconds since 1970; a runtime goes by it.
    #[serde(default)]
    pub(crate) script_mtime: Option<f64>,
    /// The files the consent is bound to. Only a runtime's own entries have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub digests: Vec<Digest>,
    /// Arguments that name data to its program: the consent is for any content of these files. Files that the program is known to
    /// execute are never among them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub data: Vec<String>,
    /// The profile the consent is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// SHA-256 of that profile as it was then, resolved. An entry with a profile and without this one counts no more:
    /// its content at that time is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile_digest: Option<String>,
    /// The operator who gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) approved_by: Option<String>,
    /// The time at which it ends.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "timestamp")]
    #[schemars(with = "Option<String>")]
    pub expires_at: Option<Timestamp>,
    /// Below which directory its working directory and its workspace must lie; anywhere where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_dir_scope: Option<PathBuf>,
    /// The version of the entry's form; none is 1. A version that does not support it passes the entry over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) entry_version: Option<u64>,
    /// Keys that mean nothing here.
    #[serde(flatten)]
    pub(crate) other: Map<String, Value>,
}

impl Entry {
    /// Creates a consent that begins now and does not expire.
    pub fn new(
        command: String,
        digests: Vec<Digest>,
        policy: Option<&Policy>,
        approved_by: String,
    ) -> Self {
        // Runtimes compare the modification time of the first word, if it is a file.
        let program = digests.iter().find(|digest| digest.role == Role::Program);
        let script_mtime = program.and_then(|digest| {
            let modified = fs::metadata(&digest.path).ok()?.modified().ok()?;
            Some(
                modified
                    .duration_since(std::time::UNIX_EPOCH)
                    .ok()?
                    .as_secs_f64(),
            )
        });
        Self {
            approved_at: Timestamp::now().to_string(),
            approved_by: Some(approved_by),
            command,
            data: Vec::new(),
            digests,
            entry_version: None,
            expires_at: None,
            other: Map::new(),
            profile: policy.map(|policy| policy.name.to_string()),
            profile_digest: policy.map(|policy| policy.digest.clone()),
            script_mtime,
            working_dir_scope: None,
        }
    }

    /// Returns whether the entry binds no content, as only a runtime's own entries do.
    pub const fn is_unbound(&self) -> bool {
        self.digests.is_empty()
    }

    /// Returns whether an argument has the same file name in both entries, but another directory.
    fn starts_elsewhere(&self, other: &Self) -> bool {
        let named = |entry: &Self| -> Vec<PathBuf> {
            let digests = entry.digests.iter();
            let named = digests.filter(|digest| digest.role == Role::Argument);
            named.map(|digest| PathBuf::from(&digest.path)).collect()
        };
        let (paths, others) = (named(self), named(other));
        let mut only_in_self = paths.iter().filter(|path| !others.contains(path));
        only_in_self.any(|path| {
            let mut only_in_other = others.iter().filter(|other| !paths.contains(other));
            only_in_other.any(|other| other.file_name() == path.file_name())
        })
    }

    /// Returns whether it counts for a start and a workspace.
    #[must_use]
    pub fn is_for(&self, working_dir: Option<&Path>, workspace: Option<&Path>) -> bool {
        let Some(scope) = &self.working_dir_scope else {
            return true;
        };
        // Both must be in the scope: a hook that starts inside could still work on a workspace outside.
        let mut places = working_dir.into_iter().chain(workspace).peekable();
        places.peek().is_some() && places.all(|place| place.starts_with(scope))
    }

    fn check(&self, lookup: &Lookup<'_>) -> Check {
        if self.expires_at.is_some_and(|end| end <= lookup.now) {
            return Check::Expired;
        }
        match difference(&self.digests, lookup.digests) {
            Some(digest) => Check::Changed {
                path: digest.path.clone(),
                role: digest.role,
                was: self
                    .digests
                    .iter()
                    .find(|old| old.path == digest.path)
                    .map(|old| old.sha256.clone()),
            },
            None if self.profile.is_some()
                && !(self.profile_digest.as_ref())
                    .is_some_and(|digest| lookup.profile_digests.contains(digest)) =>
            {
                Check::OtherProfile {
                    was: self.profile_digest.clone(),
                }
            }
            None => Check::Hit,
        }
    }
}

/// Returns a file whose digest is in only one of the lists. A file that the consent does not name is as much a change
/// as one that is missing.
pub(super) fn difference<'a>(old: &'a [Digest], new: &'a [Digest]) -> Option<&'a Digest> {
    let added = new
        .iter()
        .find(|new| !old.iter().any(|old| new.is_bound_by(old)));
    let gone = || {
        old.iter()
            .find(|old| !new.iter().any(|new| new.is_bound_by(old)))
    };
    added.or_else(gone)
}

/// The result of looking up a command.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub enum Check {
    /// A consent exists, but this file differs from the one it was given for.
    Changed {
        /// The file.
        path: String,
        /// Its role in the command.
        role: Role,
        /// Its digest in the consent; `None` if the consent does not name it.
        was: Option<String>,
    },
    /// The consent has expired.
    Expired,
    /// A consent covers this command, its content and the profile.
    Hit,
    /// No consent applies to this command and profile.
    Missing,
    /// A consent covers these files, but the profile has changed since.
    OtherProfile {
        /// The profile's digest then; `None` in an entry that was made before entries had one.
        was: Option<String>,
    },
}

/// A cache of the list, reread when its file has changed.
#[derive(Debug, Default)]
pub(crate) struct AllowlistReader {
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    list: Option<(Stamp, Arc<Allowlist>)>,
    /// The entries that do not count, as the log names them already.
    warned: Vec<LaterEntry>,
}

impl AllowlistReader {
    /// Returns the list as currently stored in the file.
    ///
    /// # Errors
    ///
    /// As [`Allowlist::load`].
    pub(crate) fn load(&self, path: &Path) -> Result<Arc<Allowlist>, AllowlistError> {
        // `Allowlist::load` handles a missing file.
        let found = fs::symlink_metadata(path).ok();
        // Taken before the list is read, so that a change in between shows in the next stamp.
        let stamp = found
            .filter(|metadata| settled(metadata, SystemTime::now()))
            .map(|metadata| Stamp::new(&metadata));
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Some(stamp), Some((read, list))) = (stamp, &seen.list)
            && stamp == *read
        {
            return Ok(Arc::clone(list));
        }
        let list = Arc::new(Allowlist::load(path)?);
        for later in list.later() {
            if !seen.warned.contains(later) {
                tracing::warn!(path = %path.display(), "{later}");
            }
        }
        seen.warned = list.later().to_vec();
        seen.list = stamp.map(|stamp| (stamp, Arc::clone(&list)));
        Ok(list)
    }
}

/// Error of reading or changing the allowlist.
#[derive(Debug, thiserror::Error)]
pub enum AllowlistError {
    /// The file is not a list of entries.
    #[error("the allowlist `{path}` is not a list of entries; repair it or move it away")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The parse error.
        #[source]
        source: serde_json::Error,
    },
    /// The file cannot be opened, or another user could write it.
    #[error("cannot use `{path}` for the allowlist")]
    Untrusted {
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        #[source]
        source: Untrusted,
    },
    /// Reading, writing or locking failed.
    #[error("cannot {doing} the allowlist `{path}`")]
    Unusable {
        /// The attempted operation.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

impl AllowlistError {
    fn unusable(doing: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Unusable {
            doing,
            path: path.to_owned(),
            source,
        }
    }
}

/// Makes a command quoted by [`hookjail_base::model::command_line`] printable on one line. Invisible characters become escapes in `$'…'`,
/// which shells read back.
#[must_use]
pub fn typed(command: &str) -> String {
    let mut out = String::with_capacity(command.len());
    let mut rest = command;
    while let Some(start) = rest.find(['\'', '"']) {
        let (before, quoted) = rest.split_at(start);
        out.push_str(before);
        let (quote, inside) = quoted.split_at(1);
        let Some(end) = inside.find(quote) else {
            rest = quoted;
            break;
        };
        if quote == "'" && inside[..end].contains(is_unseen) {
            out.push_str(&escaped(&inside[..end]));
        } else {
            out.push_str(&quoted[..end + 2]);
        }
        rest = &inside[end + 1..];
    }
    out.push_str(rest);
    out
}

/// Quotes a word as `$'…'`, with escapes.
fn escaped(word: &str) -> String {
    let mut out = String::from("$'");
    for c in word.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            c if is_unseen(c) => {
                let mut bytes = [0; 4];
                for byte in c.encode_utf8(&mut bytes).bytes() {
                    out.push_str(&format!("\\x{byte:02x}"));
                }
            }
            c => out.push(c),
        }
    }
    out.push('\'');
    out
}

fn directory(path: &Path) -> &Path {
    path.parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or_else(|| Path::new("."))
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(OsStr::new("."));
    name.push(OsStr::new(suffix));
    PathBuf::from(name)
}

mod timestamp {
    use jiff::Timestamp;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    #[expect(clippy::ref_option, reason = "serde passes the field so")]
    pub(super) fn serialize<S: Serializer>(
        time: &Option<Timestamp>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match time {
            Some(time) => serializer.collect_str(time),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Timestamp>, D::Error> {
        Option::<String>::deserialize(deserializer)?
            .map(|text| text.parse().map_err(D::Error::custom))
            .transpose()
    }
}

#[cfg(test)]
mod tests;
