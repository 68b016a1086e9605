//! The operator's rules: allowed callers, places of workspaces, and granted profiles.

use std::{
    borrow::Cow,
    collections::BTreeSet,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use nix::unistd::geteuid;

use hookjail_base::{
    model::{Backing, Hook, InvalidField, Peer, ProfileName, Users, command_line, is_plain},
    refusal::{Fact, Reason, Refusal},
};
use hookjail_contract::Registered;
use hookjail_policy::{
    GrantPlace, GrantedBy, Policy, Registry, WorkspaceRoots, forbidden::Forbidden,
};
use hookjail_sandbox::BackendName;
use hookjail_sys::FileRights;

use super::{command::defaults, homes::Homes};
use crate::{
    consent::decide::ALLOW,
    git::GitPlaces,
    pipeline::RateLimits,
    request::{Request, Withheld},
};

/// The operator's configuration of one command.
#[derive(Clone, Debug)]
pub(crate) struct OperatorHook {
    /// The command, as the allowlist spells it.
    pub command: String,
    /// Profiles that only an operator can grant.
    pub profiles: Vec<ProfileName>,
    /// The wall time where a request names none.
    pub timeout: Option<Duration>,
}

/// The operator's configuration file, present or not.
#[derive(Clone, Debug, Default)]
pub(crate) struct Configuration {
    /// Whether the command line names the file. Commands suggested to the operator then name it, too.
    pub is_named: bool,
    /// The file's path; `None` if there is no default path.
    pub path: Option<PathBuf>,
}

impl Configuration {
    /// Adds the configuration lines and file that would lift a refusal, as facts for an operator.
    pub(crate) fn lifted_by(&self, refusal: Refusal, lines: &str) -> Refusal {
        let refusal = refusal.with(Fact::Configure(lines.into()));
        match &self.path {
            Some(path) => refusal.with(Fact::Configuration(path.display().to_string())),
            None => refusal,
        }
    }

    /// Adds configuration path and user to the command that would lift a refusal.
    pub(super) fn complete(&self, mut refusal: Refusal, uid: u32) -> Refusal {
        let Some(approve) = refusal.approve() else {
            return refusal;
        };
        if let Some(file) = self.path.as_ref().filter(|_| self.is_named)
            && let Some(file) = command_line(&[file.into()])
            && let Some(rest) = approve.strip_prefix(ALLOW)
        {
            let approve = format!("{ALLOW}--config {file} {rest}");
            refusal = refusal.with(Fact::Approve(approve));
        }
        match geteuid().as_raw() {
            own_uid if own_uid == uid => refusal,
            0 => refusal.with(Fact::ApproveAs("root".into())),
            own_uid => refusal.with(Fact::ApproveAs(format!("uid {own_uid}"))),
        }
    }
}

/// The reloadable configuration of a gate.
#[derive(Debug)]
pub(crate) struct Rules {
    /// Allowed callers, besides the daemon's own user.
    pub callers: Users,
    /// The file of the configuration.
    pub configuration: Configuration,
    /// The daemon's own directories: no workspace may hold them or lie in them.
    pub forbidden: Forbidden,
    /// Homes of callers, as far as they were needed.
    pub homes: Homes,
    /// The operator's configuration of commands.
    pub hooks: Vec<OperatorHook>,
    /// Users that may answer for the operator, besides the daemon's own; `None`: no user, and not the daemon's own.
    pub operators: Option<Users>,
    /// The version of the administrator's files; `None` = they have none.
    pub policy_version: Option<Arc<str>>,
    /// The rates of each caller.
    pub rates: RateLimits,
    /// Users that may read the records of all requests, besides the daemon's own.
    pub readers: Users,
    /// The profiles.
    pub registry: Registry,
    /// The required hooks, by name, whose profile a file replaces that users other than root can change.
    pub replaced: BTreeSet<String>,
    /// The hooks of the administrator's files.
    pub required: Vec<Registered>,
    /// The directories below which a workspace may lie.
    pub workspace_roots: WorkspaceRoots,
}

impl Rules {
    /// Returns the uids of allowed callers, as far as they are known before they connect.
    pub(super) fn caller_uids(&self) -> Vec<u32> {
        let own_uid = nix::unistd::geteuid().as_raw();
        let listed = self.callers.uids.iter().chain(&self.callers.members);
        let mut uids: Vec<_> = listed.copied().chain([own_uid]).collect();
        uids.sort_unstable();
        uids.dedup();
        uids
    }

    /// Returns whether a command may use a profile without consent for that profile.
    ///
    /// The profile is open to every caller, or the configuration grants it to the command.
    pub(super) fn grants(&self, policy: &Policy, command: &str) -> bool {
        let mut hooks = self.hooks.iter().filter(|hook| hook.command == command);
        policy.granted_by != GrantedBy::Operator
            || hooks.any(|hook| hook.profiles.contains(&policy.name))
    }

    /// Checks that the profile of a required hook is root's.
    pub(super) fn check_profile(&self, request: &Request, policy: &Policy) -> Result<(), Refusal> {
        let name = &request.hook.name;
        if request.backing != Backing::Required || !self.replaced.contains(name) {
            return Ok(());
        }
        let message = format!(
            "profile `{}` of the required hook `{name}` comes from a file that is not root's; take it out of `profiles.dirs`",
            policy.name
        );
        Err(Refusal::new(Reason::NotAllowlisted, message))
    }

    /// Returns the profile that a request names, else the default of its contract.
    pub(super) fn profile(&self, request: &Request) -> Result<&Arc<Policy>, Refusal> {
        let name = request
            .profile
            .clone()
            .or_else(|| ProfileName::parse(defaults(request).profile));
        let found = name.as_ref().and_then(|name| self.registry.find(name));
        found.ok_or_else(|| {
            let name = name.map_or_else(String::new, |name| name.to_string());
            let message = match BackendName::parse(&name) {
                None => self.registry.absence(&name),
                Some(backend) => format!(
                    "`{backend}` is a backend and no profile; name a profile, whose backend the operator sets in the configuration's `backends`"
                ),
            };
            Refusal::new(Reason::ProfileUnknown, message)
        })
    }

    /// Checks the directories that a request binds.
    pub(super) fn admit_bound(&self, request: &Request, peer: &Peer) -> Result<(), Refusal> {
        let Hook {
            source, workspace, ..
        } = &request.hook;
        let bound = [("hook.source", source), ("hook.workspace", workspace)];
        for (field, directory) in bound {
            if let Some(directory) = directory {
                let in_root = self.in_root(directory, peer, WorkspaceRoots::admit);
                self.admit_directory(field, directory, peer, in_root)?;
            }
        }
        Ok(())
    }

    /// Finds the directories of git that belong to a request's workspace, or to the working tree around it, and lie elsewhere. They are
    /// granted as the workspace is.
    ///
    /// # Errors
    ///
    /// Refuses where one could not be a workspace of the caller's: a guard that asks git would find no repository, and let everything
    /// pass.
    pub(super) fn git_places(
        &self,
        request: &Request,
        policy: &Policy,
        peer: &Peer,
    ) -> Result<Option<GitPlaces>, Refusal> {
        let mut named = policy.files.named.iter();
        let is_granted = named.any(|grant| {
            matches!(&grant.place, GrantPlace::Workspace { below, .. } if below.as_os_str().is_empty())
        });
        let Some(workspace) = request.hook.workspace.as_ref().filter(|_| is_granted) else {
            return Ok(None);
        };
        let refused = |path: &Path, why: String| {
            let message = format!(
                "`{}` belongs to the workspace `{}` and cannot be granted with it: {why}",
                path.display(),
                workspace.display()
            );
            Refusal::new(Reason::PolicyUnenforceable, message)
                .with(Fact::Path(path.display().to_string()))
        };
        let found = {
            let _as_caller = FileRights::for_user(peer.uid, peer.gid, &peer.groups);
            let found = GitPlaces::find(workspace).map_err(|why| {
                let link = workspace.join(".git");
                let what = format_args!("`{}` cannot be examined", link.display());
                Refusal::failed(what, &why, |_| refused(&link, why.to_string()))
            });
            let found = found?;
            let places = found.iter().flat_map(|found| [&found.own, &found.common]);
            for place in places {
                let owner = place.metadata().map(|it| it.uid());
                if owner.ok() != Some(peer.uid) {
                    return Err(refused(place, "another user owns it".to_owned()));
                }
            }
            found
        };
        let Some(found) = found else {
            return Ok(self.git_around(workspace, peer));
        };
        for place in [&found.own, &found.common] {
            let in_root = self.in_root(place, peer, WorkspaceRoots::admit_git);
            if let Err(refusal) = self.admit_directory("hook.workspace", place, peer, in_root) {
                return Err(refused(place, refusal.message));
            }
        }
        Ok(Some(found))
    }

    /// Returns the directories of git of the working tree in which a workspace lies, where that tree could be one of the caller's.
    fn git_around(&self, workspace: &Path, peer: &Peer) -> Option<GitPlaces> {
        let (tree, found) = {
            let _as_caller = FileRights::for_user(peer.uid, peer.gid, &peer.groups);
            GitPlaces::around(workspace, peer.uid)?
        };
        let may = |place: &Path, admit: fn(&WorkspaceRoots, &Path) -> Result<(), String>| {
            let in_root = self.in_root(place, peer, admit);
            let admitted = self.admit_directory("hook.workspace", place, peer, in_root);
            admitted.is_ok()
        };
        let places = [&found.own, &found.common];
        let are_admitted = places
            .iter()
            .all(|place| may(place, WorkspaceRoots::admit_git));
        (may(&tree, WorkspaceRoots::admit) && are_admitted).then_some(found)
    }

    /// Checks a directory with the caller's rights, after the check against the roots.
    ///
    /// A directory that the caller cannot reach is refused alike whether it exists or not.
    fn admit_directory(
        &self,
        name: &'static str,
        directory: &Path,
        peer: &Peer,
        in_root: Result<(), String>,
    ) -> Result<(), Refusal> {
        let shown = directory.display();
        let field = |problem: String| Refusal::from(InvalidField::new(name, problem));
        in_root.map_err(|problem| {
            let root = toml::Value::from(shown.to_string());
            let lines = format!("[hooks]\nworkspace_roots = [{root}]");
            let refusal = field(format!("`{shown}` {problem}"));
            self.configuration.lifted_by(refusal, &lines)
        })?;
        let reached = {
            let _as_caller = FileRights::for_user(peer.uid, peer.gid, &peer.groups);
            self.forbidden.reached_by(directory)
        };
        match reached {
            Ok(None) => Ok(()),
            Ok(Some(place)) => Err(field(format!(
                "`{shown}` and hookjail's own `{}` overlap; choose a directory beside that",
                place.display()
            ))),
            Err(error) => {
                let what = format_args!("`{shown}` cannot be examined");
                Err(Refusal::failed(what, &error, field))
            }
        }
    }

    /// Returns an error where a caller's workspace may not be here.
    fn in_root(
        &self,
        directory: &Path,
        peer: &Peer,
        admit: impl FnOnce(&WorkspaceRoots, &Path) -> Result<(), String>,
    ) -> Result<(), String> {
        admit(&self.roots_of(peer), directory)
    }

    /// Returns the roots as they are for a caller: with its home, where each caller's counts.
    fn roots_of(&self, peer: &Peer) -> Cow<'_, WorkspaceRoots> {
        let roots = &self.workspace_roots;
        match roots.homes_of_callers {
            false => Cow::Borrowed(roots),
            true => Cow::Owned(WorkspaceRoots {
                homes: self.homes.spellings(peer),
                ..roots.clone()
            }),
        }
    }

    /// Returns why a caller's offered directory is no workspace of its run, where the run may go without.
    ///
    /// `None` where the directory may be one, and where the request is refused instead. The request is refused for other users than the
    /// daemon's own, over the network, and where the operator lists the roots.
    pub(crate) fn withheld(&self, directory: &Path, peer: &Peer) -> Option<Withheld> {
        let is_own = peer.uid == geteuid().as_raw() && peer.remote.is_none();
        if !is_own || self.workspace_roots.only_named || !is_plain(directory) {
            return None;
        }
        let why = self.roots_of(peer).why_not(directory).or_else(|| {
            let _as_caller = FileRights::for_user(peer.uid, peer.gid, &peer.groups);
            let place = self.forbidden.reached_by(directory).ok().flatten()?;
            let place = place.display();
            Some(format!("the directory overlaps hookjail's own `{place}`"))
        })?;
        Some(Withheld {
            directory: directory.to_owned(),
            why,
        })
    }

    /// Returns whether a directory that an event names may be bound.
    ///
    /// Otherwise it is ignored, and the request is not refused.
    pub(crate) fn may_bind(&self, directory: &Path, peer: &Peer) -> bool {
        let in_root = self.in_root(directory, peer, WorkspaceRoots::admit);
        if !is_plain(directory) || in_root.is_err() {
            return false;
        }
        let _as_caller = FileRights::for_user(peer.uid, peer.gid, &peer.groups);
        matches!(self.forbidden.reached_by(directory), Ok(None)) && directory.is_dir()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_a_refusal_is_lifted_is_true_for_who_reads_it() {
        let own_uid = nix::unistd::geteuid().as_raw();
        let command = |is_named, uid| {
            let configuration = Configuration {
                is_named,
                path: Some("/etc/a file".into()),
            };
            let refusal = Refusal::new(Reason::ConsentRequired, "no")
                .with(Fact::Approve("hookjail allow -- /bin/true".into()));
            let refusal = configuration.complete(refusal, uid);
            let approve_as = refusal.facts.iter().find_map(|fact| {
                if let Fact::ApproveAs(who) = fact {
                    Some(who.clone())
                } else {
                    None
                }
            });
            (refusal.approve().unwrap().to_owned(), approve_as)
        };
        let usual = "hookjail allow -- /bin/true".to_owned();
        let named = "hookjail allow --config '/etc/a file' -- /bin/true".to_owned();
        let operator = match own_uid {
            0 => "root".to_owned(),
            uid => format!("uid {uid}"),
        };
        assert_eq!(command(false, own_uid), (usual.clone(), None));
        assert_eq!(command(true, own_uid), (named, None));
        assert_eq!(command(false, own_uid + 1), (usual, Some(operator)));
    }
}
