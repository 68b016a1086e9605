//! Entries that mean more than this version supports, as a later version wrote them.
//!
//! Such an entry allows nothing, since a bound of it could be overlooked. The file keeps it, so that it counts again for
//! the later version, until it is revoked or replaced.

use std::fmt;

use serde_json::{Map, Value};

use hookjail_base::model::plain;
use hookjail_sandbox::program::Role;

use super::{Entry, typed};

/// The newest form of an entry that this version reads.
const ENTRY_VERSION: u64 = 1;

/// An entry that does not count.
#[derive(Clone, Debug, PartialEq)]
pub struct LaterEntry {
    /// The command, the profile and the directory, by which the entry is found. No digest is in it.
    pub outline: Entry,
    /// The entry as the file has it.
    pub(super) value: Value,
    why: Unknown,
}

/// The first part of an entry that this version does not support.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Unknown {
    Role(String),
    Version(u64),
}

impl fmt::Display for LaterEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let command = plain(&typed(&self.outline.command));
        let program = env!("CARGO_PKG_VERSION");
        write!(f, "the consent to `{command}` does not count: ")?;
        match &self.why {
            Unknown::Role(role) => write!(
                f,
                "a digest has the role `{}`, which hookjail {program} does not support",
                plain(role)
            ),
            Unknown::Version(version) => write!(
                f,
                "its entry has version {version}, and hookjail {program} reads version {ENTRY_VERSION}"
            ),
        }?;
        f.write_str("; install the newer hookjail, or allow the command again")
    }
}

/// Takes the entries that a later version wrote out of those of a file.
pub(super) fn apart(values: Vec<Value>) -> (Vec<LaterEntry>, Vec<Value>) {
    let mut later = Vec::new();
    let mut known = Vec::new();
    for value in values {
        match unknown(&value) {
            Some(why) => later.push(LaterEntry {
                outline: outline(&value),
                value,
                why,
            }),
            None => known.push(value),
        }
    }
    (later, known)
}

/// Returns the part of an entry that this version does not support; `None` also for a malformed one.
fn unknown(entry: &Value) -> Option<Unknown> {
    let version = entry.get("entry_version").and_then(Value::as_u64);
    if let Some(version) = version.filter(|version| *version > ENTRY_VERSION) {
        return Some(Unknown::Version(version));
    }
    let digests = entry.get("digests")?.as_array()?.iter();
    let mut roles = digests.filter_map(|digest| digest.get("role")?.as_str());
    let role = roles.find(|role| Role::parse(role).is_none())?;
    Some(Unknown::Role(role.to_owned()))
}

fn outline(entry: &Value) -> Entry {
    let text = |name: &str| entry.get(name).and_then(Value::as_str).map(str::to_owned);
    Entry {
        command: text("command").unwrap_or_default(),
        approved_at: text("approved_at").unwrap_or_default(),
        approved_by: text("approved_by"),
        data: Vec::new(),
        digests: Vec::new(),
        entry_version: None,
        expires_at: None,
        other: Map::new(),
        profile: text("profile"),
        profile_digest: None,
        script_mtime: None,
        working_dir_scope: text("working_dir_scope").map(Into::into),
    }
}
