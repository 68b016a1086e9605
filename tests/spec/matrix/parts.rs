//! Paths of a home that each part of profiles opens, and paths that every part leaves closed.
//!
//! One script makes every attempt. Without hookjail all attempts succeed, as the user that hooks have: that is the positive
//! control. As a hook, under each part and each shipped profile made of parts, exactly the attempts succeed that the table
//! lists.

#![expect(
    clippy::disallowed_methods,
    reason = "the positive control runs the same script without hookjail"
)]

use std::{
    collections::BTreeSet, env, fs, net::TcpListener, os::unix::fs::PermissionsExt, path::Path,
    process::Command,
};

use hookjail::pb;
use serde_json::json;

use crate::{
    attempts::{Probe, as_user, result},
    support::{Daemon, Setup, contained, directory, hook, is_shared, reason},
};

/// Parts and profiles: their rows, what is extended, and what is opened.
const MADE: [(&str, &str, &[&str], &[&str]); 10] = [
    (
        "ESC-320",
        "toolchains",
        &["pipeline", "toolchains"],
        &["toolchains"],
    ),
    ("ESC-321", "caches", &["pipeline", "caches"], &["caches"]),
    (
        "ESC-322",
        "git-identity",
        &["pipeline", "git-identity"],
        &["git-identity"],
    ),
    (
        "ESC-323",
        "claude-code-home",
        &["pipeline", "claude-code-home"],
        &["claude-code-home", "claude-transcripts"],
    ),
    (
        "ESC-324",
        "agents-home",
        &["pipeline", "agents-home"],
        &["agents-home", "agents-transcripts"],
    ),
    ("ESC-330", "machine", &["pipeline", "machine"], &["machine"]),
    ("ESC-325", "online", &["pipeline", "online"], &["online"]),
    (
        "ESC-326",
        "develop",
        &["develop"],
        &[
            DEVELOP[0],
            DEVELOP[1],
            DEVELOP[2],
            DEVELOP[3],
            DEVELOP[4],
            DEVELOP[5],
            DEVELOP[6],
            "claude-transcripts",
            "agents-transcripts",
        ],
    ),
    (
        "ESC-327",
        "develop-online",
        &["develop-online"],
        &[
            DEVELOP[0], DEVELOP[1], DEVELOP[2], DEVELOP[3], DEVELOP[4], DEVELOP[5], DEVELOP[6],
            "online",
        ],
    ),
    (
        "ESC-328",
        "develop-open-git",
        &["develop-open-git"],
        &[
            DEVELOP[0],
            DEVELOP[1],
            DEVELOP[2],
            DEVELOP[3],
            DEVELOP[4],
            DEVELOP[5],
            DEVELOP[6],
            "git",
            "claude-transcripts",
            "agents-transcripts",
        ],
    ),
];

/// Parts of `develop`.
const DEVELOP: [&str; 7] = [
    "toolchains",
    "caches",
    "git-identity",
    "claude-code-home",
    "agents-home",
    "machine",
    "workspace",
];

/// Marks an attempt that no part, and no profile made of parts, opens.
const NOTHING: &str = "";

/// Attempts: the kind, the path, and the part that opens it. `~` is the home, `.` the workspace.
#[rustfmt::skip] // One line for each.
const TRIED: &[(&str, &str, &str)] = &[
    // Keys, tokens, sessions, histories.
    ("read", "~/.ssh/id_ed25519", NOTHING),
    ("list", "~/.ssh", NOTHING),
    ("write", "~/.ssh/authorized_keys", NOTHING),
    ("read", "~/.aws/credentials", NOTHING),
    ("read", "~/.gnupg/secring", NOTHING),
    ("read", "~/.netrc", NOTHING),
    ("read", "~/.npmrc", NOTHING),
    ("read", "~/.bash_history", NOTHING),
    ("read", "~/.git-credentials", NOTHING),
    ("read", "~/.config/git/credentials", NOTHING),
    ("read", "~/.config/gh/hosts.yml", NOTHING),
    // Browsers.
    ("read", "~/.mozilla/firefox/p/logins.json", NOTHING),
    ("read", "~/.config/google-chrome/Default/Cookies", NOTHING),
    ("read", "~/.config/chromium/Default/Cookies", NOTHING),
    // The home as such, and another project in it.
    ("list", "~", NOTHING),
    ("write", "~/new", NOTHING),
    ("read", "~/other/src/main.rs", NOTHING),
    ("list", "~/other", NOTHING),
    ("write", "~/other/.git/hooks/pre-commit", NOTHING),
    // Files that shells run when they start, and others that run by themselves.
    ("read", "~/.bashrc", NOTHING),
    ("write", "~/.bashrc", NOTHING),
    ("write", "~/.profile", NOTHING),
    ("write", "~/.zshenv", NOTHING),
    ("write", "~/.config/fish/config.fish", NOTHING),
    ("write", "~/.config/autostart/evil.desktop", NOTHING),
    ("write", "~/.config/systemd/user/evil.service", NOTHING),
    // Agents' settings and credentials.
    ("read", "~/.claude.json", NOTHING),
    ("read", "~/.claude/.credentials.json", NOTHING),
    ("read", "~/.claude/settings.json", NOTHING),
    ("write", "~/.claude/settings.json", NOTHING),
    ("write", "~/.claude/CLAUDE.md", NOTHING),
    ("read", "~/.codex/auth.json", NOTHING),
    ("write", "~/.codex/config.toml", NOTHING),
    ("write", "~/.codex/hooks.json", NOTHING),
    ("read", "~/.copilot/config.json", NOTHING),
    ("write", "~/.cursor/hooks.json", NOTHING),
    ("read", "~/.gemini/oauth_creds.json", NOTHING),
    ("write", "~/.gemini/settings.json", NOTHING),
    ("read", "~/.qwen/oauth_creds.json", NOTHING),
    ("write", "~/.qwen/settings.json", NOTHING),
    // hookjail's own consents.
    ("write", "~/.local/state/hookjail/allowlist.json", NOTHING),
    // Tools of the home.
    ("read", "~/.cargo/config.toml", "toolchains"),
    ("read", "~/.cargo/credentials.toml", NOTHING),
    ("write", "~/.cargo/config.toml", NOTHING),
    ("execute", "~/.cargo/bin/tool", "toolchains"),
    ("write", "~/.cargo/bin/tool", NOTHING),
    ("execute", "~/.local/bin/tool", "toolchains"),
    ("write", "~/.local/bin/tool", NOTHING),
    ("execute", "~/.nvm/versions/node/v1/bin/node", "toolchains"),
    ("write", "~/.nvm/nvm.sh", NOTHING),
    ("read", "~/go/pkg/mod/m/m.go", "toolchains"),
    ("write", "~/go/pkg/mod/m/m.go", NOTHING),
    // The cache of hooks, and those of the user.
    ("cache", "~/.cache", "caches"),
    ("write", "~/.cache/hookjail/kept", NOTHING),
    ("read", "~/.cache/pip/wheel", NOTHING),
    ("write", "~/.cache/pip/wheel", NOTHING),
    // The identity of commits.
    ("read", "~/.gitconfig", "git-identity"),
    ("write", "~/.gitconfig", NOTHING),
    ("read", "~/.config/git/attributes", "git-identity"),
    ("read", "~/.config/git/config", "git-identity"),
    ("read", "~/.config/git/ignore", "git-identity"),
    ("write", "~/.config/git/ignore", NOTHING),
    // Agents' files for hooks.
    ("execute", "~/.claude/hooks/guard.sh", "claude-code-home"),
    ("write", "~/.claude/hooks/guard.sh", NOTHING),
    ("execute", "~/.claude/plugins/p/hook.sh", "claude-code-home"),
    ("write", "~/.claude/plugins/p/hook.sh", NOTHING),
    ("read", "~/.claude/projects/p/t.jsonl", "claude-transcripts"),
    ("read", "~/.claude/projects/p/earlier.jsonl", "claude-transcripts"),
    ("read", "~/.claude/projects/other/t.jsonl", NOTHING),
    ("write", "~/.claude/projects/p/t.jsonl", NOTHING),
    ("variable", "CLAUDE_CODE_ENTRYPOINT", "claude-code-home"),
    ("execute", "~/.codex/hooks/guard.sh", "agents-home"),
    ("write", "~/.codex/hooks/guard.sh", NOTHING),
    ("read", "~/.codex/sessions/2026/11/27/t.jsonl", "agents-transcripts"),
    ("read", "~/.codex/sessions/2026/11/27/other.jsonl", NOTHING),
    ("variable", "GEMINI_PLANS_DIR", "agents-home"),
    ("execute", "~/.copilot/hooks/guard.sh", "agents-home"),
    ("write", "~/.copilot/hooks/guard.sh", NOTHING),
    ("execute", "~/.gemini/extensions/e/run.sh", "agents-home"),
    ("write", "~/.gemini/extensions/e/run.sh", NOTHING),
    ("read", "~/.gemini/tmp/p/t", "agents-transcripts"),
    ("read", "~/.gemini/tmp/other/t", NOTHING),
    ("execute", "~/.qwen/hooks/guard.sh", "agents-home"),
    ("write", "~/.qwen/hooks/guard.sh", NOTHING),
    // Keys that runtimes have in their environment.
    ("variable", "ANTHROPIC_API_KEY", NOTHING),
    ("variable", "AWS_SECRET_ACCESS_KEY", NOTHING),
    ("variable", "GEMINI_API_KEY", NOTHING),
    ("variable", "GITHUB_TOKEN", NOTHING),
    ("variable", "OPENAI_API_KEY", NOTHING),
    ("variable", "SSH_AUTH_SOCK", NOTHING),
    // The workspace, and what git runs in it.
    ("write", "./file", "workspace"),
    ("write", "./.git/index", "workspace"),
    ("write", "./.git/config", "git"),
    ("write", "./.git/hooks/pre-commit", "git"),
    // Others.
    ("read", "/etc/passwd", "machine"),
    ("read", "/etc/resolv.conf", "online"),
    ("connect", "{tcp}", "online"),
];

/// The transcripts that the event names.
const TRANSCRIPTS: [(&str, &str); 3] = [
    (
        "agent_transcript_path",
        "~/.codex/sessions/2026/11/27/t.jsonl",
    ),
    ("transcriptPath", "~/.gemini/tmp/p/t"),
    ("transcript_path", "~/.claude/projects/p/t.jsonl"),
];

/// Content of readable files and of variables.
const SECRET: &str = "secret";

/// A program that prints the secret.
const TOOL: &str = "#!/bin/sh\necho secret\n";

/// A home, a workspace outside of every home, and a port.
struct Places<'a> {
    home: &'a Path,
    listener: &'a TcpListener,
    workspace: &'a Path,
}

impl Places<'_> {
    fn path(&self, written: &str) -> String {
        let below_root = |root: &Path, below: &str| format!("{}{below}", root.display());
        match written.split_at(1) {
            ("~", below) => below_root(self.home, below),
            (".", below) => below_root(self.workspace, below),
            _ => written.to_owned(),
        }
    }

    /// Makes everything anew, open to every user but for what confinement shuts.
    fn lay(&self) {
        for (does, written, _) in TRIED {
            let path = self.path(written);
            let path = Path::new(&path);
            if matches!(*does, "cache" | "connect" | "list" | "variable")
                || path.starts_with("/etc")
            {
                continue;
            }
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let is_executed = TRIED.contains(&("execute", written, owner(written)));
            fs::write(path, if is_executed { TOOL } else { SECRET }).unwrap();
        }
        open(self.home);
        open(self.workspace);
    }

    /// Returns a script that prints the numbers of what works.
    fn script(&self) -> String {
        let attempt = |(number, (does, written, _)): (usize, &(&str, &str, &str))| {
            let path = self.path(written);
            let attempt = match *does {
                "read" if path.starts_with("/etc") => format!("read -r x <'{path}'"),
                "read" => format!("test \"$(cat '{path}')\" = {SECRET}"),
                "execute" => format!("test \"$('{path}')\" = {SECRET}"),
                "list" => format!("test -n \"$(ls -A '{path}')\""),
                "write" => format!("echo more >>'{path}'"),
                "cache" => "echo more >>$XDG_CACHE_HOME/kept".to_owned(),
                "variable" => format!("test \"${written}\" = {SECRET}"),
                _ => return String::new(),
            };
            format!("if ({attempt}) 2>/dev/null; then echo {number}; fi\n")
        };
        TRIED.iter().enumerate().map(attempt).collect()
    }

    /// Returns the numbers of what was written.
    fn written(&self) -> BTreeSet<usize> {
        let is_written = |(_, (does, written, _)): &(usize, &(&str, &str, &str))| {
            *does == "write"
                && fs::read_to_string(self.path(written)).is_ok_and(|it| it.ends_with("more\n"))
        };
        let written = TRIED.iter().enumerate().filter(is_written);
        written.map(|(number, _)| number).collect()
    }

    fn port(&self) -> String {
        self.listener.local_addr().unwrap().port().to_string()
    }
}

/// Returns which part has a path executed, if one does.
fn owner(written: &str) -> &'static str {
    let mut all = TRIED.iter();
    let executed = all.find(|(does, path, _)| *does == "execute" && *path == written);
    executed.map_or(NOTHING, |(_, _, part)| part)
}

/// Lets every user do everything with a tree.
fn open(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            open(&entry.unwrap().path());
        }
    }
}

/// Returns the variables that are tried.
fn variables() -> impl Iterator<Item = (String, String)> {
    let all = TRIED.iter().filter(|(does, ..)| *does == "variable");
    all.map(|(_, name, _)| ((*name).to_owned(), SECRET.to_owned()))
}

fn numbers(printed: &str) -> BTreeSet<usize> {
    printed.lines().map(|line| line.parse().unwrap()).collect()
}

#[tokio::test]
async fn each_part_opens_what_it_is_for_and_nothing_else() {
    let (home, probe) = (directory(), Probe::build());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let path = home.path().display().to_string();
    let cache = format!("{path}/.cache");
    let variables_of_test = [
        ("HOME".to_owned(), path),
        ("XDG_CACHE_HOME".to_owned(), cache),
    ];
    let profiles = MADE.iter().map(|(_, name, extends, _)| {
        // As shipped, the operator grants some of them command by command; that is not what is tried here.
        let text = format!("description = \"x\"\nextends = {extends:?}\ngranted_by = \"anyone\"\n");
        (format!("tried-{name}"), text)
    });
    let daemon = Daemon::with(Setup {
        env: variables_of_test.into_iter().chain(variables()).collect(),
        profiles: profiles.collect(),
        ..Setup::default()
    })
    .await;
    let workspace = daemon.workspace().join("project");
    let places = Places {
        home: home.path(),
        listener: &listener,
        workspace: &workspace,
    };

    // Without hookjail all of it works.
    places.lay();
    let user = probe.user(&daemon).await;
    let mut bare = Command::new("/bin/sh");
    bare.args(["-c", &places.script()]).current_dir(&workspace);
    bare.env("XDG_CACHE_HOME", home.path().join(".cache"));
    let bare = as_user(bare.envs(variables()), user).output().unwrap();
    let mut done = numbers(&String::from_utf8(bare.stdout).unwrap());
    let words = ["tcp".to_owned(), places.port()];
    let connect = TRIED.iter().position(|(does, ..)| *does == "connect");
    let connect = connect.unwrap();
    if probe.unconfined(user, &words, &workspace).code == Some(0) && listener.accept().is_ok() {
        done.insert(connect);
    }
    assert_eq!(done, (0..TRIED.len()).collect(), "without hookjail");
    let all_written = TRIED.iter().filter(|(does, ..)| *does == "write").count();
    assert_eq!(places.written().len(), all_written);

    let is_homeless = nix::unistd::geteuid().is_root();
    let mut faults = Vec::new();
    for (row, name, _, opened) in MADE {
        if env::var("HOOKJAIL_ONLY_ROWS").is_ok_and(|rows| !rows.contains(row)) {
            continue;
        }
        places.lay();
        let request = |mut request: pb::ExecuteRequest| {
            request.profile = format!("tried-{name}");
            let offer = pb::Offer {
                env: variables().collect(),
                ..pb::Offer::default()
            };
            request.offer = Some(offer);
            request.hook.as_mut().unwrap().workspace = workspace.display().to_string();
            let named = TRANSCRIPTS.map(|(name, path)| (name, json!(places.path(path))));
            let event: serde_json::Map<_, _> = named
                .map(|(name, path)| (name.to_owned(), path))
                .into_iter()
                .collect();
            request.event.get_or_insert_default().json = json!(event).to_string().into();
            request
        };
        let response = daemon
            .run(request(hook(["/bin/sh", "-c", &places.script()])))
            .await;
        let response = match response {
            Ok(response) => result(response),
            // Then nothing runs at all, which is shown elsewhere.
            Err(status)
                if reason(&status) == "BACKEND_UNCONFIRMED"
                    && status.message().contains("takes a mount namespace") =>
            {
                println!("{row} {name:<16} skipped: no mount namespace can be made here");
                let may_skip = env::var("HOOKJAIL_MAY_SKIP");
                if may_skip.is_ok_and(|rows| !rows.contains(row)) {
                    faults.push(format!("{row} must be shown here, and was not"));
                }
                continue;
            }
            Err(status) => panic!("{name}: {}", status.message()),
        };
        let mut seen = numbers(&response.said);
        let connected = daemon.run(request(probe.hook("", &words))).await.unwrap();
        let is_connected = listener.accept().is_ok();
        if result(connected).code == Some(0) || is_connected {
            seen.insert(connect);
        }
        let expected = TRIED.iter().enumerate().filter(|(_, (_, written, part))| {
            opened.contains(part) && !(is_homeless && written.starts_with('~'))
        });
        let mut expected: BTreeSet<_> = expected.map(|(number, _)| number).collect();
        // The home of a container, and one that a view covers, has nothing but what is granted of it, and that can be listed.
        let has_home = expected
            .iter()
            .any(|number| TRIED[*number].1.starts_with('~'));
        let is_covered = !["develop-open-git"].contains(&name)
            && name.starts_with("develop")
            && is_shared(daemon.path());
        if (contained() || is_covered) && has_home {
            expected.extend(TRIED.iter().position(|it| (it.0, it.1) == ("list", "~")));
        }
        for number in seen.symmetric_difference(&expected) {
            let is = if seen.contains(number) {
                "open"
            } else {
                "shut"
            };
            faults.push(format!("{row} {name}: {is}: {:?}", TRIED[*number]));
        }
        // A script's report and the content of the files are checked separately.
        let is_write = |number: &usize| TRIED[*number].0 == "write";
        let expected_written: BTreeSet<_> = expected.iter().copied().filter(is_write).collect();
        if places.written() != expected_written {
            faults.push(format!("{row} {name}: written {:?}", places.written()));
        }
        // Nor can a key be had by naming it.
        for (variable, value) in variables() {
            let mut named = request(hook(["/bin/true"]));
            let env = &mut named.hook.as_mut().unwrap().env;
            env.insert(variable.clone(), value);
            let answer = daemon.run(named).await;
            let is_refused = answer.is_err_and(|it| reason(&it) == "INVALID_REQUEST");
            let number = TRIED.iter().position(|(_, name, _)| *name == variable);
            if is_refused == expected.contains(&number.unwrap()) {
                faults.push(format!("{row} {name}: {variable}, set by the request"));
            }
        }
        let count = seen.len();
        println!("{row} {name:<16} {count} of {} open", TRIED.len());
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_row_of_a_part_is_described() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/escape-matrix.md");
    let page = fs::read_to_string(page).unwrap();
    for (row, name, ..) in MADE {
        let mut lines = page.lines();
        let line = lines.find(|line| line.starts_with(&format!("| {row} | under `{name}`")));
        let line = line.unwrap_or_else(|| panic!("{row} is not in the page"));
        assert!(line.contains("| matrix"), "{line}");
    }
}
