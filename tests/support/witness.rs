//! Witnesses of tests besides replies: processes, files, the command line's output.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start the command line itself, never a hook; `unfinished` counts the tasks of a set"
)]

use std::{
    collections::BTreeMap,
    fs::{self, Permissions},
    io::Write,
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use hookjail::pb;
use hookjail_journal::{read::JournalReader, verify::verify_journal};
use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::support::{Daemon, command, directory, program, sh};

/// The maximum time of anything that does not depend on a hook's own time. Hooks that must be killed sleep far longer.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// Returns a number of seconds, about a minute, that no other `sleep` on this machine has as its argument.
pub(crate) fn a_minute() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("60.{}{count:04}", std::process::id())
}

/// Returns the processes that have a text among their arguments; the dead have none.
pub(crate) fn processes_with(marker: &str) -> Vec<String> {
    let found = processes_that(|line| line.contains(marker));
    found.map(|(_, line)| line).collect()
}

/// Returns the ids of processes, and their arguments, of whose arguments something holds.
pub(crate) fn processes_that(holds: impl Fn(&str) -> bool) -> impl Iterator<Item = (u32, String)> {
    let processes = fs::read_dir("/proc").unwrap();
    let read = |path: PathBuf| {
        let id = path.file_name()?.to_str()?.parse().ok()?;
        let bytes = fs::read(path.join("cmdline")).ok()?;
        Some((id, String::from_utf8_lossy(&bytes).replace('\0', " ")))
    };
    let found = processes.filter_map(move |entry| read(entry.unwrap().path()));
    found.filter(move |(_, line)| holds(line))
}

/// Returns the children of a process that have ended and are not reaped.
pub(crate) fn zombies_of(parent: u32) -> Vec<String> {
    let stat = |path: PathBuf| fs::read_to_string(path.join("stat")).unwrap_or_default();
    let is_zombie_child = |stat: &String| {
        let mut fields = stat
            .rsplit_once(") ")
            .map_or("", |(_, rest)| rest)
            .split(' ');
        fields.next() == Some("Z") && fields.next() == Some(&parent.to_string())
    };
    let processes = fs::read_dir("/proc").unwrap();
    processes
        .map(|entry| stat(entry.unwrap().path()))
        .filter(is_zombie_child)
        .collect()
}

/// Returns the process that kills hooks where a daemon is killed, if there is one.
pub(crate) fn keeper_of(daemon: &Daemon) -> Option<i32> {
    let parent = daemon.pid().to_string();
    let is_its_keeper = |path: &Path| {
        let stat = fs::read_to_string(path.join("stat")).unwrap_or_default();
        let (name, rest) = stat.rsplit_once(") ").unwrap_or_default();
        let mut fields = rest.split(' ');
        name.ends_with("(hookjail-keeper")
            && fields.next() != Some("Z")
            && fields.next() == Some(&parent)
    };
    fs::read_dir("/proc").unwrap().find_map(|entry| {
        let path = entry.unwrap().path();
        let pid = path.file_name()?.to_str()?.parse().ok()?;
        is_its_keeper(&path).then_some(pid)
    })
}

/// Returns a value in KiB from a process's status, such as `VmHWM`.
pub(crate) fn status_kib(pid: u32, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Waits until something holds.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    until_it(what, async || holds()).await;
}

/// Waits until something holds that somebody has to be asked about.
pub(crate) async fn until_it(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let give_up = Instant::now() + SOON;
    while !holds().await {
        assert!(Instant::now() < give_up, "{what} takes too long");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until no process has a text among its arguments.
pub(crate) async fn until_gone(marker: &str) {
    until("the end of all processes", || {
        processes_with(marker).is_empty()
    })
    .await;
}

/// Waits until what runs left is removed, which answers do not wait for.
pub(crate) async fn until_clean(daemon: &Daemon) {
    until("the removal of what runs left", || {
        daemon.scratch_directories().is_empty()
    })
    .await;
}

/// Returns a uid of hooks, and the table that gives it to the hooks of one daemon alone.
///
/// Every daemon of root ends the processes under one of its uids, the client of another test too.
pub(crate) fn a_hooks_uid() -> (u32, String) {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let first = 1_879_400_000 + 1000 * COUNT.fetch_add(1, Ordering::Relaxed);
    let range = format!("[hooks]\nuid_range = [{first}, {}]\n", first + 999);
    (first + 7, range)
}

/// Returns how many tasks of a set go on; tasks that have ended leave it.
pub(crate) fn unfinished<T: 'static>(tasks: &mut JoinSet<T>) -> usize {
    while tasks.try_join_next().is_some() {}
    tasks.len()
}

/// Returns a wall time for a request.
pub(crate) fn wall_time(seconds: i64) -> Option<prost_types::Duration> {
    Some(prost_types::Duration { seconds, nanos: 0 })
}

/// Returns how a hook ended: kind, exit code, signal.
pub(crate) fn end(response: &pb::ExecuteResponse) -> (pb::OutcomeKind, Option<i32>, Option<i32>) {
    let outcome = response.outcome.unwrap();
    (outcome.kind(), outcome.exit_code, outcome.signal)
}

/// Returns a request for a line of `sh` that may write the workspace.
pub(crate) fn writing(daemon: &Daemon, script: &str) -> pb::ExecuteRequest {
    let mut request = sh("workspace-rw", script);
    let workspace = daemon.workspace().display().to_string();
    request.hook.as_mut().unwrap().workspace = workspace;
    request
}

/// Returns an event without a point.
pub(crate) fn event(json: impl Into<Vec<u8>>) -> Option<pb::Event> {
    Some(pb::Event {
        json: json.into().into(),
        point: String::new(),
        raw: true,
    })
}

/// Asserts that a journal's chain holds.
pub(crate) fn assert_verifies(directory: &Path) {
    let verified = verify_journal(&directory.join("state/audit")).unwrap();
    let expected = u64::try_from(crate::support::journal(directory).len()).unwrap();
    assert_eq!(verified.records, expected);
}

/// Returns the records of all files of a journal.
pub(crate) fn records(home: &Path) -> Vec<serde_json::Value> {
    let mut reader = JournalReader::open(&home.join("state/audit"));
    let mut records = Vec::new();
    while let Some(line) = reader.next_line().unwrap() {
        records.push(serde_json::from_slice(line).unwrap());
    }
    records
}

/// The command line, with a configuration and state of its own.
#[derive(Debug)]
pub(crate) struct CommandLine {
    directory: TempDir,
}

impl CommandLine {
    pub(crate) fn new() -> Self {
        let directory = directory();
        let root = directory.path();
        let config = format!(
            "[paths]\nstate = {:?}\nruntime = {:?}\n",
            root.join("state"),
            root.join("run"),
        );
        fs::write(root.join("hookjail.toml"), config).unwrap();
        Self { directory }
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Returns a command of this command line, with nothing on stdin.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = hookjail(&self.path().join("hookjail.toml"), words);
        command.env("HOME", self.path());
        command
    }

    /// Runs a command to its end.
    pub(crate) fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }
}

/// Returns a `hookjail` command with a configuration and nothing on stdin.
pub(crate) fn hookjail(config: &Path, words: &[&str]) -> Command {
    let mut command = command(program());
    // A command that a refusal names has the configuration itself.
    if !words.contains(&"--config") {
        command.arg("--config").arg(config);
    }
    command.args(words);
    command.stdin(Stdio::null());
    command
}

/// A user that no other process has.
pub(crate) const NOBODY: u32 = 65_534;

/// Has a user ask this daemon for something by a command of one or two words, at one of its sockets. Needs root.
pub(crate) fn ask_as(
    user: u32,
    daemon: &Daemon,
    socket: &str,
    command: &str,
    words: &[&str],
) -> Output {
    ask_in(&[], user, daemon, socket, command, words)
}

/// Like [`ask_as`], by a process with supplementary groups.
pub(crate) fn ask_in(
    groups: &[u32],
    user: u32,
    daemon: &Daemon,
    socket: &str,
    command: &str,
    words: &[&str],
) -> Output {
    let socket = daemon.path().join(socket);
    chown(&socket, None, Some(user)).unwrap();
    fs::set_permissions(&socket, Permissions::from_mode(0o660)).unwrap();
    // The program may lie where that user cannot go.
    let program = daemon.path().join("hookjail");
    if !program.exists() {
        install(&crate::support::program(), &program);
    }
    let groups: Vec<_> = groups.iter().map(u32::to_string).collect();
    crate::support::command("setpriv")
        .args([format!("--reuid={user}"), format!("--regid={user}")])
        .arg(match groups.is_empty() {
            true => "--clear-groups".to_owned(),
            false => format!("--groups={}", groups.join(",")),
        })
        .arg(program)
        .args(command.split(' '))
        .args(["--json", "--connect"])
        .arg(socket)
        .args(words)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// Copies a program by another process, so that everybody may execute it at once.
///
/// A child that another test starts meanwhile has a copy of each file that this process has open for writing. Until that child
/// executes, the kernel refuses to execute the file.
pub(crate) fn install(program: &Path, place: &Path) {
    let installed = Command::new("install")
        .args(["-m", "755"])
        .args([program, place])
        .status();
    assert!(installed.unwrap().success());
}

/// Has a program compiled for the first test that needs it; the others get a copy, by another process as [`install`] has it.
pub(crate) fn compiled_once(name: String, place: &Path, compile: impl FnOnce()) {
    static KNOWN: Mutex<BTreeMap<String, Vec<u8>>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(bytes) = known.get(&name).cloned() else {
        compile();
        known.insert(name, fs::read(place).unwrap());
        return;
    };
    drop(known);
    let mut command = Command::new("install");
    command.args(["-m", "755", "/dev/stdin"]).arg(place);
    let mut copying = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = copying.stdin.take().unwrap();
    stdin.write_all(&bytes).unwrap();
    drop(stdin);
    assert!(copying.wait().unwrap().success());
}

/// Returns the one line of JSON that a command printed.
pub(crate) fn json(output: &Output) -> serde_json::Value {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert_eq!(text.lines().count(), 1, "{text:?} {output:?}");
    serde_json::from_str(&text).unwrap()
}

/// Does something over and over on a thread of its own, until it is dropped: the other side of a race.
#[derive(Debug)]
pub(crate) struct Again {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Again {
    pub(crate) fn and_again(mut act: impl FnMut() + Send + 'static) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                act();
            }
        });
        Self {
            stop,
            thread: Some(thread),
        }
    }

    /// Exchanges what lies at two paths.
    pub(crate) fn swap(one: PathBuf, other: PathBuf) -> Self {
        Self::and_again(move || {
            let exchange = RenameFlags::RENAME_EXCHANGE;
            renameat2(AT_FDCWD, &one, AT_FDCWD, &other, exchange).unwrap();
        })
    }
}

impl Drop for Again {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

/// A small disk, until it is dropped.
#[derive(Debug)]
pub(crate) struct Mount(PathBuf);

impl Mount {
    /// Mounts a file system in memory.
    pub(crate) fn tmpfs(place: &Path, options: &str) -> Self {
        Self::new(&["-t", "tmpfs", "-o", options, "tmpfs"], place)
    }

    /// Mounts something, by the words that `mount` takes before the place.
    pub(crate) fn new(words: &[&str], place: &Path) -> Self {
        let mounted = Command::new("mount")
            .args(words)
            .arg(place)
            .output()
            .unwrap();
        assert!(
            mounted.status.success(),
            "this test needs a root that may mount: {mounted:?}"
        );
        Self(place.to_owned())
    }

    /// Makes it read-only for all.
    pub(crate) fn make_read_only(&self) {
        let mounted = Command::new("mount")
            .args(["-o", "remount,ro"])
            .arg(&self.0)
            .status();
        assert!(mounted.unwrap().success());
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("-l").arg(&self.0).output());
    }
}
