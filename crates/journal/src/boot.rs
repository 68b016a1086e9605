//! The boot of the host, by which a writer recognises that the host went down under another one.

use std::{fs, time::Duration};

use super::append::Fsync;

/// The time within which the kernel writes data to the disk by default: data is old after 30 s, and old data is sought every
/// 5 s.
const WRITE_BACK: Duration = Duration::from_secs(35);

/// The content of a mark in a copy: no host went down under its writer.
pub(super) const COPIED: &str = "copied";

/// A boot of the host.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Boot {
    /// Its id.
    pub(super) id: String,
    /// Its time, Unix seconds.
    since: u64,
}

impl Boot {
    /// Returns this boot; `None` where the system does not name it.
    pub(super) fn current() -> Option<Self> {
        let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let since = since(&fs::read_to_string("/proc/stat").ok()?)?;
        let id = id.trim().to_owned();
        Some(Self { id, since })
    }

    /// Returns whether a mark was made in an earlier boot, by the id that was written to it and its time, Unix seconds.
    ///
    /// A file system may keep a file's name through a power cut and not its content; then the time decides.
    pub(super) fn is_later_than(&self, written: &str, made: u64) -> bool {
        match written.trim() {
            "" => made < self.since,
            COPIED => false,
            id => id != self.id,
        }
    }
}

/// Returns the time of the boot by the text of `/proc/stat`, Unix seconds.
fn since(stat: &str) -> Option<u64> {
    let time = stat.lines().find_map(|line| line.strip_prefix("btime "))?;
    time.trim().parse().ok()
}

/// Returns the longest time of which records may be missing after the host went down.
pub(super) fn unsynced(fsync: Fsync) -> Duration {
    match fsync {
        Fsync::Always => Duration::ZERO,
        // A record may just miss a sync, and the next one takes a moment.
        Fsync::Every(interval) => 2 * interval,
        Fsync::Never => write_back().unwrap_or(WRITE_BACK),
    }
}

/// Returns the time within which this kernel writes data to the disk.
fn write_back() -> Option<Duration> {
    let hundredths = |name: &str| -> Option<u64> {
        let text = fs::read_to_string(format!("/proc/sys/vm/dirty_{name}_centisecs")).ok()?;
        text.trim().parse().ok()
    };
    let all = hundredths("expire")?.checked_add(hundredths("writeback")?)?;
    Some(Duration::from_millis(all.checked_mul(10)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_of_an_earlier_boot_by_its_id_or_where_that_is_gone_by_its_time() {
        let boot = Boot {
            id: "b".to_owned(),
            since: 100,
        };
        for (written, made, is_earlier) in [
            ("b\n", 99, false),
            ("a\n", 101, true),
            ("", 99, true),
            ("", 100, false),
            (COPIED, 99, false),
        ] {
            assert_eq!(
                boot.is_later_than(written, made),
                is_earlier,
                "{written:?} {made}"
            );
        }
    }

    #[test]
    fn the_time_of_a_boot_is_in_the_kernels_statistics() {
        assert_eq!(
            since("cpu  1 2\nbtime 1700000000\nprocesses 3\n"),
            Some(1_700_000_000)
        );
        assert_eq!(since("cpu 1\n"), None);
    }

    #[test]
    fn what_may_be_missing_depends_on_the_policy() {
        assert_eq!(unsynced(Fsync::Always), Duration::ZERO);
        let second = Duration::from_secs(1);
        assert_eq!(unsynced(Fsync::Every(second)), 2 * second);
        assert!(unsynced(Fsync::Never) > second);
    }
}
