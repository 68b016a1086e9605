//! `hookjail run --as RUNTIME --rehearse`: shows a hook's confined run, and with `--bare` compares it with a bare one.
//!
//! Confinement can silence a guard: one that cannot read its rules' directory and exits with 0 looks like one that
//! approves. The accesses that its profile refuses show that, and so does the comparison, which a person asks for by name.

mod elsewhere;
mod files;
mod in_place;
#[cfg_attr(not(target_os = "linux"), path = "layer_elsewhere.rs")]
mod layer;
mod refused;
#[cfg_attr(not(target_os = "linux"), path = "watch_elsewhere.rs")]
mod watch;

use std::{
    collections::BTreeSet,
    ffi::OsString,
    io::{self, Write},
    os::unix::process::{CommandExt, ExitStatusExt},
    path::{Path, PathBuf},
    process::{Command, ExitCode, Output, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use hookjail_client::{
    Failure, output, program::resolve_program, run_as::StandInHook, server::SIGNALED,
};
use hookjail_contract::adopt::HookOutput;

use self::files::{Files, only_bare};
pub(in crate::cli) use self::{
    elsewhere::{Rehearsed, Unrehearsed, broken},
    files::list,
    in_place::in_place,
    layer::Layer,
    refused::RefusedUse,
    watch::{Watch, Watched},
};

use super::{Context, rows::Rows, show::denial_words};

/// The timeout of a bare hook without one of command line or contract.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

/// The reason of a failure before any run: there is no layer.
const NO_LAYER: &str = "NO_LAYER";

/// The end of one of both runs, and the runtime's interpretation of it.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RunEnd {
    /// The changes in the workspace's layer; `None` without a layer, or where they are too many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) changes: Option<Vec<String>>,
    /// The decision under the runtime's contract, as its protocol spells it; empty of a bare run.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) decision: String,
    pub(super) exit_code: u8,
    /// The reason why hookjail answers in the hook's place, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) failure: Option<String>,
    /// From its release to the end of its tree, milliseconds; of a bare run from its start.
    #[serde(default)]
    pub(super) millis: u64,
    /// The reason of the decision.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) reason: String,
    pub(super) stderr: String,
    pub(super) stdout: String,
    pub(super) stops: bool,
    /// The files of the workspace that are new, changed or gone; `None` where there are too many to look at.
    pub(super) writes: Option<BTreeSet<String>>,
}

/// The runs for one payload.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(super) struct Comparison {
    /// `None` where the hook is not run bare: without `--bare`, or where it would leave something in the home.
    pub(super) bare: Option<RunEnd>,
    pub(super) confined: RunEnd,
    /// The denials of the confined run.
    pub(super) denied: Vec<String>,
    /// The hosts that the confined run connected to, none twice; `None` where they cannot be observed.
    #[serde(default)]
    pub(super) hosts: Option<BTreeSet<String>>,
    /// New paths in the home, which bare runs would make there, closed to confined ones from then on.
    pub(super) leaves: Vec<PathBuf>,
    /// The accesses that the profile refused, none twice; `None` where they cannot be observed.
    pub(super) refused: Option<Vec<RefusedUse>>,
}

/// Runs a hook confined for each payload, and bare where the command line requires it.
///
/// All runs are real: files that the hook writes are written. Once a confined run has made something new in the home, none is
/// bare: there it would stay, and be closed to confined runs. Exits with 0 where all results are the same, or without bare runs
/// where nothing was refused, otherwise with 1.
///
/// # Errors
///
/// Fails where a run is impossible.
pub(super) fn run(
    hook: &StandInHook<'_>,
    context: &Context,
    payloads: Vec<Vec<u8>>,
    layer: Option<Layer>,
) -> Result<ExitCode, Failure> {
    let workspace = hook.workspace(&context.call)?;
    // A layer lists its changes, without a look at each file.
    let files = || match layer {
        Some(_) => None,
        None => Files::below(&workspace),
    };
    let end = |output: HookOutput, before: &Option<Files>, after: &Option<Files>| RunEnd {
        changes: None,
        decision: String::new(),
        exit_code: output.code,
        failure: None,
        millis: 0,
        reason: String::new(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stops: hook.takes_for_no(&output),
        writes: before
            .as_ref()
            .zip(after.as_ref())
            .map(|(before, after)| after.since(before)),
    };
    let is_compared = hook.run.place.bare;
    let mut before = files();
    let run_bare = |payload: &[u8], before: &Option<Files>| {
        let limit = hook.timeout().unwrap_or(DEFAULT_TIMEOUT);
        let began = Instant::now();
        let bare = bare(&hook.run.command, payload, limit)?;
        let millis = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let after = files();
        let end = RunEnd {
            millis,
            ..end(bare, before, &after)
        };
        Ok::<_, Failure>((end.in_layer(layer.as_ref())?, after))
    };
    let compared = if is_compared && layer.is_some() {
        let payloads = payloads.iter();
        let runs = payloads.map(|payload| {
            let (bare, after) = run_bare(payload, &before)?;
            before = after;
            Ok(Comparison {
                bare: Some(bare),
                ..Comparison::default()
            })
        });
        runs.collect::<Result<Vec<_>, Failure>>()?
    } else {
        let mut bare_payloads = payloads.clone().into_iter();
        // Confined first, as that shows the paths that the bare run would leave.
        in_place::privately(hook, context, payloads, |ended, state| {
            let between = files();
            let payload = bare_payloads.next().unwrap_or_default();
            let leaves = match is_compared || layer.is_some() {
                true => state.new_on_machine()?,
                false => Vec::new(),
            };
            let denials = ended.denials.iter().filter(|denial| !denial.incidental);
            let mut comparison = Comparison {
                bare: None,
                confined: RunEnd {
                    decision: ended.decision,
                    failure: ended.failure,
                    millis: ended.millis,
                    reason: ended.reason,
                    ..end(ended.said, &before, &between)
                }
                .in_layer(layer.as_ref())?,
                denied: denials.map(denial_words).collect(),
                hosts: ended.hosts,
                leaves,
                refused: ended.refused,
            };
            before = between;
            if is_compared && comparison.leaves.is_empty() {
                let (bare, after) = run_bare(&payload, &before)?;
                comparison.bare = Some(bare);
                before = after;
            }
            Ok(comparison)
        })?
    };
    let mut code = ExitCode::SUCCESS;
    for comparison in compared {
        let differ = comparison.differences();
        comparison.show(context, &differ);
        let is_clean = match is_compared {
            true => comparison.bare.is_some() && differ.is_empty(),
            false => comparison.is_served(),
        };
        if !is_clean {
            code = ExitCode::FAILURE;
        }
    }
    Ok(code)
}

impl RunEnd {
    /// Adds the changes in a layer, if there is one: they are the files that the run wrote.
    fn in_layer(mut self, layer: Option<&Layer>) -> io::Result<Self> {
        if let Some(layer) = layer {
            self.changes = layer.changes()?;
            let changes = self.changes.as_ref();
            let paths = |changes: &Vec<String>| {
                let paths = changes.iter().filter_map(|it| it.split_once(' '));
                paths.map(|(_, path)| path.to_owned()).collect()
            };
            self.writes = changes.map(paths);
        }
        Ok(self)
    }
}

/// Runs the hook as its runtime does, with this process's environment and directory.
fn bare(command: &[OsString], payload: &[u8], limit: Duration) -> Result<HookOutput, Failure> {
    let argv = resolve_program(command.to_vec())?;
    let Output {
        status,
        stderr,
        stdout,
    } = output_of(&argv, payload, limit)?;
    let low = |value: Option<i32>| value.and_then(|value| u8::try_from(value).ok());
    let by_signal = || SIGNALED.saturating_add(low(status.signal()).unwrap_or_default());
    Ok(HookOutput {
        code: low(status.code()).unwrap_or_else(by_signal),
        stderr,
        stdout,
    })
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one process that is to be unconfined: the user who types the command asks to see it bare"
)]
fn output_of(argv: &[OsString], payload: &[u8], limit: Duration) -> Result<Output, Failure> {
    let (program, arguments) = argv
        .split_first()
        .ok_or_else(|| Failure::new("no command"))?;
    let mut command = Command::new(program);
    command.args(arguments).process_group(0);
    let piped = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = piped
        .spawn()
        .map_err(|error| Failure::new(format!("cannot start `{}`: {error}", program.display())))?;
    let group = i32::try_from(child.id()).map(Pid::from_raw)?;
    let stdin = child.stdin.take();
    let payload = payload.to_vec();
    let (sender, ended) = mpsc::channel();
    thread::spawn(move || {
        if let Some(mut stdin) = stdin {
            // A hook need not read its stdin.
            drop(stdin.write_all(&payload));
        }
    });
    // The receiver is gone after the timeout.
    thread::spawn(move || drop(sender.send(child.wait_with_output())));
    let output = ended.recv_timeout(limit);
    match killpg(group, Signal::SIGKILL) {
        Ok(()) | Err(Errno::ESRCH) => {}
        Err(error) => return Err(error.into()),
    }
    let late = |_| {
        Failure::new(format!(
            "without hookjail the hook took longer than {limit:?}"
        ))
    };
    Ok(output.map_err(late)??)
}

impl Comparison {
    /// Returns whether confinement refused nothing, as far as is known.
    fn is_served(&self) -> bool {
        let is_seen = self.refused.as_ref().is_some_and(Vec::is_empty);
        self.confined.failure.is_none() && self.denied.is_empty() && is_seen
    }

    /// Returns the differences, the most important first.
    pub(super) fn differences(&self) -> Vec<String> {
        let Self { bare, confined, .. } = self;
        let Some(bare) = bare else {
            return Vec::new();
        };
        let verdict = match (bare.stops, confined.stops) {
            (true, false) => Some("the guard stops without hookjail, and lets pass with it"),
            (false, true) => Some("the guard lets pass without hookjail, and stops with it"),
            (true, true) | (false, false) => None,
        };
        let words = verdict.into_iter().chain(self.differences_of_output());
        let files = bare.writes.as_ref().zip(confined.writes.as_ref());
        let files = files.and_then(|(bare, confined)| difference_of_files(bare, confined));
        words.map(str::to_owned).chain(files).collect()
    }

    /// Returns the differences besides the verdict's and those of files.
    pub(super) fn differences_of_output(&self) -> impl Iterator<Item = &'static str> {
        let Self { bare, confined, .. } = self;
        let all = bare.as_ref().map(|bare| {
            [
                (
                    bare.exit_code != confined.exit_code,
                    "its exit codes differ",
                ),
                (
                    bare.stdout != confined.stdout,
                    "its answers on stdout differ",
                ),
            ]
        });
        let all = all.into_iter().flatten();
        all.filter_map(|(differs, words)| differs.then_some(words))
    }

    fn show(&self, context: &Context, differ: &[String]) {
        let Self {
            bare,
            confined,
            denied,
            hosts,
            leaves,
            refused,
        } = self;
        if context.call.json {
            output::json_line(&json!({
                "bare": bare,
                "confined": confined,
                "denied": denied,
                "differences": differ,
                "hosts": hosts,
                "leaves": leaves,
                "refused": refused,
            }));
            return;
        }
        let mut rows = Rows::plain("", 10);
        for (name, end) in [("bare", bare.as_ref()), ("confined", Some(confined))] {
            let Some(end) = end else {
                continue;
            };
            let verdict = if end.stops { "stops" } else { "lets pass" };
            rows.row(name, format!("exit code {}, {verdict}", end.exit_code));
            let mut line = |label: &str, words: &str| rows.row("", format!("{label}: {words}"));
            for (stream, printed) in [("stdout", &end.stdout), ("stderr", &end.stderr)] {
                printed.lines().for_each(|words| line(stream, words));
            }
            for words in end.changes.iter().flatten() {
                line("changed", words);
            }
            match &end.writes {
                _ if end.changes.is_some() => {}
                Some(writes) if writes.is_empty() => {}
                Some(writes) => line("wrote", &list(writes.iter().map(String::as_str))),
                None => line("wrote", "not compared: the workspace has too many files"),
            }
            let denied = denied.iter().filter(|_| name == "confined");
            denied.for_each(|words| line("denied", words));
            let refused = refused.iter().flatten().filter(|_| name == "confined");
            refused.for_each(|it| line("refused", &it.words));
        }
        match (bare, leaves.as_slice()) {
            (_, [path, ..]) => rows.row("ALONE", alone_words(path)),
            (Some(_), []) if differ.is_empty() => {
                rows.row("same", "confinement changes nothing here");
            }
            (Some(_), []) => rows.row("DIFFERENT", differ.join("; ")),
            (None, []) if self.is_served() => {
                rows.row("served", "confinement refuses nothing here");
            }
            (None, []) if refused.is_none() && denied.is_empty() => rows.row(
                "UNSEEN",
                "refused files cannot be observed here; compare with a run without confinement: --rehearse --bare",
            ),
            (None, []) => rows.row(
                "REFUSED",
                "compare with a run without confinement: --rehearse --bare",
            ),
        }
        rows.print();
    }
}

/// Describes why a hook is not run bare.
pub(super) fn alone_words(path: &Path) -> String {
    let path = path.display();
    format!("not compared with a bare run, which would leave `{path}`")
}

/// Describes the files that the bare run alone wrote; `None` without any.
pub(super) fn difference_of_files(
    bare: &BTreeSet<String>,
    confined: &BTreeSet<String>,
) -> Option<String> {
    let alone = only_bare(bare, confined);
    (!alone.is_empty()).then(|| format!("only the bare run writes {}", list(alone)))
}
