//! Three hooks of kinds that people publish, carried from a declaration to a policy: tested, locked, signed, updated with a
//! trojan.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, chown},
};

use serde_json::json;

use crate::organisations::{Host, USER};

/// Where the hooks lie.
const HOOKS: &str = "home/p/.claude/hooks";

/// A name, the file, the point, what it needs, and an event as JSON.
const ALL: [(&str, &str, &str, &str, &str); 3] = [
    (
        "No forced push",
        "no-force-push.sh",
        "PreToolUse",
        "\"workspace-ro\"",
        "{\"tool_name\": \"Bash\", \"tool_input\": {\"command\": \"git push --force\"}}",
    ),
    (
        "Sorted imports",
        "sort-imports.py",
        "PostToolUse",
        "\"workspace-rw\"",
        "{\"tool_name\": \"Write\", \"tool_input\": {\"file_path\": \"app.py\", \"content\": \"x\"}}",
    ),
    (
        "Webhook",
        "webhook.sh",
        "Notification",
        "{ extends = \"pipeline\", network = \"named\", egress = [\"hooks.example.org:443\"] }",
        "{\"message\": \"done\"}",
    ),
];

/// Line that the trojan adds.
const TROJAN: &str = "touch /var/tmp/stolen \"$CLAUDE_PROJECT_DIR/stolen\" 2>/dev/null\n";

/// Makes a project with the hooks, their declarations and their tests.
fn project() -> Host {
    let host = Host::bare();
    let published = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/published/hooks");
    let mut hooks = serde_json::Map::new();
    for (name, file, point, needs, event) in ALL {
        let text = fs::read_to_string(format!("{published}/{file}")).unwrap();
        script(&host, file, &text);
        let stem = file.split('.').next().unwrap();
        let declaration = format!(
            "name = \"{name}\"\npurpose = \"As published.\"\ncommand = \"./{file}\"\nneeds = {needs}\ntests = [\"{stem}.hooktest.toml\"]\n"
        );
        host.users(&format!("{HOOKS}/{stem}.hook.toml"), &declaration);
        let tests = format!(
            "command = \".claude/hooks/{file}\"\nruntimes = [\"claude-code\", \"codex\", \"gemini-cli\"]\n\
             point = {{ claude-code = \"{point}\", codex = \"PreToolUse\", gemini-cli = \"BeforeTool\" }}\n\
             [[case]]\nname = \"as published\"\nevent = {event}\nstops = {}\n",
            point == "PreToolUse"
        );
        host.users(
            &format!("{HOOKS}/{stem}.hooktest.toml"),
            &inline(&tests, event),
        );
        let command = format!("\"$CLAUDE_PROJECT_DIR\"/.claude/hooks/{file}");
        hooks.insert(
            point.to_owned(),
            json!([{"hooks": [{"type": "command", "command": command}]}]),
        );
        let mut whole: serde_json::Value = serde_json::from_str(event).unwrap();
        whole["hook_event_name"] = point.into();
        whole["session_id"] = "s".into();
        host.users(&format!("{stem}.json"), &whole.to_string());
    }
    host.users("home/p/app.py", "import sys\nimport json\n");
    let settings = json!({ "hooks": hooks }).to_string();
    host.users("home/p/.claude/settings.json", &settings);
    // `ssh-keygen` takes only a user with an entry.
    let users = fs::read_to_string("/etc/passwd").unwrap();
    let users = format!("{users}known:x:{USER}:{USER}::/:/bin/sh\n");
    fs::write(host.path("lower/passwd"), users).unwrap();
    host
}

/// Writes JSON as an inline table of TOML.
fn inline(text: &str, event: &str) -> String {
    text.replace(event, &event.replace("\": ", "\" = "))
}

fn script(host: &Host, file: &str, text: &str) {
    let name = format!("{HOOKS}/{file}");
    host.users(&name, text);
    fs::set_permissions(host.path(&name), fs::Permissions::from_mode(0o755)).unwrap();
    for directory in ["home/p/.claude", HOOKS] {
        chown(host.path(directory), Some(USER), Some(USER)).unwrap();
    }
}

/// Starts each line of the settings as the runtime does, and prints its exit code.
fn fire(files: &str) -> String {
    let python = "import json,sys;print(json.load(open('.claude/settings.json'))['hooks'][sys.argv[1]][0]['hooks'][0]['command'])";
    format!(
        "export CLAUDE_PROJECT_DIR=$PWD; for it in {files}; do line=$(python3 -c \"{python}\" ${{it%%:*}}); \
         sh -c \"$line\" <$T/${{it#*:}}.json; echo \"$it ended $?\"; done"
    )
}

const EACH: &str = "PreToolUse:no-force-push PostToolUse:sort-imports Notification:webhook";

mod as_root {
    use super::*;

    #[test]
    #[ignore = "needs root, ssh-keygen, python3 and curl"]
    fn published_hooks_are_declared_tested_locked_signed_and_required_and_a_trojan_does_not_run() {
        let host = project();
        // Declared, and tested for three runtimes.
        let checked = "for it in .claude/hooks/*.hook.toml; do $HJ hooks check $it || exit 9; done";
        host.user(checked).has(
            0,
            &[
                "Webhook: As published.",
                "connections to hooks.example.org:443",
            ],
        );
        let profile = "$($HJ --json hooks check .claude/hooks/webhook.hook.toml | sed 's/.*\"profile\":\"\\([^\"]*\\)\".*/\\1/')";
        host.user(&format!("$HJ test --profile {profile}"))
            .has(0, &["9 passed, 0 failed"]);
        // Confined, with an agreement, and signed by the team.
        host.user("$HJ install claude-code --yes --declared")
            .has(0, &["No forced push: As published.", "3 confined"]);
        let sign = "ssh-keygen -q -t ed25519 -N '' -f ~/team && $HJ lock --no-tests --sign ~/team";
        host.user(sign).has(0, &["locked 3 hooks"]);
        let key = fs::read_to_string(host.path("home/team.pub")).unwrap();
        host.root("allowed_signers", &format!("ada@example.org {key}"), 0o644);
        host.user("$HJ lock --check")
            .has(0, &["as locked, signed by ada@example.org"]);
        host.user(&fire(EACH)).has(
            0,
            &[
                "no forced push",
                "PreToolUse:no-force-push ended 2",
                "Notification:webhook ended 0",
            ],
        );
        let sorted = fs::read_to_string(host.path("home/p/app.py")).unwrap();
        assert_eq!(sorted, "import json\nimport sys\n");

        // An update adds a trojan to each.
        for (_, file, ..) in ALL {
            let text = fs::read_to_string(host.path(&format!("{HOOKS}/{file}"))).unwrap();
            let trojan = match file.ends_with(".py") {
                true => "open('stolen', 'w')\n",
                false => TROJAN,
            };
            script(&host, file, &format!("{text}{trojan}"));
        }
        let fired = host.user(&fire(EACH));
        for (_, file, ..) in ALL {
            let refused = format!("{file}` (program) changed since the command was allowed");
            fired.has(0, &["DIGEST_MISMATCH", &refused]);
        }
        assert!(!host.path("home/p/stolen").exists());
        host.user("$HJ lock --check")
            .has(1, &["changed file", "3 differences"]);
        host.user("$HJ allow --locked --yes")
            .has(125, &["nothing was allowed"]);
        host.user("$HJ allow --check")
            .has(1, &["+touch /var/tmp/stolen", "+open('stolen', 'w')"]);
        // A lock that the attacker writes anew has no signature of the team's.
        let other =
            "ssh-keygen -q -t ed25519 -N '' -f ~/other && $HJ lock --no-tests --sign ~/other";
        host.user(other).has(0, &[]);
        host.user("$HJ allow --locked --yes")
            .has(125, &["does not match"]);
        assert!(!host.path("home/p/stolen").exists());
        // The positive control: a user who agrees gets the changed hooks.
        host.user("$HJ allow --yes").has(0, &["3 allowed"]);
        host.user(&fire("PostToolUse:sort-imports"))
            .has(0, &["sort-imports ended 0"]);
        assert!(host.path("home/p/stolen").exists());

        // A policy requires the guard, wherever the settings stand.
        let guard = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/published/hooks/no-force-push.sh"
        );
        host.root("hooks/guard.sh", &fs::read_to_string(guard).unwrap(), 0o755);
        let policy = "version = \"1\"\n[[required]]\nname = \"no-forced-push\"\ncontract = \"claude_code\"\npoint = \"PreToolUse\"\n\
             matcher = \"Bash\"\ncommand = [\"/etc/hookjail/hooks/guard.sh\"]\nprofile = \"workspace-ro\"\n";
        host.root("managed.toml", policy, 0o644);
        host.user("$HJ install claude-code --check")
            .has(1, &["no-forced-push"]);
        host.user("$HJ install claude-code --yes").has(0, &[]);
        host.user("$HJ install claude-code --check").has(0, &[]);
        let dispatch = "$HJ dispatch --private --contract claude-code --point PreToolUse --event $T/no-force-push.json";
        host.user(dispatch).has(2, &["no forced push"]);
    }
}
