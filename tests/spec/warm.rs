//! Interpreters that were started ahead: a hook is faster by them, and nothing else is different.

#![expect(clippy::print_stdout, reason = "prints why a part is left out")]
#![expect(
    clippy::disallowed_methods,
    reason = "tests start the command line, never a hook"
)]

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    time::Duration,
};

use hookjail::pb;
use nix::unistd::geteuid;
use tokio::time::sleep;

use crate::{
    attempts::{Ground, Probe, Side, ran_as, result},
    matrix::ALWAYS,
    metrics::{LISTENER, value},
    support::{Daemon, Setup, hook, needs_no_container, reason},
    witness::{end, event, hookjail, processes_that, until, until_clean, wall_time},
};

const PYTHON: &str = "/usr/bin/python3";
const NODE: &str = "/usr/bin/node";
const BASH: &str = "/usr/bin/bash";

/// Returns a set-up with profiles under which processes wait. `warm`, `warm-ro` and `warm-too` can read the workspace.
/// `warm-closed` can read it in a view of its own, and `warm-view` can write it there. `cold-closed` is `warm-closed` without
/// waiting processes.
fn setup(more: &str) -> Setup {
    let profile = |name: &str, parent: &str| {
        let text = format!(
            "description = \"Warm.\"\nextends = {parent:?}\nwarm = 1\n[environment]\nallow = [\"ASKED\", \"LANG\"]\n{more}"
        );
        (name.to_owned(), text)
    };
    let (name, closed) = profile("warm-closed", "workspace-ro");
    let closed = closed.replace("warm = 1", "warm = 1\nview = \"own\"");
    let without = closed.replace("warm = 1", "warm = 0");
    Setup {
        profiles: vec![
            profile("warm", "strict"),
            (name, closed),
            ("cold-closed".to_owned(), without),
            profile("warm-ro", "workspace-ro"),
            profile("warm-too", "workspace-ro"),
            profile("warm-view", "workspace-rw"),
        ],
        env: vec![(
            "HOOKJAIL_LOG".to_owned(),
            "info,hookjail_sandbox=debug".to_owned(),
        )],
        ..Setup::default()
    }
}

/// Writes a script, and returns a request that runs it by an interpreter.
fn script(daemon: &Daemon, interpreter: &str, name: &str, text: &str) -> pb::ExecuteRequest {
    let directory = daemon.workspace().join("scripts");
    fs::create_dir_all(&directory).unwrap();
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).unwrap();
    let path = directory.join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let mut request = hook([interpreter, path.to_str().unwrap(), "first", "--second"]);
    request.profile = "warm".to_owned();
    request.event = event("{\"the\": \"event\"}");
    request
}

/// Returns the time that the process of a run had waited, according to the evidence.
fn waited(response: &pb::ExecuteResponse) -> Option<&str> {
    let evidence = &response.confinement.as_ref().unwrap().evidence;
    let warm = evidence.iter().find(|seen| seen.check == "warm")?;
    Some(&warm.observed)
}

/// Returns the number of lines of the log about a hook's waiting process with these words.
fn logged(daemon: &Daemon, request: &pb::ExecuteRequest, what: &str) -> usize {
    let script = request.hook.as_ref().unwrap().argv.iter();
    let script = script.clone().find(|word| word.contains("/scripts/"));
    let is_told = |line: &&str| line.contains(what) && line.contains(&**script.unwrap());
    daemon.log().lines().filter(is_told).count()
}

/// Waits until more processes for a hook than `before` have come to wait.
async fn until_another_waits(daemon: &Daemon, request: &pb::ExecuteRequest, before: usize) {
    let came = || logged(daemon, request, "a process waits");
    until("a process waits", || came() > before).await;
}

/// Runs a hook until a process waits for it, and once more. Returns the first run and the last.
async fn cold_and_warm(
    daemon: &Daemon,
    request: &pb::ExecuteRequest,
) -> (pb::ExecuteResponse, pb::ExecuteResponse) {
    let before = logged(daemon, request, "a process waits");
    let cold = daemon.run(request.clone()).await.unwrap();
    // A command that is asked for a second time is started ahead.
    for response in [cold.clone(), daemon.run(request.clone()).await.unwrap()] {
        assert_eq!(waited(&response), None);
    }
    until_another_waits(daemon, request, before).await;
    let warm = daemon.run(request.clone()).await.unwrap();
    assert!(waited(&warm).is_some(), "{warm:?}");
    (cold, warm)
}

/// Has a request's hook read the workspace.
fn in_workspace(daemon: &Daemon, mut request: pb::ExecuteRequest) -> pb::ExecuteRequest {
    request.profile = "warm-ro".to_owned();
    request.hook.as_mut().unwrap().workspace = daemon.workspace().display().to_string();
    request
}

/// Has a request's hook write the workspace, in a view of its own.
fn in_view(daemon: &Daemon, request: pb::ExecuteRequest) -> pb::ExecuteRequest {
    let mut request = in_workspace(daemon, request);
    request.profile = "warm-view".to_owned();
    request
}

/// Returns the processes that wait for a hook with this word.
fn waiting(word: &str) -> usize {
    processes_that(|line| line.contains(word)).count()
}

/// Returns what was printed, with one name for the directories of all runs.
fn printed(response: &pb::ExecuteResponse) -> [String; 2] {
    [&response.stdout, &response.stderr].map(|bytes| {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let mut parts = text.split("run-");
        let first = parts.next().unwrap().to_owned();
        let rest = parts.map(|part| part.get(32..).unwrap_or(part));
        [first]
            .into_iter()
            .chain(rest.map(str::to_owned))
            .collect::<Vec<_>>()
            .join("run-ID")
    })
}

/// Scripts, by the property that they print, or by which they end.
const PYTHON_SCRIPTS: [(&str, &str); 15] = [
    (
        "arguments",
        "import sys; print(sys.argv, sys.orig_argv, sys.flags)",
    ),
    (
        "places",
        "import os, sys; print(__file__, sys.path, os.getcwd(), __name__, __spec__, type(__loader__).__name__, sorted(globals()))",
    ),
    (
        "site",
        "import re, sys\ns, e = (sys.modules[name] for name in ('site', 'encodings'))\nprint(re.sub('0x[0-9a-f]+', '', repr((s.__spec__, s.__loader__, sorted(vars(s)), s.ENABLE_USER_SITE, s.USER_SITE, e.__spec__, e.__file__, sys.meta_path, sys.prefix, sys.base_prefix))))",
    ),
    (
        "modules",
        "import sys; print('sitecustomize' in sys.modules, [p for p in sys.path_importer_cache if 'warm' in p])",
    ),
    (
        "main",
        "import inspect, sys; print(sys.modules['__main__'].__file__ == __file__, len(inspect.stack()))",
    ),
    (
        "variables",
        "import os; print(list(os.environ.items()), flush=True)\nos.execv('/usr/bin/env', ['env'])",
    ),
    (
        "stdin",
        "import os, sys; print(repr(sys.stdin.read()), sys.stdin.encoding, os.fstat(0).st_mode, sorted(os.listdir('/proc/self/fd'))[:3])",
    ),
    ("a code", "import sys; sys.exit(7)"),
    ("a text as code", "import sys; sys.exit('no')"),
    (
        "a signal",
        "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    ),
    ("an interrupt", "raise KeyboardInterrupt"),
    ("an exception", "def f():\n    raise ValueError('x')\nf()"),
    ("a syntax error", "def f(:\n"),
    (
        "its end",
        "import atexit, threading, time\natexit.register(print, 'at exit')\nthreading.Thread(target=lambda: (time.sleep(0.05), print('thread'))).start()",
    ),
    (
        "a future import",
        "from __future__ import annotations\nx: nothing = 1\nprint(__annotations__)",
    ),
];

const NODE_SCRIPTS: [(&str, &str); 9] = [
    (
        "arguments.js",
        "console.log(process.argv, process.execArgv, process.argv0, process.title)",
    ),
    (
        "places.js",
        "console.log(__filename, process.cwd(), require.main === module, module.paths.length, Object.keys(require.cache), Object.keys(globalThis))",
    ),
    (
        "variables.js",
        "console.log(JSON.stringify(Object.entries(process.env)))",
    ),
    (
        "stdin.js",
        "process.stdin.setEncoding('utf8'); let s = ''; process.stdin.on('data', d => s += d); process.stdin.on('end', () => console.log(s, process.stdin.fd))",
    ),
    (
        "module.mjs",
        "import fs from 'node:fs'; console.log(import.meta.url, process.argv, fs.readFileSync(0, 'utf8')); await 0; export {}",
    ),
    (
        "code.cjs",
        "process.on('exit', c => console.log('exit', c)); process.exitCode = 7",
    ),
    ("exception.js", "function f() { throw new Error('x') }\nf()"),
    ("signal.js", "process.kill(process.pid, 'SIGKILL')"),
    (
        "worker.js",
        "const { Worker, isMainThread } = require('worker_threads'); if (isMainThread) new Worker(__filename).on('exit', c => console.log('worker', c)); else console.log('in it', process.execArgv)",
    ),
];

const BASH_SCRIPTS: [(&str, &str); 12] = [
    (
        "arguments.sh",
        "printf '%s\\n' \"$0\" \"$@\" \"$-\" \"$?\" \"$_\" \"${BASH_SOURCE[@]}\" \"$LINENO\" \"$SECONDS\"",
    ),
    (
        "variables.sh",
        // Variables that differ between any two runs, and those of bash about the file that it read before.
        "differs='^declare -[-a-z]+ (BASH_ARG[CV]|BASHPID|EPOCH|EUID|HOSTNAME|PPID|RANDOM|SECONDS|SRANDOM|TMPDIR|UID)'\n\
         declare -p | while IFS= read -r line; do [[ $line =~ $differs ]] || printf '%s\\n' \"$line\"; done",
    ),
    (
        "environment.sh",
        "env | sort; declare -F; trap; hash; jobs; set -o; shopt",
    ),
    ("places.sh", "pwd; pwd -P; cd /; cd -; dirs"),
    (
        "stdin.sh",
        "read -r line; printf '%s|' \"$line\"; cat; ls /proc/self/fd | head -n 3",
    ),
    ("code.sh", "exit 7"),
    ("last.sh", "echo last; false"),
    ("signal.sh", "kill -TERM $$"),
    ("syntax.sh", "echo before\nif then\n"),
    (
        "trap.sh",
        "trap 'echo at exit $?' EXIT; f() { return 3; }; set -e; f; echo never",
    ),
    ("unset.sh", "set -u; echo \"$nothing\""),
    (
        "children.sh",
        "bash -c 'echo \"$0 $SHLVL ${BASH_ENV-none}\"' child & wait; cat <<< here; (echo sub $BASH_SUBSHELL)",
    ),
];

#[tokio::test]
async fn a_number_beyond_the_most_is_refused() {
    let mut setup = setup("");
    setup.profiles[0].1 = setup.profiles[0].1.replace("warm = 1", "warm = 9");
    let daemon = Daemon::with(setup).await;
    let request = pb::ExecuteRequest {
        profile: "warm".to_owned(),
        ..hook(["/bin/true"])
    };
    let refused = daemon.run(request).await.unwrap_err();
    let message = refused.message();
    assert!(message.contains("`warm` is 9; set 0 to 8"), "{message}");
}

/// Makes every attempt in a run for which a process has waited. Each must fail, and works without confinement. An attempt that
/// also works under `cold_profile`, under which none waits, is left out.
async fn every_attempt_fails(
    daemon: &Daemon,
    probe: &Probe,
    cold_profile: Option<&str>,
    request: impl Fn(Vec<String>) -> pb::ExecuteRequest,
) {
    // Number of runs without the same user of the pool after which another user takes its place.
    const MISSES: usize = 8;
    let mut user = probe.user(daemon).await;
    let lay = |user| Ground::lay(daemon, probe, user);
    let waits = || daemon.log().matches("a process waits").count();
    let (mut cold, mut taken) = (0, waits());
    let (mut tried, mut faults) = (0, Vec::new());
    let mut ground = lay(user);
    for attempt in ALWAYS {
        match probe.control(daemon, user, attempt) {
            Side::Effect => {}
            Side::Fault(fault) => {
                faults.push(fault);
                continue;
            }
            Side::Unproved(_) => continue,
        }
        let request_on = |ground: &Ground| {
            let program = probe.path().display().to_string();
            let words = [program].into_iter().chain(ground.words(attempt.words));
            let mut request = request(words.collect());
            request.hook.as_mut().unwrap().workspace = ground.workspace.display().to_string();
            request
        };
        let mut misses = 0;
        let mut before = ground.look();
        let confined = loop {
            // A command that is asked for a second time is started ahead, and again whenever that has been taken.
            if cold >= 2 {
                until("a process waits", || waits() > taken).await;
            }
            let response = daemon.run(request_on(&ground)).await.unwrap();
            let ran = ran_as(&response);
            match waited(&response) {
                // As the user whose the ground is: others could do less to it.
                Some(_) if ran == Some(user) => break result(response),
                Some(_) => {
                    taken += 1;
                    misses += 1;
                }
                None => cold += 1,
            }
            if let (true, Some(another)) = (misses == MISSES, ran) {
                misses = 0;
                user = another;
                ground = lay(user);
                before = ground.look();
            }
            assert!(taken + cold < 20 * ALWAYS.len(), "{taken} {cold} {tried}");
        };
        taken += 1;
        let after = ground.look();
        let mut is_same_without = false;
        if let Some(profile) = cold_profile
            && attempt.fault(&confined, (&before, &after)).is_some()
        {
            let mut request = request_on(&ground);
            request.profile = profile.to_owned();
            let response = daemon.run(request).await.unwrap();
            assert_eq!(waited(&response), None);
            let alone = result(response);
            // A view mounts read-only what lies in a directory that it covers. Another user of the pool has fewer rights besides.
            let is_refused = confined.code == Some(libc::EROFS) && confined.said.is_empty();
            let is_same = (&alone.code, &alone.said) == (&confined.code, &confined.said);
            is_same_without = (is_refused || is_same) && before == after;
        }
        if let Some(fault) = attempt
            .fault(&confined, (&before, &after))
            .filter(|_| !is_same_without)
        {
            faults.push(format!("{} {:?}: {fault}", attempt.row, attempt.words));
            ground = lay(user);
        }
        tried += 1;
    }
    assert!(tried > 60, "{tried}");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

mod with_tools {
    use super::*;

    async fn is_the_same(
        interpreter: &str,
        scripts: &[(&str, &str)],
        place: fn(&Daemon, pb::ExecuteRequest) -> pb::ExecuteRequest,
    ) {
        let daemon = Daemon::with(setup("")).await;
        for (name, text) in scripts {
            let file = match interpreter {
                PYTHON => format!("{}.py", name.replace(' ', "_")),
                _ => (*name).to_owned(),
            };
            let request = script(&daemon, interpreter, &file, text);
            let mut request = place(&daemon, request);
            let variables = &mut request.hook.as_mut().unwrap().env;
            // Of all kinds that a variable may have.
            let value = "by the request: 'x' \\ \"$HOME\" `id` !! ä\u{1}\u{7f}\n\t*";
            variables.insert("ASKED".to_owned(), value.to_owned());

            let (cold, warm) = cold_and_warm(&daemon, &request).await;

            assert_eq!(end(&cold), end(&warm), "{name}");
            assert_eq!(printed(&cold), printed(&warm), "{name}");
            let output = printed(&cold).concat();
            assert_eq!(
                output.is_empty(),
                [
                    "a_code.py",
                    "a_signal.py",
                    "code.sh",
                    "signal.js",
                    "signal.sh"
                ]
                .contains(&&*file),
                "{name}: {output}"
            );
            let checks = |response: &pb::ExecuteResponse| {
                let evidence = response.confinement.clone().unwrap().evidence.into_iter();
                let checks = evidence.filter(|seen| !["uid", "warm"].contains(&&*seen.check));
                checks
                    .map(|seen| (seen.check, seen.observed))
                    .collect::<Vec<_>>()
            };
            assert_eq!(checks(&cold), checks(&warm), "{name}");
        }
    }

    #[tokio::test]
    #[ignore = "needs python3"]
    async fn a_python_script_cannot_tell_that_its_interpreter_waited() {
        needs_no_container();
        is_the_same(PYTHON, &PYTHON_SCRIPTS, |_, request| request).await;
    }

    #[tokio::test]
    #[ignore = "needs python3"]
    async fn a_python_script_in_a_view_cannot_tell_that_its_interpreter_waited() {
        needs_no_container();
        is_the_same(PYTHON, &PYTHON_SCRIPTS, in_view).await;
    }

    #[tokio::test]
    #[ignore = "needs bash"]
    async fn a_bash_script_cannot_tell_that_its_interpreter_waited() {
        needs_no_container();
        is_the_same(BASH, &BASH_SCRIPTS, |_, request| request).await;
    }

    #[tokio::test]
    #[ignore = "needs bash"]
    async fn the_seconds_of_a_bash_script_count_from_its_run() {
        needs_no_container();
        let daemon = Daemon::with(setup("")).await;
        let request = script(&daemon, BASH, "seconds.sh", "echo $SECONDS");
        cold_and_warm(&daemon, &request).await;
        until_another_waits(&daemon, &request, 1).await;
        tokio::time::sleep(Duration::from_millis(2100)).await;
        let warm = daemon.run(request).await.unwrap();
        assert!(waited(&warm).is_some_and(|it| it > "waited 2"), "{warm:?}");
        let seconds: u64 = printed(&warm)[0].trim().parse().unwrap();
        assert!(seconds < 2, "{seconds}");
    }

    #[tokio::test]
    #[ignore = "needs bash"]
    async fn what_a_workspace_keeps_is_kept_where_bash_waited() {
        needs_no_container();
        let daemon = Daemon::with(setup("")).await;
        let text = "cd \"$CLAUDE_PROJECT_DIR\" && for file in .claude/settings.json .git/config .mcp.json made; do\n\
                    if (echo changed > $file) 2> /dev/null; then echo $file written; else echo $file kept; fi; done";
        let request = project(&daemon, BASH, "writes.sh", text);
        let (cold, warm) = cold_and_warm(&daemon, &request).await;
        assert_eq!(printed(&cold), printed(&warm));
        let expected =
            ".claude/settings.json kept\n.git/config kept\n.mcp.json kept\nmade written\n";
        assert_eq!(printed(&warm)[0], expected);
        let settings = daemon.workspace().join(".claude/settings.json");
        assert_eq!(fs::read_to_string(&settings).unwrap(), "{}");
    }

    #[tokio::test]
    #[ignore = "needs bash"]
    async fn a_bash_script_in_a_view_cannot_tell_that_its_interpreter_waited() {
        needs_no_container();
        is_the_same(BASH, &BASH_SCRIPTS, in_view).await;
    }

    #[tokio::test]
    #[ignore = "needs node"]
    async fn a_node_script_in_a_view_cannot_tell_that_its_interpreter_waited() {
        needs_no_container();
        is_the_same(NODE, &NODE_SCRIPTS, in_view).await;
    }

    #[tokio::test]
    #[ignore = "needs node"]
    async fn a_node_script_cannot_tell_that_its_interpreter_waited() {
        needs_no_container();
        is_the_same(NODE, &NODE_SCRIPTS, |_, request| request).await;
    }

    #[tokio::test]
    #[ignore = "needs python3"]
    async fn the_language_of_a_request_is_that_of_an_interpreter_of_its_own() {
        needs_no_container();
        let daemon = Daemon::with(setup("")).await;
        let text = "import sys; print(sys.flags.utf8_mode, sys.getfilesystemencoding())";
        let mut request = script(&daemon, PYTHON, "language.py", text);
        let (_, warm) = cold_and_warm(&daemon, &request).await;
        until_another_waits(&daemon, &request, 1).await;
        let variables = &mut request.hook.as_mut().unwrap().env;
        variables.insert("LANG".to_owned(), "de_DE.ISO-8859-1".to_owned());
        let (cold, other) = cold_and_warm(&daemon, &request).await;
        assert_eq!(printed(&cold), printed(&other));
        drop(warm);
    }

    #[tokio::test]
    #[ignore = "needs python3"]
    async fn an_interpreter_serves_one_run_and_shares_nothing_with_another() {
        needs_no_container();
        let daemon = Daemon::with(setup("")).await;
        let text = "import os, sys\nprint(os.getpid(), os.environ['HOME'], os.listdir(os.environ['TMPDIR']), os.environ.get('ASKED'))\nopen(os.environ['TMPDIR'] + '/left', 'w').close()";
        let request = script(&daemon, PYTHON, "shares.py", text);
        let (_, first) = cold_and_warm(&daemon, &request).await;
        let mut seen = vec![printed(&first)[0].clone()];
        let [first_pid, first_home] = [0, 1].map(|index| {
            String::from_utf8_lossy(&first.stdout)
                .split(' ')
                .nth(index)
                .unwrap()
                .to_owned()
        });
        for warm in 1..8 {
            until_another_waits(&daemon, &request, warm).await;
            let response = daemon.run(request.clone()).await.unwrap();
            assert!(waited(&response).is_some());
            let text = String::from_utf8_lossy(&response.stdout).into_owned();
            let words: Vec<_> = text.split_whitespace().collect();
            assert_ne!((words[0], words[1]), (&*first_pid, &*first_home));
            assert_eq!(words[2..], ["[]", "None"], "{text}");
            assert!(!seen.contains(&text), "{text}");
            seen.push(text);
        }
    }

    #[tokio::test]
    #[ignore = "needs python3"]
    async fn what_waits_has_nothing_of_a_request_and_no_script() {
        needs_no_container();
        let daemon = Daemon::with(setup("")).await;
        let mut request = script(&daemon, PYTHON, "unseen-by-what-waits.py", "print('ran')");
        let variables = &mut request.hook.as_mut().unwrap().env;
        variables.insert("ASKED".to_owned(), "a secret of the caller".to_owned());
        cold_and_warm(&daemon, &request).await;
        let holds = |line: &str| line.contains("unseen-by-what-waits.py");
        until_another_waits(&daemon, &request, 1).await;
        let (pid, line) = processes_that(holds).next().unwrap();
        // The positive control: its variables can be read, and it has those that matter at its start.
        let variables = || fs::read(format!("/proc/{pid}/environ")).unwrap();
        let names =
            |text: &[u8], name: &str| text.windows(name.len()).any(|it| it == name.as_bytes());
        assert!(names(&variables(), "PATH="));
        assert!(!names(&variables(), "ASKED") && !names(&variables(), "a secret"));
        let named = line
            .split_whitespace()
            .find(|word| word.ends_with(".py"))
            .unwrap();
        let named = fs::symlink_metadata(named);
        assert_eq!(named.unwrap_err().kind(), std::io::ErrorKind::NotFound);
        // The journal has no record of the waiting process, which is no run.
        let records = daemon.records();
        let count = |kind: &str| records.iter().filter(|it| *it == kind).count();
        assert_eq!(count("started"), count("ended"));
    }

    /// Makes a virtual environment in the workspace, with a `.pth` file. Returns its interpreter and that file.
    fn virtual_environment(daemon: &Daemon, pth: &str) -> (String, PathBuf) {
        let place = daemon.workspace().join(".venv");
        let made = std::process::Command::new(PYTHON)
            .args(["-m", "venv", "--without-pip", "--symlinks"])
            .arg(&place)
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
        let library = fs::read_dir(place.join("lib")).unwrap().next();
        let file = library.unwrap().unwrap().path();
        let file = file.join("site-packages/planted.pth");
        fs::write(&file, pth).unwrap();
        (place.join("bin/python3").display().to_string(), file)
    }

    #[tokio::test]
    #[ignore = "needs python3"]
    async fn an_interpreter_that_does_not_wait_runs_no_script_ahead() {
        needs_no_container();
        let daemon = Daemon::with(setup("")).await;
        let (python, _) = virtual_environment(&daemon, "");
        // Its library lies where others than root could change it.
        let base = daemon.workspace().join("base");
        fs::create_dir_all(base.join("bin")).unwrap();
        fs::create_dir(base.join("lib")).unwrap();
        symlink(PYTHON, base.join("bin/python3")).unwrap();
        for entry in fs::read_dir("/usr/lib").unwrap() {
            let library = entry.unwrap().path();
            let name = library.file_name().unwrap();
            if name.as_encoded_bytes().starts_with(b"python3.") {
                symlink(&library, base.join("lib").join(name)).unwrap();
            }
        }
        let named = daemon.workspace().join(".venv/pyvenv.cfg");
        fs::write(named, format!("home = {}\n", base.join("bin").display())).unwrap();
        let text = "import sys; print(len(sys.stdin.read()), sys.prefix != sys.base_prefix)";
        let request = in_workspace(&daemon, script(&daemon, &python, "alone.py", text));
        for run in 0..4 {
            let response = daemon.run(request.clone()).await.unwrap();
            if run == 1 {
                let tried = || logged(&daemon, &request, "no process waits unfit=Always");
                until("one is tried", || tried() == 1).await;
            }
            assert_eq!(waited(&response), None);
            let expected = ["16 True\n".to_owned(), String::new()];
            assert_eq!(printed(&response), expected);
        }
        until("none of them is left", || waiting("alone.py") == 0).await;
    }

    #[tokio::test]
    #[ignore = "needs python3"]
    async fn the_interpreter_of_a_virtual_environment_waits_as_long_as_that_is_the_same() {
        needs_no_container();
        let daemon = Daemon::with(setup("")).await;
        let (python, _) = virtual_environment(&daemon, "");
        let text =
            "import sys, json; print(sys.prefix, sys.base_prefix, sys.path[1:], json.__file__)";
        let makes: [fn(&Daemon, pb::ExecuteRequest) -> pb::ExecuteRequest; 2] =
            [in_workspace, in_view];
        for (number, make) in makes.into_iter().enumerate() {
            let name = format!("venv-{number}.py");
            let request = make(&daemon, script(&daemon, &python, &name, text));
            let (cold, warm) = cold_and_warm(&daemon, &request).await;
            assert!(printed(&cold)[0].contains("/.venv "), "{cold:?}");
            assert_eq!(printed(&warm), printed(&cold));
            until_another_waits(&daemon, &request, 1).await;
            let named = daemon.workspace().join(".venv/pyvenv.cfg");
            let text = fs::read_to_string(&named).unwrap();
            fs::write(&named, text + "# changed\n").unwrap();
            let changed = daemon.run(request).await.unwrap();
            assert_eq!(waited(&changed), None);
            assert_eq!(printed(&changed), printed(&cold));
        }
    }

    #[tokio::test]
    #[ignore = "needs python3"]
    async fn explain_and_status_say_what_waits_and_why_nothing_does() {
        needs_no_container();
        let daemon = Daemon::with(setup("")).await;
        let configuration = daemon.path().join("hookjail.toml");
        let waits = in_view(&daemon, script(&daemon, PYTHON, "waits.py", "print(1)"));
        let path = daemon.workspace().join("scripts/waits.py");
        let path = path.to_str().unwrap();
        let explain = |profile: &str, words: &[&str]| {
            let start = ["explain", "--json", "--profile", profile, "warm", "--"];
            let words: Vec<_> = start.iter().chain(words).copied().collect();
            let mut command = hookjail(&configuration, &words);
            let done = command.current_dir(daemon.workspace()).output().unwrap();
            let answer: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
            let waits = answer["waits"] == true;
            assert_eq!(done.status.code(), Some(i32::from(!waits)), "{done:?}");
            let because = answer["because"].as_str().unwrap_or_default().to_owned();
            assert_eq!(because.is_empty(), waits, "{answer}");
            because
        };
        let copied = daemon.workspace().join("python3");
        fs::copy(fs::canonicalize(PYTHON).unwrap(), &copied).unwrap();
        let copied = copied.to_str().unwrap();
        assert_eq!(explain("warm-view", &[PYTHON, path]), "");
        for (profile, words, part) in [
            ("cold-closed", &[PYTHON, path][..], "`warm = 0`; set"),
            ("warm-view", &["/bin/sh", path], "`/bin/sh` is not bash"),
            ("warm-view", &[PYTHON, "-I", path], "the option `-I`"),
            ("warm-view", &[PYTHON, "-c", "pass"], "no word is a script"),
            (
                "warm-view",
                &[PYTHON, "-m", "json.tool"],
                "no word is a script",
            ),
            (
                "warm-view",
                &[copied, path],
                "can be changed by others than root",
            ),
        ] {
            let because = explain(profile, words);
            assert!(because.contains(part), "{words:?}: {because}");
        }
        // The behaviour agrees with the explanation.
        cold_and_warm(&daemon, &waits).await;
        until_another_waits(&daemon, &waits, 1).await;
        let status = hookjail(&configuration, &["status"]).output().unwrap();
        let status = String::from_utf8(status.stdout).unwrap();
        assert!(
            status.contains("1 waiting, 1 runs began in one and saved "),
            "{status}"
        );
        let status = hookjail(&configuration, &["status", "--json"])
            .output()
            .unwrap();
        let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
        let saved = status["waiting"]["saved"].as_str().unwrap();
        let saved: f64 = saved.trim_end_matches('s').parse().unwrap();
        assert!(saved > 0.001, "the start of an interpreter took {saved} s");
    }

    /// Runs a hook until something may wait for it, changes what it loads, and returns what it printed before and after.
    async fn before_and_after(
        daemon: &Daemon,
        request: &pb::ExecuteRequest,
        change: impl FnOnce(),
    ) -> [String; 2] {
        let before = daemon.run(request.clone()).await.unwrap();
        daemon.run(request.clone()).await.unwrap();
        let tried = || logged(daemon, request, "process waits");
        until("something waits, or cannot", || tried() > 0).await;
        change();
        let after = daemon.run(request.clone()).await.unwrap();
        [before, after].map(|response| printed(&response)[0].clone())
    }

    #[tokio::test]
    #[ignore = "needs python3"]
    async fn what_a_virtual_environment_executes_is_executed_with_the_run_alone() {
        needs_no_container();
        let daemon = Daemon::with(setup("")).await;
        let state = daemon.workspace().join("state");
        fs::write(&state, "one").unwrap();
        let line = format!("import builtins; builtins.SEEN = open({state:?}).read()\n");
        let (python, planted) = virtual_environment(&daemon, &line);
        let text = "import builtins; print(getattr(builtins, 'SEEN', 'nothing'))";
        let request = in_workspace(&daemon, script(&daemon, &python, "planted.py", text));

        let change = || fs::write(&state, "two").unwrap();
        let seen = before_and_after(&daemon, &request, change).await;
        assert_eq!(seen, ["one\n", "two\n"]);
        fs::remove_file(planted).unwrap();
        let response = daemon.run(request).await.unwrap();
        assert_eq!(printed(&response).concat(), "nothing\n");
    }

    #[tokio::test]
    #[ignore = "needs python3"]
    async fn what_python_loads_by_itself_is_loaded_with_the_run() {
        needs_no_container();
        let daemon = Daemon::with(setup("")).await;
        let text = "import sys\nloaded = sys.modules.get('usercustomize')\nprint(sys.modules['site'].USER_SITE, getattr(loaded, 'VALUE', 'none'))";
        let request = script(&daemon, PYTHON, "by-itself.py", text);
        let (cold, warm) = cold_and_warm(&daemon, &request).await;
        let output = printed(&cold)[0].clone();
        assert_eq!(printed(&warm)[0], output);
        let (place, output) = output.trim_end().split_once(' ').unwrap();
        assert_eq!(output, "none");
        let (_, place) = place.split_once("/.local/").unwrap();
        until_another_waits(&daemon, &request, 1).await;

        // Its own scratch directory, which is its home, belongs to this run alone.
        let (pid, _) = processes_that(|line| line.contains("by-itself.py"))
            .next()
            .unwrap();
        let variables = fs::read_to_string(format!("/proc/{pid}/environ")).unwrap();
        let home = variables
            .split('\0')
            .find_map(|it| it.strip_prefix("HOME="));
        let place = Path::new(home.unwrap()).join(".local").join(place);
        fs::create_dir_all(&place).unwrap();
        fs::write(place.join("usercustomize.py"), "VALUE = 'here'").unwrap();

        let response = daemon.run(request).await.unwrap();
        assert!(waited(&response).is_some());
        let output = printed(&response).concat();
        assert!(output.ends_with(" here\n"), "{output}");
    }

    /// Returns a set-up whose profiles set a variable, and let hooks read a directory.
    fn with_variable(name: &str, value: &str, directory: &Path) -> Setup {
        setup(&format!(
            "set = {{ {name} = {value:?} }}\n[files]\nnamed = [{{ path = {directory:?}, access = \"read\" }}]\n"
        ))
    }

    /// Makes a directory that hooks can read.
    fn readable() -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        directory
    }

    #[tokio::test]
    #[ignore = "needs python3"]
    async fn modules_that_a_profile_puts_before_pythons_own_are_those_of_the_run() {
        needs_no_container();
        let modules = readable();
        let path = modules.path().display().to_string();
        let daemon = Daemon::with(with_variable("PYTHONPATH", &path, modules.path())).await;
        let request = script(&daemon, PYTHON, "path.py", "import json; print(json.VALUE)");
        let write = |text: &str| fs::write(modules.path().join("json.py"), text).unwrap();
        write("VALUE = 'one'");
        let seen = before_and_after(&daemon, &request, || write("VALUE = 'two'")).await;
        assert_eq!(seen, ["one\n", "two\n"]);
    }

    #[tokio::test]
    #[ignore = "needs node"]
    async fn modules_that_a_profile_has_node_load_are_those_of_the_run() {
        needs_no_container();
        let modules = readable();
        let file = modules.path().join("early.cjs").display().to_string();
        let directory = modules.path().display().to_string();
        let print_value = "try { console.log(globalThis.VALUE ?? require('early').VALUE) } catch { console.log('missing') }";
        for (name, value) in [
            ("NODE_OPTIONS", format!("--require {file}")),
            ("NODE_OPTIONS", format!("--import {file}")),
            ("NODE_OPTIONS", format!("--experimental-loader {file}")),
            ("NODE_PATH", directory),
        ] {
            let daemon = Daemon::with(with_variable(name, &value, modules.path())).await;
            let request = script(&daemon, NODE, "early.js", print_value);
            let write = |text: &str| {
                fs::write(
                    &file,
                    format!("globalThis.VALUE = '{text}'; console.log('early {text}')"),
                )
                .unwrap();
                let module = format!("exports.VALUE = '{text}'");
                fs::write(modules.path().join("early.js"), module).unwrap();
            };
            write("one");
            let [before, after] = before_and_after(&daemon, &request, || write("two")).await;
            assert!(
                before.contains("one") && !before.contains("two"),
                "{value}: {before}"
            );
            assert_eq!(after, before.replace("one", "two"), "{value}");
        }
    }

    #[tokio::test]
    #[ignore = "needs python3"]
    async fn a_script_that_was_changed_runs_as_it_is_now() {
        needs_no_container();
        let daemon = Daemon::with(setup("")).await;
        let request = script(&daemon, PYTHON, "changes.py", "print('before')");
        cold_and_warm(&daemon, &request).await;
        until_another_waits(&daemon, &request, 1).await;
        let changed = script(&daemon, PYTHON, "changes.py", "print('after')");
        let status = daemon.run(changed.clone()).await.unwrap_err();
        assert_eq!(reason(&status), "DIGEST_MISMATCH");
        allow(&daemon, &changed);
        let response = daemon.run(changed).await.unwrap();
        assert_eq!(printed(&response)[0], "after\n");
        assert!(
            waited(&response).is_some(),
            "the script is no part of what waits"
        );
    }

    #[tokio::test]
    #[ignore = "needs python3"]
    async fn a_file_that_appears_beside_the_script_is_there_for_its_next_run() {
        needs_no_container();
        let daemon = Daemon::with(setup("")).await;
        let text =
            "try:\n    import beside; print(beside.VALUE)\nexcept ImportError: print('none')";
        let request = in_workspace(&daemon, script(&daemon, PYTHON, "imports.py", text));
        let (_, warm) = cold_and_warm(&daemon, &request).await;
        assert_eq!(printed(&warm)[0], "none\n");
        until_another_waits(&daemon, &request, 1).await;

        fs::write(
            daemon.workspace().join("scripts/beside.py"),
            "VALUE = 'here'",
        )
        .unwrap();

        let response = daemon.run(request.clone()).await.unwrap();
        assert_eq!(printed(&response)[0], "here\n");
        assert_eq!(waited(&response), None);
        until_another_waits(&daemon, &request, 2).await;
        let response = daemon.run(request.clone()).await.unwrap();
        assert_eq!(printed(&response)[0], "here\n");
        assert!(waited(&response).is_some());
    }

    #[tokio::test]
    #[ignore = "needs python3"]
    async fn a_module_beside_the_script_comes_before_one_of_pythons_own() {
        needs_no_container();
        let daemon = Daemon::with(setup("")).await;
        let text = "import json; print(json.VALUE)";
        let request = in_workspace(&daemon, script(&daemon, PYTHON, "shadowed.py", text));
        fs::write(daemon.workspace().join("scripts/json.py"), "VALUE = 'mine'").unwrap();
        let (cold, warm) = cold_and_warm(&daemon, &request).await;
        assert_eq!(printed(&cold), ["mine\n".to_owned(), String::new()]);
        assert_eq!(printed(&warm), printed(&cold));
    }

    /// Attempts of a hook in the workspace: to write existing files, and to make missing ones.
    const WRITES: &str = "import os
for path in ['.claude/settings.json', '.git/config', '.git/hooks/pre-commit', '.claude/hooks/made', '.vscode/tasks.json', '.mcp.json', 'written']:
    for path in path, os.path.join(os.environ['CLAUDE_PROJECT_DIR'], path):
        try:
            open(path, 'w').write('by the hook')
            print(path, 'written')
        except OSError as error:
            print(path, error.strerror)
    try:
        os.rename(path, path + '-moved')
        print(path, 'moved')
    except OSError as error:
        print(path, error.strerror)
";

    /// Makes a project with files that a hook must not change, and returns a request for a script in it.
    fn project(daemon: &Daemon, interpreter: &str, name: &str, text: &str) -> pb::ExecuteRequest {
        let workspace = daemon.workspace();
        for directory in [".claude/hooks", ".git/hooks"] {
            fs::create_dir_all(workspace.join(directory)).unwrap();
        }
        for (file, text) in [(".claude/settings.json", "{}"), (".git/config", "")] {
            fs::write(workspace.join(file), text).unwrap();
        }
        for path in ["", ".claude", ".claude/hooks", ".git", ".git/hooks"] {
            let open = fs::Permissions::from_mode(0o777);
            fs::set_permissions(workspace.join(path), open).unwrap();
        }
        for file in [".claude/settings.json", ".git/config"] {
            let open = fs::Permissions::from_mode(0o666);
            fs::set_permissions(workspace.join(file), open).unwrap();
        }
        let mut request = in_view(daemon, script(daemon, interpreter, name, text));
        let variables = &mut request.hook.as_mut().unwrap().env;
        let place = workspace.display().to_string();
        variables.insert("CLAUDE_PROJECT_DIR".to_owned(), place);
        request
    }

    /// Returns the names in the workspace, without the directory that runs share.
    fn names(daemon: &Daemon) -> Vec<String> {
        let entries = fs::read_dir(daemon.workspace()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.filter(|name| name != ".hookjail-run").collect();
        names.sort();
        names
    }

    #[tokio::test]
    #[ignore = "needs python3"]
    async fn what_a_workspace_keeps_is_kept_where_the_interpreter_waited() {
        needs_no_container();
        let daemon = Daemon::with(setup("")).await;
        let request = project(&daemon, PYTHON, "writes.py", WRITES);
        let laid = names(&daemon);
        let (cold, warm) = cold_and_warm(&daemon, &request).await;
        assert_eq!(printed(&cold), printed(&warm));
        let [text, _] = printed(&warm);
        let written = text.lines().filter(|line| line.ends_with(" written"));
        // By both paths: the working directory is that of the mounts, too.
        assert_eq!(written.count(), 2, "{text}");
        assert_eq!(
            text.lines().filter(|line| line.ends_with(" moved")).count(),
            1,
            "{text}"
        );
        let settings = daemon.workspace().join(".claude/settings.json");
        assert_eq!(fs::read_to_string(&settings).unwrap(), "{}");
        // Nothing is made while a process waits, or stays after its run.
        until_another_waits(&daemon, &request, 1).await;
        let mut after = names(&daemon);
        after.retain(|name| name != "written-moved");
        assert_eq!(after, laid);
    }

    #[tokio::test]
    #[ignore = "needs python3"]
    async fn a_file_that_was_replaced_while_an_interpreter_waited_is_kept_as_well() {
        needs_no_container();
        let daemon = Daemon::with(setup("")).await;
        let request = project(&daemon, PYTHON, "replaced.py", WRITES);
        let (_, warm) = cold_and_warm(&daemon, &request).await;
        for number in 1..4 {
            until_another_waits(&daemon, &request, number).await;
            // As editors and agents write their settings; then the directory, too.
            let claude = daemon.workspace().join(".claude");
            if number == 3 {
                fs::rename(&claude, daemon.workspace().join("before")).unwrap();
                fs::create_dir(&claude).unwrap();
                let open = fs::Permissions::from_mode(0o777);
                fs::set_permissions(&claude, open).unwrap();
            }
            let new = claude.join("new");
            fs::write(&new, "new").unwrap();
            fs::set_permissions(&new, fs::Permissions::from_mode(0o666)).unwrap();
            fs::rename(&new, claude.join("settings.json")).unwrap();

            let response = daemon.run(request.clone()).await.unwrap();

            assert_eq!(printed(&response)[0], printed(&warm)[0], "{number}");
            let settings = fs::read_to_string(claude.join("settings.json"));
            assert_eq!(settings.unwrap(), "new");
        }
    }

    #[tokio::test]
    #[ignore = "needs python3"]
    async fn what_is_hidden_behind_a_grant_by_a_link_is_hidden_where_the_interpreter_waited() {
        needs_no_container();
        let elsewhere = tempfile::tempdir().unwrap();
        let shared = fs::Permissions::from_mode(0o755);
        fs::set_permissions(elsewhere.path(), shared).unwrap();
        let link = elsewhere.path().canonicalize().unwrap().join("link");
        let profile = |kept: &str| {
            format!(
                "description = \"A workspace by a link.\"\nextends = \"pipeline\"\nview = \"own\"\nwarm = 1\nworking_dir = \"scratch\"\n
                [files]\nsystem = [{{ path = {link:?}, access = \"read\" }}]\n{kept}"
            )
        };
        let kept = "hidden = [\"secret.txt\"]";
        let set_up = setup("");
        let profiles = [("linked", profile(kept)), ("open", profile(""))];
        let profiles = profiles.map(|(name, text)| (name.to_owned(), text));
        let daemon = Daemon::with(Setup {
            profiles: set_up.profiles.into_iter().chain(profiles).collect(),
            ..set_up
        })
        .await;
        symlink(daemon.workspace(), &link).unwrap();
        let secret = daemon.workspace().join("secret.txt");
        fs::write(&secret, "the secret").unwrap();
        let open_to_all = fs::Permissions::from_mode(0o644);
        fs::set_permissions(&secret, open_to_all).unwrap();
        let text = format!(
            "for path in [{:?}, {secret:?}]:
    try:
        print(open(path).read())
    except OSError as error:
        print(error.strerror)",
            link.join("secret.txt"),
        );
        let mut request = project(&daemon, PYTHON, "linked.py", &text);
        request.profile = "linked".to_owned();
        for number in 0..4 {
            let response = daemon.run(request.clone()).await.unwrap();
            assert!(!printed(&response)[0].contains("the secret"), "{number}");
            // The waiting process would show it through the link, where nothing could hide it any more.
            assert_eq!(waited(&response), None);
            if number > 0 {
                until_another_waits(&daemon, &request, number - 1).await;
            }
        }
        // The positive control: the link leads there, and nothing else hides the file.
        request.profile = "open".to_owned();
        let open = daemon.run(request).await.unwrap();
        assert!(printed(&open)[0].contains("the secret"), "{open:?}");
    }

    #[tokio::test]
    #[ignore = "needs python3"]
    async fn a_script_in_a_view_that_was_changed_or_replaced_runs_as_it_is_now() {
        needs_no_container();
        let daemon = Daemon::with(setup("")).await;
        let request = project(&daemon, PYTHON, "view.py", "print('before')");
        cold_and_warm(&daemon, &request).await;
        until_another_waits(&daemon, &request, 1).await;

        let changed = script(&daemon, PYTHON, "view.py", "print('changed')");
        let status = daemon.run(request.clone()).await.unwrap_err();
        assert_eq!(reason(&status), "DIGEST_MISMATCH");
        allow_under(&daemon, &changed, "warm-view");
        let response = daemon.run(request.clone()).await.unwrap();
        assert_eq!(printed(&response)[0], "changed\n");
        assert!(
            waited(&response).is_some(),
            "the text is no part of what waits"
        );

        until_another_waits(&daemon, &request, 2).await;
        let path = daemon.workspace().join("scripts/view.py");
        fs::write(path.with_extension("new"), "print('replaced')").unwrap();
        fs::rename(path.with_extension("new"), &path).unwrap();
        allow_under(&daemon, &changed, "warm-view");
        let response = daemon.run(request.clone()).await.unwrap();
        assert_eq!(printed(&response)[0], "replaced\n");
        // In the place of another file. Users of the pool see a copy, independently of the original.
        assert_eq!(waited(&response).is_some(), geteuid().is_root());
    }

    #[tokio::test]
    #[ignore = "needs python3"]
    async fn a_module_that_appears_beside_a_script_in_a_view_comes_before_one_of_pythons_own() {
        needs_no_container();
        let daemon = Daemon::with(setup("")).await;
        let text = "import json; print(getattr(json, 'VALUE', 'own'))";
        let request = project(&daemon, PYTHON, "beside-view.py", text);
        let (_, warm) = cold_and_warm(&daemon, &request).await;
        assert_eq!(printed(&warm)[0], "own\n");
        until_another_waits(&daemon, &request, 1).await;
        fs::write(daemon.workspace().join("scripts/json.py"), "VALUE = 'mine'").unwrap();
        let response = daemon.run(request.clone()).await.unwrap();
        assert_eq!(printed(&response)[0], "mine\n");
    }

    #[tokio::test]
    #[ignore = "needs python3"]
    async fn what_waits_in_a_view_finds_no_script_at_its_path() {
        needs_no_container();
        if geteuid().is_root() {
            println!("left out as root: users of the pool see copies");
            return;
        }
        let daemon = Daemon::with(setup("")).await;
        let request = project(&daemon, PYTHON, "unseen-in-view.py", "print('ran')");
        cold_and_warm(&daemon, &request).await;
        until_another_waits(&daemon, &request, 1).await;
        let holds = |line: &str| line.contains("unseen-in-view.py");
        let (pid, _) = processes_that(holds).next().unwrap();
        let seen = |path: &Path| {
            let seen = Path::new("/proc").join(pid.to_string()).join("root");
            fs::read_to_string(seen.join(path.strip_prefix("/").unwrap()))
        };
        let script = daemon.workspace().join("scripts/unseen-in-view.py");
        assert_eq!(seen(&script).unwrap(), "");
        // The positive control: its view can be read, and others of the workspace are there.
        let settings = daemon.workspace().join(".claude/settings.json");
        assert_eq!(seen(&settings).unwrap(), "{}");
        let response = daemon.run(request).await.unwrap();
        assert_eq!(printed(&response)[0], "ran\n");
        assert!(waited(&response).is_some());
    }

    /// Allows a command as its files are now.
    fn allow(daemon: &Daemon, request: &pb::ExecuteRequest) {
        allow_under(daemon, request, "warm");
    }

    /// Allows a command under a profile as its files are now.
    fn allow_under(daemon: &Daemon, request: &pb::ExecuteRequest, profile: &str) {
        let words = ["allow", "--profile", profile, "--"].into_iter();
        let argv = &request.hook.as_ref().unwrap().argv;
        let words: Vec<_> = words.chain(argv.iter().map(|word| word.as_str())).collect();
        let done = hookjail(&daemon.path().join("hookjail.toml"), &words)
            .output()
            .unwrap();
        assert!(done.status.success(), "{done:?}");
    }

    #[tokio::test]
    #[ignore = "needs python3"]
    async fn an_interpreter_serves_no_run_with_other_rights() {
        needs_no_container();
        let daemon = Daemon::with(setup("")).await;
        let scripts = daemon.workspace().join("scripts");
        let text = "import os, sys\ntry: print(open(os.environ['ASKED']).read())\nexcept PermissionError: print('denied')";
        let mut request = in_workspace(&daemon, script(&daemon, PYTHON, "reads.py", text));
        let secret = daemon.workspace().join("secret");
        fs::write(&secret, "read").unwrap();
        let hook = request.hook.as_mut().unwrap();
        // The same working directory for all, so that only the rights differ.
        hook.working_dir = scripts.display().to_string();
        hook.env
            .insert("ASKED".to_owned(), secret.display().to_string());
        let (_, warm) = cold_and_warm(&daemon, &request).await;
        assert_eq!(printed(&warm)[0], "read\n");
        until_another_waits(&daemon, &request, 1).await;

        let narrow = pb::Narrow {
            read: vec![scripts.display().to_string()],
            ..pb::Narrow::default()
        };
        let narrowed = pb::ExecuteRequest {
            narrow: Some(narrow),
            ..request.clone()
        };
        let response = daemon.run(narrowed).await.unwrap();
        assert_eq!(
            (waited(&response), &*printed(&response)[0]),
            (None, "denied\n")
        );

        let mut other = request.clone();
        other.profile = "warm-too".to_owned();
        assert_eq!(waited(&daemon.run(other).await.unwrap()), None);
        let mut other = request.clone();
        other.hook.as_mut().unwrap().argv.push("more".to_owned());
        assert_eq!(waited(&daemon.run(other).await.unwrap()), None);
        // The control: the one that waits was not used up by them.
        let response = daemon.run(request).await.unwrap();
        assert!(waited(&response).is_some());
    }

    #[tokio::test]
    #[ignore = "needs python3"]
    async fn a_deadline_counts_from_the_run_and_ends_it() {
        needs_no_container();
        let daemon = Daemon::with(setup("")).await;
        let mut request = script(
            &daemon,
            PYTHON,
            "late.py",
            "import sys\nif 'x' in sys.stdin.read():\n    while True: pass\nprint('in time')",
        );
        let (_, warm) = cold_and_warm(&daemon, &request).await;
        assert_eq!(end(&warm).0, pb::OutcomeKind::Exited);
        until_another_waits(&daemon, &request, 1).await;
        // The process waits for longer than its run may take.
        sleep(Duration::from_secs(2)).await;
        request.timeout = wall_time(1);
        let response = daemon.run(request.clone()).await.unwrap();
        assert!(waited(&response).is_some());
        assert_eq!(end(&response).0, pb::OutcomeKind::Exited);
        until_another_waits(&daemon, &request, 2).await;
        request.event = event("\"x\"");
        let response = daemon.run(request).await.unwrap();
        assert_eq!(end(&response).0, pb::OutcomeKind::TimedOut);
        assert!(waited(&response).is_some());
    }

    #[tokio::test]
    #[ignore = "needs python3"]
    async fn one_that_was_killed_is_not_taken_for_a_run() {
        needs_no_container();
        let daemon = Daemon::with(setup("")).await;
        let request = script(&daemon, PYTHON, "killed.py", "print('ran')");
        cold_and_warm(&daemon, &request).await;
        for before in 1..4 {
            until_another_waits(&daemon, &request, before).await;
            let (pid, _) = processes_that(|line| line.contains("killed.py"))
                .next()
                .unwrap();
            nix::sys::signal::kill(
                nix::unistd::Pid::from_raw(pid as i32),
                nix::sys::signal::Signal::SIGKILL,
            )
            .unwrap();
            until("its end", || waiting("killed.py") == 0).await;
            let response = daemon.run(request.clone()).await.unwrap();
            assert_eq!(printed(&response)[0], "ran\n");
            assert_eq!(waited(&response), None);
        }
    }

    #[tokio::test]
    #[ignore = "needs python3"]
    async fn nothing_waits_on_when_the_daemon_is_gone() {
        needs_no_container();
        for kill in [false, true] {
            let mut daemon = Daemon::with(setup("")).await;
            let name = format!("outlives-{}.py", uuid::Uuid::now_v7().simple());
            let request = script(&daemon, PYTHON, &name, "print('ran')");
            cold_and_warm(&daemon, &request).await;
            until_another_waits(&daemon, &request, 1).await;
            until_clean_but_for(&daemon).await;
            let directory = if kill {
                daemon.kill()
            } else {
                let pid = nix::unistd::Pid::from_raw(daemon.pid() as i32);
                nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
                assert!(daemon.child().wait().unwrap().success());
                daemon.kill()
            };
            until("nothing waits", || waiting(&name) == 0).await;
            if !kill {
                let left = fs::read_dir(directory.path().join("run"))
                    .unwrap()
                    .flatten();
                let left: Vec<_> = left
                    .map(|it| it.file_name())
                    .filter(|it| it.to_string_lossy().starts_with("instance"))
                    .collect();
                assert!(left.is_empty(), "{left:?}");
            }
        }
    }

    /// Waits until no directory but that of what waits is there.
    async fn until_clean_but_for(daemon: &Daemon) {
        until("one directory", || daemon.scratch_directories().len() == 1).await;
    }

    #[tokio::test]
    #[ignore = "needs python3"]
    async fn a_profile_without_warm_starts_nothing_ahead() {
        let mut setup = setup("");
        setup.profiles[0].1 = setup.profiles[0].1.replace("warm = 1", "warm = 0");
        let daemon = Daemon::with(setup).await;
        let request = script(&daemon, PYTHON, "cold.py", "print('ran')");
        for _ in 0..4 {
            let response = daemon.run(request.clone()).await.unwrap();
            assert_eq!(waited(&response), None);
        }
        // A directory of what waits would stay.
        until_clean(&daemon).await;
        let times = logged(&daemon, &request, "process waits");
        assert_eq!((waiting("cold.py"), times), (0, 0));
    }

    #[tokio::test]
    #[ignore = "needs python3"]
    async fn a_hook_that_nobody_allowed_is_refused_though_its_interpreter_waits() {
        needs_no_container();
        let daemon = Daemon::with(Setup {
            ask_for_consent: true,
            ..setup("")
        })
        .await;
        let request = script(&daemon, PYTHON, "nobodys.py", "print('ran')");
        let status = daemon.run(request).await.unwrap_err();
        assert_eq!(reason(&status), "CONSENT_REQUIRED");
    }

    /// Limits the descriptors of a process so that this number is free.
    fn leave_descriptors(pid: u32, free: usize) {
        let open: Vec<usize> = fs::read_dir(format!("/proc/{pid}/fd"))
            .unwrap()
            .map(|it| it.unwrap().file_name().to_str().unwrap().parse().unwrap())
            .collect();
        let is_free = |number: &usize| !open.contains(number);
        let last = (0..).filter(is_free).nth(free - 1).unwrap();
        let done = std::process::Command::new("prlimit")
            .args([format!("--pid={pid}"), format!("--nofile={}:", last + 1)])
            .status();
        assert!(done.unwrap().success());
    }

    #[tokio::test]
    #[ignore = "needs python3"]
    async fn a_run_gets_the_descriptors_of_what_waits() {
        needs_no_container();
        let daemon = Daemon::with(setup_of_eight("")).await;
        let request = script(&daemon, PYTHON, "has-descriptors.py", "print('ran')");
        until_eight_wait(&daemon, &request).await;
        // Fewer than a hook needs: its three pipes have six ends.
        leave_descriptors(daemon.pid(), 4);
        let mut other = hook(["/bin/echo", "ran"]);
        other.profile = "strict".to_owned();
        for _ in 0..4 {
            let response = daemon.run(other.clone()).await.unwrap();
            assert_eq!(printed(&response)[0], "ran\n");
            daemon.run(request.clone()).await.unwrap();
        }
        assert_eq!(logged(&daemon, &request, "a process waits"), 8);
        until("none waits", || waiting("has-descriptors.py") == 0).await;
    }

    #[tokio::test]
    #[ignore = "needs python3"]
    async fn where_memory_runs_out_the_kernel_takes_waiting_processes_before_hooks() {
        needs_no_container();
        let daemon = Daemon::with(setup("")).await;
        let name = "taken-first.py";
        let request = script(&daemon, PYTHON, name, "import time\ntime.sleep(3)");
        let quick = pb::ExecuteRequest {
            timeout: wall_time(1),
            ..request.clone()
        };
        for _ in 0..2 {
            daemon.run(quick.clone()).await.unwrap();
        }
        until_another_waits(&daemon, &request, 0).await;
        let order = |pid: u32| {
            let text = fs::read_to_string(format!("/proc/{pid}/oom_score_adj"));
            text.unwrap().trim().parse::<i32>().unwrap()
        };
        let (pid, _) = processes_that(|line| line.contains(name)).next().unwrap();
        assert_eq!(order(pid), 1000);

        let run = daemon.run(request.clone());
        let looked = async {
            let of_hooks = (order(daemon.pid()) + 500).min(1000);
            until("its run begins", || order(pid) == of_hooks).await;
        };
        let (response, ()) = tokio::join!(run, looked);
        assert!(waited(&response.unwrap()).is_some());
    }

    #[tokio::test]
    #[ignore = "needs python3"]
    async fn the_metrics_say_how_many_wait_and_how_many_runs_began_in_one() {
        needs_no_container();
        let daemon = Daemon::with(Setup {
            config: LISTENER.to_owned(),
            ..setup("")
        })
        .await;
        let levels = || {
            ["", "_runs_total"]
                .map(|suffix| value(&daemon, &format!("hookjail_waiting_processes{suffix}")))
        };
        assert_eq!(levels(), [0.0, 0.0]);
        let request = script(&daemon, PYTHON, "counted.py", "print('ran')");
        cold_and_warm(&daemon, &request).await;
        until("another one waits", || levels() == [1.0, 1.0]).await;

        let discarded = || value(&daemon, "hookjail_warm_discarded_total");
        assert_eq!(discarded(), 0.0);
        let (pid, _) = processes_that(|line| line.contains("counted.py"))
            .next()
            .unwrap();
        nix::sys::signal::kill(
            nix::unistd::Pid::from_raw(pid as i32),
            nix::sys::signal::Signal::SIGKILL,
        )
        .unwrap();
        until("its end", || waiting("counted.py") == 0).await;
        daemon.run(request).await.unwrap();
        assert_eq!(discarded(), 1.0);
    }

    /// Makes every attempt under a profile. The probe is executed by a script, which a warm interpreter runs: from then on everything
    /// is tried that is tried in other hooks.
    async fn every_attempt_fails_under(profile: &str) {
        needs_no_container();
        let probe = Probe::build();
        let directory = probe.path().parent().unwrap().display().to_string();
        let grant =
            format!("[files]\nnamed = [{{ path = {directory:?}, access = \"execute\" }}]\n");
        let daemon = Daemon::with(setup(&grant)).await;
        let wrapper =
            "import json, os, sys\nwords = json.load(sys.stdin)\nos.execv(words[0], words)\n";
        let mut request = script(&daemon, PYTHON, "tries.py", wrapper);
        request.profile = profile.to_owned();
        let cold = (profile == "warm-closed").then_some("cold-closed");
        every_attempt_fails(&daemon, &probe, cold, |words| {
            let words = serde_json::to_vec(&words).unwrap();
            pb::ExecuteRequest {
                event: event(words),
                ..request.clone()
            }
        })
        .await;
    }

    #[tokio::test]
    #[ignore = "needs python3"]
    async fn every_attempt_fails_where_the_interpreter_waited_as_where_it_did_not() {
        every_attempt_fails_under("warm").await;
    }

    #[tokio::test]
    #[ignore = "needs python3"]
    async fn every_attempt_fails_where_the_interpreter_waited_in_a_view() {
        every_attempt_fails_under("warm-closed").await;
    }
}

/// Returns a set-up under whose profiles up to eight processes wait for a command.
fn setup_of_eight(config: &str) -> Setup {
    let mut setup = setup("");
    for (_, text) in &mut setup.profiles {
        *text = text.replace("warm = 1", "warm = 8");
    }
    Setup {
        config: config.to_owned(),
        ..setup
    }
}

/// Runs a hook twice, and waits until eight processes wait for its next runs.
async fn until_eight_wait(daemon: &Daemon, request: &pb::ExecuteRequest) {
    for _ in 0..2 {
        daemon.run(request.clone()).await.unwrap();
    }
    let came = || logged(daemon, request, "a process waits");
    until("eight processes wait", || came() == 8).await;
}

mod as_root {
    use super::*;
    use crate::{
        callers::as_root::client_as,
        support::needs_root,
        witness::{NOBODY, a_hooks_uid},
    };

    #[tokio::test]
    #[ignore = "needs root"]
    async fn a_run_gets_the_uid_of_what_waits_for_another_caller() {
        needs_root();
        needs_no_container();
        let (uid, _) = a_hooks_uid();
        let caller = NOBODY;
        let config = format!(
            "[server]\ncallers = [{caller}]\n[hooks]\nmax_concurrent = 8\nuid_range = [{uid}, {}]\n",
            uid + 7
        );
        let daemon = Daemon::with(setup_of_eight(&config)).await;
        let request = script(&daemon, PYTHON, "has-all-uids.py", "print('ran')");
        until_eight_wait(&daemon, &request).await;
        let (other, _somebody) = client_as(NOBODY, &daemon).await;

        let mut calls = tokio::task::JoinSet::new();
        for _ in 0..8 {
            let mut other = other.clone();
            calls.spawn(async move { other.execute(hook(["/bin/true"])).await.map(drop) });
        }
        let answers = calls.join_all().await;
        assert!(answers.iter().all(Result::is_ok), "{answers:?}");
        // The next runs of the command do not take them again.
        for _ in 0..4 {
            daemon.run(request.clone()).await.unwrap();
            let mut other = other.clone();
            other.execute(hook(["/bin/true"])).await.unwrap();
        }
        assert_eq!(logged(&daemon, &request, "a process waits"), 8);
        until("none waits", || waiting("has-all-uids.py") == 0).await;
    }

    /// A cgroup with a limit of memory. Dropping it kills its processes and removes it.
    struct Limited {
        path: PathBuf,
        usage: &'static str,
    }

    impl Limited {
        /// Makes a cgroup with this limit. Where the host has no such controller, prints the cause.
        fn new(bytes: u64) -> Option<Self> {
            let versions = [
                (
                    "/sys/fs/cgroup/memory",
                    ["memory.limit_in_bytes", "memory.memsw.limit_in_bytes"],
                    "memory.usage_in_bytes",
                ),
                (
                    "/sys/fs/cgroup",
                    ["memory.max", "memory.swap.max"],
                    "memory.current",
                ),
            ];
            let made = versions.into_iter().find_map(|(parent, limits, usage)| {
                let parent = Path::new(parent);
                if !parent.join("cgroup.procs").exists() {
                    return None;
                }
                let path = parent.join(format!("hookjail-{}", uuid::Uuid::now_v7().simple()));
                fs::create_dir(&path).ok()?;
                let made = Self { path, usage };
                let [limit, swap] = limits.map(|name| made.path.join(name));
                fs::write(limit, bytes.to_string()).ok()?;
                // A kernel without swap has no such limit.
                fs::write(swap, bytes.to_string()).ok();
                Some(made)
            });
            if made.is_none() {
                println!("skipped: no cgroup with a limit of memory can be made here");
            }
            made
        }

        fn admit(&self, pid: u32) {
            fs::write(self.path.join("cgroup.procs"), pid.to_string()).unwrap();
        }

        fn usage(&self) -> u64 {
            let usage = fs::read_to_string(self.path.join(self.usage)).unwrap();
            usage.trim().parse().unwrap()
        }
    }

    impl Drop for Limited {
        fn drop(&mut self) {
            for _ in 0..100 {
                if fs::remove_dir(&self.path).is_ok() {
                    return;
                }
                let left = fs::read_to_string(self.path.join("cgroup.procs")).unwrap_or_default();
                for pid in left.lines().flat_map(str::parse) {
                    let pid = nix::unistd::Pid::from_raw(pid);
                    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).ok();
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }

    const MIB: u64 = 1 << 20;

    #[tokio::test]
    #[ignore = "needs root"]
    async fn nothing_waits_where_the_daemons_own_cgroup_has_little_memory_left() {
        needs_root();
        needs_no_container();
        let limit = 300 * MIB;
        let Some(limited) = Limited::new(limit) else {
            return;
        };
        let daemon = Daemon::with(setup("")).await;
        limited.admit(daemon.pid());
        let request = script(&daemon, PYTHON, "has-a-limit.py", "print('ran')");
        cold_and_warm(&daemon, &request).await;
        until_another_waits(&daemon, &request, 1).await;

        let most = limit - limited.usage() - 20 * MIB;
        let takes = format!("input()\nimport time\nx = bytearray({most})\ntime.sleep(60)");
        let mut other = std::process::Command::new(PYTHON)
            .args(["-c", &takes])
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        limited.admit(other.id());
        std::io::Write::write_all(&mut other.stdin.take().unwrap(), b"\n").unwrap();
        until("the other takes most", || {
            limited.usage() > limit - 24 * MIB
        })
        .await;
        for _ in 0..3 {
            let response = daemon.run(request.clone()).await.unwrap();
            assert_eq!(printed(&response)[0], "ran\n");
        }
        until("none waits", || waiting("has-a-limit.py") == 0).await;
        assert_eq!(logged(&daemon, &request, "a process waits"), 2);
        other.kill().unwrap();
        other.wait().unwrap();
    }

    #[tokio::test]
    #[ignore = "needs root"]
    async fn once_a_run_was_killed_for_want_of_memory_none_waits_for_some_time() {
        needs_root();
        needs_no_container();
        let Some(limited) = Limited::new(200 * MIB) else {
            return;
        };
        let daemon = Daemon::with(setup("")).await;
        limited.admit(daemon.pid());
        let request = script(&daemon, PYTHON, "gives-way.py", "print('ran')");
        cold_and_warm(&daemon, &request).await;
        until_another_waits(&daemon, &request, 1).await;
        let itself = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)";
        let mut killed = hook([PYTHON, "-c", itself]);
        killed.profile = "strict".to_owned();
        let signaled = pb::OutcomeKind::Signaled;
        assert_eq!(end(&daemon.run(killed).await.unwrap()).0, signaled);
        assert_eq!(
            waiting("gives-way.py"),
            1,
            "by itself, and not by the kernel"
        );

        let mut greedy = hook([PYTHON, "-c", "x = bytearray(400 << 20)"]);
        greedy.profile = "strict".to_owned();
        assert_eq!(end(&daemon.run(greedy).await.unwrap()).0, signaled);
        until("none waits", || waiting("gives-way.py") == 0).await;
        for _ in 0..3 {
            let response = daemon.run(request.clone()).await.unwrap();
            assert_eq!(
                (waited(&response), &*printed(&response)[0]),
                (None, "ran\n")
            );
        }
        assert_eq!(logged(&daemon, &request, "a process waits"), 2);
    }
}
