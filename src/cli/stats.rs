//! Statistics of records by contract, point, hook or profile: counts, latency, measures.
//!
//! Memory is bounded for any number of records: groups, open runs, measures of a group and words of a measure are
//! limited. Values beyond a limit are counted and reported.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value, json};

use hookjail_journal::{
    query::RecordFields,
    record::{OutcomeKind, VerdictLine},
};

/// The key by which records are grouped.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::cli) enum GroupBy {
    /// The contract.
    Contract,
    /// The hook's name.
    Hook,
    /// The lifecycle point.
    Point,
    /// The profile.
    Profile,
}

impl GroupBy {
    /// Every key.
    pub(in crate::cli) const ALL: [Self; 4] =
        [Self::Contract, Self::Hook, Self::Point, Self::Profile];

    /// Returns its name.
    pub(in crate::cli) const fn name(self) -> &'static str {
        match self {
            Self::Contract => "contract",
            Self::Hook => "hook",
            Self::Point => "point",
            Self::Profile => "profile",
        }
    }

    /// Returns the key with a name.
    pub(in crate::cli) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|key| key.name() == name)
    }

    fn value<'t>(self, fields: &'t RecordFields<'_>) -> &'t str {
        match self {
            Self::Contract => &fields.contract,
            Self::Hook => &fields.hook,
            Self::Point => &fields.point,
            Self::Profile => fields.profile.as_deref().unwrap_or_default(),
        }
    }
}

/// The most groups.
const MAX_GROUPS: usize = 4096;

/// The most runs that may be open at once and still have their ends found.
const MAX_OPEN_RUNS: usize = 1 << 16;

/// The most measures of a group.
const MAX_MEASURES: usize = 64;

/// The most words of a measure.
const MAX_WORDS: usize = 64;

/// Statistics of a journal's records.
#[derive(Debug)]
pub(in crate::cli) struct Stats {
    by: Vec<GroupBy>,
    groups: BTreeMap<Vec<String>, StatsGroup>,
    /// The groups of runs that have started and not ended.
    open: BTreeMap<String, Vec<String>>,
    /// Ends without a start, which belong to no group.
    pub(in crate::cli) without_start: u64,
    /// Records of groups beyond `MAX_GROUPS`.
    pub(in crate::cli) without_group: u64,
}

impl Stats {
    /// Creates empty statistics.
    pub(in crate::cli) const fn new(keys: Vec<GroupBy>) -> Self {
        Self {
            by: keys,
            groups: BTreeMap::new(),
            open: BTreeMap::new(),
            without_group: 0,
            without_start: 0,
        }
    }

    /// Counts the next record. A record outside the requested range (`counts` is false) only sets its run's group.
    pub(in crate::cli) fn take(&mut self, fields: &RecordFields<'_>, counts: bool) {
        let group_key = || {
            self.by
                .iter()
                .map(|key| key.value(fields).to_owned())
                .collect()
        };
        let key = match &*fields.record {
            "started" => {
                let key = group_key();
                // Ids begin with the time of the run, so the first is the oldest, whose end is the least likely to
                // come.
                if self.open.len() >= MAX_OPEN_RUNS {
                    self.open.pop_first();
                }
                self.open.insert(fields.run_id.clone().into_owned(), key);
                return;
            }
            "ended" | "interrupted" => self.open.remove(&*fields.run_id),
            // The refusal of an announced run has fewer fields than its start.
            "refused" => self
                .open
                .remove(&*fields.run_id)
                .or_else(|| Some(group_key())),
            _ => return,
        };
        if !counts {
            return;
        }
        let Some(key) = key else {
            self.without_start += 1;
            return;
        };
        if self.groups.len() >= MAX_GROUPS && !self.groups.contains_key(&key) {
            self.without_group += 1;
            return;
        }
        self.groups.entry(key).or_default().take(fields);
    }

    /// Returns the groups in order, each with its key.
    pub(in crate::cli) fn groups(&self) -> impl Iterator<Item = (&[String], &StatsGroup)> {
        self.groups.iter().map(|(key, group)| (&**key, group))
    }

    /// Returns a group as JSON.
    pub(in crate::cli) fn json(&self, key: &[String], group: &StatsGroup) -> Map<String, Value> {
        let names = self.by.iter().map(|key| key.name().to_owned());
        let mut members: Map<_, _> = names.zip(key.iter().cloned().map(Value::from)).collect();
        members.extend(
            group
                .counts()
                .map(|(name, count)| (name.to_owned(), json!(count))),
        );
        let latency = &group.latency;
        let micros = json!({
            "median": latency.quantile(50), "p95": latency.quantile(95), "max": latency.max,
        });
        if group.runs > 0 {
            members.insert("latency_us".to_owned(), micros);
        }
        if !group.measures.is_empty() {
            members.insert("measures".to_owned(), json!(group.measures));
        }
        if group.measures_dropped > 0 {
            members.insert("measures_dropped".to_owned(), json!(group.measures_dropped));
        }
        members
    }
}

/// Statistics of a group's records.
#[derive(Debug, Default)]
pub(in crate::cli) struct StatsGroup {
    blocked: u64,
    contexts: u64,
    failed: u64,
    interrupted: u64,
    /// The time of runs from arrival to end, microseconds.
    pub(in crate::cli) latency: Latency,
    /// Measures of hooks, by name.
    pub(in crate::cli) measures: BTreeMap<String, Measure>,
    /// The number of values beyond a limit.
    pub(in crate::cli) measures_dropped: u64,
    refused: u64,
    rewrites: u64,
    runs: u64,
    timed_out: u64,
    warnings: u64,
}

impl StatsGroup {
    /// Returns the counters by name.
    pub(in crate::cli) fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        [
            ("runs", self.runs),
            ("blocked", self.blocked),
            ("warnings", self.warnings),
            ("contexts", self.contexts),
            ("rewrites", self.rewrites),
            ("failed", self.failed),
            ("timed_out", self.timed_out),
            ("refused", self.refused),
            ("interrupted", self.interrupted),
        ]
        .into_iter()
    }

    fn take(&mut self, fields: &RecordFields<'_>) {
        match &*fields.record {
            "interrupted" => self.interrupted += 1,
            "refused" => self.refused += fields.count.unwrap_or(1),
            _ => {
                self.runs += 1;
                self.timed_out += u64::from(fields.outcome == Some(OutcomeKind::TimedOut));
                self.latency
                    .take(fields.usage.map_or(0, |usage| usage.wall_us));
                fields
                    .verdict
                    .iter()
                    .for_each(|verdict| self.take_verdict(verdict));
                for (name, value) in &fields.measures {
                    self.measure(name, value);
                }
            }
        }
    }

    fn take_verdict(&mut self, verdict: &VerdictLine) {
        let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        let rewrites = [
            &verdict.summary_sha256,
            &verdict.updated_input_sha256,
            &verdict.updated_messages_sha256,
            &verdict.updated_output_sha256,
        ];
        self.failed += u64::from(verdict.failed);
        // An observer's verdict has no effect.
        if verdict.only_looked_on {
            return;
        }
        self.blocked += u64::from(matches!(&*verdict.decision, "BLOCK" | "DENY"));
        self.contexts += count(verdict.contexts);
        self.rewrites += count(rewrites.into_iter().flatten().count());
        self.warnings += count(verdict.warnings);
    }

    fn measure(&mut self, name: &str, value: &Value) {
        // Differs in every session, so a count means nothing.
        if name == "correlationId" {
            return;
        }
        let has_room = self.measures.len() < MAX_MEASURES || self.measures.contains_key(name);
        let taken = has_room
            && self
                .measures
                .entry(name.to_owned())
                .or_default()
                .take(value);
        self.measures_dropped += u64::from(!taken);
    }
}

/// Durations of something: the maximum exactly, quantiles to 2 %.
#[derive(Debug, Default)]
pub(in crate::cli) struct Latency {
    count: u64,
    /// The largest.
    pub(in crate::cli) max: u64,
    /// The number of durations in each step.
    steps: BTreeMap<u64, u64>,
}

/// The steps that each doubling is divided into, as a power of two.
const STEP_BITS: u32 = 6;

impl Latency {
    fn take(&mut self, micros: u64) {
        self.count += 1;
        self.max = self.max.max(micros);
        *self.steps.entry(step(micros)).or_default() += 1;
    }

    /// Returns the value that `percent` of the durations do not exceed.
    pub(in crate::cli) fn quantile(&self, percent: u64) -> u64 {
        let wanted = self.count.saturating_mul(percent).div_ceil(100);
        let mut seen = 0;
        for (step, count) in &self.steps {
            seen += count;
            if seen >= wanted {
                return most(*step).min(self.max);
            }
        }
        self.max
    }
}

/// Returns the step in which a number lies.
const fn step(value: u64) -> u64 {
    let bits = u64::BITS - value.leading_zeros();
    let shift = bits.saturating_sub(STEP_BITS + 1);
    ((shift as u64) << (STEP_BITS + 1)) | (value >> shift)
}

/// Returns the largest number of a step.
const fn most(step: u64) -> u64 {
    let shift = step >> (STEP_BITS + 1);
    let value = step & ((1 << (STEP_BITS + 1)) - 1);
    (value << shift) | ((1 << shift) - 1)
}

/// The values of one measure of hooks.
#[derive(Debug, Default, Serialize)]
pub(in crate::cli) struct Measure {
    #[serde(flatten)]
    numbers: Option<Numbers>,
    /// The count of each word.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    words: BTreeMap<String, u64>,
}

/// Statistics of numbers.
#[derive(Clone, Copy, Debug, Serialize)]
struct Numbers {
    count: u64,
    max: f64,
    mean: f64,
    min: f64,
}

impl Measure {
    /// Adds a value; `false` if it is beyond a limit.
    fn take(&mut self, value: &Value) -> bool {
        if let Some(number) = value.as_f64() {
            let numbers = self.numbers.get_or_insert(Numbers {
                count: 0,
                max: number,
                mean: 0.0,
                min: number,
            });
            numbers.take(number);
            return true;
        }
        let Some(word) = value.as_str() else {
            return false;
        };
        let has_room = self.words.len() < MAX_WORDS || self.words.contains_key(word);
        if has_room {
            *self.words.entry(word.to_owned()).or_default() += 1;
        }
        has_room
    }

    /// Describes the measure in words.
    pub(in crate::cli) fn words(&self) -> String {
        let numbers = self.numbers.map(|it| {
            let (times, min, max, mean) = (it.count, it.min, it.max, it.mean);
            format!("{times} times, {min} to {max}, mean {mean:.3}")
        });
        let words = self
            .words
            .iter()
            .map(|(word, count)| format!("{word} {count}"));
        numbers
            .into_iter()
            .chain(words)
            .collect::<Vec<_>>()
            .join(", ")
    }
}

impl Numbers {
    fn take(&mut self, number: f64) {
        self.count += 1;
        self.max = self.max.max(number);
        self.min = self.min.min(number);
        #[expect(
            clippy::cast_precision_loss,
            reason = "no journal has enough records for a mean to suffer"
        )]
        let count = self.count as f64;
        // A sum could overflow to infinity.
        self.mean += number / count - self.mean / count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(keys: &[GroupBy], lines: &[Value]) -> Stats {
        let mut stats = Stats::new(keys.to_vec());
        for (index, line) in lines.iter().enumerate() {
            let mut line = line.clone();
            line["sequence"] = json!(index + 1);
            let line = line.to_string();
            stats.take(&RecordFields::read(line.as_bytes()).unwrap(), true);
        }
        stats
    }

    fn started(run: &str, point: &str) -> Value {
        json!({"record": "started", "run_id": run, "contract": "basecoat", "point": point, "hook": "h", "profile": "strict"})
    }

    fn ended(run: &str, wall: u64, measures: &Value) -> Value {
        json!({
            "record": "ended", "run_id": run, "outcome": "exited", "exit_code": 0, "measures": measures,
            "usage": {"queue_us": 0, "setup_us": 0, "run_us": 0, "wall_us": wall, "user_us": 0, "system_us": 0, "max_rss_bytes": 0},
            "verdict": {
                "decision": "BLOCK", "failed": false, "contexts": 2, "warnings": 1, "updated_input_sha256": "x",
            },
        })
    }

    fn all(stats: &Stats) -> Vec<Value> {
        let groups = stats.groups();
        groups
            .map(|(key, group)| Value::Object(stats.json(key, group)))
            .collect()
    }

    #[test]
    fn runs_are_counted_where_they_started_and_refusals_where_they_belong() {
        let mut late = ended("b", 7, &json!({}));
        late["outcome"] = json!("timed_out");
        late["verdict"] = json!({"decision": "NONE", "failed": true});
        let lines = [
            started("a", "PreToolUse"),
            started("b", "SessionStart"),
            started("c", "SessionStart"),
            ended("a", 5, &json!({})),
            late,
            json!({"record": "interrupted", "run_id": "c"}),
            json!({"record": "refused", "run_id": "d", "reason": "OVERLOADED", "contract": "basecoat", "point": "SessionStart", "count": 3}),
            ended("nobody", 5, &json!({})),
            json!({"record": "torn", "bytes": 3, "text": "x"}),
        ];
        let counted = stats(&[GroupBy::Contract, GroupBy::Point], &lines);
        let expected = [
            json!({
                "contract": "basecoat", "point": "PreToolUse", "runs": 1, "blocked": 1, "warnings": 1, "contexts": 2,
                "rewrites": 1, "failed": 0, "timed_out": 0, "refused": 0, "interrupted": 0,
                "latency_us": {"median": 5, "p95": 5, "max": 5},
            }),
            json!({
                "contract": "basecoat", "point": "SessionStart", "runs": 1, "blocked": 0, "warnings": 0, "contexts": 0,
                "rewrites": 0, "failed": 1, "timed_out": 1, "refused": 3, "interrupted": 1,
                "latency_us": {"median": 7, "p95": 7, "max": 7},
            }),
        ];
        assert_eq!(all(&counted), expected);
        assert_eq!(counted.without_start, 1);
        let by_profile = stats(&[GroupBy::Profile], &lines);
        assert_eq!(all(&by_profile)[1]["profile"], "strict");
    }

    #[test]
    fn what_a_hook_says_that_only_looked_on_is_a_run_and_nothing_else() {
        let mut end = ended("a", 5, &json!({}));
        end["verdict"]["only_looked_on"] = json!(true);
        end["verdict"]["failed"] = json!(true);
        let counted = stats(&[GroupBy::Point], &[started("a", "PreToolUse"), end]);
        let expected = json!({
            "point": "PreToolUse", "runs": 1, "blocked": 0, "warnings": 0, "contexts": 0, "rewrites": 0, "failed": 1,
            "timed_out": 0, "refused": 0, "interrupted": 0, "latency_us": {"median": 5, "p95": 5, "max": 5},
        });
        assert_eq!(all(&counted), [expected]);
    }

    #[test]
    fn measures_are_numbers_and_words_and_bounded() {
        let mut lines = Vec::new();
        for run in 0..200_u64 {
            let name = format!("{run:03}");
            lines.push(started(&name, "PreToolUse"));
            let measures = json!({
                "policyChecks": run, "toolCategory": format!("w{}", run % 100), "correlationId": name, "other": [1],
            });
            lines.push(ended(&name, run, &measures));
        }
        let group = all(&stats(&[GroupBy::Contract], &lines)).remove(0);
        let numbers = &group["measures"]["policyChecks"];
        assert_eq!(
            (&numbers["count"], &numbers["min"], &numbers["max"]),
            (&json!(200), &json!(0.0), &json!(199.0))
        );
        let mean = numbers["mean"].as_f64().unwrap();
        assert!((mean - 99.5).abs() < 1e-9, "{mean}");
        let words = group["measures"]["toolCategory"]["words"]
            .as_object()
            .unwrap();
        assert_eq!((words.len(), &words["w0"]), (MAX_WORDS, &json!(2)));
        // 36 words had no room, twice each, and a list is no measure.
        assert_eq!(group["measures_dropped"], 72 + 200);
        assert_eq!(group["measures"].get("correlationId"), None);
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        let lines: Vec<_> = (0..MAX_GROUPS + 2)
            .map(|group| json!({"record": "refused", "run_id": "", "reason": "x", "hook": format!("h{group}")}))
            .collect();
        let counted = stats(&[GroupBy::Hook], &lines);
        assert_eq!(
            (counted.groups().count(), counted.without_group),
            (MAX_GROUPS, 2)
        );
        let starts: Vec<_> = (0..=MAX_OPEN_RUNS)
            .map(|run| started(&format!("{run:09}"), "x"))
            .collect();
        let mut lines = starts;
        lines.extend([
            ended("000000000", 1, &json!({})),
            ended("000000001", 1, &json!({})),
        ]);
        let counted = stats(&[GroupBy::Point], &lines);
        assert_eq!((counted.without_start, counted.groups().count()), (1, 1));
    }

    #[test]
    fn a_quantile_is_within_two_percent_and_the_largest_is_exact() {
        let mut latency = Latency::default();
        assert_eq!(latency.quantile(50), 0);
        for micros in 1..=100_000 {
            latency.take(micros);
        }
        for (percent, exact) in [(50, 50_000), (95, 95_000), (100, 100_000)] {
            let value = latency.quantile(percent);
            assert!(
                value >= exact && value <= exact + exact * 2 / 100,
                "{percent}: {value}"
            );
        }
        assert_eq!(latency.max, 100_000);
        for value in [0, 1, 63, 64, 65, 1000, u64::MAX] {
            assert!(most(step(value)) >= value);
            assert_eq!(step(most(step(value))), step(value));
        }
    }
}
