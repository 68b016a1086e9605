//! Observed runs: a hook's uses of files, and those that its profile refuses.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use nix::unistd::{AccessFlags, access};

use hookjail_base::{
    model::{Narrow, ProfileName},
    notices::PROGRAMS,
};
use hookjail_client::Failure;
use hookjail_policy::{
    Policy, Registry,
    explain::{GrantDecision, GrantRefusal, Operation, Reach, Use},
    forbidden::Forbidden,
    narrow::{Bindings, narrow},
};
use hookjail_sandbox::{
    Backend, OwnUids, Seen, explain as kernel,
    landlock::{Landlock, NEWEST_ABI},
};

use super::learned::{Needs, Under};

/// Returns the Landlock ABI of this host, else the newest.
pub(in crate::cli) fn landlock_abi() -> u32 {
    let probed = Landlock::new(OwnUids::NONE, None).probe();
    probed.map_or(NEWEST_ABI, |host| host.landlock_abi)
}

/// Returns a profile of a registry.
///
/// # Errors
///
/// Fails where no profile has this name.
pub(in crate::cli) fn find_profile(
    registry: &Registry,
    name: &str,
) -> Result<Arc<Policy>, Failure> {
    let found = ProfileName::parse(name).and_then(|name| registry.find(&name).cloned());
    found.ok_or_else(|| Failure::new(registry.absence(name)))
}

/// Resolves the accesses that a profile allows to a hook of these files, in a workspace.
///
/// # Errors
///
/// Fails where a path cannot be examined.
pub(in crate::cli) fn resolve(
    policy: Arc<Policy>,
    workspace: &Path,
    files: &[PathBuf],
    abi: u32,
) -> Result<Under, Failure> {
    let workspace = policy.needs_workspace().then_some(workspace);
    let mut narrowed = narrow(&policy, Bindings::workspace(workspace), &Narrow::default())?;
    narrowed.files.grant_transcripts(&policy.files);
    let mut reach = Reach::locate(&narrowed.files, workspace, kernel::handled(abi))?;
    for file in files {
        reach = reach.with_program(file)?;
    }
    let reach = reach.with_view(&policy)?;
    Ok(Under { policy, reach })
}

/// Returns the accesses that a profile refuses, and this user has without confinement.
pub(in crate::cli) fn refusals<'a>(
    needs: &'a Needs,
    profile: &'a Under,
    forbidden: &'a Forbidden,
) -> impl Iterator<Item = (&'a Use, GrantRefusal)> {
    needs.uses.iter().filter_map(|wanted| {
        let decision = profile.reach.decide(
            wanted.operation,
            &wanted.target,
            wanted.destination.as_ref(),
            forbidden,
        );
        match decision {
            GrantDecision::Refused(refusal) if may(wanted) && !is_of_names(wanted) => {
                Some((wanted, refusal))
            }
            GrantDecision::Allowed { .. } | GrantDecision::Refused(_) => None,
        }
    })
}

/// Returns whether an operation changes nothing.
pub(in crate::cli) const fn is_read_only(operation: Operation) -> bool {
    matches!(
        operation,
        Operation::Execute | Operation::List | Operation::Read
    )
}

/// Returns a hook's needs by its observed accesses, without those to the run's own directories and incidental ones.
pub(in crate::cli) fn needs(seen: &[Seen], files: &[PathBuf], runtime: &Path) -> Needs {
    let mut needs = Needs::default();
    let runtime = runtime
        .canonicalize()
        .unwrap_or_else(|_| runtime.to_owned());
    for seen in seen {
        match seen {
            Seen::Look(path) if files.contains(path) => {}
            Seen::Look(path) => {
                needs.looks.insert(path.clone());
            }
            Seen::Connection(connection) => needs.connections.push(connection.clone()),
            Seen::Metadata => needs.metadata = true,
            Seen::OpenedMissing(path) => {
                needs.opened.insert(path.clone());
            }
            Seen::Process => needs.processes = true,
            Seen::Socket => needs.network = true,
            Seen::Path(done) => {
                let is_own = |path: &Path| path.starts_with(&runtime);
                let name = done.target.path().file_name();
                let asks = |program: &str| name.is_some_and(|name| *name == *program);
                if done.operation == Operation::Execute && is_own(done.target.path()) {
                    needs.notices |= PROGRAMS.iter().any(|program| asks(program));
                }
                let destination = done.destination.as_ref();
                if is_own(done.target.path())
                    && destination.is_none_or(|destination| is_own(destination.path()))
                {
                    continue;
                }
                if !is_incidental(done) {
                    needs.uses.push(Use::clone(done));
                }
            }
        }
    }
    needs
}

/// Returns whether an unconfined process of this user has the access.
fn may(wanted: &Use) -> bool {
    let path = wanted.target.path();
    let (path, flags) = match wanted.operation {
        Operation::Execute => (path, AccessFlags::X_OK),
        Operation::List | Operation::Read => (path, AccessFlags::R_OK),
        Operation::Write => (path, AccessFlags::W_OK),
        Operation::Create | Operation::Link | Operation::Remove | Operation::Rename => {
            (wanted.target.parent(), AccessFlags::W_OK)
        }
    };
    access(path, flags).is_ok()
}

/// Returns whether an access is an optional one of C libraries, shells and interpreters.
fn is_incidental(wanted: &Use) -> bool {
    let path = wanted.target.path();
    let looked_at = ["/dev/tty", "/etc/locale.alias"];
    let kernels = ["/proc", "/sys"];
    looked_at.iter().any(|known| path == Path::new(known))
        || kernels.iter().any(|known| path.starts_with(known))
}

/// Returns whether an access is a lookup of names of users, which many programs can do without.
pub(in crate::cli) fn is_of_names(wanted: &Use) -> bool {
    let files = ["/etc/group", "/etc/nsswitch.conf", "/etc/passwd"];
    let path = wanted.target.path();
    files.iter().any(|known| path == Path::new(known))
}
