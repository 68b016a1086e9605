//! Cgroup of one run.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    os::{fd::OwnedFd, unix::fs::OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use nix::fcntl::OFlag;
use tokio::time::sleep;

use hookjail_policy::Limits;
use hookjail_sys::{IntoCgroup, Reaped};

use super::{
    events::{Telling, counter, explanations},
    pool::Shared,
};
use crate::{
    Evidence,
    process::{Cause, Ended, Running, Supervision},
    run::{Finish, RunningHook},
};

/// Time limit for the death of killed processes.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// Buffer size, above that of any control file that is read.
const FILE_BYTES: usize = 4 * 1024;

/// Cgroup of one run. Dropping it kills its processes and removes it in the background.
#[derive(Debug)]
pub(crate) struct Group {
    evidence: Vec<Evidence>,
    path: PathBuf,
    shared: Arc<Shared>,
}

impl Group {
    /// Takes over an empty cgroup and sets a run's limits. `own_tasks` is how many tasks of hookjail's are in it beside the hook's.
    ///
    /// # Errors
    ///
    /// Returns the error of setting a limit, or names a limit that the kernel did not take as it was set.
    pub(super) fn limited(
        path: PathBuf,
        shared: Arc<Shared>,
        limits: &Limits,
        own_tasks: u64,
    ) -> io::Result<Self> {
        let mut group = Self {
            evidence: Vec::new(),
            path,
            shared,
        };
        // The kernel counts whole pages.
        let within = |planned: u64| {
            move |observed: &str| observed.parse().is_ok_and(|limit: u64| limit <= planned)
        };
        let tasks = limits.tasks + own_tasks;
        group.limit("pids_max", "pids.max", &tasks.to_string(), within(tasks))?;
        if let Some(bytes) = limits.memory {
            group.limit(
                "memory_max",
                "memory.max",
                &bytes.to_string(),
                within(bytes),
            )?;
            match group.set("memory.swap.max", "0") {
                // A kernel without swap has nothing to limit.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                set => set?,
            }
        }
        if let Some(cpus) = limits.cpus.filter(|_| group.shared.controllers().cpu) {
            let quota = cpu_max(cpus);
            group.limit("cpu_max", "cpu.max", &quota, |observed| observed == quota)?;
        }
        Ok(group)
    }

    /// Sets a limit and reads back what the kernel made of it.
    fn limit(
        &mut self,
        check: &'static str,
        file: &str,
        planned: &str,
        holds: impl Fn(&str) -> bool,
    ) -> io::Result<()> {
        self.set(file, planned)?;
        let observed = self.get(file)?;
        if !holds(&observed) {
            let message = format!("`{file}` is {observed} instead of {planned}");
            return Err(io::Error::other(message));
        }
        self.evidence.push(Evidence { check, observed });
        Ok(())
    }

    /// Opens what gets a child into it.
    ///
    /// # Errors
    ///
    /// Returns the error of `open`.
    pub(crate) fn entry(&self) -> io::Result<IntoCgroup> {
        if !self.shared.has_clone3() {
            return self.processes().map(IntoCgroup::Move);
        }
        let flags = OFlag::O_DIRECTORY | OFlag::O_PATH;
        let mut options = OpenOptions::new();
        let opened = options.read(true).custom_flags(flags.bits());
        Ok(IntoCgroup::Clone(opened.open(&self.path)?.into()))
    }

    /// Opens the file that moves who writes to it.
    ///
    /// # Errors
    ///
    /// Returns the error of `open`.
    pub(super) fn processes(&self) -> io::Result<OwnedFd> {
        let opened = File::options()
            .write(true)
            .open(self.path.join("cgroup.procs"));
        Ok(opened?.into())
    }

    /// Moves a process into it.
    ///
    /// # Errors
    ///
    /// Returns the error of moving it.
    pub(crate) fn admit(&self, pid: i32) -> io::Result<()> {
        self.set("cgroup.procs", &pid.to_string())
    }

    /// Returns evidence that a process is in it, and of its limits.
    ///
    /// # Errors
    ///
    /// Names the cgroup that the process is in instead.
    pub(crate) fn attest(&self, pid: i32) -> io::Result<Vec<Evidence>> {
        let found = read(Path::new(&format!("/proc/{pid}/cgroup")))?;
        let mut lines = found.lines();
        let found = lines.find_map(|line| line.strip_prefix("0::"));
        let name = self.name();
        // Its own name is unique, and what is above it depends on the cgroup namespace.
        if !found.is_some_and(|found| found.ends_with(&name)) {
            let message = format!(
                "the process is in `{}` instead of `{name}`",
                found.unwrap_or_default()
            );
            return Err(io::Error::other(message));
        }
        let entered = Evidence {
            check: "cgroup",
            observed: name,
        };
        Ok(self.evidence.iter().cloned().chain([entered]).collect())
    }

    /// Returns its name, with those of its caller's and of the daemon's above it.
    fn name(&self) -> String {
        let mut above = self.path.ancestors();
        let parts = [above.next(), above.next(), above.next()];
        let names = parts.map(|path| path.and_then(Path::file_name).unwrap_or_default());
        let [run, caller, daemon] = names.map(|name| name.display());
        format!("/{daemon}/{caller}/{run}")
    }

    /// Returns whether the kernel killed a process in it at the memory limit.
    pub(crate) fn ran_out_of_memory(&self) -> bool {
        self.counted(Telling::Memory) > 0
    }

    /// Returns whether it had no memory left within its own limit, and not within another.
    fn reached_its_memory_limit(&self) -> bool {
        self.counted(Telling::MemoryLimit) > 0
    }

    /// Returns whether its processes had to wait for the end of a period because of the limit on processor time.
    pub(crate) fn was_throttled(&self) -> bool {
        self.counted(Telling::Processors) > 0
    }

    /// Returns the cause of its run's end, by the kernel's counters where these explain it.
    pub(crate) fn cause(&self, cause: Cause, leader: Option<Reaped>) -> Cause {
        let mut explanations = explanations(cause, leader).iter();
        let explained = explanations.find(|(telling, _)| self.counted(*telling) > 0);
        explained.map_or(cause, |(_, cause)| *cause)
    }

    /// Kills what is left in it, and waits until nothing is.
    pub(crate) async fn end(&self) {
        let give_up = Instant::now() + KILL_TIMEOUT;
        let mut killed = false;
        while self.is_populated() {
            if !killed {
                killed = true;
                if let Err(error) = self.set("cgroup.kill", "1") {
                    tracing::error!(%error, cgroup = self.name(), "processes that a hook left cannot be killed");
                }
            }
            if Instant::now() >= give_up {
                tracing::error!(cgroup = self.name(), "killed processes do not end");
                return;
            }
            sleep(Duration::from_millis(1)).await;
        }
    }

    fn is_populated(&self) -> bool {
        match self.get("cgroup.events") {
            Ok(events) => counter(&events, "populated") > 0,
            Err(error) => {
                tracing::error!(%error, cgroup = self.name(), "a cgroup cannot be looked at");
                false
            }
        }
    }

    fn counted(&self, telling: Telling) -> u64 {
        let (file, key) = match telling {
            Telling::Memory => ("memory.events", "oom_kill"),
            Telling::MemoryLimit => ("memory.events", "oom"),
            Telling::Processors => ("cpu.stat", "nr_throttled"),
            Telling::Tasks => ("pids.events", "max"),
        };
        match self.get(file) {
            Ok(text) => counter(&text, key),
            Err(error) => {
                tracing::error!(%error, cgroup = self.name(), "`{file}` cannot be read");
                0
            }
        }
    }

    fn get(&self, file: &str) -> io::Result<String> {
        let text = read(&self.path.join(file))?;
        Ok(text.trim_end().to_owned())
    }

    fn set(&self, file: &str, value: &str) -> io::Result<()> {
        set(&self.path, file, value)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.shared.take_back(std::mem::take(&mut self.path));
    }
}

/// A hook with its cgroup. Dropping it kills the tree.
#[derive(Debug)]
pub(crate) struct Grouped {
    pub(crate) group: Group,
    pub(crate) running: Running,
}

impl RunningHook for Grouped {
    fn as_waiting(&mut self) -> Option<&mut Running> {
        Some(&mut self.running)
    }

    fn run_to_end(self: Box<Self>, supervision: Supervision) -> Finish {
        Box::pin(async {
            let Self { group, running } = *self;
            let ended = running.finish(supervision).await;
            group.end().await;
            Ok(Ended {
                cause: group.cause(ended.cause, ended.leader),
                lacked_memory: ended.lacked_memory && !group.reached_its_memory_limit(),
                ..ended
            })
        })
    }
}

/// Returns the text of `cpu.max` for a limit in thousandths of a processor: microseconds in each period, and the period's length.
fn cpu_max(thousandths: u32) -> String {
    const PERIOD: u64 = 100_000;
    format!("{} {PERIOD}", u64::from(thousandths) * PERIOD / 1000)
}

/// Reads a control file in one read: each further one would generate it anew.
fn read(path: &Path) -> io::Result<String> {
    let mut buffer = [0; FILE_BYTES];
    let length = File::open(path)?.read(&mut buffer)?;
    Ok(String::from_utf8_lossy(&buffer[..length]).into_owned())
}

/// Writes a control file, never making one: the kernel makes those of a cgroup.
pub(super) fn set(cgroup: &Path, file: &str, value: &str) -> io::Result<()> {
    let mut file = File::options().write(true).open(cgroup.join(file))?;
    file.write_all(value.as_bytes())
}

/// Kills all processes of a cgroup and of those below it, and removes it and those below it.
///
/// # Errors
///
/// Returns the error of the removal: `ResourceBusy` while killed processes end.
pub(super) fn remove(cgroup: &Path) -> io::Result<()> {
    // An empty one needs it not, and kernels before 5.14 do not have it.
    let killed = set(cgroup, "cgroup.kill", "1");
    let below = |entry: io::Result<fs::DirEntry>| {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => remove(&entry.path()),
            false => Ok(()),
        }
    };
    let removed = match fs::remove_dir(cgroup) {
        // The cgroup has cgroups below it, or processes.
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => fs::read_dir(cgroup)
            .and_then(|mut entries| entries.try_for_each(below))
            .and_then(|()| fs::remove_dir(cgroup)),
        removed => removed,
    };
    match (removed, killed) {
        (Err(error), _) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        (Err(busy), Err(error)) => Err(io::Error::new(
            busy.kind(),
            format!("{busy}, and killing failed: {error}"),
        )),
        (removed, _) => removed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_microseconds_of_each_period() {
        assert_eq!(cpu_max(10), "1000 100000");
        assert_eq!(cpu_max(1500), "150000 100000");
        assert_eq!(cpu_max(1_000_000), "100000000 100000");
    }
}
