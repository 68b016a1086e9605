//! A response, for people.

use std::io;

use super::{output, output::Style};
use crate::pb;

/// Shows a response to a person.
pub(super) fn show(response: &pb::ExecuteResponse) {
    let style = Style::of_stdout();
    let mut text = String::new();
    let mut line = |label: &str, value: &str| {
        text.push_str(&format!("{}{value}\n", style_label(style, label)));
    };
    let outcome = response.outcome.unwrap_or_default();
    line("outcome", &outcome_words(&outcome, style));
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
        line("reason", &verdict.reason);
    }
    match &verdict.push {
        Some(push) => {
            line(
                "push",
                &format!("wake={} message={:?}", push.wake, push.message),
            );
        }
        None if !verdict.skip_reason.is_empty() => {
            line("push", &format!("none ({})", verdict.skip_reason))
        }
        None => {}
    }
    let confinement = response.confinement.clone().unwrap_or_default();
    let confirmed = if confinement.confirmed {
        style.good("confirmed")
    } else {
        style.bad("UNCONFINED")
    };
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
    output::stdout(text.as_bytes());
}

fn style_label(style: Style, label: &str) -> String {
    // Padding counts bytes, so it comes before the colour.
    style.strong(&format!("{label:<12}"))
}

fn outcome_words(outcome: &pb::Outcome, style: Style) -> String {
    let kind = outcome.kind();
    let name = kind
        .as_str_name()
        .trim_start_matches("OUTCOME_KIND_")
        .to_ascii_lowercase()
        .replace('_', " ");
    let words = match (outcome.exit_code, outcome.signal, outcome.exec_errno) {
        (Some(code), _, _) => format!("{name}, code {code}"),
        (_, Some(signal), _) => format!("{name}, signal {signal}"),
        (_, _, Some(errno)) => format!("{name}: {}", io::Error::from_raw_os_error(errno)),
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
        // A hook's output must not steer the terminal.
        let plain: String = part
            .chars()
            .map(|c| {
                if c.is_control() && c != '\t' {
                    '\u{fffd}'
                } else {
                    c
                }
            })
            .collect();
        line(if index == 0 { label } else { "" }, &plain);
    }
    if !cut.is_empty() {
        line("", &cut);
    }
}

pub(super) fn axis_words(axis: &pb::AxisReport, style: Style) -> String {
    let name = axis
        .axis()
        .as_str_name()
        .trim_start_matches("AXIS_")
        .to_ascii_lowercase();
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
