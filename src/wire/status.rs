//! Refusals and faults as gRPC statuses: the one place where an error becomes a status.

use std::{collections::HashMap, time::Duration};

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use crate::refusal::{Reason, Refusal};

/// Returns the domain of every `ErrorInfo`.
pub const fn domain() -> &'static str {
    "hookjail"
}

/// Turns a refusal into a status with its details.
pub fn status(refusal: &Refusal, request_id: &str) -> Status {
    let mut details = ErrorDetails::new();
    let mut metadata: HashMap<String, String> = refusal.metadata.clone().into_iter().collect();
    metadata.insert("request_id".to_owned(), request_id.to_owned());
    details.set_error_info(refusal.reason.as_str(), domain(), metadata);
    if let Some(field) = &refusal.field {
        details.add_bad_request_violation(&field.field, &field.problem);
    }
    if let Some(command) = refusal
        .metadata
        .get("fix")
        .or_else(|| refusal.metadata.get("approve"))
    {
        details.add_precondition_failure_violation(refusal.reason.as_str(), domain(), command);
    }
    if let Some(delay) = retry(refusal.reason) {
        details.set_retry_info(Some(delay));
    }
    Status::with_error_details(code(refusal.reason), &refusal.message, details)
}

/// Answers a fault: the caller learns the request's id, the log has the rest.
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
        Reason::AuditUnavailable | Reason::Draining => Code::Unavailable,
        Reason::BackendUnconfirmed
        | Reason::GrantMissing
        | Reason::PolicyUnenforceable
        | Reason::ReloadRefused
        | Reason::RequestIdConflict => Code::FailedPrecondition,
        Reason::CallerIsAHook
        | Reason::ConsentRequired
        | Reason::DigestMismatch
        | Reason::NotAllowlisted
        | Reason::PeerNotAllowed => Code::PermissionDenied,
        Reason::Deadline => Code::DeadlineExceeded,
        Reason::EventTooLarge | Reason::InvalidRequest | Reason::ProfileWidened => {
            Code::InvalidArgument
        }
        Reason::Overloaded | Reason::RecordTooLarge | Reason::RecursionLimit => {
            Code::ResourceExhausted
        }
        Reason::PeerUnknown => Code::Unauthenticated,
        Reason::ProfileUnknown => Code::NotFound,
        Reason::Unsupported => Code::Unimplemented,
    }
}

/// When it makes sense to ask again, for refusals that pass by themselves.
fn retry(reason: Reason) -> Option<Duration> {
    (reason == Reason::Overloaded)
        .then_some(Duration::from_millis(200))
        .or_else(|| (reason == Reason::Draining).then_some(Duration::from_secs(2)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reasons and codes are API: this table changes only when the documentation does.
    #[test]
    fn every_reason_has_its_code() {
        let table: Vec<_> = Reason::ALL
            .into_iter()
            .map(|reason| (reason.as_str(), code(reason)))
            .collect();
        let expected = [
            ("AUDIT_UNAVAILABLE", Code::Unavailable),
            ("BACKEND_UNCONFIRMED", Code::FailedPrecondition),
            ("CALLER_IS_A_HOOK", Code::PermissionDenied),
            ("CONSENT_REQUIRED", Code::PermissionDenied),
            ("DEADLINE", Code::DeadlineExceeded),
            ("DIGEST_MISMATCH", Code::PermissionDenied),
            ("DRAINING", Code::Unavailable),
            ("EVENT_TOO_LARGE", Code::InvalidArgument),
            ("GRANT_MISSING", Code::FailedPrecondition),
            ("INVALID_REQUEST", Code::InvalidArgument),
            ("NOT_ALLOWLISTED", Code::PermissionDenied),
            ("OVERLOADED", Code::ResourceExhausted),
            ("PEER_NOT_ALLOWED", Code::PermissionDenied),
            ("PEER_UNKNOWN", Code::Unauthenticated),
            ("POLICY_UNENFORCEABLE", Code::FailedPrecondition),
            ("PROFILE_UNKNOWN", Code::NotFound),
            ("PROFILE_WIDENED", Code::InvalidArgument),
            ("RECORD_TOO_LARGE", Code::ResourceExhausted),
            ("RECURSION_LIMIT", Code::ResourceExhausted),
            ("RELOAD_REFUSED", Code::FailedPrecondition),
            ("REQUEST_ID_CONFLICT", Code::FailedPrecondition),
            ("UNSUPPORTED", Code::Unimplemented),
        ];
        assert_eq!(table, expected);
    }
}
