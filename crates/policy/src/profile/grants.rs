//! `files` in a profile: the granted paths, as written and as understood.

use std::{
    collections::BTreeSet,
    fmt,
    path::{Path, PathBuf},
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use hookjail_base::util::outermost::Outermost;

use super::{
    ProfileCause, broken, once,
    references::{Reference, References, never_of_home},
};
use crate::{
    Access, Entries, Files, GrantPlace, GrantSpec, NamePattern, Network, ReadOnly, tokens,
    transcripts,
};

/// Names that profiles with a network hide by default.
const HIDDEN_ONLINE: [&str; 11] = [
    "*.jks",
    "*.key",
    "*.keystore",
    "*.p12",
    "*.pem",
    "*.pfx",
    ".env*",
    ".netrc",
    "credentials*.json",
    "id_*",
    "service-account*.json",
];

#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct FilesSection {
    /// Names of files and directories of the workspace that cannot be opened, with one `*` in each at most. Replaces the
    /// parent's list. Default: nothing, and with a network `*.jks`, `*.key`, `*.keystore`, `*.p12`, `*.pem`, `*.pfx`, `.env*`,
    /// `.netrc`, `credentials*.json`, `id_*`, `service-account*.json`.
    // Left out where nothing is hidden without it, so that profiles without it keep their digests.
    #[serde(skip_serializing_if = "Option::is_none")]
    hidden: Option<Vec<String>>,
    /// Grants that a request can narrow. No link on the way is followed.
    #[schemars(with = "Vec<NamedEntry>")]
    named: Vec<NamedGrant>,
    /// Paths below `${workspace}` that stay read-only and keep their name, against grants of `files.named`. One that ends in
    /// `/` is a directory, made where its parent exists. A missing file, a symbolic link and a file with a second name are
    /// refused (`POLICY_UNENFORCEABLE`). Needs a mount namespace. Default: nothing.
    // Left out where it is empty, so that the digests of profiles without it stay the same.
    #[schemars(with = "Vec<String>")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    read_only: Vec<ReadOnlyPath>,
    /// With `state`, directories replaced by files that last: at most 32, absolute, `${home}`, or below it. Default: nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    state: Vec<String>,
    /// Grants of system files, which programs need to start and requests do not narrow. Links are followed.
    #[schemars(with = "Vec<SystemEntry>")]
    system: Vec<SystemGrant>,
    /// Granted files that are closed where they hold a token or a password, also in a comment: `token = "…"`,
    /// `https://name:password@host`. Paths are absolute or below `${home}`, with `*` for whole names. In a granted directory
    /// this takes mounts. Default: nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tokens: Vec<String>,
    /// Places of readable transcripts: paths that end in `/*`, absolute or below `${home}`. None under a profile with a
    /// network. Default: nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    transcripts: Vec<String>,
    /// Paths below `${workspace}` that stay as they are, whether they exist or not. One that ends in `/` is a directory.
    /// Default: nothing.
    #[schemars(with = "Vec<String>")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unchanged: Vec<ReadOnlyPath>,
    /// Paths of the parent's `files.unchanged` and `files.read_only` to give up. Default: none.
    #[schemars(with = "Vec<String>")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unset: Vec<ReadOnlyPath>,
}

impl FilesSection {
    pub(super) fn check(&self) -> Result<(), ProfileCause> {
        let hidden = self.hidden.iter().flatten();
        once("files.hidden", hidden.cloned())?;
        self.hidden()?;
        once(
            "files.named",
            self.named.iter().map(|grant| grant.0.to_string()),
        )?;
        once(
            "files.read_only",
            self.read_only.iter().map(|path| path.0.to_string()),
        )?;
        once("files.state", self.state.iter().cloned())?;
        for (key, list) in [
            ("files.unchanged", &self.unchanged),
            ("files.unset", &self.unset),
        ] {
            once(key, list.iter().map(|path| path.0.to_string()))?;
        }
        if let Some(path) = self.state.iter().find(|path| !is_state_place(path)) {
            let rule = format!(
                "names `{path}`; name `${{home}}`, a directory below, or an absolute one, not `/`"
            );
            return Err(broken("files.state", rule));
        }
        once(
            "files.system",
            self.system.iter().map(|grant| grant.0.to_string()),
        )?;
        let placed = [
            (
                "files.tokens",
                &self.tokens,
                tokens::is_place as fn(&Path) -> bool,
                "a file below `${home}`, or an absolute one, with `*` for whole names alone",
            ),
            (
                "files.transcripts",
                &self.transcripts,
                transcripts::is_place,
                "a path below `${home}`, or an absolute one, whose last names are `*`",
            ),
        ];
        for (key, list, is_place, kind) in placed {
            once(key, list.iter().cloned())?;
            if let Some(path) = list.iter().find(|path| !is_below(path, is_place)) {
                return Err(broken(key, format!("names `{path}`; name {kind}")));
            }
        }
        Ok(())
    }

    /// Returns the paths of the system's grants that a host may lack.
    pub(super) fn optional_system(&self, references: &References) -> Vec<GrantPlace> {
        let system = self.system.iter().map(|grant| grant.0.clone());
        let optional = system.filter(|grant| grant.optional);
        let bound = optional.filter_map(|grant| grant.bind(references));
        bound.map(|grant| grant.place).collect()
    }

    fn hidden(&self) -> Result<Option<Vec<NamePattern>>, ProfileCause> {
        let Some(hidden) = &self.hidden else {
            return Ok(None);
        };
        let patterns = hidden.iter().map(|text| {
            NamePattern::parse(text)
                .map_err(|rule| broken("files.hidden", format!("has `{text}`, which {rule}")))
        });
        patterns.collect::<Result<_, _>>().map(Some)
    }

    pub(super) fn with_parent(mut self, parent: Self) -> Self {
        self.hidden = self.hidden.or(parent.hidden);
        let named: BTreeSet<String> = self.named.iter().map(|grant| grant.0.to_string()).collect();
        let system: BTreeSet<String> = self
            .system
            .iter()
            .map(|grant| grant.0.to_string())
            .collect();
        self.named.extend(
            parent
                .named
                .into_iter()
                .filter(|grant| !named.contains(&grant.0.to_string())),
        );
        self.system.extend(
            parent
                .system
                .into_iter()
                .filter(|grant| !system.contains(&grant.0.to_string())),
        );
        let unset = |path: &ReadOnlyPath| self.unset.iter().any(|unset| unset.0 == path.0);
        let read_only = parent.read_only.into_iter().filter(|path| !unset(path));
        self.read_only.extend(read_only);
        let unchanged = parent.unchanged.into_iter().filter(|path| !unset(path));
        self.unchanged.extend(unchanged);
        self.state.extend(parent.state);
        self.tokens.extend(parent.tokens);
        self.transcripts.extend(parent.transcripts);
        self
    }

    /// Resolves the grants, and drops the ones below an unbound reference.
    pub(super) fn resolve(
        self,
        references: &References,
        network: Option<Network>,
    ) -> Result<Files, ProfileCause> {
        let sends = network.is_some_and(Network::sends);
        let mut hidden = self.hidden()?.unwrap_or_else(|| match sends {
            true => hidden_online(),
            false => Vec::new(),
        });
        hidden.sort();
        let named = self.named.into_iter();
        let mut named: Vec<_> = named.filter_map(|it| it.0.bind(references)).collect();
        let system = self.system.into_iter();
        let mut system: Vec<_> = system.filter_map(|it| it.0.bind(references)).collect();
        named.sort_by(|a, b| a.place.cmp(&b.place));
        system.sort_by(|a, b| a.place.cmp(&b.place));
        let mut read_only: Vec<_> = self.read_only.into_iter().map(|path| path.0).collect();
        read_only.sort();
        // Of two paths that differ only in the last slash, the one with it is kept, which is more specific.
        read_only.dedup_by(|later, kept| {
            let same = later.below == kept.below;
            kept.directory |= same && later.directory;
            same
        });
        let mut unchanged: Vec<_> = self.unchanged.into_iter().map(|path| path.0).collect();
        unchanged.sort();
        unchanged.dedup();
        let state = self.state.iter();
        let mut state: Vec<_> = state
            .filter_map(|path| Some(PathBuf::from(references.bind(path)?)))
            .filter(|path| path.parent().is_some())
            .collect();
        state.sort();
        state.dedup();
        if state.len() > MOST_STATE {
            let rule = format!("has {} directories; name at most {MOST_STATE}", state.len());
            return Err(broken("files.state", rule));
        }
        // Transcripts hold secrets that were pasted or printed, and a network could send them.
        let bound = |places: &[String]| {
            let bound = places.iter().filter_map(|place| references.bind(place));
            let bound: BTreeSet<PathBuf> = bound.map(PathBuf::from).collect();
            bound.into_iter().collect::<Vec<_>>()
        };
        let tokens = bound(&self.tokens);
        let transcripts = match sends {
            true => Vec::new(),
            false => bound(&self.transcripts),
        };
        let is_cache = |grant: &GrantSpec| {
            let cache = references.cache.as_deref();
            cache.is_some_and(
                |cache| matches!(&grant.place, GrantPlace::Path(path) if path.starts_with(cache)),
            )
        };
        let mut files = Files {
            cache: (references.cache.clone()).filter(|_| named.iter().any(is_cache)),
            hidden,
            named,
            read_only,
            state,
            system: system.into(),
            tokens,
            transcripts,
            unchanged,
        };
        files.keep_read_only(Path::new(WORKSPACE), |place| match place {
            GrantPlace::Entries(_) | GrantPlace::Path(_) | GrantPlace::Source { .. } => None,
            GrantPlace::Workspace { below, .. } => Some(Path::new(WORKSPACE).join(below)),
        });
        if !files.reach_workspace() {
            files.hidden.clear();
        }
        match files.below_writable() {
            None => Ok(files),
            Some((inner, outer)) => Err(ProfileCause::BelowWritable {
                inner: inner.place.to_string(),
                outer: outer.place.to_string(),
            }),
        }
    }
}

/// Returns the names that profiles with a network hide by default, sorted.
fn hidden_online() -> Vec<NamePattern> {
    let patterns = HIDDEN_ONLINE.into_iter().map(NamePattern::parse);
    patterns
        .map(|it| it.expect("a pattern of a name"))
        .collect()
}

impl FilesSection {
    /// Spells resolved files as a section of a profile with a network or without.
    pub(super) fn spelled(files: &Files, network: Network) -> Self {
        let is_default = files.hidden.is_empty() && (!network.sends() || !files.reach_workspace());
        let hidden = files.hidden.iter().map(ToString::to_string);
        Self {
            hidden: (!is_default).then(|| hidden.collect()),
            named: files.named.iter().map(|it| NamedGrant(it.into())).collect(),
            read_only: files.read_only.iter().cloned().map(ReadOnlyPath).collect(),
            state: (files.state.iter())
                .map(|path| path.display().to_string())
                .collect(),
            system: files
                .system
                .iter()
                .map(|it| SystemGrant(it.into()))
                .collect(),
            tokens: (files.tokens.iter())
                .map(|path| path.display().to_string())
                .collect(),
            transcripts: (files.transcripts.iter())
                .map(|path| path.display().to_string())
                .collect(),
            unchanged: files.unchanged.iter().cloned().map(ReadOnlyPath).collect(),
            unset: Vec::new(),
        }
    }
}

impl Files {
    /// Returns whether every request is granted the whole workspace.
    pub(super) fn grant_workspace(&self) -> bool {
        let whole = GrantPlace::Workspace {
            below: PathBuf::new(),
            if_bound: false,
        };
        self.named.iter().any(|grant| grant.place == whole)
    }

    /// Returns whether something of the workspace is granted.
    pub(crate) fn reach_workspace(&self) -> bool {
        let mut named = self.named.iter();
        named.any(|grant| matches!(grant.place, GrantPlace::Workspace { .. }))
    }

    /// Keeps the `read_only` and `unchanged` paths that a writable grant contains or that contain one. Others cannot be written anyway.
    /// `path` resolves a place, if it is known; `workspace` is the workspace's path.
    pub(crate) fn keep_read_only(
        &mut self,
        workspace: &Path,
        path: impl Fn(&GrantPlace) -> Option<PathBuf>,
    ) {
        let writable = self
            .named
            .iter()
            .filter(|grant| !grant.access.is_read_only());
        let writable: Vec<_> = writable.filter_map(|grant| path(&grant.place)).collect();
        let is_writable = |kept: &ReadOnly| {
            let kept = workspace.join(&kept.below);
            let meets = |grant: &PathBuf| kept.starts_with(grant) || grant.starts_with(&kept);
            writable.iter().any(meets)
        };
        self.read_only.retain(is_writable);
        self.unchanged.retain(is_writable);
    }

    /// Returns a read-only grant at or below a writable one, and the writable one. The kernel allows the union of all
    /// grants, so the read-only one would be misleading.
    pub(crate) fn below_writable(&self) -> Option<(&GrantSpec, &GrantSpec)> {
        let all = || self.system.iter().chain(&self.named);
        let writable = || all().filter(|it| !it.access.is_read_only());
        let paths = writable().filter_map(|it| match &it.place {
            GrantPlace::Path(path) => Some((&**path, it)),
            GrantPlace::Entries(_) | GrantPlace::Source { .. } | GrantPlace::Workspace { .. } => {
                None
            }
        });
        let paths = Outermost::new(paths);
        let above = |inner: &GrantSpec| match &inner.place {
            GrantPlace::Path(path) => paths.containing(path).copied(),
            GrantPlace::Entries(entries) => paths.containing(entries.directory()).copied(),
            unbound @ (GrantPlace::Source { .. } | GrantPlace::Workspace { .. }) => {
                writable().find(|outer| lies_in(unbound, &outer.place))
            }
        };
        all()
            .filter(|inner| inner.access.is_read_only())
            .find_map(|inner| above(inner).map(|outer| (inner, outer)))
    }
}

/// A path under `files.read_only`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
struct ReadOnlyPath(ReadOnly);

impl TryFrom<String> for ReadOnlyPath {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}` must be a path below `{WORKSPACE}` without `.`, `..`, `//` and other references; end directories with a \
                 slash"
            )
        };
        let rest = text.strip_prefix(WORKSPACE).ok_or_else(wrong)?;
        let (path, directory) = match rest.strip_suffix('/') {
            Some(path) => (path, true),
            None => (rest, false),
        };
        match below(path) {
            Some(below) if !below.as_os_str().is_empty() => Ok(Self(ReadOnly { below, directory })),
            Some(_) | None => Err(wrong()),
        }
    }
}

impl From<ReadOnlyPath> for String {
    fn from(ReadOnlyPath(path): ReadOnlyPath) -> Self {
        path.to_string()
    }
}

/// Returns whether one reference's place contains another. `${workspace}` and `${source}`, unknown until bound, contain only
/// places below themselves.
fn lies_in(inner: &GrantPlace, outer: &GrantPlace) -> bool {
    match (inner, outer) {
        (GrantPlace::Source { below: inner, .. }, GrantPlace::Source { below: outer, .. })
        | (
            GrantPlace::Workspace { below: inner, .. },
            GrantPlace::Workspace { below: outer, .. },
        ) => inner.starts_with(outer),
        (_, _) => false,
    }
}

/// A grant as a profile writes it.
#[derive(Clone, Debug)]
struct GrantEntry {
    access: Access,
    create: bool,
    optional: bool,
    spot: GrantSpot,
}

/// The location of a grant in a profile.
#[derive(Clone, Debug)]
enum GrantSpot {
    /// Below a directory of the user's.
    Below(Reference, PathBuf),
    /// Anywhere else.
    Elsewhere(GrantPlace),
}

impl GrantEntry {
    fn bind(self, references: &References) -> Option<GrantSpec> {
        let place = match self.spot {
            GrantSpot::Elsewhere(place) => place,
            GrantSpot::Below(reference, below) => {
                let base = references.place(reference)?;
                GrantPlace::Path(base.components().chain(below.components()).collect())
            }
        };
        Some(GrantSpec {
            access: self.access,
            create: self.create,
            optional: self.optional,
            place,
        })
    }
}

impl From<&GrantSpec> for GrantEntry {
    fn from(grant: &GrantSpec) -> Self {
        Self {
            access: grant.access,
            create: grant.create,
            optional: grant.optional,
            spot: GrantSpot::Elsewhere(grant.place.clone()),
        }
    }
}

/// The path of the grant.
impl fmt::Display for GrantEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.spot {
            GrantSpot::Below(reference, below) if below.as_os_str().is_empty() => {
                f.write_str(reference.spelling())
            }
            GrantSpot::Below(reference, below) => {
                write!(f, "{}/{}", reference.spelling(), below.display())
            }
            GrantSpot::Elsewhere(place) => place.fmt(f),
        }
    }
}

/// A grant under `files.named`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(try_from = "NamedEntry", into = "NamedEntry")]
struct NamedGrant(GrantEntry);

#[derive(Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
struct NamedEntry {
    /// Absolute path, or `${workspace}`, `${source}`, `${home}`, `${cache}`, or a path below one of these.
    path: String,
    /// Access to the path.
    access: Access,
    /// Whether a missing file is made, empty and for its user alone; with `access = "write-file"`. Default: `false`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    create: bool,
    /// Whether the grant is dropped where no workspace, or no source, is bound. Default: `false`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    if_bound: bool,
    /// Whether the path may be missing. Default: `false`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    optional: bool,
}

impl TryFrom<NamedEntry> for NamedGrant {
    type Error = String;

    fn try_from(entry: NamedEntry) -> Result<Self, String> {
        let below = |rest: &str| below(rest).ok_or_else(|| format!("`{}` {NORMAL}", entry.path));
        let if_bound = entry.if_bound;
        let behind = |reference| {
            let rest = entry.path.strip_prefix(reference)?;
            (rest.is_empty() || rest.starts_with('/')).then_some(rest)
        };
        let spot = match (behind(WORKSPACE), behind(SOURCE)) {
            (Some(rest), _) => GrantSpot::Elsewhere(GrantPlace::Workspace {
                below: below(rest)?,
                if_bound,
            }),
            (None, Some(_)) if !entry.access.is_read_only() => {
                return Err(format!(
                    "`{}` is a writable grant of a source; use access \"read\" or \"execute\"",
                    entry.path
                ));
            }
            (None, Some(rest)) => GrantSpot::Elsewhere(GrantPlace::Source {
                below: below(rest)?,
                if_bound,
            }),
            (None, None) if if_bound => {
                return Err(format!(
                    "`{}` has `if_bound`, which only `{WORKSPACE}` and `{SOURCE}` can have",
                    entry.path
                ));
            }
            (None, None) => spot(&entry.path, entry.access)?,
        };
        if entry.create && entry.access != Access::WriteFile {
            return Err(format!(
                "`{}` has `create`, which makes a file; use it only with access \"write-file\"",
                entry.path
            ));
        }
        Ok(Self(GrantEntry {
            access: entry.access,
            create: entry.create,
            optional: entry.optional,
            spot,
        }))
    }
}

/// Maximum number of directories under `files.state`. A view covers them all.
const MOST_STATE: usize = 32;

/// Returns whether a path may stand under `files.state`.
fn is_state_place(text: &str) -> bool {
    let rest = match Reference::split(text) {
        Some((Reference::Cache, _)) => return false,
        Some((Reference::Home, "")) => return true,
        Some((Reference::Home, rest)) => rest,
        None => text,
    };
    absolute(rest).is_ok_and(|path| path.parent().is_some())
}

/// Returns whether a path, absolute or below `${home}`, is as a list takes it.
fn is_below(text: &str, is_place: fn(&Path) -> bool) -> bool {
    let rest = match Reference::split(text) {
        Some((Reference::Cache, _)) => return false,
        Some((Reference::Home, rest)) => rest,
        None => text,
    };
    absolute(rest).is_ok_and(|path| is_place(&path))
}

/// Parses the path after a reference; `None` where it is no plain path.
fn below(rest: &str) -> Option<PathBuf> {
    if rest.is_empty() {
        return Some(PathBuf::new());
    }
    let path = absolute(rest).ok()?;
    Some(path.strip_prefix("/").unwrap_or(&path).to_owned())
}

/// Parses an absolute path, or one below a directory of the user's.
fn spot(text: &str, access: Access) -> Result<GrantSpot, String> {
    let Some((reference, rest)) = Reference::split(text) else {
        return Ok(GrantSpot::Elsewhere(GrantPlace::Path(grantable(text)?)));
    };
    let below = below(rest).ok_or_else(|| format!("`{text}` {NORMAL}"))?;
    let never = match reference {
        Reference::Cache => None,
        Reference::Home => never_of_home(&below, access.is_read_only()),
    };
    match never {
        Some(why) => Err(format!("`{text}` cannot be granted: {why}")),
        None => Ok(GrantSpot::Below(reference, below)),
    }
}

impl From<NamedGrant> for NamedEntry {
    fn from(NamedGrant(grant): NamedGrant) -> Self {
        let if_bound = matches!(
            grant.spot,
            GrantSpot::Elsewhere(
                GrantPlace::Source { if_bound: true, .. }
                    | GrantPlace::Workspace { if_bound: true, .. }
            )
        );
        Self {
            access: grant.access,
            create: grant.create,
            if_bound,
            optional: grant.optional,
            path: grant.to_string(),
        }
    }
}

/// A grant under `files.system`. Its path may be a link on the host (`/bin`).
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(try_from = "SystemEntry", into = "SystemEntry")]
struct SystemGrant(GrantEntry);

#[derive(Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
struct SystemEntry {
    /// Path, absolute or below `${home}`. The last part of an `optional` absolute path may have one `*`: each such entry at the
    /// start of a run is granted.
    path: String,
    /// Access to the path, never `"write"`.
    access: Access,
    /// Whether a host may lack the path. Default: `false`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    optional: bool,
}

impl TryFrom<SystemEntry> for SystemGrant {
    type Error = String;

    fn try_from(entry: SystemEntry) -> Result<Self, String> {
        if entry.access == Access::Write {
            let path = entry.path;
            return Err(format!(
                "`{path}` is writable, and a request could not take it away; move it to `files.named`"
            ));
        }
        let mut spot = spot(&entry.path, entry.access)?;
        if let GrantSpot::Below(Reference::Cache, _) = &spot {
            return Err(format!(
                "`{}` differs with each workspace; move it to `files.named`",
                entry.path
            ));
        }
        if let GrantSpot::Elsewhere(GrantPlace::Path(path)) = &spot {
            let entries = Entries::parse(path);
            if let Some(entries) = entries.map_err(|rule| format!("`{}` {rule}", entry.path))? {
                if !entry.access.is_read_only() || !entry.optional {
                    return Err(format!(
                        "`{}` has a `*`; grant it to read or to execute, with `optional = true`",
                        entry.path
                    ));
                }
                spot = GrantSpot::Elsewhere(GrantPlace::Entries(entries));
            }
        }
        Ok(Self(GrantEntry {
            access: entry.access,
            create: false,
            optional: entry.optional,
            spot,
        }))
    }
}

impl From<SystemGrant> for SystemEntry {
    fn from(SystemGrant(grant): SystemGrant) -> Self {
        Self {
            access: grant.access,
            optional: grant.optional,
            path: grant.to_string(),
        }
    }
}

/// Parses a path that a grant can name.
///
/// # Errors
///
/// Returns why no grant can be on it.
pub fn grantable(text: &str) -> Result<PathBuf, String> {
    let path = absolute(text)?;
    match ungrantable(&path) {
        Some(why) => Err(format!("`{text}` cannot be granted: {why}")),
        None => Ok(path),
    }
}

/// Returns why no grant can be on a path on any host.
pub(crate) fn ungrantable(path: &Path) -> Option<&'static str> {
    let is = |other: &str| path == Path::new(other);
    if is("/") {
        Some("everything lies below it; name what is needed")
    } else if path.starts_with("/proc") || path.starts_with("/sys") {
        Some("its files show and steer other processes and the kernel")
    } else if is("/dev") {
        Some("every device lies below it; name the ones that are needed")
    } else if is("/run") {
        Some("the sockets of every service lie below it; name what is needed")
    } else {
        None
    }
}

/// Reads an absolute path without `.`, `..`, empty parts, control characters and references.
pub(super) fn absolute(text: &str) -> Result<PathBuf, String> {
    let normal = text.strip_prefix('/').is_some_and(|rest| {
        (rest.is_empty() || rest.split('/').all(|part| !matches!(part, "" | "." | "..")))
            && !text.contains(char::is_control)
            && !text.contains("${")
    });
    if normal {
        Ok(text.into())
    } else {
        Err(format!("`{text}` {NORMAL}"))
    }
}

const NORMAL: &str = "must be an absolute path without `.`, `..`, `//`, a slash at the end and references other than a \
                      leading `${home}`, `${cache}` or, under `files.named`, `${workspace}` or `${source}`";
const SOURCE: &str = "${source}";
const WORKSPACE: &str = "${workspace}";
