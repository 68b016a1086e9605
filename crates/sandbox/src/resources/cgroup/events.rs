//! Kernel counters of a cgroup, and what they mean for the end of its run.

use hookjail_sys::{Reaped, WaitStatus};

use crate::process::Cause;

/// Returns a counter of a flat keyed file, such as `memory.events`; 0 where it has none of that name.
pub(super) fn counter(text: &str, key: &str) -> u64 {
    let value = |line: &str| line.strip_prefix(key)?.strip_prefix(' ')?.parse().ok();
    text.lines().find_map(value).unwrap_or(0)
}

/// Counter of a cgroup.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Telling {
    /// Processes that the kernel killed at the memory limit.
    Memory,
    /// Times at which the memory limit kept a process from more.
    MemoryLimit,
    /// Periods at whose end processes had to wait for the next.
    Processors,
    /// Tasks that the kernel refused.
    Tasks,
}

/// Returns the counters that may explain an end, and the cause if one is not 0. The first such counter decides.
///
/// A run that ended well needs no explanation, as it did without the refused tasks. Nor does one that was ended for another
/// reason.
pub(super) fn explanations(cause: Cause, leader: Option<Reaped>) -> &'static [(Telling, Cause)] {
    const MEMORY: (Telling, Cause) = (Telling::Memory, Cause::OutOfMemory);
    const TASKS: (Telling, Cause) = (Telling::Tasks, Cause::PidsExhausted);
    match (cause, leader.map(|leader| leader.status)) {
        (Cause::Itself, None) => &[MEMORY],
        (Cause::Itself, Some(WaitStatus::Signaled(libc::SIGKILL))) => &[MEMORY, TASKS],
        // That call was no task's.
        (Cause::Itself, Some(WaitStatus::Signaled(libc::SIGSYS) | WaitStatus::Exited(0))) => &[],
        (Cause::Itself, Some(WaitStatus::Exited(_) | WaitStatus::Signaled(_))) => &[TASKS],
        (
            Cause::Canceled
            | Cause::Deadline
            | Cause::OutOfMemory
            | Cause::OutputLimit
            | Cause::PidsExhausted,
            _,
        ) => &[],
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_counter_is_that_of_its_whole_name() {
        let text = "low 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 1\n";
        assert_eq!(counter(text, "oom_kill"), 2);
        assert_eq!(counter(text, "oom"), 3);
        assert_eq!(counter(text, "max"), 12);
        for missing in ["oom_kil", "kill", "", "max 12"] {
            assert_eq!(counter(text, missing), 0, "{missing}");
        }
        assert_eq!(counter("max many\n", "max"), 0);
    }

    #[test]
    fn only_a_run_that_failed_by_itself_is_explained() {
        let explained = |cause, status: Option<WaitStatus>| {
            let leader = status.map(|status| Reaped {
                max_rss_bytes: 0,
                status,
                system: Duration::ZERO,
                user: Duration::ZERO,
            });
            let all = explanations(cause, leader).iter();
            all.map(|(_, cause)| *cause).collect::<Vec<_>>()
        };
        let (exited, signaled) = (
            |code| Some(WaitStatus::Exited(code)),
            |signal| Some(WaitStatus::Signaled(signal)),
        );
        let itself = |status| explained(Cause::Itself, status);
        assert_eq!(itself(exited(0)), []);
        assert_eq!(itself(exited(2)), [Cause::PidsExhausted]);
        assert_eq!(itself(signaled(libc::SIGABRT)), [Cause::PidsExhausted]);
        assert_eq!(itself(signaled(libc::SIGSYS)), []);
        assert_eq!(itself(None), [Cause::OutOfMemory]);
        let killed = itself(signaled(libc::SIGKILL));
        assert_eq!(killed, [Cause::OutOfMemory, Cause::PidsExhausted]);
        for cause in [Cause::Canceled, Cause::Deadline, Cause::OutputLimit] {
            assert_eq!(explained(cause, signaled(libc::SIGKILL)), [], "{cause:?}");
        }
    }
}
