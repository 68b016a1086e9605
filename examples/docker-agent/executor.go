// Package jailedhooks is an executor of docker-agent's hooks that starts no shell: hookjail runs the hooks, confined.
//
// In docker-agent, an executor matches the entries of an event, starts `sh -c COMMAND` for each, and folds exit codes and output into one
// result. Here all of that is one call: the entries go to hookjail as they are written, and its answer under the contract docker_agent
// becomes the result. Input, Entry, Matcher and Result have the fields of docker-agent's own types of the same purpose.
package jailedhooks

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	hookjail "github.com/hookjail/hookjail/clients/go"
	"github.com/hookjail/hookjail/clients/go/hookjailpb"
)

// Input is the event that a hook reads on its stdin.
type Input struct {
	SessionID     string         `json:"session_id"`
	Cwd           string         `json:"cwd"`
	HookEventName string         `json:"hook_event_name"`
	ToolName      string         `json:"tool_name,omitempty"`
	ToolUseID     string         `json:"tool_use_id,omitempty"`
	ToolInput     map[string]any `json:"tool_input,omitempty"`
	ToolResponse  any            `json:"tool_response,omitempty"`
	Source        string         `json:"source,omitempty"`
	Reason        string         `json:"reason,omitempty"`
}

// Entry is one hook of an agent's file.
type Entry struct {
	Type    string `json:"type"`
	Name    string `json:"name,omitempty"`
	Command string `json:"command"`
	// Seconds; 0 is docker-agent's default of 60.
	Timeout int    `json:"timeout,omitempty"`
	OnError string `json:"on_error,omitempty"`
}

// Matcher has the hooks for the tools whose whole name its expression matches. Events without a tool have hooks with no expression.
type Matcher struct {
	Matcher string
	Hooks   []Entry
}

// Result is what the hooks of an event mean for the runtime.
type Result struct {
	Allowed           bool
	Ask               bool
	Message           string
	ModifiedInput     map[string]any
	AdditionalContext string
	SystemMessage     string
}

// Executor runs the hooks of one agent.
type Executor struct {
	client *hookjail.Client
	hooks  map[string][]Matcher
}

// New starts a private hookjail server for the hooks, which are by event. The server ends with Close, or with this process.
func New(ctx context.Context, hooks map[string][]Matcher, options ...hookjail.Option) (*Executor, error) {
	client, err := hookjail.Private(ctx, options...)
	if err != nil {
		return nil, err
	}
	return &Executor{client: client, hooks: hooks}, nil
}

// Close ends the server and what runs in it.
func (e *Executor) Close() error { return e.client.Close() }

// Execute runs the hooks of an event. With an error nothing is allowed: the result can be used without looking at it.
func (e *Executor) Execute(ctx context.Context, input *Input) (*Result, error) {
	var hooks []*hookjailpb.InlineHook
	for _, matcher := range e.hooks[input.HookEventName] {
		for _, entry := range matcher.Hooks {
			if entry.Type != "command" {
				return stopped(fmt.Errorf("a hook of type %q is the runtime's own to run", entry.Type))
			}
			config, err := json.Marshal(entry)
			if err != nil {
				return stopped(err)
			}
			hooks = append(hooks, &hookjailpb.InlineHook{
				Hook:       &hookjailpb.Hook{Name: entry.Name, Shell: &hookjailpb.Shell{Script: entry.Command}},
				Matcher:    matcher.Matcher,
				ConfigJson: string(config),
			})
		}
	}
	if len(hooks) == 0 {
		return &Result{Allowed: true}, nil
	}
	answer, err := e.client.Dispatch(ctx, hookjail.Dispatch{
		Contract:  hookjailpb.Contract_CONTRACT_DOCKER_AGENT,
		Point:     input.HookEventName,
		Event:     input,
		Cwd:       input.Cwd,
		SessionID: input.SessionID,
		Hooks:     hooks,
	})
	if err != nil {
		return stopped(err)
	}
	return resultOf(answer)
}

func stopped(err error) (*Result, error) { return &Result{Message: err.Error()}, err }

func resultOf(answer *hookjail.Answer) (*Result, error) {
	verdict := answer.Verdict
	result := &Result{
		Message:           strings.Join(answer.Response.GetMessages(), "\n"),
		AdditionalContext: strings.Join(verdict.GetAdditionalContext(), "\n"),
		SystemMessage:     verdict.GetSystemMessage(),
	}
	switch answer.Decision {
	case hookjailpb.Decision_DECISION_NONE, hookjailpb.Decision_DECISION_ALLOW:
		result.Allowed = true
	case hookjailpb.Decision_DECISION_ASK:
		result.Allowed, result.Ask, result.Message = true, true, verdict.GetReason()
	default:
		// An unknown decision stops, as DENY and BLOCK do.
		return result, nil
	}
	if patch := verdict.GetUpdatedInputJson(); patch != "" {
		if err := json.Unmarshal([]byte(patch), &result.ModifiedInput); err != nil {
			return stopped(fmt.Errorf("the rewritten input is no object: %w", err))
		}
	}
	return result, nil
}
