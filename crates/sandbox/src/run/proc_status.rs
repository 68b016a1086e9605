//! Reads the kernel's state of a released child from `/proc`.

use std::{
    fs::{self, File},
    io::{self, Read},
    process,
};

/// Buffer size, above that of any status file.
///
/// Files of `/proc` have no size, and each further read would generate the content anew.
const STATUS_BYTES: usize = 8 * 1024;

/// The lines that are read, in the kernel's order.
const LINES: [&str; 12] = [
    "Uid",
    "Gid",
    "Groups",
    "NSpid",
    "CapInh",
    "CapPrm",
    "CapEff",
    "CapBnd",
    "CapAmb",
    "NoNewPrivs",
    "Seccomp",
    "Seccomp_filters",
];

/// State of a process according to the kernel.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Status {
    /// `CapEff`.
    pub effective_capabilities: u64,
    /// Whether all five capability sets are empty; the bounding set aside.
    pub no_capabilities: bool,
    /// Real, effective, saved and file-system gid.
    pub gids: [u32; 4],
    /// Supplementary groups, ascending.
    pub groups: Vec<u32>,
    /// Number of pid namespaces that it is in: of the numbers of `NSpid`.
    pub pid_levels: usize,
    /// `NoNewPrivs`.
    pub no_new_privs: bool,
    /// `Seccomp`: 2 is a filter, 3 a task that its filter is killing.
    pub seccomp: u32,
    /// `Seccomp_filters`.
    pub seccomp_filters: u32,
    /// Real, effective, saved and file-system uid.
    pub uids: [u32; 4],
    /// Whether the bounding set is empty.
    pub bounding_set_empty: bool,
}

impl Status {
    /// Reads a process's status; a zombie counts as one.
    ///
    /// # Errors
    ///
    /// Returns the error of reading, or `InvalidData` where a line is missing.
    pub fn read_process(pid: i32) -> io::Result<Self> {
        Self::read(&format!("/proc/{pid}/status"))
    }

    /// Reads this process's own status.
    ///
    /// # Errors
    ///
    /// As [`Status::read_process`]; fails also where `/proc` is of another pid namespace, as a child's status would be another
    /// process's.
    pub fn read_own() -> io::Result<Self> {
        let named = fs::read_link("/proc/self")?;
        if named.to_str() != Some(&process::id().to_string()) {
            let message = "`/proc` belongs to another pid namespace; mount a proc file system of this one there";
            return Err(io::Error::other(message));
        }
        Self::read("/proc/thread-self/status")
    }

    /// Returns whether the process is under seccomp filters, including one that a filter is killing.
    pub const fn is_filtered(&self) -> bool {
        matches!(self.seccomp, 2 | 3)
    }

    fn read(path: &str) -> io::Result<Self> {
        let mut text = String::with_capacity(STATUS_BYTES);
        File::open(path)?.read_to_string(&mut text)?;
        Self::parse(&text).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, format!("`{path}` lacks a line"))
        })
    }

    fn parse(text: &str) -> Option<Self> {
        // Once through the text, as every run waits for it.
        let mut values = [None; LINES.len()];
        for line in text.split('\n') {
            let named = line.split_once(':');
            let place = named.and_then(|(name, _)| LINES.iter().position(|it| *it == name));
            if let (Some(place), Some((_, value))) = (place, named) {
                values[place].get_or_insert(value.trim());
            }
        }
        let line = |name: &str| values[LINES.iter().position(|it| *it == name)?];
        let number = |name: &str| line(name)?.parse::<u32>().ok();
        let set = |name: &str| u64::from_str_radix(line(name)?, 16).ok();
        let empty = |name: &str| set(name).map(|set| set == 0);
        let ids = |name: &str| -> Option<Vec<u32>> {
            let ids = line(name)?.split_ascii_whitespace();
            ids.map(|id| id.parse().ok()).collect()
        };
        let mut groups = ids("Groups")?;
        groups.sort_unstable();
        Some(Self {
            effective_capabilities: set("CapEff")?,
            bounding_set_empty: empty("CapBnd")?,
            pid_levels: line("NSpid")?.split_ascii_whitespace().count(),
            no_capabilities: empty("CapInh")?
                && empty("CapPrm")?
                && empty("CapEff")?
                && empty("CapAmb")?,
            gids: ids("Gid")?.try_into().ok()?,
            groups,
            no_new_privs: number("NoNewPrivs")? == 1,
            seccomp: number("Seccomp")?,
            seccomp_filters: number("Seccomp_filters")?,
            uids: ids("Uid")?.try_into().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read_whole_or_not_at_all() {
        let text = "Name:\tsh\nUid:\t7\t7\t7\t7\nGid:\t8\t8\t8\t8\nGroups:\t12 9 \nNSpid:\t70\t2\nCapInh:\t0\nCapPrm:\t0\nCapEff:\t0\nCapBnd:\t000001ff\nCapAmb:\t0\n\
                    NoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t6\n";
        let status = Status::parse(text).unwrap();
        let expected = Status {
            effective_capabilities: 0,
            bounding_set_empty: false,
            gids: [8; 4],
            groups: vec![9, 12],
            pid_levels: 2,
            no_capabilities: true,
            no_new_privs: true,
            seccomp: 2,
            seccomp_filters: 6,
            uids: [7; 4],
        };
        assert_eq!(status, expected);
        assert_eq!(
            Status::parse(&text.replace("Seccomp_filters", "Other")),
            None
        );
    }
}
