//! What a process says when it has to end at once: on a signal, an abort or a panic.

use std::{
    mem, ptr,
    sync::atomic::{AtomicPtr, Ordering},
    time::Duration,
};

use libc::c_int;
use nix::sys::{
    signal::{SigSet, Signal},
    time::{TimeVal, TimeValLike},
};

/// An end of this process.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LastAnswer {
    /// The exit code.
    pub code: i32,
    /// What it writes to stderr.
    pub stderr: Vec<u8>,
    /// What it writes to stdout.
    pub stdout: Vec<u8>,
}

/// The one that holds now; it is never freed, because a signal may be reading it.
static LAST: AtomicPtr<LastAnswer> = AtomicPtr::new(ptr::null_mut());

/// Signals that end no process, stop it or let it go on, and the two that nobody can catch. A closed pipe is an error of
/// `write`, which the standard library sees to.
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

/// The highest number of a signal, those for real-time included.
const HIGHEST: c_int = if cfg!(target_os = "linux") { 64 } else { 31 };

/// Has an answer given where this process has to end at once, instead of any that held before. Meant to be called a few times
/// in the life of a process: none is freed.
pub fn keep_last_answer(answer: LastAnswer) {
    LAST.store(Box::into_raw(Box::new(answer)), Ordering::Release);
}

/// Gives the answer that is kept, and ends this process: the one way out that neither allocates nor locks nor runs anything else.
pub fn give_last_answer() -> ! {
    let last = LAST.load(Ordering::Acquire);
    // SAFETY: it is null, or a pointer that `keep_last_answer` made of a box that is never freed nor changed.
    let code = match unsafe { last.as_ref() } {
        None => 2,
        Some(answer) => {
            write_all(libc::STDOUT_FILENO, &answer.stdout);
            write_all(libc::STDERR_FILENO, &answer.stderr);
            answer.code
        }
    };
    // SAFETY: it ends this process and takes no pointer.
    unsafe { libc::_exit(code) }
}

/// Has the answer that is kept given once a time is over, whatever this process does or waits for then, instead of any time that
/// was said before; `None` = at no time. Meant for a process that has not started threads yet.
///
/// Whoever started this process may have had SIGALRM ignored or held back: that ends here.
pub fn give_last_answer_after(time: Option<Duration>) {
    let micros = time.map_or(0, |time| {
        // Nothing at all would be no timer, and nobody waits for a century.
        let time = time.clamp(
            Duration::from_millis(1),
            Duration::from_secs(u32::MAX.into()),
        );
        i64::try_from(time.as_micros()).unwrap_or(1)
    });
    if time.is_some() {
        answer(libc::SIGALRM);
        // It fails for nothing that stands here.
        SigSet::from(Signal::SIGALRM).thread_unblock().ok();
    }
    let timer = libc::itimerval {
        it_interval: *TimeVal::microseconds(0).as_ref(),
        it_value: *TimeVal::microseconds(micros).as_ref(),
    };
    // SAFETY: the pointer leads to a value that lives, and the old timer is not asked for. It fails for no time that is
    // as long as this.
    unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const timer, ptr::null_mut()) };
}

/// Has every signal that would end this process give the answer that is kept. Those that are ignored stay so.
pub fn answer_signals() {
    for signal in (1..=HIGHEST).filter(|signal| !LEFT_ALONE.contains(signal)) {
        // SAFETY: all of it is integers, null pointers and a set of signals, for which zero bytes are valid values.
        let mut old: libc::sigaction = unsafe { mem::zeroed() };
        // SAFETY: both pointers are null or lead to a value that lives; nothing is changed. It fails for the C library's own
        // signals, which are left alone then.
        let is_known = unsafe { libc::sigaction(signal, ptr::null(), &raw mut old) } == 0;
        if is_known && old.sa_sigaction != libc::SIG_IGN {
            answer(signal);
        }
    }
}

/// Has a signal give the answer that is kept.
fn answer(signal: c_int) {
    // SAFETY: all of it is integers, null pointers and a set of signals, for which zero bytes are valid values.
    let mut new: libc::sigaction = unsafe { mem::zeroed() };
    new.sa_sigaction = on_signal as *const () as libc::sighandler_t;
    // A stack that is full has another beside it: the standard library's, for the thread it starts.
    new.sa_flags = libc::SA_ONSTACK;
    // SAFETY: the set is a valid value that lives.
    unsafe { libc::sigfillset(&raw mut new.sa_mask) };
    // SAFETY: the handler has the signature that is called without SA_SIGINFO, does only what may be done in a signal's
    // context (an atomic load, write, _exit) and never returns. Where it fails, the signal ends the process as before.
    unsafe { libc::sigaction(signal, &raw const new, ptr::null_mut()) };
}

extern "C" fn on_signal(_: c_int) {
    give_last_answer()
}

/// Writes as much as can be written: there is nobody to tell of the rest.
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
