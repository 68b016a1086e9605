//! Prints responses for people.

use std::{io, time::Duration};

use hookjail_proto as pb;

use hookjail_base::{
    model::plain,
    util::units::{Size, Span},
};
use hookjail_client::output::Style;
use hookjail_contract::{EndKind, may_be_why};

use super::rows::{Rows, quoted};

/// Prints a response and its server, for people: its end, output, meaning and denials, and one line about the sandbox.
///
/// Where `is_verbose`, also how far each axis is covered, evidence, times and record. `learn` is the `hookjail learn` command
/// line for its hook.
pub(super) fn show(
    response: &pb::ExecuteResponse,
    (served_by, is_verbose): (&str, bool),
    learn: &str,
) {
    let style = Style::of_stdout();
    let mut rows = Rows::strong(style);
    let outcome = response.outcome.unwrap_or_default();
    let outcome = outcome_words(&outcome, &response.exec_problem, style);
    rows.row("outcome", outcome);
    let (stdout, stderr) = (&response.stdout, &response.stderr);
    stream(&mut rows, "stdout", stdout, response.stdout_total_bytes);
    stream(&mut rows, "stderr", stderr, response.stderr_total_bytes);
    let verdict = response.verdict.clone().unwrap_or_default();
    let failed = match verdict.failed {
        true => ", the hook failed",
        false => "",
    };
    rows.row("verdict", format!("{}{failed}", decision(&verdict)));
    rows.some("reason", &verdict.reason);
    effects(&mut rows, &verdict);
    rows.each("push", verdict.push.iter().map(push_words));
    if is_verbose && verdict.push.is_none() && !verdict.skip_reason.is_empty() {
        rows.row("push", format!("none ({})", verdict.skip_reason));
    }
    rows.each("denied", denied(response, learn));
    let confinement = response.confinement.clone().unwrap_or_default();
    let profile = &confinement.profile;
    if is_verbose {
        let abi = match confinement.landlock_abi {
            0 => String::new(),
            abi => format!(" (Landlock ABI {abi})"),
        };
        let more = format!("{abi}, profile {profile}");
        covered(&mut rows, &confinement, (&more, "confirmed"), style);
        let evidence = confinement.evidence.iter();
        let evidence = evidence.filter(|it| it.check != WORKSPACE);
        let evidence = evidence.map(|it| format!("{}={}", it.check, it.observed));
        rows.row("evidence", evidence.collect::<Vec<_>>().join(" "));
        rows.row("times", times(&response.usage.unwrap_or_default()));
        let audit = response.audit.clone().unwrap_or_default();
        let audit = format!("run {}, record {}", audit.run_id, audit.sequence);
        rows.row("audit", audit);
        rows.row("served by", served_by);
    } else {
        rows.each("workspace", withheld(&confinement));
        let (backend, confirmed) = (
            &confinement.backend,
            confirmed(&confinement, "confirmed", style),
        );
        rows.row(
            "sandbox",
            format!(
                "{backend}, profile {profile}, {confirmed}, served by {served_by} (details: -v)"
            ),
        );
    }
    rows.print();
}

/// Describes what a run took.
fn times(usage: &pb::Usage) -> String {
    let ms = |duration: &Option<prost_types::Duration>| {
        let duration = duration.unwrap_or_default();
        duration.seconds as f64 * 1e3 + f64::from(duration.nanos) / 1e6
    };
    let rss = match usage.max_rss_bytes {
        0 => String::new(),
        bytes => format!("; max rss {} KiB", bytes / 1024),
    };
    format!(
        "wall {:.1} ms (queue {:.1}, set-up {:.1}, run {:.1}), cpu {:.1} ms{rss}",
        ms(&usage.wall),
        ms(&usage.queue),
        ms(&usage.setup),
        ms(&usage.run),
        ms(&usage.user) + ms(&usage.sys),
    )
}

/// Returns the name of a decision.
pub(super) fn decision(verdict: &pb::Verdict) -> &'static str {
    let name = verdict.decision().as_str_name();
    name.trim_start_matches("DECISION_")
}

/// Adds what a verdict has for the agent and for its user, beside decision and reason.
pub(super) fn effects(rows: &mut Rows, verdict: &pb::Verdict) {
    let context = verdict.additional_context.iter();
    rows.each("context", context.map(|text| format!("{text:?}")));
    for (label, text) in texts(verdict) {
        rows.row(label, text);
    }
    rows.each("warning", &verdict.warnings);
}

/// The maximum number of characters shown of a long text.
const MAX_SHOWN_CHARS: usize = 200;

/// Returns a verdict's parts beside decision and context, each with its label in one line.
fn texts(verdict: &pb::Verdict) -> Vec<(&'static str, String)> {
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
    let texts = [
        ("to the user", &verdict.system_message),
        ("stop reason", &verdict.stop_reason),
    ];
    let texts = texts.into_iter().filter(|(_, text)| !text.is_empty());
    let texts = texts.map(|(label, text)| (label, shortened(&format!("{text:?}"))));
    rewritten.chain(texts).collect()
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
fn may_be_hindered(response: &pb::ExecuteResponse) -> bool {
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

/// Returns a line for each known denial of a run, with the command that proposes a profile for it.
///
/// Where the hook failed, and that may be why, another line explains how to see denied files.
pub(super) fn denied(response: &pb::ExecuteResponse, learn: &str) -> Vec<String> {
    let denials = response.denials.iter().filter(|denial| !denial.incidental);
    let mut lines: Vec<_> = denials
        .map(|denial| {
            let change = denial.suggestion.as_str();
            let is_vain = change.is_empty() || change.starts_with("nothing");
            match is_vain || !HAS_LEARN {
                true => denial_words(denial),
                false => format!("{} ({learn})", denial_words(denial)),
            }
        })
        .collect();
    let confines = response.confinement.iter().filter(|it| !it.unconfined);
    for confinement in confines.filter(|_| may_be_hindered(response)) {
        let seen = match HAS_LEARN {
            true => format!("see them: {learn}; "),
            false => String::new(),
        };
        lines.push(format!(
            "files that confinement refuses are not observed; {seen}ask about one: hookjail explain --profile {} path read PATH",
            confinement.profile
        ));
    }
    lines
}

/// Whether this system's hookjail can observe what a hook needs.
pub(super) const HAS_LEARN: bool = cfg!(target_os = "linux");

/// Returns a number of things in words.
pub(super) fn counted(count: usize, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        _ => format!("{count} {noun}s"),
    }
}

/// Describes a denial, with its rule and its remedy.
pub(super) fn denial_words(denial: &pb::Denial) -> String {
    let what = [denial.operation.as_str(), denial.target.as_str()];
    let what: Vec<_> = what.into_iter().filter(|word| !word.is_empty()).collect();
    let what = match what.as_slice() {
        [] => "a syscall".to_owned(),
        words => words.join(" "),
    };
    let times = match denial.times {
        0 | 1 => String::new(),
        times => format!(", {times} times"),
    };
    let remedy = match denial.suggestion.as_str() {
        "" => String::new(),
        // The suggestion itself is that there is none.
        never if never.starts_with("nothing") => format!("; {never}"),
        change => format!("; to allow it: {change}"),
    };
    format!("{what}{times}: {}{remedy}", denial.rule)
}

/// Prints a preview for people.
pub(super) fn show_preview(response: &pb::PreviewResponse) {
    let style = Style::of_stdout();
    let mut rows = Rows::strong(style);
    match &response.refusal {
        None => rows.row("dry run", style.good("the hook would run")),
        Some(refusal) => {
            let refused = format!("the hook would be refused: {}", refusal.reason);
            rows.row("dry run", style.bad(&refused));
            rows.row("", &refusal.message);
        }
    }
    let confinement = response.confinement.clone().unwrap_or_default();
    if !response.consent.is_empty() {
        rows.row("command", quoted(&response.argv));
        let files = response.files.iter();
        let files = files.map(|it| format!("{:<12} {}  {}", it.role, it.sha256, it.path));
        rows.list("files", files);
        rows.row("allowed by", &response.consent);
        let (profile, digest) = (&confinement.profile, &confinement.profile_digest);
        rows.row("profile", format!("{profile} ({digest})"));
    }
    if let Some(limits) = &response.limits {
        let wall = Duration::try_from(response.timeout.unwrap_or_default());
        let wall = wall.map_or_else(|_| String::new(), |wall| Span(wall).to_string());
        rows.row("limits", format!("wall {wall}; {}", limits_words(limits)));
        let starts_in = match response.working_dir.as_str() {
            "" => "its scratch directory",
            path => path,
        };
        rows.row("starts in", starts_in);
        rows.row("variables", response.environment_names.join(" "));
        let (bytes, contract) = (response.stdin_bytes, &response.contract_version);
        rows.row("stdin", format!("{bytes} bytes under {contract}"));
        let grants = response.grants.iter().map(|grant| {
            let path = match grant.path.as_str() {
                "" => "(scratch directory)",
                path => path,
            };
            format!("{:<10} {:<8} {path}", grant.access, grant.origin)
        });
        rows.list("grants", grants);
        let pb::PreviewResponse {
            metadata,
            network,
            spawn,
            ..
        } = response;
        let classes = format!("network {network}, spawn {spawn}, metadata {metadata}");
        rows.row("classes", classes);
        let confirmed = "confirmed by its self-test";
        covered(&mut rows, &confinement, ("", confirmed), style);
    }
    rows.print();
}

/// Describes the limits of a run, beside its wall time.
fn limits_words(limits: &pb::Limits) -> String {
    let size = |bytes: Option<u64>| bytes.map(|bytes| Size(bytes).to_string());
    let number = |number: Option<String>| number.unwrap_or_else(|| "no limit".to_owned());
    let kills = match limits.output_kills {
        true => ", then it is ended",
        false => "",
    };
    let scratch = limits.scratch.zip(limits.scratch_files);
    let scratch = scratch.map(|(bytes, files)| format!("{} in {files} files", Size(bytes)));
    [
        format!("output {} a stream{kills}", Size(limits.output_bytes)),
        format!("files {}", Size(limits.file_size)),
        format!("{} descriptors", limits.open_files),
        format!("address space: {}", number(size(limits.address_space))),
        format!("memory: {}", number(size(limits.memory))),
        format!("tasks: {}", number(limits.tasks.map(|it| it.to_string()))),
        format!(
            "processors: {}",
            number(limits.cpus.map(|it| it.to_string()))
        ),
        format!("scratch: {}", number(scratch)),
    ]
    .join("; ")
}

/// The evidence of a run that has no workspace, because its place is none.
const WORKSPACE: &str = "workspace";

/// Adds what confines a run, whether that is confirmed, and how far it covers each axis.
fn covered(
    rows: &mut Rows,
    confinement: &pb::Confinement,
    (more, confirmed): (&str, &str),
    style: Style,
) {
    let confirmed = self::confirmed(confinement, confirmed, style);
    let backend = &confinement.backend;
    rows.row("confinement", format!("{backend}{more}, {confirmed}"));
    let passed_over = confinement.passed_over.iter().map(|it| {
        let (backend, reason, message) = (&it.backend, &it.reason, &it.message);
        format!("passed over {backend}: {reason}: {message}")
    });
    rows.each("", passed_over);
    rows.each("workspace", withheld(confinement));
    let axes = confinement.axes.iter();
    rows.each("", axes.map(|axis| axis_words(axis, style)));
}

/// Returns whether what confines a run is confirmed, by the word for that.
fn confirmed(confinement: &pb::Confinement, word: &str, style: Style) -> String {
    match (confinement.unconfined, confinement.confirmed) {
        (true, _) => style.bad("UNCONFINED"),
        (false, true) => style.good(word),
        (false, false) => style.bad("NOT CONFIRMED"),
    }
}

/// Returns why a run has no workspace.
fn withheld(confinement: &pb::Confinement) -> impl Iterator<Item = &String> {
    let withheld = confinement.evidence.iter();
    let withheld = withheld.filter(|it| it.check == WORKSPACE);
    withheld.map(|it| &it.observed)
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

/// Adds the lines of a stream, as far as they are kept.
fn stream(rows: &mut Rows, label: &str, bytes: &[u8], total: u64) {
    let shown = String::from_utf8_lossy(bytes);
    let cut = match total > bytes.len() as u64 {
        true => format!(" ({total} bytes in all)"),
        false => String::new(),
    };
    if shown.is_empty() {
        return rows.row(label, format!("(empty){cut}"));
    }
    rows.list(label, shown.lines());
    rows.some("", &cut);
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
    let enforcer = if axis.by.is_empty() { "-" } else { &axis.by };
    format!("{name:<12} {coverage}  {enforcer}{gap}")
}
