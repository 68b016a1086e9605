//! `hookjail install --RUNTIME` has the hooks that people have run confined, and puts them back as they were.

use std::{
    fs,
    io::Write,
    os::unix::fs::{PermissionsExt, lchown, symlink},
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
};

use nix::unistd::geteuid;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    support::{directory, program},
    witness::{json, processes_that, until},
};

/// Whose home it is where the tests are root's, which has no daemon of its own to start.
const USER: u32 = 4243;

/// A guard as people write them.
const GUARD: &str = "#!/bin/sh\ncase $(cat) in *'rm -rf'*) echo 'no rm here' >&2; exit 2 ;; esac\n";

/// A guard that finds nothing to say where its rules cannot be read.
const SILENT: &str = "#!/bin/sh\nrules=$(cat ~/rules 2>/dev/null) || exit 0\ncase $(cat) in *$rules*) exit 2 ;; esac\n";

/// An ordinary user with a project, and no configuration of hookjail's.
struct Home(TempDir);

impl Home {
    fn new() -> Self {
        let home = Self(directory());
        for name in ["p/.git", "p/sub", "p/.claude/hooks", ".claude", "tmp"] {
            fs::create_dir_all(home.path(name)).unwrap();
        }
        home.script("p/.claude/hooks/guard.sh", GUARD);
        home.own();
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn script(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn settings(&self, name: &str, value: &Value) -> String {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let text = serde_json::to_string_pretty(value).unwrap() + "\n";
        fs::write(path, &text).unwrap();
        self.own();
        text
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// Gives everything in it to its user.
    fn own(&self) {
        if !geteuid().is_root() {
            return;
        }
        let mut todo = vec![self.0.path().to_owned()];
        while let Some(path) = todo.pop() {
            lchown(&path, Some(USER), Some(USER)).unwrap();
            if path.symlink_metadata().unwrap().is_dir() {
                todo.extend(
                    fs::read_dir(path)
                        .unwrap()
                        .map(|entry| entry.unwrap().path()),
                );
            }
        }
    }

    /// Makes a command of its user's, in its project.
    fn command(&self, words: &[&str]) -> Command {
        let mut all = Vec::new();
        if geteuid().is_root() {
            all.extend([
                "setpriv",
                "--reuid",
                "4243",
                "--regid",
                "4243",
                "--clear-groups",
            ]);
        }
        all.extend_from_slice(words);
        let mut command = Command::new(all[0]);
        command
            .args(&all[1..])
            .current_dir(self.path("p"))
            .env_clear()
            .env("HOME", self.0.path())
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("TMPDIR", self.path("tmp"))
            .env("XDG_RUNTIME_DIR", self.path("tmp"));
        command
    }

    fn hookjail(&self, words: &[&str]) -> Output {
        let program = program();
        let words = [&[program.to_str().unwrap()], words].concat();
        #[expect(clippy::disallowed_methods, reason = "it is the program under test")]
        self.command(&words).output().unwrap()
    }

    /// Runs a line of settings as Claude Code does.
    fn fire(&self, line: &str, event: &Value) -> Child {
        let mut command = self.command(&["/bin/sh", "-c", line]);
        command
            .env("CLAUDE_PROJECT_DIR", self.path("p"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        #[expect(clippy::disallowed_methods, reason = "it is the runtime's shell")]
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(event.to_string().as_bytes()).unwrap();
        child
    }

    fn end(&self, line: &str, event: &Value) -> (Option<i32>, String) {
        let output = self.fire(line, event).wait_with_output().unwrap();
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    }

    /// Returns the processes of the daemons that were started for it.
    fn daemons(&self) -> Vec<u32> {
        let own = format!("HOME={}", self.0.path().display());
        let serving = processes_that(|line| line.contains("serve --on-demand"));
        let of_this = |pid: &u32| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment
                .split(|byte| *byte == 0)
                .any(|variable| variable == own.as_bytes())
        };
        serving.map(|(pid, _)| pid).filter(of_this).collect()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        for pid in self.daemons() {
            let pid = nix::unistd::Pid::from_raw(pid.cast_signed());
            nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).ok();
        }
    }
}

fn call(command: &str) -> Value {
    json!({
        "session_id": "s", "hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": command},
    })
}

/// Returns settings with one hook at a point.
fn one(point: &str, hook: &Value) -> Value {
    json!({"model": "m", "hooks": {point: [{"matcher": "Bash", "hooks": [hook]}]}})
}

fn guard() -> Value {
    json!({"type": "command", "command": "\"$CLAUDE_PROJECT_DIR\"/.claude/hooks/guard.sh", "timeout": 60})
}

/// Returns the command of the only hook of settings.
fn line(text: &str, point: &str) -> String {
    let settings: Value = serde_json::from_str(text).unwrap();
    let command = &settings["hooks"][point][0]["hooks"][0]["command"];
    command.as_str().unwrap().to_owned()
}

#[test]
fn hooks_run_confined_after_one_command_and_are_put_back_by_another() {
    let home = Home::new();
    let name = "p/.claude/settings.json";
    let before = home.settings(name, &one("PreToolUse", &guard()));
    let shown = home.hookjail(&["install", "--claude-code", "--dry-run"]);
    assert!(shown.status.success(), "{shown:?}");
    assert_eq!(home.text(name), before);

    let done = home.hookjail(&["--json", "install", "--claude-code", "--yes"]);

    assert!(done.status.success(), "{done:?}");
    let told = json(&done);
    assert_eq!(told["changed"], true);
    let remarks = told["files"][0]["hooks"][0]["remarks"].to_string();
    assert!(
        remarks.contains("rehearsed with 7 events: the same"),
        "{remarks}"
    );
    let line = line(&home.text(name), "PreToolUse");
    // Three seconds before the runtime's own timer.
    assert!(line.contains(" --timeout 57s "), "{line}");
    let (code, stderr) = home.end(&line, &call("rm -rf /"));
    assert_eq!((code, &*stderr), (Some(2), "no rm here\n"));
    assert_eq!(home.end(&line, &call("ls")).0, Some(0));
    // What is allowed is the guard as it was.
    home.script("p/.claude/hooks/guard.sh", "#!/bin/sh\nexit 0\n");
    home.own();
    let (code, stderr) = home.end(&line, &call("ls"));
    assert_eq!(code, Some(2));
    assert!(stderr.contains("DIGEST_MISMATCH"), "{stderr}");

    let installed = home.text(name);
    let again = home.hookjail(&["install", "--claude-code", "--yes"]);
    assert!(again.status.success(), "{again:?}");
    assert_eq!(home.text(name), installed);
    assert_eq!(home.text(&format!("{name}.before-hookjail")), before);
    let back = home.hookjail(&["install", "--claude-code", "--uninstall", "--yes"]);
    assert!(back.status.success(), "{back:?}");
    assert_eq!(home.text(name), before);
}

#[test]
fn a_guard_that_confinement_would_silence_is_named_and_stays() {
    let home = Home::new();
    home.script("p/.claude/hooks/silent.sh", SILENT);
    fs::write(home.path("rules"), "push --force\n").unwrap();
    let hook =
        json!({"type": "command", "command": "\"$CLAUDE_PROJECT_DIR\"/.claude/hooks/silent.sh"});
    let name = "p/.claude/settings.json";
    let before = home.settings(name, &one("PreToolUse", &hook));

    let done = home.hookjail(&["install", "--claude-code", "--yes"]);

    assert_eq!(done.status.code(), Some(1), "{done:?}");
    let told = String::from_utf8_lossy(&done.stdout);
    assert!(
        told.contains("it stops without hookjail what it lets pass under profile develop"),
        "{told}"
    );
    assert_eq!(home.text(name), before);
    // The positive control: who wants it all the same says so.
    let done = home.hookjail(&["install", "--claude-code", "--yes", "--no-rehearsal"]);
    assert!(done.status.success(), "{done:?}");
    assert_ne!(home.text(name), before);
}

#[test]
fn settings_that_are_links_or_that_nobody_agreed_to_change_stay() {
    let home = Home::new();
    let name = "p/.claude/settings.json";
    let before = home.settings(name, &one("PreToolUse", &guard()));
    let done = home.hookjail(&["install", "--claude-code"]);
    assert_eq!(done.status.code(), Some(125));
    let told = String::from_utf8_lossy(&done.stderr);
    assert!(told.contains("--yes"), "{told}");
    assert_eq!(home.text(name), before);

    fs::rename(home.path(name), home.path("elsewhere.json")).unwrap();
    symlink(home.path("elsewhere.json"), home.path(name)).unwrap();
    let done = home.hookjail(&["install", "--claude-code", "--yes"]);
    assert_eq!(done.status.code(), Some(125));
    let told = String::from_utf8_lossy(&done.stderr);
    assert!(told.contains("is a link"), "{told}");
    assert_eq!(home.text(name), before);

    fs::remove_file(home.path(name)).unwrap();
    let done = home.hookjail(&["install", "--claude-code", "--yes"]);
    assert_eq!(done.status.code(), Some(125));
    let told = String::from_utf8_lossy(&done.stderr);
    assert!(told.contains("name the file with --settings"), "{told}");
}

#[test]
fn the_settings_of_each_runtime_are_changed_in_its_own_form() {
    let home = Home::new();
    let hook = home.path("p/.claude/hooks/guard.sh");
    let hook = hook.to_str().unwrap();
    for (runtime, name, point, settings) in [
        (
            "codex",
            "p/.codex/hooks.json",
            "PreToolUse",
            json!({"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": hook, "timeout": 10}]}]}}),
        ),
        (
            "gemini-cli",
            "p/.gemini/settings.json",
            "BeforeTool",
            json!({"ui": {}, "hooks": {"BeforeTool": [{"hooks": [{"type": "command", "command": hook, "timeout": 10000}]}]}}),
        ),
        (
            "copilot",
            "p/.github/hooks/guard.json",
            "preToolUse",
            json!({"version": 1, "hooks": {"preToolUse": [{"type": "command", "bash": hook, "timeoutSec": 10}]}}),
        ),
        (
            "cursor",
            ".cursor/hooks.json",
            "beforeShellExecution",
            json!({"version": 1, "hooks": {"beforeShellExecution": [{"command": hook, "timeout": 10}]}}),
        ),
    ] {
        let before = home.settings(name, &settings);
        let flag = format!("--{runtime}");
        let done = home.hookjail(&["--json", "install", &flag, "--yes"]);
        assert!(done.status.success(), "{done:?}");
        let changed = &json(&done)["files"][0]["hooks"][0];
        let after = changed["after"].as_str().unwrap();
        assert!(
            after.contains(&format!(
                " run --as {runtime} --profile develop --timeout 9s "
            )),
            "{after}"
        );
        // Copilot's payloads do not say where they belong.
        assert_eq!(
            after.contains(&format!("--point {point}")),
            runtime == "copilot",
            "{after}"
        );
        assert!(home.text(name).contains(after), "{}", home.text(name));
        let back = home.hookjail(&["install", &flag, "--uninstall", "--yes"]);
        assert!(back.status.success(), "{back:?}");
        assert_eq!(home.text(name), before);
    }
}

#[tokio::test]
async fn a_daemon_is_started_once_by_many_and_again_after_its_end() {
    let home = Home::new();
    let program = program();
    let program = program.to_str().unwrap();
    let allowed = home.hookjail(&["consent", "allow", "--profile", "strict", "--", "/bin/true"]);
    assert!(allowed.status.success(), "{allowed:?}");
    let line = format!("{program} run --as claude-code --profile strict --start -- /bin/true");
    // Without the word for it none is started, and the call is not let through.
    let (code, stderr) = home.end(&line.replace(" --start", ""), &call("ls"));
    assert_eq!(code, Some(2), "{stderr}");
    assert!(home.daemons().is_empty());

    let many: Vec<_> = (0..20).map(|_| home.fire(&line, &call("ls"))).collect();

    for child in many {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
    let socket = home.path("tmp/hookjail/hookjail.sock");
    assert!(socket.exists());
    for pid in home.daemons() {
        let pid = nix::unistd::Pid::from_raw(pid.cast_signed());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).ok();
    }
    until("the daemon is gone", || home.daemons().is_empty()).await;
    assert_eq!(home.end(&line, &call("ls")).0, Some(0));
    // One, and its keeper.
    assert_eq!(home.daemons().len(), 2);
}

#[test]
fn a_hook_in_a_subdirectory_finds_its_project() {
    let home = Home::new();
    home.script(
        "p/.claude/hooks/rules.sh",
        "#!/bin/sh\nexec cat ../rules >&2\n",
    );
    fs::write(home.path("p/rules"), "the rules\n").unwrap();
    home.own();
    let hook = home.path("p/.claude/hooks/rules.sh");
    let hook = hook.to_str().unwrap();
    let allowed = home.hookjail(&["consent", "allow", "--profile", "workspace-ro", "--", hook]);
    assert!(allowed.status.success(), "{allowed:?}");
    let program = program();
    let line = format!(
        "cd sub && {} run --as claude-code --profile workspace-ro --start -- {hook}",
        program.display()
    );

    assert_eq!(
        home.end(&line, &call("ls")),
        (Some(0), "the rules\n".to_owned())
    );
    // Where no variable names it, it is the repository.
    let (code, stderr) = home.end(&format!("unset CLAUDE_PROJECT_DIR; {line}"), &call("ls"));
    assert_eq!((code, &*stderr), (Some(0), "the rules\n"));
    // The positive control: elsewhere it finds nothing.
    let (_, stderr) = home.end(&line.replace(" -- ", " --workspace . -- "), &call("ls"));
    assert!(!stderr.contains("the rules"), "{stderr}");
}
