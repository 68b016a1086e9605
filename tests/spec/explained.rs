//! Answers without a run, and whether they are true: the evaluator's answers beside the kernel's.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start the command line itself, never a hook"
)]
#![expect(clippy::print_stdout, reason = "prints how many cases were compared")]

use std::{
    collections::BTreeMap,
    fs,
    net::{TcpListener, UdpSocket},
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
};

use hookjail::{
    model::{Narrow, ProfileName},
    pb,
    policy::{
        HookView, Policy, References, Registry,
        narrow::{Bindings, narrow},
    },
};
use hookjail_policy::{
    explain::{FileKind, Operation, Reach, Remedy, Target},
    forbidden::Forbidden,
};
use hookjail_sandbox::{
    explain::{
        self, Arguments, Explanation, Transport, Verdict, call, called, number, parse_arguments,
    },
    seccomp::{
        FilterSpec,
        syscalls::{self, nr},
    },
};
use nix::errno::Errno;
use tonic::Status;
use tonic_types::StatusExt;

use crate::{
    attempts::{Probe, give},
    fail_closed::FakeKernel,
    support::{Daemon, Setup, directory, hook, reason, unshared_directory},
    witness::{CommandLine, hookjail, json as one_line, until_clean, writing},
};

/// As `network`, for anyone: that the operator grants it command by command is not what is compared here.
const OUTBOUND: &str =
    "description = \"network for anyone\"\nextends = \"network\"\ngranted_by = \"anyone\"\n";

/// Kind of file at a path of a case before it is tried.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Before {
    Directory,
    File,
    Nothing,
}

/// A directory in which operations are tried.
#[derive(Clone, Debug)]
struct GrantPlace {
    /// As the evaluator and the probe get it.
    path: PathBuf,
    /// Where the test lays the files; nowhere for the scratch directory, in which the hook does.
    laid: Option<PathBuf>,
}

/// Attempts of a probe with one path: its word, the operation for the evaluator, and the kind of file that has to lie there.
const TRIED: [(&str, Operation, Before); 11] = [
    ("create", Operation::Create, Before::Nothing),
    ("execute", Operation::Execute, Before::File),
    ("list", Operation::List, Before::Directory),
    ("make-directory", Operation::Create, Before::Nothing),
    ("make-link", Operation::Create, Before::Nothing),
    ("overwrite", Operation::Write, Before::File),
    ("read", Operation::Read, Before::File),
    ("remove", Operation::Remove, Before::File),
    ("remove-directory", Operation::Remove, Before::Directory),
    ("truncate", Operation::Write, Before::File),
    ("write", Operation::Write, Before::File),
];

/// Attempts of a probe with two paths.
const MOVED: [(&str, Operation); 2] = [("link", Operation::Link), ("rename", Operation::Rename)];

/// One operation that is tried, and the evaluator's answer to it.
#[derive(Debug)]
struct Case {
    word: &'static str,
    path: PathBuf,
    destination: Option<PathBuf>,
    explanation: Explanation,
}

/// The cases of one profile, and the words that have a probe try them.
struct Cases<'a> {
    abi: u32,
    all: Vec<Case>,
    count: usize,
    reach: &'a Reach,
    user: u32,
    words: Vec<String>,
}

/// Names of the scratch directory: for the evaluator, and for the probe.
const SCRATCH: (&str, &str) = ("${scratch}", "@");

impl Cases<'_> {
    /// Makes a name that no other case has, and what is to lie there.
    fn lay(&mut self, place: &GrantPlace, before: Before) -> PathBuf {
        self.count += 1;
        let name = format!("case-{}", self.count);
        let path = place.path.join(&name);
        match (&place.laid, before) {
            (_, Before::Nothing) => {}
            (None, Before::Directory) => self.say("make-directory", &path, None),
            (None, Before::File) => self.say("lay", &path, None),
            (Some(laid), Before::Directory) => {
                fs::create_dir(laid.join(&name)).unwrap();
                open(&laid.join(&name), self.user);
            }
            (Some(laid), Before::File) => {
                fs::write(laid.join(&name), "no program\n").unwrap();
                open(&laid.join(&name), self.user);
            }
        }
        path
    }

    fn say(&mut self, word: &str, path: &Path, destination: Option<&Path>) {
        let spelled = |path: &Path| path.display().to_string().replace(SCRATCH.0, SCRATCH.1);
        let words = [
            word.to_owned(),
            spelled(path),
            destination.map_or_else(|| "-".to_owned(), spelled),
        ];
        self.words.extend(words);
    }

    /// Evaluates an operation, and has it tried.
    fn add(
        &mut self,
        (word, operation): (&'static str, Operation),
        path: &Path,
        destination_before: Option<(&Path, Before)>,
        is: Before,
    ) {
        let target = located(path, is, |path| Target::locate(operation, path));
        let goal = destination_before.map(|(path, is)| located(path, is, Target::destination));
        let forbidden = Forbidden::default();
        let explanation = explain::path(self.reach, &forbidden, operation, &target, goal.as_ref());
        let destination = destination_before.map(|(path, _)| path.to_owned());
        self.say(word, path, destination.as_deref());
        self.all.push(Case {
            word,
            path: path.to_owned(),
            destination,
            explanation,
        });
    }

    /// Tries every operation at a place, each on something of its own.
    fn try_at(&mut self, place: &GrantPlace) {
        for (word, operation, before) in TRIED {
            // Where Landlock does not support it, the filters refuse the call, which is a question of its own.
            if word == "truncate" && self.abi < 3 {
                continue;
            }
            let path = self.lay(place, before);
            self.add((word, operation), &path, None, before);
        }
    }

    /// Tries to take files and directories from one place to another.
    fn between(&mut self, source: &GrantPlace, target: &GrantPlace) {
        let [link, rename] = MOVED;
        let ways = [
            (link, Before::File, Before::Nothing),
            (rename, Before::File, Before::Nothing),
            (rename, Before::File, Before::File),
            (rename, Before::Directory, Before::Nothing),
        ];
        for (tried, is, replaced) in ways {
            let path = self.lay(source, is);
            let goal = self.lay(target, replaced);
            self.add(tried, &path, Some((&goal, replaced)), is);
        }
    }
}

fn located(path: &Path, is: Before, locate: impl Fn(&Path) -> Target) -> Target {
    if !path.starts_with(SCRATCH.0) {
        return locate(path);
    }
    let kind = match is {
        Before::Directory => FileKind::Directory,
        Before::File => FileKind::File,
        Before::Nothing => FileKind::Missing,
    };
    Target::imagined(path, kind)
}

/// Lets the hook's user do everything, whichever that is in the next daemon, so that only confinement can refuse it.
fn open(path: &Path, user: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    give(path, user);
}

fn place(path: PathBuf, user: u32) -> GrantPlace {
    fs::create_dir(&path).unwrap();
    open(&path, user);
    GrantPlace {
        path: path.clone(),
        laid: Some(path),
    }
}

/// Returns a profile as the daemon has it, bound to a workspace.
fn bound(daemon: &Daemon, profile: &str, workspace: &Path) -> Policy {
    let registry = Registry::load(
        &[daemon.path().join("profiles")],
        &[],
        &References::default(),
    )
    .unwrap();
    let policy = registry
        .find(&ProfileName::parse(profile).unwrap())
        .unwrap();
    narrow(
        policy,
        Bindings::workspace(Some(workspace)),
        &Narrow::default(),
    )
    .unwrap()
}

async fn landlock_abi(daemon: &Daemon) -> u32 {
    let response = daemon.run(hook(["/bin/true"])).await.unwrap();
    response.confinement.unwrap().landlock_abi
}

/// Has the probe do things and returns the errno of each.
async fn errnos(
    daemon: &Daemon,
    probe: &Probe,
    profile: &str,
    workspace: &Path,
    words: &[String],
) -> Vec<i32> {
    let mut request = probe.hook(profile, words);
    request.hook.as_mut().unwrap().workspace = workspace.display().to_string();
    // The uid of a hook before this one is free only then.
    until_clean(daemon).await;
    let response = daemon.run(request).await.unwrap();
    let outcome = response.outcome.unwrap();
    assert_eq!(outcome.exit_code, Some(0), "{outcome:?}");
    numbers(&String::from_utf8_lossy(&response.stdout))
}

fn numbers(text: &str) -> Vec<i32> {
    text.lines().map(|line| line.parse().unwrap()).collect()
}

fn name(errno: i32) -> String {
    match errno {
        0 => "done".to_owned(),
        errno => format!("{:?}", Errno::from_raw(errno)),
    }
}

/// Returns the kernel's result if the verdict is true. No file operation depends on arguments or kills, so these verdicts give
/// a value that the kernel never returns.
fn expected(verdict: Verdict) -> i32 {
    match verdict {
        Verdict::Allowed => 0,
        Verdict::Refused(errno) => errno,
        Verdict::Depends | Verdict::Killed => -1,
    }
}

/// Looks from outside whether an operation had its effect; nothing where that cannot be seen.
fn effect(case: &Case) -> Option<bool> {
    let exists = |path: &Path| path.symlink_metadata().is_ok();
    let path = &case.path;
    let is_its_own = path
        .file_name()
        .is_some_and(|name| name.to_string_lossy().starts_with("case-"));
    if path.starts_with(SCRATCH.0) || !is_its_own {
        return None;
    }
    match case.word {
        "create" | "make-directory" | "make-link" => Some(exists(path)),
        "remove" | "remove-directory" | "rename" => Some(!exists(path)),
        "truncate" => Some(path.metadata().unwrap().len() == 0),
        "overwrite" => Some(fs::read(path).unwrap() == b"written"),
        "write" => Some(fs::read(path).unwrap().starts_with(b"written")),
        _ => None,
    }
}

#[tokio::test]
async fn the_kernel_does_with_files_what_explain_says() {
    compare_files(Vec::new()).await;
}

#[tokio::test]
async fn what_explain_says_of_files_is_true_where_landlock_is_older() {
    let kernel = FakeKernel::build();
    for abi in [1, 2] {
        compare_files(kernel.wrapper(&["--landlock", &abi.to_string()])).await;
    }
}

/// Tries everything with files under a daemon that a wrapper starts, and compares.
async fn compare_files(wrapper: Vec<String>) {
    let probe = Probe::build();
    // Where a view covers a directory, nothing else of the directory is there, and the refusals are others.
    let (Some(granted), Some(home)) = (unshared_directory(), unshared_directory()) else {
        println!("not compared: this user can make no directory outside of /tmp");
        return;
    };
    let root = granted.path().canonicalize().unwrap();
    let grants = [
        ("read", "read"),
        ("execute", "execute"),
        ("write", "write"),
        ("one-file", "write-file"),
    ]
    .map(|(name, access)| format!("{{ path = {:?}, access = {access:?} }}", root.join(name)));
    let mixed = format!(
        "description = \"x\"\nextends = \"workspace-rw\"\n[files]\nnamed = [{}]\n",
        grants.join(", ")
    );
    let setup = Setup {
        profiles: vec![
            ("mixed".to_owned(), mixed),
            ("outbound".to_owned(), OUTBOUND.to_owned()),
        ],
        wrapper,
        ..Setup::default()
    };
    let daemon = Daemon::in_directory(home, setup).await.unwrap();
    let user = probe.user(&daemon).await;
    let abi = landlock_abi(&daemon).await;
    let mixed: Vec<GrantPlace> = ["read", "execute", "write"]
        .map(|name| place(root.join(name), user))
        .into();
    let one_file = root.join("one-file");
    fs::write(&one_file, "no program\n").unwrap();
    open(&one_file, user);
    let alias = GrantPlace {
        path: root.join("alias"),
        laid: Some(root.join("read")),
    };
    symlink(root.join("read"), &alias.path).unwrap();

    let (mut compared, mut allowed, mut refused) = (0, 0, 0);
    let mut wrong = Vec::new();
    for profile in [
        "strict",
        "pipeline",
        "workspace-ro",
        "workspace-rw",
        "outbound",
        "mixed",
    ] {
        let workspace = place(daemon.workspace().join(profile), user);
        let outside = place(daemon.outside(profile), user);
        let scratch = GrantPlace {
            path: SCRATCH.0.into(),
            laid: None,
        };
        let policy = bound(&daemon, profile, &workspace.path);
        let handled = explain::handled(abi);
        let reach = Reach::locate(&policy.files, Some(&workspace.path), handled)
            .unwrap()
            .with_scratch(Path::new(SCRATCH.0))
            .with_program(&probe.path())
            .unwrap()
            .with_view(&policy)
            .unwrap();
        let mut cases = Cases {
            abi,
            all: Vec::new(),
            count: 0,
            reach: &reach,
            user,
            words: vec!["operations".to_owned()],
        };
        let mut places = vec![workspace.clone(), outside, scratch];
        if profile == "mixed" {
            places.extend(mixed.iter().cloned());
        }
        for source in &places {
            cases.try_at(source);
            for target in &places {
                cases.between(source, target);
            }
        }
        if profile == "mixed" {
            // By a link, and a file that is granted by itself.
            cases.try_at(&alias);
            for tried in ["read", "execute", "write", "overwrite", "remove"] {
                cases.add(word(tried), &one_file, None, Before::File);
            }
        }
        // Everybody may look at these, as far as file permissions go.
        for path in [
            "/usr/bin/env",
            "/bin/sh",
            "/etc/passwd",
            "/etc/hosts",
            "/etc/ld.so.cache",
            "/dev/null",
            "/dev/zero",
            "/dev/urandom",
            "/proc/self/status",
            "/proc/self/environ",
        ] {
            if Path::new(path).exists() {
                // Reading the null device is allowed and brings nothing, which counts as done.
                cases.add(word("read"), Path::new(path), None, Before::File);
            }
        }
        for path in [
            "/", "/usr", "/usr/bin", "/etc", "/dev", "/proc", "/sys", "/var", "/tmp",
        ] {
            cases.add(word("list"), Path::new(path), None, Before::Directory);
        }
        for path in ["/dev/null", "/dev/zero"] {
            cases.add(word("write"), Path::new(path), None, Before::File);
        }

        let seen = errnos(&daemon, &probe, profile, &workspace.path, &cases.words).await;
        // Files that were only laid give results, too.
        let laid = |words: &&[String]| {
            words[0] == "lay" || (words[0] == "make-directory" && !cases_has(&cases.all, words))
        };
        let words: Vec<&[String]> = cases.words[1..].chunks(3).collect();
        assert_eq!(words.len(), seen.len());
        let tried: Vec<i32> = words
            .iter()
            .zip(&seen)
            .filter(|(words, errno)| {
                let only_laid = laid(words);
                assert!(
                    !only_laid || **errno == 0,
                    "{words:?} cannot be laid: {errno}"
                );
                !only_laid
            })
            .map(|(_, errno)| *errno)
            .collect();
        assert_eq!(tried.len(), cases.all.len());
        for (case, errno) in cases.all.iter().zip(tried) {
            let wanted = expected(case.explanation.verdict);
            compared += 1;
            if wanted == 0 {
                allowed += 1;
            } else {
                refused += 1;
            }
            let shows = effect(case);
            // The scratch directory is mounted at its place, and nothing moves between mounts, with any grants.
            let is_scratch = |path: &Path| path.starts_with(SCRATCH.0);
            let crosses = (case.destination.as_deref())
                .is_some_and(|target| is_scratch(&case.path) != is_scratch(target));
            if policy.view == HookView::Own && crosses && errno == libc::EXDEV {
                continue;
            }
            if errno != wanted || shows.is_some_and(|shows| shows != (wanted == 0)) {
                wrong.push(format!(
                    "{profile}: {} {} {:?}: expected {} ({}), seen {}, effect {shows:?}",
                    case.word,
                    case.path.display(),
                    case.destination,
                    name(wanted),
                    case.explanation.rule,
                    name(errno),
                ));
            }
        }
    }
    println!(
        "files, Landlock ABI {abi}: {compared} cases compared, {allowed} allowed, {refused} refused"
    );
    assert!(
        wrong.is_empty(),
        "{} of {compared}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(
        allowed > 150 && refused > 150,
        "{allowed} allowed, {refused} refused"
    );
}

/// Whether words are those of a case, and not of what is laid for one.
fn cases_has(cases: &[Case], words: &[String]) -> bool {
    cases.iter().any(|case| {
        let path = case
            .path
            .display()
            .to_string()
            .replace(SCRATCH.0, SCRATCH.1);
        case.word == words[0] && path == words[1]
    })
}

/// Returns a word of the probe with its operation.
fn word(word: &str) -> (&'static str, Operation) {
    let mut tried = TRIED.into_iter();
    let (word, operation, _) = tried.find(|(known, ..)| *known == word).unwrap();
    (word, operation)
}

#[tokio::test]
async fn the_grant_that_explain_names_is_enough_for_the_kernel() {
    let probe = Probe::build();
    let granted = directory();
    let root = granted.path().canonicalize().unwrap();
    let empty = Daemon::start().await;
    let user = probe.user(&empty).await;
    let abi = landlock_abi(&empty).await;
    let workspace = empty.workspace();
    let policy = bound(&empty, "strict", &workspace);
    let handled = explain::handled(abi);
    let reach = Reach::locate(&policy.files, None, handled).unwrap();

    let mut tries = BTreeMap::new();
    let of_one = TRIED.map(|(word, operation, _)| (word, operation));
    for (word, operation) in of_one.into_iter().chain(MOVED) {
        let mut cases = Cases {
            abi,
            all: Vec::new(),
            count: 0,
            reach: &reach,
            user,
            words: vec!["operations".to_owned()],
        };
        let place = place(root.join(word), user);
        if operation.has_destination() {
            let from = cases.lay(&place, Before::File);
            let target = cases.lay(&place, Before::Nothing);
            let tried = (word, operation);
            cases.add(tried, &from, Some((&target, Before::Nothing)), Before::File);
        } else {
            cases.try_at(&place);
        }
        // Of all that is laid in this place only one is tried: the grants of one profile may not serve another.
        let index = cases.all.iter().position(|case| case.word == word);
        let index = index.unwrap();
        let words: Vec<String> = ["operations".to_owned()]
            .into_iter()
            .chain(
                cases.words[1..]
                    .chunks(3)
                    .nth(index)
                    .unwrap()
                    .iter()
                    .cloned(),
            )
            .collect();
        let Some(Remedy::Grants(_)) = &cases.all[index].explanation.remedy else {
            continue;
        };
        let remedy = cases.all[index]
            .explanation
            .remedy
            .as_ref()
            .unwrap()
            .to_string();
        tries.insert(word, (remedy, words));
    }
    assert_eq!(tries.len(), 13, "{:?}", tries.keys());
    let profiles = tries.iter().map(|(name, (remedy, _))| {
        let text = format!("description = \"x\"\nextends = \"strict\"\n{remedy}\n");
        ((*name).to_owned(), text)
    });
    let daemon = Daemon::with(Setup {
        profiles: profiles.collect(),
        ..Setup::default()
    })
    .await;

    for (name, (remedy, words)) in &tries {
        let strict = errnos(&empty, &probe, "strict", &workspace, words).await;
        assert_ne!(strict, [0], "{name}");
        let granted = errnos(&daemon, &probe, name, &daemon.workspace(), words).await;
        assert_eq!(granted, [0], "{name}: {remedy}");
    }
}

/// Calls that would disturb the probe itself, or leave something behind, if they were let through.
const NOT_TRIED: [&str; 9] = [
    "exit",
    "exit_group",
    "fork",
    "msgget",
    "pause",
    "rt_sigreturn",
    "rt_sigsuspend",
    "sync",
    "vfork",
];

/// Arguments on which rules depend, beside all of them being -1. A call that is let through fails for harmless nonsense.
#[rustfmt::skip] // One line for each call.
const CALLS: &[(&str, &[&str])] = &[
    ("clone", &["flags=CLONE_SIGHAND|CLONE_NEWUSER"]),
    ("clone", &["flags=CLONE_THREAD"]),
    ("clone", &["flags=CLONE_THREAD|CLONE_NEWUSER"]),
    ("clone", &["flags=CLONE_THREAD|CLONE_NEWNET"]),
    ("clone", &["flags=CLONE_SIGHAND"]),
    ("clone", &["flags=CLONE_SIGHAND|CLONE_PARENT"]),
    ("clone", &["flags=CLONE_SIGHAND|CLONE_NEWNS"]),
    ("fcntl", &["fd=-1", "cmd=F_DUPFD"]),
    ("fcntl", &["fd=-1", "cmd=F_DUPFD_CLOEXEC"]),
    ("fcntl", &["fd=-1", "cmd=F_GETFD"]),
    ("fcntl", &["fd=-1", "cmd=F_GETFL"]),
    ("fcntl", &["fd=-1", "cmd=F_SETLK"]),
    ("fcntl", &["fd=-1", "cmd=F_OFD_SETLKW"]),
    ("fcntl", &["fd=-1", "cmd=F_SETOWN"]),
    ("fcntl", &["fd=-1", "cmd=F_SETLEASE"]),
    ("fcntl", &["fd=-1", "cmd=F_NOTIFY"]),
    ("fcntl", &["fd=-1", "cmd=F_SETPIPE_SZ"]),
    ("fcntl", &["fd=-1", "cmd=F_ADD_SEALS"]),
    ("fcntl", &["fd=-1", "cmd=10"]),
    // The kernel looks at the lower half only, and so must the rule.
    ("fcntl", &["fd=-1", "cmd=0x100000001"]),
    ("ioctl", &["fd=-1", "request=FIONREAD"]),
    ("ioctl", &["fd=-1", "request=FIOCLEX"]),
    ("ioctl", &["fd=-1", "request=TCGETS"]),
    ("ioctl", &["fd=-1", "request=TCGETS2"]),
    ("ioctl", &["fd=-1", "request=0x5a5a"]),
    ("ioctl", &["fd=-1", "request=TIOCGWINSZ"]),
    ("ioctl", &["fd=-1", "request=TIOCSTI"]),
    ("ioctl", &["fd=-1", "request=TCSETS"]),
    ("ioctl", &["fd=-1", "request=FIOASYNC"]),
    ("ioctl", &["fd=-1", "request=TIOCSCTTY"]),
    ("kill", &["pid=0", "sig=-1"]),
    ("prctl", &["option=PR_SET_NAME"]),
    ("prctl", &["option=PR_GET_DUMPABLE"]),
    ("prctl", &["option=PR_CAPBSET_READ"]),
    ("prctl", &["option=PR_SET_THP_DISABLE", "value=9"]),
    ("prctl", &["option=PR_SET_VMA"]),
    ("prctl", &["option=PR_SET_DUMPABLE", "value=99"]),
    ("prctl", &["option=PR_SET_PDEATHSIG", "value=99"]),
    ("prctl", &["option=PR_SET_SECCOMP", "value=99"]),
    ("prctl", &["option=PR_SET_MM", "value=99"]),
    ("prctl", &["option=PR_CAPBSET_DROP", "value=999"]),
    ("prctl", &["option=PR_SET_CHILD_SUBREAPER", "value=0"]),
    ("prctl", &["option=PR_SET_PDEATHSIG", "value=9"]),
    ("prlimit64", &["pid=0", "resource=999"]),
    ("prlimit64", &["pid=0", "resource=7", "new_limit=-1"]),
    ("prlimit64", &["pid=1", "resource=999"]),
    ("ioprio_set", &["which=IOPRIO_WHO_PROCESS", "who=0", "value=-1"]),
    ("ioprio_set", &["which=IOPRIO_WHO_PROCESS", "who=2147483647", "value=-1"]),
    ("ioprio_set", &["which=IOPRIO_WHO_USER", "who=0", "value=-1"]),
    ("sched_setaffinity", &["pid=0", "1=8", "2=-1"]),
    ("sched_setaffinity", &["pid=2147483647", "1=8", "2=-1"]),
    ("sched_setscheduler", &["pid=0", "policy=SCHED_BATCH", "2=-1"]),
    ("sched_setscheduler", &["pid=0", "policy=SCHED_IDLE|SCHED_RESET_ON_FORK", "2=-1"]),
    ("sched_setscheduler", &["pid=0", "policy=SCHED_FIFO", "2=-1"]),
    ("sched_setscheduler", &["pid=2147483647", "policy=SCHED_BATCH", "2=-1"]),
    ("setpriority", &["which=PRIO_PROCESS", "who=0", "value=0"]),
    ("setpriority", &["which=PRIO_PROCESS", "who=2147483647", "value=0"]),
    ("setpriority", &["which=PRIO_PGRP", "who=2147483647", "value=0"]),
    ("sendto", &["fd=-1"]),
    ("sendto", &["fd=-1", "address=-1"]),
    ("socket", &["domain=AF_INET", "type=SOCK_STREAM"]),
    ("socket", &["domain=AF_INET", "type=SOCK_STREAM|SOCK_CLOEXEC", "protocol=IPPROTO_TCP"]),
    ("socket", &["domain=AF_INET", "type=SOCK_DGRAM"]),
    ("socket", &["domain=AF_INET", "type=SOCK_DGRAM|SOCK_NONBLOCK", "protocol=IPPROTO_UDP"]),
    ("socket", &["domain=AF_INET6", "type=SOCK_STREAM"]),
    ("socket", &["domain=AF_INET6", "type=SOCK_DGRAM"]),
    ("socket", &["domain=AF_INET", "type=SOCK_STREAM", "protocol=IPPROTO_UDP"]),
    ("socket", &["domain=AF_INET", "type=SOCK_STREAM", "protocol=IPPROTO_MPTCP"]),
    ("socket", &["domain=AF_INET", "type=SOCK_DGRAM", "protocol=IPPROTO_ICMP"]),
    ("socket", &["domain=AF_INET", "type=99"]),
    ("socket", &["domain=AF_UNIX", "type=SOCK_STREAM"]),
    ("socket", &["domain=AF_NETLINK", "type=SOCK_DGRAM"]),
    ("socketpair", &["domain=AF_UNIX", "type=SOCK_STREAM"]),
    ("socketpair", &["domain=AF_UNIX", "type=SOCK_STREAM|SOCK_CLOEXEC"]),
    ("socketpair", &["domain=AF_UNIX", "type=SOCK_DGRAM"]),
    ("socketpair", &["domain=AF_UNIX", "type=SOCK_SEQPACKET"]),
    ("socketpair", &["domain=AF_INET", "type=SOCK_STREAM"]),
    ("open", &["path=0", "flags=O_RDONLY"]),
    ("open", &["path=0", "flags=O_RDONLY|O_TRUNC"]),
    ("openat", &["dirfd=-1", "path=0", "flags=O_WRONLY|O_TRUNC"]),
    ("openat", &["dirfd=-1", "path=0", "flags=O_RDONLY|O_TRUNC"]),
];

#[tokio::test]
async fn the_kernel_answers_system_calls_as_explain_says() {
    let probe = Probe::build();
    let daemon = Daemon::with(Setup {
        profiles: vec![("outbound".to_owned(), OUTBOUND.to_owned())],
        ..Setup::default()
    })
    .await;
    let user = probe.user(&daemon).await;
    let abi = landlock_abi(&daemon).await;
    let workspace = place(daemon.workspace().join("w"), user).path;
    let all = [Some(u64::MAX); 6];
    let numbers = syscalls::numbers().filter(|number| {
        let name = syscalls::name(*number).unwrap();
        !NOT_TRIED.contains(&name)
    });
    let mut calls: Vec<(u32, Arguments)> = numbers.map(|number| (number, all)).collect();
    // Numbers without a meaning yet.
    calls.extend([600, 1023].map(|number| (number, all)));
    calls.extend(CALLS.iter().map(|(name, texts)| {
        let number = number(name).unwrap();
        let texts: Vec<_> = texts.iter().map(|&text| text.to_owned()).collect();
        let arguments = parse_arguments(number, &texts).unwrap();
        (
            number,
            arguments.map(|argument| Some(argument.unwrap_or(0))),
        )
    }));

    let (mut compared, mut allowed, mut refused, mut killed, mut told_apart) = (0, 0, 0, 0, 0);
    let mut wrong = Vec::new();
    for profile in ["strict", "pipeline", "workspace-rw", "outbound"] {
        let spec = FilterSpec::new(&bound(&daemon, profile, &workspace), abi);
        let ask = |(number, arguments): &(u32, Arguments)| called(&spec, *number, arguments);
        let (deadly, harmless): (Vec<_>, Vec<_>) = calls
            .iter()
            .partition(|call| ask(call).verdict == Verdict::Killed);
        let words = |calls: &[&(u32, Arguments)]| {
            let mut words = vec!["calls".to_owned()];
            for (number, arguments) in calls {
                words.push(number.to_string());
                words.extend(arguments.map(|argument| argument.unwrap().to_string()));
            }
            words
        };
        let control = probe.unconfined(user, &words(&harmless), &workspace);
        let control = self::numbers(&control.said);
        let seen = errnos(&daemon, &probe, profile, &workspace, &words(&harmless)).await;
        assert_eq!(
            (control.len(), seen.len()),
            (harmless.len(), harmless.len())
        );
        for ((tried, seen), control) in harmless.iter().zip(seen).zip(control) {
            compared += 1;
            // A call that is let through ends as it does without hookjail.
            let wanted = match ask(tried).verdict {
                Verdict::Allowed => {
                    allowed += 1;
                    match (spec.view, tried.0) {
                        // In a tree of its own there is no other process to signal, and the hook leads a session already.
                        (HookView::Own, nr::kill) if tried.1[0] == Some(u64::MAX) => libc::ESRCH,
                        (HookView::Own, nr::setsid) => libc::EPERM,
                        _ => control,
                    }
                }
                Verdict::Refused(errno) => {
                    refused += 1;
                    told_apart += usize::from(errno != control);
                    errno
                }
                Verdict::Depends | Verdict::Killed => panic!("all arguments are known: {tried:?}"),
            };
            if seen != wanted {
                let rule = call(&spec, tried.0, &tried.1).rule;
                wrong.push(format!(
                    "{profile}: {:?}({:x?}): expected {} ({rule}), seen {}",
                    syscalls::name(tried.0),
                    tried.1,
                    name(wanted),
                    name(seen),
                ));
            }
        }
        // Each of these ends the probe, so each has a run of its own; the table is the same for all profiles.
        for tried in deadly.into_iter().filter(|_| profile == "strict") {
            compared += 1;
            killed += 1;
            let died = crate::attempts::run(&daemon, probe.hook(profile, &words(&[tried]))).await;
            if (died.kind, died.signal) != (pb::OutcomeKind::EscapeAttempt, Some(libc::SIGSYS)) {
                wrong.push(format!(
                    "{:?}: expected killed, seen {died:?}",
                    syscalls::name(tried.0)
                ));
            }
        }
    }
    println!(
        "syscalls: {compared} cases compared, {allowed} allowed, {refused} refused ({told_apart} of them answer \
         otherwise without hookjail), {killed} killed"
    );
    assert!(
        wrong.is_empty(),
        "{} of {compared}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(allowed > 200 && refused > 200 && told_apart > 200 && killed > 20);
}

#[tokio::test]
async fn the_kernel_lets_through_the_hosts_that_explain_says() {
    let probe = Probe::build();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let named =
        |port: u16| format!("{OUTBOUND}network = \"named\"\negress = [\"127.0.0.1:{port} any\"]\n");
    let listens = tcp.local_addr().unwrap().port();
    let daemon = Daemon::with(Setup {
        profiles: vec![
            ("outbound".to_owned(), OUTBOUND.to_owned()),
            ("named".to_owned(), named(listens)),
            ("named-other".to_owned(), named(listens ^ 1)),
        ],
        ..Setup::default()
    })
    .await;
    let abi = landlock_abi(&daemon).await;
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = |address: std::net::SocketAddr| address.port().to_string();
    let workspace = daemon.workspace();

    let mut verdicts = Vec::new();
    for profile in ["strict", "pipeline", "outbound", "named", "named-other"] {
        let policy = bound(&daemon, profile, &workspace);
        let spec = FilterSpec::new(&policy, abi);
        for (transport, words) in [
            (Transport::Tcp, ["tcp", &port(tcp.local_addr().unwrap())]),
            (Transport::Udp, ["udp", &port(udp.local_addr().unwrap())]),
        ] {
            let destination = format!("127.0.0.1:{}", words[1]).parse().unwrap();
            let egress = &policy.egress;
            let verdict = explain::host(&spec, egress, transport, &destination).verdict;
            let seen = probe.confined(&daemon, profile, &words).await;
            assert_eq!(seen.code, Some(expected(verdict)), "{profile} {words:?}");
            verdicts.push(verdict);
        }
    }
    let refused = Verdict::Refused(libc::EPERM);
    let not_named = Verdict::Refused(libc::EACCES);
    let allowed = Verdict::Allowed;
    assert_eq!(verdicts[..4], [refused; 4]);
    let rest = [allowed, allowed, allowed, refused, not_named, refused];
    assert_eq!(verdicts[4..], rest);
}

/// Returns the daemon's preview of a request.
async fn preview(
    daemon: &Daemon,
    request: pb::ExecuteRequest,
) -> Result<pb::PreviewResponse, Status> {
    let request = pb::PreviewRequest {
        request: Some(request),
    };
    let response = daemon.client().preview(request).await;
    response.map(tonic::Response::into_inner)
}

#[tokio::test]
async fn a_preview_tells_what_a_run_gets_and_nothing_runs_or_is_written() {
    let daemon = Daemon::start().await;
    let witness = daemon.workspace().join("witness");
    let mut request = writing(&daemon, &format!("env; echo ran > {}", witness.display()));
    let hook = request.hook.as_mut().unwrap();
    hook.env
        .insert("HOOK_SECRET".to_owned(), "value".to_owned());
    request.event = Some(pb::Event {
        json: b"{\"a\":1}".to_vec().into(),
        ..pb::Event::default()
    });

    let preview_answer = preview(&daemon, request.clone()).await.unwrap();
    assert_eq!(preview_answer.refusal, None);
    assert!(!witness.exists());
    assert_eq!(daemon.records(), [""; 0]);
    // That of the self-test.
    until_clean(&daemon).await;
    // This daemon accepts every hook, and puts on its list what it runs.
    let allowlist = daemon.path().join("state/allowlist.json");
    assert!(!allowlist.exists());
    assert!(
        !format!("{preview_answer:?}").contains("value"),
        "{preview_answer:?}"
    );

    let ran = daemon.run(request.clone()).await.unwrap();
    assert!(witness.exists() && allowlist.exists());
    assert_eq!(daemon.records(), ["started", "ended"]);
    let facts = |confinement: Option<pb::Confinement>| pb::Confinement {
        evidence: Vec::new(),
        ..confinement.unwrap()
    };
    assert_eq!(
        facts(preview_answer.confinement.clone()),
        facts(ran.confinement)
    );
    let environment = String::from_utf8_lossy(&ran.stdout).into_owned();
    // The shell adds its own.
    for name in &preview_answer.environment_names {
        assert!(
            environment.contains(&format!("{name}=")),
            "{name}: {environment}"
        );
    }
    assert!(
        preview_answer
            .environment_names
            .contains(&"HOOK_SECRET".to_owned())
    );
    let started = &daemon.journal()[0];
    let argv: Vec<_> = preview_answer.argv.iter().map(String::as_str).collect();
    assert_eq!(
        argv,
        ["/bin/sh", "-c", &request.hook.as_ref().unwrap().argv[2]]
    );
    assert_eq!(
        started["digests"][0]["sha256"],
        preview_answer.files[0].sha256.as_str()
    );
    assert_eq!(
        started["timeout_ms"],
        preview_answer.timeout.unwrap().seconds * 1000
    );
    assert_eq!(
        (preview_answer.consent.as_str(), preview_answer.stdin_bytes),
        ("environment", 7)
    );
    assert_eq!(
        preview_answer.working_dir,
        daemon.workspace().display().to_string()
    );
    assert_eq!(
        (
            preview_answer.network.as_str(),
            preview_answer.spawn.as_str(),
            preview_answer.metadata.as_str()
        ),
        ("none", "processes", "change")
    );
    let grant = |path: &str, access: &str, origin: &str| pb::Grant {
        access: access.to_owned(),
        origin: origin.to_owned(),
        path: path.to_owned(),
    };
    let shell = Path::new("/bin/sh").canonicalize().unwrap();
    for expected in [
        grant(&daemon.workspace().display().to_string(), "write", "named"),
        grant("/usr", "execute", "system"),
        grant("/dev/null", "write-file", "system"),
        grant(shell.to_str().unwrap(), "execute", "hook"),
        grant("", "write", "scratch"),
    ] {
        assert!(
            preview_answer.grants.contains(&expected),
            "{expected:?}: {:?}",
            preview_answer.grants
        );
    }

    let again = preview(&daemon, request).await.unwrap();
    assert_eq!(again.consent, "allowlist");
}

#[tokio::test]
async fn a_preview_refuses_what_a_run_refuses_for_the_same_reason_and_says_how_far_it_came() {
    let daemon = Daemon::with(Setup {
        ask_for_consent: true,
        shipped: &["network"],
        ..Setup::default()
    })
    .await;
    let accepting = Daemon::offering(&["network"]).await;
    let mut widened = hook(["/bin/true"]);
    widened.narrow = Some(pb::Narrow {
        read: vec!["/etc".to_owned()],
        ..pb::Narrow::default()
    });
    let mut missing = hook(["/bin/true"]);
    "workspace-ro".clone_into(&mut missing.profile);
    missing.hook.as_mut().unwrap().workspace =
        accepting.workspace().join("missing").display().to_string();
    let mut network = hook(["/bin/true"]);
    "network".clone_into(&mut network.profile);
    let mut unknown = hook(["/bin/true"]);
    "no-such".clone_into(&mut unknown.profile);
    let mut late = hook(["/bin/true"]);
    late.timeout = Some(prost_types::Duration {
        seconds: 1_000_000,
        nanos: 0,
    });
    let cases = [
        (&daemon, hook(["/bin/true"]), "CONSENT_REQUIRED", 0),
        (&accepting, network, "NOT_ALLOWLISTED", 0),
        (&accepting, unknown, "PROFILE_UNKNOWN", 0),
        (&accepting, widened, "PROFILE_WIDENED", 1),
        (&accepting, missing, "GRANT_MISSING", 1),
    ];
    for (daemon, mut request, expected, files) in cases {
        "the-same".clone_into(&mut request.request_id);
        let previewed = preview(daemon, request.clone()).await.unwrap();
        let records = daemon.records().len();
        let status = daemon.run(request).await.unwrap_err();
        let refusal = previewed.refusal.unwrap();
        assert_eq!(refusal.reason, expected);
        assert_eq!(refusal.reason, reason(&status));
        assert_eq!(refusal.message, status.message());
        let details = status.get_error_details();
        let metadata = details.error_info().unwrap().metadata.clone();
        assert_eq!(refusal.metadata, metadata.into_iter().collect());
        assert_eq!(previewed.files.len(), files, "{expected}");
        // The run's own refusal is the only one that is written down.
        assert_eq!(daemon.records().len(), records + 1);
    }
    // An invalid request has no preview.
    for request in [late, pb::ExecuteRequest::default()] {
        let previewed = preview(&accepting, request.clone()).await.unwrap_err();
        let status = accepting.run(request).await.unwrap_err();
        assert_eq!(
            (previewed.code(), previewed.message()),
            (status.code(), status.message())
        );
        assert_eq!(reason(&previewed), "INVALID_REQUEST");
    }
}

#[test]
fn a_dry_run_exits_with_0_where_it_would_run_and_with_125_where_it_would_not() {
    let line = CommandLine::new();
    let workspace = line.path().join("workspace");
    fs::create_dir(&workspace).unwrap();
    let witness = workspace.join("witness");
    let script = format!("echo ran > {}", witness.display());
    let words = [
        "run",
        "--dry-run",
        "--workspace",
        workspace.to_str().unwrap(),
    ];
    let run = |more: &[&str]| line.run(&[&words, more, &["--", "/bin/sh", "-c", &script]].concat());

    let shown = run(&[]);
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert_eq!(shown.status.code(), Some(0), "{shown:?}");
    assert!(
        text.starts_with("dry run     the hook would run\n"),
        "{text}"
    );
    assert!(text.contains("confirmed by its self-test"), "{text}");
    let dry_run = one_line(&run(&["--json", "--profile", "pipeline"]));
    assert_eq!(dry_run["confinement"]["profile"], "pipeline");
    assert_eq!(dry_run["consent"], "typed");

    let refused = run(&["--json", "--profile", "no-such"]);
    assert_eq!(refused.status.code(), Some(125));
    assert_eq!(one_line(&refused)["refusal"]["reason"], "PROFILE_UNKNOWN");
    assert!(!witness.exists());
    let journal = fs::read(line.path().join("state/audit/journal.jsonl"));
    assert!(journal.is_ok_and(|journal| journal.is_empty()));
}

#[test]
fn explain_answers_on_the_command_line_by_the_operators_profiles() {
    let line = CommandLine::new();
    let profiles = line.path().join("profiles");
    fs::create_dir(&profiles).unwrap();
    fs::set_permissions(&profiles, fs::Permissions::from_mode(0o755)).unwrap();
    let root = line.path().canonicalize().unwrap();
    let data = root.join("data");
    fs::create_dir(&data).unwrap();
    fs::write(data.join("file"), "").unwrap();
    let text = format!(
        "description = \"x\"\nextends = \"strict\"\n[files]\nnamed = [{{ path = {data:?}, access = \"read\" }}]\n"
    );
    fs::write(profiles.join("data.toml"), text).unwrap();
    let config = root.join("with-profiles.toml");
    let text = fs::read_to_string(root.join("hookjail.toml")).unwrap();
    fs::write(
        &config,
        format!("{text}\n[profiles]\ndirs = [{profiles:?}]\n"),
    )
    .unwrap();
    fs::set_permissions(&config, fs::Permissions::from_mode(0o600)).unwrap();
    let file = data.join("file").display().to_string();
    let journal = root.join("state/audit").display().to_string();
    let ask = |words: &[&str]| {
        let words = [&["explain", "--json"], words].concat();
        let output = hookjail(&config, &words)
            .env("HOME", &root)
            .output()
            .unwrap();
        (output.status.code(), output)
    };

    let table: [(&[&str], i32); 12] = [
        (&["path", "read", &file], 1),
        (&["--profile", "data", "path", "read", &file], 0),
        (&["path", "read", &file, "--profile", "data"], 0),
        (&["--profile", "data", "path", "write", &file], 1),
        (&["path", "rename", "${scratch}/a", "${scratch}/b"], 0),
        (&["path", "rename", &file], 2),
        (&["path", "juggle", &file], 2),
        (&["host", "localhost:80"], 1),
        (&["host", "localhost"], 2),
        (&["syscall", "clone", "flags=CLONE_THREAD"], 0),
        (&["syscall", "clone"], 1),
        (&["syscall", "no_such_call"], 2),
    ];
    for (words, code) in table {
        assert_eq!(ask(words).0, Some(code), "{words:?}");
    }
    assert_eq!(
        ask(&["--profile", "no-such", "path", "read", "/"]).0,
        Some(2)
    );

    let answer = one_line(&ask(&["path", "read", &file]).1);
    assert_eq!(
        (&answer["verdict"], &answer["errno"]),
        (&"REFUSED".into(), &"EACCES".into())
    );
    assert_eq!(answer["by"], "landlock");
    let grant = format!("files.named = [{{ path = {file:?}, access = \"read\" }}]");
    assert_eq!(answer["toAllow"], grant.as_str());
    let answer = one_line(&ask(&["path", "read", &journal]).1);
    let why = answer["toAllow"].as_str().unwrap();
    assert!(why.contains("the daemon's own"), "{why}");
    let plain = line.run(&["explain", "syscall", "unshare"]);
    let text = String::from_utf8_lossy(&plain.stdout);
    assert!(
        text.contains("under profile strict: killed (SIGSYS)\n"),
        "{text}"
    );
    // Nothing was asked of a daemon, and nothing was made.
    assert!(!root.join("state").exists() && !root.join("run").exists());
}

#[test]
fn what_explain_says_of_a_file_that_is_missing_is_what_a_warning_says_and_allows_it() {
    let line = CommandLine::new();
    let root = line.path().canonicalize().unwrap();
    let (config, profiles) = (root.join("hookjail.toml"), root.join("profiles"));
    fs::create_dir(&profiles).unwrap();
    fs::set_permissions(&profiles, fs::Permissions::from_mode(0o755)).unwrap();
    let log = root.join("agent.log");
    let mut text = fs::read_to_string(&config).unwrap();
    let command = format!("echo x >>{}", log.display());
    text.push_str(&format!(
        "[profiles]\ndirs = [{profiles:?}]\n[[hook]]\ncontract = \"docker_agent\"\npoint = \"turn_end\"\ncommand = {command:?}\n"
    ));
    fs::write(&config, text).unwrap();
    let explanation = line.run(&["explain", "--json", "path", "write", log.to_str().unwrap()]);
    let explanation = one_line(&explanation)["toAllow"]
        .as_str()
        .unwrap()
        .to_owned();
    let checked = line.run(&["hooks", "list"]);
    let warned = String::from_utf8([checked.stdout, checked.stderr].concat()).unwrap();
    assert!(warned.contains(&explanation), "{explanation}: {warned}");
    let profile = format!("description = \"x\"\nextends = \"strict\"\n{explanation}\n");
    fs::write(profiles.join("logs.toml"), profile).unwrap();

    let run = line.run(&["run", "--private", "--profile", "logs", "--", "/bin/true"]);

    assert_eq!(run.status.code(), Some(0), "{explanation}: {run:?}");
}
