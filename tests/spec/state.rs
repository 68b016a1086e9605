//! Files of hooks that last: at the paths of `files.state`, and a session's temporary files.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use hookjail::pb;
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::{
    support::{Daemon, Setup, directory, program, unshared_directory},
    witness::{end, writing},
};

/// A daemon with a profile `own`, and a directory of an agent's.
struct Site {
    agent: PathBuf,
    daemon: Daemon,
}

/// Returns one in a directory that a view covers, as tests usually have, and one in a directory that none covers. None as root,
/// whose hooks have another uid in each run.
async fn sites() -> Vec<Site> {
    if nix::unistd::geteuid().is_root() {
        return Vec::new();
    }
    let mut sites = Vec::new();
    for place in [Some(directory()), unshared_directory()]
        .into_iter()
        .flatten()
    {
        let agent = place.path().canonicalize().unwrap().join("agent");
        fs::create_dir_all(agent.join("hooks")).unwrap();
        fs::create_dir_all(agent.join("plugins/data")).unwrap();
        for (name, text) in [
            ("settings.json", "settings"),
            ("hooks/lib.sh", "lib=machine\n"),
            ("plugins/one", "plugin"),
        ] {
            fs::write(agent.join(name), text).unwrap();
        }
        let (state, late) = (agent.display(), late(&agent).display().to_string());
        let profile = format!(
            "description = \"with state\"\nextends = \"workspace-rw\"\nstate = \"project\"\n[files]\nstate = [\"{state}\"]\n\
             system = [{{ path = \"{state}/hooks\", access = \"execute\", optional = true }}, \
             {{ path = \"{state}/plugins\", access = \"read\", optional = true }}, \
             {{ path = \"{late}/sub\", access = \"read\", optional = true }}]\n\
             named = [{{ path = \"{state}/plugins/data\", access = \"write\", optional = true }}]\n"
        );
        let daemon = Daemon::in_directory(
            place,
            Setup {
                profiles: vec![("own".to_owned(), profile)],
                ..Setup::default()
            },
        );
        sites.push(Site {
            agent,
            daemon: daemon.await.unwrap(),
        });
    }
    sites
}

/// Returns a directory in `/tmp` of which `own` grants a part, if it is there.
fn late(agent: &Path) -> PathBuf {
    let place = agent.parent().and_then(Path::file_name).unwrap();
    Path::new("/tmp").join(format!("late{}", place.display()))
}

/// Returns a request for a script under `own`, of a session.
fn request(daemon: &Daemon, session: &str, script: &str) -> pb::ExecuteRequest {
    let request = writing(daemon, script);
    pb::ExecuteRequest {
        profile: "own".to_owned(),
        session_id: session.to_owned(),
        ..request
    }
}

/// Runs a script, which must end well, and returns its output.
async fn run(daemon: &Daemon, session: &str, script: &str) -> String {
    let response = daemon.run(request(daemon, session, script)).await.unwrap();
    let stderr = String::from_utf8_lossy(&response.stderr).into_owned();
    assert_eq!(end(&response).1, Some(0), "{script}: {stderr}");
    String::from_utf8(response.stdout.to_vec()).unwrap()
}

#[tokio::test]
async fn files_last_for_their_project_and_the_machines_stay_as_they_are() {
    for Site { agent, daemon } in sites().await {
        let agent_path = agent.display();
        let script = format!(
            "mkdir -p {agent_path}/logs && echo one >>{agent_path}/logs/a && cat {agent_path}/logs/a"
        );
        assert_eq!(run(&daemon, "", &script).await, "one\n");
        // Another session, and the same project.
        assert_eq!(run(&daemon, "b", &script).await, "one\none\n");
        assert!(!agent.join("logs").exists());

        let response = daemon.run(request(&daemon, "", "true")).await.unwrap();
        let evidence = &response.confinement.unwrap().evidence;
        let state = evidence.iter().find(|it| it.check == "state");
        assert_eq!(state.unwrap().observed, "project");

        let other = daemon.workspace().join("other");
        fs::create_dir_all(&other).unwrap();
        let mut elsewhere = request(&daemon, "", &format!("ls {agent_path}"));
        elsewhere.hook.as_mut().unwrap().workspace = other.display().to_string();
        let listed = daemon.run(elsewhere).await.unwrap().stdout;
        let listed = String::from_utf8(listed.to_vec()).unwrap();
        assert!(!listed.contains("logs"), "{listed}");
    }
}

#[tokio::test]
async fn what_is_not_granted_is_closed_and_not_missing_and_what_is_granted_cannot_be_changed() {
    for Site { agent, daemon } in sites().await {
        let root = agent.display();
        // The positive controls: granted files can be read, and executed where that is granted.
        let script = format!(
            "cat {root}/plugins/one && . {root}/hooks/lib.sh && echo $lib && test -e {root}/settings.json"
        );
        assert_eq!(run(&daemon, "", &script).await, "pluginmachine\n");
        let script = format!(
            "for f in settings.json hooks/lib.sh plugins/one; do (echo x >{root}/$f) 2>&1; done | sed 's/.*: //' | sort | uniq -c; \
             cat {root}/settings.json 2>&1 | sed 's/.*: //'; mv {root}/plugins {root}/other 2>&1 | sed 's/.*: //'"
        );
        assert_eq!(
            run(&daemon, "", &script).await,
            "      1 Permission denied\n      2 Read-only file system\nPermission denied\nDevice or resource busy\n"
        );
        // Its own entries it may remove: nothing of the machine's goes.
        let script = format!("rm -f {root}/settings.json; echo own >{root}/settings.json");
        run(&daemon, "", &script).await;
        let text = |name: &str| fs::read_to_string(agent.join(name)).unwrap();
        assert_eq!(
            [text("settings.json"), text("plugins/one")],
            ["settings", "plugin"]
        );
    }
}

/// Starts a daemon with a profile `own` that shows files that last in the place of a home, in which everything of the daemon's lies,
/// too.
async fn at_home(place: TempDir, base: &str, more: &str) -> Daemon {
    let home = place.path().canonicalize().unwrap();
    for directory in [".config/git", "logs", "notes", "tools"] {
        fs::create_dir_all(home.join(directory)).unwrap();
    }
    for (name, text) in [
        (".config/git/ignore", "rule"),
        (".keys", "key"),
        ("logs/yesterday", "line"),
        ("notes/all", "note"),
        ("tools/tool", "#!/bin/sh\necho tool\n"),
    ] {
        fs::write(home.join(name), text).unwrap();
    }
    fs::set_permissions(home.join("tools/tool"), fs::Permissions::from_mode(0o755)).unwrap();
    let home = home.display();
    let profile = format!(
        "description = \"at home\"\nextends = \"{base}\"\nview = \"own\"\nstate = \"project\"\n[files]\nstate = [\"{home}/.config\", \"{home}\"]\n\
         system = [{{ path = \"{home}/tools\", access = \"execute\" }}, \
         {{ path = \"{home}/.config/git/ignore\", access = \"read\", optional = true }}]\n{more}"
    );
    let setup = Setup {
        profiles: vec![("own".to_owned(), profile)],
        ..Setup::default()
    };
    Daemon::in_directory(place, setup).await.unwrap()
}

/// Returns a directory that a view covers and one that none covers, for daemons without root's rights.
fn homes() -> Vec<TempDir> {
    match nix::unistd::geteuid().is_root() {
        true => Vec::new(),
        false => [Some(directory()), unshared_directory()]
            .into_iter()
            .flatten()
            .collect(),
    }
}

#[tokio::test]
async fn in_a_home_new_files_last_and_what_is_there_is_closed_or_has_its_own_rights() {
    for place in homes() {
        let daemon = at_home(place, "workspace-rw", "").await;
        let home = daemon.path().canonicalize().unwrap();
        let root = home.display();
        let count = format!(
            "cd {root} && mkdir -p .facts && echo x >>.facts/n && echo x >>count && echo x >>logs/today && echo x >>.config/new \
             && cat .facts/n count logs/today .config/new | wc -l"
        );
        assert_eq!(run(&daemon, "", &count).await, "4\n");
        assert_eq!(run(&daemon, "a", &count).await, "8\n");
        for made in [".facts", "count", "logs/today", ".config/new"] {
            assert!(!home.join(made).exists(), "{made}");
        }

        // Granted files, as the positive control, and others.
        let script = format!(
            "cd {root} && tools/tool && cat .config/git/ignore && echo && echo made >$OLDPWD/made; \
             for f in .keys notes/all logs/yesterday tools/new tools/tool .config/git/ignore state/x run/x; do \
             (cat $f >/dev/null) 2>/dev/null && echo reads $f; (echo x >$f) 2>/dev/null && echo writes $f; done; true"
        );
        let seen = run(&daemon, "", &script).await;
        let expected = "tool\nrule\nreads tools/tool\nreads .config/git/ignore\n";
        // Logs are its own, and so is every file that it makes in the directories that lead to shown files.
        let own_files =
            ["logs/yesterday", "run/x", "state/x"].map(|name| format!("writes {name}\n"));
        let seen = own_files
            .iter()
            .fold(seen, |seen, file| seen.replace(file, ""));
        assert_eq!(seen, expected);
        let text = |name: &str| fs::read_to_string(home.join(name)).unwrap();
        assert_eq!(text(".keys"), "key");
        assert_eq!(text("logs/yesterday"), "line");
        for new in ["run/x", "state/x", "tools/new"] {
            assert!(!home.join(new).exists(), "{new}");
        }
        let made = fs::read_to_string(daemon.workspace().join("made")).unwrap();
        assert_eq!(made, "made\n");
    }
}

#[tokio::test]
async fn names_that_are_gone_from_a_home_are_free() {
    for place in homes() {
        let daemon = at_home(place, "workspace-rw", "").await;
        let home = daemon.path().canonicalize().unwrap();
        let home_path = home.display();
        let read = format!(
            "cd {home_path}; for f in .config/git/ignore notes/all; do cat $f 2>&1 | sed 's/.*: //'; echo; done"
        );
        assert_eq!(run(&daemon, "", &read).await, "rule\nPermission denied\n\n");
        fs::remove_dir_all(home.join(".config/git")).unwrap();
        fs::remove_dir_all(home.join("notes")).unwrap();
        let missing = "No such file or directory\n\n";
        assert_eq!(run(&daemon, "", &read).await, missing.repeat(2));
    }
}

#[tokio::test]
async fn a_script_of_a_workspace_in_a_home_finds_the_workspace_as_it_is() {
    for (base, writes) in [("workspace-rw", true), ("workspace-ro", false)] {
        for place in homes() {
            let daemon = at_home(place, base, "").await;
            let script = daemon.workspace().join("tools/check.sh");
            fs::create_dir(script.parent().unwrap()).unwrap();
            let text = "#!/bin/sh\ncd \"$(dirname \"$0\")\"\n(echo x >beside) 2>/dev/null\nls ..\n";
            fs::write(&script, text).unwrap();
            fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
            let mut check = request(&daemon, "", "");
            check.hook.as_mut().unwrap().argv = vec![script.display().to_string()];
            let response = daemon.run(check).await.unwrap();
            assert_eq!(end(&response).1, Some(0));
            assert_eq!(&*response.stdout, b"tools\n");
            assert_eq!(script.with_file_name("beside").exists(), writes, "{base}");
        }
    }
}

#[tokio::test]
async fn nothing_lasts_under_a_limit_of_scratch() {
    for place in homes() {
        let daemon = at_home(place, "workspace-rw", "[limits]\nscratch = \"1MiB\"\n").await;
        let home_path = daemon.path().canonicalize().unwrap();
        let script = format!(
            "cd {}; tools/tool; echo x >.facts || echo closed",
            home_path.display()
        );
        let response = daemon.run(request(&daemon, "a", &script)).await.unwrap();
        assert_eq!(&*response.stdout, b"tool\nclosed\n");
        let evidence = &response.confinement.unwrap().evidence;
        assert!(evidence.iter().all(|it| it.check != "state"));
    }
}

#[tokio::test]
async fn a_grant_below_another_keeps_its_own_rights() {
    for Site { agent, daemon } in sites().await {
        let plugins = agent.join("plugins").display().to_string();
        let script = format!(
            "echo x >{plugins}/data/kept; (echo x >{plugins}/one) 2>/dev/null && echo changed; true"
        );
        assert_eq!(run(&daemon, "", &script).await, "");
        let text = |name: &str| fs::read_to_string(agent.join("plugins").join(name)).unwrap();
        assert_eq!([text("data/kept"), text("one")], ["x\n", "plugin"]);
    }
}

#[tokio::test]
async fn hooks_that_begin_a_session_together_share_its_files() {
    for Site { agent, daemon } in sites().await {
        let script = format!("echo x >>/tmp/all; echo x >>{}/all.txt", agent.display());
        let script = script.as_str();
        for session in ["a", "b", "c"] {
            let mut calls = JoinSet::new();
            for _ in 0..8 {
                let (mut client, request) = (daemon.client(), request(&daemon, session, script));
                calls.spawn(async move { client.execute(request).await });
            }
            for response in calls.join_all().await {
                assert_eq!(end(&response.unwrap().into_inner()).1, Some(0));
            }
        }
        let script = format!("wc -l </tmp/all; wc -l <{}/all.txt", agent.display());
        assert_eq!(run(&daemon, "a", &script).await, "8\n24\n");
    }
}

#[tokio::test]
async fn a_script_can_keep_a_file_beside_itself_and_change_nothing_else_there() {
    for Site { agent, daemon } in sites().await {
        let script = agent.join("hooks/count.sh");
        let text = "#!/bin/sh\ncd \"$(dirname \"$0\")\" && echo x >>count.log && wc -l <count.log\n\
                    for file in lib.sh count.sh; do (echo x >$file) 2>/dev/null && echo changed; done\nexit 0\n";
        fs::write(&script, text).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        let mut count = request(&daemon, "", "");
        count.hook.as_mut().unwrap().argv = vec![script.display().to_string()];
        for lines in ["1\n", "2\n"] {
            let response = daemon.run(count.clone()).await.unwrap();
            assert_eq!(String::from_utf8(response.stdout.to_vec()).unwrap(), lines);
        }
        assert!(!agent.join("hooks/count.log").exists());
    }
}

#[tokio::test]
async fn a_link_that_a_hook_left_in_the_way_leads_nowhere() {
    for Site { agent, daemon } in sites().await {
        let agent_path = agent.display();
        let victim = daemon.workspace().join("victim");
        fs::create_dir(&victim).unwrap();
        fs::rename(agent.join("plugins"), agent.join("away")).unwrap();
        run(
            &daemon,
            "",
            &format!("ln -s {} {agent_path}/plugins", victim.display()),
        )
        .await;
        // The machine has such a directory again.
        fs::rename(agent.join("away"), agent.join("plugins")).unwrap();
        let script = format!("cat {agent_path}/plugins/one; ls {}", victim.display());
        assert_eq!(run(&daemon, "", &script).await, "plugin");
        assert_eq!(fs::read_dir(&victim).unwrap().count(), 0);

        // The same among the session's temporary files.
        let late = late(&agent);
        let late_path = late.display();
        run(
            &daemon,
            "a",
            &format!("ln -s {} {late_path}", victim.display()),
        )
        .await;
        fs::create_dir_all(late.join("sub")).unwrap();
        fs::write(late.join("sub/one"), "one").unwrap();
        let script = format!("cat {late_path}/sub/one; ls {}", victim.display());
        let seen = run(&daemon, "a", &script).await;
        fs::remove_dir_all(&late).unwrap();
        assert_eq!(seen, "one");
        assert_eq!(fs::read_dir(&victim).unwrap().count(), 0);
    }
}

#[tokio::test]
async fn temporary_files_last_for_a_session_and_without_one_for_a_run() {
    for Site { daemon, .. } in sites().await {
        let script = "[ -e /tmp/marker ] && echo there; : >$TMPDIR/marker";
        for (session, expected) in [("a", ""), ("a", "there\n"), ("b", ""), ("", ""), ("", "")] {
            assert_eq!(run(&daemon, session, script).await, expected, "{session:?}");
        }
        // A profile without `state`.
        let mut without = request(&daemon, "a", script);
        without.profile = "workspace-rw".to_owned();
        assert_eq!(daemon.run(without).await.unwrap().stdout.len(), 0);
    }
}

#[tokio::test]
async fn the_command_line_lists_shows_and_clears() {
    for Site { agent, daemon } in sites().await {
        let agent_path = agent.display();
        run(&daemon, "a", &format!("echo 12345 >{agent_path}/n.txt")).await;
        let state = |words: &[&str]| {
            let mut command = crate::support::command(program());
            let config = daemon.path().join("hookjail.toml");
            command.arg("state").args(words);
            command.arg("--config").arg(config);
            #[expect(clippy::disallowed_methods, reason = "runs the program under test")]
            let output = command.output().unwrap();
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let (out, err) = (text(&output.stdout), text(&output.stderr));
            (output.status.code(), out, err)
        };
        let (_, listed, _) = state(&["list", "--json"]);
        let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
        let entries = listed["state"].as_array().unwrap();
        let of_project = |entry: &&serde_json::Value| entry["session"] == "";
        let entry = entries.iter().find(of_project).unwrap();
        assert_eq!((&entry["bytes"], &entry["files"]), (&6.into(), &1.into()));
        let project = daemon.workspace().display().to_string();
        assert_eq!(entry["project"], project);

        let (_, paths, _) = state(&["path", "--project", &project]);
        let path = paths
            .lines()
            .find(|path| path.ends_with(entry["id"].as_str().unwrap()));
        let file = format!("{}/files{agent_path}/n.txt", path.unwrap());
        assert_eq!(fs::read_to_string(file).unwrap(), "12345\n");

        let (code, _, why) = state(&["clear"]);
        assert_eq!(code, Some(2));
        assert!(why.contains("--all"), "{why}");
        let (code, _, why) = state(&["clear", "nothing"]);
        assert!(code == Some(2) && why.contains("no directory"), "{why}");
        state(&["clear", "--session", "a"]);
        let (_, left, _) = state(&["list"]);
        assert_eq!(left.lines().count(), 1, "{left}");
        state(&["clear", "--all"]);
        assert_eq!(state(&["list"]).1, "");
        // A hook begins anew.
        assert_eq!(
            run(
                &daemon,
                "a",
                &format!("ls {agent_path} | grep -c txt || true")
            )
            .await,
            "0\n"
        );
    }
}
