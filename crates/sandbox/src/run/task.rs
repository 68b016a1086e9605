//! Tasks of a backend: a hook from the pipeline, or a self-test's child.

use std::{
    fmt,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use bytes::Bytes;
use tokio_util::sync::CancellationToken;

use hookjail_base::model::Peer;
use hookjail_policy::{Policy, environment::Variables};
use hookjail_sys::{Attempt, Identity};

use crate::{
    Opened, Prepared,
    host::Until,
    program::Program,
    resources::{scratch::RunDir, state::RunState},
    run::{child_spec::Execution, grants::OpenGrant, read_only::Kept},
};

/// A hook to be started, with the decisions about it.
#[derive(Clone, Copy, Debug)]
pub struct HookTask<'a> {
    /// The requesting process.
    pub caller: &'a Peer,
    /// Cancels its start.
    pub cancel: &'a CancellationToken,
    /// Its deadline.
    pub deadline: Instant,
    /// Its environment variables.
    pub environment: &'a Variables,
    /// Files it is granted.
    pub opened: &'a Opened,
    /// Its policy.
    pub policy: &'a Policy,
    /// The backend and its translation of the policy.
    pub prepared: &'a Prepared,
    /// The program, opened.
    pub program: &'a Program,
    /// Its session; may be empty.
    pub session: &'a str,
    /// Contents of its stdin.
    pub stdin: &'a Bytes,
    /// Its workspace.
    pub workspace: Option<&'a Path>,
}

/// One child for a backend to start confined: a hook, or a self-test's child.
#[derive(Debug)]
pub struct Task<'a> {
    /// The child's action.
    pub(crate) action: Action,
    /// Uid of its caller; the daemon's own for a self-test's child.
    #[cfg_attr(
        not(target_os = "linux"),
        expect(
            dead_code,
            reason = "callers have spawners of their own on Linux alone"
        )
    )]
    pub(crate) caller: u32,
    pub(crate) directory: &'a RunDir,
    /// Grants beside its scratch directory and the granted canary.
    pub(crate) grants: Vec<&'a OpenGrant>,
    /// Its identity; `None` = the daemon's user.
    #[cfg_attr(
        not(target_os = "linux"),
        expect(dead_code, reason = "hooks have uids of their own on Linux alone")
    )]
    pub(crate) identity: Option<Identity>,
    /// Paths among the grants that stay read-only, or are hidden.
    pub(crate) kept: Option<&'a Kept>,
    /// Its policy.
    pub(crate) policy: &'a Policy,
    /// Resources that no other run gets before the whole tree of this one is dead.
    pub(crate) resources: Arc<dyn fmt::Debug + Send + Sync>,
    /// Directories of files that outlast it.
    #[cfg_attr(
        not(target_os = "linux"),
        expect(dead_code, reason = "views are had on Linux alone")
    )]
    pub(crate) state: Option<RunState>,
    /// Contents of its stdin.
    pub(crate) stdin: Bytes,
    /// The limit after which the child must not be started.
    pub(crate) until: Until,
    /// Whether its stdin stays open after that, for what it waits for.
    pub(crate) waits: bool,
    /// Its working directory; `None` = its scratch directory.
    pub(crate) working_dir: Option<&'a WorkingDir>,
}

/// A working directory.
#[derive(Clone, Debug)]
pub(crate) struct WorkingDir {
    pub(crate) opened: Arc<OwnedFd>,
    pub(crate) path: PathBuf,
}

#[cfg(target_os = "linux")]
impl Task<'_> {
    /// Returns all grants but the scratch directory and the granted canary. The program's own files come last.
    pub(crate) fn granted(&self) -> impl Iterator<Item = &OpenGrant> + Clone {
        let own_grants = match &self.action {
            Action::Execute(execution) => &execution.own[..],
            Action::Probe(_) => &[],
        };
        self.grants.iter().copied().chain(own_grants)
    }
}

/// The action of a child.
#[derive(Debug)]
pub(crate) enum Action {
    /// Executes a hook.
    Execute(Execution),
    /// Makes the attempts of a self-test, and ends.
    Probe(Vec<Attempt>),
}
