//! Warm interpreters: confined ahead, each waits for one run.
//!
//! An interpreter itself runs the script, as ever: a file of hookjail's, which it reads before anything of the user's, only makes
//! it wait for the run's variables. Until a run has its start record its script is not in its place, so that nothing of a hook
//! can run. Then stdin carries the variables, and after them the event.
//!
//! A waiting process belongs to one command with one [`Key`], and ends with its run. Its own deadline kills it when it has
//! waited too long.

mod commands;
mod interpreter;
mod key;
pub(crate) mod memory;
mod python_modules;

use std::{
    ffi::CString,
    fs, io,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use nix::sys::resource::{Resource, getrlimit};
use tokio_util::sync::CancellationToken;

use self::commands::Commands;
pub(crate) use self::interpreter::libraries;
pub use self::interpreter::{NeverWaits, Wanted};
pub(crate) use self::key::Key;
#[cfg(target_os = "linux")]
pub(crate) use self::python_modules::shadows;
use crate::{
    Released,
    host::WaitingView,
    resources::litter::RunResources,
    run::{child_spec::ScriptPlace, notices::Notices},
};

/// How long an interpreter waits.
pub(crate) const LIFETIME: Duration = Duration::from_secs(300);

/// How long they may take to start.
pub(crate) const LOADING: Duration = Duration::from_secs(20);

/// How long none is started after a run lacked a resource that they may hold.
const HOLD_OFF: Duration = LIFETIME;

/// The files that make interpreters wait.
const WAITERS: [(&str, &str); 3] = [
    ("encodings/__init__.py", include_str!("encodings.py")),
    ("wait.bash", include_str!("wait.bash")),
    ("wait.cjs", include_str!("wait.cjs")),
];

/// Writes the files that make interpreters wait into a new directory.
///
/// # Errors
///
/// Returns the first error.
pub(crate) fn write_waiters(directory: &Path) -> io::Result<()> {
    let package = directory.join("encodings");
    for made in [directory, &package] {
        fs::create_dir(made)?;
        fs::set_permissions(made, PermissionsExt::from_mode(0o755))?;
    }
    for (name, text) in WAITERS {
        let path = directory.join(name);
        fs::write(&path, text)?;
        fs::set_permissions(&path, PermissionsExt::from_mode(0o444))?;
    }
    Ok(())
}

/// The interpreter that waits for a run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Waiter {
    /// bash, started.
    Bash,
    /// Node.js, loaded.
    Node,
    /// Python, loaded.
    Python,
}

impl Waiter {
    /// Returns the interpreter's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Node => "Node.js",
            Self::Python => "Python",
        }
    }

    /// Sets the variables by which an interpreter reads the file that makes it wait, what that file loads ahead, and the directory
    /// of libraries that root alone can change.
    pub(crate) fn wait(
        self,
        environment: &mut Vec<CString>,
        directory: &Path,
        (script, libraries): (&[u8], &Path),
    ) {
        let line = match self {
            Self::Bash => {
                let file = directory.join("wait.bash").display().to_string();
                // bash expands the value as in double quotes.
                let special = |c| ['\\', '"', '$', '`'].contains(&c);
                let escaped = file
                    .chars()
                    .flat_map(|c| special(c).then_some('\\').into_iter().chain([c]));
                format!("BASH_ENV={}", escaped.collect::<String>())
            }
            Self::Node => {
                let file = directory.join("wait.cjs").display().to_string();
                let quoted = file.replace('\\', "\\\\").replace('"', "\\\"");
                format!("NODE_OPTIONS=--require \"{quoted}\"")
            }
            Self::Python => {
                let names = python_modules::imported(script).join(" ");
                environment.extend(CString::new(format!("HOOKJAIL_WARM={names}")));
                let examined = libraries.as_os_str().as_bytes();
                environment.extend(CString::new([b"HOOKJAIL_EXAMINED=", examined].concat()));
                format!("PYTHONPATH={}", directory.display())
            }
        };
        environment.extend(CString::new(line));
    }

    /// Returns what it reads before the event: a length in hexadecimal, the directory to change to, and the variables.
    pub(crate) fn input(self, working_dir: Option<&Path>, variables: &[CString]) -> Vec<u8> {
        let working_dir = working_dir.map_or(&b""[..], |path| path.as_os_str().as_bytes());
        let text = match self {
            Self::Bash => bash_lines(working_dir, variables),
            Self::Node | Self::Python => {
                let mut text = [working_dir, b"\0"].concat();
                let lines = variables.iter().flat_map(|it| it.as_bytes_with_nul());
                text.extend(lines);
                text
            }
        };
        [format!("{:016x}", text.len()).as_bytes(), &text].concat()
    }
}

/// Returns the lines by which bash changes to a directory, if any is named, and takes variables: in ASCII, as it counts characters.
fn bash_lines(working_dir: &[u8], variables: &[CString]) -> Vec<u8> {
    let mut lines = Vec::new();
    if !working_dir.is_empty() {
        lines.extend(b"cd -P -- ");
        quote(working_dir, &mut lines);
        // As at any other start.
        lines.extend(b"; unset OLDPWD; export OLDPWD\n");
    }
    for line in variables {
        let line = line.as_bytes();
        if let Some(middle) = line.iter().position(|byte| *byte == b'=') {
            lines.extend(b"export ");
            lines.extend(&line[..=middle]);
            quote(&line[middle + 1..], &mut lines);
            lines.push(b'\n');
        }
    }
    lines
}

/// Adds bytes as a word of bash.
fn quote(bytes: &[u8], line: &mut Vec<u8>) {
    line.extend(b"$'");
    for byte in bytes {
        match byte {
            b'\'' | b'\\' => line.extend([b'\\', *byte]),
            b' '..=b'~' => line.push(*byte),
            _ => line.extend(format!("\\{byte:03o}").bytes()),
        }
    }
    line.push(b'\'');
}

/// An interpreter that waits for a run. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// The pipe of its notices.
    pub(crate) notices: Option<Box<Notices>>,
    /// The time from its start until it waited.
    pub(crate) loaded_in: Duration,
    /// Where its scripts are to be put.
    pub(crate) places: Vec<ScriptPlace>,
    pub(crate) released: Released,
    pub(crate) run: Arc<RunResources>,
    /// The view, where it has one of its own.
    pub(crate) view: Option<WaitingView>,
}

/// Counts of the processes that wait for runs (`warm` of profiles).
#[derive(Clone, Copy, Debug, Default)]
pub struct WaitingLevels {
    /// Number of processes that were discarded unused since the daemon's start.
    pub discarded: u64,
    /// How many wait.
    pub processes: usize,
    /// The runs that began in one since the daemon's start.
    pub runs: u64,
    /// The time that those runs' interpreters took to start, before the runs.
    pub saved: Duration,
}

/// The warm interpreters.
#[derive(Debug)]
pub(crate) struct Warm {
    commands: Mutex<Commands<Waiting>>,
    /// Number of processes that waited and were discarded.
    discarded: AtomicU64,
    /// The runs that began in one.
    runs: AtomicU64,
    /// The time that their starts took, µs.
    saved: AtomicU64,
    want: Mutex<Want>,
}

/// Lacks of resources that runs met.
#[derive(Debug, Default)]
struct Want {
    /// When any were given up last.
    given_up: Option<Instant>,
    /// The kernel's kills for lack of memory that were seen.
    kills: Option<u64>,
    /// When a run lacked something last.
    lacked: Option<Instant>,
    /// Ends those that are being started.
    starts: CancellationToken,
}

impl Warm {
    /// Returns none that wait.
    pub(crate) fn start() -> Self {
        Self {
            commands: Mutex::new(Commands::new()),
            discarded: AtomicU64::new(0),
            runs: AtomicU64::new(0),
            saved: AtomicU64::new(0),
            want: Mutex::new(Want {
                kills: memory::kills(),
                ..Want::default()
            }),
        }
    }

    /// Takes what has waited longest for a command with this key, with the time since when.
    pub(crate) fn take(&self, key: &Key) -> Option<(Instant, Waiting)> {
        self.lock().take(key)
    }

    /// Counts a run that began in what waited, and the time that its start took.
    pub(crate) fn count_run(&self, loaded_in: Duration) {
        let saved = u64::try_from(loaded_in.as_micros()).unwrap_or(u64::MAX);
        self.runs.fetch_add(1, Relaxed);
        self.saved.fetch_add(saved, Relaxed);
    }

    /// Kills what waited, and counts that no run began in it.
    pub(crate) fn discard(&self, waiting: impl IntoIterator<Item = Waiting>) {
        let discarded = waiting.into_iter().map(drop).count();
        self.discarded.fetch_add(discarded as u64, Relaxed);
    }

    /// Returns how many wait, how many runs began in one and what that saved, and how many were discarded.
    pub(crate) fn levels(&self) -> WaitingLevels {
        WaitingLevels {
            discarded: self.discarded.load(Relaxed),
            processes: self.lock().waiting(),
            runs: self.runs.load(Relaxed),
            saved: Duration::from_micros(self.saved.load(Relaxed)),
        }
    }

    /// Returns how many to start now for a command with this key, of which `wanted` are to wait. They count as being started.
    /// Processes of others that make room for them are killed.
    pub(crate) fn missing(&self, key: &Key, wanted: usize) -> usize {
        let now = Instant::now();
        let wanted = if self.is_held_off(now) { 0 } else { wanted };
        let (starts, gone) = self.lock().ask(key, wanted, now);
        self.discard(gone);
        starts
    }

    /// Keeps what came to wait, and returns whether the timer is to be started. Where it did not, and would not the next time, no
    /// other is started for some time.
    pub(crate) fn started(&self, key: &Key, waiting: Result<Waiting, Unfit>) -> bool {
        let now = Instant::now();
        let (kept, given_up) = match waiting {
            Ok(waiting) if self.is_held_off(now) => (Err(Unfit::Now), Some(waiting)),
            waiting => (waiting, None),
        };
        let mut commands = self.lock();
        let gone = commands.started(key, kept, now);
        self.discard(given_up.into_iter().chain(gone));
        commands.needs_timer()
    }

    /// Takes back that some are being started.
    pub(crate) fn not_started(&self, key: &Key, number: usize) {
        self.lock().not_started(key, number);
    }

    /// Lets go of what has waited too long: its own deadline has killed it. Returns when the timer is to wake next, if it is to.
    pub(crate) fn expire(&self) -> Option<Instant> {
        let (gone, next) = self.lock().expired(Instant::now());
        self.discard(gone);
        next
    }

    /// Kills all that wait or are being started, of any caller, and has none started for [`HOLD_OFF`]: a run lacks a resource
    /// that they may hold. Returns whether there were any.
    pub(crate) fn give_up(&self) -> bool {
        let starts = {
            let mut want = self.want();
            want.lacked = Some(Instant::now());
            std::mem::take(&mut want.starts)
        };
        starts.cancel();
        let mut commands = self.lock();
        let (any, gone) = commands.clear();
        if any {
            // Before the lock is released: another run that finds none must find when they were given up.
            self.want().given_up = Some(Instant::now());
        }
        drop(commands);
        self.discard(gone);
        any
    }

    /// Gives up all where the kernel has killed processes for lack of memory since the last time: a run may be one that kept to
    /// its own limit.
    pub(crate) fn give_up_for_memory(&self) {
        let kills = memory::kills();
        let seen = std::mem::replace(&mut self.want().kills, kills);
        if kills != seen && self.give_up() {
            tracing::warn!(
                "a hook was killed for lack of memory, so no process waits for some time"
            );
        }
    }

    /// Returns whether any were given up less than some time ago: their resources may not be free yet.
    pub(crate) fn gave_up_within(&self, time: Duration) -> bool {
        let given_up = self.want().given_up;
        given_up.is_some_and(|given_up| given_up.elapsed() < time)
    }

    /// Returns what ends those that are being started now.
    pub(crate) fn starts(&self) -> CancellationToken {
        self.want().starts.clone()
    }

    fn is_held_off(&self, now: Instant) -> bool {
        let lacked = self.want().lacked;
        lacked.is_some_and(|lacked| now.duration_since(lacked) < HOLD_OFF)
    }

    fn want(&self) -> MutexGuard<'_, Want> {
        // Each change is one assignment.
        self.want.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Commands<Waiting>> {
        // A panic leaves at most one too few or too many.
        self.commands.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why something did not come to wait.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Unfit {
    /// The process ended, or printed something, and would do so each time.
    Always,
    /// The process could not be started.
    Now,
}

/// Returns whether more than half of the descriptors that this process may have are open, or that is not known.
pub(crate) fn are_descriptors_scarce() -> bool {
    let open = fs::read_dir("/dev/fd").map(Iterator::count);
    match (open, getrlimit(Resource::RLIMIT_NOFILE)) {
        (Ok(open), Ok((limit, _))) => open > usize::try_from(limit).unwrap_or(usize::MAX) / 2,
        (Err(_), _) | (_, Err(_)) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(warm: &Warm, command: &str, wanted: usize) -> usize {
        warm.missing(&Key::of_test(0, command), wanted)
    }

    #[test]
    fn only_a_command_that_was_asked_for_before_is_started_ahead() {
        let warm = Warm::start();
        assert_eq!(request(&warm, "a", 2), 0);
        assert_eq!(request(&warm, "b", 2), 0);
        assert_eq!(request(&warm, "a", 2), 2);
        // They are being started.
        assert_eq!(request(&warm, "a", 2), 0);
        assert!(!warm.started(&Key::of_test(0, "a"), Err(Unfit::Now)));
        assert_eq!(request(&warm, "a", 2), 1);
        warm.not_started(&Key::of_test(0, "a"), 2);
        assert_eq!(request(&warm, "a", 2), 2);
        assert!(!warm.started(&Key::of_test(0, "a"), Err(Unfit::Always)));
        assert_eq!(request(&warm, "a", 2), 0);
        assert_eq!(request(&warm, "b", 0), 0);
    }

    #[test]
    fn after_a_want_those_that_are_started_end_and_none_is_started_for_some_time() {
        let warm = Warm::start();
        assert!(!warm.give_up(), "there is none");
        warm.want().lacked = None;
        assert_eq!(request(&warm, "a", 2), 0);
        assert_eq!(request(&warm, "a", 2), 2);
        let starts = warm.starts();
        assert!(!starts.is_cancelled());

        assert!(warm.give_up());

        assert!(starts.is_cancelled());
        assert!(!warm.starts().is_cancelled());
        warm.not_started(&Key::of_test(0, "a"), 2);
        assert!(!warm.give_up());
        assert_eq!(request(&warm, "a", 2), 0);
        let before = |age: Duration| Instant::now().checked_sub(age).unwrap();
        warm.want().lacked = Some(before(HOLD_OFF));
        assert_eq!(request(&warm, "a", 2), 2);
    }

    #[test]
    fn an_interpreter_reads_the_file_that_makes_it_wait() {
        let set = |waiter: Waiter| {
            let mut environment = vec![CString::new("A=b").unwrap()];
            let script = (&b"import json"[..], Path::new("/usr/lib"));
            waiter.wait(&mut environment, Path::new("/run/a \"b\""), script);
            let text = environment
                .iter()
                .map(|line| line.to_str().unwrap().to_owned());
            text.collect::<Vec<_>>()
        };
        let python = [
            "A=b",
            "HOOKJAIL_WARM=json",
            "HOOKJAIL_EXAMINED=/usr/lib",
            "PYTHONPATH=/run/a \"b\"",
        ];
        assert_eq!(set(Waiter::Python), python);
        let bash = "BASH_ENV=/run/a \\\"b\\\"/wait.bash";
        assert_eq!(set(Waiter::Bash), ["A=b", bash]);
        let node = "NODE_OPTIONS=--require \"/run/a \\\"b\\\"/wait.cjs\"";
        assert_eq!(set(Waiter::Node), ["A=b", node]);
    }
}
