//! Shows the notices of hooks, by a program of the operator's. No answer waits for that.

use std::{
    collections::HashMap,
    ffi::OsString,
    io,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, killpg},
    unistd::{AccessFlags, Pid, access},
};

use hookjail_base::{
    notices::{Asked, Means, NOTIFY_SEND, Notice, shown_name},
    redact::Redactor,
};
use hookjail_sandbox::program::roots_alone;

use super::Run;
use crate::metrics::{Metrics, NoticeOutcome};

/// Notices that a caller's session has at once, and the time after which it has one more: twenty a minute.
const AT_ONCE: u32 = 8;
const ONE_MORE: Duration = Duration::from_secs(3);

/// The most sessions whose notices are counted at once.
const MOST_SESSIONS: usize = 1024;

/// The most runs whose notices are shown at once.
const MOST_RUNS: usize = 4;

/// Time limit of the program, for each notice.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Time that the program has at the end of the daemon.
const LAST: Duration = Duration::from_secs(1);

/// The interval of polling for its end.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The address of the session's bus.
const BUS: &str = "DBUS_SESSION_BUS_ADDRESS";

/// Shows notices. Dropping this ends the programs that show them, within twice [`LAST`].
#[derive(Debug)]
pub(crate) struct Notifier {
    means: Means,
    metrics: Arc<Metrics>,
    rate: Mutex<Rate>,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    changed: Condvar,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Whether the daemon ends.
    ends: bool,
    /// Runs whose notices are being shown.
    runs: usize,
}

/// A program and its arguments, ready to be started.
#[derive(Debug)]
struct Words {
    arguments: Vec<OsString>,
    /// The address of the session's bus, if it needs one.
    bus: Option<OsString>,
    program: PathBuf,
}

impl Notifier {
    /// Shows notices by these means.
    pub(crate) fn new(means: Means, metrics: Arc<Metrics>) -> Self {
        Self {
            means,
            metrics,
            rate: Mutex::default(),
            shared: Arc::default(),
        }
    }

    /// Begins to show the notices of a run that has ended.
    pub(super) fn show(&self, run: &Run, calls: Vec<u8>, redactor: &Redactor) {
        // Before anything is cut: a part of a secret would not be found.
        let mut calls = String::from_utf8_lossy(&calls).into_owned();
        redactor.clean(&mut calls);
        let Asked { dropped, notices } = Asked::read(calls.as_bytes());
        let session = (run.peer.uid, run.request.session.clone());
        let (hook, run) = (hook_name(run), &*run.id);
        let total = notices.len();
        let now = Instant::now();
        let mut rate = self.rate.lock().unwrap_or_else(PoisonError::into_inner);
        let within: Vec<_> = notices
            .into_iter()
            .filter(|_| rate.take(&session, now))
            .collect();
        drop(rate);
        let limited = dropped + (total - within.len()) as u64;
        if limited > 0 {
            tracing::debug!(run, hook, limited, "notices are not shown: too many");
            self.metrics.notices(NoticeOutcome::Limited, limited);
        }
        let count = within.len() as u64;
        let words = within
            .iter()
            .map(|notice| self.words(notice, &hook, program_of_root));
        let Some(words) = words.collect::<Option<Vec<_>>>() else {
            tracing::debug!(
                run,
                hook,
                count,
                "notices are not shown: no program shows them"
            );
            self.metrics.notices(NoticeOutcome::Unserved, count);
            return;
        };
        if words.is_empty() {
            return;
        }
        if let Err(error) = self.start(words, run) {
            tracing::debug!(run, hook, count, "notices are not shown: {error}");
            self.metrics.notices(NoticeOutcome::Limited, count);
        }
    }

    /// Starts a thread that shows notices, one after the other.
    fn start(&self, words: Vec<Words>, run: &str) -> io::Result<()> {
        let mut state = self.shared.lock();
        if state.ends || state.runs == MOST_RUNS {
            return Err(io::Error::other("notices of other runs are being shown"));
        }
        let shared = Arc::clone(&self.shared);
        let metrics = Arc::clone(&self.metrics);
        let run = run.to_owned();
        let show = move || {
            for words in words {
                let outcome = match shared.run(&words) {
                    Ok(()) => NoticeOutcome::Shown,
                    Err(error) => {
                        let program = words.program.display();
                        tracing::debug!(run, %program, %error, "a notice could not be shown");
                        NoticeOutcome::Failed
                    }
                };
                metrics.notices(outcome, 1);
            }
            shared.lock().runs -= 1;
            shared.changed.notify_all();
        };
        let thread = thread::Builder::new().name("notice".to_owned());
        thread.stack_size(256 * 1024).spawn(show)?;
        state.runs += 1;
        Ok(())
    }

    /// Returns the program that shows a notice; `None` where there is none.
    fn words(
        &self,
        notice: &Notice,
        hook: &str,
        find: impl Fn(&Path) -> Option<PathBuf>,
    ) -> Option<Words> {
        let (title, text) = notice.shown(hook);
        match &self.means {
            Means::Command(command) => {
                let (program, arguments) = command.split_first()?;
                let arguments = arguments.iter().chain([&title, &text]);
                Some(Words {
                    arguments: arguments.map(OsString::from).collect(),
                    bus: None,
                    program: program.into(),
                })
            }
            Means::Desktop {
                address,
                path,
                runtime,
            } => {
                let usual = || Some(runtime.as_ref()?.join("bus")).filter(|bus| bus.exists());
                let address_of = |bus: PathBuf| {
                    let mut address = OsString::from("unix:path=");
                    address.push(bus);
                    address
                };
                let bus = address.clone().or_else(|| usual().map(address_of))?;
                let mut arguments = vec![
                    format!("--app-name={hook}"),
                    format!("--urgency={}", notice.urgency.name()),
                ];
                if notice.sound {
                    arguments.push("--hint=string:sound-name:message".to_owned());
                }
                arguments.extend(["--".to_owned(), title, without_markup(&text)]);
                Some(Words {
                    arguments: arguments.into_iter().map(OsString::from).collect(),
                    bus: Some(bus),
                    program: path.iter().find_map(|directory| find(directory))?,
                })
            }
            Means::Off => None,
        }
    }
}

impl Drop for Notifier {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        // Once for programs that end in time, once for those that are killed.
        for _ in 0..2 {
            let busy = |state: &mut State| state.runs > 0;
            let waited = self.shared.changed.wait_timeout_while(state, LAST, busy);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            state.ends = true;
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs the program to its end, at most for its time.
    #[expect(
        clippy::disallowed_methods,
        reason = "the operator's program, which is no hook"
    )]
    fn run(&self, words: &Words) -> io::Result<()> {
        if self.lock().ends {
            return Err(io::Error::other("the daemon ends"));
        }
        let mut command = Command::new(&words.program);
        command.args(&words.arguments).current_dir("/");
        command.stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.envs(words.bus.iter().map(|bus| (BUS, bus)));
        // In a group of its own: processes that the program leaves are reaped as orphans, and killed with it.
        let mut child = command.process_group(0).spawn()?;
        let until = Instant::now() + TIMEOUT;
        loop {
            match child.try_wait()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(io::Error::other(status.to_string())),
                None if Instant::now() < until && !self.lock().ends => {
                    thread::sleep(POLL_INTERVAL);
                }
                None => {
                    kill(&mut child)?;
                    return Err(io::ErrorKind::TimedOut.into());
                }
            }
        }
    }
}

/// Kills a child that runs, with its process group.
fn kill(child: &mut Child) -> io::Result<()> {
    let group = i32::try_from(child.id()).map_err(io::Error::other)?;
    killpg(Pid::from_raw(group), Signal::SIGKILL)?;
    child.wait().map(drop)
}

/// Returns the name of a hook; without one that of its script, its lifecycle point or its program.
fn hook_name(run: &Run) -> String {
    let request = &run.request;
    let file = |path: &Path| {
        let name = path.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    };
    let script = run.program.scripts.first();
    let names = [
        request.hook.name.clone(),
        script.map_or_else(String::new, |script| file(&script.path)),
        request.event.point.clone(),
        file(&run.program.path),
    ];
    let mut names = names.iter().filter(|name| !name.is_empty());
    shown_name(names.next().map_or("", String::as_str))
}

/// Returns the program of a directory that shows notices. Root alone can change it, as the program is started without confinement.
fn program_of_root(directory: &Path) -> Option<PathBuf> {
    roots_alone(&program_in(directory)?)
}

fn program_in(directory: &Path) -> Option<PathBuf> {
    let program = directory.join(NOTIFY_SEND);
    let can = program.is_file() && access(&program, AccessFlags::X_OK).is_ok();
    can.then_some(program)
}

/// Returns a text that a desktop shows as it is: links and pictures in it would be a hook's.
fn without_markup(text: &str) -> String {
    let text = text.replace('&', "&amp;");
    text.replace('<', "&lt;").replace('>', "&gt;")
}

/// Notices by session.
#[derive(Debug, Default)]
struct Rate {
    /// When each session has all its notices again.
    full: HashMap<(u32, String), Instant>,
}

impl Rate {
    /// Takes one of the notices that a session has; returns whether there was one.
    fn take(&mut self, session: &(u32, String), now: Instant) -> bool {
        if !self.full.contains_key(session) {
            self.full.retain(|_, full| *full > now);
            if self.full.len() == MOST_SESSIONS {
                return false;
            }
        }
        let full = self.full.entry(session.clone()).or_insert(now);
        let taken = (*full).max(now);
        let has = taken.duration_since(now) <= ONE_MORE * (AT_ONCE - 1);
        if has {
            *full = taken + ONE_MORE;
        }
        has
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(uid: u32, name: &str) -> (u32, String) {
        (uid, name.to_owned())
    }

    #[test]
    fn a_session_has_some_notices_at_once_and_twenty_a_minute() {
        let mut rate = Rate::default();
        let now = Instant::now();
        let one = session(1, "a");
        let mut taken = |seconds: u64, session: &(u32, String)| {
            let now = now + Duration::from_secs(seconds);
            (0..100).filter(|_| rate.take(session, now)).count()
        };
        assert_eq!(taken(0, &one), 8);
        assert_eq!(taken(2, &one), 0);
        assert_eq!(taken(3, &one), 1);
        // Others have theirs.
        assert_eq!(taken(3, &session(1, "b")), 8);
        assert_eq!(taken(3, &session(2, "a")), 8);
        let minute: usize = (0..20).map(|third| taken(100 + 3 * third, &one)).sum();
        assert_eq!(minute, 8 + 19);
    }

    #[test]
    fn sessions_without_end_take_no_memory_without_end() {
        let mut rate = Rate::default();
        let now = Instant::now();
        let sessions = (0..2 * MOST_SESSIONS).map(|number| session(1, &number.to_string()));
        let sessions: Vec<_> = sessions.collect();
        let taken = sessions.iter().filter(|it| rate.take(it, now)).count();
        assert_eq!((taken, rate.full.len()), (MOST_SESSIONS, MOST_SESSIONS));
        let later = now + ONE_MORE;
        assert!(rate.take(&session(2, "later"), later));
        assert_eq!(rate.full.len(), 1);
    }

    #[test]
    fn a_program_that_others_can_change_shows_no_notice() {
        use std::{fs, os::unix::fs::PermissionsExt};

        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join(NOTIFY_SEND);
        fs::write(&program, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        // In a directory above it others may write.
        assert!(program_in(directory.path()).is_some());
        assert_eq!(program_of_root(directory.path()), None);
        // The control: programs that root alone can change are found by the same rule.
        assert!(roots_alone(Path::new("/bin/sh")).is_some());
    }

    #[test]
    fn a_desktop_shows_no_markup_of_a_hooks() {
        let notice = Notice {
            sound: true,
            text: "<a href=\"x\">y</a> & z".to_owned(),
            title: "<b>".to_owned(),
            ..Notice::default()
        };
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join(NOTIFY_SEND);
        std::fs::write(&program, "").unwrap();
        let set = |mode| {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
            std::fs::set_permissions(&program, mode).unwrap();
        };
        let words = |address: Option<&str>, runtime: Option<&Path>| {
            let means = Means::Desktop {
                address: address.map(Into::into),
                path: vec!["/nowhere".into(), directory.path().into()],
                runtime: runtime.map(Into::into),
            };
            let notifier = Notifier::new(means, Arc::new(Metrics::new().unwrap()));
            notifier.words(&notice, "a hook", program_in)
        };
        set(0o755);
        let found = words(Some("unix:path=/bus"), None).unwrap();
        assert_eq!(
            (&found.program, found.bus),
            (&program, Some("unix:path=/bus".into()))
        );
        let expected = [
            "--app-name=a hook",
            "--urgency=normal",
            "--hint=string:sound-name:message",
            "--",
            "a hook: <b>",
            "&lt;a href=\"x\"&gt;y&lt;/a&gt; &amp; z",
        ];
        assert_eq!(found.arguments, expected.map(OsString::from));
        // Without a bus or a program there is nothing.
        assert!(words(None, None).is_none());
        assert!(words(None, Some(directory.path())).is_none());
        std::fs::write(directory.path().join("bus"), "").unwrap();
        assert!(words(None, Some(directory.path())).is_some());
        set(0o644);
        assert!(words(Some("x"), None).is_none());
    }
}
