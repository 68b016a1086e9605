//! Rates of each caller: calls, processor time of hooks, and bytes of records, each an amount a minute.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use hookjail_base::refusal::{Reason, Refusal};

/// The time in which a whole amount that was spent is there again.
const MINUTE: Duration = Duration::from_secs(60);

/// The longest that a caller waits after one run that used more than its amount.
const LONGEST_DEBT: Duration = Duration::from_secs(60 * 60);

/// The amounts that each uid has a minute; `None` is no limit.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct RateLimits {
    /// Calls.
    pub calls: Option<u64>,
    /// Processor time of hooks: their first processes and the children that these waited for.
    pub cpu: Option<Duration>,
    /// Bytes of the records of starts and ends.
    pub journal: Option<u64>,
}

/// An amount that a call spent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Spent {
    /// The call itself.
    Call,
    /// Processor time.
    Cpu(Duration),
    /// Bytes of records.
    Journal(u64),
}

/// The amounts that uids have spent.
#[derive(Debug, Default)]
pub(crate) struct Rates(Mutex<HashMap<u32, Accounts>>);

/// The times at which a uid's amounts are whole again.
#[derive(Clone, Copy, Debug, Default)]
struct Accounts {
    calls: Account,
    cpu: Account,
    journal: Account,
}

/// The time at which an amount is whole again; `None`: nothing was spent.
#[derive(Clone, Copy, Debug, Default)]
struct Account(Option<Instant>);

impl Rates {
    /// Spends a call of a uid.
    ///
    /// # Errors
    ///
    /// Refuses as `RATE_LIMITED`, with the time until the next call, where the uid has spent an amount.
    pub(crate) fn call(&self, uid: u32, limits: RateLimits, now: Instant) -> Result<(), Refusal> {
        if limits == RateLimits::default() {
            return Ok(());
        }
        self.with(|uids| {
            uids.retain(|_, accounts| !accounts.are_whole(now));
            let accounts = uids.entry(uid).or_default();
            let waits = [
                (
                    accounts.calls.wait_for(Spent::Call.cost(limits), now),
                    "calls_per_minute",
                ),
                (
                    accounts.cpu.wait_for(limits.cpu.map(|_| SHORTEST), now),
                    "cpu_per_minute",
                ),
                (
                    accounts
                        .journal
                        .wait_for(limits.journal.map(|_| SHORTEST), now),
                    "journal_per_minute",
                ),
            ];
            match waits.into_iter().max() {
                Some((wait, key)) if !wait.is_zero() => Err(spent(uid, key, wait)),
                Some(_) | None => {
                    accounts.spend(Spent::Call, limits, now);
                    Ok(())
                }
            }
        })
    }

    /// Notes what a call of a uid spent.
    pub(crate) fn spend(&self, uid: u32, spent: Spent, limits: RateLimits, now: Instant) {
        if spent.cost(limits).is_some() {
            self.with(|uids| uids.entry(uid).or_default().spend(spent, limits, now));
        }
    }

    fn with<T>(&self, act: impl FnOnce(&mut HashMap<u32, Accounts>) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The least that is left of an amount whose next use is not known.
const SHORTEST: Duration = Duration::from_millis(1);

impl Spent {
    /// Returns the time in which it is there again; `None` where it has no limit.
    fn cost(self, limits: RateLimits) -> Option<Duration> {
        let (spent, limit) = match self {
            Self::Call => (1, u128::from(limits.calls?)),
            Self::Cpu(time) => (time.as_micros(), limits.cpu?.as_micros()),
            Self::Journal(bytes) => (bytes.into(), limits.journal?.into()),
        };
        let nanos = MINUTE.as_nanos().saturating_mul(spent) / limit.max(1);
        Some(
            u64::try_from(nanos)
                .map_or(LONGEST_DEBT, Duration::from_nanos)
                .min(LONGEST_DEBT),
        )
    }
}

impl Accounts {
    fn spend(&mut self, spent: Spent, limits: RateLimits, now: Instant) {
        let account = match spent {
            Spent::Call => &mut self.calls,
            Spent::Cpu(_) => &mut self.cpu,
            Spent::Journal(_) => &mut self.journal,
        };
        if let Some(cost) = spent.cost(limits) {
            let debt = (account.debt(now) + cost).min(LONGEST_DEBT + MINUTE);
            *account = Account(Some(now + debt));
        }
    }

    fn are_whole(&self, now: Instant) -> bool {
        [self.calls, self.cpu, self.journal]
            .iter()
            .all(|it| it.debt(now).is_zero())
    }
}

impl Account {
    /// Returns the time until the amount is whole.
    fn debt(self, now: Instant) -> Duration {
        self.0
            .map_or(Duration::ZERO, |whole| whole.saturating_duration_since(now))
    }

    /// Returns the time until so much is left.
    fn wait_for(self, cost: Option<Duration>, now: Instant) -> Duration {
        cost.map_or(Duration::ZERO, |cost| {
            (self.debt(now) + cost).saturating_sub(MINUTE)
        })
    }
}

fn spent(uid: u32, key: &str, wait: Duration) -> Refusal {
    let seconds = wait.as_millis().div_ceil(1000);
    let message = format!("uid {uid} has spent its amount of `hooks.{key}`; retry in {seconds} s");
    Refusal::new(Reason::RateLimited, message).after(wait)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CALLS: RateLimits = RateLimits {
        calls: Some(6),
        cpu: None,
        journal: None,
    };

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_uid_has_its_calls_at_once_and_gets_them_back_over_a_minute() {
        let (rates, now) = (Rates::default(), Instant::now());
        for _ in 0..6 {
            rates.call(1, CALLS, now).unwrap();
        }
        let refusal = rates.call(1, CALLS, now).unwrap_err();
        assert_eq!(
            (refusal.reason, refusal.retry),
            (Reason::RateLimited, Some(seconds(10)))
        );
        let message = "uid 1 has spent its amount of `hooks.calls_per_minute`; retry in 10 s";
        assert_eq!(refusal.message, message);
        // Another uid has its own; a refused call spends nothing.
        rates.call(2, CALLS, now).unwrap();
        assert!(rates.call(1, CALLS, now + seconds(9)).is_err());
        rates.call(1, CALLS, now + seconds(10)).unwrap();
        assert!(rates.call(1, CALLS, now + seconds(10)).is_err());
    }

    #[test]
    fn processor_time_and_records_are_spent_afterwards_and_one_run_may_use_more_than_there_is() {
        let limits = RateLimits {
            calls: None,
            cpu: Some(seconds(6)),
            journal: Some(60),
        };
        let (rates, now) = (Rates::default(), Instant::now());
        let wait = |now| rates.call(1, limits, now).err().and_then(|it| it.retry);
        rates.spend(1, Spent::Cpu(seconds(5)), limits, now);
        assert_eq!(wait(now), None);
        rates.spend(1, Spent::Cpu(seconds(2)), limits, now);
        assert_eq!(wait(now), Some(seconds(10) + SHORTEST));
        rates.spend(1, Spent::Journal(90), limits, now);
        assert_eq!(
            wait(now),
            Some(seconds(30) + SHORTEST),
            "the longer wait counts"
        );
        assert_eq!(wait(now + seconds(31)), None);
        rates.spend(1, Spent::Cpu(seconds(1 << 40)), limits, now);
        assert_eq!(wait(now), Some(LONGEST_DEBT + SHORTEST));
    }

    #[test]
    fn without_limits_nothing_is_kept() {
        let (rates, now) = (Rates::default(), Instant::now());
        for _ in 0..1000 {
            rates.call(1, RateLimits::default(), now).unwrap();
        }
        rates.spend(1, Spent::Journal(1 << 40), CALLS, now);
        assert!(rates.with(|uids| uids.is_empty()));
        // With limits, those that have everything again are let go of.
        rates.call(1, CALLS, now).unwrap();
        rates.call(2, CALLS, now + seconds(60)).unwrap();
        assert_eq!(
            rates.with(|uids| uids.keys().copied().collect::<Vec<_>>()),
            [2]
        );
    }

    proptest! {
        /// Checks that in any time a uid has at most its amount and what comes back meanwhile, and that one that waits
        /// for the refusal's retry delay is served.
        #[test]
        fn no_more_is_served_than_comes_back(
            limit in 1_u64..100,
            pauses in prop::collection::vec(0_u64..5_000, 1..200),
        ) {
            let limits = RateLimits { calls: Some(limit), ..RateLimits::default() };
            let (rates, start) = (Rates::default(), Instant::now());
            let (mut now, mut served) = (start, 0_u64);
            for pause in pauses {
                now += Duration::from_millis(pause);
                match rates.call(1, limits, now) {
                    Ok(()) => served += 1,
                    Err(refusal) => {
                        let later = now + refusal.retry.unwrap();
                        prop_assert!(rates.call(1, limits, later).is_ok());
                        (now, served) = (later, served + 1);
                    }
                }
                let back = u128::from(limit) * (now - start).as_micros() / MINUTE.as_micros();
                prop_assert!(u128::from(served) <= u128::from(limit) + back + 1);
            }
        }
    }
}
