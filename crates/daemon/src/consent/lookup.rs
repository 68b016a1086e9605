//! The one way in which a command is looked up: by its text, files, profile and place, in each working tree of a repository.

use std::path::{Path, PathBuf};

use jiff::Timestamp;

use hookjail_policy::{Policy, References};
use hookjail_sandbox::program::Digest;

use super::{
    allowlist::{Allowlist, Check, Lookup, WithData},
    approved::Approved,
    trees::Trees,
};

/// A list of consents, with the texts that were approved.
#[derive(Clone, Copy, Debug)]
pub struct Consented<'a> {
    /// The approved profiles.
    pub approved: &'a Approved,
    /// The entries.
    pub list: &'a Allowlist,
    /// By which approved profiles are read.
    pub references: &'a References,
}

/// A command that is looked up.
#[derive(Clone, Copy, Debug)]
pub struct Sought<'a> {
    /// The command, as the list spells it.
    pub command: &'a str,
    /// The digests of its files.
    pub digests: &'a [Digest],
    /// Whether the consent must name the profile.
    pub is_grant: bool,
    /// The profile it would run under.
    pub policy: &'a Policy,
    /// Where it would start.
    pub working_dir: Option<&'a Path>,
    /// Its workspace.
    pub workspace: Option<&'a Path>,
}

impl Consented<'_> {
    /// Looks a command up, and where no consent counts, the same bytes at the same place of the repository's other working trees.
    ///
    /// `trees` is called for that alone.
    pub fn check(&self, sought: &Sought<'_>, trees: impl FnOnce() -> Option<Trees>) -> Check {
        let check = self.check_here(sought);
        if !matches!(check, Check::Changed { .. } | Check::Missing) {
            return check;
        }
        let trees = trees().unwrap_or_default();
        let mut others = trees.others();
        let counts = |tree: &Path| {
            let elsewhere = Elsewhere::new(sought, &trees, tree);
            elsewhere.is_some_and(|it| self.check_here(&it.sought(sought)) == Check::Hit)
        };
        match others.any(counts) {
            true => Check::Hit,
            false => check,
        }
    }

    fn check_here(&self, sought: &Sought<'_>) -> Check {
        let digests = self.profile_digests(sought);
        self.list.check(&lookup(sought, &digests))
    }

    /// Returns the digests of the profile, and of approved ones that cover it.
    fn profile_digests(&self, sought: &Sought<'_>) -> Vec<String> {
        let policy = sought.policy;
        let (digest_in_force, name) = (policy.digest.as_str(), policy.name.as_str());
        let others = self.list.profile_digests(sought.command, name);
        let others = others
            .into_iter()
            .filter(|digest| *digest != digest_in_force);
        let covering =
            others.filter(|digest| self.approved.covers(digest, policy, self.references));
        [digest_in_force]
            .into_iter()
            .chain(covering)
            .map(str::to_owned)
            .collect()
    }

    /// Returns the consents that mark arguments as data, those with the most first, of every working tree.
    pub(super) fn with_data(
        &self,
        sought: &Sought<'_>,
        trees: impl FnOnce() -> Option<Trees>,
    ) -> Vec<WithData> {
        let mut found = self.list.with_data(&lookup(sought, &[]));
        if found.is_empty() && self.list.has_data() {
            let trees = trees().unwrap_or_default();
            for tree in trees.others() {
                let Some(elsewhere) = Elsewhere::new(sought, &trees, tree) else {
                    continue;
                };
                let marked = self.list.with_data(&lookup(&elsewhere.sought(sought), &[]));
                let in_this_tree = |path: &Path| trees.back_from(path, tree);
                found.extend(marked.into_iter().map(|it| it.moved(in_this_tree)));
            }
        }
        found
    }
}

/// Returns the question to a list of consents.
pub(super) fn lookup<'a>(sought: &Sought<'a>, profile_digests: &'a [String]) -> Lookup<'a> {
    Lookup {
        command: sought.command,
        digests: sought.digests,
        is_grant: sought.is_grant,
        now: Timestamp::now(),
        profile: sought.policy.name.as_str(),
        profile_digests,
        working_dir: sought.working_dir,
        workspace: sought.workspace,
    }
}

/// A command at the same place of another working tree.
struct Elsewhere {
    command: String,
    digests: Vec<Digest>,
    working_dir: Option<PathBuf>,
    workspace: Option<PathBuf>,
}

impl Elsewhere {
    fn new(sought: &Sought<'_>, trees: &Trees, tree: &Path) -> Option<Self> {
        let place = |path: Option<&Path>| path.map(|it| trees.in_other(it, tree));
        let digests = sought.digests.iter().map(|digest| Digest {
            path: trees
                .in_other(Path::new(&digest.path), tree)
                .display()
                .to_string(),
            ..digest.clone()
        });
        Some(Self {
            command: trees.command_in_other(sought.command, tree)?,
            digests: digests.collect(),
            working_dir: place(sought.working_dir),
            workspace: place(sought.workspace),
        })
    }

    fn sought<'a>(&'a self, local: &Sought<'a>) -> Sought<'a> {
        Sought {
            command: &self.command,
            digests: &self.digests,
            working_dir: self.working_dir.as_deref(),
            workspace: self.workspace.as_deref(),
            ..*local
        }
    }
}
