//! Parts of a test's case: a real daemon in a directory of its own, requests, witnesses.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start the daemon itself, never a hook"
)]

use std::{
    collections::BTreeSet,
    env,
    ffi::OsStr,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use hookjail::pb::{self, hook_service_client::HookServiceClient};
use hyper_util::rt::TokioIo;
use tempfile::TempDir;
use tokio::net::UnixStream;
use tonic::{
    Code, Status,
    transport::{Channel, Endpoint},
};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use tower::service_fn;

/// A running daemon with its own state, socket and workspace root. Killed when dropped.
#[derive(Debug)]
pub(crate) struct Daemon {
    channel: Channel,
    child: Child,
    directory: TempDir,
}

/// A file in its place that cannot be opened.
#[derive(Debug)]
pub(crate) struct Closed {
    mode: fs::Permissions,
    path: PathBuf,
}

impl Closed {
    /// Gives the file its mode back.
    pub(crate) fn open(self) {
        fs::set_permissions(self.path, self.mode).unwrap();
    }
}

/// The set-up of a daemon.
#[derive(Clone, Debug, Default)]
pub(crate) struct Setup {
    /// Lines added to the configuration.
    pub(crate) config: String,
    /// Files with profiles: name and text.
    pub(crate) profiles: Vec<(String, String)>,
    /// Shipped profiles that requests name, beside `strict`, `pipeline`, `workspace-ro`, `workspace-rw` and those that `config`
    /// names. The daemon proves each profile, so it has no others; with [`SHIPPED`] it has all, and those
    /// that are added later.
    pub(crate) shipped: &'static [&'static str],
    /// Do not accept hooks that no user allowed.
    pub(crate) ask_for_consent: bool,
    /// Options of `serve`.
    pub(crate) options: Vec<String>,
    /// A program that starts the daemon: its words come before the daemon's own.
    pub(crate) wrapper: Vec<String>,
    /// Environment of the daemon.
    pub(crate) env: Vec<(String, String)>,
    /// Whether the test begins while profiles may still be tested.
    pub(crate) is_early: bool,
    /// The directory of another daemon, whose state and workspaces it has too.
    pub(crate) beside: Option<PathBuf>,
}

impl Setup {
    /// Returns the line of the configuration that allows these profiles of its own and the shipped ones of the set-up.
    fn allow(&self) -> String {
        if self.shipped.len() == SHIPPED.len() {
            return String::new();
        }
        // A part belongs to other profiles and is none itself.
        let profiles = self
            .profiles
            .iter()
            .filter(|(_, text)| !text.contains("part = true"));
        let named = |name: &&str| self.config.contains(&format!("{name:?}"));
        let everyday = ["strict", "pipeline", "workspace-ro", "workspace-rw"];
        let allowed: BTreeSet<&str> = everyday
            .into_iter()
            .chain(self.shipped.iter().copied())
            .chain(SHIPPED.into_iter().filter(named))
            .chain(profiles.map(|(name, _)| &**name))
            .collect();
        format!("allow = {:?}\n", Vec::from_iter(allowed))
    }
}

impl Daemon {
    /// Closes the file that every confined child must be able to open, so that no self-test succeeds. The file stays in
    /// its place: a daemon whose files are gone ends.
    pub(crate) fn close_canary(&self) -> Closed {
        let entries = |path: PathBuf| fs::read_dir(path).into_iter().flatten();
        let instances = entries(self.path().join("run"));
        let files = instances.flat_map(|instance| entries(instance.unwrap().path()));
        let path = files
            .map(|entry| entry.unwrap().path())
            .find(|path| path.to_string_lossy().contains("granted"))
            .unwrap();
        let mode = fs::metadata(&path).unwrap().permissions();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
        Closed { mode, path }
    }

    /// Starts a daemon that accepts every hook.
    pub(crate) async fn start() -> Self {
        Self::with(Setup::default()).await
    }

    /// Starts a daemon that accepts every hook under these shipped profiles, too.
    pub(crate) async fn offering(shipped: &'static [&'static str]) -> Self {
        Self::with(Setup {
            shipped,
            ..Setup::default()
        })
        .await
    }

    /// Starts a daemon with a set-up of its own.
    pub(crate) async fn with(setup: Setup) -> Self {
        Self::try_with(setup).await.expect("the daemon starts")
    }

    /// Starts a daemon; the error is what it wrote to stderr.
    pub(crate) async fn try_with(setup: Setup) -> Result<Self, String> {
        Self::in_directory(directory(), setup).await
    }

    /// Starts a daemon with the state of an earlier one.
    pub(crate) async fn in_directory(directory: TempDir, setup: Setup) -> Result<Self, String> {
        let root = directory.path().to_owned();
        let path = |name: &str| root.join(name).display().to_string();
        let profiles = root.join("profiles");
        fs::create_dir_all(&profiles).unwrap();
        fs::set_permissions(&profiles, fs::Permissions::from_mode(0o755)).unwrap();
        for (name, text) in &setup.profiles {
            fs::write(profiles.join(format!("{name}.toml")), text).unwrap();
        }
        let allow = setup.allow();
        fs::create_dir_all(root.join("workspace")).unwrap();
        fs::set_permissions(root.join("workspace"), fs::Permissions::from_mode(0o777)).unwrap();
        let on_runtime = on_runtime().filter(|_| !setup.config.contains("[backends"));
        let others = setup.beside.as_deref().unwrap_or(&root);
        let config = format!(
            "{}\n{}\n[paths]\nstate = {:?}\nruntime = {:?}\n[profiles]\ndirs = [{:?}]\n{allow}",
            setup.config,
            on_runtime.unwrap_or_default(),
            others.join("state"),
            path("run"),
            path("profiles"),
        );
        let config = with_key(&config, "server", &format!("socket = {:?}", path("sock")));
        let config = with_key(
            &config,
            "hooks",
            &format!("workspace_roots = [{:?}]", others.join("workspace")),
        );
        fs::write(root.join("hookjail.toml"), config).unwrap();
        fs::set_permissions(
            root.join("hookjail.toml"),
            fs::Permissions::from_mode(0o600),
        )
        .unwrap();

        let mut words = setup.wrapper.clone();
        words.extend([program().display().to_string(), "serve".to_owned()]);
        words.extend(["--config".to_owned(), path("hookjail.toml")]);
        words.extend(setup.options.iter().cloned());
        let log = fs::File::create(root.join("log")).unwrap();
        let mut command = command(&words[0]);
        command
            .args(&words[1..])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        command.env(
            "HOOKJAIL_ACCEPT_HOOKS",
            if setup.ask_for_consent { "0" } else { "1" },
        );
        command.env("HOME", &root).env("NO_COLOR", "1");
        command.envs(setup.env.iter().map(|(name, value)| (name, value)));
        let mut child = command.spawn().unwrap();
        match connect(&root.join("sock"), &mut child).await {
            Some(channel) => {
                let daemon = Self {
                    channel,
                    child,
                    directory,
                };
                if !setup.is_early {
                    daemon.tested().await;
                }
                Ok(daemon)
            }
            None => {
                child.kill().ok();
                child.wait().unwrap();
                Err(fs::read_to_string(root.join("log")).unwrap())
            }
        }
    }

    /// Waits until each profile is tested, for some seconds: a log that goes elsewhere does not report it.
    async fn tested(&self) {
        let give_up = Instant::now() + Duration::from_secs(5);
        while !self.log().contains("self-tests are over") && Instant::now() < give_up {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Runs one hook.
    pub(crate) async fn run(
        &self,
        request: pb::ExecuteRequest,
    ) -> Result<pb::ExecuteResponse, Status> {
        let answer = self.client().execute(request).await;
        answer.map(tonic::Response::into_inner)
    }

    /// Starts a daemon with these hooks, in this order.
    pub(crate) async fn with_hooks(hooks: &str) -> Self {
        Self::with(Setup {
            config: hooks.to_owned(),
            ..Setup::default()
        })
        .await
    }

    /// Runs all hooks due at a point, in this daemon's workspace.
    pub(crate) async fn dispatch(&self, request: pb::DispatchRequest) -> pb::DispatchResponse {
        let request = pb::DispatchRequest {
            workspace: self.workspace().display().to_string(),
            ..request
        };
        let response = self.client().dispatch(request).await;
        response.unwrap().into_inner()
    }

    /// Returns a client of this daemon.
    pub(crate) fn client(&self) -> HookServiceClient<Channel> {
        HookServiceClient::new(self.channel.clone()).max_decoding_message_size(64 * 1024 * 1024)
    }

    /// Returns a client with a connection of its own, which takes little of an answer before it is read.
    pub(crate) async fn client_that_takes_little(&self) -> HookServiceClient<Channel> {
        let endpoint =
            Endpoint::from_static("http://localhost").initial_stream_window_size(16 * 1024);
        let channel = connect_to(&self.path().join("sock"), endpoint).await;
        HookServiceClient::new(channel.unwrap())
    }

    /// Returns the channel to this daemon.
    pub(crate) fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// Returns the daemon's process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the daemon's own process, to signal it or wait for it.
    pub(crate) fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Ends the daemon at once and returns its directory, for the next one.
    pub(crate) fn kill(mut self) -> TempDir {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        std::mem::replace(&mut self.directory, tempfile::tempdir().unwrap())
    }

    /// Returns the directory that holds everything of this daemon.
    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Returns the directory below which workspaces may lie.
    pub(crate) fn workspace(&self) -> PathBuf {
        self.directory
            .path()
            .join("workspace")
            .canonicalize()
            .unwrap()
    }

    /// Returns a path that no profile grants, in a directory that any user can write.
    pub(crate) fn outside(&self, name: &str) -> PathBuf {
        let outside = self.directory.path().join("outside");
        fs::create_dir_all(&outside).unwrap();
        fs::set_permissions(&outside, fs::Permissions::from_mode(0o777)).unwrap();
        outside.canonicalize().unwrap().join(name)
    }

    /// Returns the journal's records.
    pub(crate) fn journal(&self) -> Vec<serde_json::Value> {
        journal(self.path())
    }

    /// Returns the kind of each record of the journal.
    pub(crate) fn records(&self) -> Vec<String> {
        self.journal()
            .iter()
            .map(|record| record["record"].as_str().unwrap().to_owned())
            .collect()
    }

    /// Returns what the daemon logged.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.path().join("log")).unwrap()
    }

    /// Fails where a request named a shipped profile that the set-up left out: a refusal for that reason shows nothing.
    fn assert_offered(&self) {
        let journal = self.path().join("state/audit/journal.jsonl");
        let text = fs::read_to_string(journal).unwrap_or_default();
        let unknown = |name: &&str| text.contains(&format!("there is no profile `{name}`;"));
        let left_out = SHIPPED.into_iter().find(unknown);
        assert_eq!(left_out, None, "name it in `shipped` of the set-up");
    }

    /// Returns the directories of runs that are there now.
    pub(crate) fn scratch_directories(&self) -> Vec<PathBuf> {
        let instances = fs::read_dir(self.path().join("run")).unwrap();
        let entries = |path: PathBuf| {
            fs::read_dir(path)
                .into_iter()
                .flatten()
                .map(|entry| entry.unwrap().path())
        };
        let is_run = |path: &PathBuf| {
            path.file_name()
                .unwrap()
                .to_string_lossy()
                .starts_with("run-")
        };
        instances
            .flat_map(|instance| entries(instance.unwrap().path()))
            .filter(is_run)
            .collect()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
        if !thread::panicking() {
            self.assert_offered();
        }
    }
}

/// Returns a command that finds neither a daemon nor settings of the user who runs the tests.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in env::vars_os() {
        let name = name.to_string_lossy();
        if ["HOOKJAIL_", "XDG_"].iter().any(|it| name.starts_with(it)) {
            command.env_remove(&*name);
        }
    }
    // Without it the user's own is `/run/user/UID`.
    command.env("XDG_RUNTIME_DIR", "/nonexistent");
    command
}

/// Returns the program that is tested. `HOOKJAIL_TEST_PROGRAM` names it where the tests run on another machine than the one
/// they were built on.
pub(crate) fn program() -> PathBuf {
    let named = env::var_os("HOOKJAIL_TEST_PROGRAM");
    named.map_or_else(|| env!("CARGO_BIN_EXE_hookjail").into(), PathBuf::from)
}

/// Returns the program that only stands in for hooks, which lies beside the other.
pub(crate) fn thin() -> PathBuf {
    program().with_file_name("hookjail-run")
}

/// Returns lines of a configuration for the container backend, where `HOOKJAIL_TEST_RUNTIME` names an OCI runtime: then the
/// tests' daemons confine by it, but for those whose backends a test chooses.
fn on_runtime() -> Option<String> {
    let runtime = env::var("HOOKJAIL_TEST_RUNTIME").ok()?;
    Some(in_containers(Path::new(&runtime)))
}

/// Returns lines of a configuration for the container backend.
pub(crate) fn in_containers(runtime: &Path) -> String {
    format!("[backends]\norder = [\"container\"]\n[container]\nruntime = {runtime:?}\n")
}

/// Whether the tests' daemons confine by containers.
pub(crate) fn contained() -> bool {
    on_runtime().is_some()
}

/// Fails where containers are to be tested, in which the test has nothing to see. The test is left out by name there.
pub(crate) fn needs_no_container() {
    assert!(
        !contained(),
        "leave this test out where hooks run in containers"
    );
}

/// The words before a daemon of root that may not mount.
pub(crate) fn without_sys_admin() -> Vec<String> {
    without("-sys_admin")
}

/// The words before a daemon of root without a capability, which is named behind a minus.
pub(crate) fn without(capability: &str) -> Vec<String> {
    let words = [
        "setpriv",
        "--bounding-set",
        capability,
        "--inh-caps",
        capability,
    ];
    words.map(str::to_owned).into()
}

/// Fails where a test that only root can run is run by another. Such tests are ignored unless asked for, and a test that is
/// asked for never passes without having run.
#[track_caller]
pub(crate) fn needs_root() {
    assert!(nix::unistd::geteuid().is_root(), "this test needs root");
}

/// Reads the journal of a daemon that had this directory.
pub(crate) fn journal(directory: &Path) -> Vec<serde_json::Value> {
    let text = fs::read_to_string(directory.join("state/audit/journal.jsonl")).unwrap_or_default();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Makes a directory that hooks with a uid of their own can pass through.
pub(crate) fn directory() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    directory
}

/// Makes a directory that no view of a run covers, as homes and workspaces usually lie; `None` where this user can make none.
pub(crate) fn unshared_directory() -> Option<TempDir> {
    let home = std::env::var_os("HOME").filter(|_| !nix::unistd::geteuid().is_root());
    let places = home
        .into_iter()
        .map(PathBuf::from)
        .chain(["/var/lib", "/opt"].map(Into::into));
    let mut made = places
        .filter(|place| !is_shared(place))
        .filter_map(|place| tempfile::tempdir_in(place).ok());
    let directory = made.next()?;
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    Some(directory)
}

/// Returns whether a path lies in a directory that a view of a run covers.
pub(crate) fn is_shared(path: &Path) -> bool {
    ["/dev/shm", "/tmp", "/var/tmp"]
        .iter()
        .any(|shared| path.starts_with(shared))
}

/// The compiled-in profiles that every daemon serves.
pub(crate) const SHIPPED: [&str; 9] = [
    "develop",
    "develop-online",
    "develop-open-git",
    "network",
    "pipeline",
    "strict",
    "workspace-ro",
    "workspace-rw",
    "worktree",
];

/// Returns a request for a command: contract `observe`, profile `strict`, no event.
pub(crate) fn hook<const N: usize>(argv: [&str; N]) -> pb::ExecuteRequest {
    let argv = argv.iter().map(|&word| word.to_owned()).collect();
    pb::ExecuteRequest {
        hook: Some(pb::Hook {
            argv,
            ..pb::Hook::default()
        }),
        ..pb::ExecuteRequest::default()
    }
}

/// Returns a request for a line of `sh` under a profile.
pub(crate) fn sh(profile: &str, script: &str) -> pb::ExecuteRequest {
    pb::ExecuteRequest {
        profile: profile.to_owned(),
        ..hook(["/bin/sh", "-c", script])
    }
}

/// Returns a lifecycle point that has come.
pub(crate) fn dispatch_at(point: &str, event: &serde_json::Value) -> pb::DispatchRequest {
    pb::DispatchRequest {
        event: Some(pb::Event {
            json: event.to_string().into(),
            point: point.to_owned(),
            raw: false,
        }),
        ..pb::DispatchRequest::default()
    }
}

/// Returns a hook of one request: a command line.
pub(crate) fn inline(name: &str, script: &str) -> pb::InlineHook {
    pb::InlineHook {
        hook: Some(pb::Hook {
            name: name.to_owned(),
            shell: Some(pb::Shell {
                script: script.to_owned(),
                shell: String::new(),
            }),
            ..pb::Hook::default()
        }),
        ..pb::InlineHook::default()
    }
}

/// Returns the names of the hooks that a dispatch reached.
pub(crate) fn reached(response: &pb::DispatchResponse) -> Vec<&str> {
    let hooks = response.hooks.iter();
    hooks.map(|hook| hook.name.as_str()).collect()
}

/// Returns the stable reason of a refusal.
pub(crate) fn reason(status: &Status) -> String {
    use tonic_types::StatusExt;
    status
        .get_error_details()
        .error_info()
        .map(|info| info.reason.clone())
        .unwrap_or_default()
}

/// Returns the field that a refusal blames.
pub(crate) fn field(status: &Status) -> String {
    use tonic_types::StatusExt;
    let details = status.get_error_details();
    let violations = details
        .bad_request()
        .map(|bad| bad.field_violations.clone())
        .unwrap_or_default();
    violations
        .first()
        .map(|violation| violation.field.clone())
        .unwrap_or_default()
}

/// Puts a key into a table, which is made if the text has none.
fn with_key(config: &str, table: &str, line: &str) -> String {
    let header = format!("[{table}]");
    if config.contains(&header) {
        config.replace(&header, &format!("{header}\n{line}"))
    } else {
        format!("{config}\n{header}\n{line}\n")
    }
}

/// Returns what a channel over a Unix socket is made of.
pub(crate) fn endpoint() -> Endpoint {
    Endpoint::from_static("http://localhost")
}

/// Connects to a socket.
pub(crate) async fn dial(socket: PathBuf) -> std::io::Result<TokioIo<UnixStream>> {
    UnixStream::connect(socket).await.map(TokioIo::new)
}

async fn connect_to(socket: &Path, endpoint: Endpoint) -> Result<Channel, tonic::transport::Error> {
    let path = socket.to_owned();
    let connect = service_fn(move |_| dial(path.clone()));
    endpoint.connect_with_connector(connect).await
}

/// Connects as soon as the daemon answers; `None` once it has ended. Before, it may still set the mode of its socket.
async fn connect(socket: &Path, child: &mut Child) -> Option<Channel> {
    let give_up = Instant::now() + Duration::from_secs(60);
    loop {
        if let Ok(channel) = connect_to(socket, endpoint()).await {
            let mut health = HealthClient::new(channel.clone());
            // Some are refused, which is an answer, too.
            let answered = |code: Code| !matches!(code, Code::Unavailable | Code::Unknown);
            let answer = health.check(HealthCheckRequest::default()).await;
            if answer.map_or_else(|refusal| answered(refusal.code()), |_| true) {
                return Some(channel);
            }
        }
        if child.try_wait().unwrap().is_some() || Instant::now() > give_up {
            return None;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
