//! The administrator's files: versions, `managed.d`, required hooks, and policies as signed archives.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start the program itself and make archives, never a hook"
)]

use std::{
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt, chown, symlink},
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{directory, needs_root, program, thin};

/// The user whose home it is.
pub(crate) const USER: u32 = 4243;

/// A guard that lets nothing forbidden pass.
const GUARD: &str = "#!/bin/sh\ncase $(cat) in *forbidden*) echo no >&2; exit 2;; esac\n";

/// The policy with that guard.
const POLICY: &str = "version = \"2026-11-30.1\"\n[[required]]\nname = \"guard\"\ncontract = \"claude_code\"\npoint = \"PreToolUse\"\n\
    matcher = \"Bash\"\ncommand = [\"/etc/hookjail/hooks/guard.sh\"]\nprofile = \"develop\"\n";

/// A host of its own: an `/etc/hookjail`, and a user's home with a project.
pub(crate) struct Host(TempDir);

/// The end of a script.
#[derive(Debug)]
pub(crate) struct Ended {
    code: Option<i32>,
    pub(crate) text: String,
}

impl Host {
    /// Makes a host with the policy.
    fn new() -> Self {
        let host = Self::bare();
        host.root("managed.toml", POLICY, 0o644);
        host.root("hooks/guard.sh", GUARD, 0o755);
        host
    }

    pub(crate) fn bare() -> Self {
        needs_root();
        let host = Self(directory());
        for name in [
            "etc",
            "lower/hookjail",
            "home/.claude",
            "home/p/.claude",
            "home/p/.git",
            "run",
        ] {
            fs::create_dir_all(host.path(name)).unwrap();
        }
        fs::write(host.path("home/p/.git/config"), "[core]\n").unwrap();
        for (name, command) in [("fine", "ls"), ("bad", "echo forbidden")] {
            let event = json!({
                "session_id": "s", "cwd": host.path("home/p"), "hook_event_name": "PreToolUse",
                "tool_name": "Bash", "tool_input": {"command": command},
            });
            fs::write(host.path(name), event.to_string()).unwrap();
        }
        host.users("home/.claude/settings.json", "{}\n");
        for name in [
            "home",
            "home/.claude",
            "home/p",
            "home/p/.claude",
            "home/p/.git",
            "run",
        ] {
            chown(host.path(name), Some(USER), Some(USER)).unwrap();
        }
        fs::set_permissions(host.path("run"), Permissions::from_mode(0o700)).unwrap();
        host
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file of root's into `/etc/hookjail`.
    pub(crate) fn root(&self, name: &str, text: &str, mode: u32) {
        let path = self.path("etc").join(name);
        let parent = path.parent().unwrap();
        fs::create_dir_all(parent).unwrap();
        fs::set_permissions(parent, Permissions::from_mode(0o755)).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    }

    /// Writes a file of the user's.
    pub(crate) fn users(&self, name: &str, text: &str) {
        let path = self.path(name);
        let parent = path.parent().unwrap();
        if !parent.exists() {
            fs::create_dir_all(parent).unwrap();
            chown(parent, Some(USER), Some(USER)).unwrap();
        }
        fs::write(&path, text).unwrap();
        chown(&path, Some(USER), Some(USER)).unwrap();
    }

    /// Runs a script as a user, in the project; `$HJ` is the program, `$REQUIRED` the line of the required hook.
    ///
    /// Its processes end with it, daemons too.
    fn run(&self, uid: u32, script: &str) -> Ended {
        let [lower, etc] = ["lower", "etc"].map(|name| self.path(name));
        let mounts = format!(
            "mount -t overlay overlay -o lowerdir={}:/etc /etc && mount --bind {} /etc/hookjail && cd {} && exec \"$@\"",
            lower.display(),
            etc.display(),
            self.path("home/p").display()
        );
        let (uid, required) = (
            uid.to_string(),
            format!(
                "{} --as claude-code --required guard --start",
                thin().display()
            ),
        );
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"])
            .args(["/bin/sh", "-c", &mounts, "sh", "setpriv", "--reuid", &uid])
            .args(["--regid", &uid, "--clear-groups", "/bin/sh", "-c", script])
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.path("home"))
            .env("XDG_RUNTIME_DIR", self.path("run"))
            .env("T", self.0.path())
            .env("HJ", program())
            .env("REQUIRED", required);
        let output = command.output().unwrap();
        let text = [&output.stdout[..], &output.stderr].concat();
        Ended {
            code: output.status.code(),
            text: String::from_utf8_lossy(&text).into_owned(),
        }
    }

    pub(crate) fn user(&self, script: &str) -> Ended {
        self.run(USER, script)
    }

    /// Returns the user's records of starts.
    fn starts(&self) -> Vec<Value> {
        let journal = self.path("home/.local/state/hookjail/audit/journal.jsonl");
        let text = fs::read_to_string(journal).unwrap_or_default();
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
        lines
            .filter(|line: &Value| line["record"] == "started")
            .collect()
    }
}

impl Ended {
    /// Checks the exit code, and that the text has each part.
    #[track_caller]
    pub(crate) fn has(&self, code: i32, parts: &[&str]) -> &Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        for part in parts {
            assert!(self.text.contains(part), "{part}: {self:?}");
        }
        self
    }
}

const BAD: &str = "$REQUIRED <$T/bad";
const FINE: &str = "$REQUIRED <$T/fine";
const DISPATCH: &str = "$HJ dispatch --private --contract claude-code --point PreToolUse";

mod as_root {
    use super::*;

    #[test]
    #[ignore = "needs root"]
    fn the_version_of_a_policy_is_in_the_status_in_records_and_in_private_runs() {
        let host = Host::new();
        host.root("managed.d/10-team.toml", "version = \"team 3\"\n", 0o644);
        let version = "2026-11-30.1, team 3";
        let script =
            format!("{FINE} && $HJ status && $HJ status --json && {DISPATCH} --event $T/fine");
        host.user(&script).has(
            0,
            &[
                &format!("policy {version}, loaded"),
                &format!("\"policyVersion\":\"{version}\""),
            ],
        );
        host.user("$HJ run --private -- /bin/true </dev/null")
            .has(0, &[]);
        let versions: Vec<_> = host
            .starts()
            .iter()
            .map(|start| start["policy_version"].clone())
            .collect();
        assert_eq!(versions, [version; 3]);
        host.user("$HJ config show").has(
            0,
            &["\"team 3\"  (managed by /etc/hookjail/managed.d/10-team.toml)"],
        );
        // The control.
        fs::remove_dir_all(host.path("etc/managed.d")).unwrap();
        host.root("managed.toml", "", 0o644);
        host.user("$HJ run --private -- /bin/true </dev/null")
            .has(0, &[]);
        assert_eq!(host.starts().last().unwrap()["policy_version"], Value::Null);
    }

    #[test]
    #[ignore = "needs root"]
    fn nothing_runs_while_a_file_of_managed_d_widens_or_others_can_change_it() {
        let host = Host::new();
        let run = "$HJ run --private -- /bin/true </dev/null";
        host.root("managed.d/10.toml", "[hooks]\nmax_queued = 5\n", 0o644);
        host.user(run).has(0, &[]);
        host.user("$HJ config show")
            .has(0, &["managed by /etc/hookjail/managed.d/10.toml"]);
        host.root("managed.d/20.toml", "[hooks]\nmax_queued = 6\n", 0o644);
        let parts = ["managed.d/20.toml", "managed.d/10.toml", "hooks.max_queued"];
        host.user(run).has(125, &parts);
        host.user(BAD).has(2, &[]);
        host.root("managed.d/20.toml", "", 0o666);
        host.user(run)
            .has(125, &["managed.d/20.toml", "others can write it"]);
        host.root("managed.d/20.toml", "", 0o600);
        host.user(run).has(125, &["managed.d/20.toml"]);
        host.root("managed.d/20.toml", "", 0o644);
        host.user(run).has(0, &[]);
        let more = host.path("etc/managed.d");
        fs::set_permissions(&more, Permissions::from_mode(0o777)).unwrap();
        host.user(run)
            .has(125, &["managed.d", "others can write it"]);
    }

    #[test]
    #[ignore = "needs root"]
    fn a_required_hook_runs_at_every_dispatch_whatever_its_caller_names() {
        let host = Host::new();
        for more in [
            "",
            "--scope plugin=other",
            "--preempt",
            "--hook 'PreToolUse=exit 0'",
            "--agent other",
        ] {
            let dispatch = |event| host.user(&format!("{DISPATCH} --event $T/{event} {more}"));
            dispatch("bad").has(2, &["guard: exited 2", "DENY"]);
            dispatch("fine").has(0, &["guard: exited 0"]);
        }
        host.users(
            "home/.config/hookjail/hookjail.toml",
            "[hooks]\ndisabled = true\n",
        );
        let bad = format!("{DISPATCH} --event $T/bad");
        host.user(&bad).has(2, &["guard: exited 2"]);
        host.user(BAD).has(2, &["no\n"]);
        host.user("$HJ hooks list")
            .has(0, &["guard (claude_code)", "owner    required"]);
        // The required hook comes first, independently of the configuration.
        let hook = "[[hook]]\ncontract = \"claude_code\"\npoint = \"PreToolUse\"\nname = \"own\"\ncommand = [\"/bin/true\"]\n";
        host.users("home/.config/hookjail/hookjail.toml", hook);
        let ended = host.user(&format!(
            "{DISPATCH} --event $T/fine --hook 'PreToolUse=true'"
        ));
        let place = |name: &str| ended.text.find(name).unwrap();
        assert!(place("guard:") < place("own:"), "{ended:?}");
        let starts = host.starts();
        let mut required = starts.iter().filter(|start| start["hook"] == "guard");
        assert!(
            required.all(|start| start["consent"] == "required"),
            "{starts:?}"
        );
    }

    #[test]
    #[ignore = "needs root"]
    fn no_variable_and_no_file_of_its_user_changes_a_required_hook() {
        let host = Host::new();
        host.users("home/bin/cat", "#!/bin/sh\necho harmless\n");
        fs::set_permissions(host.path("home/bin/cat"), Permissions::from_mode(0o755)).unwrap();
        for variables in [
            "PATH=$HOME/bin:$PATH",
            "HOOKJAIL_ACCEPT_HOOKS=1",
            "HOOKJAIL_DEPTH=9",
            "ENV=$HOME/bin/cat BASH_ENV=$HOME/bin/cat",
            "CLAUDE_PROJECT_DIR=/",
        ] {
            host.user(&format!("{variables} {BAD}")).has(2, &[]);
        }
        host.user(&format!("PATH=$HOME/bin:$PATH {BAD}"))
            .has(2, &["no\n"]);
        host.user(FINE).has(0, &[]);
        for (line, what) in [
            ("$REQUIRED -- /bin/true", "cannot be used with"),
            ("$REQUIRED --profile open", "cannot be used with"),
            ("$REQUIRED --timeout 1ms", ""),
            (
                "${REQUIRED%guard*}other --start",
                "no required hook is called `other`",
            ),
        ] {
            host.user(&format!("{line} <$T/bad")).has(2, &[what]);
        }
        // A profile of that name whose programs are its user's.
        let text = fs::read_to_string("sandbox-profiles/develop.toml").unwrap();
        host.users(
            "home/.config/hookjail/profiles/develop.toml",
            &format!("# Own.\n{text}"),
        );
        host.user(FINE).has(0, &[]);
        let own_profile = text.replacen("caller_path = true", "caller_path = false", 1);
        assert_ne!(own_profile, text);
        host.users("home/.config/hookjail/profiles/develop.toml", &own_profile);
        host.user(FINE)
            .has(2, &["NOT_ALLOWLISTED", "profile `develop`", "not root's"]);
        fs::remove_dir_all(host.path("home/.config/hookjail/profiles")).unwrap();
        host.user(FINE).has(0, &[]);
        // Such a line is no guard, as one that its user took out is none.
        host.user("$REQUIRED --observe <$T/bad")
            .has(0, &["cannot be used with"]);
        // Its user could change it then.
        let guard = host.path("etc/hooks/guard.sh");
        chown(&guard, Some(USER), None).unwrap();
        host.user(FINE)
            .has(2, &["NOT_ALLOWLISTED", "guard.sh", "chown root"]);
        host.user(&format!("{DISPATCH} --event $T/fine"))
            .has(2, &["NOT_ALLOWLISTED"]);
        chown(&guard, Some(0), None).unwrap();
        host.user(FINE).has(0, &[]);
        let hooks = host.path("etc/hooks");
        fs::set_permissions(&hooks, Permissions::from_mode(0o777)).unwrap();
        host.user(FINE).has(2, &["NOT_ALLOWLISTED"]);
        fs::set_permissions(&hooks, Permissions::from_mode(0o755)).unwrap();
        // A link of root's to a user's file.
        host.users("home/guard.sh", "#!/bin/sh\nexit 0\n");
        fs::set_permissions(host.path("home/guard.sh"), Permissions::from_mode(0o755)).unwrap();
        fs::remove_file(&guard).unwrap();
        symlink(host.path("home/guard.sh"), &guard).unwrap();
        host.user(BAD).has(2, &["NOT_ALLOWLISTED"]);
    }

    #[test]
    #[ignore = "needs root"]
    fn settings_get_required_hooks_and_those_without_one_are_named() {
        let host = Host::new();
        host.users(
            "home/p/.claude/settings.json",
            "{\"hooks\": {\"PreToolUse\": []}}\n",
        );
        let users = host.path("home/.claude/settings.json");
        let check = || host.user("$HJ install claude-code --check");
        let mend = "hookjail install claude-code";
        check().has(
            1,
            &[
                "home/.claude/settings.json",
                "p/.claude/settings.json",
                "`guard` is missing",
                mend,
            ],
        );
        assert_eq!(fs::read_to_string(&users).unwrap(), "{}\n");
        let install = "$HJ install claude-code --yes --no-rehearsal";
        host.user(install).has(0, &["required  guard"]);
        check().has(0, &["in place: guard"]);
        let whole = fs::read_to_string(&users).unwrap();
        // As the runtime starts it.
        let line = whole
            .split('"')
            .find(|it| it.contains("--required"))
            .unwrap();
        host.user(&format!("{line} <$T/bad")).has(2, &["no\n"]);
        host.user(install).has(0, &[]);
        assert_eq!(fs::read_to_string(&users).unwrap(), whole);
        for changed in [
            "{}".to_owned(),
            whole.replacen("Bash", "Write", 1),
            whole.replacen("--start", "--start --observe", 1),
            whole.replacen("guard --start", "guard --start; true", 1),
            whole.replacen("guard --start", "other --start", 1),
            whole.replacen(
                "\"type\":\"command\"",
                "\"type\":\"command\",\"async\":true",
                1,
            ),
            whole.replacen("PreToolUse", "PostToolUse", 1),
            whole.replacen('{', "{\"disableAllHooks\": true, ", 1),
            whole.replacen('{', "{\"env\": {\"HOOKJAIL_CONFIG\": \"/x\"}, ", 1),
        ] {
            assert_ne!(changed, whole);
            host.users("home/.claude/settings.json", &changed);
            check().has(1, &["home/.claude/settings.json"]);
        }
        host.user(install);
        host.users(
            "home/.claude/settings.json",
            &whole.replacen("guard --start", "other --start", 1),
        );
        host.user(install).has(0, &[]);
        check().has(0, &[]);
        assert!(!fs::read_to_string(&users).unwrap().contains("other"));
        for uninstall in [
            "$HJ install claude-code --uninstall --yes",
            "$HJ uninstall --all --yes",
        ] {
            host.user(uninstall).has(0, &["required hooks stay: guard"]);
            check().has(0, &[]);
        }
        // Without required hooks: whether all hooks are confined.
        host.root("managed.toml", "", 0o644);
        let bare =
            json!({"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "true"}]}]}});
        host.users("home/.claude/settings.json", &bare.to_string());
        fs::remove_file(host.path("home/p/.claude/settings.json")).unwrap();
        check().has(1, &[]);
        host.user(install).has(0, &[]);
        check().has(0, &[]);
        // A line that runs more than a required hook is none.
        host.users("home/.claude/settings.json", &whole);
        check().has(0, &[]);
        let more = whole.replacen("guard --start", "guard --start; id", 1);
        host.users("home/.claude/settings.json", &more);
        check().has(1, &["NOT confined"]);
        host.user(install).has(1, &["NOT confined"]);
    }

    /// Makes a key, an archive of a directory, and its signature.
    const SIGN: &str = "set -e; cd $T; [ -e key ] || ssh-keygen -q -t ed25519 -N '' -f key; \
        [ -e other ] || ssh-keygen -q -t ed25519 -N '' -f other; rm -f p.tar p.tar.sig; tar -C policy -cf p.tar .; \
        ssh-keygen -q -Y sign -n ${NS:-hookjail-policy} -f ${KEY:-key} p.tar";

    /// Signs what is in `policy`, and applies it.
    fn applied(host: &Host, variables: &str, options: &str) -> Ended {
        let signed = format!("({variables} {SIGN}) && $HJ policy apply $T/p.tar {options}");
        host.run(0, &signed)
    }

    fn policy(host: &Host, version: &str) {
        let policy = host.path("policy");
        fs::create_dir_all(policy.join("hooks")).unwrap();
        let text = POLICY.replacen("2026-11-30.1", version, 1);
        fs::write(policy.join("managed.toml"), text).unwrap();
        fs::write(policy.join("hooks/guard.sh"), GUARD).unwrap();
        fs::set_permissions(policy.join("hooks/guard.sh"), Permissions::from_mode(0o755)).unwrap();
    }

    /// Trusts the key of the host.
    fn trust(host: &Host) {
        host.run(0, SIGN).has(0, &[]);
        let key = fs::read_to_string(host.path("key.pub")).unwrap();
        host.root("allowed_signers", &format!("team@example.org {key}"), 0o644);
    }

    fn in_force(host: &Host) -> Option<String> {
        fs::read_to_string(host.path("etc/managed.toml")).ok()
    }

    #[test]
    #[ignore = "needs root and ssh-keygen"]
    fn a_policy_is_applied_if_its_signature_holds_and_it_loads() {
        let host = Host::bare();
        policy(&host, "2026-11-30.2");
        trust(&host);
        // Not with another key or namespace, nor a changed archive, nor without a signature, nor by a user.
        for (variables, why) in [
            ("export KEY=other;", "does not match"),
            ("export NS=file;", "does not match"),
        ] {
            applied(&host, variables, "").has(125, &[why]);
            assert_eq!(in_force(&host), None);
        }
        let apply = "$HJ policy apply $T/p.tar";
        host.run(0, &format!("{SIGN}; echo x >>p.tar; {apply}"))
            .has(125, &["does not match"]);
        host.run(0, &format!("{SIGN}; rm p.tar.sig; {apply}"))
            .has(125, &["p.tar.sig"]);
        host.user(apply).has(125, &["as root"]);
        assert_eq!(in_force(&host), None);
        applied(&host, "", "").has(
            0,
            &[
                "added",
                "hooks/guard.sh",
                "version 2026-11-30.2",
                "team@example.org",
            ],
        );
        host.user(BAD).has(2, &["no\n"]);
        host.user(FINE).has(0, &[]);
        // An older version.
        policy(&host, "2026-11-30.1");
        applied(&host, "", "").has(125, &["is older than 2026-11-30.2", "--downgrade"]);
        assert!(in_force(&host).unwrap().contains("2026-11-30.2"));
        applied(&host, "", "--downgrade").has(0, &["changed", "former 2026-11-30.2"]);
        // One that does not load leaves what is in force.
        for (file, text, why) in [
            (
                "managed.toml",
                "[hooks]\nmax_concurent = 1\n",
                "max_concurent",
            ),
            (
                "managed.toml",
                "[profiles]\nallow = [\"strict\"]\n",
                "guard",
            ),
            ("profiles/broken.toml", "nonsense = 1\n", "broken"),
            (
                "managed.d/9.toml",
                "[[required]]\nname = \"guard\"\n",
                "managed.toml",
            ),
        ] {
            let path = host.path("policy").join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let managed = host.path("policy/managed.toml");
            let before = fs::read_to_string(&managed).unwrap();
            let text = match file {
                "managed.toml" => format!("{text}{}", before.split_once('\n').unwrap().1),
                _ => text.to_owned(),
            };
            fs::write(&path, text).unwrap();
            applied(&host, "", "").has(125, &["is not applied", why]);
            assert!(in_force(&host).unwrap().contains("2026-11-30.1"));
            fs::remove_file(&path).unwrap();
            fs::write(&managed, before).unwrap();
        }
        host.user(BAD).has(2, &["no\n"]);
        // The archive's own directories replace those in force.
        fs::remove_dir_all(host.path("policy")).unwrap();
        policy(&host, "2026-12-01");
        fs::rename(
            host.path("policy/hooks/guard.sh"),
            host.path("policy/hooks/new.sh"),
        )
        .unwrap();
        let managed = host.path("policy/managed.toml");
        let text = fs::read_to_string(&managed).unwrap();
        fs::write(&managed, text.replace("guard.sh", "new.sh")).unwrap();
        applied(&host, "", "").has(0, &["removed   hooks/guard.sh", "added     hooks/new.sh"]);
        host.user(BAD).has(2, &["no\n"]);
        // One that was put in force in part is mended by the next.
        host.root(".applying", "", 0o644);
        fs::remove_file(host.path("etc/managed.toml")).unwrap();
        host.user(BAD).has(2, &[".applying"]);
        applied(&host, "", "").has(0, &["added     managed.toml", "former none"]);
        host.user(BAD).has(2, &["no\n"]);
        host.user(FINE).has(0, &[]);
        let left: Vec<_> = fs::read_dir(host.path("etc"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .filter(|name| name.to_string_lossy().starts_with('.'))
            .collect();
        assert!(left.is_empty(), "{left:?}");
    }

    #[test]
    #[ignore = "needs root and ssh-keygen"]
    fn a_signed_archive_with_a_link_or_a_way_outside_is_refused() {
        let host = Host::bare();
        policy(&host, "1");
        trust(&host);
        symlink("/etc/passwd", host.path("policy/hooks/link")).unwrap();
        applied(&host, "", "").has(125, &["is not applied", "hooks/link"]);
        fs::remove_file(host.path("policy/hooks/link")).unwrap();
        let outside = "cd $T; rm -f p.tar*; touch evil; tar -C policy -Pcf p.tar managed.toml ../evil; \
            ssh-keygen -q -Y sign -n hookjail-policy -f key p.tar; $HJ policy apply p.tar";
        host.run(0, outside)
            .has(125, &["is not applied", "../evil"]);
        assert_eq!(in_force(&host), None);
        // Signers that others can change are none.
        let signers = host.path("etc/allowed_signers");
        fs::set_permissions(&signers, Permissions::from_mode(0o666)).unwrap();
        applied(&host, "", "").has(125, &["allowed_signers", "others can write it"]);
        fs::set_permissions(&signers, Permissions::from_mode(0o644)).unwrap();
        applied(&host, "", "").has(0, &[]);
    }

    #[test]
    #[ignore = "needs root"]
    fn nothing_loads_while_a_policy_is_applied_in_part() {
        let host = Host::new();
        host.user(FINE).has(0, &[]);
        host.root(".applying", "", 0o644);
        host.user(FINE).has(2, &[]);
        host.user("$HJ run --private -- /bin/true </dev/null")
            .has(125, &[".applying", "apply it again"]);
    }

    #[test]
    #[ignore = "needs root"]
    fn recorded_runs_that_a_candidate_would_refuse_are_named_with_their_keys() {
        let host = Host::new();
        let run = |profile: &str| {
            let line = format!("$HJ run --private --profile {profile} -- /bin/true </dev/null");
            host.user(&line).has(0, &[]);
        };
        run("strict");
        run("develop");
        run("develop");
        let check = |text: &str, options: &str| {
            host.users("home/candidate.toml", text);
            host.user(&format!("$HJ policy check ~/candidate.toml {options}"))
        };
        check("[profiles]\nallow = [\"strict\", \"develop\"]\n", "").has(
            0,
            &["none of 3 recorded runs", "compared keys: profiles.allow"],
        );
        check("[profiles]\nallow = [\"strict\"]\n", "").has(
            1,
            &["2 of 3 recorded runs", "2  profiles.allow lacks develop"],
        );
        check("[profiles]\nallow = [\"strict\"]\n", "--json")
            .has(1, &["\"runs\":3", "\"profiles.allow lacks develop\""]);
        check("[profiles]\nallow = [\"strict\"]\n", "--since 2999-01-01").has(0, &["none of 0"]);
        check("[profiles]\nalow = 1\n", "").has(125, &["alow"]);
        assert!(Path::new(&host.path("home/candidate.toml")).exists());
    }
}
