//! A table and a plot of hookjail beside other ways to run the same command.

use std::{
    env,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use serde_json::json;
use tokio::runtime::Runtime;

use super::{Case, Connected, Outcome, Raw, guards, interleave, quantile};

/// A way to run a command: its name, and the words before the command's.
pub(super) type Way = (&'static str, Vec<String>);

/// Medians of one case as multiples of the raw start.
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) profile: &'static str,
    pub(super) raw: Duration,
    pub(super) ratios: Vec<(&'static str, f64)>,
}

/// Measures every case but the smallest, and writes `table.md` and `plot.svg`; and of guards `guards-table.md` and `guards-plot.svg`.
pub(super) fn write(
    client: &Runtime,
    daemon: &Connected,
    cases: &[Case],
    iterations: usize,
    directory: &Path,
) -> Outcome<()> {
    fs::create_dir_all(directory)?;
    let mut rows = Vec::new();
    for case in cases.iter().filter(|case| case.name != "no-op") {
        eprintln!("{} …", case.name);
        let mut ways = ways(daemon, case)?;
        let mut others = Vec::new();
        for (name, before) in &ways {
            let other = Raw::new(&[&before[..], &case.argv[..]].concat())?;
            let (code, stdout) = other.run()?;
            // A way that does not work on this host is left out.
            match case.check(code, &stdout) {
                Ok(()) => others.push((*name, other)),
                Err(error) => eprintln!("SKIP: {name}: {error}"),
            }
        }
        ways.retain(|(name, _)| others.iter().any(|(works, _)| works == name));
        let others: Vec<Raw> = others.into_iter().map(|(_, other)| other).collect();
        let mut times = interleave(client, &daemon.channel, case, iterations, &others)?;
        let raw = quantile(&mut times.raw, 50);
        let ratio =
            |times: &mut Vec<Duration>| quantile(times, 50).as_secs_f64() / raw.as_secs_f64();
        let mut ratios = vec![("hookjail", ratio(&mut times.call))];
        let named = ways.iter().map(|(name, _)| *name).zip(&mut times.others);
        ratios.extend(named.map(|(name, times)| (name, ratio(times))));
        rows.push(Row {
            name: case.name,
            profile: case.profile,
            raw,
            ratios,
        });
    }
    let machine = machine();
    let guards = guards::measure(iterations)?;
    for (rows, name) in [(&rows, ""), (&guards, "guards-")] {
        let table = table(rows, &machine);
        fs::write(directory.join(format!("{name}table.md")), &table)?;
        fs::write(directory.join(format!("{name}plot.svg")), plot(rows))?;
        println!("{table}");
    }
    Ok(())
}

/// Returns the other ways that are to be had on this host. Warm cases are compared with the raw start alone.
fn ways(daemon: &Connected, case: &Case) -> Outcome<Vec<Way>> {
    let mut ways = Vec::new();
    let socket = daemon.daemon.socket().display().to_string();
    let program = env!("CARGO_BIN_EXE_hookjail");
    let by_client = [
        "--connect",
        &socket,
        "--profile",
        case.profile,
        "--mirror",
        "--",
    ];
    ways.push((
        "hookjail run",
        [words(&[program, "run"]), words(&by_client)].concat(),
    ));
    if case.is_warm() {
        return Ok(ways);
    }
    if let Some(path) = installed("bwrap") {
        let options = [
            "--ro-bind",
            "/",
            "/",
            "--dev",
            "/dev",
            "--proc",
            "/proc",
            "--unshare-all",
            "--die-with-parent",
            "--",
        ];
        let mut options = words(&options);
        // A script in memory lies below /dev, of which there is another then.
        let script = case.argv.get(1).filter(|word| Path::new(word).is_file());
        if let Some(script) = script {
            let end = options.len() - 1;
            let bind = words(&["--ro-bind", script, script]);
            options.splice(end..end, bind);
        }
        ways.push(("bubblewrap", [words(&[&path]), options].concat()));
    }
    if let Some(path) = installed("firejail") {
        ways.push(("firejail", words(&[&path, "--quiet", "--noprofile", "--"])));
    }
    if let Some(path) = installed("crun").filter(|_| nix::unistd::geteuid().is_root()) {
        let bundle = daemon
            .daemon
            .directory()
            .join(format!("bundle-{}", case.name));
        fs::create_dir_all(&bundle)?;
        let namespaces =
            ["pid", "mount", "ipc", "uts", "network"].map(|kind| json!({ "type": kind }));
        let config = json!({
            "ociVersion": "1.0.0",
            "process": { "args": case.argv, "cwd": "/", "env": ["PATH=/usr/bin:/bin"], "user": { "uid": 0, "gid": 0 } },
            "root": { "path": "/", "readonly": true },
            "mounts": [{ "destination": "/proc", "type": "proc", "source": "proc" }],
            "linux": { "namespaces": namespaces },
        });
        fs::write(bundle.join("config.json"), config.to_string())?;
        let script = format!(
            "exec {path} run --bundle {} bench-{}",
            bundle.display(),
            std::process::id()
        );
        // Its own words name the command to run. The words of the command are left to the shell, which ignores them.
        ways.push(("crun", words(&["/bin/sh", "-c", &script])));
    }
    Ok(ways)
}

/// Returns words of its own.
pub(super) fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

pub(super) fn installed(name: &str) -> Option<String> {
    let path = env::var_os("PATH")?;
    let found: Option<PathBuf> = env::split_paths(&path)
        .map(|directory| directory.join(name))
        .find(|path| path.exists());
    Some(found?.display().to_string())
}

/// Describes the machine and the version that were measured.
fn machine() -> String {
    let output = |program: &str, words: &[&str]| {
        let output = Command::new(program).args(words).output().ok();
        let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
        text.filter(|text| !text.is_empty())
            .unwrap_or_else(|| "?".to_owned())
    };
    let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let processor = processor
        .lines()
        .find_map(|line| line.strip_prefix("model name"));
    let processor = processor.map_or("?", |name| name.trim_start_matches([' ', '\t', ':']));
    let number = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    format!(
        "Version {}, Linux {}, {number} processors ({processor}), {}.",
        output("git", &["rev-parse", "--short", "HEAD"]),
        output("uname", &["-r"]),
        if nix::unistd::geteuid().is_root() {
            "as root"
        } else {
            "as an ordinary user"
        },
    )
}

fn table(rows: &[Row], machine: &str) -> String {
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in rows.iter().flat_map(|row| &row.ratios) {
        if !names.contains(name) {
            names.push(name);
        }
    }
    let mut text =
        format!("{machine} Medians, as multiples of the raw start.\n\n| hook | profile | raw |");
    for name in &names {
        write!(text, " {name} |").ok();
    }
    text.push_str("\n|---|---|---|");
    text.push_str(&"---|".repeat(names.len()));
    for row in rows {
        write!(
            text,
            "\n| {} | `{}` | {} µs |",
            row.name,
            row.profile,
            row.raw.as_micros()
        )
        .ok();
        for name in &names {
            match row.ratios.iter().find(|(way, _)| way == name) {
                Some((_, ratio)) => write!(text, " {ratio:.2} |").ok(),
                None => write!(text, " |").ok(),
            };
        }
    }
    text.push('\n');
    text
}

/// Draws a bar for each ratio. The longest have a fixed length, and their number is exact.
fn plot(rows: &[Row]) -> String {
    const LINE: f64 = 18.0;
    const LEFT: f64 = 220.0;
    const SCALE: f64 = 100.0;
    const MOST: f64 = 6.0;
    let bars: usize = rows.iter().map(|row| row.ratios.len() + 1).sum();
    let height = LINE * (f64::from(u32::try_from(bars).unwrap_or(0)) + 2.0);
    let width = LEFT + SCALE * MOST + 80.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    let one = LEFT + SCALE;
    writeln!(svg, "<line x1=\"{one}\" y1=\"0\" x2=\"{one}\" y2=\"{height}\" stroke=\"gray\" stroke-dasharray=\"3\"/>").ok();
    let mut y = LINE;
    for row in rows {
        writeln!(
            svg,
            "<text x=\"4\" y=\"{y}\" font-weight=\"bold\">{} ({})</text>",
            row.name, row.profile
        )
        .ok();
        y += LINE;
        for (name, ratio) in &row.ratios {
            let (top, length) = (y - LINE * 0.75, SCALE * ratio.min(MOST));
            let fill = if name.starts_with("hookjail") {
                "#2a7"
            } else {
                "#999"
            };
            let end = LEFT + length + 4.0;
            writeln!(svg, "<text x=\"20\" y=\"{y}\">{name}</text><rect x=\"{LEFT}\" y=\"{top}\" width=\"{length:.1}\" height=\"12\" fill=\"{fill}\"/><text x=\"{end:.1}\" y=\"{y}\">{ratio:.2}</text>").ok();
            y += LINE;
        }
    }
    svg.push_str("</svg>\n");
    svg
}
