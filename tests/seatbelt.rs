//! Seatbelt profiles without a Mac. A model of the language (`tests/testenv/sbpl-check.scm`, which needs Guile) loads generated
//! profiles, and must decide as an oracle does that has the policy and no rules.
//!
//! The model is ours, not Apple's. This model shows that the profile agrees with the policy; only a Mac can show that macOS enforces
//! the profile.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::{
    fmt::Write as _,
    fs,
    io::{Seek as _, Write as _},
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    sync::LazyLock,
};

use hookjail::{
    model::Narrow,
    policy::{
        Access, GrantPlace, GrantSpec, Keep, Metadata, Network, Policy, Registry, Spawn,
        narrow::{Bindings, narrow},
    },
};
use hookjail_policy::rights::Rights;
use hookjail_sandbox::seatbelt::{Generated, Granted, Kept, Places, profile};
use proptest::{prelude::*, strategy::ValueTree, test_runner::TestRunner};
use serde_json::Value;

const CASES: usize = 10_000;

/// The number of the paths around one that are asked about where everything is.
const NEAREST: usize = 2;

#[test]
fn the_profiles_in_the_tree_are_those_of_the_code() {
    for (name, scene) in shipped() {
        let generated = scene.generated();
        let parameters: String = generated
            .parameters
            .iter()
            .map(|p| format!("{}={}\n", p.key, p.path.display()))
            .collect();
        for (kind, text) in [("sb", &generated.text), ("parameters", &parameters)] {
            let path = fixture(&format!("{name}.{kind}"));
            if std::env::var_os("UPDATE_DOCS").is_some() {
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(&path, text).unwrap();
            }
            let kept = fs::read_to_string(&path).unwrap_or_default();
            assert_eq!(
                kept,
                *text,
                "{}: run this test with UPDATE_DOCS=1",
                path.display()
            );
        }
    }
}

fn ask(model: &mut Model, scene: &Scene, question: Asked) {
    let answer = scene.expected(&question);
    model.ask(question, answer);
}

/// A policy and the Mac it runs on.
#[derive(Clone, Debug)]
struct Scene {
    closed: Vec<PathBuf>,
    kept: Vec<Kept>,
    own: Vec<Seen>,
    policy: Settings,
    program: PathBuf,
    scratch: PathBuf,
    seen: Vec<Seen>,
    witness: PathBuf,
}

/// The parts of a policy that decide, beside its files.
#[derive(Clone, Copy, Debug)]
struct Settings {
    metadata: Metadata,
    network: Network,
    spawn: Spawn,
}

/// A grant, and what was found there.
#[derive(Clone, Debug)]
struct Seen {
    access: Access,
    is_directory: bool,
    path: PathBuf,
}

impl Seen {
    fn granted(&self) -> Granted {
        Granted {
            path: self.path.clone(),
            rights: Rights::for_access(self.access, self.is_directory),
        }
    }

    fn reaches(&self, path: &Path) -> bool {
        path == self.path || self.is_directory && path.starts_with(&self.path)
    }

    /// Whether a name in it can be made and removed.
    fn holds(&self, path: &Path) -> bool {
        self.is_directory && path != self.path && path.starts_with(&self.path)
    }
}

impl Scene {
    fn new(network: Network, spawn: Spawn, metadata: Metadata, seen: Vec<Seen>) -> Self {
        Self {
            closed: Vec::new(),
            kept: Vec::new(),
            own: Vec::new(),
            policy: Settings {
                metadata,
                network,
                spawn,
            },
            program: "/opt/hooks/program".into(),
            scratch: "/private/var/folders/zz/hookjail/run/tmp".into(),
            seen,
            witness: "/opt/hookjail/bin/hookjail".into(),
        }
    }

    fn generated(&self) -> Generated {
        let mut policy = strict();
        policy.metadata = self.policy.metadata;
        policy.network = self.policy.network;
        policy.spawn = self.policy.spawn;
        let granted: Vec<_> = self.seen.iter().map(Seen::granted).collect();
        let own_grants: Vec<_> = self.own.iter().map(Seen::granted).collect();
        let places = Places {
            closed: &self.closed,
            granted: &granted,
            kept: &self.kept,
            own: &own_grants,
            program: &self.program,
            scratch: &self.scratch,
            witness: &self.witness,
        };
        profile(&policy, &places).unwrap()
    }

    /// The oracle: the answer by the policy, without rules and their order.
    fn expected(&self, question: &Asked) -> &'static str {
        let is_allowed = match question {
            Asked::Path(operation, path, kind) => self.allows(operation, path, *kind),
            Asked::Plain(operation) => {
                *operation == "process-fork" && self.policy.spawn == Spawn::Processes
            }
            Asked::Process(_, target) => {
                *target == "self"
                    || *target == "same-sandbox" && self.policy.spawn == Spawn::Processes
            }
            Asked::Call("SYS_posix_spawn") => return "deny ENOSYS",
            Asked::Call(name) => match *name {
                "SYS_setsid" | "SYS_setpgid" => false,
                "SYS_socket" => self.policy.network == Network::Outbound,
                _ => true,
            },
            Asked::Peer(operation, protocol) => {
                *operation == "network-outbound"
                    && self.policy.network == Network::Outbound
                    && matches!(*protocol, "tcp" | "udp")
            }
            Asked::Value(operation, name) => {
                *operation == "sysctl-read" && !name.starts_with("kern.proc")
            }
            Asked::Service(operation, name) => {
                *operation == "mach-lookup"
                    && self.policy.network == Network::Outbound
                    && (name.starts_with("com.apple.SystemConfiguration.")
                        || name.starts_with("com.apple.trustd"))
            }
        };
        if is_allowed { "allow" } else { "deny" }
    }

    fn allows(&self, operation: &str, path: &Path, kind: Option<&str>) -> bool {
        let outbound = self.policy.network == Network::Outbound;
        let run = [&self.program, &self.witness].map(|path| Seen {
            access: Access::Execute,
            is_directory: false,
            path: path.clone(),
        });
        let is_closed = self.closed.iter().any(|closed| path.starts_with(closed));
        // In what is the daemon's own, only what is the run's own counts.
        let granted = || self.seen.iter().filter(|_| !is_closed);
        let all = || granted().chain(&self.own).chain(&run);
        let has = |accesses: &[Access]| {
            all().any(|seen| accesses.contains(&seen.access) && seen.reaches(path))
        };
        let in_scratch = path.starts_with(&self.scratch);
        let below_scratch = in_scratch && path != self.scratch;
        let is_library = !is_closed && LIBRARIES.iter().any(|library| path.starts_with(library));
        let is_entry = matches!(operation, "file-write-create" | "file-write-unlink");
        let is_kept = self.kept.iter().any(|kept| {
            let is_changed = operation.starts_with("file-write-");
            let is_used =
                is_changed || !matches!(operation, "file-read-metadata" | "file-test-existence");
            match kept.keep {
                Keep::Hidden => is_used && path.starts_with(&kept.path),
                Keep::Name => is_entry && path == kept.path,
                Keep::Empty | Keep::Unchanged => {
                    is_changed && path.starts_with(&kept.path) || is_entry && path == kept.path
                }
            }
        });
        if is_kept {
            return false;
        }
        match operation {
            "file-read-metadata" | "file-test-existence" => true,
            "file-read-data" | "file-read-xattr" => {
                let names = [
                    "/private/etc/hosts",
                    "/private/etc/services",
                    "/private/var/run/resolv.conf",
                ];
                has(&[
                    Access::Execute,
                    Access::Read,
                    Access::Write,
                    Access::WriteFile,
                ]) || in_scratch
                    || !is_closed
                        && (is_library
                            || path == Path::new("/")
                            || path == Path::new("/private/var/select/sh")
                            || path.starts_with("/private/var/db/timezone")
                            || outbound && path.starts_with("/private/etc/ssl")
                            || outbound && names.iter().any(|name| path == Path::new(name)))
            }
            "file-map-executable" => is_library || has(&[Access::Execute, Access::Write]),
            "process-exec" | "process-exec-interpreter" => has(&[Access::Execute, Access::Write]),
            "file-write-data" => in_scratch || has(&[Access::Write, Access::WriteFile]),
            "file-write-create" | "file-write-unlink" => {
                let is_plain =
                    matches!(kind, None | Some("DIRECTORY" | "REGULAR-FILE" | "SYMLINK"));
                let is_entry = below_scratch
                    || all().any(|seen| seen.access == Access::Write && seen.holds(path));
                is_entry && (is_plain || operation == "file-write-unlink")
            }
            "file-write-acl" | "file-write-flags" | "file-write-mode" | "file-write-owner"
            | "file-write-times" | "file-write-xattr" => {
                self.policy.metadata == Metadata::Change && (in_scratch || has(&[Access::Write]))
            }
            "network-outbound" => outbound && path == Path::new("/private/var/run/mDNSResponder"),
            "file-clone" | "file-ioctl" | "file-link" | "file-mount" | "file-revoke"
            | "file-search" | "file-write-setugid" => false,
            other => panic!("the oracle has no answer for {other}"),
        }
    }

    /// Everything there is to ask about it.
    fn questions(&self) -> Vec<Asked> {
        let mut paths: Vec<PathBuf> = self.paths();
        let around: Vec<_> = paths
            .iter()
            .flat_map(|path| around(path).into_iter().take(NEAREST))
            .collect();
        paths.extend(around);
        paths.sort();
        paths.dedup();
        let mut all: Vec<_> = paths
            .iter()
            .flat_map(|path| {
                let kinds =
                    KINDS.map(|kind| Asked::Path("file-write-create", path.clone(), Some(kind)));
                PATH_OPERATIONS
                    .map(|operation| Asked::Path(operation, path.clone(), None))
                    .into_iter()
                    .chain(kinds)
            })
            .collect();
        all.extend(plain());
        all
    }

    /// Every path that it is about.
    fn paths(&self) -> Vec<PathBuf> {
        let granted = self
            .seen
            .iter()
            .chain(&self.own)
            .map(|seen| seen.path.clone());
        let fixed = OF_EVERY_MAC.iter().chain(LIBRARIES).map(PathBuf::from);
        let run = [&self.program, &self.scratch, &self.witness].map(PathBuf::clone);
        granted
            .chain(run)
            .chain(self.closed.clone())
            .chain(self.kept.iter().map(|kept| kept.path.clone()))
            .chain(fixed)
            .collect()
    }
}

/// One question to a profile.
#[derive(Clone, Debug)]
enum Asked {
    /// A syscall.
    Call(&'static str),
    /// An operation on a path, by a file of a type.
    Path(&'static str, PathBuf, Option<&'static str>),
    /// An operation towards a peer of a protocol.
    Peer(&'static str, &'static str),
    /// An operation about nothing in particular.
    Plain(&'static str),
    /// An operation on a process.
    Process(&'static str, &'static str),
    /// An operation on a service.
    Service(&'static str, &'static str),
    /// An operation on a value of the kernel's.
    Value(&'static str, &'static str),
}

impl Asked {
    fn write(&self, input: &mut String) {
        let (operation, attribute, value) = match self {
            Self::Call(name) => ("syscall-unix", "syscall", (*name).to_owned()),
            Self::Path(operation, path, _) => (*operation, "path", scheme(path.to_str().unwrap())),
            Self::Peer(operation, protocol) => (*operation, "remote", (*protocol).to_owned()),
            Self::Plain(operation) => {
                return writeln!(input, "(ask {operation} ())").unwrap();
            }
            Self::Process(operation, target) => (*operation, "target", (*target).to_owned()),
            Self::Service(operation, name) => (*operation, "service", scheme(name)),
            Self::Value(operation, name) => (*operation, "sysctl", scheme(name)),
        };
        write!(input, "(ask {operation} (({attribute} . {value})").unwrap();
        if let Self::Path(_, _, Some(kind)) = self {
            write!(input, " (vnode-type . {kind})").unwrap();
        }
        input.push_str("))\n");
    }
}

/// A question made up before the scene is known.
#[derive(Clone, Debug)]
enum Sketch {
    Done(Asked),
    /// An operation on a path of the scene, or on one around it.
    Path(
        &'static str,
        prop::sample::Index,
        prop::sample::Index,
        Option<&'static str>,
    ),
}

impl Sketch {
    fn about(self, scene: &Scene) -> Asked {
        match self {
            Self::Done(question) => question,
            Self::Path(operation, which, near, kind) => {
                let paths = scene.paths();
                let path = which.get(&paths);
                let mut around = around(path);
                around.push(path.clone());
                Asked::Path(operation, near.get(&around).clone(), kind)
            }
        }
    }
}

/// Paths that a wrong rule about a path could be about.
fn around(path: &Path) -> Vec<PathBuf> {
    let text = path.to_str().unwrap();
    let mut around = vec![
        path.join("below"),
        format!("{text}x").into(),
        path.join("below/it"),
        text.to_uppercase().into(),
        path.parent().unwrap_or(path).to_owned(),
    ];
    around.dedup();
    around
}

/// Paths that a path could be mistaken for where it is read as something else.
fn mistaken_for(text: &str) -> Vec<PathBuf> {
    let without = |marks: &[char]| text.replace(marks, "");
    let mut shorter = text.to_owned();
    shorter.pop();
    let mut all = vec![
        format!("{text}/below"),
        format!("{text}x"),
        format!("{text} "),
        shorter,
        text.to_uppercase(),
        without(&['"', '\\', '\n', '(', ')', '#', ';', '*', '.', '$']),
        text.replace('*', "anything"),
        text.replace('\\', "\\\\"),
        text.replace('\n', "\\n"),
        text.replace('\n', " "),
        text.replace('"', "\\\""),
        text.split(['"', ';', '\n', '=']).next().unwrap().to_owned(),
        "/Users/u".to_owned(),
        "/Users/u/other".to_owned(),
        "/".to_owned(),
    ];
    // Not one of the other spellings of a path that no kernel asks about.
    all.retain(|text| text == "/" || !text.ends_with('/'));
    all.into_iter().map(PathBuf::from).collect()
}

/// Scenes made up by chance: few names, so that grants lie in each other and beside each other.
fn scene() -> impl Strategy<Value = Scene> {
    let accesses = prop::sample::select(vec![
        Access::Execute,
        Access::Read,
        Access::Write,
        Access::WriteFile,
    ]);
    let seen = (accesses, any::<bool>(), path()).prop_map(|(access, is_directory, path)| Seen {
        access,
        is_directory: is_directory && access != Access::WriteFile,
        path,
    });
    let programs = (
        prop::sample::select(vec![Access::Execute, Access::Read]),
        path(),
    )
        .prop_map(|(access, path)| Seen {
            access,
            is_directory: false,
            path,
        });
    let keep = prop::sample::select(vec![Keep::Hidden, Keep::Name, Keep::Unchanged]);
    let kept = (path(), keep).prop_map(|(path, keep)| Kept { keep, path });
    let settings = (
        prop::sample::select(vec![Network::None, Network::Outbound]),
        prop::sample::select(vec![Spawn::Processes, Spawn::Threads]),
        prop::sample::select(vec![Metadata::Change, Metadata::Keep]),
    );
    (
        settings,
        prop::collection::vec(seen, 0..4),
        prop::collection::vec(programs, 0..2),
        prop::collection::vec(path(), 0..2),
        prop::collection::vec(kept, 0..3),
        path(),
        path(),
    )
        .prop_map(
            |((network, spawn, metadata), seen, programs, closed, kept, program, scratch)| Scene {
                closed,
                kept,
                own: programs,
                program,
                scratch,
                ..Scene::new(network, spawn, metadata, seen)
            },
        )
}

fn path() -> impl Strategy<Value = PathBuf> {
    let roots = prop::sample::select(vec![
        "/Users/u",
        "/private/tmp",
        "/usr/lib",
        "/opt",
        "/private/etc/ssl",
        "/System/Library",
    ]);
    let names = prop::sample::select([HOSTILE, &["a", "b", "ab", "A"]].concat());
    (roots, prop::collection::vec(names, 1..4)).prop_map(|(root, names)| {
        names
            .iter()
            .fold(PathBuf::from(root), |path, name| path.join(name))
    })
}

fn sketch() -> impl Strategy<Value = Sketch> {
    let operation = prop::sample::select(PATH_OPERATIONS.to_vec());
    let index = any::<prop::sample::Index>;
    let kind = prop::option::of(prop::sample::select(KINDS.to_vec()));
    let path = (operation, index(), index(), kind)
        .prop_map(|(operation, which, near, kind)| Sketch::Path(operation, which, near, kind));
    prop_oneof![
        3 => path,
        1 => prop::sample::select(plain()).prop_map(Sketch::Done),
    ]
}

/// Questions about anything but paths.
fn plain() -> Vec<Asked> {
    let mut all = vec![
        Asked::Peer("network-outbound", "unix-socket"),
        Asked::Peer("network-outbound", "tcp"),
        Asked::Peer("network-outbound", "udp"),
        Asked::Peer("network-bind", "tcp"),
        Asked::Peer("network-inbound", "udp"),
        Asked::Plain("network-outbound"),
        Asked::Plain("network-bind"),
        Asked::Plain("process-fork"),
        Asked::Plain("process-info-listpids"),
        Asked::Plain("iokit-get-properties"),
        Asked::Plain("nvram-get"),
        Asked::Plain("user-preference-read"),
        Asked::Plain("pseudo-tty"),
        Asked::Plain("system-privilege"),
        Asked::Service("mach-register", "com.apple.trustd.agent"),
    ];
    all.extend(CLOSED.iter().map(|operation| Asked::Plain(operation)));
    all.extend(
        [
            "SYS_getpid",
            "SYS_posix_spawn",
            "SYS_setpgid",
            "SYS_setsid",
            "SYS_socket",
        ]
        .map(Asked::Call),
    );
    for operation in ["signal", "process-info-pidinfo", "process-info-setcontrol"] {
        all.extend(
            ["self", "same-sandbox", "others"].map(|target| Asked::Process(operation, target)),
        );
    }
    all.extend(
        [
            "com.apple.SystemConfiguration.DNSConfiguration",
            "com.apple.SystemConfiguration.configd",
            "com.apple.trustd",
            "com.apple.trustd.agent",
            "com.apple.securityd.xpc",
            "com.apple.coreservices.appleevents",
        ]
        .map(|name| Asked::Service("mach-lookup", name)),
    );
    for name in [
        "hw.ncpu",
        "machdep.cpu.brand_string",
        "kern.osversion",
        "kern.argmax",
        "kern.proc.all",
        "kern.procargs2.1",
    ] {
        all.push(Asked::Value("sysctl-read", name));
        all.push(Asked::Value("sysctl-write", name));
    }
    all
}

/// A scene in which every rule has something to decide.
fn everything() -> Scene {
    let seen = |access, is_directory, path: &str| Seen {
        access,
        is_directory,
        path: path.into(),
    };
    Scene {
        closed: vec!["/Users/u/state".into()],
        own: vec![seen(Access::Read, false, "/opt/canary")],
        ..Scene::new(
            Network::Outbound,
            Spawn::Processes,
            Metadata::Change,
            vec![
                seen(Access::Execute, true, "/usr"),
                seen(Access::Read, true, "/opt/rules"),
                seen(Access::Write, true, "/Users/u"),
                seen(Access::WriteFile, false, "/dev/null"),
            ],
        )
    }
}

/// Returns the shipped profiles, each with a workspace, on a Mac.
fn shipped() -> Vec<(String, Scene)> {
    let registry = Registry::builtin().unwrap();
    // Seatbelt reaches no hosts by name.
    let served = registry.iter();
    let served = served.filter(|policy| policy.network != Network::Named);
    let all: Vec<_> = served
        .map(|policy| {
            let bound = narrow(
                policy,
                Bindings::workspace(Some("/Users/user/project".as_ref())),
                &Narrow::default(),
            )
            .unwrap();
            let files = bound.files.system.iter().chain(&bound.files.named);
            let seen = files.filter_map(on_a_mac).collect();
            let project = Path::new("/Users/user/project");
            let read_only = bound.files.read_only.iter().map(|kept| Kept {
                keep: Keep::Unchanged,
                path: project.join(&kept.below),
            });
            let around = read_only.clone().next().map(|_| Kept {
                keep: Keep::Name,
                path: project.join(".git"),
            });
            let scene = Scene {
                kept: around.into_iter().chain(read_only).collect(),
                closed: vec!["/Users/user/Library/Application Support/hookjail".into()],
                own: [
                    (Access::Execute, "/Users/user/project/hooks/check.sh"),
                    (
                        Access::Read,
                        "/Users/user/Library/Application Support/hookjail/run/instance-1/granted-1",
                    ),
                ]
                .map(|(access, path)| Seen {
                    access,
                    is_directory: false,
                    path: path.into(),
                })
                .into(),
                program: "/bin/sh".into(),
                scratch:
                    "/Users/user/Library/Application Support/hookjail/run/instance-1/run-1/tmp"
                        .into(),
                ..Scene::new(bound.network, bound.spawn, bound.metadata, seen)
            };
            (policy.name.to_string(), scene)
        })
        .collect();
    assert_eq!(all.len(), 9);
    all
}

/// Where the optional grants of shipped profiles lie that are not looked for on the model's Mac.
const OF_OTHER_SYSTEMS: [&str; 5] = ["/etc/", "/home/linuxbrew", "/nix", "/run/", "/snap"];

/// Returns where a path of the shipped profiles leads on a Mac, if it is there.
fn on_a_mac(grant: &GrantSpec) -> Option<Seen> {
    let path = match &grant.place {
        GrantPlace::Path(path) => path,
        // None of them is there.
        GrantPlace::Entries(_) => return None,
        unbound @ (GrantPlace::Source { .. } | GrantPlace::Workspace { .. }) => {
            panic!("{unbound} is not bound")
        }
    };
    let (path, is_directory) = match path.to_str().unwrap() {
        directory @ ("/bin" | "/opt" | "/sbin" | "/usr" | "/Users/user/project") => {
            (directory, true)
        }
        file @ ("/dev/null" | "/dev/random" | "/dev/urandom" | "/dev/zero") => (file, false),
        "/etc/group" => ("/private/etc/group", false),
        "/etc/passwd" => ("/private/etc/passwd", false),
        "/etc/shells" => ("/private/etc/shells", false),
        "/etc/hosts" => ("/private/etc/hosts", false),
        "/etc/localtime" => (
            "/private/var/db/timezone/tz/2026a.1.0/zoneinfo/Europe/Berlin",
            false,
        ),
        "/etc/resolv.conf" => ("/private/var/run/resolv.conf", false),
        "/etc/services" => ("/private/etc/services", false),
        "/etc/ssl/certs" => ("/private/etc/ssl/certs", true),
        "/etc/ssl/openssl.cnf" => ("/private/etc/ssl/openssl.cnf", false),
        "/dev/full"
        | "/etc/alternatives"
        | "/etc/gai.conf"
        | "/etc/host.conf"
        | "/etc/ld.so.cache"
        | "/etc/nsswitch.conf"
        | "/etc/pki/ca-trust/extracted"
        | "/etc/pki/tls/certs"
        | "/lib"
        | "/lib32"
        | "/lib64" => return None,
        // Others of the part `machine`, and places of other systems.
        other
            if OF_OTHER_SYSTEMS
                .iter()
                .any(|place| other.starts_with(place)) =>
        {
            return None;
        }
        other => panic!("add the place where `{other}` leads on a Mac"),
    };
    Some(Seen {
        access: grant.access,
        is_directory,
        path: path.into(),
    })
}

fn strict() -> Policy {
    // Reading profiles takes longer than making one.
    static STRICT: LazyLock<Policy> = LazyLock::new(|| {
        let registry = Registry::builtin().unwrap();
        let mut all = registry.iter();
        all.find(|policy| policy.name.to_string() == "strict")
            .unwrap()
            .clone()
    });
    STRICT.clone()
}

/// Splits the text of a profile into its rules, comments and default apart.
fn rules(text: &str) -> Vec<&str> {
    let mut rules = Vec::new();
    let mut depth = 0;
    let mut start = 0;
    // No string of a profile has a bracket: keys and paths of the system.
    for (index, character) in text.char_indices() {
        match character {
            '(' => {
                if depth == 0 {
                    start = index;
                }
                depth += 1;
            }
            ')' => {
                depth -= 1;
                if depth == 0 {
                    rules.push(&text[start..=index]);
                }
            }
            _ => {}
        }
    }
    assert_eq!(rules[..2], ["(version 1)", "(deny default)"]);
    rules.split_off(2)
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/seatbelt")
        .join(name)
}

/// Questions for the model, asked all at once because it takes a while to start.
struct Model {
    expected: Vec<Expected>,
    input: String,
    subjects: Vec<String>,
}

struct Expected {
    answer: &'static str,
    asked: Option<Asked>,
    subject: usize,
}

impl Model {
    /// Needs Guile.
    #[expect(clippy::disallowed_methods, reason = "a test starts the model")]
    fn new() -> Self {
        let version = Command::new("guile")
            .arg("--version")
            .stdout(Stdio::null())
            .status();
        let works = version.as_ref().is_ok_and(ExitStatus::success);
        assert!(
            works,
            "this test needs guile, which Debian has in guile-3.0: {version:?}"
        );
        Self {
            expected: Vec::new(),
            input: String::new(),
            subjects: Vec::new(),
        }
    }

    fn load<'a>(
        &mut self,
        what: &str,
        text: &str,
        parameters: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) {
        write!(self.input, "(load {} (", text.chars().count()).unwrap();
        for (key, value) in parameters {
            write!(self.input, "({} . {})", scheme(key), scheme(value)).unwrap();
        }
        writeln!(self.input, "))\n{text}").unwrap();
        self.expected.push(Expected {
            answer: "loaded",
            asked: None,
            subject: self.subjects.len(),
        });
        self.subjects.push(what.to_owned());
    }

    /// Loads a profile with the parameters of its command line.
    fn load_generated(&mut self, what: &str, generated: &Generated) {
        let definitions: Vec<_> = generated
            .parameters
            .iter()
            .map(|p| p.definition().into_string().unwrap())
            .collect();
        let split = definitions.iter().map(|d| d.split_once('=').unwrap());
        self.load(what, &generated.text, split);
    }

    /// Asks the profile that was loaded last.
    fn ask(&mut self, question: Asked, answer: &'static str) {
        question.write(&mut self.input);
        self.expected.push(Expected {
            answer,
            asked: Some(question),
            subject: self.subjects.len() - 1,
        });
    }

    /// Returns every answer.
    #[expect(clippy::disallowed_methods, reason = "a test starts the model")]
    fn answers(&self) -> Vec<String> {
        let mut input = tempfile::tempfile().unwrap();
        input.write_all(self.input.as_bytes()).unwrap();
        input.rewind().unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/testenv/sbpl-check.scm");
        let output = Command::new("guile")
            .arg(script)
            .arg("--batch")
            // Compiled it is several times as fast, and what is compiled is kept in here.
            .env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"))
            .stdin(input)
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {errors}", output.status);
        let answers: Vec<_> = String::from_utf8(output.stdout)
            .unwrap()
            .lines()
            .map(str::to_owned)
            .collect();
        assert_eq!(answers.len(), self.expected.len(), "{errors}");
        answers
    }

    /// Returns what is not as expected, and of which subject.
    fn wrong(&self) -> Vec<(usize, String)> {
        let answers = self.answers();
        let wrong = self.expected.iter().zip(&answers);
        wrong
            .filter(|(expected, answer)| expected.answer != *answer)
            .map(|(expected, answer)| {
                let Expected {
                    answer: right,
                    asked: question,
                    subject,
                } = expected;
                let text = format!(
                    "{answer}, not {right}: {question:?} of {}",
                    self.subjects[*subject]
                );
                (*subject, text)
            })
            .collect()
    }

    #[track_caller]
    fn check(&self) {
        let wrong = self.wrong();
        assert!(
            wrong.is_empty(),
            "{} of {} are wrong, among them: {:#?}",
            wrong.len(),
            self.expected.len(),
            &wrong[..wrong.len().min(5)]
        );
    }

    fn count(&self, answer: &str) -> usize {
        self.expected.iter().filter(|e| e.answer == answer).count()
    }
}

/// Writes a string of Scheme, another way than the generator does.
fn scheme(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/.-_ ;:()*".contains(c);
    let mut written = String::from("\"");
    for character in text.chars() {
        if plain(character) {
            written.push(character);
        } else {
            write!(written, "\\U{:06x}", u32::from(character)).unwrap();
        }
    }
    written.push('"');
    written
}

const PATH_OPERATIONS: [&str; 22] = [
    "file-clone",
    "file-ioctl",
    "file-link",
    "file-map-executable",
    "file-mount",
    "file-read-data",
    "file-read-metadata",
    "file-read-xattr",
    "file-search",
    "file-test-existence",
    "file-write-acl",
    "file-write-create",
    "file-write-data",
    "file-write-flags",
    "file-write-mode",
    "file-write-owner",
    "file-write-setugid",
    "file-write-times",
    "file-write-unlink",
    "file-write-xattr",
    "network-outbound",
    "process-exec",
];

const KINDS: [&str; 7] = [
    "BLOCK-DEVICE",
    "CHARACTER-DEVICE",
    "DIRECTORY",
    "FIFO",
    "REGULAR-FILE",
    "SOCKET",
    "SYMLINK",
];

/// Closed under every policy.
const CLOSED: [&str; 9] = [
    "appleevent-send",
    "iokit-open",
    "ipc-posix-sem",
    "ipc-posix-shm-read-data",
    "ipc-sysv-shm",
    "job-creation",
    "lsopen",
    "mach-priv-task-port",
    "system-socket",
];

/// Files that every program may read and map, under any policy.
const LIBRARIES: &[&str] = &[
    "/Library/Apple/System/Library",
    "/Library/Apple/usr/lib",
    "/System/Cryptexes/OS",
    "/System/Library",
    "/System/Volumes/Preboot/Cryptexes/OS",
    "/usr/lib",
];

const OF_EVERY_MAC: &[&str] = &[
    "/",
    "/Users/other/.ssh/id_ed25519",
    "/dev/disk0",
    "/private/etc/hosts",
    "/private/etc/master.passwd",
    "/private/etc/services",
    "/private/etc/ssl/cert.pem",
    "/private/var/db/timezone/tz",
    "/private/var/run/mDNSResponder",
    "/private/var/run/resolv.conf",
    "/private/var/select/sh",
];

/// Names that a text with paths in it would trip over.
const HOSTILE: &[&str] = &[
    "quo\"te",
    "x\")(allow default)(literal \"y",
    "new\nline",
    "\n(allow file-read*)",
    "back\\slash",
    "end\\",
    "#hash",
    "#\"^/.*$\"",
    "semi;colon",
    "(open",
    "close)",
    "(param \"PROGRAM\")",
    "sp ace",
    " before",
    "after ",
    "tab\tbed",
    "star*",
    "[a-z]",
    "^a.$",
    "|pipe|",
    "'single'",
    "`back`",
    "$(touch x)",
    "%s%n",
    "KEY=VALUE",
    "-D",
    "--",
    "\\x41;\\n",
    "~",
    "\u{1b}[31m",
    "\r\u{7}\u{7f}",
    "\u{e9}",
    "e\u{301}",
    "\u{65e5}\u{672c}",
    "\u{1f980}",
    "\u{202e}txt",
];

mod with_guile {
    use super::*;

    #[test]
    #[ignore = "needs guile"]
    fn every_profile_in_the_tree_loads_and_decides_as_its_policy_says() {
        let mut model = Model::new();
        for (name, scene) in shipped() {
            let read = |kind| fs::read_to_string(fixture(&format!("{name}.{kind}"))).unwrap();
            let parameters = read("parameters");
            let parameters = parameters.lines().map(|line| line.split_once('=').unwrap());
            model.load(&name, &read("sb"), parameters);
            for question in scene.questions() {
                ask(&mut model, &scene, question);
            }
        }
        model.check();
    }

    #[test]
    #[ignore = "needs guile"]
    fn profiles_of_policies_made_up_by_chance_decide_as_those_policies_say() {
        let mut runner = TestRunner::default();
        let strategy = (scene(), prop::collection::vec(sketch(), 8));
        let mut model = Model::new();
        let mut scenes = Vec::new();
        for number in 0..CASES {
            let (scene, sketches) = strategy.new_tree(&mut runner).unwrap().current();
            model.load_generated(&format!("case {number}"), &scene.generated());
            for sketch in sketches {
                ask(&mut model, &scene, sketch.about(&scene));
            }
            scenes.push(scene);
        }
        let wrong = model.wrong();
        if let Some((case, text)) = wrong.first() {
            panic!(
                "{} are wrong, the first: {text}: {:#?}",
                wrong.len(),
                scenes[*case]
            );
        }
        let (allowed, denied) = (model.count("allow"), model.count("deny"));
        // Neither side may be what chance hardly ever asks about.
        assert!(
            allowed * 10 > denied && denied * 10 > allowed,
            "{allowed} allowed, {denied} denied"
        );
    }

    #[test]
    #[ignore = "needs guile"]
    fn hostile_names_grant_exactly_themselves() {
        let mut model = Model::new();
        let long = format!(
            "/Users/u/{}",
            ["x".repeat(250), "y".repeat(250), "z".repeat(250)].join("/")
        );
        let hostile = HOSTILE
            .iter()
            .map(|name| format!("/Users/u/{name}"))
            .chain([long]);
        let accesses = [
            Access::Execute,
            Access::Read,
            Access::Write,
            Access::WriteFile,
        ];
        for path in hostile {
            let path = PathBuf::from(path);
            for (access, is_directory) in accesses.into_iter().flat_map(|a| [(a, false), (a, true)])
            {
                if is_directory && access == Access::WriteFile {
                    continue;
                }
                let seen = Seen {
                    access,
                    is_directory,
                    path: path.clone(),
                };
                let scene = Scene::new(Network::None, Spawn::Threads, Metadata::Keep, vec![seen]);
                let generated = scene.generated();
                let what = format!("{access} on {path:?}, a directory: {is_directory}");
                assert!(
                    !generated.text.contains(path.to_str().unwrap()),
                    "{what}: the path is part of the text"
                );
                model.load_generated(&what, &generated);
                let text = path.to_str().unwrap();
                for about in mistaken_for(text).into_iter().chain([path.clone()]) {
                    for operation in [
                        "file-read-data",
                        "file-write-data",
                        "file-write-create",
                        "process-exec",
                    ] {
                        let question = Asked::Path(operation, about.clone(), Some("REGULAR-FILE"));
                        ask(&mut model, &scene, question);
                    }
                }
            }
        }
        model.check();
    }

    #[test]
    #[ignore = "needs guile"]
    fn what_is_closed_stays_closed_whatever_a_rule_above_it_allows() {
        let mut model = Model::new();
        for (name, scene) in shipped() {
            let generated = scene.generated();
            // The first rules after the default: as wide as rules can be.
            let everything = "(deny default)\n(allow appleevent-send file-clone file-ioctl file-link file-write-create iokit-open \
                              ipc-posix* ipc-sysv* job-creation lsopen mach* network* process-fork syscall-unix system-socket)";
            let wide = generated.text.replacen("(deny default)", everything, 1);
            assert_ne!(wide, generated.text);
            let parameters = generated
                .parameters
                .iter()
                .map(|p| (p.key.as_str(), p.path.to_str().unwrap()));
            model.load(&name, &wide, parameters);
            let none = scene.policy.network == Network::None;
            let threads = scene.policy.spawn == Spawn::Threads;
            let outside = PathBuf::from("/Users/u/outside");
            for operation in ["file-clone", "file-ioctl", "file-link"] {
                model.ask(Asked::Path(operation, outside.clone(), None), "deny");
            }
            for device in ["BLOCK-DEVICE", "CHARACTER-DEVICE", "FIFO", "SOCKET"] {
                model.ask(
                    Asked::Path("file-write-create", outside.clone(), Some(device)),
                    "deny",
                );
            }
            for operation in CLOSED {
                model.ask(Asked::Plain(operation), "deny");
            }
            for operation in ["mach-register"]
                .into_iter()
                .chain(none.then_some("mach-lookup"))
            {
                model.ask(Asked::Service(operation, "com.apple.anything"), "deny");
            }
            for operation in ["network-bind", "network-inbound"]
                .into_iter()
                .chain(none.then_some("network-outbound"))
            {
                model.ask(Asked::Plain(operation), "deny");
            }
            if threads {
                model.ask(Asked::Plain("process-fork"), "deny");
            }
            model.ask(Asked::Call("SYS_setsid"), "deny");
            model.ask(Asked::Call("SYS_setpgid"), "deny");
            model.ask(Asked::Call("SYS_posix_spawn"), "deny ENOSYS");
            // The control: the wide rule is in force.
            model.ask(
                Asked::Path("file-write-create", outside, Some("REGULAR-FILE")),
                "allow",
            );
        }
        model.check();
    }

    #[test]
    #[ignore = "needs guile"]
    fn every_rule_is_missed_where_it_is_left_out() {
        let scene = everything();
        let generated = scene.generated();
        let rules = rules(&generated.text);
        assert!(rules.len() > 20, "{}", rules.len());
        // Rules that repeat the default: they are there for the rules above them, and the test above shows their use.
        let insurance = [
            "(deny file-clone",
            "(deny appleevent-send",
            "(deny network-bind",
            "(deny file-map-executable iokit",
        ];
        let mut model = Model::new();
        let left_out: Vec<_> = rules
            .into_iter()
            .filter(|rule| !insurance.iter().any(|start| rule.starts_with(start)))
            .collect();
        let questions = scene.questions();
        for rule in &left_out {
            let text = generated.text.replacen(rule, "", 1);
            // A parameter that is not used any more keeps a profile from loading.
            let parameters = generated
                .parameters
                .iter()
                .filter(|p| text.contains(&format!("\"{}\"", p.key)))
                .map(|p| (p.key.as_str(), p.path.to_str().unwrap()));
            model.load(rule, &text, parameters);
            for question in &questions {
                ask(&mut model, &scene, question.clone());
            }
        }
        let wrong = model.wrong();
        for (subject, rule) in left_out.iter().enumerate() {
            let missed = wrong.iter().find(|(found, _)| *found == subject);
            let (_, missed) = missed.unwrap_or_else(|| panic!("nothing misses {rule}"));
            assert!(!missed.starts_with("failed"), "{missed}");
        }
    }

    #[test]
    #[ignore = "needs guile"]
    fn the_model_loads_no_profile_that_is_wrong() {
        let head = "(version 1)\n(deny default)\n";
        let right = [
            "(allow file-read* (subpath (param \"KEY\")))",
            "(allow file-read-data process-exec (literal (param \"KEY\")))",
            "(deny syscall-unix (syscall-number SYS_setsid) (with errno ENOSYS)) (allow file-read* (literal (param \"KEY\")))",
        ];
        let wrong = [
            (
                "(allow file-read* (subpath (param \"KEY\"))",
                "unexpected end",
            ),
            (
                "(allow file-read* (subpath (param \"KEY\"))))",
                "unexpected",
            ),
            (
                "(allow file-read* (subpath (param \"OTHER\")))",
                "unset parameter",
            ),
            ("(allow file-read* (subpath \"/x\"))", "unused parameter"),
            (
                "(allow file-raed* (subpath (param \"KEY\")))",
                "unknown operation",
            ),
            (
                "(allow file-read* (sub-path (param \"KEY\")))",
                "unknown filter",
            ),
            ("(allow file-read* (subpath KEY))", "neither a string nor"),
            (
                "(allow file-read* (subpath \"relative\")) (allow file-read* (subpath (param \"KEY\")))",
                "no absolute path",
            ),
            (
                "(allow process-fork (subpath (param \"KEY\")))",
                "does not go with",
            ),
            (
                "(allow signal (target everybody)) (allow file-read* (subpath (param \"KEY\")))",
                "no such",
            ),
            (
                "(alow file-read* (subpath (param \"KEY\")))",
                "unknown form",
            ),
            (
                "(allow default) (allow file-read* (subpath (param \"KEY\")))",
                "set twice",
            ),
        ];
        let mut model = Model::new();
        for text in right {
            model.load(text, &format!("{head}{text}"), [("KEY", "/x")]);
        }
        model.check();
        for (text, why) in wrong {
            let mut model = Model::new();
            model.load(text, &format!("{head}{text}"), [("KEY", "/x")]);
            let found = model.wrong();
            assert!(
                found.len() == 1 && found[0].1.contains(why),
                "{text}: {found:?}"
            );
        }
        for head in [
            "(deny default)",
            "(version 1)",
            "(version 2) (deny default)",
            "(version 1) (allow default)",
        ] {
            let mut model = Model::new();
            model.load(head, head, []);
            assert_eq!(model.wrong().len(), 1, "{head}");
        }
    }

    #[test]
    #[ignore = "needs guile"]
    fn the_model_says_where_it_depends_on_what_nobody_documents() {
        let mut model = Model::new();
        let rules = "(allow file-write-data (literal (param \"KEY\"))) (deny file-write* (literal (param \"KEY\")))";
        let text = format!("(version 1)\n(deny default)\n{rules}");
        model.load("by name and by class", &text, [("KEY", "/x")]);
        model.ask(Asked::Path("file-write-data", "/x".into(), None), "depends");
        model.ask(Asked::Path("file-write-create", "/x".into(), None), "deny");
        model.check();
    }
}

mod with_tools {
    use super::*;

    #[test]
    #[ignore = "needs python3"]
    #[expect(
        clippy::disallowed_methods,
        reason = "a test starts the program that it tests"
    )]
    fn the_launchd_agent_is_well_formed_and_starts_what_this_program_knows() {
        let plist =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("launchd/org.hookjail.hookjail.plist");
        let script =
            "import json, plistlib, sys; print(json.dumps(plistlib.load(open(sys.argv[1], 'rb'))))";
        let read = Command::new("python3")
            .args(["-c", script])
            .arg(&plist)
            .output()
            .expect("this test needs python3");
        assert!(
            read.status.success(),
            "{}",
            String::from_utf8_lossy(&read.stderr)
        );
        let agent: Value = serde_json::from_slice(&read.stdout).unwrap();

        assert_eq!(agent["Label"].as_str(), plist.file_stem().unwrap().to_str());
        assert_eq!(agent["Umask"], 0o077);
        let arguments: Vec<&str> = agent["ProgramArguments"]
            .as_array()
            .unwrap()
            .iter()
            .map(|argument| argument.as_str().unwrap())
            .collect();
        assert!(arguments[0].ends_with("/hookjail"), "{arguments:?}");
        assert_eq!(arguments.last(), Some(&"serve"));
        // An unknown argument is named before `--help` is read.
        let known = |arguments: &[&str]| {
            let program = Command::new(env!("CARGO_BIN_EXE_hookjail"))
                .args(arguments)
                .arg("--help")
                .output();
            program.unwrap().status.success()
        };
        assert!(known(&arguments[1..]), "{arguments:?}");
        // The control.
        assert!(!known(&["--konfig", "x", "serve"]) && !known(&["serf"]));
    }
}
