//! A daemon inside confinement by others: the daemon works, or names the cause and the fix.
//!
//! These tests generate `docs/nesting.md`, each of them a line. Tests of `as_root` make the places that only root can make, and
//! those of an ordinary user when root runs the tests. `with_user_namespaces` needs a host where every user can make one.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start hookjail inside sandboxes, never a hook"
)]

use std::{
    cell::OnceCell,
    collections::BTreeMap,
    env,
    fmt::Write as _,
    fs,
    os::unix::fs::{PermissionsExt as _, chown},
    path::Path,
    process::{Command, Output},
};

use nix::fcntl::{Flock, FlockArg};

use crate::{
    attempts::Probe,
    fail_closed::FakeKernel,
    read_only::WITHOUT,
    support::{directory, program},
};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/nesting.md");
const BEGIN: &str = "<!-- table: begin -->\n";
const END: &str = "<!-- table: end -->\n";

/// Uid of the ordinary user of these tests where root runs them. No account has this uid.
const USER: u32 = 60_001;

/// Calls that Docker's default profile refuses to a container without further capabilities, according to its documentation
/// (docs.docker.com/engine/security/seccomp), as far as this architecture has them. Docker has added io_uring since.
const DOCKER_REFUSES: &[libc::c_long] = &[
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_finit_module,
    libc::SYS_get_mempolicy,
    libc::SYS_init_module,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    libc::SYS_kcmp,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_lookup_dcookie,
    libc::SYS_mbind,
    libc::SYS_mount,
    libc::SYS_move_pages,
    libc::SYS_nfsservctl,
    libc::SYS_open_by_handle_at,
    libc::SYS_perf_event_open,
    libc::SYS_personality,
    libc::SYS_pivot_root,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_set_mempolicy,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_sysfs,
    libc::SYS_umount2,
    libc::SYS_unshare,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_uselib,
    libc::SYS_userfaultfd,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ustat,
];

/// Capabilities that Docker leaves to root.
const DOCKER_LEAVES: &str = "-all,+chown,+dac_override,+fowner,+fsetid,+kill,+setgid,+setuid,+setpcap,+net_bind_service,\
                             +net_raw,+sys_chroot,+mknod,+audit_write,+setfcap";

/// User of the daemon in a place.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Who {
    Root,
    User,
}

impl Who {
    const fn word(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::User => "user",
        }
    }
}

/// Surroundings of a daemon.
#[derive(Debug, Default)]
struct Around {
    /// Words of a command line that only root can run.
    by_root: Vec<String>,
    /// Words of a command line that every user can run.
    by_anybody: Vec<String>,
    /// Lines of `[hooks]`.
    config: &'static str,
}

/// Result of a hook in these surroundings.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Seen {
    happens: String,
    /// The same under a profile that keeps paths read-only.
    keeping: String,
    cause: String,
    fix: String,
}

fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).into()
}

/// Returns the flaws of a kernel on which a call fails with this errno.
fn refused(calls: &[libc::c_long], errno: i32) -> Vec<String> {
    let flaw = |call| ["--errno".to_owned(), format!("{call}={errno}")];
    calls.iter().flat_map(flaw).collect()
}

/// A filter that refuses Landlock's calls with this errno.
fn without_landlock(errno: i32) -> Vec<String> {
    let calls = [
        libc::SYS_landlock_create_ruleset,
        libc::SYS_landlock_add_rule,
        libc::SYS_landlock_restrict_self,
    ];
    refused(&calls, errno)
}

fn dockers_filter() -> Vec<String> {
    let mut flaws = refused(DOCKER_REFUSES, libc::EPERM);
    flaws.extend(refused(&[libc::SYS_clone3], libc::ENOSYS));
    // AF_VSOCK.
    flaws.extend(words(["--errno", &format!("{}/40=1", libc::SYS_socket)]));
    flaws
}

/// Programs that imitate the surroundings of a daemon, compiled where one is needed.
#[derive(Debug, Default)]
struct Players {
    kernel: OnceCell<FakeKernel>,
    probe: OnceCell<Probe>,
}

impl Players {
    fn filter(&self, flaws: &[String]) -> Around {
        let flaws: Vec<_> = flaws.iter().map(String::as_str).collect();
        Around {
            by_anybody: self.kernel.get_or_init(FakeKernel::build).around(&flaws),
            ..Around::default()
        }
    }

    /// A filter, and for root the capabilities that Docker leaves.
    fn docker(&self, who: Who, flaws: &[String]) -> Around {
        let mut around = self.filter(flaws);
        if who == Who::Root {
            around.by_root = words(["setpriv", "--inh-caps", "-all"]);
            around
                .by_root
                .extend(words(["--bounding-set", DOCKER_LEAVES]));
        }
        around
    }

    fn domains(&self, count: &str) -> Around {
        let probe = self.probe.get_or_init(Probe::build).path();
        by_anybody([&probe.display().to_string(), "nest", count])
    }
}

fn by_anybody<const N: usize>(around: [&str; N]) -> Around {
    Around {
        by_anybody: words(around),
        ..Around::default()
    }
}

fn by_root<const N: usize>(around: [&str; N]) -> Around {
    Around {
        by_root: words(around),
        ..Around::default()
    }
}

/// Mounts of its own.
fn mounted(script: &str) -> Around {
    by_root(["unshare", "--mount", "sh", "-ec", script, "sh"])
}

/// A user namespace, in which no other can be made.
const NESTED: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/testenv/nested-userns.sh"
);

/// Returns the user that runs the tests.
fn tester() -> Who {
    match nix::unistd::geteuid().is_root() {
        true => Who::Root,
        false => Who::User,
    }
}

/// Runs one hook in a place, and `doctor` beside it.
fn look(name: &str, who: Who, place: &Around) -> Seen {
    let home = directory();
    let mut around = place.by_root.clone();
    if tester() == Who::Root && who == Who::User {
        let id = USER.to_string();
        around.extend(words(["setpriv", "--reuid", &id, "--regid", &id]));
        around.push("--clear-groups".to_owned());
    }
    around.extend(place.by_anybody.clone());
    let works = in_place(&around, &["/bin/true"], home.path());
    assert!(
        works.status.success(),
        "{name} cannot be made here: {works:?}"
    );

    lay(place, who, home.path());
    let hookjail = program().display().to_string();
    let config = home.path().join("hookjail.toml").display().to_string();
    let workspace = home.path().join("workspace").display().to_string();
    let start = [hookjail.as_str(), "--json", "--config", &config];
    let try_profile = |profile: &str| {
        let run = [
            start.as_slice(),
            &["run", "--profile", profile, "--workspace", &workspace],
            &["--", "/bin/sh", "-c", "echo ran > witness; kill -9 $$"],
        ];
        let ran = in_place(&around, &run.concat(), home.path());
        let examine = [start.as_slice(), &["doctor", "--profile", profile]].concat();
        let examined = in_place(&around, &examine, home.path());
        let witness = home.path().join("workspace/witness");
        (ran, examined, fs::remove_file(witness).is_ok())
    };
    let mut seen = examine(name, try_profile("writing"));
    if seen.happens.starts_with("works") {
        seen.keeping = examine(name, try_profile("workspace-rw")).happens;
    }
    seen
}

/// Reads the results of a hook and of `doctor`, which must agree.
fn examine(name: &str, (ran, examined, witness): (Output, Output, bool)) -> Seen {
    let reply = serde_json::from_slice::<serde_json::Value>(&ran.stdout);
    assert!(reply.is_ok(), "{}: {ran:?}", name);
    let reply = reply.unwrap();
    let doctor = String::from_utf8_lossy(&examined.stdout);
    let seen = read(&reply);
    // A refused hook leaves nothing. `doctor` agrees, and names a fix.
    let refused = seen.happens.starts_with("refused") || seen.happens == "does not start";
    assert_eq!(witness, !refused, "{}: {reply}", name);
    assert_eq!(examined.status.success(), !refused, "{}: {doctor}", name);
    if refused {
        assert_eq!(ran.status.code(), Some(125), "{}: {reply}", name);
        assert!(
            !seen.cause.is_empty() && !seen.fix.is_empty(),
            "{}: {reply}",
            name
        );
        let fix = serde_json::to_string(&seen.fix).unwrap();
        assert!(doctor.contains(fix.trim_matches('"')), "{}: {doctor}", name);
    } else {
        // Killed by the signal that it sent itself: also inside, hooks and their ends are the daemon's to see.
        assert_eq!(reply["outcome"]["signal"], 9, "{}: {reply}", name);
        assert_eq!(reply["confinement"]["confirmed"], true, "{}: {reply}", name);
    }
    seen
}

/// Lays configuration and directories so that the daemon's user owns them.
fn lay(place: &Around, who: Who, home: &Path) {
    let workspace = home.join("workspace");
    fs::create_dir(&workspace).unwrap();
    let profiles = home.join("profiles");
    fs::create_dir(&profiles).unwrap();
    fs::set_permissions(&profiles, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(profiles.join("writing.toml"), WITHOUT).unwrap();
    fs::set_permissions(&workspace, fs::Permissions::from_mode(0o777)).unwrap();
    let path = |name: &str| home.join(name).display().to_string();
    let config = format!(
        "[profiles]\ndirs = [{:?}]\n[paths]\nstate = {:?}\nruntime = {:?}\n[hooks]\nworkspace_roots = [{:?}]\n{}\n",
        path("profiles"),
        path("state"),
        path("run"),
        path("workspace"),
        place.config
    );
    fs::write(home.join("hookjail.toml"), config).unwrap();
    fs::set_permissions(
        home.join("hookjail.toml"),
        fs::Permissions::from_mode(0o600),
    )
    .unwrap();
    if tester() == Who::Root && who == Who::User {
        let profile_file = profiles.join("writing.toml");
        for path in [
            home,
            &workspace,
            &profiles,
            &profile_file,
            &home.join("hookjail.toml"),
        ] {
            chown(path, Some(USER), Some(USER)).unwrap();
        }
    }
}

fn in_place(around: &[String], inside: &[&str], home: &Path) -> Output {
    let words: Vec<&str> = around
        .iter()
        .map(String::as_str)
        .chain(inside.iter().copied())
        .collect();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).env_clear().env("HOME", home);
    command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    command.output().unwrap()
}

/// Reads the reply of `run`.
fn read(reply: &serde_json::Value) -> Seen {
    let error = &reply["error"];
    if error.is_null() {
        let sources = reply["denialSources"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let reports_calls = sources.iter().any(|source| source == "seccomp");
        let happens = match reports_calls {
            true => "works",
            false => "works; calls that the filters refuse are not reported",
        };
        return Seen {
            happens: happens.to_owned(),
            keeping: String::new(),
            cause: String::new(),
            fix: String::new(),
        };
    }
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let message = text(&error["message"]);
    let (cause, fix) = match error["metadata"]["fix"].as_str() {
        Some(fix) => (message.replace(&format!("; {fix}"), ""), fix.to_owned()),
        None => {
            let (cause, fix) = message.rsplit_once("; ").unwrap_or((&message, ""));
            (cause.to_owned(), fix.to_owned())
        }
    };
    let happens = match (error["reason"].as_str(), error["metadata"]["axis"].as_str()) {
        (Some(reason), Some(axis)) => format!("refused: `{reason}`, axis `{axis}`"),
        (Some(reason), None) => format!("refused: `{reason}`"),
        (None, _) => "does not start".to_owned(),
    };
    Seen {
        happens,
        keeping: String::new(),
        cause,
        fix,
    }
}

/// Known results of places, by name and user.
type Known = BTreeMap<(String, Who), Seen>;

/// Reads the table.
fn known(table: &str) -> Known {
    let mut known = Known::new();
    let lines = table.lines().filter_map(|line| line.strip_prefix("| "));
    for line in lines.skip(1) {
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        let &[name, who, happens, keeping, cause, fix, ""] = cells.as_slice() else {
            continue;
        };
        let seen = Seen {
            happens: happens.to_owned(),
            keeping: keeping.to_owned(),
            cause: cause.trim_matches('"').to_owned(),
            fix: fix.to_owned(),
        };
        for one in [Who::Root, Who::User] {
            if who == "either" || who == one.word() {
                known.insert((name.to_owned(), one), seen.clone());
            }
        }
    }
    known
}

/// Writes the table: known results of all places.
fn table(known: &Known) -> String {
    let mut text = String::from(
        "\n| around it | the daemon is | result | under `workspace-rw` | cause | fix |\n\
         |---|---|---|---|---|---|\n",
    );
    for name in NAMES {
        let seen_by = |who| known.get(&((*name).to_owned(), who));
        let (root, user) = (seen_by(Who::Root), seen_by(Who::User));
        let lines = match (root, user) {
            (Some(root), Some(user)) if root == user => vec![("either", root)],
            _ => [("root", root), ("user", user)]
                .into_iter()
                .filter_map(|(who, seen)| Some((who, seen?)))
                .collect(),
        };
        for (who, seen) in lines {
            let Seen {
                happens,
                keeping,
                cause,
                fix,
            } = seen;
            // The program's own words.
            let cause = match &**cause {
                "" => String::new(),
                cause => format!("\"{cause}\""),
            };
            writeln!(
                text,
                "| {name} | {who} | {happens} | {keeping} | {cause} | {fix} |"
            )
            .unwrap();
        }
    }
    text.push('\n');
    text
}

/// Starts a daemon in a place and compares what happens with the page, or writes it there.
fn is_as_written(name: &str, who: Who, around: &Around) {
    let seen = look(name, who, around);
    // The control: the tests themselves cause no refusal.
    if name == NAMES[0] {
        assert_eq!(seen.happens, "works", "{seen:?}");
    }
    let update = env::var_os("UPDATE_DOCS").is_some_and(|value| value == "1");
    // Tests of other places write it as well, in threads or processes of their own.
    let page = fs::File::open(PAGE).unwrap();
    let page = match update {
        true => Flock::lock(page, FlockArg::LockExclusive).unwrap(),
        false => Flock::lock(page, FlockArg::LockShared).unwrap(),
    };
    let text = fs::read_to_string(PAGE).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (written, after) = rest.split_once(END).unwrap();
    let mut known = known(written);
    known.insert((name.to_owned(), who), seen);
    let table = table(&known);
    if update {
        fs::write(PAGE, format!("{before}{BEGIN}{table}{END}{after}")).unwrap();
    } else {
        assert_eq!(
            written, table,
            "docs/nesting.md is not what happens; this writes it, as root: \
             UPDATE_DOCS=1 cargo test --test spec nesting -- --include-ignored"
        );
    }
    drop(page);
}

/// Makes the tests of places, and the list of their names in the order of the page.
macro_rules! places {
    (
        anybody { $($test:ident $name:literal |$places:ident, $who:ident| $around:expr;)+ }
        both_by_root { $($both:ident $of_both:literal: $around_both:expr;)+ }
        root { $($by_root:ident $of_root:literal: $around_root:expr;)+ }
        namespaces { $($inside:ident $of_inside:literal, $user:ident: $around_inside:expr;)+ }
    ) => {
        const NAMES: &[&str] = &[$($name,)+ $($of_both,)+ $($of_root,)+ $($of_inside,)+];

        $(
            #[test]
            fn $test() {
                let ($places, $who) = (&Players::default(), tester());
                is_as_written($name, $who, &$around);
            }
        )+

        mod as_root {
            use super::*;
            use crate::support::needs_root;

            $(
                #[test]
                #[ignore = "needs root"]
                fn $by_root() {
                    needs_root();
                    is_as_written($of_root, Who::Root, &$around_root);
                }
            )+

            $(
                #[test]
                #[ignore = "needs root"]
                fn $both() {
                    needs_root();
                    for who in [Who::Root, Who::User] {
                        is_as_written($of_both, who, &$around_both);
                    }
                }
            )+

            mod by_an_ordinary_user {
                use super::*;

                $(
                    #[test]
                    #[ignore = "needs root"]
                    fn $test() {
                        needs_root();
                        let ($places, $who) = (&Players::default(), Who::User);
                        is_as_written($name, $who, &$around);
                    }
                )+
            }
        }

        mod with_user_namespaces {
            use super::*;

            $(
                #[test]
                #[ignore = "needs user namespaces that anybody can make"]
                fn $inside() {
                    is_as_written($of_inside, Who::$user, &$around_inside);
                }
            )+
        }
    };
}

places! {
    anybody {
        nothing_around_it "nothing" |_players, _who| Around::default();
        inside_dockers_filter "Docker's default seccomp profile and capabilities" |players, who|
            players.docker(who, &dockers_filter());
        inside_dockers_filter_of_before_2022
            "the same as it was before it let Landlock through (moby/moby#43199, 2022)" |players, who|
            players.docker(who, &[dockers_filter(), without_landlock(libc::EPERM)].concat());
        inside_a_filter_that_refuses_landlock
            "a filter that refuses Landlock with `EPERM`, as systemd-nspawn's of systemd 252" |players, _who|
            players.filter(&without_landlock(libc::EPERM));
        inside_a_filter_that_hides_landlock
            "a filter that reports Landlock as missing, as hookjail's own" |players, _who|
            players.filter(&without_landlock(libc::ENOSYS));
        inside_a_filter_that_refuses_filters "a filter that refuses the call `seccomp`" |players, _who|
            players.filter(&refused(&[libc::SYS_seccomp], libc::EPERM));
        inside_a_filter_that_refuses_openat2
            "a filter that refuses `openat2` with `ENOSYS`, as `RestrictSUIDSGID=yes`" |players, _who|
            players.filter(&refused(&[libc::SYS_openat2], libc::ENOSYS));
        // No call has this number, so the listener gets no request.
        inside_a_filter_with_a_listener
            "a filter with a listener (`EBUSY` for another), as under WSL 2" |players, _who|
            players.filter(&words(["--hang", "1000"]));
        inside_a_filter_that_refuses_internet_sockets
            "a filter that refuses internet sockets, as `RestrictAddressFamilies=AF_UNIX`" |players, _who|
            players.filter(&words(["--errno", &format!("{}/{}=97", libc::SYS_socket, libc::AF_INET)]));
        inside_a_landlock_domain "another Landlock domain" |players, _who| players.domains("1");
        inside_15_landlock_domains "15 Landlock domains" |players, _who| players.domains("15");
        inside_16_landlock_domains "16 Landlock domains" |players, _who| players.domains("16");
    }
    both_by_root {
        without_proc "no `/proc`": mounted("mount -t tmpfs none /proc; exec \"$@\"");
    }
    root {
        without_capabilities "root without capabilities (`--cap-drop ALL`)":
            by_root(["setpriv", "--inh-caps", "-all", "--bounding-set", "-all"]);
        with_a_run_that_cannot_be_written "a `/run` that cannot be written":
            mounted("mount -t tmpfs -o ro none /run; exec \"$@\"");
        in_a_pid_namespace_with_the_hosts_proc "a pid namespace of its own with the host's `/proc`":
            by_root(["unshare", "--pid", "--fork", "--kill-child"]);
        in_a_pid_namespace_with_its_own_proc "a pid namespace of its own with its own `/proc`":
            by_root(["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]);
        in_a_user_namespace_that_has_every_id
            "a user namespace that has every id, in which no other can be made": by_root([NESTED]);
        in_a_containers_user_namespace "a container's user namespace, ids 0 to 65535":
            by_root(["env", "USERNS_IDS=65536", NESTED]);
        in_a_containers_user_namespace_with_a_range_of_ids_in_it
            "the same with `hooks.uid_range = [60000, 65000]`":
            Around {
                config: "uid_range = [60000, 65000]",
                ..by_root(["env", "USERNS_IDS=65536", NESTED])
            };
    }
    namespaces {
        with_root_alone
            "a user namespace that has root alone (`unshare --map-root-user`)", Root:
            by_anybody(["unshare", "--map-root-user"]);
        with_nobody_but_the_user
            "a user namespace that has the user alone (`unshare --map-current-user`)", User:
            by_anybody(["unshare", "--map-current-user"]);
        without_any_id "a user namespace without any id (`unshare --user`)", User:
            by_anybody(["unshare", "--user"]);
    }
}
