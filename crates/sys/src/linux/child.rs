//! The child: confines itself, proves it, and then executes the hook.
//!
//! Runs in the memory of the daemon, on a stack of its own, while the thread that made it sleeps. So: raw syscalls
//! only, no allocation, no lock, no thread-local storage, nothing that could panic.
//!
//! The order of the steps is fixed:
//!
//! - limits after the canaries (a low RLIMIT_NOFILE would refuse them),
//! - the filter after everything that the hook must not do,
//! - the signal mask last (a handler of the daemon must not run here).

use std::{
    ffi::CStr,
    os::fd::{AsRawFd, OwnedFd},
    ptr,
    sync::atomic::{AtomicI32, Ordering},
};

use super::{
    Action, Closing, Identity, Init, IntoCgroup, Job, Mounts, Note, NotedGroup, Step,
    attempt::connect_to_loopback,
    job::{OOM_SCORE_ADJ, address},
    mounts::{NAMESPACE_OF_A_TREE, enter, isolate},
    raw, read_only,
    spawn::TREE_CLONE_FLAGS,
    tmpfs, view,
};

/// File of the id that the last process of a pid namespace got: `pid_namespaces(7)`.
const LAST_PID: &CStr = c"/proc/sys/kernel/ns_last_pid";

/// The descriptor of the program while it is executed; closed by the exec.
const PROGRAM_FD: usize = 3;

/// `struct sigaction` of the kernel, which is not libc's.
#[repr(C)]
struct KernelSigaction {
    handler: usize,
    flags: u64,
    restorer: usize,
    mask: u64,
}

/// `struct __user_cap_header_struct`.
#[repr(C)]
struct CapabilityHeader {
    version: u32,
    pid: i32,
}

/// Runs the child. Never returns: executes the program, or exits with 126 where a step failed.
///
/// A child with a process tree of its own makes the tree's first process and the hook, both as children of the daemon. The
/// child exits with 0 once both have executed.
pub(super) extern "C" fn run(job: *const Job) -> ! {
    // SAFETY: the parent passes a pointer to a Job that it borrows for as long as it sleeps in the clone, which is until
    // this task executes or exits.
    let job: &Job = unsafe { &*job };
    let ready = match &job.parts.tree {
        Some(_) => make_tree(job).map(|()| raw::exit(0)),
        None => begin(job).and_then(|()| confine(job)),
    };
    match ready {
        Ok(()) => release(job),
        Err(errno) => fail(job, errno),
    }
}

/// Runs the hook of a process tree. Never returns, as [`run`].
extern "C" fn run_in_tree(job: *const Job) -> ! {
    // SAFETY: as in `run`: the task that made this one, and the daemon's thread that made that one, sleep until this one
    // executes or exits.
    let job: &Job = unsafe { &*job };
    let ready = take(job, Step::ProcessGroup, || {
        call(libc::SYS_setsid, [0; 6]).map(drop)
    });
    match ready.and_then(|()| confine(job)) {
        Ok(()) => release(job),
        Err(errno) => fail(job, errno),
    }
}

/// Runs the first process of a tree. Never returns, as [`run`].
extern "C" fn run_init(job: *const Job) -> ! {
    // SAFETY: as in `run_in_tree`.
    let job: &Job = unsafe { &*job };
    match &job.parts.tree {
        Some(init) => match become_init(job, init) {
            Ok(()) => fail(job, libc::ENOEXEC),
            Err(errno) => fail(job, errno),
        },
        None => fail(job, libc::EINVAL),
    }
}

/// Makes the namespaces of a process tree, its first process, and the hook. Returns when both have executed, or one could not.
fn make_tree(job: &Job) -> Result<(), i32> {
    let parts = &job.parts;
    begin(job)?;
    // This task sleeps while the others are set up, and must not outlive the daemon.
    take(job, Step::ParentDeathSignal, die_with_daemon)?;
    let ids = parts.mounts.as_ref().and_then(|mounts| mounts.ids.as_ref());
    take(job, Step::Tree, || isolate(ids, NAMESPACE_OF_A_TREE))?;
    let pid = call(libc::SYS_getpid, [0; 6])?;
    job.inside.store(pid as i32, Ordering::Release);
    take(job, Step::Init, || make(job, &job.init, run_init))?;
    make(job, &job.hook, run_in_tree)
}

/// Makes a process of the tree, and sleeps until it has executed or exited.
fn make(job: &Job, pid: &AtomicI32, entry: extern "C" fn(*const Job) -> !) -> Result<(), i32> {
    let stack = job.inner_stack.load(Ordering::Acquire);
    let arguments = [TREE_CLONE_FLAGS as usize, stack, pid.as_ptr().addr(), 0, 0];
    // SAFETY: VM and VFORK are set. The lower part of the stack is used by one of these processes at a time, and its end is
    // aligned. The job lives until the daemon's thread wakes, which sleeps for as long as this task does. The entries keep to
    // raw syscalls.
    let made = unsafe { raw::clone_vfork(libc::SYS_clone, arguments, ptr::from_ref(job), entry) };
    match made {
        0.. => match job.report.errno() {
            0 => Ok(()),
            errno => Err(errno),
        },
        _ => Err(made.unsigned_abs() as i32),
    }
}

/// Becomes the first process of the tree. Returns only where a step fails.
fn become_init(job: &Job, init: &Init) -> Result<(), i32> {
    let parts = &job.parts;
    call(libc::SYS_setpgid, [0; 6])?;
    // The id of this process in the daemon's namespace: its own id is 1.
    watch_over(job, job.init.load(Ordering::Acquire))?;
    // Hooks make names of files of their ids: like those of any other program these are no other process's of the machine.
    // No step: with ids from 2 on a hook is no less confined.
    number_from(job.inside.load(Ordering::Acquire)).ok();
    // Or orphans that fall to this process would stay.
    set_signal(libc::SIGCHLD as usize, libc::SIG_IGN)?;
    if let Some(identity) = &parts.identity {
        change_identity(identity)?;
    }
    drop_capabilities()?;
    die_with_daemon()?;
    check_daemon(init)?;
    call(libc::SYS_chdir, [address(c"/"), 0, 0, 0, 0, 0])?;
    let program = init.program.as_raw_fd() as usize;
    let close_on_exec = libc::O_CLOEXEC as usize;
    if program != PROGRAM_FD {
        call(
            libc::SYS_dup3,
            [program, PROGRAM_FD, close_on_exec, 0, 0, 0],
        )?;
    }
    call(libc::SYS_close_range, [0, PROGRAM_FD - 1, 0, 0, 0, 0])?;
    let others = [PROGRAM_FD + 1, u32::MAX as usize, 0, 0, 0, 0];
    call(libc::SYS_close_range, others)?;
    let argv = job.init_argv.as_ptr().addr();
    let environment = job.no_environment.as_ptr().addr();
    let flags = libc::AT_EMPTY_PATH as usize;
    let arguments = [PROGRAM_FD, address(c""), argv, environment, flags, 0];
    call(libc::SYS_execveat, arguments).map(drop)
}

/// Takes the first steps, those of the child that the daemon made.
fn begin(job: &Job) -> Result<(), i32> {
    let parts = &job.parts;
    take(job, Step::Signals, reset_signals)?;
    take(job, Step::ProcessGroup, || {
        call(libc::SYS_setpgid, [0; 6])?;
        match parts.tree {
            // Its first process is the one to be killed.
            Some(_) => Ok(()),
            None => watch_over(job, call(libc::SYS_getpid, [0; 6])? as i32),
        }
    })?;
    // Before the change of identity, which takes away the right to.
    if let Some(IntoCgroup::Move(processes)) = &parts.cgroup {
        take(job, Step::Cgroup, || join(processes))?;
    }
    if let Some(text) = job.oom_score_adj {
        // No step: a hook that the kernel kills after the daemon is no less confined.
        set_oom_score_adj(text).ok();
    }
    Ok(())
}

/// Takes every other step in order; stops at the first that fails.
fn confine(job: &Job) -> Result<(), i32> {
    let parts = &job.parts;
    take(job, Step::Stdio, || {
        for (target, fd) in parts.stdio.iter().enumerate() {
            // Not `dup2`, which aarch64 lacks. The two are never the same: the daemon has 0 to 2 occupied.
            call(
                libc::SYS_dup3,
                [fd.as_raw_fd() as usize, target, 0, 0, 0, 0],
            )?;
        }
        Ok(())
    })?;
    // Before the change of identity, which takes away what it needs. Whether it makes the kernel forget the signal of the parent's
    // death does not matter here either.
    let mounts = parts.mounts.as_ref();
    let working_dir = match mounts {
        Some(mounts) => make_mounts(job, mounts)?,
        None => parts.working_dir.as_raw_fd() as usize,
    };
    if let Some(identity) = &parts.identity {
        take(job, Step::Identity, || change_identity(identity))?;
    }
    if parts.identity.is_some() || mounts.is_some_and(|it| it.ids.is_some()) {
        take(job, Step::Capabilities, drop_capabilities)?;
    }
    // Not before the change of identity: that clears it.
    take(job, Step::ParentDeathSignal, || {
        die_with_daemon()?;
        if let Some(init) = &parts.tree {
            return check_daemon(init);
        }
        // A daemon that died before cannot be died with.
        match call(libc::SYS_getppid, [0; 6])? {
            parent if parent == job.parent as usize => Ok(()),
            _ => Err(libc::ESRCH),
        }
    })?;
    take(job, Step::WorkingDirectory, || {
        call(libc::SYS_umask, [parts.umask as usize, 0, 0, 0, 0, 0])?;
        call(libc::SYS_fchdir, [working_dir, 0, 0, 0, 0, 0]).map(drop)
    })?;
    if let Some(ruleset) = &parts.ruleset {
        take(job, Step::Landlock, || {
            let flags = parts.landlock_flags as usize;
            call(
                libc::SYS_landlock_restrict_self,
                [ruleset.as_raw_fd() as usize, flags, 0, 0, 0, 0],
            )
            .map(drop)
        })?;
    }
    take(job, Step::CloseFds, || close_fds(job))?;
    if let Some(canaries) = &parts.canaries {
        take(job, Step::CanaryGranted, || {
            let fd = open(address(&canaries.granted), libc::O_RDONLY)?;
            call(libc::SYS_close, [fd, 0, 0, 0, 0, 0]).map(drop)
        })?;
        take(job, Step::CanaryDenied, || {
            match open(address(&canaries.denied), libc::O_RDONLY) {
                Err(libc::EACCES) => Ok(()),
                Err(other) => Err(other),
                // There is no errno for "it worked"; this one is never a kernel's answer to openat.
                Ok(_) => Err(libc::EKEYEXPIRED),
            }
        })?;
        if canaries.connects {
            take(job, Step::CanaryUnnamed, connect_to_no_host)?;
        }
    }
    take(job, Step::Limits, || {
        for (resource, limit) in &job.limits {
            call(
                libc::SYS_prlimit64,
                [0, *resource as usize, ptr::from_ref(limit).addr(), 0, 0, 0],
            )?;
        }
        Ok(())
    })?;
    if let Some(closing) = &parts.closing {
        take(job, Step::ClosingFilter, || load_closing(closing))?;
    }
    take(job, Step::SignalMask, || {
        let none: u64 = 0;
        let set = libc::SIG_SETMASK as usize;
        call(
            libc::SYS_rt_sigprocmask,
            [set, ptr::from_ref(&none).addr(), 0, size_of::<u64>(), 0, 0],
        )
        .map(drop)
    })
}

/// Checks that a connection to no host is refused. The kernel's own answer to port 0 would be `ECONNREFUSED`.
fn connect_to_no_host() -> Result<(), i32> {
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
    let socket = call(
        libc::SYS_socket,
        [libc::AF_INET as usize, kind as usize, 0, 0, 0, 0],
    )?;
    let connected = connect_to_loopback(socket, 0);
    call(libc::SYS_close, [socket, 0, 0, 0, 0, 0])?;
    match connected.unsigned_abs() as i32 {
        libc::EACCES | libc::EPERM => Ok(()),
        0 => Err(libc::EKEYEXPIRED),
        errno => Err(errno),
    }
}

/// Makes the namespace and the mounts. Returns the working directory as it is found there.
///
/// The namespace is made in the step of the first mount, so that where it cannot be had the step shows what takes it.
fn make_mounts(job: &Job, mounts: &Mounts) -> Result<usize, i32> {
    let ids = mounts.ids.as_ref();
    let ruleset = job.parts.ruleset.as_ref();
    let ruleset = ruleset.map(|ruleset| ruleset.as_raw_fd() as usize);
    if let Some(read_only) = &mounts.read_only {
        take(job, Step::ReadOnly, || {
            if job.parts.tree.is_none() {
                isolate(ids, 0)?;
            }
            read_only::make(read_only)
        })?;
    }
    let mut scratch = None;
    if let Some(tmpfs) = &mounts.scratch {
        scratch = Some(take(job, Step::Scratch, || {
            if mounts.read_only.is_none() && job.parts.tree.is_none() {
                isolate(ids, 0)?;
            }
            tmpfs::make(tmpfs, ruleset)
        })?);
    }
    if let Some(view) = &mounts.view {
        let made = take(job, Step::View, || view::make(view, scratch, ruleset))?;
        for (step, is_made) in [(Step::Proc, made.proc), (Step::Terminals, made.terminals)] {
            if is_made {
                take(job, step, || Ok(()))?;
            }
        }
    }
    match &mounts.working_dir {
        // Only now, or it could lie below what has been mounted since.
        Some(working_dir) => enter(working_dir),
        None => scratch.ok_or(libc::EINVAL),
    }
}

/// Executes the program, or makes the attempts of a self-test.
fn release(job: &Job) -> ! {
    job.report
        .step
        .store(Step::Release as u32, Ordering::Release);
    match &job.parts.action {
        Action::Attempt(attempts) => {
            for attempt in attempts {
                attempt.make();
            }
            job.report
                .done
                .fetch_or(Step::Release.bit(), Ordering::AcqRel);
            raw::exit(0)
        }
        Action::Execute { .. } => {
            let empty = address(c"");
            let flags = libc::AT_EMPTY_PATH as usize;
            match call(
                libc::SYS_execveat,
                [
                    PROGRAM_FD,
                    empty,
                    job.argv.as_ptr().addr(),
                    job.environment.as_ptr().addr(),
                    flags,
                    0,
                ],
            ) {
                Err(errno) => fail(job, errno),
                Ok(_) => raw::exit(126),
            }
        }
    }
}

fn fail(job: &Job, errno: i32) -> ! {
    job.report.errno.store(errno, Ordering::Release);
    raw::exit(126)
}

/// Takes one step and reports it.
#[inline(always)]
fn take<T>(job: &Job, step: Step, action: impl FnOnce() -> Result<T, i32>) -> Result<T, i32> {
    job.report.step.store(step as u32, Ordering::Release);
    let taken = action()?;
    job.report.done.fetch_or(step.bit(), Ordering::AcqRel);
    Ok(taken)
}

/// Makes one syscall of a step.
#[inline(always)]
pub(super) fn call(number: i64, arguments: [usize; 6]) -> Result<usize, i32> {
    // SAFETY: every caller in this file, in `mounts`, `read_only` and `tmpfs` passes pointers to values that live in its own
    // frame or in the job, for reading. Where the kernel writes, they live in its frame and are mutable. The task owns its
    // descriptors, credentials, limits and signal state, so nothing here touches the daemon's.
    let result = unsafe { raw::syscall(number, arguments) };
    match result {
        0.. => Ok(result as usize),
        // The kernel's errors are -4095..=-1, which fit.
        _ => Err(result.unsigned_abs() as i32),
    }
}

pub(super) fn open(path: usize, access: i32) -> Result<usize, i32> {
    let flags = (access | libc::O_CLOEXEC) as usize;
    call(
        libc::SYS_openat,
        [libc::AT_FDCWD as usize, path, flags, 0, 0, 0],
    )
}

/// Sets the OOM score adjustment of this task and its children. Of a task that its parent waits for in a vfork the kernel changes
/// the value of this task alone, though the daemon has the same memory.
fn set_oom_score_adj(text: &str) -> Result<(), i32> {
    let fd = open(address(OOM_SCORE_ADJ), libc::O_WRONLY)?;
    let text = [fd, text.as_ptr().addr(), text.len(), 0, 0, 0];
    let written = call(libc::SYS_write, text);
    call(libc::SYS_close, [fd, 0, 0, 0, 0, 0])?;
    written.map(drop)
}

/// Has the next process of this task's pid namespace get an id.
fn number_from(next: i32) -> Result<(), i32> {
    let mut digits = [b'0'; 10];
    let mut rest = next.wrapping_sub(1).unsigned_abs();
    let mut first = digits.len();
    for (index, digit) in digits.iter_mut().enumerate().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
        first = index;
        if rest == 0 {
            break;
        }
    }
    let fd = open(address(LAST_PID), libc::O_WRONLY)?;
    let text = digits.as_ptr().addr() + first;
    let written = call(libc::SYS_write, [fd, text, digits.len() - first, 0, 0, 0]);
    call(libc::SYS_close, [fd, 0, 0, 0, 0, 0])?;
    written.map(drop)
}

/// Has the keeper, and the next daemon, kill a process group if this daemon dies.
fn watch_over(job: &Job, group: i32) -> Result<(), i32> {
    let Some(entry) = job.parts.group else {
        return Ok(());
    };
    entry.store(group, Ordering::Release);
    match &job.parts.note {
        Some(note) => write_down(note, group),
        None => Ok(()),
    }
}

/// Has this task die with the daemon's thread that is its parent.
fn die_with_daemon() -> Result<(), i32> {
    let option = libc::PR_SET_PDEATHSIG as usize;
    let arguments = [option, libc::SIGKILL as usize, 0, 0, 0, 0];
    call(libc::SYS_prctl, arguments).map(drop)
}

/// Checks that the daemon lives, in a pid namespace in which it has no id.
fn check_daemon(init: &Init) -> Result<(), i32> {
    let mut looked = libc::pollfd {
        fd: init.daemon.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    let at_once = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let arguments = [
        (&raw mut looked).addr(),
        1,
        ptr::from_ref(&at_once).addr(),
        0,
        0,
        0,
    ];
    match call(libc::SYS_ppoll, arguments)? {
        0 => Ok(()),
        _ => Err(libc::ESRCH),
    }
}

/// Resets all signal dispositions. Rust ignores SIGPIPE and the daemon has handlers; an exec would keep the former.
fn reset_signals() -> Result<(), i32> {
    for signal in 1..=64_usize {
        if signal != libc::SIGKILL as usize && signal != libc::SIGSTOP as usize {
            set_signal(signal, libc::SIG_DFL)?;
        }
    }
    Ok(())
}

/// Sets the disposition of a signal.
fn set_signal(signal: usize, handler: usize) -> Result<(), i32> {
    let action = KernelSigaction {
        handler,
        flags: 0,
        restorer: 0,
        mask: 0,
    };
    let action = ptr::from_ref(&action).addr();
    let arguments = [signal, action, 0, size_of::<u64>(), 0, 0];
    call(libc::SYS_rt_sigaction, arguments).map(drop)
}

/// Records this group for the next daemon.
fn write_down(note: &Note, group: i32) -> Result<(), i32> {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let clock = libc::CLOCK_BOOTTIME as usize;
    call(
        libc::SYS_clock_gettime,
        [clock, (&raw mut now).addr(), 0, 0, 0, 0],
    )?;
    let since = now.tv_sec.wrapping_mul(1_000_000_000);
    let noted = NotedGroup {
        since: since.wrapping_add(now.tv_nsec).cast_unsigned(),
        group,
        uid: note.uid,
        filtered: u32::from(note.filtered),
        zero: 0,
    };
    let fd = note.file.as_raw_fd() as usize;
    let written = call(
        libc::SYS_pwrite64,
        [
            fd,
            ptr::from_ref(&noted).addr(),
            size_of::<NotedGroup>(),
            note.offset as usize,
            0,
            0,
        ],
    )?;
    if written == size_of::<NotedGroup>() {
        Ok(())
    } else {
        Err(libc::ENOSPC)
    }
}

/// Moves this task into a cgroup, by its open `cgroup.procs`.
fn join(processes: &OwnedFd) -> Result<(), i32> {
    const THIS_PROCESS: &[u8] = b"0";
    let fd = processes.as_raw_fd() as usize;
    let text = [
        fd,
        THIS_PROCESS.as_ptr().addr(),
        THIS_PROCESS.len(),
        0,
        0,
        0,
    ];
    call(libc::SYS_write, text).map(drop)
}

fn change_identity(identity: &Identity) -> Result<(), i32> {
    let (uid, gid) = (identity.uid as usize, identity.gid as usize);
    let groups = &identity.groups;
    call(
        libc::SYS_setgroups,
        [groups.len(), groups.as_ptr().addr(), 0, 0, 0, 0],
    )?;
    call(libc::SYS_setresgid, [gid, gid, gid, 0, 0, 0])?;
    call(libc::SYS_setresuid, [uid, uid, uid, 0, 0, 0])?;
    Ok(())
}

pub(super) fn drop_capabilities() -> Result<(), i32> {
    const VERSION_3: u32 = 0x2008_0522;
    let header = CapabilityHeader {
        version: VERSION_3,
        pid: 0,
    };
    let none = [0_u32; 6];
    call(
        libc::SYS_capset,
        [
            ptr::from_ref(&header).addr(),
            ptr::from_ref(&none).addr(),
            0,
            0,
            0,
            0,
        ],
    )
    .map(drop)
}

/// Closes all descriptors except 0 to 2 and a program's, which closes on exec.
fn close_fds(job: &Job) -> Result<(), i32> {
    let first = match job.program() {
        Some(program) if program as usize == PROGRAM_FD => PROGRAM_FD + 1,
        Some(program) => {
            // A descriptor at 3 is a copy in this task's own table, and used up by now.
            call(
                libc::SYS_dup3,
                [
                    program as usize,
                    PROGRAM_FD,
                    libc::O_CLOEXEC as usize,
                    0,
                    0,
                    0,
                ],
            )?;
            PROGRAM_FD + 1
        }
        None => PROGRAM_FD,
    };
    call(
        libc::SYS_close_range,
        [first, u32::MAX as usize, 0, 0, 0, 0],
    )
    .map(drop)
}

/// Loads this task's closing filter, from the stack.
fn load_closing(closing: &Closing) -> Result<(), i32> {
    let pid = call(libc::SYS_getpid, [0; 6])? as u32;
    let mut program = closing.of_process(pid);
    // Job::new has checked the length against MAX, which fits.
    let filter = libc::sock_fprog {
        len: closing.program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    let operation = libc::SECCOMP_SET_MODE_FILTER as usize;
    call(
        libc::SYS_seccomp,
        [operation, 0, ptr::from_ref(&filter).addr(), 0, 0, 0],
    )
    .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_to_no_host_that_nothing_refuses_is_no_proof() {
        assert_eq!(connect_to_no_host(), Err(libc::ECONNREFUSED));
    }
}
