//! What is started: the hook that the pipeline orders, and the child that a backend makes of it or of the self-test.

use std::{fmt, os::fd::OwnedFd, path::PathBuf, sync::Arc, time::Instant};

use bytes::Bytes;
use tokio_util::sync::CancellationToken;

use crate::{
    consent::Program,
    model::Peer,
    policy::{Policy, environment::Variables},
    sandbox::{
        Opened, Prepared,
        host::Until,
        run::{child_spec::Execution, grants::OpenGrant, read_only::Kept, scratch::RunDir},
    },
    sys::{Attempt, Identity},
};

/// A hook to be started: what was decided about it.
#[derive(Clone, Copy, Debug)]
pub struct HookTask<'a> {
    /// Who asked for it.
    pub(crate) caller: Peer,
    /// Calls its start off when cancelled.
    pub(crate) cancel: &'a CancellationToken,
    /// When it ends at the latest.
    pub(crate) deadline: Instant,
    /// What it finds in its environment.
    pub(crate) environment: &'a Variables,
    /// The files it reaches.
    pub(crate) opened: &'a Opened,
    /// What it may do.
    pub(crate) policy: &'a Policy,
    /// By what backend that is enforced.
    pub(crate) prepared: &'a Prepared,
    /// The program, opened.
    pub(crate) program: &'a Program,
    /// What is written to its stdin.
    pub(crate) stdin: &'a Bytes,
}

/// One child for a backend to start confined. A hook and the self-test's child differ by this alone.
#[derive(Debug)]
pub struct Task<'a> {
    /// What the child does.
    pub(in crate::sandbox) action: Action,
    pub(in crate::sandbox) directory: &'a RunDir,
    /// What it is granted beside its scratch directory and the granted canary.
    pub(in crate::sandbox) grants: Vec<&'a OpenGrant>,
    /// Whose rights it has; `None` = the daemon's user's.
    #[cfg_attr(
        not(target_os = "linux"),
        expect(dead_code, reason = "hooks have uids of their own on Linux alone")
    )]
    pub(in crate::sandbox) identity: Option<Identity>,
    /// What stays read-only among the grants.
    pub(in crate::sandbox) kept: Option<&'a Kept>,
    /// What it may do.
    pub(in crate::sandbox) policy: &'a Policy,
    /// What no other run gets before all of this one is dead.
    pub(in crate::sandbox) resources: Arc<dyn fmt::Debug + Send + Sync>,
    /// What is written to its stdin.
    pub(in crate::sandbox) stdin: Bytes,
    /// When it is not to be started any more.
    pub(in crate::sandbox) until: Until,
    /// Where it starts; `None` = in its scratch directory.
    pub(in crate::sandbox) working_dir: Option<&'a WorkingDir>,
}

/// A directory to start in.
#[derive(Debug)]
pub(in crate::sandbox) struct WorkingDir {
    pub(in crate::sandbox) opened: Arc<OwnedFd>,
    #[cfg_attr(
        not(target_os = "linux"),
        expect(dead_code, reason = "mounts and containers alone are told a path")
    )]
    pub(in crate::sandbox) path: PathBuf,
}

#[cfg(target_os = "linux")]
impl Task<'_> {
    /// Returns all that the child is granted but for its scratch directory and the granted canary: the program's own files last.
    pub(in crate::sandbox) fn granted(&self) -> impl Iterator<Item = &OpenGrant> {
        let own = match &self.action {
            Action::Execute(execution) => &execution.own[..],
            Action::Probe(_) => &[],
        };
        self.grants.iter().copied().chain(own)
    }
}

/// What a child does.
#[derive(Debug)]
pub(in crate::sandbox) enum Action {
    /// Executes a hook, and runs on.
    Execute(Execution),
    /// Makes the attempts of a self-test, and ends.
    Probe(Vec<Attempt>),
}
