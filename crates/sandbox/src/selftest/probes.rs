//! Self-test probes: the attempts in a [`Fixture`], and the expected result of each.

use std::path::{Path, PathBuf};

use nix::unistd;

#[cfg(target_os = "linux")]
use crate::run::proc_status::Status;
use hookjail_base::model::axis::{Axes, Axis, Coverage};
use hookjail_policy::{HookView, Metadata, Policy, Spawn};
#[cfg(target_os = "linux")]
use hookjail_policy::{HostSource, Network};
use hookjail_sys::Attempt;

use super::fixture::{Fixture, HIDDEN_FILE, KEPT_DIRECTORY, KEPT_FILE, WORKSPACE};
use crate::host::{OUTBOUND_HAS_UNIX_SOCKETS, UNGRANTED_DEVICE};

/// Errnos that count as a denial: access denied, target absent, or file system read-only.
///
/// Absent, because a container has no other files or processes. The same attempt succeeds unconfined, so none of these
/// has another cause.
const REFUSALS: [i32; 5] = [
    libc::EACCES,
    libc::ENOENT,
    libc::EPERM,
    libc::EROFS,
    libc::ESRCH,
];

/// Expected result of one attempt.
#[derive(Debug)]
pub(crate) struct Check {
    pub(crate) axis: Axis,
    /// File that exists, or is empty, only if the attempt succeeded.
    pub(crate) effect: Option<Effect>,
    /// Whether the policy grants it.
    pub(crate) granted: bool,
    index: usize,
    /// Results that count as success. Most calls return 0 or more; some are arranged to fail *after* the access check.
    success: Success,
    pub(crate) what: &'static str,
}

#[derive(Debug)]
pub(crate) enum Effect {
    Emptied(PathBuf),
    Made(PathBuf),
}

#[derive(Clone, Copy, Debug)]
enum Success {
    /// 0 or more.
    Value,
    /// This errno: the call passed the access check and then failed as arranged.
    Reached(i32),
    /// 0 or more, or this errno, as the circumstances are.
    ValueOrReached(i32),
}

/// Attempts, and the expected result of each.
pub(crate) struct Attempts {
    pub(crate) attempts: Vec<Attempt>,
    pub(crate) checks: Vec<Check>,
}

/// One attempt, with its signs of success. The attempt must fail under the policy unless granted.
struct Probe {
    attempt: Option<Attempt>,
    axis: Axis,
    effect: Option<Effect>,
    granted: bool,
    success: Success,
    what: &'static str,
}

impl Probe {
    fn new(axis: Axis, what: &'static str, attempt: impl Into<Option<Attempt>>) -> Self {
        Self {
            attempt: attempt.into(),
            axis,
            effect: None,
            granted: false,
            success: Success::Value,
            what,
        }
    }

    /// Sets whether the policy grants it.
    fn granted(self, granted: bool) -> Self {
        Self { granted, ..self }
    }

    /// Names the file that it empties.
    fn emptying(self, path: PathBuf) -> Self {
        Self {
            effect: Some(Effect::Emptied(path)),
            ..self
        }
    }

    /// Names the file that it makes.
    fn making(self, path: PathBuf) -> Self {
        Self {
            effect: Some(Effect::Made(path)),
            ..self
        }
    }

    /// Sets the errno with which it fails behind the access check.
    fn reaching(self, errno: i32) -> Self {
        Self {
            success: Success::Reached(errno),
            ..self
        }
    }

    /// Sets the errno with which it may fail behind the access check.
    fn or_reaching(self, errno: i32) -> Self {
        Self {
            success: Success::ValueOrReached(errno),
            ..self
        }
    }
}

fn open(path: &Path, flags: libc::c_int) -> Option<Attempt> {
    Attempt::open(path.as_os_str(), flags, 0)
}

fn create(path: &Path) -> Option<Attempt> {
    Attempt::open(path.as_os_str(), libc::O_WRONLY | libc::O_CREAT, 0o600)
}

impl Fixture {
    /// Returns the attempts for a policy with claimed `axes`, without those that this system lacks.
    pub(crate) fn attempts(
        &self,
        policy: &Policy,
        axes: &Axes<Coverage>,
        own_uid: bool,
    ) -> Attempts {
        let probes = [
            self.reading(),
            self.writing(),
            self.keeping(policy),
            self.executing(),
            networking(policy, own_uid),
            spawning(policy),
            communicating(own_uid),
            self.metadata(policy, axes),
            devices(),
        ];
        let mut list = Attempts {
            attempts: Vec::new(),
            checks: Vec::new(),
        };
        for probe in probes.into_iter().flatten() {
            let Some(attempt) = probe.attempt else {
                continue;
            };
            list.checks.push(Check {
                axis: probe.axis,
                effect: probe.effect,
                granted: probe.granted,
                index: list.attempts.len(),
                success: probe.success,
                what: probe.what,
            });
            list.attempts.push(attempt);
        }
        list
    }

    fn reading(&self) -> Vec<Probe> {
        let read = |what, path: &Path| Probe::new(Axis::Read, what, open(path, libc::O_RDONLY));
        vec![
            read("open an ungranted file", &self.denied),
            read("open a granted file", &self.granted).granted(true),
            read("list an ungranted directory", &self.outside.join("closed")),
        ]
    }

    fn writing(&self) -> Vec<Probe> {
        let write = |what, attempt| Probe::new(Axis::Write, what, attempt);
        let inside = self.scratch.join("made");
        let outside = self.outside.join("made");
        let (kept, readable) = (self.outside.join("kept"), self.outside.join("readable"));
        vec![
            write("make a file in scratch", create(&inside))
                .granted(true)
                .making(inside),
            write("make a file outside scratch", create(&outside)).making(outside),
            // Emptying by a read-only open is its own right, and its own stand-in on kernels without it.
            write(
                "empty a granted file by a read-only open",
                open(&readable, libc::O_RDONLY | libc::O_TRUNC),
            )
            .emptying(readable),
            write(
                "empty a file by its path",
                Attempt::truncate(kept.as_os_str()),
            )
            .emptying(kept),
        ]
    }

    /// Returns the probes of what stays read-only in a directory that is granted to be written.
    fn keeping(&self, policy: &Policy) -> Vec<Probe> {
        if !policy.files.keep() {
            return Vec::new();
        }
        let write = |what, attempt| Probe::new(Axis::Write, what, attempt);
        let workspace = self.outside.join(WORKSPACE);
        let made = workspace.join("around/made");
        let kept = workspace.join(KEPT_DIRECTORY).join("made");
        let file = workspace.join(KEPT_FILE);
        let hidden = workspace.join(HIDDEN_FILE);
        let mut probes = vec![
            write(
                "make a file in a directory that is granted to be written",
                create(&made),
            )
            .granted(true)
            .making(made),
            write(
                "make a file in a directory of it that stays read-only",
                create(&kept),
            )
            .making(kept),
            write(
                "empty a file of it that stays read-only",
                open(&file, libc::O_WRONLY | libc::O_TRUNC),
            )
            .emptying(file),
        ];
        if !policy.files.hidden.is_empty() {
            let attempt = open(&hidden, libc::O_RDONLY);
            probes.push(Probe::new(Axis::Read, "open a hidden file", attempt));
        }
        probes
    }

    fn executing(&self) -> Vec<Probe> {
        let execute = |what, name: &str| {
            let path = self.outside.join(name);
            let attempt = Attempt::execute(path.as_os_str());
            Probe::new(Axis::Execute, what, attempt).reaching(libc::ENOEXEC)
        };
        vec![
            execute("execute an ungranted file", "program"),
            // Executing a file usually requires reading it; here the right to execute is probed alone.
            execute(
                "execute a file that is granted to be read",
                "readable-program",
            ),
            execute("execute a granted file", "granted-program").granted(true),
        ]
    }

    fn metadata(&self, policy: &Policy, axes: &Axes<Coverage>) -> Vec<Probe> {
        let mut probes = Vec::new();
        if policy.metadata == Metadata::Keep {
            let path = self.outside.join("kept");
            let attempt = Attempt::change_mode(path.as_os_str(), 0o600);
            probes.push(Probe::new(Axis::Metadata, "change a file's mode", attempt));
        }
        if let Coverage::Enforced { .. } = axes.metadata {
            let attempt = Attempt::exists(self.denied.as_os_str());
            let what = "ask whether an ungranted file exists";
            probes.push(Probe::new(Axis::Metadata, what, attempt));
        }
        probes
    }
}

/// CAP_SYS_PTRACE.
#[cfg(target_os = "linux")]
const MAY_TRACE: u64 = 1 << 19;

#[cfg_attr(
    not(target_os = "linux"),
    expect(unused_variables, reason = "hosts by name are of Linux")
)]
fn networking(policy: &Policy, own_uid: bool) -> Vec<Probe> {
    let inet = policy.network.sends();
    let stream = |what, domain| {
        let socket = Attempt::socket(domain, libc::SOCK_STREAM, 0);
        Probe::new(Axis::Network, what, socket)
    };
    let (what, kernel) = Attempt::kernel_socket();
    let mut probes = vec![
        stream("make an IPv4 socket", libc::AF_INET).granted(inet),
        Probe::new(Axis::Network, what, kernel),
    ];
    #[cfg(target_os = "linux")]
    if policy.network == Network::Named {
        // Nothing listens at port 0, which no rule names; perhaps at that of name servers.
        let connect = |what, port| {
            let probe = Probe::new(Axis::Network, what, Attempt::connect(port));
            probe.or_reaching(libc::ECONNREFUSED)
        };
        if policy.egress.source != HostSource::Hook {
            probes.push(connect("connect to an address of no rule", 0));
        }
        // Before it executes a program a child of another user can be examined by a daemon alone that may trace any.
        let status = Status::read_own();
        if !own_uid || status.is_ok_and(|daemon| daemon.effective_capabilities & MAY_TRACE != 0) {
            probes.push(connect("connect to the daemon's name server", 53).granted(true));
        }
    }
    // With a view of its own a hook may listen on one, but on some backends only.
    if inet || policy.view == HookView::Machine {
        let unix = stream("make a Unix socket", libc::AF_UNIX);
        probes.push(unix.granted(inet && OUTBOUND_HAS_UNIX_SOCKETS));
    }
    probes
}

fn spawning(policy: &Policy) -> Vec<Probe> {
    let processes = policy.spawn == Spawn::Processes;
    vec![
        Probe::new(Axis::Spawn, "make a process", Attempt::fork()).granted(processes),
        // In a tree of its own nothing leaves by it, and the child leads a session already.
        Probe::new(Axis::Spawn, "make a process group", Attempt::new_group()),
    ]
}

fn communicating(own_uid: bool) -> Vec<Probe> {
    let mut probes = vec![
        Probe::new(Axis::Ipc, "ask for shared memory", Attempt::shared_memory())
            .reaching(libc::EINVAL),
    ];
    if !own_uid {
        // With a uid of its own the unconfined child cannot signal the daemon either, so there is no positive control.
        let daemon = Attempt::signal(unistd::getpid().as_raw(), 0);
        probes.push(Probe::new(Axis::Ipc, "signal the daemon", daemon));
    }
    probes
}

fn devices() -> Vec<Probe> {
    let device = |what, path: &str, flags| {
        let attempt = Attempt::open(path.as_ref(), flags, 0);
        Probe::new(Axis::Devices, what, attempt)
    };
    vec![
        // For a process without a terminal, the error for that comes after the access check.
        device("open an ungranted device", UNGRANTED_DEVICE, libc::O_RDONLY)
            .or_reaching(libc::ENXIO),
        device("open /dev/null", "/dev/null", libc::O_RDWR).granted(true),
    ]
}

impl Effect {
    pub(crate) fn shows(&self) -> bool {
        match self {
            Self::Emptied(path) => path.metadata().is_ok_and(|m| m.len() == 0),
            Self::Made(path) => path.exists(),
        }
    }
}

impl Check {
    fn result(&self, results: &[Option<isize>]) -> Option<isize> {
        results.get(self.index).copied().flatten()
    }

    pub(crate) fn succeeded(&self, results: &[Option<isize>]) -> bool {
        self.result(results)
            .is_some_and(|result| match self.success {
                Success::Value => result >= 0,
                Success::Reached(errno) => result == -(errno as isize),
                Success::ValueOrReached(errno) => result >= 0 || result == -(errno as isize),
            })
    }

    /// Returns the errno of a failure, unless that errno counts as success.
    pub(crate) fn failed(&self, results: &[Option<isize>]) -> Option<i32> {
        let result = self.result(results)?;
        let failed = result < 0 && !self.succeeded(results);
        failed.then(|| i32::try_from(-result).unwrap_or(0))
    }

    pub(crate) fn refused(&self, results: &[Option<isize>]) -> bool {
        self.result(results)
            .is_some_and(|result| REFUSALS.iter().any(|&errno| result == -(errno as isize)))
    }

    pub(crate) fn seen(&self, results: &[Option<isize>]) -> String {
        seen(self.result(results))
    }
}

/// Renders the result of an attempt.
pub(crate) fn seen(result: Option<isize>) -> String {
    match result {
        None => "not tried".to_owned(),
        Some(result) if result < 0 => {
            let errno = i32::try_from(-result).unwrap_or(0);
            nix::errno::Errno::from_raw(errno).to_string()
        }
        Some(_) => "succeeded".to_owned(),
    }
}
