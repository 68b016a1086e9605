//! Judgement of a run by a case's expectations.

use std::{collections::BTreeSet, time::Duration};

use hookjail_base::util::units::Span;
use serde::Serialize;

use super::expected::Expected;
use crate::cli::rehearse::{Comparison, RunEnd};

/// Something that is not as expected.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub(super) struct Mismatch {
    /// The key of the expectation.
    pub(super) key: &'static str,
    pub(super) expected: String,
    pub(super) found: String,
}

/// The run of a comparison that is judged.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    /// Without confinement: decision, reason, denials and hosts are not known.
    Bare,
    Confined,
}

/// Returns in which way a run is not as expected.
pub(super) fn mismatches(expected: &Expected, runs: &Comparison, kind: Kind) -> Vec<Mismatch> {
    let end = match (kind, &runs.bare) {
        (Kind::Confined, _) => &runs.confined,
        (Kind::Bare, Some(bare)) => bare,
        (Kind::Bare, None) => return Vec::new(),
    };
    let mut found = of_end(expected, end);
    if kind == Kind::Confined {
        found.extend(of_confinement(expected, runs));
    }
    found
}

fn of_end(expected: &Expected, end: &RunEnd) -> Vec<Mismatch> {
    let Expected {
        changes,
        decision: _,
        denials: _,
        exit,
        fails: _,
        hosts: _,
        reason: _,
        stderr,
        stdout,
        stops,
        within,
    } = expected;
    let mut found = Vec::new();
    found.extend(other("exit", exit.as_ref(), &end.exit_code));
    found.extend(other("stops", stops.as_ref(), &end.stops));
    found.extend(lacking("stdout", stdout.as_ref(), &end.stdout));
    found.extend(lacking("stderr", stderr.as_ref(), &end.stderr));
    if let Some(changes) = changes {
        let made = end
            .changes
            .as_ref()
            .map(|made| made.iter().cloned().collect());
        found.extend(other_set("changes", changes, made));
    }
    if let Some(within) = within
        && Duration::from_millis(end.millis) > within.0
    {
        found.push(Mismatch {
            expected: format!("at most {within}"),
            found: Span(Duration::from_millis(end.millis)).to_string(),
            key: "within",
        });
    }
    found
}

fn of_confinement(expected: &Expected, runs: &Comparison) -> Vec<Mismatch> {
    let end = &runs.confined;
    let mut found = Vec::new();
    match (&end.failure, expected.fails.unwrap_or_default()) {
        (Some(why), false) => found.push(Mismatch {
            expected: "an answer of the hook".to_owned(),
            found: why.trim_start_matches("hookjail: ").to_owned(),
            key: "fails",
        }),
        (None, true) => found.push(Mismatch {
            expected: "a failure".to_owned(),
            found: "an answer of the hook".to_owned(),
            key: "fails",
        }),
        (Some(_), true) | (None, false) => {}
    }
    found.extend(other("decision", expected.decision.as_ref(), &end.decision));
    found.extend(lacking("reason", expected.reason.as_ref(), &end.reason));
    if let Some(hosts) = &expected.hosts {
        found.extend(other_set("hosts", hosts, runs.hosts.clone()));
    }
    if let Some(parts) = &expected.denials {
        let refused = runs.refused.iter().flatten().map(|it| &it.words);
        let all: BTreeSet<_> = runs.denied.iter().chain(refused).collect();
        let new = all
            .iter()
            .filter(|it| !parts.iter().any(|part| it.contains(part)));
        found.extend(new.map(|it| Mismatch {
            expected: "no such denial".to_owned(),
            found: (**it).clone(),
            key: "denials",
        }));
        let missing = parts
            .iter()
            .filter(|part| !all.iter().any(|it| it.contains(*part)));
        found.extend(missing.map(|part| Mismatch {
            expected: part.clone(),
            found: "no such denial".to_owned(),
            key: "denials",
        }));
    }
    found
}

/// Compares a value.
fn other<T: PartialEq + ToString>(
    key: &'static str,
    expected: Option<&T>,
    found: &T,
) -> Option<Mismatch> {
    let expected = expected.filter(|expected| *expected != found)?;
    Some(Mismatch {
        expected: expected.to_string(),
        found: found.to_string(),
        key,
    })
}

/// Compares a text with a part that it should have.
fn lacking(key: &'static str, part: Option<&String>, text: &str) -> Option<Mismatch> {
    let part = part.filter(|part| !text.contains(*part))?;
    Some(Mismatch {
        // Several lines are compared line by line.
        expected: match part.contains('\n') {
            true => part.clone(),
            false => format!("…{part}…"),
        },
        found: text.trim_end().to_owned(),
        key,
    })
}

/// Compares sets. Returns a line for each element of one alone.
fn other_set(
    key: &'static str,
    expected: &BTreeSet<String>,
    found: Option<BTreeSet<String>>,
) -> Vec<Mismatch> {
    let Some(found) = found else {
        return vec![Mismatch {
            expected: format!("{} known ones", expected.len()),
            found: "not observed".to_owned(),
            key,
        }];
    };
    let missing = expected.difference(&found).map(|it| (it.clone(), "none"));
    let new = found
        .difference(expected)
        .map(|it| ("none".to_owned(), &**it));
    let all = missing.chain(new);
    all.map(|(expected, found)| Mismatch {
        expected,
        found: found.to_owned(),
        key,
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::rehearse::RefusedUse;

    fn runs() -> Comparison {
        let end = RunEnd {
            changes: Some(vec!["A new".to_owned()]),
            decision: "deny".to_owned(),
            exit_code: 2,
            millis: 20,
            reason: "no rm here".to_owned(),
            stderr: "no rm here\n".to_owned(),
            stops: true,
            ..RunEnd::default()
        };
        Comparison {
            bare: None,
            confined: end,
            denied: vec!["connect a.example:443: not in `egress`".to_owned()],
            hosts: Some(["b.example:443".to_owned()].into()),
            leaves: Vec::new(),
            refused: Some(vec![RefusedUse {
                is_read_only: true,
                words: "read /home/you/.netrc".to_owned(),
            }]),
        }
    }

    fn judged(expected: &str) -> Vec<(&'static str, String, String)> {
        let expected: Expected = toml::from_str(expected).unwrap();
        let found = mismatches(&expected, &runs(), Kind::Confined);
        let found = found.into_iter().map(|it| (it.key, it.expected, it.found));
        found.collect()
    }

    #[test]
    fn a_run_as_expected_has_no_mismatch() {
        for expected in [
            "",
            "decision = \"deny\"\nreason = \"no rm\"\nexit = 2\nstderr = \"rm here\"\nstdout = \"\"\nstops = true\nwithin = \"20ms\"",
            "changes = [\"A new\"]\nhosts = [\"b.example:443\"]\ndenials = [\"a.example\", \".netrc\"]",
        ] {
            assert_eq!(judged(expected), [], "{expected}");
        }
    }

    #[test]
    fn each_expectation_that_is_not_met_is_named() {
        for (expected, key, wanted, found) in [
            ("decision = \"none\"", "decision", "none", "deny"),
            ("reason = \"push\"", "reason", "…push…", "no rm here"),
            ("exit = 0", "exit", "0", "2"),
            ("stderr = \"push\"", "stderr", "…push…", "no rm here"),
            ("stdout = \"x\"", "stdout", "…x…", ""),
            ("stops = false", "stops", "false", "true"),
            ("within = \"19ms\"", "within", "at most 19ms", "20ms"),
            (
                "fails = true",
                "fails",
                "a failure",
                "an answer of the hook",
            ),
            ("changes = []", "changes", "none", "A new"),
            (
                "changes = [\"A new\", \"D old\"]",
                "changes",
                "D old",
                "none",
            ),
            ("hosts = []", "hosts", "none", "b.example:443"),
            (
                "denials = [\"a.example\"]",
                "denials",
                "no such denial",
                "read /home/you/.netrc",
            ),
            (
                "denials = [\"a.example\", \".netrc\", \"/proc\"]",
                "denials",
                "/proc",
                "no such denial",
            ),
        ] {
            let expected_line = (key, wanted.to_owned(), found.to_owned());
            assert_eq!(judged(expected), [expected_line], "{expected}");
        }
        let mut failed = runs();
        failed.confined.failure = Some("hookjail: the run crashed".to_owned());
        let found = mismatches(&Expected::default(), &failed, Kind::Confined);
        assert_eq!(
            (found[0].key, &*found[0].found),
            ("fails", "the run crashed")
        );
        let fails = Expected {
            fails: Some(true),
            ..Expected::default()
        };
        assert_eq!(mismatches(&fails, &failed, Kind::Confined), []);
    }
}
