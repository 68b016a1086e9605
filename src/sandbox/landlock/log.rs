//! Flags for what the kernel logs about a run in its audit log.

use crate::{sandbox::seccomp::FilterSpec, sys::LogFlags};

/// The first Landlock ABI with audit logging. It writes refusals into the audit log, and takes flags about that.
const LOGGING_ABI: u32 = 7;

/// `LANDLOCK_RESTRICT_SELF_LOG_SAME_EXEC_OFF`.
const SAME_EXEC_OFF: u32 = 1;

/// `LANDLOCK_RESTRICT_SELF_LOG_NEW_EXEC_ON`.
const NEW_EXEC_ON: u32 = 1 << 1;

/// `SECCOMP_FILTER_FLAG_LOG`.
const LOG: u32 = 1 << 1;

/// Returns whether the kernel writes Landlock's refusals into its audit log.
#[must_use]
pub(crate) const fn can_log(spec: &FilterSpec) -> bool {
    spec.landlock_abi >= LOGGING_ABI
}

/// Returns the flags of a child; `read` says whether the daemon reads the log.
///
/// The canary of every run is refused, on purpose and before the hook is executed: an operator's log has no use for that.
/// What the hook itself is refused is written down for the daemon alone, which tells whoever asked for the run.
#[must_use]
pub(crate) const fn log_flags(spec: &FilterSpec, read: bool) -> LogFlags {
    let mut flags = LogFlags {
        closing: 0,
        landlock: 0,
    };
    if can_log(spec) {
        flags.landlock = SAME_EXEC_OFF;
        if read {
            flags.landlock |= NEW_EXEC_ON;
            flags.closing = LOG;
        }
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Metadata, Network, Spawn};

    #[test]
    fn kernels_without_a_log_get_no_flags_and_others_log_the_hook_alone_where_somebody_reads() {
        let flags = |landlock_abi, read| {
            let spec = FilterSpec {
                landlock_abi,
                metadata: Metadata::Keep,
                mounts: false,
                network: Network::None,
                spawn: Spawn::Threads,
            };
            let LogFlags { closing, landlock } = log_flags(&spec, read);
            (closing, landlock)
        };
        for read in [false, true] {
            assert_eq!(flags(1, read), (0, 0));
            assert_eq!(flags(6, read), (0, 0));
        }
        assert_eq!(flags(7, false), (0, 1));
        assert_eq!(flags(7, true), (2, 3));
        assert_eq!(flags(9, true), (2, 3));
    }
}
