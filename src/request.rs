//! A request, decoded: once one exists, it is well-formed.

use std::time::Duration;

use crate::{
    contract::{Entry, Envelope, Mode, Moment},
    model::{Backing, Event, Hook, Narrow, OnDisconnect, OnFailure, ProfileName},
};

/// One hook to run, as asked for.
#[derive(Clone, Debug)]
pub struct Request {
    /// What stands behind the command beside a consent.
    pub backing: Backing,
    /// The contract and its mode.
    pub contract: Mode,
    /// How many hooks led to it.
    pub depth: u32,
    /// What the hook's entry says about how its end is read.
    pub entry: Entry,
    /// What is known around the event.
    pub envelope: Envelope,
    /// The event.
    pub event: Event,
    /// The hook.
    pub hook: Hook,
    /// The caller's id, or one made here.
    pub id: String,
    /// The largest reply the caller takes, bytes.
    pub max_reply_bytes: u64,
    /// What the request takes away from its profile.
    pub narrow: Narrow,
    /// What happens if the client goes away.
    pub on_disconnect: OnDisconnect,
    /// Whether the failure policy is tightened.
    pub on_failure: OnFailure,
    /// Whether it only looks on, after a hook before it has stopped what comes next.
    pub only_looks_on: bool,
    /// The profile, if the caller names one.
    pub profile: Option<ProfileName>,
    /// Whether it is the operator's configuration that names the profile.
    pub profile_granted: bool,
    /// Whether a run without confirmed confinement is to be refused.
    pub require_confirmed: bool,
    /// Scopes pushes; may be empty.
    pub session: String,
    /// The wall time the caller asks for.
    pub timeout: Option<Duration>,
}

impl Request {
    /// Returns the session and the turn that the contract's own event names.
    pub(crate) fn moment(&self) -> Moment {
        let known = Moment {
            session: self.session.clone(),
            turn: self.envelope.turn,
        };
        self.contract.moment(&self.event, known)
    }
}
