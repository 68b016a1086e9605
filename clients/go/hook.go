package hookjail

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/hookjail/hookjail/clients/go/hookjailpb"
)

// The time that a call may take beyond the hook's own time, so that hookjail's answer comes before the call's deadline.
const margin = 10 * time.Second

// The longest that a hook may run under the shipped profiles.
const longest = 30 * time.Minute

// Hook is one command to run. Fields with their zero value default to the contract's or the profile's.
type Hook struct {
	// Argv is the program and its arguments; the program is an absolute path or a name on the profile's PATH.
	Argv []string
	// Script is a command line for the contract's shell, instead of Argv.
	Script string
	// Name is for logs and records.
	Name string

	// Point is the lifecycle point, in the contract's spelling.
	Point string
	// Event is the hook's stdin: any value that encoding/json encodes; a [json.RawMessage] is sent as it is.
	Event any
	// Contract defines the meaning of event, exit code and output; by default they have none, and the result has the facts alone.
	Contract hookjailpb.Contract
	// Mode is one of the contract's modes.
	Mode string

	// Profile defines the rights of the hook.
	Profile string
	// Workspace is the directory that the profile grants as the workspace; absolute, below a root that the operator lists.
	Workspace string
	// WorkingDir is the hook's working directory; absolute, inside a grant.
	WorkingDir string
	// Env has variables that the profile admits.
	Env map[string]string
	// Timeout is the wall time for queue, set-up and run together. The call itself gets some seconds more. Without it, and without
	// a deadline of the context, the call gets half an hour, the maximum of the shipped profiles.
	Timeout time.Duration

	// FailClosed makes a failed hook stop the operation that it guards, also where the contract would let it pass.
	FailClosed bool
	// SessionID scopes what the contract remembers.
	SessionID string
	// RequestID makes the call idempotent: a retry of the same hook under the same id is answered and not run.
	RequestID string
}

// Result is the end of a hook.
type Result struct {
	// Kind is the kind of its end.
	Kind hookjailpb.OutcomeKind
	// ExitCode is its exit code, -1 if it did not exit by itself.
	ExitCode int
	// Stdout and Stderr are its output, up to the profile's limit.
	Stdout, Stderr []byte
	// Decision is the meaning of its end under the contract; Verdict has the rest.
	Decision hookjailpb.Decision
	// Verdict is the whole meaning: reasons, texts for the model, rewrites. Never nil.
	Verdict *hookjailpb.Verdict
	// Duration is the time from the arrival of the request to the end of the hook.
	Duration time.Duration
	// Backend confined it, under Profile.
	Backend, Profile string
	// Confirmed is true only if confinement was proved, on this host and in this run.
	Confirmed bool
	// Denials are the syscalls that the sandbox denied. Denied files are not among them.
	Denials []*hookjailpb.Denial
	// RunID is the run's id in the journal.
	RunID string
	// Response is the whole answer.
	Response *hookjailpb.ExecuteResponse
}

// TimedOut returns whether its deadline ended the hook.
func (r *Result) TimedOut() bool { return r.Kind == hookjailpb.OutcomeKind_OUTCOME_KIND_TIMED_OUT }

// Execute runs one command, and waits for its end. Cancelling the context kills it, except at points of an end.
func (c *Client) Execute(ctx context.Context, hook Hook) (*Result, error) {
	event, err := encode(hook.Point, hook.Event)
	if err != nil {
		return nil, err
	}
	request := &hookjailpb.ExecuteRequest{
		RequestId: hook.RequestID,
		Hook: &hookjailpb.Hook{
			Name: hook.Name, Argv: hook.Argv, Env: hook.Env, WorkingDir: hook.WorkingDir, Workspace: hook.Workspace,
		},
		Contract:  hook.Contract,
		Event:     event,
		Mode:      hook.Mode,
		Profile:   hook.Profile,
		Timeout:   duration(hook.Timeout),
		OnFailure: onFailure(hook.FailClosed),
		SessionId: hook.SessionID,
		Depth:     depth(),
	}
	if hook.Script != "" {
		request.Hook.Shell = &hookjailpb.Shell{Script: hook.Script}
	}
	ctx, cancel := context.WithTimeout(ctx, patience(hook.Timeout))
	defer cancel()
	response, err := c.Hooks.Execute(ctx, request)
	if err != nil {
		return nil, err
	}
	return resultOf(response), nil
}

// Dispatch is a lifecycle point whose hooks are due. Fields with their zero value are unknown or the operator's.
type Dispatch struct {
	// Point is the lifecycle point, in the contract's spelling.
	Point string
	// Event is the event, as in [Hook], but an object.
	Event any
	// Contract selects the hooks of one contract; optional if all due hooks have the same.
	Contract hookjailpb.Contract

	// Tool is the tool call of the event.
	Tool *hookjailpb.Tool
	// Agent is the agent's name.
	Agent string
	// Cwd is the runtime's working directory.
	Cwd string
	// Workspace is the directory that profiles grant as the workspace; by default Cwd, where the operator allows that.
	Workspace string
	// Hooks are the caller's own, after the operator's. They need a Contract.
	Hooks []*hookjailpb.InlineHook
	// Timeout is the wall time for all hooks together; otherwise as in [Hook].
	Timeout time.Duration

	// FailClosed makes a failed or refused hook stop the operation that it guards, also where the contract would let it pass.
	FailClosed bool
	// SessionID scopes what the contract remembers.
	SessionID string
	// RequestID makes the call idempotent, as in [Hook].
	RequestID string
}

// Answer is the folded answer of all hooks of a lifecycle point.
type Answer struct {
	// Decision is the folded decision.
	Decision hookjailpb.Decision
	// Verdict is the folded answer: reasons, texts for the model, rewrites. Never nil.
	Verdict *hookjailpb.Verdict
	// BlockedBy is the name of the hook that stopped; empty if none did.
	BlockedBy string
	// Hooks has each hook that was reached, with its result or its refusal.
	Hooks []*hookjailpb.DispatchedHook
	// Response is the whole answer.
	Response *hookjailpb.DispatchResponse
}

// Dispatch runs all hooks that are due at a lifecycle point, and waits for their ends. A refused hook is no error: its contract
// treats it as a hook that could not be started.
func (c *Client) Dispatch(ctx context.Context, dispatch Dispatch) (*Answer, error) {
	event, err := encode(dispatch.Point, dispatch.Event)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience(dispatch.Timeout))
	defer cancel()
	response, err := c.Hooks.Dispatch(ctx, &hookjailpb.DispatchRequest{
		RequestId:   dispatch.RequestID,
		SessionId:   dispatch.SessionID,
		Contract:    dispatch.Contract,
		Event:       event,
		Agent:       dispatch.Agent,
		Cwd:         dispatch.Cwd,
		Workspace:   dispatch.Workspace,
		Tool:        dispatch.Tool,
		InlineHooks: dispatch.Hooks,
		Timeout:     duration(dispatch.Timeout),
		OnFailure:   onFailure(dispatch.FailClosed),
		Depth:       depth(),
	})
	if err != nil {
		return nil, err
	}
	verdict := response.GetAnswer()
	if verdict == nil {
		verdict = new(hookjailpb.Verdict)
	}
	return &Answer{
		Decision:  verdict.GetDecision(),
		Verdict:   verdict,
		BlockedBy: response.GetBlockedByHook(),
		Hooks:     response.GetHooks(),
		Response:  response,
	}, nil
}

func resultOf(response *hookjailpb.ExecuteResponse) *Result {
	outcome, confinement, verdict := response.GetOutcome(), response.GetConfinement(), response.GetVerdict()
	if verdict == nil {
		verdict = new(hookjailpb.Verdict)
	}
	result := &Result{
		Kind:      outcome.GetKind(),
		ExitCode:  -1,
		Stdout:    response.GetStdout(),
		Stderr:    response.GetStderr(),
		Decision:  verdict.GetDecision(),
		Verdict:   verdict,
		Duration:  response.GetUsage().GetWall().AsDuration(),
		Backend:   confinement.GetBackend(),
		Profile:   confinement.GetProfile(),
		Confirmed: confinement.GetConfirmed(),
		Denials:   response.GetDenials(),
		RunID:     response.GetAudit().GetRunId(),
		Response:  response,
	}
	if outcome != nil && outcome.ExitCode != nil {
		result.ExitCode = int(outcome.GetExitCode())
	}
	return result
}

func encode(point string, event any) (*hookjailpb.Event, error) {
	if event == nil {
		return &hookjailpb.Event{Point: point}, nil
	}
	if text, ok := event.(json.RawMessage); ok {
		return &hookjailpb.Event{Point: point, Json: text}, nil
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	// Hooks search their stdin for `&&` and `>`: these stay as they are.
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(event); err != nil {
		return nil, &CallError{Code: codes.InvalidArgument, Err: fmt.Errorf("the event is no JSON: %w", err)}
	}
	return &hookjailpb.Event{Point: point, Json: bytes.TrimSuffix(text.Bytes(), []byte("\n"))}, nil
}

func duration(timeout time.Duration) *durationpb.Duration {
	if timeout == 0 {
		return nil
	}
	return durationpb.New(timeout)
}

func patience(timeout time.Duration) time.Duration {
	if timeout <= 0 {
		timeout = longest
	}
	return timeout + margin
}

func onFailure(closed bool) hookjailpb.OnFailure {
	if closed {
		return hookjailpb.OnFailure_ON_FAILURE_CLOSED
	}
	return hookjailpb.OnFailure_ON_FAILURE_UNSPECIFIED
}

// depth returns the nesting depth of hooks around this process, which hookjail limits.
func depth() uint32 {
	text := os.Getenv("HOOKJAIL_DEPTH")
	if text == "" {
		return 0
	}
	depth, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return math.MaxUint32
	}
	return uint32(depth)
}
