//! Warm interpreters: confined and loaded ahead, each waits for one run of its command.
//!
//! The interpreter itself runs the script, as ever: a file of hookjail's, which it reads before, only makes it wait for the
//! run's variables. Until a run has its start record its script is not in its place, so that nothing of a hook can run. Then
//! stdin carries the variables, and after them the event.
//!
//! A warm interpreter belongs to one command with one [`Key`], and ends with its run. One that has waited too long is killed by
//! its own deadline.

mod key;
mod python_modules;

use std::{
    ffi::{CString, OsString},
    fs, io,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use bytes::{BufMut, Bytes, BytesMut};

pub(in crate::sandbox) use self::key::Key;
use crate::sandbox::{
    Released,
    run::{child_spec::ScriptPlace, litter::RunResources},
};

/// What an interpreter writes to its stdout when it waits.
pub(in crate::sandbox) const MARK: u8 = 6;

/// The most interpreters that wait at once.
const MOST: usize = 32;

/// The most commands that are known.
const MOST_COMMANDS: usize = 128;

/// How long an interpreter waits.
pub(in crate::sandbox) const LIFETIME: Duration = Duration::from_secs(300);

/// How long an interpreter may take to start.
pub(in crate::sandbox) const LOADING: Duration = Duration::from_secs(20);

/// The part of the host's memory that must be available for an interpreter to wait: a tenth.
const AVAILABLE: u64 = 10;

/// The files that make interpreters wait.
const WAITERS: [(&str, &str); 2] = [
    ("sitecustomize.py", include_str!("sitecustomize.py")),
    ("wait.js", include_str!("wait.js")),
];

/// Writes the files that make interpreters wait into a new directory.
///
/// # Errors
///
/// Returns the first error.
pub(in crate::sandbox) fn write_waiters(directory: &Path) -> io::Result<()> {
    fs::create_dir(directory)?;
    for (name, text) in WAITERS {
        let path = directory.join(name);
        fs::write(&path, text)?;
        fs::set_permissions(&path, PermissionsExt::from_mode(0o444))?;
    }
    fs::set_permissions(directory, PermissionsExt::from_mode(0o755))
}

/// A kind of interpreter.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::sandbox) enum Interpreter {
    Node,
    Python,
}

impl Interpreter {
    /// Returns the kind of the interpreter that runs a command's script, from the words before it.
    fn of(words: &[OsString]) -> Option<Self> {
        let (first, rest) = words.split_first()?;
        let name = |word: &OsString| Path::new(word).file_name().map(|it| it.to_owned());
        let mut named = name(first)?;
        if named == "env" {
            named = name(
                rest.iter()
                    .find(|word| !word.as_bytes().starts_with(b"-"))?,
            )?;
        }
        match named.to_str()? {
            "node" | "nodejs" => Some(Self::Node),
            name => {
                let version = name.strip_prefix("python")?;
                let is_version = |c: char| c.is_ascii_digit() || c == '.';
                version.chars().all(is_version).then_some(Self::Python)
            }
        }
    }

    /// Sets the variables by which it reads the file that makes it wait, and what that file loads ahead.
    pub(in crate::sandbox) fn wait(
        self,
        environment: &mut Vec<CString>,
        directory: &Path,
        script: &[u8],
    ) {
        let (name, value) = match self {
            Self::Node => {
                let file = directory.join("wait.js").display().to_string();
                let quoted = file.replace('\\', "\\\\").replace('"', "\\\"");
                ("NODE_OPTIONS", format!("--require \"{quoted}\""))
            }
            Self::Python => ("PYTHONPATH", directory.display().to_string()),
        };
        let prefix = format!("{name}=");
        let own = environment
            .iter()
            .position(|it| it.to_bytes().starts_with(prefix.as_bytes()));
        let own = own.map(|at| environment.remove(at));
        let mut line = format!("{prefix}{value}").into_bytes();
        if let Some(own) = own {
            line.push(if self == Self::Node { b' ' } else { b':' });
            line.extend(&own.to_bytes()[prefix.len()..]);
        }
        environment.extend(CString::new(line));
        let names = match self {
            Self::Node => Vec::new(),
            Self::Python => python_modules::imported(script),
        };
        environment.extend(CString::new(format!("HOOKJAIL_WARM={}", names.join(" "))));
    }
}

/// What a warm interpreter reads before the event: the length of the variables in hexadecimal, and the variables.
pub(in crate::sandbox) fn input(variables: &[CString], event: &Bytes) -> Bytes {
    let length: usize = variables
        .iter()
        .map(|line| line.as_bytes_with_nul().len())
        .sum();
    let mut input = BytesMut::with_capacity(16 + length + event.len());
    input.put_slice(format!("{length:016x}").as_bytes());
    for line in variables {
        input.put_slice(line.as_bytes_with_nul());
    }
    input.put_slice(event);
    input.freeze()
}

/// An interpreter that waits for a run of its command. Dropping it kills it.
#[derive(Debug)]
pub(in crate::sandbox) struct Waiting {
    /// Where its scripts are to be put.
    pub(in crate::sandbox) places: Vec<ScriptPlace>,
    pub(in crate::sandbox) released: Released,
    pub(in crate::sandbox) run: Arc<RunResources>,
    /// Since when it waits.
    pub(in crate::sandbox) since: Instant,
}

/// A command whose profile has warm interpreters.
#[derive(Debug)]
struct Command {
    asked: Instant,
    key: Key,
    starting: usize,
    /// When its interpreter may be started again, which did not come to wait.
    unfit_until: Option<Instant>,
    waiting: Vec<Waiting>,
}

/// The warm interpreters.
#[derive(Debug, Default)]
pub(in crate::sandbox) struct Warm {
    /// The command asked for longest ago comes first.
    commands: Mutex<Vec<Command>>,
}

impl Warm {
    /// Takes the interpreter that has waited longest for a command with this key.
    pub(in crate::sandbox) fn take(&self, key: &Key) -> Option<Waiting> {
        let mut commands = self.lock();
        let command = commands.iter_mut().find(|it| it.key == *key)?;
        (!command.waiting.is_empty()).then(|| command.waiting.remove(0))
    }

    /// Returns how many interpreters to start now for a command with this key, of which `wanted` are to wait. They count as
    /// being started.
    ///
    /// None for a command that is asked for the first time: its words may be other ones each time.
    pub(in crate::sandbox) fn missing(&self, key: &Key, wanted: usize) -> usize {
        let now = Instant::now();
        let mut commands = self.lock();
        let known = commands.iter().position(|it| it.key == *key);
        let known = known.map(|at| commands.remove(at));
        commands.retain(|it| now.duration_since(it.asked) < LIFETIME);
        let is_new = known.is_none();
        let mut command = known.unwrap_or(Command {
            asked: now,
            key: key.clone(),
            starting: 0,
            unfit_until: None,
            waiting: Vec::new(),
        });
        command.asked = now;
        let is_unfit = command.unfit_until.is_some_and(|until| now < until);
        let starting: usize = commands.iter().map(|it| it.starting).sum();
        let missing = if is_new || is_unfit {
            0
        } else {
            let has = command.starting + command.waiting.len();
            let room = MOST.saturating_sub(starting + has);
            wanted.saturating_sub(has).min(room)
        };
        command.starting += missing;
        commands.push(command);
        if commands.len() > MOST_COMMANDS {
            commands.remove(0);
        }
        // Room is made by those of the commands asked for longest ago.
        let held = |it: &Command| it.starting + it.waiting.len();
        let mut over = commands
            .iter()
            .map(held)
            .sum::<usize>()
            .saturating_sub(MOST);
        for command in commands.iter_mut() {
            let dropped = over.min(command.waiting.len());
            command.waiting.drain(..dropped);
            over -= dropped;
        }
        missing
    }

    /// Keeps an interpreter that came to wait. Where it did not, and would not the next time, no other is started for some time.
    pub(in crate::sandbox) fn started(&self, key: &Key, waiting: Result<Waiting, Unfit>) {
        let mut commands = self.lock();
        let Some(command) = commands.iter_mut().find(|it| it.key == *key) else {
            return;
        };
        command.starting = command.starting.saturating_sub(1);
        match waiting {
            Ok(waiting) => command.waiting.push(waiting),
            Err(Unfit::Always) => command.unfit_until = Some(Instant::now() + LIFETIME),
            Err(Unfit::Now) => {}
        }
    }

    /// Takes back that interpreters are being started.
    pub(in crate::sandbox) fn not_started(&self, key: &Key, number: usize) {
        let mut commands = self.lock();
        if let Some(command) = commands.iter_mut().find(|it| it.key == *key) {
            command.starting = command.starting.saturating_sub(number);
        }
    }

    /// Lets go of what has waited too long. Its own deadline has killed it.
    pub(in crate::sandbox) fn drop_old(&self) {
        let is_young = |it: &Waiting| it.since.elapsed() < LIFETIME;
        let mut commands = self.lock();
        commands
            .iter_mut()
            .for_each(|it| it.waiting.retain(is_young));
    }

    /// Kills all that wait.
    pub(in crate::sandbox) fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Command>> {
        // A panic leaves at most an interpreter too few or too many.
        self.commands.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why an interpreter did not come to wait.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::sandbox) enum Unfit {
    /// It ended, or printed something: it would do so each time.
    Always,
    /// It could not be started.
    Now,
}

/// Returns whether less than a part of the host's memory is available, or that is not known.
pub(in crate::sandbox) fn is_memory_scarce() -> bool {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let size = |name: &str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse().ok()
    };
    match (size("MemTotal:"), size("MemAvailable:")) {
        (Some(total), Some(available)) => available < total / AVAILABLE,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(warm: &Warm, command: &str, wanted: usize) -> usize {
        warm.missing(&Key::of_test(command), wanted)
    }

    #[test]
    fn only_a_command_that_was_asked_for_before_is_started_ahead() {
        let warm = Warm::default();
        assert_eq!(asked(&warm, "a", 2), 0);
        assert_eq!(asked(&warm, "b", 2), 0);
        assert_eq!(asked(&warm, "a", 2), 2);
        // They are being started.
        assert_eq!(asked(&warm, "a", 2), 0);
        warm.started(&Key::of_test("a"), Err(Unfit::Now));
        assert_eq!(asked(&warm, "a", 2), 1);
        warm.not_started(&Key::of_test("a"), 2);
        assert_eq!(asked(&warm, "a", 2), 2);
        warm.started(&Key::of_test("a"), Err(Unfit::Always));
        assert_eq!(asked(&warm, "a", 2), 0);
        assert_eq!(asked(&warm, "b", 0), 0);
    }

    #[test]
    fn the_commands_asked_for_longest_ago_make_room() {
        let warm = Warm::default();
        for number in 0..=MOST_COMMANDS {
            assert_eq!(asked(&warm, &number.to_string(), 1), 0);
        }
        assert_eq!(warm.lock().len(), MOST_COMMANDS);
        assert_eq!(asked(&warm, "0", 1), 0, "it was forgotten");
        let known = (2..MOST_COMMANDS).map(|number| asked(&warm, &number.to_string(), 1));
        assert_eq!(known.sum::<usize>(), MOST, "more are not started");
    }

    #[test]
    fn interpreters_are_told_by_their_names() {
        let kind = |words: &[&str]| {
            let words: Vec<_> = words.iter().map(OsString::from).collect();
            Interpreter::of(&words)
        };
        for python in [
            "/usr/bin/python3",
            "python",
            "/opt/python3.13",
            "/v/bin/python3",
        ] {
            assert_eq!(kind(&[python, "-u"]), Some(Interpreter::Python), "{python}");
        }
        assert_eq!(
            kind(&["/usr/bin/env", "python3"]),
            Some(Interpreter::Python)
        );
        assert_eq!(
            kind(&["/usr/bin/env", "-S", "node"]),
            Some(Interpreter::Node)
        );
        assert_eq!(kind(&["/usr/bin/nodejs"]), Some(Interpreter::Node));
        for other in [
            "/bin/sh",
            "python3-config",
            "nodemon",
            "/usr/bin/env",
            "pythonista",
        ] {
            assert_eq!(kind(&[other]), None, "{other}");
        }
        assert_eq!(kind(&[]), None);
    }

    #[test]
    fn a_value_of_the_hooks_own_stays_beside_that_of_hookjail() {
        let set = |interpreter: Interpreter, own: &str| {
            let mut environment = vec![CString::new("A=b").unwrap(), CString::new(own).unwrap()];
            interpreter.wait(&mut environment, Path::new("/run/a \"b\""), b"import json");
            let text = environment
                .iter()
                .map(|line| line.to_str().unwrap().to_owned());
            text.collect::<Vec<_>>()
        };
        let python = set(Interpreter::Python, "PYTHONPATH=/mine");
        assert_eq!(
            python,
            ["A=b", "PYTHONPATH=/run/a \"b\":/mine", "HOOKJAIL_WARM=json"]
        );
        let node = set(Interpreter::Node, "NODE_OPTIONS=--no-warnings");
        let expected = "NODE_OPTIONS=--require \"/run/a \\\"b\\\"/wait.js\" --no-warnings";
        assert_eq!(node, ["A=b", expected, "HOOKJAIL_WARM="]);
    }
}
