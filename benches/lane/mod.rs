//! Shared parts of benchmarks: a daemon of the program that is measured, and clients of it in processes of their own.

use std::{
    env,
    error::Error,
    fs::{self, File},
    io::{BufRead, BufReader, Write},
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::{Duration, Instant},
};

use hyper_util::rt::TokioIo;
use tempfile::TempDir;
use tokio::{net::UnixStream, runtime::Runtime};
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;

pub(crate) mod client;

pub(crate) type Outcome<T> = Result<T, Box<dyn Error>>;

/// The maximum time until a daemon serves.
const SERVING: Duration = Duration::from_secs(30);
/// The maximum time of one call.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A process that is killed when this is dropped.
#[derive(Debug)]
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Makes a directory for a daemon, which every user may pass, with one for profiles.
pub(crate) fn directory() -> Outcome<TempDir> {
    let directory = tempfile::tempdir()?;
    let profiles = directory.path().join("profiles");
    fs::create_dir(&profiles)?;
    for path in [directory.path(), &profiles] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    }
    Ok(directory)
}

/// Returns the configuration of a daemon in a directory.
pub(crate) fn configuration(directory: &Path) -> String {
    let path = |name: &str| directory.join(name);
    format!(
        "[paths]\nstate = {:?}\nruntime = {:?}\n[profiles]\ndirs = [{:?}]\n[server]\nsocket = {:?}\n",
        path("state"),
        path("run"),
        path("profiles"),
        path("sock")
    )
}

/// A daemon's line behind the self-tests of all its profiles.
const PROVED: &str = "self-tests are over";

/// A daemon of its own process. Killed when dropped.
#[derive(Debug)]
pub(crate) struct Daemon {
    process: Killed,
    // Removed when the process has ended.
    directory: TempDir,
}

impl Daemon {
    /// Starts a daemon of a program in a directory, and waits until it serves and has proved its profiles. Every command has consent.
    pub(crate) fn start(program: &Path, directory: TempDir, more: &str) -> Outcome<Self> {
        let path = |name: &str| directory.path().join(name);
        let (config, log, socket) = (path("hookjail.toml"), path("log"), path("sock"));
        fs::write(&config, configuration(directory.path()) + more)?;
        fs::set_permissions(&config, fs::Permissions::from_mode(0o600))?;
        let process = Command::new(program)
            .args(["serve", "--config"])
            .arg(&config)
            .env("HOOKJAIL_ACCEPT_HOOKS", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log)?)
            .spawn()?;
        let mut process = Killed(process);
        let give_up = Instant::now() + SERVING;
        let is_ready =
            || socket.exists() && fs::read_to_string(&log).is_ok_and(|it| it.contains(PROVED));
        while !is_ready() {
            if Instant::now() > give_up || process.0.try_wait()?.is_some() {
                return Err(fs::read_to_string(&log)?.into());
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(Self { process, directory })
    }

    /// Returns its process's id.
    pub(crate) fn id(&self) -> u32 {
        self.process.0.id()
    }

    /// Returns its directory, which it shares with what is measured.
    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Returns where it listens.
    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("sock")
    }
}

/// Connects to a daemon.
pub(crate) fn connect(client: &Runtime, socket: &Path) -> Outcome<Channel> {
    let give_up = Instant::now() + SERVING;
    loop {
        let path: PathBuf = socket.to_owned();
        let connector = service_fn(move |_| {
            let path = path.clone();
            async move { UnixStream::connect(path).await.map(TokioIo::new) }
        });
        let endpoint = Endpoint::from_static("http://localhost");
        match client.block_on(endpoint.connect_with_connector(connector)) {
            Ok(channel) => return Ok(channel),
            Err(error) if Instant::now() > give_up => return Err(error.into()),
            Err(_) => thread::sleep(Duration::from_millis(10)),
        }
    }
}

/// A client in a process of its own, which is this program once more. Killed when dropped.
#[derive(Debug)]
pub(crate) struct Lane {
    answers: Receiver<String>,
    stdin: ChildStdin,
    _process: Killed,
}

impl Lane {
    /// Starts a client of a daemon that runs a command, as another user where one is named, and waits until it is connected.
    pub(crate) fn start(socket: &Path, user: Option<u32>, command: &[&str]) -> Outcome<Self> {
        let mut lane = Command::new(env::current_exe()?);
        lane.args([client::NAME, "--connect"]).arg(socket);
        lane.arg("--").args(command);
        if let Some(user) = user {
            lane.uid(user).gid(user);
        }
        let mut process = lane.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let stdin = process.stdin.take().ok_or("no stdin")?;
        let stdout = process.stdout.take().ok_or("no stdout")?;
        let (send, answers) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        let lane = Self {
            answers,
            stdin,
            _process: Killed(process),
        };
        let ready = lane.answers.recv_timeout(PATIENCE)?;
        (ready == "ready").then_some(lane).ok_or(ready.into())
    }

    /// Has the client begin to do something.
    pub(crate) fn ask(&mut self, what: &str) -> Outcome<()> {
        Ok(writeln!(self.stdin, "{what}")?)
    }

    /// Returns the numbers of the next answer, if it has come.
    pub(crate) fn has_answered(&self) -> Outcome<Option<Vec<u64>>> {
        self.answers.try_recv().ok().map(numbers).transpose()
    }

    /// Waits for the next answer's numbers.
    pub(crate) fn answer(&self) -> Outcome<Vec<u64>> {
        numbers(self.answers.recv_timeout(PATIENCE)?)
    }
}

/// Returns the numbers of a line. A negative one means a failed call.
fn numbers(line: String) -> Outcome<Vec<u64>> {
    let numbers = line.split(' ').map(str::parse).collect::<Result<_, _>>();
    numbers.map_err(|_| format!("a call failed: {line}").into())
}
