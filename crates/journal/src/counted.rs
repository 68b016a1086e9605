//! Counts refusals: of one uid's many, the first have records of their own, and the others share one a second for each reason.

use std::{
    collections::{BTreeMap, HashMap},
    io,
    time::{Duration, Instant},
};

use super::record::{PeerLine, Refused};

/// The refusals of one uid that have records of their own at once.
const AT_ONCE: u32 = 100;

/// The refusals of one uid a second that have records of their own afterwards.
const A_SECOND: u32 = 20;

/// The time in which a uid regains one record of its own.
const REGAINED: Duration = Duration::from_millis(1000 / A_SECOND as u64);

/// The time in which a uid without any regains all of them.
const ALL_REGAINED: Duration = REGAINED.saturating_mul(AT_ONCE);

/// The size of a record that counts as one, bytes. A longer one counts as several.
const COUNTS_AS_ONE_BYTES: usize = 8 * 1024;

/// The time from the first refusal that is only counted to the record with the count.
const WINDOW: Duration = Duration::from_secs(1);

/// Refusals that are counted, and the uids' rates.
#[derive(Debug, Default)]
pub(super) struct Counted {
    /// By uid and reason.
    counts: BTreeMap<(u32, String), u64>,
    /// When the records with the counts are due.
    due: Option<Instant>,
    /// The uids that may not have all records at once.
    rates: HashMap<u32, Rate>,
    /// When rates were last dropped.
    swept: Option<Instant>,
}

/// The rate of one uid's records: the time at which it may have all at once again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Rate(Instant);

/// The kind of record that a refusal has.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum RefusalPlace {
    /// One that it shares with others.
    Counted,
    /// One of its own.
    Own,
}

impl Counted {
    /// Decides whether a refusal has a record of its own, and counts it otherwise.
    ///
    /// `announced`: whether it ends a run whose start is recorded.
    pub(super) fn place(
        &mut self,
        refused: &Refused,
        announced: bool,
        now: Instant,
    ) -> RefusalPlace {
        if !is_countable(refused, announced) {
            return RefusalPlace::Own;
        }
        self.sweep(now);
        let uid = refused.peer.uid;
        let rate = self.rates.entry(uid).or_insert(Rate(now));
        if let Some(rest) = rate.take(cost(size(refused)), now) {
            *rate = rest;
            return RefusalPlace::Own;
        }
        *self
            .counts
            .entry((uid, refused.reason.clone()))
            .or_default() += 1;
        self.due.get_or_insert(now + WINDOW);
        RefusalPlace::Counted
    }

    /// Returns when the records with the counts are due, if there are any.
    pub(super) const fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Takes all counts as records.
    pub(super) fn take(&mut self) -> Vec<Refused> {
        self.due = None;
        let counts = std::mem::take(&mut self.counts);
        let record = |((uid, reason), count)| shared(uid, reason, count);
        counts.into_iter().map(record).collect()
    }

    /// Lets go of the rates of uids that may have all records at once, each second.
    fn sweep(&mut self, now: Instant) {
        let since = self.swept.map(|then| now.saturating_duration_since(then));
        if since.is_none_or(|since| since >= WINDOW) {
            self.swept = Some(now);
            self.rates.retain(|_, Rate(full)| *full > now);
        }
    }
}

impl Rate {
    /// Returns the rate after a record that counts as `cost`; `None` where the uid may not have it now.
    fn take(self, cost: u32, now: Instant) -> Option<Self> {
        let full = self.0.max(now) + REGAINED.saturating_mul(cost);
        (full.saturating_duration_since(now) <= ALL_REGAINED).then_some(Self(full))
    }
}

/// Returns whether a refusal may share a record: each start has one end, and nothing that ran or that an operator did is left out.
const fn is_countable(refused: &Refused, announced: bool) -> bool {
    !announced && !refused.released && refused.count.is_none() && refused.killed_by.is_none()
}

/// Returns how many records one of this size counts as.
fn cost(bytes: usize) -> u32 {
    let cost = u32::try_from(bytes.div_ceil(COUNTS_AS_ONE_BYTES)).unwrap_or(AT_ONCE);
    cost.clamp(1, AT_ONCE)
}

/// Returns the size of a record in the journal, bytes, without the journal's additions.
fn size(refused: &Refused) -> usize {
    struct Length(usize);
    impl io::Write for Length {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut length = Length(0);
    // One that cannot be written as JSON fails where the journal writes it.
    serde_json::to_writer(&mut length, refused).ok();
    length.0
}

/// Builds the record that several refusals share.
fn shared(uid: u32, reason: String, count: u64) -> Refused {
    Refused {
        command: None,
        contract: String::new(),
        count: Some(count),
        hook: String::new(),
        killed_by: None,
        message: format!(
            "more refusals of this uid within a second: {AT_ONCE} at once and {A_SECOND} a second have records of their own"
        ),
        peer: PeerLine {
            pid: None,
            remote: None,
            uid,
        },
        point: String::new(),
        profile: None,
        reason,
        released: false,
        request_id: String::new(),
        run_id: None,
        session: String::new(),
        trace: None,
        workspace: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(uid: u32, reason: &str) -> Refused {
        Refused {
            count: None,
            run_id: Some("never announced".to_owned()),
            ..shared(uid, reason.to_owned(), 1)
        }
    }

    /// Refuses a uid `times` times at once. Returns the number of records of their own.
    fn whole(counted: &mut Counted, refused: &Refused, times: u32, now: Instant) -> u32 {
        (0..times)
            .map(|_| u32::from(counted.place(refused, false, now) == RefusalPlace::Own))
            .sum()
    }

    #[test]
    fn a_uid_has_a_hundred_records_at_once_and_twenty_a_second() {
        let mut counted = Counted::default();
        let (now, one) = (Instant::now(), refused(1, "DEADLINE"));
        assert_eq!(whole(&mut counted, &one, 100, now), 100);
        assert_eq!((counted.due(), counted.take()), (None, Vec::new()));
        assert_eq!(whole(&mut counted, &one, 7, now), 0);
        // Another reason counts as well, and apart; another uid has records of its own.
        assert_eq!(
            whole(&mut counted, &refused(1, "CONSENT_REQUIRED"), 3, now),
            0
        );
        assert_eq!(whole(&mut counted, &refused(2, "DEADLINE"), 100, now), 100);
        assert_eq!(counted.due(), Some(now + WINDOW));
        let taken = counted.take();
        let shown: Vec<_> = taken
            .iter()
            .map(|it| (it.peer.uid, &*it.reason, it.count, &it.run_id))
            .collect();
        assert_eq!(
            shown,
            [
                (1, "CONSENT_REQUIRED", Some(3), &None),
                (1, "DEADLINE", Some(7), &None)
            ]
        );
        assert_eq!((counted.due(), counted.take()), (None, Vec::new()));

        let almost = now + REGAINED.saturating_sub(Duration::from_nanos(1));
        assert_eq!(whole(&mut counted, &one, 1, almost), 0);
        assert_eq!(whole(&mut counted, &one, 2, now + REGAINED), 1);
        let second = Duration::from_secs(1);
        assert_eq!(
            whole(&mut counted, &one, 30, now + REGAINED + second),
            A_SECOND
        );
        let after = now + REGAINED + second + ALL_REGAINED;
        assert_eq!(whole(&mut counted, &one, 200, after), AT_ONCE);
        // A uid that may have all again is not remembered.
        counted.place(&refused(3, "DEADLINE"), false, after + ALL_REGAINED);
        assert_eq!(counted.rates.len(), 1);
    }

    #[test]
    fn a_long_record_counts_as_several() {
        for (bytes, expected) in [
            (0, 1),
            (COUNTS_AS_ONE_BYTES, 1),
            (COUNTS_AS_ONE_BYTES + 1, 2),
            (COUNTS_AS_ONE_BYTES * 99, 99),
            (usize::MAX, AT_ONCE),
        ] {
            assert_eq!(cost(bytes), expected, "{bytes}");
        }
        let mut long = refused(1, "DEADLINE");
        // As JSON has it, each is six bytes.
        long.message = "\u{1}".repeat(4 * 1024);
        let bytes = serde_json::to_vec(&long).unwrap().len();
        assert_eq!((size(&long), cost(bytes)), (bytes, 4));
        let mut counted = Counted::default();
        assert_eq!(whole(&mut counted, &long, 100, Instant::now()), 25);
    }

    #[test]
    fn ends_of_started_runs_and_what_an_operator_did_always_have_their_own_records() {
        let mut counted = Counted::default();
        let now = Instant::now();
        whole(&mut counted, &refused(1, "DEADLINE"), 100, now);
        let plain = refused(1, "DEADLINE");
        assert_eq!(counted.place(&plain, true, now), RefusalPlace::Own);
        for special in [
            Refused {
                released: true,
                ..plain.clone()
            },
            Refused {
                killed_by: Some(plain.peer.clone()),
                ..plain.clone()
            },
            Refused {
                count: Some(9),
                ..plain.clone()
            },
        ] {
            assert_eq!(counted.place(&special, false, now), RefusalPlace::Own);
        }
        assert_eq!(counted.take(), []);
        assert_eq!(counted.place(&plain, false, now), RefusalPlace::Counted);
    }
}
