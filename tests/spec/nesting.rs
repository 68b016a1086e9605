//! A daemon inside what others confine it with: it works, or says what stands in its way and what to do about it.
//!
//! `docs/nesting.md` is made here. As an ordinary user only that user's lines are made and compared.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start hookjail inside sandboxes, never a hook"
)]
#![expect(clippy::print_stdout, reason = "a place that cannot be made is named")]

use std::{
    env,
    fmt::Write as _,
    fs,
    os::unix::fs::{PermissionsExt as _, chown},
    path::Path,
    process::{Command, Output},
};

use crate::{
    attempts::Probe,
    fail_closed::FakeKernel,
    support::{directory, program},
};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/nesting.md");
const BEGIN: &str = "<!-- table: begin -->\n";
const END: &str = "<!-- table: end -->\n";

/// The ordinary user of these tests where root runs them; nobody has this id.
const USER: u32 = 60_001;

/// What Docker's documentation lists as refused by its default profile to a container without further capabilities
/// (docs.docker.com/engine/security/seccomp), as far as this architecture has the calls; io_uring was added since.
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

/// What Docker leaves root of its capabilities.
const DOCKER_LEAVES: &str = "-all,+chown,+dac_override,+fowner,+fsetid,+kill,+setgid,+setuid,+setpcap,+net_bind_service,\
                             +net_raw,+sys_chroot,+mknod,+audit_write,+setfcap";

/// As whom the daemon finds itself in a place.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Who {
    Root,
    User,
}

/// Where a daemon is started.
#[derive(Debug)]
struct Place {
    name: &'static str,
    who: Who,
    /// What root alone can put around it.
    by_root: Vec<String>,
    /// What anybody can.
    around: Vec<String>,
    /// Lines of `[hooks]`.
    config: &'static str,
}

/// What came of it.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Seen {
    happens: String,
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

fn places(kernel: &FakeKernel, probe: &Probe) -> Vec<Place> {
    let filtered = |flaws: &[String]| {
        let flaws: Vec<_> = flaws.iter().map(String::as_str).collect();
        kernel.around(&flaws)
    };
    let landlock = [
        libc::SYS_landlock_create_ruleset,
        libc::SYS_landlock_add_rule,
        libc::SYS_landlock_restrict_self,
    ];
    let docker = {
        let mut flaws = refused(DOCKER_REFUSES, libc::EPERM);
        flaws.extend(refused(&[libc::SYS_clone3], libc::ENOSYS));
        // AF_VSOCK.
        flaws.extend(words(["--errno", &format!("{}/40=1", libc::SYS_socket)]));
        flaws
    };
    let mut docker_without = docker.clone();
    docker_without.extend(refused(&landlock, libc::EPERM));
    let no_sockets = format!("{}/{}=97", libc::SYS_socket, libc::AF_INET);
    let domains = |count: &str| words([&probe.path().display().to_string(), "nest", count]);
    let mounted = |script: &str| words(["unshare", "--mount", "sh", "-ec", script, "sh"]);

    let mut places = Vec::new();
    for who in [Who::Root, Who::User] {
        let capabilities = match who {
            Who::Root => words([
                "setpriv",
                "--inh-caps",
                "-all",
                "--bounding-set",
                DOCKER_LEAVES,
            ]),
            Who::User => Vec::new(),
        };
        let mut place = |name, by_root: Vec<String>, around: Vec<String>| {
            places.push(Place {
                name,
                who,
                by_root,
                around,
                config: "",
            });
        };
        place("nothing", Vec::new(), Vec::new());
        place(
            "Docker's default seccomp profile and capabilities",
            capabilities.clone(),
            filtered(&docker),
        );
        place(
            "the same as it was before it let Landlock through (moby/moby#43199, 2022)",
            capabilities,
            filtered(&docker_without),
        );
        place(
            "a filter that refuses Landlock with `EPERM`, as systemd-nspawn's of systemd 252",
            Vec::new(),
            filtered(&refused(&landlock, libc::EPERM)),
        );
        place(
            "a filter that says Landlock is missing, as hookjail's own",
            Vec::new(),
            filtered(&refused(&landlock, libc::ENOSYS)),
        );
        place(
            "a filter that refuses the call `seccomp`",
            Vec::new(),
            filtered(&refused(&[libc::SYS_seccomp], libc::EPERM)),
        );
        place(
            "a filter with a listener (`EBUSY` for another), as under WSL 2",
            Vec::new(),
            // No call has this number: the listener is never asked.
            filtered(&words(["--hang", "1000"])),
        );
        place(
            "a filter that refuses internet sockets, as `RestrictAddressFamilies=AF_UNIX`",
            Vec::new(),
            filtered(&words(["--errno", &no_sockets])),
        );
        place("another Landlock domain", Vec::new(), domains("1"));
        place("15 Landlock domains", Vec::new(), domains("15"));
        place("16 Landlock domains", Vec::new(), domains("16"));
        place(
            "no `/proc`",
            mounted("mount -t tmpfs none /proc; exec \"$@\""),
            Vec::new(),
        );
    }
    let root = |name, by_root: Vec<String>, around: Vec<String>, config| Place {
        name,
        who: Who::Root,
        by_root,
        around,
        config,
    };
    places.extend([
        root(
            "root without capabilities (`--cap-drop ALL`)",
            words(["setpriv", "--inh-caps", "-all", "--bounding-set", "-all"]),
            Vec::new(),
            "",
        ),
        root(
            "a `/run` that cannot be written",
            mounted("mount -t tmpfs -o ro none /run; exec \"$@\""),
            Vec::new(),
            "",
        ),
        root(
            "a pid namespace of its own with the host's `/proc`",
            words(["unshare", "--pid", "--fork", "--kill-child"]),
            Vec::new(),
            "",
        ),
        root(
            "a pid namespace of its own with its own `/proc`",
            words(["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]),
            Vec::new(),
            "",
        ),
        root(
            "a user namespace that has every id, in which no other can be made",
            words([concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/tests/testenv/nested-userns.sh"
            )]),
            Vec::new(),
            "",
        ),
        root(
            "a user namespace that has root alone (`unshare --map-root-user`)",
            Vec::new(),
            words(["unshare", "--map-root-user"]),
            "",
        ),
        Place {
            name: "a user namespace that has nobody but the user (`unshare --map-current-user`)",
            who: Who::User,
            by_root: Vec::new(),
            around: words(["unshare", "--map-current-user"]),
            config: "",
        },
        Place {
            name: "a user namespace without any id (`unshare --user`)",
            who: Who::User,
            by_root: Vec::new(),
            around: words(["unshare", "--user"]),
            config: "",
        },
    ]);
    for (name, config) in [
        ("a container's user namespace, ids 0 to 65535", ""),
        (
            "the same with `hooks.uid_range = [60000, 65000]`",
            "uid_range = [60000, 65000]",
        ),
    ] {
        let map = ["env".to_owned(), "USERNS_IDS=65536".to_owned()];
        let nested = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/testenv/nested-userns.sh"
        );
        let by_root = map.into_iter().chain([nested.to_owned()]).collect();
        places.push(root(name, by_root, Vec::new(), config));
    }
    places
}

/// Runs one hook in a place, and has `doctor` say what it thinks; `None` where the place cannot be made.
fn look(place: &Place) -> Option<Seen> {
    let home = directory();
    let is_root = nix::unistd::geteuid().is_root();
    let mut around = Vec::new();
    if is_root {
        around.extend(place.by_root.clone());
        if place.who == Who::User {
            let id = USER.to_string();
            around.extend(words([
                "setpriv",
                "--reuid",
                &id,
                "--regid",
                &id,
                "--clear-groups",
            ]));
        }
    } else if !place.by_root.is_empty() {
        return None;
    }
    around.extend(place.around.clone());
    let works = in_place(&around, &["/bin/true"], home.path());
    if !works.status.success() {
        println!("SKIP: {} cannot be made here: {works:?}", place.name);
        return None;
    }

    lay(place, home.path(), is_root);
    let hookjail = program().display().to_string();
    let config = home.path().join("hookjail.toml").display().to_string();
    let workspace = home.path().join("workspace").display().to_string();
    let start = [hookjail.as_str(), "--json", "--config", &config];
    let run = [
        start.as_slice(),
        &[
            "run",
            "--profile",
            "workspace-rw",
            "--workspace",
            &workspace,
        ],
        &["--", "/bin/sh", "-c", "echo ran > witness; kill -9 $$"],
    ];
    let ran = in_place(&around, &run.concat(), home.path());
    let examine = [start.as_slice(), &["doctor", "--profile", "workspace-rw"]].concat();
    let examined = in_place(&around, &examine, home.path());

    let witness = home.path().join("workspace/witness").exists();
    let reply = serde_json::from_slice::<serde_json::Value>(&ran.stdout);
    assert!(reply.is_ok(), "{}: {ran:?}", place.name);
    let reply = reply.unwrap();
    let doctor = String::from_utf8_lossy(&examined.stdout);
    let seen = read(&reply);
    // Refused, it left nothing; and `doctor` agrees, and says what helps.
    let refused = seen.happens.starts_with("refused") || seen.happens == "does not start";
    assert_eq!(witness, !refused, "{}: {reply}", place.name);
    assert_eq!(
        examined.status.success(),
        !refused,
        "{}: {doctor}",
        place.name
    );
    if refused {
        assert_eq!(ran.status.code(), Some(125), "{}: {reply}", place.name);
        assert!(
            !seen.cause.is_empty() && !seen.fix.is_empty(),
            "{}: {reply}",
            place.name
        );
        let fix = serde_json::to_string(&seen.fix).unwrap();
        assert!(
            doctor.contains(fix.trim_matches('"')),
            "{}: {doctor}",
            place.name
        );
    } else {
        // Killed by the signal that it sent itself: also inside, hooks and their ends are the daemon's to see.
        assert_eq!(reply["outcome"]["signal"], 9, "{}: {reply}", place.name);
        assert_eq!(
            reply["confinement"]["confirmed"], true,
            "{}: {reply}",
            place.name
        );
    }
    Some(seen)
}

/// Lays configuration and directories so that the daemon's user owns them.
fn lay(place: &Place, home: &Path, is_root: bool) {
    let workspace = home.join("workspace");
    fs::create_dir(&workspace).unwrap();
    fs::set_permissions(&workspace, fs::Permissions::from_mode(0o777)).unwrap();
    let path = |name: &str| home.join(name).display().to_string();
    let config = format!(
        "[paths]\nstate = {:?}\nruntime = {:?}\n[hooks]\nworkspace_roots = [{:?}]\n{}\n",
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
    if is_root && place.who == Who::User {
        for path in [home, &workspace, &home.join("hookjail.toml")] {
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

/// Reads what `run` said.
fn read(reply: &serde_json::Value) -> Seen {
    let error = &reply["error"];
    if error.is_null() {
        let sources = reply["denialSources"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let told = sources.iter().any(|source| source == "seccomp");
        let happens = match told {
            true => "works",
            false => "works; calls that the filters refuse are not told",
        };
        return Seen {
            happens: happens.to_owned(),
            cause: String::new(),
            fix: String::new(),
        };
    }
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let message = text(&error["message"]);
    let (cause, fix) = match error["metadata"]["fix"].as_str() {
        Some(fix) => (
            message.replace(&format!("; to fix it: {fix}"), ""),
            fix.to_owned(),
        ),
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
        cause,
        fix,
    }
}

/// Returns a line of the table.
fn line(name: &str, who: &str, seen: &Seen) -> String {
    let Seen {
        happens,
        cause,
        fix,
    } = seen;
    format!("| {name} | {who} | {happens} | {cause} | {fix} |\n")
}

#[test]
fn it_works_inside_what_others_confine_it_with_or_names_cause_and_fix() {
    let (kernel, probe) = (FakeKernel::build(), Probe::build());
    let places = places(&kernel, &probe);
    let seen: Vec<_> = places.iter().map(|place| (place, look(place))).collect();

    // The control: what is refused elsewhere is not because of these tests.
    for (place, seen) in &seen {
        if let (
            Place {
                name: "nothing", ..
            },
            Some(seen),
        ) = (place, seen)
        {
            assert_eq!(seen.happens, "works", "{seen:?}");
        }
    }

    let page = fs::read_to_string(PAGE).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (written, after) = rest.split_once(END).unwrap();
    let whole = seen.iter().all(|(_, seen)| seen.is_some());
    if env::var_os("UPDATE_DOCS").is_some_and(|value| value == "1") {
        assert!(
            whole,
            "the whole table is made as root, where nothing is skipped"
        );
        let table = table(&seen);
        fs::write(PAGE, format!("{before}{BEGIN}{table}{END}{after}")).unwrap();
        return;
    }
    let hint = "this writes it, as root: UPDATE_DOCS=1 cargo test --test spec nesting";
    if whole {
        assert_eq!(
            written,
            table(&seen),
            "docs/nesting.md is not what happens; {hint}"
        );
        return;
    }
    for (place, seen) in seen {
        let Some(seen) = seen else {
            println!("SKIP: {}: not compared", place.name);
            continue;
        };
        let own = match place.who {
            Who::Root => "root",
            Who::User => "user",
        };
        let written = [own, "either"]
            .iter()
            .any(|who| written.contains(&line(place.name, who, &seen)));
        assert!(
            written,
            "{} of `{own}` is not in docs/nesting.md: {seen:?}; {hint}",
            place.name
        );
    }
}

fn table(seen: &[(&Place, Option<Seen>)]) -> String {
    let mut text = String::from(
        "\n| around it | the daemon is | what happens | cause, as it is named | fix, as it is named |\n|---|---|---|---|---|\n",
    );
    for (index, (place, result)) in seen.iter().enumerate() {
        let Some(result) = result else { continue };
        let same = |(other, seen): &(&Place, Option<Seen>)| {
            other.name == place.name && other.who != place.who && seen.as_ref() == Some(result)
        };
        if seen[..index].iter().any(same) {
            continue;
        }
        let who = match (seen[index..].iter().any(same), place.who) {
            (true, _) => "either",
            (false, Who::Root) => "root",
            (false, Who::User) => "user",
        };
        text.write_str(&line(place.name, who, result)).unwrap();
    }
    text.push('\n');
    text
}
