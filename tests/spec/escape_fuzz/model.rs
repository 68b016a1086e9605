//! The required result of a call: by the table for its number and arguments, by the grants for its paths.

use std::path::{Path, PathBuf};

use hookjail::policy::{
    Access, Files, GrantPlace, GrantSpec, HookView, Metadata, Network, Policy, Spawn,
};
use hookjail_sandbox::seccomp::{
    FilterSpec,
    arguments::{ArgTest, Wanted},
    rules::{Rule, rule},
    syscalls::nr,
};
use hookjail_sys as sys;

use super::{
    calls::{Arg, Call},
    generate::has,
};

/// `uretprobe` and `uprobe`.
const UNFILTERED: [u32; 2] = [335, 336];

/// Answer of the filters to a call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Verdict {
    /// The call reaches the kernel, with any result there. `conditional`: because of its arguments.
    Allowed {
        conditional: bool,
    },
    Killed,
    Refused(i32),
}

/// Rights of a hook: the filters' specification and the grants.
#[derive(Clone, Debug)]
pub(super) struct Model {
    pub(super) spec: FilterSpec,
    pub(super) grants: Grants,
}

/// Which paths may be used how: a set of trees.
#[derive(Clone, Debug, Default)]
pub(super) struct Grants(Vec<(PathBuf, Right)>);

/// Purpose for which a tree is granted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Right {
    Granted(Access),
    /// All but executing.
    Scratch,
}

/// Use of a path by a call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Use {
    Execute,
    Read,
    /// Also what empties.
    Write,
    /// Makes, renames or removes something in the directory.
    Change,
}

/// The player's report of one call.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Report {
    pub(super) answer: i64,
    /// Where paths led, by argument, before the call; `None`: nowhere.
    pub(super) paths: Vec<(usize, Option<String>)>,
    /// The opened file: its flags, and where it is.
    pub(super) opened: Option<(i32, String)>,
}

impl Grants {
    /// Adds a tree, by its real path; one that does not exist is no grant.
    pub(super) fn add(&mut self, path: &Path, right: Right) {
        self.0
            .extend(path.canonicalize().ok().map(|path| (path, right)));
    }

    /// Whether a real path may be used so.
    pub(super) fn allow(&self, path: &Path, wanted: Use) -> bool {
        let gives = |right| match (wanted, right) {
            (Use::Read, _) => true,
            (Use::Execute, Right::Granted(access)) => {
                matches!(access, Access::Execute | Access::Write)
            }
            (Use::Execute, Right::Scratch) => false,
            (Use::Write, Right::Granted(access)) => !access.is_read_only(),
            (Use::Change, Right::Granted(access)) => access == Access::Write,
            (Use::Write | Use::Change, Right::Scratch) => true,
        };
        self.0
            .iter()
            .any(|(tree, right)| path.starts_with(tree) && gives(*right))
    }
}

impl Model {
    /// Returns the model of a profile, as it is written, for a hook with this workspace.
    pub(super) fn new(policy: &Policy, workspace: &Path, program: &Path) -> Self {
        let Files {
            cache: _,
            hidden: _,
            named,
            read_only: _,
            state: _,
            system,
            tokens: _,
            transcripts: _,
            unchanged: _,
        } = &policy.files;
        let mut grants = Grants::default();
        for GrantSpec { access, place, .. } in system.iter().chain(named) {
            let path = match place {
                GrantPlace::Entries(entries) => {
                    for path in entries.existing().unwrap_or_default() {
                        grants.add(&path, Right::Granted(*access));
                    }
                    continue;
                }
                GrantPlace::Path(path) => path.clone(),
                // None is bound.
                GrantPlace::Source { .. } => continue,
                GrantPlace::Workspace { below, .. } => workspace.join(below),
            };
            grants.add(&path, Right::Granted(*access));
        }
        grants.add(program, Right::Granted(Access::Execute));
        Self {
            grants,
            spec: spec(policy.metadata, policy.network, policy.spawn),
        }
    }

    /// Returns the same for a hook with this scratch directory.
    pub(super) fn with_scratch(&self, scratch: &Path) -> Self {
        let mut model = self.clone();
        // The directory is gone by the time its hook has ended.
        model.grants.0.push((scratch.to_owned(), Right::Scratch));
        model
    }

    /// Returns the answer of the table to a call by the process `pid`.
    pub(super) fn verdict(&self, call: &Call, pid: u32) -> Verdict {
        let values = call.values();
        match rule(&self.spec, call.number()) {
            // Newer kernels show these to no filter. They end a process that makes them elsewhere than on a trampoline of
            // the kernel's own, or do nothing.
            _ if UNFILTERED.contains(&call.number()) => Verdict::Allowed { conditional: false },
            Rule::Allow => Verdict::Allowed { conditional: false },
            Rule::AllowWhen { ways, .. }
                if ways
                    .iter()
                    .any(|way| way.iter().all(|test| holds(test, &values, pid))) =>
            {
                Verdict::Allowed { conditional: true }
            }
            Rule::AllowWhen { otherwise, .. } => Verdict::Refused(otherwise),
            Rule::Errno(errno) => Verdict::Refused(errno),
            Rule::Kill => Verdict::Killed,
        }
    }

    /// Returns the fault in a call's answer, if there is one.
    pub(super) fn fault(&self, call: &Call, report: &Report, pid: u32) -> Option<String> {
        let refused = i64::from(-libc::EPERM);
        match self.verdict(call, pid) {
            Verdict::Killed => Some("must kill, and was answered".to_owned()),
            Verdict::Refused(errno) if report.answer != i64::from(-errno) => {
                Some(format!("must be refused with errno {errno}"))
            }
            Verdict::Refused(_) => None,
            Verdict::Allowed { conditional: true }
                if report.answer == refused && !may_be_refused_by_the_kernel(call) =>
            {
                Some("must reach the kernel, and was refused".to_owned())
            }
            Verdict::Allowed { .. } => self.trespass(call, report),
        }
    }

    /// Returns the path without a grant that a call used successfully, if there is one.
    fn trespass(&self, call: &Call, report: &Report) -> Option<String> {
        if report.answer < 0 {
            return None;
        }
        let denied = |path: &str, usage| {
            let path = path.strip_suffix("%20(deleted)").unwrap_or(path);
            // A pipe or a socket of its own has no path.
            let outside = path.starts_with('/') && !self.grants.allow(Path::new(path), usage);
            outside.then(|| format!("{usage:?} of {path}, which is granted nowhere"))
        };
        if let Some((flags, path)) = &report.opened {
            return uses_of_open(call, *flags, path)
                .into_iter()
                .find_map(|wanted| denied(path, wanted));
        }
        let wanted = use_of(call.number())?;
        report.paths.iter().find_map(|(_, path)| match path {
            None => Some("worked on a path that led nowhere".to_owned()),
            Some(path) if wanted == Use::Change => denied(
                path.rsplit_once('/').map_or("/", |(parent, _)| parent),
                wanted,
            ),
            Some(path) => denied(path, wanted),
        })
    }
}

/// Returns what the filters of this kernel depend on.
fn spec(metadata: Metadata, network: Network, spawn: Spawn) -> FilterSpec {
    FilterSpec {
        // No newer version has rights that concern the filters.
        landlock_abi: sys::landlock_abi().expect("Landlock"),
        metadata,
        mounts: false,
        network,
        spawn,
        view: HookView::Machine,
    }
}

fn holds(test: &ArgTest, values: &[u64; 6], pid: u32) -> bool {
    let (mask, value) = match test.wanted {
        Wanted::Exactly(value) => (u64::MAX, value),
        Wanted::Masked { mask, value } => (mask, value),
        Wanted::OwnGroup => (u64::MAX, u64::from(pid.wrapping_neg())),
        Wanted::OwnPid => (u64::MAX, u64::from(pid)),
    };
    (values[usize::from(test.index)] ^ value) & mask & test.width.mask() == 0
}

/// Returns whether the kernel itself may answer EPERM to a call that goes through by its arguments.
fn may_be_refused_by_the_kernel(call: &Call) -> bool {
    let values = call.values();
    let low = |index: usize| values[index] & 0xffff_ffff;
    match call.number() {
        // Signals: Landlock decides about their targets.
        nr::kill | nr::tgkill => true,
        // Not to look at the time of a file of others; to append and nothing else.
        nr::fcntl => low(1) == u64::try_from(libc::F_SETFL).unwrap(),
        // A thread pointer that is no address.
        nr::clone => has(values[0], libc::CLONE_SETTLS),
        // Not to note when a file of others was read.
        nr::open | nr::openat => true,
        // Not to raise a hard limit, to leave the policy for what is idle, or to be served before everybody.
        nr::ioprio_set
        | nr::prlimit64
        | nr::sched_setaffinity
        | nr::sched_setparam
        | nr::sched_setscheduler => true,
        _ => false,
    }
}

/// Returns what a call that takes paths does to all of them.
fn use_of(number: u32) -> Option<Use> {
    match number {
        nr::truncate => Some(Use::Write),
        nr::link
        | nr::linkat
        | nr::mkdir
        | nr::mkdirat
        | nr::rename
        | nr::renameat
        | nr::renameat2
        | nr::rmdir
        | nr::symlink
        | nr::symlinkat
        | nr::unlink
        | nr::unlinkat => Some(Use::Change),
        _ => None,
    }
}

/// Returns what opening has given, by the flags of the call and of what was opened.
fn uses_of_open(call: &Call, flags: i32, path: &str) -> Vec<Use> {
    let flags_of_call = match (call.number(), &call.args[..]) {
        (nr::open, [_, Arg::Value(flags_of_call), ..]) => *flags_of_call,
        (nr::openat, [_, _, Arg::Value(flags_of_call), ..]) => *flags_of_call,
        (nr::openat2, [_, _, Arg::Bytes(how), ..]) => {
            how.first_chunk().map_or(0, |how| u64::from_le_bytes(*how))
        }
        (nr::creat, _) => u64::try_from(libc::O_TRUNC).unwrap(),
        _ => 0,
    };
    if flags & libc::O_PATH != 0 {
        return Vec::new();
    }
    let mut uses = match flags & libc::O_ACCMODE {
        libc::O_RDONLY => vec![Use::Read],
        libc::O_WRONLY => vec![Use::Write],
        libc::O_RDWR => vec![Use::Read, Use::Write],
        // For neither, which no filter lets through.
        _ => vec![Use::Read, Use::Write],
    };
    // A device has no content to lose.
    if has(flags_of_call, libc::O_TRUNC) && !path.starts_with("/dev/") {
        uses.push(Use::Write);
    }
    uses
}
