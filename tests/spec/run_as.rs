//! A root daemon may run hooks as their callers: in those users' own projects, and no nearer to their other files.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start other users' processes and clients, never a hook"
)]

mod as_root {
    use std::{
        fs,
        os::unix::fs::{MetadataExt, PermissionsExt, chown},
        path::{Path, PathBuf},
        process::{Child, Command, Stdio},
        sync::{
            Arc,
            atomic::{AtomicBool, Ordering::Relaxed},
        },
    };

    use base64::{Engine, engine::general_purpose::STANDARD};
    use hookjail::pb;
    use nix::{
        sys::signal::{Signal, kill},
        unistd::Pid,
    };
    use serde_json::Value;
    use tokio::task::JoinSet;

    use crate::{
        attempts::as_user,
        callers::as_root::client_as,
        reload::reload,
        support::{
            Daemon, Setup, contained, directory, needs_no_container, needs_root, program, reason,
            sh,
        },
        witness::{
            NOBODY, a_minute, ask_as, ask_in, end, json, processes_that, processes_with, until,
            wall_time,
        },
    };

    /// Uids without accounts.
    const ALICE: u32 = 2_000_000_011;
    const BOB: u32 = 2_000_000_012;

    /// Signals all processes of its own uid, so it is no other test's.
    const STOPPER: u32 = 2_000_000_013;

    /// A group without an account.
    const TEAM: u32 = 2_000_000_021;

    async fn daemon(run_as: &str) -> Daemon {
        let config =
            format!("[server]\ncallers = [{ALICE}, {BOB}]\n[hooks]\nrun_as = {run_as:?}\n");
        Daemon::with(Setup {
            config,
            ..Setup::default()
        })
        .await
    }

    /// Makes a project in a user's home, which is closed to all others, and returns it.
    fn project(daemon: &Daemon, user: u32) -> PathBuf {
        let home = daemon.workspace().join(user.to_string());
        let project = home.join("project");
        fs::create_dir_all(&project).unwrap();
        fs::write(project.join("note"), format!("of {user}\n")).unwrap();
        for (path, mode) in [
            (&home, 0o700),
            (&project, 0o700),
            (&project.join("note"), 0o600),
        ] {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
            chown(path, Some(user), Some(user)).unwrap();
        }
        project
    }

    /// Has a user run a line of `sh` in a workspace.
    fn run_as(user: u32, daemon: &Daemon, profile: &str, workspace: &Path, line: &str) -> Value {
        let workspace = workspace.to_str().unwrap();
        let words = ["--profile", profile, "--workspace", workspace];
        let words = [&words[..], &["--", "/bin/sh", "-c", line]].concat();
        json(&ask_as(user, daemon, "sock", "run", &words))
    }

    /// Asserts that a hook ran, and returns its output.
    fn stdout(answer: &Value) -> String {
        assert!(answer["outcome"].is_object(), "{answer}");
        let written = answer["stdout"].as_str().unwrap_or_default();
        String::from_utf8(STANDARD.decode(written).unwrap()).unwrap()
    }

    #[tokio::test]
    #[ignore = "needs root"]
    async fn a_hook_works_in_its_callers_own_project_and_in_nobody_elses() {
        needs_root();
        let daemon = daemon("caller").await;
        let (of_alice, of_bob) = (project(&daemon, ALICE), project(&daemon, BOB));
        let line = "id -u; id -g; cat note && echo made > made && chmod 600 made";
        for (user, project_of_user) in [(ALICE, &of_alice), (BOB, &of_bob)] {
            let answer = run_as(user, &daemon, "workspace-rw", project_of_user, line);
            let expected = format!("{user}\n{user}\nof {user}\n");
            assert_eq!(stdout(&answer), expected, "{answer}");
            let made = fs::metadata(project_of_user.join("made")).unwrap();
            assert_eq!(
                (made.uid(), made.gid(), made.mode() & 0o777),
                (user, user, 0o600)
            );
        }
        // Its own client would not send this.
        let (mut client, _alice) = client_as(ALICE, &daemon).await;
        let mut request = sh("workspace-rw", line);
        request.hook.as_mut().unwrap().workspace = of_bob.display().to_string();
        let refusal = client.execute(request).await.unwrap_err();
        assert_eq!(reason(&refusal), "INVALID_REQUEST", "{refusal}");
        // The control: a uid of the pool belongs to no user, and reaches no home.
        let pool = self::daemon("pool").await;
        let closed = project(&pool, ALICE);
        let answer = run_as(ALICE, &pool, "workspace-rw", &closed, line);
        assert!(
            answer["error"].is_object() && !closed.join("made").exists(),
            "{answer}"
        );
    }

    #[tokio::test]
    #[ignore = "needs root"]
    async fn files_last_for_each_caller_where_hooks_run_as_it_and_not_for_uids_of_the_pool() {
        needs_root();
        for run_as in ["caller", "pool"] {
            let place = directory();
            let agent = place.path().canonicalize().unwrap().join("agent");
            fs::create_dir(&agent).unwrap();
            fs::write(agent.join("rules"), "rules").unwrap();
            let profile = format!(
                "description = \"d\"\nextends = \"workspace-rw\"\nstate = \"project\"\nfiles.state = [{agent:?}]\n"
            );
            let config =
                format!("[server]\ncallers = [{ALICE}, {BOB}]\n[hooks]\nrun_as = {run_as:?}\n");
            let setup = Setup {
                config,
                profiles: vec![("own".to_owned(), profile)],
                ..Setup::default()
            };
            let daemon = Daemon::in_directory(place, setup).await.unwrap();
            let shared = daemon.workspace().join("shared");
            fs::create_dir(&shared).unwrap();
            fs::set_permissions(&shared, fs::Permissions::from_mode(0o777)).unwrap();
            let agent_path = agent.display();
            let line = format!(
                "(echo x >>{agent_path}/log.txt && wc -l <{agent_path}/log.txt) 2>/dev/null || echo closed; \
                 (cat {agent_path}/rules) 2>/dev/null || echo none; echo x >>/tmp/m; wc -l </tmp/m"
            );
            let mut seen = Vec::new();
            for user in [ALICE, ALICE, BOB] {
                let (mut client, _held) = client_as(user, &daemon).await;
                let mut request = sh("own", &line);
                request.session_id = "s".to_owned();
                request.hook.as_mut().unwrap().workspace = shared.display().to_string();
                let response = client.execute(request).await.unwrap().into_inner();
                seen.push(String::from_utf8_lossy(&response.stdout).into_owned());
            }
            let expected = match run_as {
                "caller" => ["1\nnone\n1\n", "2\nnone\n2\n", "1\nnone\n1\n"],
                _ => ["closed\nnone\n1\n"; 3],
            };
            assert_eq!(seen, expected, "{run_as}");
            assert!(!agent.join("log.txt").exists());
        }
    }

    #[tokio::test]
    #[ignore = "needs root"]
    async fn a_hook_has_the_supplementary_groups_of_the_process_that_asked() {
        needs_root();
        let daemon = daemon("caller").await;
        // Bob's, and open to the team.
        let shared = daemon.workspace().join("shared");
        fs::create_dir(&shared).unwrap();
        let script = shared.join("script");
        fs::write(&script, "#!/bin/sh\nid -G; cat note; echo made > made\n").unwrap();
        fs::write(shared.join("note"), "of the team\n").unwrap();
        for (path, mode) in [
            (&shared.join("note"), 0o640),
            (&script, 0o750),
            (&shared, 0o770),
        ] {
            chown(path, Some(BOB), Some(TEAM)).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
        let workspace = shared.to_str().unwrap();
        let words = ["--profile", "workspace-rw", "--workspace", workspace, "--"];
        let words = [&words[..], &[script.to_str().unwrap()]].concat();
        let others: Vec<_> = (2_000_000_100..2_000_000_200).collect();
        for groups in [&[TEAM][..], &[&[TEAM][..], &others].concat()] {
            let answer = json(&ask_in(groups, ALICE, &daemon, "sock", "run", &words));
            let printed = stdout(&answer);
            let (has, note) = printed.split_once('\n').unwrap_or_default();
            assert_eq!(note, "of the team\n", "{answer}");
            let mut has: Vec<u32> = has.split(' ').map(|id| id.parse().unwrap()).collect();
            // The run's own.
            has.retain(|id| !(1_879_100_000..=1_879_104_095).contains(id));
            let expected = [&[ALICE], groups].concat();
            assert_eq!(has, expected, "{answer}");
            let made = fs::metadata(shared.join("made")).unwrap();
            assert_eq!(made.uid(), ALICE);
            fs::remove_file(shared.join("made")).unwrap();
        }
        // The control: without the group it is as if nothing were there.
        let answer = json(&ask_in(&others, ALICE, &daemon, "sock", "run", &words));
        assert!(answer["error"].is_object(), "{answer}");
        assert!(!shared.join("made").exists());
    }

    #[tokio::test]
    #[ignore = "needs root"]
    async fn a_hook_reaches_none_of_its_callers_other_processes_and_files() {
        needs_root();
        let daemon = daemon("caller").await;
        let project_of_alice = project(&daemon, ALICE);
        let home = project_of_alice.parent().unwrap();
        fs::write(home.join("key"), "secret").unwrap();
        chown(home.join("key"), Some(ALICE), Some(ALICE)).unwrap();
        let minute = a_minute();
        let mut command = Command::new("sleep");
        let mut other = as_user(command.arg(&minute), ALICE).spawn().unwrap();
        let tries = format!(
            "kill -0 {0} && echo signalled; cat /proc/{0}/environ && echo read; cat ../key && echo opened; true",
            other.id()
        );
        let answer = run_as(ALICE, &daemon, "workspace-rw", &project_of_alice, &tries);
        assert_eq!(stdout(&answer), "", "{answer}");
        // The control: the same user does all of it unconfined.
        let mut control = Command::new("/bin/sh");
        control.args(["-c", &tries]).current_dir(&project_of_alice);
        let control = as_user(&mut control, ALICE).output().unwrap();
        let control = String::from_utf8_lossy(&control.stdout).into_owned();
        for word in ["signalled", "read", "opened"] {
            assert!(control.contains(word), "{control}");
        }
        other.kill().unwrap();
        other.wait().unwrap();
    }

    #[tokio::test]
    #[ignore = "needs root"]
    async fn a_callers_other_processes_reach_no_running_hooks_directory() {
        needs_root();
        // In a container the scratch directory is a file system of its own.
        needs_no_container();
        let daemon = daemon("caller").await;
        let project_of_alice = project(&daemon, ALICE);
        let minute = a_minute();
        let line = format!("echo private > \"$TMPDIR/file\"; : > started; sleep {minute}");
        let (socket, program) = (daemon.path().join("sock"), daemon.path().join("hookjail"));
        // The first of them also opens the socket to that user and installs the program.
        assert_eq!(
            stdout(&run_as(
                ALICE,
                &daemon,
                "strict",
                &project_of_alice,
                "echo one"
            )),
            "one\n"
        );
        let mut client = crate::support::command(program);
        client.arg("run").arg("--connect").arg(socket);
        client.args([
            "--profile",
            "workspace-rw",
            "--timeout",
            "30s",
            "--workspace",
        ]);
        client
            .arg(&project_of_alice)
            .args(["--", "/bin/sh", "-c", &line]);
        let mut client = as_user(&mut client, ALICE).spawn().unwrap();
        until("the hook has started", || {
            project_of_alice.join("started").exists()
        })
        .await;

        let runs = daemon.scratch_directories();
        let [run] = &*runs else { panic!("{runs:?}") };
        let file = run.join("tmp/file");
        let owner = fs::metadata(&file).unwrap().uid();
        let mut command = Command::new("cat");
        let seen = as_user(command.arg(&file), ALICE).output().unwrap();

        // The control: the file exists, and is that user's.
        assert_eq!(
            (owner, fs::read(&file).unwrap()),
            (ALICE, b"private\n".to_vec())
        );
        assert_eq!((seen.status.code(), seen.stdout), (Some(1), Vec::new()));
        client.kill().unwrap();
        client.wait().unwrap();
        until("the hook has ended", || processes_with(&minute).is_empty()).await;
    }

    #[tokio::test]
    #[ignore = "needs root"]
    async fn a_users_own_file_of_hooks_serves_that_users_dispatches_alone() {
        needs_root();
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("settings.json");
        let (owner, other) = (NOBODY, 1);
        let put = |text: &str| {
            fs::write(&file, text).unwrap();
            for (path, mode) in [(home.path(), 0o700), (&*file, 0o600)] {
                chown(path, Some(owner), Some(owner)).unwrap();
                fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
            }
        };
        let guard = r#"{"type": "command", "command": "echo mine >&2; exit 2"}"#;
        put(&format!(
            r#"{{"hooks": {{"PreToolUse": [{{"hooks": [{guard}]}}]}}}}"#
        ));
        let config = format!(
            "[server]\ncallers = [{owner}, {other}]\n[[hooks_file]]\ncontract = \"claude_code\"\npath = {file:?}\nuser = \"nobody\"\nprofile = \"strict\"\n"
        );
        let daemon = Daemon::with(Setup {
            config,
            ..Setup::default()
        })
        .await;
        let event = daemon.path().join("event.json");
        let tool = r#"{"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "ls"}}"#;
        fs::write(&event, tool).unwrap();
        let words = ["--contract", "claude_code", "--point", "PreToolUse"];
        let workspace = daemon.workspace();
        let options = [
            "--event",
            event.to_str().unwrap(),
            "--workspace",
            workspace.to_str().unwrap(),
        ];
        let words = [&words[..], &options].concat();
        let decided = |user| {
            let answer = json(&ask_as(user, &daemon, "sock", "dispatch", &words));
            let hooks = answer["hooks"].as_array().map_or(0, Vec::len);
            (
                answer["answer"]["decision"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned(),
                hooks,
                answer,
            )
        };
        let (decision, hooks, answer) = decided(owner);
        assert_eq!((&*decision, hooks), ("DECISION_DENY", 1), "{answer}");
        assert_eq!(answer["answer"]["reason"], "mine", "{answer}");
        let (decision, hooks, answer) = decided(other);
        assert_eq!((&*decision, hooks), ("DECISION_NONE", 0), "{answer}");

        // A broken file is refused to its user alone, and no other user waits.
        put("{");
        assert!(reload(&daemon)["error"].is_null());
        let (decision, hooks, answer) = decided(owner);
        assert_eq!((&*decision, hooks), ("DECISION_DENY", 1), "{answer}");
        let (decision, hooks, answer) = decided(other);
        assert_eq!((&*decision, hooks), ("DECISION_NONE", 0), "{answer}");
    }

    #[tokio::test]
    #[ignore = "needs root"]
    async fn a_profile_may_have_another_user_than_the_rest() {
        needs_root();
        let config = format!(
            "[server]\ncallers = [{ALICE}]\n[hooks]\nrun_as = \"pool\"\n[hooks.run_as_profiles]\npipeline = \"caller\"\nworkspace-rw = \"pool\"\n"
        );
        let daemon = Daemon::with(Setup {
            config,
            ..Setup::default()
        })
        .await;
        let shared = daemon.workspace().join("shared");
        fs::create_dir(&shared).unwrap();
        fs::set_permissions(&shared, fs::Permissions::from_mode(0o755)).unwrap();
        // The third extends the second, and so does the last, which has a user of its own.
        for (profile, as_caller) in [
            ("strict", false),
            ("pipeline", true),
            ("workspace-ro", true),
            ("workspace-rw", false),
        ] {
            let answer = run_as(ALICE, &daemon, profile, &shared, "id -u");
            let is_alice = stdout(&answer) == format!("{ALICE}\n");
            assert_eq!(is_alice, as_caller, "{profile}: {answer}");
            // The number of tasks can be limited only where the uid is the run's own.
            let axes = answer["confinement"]["axes"].as_array().unwrap();
            let pids = axes
                .iter()
                .find(|axis| axis["axis"] == "AXIS_PIDS")
                .unwrap();
            let limited = pids["coverage"] == "COVERAGE_ENFORCED";
            assert!(!as_caller || contained() || !limited, "{profile}: {pids}");
        }
    }

    /// Stops all other processes of a user, over and over. When this is dropped, no process of that user is left.
    struct Stopping {
        child: Child,
        user: u32,
    }

    impl Stopping {
        fn new(user: u32) -> Self {
            // Ends by itself after a minute's processor time.
            let line = "ulimit -t 60; while :; do kill -STOP -1; done";
            let mut command = Command::new("/bin/sh");
            command.args(["-c", line]).stderr(Stdio::null());
            let child = as_user(&mut command, user).spawn().unwrap();
            Self { child, user }
        }
    }

    impl Drop for Stopping {
        fn drop(&mut self) {
            self.child.kill().ok();
            self.child.wait().ok();
            let mut command = Command::new("/bin/sh");
            command.args(["-c", "kill -KILL -1"]).stderr(Stdio::null());
            as_user(&mut command, self.user).status().ok();
        }
    }

    /// Returns a user's stopped processes that have not executed their hook, which still are the program that started
    /// them, and those that have.
    fn stopped(user: u32) -> (Vec<u32>, Vec<u32>) {
        let program = program();
        let is_one = |pid: &u32| {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            let has = |line: &str| status.lines().any(|it| it.starts_with(line));
            has("State:\tT") && has(&format!("Uid:\t{user}\t{user}\t"))
        };
        let all = processes_that(|_| true).map(|(pid, _)| pid);
        all.filter(is_one).partition(|pid| {
            fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == program)
        })
    }

    #[tokio::test]
    #[ignore = "needs root"]
    async fn a_caller_that_stops_its_own_hooks_before_their_exec_keeps_no_other_waiting() {
        needs_root();
        // In a container no thread waits for a process that has the caller's uid.
        needs_no_container();
        const SPAWNERS: usize = 2;
        let config = format!(
            "[server]\ncallers = [{STOPPER}, {BOB}]\n[hooks]\nrun_as = \"caller\"\nspawners = {SPAWNERS}\n"
        );
        let daemon = Daemon::with(Setup {
            config,
            ..Setup::default()
        })
        .await;
        let (client, _stopper) = client_as(STOPPER, &daemon).await;
        let (mut other, _bob) = client_as(BOB, &daemon).await;
        let stopping = Stopping::new(STOPPER);
        let mut flood = JoinSet::new();
        let all_held = Arc::new(AtomicBool::new(false));
        for _ in 0..8 * SPAWNERS {
            let mut client = client.clone();
            let mut request = sh("pipeline", "exit 0");
            request.timeout = wall_time(10);
            let all_held = all_held.clone();
            flood.spawn(async move {
                loop {
                    let answer = client.execute(request.clone()).await;
                    if answer.is_err() || all_held.load(Relaxed) {
                        return answer;
                    }
                }
            });
        }
        // The control. A hook that was stopped too late to hold a spawner makes way for the next attempt.
        let mut held = Vec::new();
        until("all spawners have a stopped child", || {
            let (before_exec, after) = stopped(STOPPER);
            held = before_exec;
            for pid in after {
                let hook = Pid::from_raw(pid.try_into().unwrap());
                kill(hook, Signal::SIGKILL).ok();
            }
            held.len() == SPAWNERS
        })
        .await;
        all_held.store(true, Relaxed);

        for _ in 0..5 {
            let mut request = sh("pipeline", "id -u");
            request.timeout = wall_time(30);
            let response = other.execute(request).await.unwrap().into_inner();
            assert_eq!(end(&response), (pb::OutcomeKind::Exited, Some(0), None));
            assert_eq!(response.stdout, format!("{BOB}\n").as_bytes());
        }
        assert_eq!(
            stopped(STOPPER).0,
            held,
            "the others were answered after these had ended"
        );

        // At their deadline the stopped hooks are killed, and reported as not run.
        let mut steps = Vec::new();
        while let Some(answer) = flood.join_next().await {
            if let Err(refusal) = answer.unwrap() {
                assert_eq!(reason(&refusal), "DEADLINE", "{refusal}");
                steps.push(refusal.message().to_owned());
            }
        }
        let began = |step: &&String| !step.ends_with("step `begin`");
        assert!(
            steps.iter().filter(began).count() >= SPAWNERS,
            "{steps:?}, {held:?}"
        );
        drop(stopping);
        // That caller is served again, too.
        let mut client = client;
        let response = client.execute(sh("pipeline", "id -u")).await.unwrap();
        let stdout = response.into_inner().stdout;
        assert_eq!(stdout, format!("{STOPPER}\n").as_bytes());
    }

    #[tokio::test]
    #[ignore = "needs root"]
    async fn roots_own_hooks_never_run_as_root() {
        needs_root();
        let daemon = daemon("caller").await;
        let response = daemon.run(sh("pipeline", "id -u")).await;
        let user = String::from_utf8(response.unwrap().stdout.to_vec()).unwrap();
        let user: u32 = user.trim_end().parse().unwrap();
        assert!((1_879_100_000..=1_879_104_095).contains(&user), "{user}");
    }
}

#[tokio::test]
async fn only_roots_daemon_can_run_hooks_as_their_callers() {
    use crate::support::{Daemon, Setup};

    let config = "[hooks]\nrun_as = \"caller\"\n".to_owned();
    let setup = Setup {
        config,
        ..Setup::default()
    };
    let started = Daemon::try_with(setup).await;
    if nix::unistd::geteuid().is_root() {
        assert!(started.is_ok());
        return;
    }
    let log = started.err().unwrap();
    assert!(
        log.contains("hooks.run_as") && log.contains("root"),
        "{log}"
    );
}
