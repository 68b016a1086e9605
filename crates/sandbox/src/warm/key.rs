//! Key of a waiting process: runs of a command with equal keys share one.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    os::fd::AsFd,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use nix::{
    errno::Errno,
    sys::stat::{fstat, stat},
};

use hookjail_base::{
    model::{Peer, ProfileName},
    util::listing::change_time,
};
use hookjail_policy::{
    EgressRules, Limits, Metadata, Network, Spawn, environment::matters_at_start, rights::Rights,
};

use super::Waiter;
use crate::{BackendName, HookTask, run::child_spec::has_view};

/// Everything that a process receives when it starts. The inputs of its run are no part of it: scripts, stdin, and the
/// variables that no interpreter reads when it starts.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Key {
    argv: Vec<OsString>,
    backend: BackendName,
    caller: (u32, u32, Vec<u32>),
    /// The hosts that a view's tables of names have.
    egress: Arc<EgressRules>,
    environment: BTreeMap<OsString, OsString>,
    executable: (PathBuf, String, Inode),
    grants: Vec<(PathBuf, Rights, Inode)>,
    pub(crate) waiter: Waiter,
    limits: Limits,
    metadata: Metadata,
    network: Network,
    profile: (Vec<ProfileName>, String),
    spawn: Spawn,
    /// The session and the workspace whose files a view shows.
    state: Option<(String, Option<PathBuf>)>,
    umask: u32,
    /// The files by which a virtual environment names its Python: beside the interpreter's name, and above it.
    virtual_environment: [Option<(Inode, Duration)>; 2],
    working_dir: Option<(PathBuf, Inode)>,
}

type Inode = (libc::dev_t, libc::ino_t);

impl Key {
    /// Returns the key of a hook with these variables, for which an interpreter waits; `None` where it cannot be examined.
    pub(crate) fn new(
        task: HookTask<'_>,
        mut environment: BTreeMap<OsString, OsString>,
        waiter: Waiter,
    ) -> Option<Self> {
        let HookTask {
            caller,
            cancel: _,
            deadline: _,
            environment: _,
            opened,
            policy,
            prepared,
            program,
            session,
            stdin: _,
            workspace,
        } = task;
        environment.retain(|name, _| matters_at_start(name));
        let grants = opened.grants.iter();
        let grants = grants.map(|it| Ok((it.path.clone(), it.rights, inode(&it.target)?)));
        let working_dir = opened.working_dir.as_ref();
        let working_dir =
            working_dir.map(|it| Ok::<_, Errno>((it.path.clone(), inode(&it.opened)?)));
        let Peer {
            gid,
            groups,
            pid: _,
            remote: _,
            uid,
        } = caller;
        Some(Self {
            argv: program.argv.clone(),
            backend: prepared.backend,
            caller: (*uid, *gid, groups.to_vec()),
            egress: Arc::clone(&policy.egress),
            environment,
            executable: (
                program.executable_path().to_owned(),
                program.executable_sha256().to_owned(),
                inode(&program.executable).ok()?,
            ),
            grants: grants.collect::<Result<_, Errno>>().ok()?,
            waiter,
            limits: policy.limits,
            metadata: policy.metadata,
            network: policy.network,
            profile: (policy.line.to_vec(), policy.digest.clone()),
            spawn: policy.spawn,
            state: has_view(task).then(|| (session.to_owned(), workspace.map(Path::to_owned))),
            umask: policy.umask,
            virtual_environment: virtual_environment(program.executable_path()),
            working_dir: working_dir.transpose().ok()?,
        })
    }

    /// Returns the caller's uid.
    pub(super) const fn uid(&self) -> u32 {
        self.caller.0
    }
}

#[cfg(test)]
impl Key {
    /// Returns the key of a caller's command, for a test.
    pub(super) fn of_test(uid: u32, command: &str) -> Self {
        Self {
            argv: vec![command.into()],
            backend: BackendName::LANDLOCK,
            caller: (uid, uid, Vec::new()),
            egress: Arc::default(),
            environment: BTreeMap::new(),
            executable: (PathBuf::new(), String::new(), (0, 0)),
            grants: Vec::new(),
            waiter: Waiter::Python,
            limits: Limits {
                address_space: None,
                cpus: None,
                file_size: 0,
                memory: None,
                on_output_limit: hookjail_base::model::OnOutputLimit::Drain,
                open_files: 16,
                output_bytes: 0,
                scratch: None,
                tasks: 1,
            },
            metadata: Metadata::Keep,
            network: Network::None,
            profile: (Vec::new(), String::new()),
            spawn: Spawn::Threads,
            state: None,
            umask: 0o077,
            virtual_environment: [None; 2],
            working_dir: None,
        }
    }
}

/// Returns the state of the files in which Python looks for its virtual environment.
fn virtual_environment(executable: &Path) -> [Option<(Inode, Duration)>; 2] {
    let mut above = executable.ancestors().skip(1);
    [above.next(), above.next()].map(|directory| {
        let found = stat(&directory?.join("pyvenv.cfg")).ok()?;
        Some(((found.st_dev, found.st_ino), change_time(&found)))
    })
}

fn inode(file: impl AsFd) -> Result<Inode, Errno> {
    fstat(file).map(|found| (found.st_dev, found.st_ino))
}
