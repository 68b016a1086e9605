//! A decoded, well-formed request.

use std::{fmt, path::PathBuf, time::Duration};

use hookjail_base::model::{Backing, Event, Hook, Narrow, OnDisconnect, OnFailure, ProfileName};
use hookjail_contract::{Entry, Envelope, Mode, Moment};

/// A request to run one hook.
#[derive(Clone, Debug)]
pub struct Request {
    /// The basis of the command's admission beside a consent.
    pub backing: Backing,
    /// The contract and its mode.
    pub contract: Mode,
    /// The nesting depth.
    pub depth: u32,
    /// The fields of the hook's entry that affect how its end is interpreted.
    pub entry: Entry,
    /// Context of the event.
    pub envelope: Envelope,
    /// The event.
    pub event: Event,
    /// The hook.
    pub hook: Hook,
    /// The caller's id, or a generated one.
    pub id: String,
    /// The largest reply that the caller accepts, bytes.
    pub max_reply_bytes: u64,
    /// The request's restrictions of its profile.
    pub narrow: Narrow,
    /// Behaviour if the client disconnects.
    pub on_disconnect: OnDisconnect,
    /// The treatment of the hook's failure.
    pub on_failure: OnFailure,
    /// Whether the hook is only an observer, because an earlier hook has blocked.
    pub only_looks_on: bool,
    /// The profile, if the caller names one.
    pub profile: Option<ProfileName>,
    /// Whether the operator's configuration names the profile.
    pub profile_granted: bool,
    /// Whether a run without confirmed confinement is to be refused.
    pub require_confirmed: bool,
    /// The session, which scopes pushes; may be empty.
    pub session: String,
    /// The caller's wall time for the hook.
    pub timeout: Option<Duration>,
    /// The offered directory that is no workspace: the run then has none.
    pub withheld: Option<Withheld>,
}

/// An offered directory that may be no workspace.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Withheld {
    /// The directory; absolute.
    pub directory: PathBuf,
    /// Why the directory is no workspace.
    pub why: String,
}

impl fmt::Display for Withheld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { directory, why } = self;
        write!(f, "none: `{}` is no workspace: {why}", directory.display())
    }
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
