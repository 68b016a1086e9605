//! Registry of a daemon's profiles: the shipped ones, and those of the operator's directories.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    fs::{self, File, Metadata, OpenOptions},
    io::{self, Read},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use nix::unistd::Uid;

use hookjail_base::{model::ProfileName, util::nearest::did_you_mean};

use super::{
    GrantPlace, HostSource, Network, Policy,
    egress::Egress,
    forbidden::Forbidden,
    profile::{self, ProfileCause, ProfileFile, references::References},
    requests::RequestRule,
    ways::Ways,
};

/// The profiles, resolved.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    /// The reasons why profiles of directories cannot be loaded, by their files' names.
    broken: BTreeMap<String, Arc<str>>,
    /// The reasons why profiles are not served that could be, by their names.
    excluded: BTreeMap<String, Arc<str>>,
    profiles: BTreeMap<ProfileName, Arc<Policy>>,
}

impl Registry {
    /// Returns the shipped profiles alone, for no user in particular.
    ///
    /// # Errors
    ///
    /// As [`Registry::load`]; a test checks that shipped profiles load.
    pub fn builtin() -> Result<Self, ProfileError> {
        Self::load(&[], &[], &References::default())
    }

    /// Reads the profiles of `dirs` (every `NAME.toml` in them) on top of the shipped ones. A profile replaces one of
    /// the same name that is shipped or in an earlier directory.
    ///
    /// # Errors
    ///
    /// Fails if any profile cannot be loaded, used or not, or a directory cannot be read. Directories and files must
    /// not be links, must belong to root or the effective user, and must not be writable by others. No grant may reach
    /// one of the `forbidden` paths: the daemon's own state, socket and configuration.
    pub fn load(
        dirs: &[PathBuf],
        forbidden: &[PathBuf],
        references: &References,
    ) -> Result<Self, ProfileError> {
        let (registry, errors) = Self::collect(dirs, &[], forbidden, references)?;
        match errors.into_iter().next() {
            None => Ok(registry),
            Some((_, error)) => Err(error),
        }
    }

    /// Loads the profiles of `dirs` like [`Registry::load`], with profiles on top that no directory has. A file that cannot be
    /// loaded, and each profile that extends it, is not there, a shipped one of the same name neither: [`Registry::broken`] has why.
    ///
    /// # Errors
    ///
    /// Fails if a shipped or proposed profile cannot be loaded by its own fault, or a directory cannot be read.
    pub fn load_with(
        dirs: &[PathBuf],
        proposed: &[(String, String)],
        forbidden: &[PathBuf],
        references: &References,
    ) -> Result<Self, ProfileError> {
        let (mut registry, errors) = Self::collect(dirs, proposed, forbidden, references)?;
        for (name, error) in errors {
            if proposed.iter().any(|(proposed, _)| *proposed == name) {
                return Err(error);
            }
            registry.broken.insert(name, error.in_a_line().into());
        }
        Ok(registry)
    }

    /// Loads what can be loaded. Returns the errors of the others, by their names.
    fn collect(
        dirs: &[PathBuf],
        proposed: &[(String, String)],
        forbidden: &[PathBuf],
        references: &References,
    ) -> Result<(Self, BTreeMap<String, ProfileError>), ProfileError> {
        let mut sources = BTreeMap::new();
        // Written for every host: one that reaches a daemon's own place on this host is left out.
        let mut yielding = BTreeSet::new();
        for (name, text) in SHIPPED {
            let source = ProfileSource::parse(format!("{name} (shipped)"), name, text)?;
            yielding.extend(source.file.optional_system(references));
            sources.insert(name.to_owned(), Ok(source));
        }
        for dir in dirs {
            sources.extend(read_dir(dir)?);
        }
        for (name, text) in proposed {
            let source = ProfileSource::parse(format!("{name} (proposed)"), name, text)?;
            sources.insert(name.clone(), Ok(source));
        }
        let (read, errors) = apart(sources);
        let forbidden = Forbidden::locate(forbidden).map_err(|error| ProfileError {
            cause: error.into(),
            line: None,
            origin: "forbidden paths".to_owned(),
        })?;
        let mut reached = BTreeMap::new();
        let mut resolve = |source: &ProfileSource| {
            let (mut file, line) = inherit(source, &read, &errors)?;
            // A part lacks keys: to validate it, it is put on top of a complete profile.
            if file.is_part() {
                let whole = find(BASE, &read, &errors)?;
                file = file.with_parent(inherit(whole, &read, &errors)?.0);
            }
            let mut policy = Policy {
                line,
                ..file.resolve(source.name.clone(), references)?
            };
            check_grants(&mut policy, &forbidden, &mut reached, &yielding)?;
            Ok(policy)
        };
        let mut profiles = BTreeMap::new();
        let mut unresolved = BTreeMap::new();
        for (name, source) in &read {
            match resolve(source) {
                Ok(_) if source.file.is_part() => {}
                Ok(policy) => {
                    profiles.insert(name.clone(), Arc::new(policy));
                }
                Err(cause) => {
                    unresolved.insert(name.to_string(), source.error(cause));
                }
            }
        }
        let mut errors = errors;
        errors.extend(unresolved);
        let registry = Self {
            profiles,
            ..Self::default()
        };
        Ok((registry, errors))
    }

    /// Leaves these profiles alone.
    ///
    /// # Errors
    ///
    /// Returns a name that no profile has.
    pub fn keep<'a>(&mut self, names: &'a [ProfileName]) -> Result<(), &'a ProfileName> {
        match names.iter().find(|name| !self.has(name)) {
            Some(unknown) => Err(unknown),
            None => {
                self.profiles.retain(|name, _| names.contains(name));
                self.broken
                    .retain(|name, _| names.iter().any(|kept| kept.as_str() == name));
                Ok(())
            }
        }
    }

    /// Leaves alone the profiles whose hosts lie inside these rules; [`Registry::absence`] names the rule that does not.
    pub fn keep_within(&mut self, bound: &[Egress]) {
        let excluded = &mut self.excluded;
        self.profiles.retain(|name, policy| {
            let why = beyond(policy, bound);
            let is_kept = why.is_none();
            excluded.extend(why.map(|why| (name.to_string(), why)));
            is_kept
        });
    }

    /// Adds hosts to a profile with `network = "named"`; their names may resolve to the addresses of private networks. Without
    /// hosts it is left out, and [`Registry::absence`] has the reason. Where `can_name` is false, it gets the rights of another.
    pub fn post_to(
        &mut self,
        name: &ProfileName,
        hosts: &[Egress],
        can_name: impl FnOnce(&Policy) -> bool,
        otherwise: &ProfileName,
    ) {
        let policy = self.profiles.get(name);
        let Some(policy) = policy.filter(|it| it.network == Network::Named) else {
            return;
        };
        let policy = match (hosts, self.profiles.get(otherwise)) {
            ([], _) => None,
            (_, Some(other)) if !can_name(policy) => Some(Policy {
                line: Arc::clone(&policy.line),
                name: policy.name.clone(),
                ..Policy::clone(other)
            }),
            _ => Some(profile::with_hosts(policy, hosts)),
        };
        match policy {
            Some(policy) => {
                self.profiles.insert(name.clone(), Arc::new(policy));
            }
            None => {
                self.profiles.remove(name);
                self.excluded.insert(name.to_string(), NO_POSTS.into());
            }
        }
    }

    /// Lets a profile with `network = "named"` reach any host, or those inside `bound`.
    pub fn open(&mut self, name: &ProfileName, bound: Option<&[Egress]>) {
        let named = self.profiles.get_mut(name);
        let Some(policy) = named.filter(|it| it.network == Network::Named) else {
            return;
        };
        let rules = Arc::make_mut(&mut Arc::make_mut(policy).egress);
        match bound {
            Some(bound) => rules.allowed.extend_from_slice(bound),
            None => rules.source = HostSource::Hook,
        }
    }

    /// Sets the ways to the hosts of all profiles. Leaves out profiles with a secret that is unknown; [`Registry::absence`] names it.
    pub fn reach_by(&mut self, ways: &Arc<Ways>) {
        let excluded = &mut self.excluded;
        self.profiles.retain(|name, policy| {
            let mut secrets = policy.egress.requests.iter().filter_map(RequestRule::secret);
            let unknown = secrets.find(|(secret, _)| ways.secret(secret).is_none());
            let why = unknown.map(|(secret, _)| {
                let why = format!(
                    "`requests` names the secret `{secret}`, which no `[[secret]]` of the configuration has with one value; add one"
                );
                (name.to_string(), why.into())
            });
            let is_kept = why.is_none();
            excluded.extend(why);
            is_kept
        });
        let named = self.profiles.values_mut();
        for policy in named.filter(|it| it.network == Network::Named) {
            let policy = Arc::make_mut(policy);
            Arc::make_mut(&mut policy.egress).ways = Arc::clone(ways);
        }
    }

    /// Returns whether there is a profile of this name, even one that cannot be used.
    pub fn has(&self, name: &ProfileName) -> bool {
        let name_text = name.as_str();
        self.find(name).is_some()
            || self.broken.contains_key(name_text)
            || self.excluded.contains_key(name_text)
    }

    /// Iterates over the names of the files that cannot be loaded, each with file, line and cause in one line.
    pub fn broken(&self) -> impl Iterator<Item = (&str, &str)> {
        self.broken.iter().map(|(name, why)| (&**name, &**why))
    }

    /// Returns in one line why there is no profile of this name.
    pub fn absence(&self, name: &str) -> String {
        match self.broken.get(name).or_else(|| self.excluded.get(name)) {
            Some(why) => format!("profile `{name}` cannot be used: {why}"),
            None => {
                let names = self.profiles.keys().map(ProfileName::as_str);
                let meant = did_you_mean(name, names);
                format!("there is no profile `{name}`{meant}; see `hookjail profile list`")
            }
        }
    }

    /// Returns the profile of exactly this name.
    pub fn find(&self, name: &ProfileName) -> Option<&Arc<Policy>> {
        self.profiles.get(name)
    }

    /// Iterates over all profiles by name.
    pub fn iter(&self) -> impl Iterator<Item = &Policy> {
        self.profiles.values().map(Arc::as_ref)
    }

    /// Returns the profiles like [`Registry::iter`], to be shared.
    pub fn shared(&self) -> impl Iterator<Item = &Arc<Policy>> {
        self.profiles.values()
    }
}

const NO_POSTS: &str = "no hook is posted by it; name URLs in `http.allow`";

/// Returns why a policy reaches more than these hosts, if it does.
fn beyond(policy: &Policy, bound: &[Egress]) -> Option<Arc<str>> {
    match policy.network {
        Network::None => None,
        Network::Outbound => Some(
            "`network = \"outbound\"` is beyond `egress.allow`; set `network = \"named\"`".into(),
        ),
        Network::Named => {
            let is_within = |rule: &Egress| {
                rule.is_of_no_host() || bound.iter().any(|outer| rule.is_within(outer))
            };
            let rule = policy.egress.allowed.iter().find(|it| !is_within(it))?;
            Some(format!("`{rule}` is beyond `egress.allow`; take it out of `egress`").into())
        }
    }
}

/// Error of loading a profile.
#[derive(Debug, thiserror::Error)]
#[error("cannot load profile `{origin}`{}", line_words(*line))]
pub struct ProfileError {
    /// The cause.
    #[source]
    pub cause: ProfileCause,
    /// The line of the file at which the cause stands, from 1, where it has one.
    pub line: Option<usize>,
    /// The file, the directory or the shipped profile.
    pub origin: String,
}

impl ProfileError {
    /// Returns file, line and cause in one line.
    fn in_a_line(&self) -> String {
        let Self {
            cause,
            line,
            origin,
        } = self;
        let detail = cause.detail().map(|detail| format!(": {detail}"));
        let detail = detail.unwrap_or_default();
        format!("`{origin}`{}: {cause}{detail}", line_words(*line))
    }
}

fn line_words(line: Option<usize>) -> String {
    line.map_or_else(String::new, |line| format!(", line {line}"))
}

/// A profile file and its origin.
#[derive(Debug)]
struct ProfileSource {
    file: ProfileFile,
    name: ProfileName,
    origin: String,
    text: String,
}

impl ProfileSource {
    fn parse(origin: String, name: &str, text: &str) -> Result<Self, ProfileError> {
        let Some(name) = ProfileName::parse(name) else {
            return Err(ProfileError {
                cause: ProfileCause::Name,
                line: None,
                origin,
            });
        };
        match ProfileFile::parse(text) {
            Ok(file) => Ok(Self {
                file,
                name,
                origin,
                text: text.to_owned(),
            }),
            Err(cause) => Err(ProfileError {
                line: cause.line(text),
                cause,
                origin,
            }),
        }
    }

    fn error(&self, cause: ProfileCause) -> ProfileError {
        ProfileError {
            line: cause.line(&self.text),
            cause,
            origin: self.origin.clone(),
        }
    }
}

/// Parts what could be read from what could not.
fn apart(
    sources: BTreeMap<String, Result<ProfileSource, ProfileError>>,
) -> (
    BTreeMap<ProfileName, ProfileSource>,
    BTreeMap<String, ProfileError>,
) {
    let mut errors = BTreeMap::new();
    let mut read = BTreeMap::new();
    for (name, source) in sources {
        match source {
            Ok(source) => {
                read.insert(source.name.clone(), source);
            }
            Err(error) => {
                errors.insert(name, error);
            }
        }
    }
    (read, errors)
}

/// Returns a profile or part by its name.
fn find<'a>(
    name: &str,
    sources: &'a BTreeMap<ProfileName, ProfileSource>,
    errors: &BTreeMap<String, ProfileError>,
) -> Result<&'a ProfileSource, ProfileCause> {
    let found = ProfileName::parse(name).and_then(|name| sources.get(&name));
    found.ok_or_else(|| match errors.get(name) {
        Some(error) => ProfileCause::BrokenParent {
            name: name.to_owned(),
            why: error.in_a_line(),
        },
        None => ProfileCause::UnknownParent(name.to_owned()),
    })
}

/// Merges a profile with all profiles and parts that it extends. Returns the names of the profiles, its own first.
fn inherit(
    source: &ProfileSource,
    sources: &BTreeMap<ProfileName, ProfileSource>,
    errors: &BTreeMap<String, ProfileError>,
) -> Result<(ProfileFile, Arc<[ProfileName]>), ProfileCause> {
    let mut line = vec![source];
    let mut youngest = source;
    // The files to merge, the youngest first.
    let mut layers = Vec::new();
    loop {
        layers.push(&youngest.file);
        let Some((parent, parts)) = youngest.file.extends().split_first() else {
            break;
        };
        for name in parts.iter().rev() {
            let part = find(name, sources, errors)?;
            if !part.file.is_part() {
                return Err(ProfileCause::Parent {
                    name: name.clone(),
                    problem: "is a profile; name parts after the first name",
                });
            }
            layers.push(&part.file);
        }
        youngest = find(parent, sources, errors)?;
        if youngest.file.is_part() {
            return Err(ProfileCause::Parent {
                name: parent.clone(),
                problem: "is a part; name a profile before it",
            });
        }
        let circle = line.iter().any(|seen| seen.name == youngest.name);
        line.push(youngest);
        if circle {
            let names: Vec<String> = line
                .iter()
                .map(|source| format!("`{}`", source.name))
                .collect();
            return Err(ProfileCause::Circle(names.join(" → ")));
        }
    }
    let names = line.iter().map(|source| source.name.clone()).collect();
    let mut layers = layers.into_iter().rev().cloned();
    let base = layers.next().unwrap_or_else(|| source.file.clone());
    Ok((
        layers.fold(base, |parent, child| child.with_parent(parent)),
        names,
    ))
}

/// Checks that no grant reaches a forbidden path. Grants that `yielding` names are left out where they do. Profiles have most
/// grants in common: `reached` has the results of the grants that were checked.
fn check_grants(
    policy: &mut Policy,
    forbidden: &Forbidden,
    reached: &mut BTreeMap<GrantPlace, Option<PathBuf>>,
    yielding: &BTreeSet<GrantPlace>,
) -> Result<(), ProfileCause> {
    let mut left_out = BTreeSet::new();
    for grant in policy.files.system.iter().chain(&policy.files.named) {
        if !reached.contains_key(&grant.place) {
            // The paths of `${workspace}` and `${source}` are known only when a request binds them.
            let found = match &grant.place {
                GrantPlace::Entries(entries) => forbidden.reached_by_entries(entries)?,
                GrantPlace::Path(path) => forbidden.reached_by(path)?,
                GrantPlace::Source { .. } | GrantPlace::Workspace { .. } => None,
            };
            if let Some(forbidden) = found
                && yielding.contains(&grant.place)
            {
                tracing::warn!(
                    grant = %grant.place,
                    leads_to = %forbidden.display(),
                    "a shipped grant is left out, as it leads to the daemon's own; remove the link"
                );
            }
            reached.insert(grant.place.clone(), found.map(Path::to_owned));
        }
        if let Some(forbidden) = &reached[&grant.place] {
            if grant.optional && yielding.contains(&grant.place) {
                left_out.insert(grant.place.clone());
                continue;
            }
            return Err(ProfileCause::Forbidden {
                forbidden: forbidden.clone(),
                grant: grant.place.to_string().into(),
            });
        }
    }
    if !left_out.is_empty() {
        let system = policy.files.system.iter();
        let kept = system.filter(|grant| !left_out.contains(&grant.place));
        policy.files.system = kept.cloned().collect();
    }
    Ok(())
}

/// Reads the profiles of a directory, by their files' names.
fn read_dir(
    dir: &Path,
) -> Result<BTreeMap<String, Result<ProfileSource, ProfileError>>, ProfileError> {
    let failed = |cause: ProfileCause| ProfileError {
        cause,
        line: None,
        origin: dir.display().to_string(),
    };

    let metadata = fs::symlink_metadata(dir).map_err(|error| failed(error.into()))?;
    if !metadata.is_dir() {
        return Err(failed(ProfileCause::Insecure(
            "the path is not a directory, or is a link to one; name the directory itself",
        )));
    }
    check_owner(&metadata).map_err(failed)?;

    let mut sources = BTreeMap::new();
    for entry in fs::read_dir(dir).map_err(|error| failed(error.into()))? {
        let path = entry.map_err(|error| failed(error.into()))?.path();
        if path.extension() != Some(OsStr::new("toml")) {
            continue;
        }
        let name = path.file_stem().unwrap_or_default();
        let name = name.to_string_lossy().into_owned();
        let origin = path.display().to_string();
        let source = match read_file(&path) {
            Ok(text) => ProfileSource::parse(origin, &name, &text),
            Err(cause) => Err(ProfileError {
                cause,
                line: None,
                origin,
            }),
        };
        sources.insert(name, source);
    }
    Ok(sources)
}

/// Reads a file that only root and the effective user can write. The file is opened once and checked through the descriptor
/// (TOCTOU).
fn read_file(path: &Path) -> Result<String, ProfileCause> {
    // Without O_NONBLOCK, opening a named pipe would wait for a writer.
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path);
    let file: File = match opened {
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => {
            return Err(ProfileCause::Insecure(NOT_A_FILE));
        }
        other => other?,
    };
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(ProfileCause::Insecure(NOT_A_FILE));
    }
    check_owner(&metadata)?;

    let mut text = String::new();
    file.take(MAX_FILE + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_FILE {
        return Err(io::Error::from(io::ErrorKind::FileTooLarge).into());
    }
    Ok(text)
}

fn check_owner(metadata: &Metadata) -> Result<(), ProfileCause> {
    if metadata.uid() != 0 && metadata.uid() != Uid::effective().as_raw() {
        return Err(ProfileCause::Insecure(
            "the owner is neither root nor the daemon's user; `chown` it",
        ));
    }
    if metadata.mode() & 0o022 != 0 {
        return Err(ProfileCause::Insecure(
            "its group or everyone can write it; `chmod go-w` it",
        ));
    }
    Ok(())
}

/// Far more than any profile needs.
const MAX_FILE: u64 = 1 << 20;
const NOT_A_FILE: &str =
    "the path is not a regular file, or is a link to one; put the file itself there";
/// The shipped profile that extends nothing.
const BASE: &str = "strict";
const SHIPPED: [(&str, &str); 22] = [
    (
        "agents-home",
        include_str!("../../../../sandbox-profiles/agents-home.toml"),
    ),
    (
        "caches",
        include_str!("../../../../sandbox-profiles/caches.toml"),
    ),
    (
        "certificates",
        include_str!("../../../../sandbox-profiles/certificates.toml"),
    ),
    (
        "claude-code-home",
        include_str!("../../../../sandbox-profiles/claude-code-home.toml"),
    ),
    (
        "develop",
        include_str!("../../../../sandbox-profiles/develop.toml"),
    ),
    (
        "develop-online",
        include_str!("../../../../sandbox-profiles/develop-online.toml"),
    ),
    (
        "develop-open-git",
        include_str!("../../../../sandbox-profiles/develop-open-git.toml"),
    ),
    (
        "github",
        include_str!("../../../../sandbox-profiles/github.toml"),
    ),
    (
        "git-identity",
        include_str!("../../../../sandbox-profiles/git-identity.toml"),
    ),
    (
        "machine",
        include_str!("../../../../sandbox-profiles/machine.toml"),
    ),
    (
        "network",
        include_str!("../../../../sandbox-profiles/network.toml"),
    ),
    (
        "online",
        include_str!("../../../../sandbox-profiles/online.toml"),
    ),
    (
        "otel-local",
        include_str!("../../../../sandbox-profiles/otel-local.toml"),
    ),
    (
        "pipeline",
        include_str!("../../../../sandbox-profiles/pipeline.toml"),
    ),
    (
        "post",
        include_str!("../../../../sandbox-profiles/post.toml"),
    ),
    (
        "project-secrets",
        include_str!("../../../../sandbox-profiles/project-secrets.toml"),
    ),
    (
        "source-env",
        include_str!("../../../../sandbox-profiles/source-env.toml"),
    ),
    (
        "strict",
        include_str!("../../../../sandbox-profiles/strict.toml"),
    ),
    (
        "toolchains",
        include_str!("../../../../sandbox-profiles/toolchains.toml"),
    ),
    (
        "workspace-ro",
        include_str!("../../../../sandbox-profiles/workspace-ro.toml"),
    ),
    (
        "workspace-rw",
        include_str!("../../../../sandbox-profiles/workspace-rw.toml"),
    ),
    (
        "worktree",
        include_str!("../../../../sandbox-profiles/worktree.toml"),
    ),
];

#[cfg(test)]
mod tests;
