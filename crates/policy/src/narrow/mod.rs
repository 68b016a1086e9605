//! Binds and narrows a policy for one request: never more than the profile allows.
//!
//! Pure: paths are compared as text. Links are refused later, when the path is opened.

use std::{
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use hookjail_base::{
    model::{Narrow, ProfileName},
    refusal::Reason,
};

use super::{
    Access, EgressRules, Files, GrantPlace, GrantSpec, Network, Policy, Spawn, WorkingDir,
    egress::{Egress, EgressProblem},
    profile::grants::ungrantable,
    transcripts,
};

/// The values of a request's references.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bindings<'a> {
    /// The run's own cache. Without one, `${cache}` stands for the directory of all caches.
    pub cache: Option<&'a Path>,
    /// `${source}`.
    pub source: Option<&'a Path>,
    /// The transcripts that the event names.
    pub transcripts: &'a [PathBuf],
    /// `${workspace}`.
    pub workspace: Option<&'a Path>,
    /// Whether every grant of the workspace falls away: the run's place may be none, and nothing is bound.
    pub workspace_withheld: bool,
}

impl<'a> Bindings<'a> {
    /// Binds the workspace alone, if there is one.
    pub const fn workspace(workspace: Option<&'a Path>) -> Self {
        Self {
            cache: None,
            source: None,
            transcripts: &[],
            workspace,
            workspace_withheld: false,
        }
    }
}

/// Applies a request's bindings and restrictions to a policy. All named grants of the result are absolute paths.
///
/// A path under `narrow.read` keeps read and execute as far as the grant it lies in has them; one under `narrow.write`
/// is writable. An empty list leaves the profile's grants of that kind as they are. A hook whose workspace is no longer
/// granted starts in its scratch directory.
///
/// # Errors
///
/// Fails if the profile needs a workspace or source and none is bound, or the bound one cannot be granted. Fails also if the
/// request exceeds the profile, or a read-only grant would be below a writable one.
pub fn narrow(policy: &Policy, bound: Bindings<'_>, narrow: &Narrow) -> Result<Policy, Widened> {
    let granted = bind(policy, bound)?;

    let read = pick(policy, &granted, List::Read, &narrow.read)?;
    let write = pick(policy, &granted, List::Write, &narrow.write)?;
    let (profile_read, profile_write): (Vec<_>, Vec<_>) = granted
        .into_iter()
        .partition(|grant| grant.access.is_read_only());
    let read = if narrow.read.is_empty() {
        profile_read
    } else {
        read
    };
    let mut named = if narrow.write.is_empty() {
        profile_write
    } else {
        write
    };
    for grant in read {
        // A path that is also listed for writing, or listed twice, adds nothing.
        if !named.iter().any(|other| other.place == grant.place) {
            named.push(grant);
        }
    }
    if narrow.without_named_grants {
        named.clear();
    }
    // A request that lists what is read reads nothing else.
    let is_open = narrow.read.is_empty() && !narrow.without_named_grants;
    named.sort();
    named.dedup();

    let mut narrowed = Policy {
        files: Files {
            cache: policy.files.cache.clone(),
            hidden: policy.files.hidden.clone(),
            named,
            read_only: policy.files.read_only.clone(),
            state: policy.files.state.clone(),
            system: policy.files.system.clone(),
            tokens: policy.files.tokens.clone(),
            transcripts: Vec::new(),
            unchanged: policy.files.unchanged.clone(),
        },
        ..policy.clone()
    };
    match bound.workspace {
        None => {
            narrowed.files.hidden.clear();
            narrowed.files.read_only.clear();
            narrowed.files.unchanged.clear();
        }
        Some(workspace) => narrowed
            .files
            .keep_read_only(workspace, |place| match place {
                GrantPlace::Path(path) => Some(path.clone()),
                GrantPlace::Entries(_)
                | GrantPlace::Source { .. }
                | GrantPlace::Workspace { .. } => None,
            }),
    }
    // Without them the grants are those that were bound, or none.
    if !narrow.read.is_empty() || !narrow.write.is_empty() {
        check_below_writable(&narrowed.files, "narrow.read")?;
    }
    if let Some(bytes) = narrow.output_bytes {
        if bytes > policy.limits.output_bytes {
            let (allowed, profile) = (policy.limits.output_bytes, policy.name.clone());
            return Err(Widened::Output {
                allowed,
                asked: bytes,
                profile,
            });
        }
        narrowed.limits.output_bytes = bytes;
    }
    if !narrow.egress.is_empty() {
        narrowed.egress = Arc::new(kept_hosts(policy, &narrow.egress)?);
    }
    if narrow.without_network {
        narrowed.network = Network::None;
    }
    if narrow.without_spawn {
        narrowed.spawn = Spawn::Threads;
    }
    if !bound.workspace.is_some_and(|workspace| {
        narrowed
            .files
            .named
            .iter()
            .any(|grant| covers(grant, workspace))
    }) {
        narrowed.working_dir = WorkingDir::Scratch;
    }
    if is_open {
        let places = policy.files.transcripts.iter();
        let opened = places.flat_map(|place| {
            let named = bound.transcripts.iter();
            named.filter_map(|transcript| transcripts::opened(place, transcript))
        });
        narrowed.files.transcripts = opened.collect();
    }
    if let (Some(all), Some(cache)) = (&policy.files.cache, bound.cache) {
        bind_cache(&mut narrowed, all, cache);
    }
    Ok(narrowed)
}

/// Returns the rules of a request, each of which lies inside one of the policy's.
fn kept_hosts(policy: &Policy, requested: &[String]) -> Result<EgressRules, Widened> {
    let kept = requested.iter().enumerate().map(|(index, text)| {
        let rule: Egress = text.parse().map_err(|problem| Widened::NoRule {
            field: format!("narrow.egress[{index}]"),
            problem,
            text: text.clone(),
        })?;
        let is_inside = policy.egress.allowed.iter().any(|it| rule.is_within(it));
        match is_inside {
            true => Ok(rule),
            false => Err(Widened::Host {
                field: format!("narrow.egress[{index}]"),
                profile: policy.name.clone(),
                rule,
            }),
        }
    });
    let mut allowed = kept.collect::<Result<Vec<_>, _>>()?;
    allowed.sort();
    allowed.dedup();
    Ok(EgressRules {
        allowed,
        ..EgressRules::clone(&policy.egress)
    })
}

/// Makes the grants and the variables that name the directory of all caches name one of them.
fn bind_cache(policy: &mut Policy, all: &Path, cache: &Path) {
    let bound = |path: &Path| {
        Some(
            cache
                .join(path.strip_prefix(all).ok()?)
                .components()
                .collect(),
        )
    };
    for grant in &mut policy.files.named {
        if let GrantPlace::Path(path) = &mut grant.place
            && let Some(bound) = bound(path)
        {
            *path = bound;
            // A dry run makes none.
            grant.optional = true;
        }
    }
    let environment = Arc::make_mut(&mut policy.environment);
    for path in &mut environment.path {
        *path = bound(path).unwrap_or_else(|| path.clone());
    }
    for value in environment.set.values_mut() {
        let bound: Option<PathBuf> = bound(Path::new(value));
        if let Some(bound) = bound.as_deref().and_then(Path::to_str) {
            bound.clone_into(value);
        }
    }
}

/// Error of a request that exceeds its profile, or lacks a binding for it.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Widened {
    /// A read-only grant would lie below a writable one.
    #[error(
        "`{field}` leaves `{inner}` read-only below the writable `{outer}`, which allows writing it; choose paths that \
         do not contain each other"
    )]
    BelowWritable {
        /// The field of the request.
        field: &'static str,
        /// The read-only grant.
        inner: String,
        /// The writable one.
        outer: String,
    },
    /// No rule of the profile covers a host.
    #[error("`{field}` is `{rule}`, and no rule in `egress` of profile `{profile}` covers it")]
    Host {
        /// The field of the request.
        field: String,
        /// The profile.
        profile: ProfileName,
        /// The rule in the request.
        rule: Egress,
    },
    /// The text is no rule of `egress`. Not a widening, but found here.
    #[error("`{field}`, `{text}`, {problem}")]
    NoRule {
        /// The field of the request.
        field: String,
        /// The problem.
        problem: EgressProblem,
        /// The text in the request.
        text: String,
    },
    /// The request asks for a larger output limit.
    #[error(
        "`narrow.output_bytes` asks for {asked}, and profile `{profile}` allows {allowed} (`limits.output`)"
    )]
    Output {
        /// The profile's limit.
        allowed: u64,
        /// The number in the request.
        asked: u64,
        /// The profile.
        profile: ProfileName,
    },
    /// No grant contains the path, or none with the needed access.
    #[error(
        "`{field}` asks for `{path}`, which lies in none of profile `{profile}`'s {grants} (`files.named`)"
    )]
    Path {
        /// The field of the request.
        field: String,
        /// The kind of grants that could contain it.
        grants: &'static str,
        /// The path in the request.
        path: PathBuf,
        /// The profile.
        profile: ProfileName,
    },
    /// A workspace or source that the profile needs is missing or wrong. Not a widening, but found here.
    #[error("`{field}` {problem}")]
    Unbound {
        /// The field of the request.
        field: &'static str,
        /// The problem.
        problem: String,
    },
}

impl Widened {
    /// Returns the stable reason: a directory that is missing or wrong is not a widening.
    pub const fn reason(&self) -> Reason {
        match self {
            Self::BelowWritable { .. }
            | Self::Host { .. }
            | Self::Output { .. }
            | Self::Path { .. } => Reason::ProfileWidened,
            Self::NoRule { .. } | Self::Unbound { .. } => Reason::InvalidRequest,
        }
    }

    /// Returns the path of the field to blame.
    pub fn field(&self) -> &str {
        match self {
            Self::BelowWritable { field, .. } | Self::Unbound { field, .. } => field,
            Self::Output { .. } => "narrow.output_bytes",
            Self::Host { field, .. } | Self::NoRule { field, .. } | Self::Path { field, .. } => {
                field
            }
        }
    }
}

/// Turns the named grants into absolute paths.
fn bind(policy: &Policy, bound: Bindings<'_>) -> Result<Vec<GrantSpec>, Widened> {
    let mut named = Vec::new();
    for grant in &policy.files.named {
        let (field, directory, below, may_lack) = match &grant.place {
            GrantPlace::Entries(_) | GrantPlace::Path(_) => {
                named.push(grant.clone());
                continue;
            }
            GrantPlace::Source { below, if_bound } => {
                ("hook.source", bound.source, below, *if_bound)
            }
            GrantPlace::Workspace { below, if_bound } => {
                let may_lack = *if_bound || bound.workspace_withheld;
                (WORKSPACE, bound.workspace, below, may_lack)
            }
        };
        let path = match directory {
            Some(directory) => bound_path(field, directory)?
                .components()
                .chain(below.components())
                .collect(),
            None if may_lack => continue,
            None => {
                let problem = format!(
                    "is not set, and profile `{}` grants `{}`; name it, on the command line by `--{} DIR`",
                    policy.name,
                    grant.place,
                    field.trim_start_matches("hook.")
                );
                return Err(Widened::Unbound { field, problem });
            }
        };
        named.push(GrantSpec {
            access: grant.access,
            create: grant.create,
            optional: grant.optional,
            place: GrantPlace::Path(path),
        });
    }
    let files = Files {
        cache: None,
        hidden: Vec::new(),
        named,
        read_only: Vec::new(),
        state: Vec::new(),
        system: policy.files.system.clone(),
        tokens: Vec::new(),
        transcripts: Vec::new(),
        unchanged: Vec::new(),
    };
    check_below_writable(&files, WORKSPACE)?;
    Ok(files.named)
}

fn bound_path(field: &'static str, directory: &Path) -> Result<PathBuf, Widened> {
    let problem = match normal(directory) {
        None => "must be an absolute path without `..`".to_owned(),
        Some(path) => match ungrantable(&path) {
            None => return Ok(path),
            Some(why) => format!("cannot be `{}`: {why}", path.display()),
        },
    };
    Err(Widened::Unbound { field, problem })
}

fn check_below_writable(files: &Files, field: &'static str) -> Result<(), Widened> {
    match files.below_writable() {
        None => Ok(()),
        Some((inner, outer)) => Err(Widened::BelowWritable {
            field,
            inner: inner.place.to_string(),
            outer: outer.place.to_string(),
        }),
    }
}

/// One of the two lists of a request.
#[derive(Clone, Copy)]
enum List {
    Read,
    Write,
}

impl List {
    /// Returns the access that a path under this list keeps of a grant.
    const fn keeps(self, access: Access) -> Option<Access> {
        match (self, access) {
            // Write access includes execution: without writing, `Execute` remains, as in `workspace-ro`.
            (Self::Read, Access::Execute | Access::Write) => Some(Access::Execute),
            (Self::Read, Access::Read) => Some(Access::Read),
            // Reading a tree is more than reading one file.
            (Self::Read, Access::WriteFile) | (Self::Write, Access::Execute | Access::Read) => None,
            (Self::Write, Access::Write | Access::WriteFile) => Some(access),
        }
    }

    const fn field(self) -> &'static str {
        match self {
            Self::Read => "narrow.read",
            Self::Write => "narrow.write",
        }
    }

    const fn grants(self) -> &'static str {
        match self {
            Self::Read => "readable grants",
            Self::Write => "writable grants",
        }
    }
}

/// Finds the access to each requested path: the most that a grant containing it allows.
fn pick(
    policy: &Policy,
    granted: &[GrantSpec],
    list: List,
    requested: &[PathBuf],
) -> Result<Vec<GrantSpec>, Widened> {
    let mut picked = Vec::new();
    for (index, path) in requested.iter().enumerate() {
        let outside = || Widened::Path {
            field: format!("{}[{index}]", list.field()),
            grants: list.grants(),
            path: path.clone(),
            profile: policy.name.clone(),
        };
        // `/granted/../other` begins with `/granted` too.
        let path = normal(path).ok_or_else(outside)?;
        let covering = granted.iter().filter(|grant| covers(grant, &path));
        let create = covering.clone().any(|grant| grant.create);
        let access = covering
            .filter_map(|grant| list.keeps(grant.access))
            .max_by_key(|access| power(*access));
        let access = access.ok_or_else(outside)?;
        picked.push(GrantSpec {
            access,
            create: create && access == Access::WriteFile,
            optional: false,
            place: GrantPlace::Path(path),
        });
    }
    Ok(picked)
}

fn covers(grant: &GrantSpec, path: &Path) -> bool {
    match &grant.place {
        GrantPlace::Path(granted) if grant.access == Access::WriteFile => path == granted,
        GrantPlace::Path(granted) => path.starts_with(granted),
        GrantPlace::Entries(_) | GrantPlace::Source { .. } | GrantPlace::Workspace { .. } => false,
    }
}

const fn power(access: Access) -> u8 {
    match access {
        Access::Read => 0,
        Access::WriteFile => 1,
        Access::Execute => 2,
        Access::Write => 3,
    }
}

/// Returns an absolute path without `..` in its plain spelling.
fn normal(path: &Path) -> Option<PathBuf> {
    let plain = path.is_absolute() && !path.components().any(|part| part == Component::ParentDir);
    plain.then(|| path.components().collect())
}

const WORKSPACE: &str = "hook.workspace";

#[cfg(test)]
mod tests;
