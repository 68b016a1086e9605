//! Number of instructions that the daemon executes for one call, which does not depend on other work of the machine.
//!
//! `cargo bench --profile dev --bench instructions -- [--program FILE] [--calls N] [--most N]`. The daemon's threads are executed step by
//! step (ptrace), as virtual machines often have no counters. The work of the kernel and of the hook's process is not
//! counted. Prints the median over the calls; with `--most` a median above `N` is a failure.

#![expect(
    clippy::disallowed_methods,
    reason = "starts a daemon and a client, never a confined hook"
)]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark prints"
)]

use std::process::ExitCode;

#[cfg(target_os = "linux")]
#[expect(dead_code, reason = "shared with other benchmarks, which need more")]
mod lane;

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    eprintln!("SKIP: processes are executed step by step on Linux alone");
    ExitCode::SUCCESS
}

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    if let Some(done) = lane::client::serve_if_named() {
        return done;
    }
    match steps::measure() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("instructions: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(target_os = "linux")]
mod steps {
    use std::{
        collections::BTreeSet,
        env, fs,
        path::PathBuf,
        thread,
        time::{Duration, Instant},
    };

    use nix::{
        errno::Errno,
        libc::PTRACE_EVENT_STOP,
        sched::{CpuSet, sched_getaffinity, sched_setaffinity},
        sys::{
            ptrace::{self, Options},
            signal::{Signal, kill},
            wait::{WaitPidFlag, WaitStatus, waitpid},
        },
        unistd::Pid,
    };

    use crate::lane::{Daemon, Lane, Outcome, PATIENCE, directory};

    /// Calls before the first that counts: the caller's threads are started by then.
    const WARM_UP: usize = 3;
    /// The number of steps between two checks whether the call has ended.
    const STEPS: u64 = 256;

    pub(super) fn measure() -> Outcome<()> {
        let mut program = PathBuf::from(env!("CARGO_BIN_EXE_hookjail"));
        let (mut calls, mut most) = (5, None);
        let mut words = env::args().skip(1);
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("`{word}` needs a value"));
            match &*word {
                "--program" => program = value()?.into(),
                "--calls" => calls = value()?.parse::<usize>()?.max(1),
                "--most" => most = Some(value()?.parse::<u64>()?),
                "--bench" => {}
                other => return Err(format!("`{other}` is not one of the arguments").into()),
            }
        }

        on_one_processor()?;
        let daemon = Daemon::start(&program, directory()?, "")?;
        let mut lane = Lane::start(&daemon.socket(), None, &["/bin/true"])?;
        for _ in 0..WARM_UP {
            lane.ask("one")?;
            lane.answer()?;
        }
        let mut stepped = Stepped::attach(daemon.id())?;
        // The first call also has what was put off until now.
        let mut counts = Vec::new();
        for _ in 0..=calls {
            counts.push(stepped.call(&mut lane)?);
        }
        counts.remove(0);
        counts.sort_unstable();
        let [least, median, greatest] =
            [0, counts.len() / 2, counts.len() - 1].map(|position| counts[position]);
        println!("instructions of one call: {median} ({least} to {greatest}, {calls} calls)");
        match most {
            Some(most) if median > most => {
                Err(format!("{median} instructions are more than {most}").into())
            }
            _ => Ok(()),
        }
    }

    /// Has this process and all that it starts run on one processor. Then a step needs no other one to wake up, and the daemon
    /// starts the same threads on every machine.
    fn on_one_processor() -> Outcome<()> {
        let allowed = sched_getaffinity(Pid::from_raw(0))?;
        let mut all =
            (0..CpuSet::count()).filter(|number| allowed.is_set(*number).unwrap_or(false));
        let mut one = CpuSet::new();
        one.set(all.next_back().ok_or("no processor")?)?;
        Ok(sched_setaffinity(Pid::from_raw(0), &one)?)
    }

    /// A process whose threads are executed step by step. Killed when dropped.
    struct Stepped {
        process: Pid,
        threads: BTreeSet<Pid>,
    }

    impl Drop for Stepped {
        /// A waiter learns of a process's end only when the tracer has seen the ends of all other threads.
        fn drop(&mut self) {
            kill(self.process, Signal::SIGKILL).ok();
            for thread in self.threads.iter().filter(|it| **it != self.process) {
                waitpid(*thread, Some(WaitPidFlag::__WALL)).ok();
            }
        }
    }

    impl Stepped {
        fn attach(process: u32) -> Outcome<Self> {
            let process = Pid::from_raw(process.try_into()?);
            let mut threads = BTreeSet::new();
            for entry in fs::read_dir(format!("/proc/{process}/task"))? {
                let name = entry?.file_name();
                let thread = Pid::from_raw(name.to_str().ok_or("no number")?.parse()?);
                ptrace::seize(thread, Options::PTRACE_O_TRACECLONE)?;
                ptrace::interrupt(thread)?;
                threads.insert(thread);
            }
            Ok(Self { process, threads })
        }

        /// Makes a call. Returns how many instructions were executed until all threads wait again.
        fn call(&mut self, lane: &mut Lane) -> Outcome<u64> {
            self.settle()?;
            lane.ask("one")?;
            let give_up = Instant::now() + PATIENCE;
            let mut count = 0;
            while lane.has_answered()?.is_none() {
                if Instant::now() > give_up {
                    return Err("the call takes too long".into());
                }
                count += self.steps()?;
            }
            Ok(count + self.settle()?)
        }

        /// Goes on until all threads wait. Returns how many instructions were executed.
        fn settle(&mut self) -> Outcome<u64> {
            const QUIET: Duration = Duration::from_millis(50);
            let (mut count, mut last) = (0, Instant::now());
            while last.elapsed() < QUIET {
                let made = self.steps()?;
                if made > 0 {
                    last = Instant::now();
                }
                count += made;
            }
            Ok(count)
        }

        /// Lets threads that have stopped go on, up to a limit. Returns how many instructions were executed.
        fn steps(&mut self) -> Outcome<u64> {
            let mut made = 0;
            for _ in 0..STEPS {
                let flags = WaitPidFlag::__WALL | WaitPidFlag::WNOHANG;
                let (thread, signal) = match waitpid(None, Some(flags))? {
                    WaitStatus::StillAlive => {
                        thread::yield_now();
                        return Ok(made);
                    }
                    WaitStatus::Stopped(thread, Signal::SIGTRAP) => {
                        made += 1;
                        (thread, None)
                    }
                    WaitStatus::Stopped(thread, signal) => (thread, Some(signal)),
                    WaitStatus::PtraceEvent(thread, _, event) => {
                        // So does a new thread report itself.
                        if event == PTRACE_EVENT_STOP {
                            self.threads.insert(thread);
                        }
                        (thread, None)
                    }
                    WaitStatus::Exited(ended, _) | WaitStatus::Signaled(ended, ..) => {
                        if ended == self.process || !self.threads.remove(&ended) {
                            return Err("the daemon or the client has ended".into());
                        }
                        continue;
                    }
                    other @ (WaitStatus::PtraceSyscall(_) | WaitStatus::Continued(_)) => {
                        return Err(format!("unexpected: {other:?}").into());
                    }
                };
                match ptrace::step(thread, signal) {
                    // The thread was killed meanwhile.
                    Ok(()) | Err(Errno::ESRCH) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Ok(made)
        }
    }
}
