//! `hookjail learn` proposes the smallest profile that a hook runs under as it did, and grants nothing by itself.

use std::{
    fs,
    io::Write,
    os::unix::fs::{PermissionsExt, lchown},
    path::PathBuf,
    process::{Command, Output, Stdio},
};

use nix::unistd::geteuid;
use serde_json::Value;
use tempfile::TempDir;

use crate::{
    fail_closed::FakeKernel,
    support::{directory, program},
};

/// Whose home it is where the tests are root's.
const USER: u32 = 4243;

/// An ordinary user with a project.
pub(crate) struct Home(TempDir);

impl Home {
    pub(crate) fn new() -> Self {
        let home = Self(directory());
        for name in ["p/.git/hooks", "profiles", "tmp"] {
            fs::create_dir_all(home.path(name)).unwrap();
        }
        home.write("p/.git/config", "");
        home
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Gives everything in it to its user.
    fn give_to_user(&self) {
        if !geteuid().is_root() {
            return;
        }
        let mut todo = vec![self.0.path().to_owned()];
        while let Some(path) = todo.pop() {
            lchown(&path, Some(USER), Some(USER)).unwrap();
            if path.symlink_metadata().unwrap().is_dir() {
                let entries = fs::read_dir(path).unwrap();
                todo.extend(entries.map(|entry| entry.unwrap().path()));
            }
        }
    }

    /// Runs hookjail as its user, in the project.
    pub(crate) fn hookjail(&self, words: &[&str], event: &str) -> Output {
        self.hookjail_in(&[], words, event)
    }

    /// The same, started by other words.
    #[expect(
        clippy::disallowed_methods,
        reason = "the test starts the program under test"
    )]
    pub(crate) fn hookjail_in(&self, wrapper: &[String], words: &[&str], event: &str) -> Output {
        self.give_to_user();
        let mut all: Vec<String> = Vec::new();
        if geteuid().is_root() {
            let user = USER.to_string();
            let switch = [
                "setpriv",
                "--reuid",
                &user,
                "--regid",
                &user,
                "--clear-groups",
            ];
            all.extend(switch.map(str::to_owned));
        }
        all.extend_from_slice(wrapper);
        all.push(program().display().to_string());
        all.extend(words.iter().map(|&word| word.to_owned()));
        let local = self.path(".local/bin");
        let mut child = Command::new(&all[0])
            .args(&all[1..])
            .current_dir(self.path("p"))
            .env_clear()
            .env("HOME", self.path("p").parent().unwrap())
            .env(
                "PATH",
                format!("{}:/usr/local/bin:/usr/bin:/bin", local.display()),
            )
            .env("TMPDIR", self.path("tmp"))
            .env("XDG_RUNTIME_DIR", self.path("tmp"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(event.as_bytes())
            .unwrap();
        child.wait_with_output().unwrap()
    }

    /// Returns the files and directories that there are, but for the daemon's own state.
    fn files(&self) -> Vec<PathBuf> {
        let mut all = Vec::new();
        let mut todo = vec![self.path("p"), self.path("profiles"), self.path(".config")];
        while let Some(path) = todo.pop() {
            let entries = fs::read_dir(&path).into_iter().flatten();
            todo.extend(entries.map(|entry| entry.unwrap().path()));
            all.push(path);
        }
        all.sort();
        all
    }

    /// Returns the proposed profile, as JSON.
    fn learn(&self, options: &[&str], command: &[&str]) -> Value {
        let words = [&["--json", "learn"], options, &["--"], command].concat();
        let output = self.hookjail(&words, "{}");
        let learned = serde_json::from_slice(&output.stdout);
        assert!(learned.is_ok(), "{output:?}");
        learned.unwrap()
    }

    /// Runs a command under a profile, one of the directory `profiles` among them, and returns its exit code.
    fn run_under(&self, profile: &str, command: &[&str]) -> Option<i32> {
        let config = format!("[profiles]\ndirs = [{:?}]\n", self.path("profiles"));
        self.write("hookjail.toml", &config);
        fs::set_permissions(
            self.path("hookjail.toml"),
            fs::Permissions::from_mode(0o600),
        )
        .unwrap();
        let config = self.path("hookjail.toml").display().to_string();
        let run = ["--config", &config, "run", "--profile", profile, "--"];
        let output = self.hookjail(&[&run, command].concat(), "{}");
        output.status.code()
    }
}

/// A hook that needs something ends with 1 without it, and with 0 under what is learnt, which is this and no more.
fn learns(home: &Home, options: &[&str], script: &str, expected: &str) -> Value {
    home.write("p/hook.sh", &format!("#!/bin/sh\nset -e\n{script}\n"));
    let command = [home.path("p/hook.sh").display().to_string()];
    let command: Vec<_> = command.iter().map(String::as_str).collect();
    assert_ne!(home.run_under("strict", &command), Some(0), "{script}");

    let learned = home.learn(options, &command);

    let head = "description = \"needs of hook.sh, by hookjail learn\"\n";
    assert!(learned["toml"].is_string(), "{learned}");
    let toml = learned["toml"].as_str().unwrap();
    assert_eq!(toml, format!("{head}{expected}"), "{learned}");
    assert_eq!(learned["green"], true, "{learned}");
    // By hand, as its reader would.
    home.write("profiles/learned.toml", toml);
    assert_eq!(home.run_under("learned", &command), Some(0), "{learned}");
    learned
}

#[test]
fn a_formatter_of_the_workspace_gets_the_workspace_to_write() {
    let home = Home::new();
    home.write(
        "p/node_modules/.bin/fmt",
        "#!/bin/sh\nx=$(cat \"$1\"); echo \"$x;\" > \"$1\"\n",
    );
    home.write("p/a.js", "a\n");

    learns(
        &home,
        &[],
        "node_modules/.bin/fmt a.js",
        "extends = \"workspace-rw\"\n\ngranted_by = \"operator\"\nmetadata = \"keep\"\n",
    );

    // Both runs and the one by hand were real.
    assert_eq!(fs::read_to_string(home.path("p/a.js")).unwrap(), "a;;;\n");
}

#[test]
fn a_tool_of_a_virtual_environment_gets_the_workspace_to_read() {
    let home = Home::new();
    home.write("p/a.txt", "a\n");
    home.write(
        "p/.venv/bin/lint",
        &format!(
            "#!{}\nread -r x < a.txt\n",
            home.path("p/.venv/bin/sh").display()
        ),
    );
    std::os::unix::fs::symlink("/bin/sh", home.path("p/.venv/bin/sh")).unwrap();

    learns(
        &home,
        &[],
        "exec .venv/bin/lint",
        "extends = \"workspace-ro\"\n\ngranted_by = \"operator\"\nspawn = \"threads\"\nview = \"own\"\n",
    );
}

#[test]
fn a_tool_of_the_home_and_what_claude_code_keeps_there_come_by_their_parts() {
    let home = Home::new();
    home.write(
        ".local/bin/tool",
        "#!/bin/sh\nread -r x < ~/.claude/hooks/t.json\n",
    );
    home.write(".claude/hooks/t.json", "{}\n");

    learns(
        &home,
        &[],
        "exec tool",
        "extends = [\"strict\", \"toolchains\", \"claude-code-home\"]\n\ngranted_by = \"operator\"\nview = \"own\"\n\n[environment]\nhome = \"user\"\n",
    );
}

#[test]
fn a_logger_gets_its_file_where_that_is_granted_by_name() {
    let home = Home::new();
    home.write("notes/hooks.md", "");
    let script = "echo it ran >> ~/notes/hooks.md";
    let log = home.path("notes/hooks.md").display().to_string();
    let grant = format!("--grant={log}=write-file");
    home.write("p/hook.sh", &format!("#!/bin/sh\nset -e\n{script}\n"));

    // A refusal names the command that grants it.
    let hook = home.path("p/hook.sh").display().to_string();
    let refused = home.learn(&[], &[&hook]);
    assert_eq!(refused["refused"][0]["what"], format!("write {log}"));
    assert_eq!(
        refused["refused"][0]["remedy"],
        format!("to allow it: hookjail learn {grant} -- {hook}")
    );
    // And nothing is proposed of a run that failed.
    assert_eq!(refused["toml"], Value::Null, "{refused}");
    let failed = refused["failed"].as_str().unwrap();
    assert!(failed.contains("Permission denied"), "{failed}");

    learns(
        &home,
        &[&grant],
        script,
        "extends = \"strict\"\n\ngranted_by = \"operator\"\nview = \"own\"\n\n[environment]\nhome = \"user\"\n\n[files]\nnamed = [\n    { path = \"${home}/notes/hooks.md\", access = \"write-file\", create = true },\n]\n",
    );
}

#[test]
fn what_a_view_and_files_that_last_bring_is_learnt() {
    let home = Home::new();
    home.write(".claude/settings.json", "{}\n");
    home.write("p/rules.txt", "rule\n");
    let log = "state = \"project\"\nview = \"own\"\n\n[environment]\nhome = \"user\"\n\n[files]\nstate = [\"${home}/.claude\"]\n";
    for (what, script, base, rest) in [
        (
            "a log beside what an agent obeys",
            "echo call >> ~/.claude/calls.log",
            "\"strict\"".to_owned(),
            log.to_owned(),
        ),
        (
            "notes in a new directory of the home",
            "mkdir -p ~/.facts\necho one >> ~/.facts/notes",
            "\"pipeline\"".to_owned(),
            log.replace("/.claude", ""),
        ),
        (
            "a guard by its own place",
            "cd \"$(dirname \"$0\")\"\nread -r x < rules.txt",
            "\"workspace-ro\"".to_owned(),
            "view = \"own\"\n".to_owned(),
        ),
        (
            "a file at which it only looks",
            "test -s \"${0%/*}/rules.txt\"",
            "\"workspace-ro\"".to_owned(),
            "spawn = \"threads\"\nview = \"own\"\n".to_owned(),
        ),
        (
            "a group and a session of its own",
            "timeout 5 setsid --wait true\necho x > /tmp/marker",
            "\"pipeline\"".to_owned(),
            "state = \"project\"\nview = \"own\"\n".to_owned(),
        ),
        (
            "the name of a user",
            "test -n \"$(id -u nobody)\"",
            "[\"pipeline\", \"machine\"]".to_owned(),
            "view = \"own\"\n".to_owned(),
        ),
    ] {
        let expected = format!("extends = {base}\n\ngranted_by = \"operator\"\n{rest}");
        let learned = learns(&home, &[], script, &expected);
        assert_eq!(
            learned["refused"],
            serde_json::json!([]),
            "{what}: {learned}"
        );
    }
    // The files that both runs of `learn` kept are gone: the log is of the run by hand.
    let hooks = home.path(".local/state/hookjail/hooks");
    let directories = fs::read_dir(hooks).unwrap();
    let logs = directories.filter_map(|directory| {
        let files = directory.unwrap().path().join("files");
        let log = home.path(".claude/calls.log");
        fs::read_to_string(files.join(log.strip_prefix("/").unwrap())).ok()
    });
    assert_eq!(logs.collect::<Vec<_>>(), ["call\n"]);
}

#[test]
fn keys_are_never_granted_and_are_named() {
    let home = Home::new();
    home.write(".ssh/id", "key\n");
    home.write(".bashrc", "\n");
    home.write(
        "p/hook.sh",
        "#!/bin/sh\nread -r x < ~/.ssh/id || :\necho x >> ~/.bashrc || :\n",
    );
    let hook = home.path("p/hook.sh").display().to_string();

    home.write("${home}", "x");
    let literal = format!("--grant={}=read", home.path("${home}").display());
    let refused = home.hookjail(&["learn", &literal, "--", &hook], "");
    let printed = String::from_utf8_lossy(&refused.stderr);
    assert!(printed.contains("cannot be in a profile"), "{printed}");
    for (path, why) in [
        ("/", "everything lies below it"),
        ("/dev", "every device lies below it"),
    ] {
        let grant = format!("--grant={path}=read");
        let refused = home.hookjail(&["learn", &grant, "--", &hook], "");
        let printed = String::from_utf8_lossy(&refused.stderr);
        let expected = format!("`{path}` cannot be granted: {why}");
        assert!(printed.contains(&expected), "{printed}");
        assert!(!printed.contains("TOML"), "{printed}");
    }

    let learned = home.learn(&[], &[&hook]);

    let head = "description = \"needs of hook.sh, by hookjail learn\"\n";
    assert_eq!(
        learned["toml"],
        format!("{head}extends = \"strict\"\n\ngranted_by = \"operator\"\nview = \"own\"\n")
    );
    let refused: Vec<_> = learned["refused"].as_array().unwrap().iter().collect();
    let remedy_for = |path: &str, operation: &str| {
        let what = format!("{operation} {}", home.path(path).display());
        let found = refused.iter().find(|it| it["what"] == what);
        assert!(found.is_some(), "{what}: {learned}");
        found.unwrap()["remedy"].as_str().unwrap().to_owned()
    };
    for remedy in [
        remedy_for(".ssh/id", "read"),
        remedy_for(".bashrc", "write"),
    ] {
        assert!(
            remedy.starts_with("never granted: the path is, holds or lies in what"),
            "{remedy}"
        );
    }
    // Nor on the command line.
    for path in [".ssh", ".ssh/id"] {
        let grant = format!("--grant={}=read", home.path(path).display());
        let output = home.hookjail(&["learn", &grant, "--", &hook], "{}");
        assert_eq!(output.status.code(), Some(125), "{output:?}");
        assert_eq!(output.stdout, b"");
    }
}

#[test]
fn of_the_network_the_hosts_are_granted_that_were_reached() {
    let home = Home::new();
    // A connection counts once a host answers: one without a reader may be over before it begins.
    let script = "#!/bin/bash\nexec 3<>/dev/tcp/127.0.0.1/$1 && read -r line <&3\n";
    home.write("p/hook.sh", script);
    let hook = home.path("p/hook.sh").display().to_string();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let command = [hook.as_str(), port.as_str()];
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            // The client may be gone.
            stream.unwrap().write_all(b"served\n").ok();
        }
    });
    assert_ne!(home.run_under("pipeline", &command), Some(0));

    let learned = home.learn(&["--network"], &command);
    let toml = learned["toml"].as_str().unwrap();
    let head = "description = \"needs of hook.sh, by hookjail learn\"\n";
    let expected = format!(
        "{head}extends = \"strict\"\n\ngranted_by = \"operator\"\nnetwork = \"named\"\n\
         egress = [\"127.0.0.1:{port} any\"]\nview = \"own\"\n"
    );
    assert_eq!(toml, expected);
    home.write("profiles/learned.toml", toml);
    assert_eq!(home.run_under("learned", &command), Some(0), "{learned}");
    assert_ne!(home.run_under("learned", &[&hook, "1"]), Some(0));
    // Asked for and not used no host is granted.
    home.write("p/hook.sh", "#!/bin/bash\n:\n");
    let unused = home.learn(&["--network"], &command);
    assert!(!unused["toml"].as_str().unwrap().contains("network"));
    // A bound on all profiles holds for the first run as well.
    home.write("p/hook.sh", script);
    let config = home.path("hookjail.toml");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, text + "\n[egress]\nallow = [\"a.example:443\"]\n").unwrap();
    let config = config.display().to_string();
    let bounded = home.learn(&["--network", "--config", &config], &command);
    assert_eq!(bounded["toml"], Value::Null, "{bounded}");
    let refused = &bounded["refused"][0];
    assert_eq!(refused["what"], format!("connect 127.0.0.1:{port}"));
}

#[test]
fn the_hosts_that_a_hook_seeks_are_named_and_granted_one_by_one() {
    let home = Home::new();
    home.write(
        "p/hook.sh",
        "#!/bin/bash\nexec 3<>/dev/tcp/127.0.0.1/$1\nread -r line <&3 && echo $line >got\n",
    );
    let hook = home.path("p/hook.sh").display().to_string();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let command = [hook.as_str(), port.as_str()];
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            stream.unwrap().write_all(b"served\n").unwrap();
        }
    });
    assert_ne!(home.run_under("pipeline", &command), Some(0));

    let without = home.learn(&[], &command);
    let egress = format!("--egress=127.0.0.1:{port} any");
    let refused = &without["refused"][0];
    assert_eq!(refused["what"], format!("connect 127.0.0.1:{port}"));
    assert_eq!(
        refused["remedy"],
        format!("to allow it: hookjail learn '{egress}' -- {hook} {port}")
    );
    assert_eq!(without["toml"], Value::Null, "{without}");
    assert!(!home.path("p/got").exists());

    let learned = home.learn(&[&egress], &command);
    assert_eq!(learned["green"], true, "{learned}");
    let toml = learned["toml"].as_str().unwrap();
    let expected = format!("\nnetwork = \"named\"\negress = [\"127.0.0.1:{port} any\"]\n");
    assert!(toml.contains(&expected), "{toml}");
    home.write("profiles/learned.toml", toml);
    home.write("p/got", "");
    assert_eq!(home.run_under("learned", &command), Some(0), "{learned}");
    assert_eq!(fs::read_to_string(home.path("p/got")).unwrap(), "served\n");
    // Another port of the host is not granted with it.
    assert_ne!(home.run_under("learned", &[&hook, "1"]), Some(0));
    // A host is not granted where the hook reaches none.
    home.write("p/hook.sh", "#!/bin/bash\n:\n");
    let unused = home.learn(&[&egress], &command);
    assert!(!unused["toml"].as_str().unwrap().contains("network"));
}

#[test]
fn what_a_hook_lacks_is_put_in_force_with_the_hosts_that_it_seeks() {
    let home = Home::new();
    let hook = home.path("p/hook.sh").display().to_string();
    home.write(
        "p/hook.sh",
        "#!/bin/bash\n(exec 3<>/dev/tcp/collector.example.org/80) 2>/dev/null || :\n",
    );

    let output = home.hookjail(&["learn", "--yes", "--", &hook], "{}");

    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(
        printed.contains("+ reach collector.example.org:80 http"),
        "{printed}"
    );
    let written = fs::read_to_string(home.path(".config/hookjail/profiles/hook.toml")).unwrap();
    assert!(
        written.contains("egress = [\"collector.example.org:80 http\"]"),
        "{written}"
    );
    assert!(!written.contains("invalid"), "{written}");
}

#[test]
fn nothing_is_put_in_force_and_what_is_printed_is_a_diff() {
    let home = Home::new();
    home.write("p/a.txt", "a\n");
    home.write("p/hook.sh", "#!/bin/sh\nread -r x < a.txt\n");
    let hook = home.path("p/hook.sh").display().to_string();
    let before = home.files();

    let output = home.hookjail(&["learn", "--", &hook], "{}");

    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(home.files(), before);
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        "--- /dev/null\n+++ hook.toml\n@@ -0,0 +1,6 @@\n+description = \"needs of hook.sh, by hookjail learn\"\n+extends = \"workspace-ro\"\n+\n+granted_by = \"operator\"\n+spawn = \"threads\"\n+view = \"own\"\n"
    );
    // The file is written only with `--output`, and never over another one.
    let file = home.path("p/learned.toml").display().to_string();
    let words = ["learn", "--output", &file, "--", &hook];
    assert_eq!(home.hookjail(&words, "{}").status.code(), Some(0));
    let written = fs::read_to_string(&file).unwrap();
    assert!(written.contains("workspace-ro"), "{written}");
    fs::write(&file, "mine").unwrap();
    assert_eq!(home.hookjail(&words, "{}").status.code(), Some(125));
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
}

#[test]
fn a_run_that_failed_is_named_with_its_stderr_and_nothing_is_proposed() {
    let home = Home::new();
    let hook = home.path("p/hook.sh").display().to_string();
    for (script, why) in [
        ("echo no config >&2\nexit 3", "code 3: no config"),
        ("kill -9 $$", "signal 9"),
        ("exit 125", "code 125"),
    ] {
        home.write("p/hook.sh", &format!("#!/bin/sh\n{script}\n"));
        let output = home.hookjail(&["learn", "--", &hook], "{}");
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert_eq!(output.stdout, b"", "{script}");
        let printed = String::from_utf8(output.stderr).unwrap();
        assert!(printed.contains("the hook failed under observation"));
        assert!(printed.contains(why), "{printed}");
        let note =
            format!("run this if the hook fetches packages: hookjail learn --network -- {hook}\n");
        assert!(printed.contains(&note), "{printed}");
        // With a network the missing network is not one of the reasons.
        let output = home.hookjail(&["learn", "--network", "--", &hook], "{}");
        let printed = String::from_utf8(output.stderr).unwrap();
        assert!(
            printed.contains(why) && !printed.contains("fetches"),
            "{printed}"
        );
    }
    // A guard that refuses has not failed.
    home.write("p/hook.sh", "#!/bin/sh\necho no rm here >&2\nexit 2\n");
    let guard = home.learn(&["--as", "claude-code", "--point", "PreToolUse"], &[&hook]);
    assert_eq!(guard["green"], true, "{guard}");
    // One whose last word is about a denied access has, although its runtime takes that for a no.
    home.write("p/hook.sh", "#!/bin/sh\n: < ~/.ssh/id\n");
    home.write(".ssh/id", "key\n");
    let denied = home.learn(&["--as", "claude-code", "--point", "PreToolUse"], &[&hook]);
    assert_eq!(denied["toml"], Value::Null, "{denied}");
}

#[test]
fn events_without_an_effect_are_named() {
    let home = Home::new();
    let hook = home.path("p/hook.sh").display().to_string();
    for (script, has_none) in [
        (":", true),
        ("echo x > made", false),
        ("echo no >&2; exit 2", false),
    ] {
        home.write("p/hook.sh", &format!("#!/bin/sh\n{script}\n"));
        let learned = home.learn(&["--as", "claude-code"], &[&hook]);
        assert_eq!(learned["note"].is_string(), has_none, "{learned}");
    }
}

/// Effects of the first run can keep the second from repeating it.
#[test]
fn a_hook_that_ends_otherwise_under_what_was_learnt_is_said_to() {
    let home = Home::new();
    home.write(
        "p/hook.sh",
        "#!/bin/sh\nif [ -e done ]; then exit 3; fi\n: > done\n",
    );
    let hook = home.path("p/hook.sh").display().to_string();

    let learned = home.learn(&[], &[&hook]);

    assert_eq!(learned["green"], false);
    assert_eq!(
        learned["differences"],
        serde_json::json!(["the hook ends otherwise"])
    );
}

#[test]
fn samples_of_a_runtime_stand_in_for_an_event() {
    let home = Home::new();
    home.write("p/secret", "x\n");
    // Reads only what it is asked about `rm`.
    home.write(
        "p/hook.sh",
        "#!/bin/sh\nread -r event\ncase $event in *'rm -rf'*) read -r x < secret ;; esac\n",
    );
    let hook = home.path("p/hook.sh").display().to_string();
    // The point is the one before a tool call where none is named.
    let options = ["--json", "learn", "--as", "claude-code", "--", &hook];

    let output = home.hookjail(&options, "");

    let learned: Value = serde_json::from_slice(&output.stdout).unwrap();
    let toml = learned["toml"].as_str().unwrap();
    assert!(toml.contains("extends = \"workspace-ro\""), "{learned}");
    assert_eq!(learned["green"], true);
    // The event that is given is the only one.
    let output = home.hookjail(&options, "{\"tool_name\": \"Read\"}\n");
    let learned: Value = serde_json::from_slice(&output.stdout).unwrap();
    let toml = learned["toml"].as_str().unwrap();
    assert!(toml.contains("extends = \"strict\""), "{learned}");
}

#[test]
fn a_refused_call_is_told_in_one_line_with_the_command_that_learns() {
    let home = Home::new();
    home.write("p/hook.sh", "#!/bin/sh\n/bin/ls / | /bin/cat\n");
    home.write(
        "p/blind.sh",
        "#!/bin/sh\nread -r x < /etc/hostname-that-is-not-there || exit 1\n",
    );
    let hook = home.path("p/hook.sh").display().to_string();
    let run = |profile: &str, hook: &str| {
        let words = ["run", "--profile", profile, "--", hook];
        let output = home.hookjail(&words, "{}");
        let text = String::from_utf8(output.stdout).unwrap();
        let denied = text.lines().filter_map(|line| line.strip_prefix("denied"));
        denied
            .map(|line| line.trim().to_owned())
            .collect::<Vec<_>>()
    };

    let denials = run("strict", &hook);
    assert!(denials[0].contains("spawn = \"processes\""), "{denials:?}");
    assert!(
        denials[0].ends_with(&format!("(hookjail learn -- {hook})")),
        "{denials:?}"
    );

    let blind = home.path("p/blind.sh").display().to_string();
    let denials = run("strict", &blind);
    assert!(denials[0].contains("are not observed"), "{denials:?}");
    assert!(
        denials[0].contains(&format!("hookjail learn -- {blind}")),
        "{denials:?}"
    );
    // Where nothing failed, no cause is looked for.
    assert_eq!(run("pipeline", &hook), Vec::<String>::new());
}

/// An older Landlock is faked by a filter with a listener, as some containers have one.
#[test]
fn where_files_cannot_be_observed_that_is_said_and_nothing_is_proposed() {
    let (home, kernel) = (Home::new(), FakeKernel::build());
    home.write("p/hook.sh", "#!/bin/sh\n:\n");
    let hook = home.path("p/hook.sh").display().to_string();
    let words = ["learn", "--", &hook];

    let wrapper = kernel.around(&["--landlock", "6"]);
    let blind = home.hookjail_in(&wrapper, &words, "{}");

    assert_eq!(blind.status.code(), Some(125), "{blind:?}");
    assert_eq!(blind.stdout, b"");
    let stderr = String::from_utf8(blind.stderr).unwrap();
    assert!(stderr.contains("cannot be observed here"), "{stderr}");
    let seeing = home.hookjail(&words, "{}");
    assert_eq!(seeing.status.code(), Some(0), "{seeing:?}");
}

mod as_root {
    use super::*;
    use crate::support::needs_root;

    #[test]
    #[ignore = "needs root"]
    #[expect(
        clippy::disallowed_methods,
        reason = "the test starts the program under test"
    )]
    fn root_learns_what_hooks_with_users_of_their_own_need() {
        needs_root();
        let home = Home::new();
        home.write("p/a.txt", "a\n");
        home.write(
            "p/hook.sh",
            "#!/bin/sh\nset -e\nread -r x < a.txt\ncat a.txt\n",
        );
        let config = format!(
            "[paths]\nstate = {:?}\nruntime = {:?}\n",
            home.path("state"),
            home.path("run")
        );
        home.write("hookjail.toml", &config);
        fs::set_permissions(
            home.path("hookjail.toml"),
            fs::Permissions::from_mode(0o600),
        )
        .unwrap();
        let run = |words: &[&str]| {
            let mut command = crate::support::command(program());
            command.arg("--config").arg(home.path("hookjail.toml"));
            command.args(words).current_dir(home.path("p"));
            command.stdin(Stdio::null()).output().unwrap()
        };
        assert_ne!(run(&["run", "--", "./hook.sh"]).status.code(), Some(0));

        let learned = run(&["--json", "learn", "--", "./hook.sh"]);

        let learned: Value = serde_json::from_slice(&learned.stdout).unwrap();
        assert_eq!(
            learned["toml"],
            "description = \"needs of hook.sh, by hookjail learn\"\nextends = \"workspace-ro\"\n\ngranted_by = \"operator\"\nview = \"own\"\n"
        );
        assert_eq!(learned["green"], true, "{learned}");
        // Root's own keys are not for its hooks either.
        home.write(".ssh/id", "key");
        let grant = format!("--grant={}=read", home.path(".ssh/id").display());
        let mut command = crate::support::command(program());
        command.arg("--config").arg(home.path("hookjail.toml"));
        command.args(["learn", &grant, "--", "./hook.sh"]);
        command.env("HOME", home.path("p").parent().unwrap());
        let refused = command
            .current_dir(home.path("p"))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert_eq!(refused.status.code(), Some(125), "{refused:?}");
    }
}

mod with_tools {
    use super::*;

    #[test]
    #[ignore = "needs git"]
    fn git_status_gets_the_workspace_to_read_and_the_users_configuration() {
        let home = Home::new();
        fs::remove_dir_all(home.path("p/.git")).unwrap();
        home.write(".gitconfig", "[user]\nname = a\n");
        home.write("p/a.txt", "a\n");
        let git = |words: &[&str]| {
            #[expect(clippy::disallowed_methods, reason = "the test makes the repository")]
            let made = Command::new("git")
                .args(words)
                .current_dir(home.path("p"))
                .output();
            assert!(made.unwrap().status.success());
        };
        git(&["init", "-q"]);
        git(&["add", "a.txt"]);

        learns(
            &home,
            &[],
            "git status",
            "extends = [\"workspace-ro\", \"git-identity\"]\n\ngranted_by = \"operator\"\nview = \"own\"\n\n[environment]\nhome = \"user\"\n",
        );
        let status = home.learn(&[], &["git", "status"]);
        assert_eq!(status["green"], true, "{status}");
    }
}
