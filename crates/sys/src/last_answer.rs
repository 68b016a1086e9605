//! Last answer of a process that ends at once: on a signal, abort or panic.

use std::{
    mem::{self, MaybeUninit},
    ptr,
    sync::atomic::{AtomicPtr, Ordering},
    time::Duration,
};

use libc::c_int;
use nix::sys::time::{TimeVal, TimeValLike};

/// Exit code and last output of this process.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LastAnswer {
    /// The exit code.
    pub code: i32,
    /// Output to stderr.
    pub stderr: Vec<u8>,
    /// Output to stdout.
    pub stdout: Vec<u8>,
}

/// The current answer; never freed, because a signal handler may be reading it.
static LAST: AtomicPtr<LastAnswer> = AtomicPtr::new(ptr::null_mut());

/// Signals that end a process. They come from its terminal, its parent, a limit or a timer, or a fault of its own.
const ANSWERED: [c_int; 14] = [
    libc::SIGABRT,
    libc::SIGALRM,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGHUP,
    libc::SIGILL,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGSEGV,
    libc::SIGSYS,
    libc::SIGTERM,
    libc::SIGTRAP,
    libc::SIGUSR1,
    libc::SIGXCPU,
];

/// Signals that end no process, stop or continue it, or cannot be caught. A closed pipe is an error of `write`, which the
/// standard library handles.
const LEFT_ALONE: [c_int; 10] = [
    libc::SIGCHLD,
    libc::SIGCONT,
    libc::SIGKILL,
    libc::SIGPIPE,
    libc::SIGSTOP,
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGTTOU,
    libc::SIGURG,
    libc::SIGWINCH,
];

/// The highest signal number, including real-time signals.
const HIGHEST: c_int = if cfg!(target_os = "linux") { 64 } else { 31 };

/// Sets the answer for when this process has to end at once, in place of any earlier one. Meant to be called a few times in
/// the life of a process: none is freed.
pub fn keep_last_answer(answer: LastAnswer) {
    LAST.store(Box::into_raw(Box::new(answer)), Ordering::Release);
}

/// Writes the kept answer and ends this process. Neither allocates nor locks, and runs no other code.
pub fn give_last_answer() -> ! {
    let last = LAST.load(Ordering::Acquire);
    // SAFETY: `last` is null, or a pointer that `keep_last_answer` made of a box that is never freed nor changed.
    let code = match unsafe { last.as_ref() } {
        None => 2,
        Some(answer) => {
            write_all(libc::STDOUT_FILENO, &answer.stdout);
            write_all(libc::STDERR_FILENO, &answer.stderr);
            answer.code
        }
    };
    // SAFETY: `_exit` ends this process and takes no pointer.
    unsafe { libc::_exit(code) }
}

/// Schedules the kept answer for when a time is over, regardless of the process's work then, in place of any earlier time.
/// `None` = at no time. Meant for a process that answers signals.
pub fn give_last_answer_after(time: Option<Duration>) {
    let micros = time.map_or(0, |time| {
        // Zero would be no timer, and no process waits for a century.
        let time = time.clamp(
            Duration::from_millis(1),
            Duration::from_secs(u32::MAX.into()),
        );
        i64::try_from(time.as_micros()).unwrap_or(1)
    });
    let timer = libc::itimerval {
        it_interval: *TimeVal::microseconds(0).as_ref(),
        it_value: *TimeVal::microseconds(micros).as_ref(),
    };
    // SAFETY: the pointer leads to a value that lives, and the old timer is not asked for. The call does not fail for a time
    // of at most this length.
    unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const timer, ptr::null_mut()) };
}

/// Handles the signals that would end this process by the kept answer, or blocks them. Signals that are not used to end a
/// process are blocked, all of them by one call. Meant for a process that has not started threads yet.
///
/// Ignored signals stay so, but for SIGALRM: the parent of this process may have had it ignored or held back.
pub fn answer_signals() {
    let all = signals(|_| true);
    // Nothing comes in between.
    let mut mask = change_mask(libc::SIG_BLOCK, &all);
    for signal in ANSWERED {
        let old = handle(signal, on_signal as *const () as libc::sighandler_t);
        if old == Some(libc::SIG_IGN) && signal != libc::SIGALRM {
            handle(signal, libc::SIG_IGN);
        }
    }
    for signal in (1..=HIGHEST).filter(is_held_back) {
        // SAFETY: the set is a valid value that lives. The call fails for the C library's own signals, which are left alone
        // then.
        unsafe { libc::sigaddset(&raw mut mask, signal) };
    }
    // SAFETY: as above.
    unsafe { libc::sigdelset(&raw mut mask, libc::SIGALRM) };
    change_mask(libc::SIG_SETMASK, &mask);
}

/// Unblocks the signals that [`answer_signals`] blocks. For a process that starts others: they would inherit the mask.
pub fn hold_no_signals() {
    change_mask(libc::SIG_UNBLOCK, &signals(is_held_back));
}

fn is_held_back(signal: &c_int) -> bool {
    !ANSWERED.contains(signal) && !LEFT_ALONE.contains(signal)
}

fn signals(is_one: impl Fn(&c_int) -> bool) -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: the pointer leads to room for a set, which this makes an empty one.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: the call above has just made the set.
    let mut set = unsafe { set.assume_init() };
    for signal in (1..=HIGHEST).filter(is_one) {
        // SAFETY: the set is a valid value that lives. The call fails for the C library's own signals, which are left alone
        // then.
        unsafe { libc::sigaddset(&raw mut set, signal) };
    }
    set
}

/// Changes this thread's signal mask, and returns the former one.
fn change_mask(how: c_int, set: &libc::sigset_t) -> libc::sigset_t {
    let mut old = signals(|_| false);
    // SAFETY: both pointers lead to valid sets that live. The call fails for no valid `how`.
    unsafe { libc::pthread_sigmask(how, set, &raw mut old) };
    old
}

/// Sets a signal's handler, and returns the former one; `None` where it cannot be set.
fn handle(signal: c_int, handler: libc::sighandler_t) -> Option<libc::sighandler_t> {
    // SAFETY: all of it is integers, null pointers and a set of signals, for which zero bytes are valid values.
    let mut old: libc::sigaction = unsafe { mem::zeroed() };
    // Some systems have more members than these.
    let mut new = old;
    // A stack that is full has another beside it: the standard library's, for the thread it starts.
    new.sa_flags = libc::SA_ONSTACK;
    new.sa_mask = signals(|_| true);
    new.sa_sigaction = handler;
    // SAFETY: both pointers lead to values that live. The handler is SIG_IGN, or has the signature that is called without
    // SA_SIGINFO. Such a handler does only what may be done in a signal's context (an atomic load, write, _exit) and never
    // returns. Where this fails, the signal ends the process as before.
    let done = unsafe { libc::sigaction(signal, &raw const new, &raw mut old) };
    (done == 0).then_some(old.sa_sigaction)
}

extern "C" fn on_signal(_: c_int) {
    give_last_answer()
}

/// Writes as much as possible, ignoring errors: there is no channel left to report them.
fn write_all(fd: c_int, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        // SAFETY: pointer and length are those of a slice that lives; the kernel only reads it.
        let written = unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) };
        match usize::try_from(written) {
            Ok(0) | Err(_) => return,
            Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
        }
    }
}
