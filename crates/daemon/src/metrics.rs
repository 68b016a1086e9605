//! Counts what a daemon does, and renders the counts for Prometheus.
//!
//! Recording is on the path of every call. Each costs atomics, and for the labels of a run and of a refusal a lookup under a
//! read lock. A caller waits for the lock only while another one adds a combination that is new.
//!
//! Label values are names of this crate's enums and of profiles that the operator configured, so no caller can add one.

use std::time::{Duration, SystemTime};

use prometheus::{
    Counter, Gauge, Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, IntGaugeVec,
    Opts, Registry, TextEncoder, core::Collector,
};

use hookjail_base::{
    model::axis::{Axes, Axis, Coverage},
    refusal::Reason,
};
use hookjail_contract::Decision;

use hookjail_journal::{record::Usage, writer::Tally};
use hookjail_sandbox::{Connections, WaitingLevels};

use crate::summary::RunSummary;

/// A failure to register or to render.
pub(crate) type MetricsError = prometheus::Error;

/// The decisions of a dispatch.
const DECISIONS: [Decision; 5] = [
    Decision::Allow,
    Decision::Ask,
    Decision::Block,
    Decision::Deny,
    Decision::None,
];

/// The axis of denials that no axis covers.
const OTHER: &str = "other";

/// Bounds of times that are microseconds without a queue, seconds.
const SHORT: [f64; 13] = [
    0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.1, 0.5, 1.0, 10.0, 60.0,
];

/// Bounds of what hooks take, seconds.
const LONG: [f64; 13] = [
    0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 10.0, 60.0, 600.0,
];

/// Outcome of notices.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum NoticeOutcome {
    /// The program could not be started, failed, or took too long.
    Failed,
    /// A limit was reached.
    Limited,
    /// The program ended well.
    Shown,
    /// There is no program.
    Unserved,
}

impl NoticeOutcome {
    const ALL: [Self; 4] = [Self::Failed, Self::Limited, Self::Shown, Self::Unserved];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Limited => "limited",
            Self::Shown => "shown",
            Self::Unserved => "unserved",
        }
    }
}

/// Outcomes of connections to named hosts. Of a run with more than some thousand the rest is `unknown`.
const ALLOWED: &str = "allowed";
const DENIED: &str = "denied";
const FAILED: &str = "failed";
const UNKNOWN: &str = "unknown";
const EGRESS_OUTCOMES: [&str; 4] = [ALLOWED, DENIED, FAILED, UNKNOWN];

/// Directions of their bytes.
const SENT: &str = "sent";
const RECEIVED: &str = "received";

/// The counts of a daemon since its start.
#[derive(Debug)]
pub(crate) struct Metrics {
    axes: Axes<AxisCounters>,
    denials_of_no_axis: IntCounter,
    dispatches: IntCounterVec,
    egress_bytes: IntCounterVec,
    egress_connections: IntCounterVec,
    faults: IntCounter,
    loaded: IntGauge,
    loaded_last: IntGauge,
    policy: IntGaugeVec,
    notices: IntCounterVec,
    profiles: IntGaugeVec,
    queue: Histogram,
    refusals: IntCounterVec,
    registry: Registry,
    reload_failures: IntCounter,
    run: Histogram,
    runs: IntCounterVec,
    setup: Histogram,
    spans_dropped: IntCounter,
    unconfined: IntCounter,
}

/// The counts of one axis.
#[derive(Debug)]
struct AxisCounters {
    degraded: IntCounter,
    denials: IntCounter,
    enforced: IntCounter,
    ignored: IntCounter,
}

/// The measures of the state's disk; `None` where one cannot be taken in time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DiskLevels {
    /// The time of the oldest record, Unix seconds.
    pub(crate) oldest_record: Option<f64>,
    /// The space that the daemon may still use, bytes.
    pub(crate) state_free: Option<u64>,
}

/// Values that are read of the daemon at the time of a scrape.
#[derive(Debug)]
pub(crate) struct Levels<'a> {
    /// The measures of the state's disk.
    pub(crate) disk: DiskLevels,
    /// The journal's counts.
    pub(crate) journal: &'a Tally,
    /// Whether the journal can be written.
    pub(crate) journal_writable: bool,
    /// Whether hooks can run.
    pub(crate) is_serving: bool,
    /// Open questions to the operator.
    pub(crate) questions: usize,
    /// Requests that wait for a place.
    pub(crate) queued: usize,
    /// Places that are taken.
    pub(crate) running: usize,
    /// Processes that wait for runs, runs that began in one, and those that were discarded.
    pub(crate) waiting: WaitingLevels,
}

impl Metrics {
    /// Starts to count.
    ///
    /// # Errors
    ///
    /// Fails where two metrics have one name.
    pub(crate) fn new() -> Result<Self, MetricsError> {
        let registry = Registry::new();
        let registering = Registering(&registry);
        let coverage = registering.counters(
            "run_axes",
            "Axes of ended runs, by what the backend did about them.",
            &["axis", "coverage"],
        )?;
        let denials = registering.counters(
            "denials",
            "Syscalls that hooks were denied, but for those that C libraries make on their own.",
            &["axis"],
        )?;
        let dispatches =
            registering.counters("dispatches", "Dispatches, by decision.", &["decision"])?;
        for decision in DECISIONS {
            dispatches.with_label_values(&[decision.as_str()]);
        }
        let egress_bytes = registering.counters(
            "egress_bytes",
            "Bytes of hooks' connections to named hosts, by direction.",
            &["direction"],
        )?;
        for direction in [SENT, RECEIVED] {
            egress_bytes.with_label_values(&[direction]);
        }
        let egress_connections = registering.counters(
            "egress_connections",
            "Connections of hooks to named hosts, and attempts, by outcome.",
            &["outcome"],
        )?;
        for outcome in EGRESS_OUTCOMES {
            egress_connections.with_label_values(&[outcome]);
        }
        let notices =
            registering.counters("notices", "Notices of hooks, by outcome.", &["outcome"])?;
        for outcome in NoticeOutcome::ALL {
            notices.with_label_values(&[outcome.as_str()]);
        }
        let refusals =
            registering.counters("refusals", "Refused requests, by reason.", &["reason"])?;
        for reason in Reason::ALL {
            refusals.with_label_values(&[reason.as_str()]);
        }
        let profiles = registering.gauges(
            "profiles",
            "Profiles, by whether a backend confirmed them on this host. Profiles still to be tested after a start are in neither.",
            &["state"],
        )?;
        let build = registering.gauges("build_info", "The version of the daemon.", &["version"])?;
        build.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        registering
            .gauge(
                "start_time_seconds",
                "When the daemon started, Unix seconds.",
            )?
            .set(now());
        Ok(Self {
            axes: Axes::from_fn(|axis| AxisCounters::new(axis, &coverage, &denials)),
            denials_of_no_axis: denials.with_label_values(&[OTHER]),
            dispatches,
            egress_bytes,
            egress_connections,
            faults: registering.counter("faults", "Requests at which hookjail itself failed.")?,
            loaded: registering.gauge(
                "last_reload_timestamp_seconds",
                "When the configuration in force was loaded, Unix seconds.",
            )?,
            loaded_last: registering.gauge(
                "last_reload_successful",
                "Whether the last reload took effect. While 0, an older configuration is in force.",
            )?,
            notices,
            policy: registering.gauges(
                "policy_info",
                "The version of the administrator's files in force.",
                &["version"],
            )?,
            profiles,
            queue: registering.histogram(
                "queue_seconds",
                "Time of runs in the queue, with the time of questions to the operator.",
                &SHORT,
            )?,
            refusals,
            reload_failures: registering
                .counter("reload_failures", "Reloads that were refused.")?,
            run: registering.histogram(
                "run_seconds",
                "Time of hooks from release to end.",
                &LONG,
            )?,
            runs: registering.counters(
                "runs",
                "Runs that ended, by contract, outcome and profile.",
                &["contract", "outcome", "profile"],
            )?,
            setup: registering.histogram(
                "setup_seconds",
                "Time of runs from arrival to release, without that in the queue.",
                &SHORT,
            )?,
            spans_dropped: registering.counter(
                "spans_dropped",
                "Spans that no collector took, as it was away or behind, or rejected them.",
            )?,
            unconfined: registering.counter("unconfined_runs", "Runs that nothing confined.")?,
            registry,
        })
    }

    /// Counts a run that ended, with the backend's treatment of each axis, and how often each axis denied a call.
    pub(crate) fn ended(
        &self,
        summary: &RunSummary,
        axes: &Axes<Coverage>,
        denials: impl Iterator<Item = (Option<Axis>, u64)>,
    ) {
        let labels = [
            summary.contract.facts().contract,
            &summary.outcome.to_string(),
            summary.profile.as_str(),
        ];
        self.runs.with_label_values(&labels).inc();
        self.unconfined.inc_by(summary.is_unconfined.into());
        let Usage {
            queue_us, setup_us, ..
        } = summary.usage;
        let seconds = |micros| Duration::from_micros(micros).as_secs_f64();
        self.queue.observe(seconds(queue_us));
        self.setup.observe(seconds(setup_us));
        self.run.observe(summary.run_time().as_secs_f64());
        for (axis, coverage) in axes.iter() {
            let counters = self.axes.get(axis);
            let counter = match coverage {
                Coverage::Degraded { .. } => &counters.degraded,
                Coverage::Enforced { .. } => &counters.enforced,
                Coverage::Ignored => &counters.ignored,
            };
            counter.inc();
        }
        for (axis, times) in denials {
            let of_axis = axis.map(|axis| &self.axes.get(axis).denials);
            of_axis.unwrap_or(&self.denials_of_no_axis).inc_by(times);
        }
    }

    /// Counts the connections of a run.
    pub(crate) fn connected(&self, connections: &Connections) {
        let counts = connections.counts();
        let outcomes = [
            (ALLOWED, counts.allowed),
            (DENIED, counts.denied),
            (FAILED, counts.failed),
        ];
        for (outcome, count) in outcomes {
            let counter = self.egress_connections.with_label_values(&[outcome]);
            counter.inc_by(count);
        }
        for (direction, bytes) in [(SENT, counts.sent), (RECEIVED, counts.received)] {
            let counter = self.egress_bytes.with_label_values(&[direction]);
            counter.inc_by(bytes);
        }
        self.egress_connections
            .with_label_values(&[UNKNOWN])
            .inc_by(connections.more);
    }

    /// Counts refusals of one reason.
    pub(crate) fn refused(&self, reason: Reason, times: u64) {
        let counter = self.refusals.with_label_values(&[reason.as_str()]);
        counter.inc_by(times);
    }

    /// Counts a request at which hookjail failed.
    pub(crate) fn failed(&self) {
        self.faults.inc();
    }

    /// Counts notices.
    pub(crate) fn notices(&self, outcome: NoticeOutcome, count: u64) {
        let counter = self.notices.with_label_values(&[outcome.as_str()]);
        counter.inc_by(count);
    }

    /// Counts spans that are not exported.
    pub(crate) fn spans_dropped(&self, spans: usize) {
        self.spans_dropped.inc_by(spans as u64);
    }

    /// Returns how many spans are not exported.
    pub(crate) fn dropped_spans(&self) -> u64 {
        self.spans_dropped.get()
    }

    /// Counts an answered dispatch.
    pub(crate) fn dispatched(&self, decision: Decision) {
        self.dispatches
            .with_label_values(&[decision.as_str()])
            .inc();
    }

    /// Takes note of a configuration that is in force from now on, with the version of the administrator's files.
    pub(crate) fn loaded(&self, policy_version: Option<&str>) {
        self.loaded.set(now());
        self.loaded_last.set(1);
        self.policy.reset();
        if let Some(version) = policy_version {
            self.policy.with_label_values(&[version]).set(1);
        }
    }

    /// Sets how many profiles were tested, and how many of these no backend serves.
    pub(crate) fn surveyed(&self, tested: usize, unconfirmed: usize) {
        let states = [
            ("confirmed", tested.saturating_sub(unconfirmed)),
            ("unconfirmed", unconfirmed),
        ];
        for (state, count) in states {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            self.profiles.with_label_values(&[state]).set(count);
        }
    }

    /// Counts a refused reload.
    pub(crate) fn not_loaded(&self) {
        self.reload_failures.inc();
        self.loaded_last.set(0);
    }

    /// Renders everything in Prometheus's text format.
    ///
    /// # Errors
    ///
    /// Fails where a metric has no valid name.
    pub(crate) fn text(&self, levels: &Levels<'_>) -> Result<String, MetricsError> {
        let mut families = self.registry.gather();
        for level in levels.collectors()? {
            families.extend(level.collect());
        }
        families.sort_by(|one, other| one.name().cmp(other.name()));
        TextEncoder::new().encode_to_string(&families)
    }
}

impl AxisCounters {
    fn new(axis: Axis, coverage: &IntCounterVec, denials: &IntCounterVec) -> Self {
        let covered = |as_what| coverage.with_label_values(&[axis.name(), as_what]);
        Self {
            degraded: covered("degraded"),
            denials: denials.with_label_values(&[axis.name()]),
            enforced: covered("enforced"),
            ignored: covered("ignored"),
        }
    }
}

impl Levels<'_> {
    /// Returns metrics with these values. They are in no registry, so scrapes at the same time do not meet in them.
    fn collectors(&self) -> Result<Vec<Box<dyn Collector>>, MetricsError> {
        let count = |name, help, value: u64| {
            let counter = IntCounter::with_opts(opts(&format!("{name}_total"), help))?;
            counter.inc_by(value);
            Ok::<_, MetricsError>(Box::new(counter) as Box<dyn Collector>)
        };
        let seconds = |name, help, value: f64| {
            let counter = Counter::with_opts(opts(&format!("{name}_total"), help))?;
            counter.inc_by(value);
            Ok::<_, MetricsError>(Box::new(counter) as Box<dyn Collector>)
        };
        let level = |name, help, value: f64| {
            let gauge = Gauge::with_opts(opts(name, help))?;
            gauge.set(value);
            Ok::<_, MetricsError>(Box::new(gauge) as Box<dyn Collector>)
        };
        let journal = self.journal;
        let oldest = self.disk.oldest_record.map(|time| {
            level(
                "journal_oldest_record_timestamp_seconds",
                "The time of the oldest record that is kept, Unix seconds.",
                time,
            )
        });
        let free = self.disk.state_free.map(|bytes| {
            level(
                "state_free_bytes",
                "The space on the disk of the state that the daemon may still use.",
                precise(bytes),
            )
        });
        let mut collectors = vec![
            count(
                "journal_records",
                "Records that were written to the journal.",
                journal.written(),
            )?,
            count(
                "journal_failures",
                "Failed attempts to write a record to the journal.",
                journal.failures(),
            )?,
            level(
                "journal_last_failure_timestamp_seconds",
                "When a record last could not be written, Unix seconds, or 0 for never.",
                precise(journal.last_failure()),
            )?,
            level(
                "journal_writable",
                "Whether the journal can be written. While 0, no hook runs.",
                f64::from(u8::from(self.journal_writable)),
            )?,
            level(
                "pending_questions",
                "Open questions to the operator.",
                precise(self.questions as u64),
            )?,
            level(
                "queued_requests",
                "Requests that wait for a place.",
                precise(self.queued as u64),
            )?,
            level(
                "runs_in_flight",
                "Places that are taken: hooks that run, are set up or just ended.",
                precise(self.running as u64),
            )?,
            level(
                "serving",
                "Whether hooks can run: records can be written, hooks started, and a profile is confirmed.",
                f64::from(u8::from(self.is_serving)),
            )?,
            level(
                "waiting_processes",
                "Processes that wait for runs, as profiles with `warm` have them.",
                precise(self.waiting.processes as u64),
            )?,
            count(
                "waiting_processes_runs",
                "Runs that began in a process that waited.",
                self.waiting.runs,
            )?,
            seconds(
                "waiting_processes_saved_seconds",
                "Time that the starts of these processes took, before their runs.",
                self.waiting.saved.as_secs_f64(),
            )?,
            count(
                "warm_discarded",
                "Waiting processes that were discarded unused: others needed their place or resources, or they waited too long.",
                self.waiting.discarded,
            )?,
        ];
        for collector in oldest.into_iter().chain(free) {
            collectors.push(collector?);
        }
        Ok(collectors)
    }
}

/// Makes metrics in a registry.
struct Registering<'a>(&'a Registry);

impl Registering<'_> {
    fn counter(&self, name: &str, help: &str) -> Result<IntCounter, MetricsError> {
        self.register(IntCounter::with_opts(opts(&format!("{name}_total"), help)))
    }

    fn counters(
        &self,
        name: &str,
        help: &str,
        labels: &[&str],
    ) -> Result<IntCounterVec, MetricsError> {
        let opts = opts(&format!("{name}_total"), help);
        self.register(IntCounterVec::new(opts, labels))
    }

    fn gauge(&self, name: &str, help: &str) -> Result<IntGauge, MetricsError> {
        self.register(IntGauge::with_opts(opts(name, help)))
    }

    fn gauges(&self, name: &str, help: &str, labels: &[&str]) -> Result<IntGaugeVec, MetricsError> {
        self.register(IntGaugeVec::new(opts(name, help), labels))
    }

    fn histogram(&self, name: &str, help: &str, bounds: &[f64]) -> Result<Histogram, MetricsError> {
        let opts = HistogramOpts::from(opts(name, help)).buckets(bounds.to_vec());
        self.register(Histogram::with_opts(opts))
    }

    fn register<C>(&self, made: Result<C, MetricsError>) -> Result<C, MetricsError>
    where
        C: Clone + Collector + 'static,
    {
        let made = made?;
        self.0.register(Box::new(made.clone()))?;
        Ok(made)
    }
}

fn opts(name: &str, help: &str) -> Opts {
    Opts::new(format!("hookjail_{name}"), help)
}

/// Returns the time, Unix seconds.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
    })
}

/// Returns a count as samples have it.
#[expect(
    clippy::cast_precision_loss,
    reason = "counts and times lie far below 2^53"
)]
const fn precise(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use hookjail_sandbox::{Connection, ConnectionEnd};

    use hookjail_journal::record::OutcomeKind;

    use super::*;
    use crate::doc_tests::assert_section;

    /// Renders with nothing at work, without comments.
    fn samples(metrics: &Metrics) -> Vec<String> {
        let text = metrics.text(&Levels {
            disk: DiskLevels {
                oldest_record: Some(7.0),
                state_free: Some(8),
            },
            journal: &Tally::default(),
            is_serving: true,
            journal_writable: true,
            questions: 2,
            queued: 3,
            running: 4,
            waiting: WaitingLevels {
                discarded: 7,
                processes: 5,
                runs: 6,
                saved: Duration::from_millis(1500),
            },
        });
        let text = text.unwrap();
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        samples.map(str::to_owned).collect()
    }

    fn count(metrics: &Metrics, outcome: OutcomeKind, profile: &str, milliseconds: u64) {
        let enforced = Coverage::Enforced { by: "x" };
        let degraded = Coverage::Degraded { by: "x", gap: "y" };
        let axes = Axes {
            cpu: degraded,
            memory: Coverage::Ignored,
            ..Axes::from_fn(|_| enforced.clone())
        };
        let summary = RunSummary::for_test(profile, outcome, Duration::from_millis(milliseconds));
        let denials = [(Some(Axis::Spawn), 3), (None, 1)];
        metrics.ended(&summary, &axes, denials.into_iter());
    }

    #[test]
    fn connections_are_counted_by_outcome_and_their_bytes_by_direction() {
        let metrics = Metrics::new().unwrap();
        let connection = |end| Connection {
            address: None,
            end,
            destination: "a.example:443".parse().unwrap(),
            millis: 1,
            received: 20,
            secrets: Vec::new(),
            sent: 10,
        };
        let ends = [
            ConnectionEnd::Done,
            ConnectionEnd::Denied(String::new()),
            ConnectionEnd::Unlisted,
            ConnectionEnd::Failed(String::new()),
        ];
        metrics.connected(&Connections {
            described: ends.map(connection).into(),
            more: 5,
        });
        let samples = samples(&metrics);
        for expected in [
            "connections_total{outcome=\"allowed\"} 1",
            "connections_total{outcome=\"denied\"} 2",
            "connections_total{outcome=\"failed\"} 1",
            "connections_total{outcome=\"unknown\"} 5",
            "bytes_total{direction=\"sent\"} 40",
            "bytes_total{direction=\"received\"} 80",
        ] {
            let expected = format!("hookjail_egress_{expected}");
            assert!(samples.contains(&expected), "{expected}: {samples:#?}");
        }
    }

    #[test]
    fn every_value_of_a_closed_label_is_there_from_the_start_and_no_run() {
        let samples = samples(&Metrics::new().unwrap());

        let count_of = |name: &str| {
            let begins = format!("hookjail_{name}{{");
            let found = samples.iter().filter(|it| it.starts_with(&begins));
            found.count()
        };
        assert_eq!(count_of("refusals_total"), Reason::ALL.len());
        assert_eq!(count_of("dispatches_total"), DECISIONS.len());
        assert_eq!(count_of("denials_total"), Axis::ALL.len() + 1);
        assert_eq!(count_of("run_axes_total"), 3 * Axis::ALL.len());
        assert_eq!(count_of("runs_total"), 0);
        let build = format!(
            "hookjail_build_info{{version=\"{}\"}} 1",
            env!("CARGO_PKG_VERSION")
        );
        for expected in [
            build.as_str(),
            "hookjail_faults_total 0",
            "hookjail_journal_oldest_record_timestamp_seconds 7",
            "hookjail_journal_writable 1",
            "hookjail_pending_questions 2",
            "hookjail_queued_requests 3",
            "hookjail_runs_in_flight 4",
            "hookjail_serving 1",
            "hookjail_state_free_bytes 8",
            "hookjail_waiting_processes 5",
            "hookjail_waiting_processes_runs_total 6",
            "hookjail_waiting_processes_saved_seconds_total 1.5",
            "hookjail_warm_discarded_total 7",
            "hookjail_run_seconds_bucket{le=\"+Inf\"} 0",
        ] {
            assert!(
                samples.iter().any(|it| it == expected),
                "{expected}: {samples:#?}"
            );
        }
    }

    #[test]
    fn what_is_recorded_is_rendered_and_nothing_else_changes() {
        let metrics = Metrics::new().unwrap();
        let before = samples(&metrics);
        count(&metrics, OutcomeKind::Exited, "strict", 3);
        count(&metrics, OutcomeKind::Exited, "strict", 400);
        count(&metrics, OutcomeKind::TimedOut, "open", 61_000);
        metrics.refused(Reason::Overloaded, 1);
        metrics.refused(Reason::PeerNotAllowed, 7);
        metrics.failed();
        metrics.dispatched(Decision::Ask);
        metrics.not_loaded();
        metrics.loaded(Some("12"));
        metrics.surveyed(9, 2);

        let after = samples(&metrics);

        let changed = after.iter().filter(|it| !before.contains(it));
        let changed = changed.filter(|it| !it.contains("_axes_") && !it.contains("_timestamp_"));
        let changed: Vec<_> = changed.map(String::as_str).collect();
        assert_eq!(
            changed.join("\n"),
            "\
hookjail_denials_total{axis=\"other\"} 3
hookjail_denials_total{axis=\"spawn\"} 9
hookjail_dispatches_total{decision=\"ASK\"} 1
hookjail_faults_total 1
hookjail_last_reload_successful 1
hookjail_policy_info{version=\"12\"} 1
hookjail_profiles{state=\"confirmed\"} 7
hookjail_profiles{state=\"unconfirmed\"} 2
hookjail_queue_seconds_bucket{le=\"0.0001\"} 3
hookjail_queue_seconds_bucket{le=\"0.00025\"} 3
hookjail_queue_seconds_bucket{le=\"0.0005\"} 3
hookjail_queue_seconds_bucket{le=\"0.001\"} 3
hookjail_queue_seconds_bucket{le=\"0.0025\"} 3
hookjail_queue_seconds_bucket{le=\"0.005\"} 3
hookjail_queue_seconds_bucket{le=\"0.01\"} 3
hookjail_queue_seconds_bucket{le=\"0.025\"} 3
hookjail_queue_seconds_bucket{le=\"0.1\"} 3
hookjail_queue_seconds_bucket{le=\"0.5\"} 3
hookjail_queue_seconds_bucket{le=\"1\"} 3
hookjail_queue_seconds_bucket{le=\"10\"} 3
hookjail_queue_seconds_bucket{le=\"60\"} 3
hookjail_queue_seconds_bucket{le=\"+Inf\"} 3
hookjail_queue_seconds_count 3
hookjail_refusals_total{reason=\"OVERLOADED\"} 1
hookjail_refusals_total{reason=\"PEER_NOT_ALLOWED\"} 7
hookjail_reload_failures_total 1
hookjail_run_seconds_bucket{le=\"0.005\"} 1
hookjail_run_seconds_bucket{le=\"0.01\"} 1
hookjail_run_seconds_bucket{le=\"0.025\"} 1
hookjail_run_seconds_bucket{le=\"0.05\"} 1
hookjail_run_seconds_bucket{le=\"0.1\"} 1
hookjail_run_seconds_bucket{le=\"0.25\"} 1
hookjail_run_seconds_bucket{le=\"1\"} 2
hookjail_run_seconds_bucket{le=\"5\"} 2
hookjail_run_seconds_bucket{le=\"10\"} 2
hookjail_run_seconds_bucket{le=\"60\"} 2
hookjail_run_seconds_bucket{le=\"600\"} 3
hookjail_run_seconds_bucket{le=\"+Inf\"} 3
hookjail_run_seconds_sum 61.403
hookjail_run_seconds_count 3
hookjail_runs_total{contract=\"reyn\",outcome=\"exited\",profile=\"strict\"} 2
hookjail_runs_total{contract=\"reyn\",outcome=\"timed_out\",profile=\"open\"} 1
hookjail_setup_seconds_bucket{le=\"0.00025\"} 3
hookjail_setup_seconds_bucket{le=\"0.0005\"} 3
hookjail_setup_seconds_bucket{le=\"0.001\"} 3
hookjail_setup_seconds_bucket{le=\"0.0025\"} 3
hookjail_setup_seconds_bucket{le=\"0.005\"} 3
hookjail_setup_seconds_bucket{le=\"0.01\"} 3
hookjail_setup_seconds_bucket{le=\"0.025\"} 3
hookjail_setup_seconds_bucket{le=\"0.1\"} 3
hookjail_setup_seconds_bucket{le=\"0.5\"} 3
hookjail_setup_seconds_bucket{le=\"1\"} 3
hookjail_setup_seconds_bucket{le=\"10\"} 3
hookjail_setup_seconds_bucket{le=\"60\"} 3
hookjail_setup_seconds_bucket{le=\"+Inf\"} 3
hookjail_setup_seconds_sum 0.0006000000000000001
hookjail_setup_seconds_count 3
hookjail_unconfined_runs_total 1"
        );
        let axes = |line: &str| after.iter().any(|it| it == line);
        assert!(axes(
            "hookjail_run_axes_total{axis=\"cpu\",coverage=\"degraded\"} 3"
        ));
        assert!(axes(
            "hookjail_run_axes_total{axis=\"memory\",coverage=\"ignored\"} 3"
        ));
        assert!(axes(
            "hookjail_run_axes_total{axis=\"read\",coverage=\"enforced\"} 3"
        ));
        assert!(axes(
            "hookjail_run_axes_total{axis=\"read\",coverage=\"degraded\"} 0"
        ));
    }

    #[test]
    fn each_metric_is_explained_once_and_named_as_its_type_is() {
        let metrics = Metrics::new().unwrap();
        count(&metrics, OutcomeKind::Exited, "strict", 1);
        metrics.loaded(Some("12"));
        metrics.surveyed(1, 0);
        let text = metrics.text(&Levels {
            disk: DiskLevels {
                oldest_record: Some(7.0),
                state_free: Some(8),
            },
            journal: &Tally::default(),
            is_serving: false,
            journal_writable: false,
            questions: 0,
            queued: 0,
            running: 0,
            waiting: WaitingLevels::default(),
        });
        let text = text.unwrap();
        let comments = |kind| {
            let begins = format!("# {kind} ");
            let found = text
                .lines()
                .filter_map(|line| line.strip_prefix(&*begins).map(str::to_owned));
            found.collect::<Vec<_>>()
        };
        let mut names = Vec::new();
        for line in comments("TYPE") {
            let (name, kind) = line.split_once(' ').unwrap();
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            assert!(name.starts_with("hookjail_"), "{line}");
            names.push(name.to_owned());
        }
        let helps = comments("HELP");
        let helped: Vec<_> = helps
            .iter()
            .map(|line| line.split(' ').next().unwrap())
            .collect();
        assert_eq!(helped, names);
        let mut sorted = names.clone();
        sorted.sort();
        sorted.dedup();
        assert_eq!(names, sorted);
        assert!(helps.iter().all(|line| line.ends_with('.')), "{helps:#?}");
    }

    /// Renders the table of `docs/operations.md`.
    fn table(text: &str) -> String {
        let mut table = "| metric | type | meaning |\n|---|---|---|\n".to_owned();
        let lines: Vec<_> = text.lines().collect();
        for (index, line) in lines.iter().enumerate() {
            let Some(line) = line.strip_prefix("# HELP ") else {
                continue;
            };
            let (name, help) = line.split_once(' ').unwrap();
            let (_, kind) = lines[index + 1].rsplit_once(' ').unwrap();
            let sample = lines[index + 2].split_once('{').unwrap_or_default().1;
            let labels = sample
                .split("=\"")
                .filter_map(|it| it.rsplit(['"', ',']).next());
            let labels: Vec<_> = labels
                .filter(|label| !label.is_empty() && label.bytes().all(|c| c.is_ascii_lowercase()))
                .filter(|label| *label != "le")
                .collect();
            let labels = match labels.join(", ") {
                none if none.is_empty() => none,
                labels => format!("{{{labels}}}"),
            };
            table += &format!("| `{name}{labels}` | {kind} | {help} |\n");
        }
        table
    }

    #[test]
    fn the_table_in_the_docs_has_each_metric() {
        let metrics = Metrics::new().unwrap();
        count(&metrics, OutcomeKind::Exited, "strict", 1);
        metrics.loaded(Some("12"));
        metrics.surveyed(1, 0);
        let text = metrics.text(&Levels {
            disk: DiskLevels {
                oldest_record: Some(7.0),
                state_free: Some(8),
            },
            journal: &Tally::default(),
            is_serving: true,
            journal_writable: true,
            questions: 0,
            queued: 0,
            running: 0,
            waiting: WaitingLevels::default(),
        });
        assert_section("operations", "metrics", &table(&text.unwrap()));
    }
}
