//! The accesses that a rehearsed hook is refused, observed during its runs.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
};

use nix::unistd::{AccessFlags, access};

use hookjail_client::Failure;
use hookjail_policy::{
    HookView,
    explain::{GrantDecision, Operation, Target, Use},
    forbidden::Forbidden,
};
use hookjail_sandbox::Observer;

use super::refused::RefusedUse;
use crate::cli::learned::Under;
use crate::cli::observed::{find_profile, is_read_only, landlock_abi, needs, refusals, resolve};
use hookjail_daemon::{
    config::Config,
    daemon::{Assembly, own_places},
};

/// An observer of runs whose profile is not known yet.
pub(in crate::cli) struct Watch(Arc<Observer>);

impl Watch {
    /// Observes the runs of a daemon that is built from these parts.
    pub(in crate::cli) fn begin(assembly: Assembly) -> (Assembly, Self) {
        let observer = Arc::new(Observer::default());
        (assembly.observed_by(Arc::clone(&observer)), Self(observer))
    }

    /// Goes by a profile in a workspace. `files` are the hook's own.
    ///
    /// # Errors
    ///
    /// Fails where there is no such profile, or a path cannot be examined.
    pub(in crate::cli) fn with_profile(
        self,
        config: &Config,
        (name, workspace): (&str, &Path),
        files: Vec<PathBuf>,
    ) -> Result<Watched, Failure> {
        let policy = find_profile(&Assembly::registry(config)?, name)?;
        Ok(Watched {
            forbidden: Forbidden::locate(&own_places(config))?,
            observer: self.0,
            runtime: config.paths.runtime.clone(),
            under: resolve(policy, workspace, &files, landlock_abi())?,
            workspace: workspace.to_owned(),
            files,
        })
    }
}

/// The observation of a hook's runs under one profile.
pub(in crate::cli) struct Watched {
    files: Vec<PathBuf>,
    forbidden: Forbidden,
    observer: Arc<Observer>,
    runtime: PathBuf,
    under: Under,
    workspace: PathBuf,
}

impl Watched {
    /// Returns the refused accesses since the last call, without earlier ones, and the hosts; `None` where runs cannot be observed
    /// here.
    pub(in crate::cli) fn seen(&self) -> Option<(Vec<RefusedUse>, BTreeSet<String>)> {
        let needs = needs(&self.observer.take()?, &self.files, &self.runtime);
        let refused = refusals(&needs, &self.under, &self.forbidden);
        // Shells and runtimes find out where they are by listing what lies above.
        let is_way = |it: &Use| {
            it.operation == Operation::List && self.workspace.starts_with(it.target.path())
        };
        let refused = refused.filter(|(wanted, _)| !is_way(wanted));
        let refused = refused.map(|(wanted, _)| RefusedUse {
            is_read_only: is_read_only(wanted.operation),
            words: format!(
                "{} {}",
                wanted.operation.name(),
                wanted.target.path().display()
            ),
        });
        // A file that a guard looks for and does not see silences it as well. Without a view each file can be seen.
        let hides = self.under.policy.view == HookView::Own;
        let looked = needs.looks.iter();
        let looked = looked.filter(|path| hides && self.is_kept_from(path));
        let looked = looked.map(|path| RefusedUse {
            is_read_only: true,
            words: format!("look at {}", path.display()),
        });
        let reached = needs.connections.iter();
        let reached = reached.filter(|it| it.end.refusal().is_none());
        let hosts = reached.map(|it| it.destination.to_string());
        Some((refused.chain(looked).collect(), hosts.collect()))
    }

    /// Returns whether a path is that of a file that this user can read, and the profile refuses.
    fn is_kept_from(&self, path: &Path) -> bool {
        let target = Target::locate(Operation::Read, path);
        let decision = (self.under.reach).decide(Operation::Read, &target, None, &self.forbidden);
        path.is_file()
            && access(path, AccessFlags::R_OK).is_ok()
            && matches!(decision, GrantDecision::Refused(_))
    }
}
