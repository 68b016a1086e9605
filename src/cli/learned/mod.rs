//! Builds the smallest profile that allows what a hook did: a shipped profile, with parts and single grants where
//! needed.
//!
//! The effect of profiles is taken from [`Reach`], the table that rulesets are built from, and not from a second copy.

use std::{
    collections::BTreeSet,
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use hookjail_policy::{
    Access, GrantPlace, GrantSpec, HookView, Metadata, Network, Policy, ReadOnly, References,
    SHARED, Spawn, StateScope,
    egress::Egress,
    explain::{GrantDecision, Grantor, Operation, Reach, Use},
    forbidden::Forbidden,
};
use hookjail_sandbox::Connection;

/// The parts that a draft can have, in the order in which `develop` has them.
pub(in crate::cli) const PARTS: [&str; 6] = [
    "toolchains",
    "caches",
    "git-identity",
    "claude-code-home",
    "agents-home",
    MACHINE,
];

/// The part for files of the machine.
const MACHINE: &str = "machine";

/// The part for files of the machine that programs read before they reach hosts by name; the others are for files of the user.
pub(in crate::cli) const CERTIFICATES: &str = "certificates";

/// A hook's needs, beside its own files.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an observation by itself"
)]
#[derive(Clone, Debug, Default)]
pub(in crate::cli) struct Needs {
    /// Its connections, where hosts are named.
    pub(in crate::cli) connections: Vec<Connection>,
    /// The hosts that it may reach, where they are named.
    pub(in crate::cli) egress: Vec<Egress>,
    /// The existing paths that it looked at.
    pub(in crate::cli) looks: BTreeSet<PathBuf>,
    /// Whether it changed modes, owners or times.
    pub(in crate::cli) metadata: bool,
    /// Whether it connected to other hosts.
    pub(in crate::cli) network: bool,
    /// Whether it asked for notices.
    pub(in crate::cli) notices: bool,
    /// The missing files that it opened to write, instead of which others would do.
    pub(in crate::cli) opened: BTreeSet<PathBuf>,
    /// Whether it made processes.
    pub(in crate::cli) processes: bool,
    /// Its accesses to paths.
    pub(in crate::cli) uses: Vec<Use>,
}

/// The directories in which hooks run.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli) struct Site<'a> {
    /// The directories of the caller's `PATH`.
    pub(in crate::cli) path: &'a [PathBuf],
    /// The user's directories that profiles name by references.
    pub(in crate::cli) references: &'a References,
    /// The path of `${workspace}`.
    pub(in crate::cli) workspace: &'a Path,
}

/// A profile's meaning on this host.
#[derive(Clone, Debug)]
pub(in crate::cli) struct Under {
    /// The profile.
    pub(in crate::cli) policy: Arc<Policy>,
    /// The paths that a hook reaches under it.
    pub(in crate::cli) reach: Reach,
}

/// A hook's access to its workspace.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Workspace {
    None,
    Execute,
    Write,
}

/// A profile that is not written to a file yet.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a key of the profile"
)]
#[derive(Clone, Debug, Eq, PartialEq)]
pub(in crate::cli) struct Draft {
    caller_path: bool,
    description: String,
    /// The hosts, where `network` is that of named ones.
    egress: Vec<Egress>,
    /// Grants that no part has, those that follow links last.
    grants: [BTreeSet<GrantSpec>; 2],
    home: bool,
    /// Whether parts of a writable workspace stay read-only, as under the widest profile.
    keeps: bool,
    metadata: Metadata,
    network: Network,
    notify: bool,
    parts: Vec<&'static str>,
    /// Read-only paths of the workspace that its base does not have.
    read_only: Vec<ReadOnly>,
    unchanged: Vec<ReadOnly>,
    /// The references by which it names the user's directories.
    references: References,
    spawn: Spawn,
    /// The lifetime of its files, and the directories in whose places it has them.
    state: Option<(StateScope, BTreeSet<PathBuf>)>,
    /// View of the widest profile, which gives no right.
    view: HookView,
    workspace: Workspace,
}

impl Draft {
    /// Composes the smallest profile for a hook's needs, as far as `widest` allows them. `resolve` resolves a draft.
    ///
    /// # Errors
    ///
    /// Returns the error of `resolve`.
    pub(in crate::cli) fn compose<E>(
        description: &str,
        needs: &Needs,
        widest: &Under,
        site: Site<'_>,
        mut resolve: impl FnMut(&Self) -> Result<Under, E>,
    ) -> Result<Self, E> {
        let wanted: Vec<&Use> = needs
            .uses
            .iter()
            .filter(|wanted| wanted.is_allowed(&widest.reach))
            .collect();
        let network = match (needs.network, widest.policy.network) {
            (false, _) => Network::None,
            (true, Network::Named) if needs.egress.is_empty() => Network::None,
            (true, network) => network,
        };
        let mut draft = Self {
            caller_path: false,
            description: description.to_owned(),
            egress: needs.egress.clone(),
            grants: Default::default(),
            home: false,
            keeps: widest.policy.files.keep_unchanged(),
            metadata: match needs.metadata {
                true => widest.policy.metadata,
                false => Metadata::Keep,
            },
            network,
            notify: needs.notices && widest.policy.notify,
            parts: Vec::new(),
            read_only: Vec::new(),
            unchanged: Vec::new(),
            references: site.references.clone(),
            spawn: match needs.processes {
                true => widest.policy.spawn,
                false => Spawn::Threads,
            },
            state: None,
            view: widest.policy.view,
            workspace: Workspace::None,
        };

        let in_workspace: Vec<_> = wanted
            .iter()
            .filter(|wanted| wanted.is_below(Some(site.workspace)))
            .collect();
        for level in [Workspace::None, Workspace::Execute, Workspace::Write] {
            draft.workspace = level;
            draft.read_only.clear();
            draft.unchanged.clear();
            if level == Workspace::Write {
                let (kept, all) = (resolve(&draft)?, &widest.policy.files);
                let lacks = |all: &[ReadOnly], kept: &[ReadOnly]| {
                    let lacks = all.iter().filter(|it| !kept.contains(it));
                    lacks.cloned().collect()
                };
                let kept = &kept.policy.files;
                draft.read_only = lacks(&all.read_only, &kept.read_only);
                draft.unchanged = lacks(&all.unchanged, &kept.unchanged);
            }
            let resolved = resolve(&draft)?;
            if in_workspace.iter().all(|it| it.is_allowed(&resolved.reach)) {
                break;
            }
        }

        let of_user = |wanted: &Use| {
            !wanted.is_below(Some(site.workspace))
                && (wanted.is_below(site.references.home.as_deref())
                    || wanted.is_below(site.references.cache.as_deref()))
        };
        let of_hosts = (network == Network::Named).then_some(CERTIFICATES);
        for part in of_hosts.into_iter().chain(PARTS) {
            let without = resolve(&draft)?;
            draft.parts.push(part);
            let with = resolve(&draft)?;
            let is_needed = wanted.iter().any(|wanted| {
                ([CERTIFICATES, MACHINE].contains(&part) || of_user(wanted))
                    && !wanted.is_allowed(&without.reach)
                    && wanted.is_allowed(&with.reach)
            });
            if !is_needed {
                draft.parts.pop();
            }
        }

        // A name that leads into the cache alone is set by the part itself.
        let cache = site.references.cache.as_deref();
        draft.home = widest.policy.environment.home.is_some()
            && wanted
                .iter()
                .any(|wanted| of_user(wanted) && !wanted.is_below(cache));
        let reached = resolve(&draft)?;
        draft.caller_path = widest.policy.environment.caller_path
            && wanted.iter().any(|wanted| {
                let directory = wanted.given.parent().map(Path::to_owned);
                wanted.operation == Operation::Execute
                    && directory.is_some_and(|directory| {
                        site.path.contains(&directory)
                            && !reached.policy.environment.path.contains(&directory)
                    })
            });
        // Files in directories for temporary ones are its session's by the same key.
        if let Some(scope) = widest.policy.state
            && wanted
                .iter()
                .any(|wanted| leaves_in_view(wanted, &widest.reach))
        {
            draft.state = Some((scope, BTreeSet::new()));
        }
        for wanted in wanted {
            if wanted.is_allowed(&reached.reach) {
                continue;
            }
            for grantor in grantors(wanted, &widest.reach) {
                match (grantor, widest.policy.state) {
                    (Grantor::Profile(grant), _) => {
                        let system = &widest.policy.files.system;
                        let follows = system.iter().any(|known| known.place == grant.place);
                        draft.grants[usize::from(follows)].insert(grant);
                    }
                    (Grantor::State(path), Some(scope)) => {
                        let state = draft.state.get_or_insert((scope, BTreeSet::new()));
                        state.1.insert(path);
                    }
                    (
                        Grantor::Program(_) | Grantor::Scratch | Grantor::State(_) | Grantor::View,
                        _,
                    ) => {}
                }
            }
        }
        // A path in a directory that a view covers is not there unless something of it is granted.
        let mut looks = needs.looks.iter();
        if draft.workspace == Workspace::None
            && looks.any(|it| it.starts_with(site.workspace) && it != site.workspace)
            && draft.covers(site.workspace)
        {
            draft.workspace = Workspace::Execute;
        }
        Ok(draft)
    }

    /// Returns whether its view covers a path that it does not grant.
    fn covers(&self, path: &Path) -> bool {
        let state = self.state.iter().flat_map(|(_, places)| places);
        let mut covered = SHARED
            .map(Path::new)
            .into_iter()
            .chain(state.map(|it| &**it));
        self.view == HookView::Own && covered.any(|covered| path.starts_with(covered))
    }

    /// Returns the shipped profile that it starts from.
    const fn base(&self) -> &'static str {
        match (self.network, self.workspace, self.spawn) {
            (Network::Outbound, _, _) => "network",
            (Network::Named | Network::None, workspace, spawn) => match (workspace, spawn) {
                (Workspace::Write, _) if !self.keeps => "pipeline",
                (Workspace::None, Spawn::Threads) => "strict",
                (Workspace::None, Spawn::Processes) => "pipeline",
                (Workspace::Execute, _) => "workspace-ro",
                (Workspace::Write, _) => "workspace-rw",
            },
        }
    }
}

/// Returns whether a use leaves a file in a directory of the view's own.
fn leaves_in_view(wanted: &Use, reach: &Reach) -> bool {
    let makes = matches!(
        wanted.operation,
        Operation::Create | Operation::Link | Operation::Rename | Operation::Write
    );
    makes && grantors(wanted, reach).contains(&Grantor::View)
}

/// Returns what allows a use.
fn grantors(wanted: &Use, reach: &Reach) -> Vec<Grantor> {
    let destination = wanted.destination.as_ref();
    // The remedy is not used, so no path needs to be forbidden.
    let nothing = Forbidden::default();
    match reach.decide(wanted.operation, &wanted.target, destination, &nothing) {
        GrantDecision::Allowed { by: grantors } => grantors,
        GrantDecision::Refused(_) => Vec::new(),
    }
}

/// The text of its file.
impl fmt::Display for Draft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted = |text: &str| toml::Value::String(text.to_owned());
        writeln!(f, "description = {}", quoted(&self.description))?;
        if self.parts.is_empty() {
            writeln!(f, "extends = \"{}\"\n", self.base())?;
        } else {
            let all = [&[self.base()], self.parts.as_slice()].concat();
            let all: Vec<_> = all.iter().map(|name| format!("\"{name}\"")).collect();
            writeln!(f, "extends = [{}]\n", all.join(", "))?;
        }
        writeln!(f, "granted_by = \"operator\"")?;
        let base = match self.base() {
            "workspace-rw" => Metadata::Change,
            _ => Metadata::Keep,
        };
        if self.metadata != base {
            writeln!(f, "metadata = \"{}\"", self.metadata.name())?;
        }
        if self.network == Network::Named {
            let egress = self.egress.iter().map(|rule| format!("\"{rule}\""));
            let egress: Vec<_> = egress.collect();
            writeln!(f, "network = \"named\"\negress = [{}]", egress.join(", "))?;
        }
        if self.notify {
            writeln!(f, "notify = true")?;
        }
        if let Some((scope, _)) = &self.state {
            writeln!(f, "state = \"{}\"", scope.name())?;
        }
        if self.spawn == Spawn::Threads && self.base() != "strict" {
            writeln!(f, "spawn = \"{}\"", self.spawn.name())?;
        }
        let has_none = !["workspace-ro", "workspace-rw"].contains(&self.base());
        if has_none && self.workspace != Workspace::None {
            writeln!(f, "working_dir = \"workspace\"")?;
        }
        if self.view == HookView::Own && self.base() != "workspace-rw" {
            writeln!(f, "view = \"{}\"", self.view.name())?;
        }
        if self.caller_path || self.home {
            writeln!(f, "\n[environment]")?;
        }
        if self.caller_path {
            writeln!(f, "caller_path = true")?;
        }
        if self.home {
            writeln!(f, "home = \"user\"")?;
        }
        let [mut named, system] = self.grants.clone();
        let level = match self.workspace {
            Workspace::None => None,
            Workspace::Execute => Some(Access::Execute),
            Workspace::Write => Some(Access::Write),
        };
        if let Some(access) = level.filter(|_| has_none) {
            named.insert(GrantSpec {
                access,
                create: false,
                optional: false,
                place: GrantPlace::Workspace {
                    below: PathBuf::new(),
                    if_bound: false,
                },
            });
        }
        let lists = [("named", named), ("system", system)];
        let mut lists = lists.iter().filter(|(_, list)| !list.is_empty()).peekable();
        let state = self.state.iter().flat_map(|(_, places)| places);
        let home = self.references.home.as_deref();
        let state: Vec<_> = state
            .map(|place| match home.map(|home| place.strip_prefix(home)) {
                Some(Ok(below)) if below.as_os_str().is_empty() => "\"${home}\"".to_owned(),
                Some(Ok(below)) => format!("\"${{home}}/{}\"", below.display()),
                Some(Err(_)) | None => quoted(&place.to_string_lossy()).to_string(),
            })
            .collect();
        let kept = [
            ("read_only", &self.read_only),
            ("unchanged", &self.unchanged),
        ];
        let mut kept = kept.iter().filter(|(_, list)| !list.is_empty()).peekable();
        if lists.peek().is_some() || kept.peek().is_some() || !state.is_empty() {
            writeln!(f, "\n[files]")?;
        }
        for (key, list) in lists {
            writeln!(f, "{key} = [")?;
            for grant in list {
                let path = self.references.spelled(&grant.place, grant.access);
                writeln!(f, "    {},", grant.entry(&path))?;
            }
            writeln!(f, "]")?;
        }
        for (key, list) in kept {
            let kept = list.iter();
            let kept: Vec<_> = kept.map(|it| quoted(&it.to_string()).to_string()).collect();
            writeln!(f, "{key} = [{}]", kept.join(", "))?;
        }
        if !state.is_empty() {
            writeln!(f, "state = [{}]", state.join(", "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
