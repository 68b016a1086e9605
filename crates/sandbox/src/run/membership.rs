//! Which run a process belongs to: by its process group, or by the pid namespace of the run's own process tree.

use std::{
    collections::HashMap,
    fs,
    os::linux::fs::MetadataExt,
    sync::{Arc, Mutex, PoisonError},
};

use nix::unistd::{Pid, getpgid};

use hookjail_sys::Keeper;

/// The runs of a daemon, as far as their processes can be found.
#[derive(Debug)]
pub(crate) struct Membership {
    keeper: Arc<Keeper>,
    /// The daemon's own pid namespace; `None` where it cannot be read, and no other is distinguished from it.
    own: Option<u64>,
    /// Process groups of first processes, by their pid namespaces. Read again before each use.
    trees: Mutex<HashMap<u64, i32>>,
}

impl Membership {
    pub(crate) fn new(keeper: Arc<Keeper>) -> Self {
        Self {
            keeper,
            own: namespace("self"),
            trees: Mutex::default(),
        }
    }

    /// Returns whether a process group is that of a running hook, or of the first process of its tree.
    pub(crate) fn watches(&self, group: i32) -> bool {
        self.keeper.watches(group)
    }

    /// Returns the group by which the run of a process is known; `None` where it belongs to no run.
    pub(crate) fn run_of(&self, pid: i32) -> Option<i32> {
        let group = getpgid(Some(Pid::from_raw(pid))).ok()?.as_raw();
        if self.keeper.watches(group) {
            return Some(group);
        }
        let found = namespace(&pid.to_string())?;
        (self.own.is_some_and(|daemon| daemon != found)).then_some(())?;
        let is_of = |group: &i32| namespace(&group.to_string()) == Some(found);
        let mut trees = self.trees.lock().unwrap_or_else(PoisonError::into_inner);
        let known = trees.get(&found).copied();
        let known = known.filter(|group| self.keeper.watches(*group) && is_of(group));
        let group = known.or_else(|| self.keeper.groups().into_iter().find(is_of))?;
        // Numbers of namespaces are used again, so that few are kept.
        if trees.len() >= MOST_KNOWN {
            trees.clear();
        }
        trees.insert(found, group);
        Some(group)
    }
}

/// Number of namespaces from which on they are read anew.
const MOST_KNOWN: usize = 1024;

/// Returns the number of a process's pid namespace.
fn namespace(process: &str) -> Option<u64> {
    let found = fs::metadata(format!("/proc/{process}/ns/pid")).ok()?;
    Some(found.st_ino())
}
