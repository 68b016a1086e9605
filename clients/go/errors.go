package hookjail

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const domain = "hookjail"

// Reason is the stable name of why a hook was not run. docs/api.md has the cause and the fix of each.
type Reason string

// The reasons.
const (
	AlreadyRan          Reason = "ALREADY_RAN"
	AuditUnavailable    Reason = "AUDIT_UNAVAILABLE"
	BackendUnconfirmed  Reason = "BACKEND_UNCONFIRMED"
	CallerIsAHook       Reason = "CALLER_IS_A_HOOK"
	Canceled            Reason = "CANCELED"
	ConsentRequired     Reason = "CONSENT_REQUIRED"
	Deadline            Reason = "DEADLINE"
	DigestMismatch      Reason = "DIGEST_MISMATCH"
	Draining            Reason = "DRAINING"
	EventTooLarge       Reason = "EVENT_TOO_LARGE"
	GrantMissing        Reason = "GRANT_MISSING"
	InvalidRequest      Reason = "INVALID_REQUEST"
	Killed              Reason = "KILLED"
	NotAllowlisted      Reason = "NOT_ALLOWLISTED"
	Overloaded          Reason = "OVERLOADED"
	PeerNotAllowed      Reason = "PEER_NOT_ALLOWED"
	PeerUnknown         Reason = "PEER_UNKNOWN"
	PolicyUnenforceable Reason = "POLICY_UNENFORCEABLE"
	ProfileUnknown      Reason = "PROFILE_UNKNOWN"
	ProfileWidened      Reason = "PROFILE_WIDENED"
	RateLimited         Reason = "RATE_LIMITED"
	RecordTooLarge      Reason = "RECORD_TOO_LARGE"
	RecursionLimit      Reason = "RECURSION_LIMIT"
	ReloadRefused       Reason = "RELOAD_REFUSED"
	RequestIDConflict   Reason = "REQUEST_ID_CONFLICT"
	RunUnknown          Reason = "RUN_UNKNOWN"
	Unsupported         Reason = "UNSUPPORTED"
)

// Refused is hookjail's refusal of a call. Get it with [errors.As].
//
// Message may be shown to a model. Metadata and Fix may not: they have the command that lifts the refusal, which is the
// operator's to run.
type Refused struct {
	// Code is the status of the call.
	Code codes.Code
	// Reason is the stable name of the refusal.
	Reason Reason
	// Message describes the problem.
	Message string
	// Metadata has the facts, by the names in docs/api.md, always with request_id.
	Metadata map[string]string
	// RetryAfter is the delay before a retry; 0 where a retry is of no use.
	RetryAfter time.Duration

	status *status.Status
}

// Error returns reason and message.
func (r *Refused) Error() string { return fmt.Sprintf("hookjail refused: %s: %s", r.Reason, r.Message) }

// Fix returns the operator's fix: the command that repairs the host, or that allows the hook, or the lines to add to the
// configuration. Empty where there is none.
func (r *Refused) Fix() string {
	for _, name := range []string{"fix", "approve", "configure"} {
		if fact := r.Metadata[name]; fact != "" {
			return fact
		}
	}
	return ""
}

// GRPCStatus returns the status that the server sent, with all its details.
func (r *Refused) GRPCStatus() *status.Status { return r.status }

// CallError reports a call without an answer of hookjail: no daemon listens, the connection broke, the context ended, or the
// server has a fault. The hook's end is then unknown, unless nothing was sent.
//
// A CallError wraps the cause: [errors.Is] finds [context.Canceled] and [context.DeadlineExceeded].
type CallError struct {
	// Code is the status of the call.
	Code codes.Code
	// Err is the cause.
	Err error
}

// Error returns the code and the cause.
func (e *CallError) Error() string {
	if s, ok := status.FromError(e.Err); ok {
		return fmt.Sprintf("hookjail: %s: %s", e.Code, s.Message())
	}
	return fmt.Sprintf("hookjail: %v", e.Err)
}

// Unwrap returns the cause, and the standard library's error for it, if any.
func (e *CallError) Unwrap() []error {
	switch e.Code {
	case codes.Canceled:
		return []error{e.Err, context.Canceled}
	case codes.DeadlineExceeded:
		return []error{e.Err, context.DeadlineExceeded}
	default:
		return []error{e.Err}
	}
}

// typed converts a status to an error of this package.
func typed(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	s := status.Convert(err)
	var refused *Refused
	var retry time.Duration
	for _, detail := range s.Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			if detail.GetDomain() == domain {
				refused = &Refused{
					Code: s.Code(), Reason: Reason(detail.GetReason()), Message: s.Message(), Metadata: detail.GetMetadata(), status: s,
				}
			}
		case *errdetails.RetryInfo:
			retry = detail.GetRetryDelay().AsDuration()
		}
	}
	if refused == nil {
		return &CallError{Code: s.Code(), Err: err}
	}
	refused.RetryAfter = retry
	return refused
}

func unaryErrors(
	ctx context.Context, method string, request, reply any, connection *grpc.ClientConn, call grpc.UnaryInvoker, options ...grpc.CallOption,
) error {
	return typed(call(ctx, method, request, reply, connection, options...))
}

func streamErrors(
	ctx context.Context, description *grpc.StreamDesc, connection *grpc.ClientConn, method string, call grpc.Streamer, options ...grpc.CallOption,
) (grpc.ClientStream, error) {
	stream, err := call(ctx, description, connection, method, options...)
	if err != nil {
		return nil, typed(err)
	}
	return typedStream{stream}, nil
}

type typedStream struct{ grpc.ClientStream }

func (s typedStream) SendMsg(message any) error { return typed(s.ClientStream.SendMsg(message)) }
func (s typedStream) RecvMsg(message any) error { return typed(s.ClientStream.RecvMsg(message)) }
