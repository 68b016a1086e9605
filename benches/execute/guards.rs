//! Real guards, whole, as a runtime starts them: by the client, cold and warm, and by other sandboxes, each against the guard alone.

use std::{
    env, fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Instant,
};

use serde_json::{Value, json};

use super::{
    BETWEEN_WARM, Daemon, Outcome, Raw, WARM_ROUNDS, WARM_UP, directory, quantile,
    report::{Row, Way, installed, words},
};

/// The answer of every guard.
const ANSWER: &str = "{\"suppressOutput\": true}\n";

/// The profiles, each with its text.
const PROFILES: [(&str, &str); 2] = [
    (
        "guards",
        "description = \"Guards of a project.\"\nextends = \"develop\"\nwarm = 1\n",
    ),
    (
        "guards-cold",
        "description = \"The same, and nothing waits.\"\nextends = \"develop\"\nwarm = 0\n",
    ),
];

/// A guard: its name, its interpreter, its file, its text, and another program that it needs.
struct Guard {
    file: &'static str,
    interpreter: &'static str,
    name: &'static str,
    needs: &'static str,
    text: &'static str,
}

const GUARDS: [Guard; 4] = [
    Guard {
        file: "guard.sh",
        interpreter: "/bin/bash",
        name: "bash and jq",
        needs: "/usr/bin/jq",
        text: "command=$(jq -r '.tool_input.command')\ncase \"$command\" in *'rm -rf /'*) echo no >&2; exit 2;; esac\necho '{\"suppressOutput\": true}'\n",
    },
    Guard {
        file: "guard.py",
        interpreter: "/usr/bin/python3",
        name: "Python",
        needs: "/usr/bin/python3",
        text: "import json, sys\nevent = json.load(sys.stdin)\nif 'rm -rf /' in event['tool_input']['command']:\n    sys.exit(2)\nprint(json.dumps({'suppressOutput': True}))\n",
    },
    Guard {
        file: "guard.js",
        interpreter: "/usr/bin/node",
        name: "Node.js",
        needs: "/usr/bin/node",
        text: "const event = JSON.parse(require('fs').readFileSync(0, 'utf8'));\nif (event.tool_input.command.includes('rm -rf /')) process.exit(2);\nconsole.log('{\"suppressOutput\": true}');\n",
    },
    Guard {
        file: "format.sh",
        interpreter: "/bin/bash",
        name: "formatter (jq)",
        needs: "/usr/bin/jq",
        text: "jq . data.json > data.new && mv -f data.new formatted.json\necho '{\"suppressOutput\": true}'\n",
    },
];

/// Measures the guards that this host has the programs for.
pub(super) fn measure(iterations: usize) -> Outcome<Vec<Row>> {
    let before = env::current_dir()?;
    let rows = in_project(iterations.min(WARM_ROUNDS));
    env::set_current_dir(before)?;
    rows
}

fn in_project(iterations: usize) -> Outcome<Vec<Row>> {
    let directory = directory()?;
    for (name, text) in PROFILES {
        fs::write(directory.path().join(format!("profiles/{name}.toml")), text)?;
    }
    let project = directory.path().join("project");
    let open = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o777));
    for path in [&project, &project.join(".git")] {
        fs::create_dir(path)?;
        open(path)?;
    }
    fs::write(project.join(".git/config"), "")?;
    fs::write(project.join("data.json"), "{\"a\":[1,2,3]}\n")?;
    open(&project.join("data.json"))?;
    let roots = format!("[hooks]\nworkspace_roots = [{project:?}]\n");
    let program = Path::new(env!("CARGO_BIN_EXE_hookjail"));
    let daemon = Daemon::start(program, directory, &roots)?;
    env::set_current_dir(&project)?;
    let event = json!({
        "session_id": "s", "transcript_path": "/t", "cwd": project, "hook_event_name": "PreToolUse",
        "tool_name": "Bash", "tool_input": { "command": "ls -la" },
    });
    let event = format!("{event}\n").into_bytes();
    let mut rows = Vec::new();
    for guard in &GUARDS {
        if ![guard.interpreter, guard.needs]
            .iter()
            .all(|path| Path::new(path).exists())
        {
            eprintln!("SKIP: {}: {} is missing", guard.name, guard.needs);
            continue;
        }
        eprintln!("{} …", guard.name);
        let path = project.join(guard.file);
        fs::write(&path, guard.text)?;
        open(&path)?;
        let command = [guard.interpreter, guard.file].map(str::to_owned);
        rows.push(row(guard.name, &command, &daemon, &event, iterations)?);
    }
    Ok(rows)
}

/// Takes all ways in turn.
fn row(
    name: &'static str,
    command: &[String],
    daemon: &Daemon,
    event: &[u8],
    iterations: usize,
) -> Outcome<Row> {
    let configuration = daemon.directory().join("hookjail.toml");
    for (profile, _) in PROFILES {
        let mut allow = Command::new(env!("CARGO_BIN_EXE_hookjail"));
        allow.args(["allow", "--profile", profile, "--config"]);
        let done = allow.arg(&configuration).arg("--").args(command).output()?;
        if !done.status.success() {
            return Err(String::from_utf8_lossy(&done.stderr).into());
        }
    }
    let mut raw = Raw::new(command)?;
    raw.event = event.to_owned();
    let mut others = Vec::new();
    for (way, before) in ways(&daemon.socket()) {
        let mut other = Raw::new(&[&before[..], command].concat())?;
        other.event = event.to_owned();
        match answers(&other) {
            Ok(()) => others.push((way, other, Vec::new())),
            Err(error) if way.starts_with("hookjail") => return Err(error),
            // A way that does not work on this host is left out.
            Err(error) => eprintln!("SKIP: {way}: {error}"),
        }
    }
    let mut raws = Vec::new();
    let begun_before = runs_in_waiting(&configuration)?;
    for iteration in 0..iterations + WARM_UP {
        let time = |raw: &Raw, times: &mut Vec<_>| -> Outcome<()> {
            // The next interpreter starts meanwhile.
            thread::sleep(BETWEEN_WARM);
            let begin = Instant::now();
            answers(raw)?;
            if iteration >= WARM_UP {
                times.push(begin.elapsed());
            }
            Ok(())
        };
        time(&raw, &mut raws)?;
        for (_, other, times) in &mut others {
            time(other, times)?;
        }
    }
    let begun = runs_in_waiting(&configuration)? - begun_before;
    if !command[0].ends_with("bash") && begun < iterations as u64 {
        return Err(format!("{name}: {begun} of {iterations} runs began in what waited").into());
    }
    let raw = quantile(&mut raws, 50);
    let ratio = |(way, _, mut times): (&'static str, Raw, Vec<_>)| {
        let median = quantile(&mut times, 50);
        (way, median.as_secs_f64() / raw.as_secs_f64())
    };
    Ok(Row {
        name,
        profile: "develop",
        raw,
        ratios: others.into_iter().map(ratio).collect(),
    })
}

/// Runs a guard, and checks its answer.
fn answers(raw: &Raw) -> Outcome<()> {
    let (code, stdout) = raw.run()?;
    match (code, &*stdout) {
        (Some(0), stdout) if stdout == ANSWER.as_bytes() => Ok(()),
        (code, stdout) => {
            let shown = String::from_utf8_lossy(stdout);
            Err(format!("exit {code:?}, stdout {shown:?}").into())
        }
    }
}

/// Returns how many runs began in a process that waited.
fn runs_in_waiting(configuration: &Path) -> Outcome<u64> {
    let mut status = Command::new(env!("CARGO_BIN_EXE_hookjail"));
    let status = status.args(["status", "--json", "--config"]);
    let done = status.arg(configuration).output()?;
    let status: Value = serde_json::from_slice(&done.stdout)?;
    let runs = status["waiting"]["runs"].as_str().unwrap_or("0");
    Ok(runs.parse()?)
}

/// Returns the ways to run a guard that are to be had on this host.
fn ways(socket: &Path) -> Vec<Way> {
    let socket = socket.display().to_string();
    let client = |profile| {
        let program = env!("CARGO_BIN_EXE_hookjail-run");
        let named = ["--as", "claude-code", "--connect", &socket, "--profile"];
        [words(&[program]), words(&named), words(&[profile, "--"])].concat()
    };
    let mut ways = vec![
        ("hookjail, cold", client("guards-cold")),
        ("hookjail, warm", client("guards")),
    ];
    let place = env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    let place = place.display().to_string();
    let bubblewrap = [
        "--ro-bind",
        "/",
        "/",
        "--dev",
        "/dev",
        "--proc",
        "/proc",
        "--bind",
        &place,
        &place,
        "--unshare-all",
        "--die-with-parent",
        "--chdir",
        &place,
        "--",
    ];
    let others: [(&str, &str, &[&str]); 4] = [
        ("bubblewrap", "bwrap", &bubblewrap),
        (
            "sandlock",
            "sandlock",
            &["run", "-r", "/", "-w", &place, "--"],
        ),
        (
            "nono",
            "nono",
            &["run", "--silent", "--allow", &place, "--"],
        ),
        ("srt", "srt", &[]),
    ];
    for (name, program, options) in others {
        if let Some(path) = installed(program) {
            ways.push((name, [words(&[&path]), words(options)].concat()));
        }
    }
    ways
}
