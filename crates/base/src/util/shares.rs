//! Divides a bounded resource, such as memory or connections, fairly among uids.
//!
//! A uid that has some may take more only while its own part is at most three times the rest left. Alone it can have
//! three quarters of all; the next uid finds a quarter, of which it can have three quarters, and so on. A uid without
//! any may take all that is left.

use std::{
    collections::HashMap,
    mem,
    sync::{Arc, Mutex, PoisonError},
};

/// The most that one uid may have, as a multiple of what is left.
const TIMES_WHAT_IS_LEFT: usize = 3;

/// An amount that uids share.
#[derive(Debug)]
pub struct Shares {
    most: usize,
    taken: Mutex<Taken>,
}

/// The uids' shares. A uid without any is absent.
#[derive(Debug, Default)]
struct Taken {
    all: usize,
    by_uid: HashMap<u32, usize>,
    /// The peak since the last call of `peak_when_idle`.
    peak: usize,
}

/// A holder's share, given back when dropped.
#[derive(Debug)]
pub struct Share {
    of: Arc<Shares>,
    held: Mutex<usize>,
    uid: u32,
}

impl Shares {
    /// Creates shares of an amount.
    pub fn new(most: usize) -> Self {
        Self {
            most,
            taken: Mutex::default(),
        }
    }

    /// Returns a new, empty share of a uid.
    pub fn share(self: &Arc<Self>, uid: u32) -> Share {
        Share {
            held: Mutex::new(0),
            of: Arc::clone(self),
            uid,
        }
    }

    /// Returns the whole amount.
    pub const fn most(&self) -> usize {
        self.most
    }

    /// Returns the peak since the last call, if nothing is in use now.
    pub fn peak_when_idle(&self) -> Option<usize> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        (taken.all == 0).then(|| mem::take(&mut taken.peak))
    }

    /// Takes the amount that `wanted` returns for the amount available to a uid.
    fn take(&self, uid: u32, wanted: impl FnOnce(usize) -> usize) -> usize {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let held = taken.by_uid.get(&uid).copied().unwrap_or_default();
        let left = self.most.saturating_sub(taken.all);
        let may = if held == 0 {
            left
        } else {
            // At most as much that its share is then `TIMES_WHAT_IS_LEFT` times the rest.
            let most = left.saturating_mul(TIMES_WHAT_IS_LEFT);
            most.saturating_sub(held) / (TIMES_WHAT_IS_LEFT + 1)
        };
        let more = wanted(may);
        if more > 0 {
            taken.all += more;
            taken.peak = taken.peak.max(taken.all);
            taken.by_uid.insert(uid, held + more);
        }
        more
    }

    fn give_back(&self, uid: u32, held: usize) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.all = taken.all.saturating_sub(held);
        let former = taken.by_uid.remove(&uid).unwrap_or_default();
        if former > held {
            taken.by_uid.insert(uid, former - held);
        }
    }
}

impl Share {
    /// Takes `more`, all or nothing; returns whether it was available.
    #[must_use]
    pub fn grow(&self, more: usize) -> bool {
        let all_of_it = |may| if more <= may { more } else { 0 };
        self.add(self.of.take(self.uid, all_of_it)) == more
    }

    /// Takes up to `more`, as far as available. For values that exist already, whether there is room or not.
    pub fn grow_up_to(&self, more: usize) {
        self.add(self.of.take(self.uid, |may| more.min(may)));
    }

    fn add(&self, taken: usize) -> usize {
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) += taken;
        taken
    }

    /// Returns the amount that it holds.
    pub fn held(&self) -> usize {
        *self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a new, empty share of the same uid.
    #[must_use]
    pub fn another(&self) -> Self {
        self.of.share(self.uid)
    }

    /// Returns the whole amount for all uids.
    pub fn most(&self) -> usize {
        self.of.most()
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let held = *self.held.get_mut().unwrap_or_else(PoisonError::into_inner);
        self.of.give_back(self.uid, held);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all_of(share: &Share) -> usize {
        (0..).take_while(|_| share.grow(1)).count()
    }

    #[test]
    fn who_comes_later_finds_a_part_that_the_first_could_not_take() {
        let shares = Arc::new(Shares::new(1024));
        let first = shares.share(1);
        assert_eq!(all_of(&first), 768);
        let second = shares.share(2);
        assert_eq!(all_of(&second), 192);
        assert!(!shares.share(1).grow(1), "another share is no way to more");
        let third = shares.share(3);
        assert!(third.grow(64), "a uid without a share takes the rest");
        assert!(!shares.share(4).grow(1));
        drop((first, third));
        assert!(second.grow(500), "the others are gone");
    }

    #[test]
    fn who_has_more_than_there_was_room_for_gets_no_more_and_leaves_others_their_part() {
        let shares = Arc::new(Shares::new(1024));
        let first = shares.share(1);
        assert!(first.grow(100));
        first.grow_up_to(10_000);
        assert_eq!(first.held(), 768);
        assert!(!shares.share(1).grow(1) && shares.share(2).grow(192));
        drop(first);
        assert!(shares.share(1).grow(600));
    }

    #[test]
    fn the_peak_is_told_once_and_only_when_nothing_is_taken() {
        let shares = Arc::new(Shares::new(100));
        assert_eq!(shares.peak_when_idle(), Some(0));
        let (first, second) = (shares.share(1), shares.share(2));
        assert!(first.grow(30) && second.grow(10));
        drop(first);
        assert_eq!(shares.peak_when_idle(), None);
        drop(second);
        assert_eq!(shares.peak_when_idle(), Some(40));
        assert_eq!(shares.peak_when_idle(), Some(0));
    }

    #[test]
    fn one_of_one_can_be_had() {
        let shares = Arc::new(Shares::new(1));
        let share = shares.share(1);
        assert!(share.grow(1));
        assert!(!share.another().grow(1) && share.grow(0));
        drop(share);
        assert!(shares.share(2).grow(1));
    }

    proptest! {
        /// Never more is taken than there is, and what is returned is available again. One uid alone never leaves nothing to a
        /// second.
        #[test]
        fn never_more_is_taken_than_there_is(
            most in 4_usize..2000,
            steps in prop::collection::vec((0_u32..4, 1_usize..300, any::<bool>()), 1..200),
        ) {
            let shares = Arc::new(Shares::new(most));
            let mut held: Vec<(usize, Share)> = Vec::new();
            for (uid, amount, gives_back) in steps {
                if gives_back && !held.is_empty() {
                    drop(held.swap_remove(amount % held.len()));
                } else {
                    let share = shares.share(uid);
                    if share.grow(amount) {
                        held.push((amount, share));
                    }
                }
                let taken: usize = held.iter().map(|(amount, _)| amount).sum();
                prop_assert!(taken <= most);
                prop_assert_eq!(shares.taken.lock().unwrap().all, taken);
            }
            held.clear();
            let nothing = shares.taken.lock().unwrap().by_uid.is_empty();
            prop_assert!(nothing);
            let first = shares.share(1);
            prop_assert!(first.grow(1));
            while first.grow(1) {}
            prop_assert!(shares.share(2).grow(1));
        }
    }
}
