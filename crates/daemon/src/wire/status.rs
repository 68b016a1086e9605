//! Refusals and faults as gRPC statuses: the one place where an error becomes a status.

use std::{borrow::Cow, collections::HashMap, time::Duration};

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use hookjail_base::{
    model::InvalidField,
    refusal::{Reason, Refusal, cut},
};

use super::facts::facts;

/// Returns the domain of every `ErrorInfo`.
pub(crate) const fn domain() -> &'static str {
    "hookjail"
}

/// The longest status message, bytes.
const MESSAGE_BYTES: usize = 1024;

/// The longest percent-encoded status message, bytes.
const SENT_BYTES: usize = 2 * MESSAGE_BYTES;

/// The longest details, bytes; as base64 they become 4 KiB.
///
/// With the message that is well below the 8 KiB of metadata that clients of gRPC core accept.
const DETAILS_BYTES: usize = 3 * 1024;

/// The limits of a text in the details, tried in order until the details fit.
const TEXT_BYTES: [usize; 4] = [1024, 512, 256, 128];

/// Facts that are commands or configuration, which must not be truncated.
const COMMAND_FACTS: [&str; 3] = ["approve", "configure", "fix"];

/// Builds a status with details from a refusal, truncated to what every client accepts.
///
/// The reason always arrives, however long the quoted texts are.
pub(crate) fn status(refusal: &Refusal, request_id: &str) -> Status {
    let message = message(&refusal.message);
    let within = |most| details(refusal, request_id, &message, most);
    let mut fitted = within(TEXT_BYTES[0]);
    for most in &TEXT_BYTES[1..] {
        if fitted.details().len() <= DETAILS_BYTES {
            break;
        }
        fitted = within(*most);
    }
    fitted
}

/// Truncates a message so that its percent-encoded form fits.
fn message(text: &str) -> Cow<'_, str> {
    let sent = |text: &str| -> usize {
        let byte = |byte: u8| match byte {
            b' '..=b'~' if !b" \"#<>`?{}%".contains(&byte) => 1,
            _ => 3,
        };
        text.bytes().map(byte).sum()
    };
    let mut message = cut(text, MESSAGE_BYTES);
    let mut most = MESSAGE_BYTES;
    while sent(&message) > SENT_BYTES {
        most -= most / 8;
        message = cut(text, most);
    }
    message
}

/// Builds a status from a refusal with texts of at most `most` bytes.
fn details(refusal: &Refusal, request_id: &str, message: &str, most: usize) -> Status {
    let mut metadata = facts(refusal);
    metadata.retain(|name, fact| fact.len() <= most || !COMMAND_FACTS.contains(&name.as_str()));
    metadata
        .values_mut()
        .for_each(|fact| *fact = cut(fact, most).into_owned());
    let command = metadata.get("fix").or_else(|| metadata.get("approve"));
    let command = command.cloned();
    metadata.insert("request_id".to_owned(), cut(request_id, most).into_owned());
    let mut details = ErrorDetails::new();
    let metadata: HashMap<String, String> = metadata.into_iter().collect();
    details.set_error_info(refusal.reason.as_str(), domain(), metadata);
    if let Some(InvalidField { field, problem }) = &refusal.field {
        details.add_bad_request_violation(cut(field, most), cut(problem, most));
    }
    if let Some(command) = command {
        details.add_precondition_failure_violation(refusal.reason.as_str(), domain(), command);
    }
    if let Some(delay) = refusal.retry.or_else(|| retry(refusal)) {
        details.set_retry_info(Some(delay));
    }
    Status::with_error_details(code(refusal.reason), message, details)
}

/// Builds the status of a fault: the caller gets the request's id, the log has the rest.
pub(super) fn fault(request_id: &str) -> Status {
    let mut details = ErrorDetails::new();
    details.set_request_info(request_id, "");
    Status::with_error_details(
        Code::Internal,
        format!("request {request_id} failed; see the daemon's log"),
        details,
    )
}

const fn code(reason: Reason) -> Code {
    match reason {
        Reason::AlreadyRan => Code::AlreadyExists,
        Reason::AuditUnavailable | Reason::Draining => Code::Unavailable,
        Reason::BackendUnconfirmed
        | Reason::GrantMissing
        | Reason::PolicyUnenforceable
        | Reason::ReloadRefused
        | Reason::RequestIdConflict => Code::FailedPrecondition,
        Reason::Canceled => Code::Cancelled,
        Reason::Killed => Code::Aborted,
        Reason::CallerIsAHook
        | Reason::ConsentRequired
        | Reason::DigestMismatch
        | Reason::NotAllowlisted
        | Reason::PeerNotAllowed => Code::PermissionDenied,
        Reason::Deadline => Code::DeadlineExceeded,
        Reason::EventTooLarge | Reason::InvalidRequest | Reason::ProfileWidened => {
            Code::InvalidArgument
        }
        Reason::Overloaded
        | Reason::RateLimited
        | Reason::RecordTooLarge
        | Reason::RecursionLimit => Code::ResourceExhausted,
        Reason::PeerUnknown => Code::Unauthenticated,
        Reason::ProfileUnknown | Reason::RunUnknown => Code::NotFound,
        Reason::Unsupported => Code::Unimplemented,
    }
}

/// Returns the retry delay of a temporary refusal; none where the hook ran, as it would run twice.
fn retry(refusal: &Refusal) -> Option<Duration> {
    if refusal.is_released() {
        return None;
    }
    (refusal.reason == Reason::Overloaded)
        .then_some(Duration::from_millis(200))
        .or_else(|| (refusal.reason == Reason::Draining).then_some(Duration::from_secs(2)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_told_to_ask_again_for_a_hook_that_ran() {
        let hint = |refusal: &Refusal| status(refusal, "").get_details_retry_info();
        let refusal = Refusal::new(Reason::Overloaded, "");
        assert!(hint(&refusal).is_some());
        assert!(hint(&refusal.released()).is_none());
    }

    #[test]
    fn a_refusal_says_when_to_come_back_and_where_it_does_not_know_its_reason_does() {
        let delay = |refusal: Refusal| {
            let details = status(&refusal, "r").get_error_details();
            let info = details.retry_info().cloned();
            info.and_then(|info| info.retry_delay)
        };
        let refused = |reason| Refusal::new(reason, "full");
        let seven = Duration::from_secs(7);
        assert_eq!(delay(refused(Reason::Overloaded).after(seven)), Some(seven));
        for reason in Reason::ALL {
            assert_eq!(
                delay(refused(reason)),
                retry(&refused(reason)),
                "{}",
                reason.as_str()
            );
        }
        assert!(delay(refused(Reason::Overloaded)).is_some_and(|delay| delay < seven));
    }

    /// Reasons and codes are API: this table changes only with the documentation.
    #[test]
    fn every_reason_has_its_code() {
        let table: Vec<_> = Reason::ALL
            .into_iter()
            .map(|reason| (reason.as_str(), code(reason)))
            .collect();
        let expected = [
            ("ALREADY_RAN", Code::AlreadyExists),
            ("AUDIT_UNAVAILABLE", Code::Unavailable),
            ("BACKEND_UNCONFIRMED", Code::FailedPrecondition),
            ("CALLER_IS_A_HOOK", Code::PermissionDenied),
            ("CANCELED", Code::Cancelled),
            ("CONSENT_REQUIRED", Code::PermissionDenied),
            ("DEADLINE", Code::DeadlineExceeded),
            ("DIGEST_MISMATCH", Code::PermissionDenied),
            ("DRAINING", Code::Unavailable),
            ("EVENT_TOO_LARGE", Code::InvalidArgument),
            ("GRANT_MISSING", Code::FailedPrecondition),
            ("INVALID_REQUEST", Code::InvalidArgument),
            ("KILLED", Code::Aborted),
            ("NOT_ALLOWLISTED", Code::PermissionDenied),
            ("OVERLOADED", Code::ResourceExhausted),
            ("PEER_NOT_ALLOWED", Code::PermissionDenied),
            ("PEER_UNKNOWN", Code::Unauthenticated),
            ("POLICY_UNENFORCEABLE", Code::FailedPrecondition),
            ("PROFILE_UNKNOWN", Code::NotFound),
            ("PROFILE_WIDENED", Code::InvalidArgument),
            ("RATE_LIMITED", Code::ResourceExhausted),
            ("RECORD_TOO_LARGE", Code::ResourceExhausted),
            ("RECURSION_LIMIT", Code::ResourceExhausted),
            ("RELOAD_REFUSED", Code::FailedPrecondition),
            ("REQUEST_ID_CONFLICT", Code::FailedPrecondition),
            ("RUN_UNKNOWN", Code::NotFound),
            ("UNSUPPORTED", Code::Unimplemented),
        ];
        assert_eq!(table, expected);
    }
}
