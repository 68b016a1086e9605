//! How much memory is available: of the host, and within the limits of the daemon's own cgroups.

use std::{
    fs,
    path::{Component, Path, PathBuf},
};

/// The parts in which available memory is counted.
const TENTHS: u64 = 10;

/// A hierarchy of cgroups that may limit memory, and the names in it.
struct Hierarchy {
    /// The controller in `/proc/self/cgroup`; none in version 2.
    controller: &'static str,
    /// The line of `memory.stat` with the page cache that can be reclaimed, of all cgroups below, too.
    inactive: &'static str,
    limit: &'static str,
    mounted: &'static str,
    usage: &'static str,
}

/// Version 2, also where version 1 has the controllers, and version 1.
const HIERARCHIES: [Hierarchy; 3] = [
    Hierarchy {
        mounted: "/sys/fs/cgroup",
        ..VERSION_2
    },
    VERSION_2,
    Hierarchy {
        controller: "memory",
        inactive: "total_inactive_file ",
        limit: "memory.limit_in_bytes",
        mounted: "/sys/fs/cgroup/memory",
        usage: "memory.usage_in_bytes",
    },
];

const VERSION_2: Hierarchy = Hierarchy {
    controller: "",
    inactive: "inactive_file ",
    limit: "memory.max",
    mounted: "/sys/fs/cgroup/unified",
    usage: "memory.current",
};

/// Returns how many tenths of memory are available, rounded down: the fewest of the host's and of those within the limits of the
/// daemon's cgroup and of all above it. 0 where the host's memory is not known.
pub(crate) fn tenths_available() -> u64 {
    let read = |path: &Path| fs::read_to_string(path).unwrap_or_default();
    let host = of_host(&read(Path::new("/proc/meminfo")));
    let listed = read(Path::new("/proc/self/cgroup"));
    let limited = HIERARCHIES.iter().flat_map(|hierarchy| {
        let directories = directories(&listed, hierarchy).into_iter();
        directories.filter_map(|directory| {
            let read = |name| read(&directory.join(name));
            let limit = read(hierarchy.limit).trim().parse().ok()?;
            let (usage, stat) = (read(hierarchy.usage), read("memory.stat"));
            Some(within(limit, &usage, size(&stat, hierarchy.inactive)))
        })
    });
    limited.chain([host]).min().unwrap_or(0)
}

/// Returns how many processes the kernel has killed for lack of memory since its start, within the limits of cgroups, too.
/// `None` where that is not known.
pub(crate) fn kills() -> Option<u64> {
    size(&fs::read_to_string("/proc/vmstat").ok()?, "oom_kill ")
}

/// Returns the directories of this process's cgroup and of all above it; some may not be there.
///
/// Where a container has its own cgroup at the mount point and the path of another view, only the mount point is there.
fn directories(listed: &str, hierarchy: &Hierarchy) -> Vec<PathBuf> {
    let path = listed.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let controllers = fields.next()?;
        let is_meant = controllers
            .split(',')
            .any(|name| name == hierarchy.controller);
        fields.next().filter(|_| is_meant)?.strip_prefix('/')
    });
    let Some(path) = path.map(Path::new) else {
        return Vec::new();
    };
    let mut parts = path.components();
    let is_inside = parts.all(|part| matches!(part, Component::Normal(_)));
    let path = if is_inside { path } else { Path::new("") };
    let mounted = Path::new(hierarchy.mounted);
    path.ancestors()
        .map(|ancestor| mounted.join(ancestor))
        .collect()
}

/// Returns how many tenths of the host's memory are available, by the text of `/proc/meminfo`; 0 where that is not known.
fn of_host(meminfo: &str) -> u64 {
    let total = size(meminfo, "MemTotal:").unwrap_or(0);
    tenths(total, size(meminfo, "MemAvailable:").unwrap_or(0))
}

/// Returns how many tenths of a limit are available. Page cache that can be reclaimed is.
fn within(limit: u64, usage: &str, inactive: Option<u64>) -> u64 {
    let usage = usage.trim().parse().unwrap_or(limit);
    let held = usage.saturating_sub(inactive.unwrap_or(0));
    tenths(limit, limit.saturating_sub(held))
}

/// Returns how many whole tenths a part is.
fn tenths(total: u64, part: u64) -> u64 {
    let whole = part.checked_div(total / TENTHS);
    whole.unwrap_or(0).min(TENTHS)
}

/// Returns the number behind a name at the beginning of a line.
fn size(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_memory_is_counted_in_tenths() {
        let tenths = |available| {
            let text =
                format!("MemTotal:  1000 kB\nMemFree:  1 kB\nMemAvailable:  {available} kB\n");
            of_host(&text)
        };
        assert_eq!([99, 100, 199, 200, 1000].map(tenths), [0, 1, 1, 2, 10]);
        assert_eq!(of_host(""), 0);
        assert_eq!(of_host("MemTotal: 1000 kB\n"), 0);
        assert_eq!(of_host("MemAvailable: 1000 kB\n"), 0);
    }

    #[test]
    fn page_cache_that_can_be_reclaimed_is_available_within_a_limit() {
        assert_eq!(within(1000, "901\n", None), 0);
        assert_eq!(within(1000, "900\n", None), 1);
        assert_eq!(within(1000, "1000\n", Some(300)), 3);
        assert_eq!(within(1000, "100\n", Some(300)), TENTHS);
        // More than the limit, and an unknown usage.
        assert_eq!(within(1000, "1200\n", Some(100)), 0);
        assert_eq!(within(1000, "", None), 0);
        assert_eq!(within(0, "0\n", None), 0);
        // Version 1 without a limit.
        assert_eq!(within(i64::MAX as u64 & !4095, "4096\n", None), 9);
    }

    #[test]
    fn the_cgroup_and_all_above_it_are_looked_at_in_each_hierarchy() {
        let [at_root, unified, first] = &HIERARCHIES;
        let looked_at = |listed, hierarchy| {
            let found = directories(listed, hierarchy).into_iter();
            let found = found.map(|path| path.to_str().unwrap().trim_end_matches('/').to_owned());
            found.collect::<Vec<_>>()
        };
        let hybrid = "9:name=systemd:/x\n4:memory:/a/b\n2:cpuacct,cpu:/c\n0::/d:e\n";
        let memory = "/sys/fs/cgroup/memory";
        assert_eq!(
            looked_at(hybrid, first),
            [
                format!("{memory}/a/b"),
                format!("{memory}/a"),
                memory.to_owned()
            ]
        );
        let unified_root = "/sys/fs/cgroup/unified";
        assert_eq!(
            looked_at(hybrid, unified),
            [format!("{unified_root}/d:e"), unified_root.to_owned()]
        );
        assert_eq!(looked_at("0::/\n", at_root), ["/sys/fs/cgroup"]);
        assert_eq!(looked_at("0::/\n", first), [""; 0]);
        // Outside of this cgroup namespace.
        assert_eq!(looked_at("0::/../../x\n", at_root), ["/sys/fs/cgroup"]);
        assert_eq!(looked_at("3:cpu,memory:/x\n", first).len(), 2);
    }

    #[test]
    fn kills_are_counted_by_their_whole_name() {
        let text = "oom_killer 9\npgfault 1\noom_kill 7\n";
        assert_eq!(size(text, "oom_kill "), Some(7));
        assert_eq!(size("pgfault 1\n", "oom_kill "), None);
    }
}
