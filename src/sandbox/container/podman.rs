//! What Podman is told: a fixed template of flags. Pure, but for [`attend`].
//!
//! Podman mounts things of its own into every container. Where it finds that place taken it leaves it alone, so each is taken
//! here: by something empty, which is part of the plan as every other mount. Its store is one of this container alone, in the
//! directory of the run, and goes with it. Source of the flags: podman-run(1), 4.3.

use std::{
    env,
    ffi::{CString, OsString},
    fs::{self, File},
    io,
    os::{fd::AsFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
    process::{self, ExitCode},
    sync::Arc,
};

use nix::sys::resource::{Resource, getrlimit};

use crate::{
    policy::Network,
    sandbox::{
        container::{
            bundle::{Bind, Bundle, Kind},
            inside, start,
        },
        seccomp::{Pool, Stacked},
    },
    sys::{self, Action, Job, JobParts, LogFlags, WaitStatus},
};

/// What this program is called with to run Podman.
pub(in crate::sandbox) const ARGUMENT: &str = "container-engine";

/// Podman could not be started.
const UNSTARTED: u8 = 126;

/// Podman gives itself no more processes, whatever it may have.
const MOST_PROCESSES: u64 = 32_768;

/// All that Podman reads beside its flags. Its locks would otherwise be those of every Podman of this user.
const CONFIGURATION: &str = "[containers]\ndefault_sysctls = []\n[engine]\nlock_type = \"file\"\n";

/// What Podman reads of its store but where it lies, which flags say.
const STORAGE: &str =
    "[storage]\ndriver = \"vfs\"\nrunroot = \"/nowhere\"\ngraphroot = \"/nowhere\"\n";

/// What makes a path two on Podman's command line.
const SEPARATORS: [char; 4] = [',', ':', '=', '"'];

/// Whether a path can be named on Podman's command line, which knows no quoting.
pub(in crate::sandbox) fn can_name(path: &str) -> bool {
    !path
        .chars()
        .any(|c| SEPARATORS.contains(&c) || c.is_control())
}

/// Runs Podman, and ends when nothing of what it started is left: processes that watch over containers and clear up after
/// them. Its state is in the directory where this is started.
pub fn attend(command: &[OsString]) -> ExitCode {
    let code = await_all(command).map(u8::try_from);
    ExitCode::from(code.map_or(UNSTARTED, |code| code.unwrap_or(u8::MAX)))
}

fn await_all(command: &[OsString]) -> io::Result<i32> {
    let (engine, arguments) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    sys::become_subreaper()?;
    // Podman wants a short path here, and none in a run's directory is. Nothing is mounted from below it.
    let runroot = format!("--runroot=/proc/{}/cwd/run", process::id());
    let packed = |word: &[u8]| CString::new(word).map_err(io::Error::from);
    let mut argv = vec![packed(engine.as_bytes())?, packed(runroot.as_bytes())?];
    for argument in arguments {
        argv.push(packed(argument.as_bytes())?);
    }
    let environment = env::vars_os()
        .map(|(name, value)| packed(&[name.as_bytes(), b"=", value.as_bytes()].concat()));
    let job = Job::new(JobParts {
        action: Action::Execute {
            argv,
            environment: environment.collect::<Result<_, _>>()?,
            program: File::open(engine)?.into(),
        },
        canaries: None,
        closing: None,
        group: None,
        identity: None,
        limits: Vec::new(),
        log: LogFlags::default(),
        note: None,
        read_only: None,
        ruleset: None,
        stdio: [
            io::stdin().as_fd().try_clone_to_owned()?,
            io::stdout().as_fd().try_clone_to_owned()?,
            io::stderr().as_fd().try_clone_to_owned()?,
        ],
        working_dir: Arc::new(File::open(".")?.into()),
    })
    .map_err(|_| io::Error::other("it has no filter to be too long"))?;
    // Kept until the end: its children end with its thread.
    let (pool, _) = Pool::start(1, Stacked::default(), false)?;
    let (pid, _) = inside::launch(&pool, &Arc::new(job))?;
    let ended = sys::wait_for(pid)?;
    // Nobody has this id: it ends when no child is left.
    while sys::wait_for(0).is_ok() {}
    drop(pool);
    Ok(match ended.status {
        WaitStatus::Exited(code) => code,
        WaitStatus::Signaled(signal) => 128 + signal,
    })
}

/// Makes what Podman reads, and the empty places that take its own; returns what is mounted there, where nothing else is.
pub(in crate::sandbox) fn lay(
    home: &Path,
    binds: &[Bind],
) -> io::Result<Vec<(PathBuf, &'static str)>> {
    for name in ["state", "state/hooks"] {
        start::directory(&home.join(name))?;
    }
    // The places themselves are flags; without a driver here it warns in each run.
    fs::write(home.join("storage.conf"), STORAGE)?;
    fs::write(home.join("containers.conf"), CONFIGURATION)?;
    let (directory, file) = (home.join("nothing"), home.join("empty"));
    let sys = home.join("sys");
    for path in [&directory, &sys, &sys.join("fs"), &sys.join("fs/cgroup")] {
        start::directory(path)?;
    }
    File::create(&file)?;
    let taken = [
        (&file, "/etc/hostname"),
        (&file, "/etc/resolv.conf"),
        (&file, "/run/.containerenv"),
        (&sys, "/sys"),
        (&directory, "/sys/fs/cgroup"),
    ];
    let is_free = |target: &str| !binds.iter().any(|bind| bind.target == target);
    let free = taken.into_iter().filter(|(_, target)| is_free(target));
    Ok(free
        .map(|(source, target)| (source.clone(), target))
        .collect())
}

/// Returns Podman's environment: nothing of the daemon's, and no configuration but what is laid here.
pub(in crate::sandbox) fn environment(home: &str) -> Vec<String> {
    vec![
        format!("HOME={home}/state"),
        format!("CONTAINERS_CONF={home}/containers.conf"),
        format!("CONTAINERS_STORAGE_CONF={home}/storage.conf"),
    ]
}

/// Returns the command line of a container.
pub(in crate::sandbox) fn arguments(bundle: &Bundle<'_>, home: &str, id: &str) -> Vec<String> {
    let network = match bundle.network {
        Network::None => "none",
        // The host's own, which the filters narrow to what a profile may have.
        Network::Outbound => "host",
    };
    let user = bundle.user();
    let most = |resource, most: u64| {
        let (_, hard) = getrlimit(resource).unwrap_or((most, most));
        hard.min(most)
    };
    let files = most(Resource::RLIMIT_NOFILE, u64::MAX);
    let processes = most(Resource::RLIMIT_NPROC, MOST_PROCESSES);
    let fixed = [
        "--cgroup-manager=cgroupfs",
        "--events-backend=none",
        "--storage-driver=vfs",
    ];
    let of_run = [
        "--rm",
        "--pull=never",
        "--cap-drop=all",
        "--cgroups=disabled",
        "--hostname=hook",
        "--http-proxy=false",
        // Without it a runtime gives the hook's user /dev/null itself, the host's.
        "--interactive",
        "--ipc=none",
        "--log-driver=none",
        "--no-hosts",
        "--passwd=false",
        "--pid=private",
        "--read-only",
        "--read-only-tmpfs=false",
        "--sdnotify=ignore",
        "--security-opt=label=disable",
        "--security-opt=no-new-privileges",
        "--security-opt=proc-opts=nosuid,nodev,noexec,ro,hidepid=ptraceable,subset=pid",
        // The filters are loaded inside, from one table for all backends.
        "--security-opt=seccomp=unconfined",
        "--security-opt=unmask=ALL",
        "--systemd=false",
        "--unsetenv-all",
        "--uts=private",
        "--workdir=/",
    ];
    let owned = |texts: &[&str]| {
        texts
            .iter()
            .map(|&text| text.to_owned())
            .collect::<Vec<_>>()
    };
    let mut arguments = owned(&fixed);
    for (flag, name) in [("root", "store"), ("tmpdir", "tmp"), ("hooks-dir", "hooks")] {
        arguments.push(format!("--{flag}={home}/state/{name}"));
    }
    // What the runtime that Podman uses keeps, too.
    arguments.push(format!("--runtime-flag=root={home}/state/oci"));
    arguments.push("run".to_owned());
    arguments.extend(owned(&of_run));
    arguments.extend([
        format!("--name={id}"),
        format!("--network={network}"),
        format!("--ulimit=nofile={files}:{files}"),
        format!("--ulimit=nproc={processes}:{processes}"),
        format!("--user={}:{}", user.uid, user.gid),
    ]);
    // Podman does not hand its own on, as runtimes do.
    let sooner = sys::oom_score_adj_of_hooks();
    arguments.extend(sooner.map(|score| format!("--oom-score-adj={score}")));
    let mounts = bundle.binds.iter().map(mount);
    arguments.extend(mounts);
    arguments.push(format!(
        "--mount=type=tmpfs,dst={},tmpfs-size={},tmpfs-mode=700,nosuid,nodev,noexec,notmpcopyup,U=true",
        bundle.scratch, bundle.scratch_bytes
    ));
    arguments.push("--rootfs".to_owned());
    arguments.push(format!("{home}/root"));
    arguments.extend(owned(&[inside::PROGRAM, inside::ARGUMENT]));
    arguments
}

fn mount(bind: &Bind) -> String {
    let Bind {
        executable,
        kind,
        source,
        target,
        writable,
        ..
    } = bind;
    let or = |is, yes, no| if is { yes } else { no };
    let access = or(*writable, "rw", "ro");
    let execute = or(*executable, "exec", "noexec");
    let devices = or(*kind == Kind::Device, "dev", "nodev");
    format!(
        "--mount=type=bind,src={source},dst={target},{access},nosuid,{execute},{devices},bind-propagation=rprivate"
    )
}

/// Returns the command line of [`attend`].
pub(in crate::sandbox) fn attended(engine: &Path, arguments: Vec<String>) -> Vec<String> {
    let own = ["hookjail".to_owned(), ARGUMENT.to_owned()];
    let engine = engine.display().to_string();
    own.into_iter().chain([engine]).chain(arguments).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{sandbox::container::channel::Inode, sys::Identity};

    #[test]
    fn a_path_that_would_be_two_on_the_command_line_is_not_named() {
        for path in [
            "/work",
            "/with blank",
            "/back\\slash",
            "/--privileged",
            "/\u{e9}",
        ] {
            assert!(can_name(path), "{path}");
        }
        for path in ["/a,rw", "/a:b", "/a=b", "/a\"b", "/a\nb", "/a\0b"] {
            assert!(!can_name(path), "{path}");
        }
    }

    #[test]
    fn the_command_line_is_a_template_in_which_granted_paths_are_named() {
        let bind = |path: &str, writable, executable, kind| Bind {
            executable,
            inode: Inode {
                device: 1,
                number: 2,
            },
            kind,
            source: path.to_owned(),
            target: path.to_owned(),
            writable,
        };
        let bundle = |network| Bundle {
            cgroups_path: None,
            binds: vec![
                bind("/usr", false, true, Kind::Directory),
                bind("/--privileged", true, false, Kind::Directory),
                bind("/dev/null", true, false, Kind::Device),
            ],
            identity: Some(Identity {
                gid: 1001,
                uid: 1000,
            }),
            network,
            own: (0, 0),
            scratch: "/run/tmp",
            scratch_bytes: 4096,
        };
        let line = arguments(&bundle(Network::None), "/home", "id");
        let has = |line: &[String], wanted: &str| line.iter().any(|word| word == wanted);
        for flag in [
            "--network=none",
            "--user=1000:1001",
            "--cap-drop=all",
            "--read-only",
            "--interactive",
            "--pull=never",
            "--security-opt=no-new-privileges",
            "--mount=type=bind,src=/usr,dst=/usr,ro,nosuid,exec,nodev,bind-propagation=rprivate",
            "--mount=type=bind,src=/--privileged,dst=/--privileged,rw,nosuid,noexec,nodev,bind-propagation=rprivate",
            "--mount=type=bind,src=/dev/null,dst=/dev/null,rw,nosuid,noexec,dev,bind-propagation=rprivate",
        ] {
            assert!(has(&line, flag), "{flag} in {line:?}");
        }
        // What is executed is the last of it, and the engine's socket is nowhere in it.
        let end = ["--rootfs", "/home/root", inside::PROGRAM, inside::ARGUMENT];
        assert_eq!(line[line.len() - 4..], end);
        assert!(!line.iter().any(|word| word.contains(".sock")), "{line:?}");
        let outbound = arguments(&bundle(Network::Outbound), "/home", "id");
        assert!(has(&outbound, "--network=host") && !has(&outbound, "--network=none"));
    }
}
