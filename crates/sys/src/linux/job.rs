//! Inputs of a child, prepared, and its report.

use std::{
    ffi::{CStr, CString, OsString},
    fs, io,
    os::{
        fd::{AsRawFd, OwnedFd, RawFd},
        unix::ffi::OsStringExt,
    },
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicI32, AtomicU32, AtomicUsize, Ordering},
    },
};

use super::{Attempt, Identity, Init, Mounts, Note, PointerList};

/// A step of the child. The steps up to `Release` are in execution order.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
#[repr(u32)]
pub enum Step {
    /// Not begun.
    Begin = 0,
    /// Resets all signal dispositions to their defaults.
    Signals = 1,
    /// Makes a process group of its own.
    ProcessGroup = 2,
    /// Moves into its cgroup, where the clone did not make it there.
    Cgroup = 3,
    /// Connects pipes to 0, 1 and 2.
    Stdio = 4,
    /// Makes paths of the workspace read-only, in a mount namespace of its own.
    ReadOnly = 5,
    /// Mounts a file system of limited size on the scratch directory, in a mount namespace of its own.
    Scratch = 6,
    /// Sets groups, gid and uid.
    Identity = 7,
    /// Empties every capability set, except the bounding set, which is empty by then.
    Capabilities = 8,
    /// Sets the child to die with the thread that started it.
    ParentDeathSignal = 9,
    /// Changes to the working directory.
    WorkingDirectory = 10,
    /// Enters the Landlock domain.
    Landlock = 11,
    /// Closes all descriptors except 0 to 2 and the program's, which closes on exec.
    CloseFds = 12,
    /// Opens the granted canary.
    CanaryGranted = 13,
    /// Checks that the ungranted canary is refused with EACCES.
    CanaryDenied = 14,
    /// Sets resource limits.
    Limits = 15,
    /// Loads the closing seccomp filter.
    ClosingFilter = 16,
    /// Unblocks all signals.
    SignalMask = 17,
    /// Executes the program, or makes the attempts.
    Release = 18,
    /// Makes a process tree of its own, in a pid namespace. Before `Stdio`.
    Tree = 19,
    /// Makes the first process of that tree. Within `Tree`.
    Init = 20,
    /// Mounts the run's own view of the machine. After `Scratch`.
    View = 21,
    /// Mounts a `/proc` of its own. Within `View`.
    Proc = 22,
    /// Mounts pseudo-terminals of its own. Within `View`.
    Terminals = 23,
    /// Checks that a connection to no host is refused. After `CanaryDenied`.
    CanaryUnnamed = 24,
}

impl Step {
    const ALL: [Self; 25] = [
        Self::Begin,
        Self::Signals,
        Self::ProcessGroup,
        Self::Cgroup,
        Self::Stdio,
        Self::ReadOnly,
        Self::Scratch,
        Self::Identity,
        Self::Capabilities,
        Self::ParentDeathSignal,
        Self::WorkingDirectory,
        Self::Landlock,
        Self::CloseFds,
        Self::CanaryGranted,
        Self::CanaryDenied,
        Self::Limits,
        Self::ClosingFilter,
        Self::SignalMask,
        Self::Release,
        Self::Tree,
        Self::Init,
        Self::View,
        Self::Proc,
        Self::Terminals,
        Self::CanaryUnnamed,
    ];

    /// Returns the step's name as reports and logs spell it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Begin => "begin",
            Self::Signals => "signals",
            Self::ProcessGroup => "process_group",
            Self::Cgroup => "cgroup",
            Self::Stdio => "stdio",
            Self::ReadOnly => "read_only",
            Self::Scratch => "scratch",
            Self::Identity => "identity",
            Self::Capabilities => "capabilities",
            Self::ParentDeathSignal => "parent_death_signal",
            Self::WorkingDirectory => "working_directory",
            Self::Landlock => "landlock",
            Self::CloseFds => "close_fds",
            Self::CanaryGranted => "canary_granted",
            Self::CanaryDenied => "canary_denied",
            Self::Limits => "limits",
            Self::ClosingFilter => "closing_filter",
            Self::SignalMask => "signal_mask",
            Self::Release => "release",
            Self::Tree => "tree",
            Self::Init => "init",
            Self::View => "view",
            Self::Proc => "proc",
            Self::Terminals => "terminals",
            Self::CanaryUnnamed => "canary_unnamed",
        }
    }

    pub(super) const fn bit(self) -> u32 {
        1 << (self as u32)
    }
}

/// Report of the child's steps. Written by the child, read by the parent once the child has executed or gone.
#[derive(Debug, Default)]
pub struct Report {
    pub(super) done: AtomicU32,
    pub(super) errno: AtomicI32,
    pub(super) step: AtomicU32,
}

impl Report {
    /// Returns the step that the child took last.
    pub fn step(&self) -> Step {
        let last = self.step.load(Ordering::Acquire);
        Step::ALL
            .into_iter()
            .find(|step| *step as u32 == last)
            .unwrap_or(Step::Begin)
    }

    /// Returns the errno at which the child stopped, or 0.
    pub fn errno(&self) -> i32 {
        self.errno.load(Ordering::Acquire)
    }

    /// Returns whether the child took this step successfully.
    pub fn did(&self, step: Step) -> bool {
        self.done.load(Ordering::Acquire) & step.bit() != 0
    }
}

/// Proofs of a child's confinement: two files, one granted and one not, and a connection.
#[derive(Clone, Debug)]
pub struct Canaries {
    /// Whether a connection to port 0 of loopback, which no host has, must fail with EACCES or EPERM.
    pub connects: bool,
    /// File whose open must fail, with EACCES and nothing else.
    pub denied: CString,
    /// File that must open.
    pub granted: CString,
}

/// The filter that the child loads last. Some of its constants are the child's own ids, which only the child has.
#[derive(Clone, Debug)]
pub struct Closing {
    /// Indexes of instructions whose constant becomes minus the child's process id, as 32 bits.
    pub own_group_slots: Vec<usize>,
    /// Indexes of instructions whose constant becomes the child's process id.
    pub own_pid_slots: Vec<usize>,
    /// The program; at most [`Closing::MAX`] instructions.
    pub program: Vec<libc::sock_filter>,
}

impl Closing {
    /// Size limit of the closing program. The child copies it to its stack, since it cannot allocate.
    pub const MAX: usize = 256;

    /// Returns the program of a process, with its id filled in. Allocates nothing and cannot fail, so that a child calls it.
    pub fn of_process(&self, pid: u32) -> [libc::sock_filter; Self::MAX] {
        const NOTHING: libc::sock_filter = libc::sock_filter {
            code: 0,
            jt: 0,
            jf: 0,
            k: 0,
        };
        let mut program = [NOTHING; Self::MAX];
        for (target, instruction) in program.iter_mut().zip(&self.program) {
            *target = *instruction;
        }
        let groups = self
            .own_group_slots
            .iter()
            .map(|slot| (slot, pid.wrapping_neg()));
        for (slot, operand) in groups.chain(self.own_pid_slots.iter().map(|slot| (slot, pid))) {
            if let Some(instruction) = program.get_mut(*slot) {
                instruction.k = operand;
            }
        }
        program
    }
}

/// Action of a confined child.
#[derive(Debug)]
pub enum Action {
    /// Makes syscalls and records their results: a self-test.
    Attempt(Vec<Attempt>),
    /// Executes a program.
    Execute {
        /// Arguments, the program's name among them.
        argv: Vec<CString>,
        /// Environment, `NAME=value`.
        environment: Vec<CString>,
        /// The program, opened for reading.
        program: OwnedFd,
    },
}

/// A child's way into its cgroup.
#[derive(Debug)]
pub enum IntoCgroup {
    /// The clone makes it there: the cgroup's directory.
    Clone(OwnedFd),
    /// The child moves itself, which takes longer, but no `clone3`: the cgroup's `cgroup.procs`, open for writing.
    Move(OwnedFd),
}

/// Parts of a [`Job`].
#[derive(Debug)]
pub struct JobParts {
    /// Action of the confined child.
    pub action: Action,
    /// Proof of confinement; `None` runs without the proof and is for unconfined runs only.
    pub canaries: Option<Canaries>,
    /// The child's way into its cgroup; `None` = it stays in that of the spawner.
    pub cgroup: Option<IntoCgroup>,
    /// The last filter, if any.
    pub closing: Option<Arc<Closing>>,
    /// Entry into which the child writes its process group, for the keeper. `None` for one that starts nothing.
    pub group: Option<&'static AtomicI32>,
    /// Identity of the child; `None` keeps the daemon's user.
    pub identity: Option<Identity>,
    /// Flags of the call that enters the Landlock domain: `LANDLOCK_RESTRICT_SELF_*`.
    pub landlock_flags: u32,
    /// Hard and soft resource limits: `RLIMIT_*` and value.
    pub limits: Vec<(u32, u64)>,
    /// Mounts that the child makes in a namespace of its own, if any.
    pub mounts: Option<Mounts>,
    /// Where the child records its group for the next daemon.
    pub note: Option<Note>,
    /// The Landlock ruleset, if any.
    pub ruleset: Option<OwnedFd>,
    /// The first process of the run's own process tree, which needs `mounts`; `None` = the run stays in one process group.
    pub tree: Option<Init>,
    /// The child's ends of stdin, stdout and stderr.
    pub stdio: [OwnedFd; 3],
    /// The umask.
    pub umask: u32,
    /// Working directory.
    pub working_dir: Arc<OwnedFd>,
}

/// Progress of a job's launch.
#[derive(Debug, Default)]
pub(super) struct Flight {
    /// Whether the job must no longer be started.
    pub(super) overdue: bool,
    pub(super) stage: Stage,
}

/// Stage of a job's launch.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum Stage {
    /// There is no child.
    #[default]
    Waiting,
    /// In the clone: there may be a child, which may have executed its program.
    Cloning,
    /// The child of this id belongs to the caller.
    Launched(i32),
}

/// A prepared child with all its inputs by value, so that it performs no lookups.
#[derive(Debug)]
pub struct Job {
    pub(super) argv: PointerList,
    pub(super) environment: PointerList,
    /// Progress of its launch; guards the meaning of `pidfd`.
    pub(super) flight: Mutex<Flight>,
    /// The first process of the tree; 0 = none yet. The kernel writes it before that process runs.
    pub(super) init: AtomicI32,
    pub(super) init_argv: PointerList,
    pub(super) no_environment: PointerList,
    /// The hook in the tree; 0 = none yet. Written by the kernel, too.
    pub(super) hook: AtomicI32,
    /// The id that the hook is to have in its own tree: that of the process that makes the tree.
    pub(super) inside: AtomicI32,
    /// End of the part of the stack for the processes of a tree, which begin one after the other.
    pub(super) inner_stack: AtomicUsize,
    pub(super) limits: Vec<(u32, libc::rlimit64)>,
    /// OOM score adjustment of the child. `None` leaves it as it is for this process.
    pub(super) oom_score_adj: Option<&'static str>,
    /// This process, which must still be the child's parent once the child has set its parent death signal.
    pub(super) parent: u32,
    pub(super) parts: JobParts,
    pub(super) pidfd: AtomicI32,
    pub(super) report: Report,
}

impl Job {
    /// Prepares a child.
    ///
    /// # Errors
    ///
    /// Returns the parts where the closing program is longer than [`Closing::MAX`], or one of its slots lies outside.
    pub fn new(parts: JobParts) -> Result<Self, Box<JobParts>> {
        let fits = parts.closing.as_ref().is_none_or(|closing| {
            let length = closing.program.len();
            length <= Closing::MAX
                && closing
                    .own_pid_slots
                    .iter()
                    .chain(&closing.own_group_slots)
                    .all(|slot| *slot < length)
        });
        if !fits {
            return Err(Box::new(parts));
        }
        let (argv, environment) = match &parts.action {
            Action::Execute {
                argv,
                environment,
                program: _,
            } => (PointerList::new(argv), PointerList::new(environment)),
            Action::Attempt(_) => (PointerList::new(&[]), PointerList::new(&[])),
        };
        let limits = parts
            .limits
            .iter()
            .map(|(resource, value)| {
                (
                    *resource,
                    libc::rlimit64 {
                        rlim_cur: *value,
                        rlim_max: *value,
                    },
                )
            })
            .collect();
        Ok(Self {
            argv,
            environment,
            flight: Mutex::default(),
            hook: AtomicI32::new(0),
            init: AtomicI32::new(0),
            // Into `parts`, which this value keeps.
            init_argv: (parts.tree.as_ref()).map_or_else(|| PointerList::new(&[]), Init::argv),
            no_environment: PointerList::new(&[]),
            inner_stack: AtomicUsize::new(0),
            inside: AtomicI32::new(0),
            limits,
            // A child without an entry for the keeper starts nothing, or inherits it.
            oom_score_adj: parts.group.and_then(|_| oom_score_adj_of_hooks()),
            parent: std::process::id(),
            parts,
            pidfd: AtomicI32::new(-1),
            report: Report::default(),
        })
    }

    /// Returns the first process of the run's own tree, if there is one.
    pub fn init(&self) -> Option<i32> {
        Some(self.init.load(Ordering::Acquire)).filter(|init| *init > 0)
    }

    /// Returns the child's report so far.
    pub const fn report(&self) -> &Report {
        &self.report
    }

    /// Returns the self-test's attempts, if this is a self-test's job.
    pub fn attempts(&self) -> &[Attempt] {
        match &self.parts.action {
            Action::Attempt(attempts) => attempts,
            Action::Execute { .. } => &[],
        }
    }

    pub(super) fn program(&self) -> Option<RawFd> {
        match &self.parts.action {
            Action::Execute { program, .. } => Some(program.as_raw_fd()),
            Action::Attempt(_) => None,
        }
    }
}

/// File of a process's OOM score adjustment: `proc_pid_oom_score_adj(5)`.
pub(super) const OOM_SCORE_ADJ: &CStr = c"/proc/self/oom_score_adj";

/// Added to the daemon's OOM score adjustment for hooks.
const SOONER: i32 = 500;

/// The maximum OOM score adjustment.
const SOONEST: i32 = 1000;

/// Returns the OOM score adjustment of hooks: 500 more than this process's own. Its own is that of the first call. `None` where
/// it is not readable.
fn oom_score_adj_of_hooks() -> Option<&'static str> {
    static TEXT: OnceLock<Option<String>> = OnceLock::new();
    let read = || {
        let adjustment = fs::read_to_string(OOM_SCORE_ADJ.to_str().ok()?).ok()?;
        let adjustment: i32 = adjustment.trim().parse().ok()?;
        Some(adjustment.saturating_add(SOONER).min(SOONEST).to_string())
    };
    TEXT.get_or_init(read).as_deref()
}

/// Has the kernel take a hook's process before all others where memory runs out. [`take_as_hooks`] undoes that.
///
/// # Errors
///
/// The process's adjustment cannot be set, or could not be set back and is as that of hooks.
pub fn take_first(pid: i32) -> io::Result<()> {
    // An adjustment of hooks that can be set now can be set again: raising needs no right, and lowering has that of the first time.
    take_as_hooks(pid)?;
    fs::write(of_process(pid), SOONEST.to_string())
}

/// Has the kernel take a process as any hook where memory runs out.
///
/// # Errors
///
/// The adjustment of hooks is not known, or cannot be set.
pub fn take_as_hooks(pid: i32) -> io::Result<()> {
    let text = oom_score_adj_of_hooks().ok_or(io::ErrorKind::Unsupported)?;
    fs::write(of_process(pid), text)
}

fn of_process(pid: i32) -> String {
    format!("/proc/{pid}/oom_score_adj")
}

/// Converts a string to a C string; `None` if it holds a NUL byte.
pub(super) fn c_string(text: OsString) -> Option<CString> {
    CString::new(text.into_vec()).ok()
}

/// Returns the address of a C string's first byte.
pub(super) fn address(text: &CStr) -> usize {
    text.as_ptr().addr()
}
