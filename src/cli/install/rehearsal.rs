//! Rehearses a guard with sample events, confined, and where a person asked for it bare, before settings are changed.

use std::{
    collections::BTreeSet,
    env,
    io::Write,
    path::Path,
    process::{Command, Stdio},
    sync::Once,
    time::Duration,
};

use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use hookjail_client::{
    output,
    program::{NOT_FOUND, resolve_program},
    run_as::PREVIEW,
};
use hookjail_contract::{Registered, adopt::Adopted, settings::Holds, words::words};

use crate::cli::{
    rehearse::{
        Comparison, Rehearsed, Unrehearsed, alone_words, broken, difference_of_files, list,
    },
    rows::shell_line,
};
use hookjail_daemon::config::Config;

/// The longest that a guard takes for one event of its rehearsal. Guards that need more are left.
const LONGEST: Duration = Duration::from_secs(30);

/// Maximum number of named denials.
const NAMED: usize = 5;

/// The notice that runs write to the workspace itself, which is shown once.
static NOTICE: Once = Once::new();

/// The rehearsal of a guard as its runtime would run it.
pub(super) struct Rehearsal<'a> {
    pub(super) argv: &'a [String],
    pub(super) config: &'a Config,
    /// The project in which the guard is rehearsed.
    pub(super) project: &'a Path,
    pub(super) hook: &'a Registered,
    /// Whether the guard also runs without confinement.
    pub(super) is_compared: bool,
    /// The runtime's name.
    pub(super) name: &'a str,
    /// The declaration whose needs the profile is, if they are not in force yet.
    pub(super) needs: Option<&'a Path>,
    /// The directory of the plugin whose hook it is.
    pub(super) plugin: Option<&'a Path>,
    pub(super) profile: &'a str,
    pub(super) runtime: Adopted,
    /// The directory in which the guard starts.
    pub(super) starts_in: &'a Path,
    /// The runtime's own timer, where its settings name one.
    pub(super) timeout: Option<Duration>,
}

/// A guard that its profile refuses something.
#[cfg_attr(
    not(target_os = "linux"),
    expect(dead_code, reason = "needs are learnt on Linux")
)]
pub(super) struct Lacking {
    /// Its program and arguments.
    pub(super) argv: Vec<String>,
}

/// The result of a guard's rehearsal.
#[derive(Debug, Default)]
pub(super) struct RehearsalReport {
    /// Whether the profile refuses files that it uses.
    pub(super) is_refused: bool,
    /// The reason why the guard is left as it is.
    pub(super) left: Option<String>,
    pub(super) remarks: Vec<String>,
}

impl RehearsalReport {
    /// Returns the report of a guard that is not rehearsed.
    pub(super) fn passing(remark: &str) -> Self {
        Self {
            remarks: vec![remark.to_owned()],
            ..Self::default()
        }
    }

    fn leaving(why: String) -> Self {
        Self {
            left: Some(why),
            ..Self::default()
        }
    }
}

/// The report of a line that starts no hook.
#[derive(Deserialize)]
pub(super) struct Previewed {
    pub(super) refusal: Option<String>,
}

/// The relation of a guard's bare and confined verdicts on one event.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Agreement {
    /// The confined guard lets the event pass more often.
    Laxer,
    /// The verdicts differ in some runs, and the confined guard stops the event as often or more often.
    Partial,
    Same,
    /// The confined guard alone stops the event, in each run.
    Stricter,
}

impl Agreement {
    /// Compares an event's runs, each a pair: whether the bare guard stops, and whether the confined one does.
    ///
    /// The bare guard may have a marker of earlier events, so that it warns no more. The confined one has none yet, and
    /// stops more often. A guard that confinement silences stops less often, even where it warns at first.
    fn of_runs(runs: impl Iterator<Item = (bool, bool)> + Clone) -> Self {
        let bare = runs.clone().filter(|(bare, _)| *bare).count();
        let confined = runs.clone().filter(|(_, confined)| *confined).count();
        if confined < bare {
            Self::Laxer
        } else if runs.clone().all(|(bare, confined)| bare == confined) {
            Self::Same
        } else if runs.clone().all(|(bare, confined)| bare != confined) {
            Self::Stricter
        } else {
            Self::Partial
        }
    }
}

impl Rehearsal<'_> {
    /// Runs the guard with each sample twice in one session, and once in another.
    ///
    /// # Errors
    ///
    /// Fails where the guard could not be run.
    pub(super) fn run(&self) -> Result<RehearsalReport, String> {
        let samples = self.runtime.samples(self.project);
        let [first, second] = [(); 2].map(|()| Uuid::now_v7().to_string());
        let mut payloads = Vec::new();
        for session in [&first, &first, &second] {
            for sample in &samples {
                payloads.push(self.payload(session, sample)?);
            }
        }
        let runs = self.runs(&payloads)?;
        if let Some(name) = self.absent_program(&runs) {
            let runtime = self.name;
            return Ok(RehearsalReport::leaving(format!(
                "its program `{name}` is not found; install it, then run again: hookjail install {runtime}"
            )));
        }
        if !self.is_compared {
            let mut report = alone(&samples, &runs, self.profile);
            if report.is_refused {
                let learn = self.learn();
                let learn = format!("to give it that: {learn}");
                match &mut report.left {
                    Some(why) => *why = format!("{why}; {learn}"),
                    None => report.remarks.push(learn),
                }
            }
            return Ok(report);
        }
        let mut is_partial = false;
        for (index, sample) in samples.iter().enumerate() {
            let runs = runs.iter().skip(index).step_by(samples.len());
            let stops = runs.filter_map(|run| Some((run.bare.as_ref()?.stops, run.confined.stops)));
            let (without, with) = match Agreement::of_runs(stops) {
                Agreement::Laxer => ("stops", "lets pass"),
                Agreement::Stricter => ("lets pass", "stops"),
                agreement @ (Agreement::Partial | Agreement::Same) => {
                    is_partial |= agreement == Agreement::Partial;
                    continue;
                }
            };
            return Ok(RehearsalReport::leaving(format!(
                "the guard {without} without hookjail what it {with} under profile {}: {sample}",
                self.profile
            )));
        }
        Ok(RehearsalReport {
            remarks: remarks(samples.len(), &runs, is_partial),
            ..RehearsalReport::default()
        })
    }

    /// Asks the daemon, through the line that the runtime has now, whether it would run the hook. Starts no hook.
    ///
    /// Returns why it would be refused, if so.
    ///
    /// # Errors
    ///
    /// Fails where the line does not start hookjail.
    #[expect(
        clippy::disallowed_methods,
        reason = "the runtime's own shell, which starts hookjail, as the runtime does"
    )]
    pub(super) fn preview(&self, line: &str) -> Result<Option<String>, String> {
        let samples = self.runtime.samples(self.project);
        let is_of_a_call = self.runtime.is_of_a_call(Some(&self.hook.point));
        let sample = samples.into_iter().next().filter(|_| is_of_a_call);
        let session = Uuid::now_v7().to_string();
        let payload = self.payload(&session, &sample.unwrap_or_else(|| json!({})))?;
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", line])
            .current_dir(self.starts_in)
            .env(PREVIEW, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        command.envs(self.places());
        let mut child = command.spawn().map_err(|error| broken(&error))?;
        if let Some(mut pipe) = child.stdin.take() {
            // A line that does not start hookjail need not read it.
            drop(pipe.write_all(payload.as_bytes()));
        }
        let output = child.wait_with_output().map_err(|error| broken(&error))?;
        let report: Result<Previewed, _> = serde_json::from_slice(&output.stdout);
        report
            .map(|report| report.refusal)
            .map_err(|_| format!("its line does not start hookjail ({})", output.status))
    }

    /// Returns the runtime's variables for directories, with their values.
    fn places(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let of_project = self.runtime.project_variables();
        let of_plugin = self.runtime.variables_with(Holds::Plugin);
        let of_plugin = of_plugin.filter_map(|name| Some((name, self.plugin?)));
        of_project.map(|name| (name, self.project)).chain(of_plugin)
    }

    /// Returns the program of a guard that fails because that is not there.
    fn absent_program(&self, runs: &[Comparison]) -> Option<String> {
        let ended = format!("exit code {NOT_FOUND}");
        let mut failures = runs.iter().filter_map(|run| run.confined.failure.as_ref());
        failures.find(|why| why.contains(&ended))?;
        let name = match self.argv {
            [.., option, line] if option == "-c" => {
                let place = |name: &str| {
                    let known = self.places().find(|(known, _)| *known == name);
                    known.map(|(_, path)| path.display().to_string())
                };
                let words = words(line, |name| place(name).or_else(|| env::var(name).ok()))?;
                words.into_iter().next()?
            }
            [name, ..] => name.clone(),
            [] => return None,
        };
        let is_there = resolve_program(vec![(&name).into()]).is_ok();
        (!is_there).then_some(name)
    }

    /// Returns the command that gives the guard a profile of its own.
    fn learn(&self) -> String {
        format!("hookjail learn -- {}", shell_line(self.argv))
    }

    /// Returns the runtime's payload for the guard's stdin.
    fn payload(&self, session: &str, sample: &Value) -> Result<String, String> {
        let place = (self.starts_in, session);
        let payload = self.runtime.payload(sample, &self.hook.point, place);
        let payload = payload.map_err(|error| error.to_string())?;
        String::from_utf8(payload).map_err(|error| broken(&error))
    }

    /// Runs the guard with each payload, confined, and bare where they are compared.
    ///
    /// They write to a layer over the workspace, or where there can be none to the workspace itself.
    fn runs(&self, payloads: &[String]) -> Result<Vec<Comparison>, String> {
        match self.runs_for(true).run(payloads) {
            Ok(runs) => Ok(runs),
            Err(Unrehearsed::Failed(why)) => Err(why),
            Err(Unrehearsed::NoLayer(why)) => {
                NOTICE.call_once(|| {
                    let notice =
                        "guards are rehearsed in the workspace itself, and what they write there stays";
                    output::stderr(&format!("{notice}: {why}; leave it out by --no-rehearsal"));
                });
                let ran = self.runs_for(false).run(payloads);
                ran.map_err(|it| match it {
                    Unrehearsed::Failed(why) | Unrehearsed::NoLayer(why) => why,
                })
            }
        }
    }

    /// Returns the runs to make, on a layer or in the workspace itself.
    fn runs_for(&self, is_layered: bool) -> Rehearsed<'_> {
        Rehearsed {
            argv: self.argv,
            config: self.config.file.as_deref(),
            environment: self.places().collect(),
            is_compared: self.is_compared,
            is_layered,
            needs: self.needs,
            point: &self.hook.point,
            profile: self.profile,
            runtime: self.name,
            starts_in: self.starts_in,
            timeout: self.timeout.map_or(LONGEST, |it| it.min(LONGEST)),
            workspace: None,
        }
    }
}

/// Judges a guard by its confined runs alone. Confinement may break one that stops nothing and was refused a read, or stops
/// each event and was refused a write.
fn alone(samples: &[Value], runs: &[Comparison], profile: &str) -> RehearsalReport {
    let failed = runs.iter().zip(samples.iter().cycle());
    let mut failed =
        failed.filter_map(|(run, sample)| Some((run.confined.failure.as_ref()?, sample)));
    if let Some((why, sample)) = failed.next() {
        let why = why.trim_start_matches("hookjail: ");
        return RehearsalReport::leaving(format!(
            "confined under profile {profile} it fails: {why}: {sample}"
        ));
    }
    let stopped = |sample: usize| {
        let mut runs = runs.iter().skip(sample).step_by(samples.len());
        runs.any(|run| run.confined.stops)
    };
    let stops = (0..samples.len()).filter(|sample| stopped(*sample)).count();
    let refused: BTreeSet<_> = runs
        .iter()
        .filter_map(|run| run.refused.as_ref())
        .flatten()
        .collect();
    let (reads, writes): (Vec<_>, Vec<_>) = refused.into_iter().partition(|it| it.is_read_only);
    let events = samples.len();
    let breaks = [
        ("none", stops == 0, &reads),
        ("each", stops == events, &writes),
    ];
    for (stopped, _, refused) in breaks.into_iter().filter(|(_, is_so, _)| *is_so) {
        let [first, more @ ..] = refused.as_slice() else {
            continue;
        };
        let more = match more.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let why = format!(
            "in the sandbox of profile {profile} it cannot {}{more}, and stops {stopped} of {events} events",
            first.words
        );
        return RehearsalReport {
            is_refused: true,
            ..RehearsalReport::leaving(why)
        };
    }
    let mut denied = runs.iter().flat_map(|run| &run.denied);
    if stops == events && denied.any(|it| it.starts_with("socket")) {
        let why = format!(
            "in the sandbox of profile {profile} it has no network, and stops {stops} of {events} events"
        );
        return RehearsalReport {
            is_refused: true,
            ..RehearsalReport::leaving(why)
        };
    }
    let rehearsed = format!("rehearsed confined with {events} events: stops {stops}");
    let unseen = runs.iter().any(|run| run.refused.is_none());
    let unseen = unseen.then(|| "the files that it is refused cannot be observed here".to_owned());
    let is_refused = !reads.is_empty() || !writes.is_empty();
    let refused = reads.into_iter().chain(writes).take(NAMED);
    let refused = refused.map(|it| format!("in the sandbox it cannot {}", it.words));
    let remarks = [rehearsed].into_iter().chain(unseen).chain(refused);
    let remarks = remarks.chain(changes(runs));
    RehearsalReport {
        is_refused,
        left: None,
        remarks: remarks.chain(denials(runs)).collect(),
    }
}

/// Describes the files that the confined runs changed: on a layer, or in the workspace itself.
fn changes(runs: &[Comparison]) -> Option<String> {
    let layered = runs.last().and_then(|run| run.confined.changes.as_ref());
    let written = runs.iter().filter_map(|run| run.confined.writes.as_ref());
    let written: BTreeSet<_> = written.flatten().map(String::as_str).collect();
    let (paths, what): (Vec<_>, _) = match layered {
        // Of the last run: a layer has the changes of all.
        Some(changes) => (
            changes.iter().map(String::as_str).collect(),
            "changed in the rehearsal alone",
        ),
        None => (
            written.into_iter().collect(),
            "written by the rehearsal, and still there",
        ),
    };
    (!paths.is_empty()).then(|| format!("{what}: {}", list(paths)))
}

/// Describes the denials of the confined runs.
fn denials(runs: &[Comparison]) -> Vec<String> {
    let denied: BTreeSet<_> = runs.iter().flat_map(|run| &run.denied).collect();
    let denied = denied.into_iter().take(NAMED);
    denied
        .map(|denied| format!("denied in the rehearsal: {denied}"))
        .collect()
}

/// Describes the runs of a guard whose verdicts may differ only in some of them.
fn remarks(events: usize, runs: &[Comparison], is_partial: bool) -> Vec<String> {
    let mut found: Vec<_> = runs
        .iter()
        .flat_map(Comparison::differences_of_output)
        .collect();
    found.sort_unstable();
    found.dedup();
    if is_partial {
        found.insert(
            0,
            "the confined guard stops some events, and not in each run",
        );
    }
    let writes = |written: fn(&Comparison) -> Option<&BTreeSet<String>>| -> BTreeSet<String> {
        runs.iter().filter_map(written).flatten().cloned().collect()
    };
    let bare = writes(|run| run.bare.as_ref()?.writes.as_ref());
    let confined = writes(|run| run.confined.writes.as_ref());
    let alone = runs.iter().flat_map(|run| &run.leaves).next();
    let files = difference_of_files(&bare, &confined);
    let alone = alone.map(|path| alone_words(path));
    let found = found.into_iter().map(str::to_owned).chain(files);
    let found: Vec<_> = found.chain(alone).collect();
    let found = match found.as_slice() {
        [] => "the same bare and confined".to_owned(),
        found => found.join("; "),
    };
    [format!("rehearsed with {events} events: {found}")]
        .into_iter()
        .chain(changes(runs))
        .chain(denials(runs))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::rehearse::{RefusedUse, RunEnd};

    fn agreement(bare: [bool; 3], confined: [bool; 3]) -> Agreement {
        Agreement::of_runs(bare.into_iter().zip(confined))
    }

    #[test]
    fn a_guard_that_stops_less_often_when_confined_is_laxer_whatever_it_does_at_first() {
        let (never, always) = ([false; 3], [true; 3]);
        let warns = [true, false, true];
        assert_eq!(agreement(always, never), Agreement::Laxer);
        // Silent, where the bare one warns once.
        assert_eq!(agreement(warns, never), Agreement::Laxer);
        // The warning stands in for the rules that it cannot read.
        assert_eq!(agreement(always, warns), Agreement::Laxer);
    }

    #[test]
    fn a_guard_that_warned_on_this_machine_already_is_no_other_guard_when_confined() {
        let (never, always) = ([false; 3], [true; 3]);
        let warns = [true, false, true];
        assert_eq!(agreement(never, warns), Agreement::Partial);
        assert_eq!(agreement([false, false, true], warns), Agreement::Partial);
        // The guard never gets beyond the warning.
        assert_eq!(agreement(warns, always), Agreement::Partial);
        assert_eq!(agreement(never, always), Agreement::Stricter);
        for same in [never, always, warns] {
            assert_eq!(agreement(same, same), Agreement::Same);
        }
    }

    #[test]
    fn a_guard_is_judged_by_what_it_is_refused_where_it_is_not_compared() {
        let samples = [serde_json::json!({"n": 1}), serde_json::json!({"n": 2})];
        let refused = |is_read_only, words: &str| RefusedUse {
            is_read_only,
            words: words.to_owned(),
        };
        let run = |stops, refused: &[RefusedUse]| Comparison {
            bare: None,
            confined: RunEnd {
                stops,
                ..RunEnd::default()
            },
            denied: Vec::new(),
            hosts: None,
            leaves: Vec::new(),
            refused: Some(refused.to_vec()),
        };
        let judge = |runs: &[Comparison]| alone(&samples, runs, "develop");
        let left = |runs: &[Comparison]| judge(runs).left.unwrap();
        let reads = [
            refused(true, "read /home/a/rules"),
            refused(true, "read /home/a/x"),
        ];
        assert_eq!(
            left(&[run(false, &reads), run(false, &[])]),
            "in the sandbox of profile develop it cannot read /home/a/rules and 1 more, and stops none of 2 events"
        );
        let remarks = |stops| format!("rehearsed confined with 2 events: stops {stops}");
        // One that stops something sees its rules.
        let seeing = judge(&[run(true, &reads[..1]), run(false, &[])]);
        assert!(seeing.is_refused && seeing.left.is_none());
        assert_eq!(
            seeing.remarks,
            [&*remarks(1), "in the sandbox it cannot read /home/a/rules"]
        );
        // A refused write proves nothing about decisions, unless the guard stops everything.
        let writes = [refused(false, "write /home/a/log")];
        let logger = judge(&[run(false, &writes), run(false, &[])]);
        assert!(logger.is_refused && logger.left.is_none());
        assert_eq!(
            logger.remarks,
            [&*remarks(0), "in the sandbox it cannot write /home/a/log"]
        );
        assert_eq!(
            left(&[run(true, &writes), run(true, &[])]),
            "in the sandbox of profile develop it cannot write /home/a/log, and stops each of 2 events"
        );
        assert!(judge(&[run(true, &[]), run(true, &[])]).left.is_none());
        // A guard that asks another host stops everything where there is none.
        let asking = |stops| Comparison {
            denied: vec!["socket AF_INET: no network".to_owned()],
            ..run(stops, &[])
        };
        let report = judge(&[asking(true), asking(true)]);
        assert!(report.is_refused);
        assert_eq!(
            report.left.unwrap(),
            "in the sandbox of profile develop it has no network, and stops 2 of 2 events"
        );
        assert!(judge(&[asking(true), asking(false)]).left.is_none());
        let mut broken = run(true, &[]);
        broken.confined.failure = Some("hookjail: the hook failed".to_owned());
        assert_eq!(
            left(&[run(false, &[]), broken]),
            "confined under profile develop it fails: the hook failed: {\"n\":2}"
        );
        let mut unseen = run(false, &[]);
        unseen.refused = None;
        assert_eq!(
            judge(&[unseen]).remarks,
            [
                &*remarks(0),
                "the files that it is refused cannot be observed here"
            ]
        );
    }

    #[test]
    fn a_difference_is_described_once_however_many_runs_have_it() {
        let end = |stdout: &str, file: &str| RunEnd {
            stdout: stdout.to_owned(),
            writes: Some([file.to_owned()].into()),
            ..RunEnd::default()
        };
        let run = |bare, confined| Comparison {
            bare: Some(bare),
            confined,
            denied: vec!["socket: no network".to_owned()],
            hosts: None,
            leaves: Vec::new(),
            refused: Some(Vec::new()),
        };
        let same = [
            run(end("", "a"), end("", "b")),
            run(end("", "b"), end("", "a")),
        ];
        assert_eq!(
            remarks(7, &same, false),
            [
                "rehearsed with 7 events: the same bare and confined",
                "written by the rehearsal, and still there: a, b",
                "denied in the rehearsal: socket: no network"
            ]
        );
        // A layer has the changes of all runs, in the last one.
        let layered = same.map(|mut run| {
            let names = ["A a", "D b", "A c", "M d", "A e", "A f", "A g"];
            run.confined.changes = Some(names.map(str::to_owned).to_vec());
            run
        });
        assert_eq!(
            changes(&layered).unwrap(),
            "changed in the rehearsal alone: A a, D b, A c, M d, A e and 2 more"
        );
        let other = || run(end("x", "a"), end("y", "b.txt"));
        let remarks = remarks(7, &[other(), other()], true);
        assert_eq!(
            remarks[0],
            [
                "rehearsed with 7 events: the confined guard stops some events, and not in each run",
                "its answers on stdout differ",
                "only the bare run writes a"
            ]
            .join("; ")
        );
    }
}
