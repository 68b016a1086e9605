//! Refusals and faults: reasons why a request has no outcome. A hook's own failure is an outcome.

use std::{borrow::Cow, error::Error, fmt, io, mem::discriminant, time::Duration};

use nix::errno::Errno;
use sha2::{Digest, Sha256};

use crate::{
    model::{InvalidField, axis::Axis},
    redact::Redactor,
};

/// The reason of a refusal. The strings are API: never rename one.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Reason {
    AlreadyRan,
    AuditUnavailable,
    BackendUnconfirmed,
    CallerIsAHook,
    Canceled,
    ConsentRequired,
    Deadline,
    DigestMismatch,
    Draining,
    EventTooLarge,
    GrantMissing,
    InvalidRequest,
    Killed,
    NotAllowlisted,
    Overloaded,
    PeerNotAllowed,
    PeerUnknown,
    PolicyUnenforceable,
    ProfileUnknown,
    ProfileWidened,
    RateLimited,
    RecordTooLarge,
    RecursionLimit,
    ReloadRefused,
    RequestIdConflict,
    RunUnknown,
    Unsupported,
}

impl Reason {
    /// Every reason.
    pub const ALL: [Self; 27] = [
        Self::AlreadyRan,
        Self::AuditUnavailable,
        Self::BackendUnconfirmed,
        Self::CallerIsAHook,
        Self::Canceled,
        Self::ConsentRequired,
        Self::Deadline,
        Self::DigestMismatch,
        Self::Draining,
        Self::EventTooLarge,
        Self::GrantMissing,
        Self::InvalidRequest,
        Self::Killed,
        Self::NotAllowlisted,
        Self::Overloaded,
        Self::PeerNotAllowed,
        Self::PeerUnknown,
        Self::PolicyUnenforceable,
        Self::ProfileUnknown,
        Self::ProfileWidened,
        Self::RateLimited,
        Self::RecordTooLarge,
        Self::RecursionLimit,
        Self::ReloadRefused,
        Self::RequestIdConflict,
        Self::RunUnknown,
        Self::Unsupported,
    ];

    /// Returns the stable name, as in `ErrorInfo.reason`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AlreadyRan => "ALREADY_RAN",
            Self::AuditUnavailable => "AUDIT_UNAVAILABLE",
            Self::BackendUnconfirmed => "BACKEND_UNCONFIRMED",
            Self::CallerIsAHook => "CALLER_IS_A_HOOK",
            Self::Canceled => "CANCELED",
            Self::ConsentRequired => "CONSENT_REQUIRED",
            Self::Deadline => "DEADLINE",
            Self::DigestMismatch => "DIGEST_MISMATCH",
            Self::Draining => "DRAINING",
            Self::EventTooLarge => "EVENT_TOO_LARGE",
            Self::GrantMissing => "GRANT_MISSING",
            Self::InvalidRequest => "INVALID_REQUEST",
            Self::Killed => "KILLED",
            Self::NotAllowlisted => "NOT_ALLOWLISTED",
            Self::Overloaded => "OVERLOADED",
            Self::PeerNotAllowed => "PEER_NOT_ALLOWED",
            Self::PeerUnknown => "PEER_UNKNOWN",
            Self::PolicyUnenforceable => "POLICY_UNENFORCEABLE",
            Self::ProfileUnknown => "PROFILE_UNKNOWN",
            Self::ProfileWidened => "PROFILE_WIDENED",
            Self::RateLimited => "RATE_LIMITED",
            Self::RecordTooLarge => "RECORD_TOO_LARGE",
            Self::RecursionLimit => "RECURSION_LIMIT",
            Self::ReloadRefused => "RELOAD_REFUSED",
            Self::RequestIdConflict => "REQUEST_ID_CONFLICT",
            Self::RunUnknown => "RUN_UNKNOWN",
            Self::Unsupported => "UNSUPPORTED",
        }
    }

    /// Returns whether an operator may have to act: allow, configure, mend or investigate.
    ///
    /// The others require action of the caller only.
    pub const fn concerns_operator(self) -> bool {
        match self {
            Self::AuditUnavailable
            | Self::BackendUnconfirmed
            | Self::CallerIsAHook
            | Self::ConsentRequired
            | Self::DigestMismatch
            | Self::GrantMissing
            | Self::NotAllowlisted
            | Self::Overloaded
            | Self::PeerNotAllowed
            | Self::PolicyUnenforceable
            | Self::ProfileUnknown
            | Self::ProfileWidened
            | Self::ReloadRefused => true,
            Self::AlreadyRan
            | Self::Canceled
            | Self::Deadline
            | Self::Draining
            | Self::EventTooLarge
            | Self::InvalidRequest
            | Self::Killed
            | Self::PeerUnknown
            | Self::RateLimited
            | Self::RecordTooLarge
            | Self::RecursionLimit
            | Self::RequestIdConflict
            | Self::RunUnknown
            | Self::Unsupported => false,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Builds the refusal for a request whose caller is gone.
pub fn canceled() -> Refusal {
    let message =
        "the hook was not started, as its caller disconnected or the daemon's drain time ended";
    Refusal::new(Reason::Canceled, message)
}

/// A fact about a refusal, besides its reason and message. `wire` renders its name and text.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Fact {
    Allowlist(String),
    /// The command line that allows the hook.
    Approve(String),
    /// The user who has to run the command of `Approve`.
    ApproveAs(String),
    Axis(Axis),
    Backend(&'static str),
    Bytes(usize),
    Command(String),
    Configuration(String),
    /// Lines to add to the configuration.
    Configure(String),
    Contract(&'static str),
    Digests(String),
    Errno(Errno),
    ExitCode(i32),
    Fix(String),
    Keys(String),
    MaxBytes(usize),
    Mode(&'static str),
    Outcome(String),
    Path(String),
    Profile(String),
    /// The hook had already been released.
    Released,
    RunId(String),
    Sequence(u64),
    Signal(i32),
    Step(String),
}

impl Fact {
    /// Returns a fact's text that may be of foreign origin.
    const fn text_mut(&mut self) -> Option<&mut String> {
        match self {
            Self::Allowlist(text)
            | Self::Approve(text)
            | Self::ApproveAs(text)
            | Self::Command(text)
            | Self::Configuration(text)
            | Self::Configure(text)
            | Self::Digests(text)
            | Self::Fix(text)
            | Self::Keys(text)
            | Self::Outcome(text)
            | Self::Path(text)
            | Self::Profile(text)
            | Self::RunId(text)
            | Self::Step(text) => Some(text),
            Self::Axis(_)
            | Self::Backend(_)
            | Self::Bytes(_)
            | Self::Contract(_)
            | Self::Errno(_)
            | Self::ExitCode(_)
            | Self::MaxBytes(_)
            | Self::Mode(_)
            | Self::Released
            | Self::Sequence(_)
            | Self::Signal(_) => None,
        }
    }
}

/// A refusal: hookjail would not run the hook.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// The field at fault, if any.
    pub field: Option<InvalidField>,
    /// The message for the caller and the operator.
    pub message: String,
    /// Further facts, one of each kind.
    pub facts: Vec<Fact>,
    /// The stable reason.
    pub reason: Reason,
    /// The retry delay; `None` = that of the reason.
    pub retry: Option<Duration>,
}

impl Refusal {
    /// Redacts registered secrets in its texts.
    pub fn redact(&mut self, redactor: &Redactor) {
        redactor.clean(&mut self.message);
        let texts = self.facts.iter_mut().filter_map(Fact::text_mut);
        texts.for_each(|text| redactor.clean(text));
        if let Some(InvalidField { field, problem }) = &mut self.field {
            redactor.clean(field);
            redactor.clean(problem);
        }
    }

    /// Builds a refusal from a reason and a message.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            field: None,
            message: message.into(),
            facts: Vec::new(),
            reason,
            retry: None,
        }
    }

    /// Builds the refusal for a failed syscall: `OVERLOADED` where the error shows an [exhausted](lacking) resource, else the
    /// result of `otherwise` for the same message.
    pub fn failed(
        what: impl fmt::Display,
        error: &(dyn Error + 'static),
        otherwise: impl FnOnce(String) -> Self,
    ) -> Self {
        let message = format!("{what}: {}", chain(error));
        match lacking(error) {
            Some(errno) => Self::for_want(&message, errno),
            None => otherwise(message),
        }
    }

    fn for_want(message: &str, errno: Errno) -> Self {
        let message = format!("{message}; retry later");
        Self::new(Reason::Overloaded, message).with(Fact::Errno(errno))
    }

    /// Sets the retry delay.
    #[must_use]
    pub const fn after(mut self, delay: Duration) -> Self {
        self.retry = Some(delay);
        self
    }

    /// Adds a fact, and replaces one of the same kind.
    #[must_use]
    pub fn with(mut self, fact: Fact) -> Self {
        self.facts
            .retain(|known| discriminant(known) != discriminant(&fact));
        self.facts.push(fact);
        self
    }

    /// Marks that the hook had already been released.
    #[must_use]
    pub fn released(self) -> Self {
        self.with(Fact::Released)
    }

    /// Returns whether the hook had already been released.
    pub fn is_released(&self) -> bool {
        self.facts.contains(&Fact::Released)
    }

    /// Returns the axis among its facts, if any.
    pub fn axis(&self) -> Option<Axis> {
        self.facts.iter().find_map(|fact| {
            if let Fact::Axis(axis) = fact {
                Some(*axis)
            } else {
                None
            }
        })
    }

    /// Returns the operator's fix among its facts, if any.
    pub fn fix(&self) -> Option<&str> {
        self.facts.iter().find_map(|fact| {
            if let Fact::Fix(fix) = fact {
                Some(fix.as_str())
            } else {
                None
            }
        })
    }

    /// Returns the command line that allows the hook, if any.
    pub fn approve(&self) -> Option<&str> {
        self.facts.iter().find_map(|fact| {
            if let Fact::Approve(approve) = fact {
                Some(approve.as_str())
            } else {
                None
            }
        })
    }

    /// Builds the refusal for one field.
    pub fn field(reason: Reason, field: InvalidField) -> Self {
        Self {
            message: field.to_string(),
            field: Some(field),
            facts: Vec::new(),
            reason,
            retry: None,
        }
    }
}

impl From<InvalidField> for Refusal {
    fn from(field: InvalidField) -> Self {
        Self::field(Reason::InvalidRequest, field)
    }
}

/// A fault: hookjail could not run the hook. Callers get only the request's id; this text is for the log.
#[derive(Debug, thiserror::Error)]
#[error("{doing}")]
pub struct Fault {
    doing: String,
    #[source]
    cause: Box<dyn std::error::Error + Send + Sync>,
}

impl Fault {
    /// Builds a fault from the failed operation and its cause.
    pub fn new(
        doing: impl Into<String>,
        cause: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self {
            doing: doing.into(),
            cause: cause.into(),
        }
    }
}

/// The reason why a request has no outcome.
#[derive(Debug, thiserror::Error)]
pub enum Stop {
    /// hookjail could not.
    #[error(transparent)]
    Fault(Fault),
    /// hookjail would not.
    #[error(transparent)]
    Refusal(#[from] Refusal),
}

impl Stop {
    /// Returns whether a resource was exhausted that others may release. Nothing of the hook has run.
    pub fn lacks_something(&self) -> bool {
        match self {
            Self::Fault(_) => false,
            Self::Refusal(refusal) => {
                refusal.reason == Reason::Overloaded && !refusal.is_released()
            }
        }
    }
}

impl From<Fault> for Stop {
    /// Converts a fault; one caused by an exhausted resource becomes `OVERLOADED`.
    fn from(fault: Fault) -> Self {
        match lacking(&fault) {
            Some(errno) => Refusal::for_want(&chain(&fault), errno).into(),
            None => Self::Fault(fault),
        }
    }
}

impl From<InvalidField> for Stop {
    fn from(field: InvalidField) -> Self {
        Self::Refusal(field.into())
    }
}

/// Errors of syscalls that show a resource to be temporarily exhausted. These are descriptors, processes and
/// threads, memory, locks, and disk space.
const SCARCE: [Errno; 8] = [
    Errno::EAGAIN,
    Errno::EDQUOT,
    Errno::EMFILE,
    Errno::ENFILE,
    Errno::ENOBUFS,
    Errno::ENOLCK,
    Errno::ENOMEM,
    Errno::ENOSPC,
];

/// Returns the errno if an error shows a resource to be temporarily exhausted. The request may be valid, and succeed
/// later. Callers handle `EAGAIN` of calls that would only have to wait themselves.
pub fn lacking(error: &(dyn Error + 'static)) -> Option<Errno> {
    let mut next = Some(error);
    while let Some(error) = next {
        let errno = match error.downcast_ref::<io::Error>() {
            // The standard library's failed allocations have this kind and no errno.
            Some(error) if error.kind() == io::ErrorKind::OutOfMemory => Some(Errno::ENOMEM),
            Some(error) => error.raw_os_error().map(Errno::from_raw),
            None => error.downcast_ref::<Errno>().copied(),
        };
        if let Some(errno) = errno {
            return SCARCE.contains(&errno).then_some(errno);
        }
        let wrapped = error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref);
        next = wrapped.map(|error| error as _).or_else(|| error.source());
    }
    None
}

/// Refuses as `OVERLOADED` where an error shows a resource to be [`lacking`]. Otherwise returns the result, whose error
/// then describes the file and not the system.
pub fn unless_lacking<T, E: Error + 'static>(
    what: impl fmt::Display,
    result: Result<T, E>,
) -> Result<Result<T, E>, Refusal> {
    match result.as_ref().err().and_then(|error| lacking(error)) {
        Some(errno) => {
            let message = result.err().map(|error| chain(&error)).unwrap_or_default();
            Err(Refusal::for_want(&format!("{what}: {message}"), errno))
        }
        None => Ok(result),
    }
}

/// Truncates a text to a maximum length, bytes. The note at its end has the original length and the SHA-256 of the
/// whole. The note alone is about 100 bytes.
pub fn cut(text: &str, most: usize) -> Cow<'_, str> {
    if text.len() <= most {
        return Cow::Borrowed(text);
    }
    let whole = Sha256::digest(text);
    let note = format!("... (cut; {} bytes, SHA-256 {whole:x})", text.len());
    let head = floor_char_boundary(text, most.saturating_sub(note.len()));
    Cow::Owned(format!("{}{note}", &text[..head]))
}

/// Returns the greatest char boundary of a text at or below an index.
pub fn floor_char_boundary(text: &str, index: usize) -> usize {
    let index = index.min(text.len());
    (0..=index)
        .rev()
        .find(|index| text.is_char_boundary(*index))
        .unwrap_or_default()
}

/// Renders an error with its causes, once, for a log or a terminal.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        // Some errors repeat their cause.
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("a step failed")]
    struct Outer(#[source] io::Error);

    fn io(errno: Errno) -> io::Error {
        errno.into()
    }

    #[test]
    fn what_the_system_lacks_is_found_wherever_an_error_says_it() {
        for errno in SCARCE {
            let causes: [Box<dyn Error + Send + Sync>; 4] = [
                Box::new(errno),
                Box::new(io(errno)),
                Box::new(Outer(io(errno))),
                Box::new(io::Error::other(Outer(io(errno)))),
            ];
            for cause in causes {
                let stop = Stop::from(Fault::new("cannot do it", cause));
                let Stop::Refusal(refusal) = stop else {
                    panic!("{stop:?}");
                };
                assert_eq!(refusal.reason, Reason::Overloaded);
                assert!(refusal.facts.contains(&Fact::Errno(errno)), "{refusal:?}");
                assert!(refusal.message.starts_with("cannot do it: "), "{refusal}");
            }
        }
    }

    #[test]
    fn every_resource_that_may_be_given_back_is_lacking_until_a_hook_has_run() {
        for errno in SCARCE {
            let stop = Stop::from(Fault::new("cannot do it", io(errno)));
            assert!(stop.lacks_something(), "{stop}");
            let Stop::Refusal(refusal) = stop else {
                panic!("{stop:?}");
            };
            assert!(!Stop::from(refusal.released()).lacks_something(), "{errno}");
        }
        let wrong = Stop::from(Fault::new("cannot do it", io(Errno::EACCES)));
        assert!(!wrong.lacks_something());
        assert!(!Stop::from(canceled()).lacks_something());
    }

    #[test]
    fn what_is_wrong_is_no_want() {
        for errno in [Errno::EACCES, Errno::EIO, Errno::ENOENT, Errno::EPERM] {
            let stop = Stop::from(Fault::new("cannot do it", io(errno)));
            assert!(matches!(stop, Stop::Fault(_)), "{stop:?}");
            let refusal = Refusal::failed("`/x`", &io(errno), |message| {
                Refusal::new(Reason::InvalidRequest, message)
            });
            assert_eq!(refusal.reason, Reason::InvalidRequest);
            assert!(unless_lacking("`/x`", Err::<(), _>(errno)).is_ok());
        }
        assert!(lacking(&io::Error::other("words")).is_none());
        assert!(unless_lacking("`/x`", Err::<(), _>(Errno::EMFILE)).is_err());
    }
}
