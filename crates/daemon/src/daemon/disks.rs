//! Warns of nearly full disks, before records and scratch directories fail.

use std::{io, path::PathBuf};

use nix::sys::statvfs::statvfs;

/// The use at which a disk is nearly full, percent of what users may have.
const NEARLY_FULL: u128 = 90;

/// The use below which it no longer is, lower so that logs are few.
const FREE_AGAIN: u128 = 85;

/// The disks that a daemon writes to.
#[derive(Debug)]
pub(super) struct Disks(Vec<Disk>);

/// The disk of a directory.
#[derive(Debug)]
struct Disk {
    directory: PathBuf,
    nearly_full: bool,
}

impl Disks {
    /// Creates the watch over the disks of directories.
    pub(super) fn new(directories: impl IntoIterator<Item = PathBuf>) -> Self {
        let disk = |directory| Disk {
            directory,
            nearly_full: false,
        };
        Self(directories.into_iter().map(disk).collect())
    }

    /// Checks each disk, and logs changes. Disks that cannot be checked are skipped: writing to them will fail visibly.
    pub(super) fn look(&mut self) {
        for disk in &mut self.0 {
            let Ok(used) = used(&disk.directory) else {
                continue;
            };
            let directory = disk.directory.display();
            match crossed(disk.nearly_full, used) {
                Some(true) => tracing::warn!(
                    %directory,
                    used_percent = used,
                    "the disk is nearly full; free space, as no hook starts on a full disk"
                ),
                Some(false) => {
                    tracing::info!(%directory, used_percent = used, "the disk has room again");
                }
                None => continue,
            }
            disk.nearly_full = !disk.nearly_full;
        }
    }
}

/// Returns the new state if the use crossed a threshold.
const fn crossed(nearly_full: bool, used: u128) -> Option<bool> {
    match nearly_full {
        false if used >= NEARLY_FULL => Some(true),
        true if used < FREE_AGAIN => Some(false),
        _ => None,
    }
}

/// Returns the use of a directory's disk, percent, rounded down. Space reserved for root counts neither as used nor as free.
fn used(directory: &PathBuf) -> io::Result<u128> {
    let found = statvfs(directory)?;
    // `u128` is wider than a block count on any system.
    let [blocks, free, available] = [
        found.blocks(),
        found.blocks_free(),
        found.blocks_available(),
    ]
    .map(u128::from);
    let used = blocks.saturating_sub(free);
    let all = used.saturating_add(available);
    // A file system without blocks, such as `/proc`, is not full.
    Ok(used.saturating_mul(100).checked_div(all).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_is_nearly_full_is_said_to_be_once() {
        let mut nearly_full = false;
        let mut crossings = Vec::new();
        for used in [10, 89, 90, 99, 89, 91, 85, 84, 90] {
            if let Some(now) = crossed(nearly_full, used) {
                crossings.push((used, now));
                nearly_full = now;
            }
        }
        assert_eq!(crossings, [(90, true), (84, false), (90, true)]);
    }

    #[test]
    fn how_full_a_disk_is_can_be_told() {
        assert!(used(&std::env::temp_dir()).unwrap() <= 100);
        assert_eq!(used(&PathBuf::from("/proc")).unwrap(), 0);
        assert!(used(&PathBuf::from("/nowhere")).is_err());
    }
}
