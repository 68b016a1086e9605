//! Prints responses for people.

use std::{io, time::Duration};

use hookjail_proto as pb;

use hookjail_base::model::{Lines, plain};
use hookjail_base::util::units::{Size, Span};
use hookjail_client::output::{self, Style};
use hookjail_contract::{EndKind, may_be_why};

/// Prints a response and its server, for people.
///
/// `learn` returns the `hookjail learn` command line for its hook, with more options.
pub(super) fn show(
    response: &pb::ExecuteResponse,
    served_by: &str,
    learn: impl Fn(&str) -> String,
) {
    let style = Style::of_stdout();
    let mut text = Lines::default();
    let mut line = |label: &str, value: &str| {
        text.add(format!("{}{value}", style_label(style, label)));
    };
    let outcome = response.outcome.unwrap_or_default();
    line(
        "outcome",
        &outcome_words(&outcome, &response.exec_problem, style),
    );
    stream(
        &mut line,
        "stdout",
        &response.stdout,
        response.stdout_total_bytes,
    );
    stream(
        &mut line,
        "stderr",
        &response.stderr,
        response.stderr_total_bytes,
    );
    let verdict = response.verdict.clone().unwrap_or_default();
    let decision = verdict
        .decision()
        .as_str_name()
        .trim_start_matches("DECISION_");
    let failed = if verdict.failed {
        ", the hook failed"
    } else {
        ""
    };
    line("verdict", &format!("{decision}{failed}"));
    if !verdict.reason.is_empty() {
        line("reason", &plain(&verdict.reason));
    }
    for text in &verdict.additional_context {
        line("context", &format!("{text:?}"));
    }
    for (label, text) in texts(&verdict) {
        line(label, &text);
    }
    for text in &verdict.warnings {
        line("warning", &plain(text));
    }
    match &verdict.push {
        Some(push) => {
            line("push", &push_words(push));
        }
        None if !verdict.skip_reason.is_empty() => {
            line("push", &format!("none ({})", verdict.skip_reason))
        }
        None => {}
    }
    let refused = Refusals {
        confinement: response.confinement.as_ref(),
        denials: &response.denials,
        failed: may_be_hindered(response),
    };
    for words in refused.lines(learn) {
        line("denied", &words);
    }
    let confinement = response.confinement.clone().unwrap_or_default();
    let confirmed = confirmed_words(&confinement, "confirmed", style);
    let abi = match confinement.landlock_abi {
        0 => String::new(),
        abi => format!(" (Landlock ABI {abi})"),
    };
    line(
        "confinement",
        &format!(
            "{}{abi}, profile {}, {confirmed}",
            confinement.backend, confinement.profile
        ),
    );
    passed_over(&mut line, &confinement);
    for axis in &confinement.axes {
        line("", &axis_words(axis, style));
    }
    let evidence: Vec<_> = confinement
        .evidence
        .iter()
        .map(|e| format!("{}={}", e.check, e.observed))
        .collect();
    line("evidence", &evidence.join(" "));
    let usage = response.usage.unwrap_or_default();
    let ms = |duration: &Option<prost_types::Duration>| {
        let duration = duration.unwrap_or_default();
        duration.seconds as f64 * 1e3 + f64::from(duration.nanos) / 1e6
    };
    line(
        "times",
        &format!(
            "wall {:.1} ms: queue {:.1}, set-up {:.1}, run {:.1}; cpu {:.1} ms{}",
            ms(&usage.wall),
            ms(&usage.queue),
            ms(&usage.setup),
            ms(&usage.run),
            ms(&usage.user) + ms(&usage.sys),
            match usage.max_rss_bytes {
                0 => String::new(),
                bytes => format!("; max rss {} KiB", bytes / 1024),
            },
        ),
    );
    let audit = response.audit.clone().unwrap_or_default();
    line(
        "audit",
        &format!("run {}, record {}", audit.run_id, audit.sequence),
    );
    line("served by", served_by);
    output::text(text.as_str());
}

/// The maximum number of characters shown of a long text.
const MAX_SHOWN_CHARS: usize = 200;

/// Returns a verdict's parts beside decision and context, each with its label in one line.
pub(super) fn texts(verdict: &pb::Verdict) -> Vec<(&'static str, String)> {
    let rewritten = [
        ("input", &verdict.updated_input_json),
        ("result", &verdict.updated_output_json),
        ("messages", &verdict.updated_messages_json),
        ("summary", &verdict.summary),
    ];
    let rewritten = rewritten.into_iter().filter_map(|(label, text)| {
        let text = shortened(&plain(text.as_deref()?));
        Some((label, format!("rewritten: {text}")))
    });
    let said = [
        ("to the user", &verdict.system_message),
        ("stop reason", &verdict.stop_reason),
    ];
    let said = said.into_iter().filter(|(_, text)| !text.is_empty());
    let said = said.map(|(label, text)| (label, shortened(&format!("{text:?}"))));
    rewritten.chain(said).collect()
}

/// Describes a delivery.
pub(super) fn push_words(push: &pb::Push) -> String {
    let mut words = format!("wake={}", push.wake);
    for (name, text) in [("name", &push.name), ("session", &push.session)] {
        if !text.is_empty() {
            words.push_str(&format!(" {name}={text:?}"));
        }
    }
    words.push_str(&format!(" message={:?}", push.message));
    words
}

/// Shortens a text that is too long for a line.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_SHOWN_CHARS) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}… ({} bytes in all)", &text[..end], text.len()),
    }
}

/// Returns whether denials may be why a hook ended as it did. A block is not a failure, so they are not the cause of one.
pub(super) fn may_be_hindered(response: &pb::ExecuteResponse) -> bool {
    let outcome = response.outcome.unwrap_or_default();
    let verdict = response.verdict.clone().unwrap_or_default();
    let stops = matches!(
        verdict.decision(),
        pb::Decision::Ask | pb::Decision::Block | pb::Decision::Deny
    );
    if !stops {
        return verdict.failed || outcome.exit_code != Some(0);
    }
    let kind = match (outcome.kind(), outcome.exit_code) {
        (pb::OutcomeKind::TimedOut, _) => EndKind::TimedOut,
        (pb::OutcomeKind::Killed, _) => EndKind::Killed,
        (pb::OutcomeKind::ExecFailed, _) => EndKind::ExecFailed,
        (_, Some(code)) => EndKind::Exited(code),
        (_, None) => EndKind::Signaled(outcome.signal.unwrap_or_default()),
    };
    let stderr = [&response.stderr[..], &response.stderr_tail[..]].concat();
    kind != EndKind::Exited(0) && may_be_why(kind, &stderr)
}

/// The denials of a run, as far as they are known.
pub(super) struct Refusals<'a> {
    pub(super) confinement: Option<&'a pb::Confinement>,
    pub(super) denials: &'a [pb::Denial],
    /// Whether the hook failed, and that may be why.
    pub(super) failed: bool,
}

impl Refusals<'_> {
    /// Returns a line for each denial, with the command that proposes a profile for it.
    ///
    /// Where the hook failed, another line explains how to see denied files.
    pub(super) fn lines(&self, learn: impl Fn(&str) -> String) -> Vec<String> {
        let denials = self.denials.iter().filter(|denial| !denial.incidental);
        let mut lines: Vec<_> = denials
            .map(|denial| {
                let options = match denial.suggestion.contains("network =") {
                    true => "--network ",
                    false => "",
                };
                let change = denial.suggestion.as_str();
                let is_vain = change.is_empty() || change.starts_with("nothing");
                match is_vain || !HAS_LEARN {
                    true => denial_words(denial),
                    false => format!("{} ({})", denial_words(denial), learn(options)),
                }
            })
            .collect();
        let confines = self.confinement.filter(|it| !it.unconfined);
        if let Some(confinement) = confines.filter(|_| self.failed) {
            let seen = match HAS_LEARN {
                true => format!("see them: {}; ", learn("")),
                false => String::new(),
            };
            lines.push(format!(
                "files that confinement refuses are not observed; {seen}ask about one: hookjail explain --profile {} path read PATH",
                confinement.profile
            ));
        }
        lines
    }
}

/// Whether this system's hookjail can observe what a hook needs.
const HAS_LEARN: bool = cfg!(target_os = "linux");

/// Describes a denial, with its rule and its remedy.
pub(super) fn denial_words(denial: &pb::Denial) -> String {
    let what = [denial.operation.as_str(), denial.target.as_str()];
    let what: Vec<_> = what.into_iter().filter(|word| !word.is_empty()).collect();
    let what = match what.as_slice() {
        [] => "a system call".to_owned(),
        words => words.join(" "),
    };
    let times = match denial.times {
        0 | 1 => String::new(),
        times => format!(", {times} times"),
    };
    let remedy = match denial.suggestion.as_str() {
        "" => String::new(),
        // The suggestion itself says that there is none.
        never if never.starts_with("nothing") => format!("; {never}"),
        change => format!("; to allow it: {change}"),
    };
    format!("{what}{times}: {}{remedy}", denial.rule)
}

/// Prints a preview for people.
pub(super) fn show_preview(response: &pb::PreviewResponse) {
    let style = Style::of_stdout();
    let mut text = Lines::default();
    let mut line = |label: &str, value: &str| {
        text.add(format!("{}{value}", style_label(style, label)));
    };
    match &response.refusal {
        None => line("dry run", &style.good("it would run")),
        Some(refusal) => {
            line(
                "dry run",
                &style.bad(&format!("it would be refused: {}", refusal.reason)),
            );
            line("", &plain(&refusal.message));
        }
    }
    let confinement = response.confinement.clone().unwrap_or_default();
    if !response.consent.is_empty() {
        let argv: Vec<_> = response
            .argv
            .iter()
            .map(|word| format!("{word:?}"))
            .collect();
        line("command", &argv.join(" "));
        for (index, file) in response.files.iter().enumerate() {
            let label = if index == 0 { "files" } else { "" };
            line(
                label,
                &format!("{:<12} {}  {}", file.role, file.sha256, plain(&file.path)),
            );
        }
        line("allowed by", &response.consent);
        line(
            "profile",
            &format!("{} ({})", confinement.profile, confinement.profile_digest),
        );
    }
    if let Some(limits) = &response.limits {
        let wall = response.timeout.unwrap_or_default();
        let wall =
            Duration::try_from(wall).map_or_else(|_| String::new(), |wall| Span(wall).to_string());
        let none = || "no limit".to_owned();
        line(
            "limits",
            &format!(
                "wall {wall}; output {} a stream{}; files {}; {} descriptors; address space: {}; memory: {}; tasks: {}; processors: {}; scratch: {}",
                Size(limits.output_bytes),
                if limits.output_kills {
                    ", then it is ended"
                } else {
                    ""
                },
                Size(limits.file_size),
                limits.open_files,
                limits
                    .address_space
                    .map_or_else(none, |bytes| Size(bytes).to_string()),
                limits
                    .memory
                    .map_or_else(none, |bytes| Size(bytes).to_string()),
                limits.tasks.map_or_else(none, |tasks| tasks.to_string()),
                limits.cpus.map_or_else(none, |cpus| cpus.to_string()),
                (limits.scratch.zip(limits.scratch_files)).map_or_else(none, |(bytes, files)| {
                    format!("{} in {files} files", Size(bytes))
                }),
            ),
        );
        line(
            "starts in",
            match response.working_dir.as_str() {
                "" => "its scratch directory",
                path => path,
            },
        );
        line("variables", &response.environment_names.join(" "));
        line(
            "stdin",
            &format!(
                "{} bytes under {}",
                response.stdin_bytes, response.contract_version
            ),
        );
        for (index, grant) in response.grants.iter().enumerate() {
            let label = if index == 0 { "grants" } else { "" };
            let path = if grant.path.is_empty() {
                "(scratch directory)"
            } else {
                &grant.path
            };
            line(
                label,
                &format!("{:<10} {:<8} {}", grant.access, grant.origin, plain(path)),
            );
        }
        line(
            "classes",
            &format!(
                "network {}, spawn {}, metadata {}",
                response.network, response.spawn, response.metadata
            ),
        );
        let confirmed = confirmed_words(&confinement, "confirmed by its self-test", style);
        line(
            "confinement",
            &format!("{}, {confirmed}", confinement.backend),
        );
        passed_over(&mut line, &confinement);
        for axis in &confinement.axes {
            line("", &axis_words(axis, style));
        }
    }
    output::text(text.as_str());
}

/// Describes whether a run is confined, and whether that is confirmed.
fn confirmed_words(confinement: &pb::Confinement, confirmed: &str, style: Style) -> String {
    if confinement.unconfined {
        style.bad("UNCONFINED")
    } else if confinement.confirmed {
        style.good(confirmed)
    } else {
        style.bad("NOT CONFIRMED")
    }
}

fn passed_over(line: &mut impl FnMut(&str, &str), confinement: &pb::Confinement) {
    for backend in &confinement.passed_over {
        let told = format!(
            "passed over {}: {}: {}",
            backend.backend, backend.reason, backend.message
        );
        line("", &plain(&told));
    }
}

fn style_label(style: Style, label: &str) -> String {
    // Padding counts bytes, so it comes before the colour.
    style.strong(&format!("{label:<12}"))
}

pub(super) fn outcome_words(outcome: &pb::Outcome, exec_problem: &str, style: Style) -> String {
    let kind = outcome.kind();
    let name = kind
        .as_str_name()
        .trim_start_matches("OUTCOME_KIND_")
        .to_ascii_lowercase()
        .replace('_', " ");
    let words = match (outcome.exit_code, outcome.signal, outcome.exec_errno) {
        (Some(code), _, _) => format!("{name}, code {code}"),
        (_, Some(signal), _) => format!("{name}, signal {signal}"),
        (_, _, Some(errno)) if exec_problem.is_empty() => {
            format!("{name}: {}", io::Error::from_raw_os_error(errno))
        }
        (_, _, Some(_)) => format!("{name}: {exec_problem}"),
        (None, None, None) => name,
    };
    if kind == pb::OutcomeKind::Exited && outcome.exit_code == Some(0) {
        style.good(&words)
    } else {
        style.warn(&words)
    }
}

fn stream(line: &mut impl FnMut(&str, &str), label: &str, bytes: &[u8], total: u64) {
    let shown = String::from_utf8_lossy(bytes);
    let cut = if total > bytes.len() as u64 {
        format!(" ({total} bytes in all)")
    } else {
        String::new()
    };
    if shown.is_empty() {
        line(label, &format!("(empty){cut}"));
        return;
    }
    for (index, part) in shown.lines().enumerate() {
        line(if index == 0 { label } else { "" }, &plain(part));
    }
    if !cut.is_empty() {
        line("", &cut);
    }
}

pub(super) fn axis_name(axis: pb::Axis) -> String {
    let name = axis.as_str_name().trim_start_matches("AXIS_");
    name.to_ascii_lowercase()
}

pub(super) fn axis_words(axis: &pb::AxisReport, style: Style) -> String {
    let name = axis_name(axis.axis());
    let coverage = match axis.coverage() {
        pb::Coverage::Enforced => style.good("enforced"),
        pb::Coverage::Degraded => style.warn("degraded"),
        pb::Coverage::Ignored | pb::Coverage::Unspecified => style.bad("ignored "),
    };
    let gap = if axis.gap.is_empty() {
        String::new()
    } else {
        format!(" ({})", axis.gap)
    };
    let by = if axis.by.is_empty() { "-" } else { &axis.by };
    format!("{name:<12} {coverage}  {by}{gap}")
}
