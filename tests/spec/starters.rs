//! Programs that start others, and interpreters, as they run without hookjail and as hooks: with the same end and nothing denied.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start the programs themselves, for what they do without hookjail"
)]

use std::{path::Path, process::Command};

use hookjail::pb;

use crate::{
    support::{Daemon, directory},
    witness::writing,
};

/// Where the shipped profiles look for programs.
const PATH: [&str; 5] = ["/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"];

/// A program, and a script that has it start another.
type Starter = (&'static str, &'static str);

/// Programs that every distribution has.
#[rustfmt::skip] // One line for each program.
const EVERYWHERE: &[Starter] = &[
    ("awk", "awk 'BEGIN { exit system(\"echo started\") }'"),
    ("env", "env -u HOME A=started sh -c 'echo $A'"),
    ("find", ": >one; find . -name one -exec echo started {} ';' -exec sh -c 'echo $1' sh {} +"),
    ("nice", "nice -n 3 echo started && nice -n 3 nice -n 4 echo again"),
    ("nohup", "nohup echo started 2>/dev/null"),
    ("sh", "sh -c 'ulimit -n 64; ulimit -c 0; ulimit -n; (echo started) & wait $!'"),
    ("timeout", "timeout 20 echo started"),
    ("xargs", "printf 'a\\nb\\n' | xargs -n1 -P1 echo started"),
];

/// Programs that are tried where they are installed.
#[rustfmt::skip] // One line for each program.
const IF_INSTALLED: &[Starter] = &[
    ("bash", "bash -c 'ulimit -S -n 64; ulimit -n; ulimit -S -n $(ulimit -H -n); ulimit -n 32; ulimit -n; echo $(echo started)'"),
    ("busybox", "busybox sh -c 'busybox echo started | busybox cat'"),
    ("chrt", "chrt -b 0 echo started; chrt -i 0 echo again; chrt -o 0 echo more"),
    ("dash", "dash -c 'echo $(echo started)'"),
    ("expect", "expect -c 'puts [exec echo started]'"),
    ("flock", "flock lock echo started"),
    ("gpg", "gpg --no-options --version | head -n 1"),
    ("ionice", "ionice -c 3 echo started; ionice -c 2 -n 7 ionice"),
    ("ksh", "ksh -c 'echo $(echo started)'"),
    ("lua", "lua -e 'os.execute(\"echo started\")'"),
    ("make", "printf 'all: one\\n\\t@echo all\\none: two\\none two:\\n\\t@echo $@; exit 0\\nsub:\\n\\t@$(MAKE) -s all\\n' >Makefile; make -s && make -s -j2 && make -s sub"),
    ("mksh", "mksh -c 'echo $(echo started)'"),
    ("ninja", "printf 'rule r\\n command = echo started >$out\\nbuild one: r\\n' >build.ninja; ninja --quiet && cat one"),
    ("node", "node -e 'require(\"os\").setPriority(19); require(\"child_process\").execFileSync(\"echo\", [\"started\"], { stdio: \"inherit\" })'"),
    ("parallel", "parallel --will-cite -j1 echo ::: started"),
    ("perl", "perl -e '$< = $<; $> = $>; $( = $(+0; setpriority(0, 0, 19); system(\"echo\", \"started\"); print `echo again`'"),
    ("php", "php -r 'echo shell_exec(\"echo started\");'"),
    ("prlimit", "prlimit --nofile=64 --core=0 sh -c 'ulimit -n'"),
    ("python3", "python3 -c 'import os, resource, subprocess; os.nice(3); os.setuid(os.getuid()); os.setgid(os.getgid()); os.sched_setaffinity(0, os.sched_getaffinity(0)); \
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)); subprocess.run([\"echo\", \"started\"])'"),
    ("ruby", "ruby -e 'Process.setrlimit(:NOFILE, 64, 64); Process.setpriority(Process::PRIO_PROCESS, 0, 19); puts `echo started`'"),
    ("stdbuf", "stdbuf -oL echo started"),
    ("taskset", "taskset ffffffff echo started"),
    ("tclsh", "echo 'puts [exec echo started]' | tclsh"),
    ("tini", "tini -s -- echo started"),
    ("zsh", "zsh -f -c 'ulimit -n 64; echo $(echo started)'"),
];

fn is_installed(program: &str) -> bool {
    let mut directories = PATH.iter();
    directories.any(|directory| Path::new(directory).join(program).exists())
}

/// Runs a script without hookjail; returns its exit code, stdout and stderr.
fn bare(script: &str) -> (Option<i32>, String, String) {
    let home = directory();
    let output = Command::new("/bin/sh")
        .args(["-c", script])
        .current_dir(home.path())
        .env_clear()
        .env("PATH", PATH.join(":"))
        .env("HOME", home.path())
        .env("TMPDIR", home.path())
        .env("LANG", "C.UTF-8")
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

/// Programs that make a session or a group, or read `/proc`: without a process tree of their own some go on without, and others
/// end.
const IN_A_TREE: [&str; 4] = ["ninja", "parallel", "timeout", "tini"];

/// Returns what is wrong with a program as a hook under a profile, if anything is.
async fn fault(daemon: &Daemon, profile: &str, (program, script): Starter) -> Option<String> {
    let bare = bare(script);
    let request = pb::ExecuteRequest {
        profile: profile.to_owned(),
        ..writing(daemon, script)
    };
    let response = daemon.run(request).await.unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let confined = (
        response.outcome.unwrap().exit_code,
        text(&response.stdout),
        text(&response.stderr),
    );
    let denials = response.denials.iter();
    let denied: Vec<_> = denials.filter(|denial| !denial.incidental).collect();
    let is_well = bare.0 == Some(0) && confined == bare && denied.is_empty();
    (!is_well).then(|| {
        format!("{program} under {profile}: bare {bare:?}, confined {confined:?}, {denied:?}")
    })
}

#[tokio::test]
async fn a_program_that_starts_others_ends_as_without_hookjail_and_is_denied_nothing() {
    let daemon = Daemon::start().await;
    let installed = IF_INSTALLED
        .iter()
        .filter(|(program, _)| is_installed(program));

    let mut faults = Vec::new();
    for starter in EVERYWHERE.iter().chain(installed) {
        faults.extend(fault(&daemon, "workspace-rw", *starter).await);
        if !IN_A_TREE.contains(&starter.0) {
            faults.extend(fault(&daemon, "pipeline", *starter).await);
        }
    }

    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
