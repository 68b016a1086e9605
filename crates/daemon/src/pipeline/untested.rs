//! The profiles whose first self-tests since the start are not over.

use std::{collections::BTreeSet, sync::Arc};

use tokio::sync::watch;

use hookjail_base::model::ProfileName;

/// The profiles that the first survey has still to test, shared. Empty where a daemon makes no survey.
#[derive(Clone, Debug)]
pub(crate) struct Untested(Arc<watch::Sender<Left>>);

#[derive(Debug, Default)]
struct Left {
    /// Whether the survey goes on: its numbers may be missing though each profile is tested.
    goes_on: bool,
    profiles: BTreeSet<ProfileName>,
}

impl Default for Untested {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(Left::default())))
    }
}

impl Untested {
    /// Begins the survey of these profiles.
    pub(crate) fn begin(&self, profiles: impl IntoIterator<Item = ProfileName>) {
        let profiles = profiles.into_iter().collect();
        self.0.send_replace(Left {
            goes_on: true,
            profiles,
        });
    }

    /// Takes note that a profile was tested on each of its backends.
    pub(crate) fn tested(&self, profile: &ProfileName) {
        self.0.send_modify(|left| {
            left.profiles.remove(profile);
        });
    }

    /// Ends the survey.
    pub(crate) fn end(&self) {
        self.0.send_replace(Left::default());
    }

    /// Waits for the survey's end.
    pub(crate) async fn ended(&self) {
        // The sender is this value's own, so the wait does not fail.
        self.0.subscribe().wait_for(|left| !left.goes_on).await.ok();
    }

    /// Returns whether the survey's end is waited for.
    pub(crate) fn is_awaited(&self) -> bool {
        self.0.receiver_count() > 0
    }

    /// Returns whether a profile is still to be tested.
    pub(crate) fn has(&self, profile: &ProfileName) -> bool {
        self.0.borrow().profiles.contains(profile)
    }

    /// Returns the number of profiles that are still to be tested.
    pub(crate) fn count(&self) -> usize {
        self.0.borrow().profiles.len()
    }
}

#[cfg(test)]
mod tests {
    use std::{future::ready, pin::pin};

    use super::*;

    async fn is_over(ended: impl Future<Output = ()> + Unpin) -> bool {
        tokio::select! {
            biased;
            () = ended => true,
            () = ready(()) => false,
        }
    }

    #[tokio::test]
    async fn the_end_comes_after_the_last_profile_and_not_with_it() {
        let untested = Untested::default();
        untested.ended().await;
        let name = |name| ProfileName::parse(name).unwrap();
        untested.begin(["one", "two"].map(name));
        let mut ended = pin!(untested.ended());
        assert!(!untested.is_awaited());
        assert!(!is_over(&mut ended).await);
        assert!(untested.is_awaited());

        untested.tested(&name("one"));
        assert_eq!(
            (untested.has(&name("one")), untested.has(&name("two"))),
            (false, true)
        );
        untested.tested(&name("two"));
        assert_eq!(untested.count(), 0);
        assert!(!is_over(&mut ended).await);

        untested.end();
        assert!(is_over(&mut ended).await);
    }
}
