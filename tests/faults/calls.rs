//! Syscalls that fail, one after the other, for lack of something: the answer to the request that met one, and
//! whether the same daemon serves the next.

use std::{
    collections::BTreeMap,
    fmt,
    fs::{self, File},
    os::unix::fs::{FileExt, PermissionsExt},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use hookjail::pb::{
    self, hook_service_client::HookServiceClient, sandbox_service_client::SandboxServiceClient,
};
use nix::libc;
use tonic::transport::Channel;

use crate::{
    load::{Call, Said, marking, milliseconds, reconnecting, says_it_is_done},
    scene::Scene,
    support::{Setup, directory},
    time::compile,
};

/// One kind of calls, and what they fail with.
struct Kind {
    /// Its index in inject.c.
    number: i32,
    name: &'static str,
    errnos: &'static [i32],
    /// Whether a request needs its connection to be made by it.
    connects: bool,
}

const fn kind(number: i32, name: &'static str, errnos: &'static [i32]) -> Kind {
    Kind {
        number,
        name,
        errnos,
        connects: matches!(number, 4 | 5),
    }
}

const THREADS: &str = "pthread_create";
const COPIES: &str = "copy_file_range, sendfile";

const KINDS: [Kind; 20] = [
    kind(1, "open", &[libc::EMFILE, libc::ENFILE, libc::ENOMEM]),
    kind(2, "fcntl(F_DUPFD)", &[libc::EMFILE]),
    kind(3, "pipe2", &[libc::EMFILE, libc::ENFILE]),
    kind(
        4,
        "accept4",
        &[libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM],
    ),
    kind(5, "epoll_ctl", &[libc::ENOMEM, libc::ENOSPC]),
    kind(
        6,
        "mkdir, symlink",
        &[libc::EDQUOT, libc::ENOMEM, libc::ENOSPC],
    ),
    kind(7, "stat", &[libc::ENOMEM]),
    kind(8, "readlink, realpath", &[libc::ENOMEM]),
    kind(
        9,
        "write of a file",
        &[libc::EDQUOT, libc::EIO, libc::ENOSPC],
    ),
    kind(10, "fsync", &[libc::EDQUOT, libc::EIO, libc::ENOSPC]),
    kind(11, "fallocate", &[libc::EIO, libc::ENOSPC]),
    kind(12, "rename", &[libc::ENOMEM, libc::ENOSPC]),
    kind(13, "flock", &[libc::ENOLCK]),
    kind(14, "unlink, rmdir", &[libc::ENOMEM]),
    kind(
        15,
        "copy_file_range, sendfile",
        &[libc::ENOMEM, libc::ENOSPC],
    ),
    kind(
        16,
        "landlock_create_ruleset, landlock_add_rule",
        &[libc::EMFILE, libc::ENFILE, libc::ENOMEM],
    ),
    kind(17, "seccomp", &[libc::EMFILE, libc::ENOMEM]),
    kind(18, THREADS, &[libc::EAGAIN]),
    kind(19, "mmap", &[libc::ENOMEM]),
    kind(20, "chown, chmod", &[libc::EDQUOT, libc::ENOMEM]),
];

/// The file that selects the daemon's call that fails: numbers in the order of `struct control`.
struct Injector(File);

impl Injector {
    fn new(path: &Path) -> Self {
        fs::write(path, [0; 24]).unwrap();
        let mut options = File::options();
        Self(options.read(true).write(true).open(path).unwrap())
    }

    /// Has a number of calls fail, from one on.
    fn arm(&self, kind: &Kind, errno: i32, first: i32, count: i32) {
        self.put(&[0, errno, first, count, 0, 0]);
        // Last: from here on they fail.
        self.put(&[kind.number]);
    }

    /// Has all succeed again; returns how many failed.
    fn disarm(&self) -> i32 {
        self.put(&[0]);
        let mut failed = [0; 4];
        self.0.read_exact_at(&mut failed, 20).unwrap();
        i32::from_ne_bytes(failed)
    }

    fn put(&self, numbers: &[i32]) {
        let bytes: Vec<_> = numbers.iter().flat_map(|it| it.to_ne_bytes()).collect();
        self.0.write_all_at(&bytes, 0).unwrap();
    }
}

/// A request that is made while calls fail.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Asked {
    /// A line for a shell.
    Line,
    /// A script, which is copied.
    Script,
    /// A self-test, and then a line: under a profile that may not be confirmed any more.
    SelfTest,
}

impl Asked {
    /// Whether the short form has these calls fail.
    fn is_about(self, kind: &Kind) -> bool {
        match self {
            Self::Line => true,
            // The calls of a copy beyond those of a line, and a consent, which is to each of these by itself.
            Self::Script => {
                ["open", "mkdir, symlink", "rename", COPIES, THREADS].contains(&kind.name)
            }
            Self::SelfTest => ["open", "seccomp"].contains(&kind.name),
        }
    }
}

/// Observations of one kind of calls and one error.
#[derive(Default)]
struct Seen {
    failed: usize,
    said: BTreeMap<String, usize>,
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} failed;", self.failed)?;
        for (label, count) in &self.said {
            write!(f, " {count} {label}")?;
        }
        Ok(())
    }
}

/// One request after the other, of which each meets the failure of another call.
struct Calls<'a> {
    count: usize,
    injector: Injector,
    log: BTreeMap<(Asked, &'static str, i32), Seen>,
    long: bool,
    /// The maximum number of the call that fails.
    most: i32,
    scene: &'a mut Scene,
}

/// Has each kind of calls fail with each of its errors: the first call during a request, the second during the next,
/// until a request makes no more of them.
pub(crate) async fn calls_fail(scene: &mut Scene) {
    let home = directory();
    let (library, control) = (home.path().join("inject.so"), home.path().join("inject"));
    compile("inject.c", &library);
    let injector = Injector::new(&control);
    let path = |path: PathBuf| path.display().to_string();
    let setup = Setup {
        config: "[audit]\nfsync = \"always\"\n".to_owned(),
        env: vec![
            ("LD_PRELOAD".to_owned(), path(library)),
            ("FAULTS_CALLS".to_owned(), path(control)),
        ],
        ..Setup::default()
    };
    scene.start_in(home, setup).await;
    let most = i32::try_from(scene.rounds(3, 200)).unwrap();
    let mut calls = Calls {
        count: 0,
        injector,
        log: BTreeMap::new(),
        long: scene.is_long(),
        most,
        scene,
    };
    for question in [Asked::Line, Asked::Script, Asked::SelfTest] {
        calls.all(question).await;
    }
    for ((question, name, errno), seen) in &calls.log {
        let errno = nix::errno::Errno::from_raw(*errno);
        println!("{question:?}: {name}, {errno:?}: {seen}");
    }
    // A library that is not between the daemon and the kernel shows nothing.
    let failed = calls.log.values().any(|seen| seen.failed > 0);
    assert!(failed, "no call failed: is the program linked dynamically?");
}

impl Calls<'_> {
    async fn all(&mut self, question: Asked) {
        let long = self.long;
        for kind in KINDS.iter().filter(|kind| long || question.is_about(kind)) {
            // One error stands for the others, which go the same way.
            let errnos = if self.long {
                kind.errnos
            } else {
                &kind.errnos[..1]
            };
            for &errno in errnos {
                // One call, and all from one on.
                for (count, most) in [
                    (1, self.most),
                    (i32::MAX, if self.long { self.most } else { 1 }),
                ] {
                    let mut first = 1;
                    while first <= most && self.one(question, kind, errno, first, count).await {
                        first += 1;
                    }
                }
            }
        }
    }

    /// Has calls fail from one on during a request; returns whether the request made the first of them.
    async fn one(
        &mut self,
        question: Asked,
        kind: &Kind,
        errno: i32,
        first: i32,
        count: i32,
    ) -> bool {
        if (question, kind.name, first) == (Asked::Script, THREADS, 1) {
            // Longer than threads that have nothing to do are mostly kept.
            tokio::time::sleep(Duration::from_secs(11)).await;
        }
        self.injector.arm(kind, errno, first, count);
        if question == Asked::SelfTest {
            let mut client = SandboxServiceClient::new(self.channel());
            let request = pb::SelfTestRequest {
                profile: "workspace-rw".to_owned(),
            };
            let tested = client.self_test(request);
            // The answer is not judged here, but the next run is.
            drop(tokio::time::timeout(Duration::from_secs(10), tested).await);
        }
        let call = self.request(question, "failing");
        let (call, failed) = if kind.connects {
            // A failure that blocks connections is over before any caller gives up.
            let wait = tokio::time::sleep(Duration::from_millis(100));
            tokio::join!(call, async {
                wait.await;
                self.injector.disarm()
            })
        } else {
            let call = call.await;
            if question == Asked::Script {
                // Files that it left are removed after its answer.
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            (call, self.injector.disarm())
        };
        let error = nix::errno::Errno::from_raw(errno);
        let what = format!(
            "{question:?}: {}, {error:?}, {first} and {} more",
            kind.name,
            count - 1
        );
        self.count += 1;
        let seen = self.log.entry((question, kind.name, errno)).or_default();
        seen.failed += usize::from(failed > 0);
        *seen.said.entry(call.said.label()).or_default() += 1;
        let right = match &call.said {
            Said::Ended(_) => says_it_is_done(&call.said),
            // As long as what a self-test or a run left cannot be removed, its user's hooks wait.
            Said::Refused { reason, .. } if reason == "DEADLINE" => {
                (question == Asked::SelfTest || kind.name == "rename") && count > 1
            }
            // A self-test that a failing disk ended has shown nothing.
            Said::Refused { reason, .. } if reason == "BACKEND_UNCONFIRMED" => {
                question == Asked::SelfTest && errno == libc::EIO
            }
            Said::Refused { reason, .. } => {
                matches!(reason.as_str(), "OVERLOADED" | "AUDIT_UNAVAILABLE")
            }
            Said::Lost | Said::Unheard => kind.connects,
            // A failing disk is no lack of resources, and outside of records nothing more is recorded of it.
            Said::Fault => errno == libc::EIO,
            Said::Nothing => false,
        };
        if !right {
            self.scene.wrong(format!("{what}: {}", call.said.label()));
        }
        self.scene.add([call]);
        self.serves(kind, &what).await;
        failed > 0
    }

    /// Waits until a plain request is served, by the same daemon unless the disk failed under the journal.
    async fn serves(&mut self, kind: &Kind, what: &str) {
        let since = Instant::now();
        loop {
            self.count += 1;
            let call = self.request(Asked::Line, "next").await;
            let done = says_it_is_done(&call.said);
            let label = call.said.label();
            self.scene.add([call]);
            if done {
                return;
            }
            if let Some(status) = self.scene.has_ended() {
                let by_journal = status.code() == Some(125) && kind.name == "fsync";
                if !by_journal {
                    self.scene
                        .wrong(format!("{what}: the daemon ends with {status}"));
                }
                self.scene.kill_and_restart().await;
                continue;
            }
            if since.elapsed() > Duration::from_secs(5) {
                self.scene
                    .wrong(format!("{what}: afterwards still {label}"));
                self.scene.kill_and_restart().await;
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn channel(&self) -> Channel {
        reconnecting(self.scene.home().join("sock"))
    }

    /// Requests a hook that marks its run, on a connection of its own.
    async fn request(&self, question: Asked, word: &str) -> Call {
        let id = format!("{word}-{}", self.count);
        let workspace = self.scene.daemon().workspace();
        let mut request = marking(&workspace, &id, ":");
        if question == Asked::Script {
            let script = workspace.join("script");
            let text = format!(
                "#!/bin/sh\n{}\n",
                "echo $1 >>ran || exit 9; : >$TMPDIR/litter"
            );
            if !script.exists() {
                fs::write(&script, text).unwrap();
                fs::set_permissions(&script, fs::Permissions::from_mode(0o777)).unwrap();
            }
            let argv = vec![script.display().to_string(), id.clone()];
            let hook = request.hook.as_mut().unwrap();
            hook.argv = argv;
        }
        request.timeout = Some(milliseconds(5_000));
        let mut client = HookServiceClient::new(self.channel());
        let begun = Instant::now();
        let answer = tokio::time::timeout(Duration::from_secs(15), client.execute(request)).await;
        Call::new(id, begun, Said::from_answer(answer))
    }
}
