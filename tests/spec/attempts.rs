//! Attempts of a hook, each with its effect and how it must be refused; and the ground on which they are made.
//!
//! Every attempt is made twice by the same program as the same user. Without hookjail it must have an effect (the positive
//! control: an attempt that fails everywhere proves nothing). As a hook it must have none. An effect is anything that the
//! test itself can see: text that was printed, files, connections, signals that arrived.

#![expect(
    clippy::disallowed_methods,
    reason = "positive controls run the same program without hookjail"
)]

use std::{
    env, fs,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, UdpSocket},
    os::{
        linux::net::SocketAddrExt,
        unix::{
            fs::{MetadataExt, PermissionsExt, chown},
            net::{SocketAddr, UnixDatagram, UnixListener},
            process::{CommandExt, ExitStatusExt},
        },
    },
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use hookjail::pb;
use libc::{
    EACCES, EAFNOSUPPORT, EINVAL, ENOENT, ENOSPC, ENOSYS, ENOTSUP, EPERM, EPROTONOSUPPORT, EROFS,
    ESRCH, EXDEV,
};
use nix::errno::Errno;
use tempfile::TempDir;

use crate::{
    support::{Daemon, contained, directory, hook},
    witness::{compiled_once, until_clean},
};

/// An attempt that a hook could make.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempt {
    /// Its row in `docs/escape-matrix.md`.
    pub(crate) row: &'static str,
    /// Name and arguments for the probe; `{…}` stands for something of the ground's.
    pub(crate) words: &'static [&'static str],
    /// The proof of the control on this host.
    pub(crate) control: Control,
    /// How it ends in a hook.
    pub(crate) ends: Ends,
}

/// Expected result of the positive control.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Control {
    /// The attempt works on every host.
    Works,
    /// The attempt works where the kernel has the feature.
    WhereTheKernelHasIt,
    /// The attempt works for root, where the tests are root.
    WorksForRoot,
    /// The kernel looks at its arguments, and answers this because they are harmless nonsense.
    Reaches(i32),
    /// The same for root, where the tests are root.
    ReachesForRoot(i32),
    /// The attempt would disturb other processes of the user where the hook has no user of its own.
    UnderAUserOfItsOwn,
    /// Nothing to see without hookjail would prove anything: the kernel of a host may or may not have the call.
    Nothing,
}

impl Control {
    /// Returns whether a host may lack the feature.
    const fn is_optional(self) -> bool {
        !matches!(self, Self::Works)
    }

    /// Returns the reason why hooks with this user prove nothing, if so.
    fn cannot_be_shown(self, user: u32) -> Option<&'static str> {
        match self {
            Self::Nothing => Some("kernels without hookjail refuse it alike"),
            Self::UnderAUserOfItsOwn if !own_user(user) => {
                Some("the attempt would reach other processes of the user")
            }
            Self::WorksForRoot | Self::ReachesForRoot(_) if !nix::unistd::geteuid().is_root() => {
                Some("only root can do it at all")
            }
            Self::Reaches(_)
            | Self::ReachesForRoot(_)
            | Self::UnderAUserOfItsOwn
            | Self::WhereTheKernelHasIt
            | Self::Works
            | Self::WorksForRoot => None,
        }
    }

    const fn wants_root(self) -> bool {
        matches!(self, Self::WorksForRoot | Self::ReachesForRoot(_))
    }
}

/// How an attempt ends in a hook.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ends {
    /// Refused with one of these.
    Refused(&'static [i32]),
    /// The kernel kills the process that tries.
    Killed,
    /// The attempt works, which is documented: no more than that may come of it.
    Open,
}

/// Error numbers of the kernel in a container for things that the container does not have.
const NOT_THERE: [i32; 6] = [EACCES, ENOENT, EPERM, EROFS, ESRCH, EXDEV];

/// Observations of one attempt.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) attempt: Attempt,
    pub(crate) profile: String,
    /// Why the positive control shows nothing here, if it does not.
    pub(crate) unproved: Option<String>,
    /// Differences from the required course.
    pub(crate) faults: Vec<String>,
}

/// Result of an attempt: its errno, or the signal that ended it, and its output.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Result {
    pub(crate) code: Option<i32>,
    pub(crate) kind: pb::OutcomeKind,
    pub(crate) said: String,
    pub(crate) signal: Option<i32>,
}

/// The probe, compiled where every user can execute it.
#[derive(Debug)]
pub(crate) struct Probe {
    directory: TempDir,
}

impl Probe {
    /// Compiles the probe; statically where the C library can be linked so. `HOOKJAIL_TEST_PROBE` names a compiled one where
    /// the tests run on a machine without a compiler.
    pub(crate) fn build() -> Self {
        Self::build_from("attempt.c", &[])
    }

    /// Compiles another program of `tests/probes` in its place.
    pub(crate) fn build_from(source: &str, options: &[&str]) -> Self {
        let directory = directory();
        let path = directory.path().join("attempt");
        match env::var_os("HOOKJAIL_TEST_PROBE").filter(|_| options.is_empty()) {
            Some(compiled) => {
                fs::copy(compiled, &path).unwrap();
            }
            None => compiled_once(format!("{source} {options:?}"), &path, || {
                Self::compile(source, options, &path);
            }),
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        Self { directory }
    }

    fn compile(source: &str, options: &[&str], target: &Path) {
        let source = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/probes")
            .join(source);
        let compile = |flags: &[&str]| {
            let mut command = Command::new("cc");
            command.args(flags).args(options).args(["-O1", "-w", "-o"]);
            command.arg(target).arg(&source);
            command.output().expect("cc is installed")
        };
        let mut compiled = compile(&["-static"]);
        if !compiled.status.success() {
            compiled = compile(&[]);
        }
        assert!(compiled.status.success(), "{compiled:?}");
    }

    /// Returns the path of the program.
    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("attempt")
    }

    /// Returns a request that makes an attempt.
    pub(crate) fn hook(&self, profile: &str, words: &[String]) -> pb::ExecuteRequest {
        let mut request = hook([self.path().to_str().unwrap()]);
        request.profile = profile.to_owned();
        let argv = &mut request.hook.as_mut().unwrap().argv;
        argv.extend_from_slice(words);
        request
    }

    /// Makes an attempt as a hook.
    pub(crate) async fn confined(&self, daemon: &Daemon, profile: &str, words: &[&str]) -> Result {
        let words: Vec<_> = words.iter().map(|&word| word.to_owned()).collect();
        run(daemon, self.hook(profile, &words)).await
    }

    /// Makes an attempt without hookjail.
    pub(crate) fn unconfined(&self, user: u32, words: &[String], working_dir: &Path) -> Result {
        let mut command = Command::new(self.path());
        command.args(words).current_dir(working_dir).env_clear();
        let output = as_user(&mut command, user).output().unwrap();
        Result {
            code: output.status.code(),
            kind: match output.status.signal() {
                None => pb::OutcomeKind::Exited,
                Some(_) => pb::OutcomeKind::Signaled,
            },
            said: String::from_utf8_lossy(&output.stdout).into_owned(),
            signal: output.status.signal(),
        }
    }

    /// Returns the user that hooks of this daemon run as, one after the other.
    pub(crate) async fn user(&self, daemon: &Daemon) -> u32 {
        let own_uid = nix::unistd::geteuid();
        if contained() && !own_uid.is_root() {
            // In its container it goes by the name of root.
            return own_uid.as_raw();
        }
        let state = self.confined(daemon, "strict", &["state"]).await;
        until_clean(daemon).await;
        let uids = state.said.lines().next().unwrap();
        uids.rsplit(' ').next().unwrap().parse().unwrap()
    }

    /// Makes each attempt without hookjail and then as a hook under a profile.
    pub(crate) async fn both_sides(
        &self,
        daemon: &Daemon,
        profile: &str,
        attempts: impl IntoIterator<Item = &Attempt>,
    ) -> Vec<Seen> {
        let user = self.user(daemon).await;
        let mut all = Vec::new();
        for attempt in attempts {
            let (mut faults, unproved) = match self.control(daemon, user, attempt) {
                Side::Effect => (Vec::new(), None),
                Side::Fault(fault) => (vec![fault], None),
                Side::Unproved(why) => (Vec::new(), Some(why)),
            };
            faults.extend(self.failure(daemon, user, profile, attempt).await);
            all.push(Seen {
                attempt: *attempt,
                faults,
                profile: profile.to_owned(),
                unproved,
            });
        }
        all
    }

    /// Makes each attempt as a hook under a profile; returns the faults. For attempts whose controls are elsewhere.
    pub(crate) async fn failures_of_hooks(
        &self,
        daemon: &Daemon,
        profile: &str,
        attempts: impl IntoIterator<Item = &Attempt>,
    ) -> Vec<String> {
        let user = self.user(daemon).await;
        let mut failures = Vec::new();
        for attempt in attempts {
            failures.extend(self.failure(daemon, user, profile, attempt).await);
        }
        failures
    }

    /// Makes an attempt without hookjail.
    pub(crate) fn control(&self, daemon: &Daemon, user: u32, attempt: &Attempt) -> Side {
        if let Some(why) = attempt.control.cannot_be_shown(user) {
            return Side::Unproved(why.to_owned());
        }
        let user = if attempt.control.wants_root() {
            0
        } else {
            user
        };
        let mut ground = Ground::lay(daemon, self, user);
        let before = ground.look();
        let words = ground.words(attempt.words);
        let control = self.unconfined(user, &words, &ground.working_dir());
        let name = words.join(" ");
        if let Control::Reaches(errno) | Control::ReachesForRoot(errno) = attempt.control
            && control.code == Some(errno)
        {
            return Side::Effect;
        }
        let absent = [
            ENOSYS,
            EPROTONOSUPPORT,
            EAFNOSUPPORT,
            EPERM,
            EACCES,
            ENOENT,
            // No more user namespaces may be made.
            ENOSPC,
            ENOTSUP,
            EINVAL,
        ];
        if attempt.control.is_optional()
            && (control.signal.is_some() || absent.map(Some).contains(&control.code))
        {
            let code = control.code.map_or(Errno::UnknownErrno, Errno::from_raw);
            return Side::Unproved(format!("this host does not have it: {code:?}"));
        }
        let effect = ground.look() != before || !control.said.is_empty();
        if control.code == Some(0) && effect {
            Side::Effect
        } else {
            Side::Fault(format!(
                "{name}, without hookjail: effect {effect}, {control:?}"
            ))
        }
    }

    /// Makes an attempt as a hook; returns the fault if the attempt did not end as it must or had an effect. In a container the
    /// kernel has other errors for things that are not there, and less is open.
    async fn failure(
        &self,
        daemon: &Daemon,
        user: u32,
        profile: &str,
        attempt: &Attempt,
    ) -> Option<String> {
        let mut tries = 0;
        let (mut ground, before, name, confined) = loop {
            // The uid of a hook before this one is free a moment later.
            until_clean(daemon).await;
            let mut ground = Ground::lay(daemon, self, user);
            let before = ground.look();
            let words = ground.words(attempt.words);
            let name = words.join(" ");
            let mut request = self.hook(profile, &words);
            request.hook.as_mut().unwrap().workspace = ground.workspace.display().to_string();
            let response = match daemon.run(request).await {
                Ok(response) => response,
                Err(status) => {
                    return Some(format!("{name}, under `{profile}`: {}", status.message()));
                }
            };
            tries += 1;
            if ran_as(&response) == Some(user) || tries == 5 {
                break (ground, before, name, result(response));
            }
        };
        let after = ground.look();
        attempt
            .fault(&confined, (&before, &after))
            .map(|fault| format!("{name}, under `{profile}`: {fault}"))
    }
}

impl Attempt {
    /// Returns the fault in the end of the attempt in a hook, and in the state before and after.
    pub(crate) fn fault<T: PartialEq + std::fmt::Debug>(
        &self,
        confined: &Result,
        (before, after): (&T, &T),
    ) -> Option<String> {
        let exited = confined.kind == pb::OutcomeKind::Exited;
        let as_it_must = match self.ends {
            Ends::Refused(errnos) => {
                exited
                    && confined.said.is_empty()
                    && confined.code.is_some_and(|code| {
                        errnos.contains(&code) || contained() && NOT_THERE.contains(&code)
                    })
            }
            Ends::Killed => {
                confined.said.is_empty()
                    && (confined.kind, confined.signal)
                        == (pb::OutcomeKind::EscapeAttempt, Some(libc::SIGSYS))
            }
            Ends::Open if contained() => exited,
            Ends::Open => exited && confined.code == Some(0) && !confined.said.is_empty(),
        };
        (!as_it_must || after != before)
            .then(|| format!("{confined:?}\n before {before:?}\n after  {after:?}"))
    }
}

/// Result of a positive control.
pub(crate) enum Side {
    /// The control had its effect, or reached the kernel.
    Effect,
    /// The control had no effect, though this host has the feature that it tries.
    Fault(String),
    /// The control proves nothing on this host, for this reason.
    Unproved(String),
}

/// Returns a file by which processes are put into a control group, whichever version the host has.
fn cgroup() -> &'static str {
    let paths = [
        "/sys/fs/cgroup/cgroup.procs",
        "/sys/fs/cgroup/unified/cgroup.procs",
        "/sys/fs/cgroup/pids/cgroup.procs",
    ];
    let existing = paths.into_iter().find(|path| Path::new(path).exists());
    existing.unwrap_or(paths[0])
}

/// Returns whether hooks have a user of their own.
fn own_user(user: u32) -> bool {
    user != nix::unistd::geteuid().as_raw()
}

/// Has a command run as a user, without groups or capabilities.
/// Has a command run as a user, where that is another.
pub(crate) fn as_user(command: &mut Command, user: u32) -> &mut Command {
    if own_user(user) {
        command.uid(user).gid(user);
    }
    command
}

/// Gives a file to a user.
pub(crate) fn give(path: &Path, user: u32) {
    if own_user(user) {
        chown(path, Some(user), Some(user)).unwrap();
    }
}

/// Runs a hook to its end.
pub(crate) async fn run(daemon: &Daemon, request: pb::ExecuteRequest) -> Result {
    result(daemon.run(request).await.unwrap())
}

/// Returns the user that a hook ran as.
pub(crate) fn ran_as(response: &pb::ExecuteResponse) -> Option<u32> {
    let evidence = &response.confinement.as_ref()?.evidence;
    let uid = evidence.iter().find(|evidence| evidence.check == "uid")?;
    uid.observed.parse().ok()
}

/// Returns the result of the hook in a reply; asserts that it was confined.
pub(crate) fn result(response: pb::ExecuteResponse) -> Result {
    let confinement = response.confinement.unwrap();
    assert!(confinement.confirmed, "{confinement:?}");
    let outcome = response.outcome.unwrap();
    Result {
        code: outcome.exit_code,
        kind: outcome.kind(),
        said: String::from_utf8_lossy(&response.stdout).into_owned(),
        signal: outcome.signal,
    }
}

/// Everything that an attempt can change, made anew for each and owned by the hook's user.
#[derive(Debug)]
pub(crate) struct Ground {
    abstract_name: String,
    abstract_socket: UnixListener,
    datagram: UnixDatagram,
    pub(crate) outside: PathBuf,
    probe: PathBuf,
    reached: [usize; 5],
    root: PathBuf,
    stand_in: StandIn,
    stream: UnixListener,
    tcp: TcpListener,
    udp: UdpSocket,
    pub(crate) workspace: PathBuf,
}

impl Ground {
    pub(crate) fn lay(daemon: &Daemon, probe: &Probe, user: u32) -> Self {
        let name = uuid::Uuid::now_v7().simple().to_string();
        let root = daemon.outside(&name);
        let outside = root.join("o");
        let workspace = daemon.workspace().join(&name);
        fs::create_dir(&root).unwrap();
        fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).unwrap();
        for directory in [&outside, &workspace, &root.join("cwd")] {
            fs::create_dir(directory).unwrap();
            fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).unwrap();
            for name in ["secret", "kept"] {
                let path = directory.join(name);
                fs::write(&path, name).unwrap();
                fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
                give(&path, user);
            }
            give(directory, user);
        }
        fs::create_dir(outside.join("empty")).unwrap();
        give(&outside.join("empty"), user);
        let stream = UnixListener::bind(outside.join("stream")).unwrap();
        let datagram = UnixDatagram::bind(outside.join("datagram")).unwrap();
        for name in ["stream", "datagram"] {
            give(&outside.join(name), user);
        }
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let abstract_socket = UnixListener::bind_addr(&address).unwrap();
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        stream.set_nonblocking(true).unwrap();
        datagram.set_nonblocking(true).unwrap();
        abstract_socket.set_nonblocking(true).unwrap();
        tcp.set_nonblocking(true).unwrap();
        udp.set_nonblocking(true).unwrap();
        Self {
            abstract_name: format!("@{name}"),
            abstract_socket,
            datagram,
            outside,
            probe: probe.path(),
            reached: [0; 5],
            root,
            stand_in: StandIn::start(probe, user),
            stream,
            tcp,
            udp,
            workspace,
        }
    }

    fn working_dir(&self) -> PathBuf {
        self.root.join("cwd")
    }

    /// Returns the addresses at which the ground listens for TCP and UDP, and its name among abstract sockets.
    pub(crate) fn addresses(&self) -> ([std::net::SocketAddr; 2], &str) {
        let addresses = [self.tcp.local_addr(), self.udp.local_addr()].map(std::io::Result::unwrap);
        (addresses, &self.abstract_name[1..])
    }

    /// Returns the process to be attacked.
    pub(crate) fn victim(&self) -> u32 {
        self.stand_in.child.id()
    }

    pub(crate) fn words(&self, words: &[&str]) -> Vec<String> {
        let port =
            |address: std::io::Result<std::net::SocketAddr>| address.unwrap().port().to_string();
        let values = [
            ("{abstract}", self.abstract_name.clone()),
            ("{cgroup}", cgroup().to_owned()),
            ("{marker}", self.stand_in.marker.clone()),
            ("{outside}", self.outside.display().to_string()),
            ("{pid}", self.stand_in.child.id().to_string()),
            ("{probe}", self.probe.display().to_string()),
            ("{tcp}", port(self.tcp.local_addr())),
            ("{udp}", port(self.udp.local_addr())),
            ("{workspace}", self.workspace.display().to_string()),
        ];
        let fill = |word: &&str| {
            values
                .iter()
                .fold((*word).to_owned(), |word, (name, value)| {
                    word.replace(name, value)
                })
        };
        words.iter().map(fill).collect()
    }

    /// Returns the visible state of the ground.
    pub(crate) fn look(&mut self) -> Vec<String> {
        let mut seen = Vec::new();
        for directory in [&self.outside, &self.workspace] {
            for entry in fs::read_dir(directory).unwrap() {
                let entry = entry.unwrap();
                let metadata = entry.path().symlink_metadata().unwrap();
                let content = if metadata.is_file() {
                    fs::read_to_string(entry.path()).unwrap()
                } else {
                    String::new()
                };
                seen.push(format!(
                    "{} {:o} {} {} {content}",
                    entry.path().display(),
                    metadata.mode(),
                    metadata.nlink(),
                    metadata.mtime_nsec() ^ metadata.mtime(),
                ));
            }
        }
        seen.sort();
        let mut buffer = [0; 64];
        while self.tcp.accept().is_ok() {
            self.reached[0] += 1;
        }
        while self.udp.recv(&mut buffer).is_ok() {
            self.reached[1] += 1;
        }
        while self.stream.accept().is_ok() {
            self.reached[2] += 1;
        }
        while self.datagram.recv(&mut buffer).is_ok() {
            self.reached[3] += 1;
        }
        while self.abstract_socket.accept().is_ok() {
            self.reached[4] += 1;
        }
        seen.push(format!("reached {:?}", self.reached));
        seen.push(self.stand_in.look());
        seen
    }
}

/// A process of the hook's user, to be attacked.
#[derive(Debug)]
struct StandIn {
    child: Child,
    marker: String,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl StandIn {
    fn start(probe: &Probe, user: u32) -> Self {
        let mut command = Command::new(probe.path());
        command.arg("stand-in").env_clear().env("STAND_IN", "1");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = as_user(&mut command, user).spawn().unwrap();
        let stdin = child.stdin.take().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut marker = String::new();
        stdout.read_line(&mut marker).unwrap();
        Self {
            child,
            marker: marker.trim().to_owned(),
            stdin,
            stdout,
        }
    }

    fn look(&mut self) -> String {
        // A signal sent before this line is delivered before it is answered.
        self.stdin.write_all(b"?\n").unwrap();
        let mut signals = String::new();
        self.stdout.read_line(&mut signals).unwrap();
        let mut limits = String::new();
        fs::File::open(format!("/proc/{}/limits", self.child.id()))
            .and_then(|mut file| file.read_to_string(&mut limits))
            .unwrap();
        let files = limits.lines().find(|line| line.starts_with("Max open"));
        format!("{} signals, {files:?}", signals.trim())
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}
