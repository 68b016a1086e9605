//! Starts a user's daemon for the first client that needs it.

use std::{
    env, fs,
    io::{Read, Seek, SeekFrom},
    os::unix::{fs::OpenOptionsExt, net::UnixStream},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use nix::fcntl::{Flock, FlockArg};

use hookjail_sys::hold_no_signals;

use crate::{Context, Failure, thin};

/// The default timeout of a daemon's start.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// The interval of polling for the daemon's socket.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// The shown length of a failed daemon's log, bytes from its end.
const LOG_TAIL_BYTES: u64 = 2048;

/// Variables that a started daemon keeps, besides `LC_*` and `XDG_*`.
///
/// Its client is a runtime, whose environment may hold keys, and variables of a project's settings: an address of a bus can
/// name a program. `HOOKJAIL_*`, such as `HOOKJAIL_ACCEPT_HOOKS`, count only for daemons that are started explicitly.
const KEPT_VARIABLES: [&str; 7] = ["HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TMPDIR", "USER"];

/// Returns the socket of a running daemon, or starts one, which outlives this process.
///
/// # Errors
///
/// Fails where none listens at a named socket, none can be started, or it does not listen in time.
#[expect(
    clippy::disallowed_methods,
    reason = "the daemon, of which nothing of a request's is part"
)]
pub fn daemon(context: &Context, left: Option<Duration>) -> Result<PathBuf, Failure> {
    let sockets = context.paths.own_sockets();
    let listening = || {
        sockets
            .iter()
            .find(|socket| UnixStream::connect(socket).is_ok())
    };
    if let Some(socket) = listening() {
        return Ok(socket.clone());
    }
    if context.paths.address.is_some() {
        return Err(Failure::new("no daemon listens at `HOOKJAIL_ADDR`"));
    }
    let Some(state) = context.paths.users_state() else {
        let message = "no daemon is set up here, and only a user's own daemon is started on demand";
        return Err(Failure::new(message));
    };
    let give_up = Instant::now() + left.map_or(START_TIMEOUT, |left| left.min(START_TIMEOUT));
    fs::DirBuilder::new().recursive(true).create(&state)?;
    // Of several concurrent clients, only one starts the daemon.
    let lock = open(&state.join("start.lock"))?;
    let _lock = lock_until(lock, give_up)?;
    if let Some(socket) = listening() {
        return Ok(socket.clone());
    }
    let path = state.join("daemon.log");
    let mut log = open(&path)?;
    log.set_len(0)?;
    let program = thin::whole()?;
    let mut command = Command::new(&program);
    if let Some(config) = &context.config {
        command.arg("--config").arg(config);
    }
    command
        .args(["serve", "--on-demand"])
        .current_dir("/")
        .env_clear()
        .envs(env::vars_os().filter(|(name, _)| {
            let name = name.to_string_lossy();
            let is_kept = |prefix: &&str| name.starts_with(*prefix);
            KEPT_VARIABLES.contains(&&*name) || ["LC_", "XDG_"].iter().any(is_kept)
        }))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log.try_clone()?);
    hold_no_signals();
    let mut child = command
        .spawn()
        .map_err(|error| Failure::new(format!("cannot start `{}`: {error}", program.display())))?;
    loop {
        if let Some(socket) = listening() {
            return Ok(socket.clone());
        }
        let ended = child.try_wait()?;
        if ended.is_some() || Instant::now() > give_up {
            let state = match ended {
                Some(status) => format!("ended ({status})"),
                None => "does not listen yet".to_owned(),
            };
            let words = last_words(&mut log)?;
            return Err(Failure::new(format!(
                "the started daemon {state}; see the end of its log `{}`: {words}",
                path.display()
            )));
        }
        thread::sleep(POLL_INTERVAL);
    }
}

fn open(path: &Path) -> std::io::Result<fs::File> {
    fs::File::options()
        .read(true)
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(nix::libc::O_NOFOLLOW)
        .open(path)
}

fn lock_until(mut file: fs::File, give_up: Instant) -> Result<Flock<fs::File>, Failure> {
    loop {
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => return Ok(lock),
            Err((_, error)) if Instant::now() > give_up => {
                return Err(Failure::new(format!(
                    "timed out waiting for another process that starts the daemon: {error}"
                )));
            }
            Err((unlocked, _)) => file = unlocked,
        }
        thread::sleep(POLL_INTERVAL);
    }
}

fn last_words(log: &mut fs::File) -> Result<String, Failure> {
    let length = log.metadata()?.len();
    log.seek(SeekFrom::Start(length.saturating_sub(LOG_TAIL_BYTES)))?;
    let mut words = Vec::new();
    log.read_to_end(&mut words)?;
    let words = String::from_utf8_lossy(&words);
    Ok(words.trim().to_owned())
}
