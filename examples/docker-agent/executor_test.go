package jailedhooks

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	hookjail "github.com/hookjail/hookjail/clients/go"
)

// Commands of an agent's file, by the case that they stand for.
var commands = map[string]string{
	"exit 2":  `grep -q "rm -rf" && { echo "not with rm -rf" >&2; exit 2; }; exit 0`,
	"allow":   `echo '{"hook_specific_output": {"permission_decision": "allow", "updated_input": {"timeout": 10}}}'`,
	"ask":     `echo '{"hook_specific_output": {"permission_decision": "ask", "permission_decision_reason": "sure?"}}'`,
	"deny":    `echo '{"hook_specific_output": {"permission_decision": "deny", "permission_decision_reason": "never"}}'`,
	"stop":    `echo '{"continue": false, "stop_reason": "enough"}'`,
	"broken":  `echo '{"decision": "block"} and a line of a log'`,
	"exit 1":  `exit 1`,
	"context": `echo "the branch is main"`,
	"notice":  `echo '{"system_message": "look here"}'`,
	"spin":    `while :; do :; done`,
	"escape":  `cat /etc/hostname >&2 || exit 2`,
}

func TestExecutor(t *testing.T) {
	program := os.Getenv("HOOKJAIL")
	if program == "" {
		t.Skip("HOOKJAIL names no built program")
	}
	// Not t.TempDir(), which a hook of a root daemon, with a uid of its own, cannot enter.
	directory, err := os.MkdirTemp("", "hookjail-go-")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(directory)) })
	must(t, os.Chmod(directory, 0o755))
	workspace := filepath.Join(directory, "tree")
	must(t, os.Mkdir(workspace, 0o755))
	config := filepath.Join(directory, "hookjail.toml")
	must(t, os.WriteFile(config, []byte(fmt.Sprintf(`
[paths]
state = "%[1]s/state"
runtime = "%[1]s/run"
[profiles]
allow = ["workspace-ro"]
[hooks]
workspace_roots = ["%[2]s"]
`, directory, workspace)), 0o600))
	for _, command := range commands {
		allow := exec.Command(program, "--config", config, "allow", "--profile", "workspace-ro", "--", "/bin/sh", "-c", command)
		if output, err := allow.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, output)
		}
	}
	server := []hookjail.Option{hookjail.WithProgram(program), hookjail.WithConfig(config)}

	for _, test := range []struct {
		event, matcher string
		hooks          []string
		onError        string
		expected       Result
	}{
		{"pre_tool_use", "shell|edit_.*", []string{"exit 2"}, "", Result{Message: "not with rm -rf"}},
		{"pre_tool_use", "edit_.*", []string{"exit 2"}, "", Result{Allowed: true}},
		{"pre_tool_use", "*", []string{"allow"}, "", Result{Allowed: true, ModifiedInput: map[string]any{"timeout": 10.0}}},
		{"pre_tool_use", "*", []string{"allow", "ask"}, "", Result{Allowed: true, Ask: true, Message: "sure?", ModifiedInput: map[string]any{"timeout": 10.0}}},
		{"pre_tool_use", "*", []string{"ask", "deny"}, "", Result{Message: "never"}},
		{"post_tool_use", "*", []string{"stop"}, "", Result{Message: "enough"}},
		{"pre_tool_use", "*", []string{"notice"}, "", Result{Allowed: true, SystemMessage: "look here"}},
		{"session_start", "", []string{"context"}, "", Result{Allowed: true, AdditionalContext: "the branch is main"}},
		{"user_prompt_submit", "", []string{"exit 1"}, "ignore", Result{Allowed: true}},
	} {
		t.Run(test.event+" "+strings.Join(test.hooks, ", "), func(t *testing.T) {
			result := execute(t, server, workspace, test.event, test.matcher, test.onError, test.hooks...)
			if !reflect.DeepEqual(*result, test.expected) {
				t.Errorf("%+v instead of %+v", *result, test.expected)
			}
		})
	}

	// Where a hook that broke lets nothing pass; the words are hookjail's.
	for _, hook := range []string{"exit 1", "broken", "spin", "escape", "nobody allowed this"} {
		t.Run("pre_tool_use fails closed: "+hook, func(t *testing.T) {
			if result := execute(t, server, workspace, "pre_tool_use", "*", "ignore", hook); result.Allowed || result.Message == "" {
				t.Errorf("%+v", *result)
			}
		})
	}

	// The control of "escape": without confinement this command lets the call pass.
	if output, err := exec.Command("/bin/sh", "-c", commands["escape"]).CombinedOutput(); err != nil {
		t.Errorf("the control failed: %v: %s", err, output)
	}

	t.Run("no answer is no permission", func(t *testing.T) {
		executor := start(t, server, "pre_tool_use", "*", "", "allow")
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		result, err := executor.Execute(ctx, event(workspace, "pre_tool_use"))
		if !errors.Is(err, context.Canceled) || result.Allowed {
			t.Errorf("%+v, %v", result, err)
		}
	})
}

func execute(t *testing.T, server []hookjail.Option, workspace, point, matcher, onError string, hooks ...string) *Result {
	t.Helper()
	result, err := start(t, server, point, matcher, onError, hooks...).Execute(context.Background(), event(workspace, point))
	must(t, err)
	return result
}

func start(t *testing.T, server []hookjail.Option, point, matcher, onError string, hooks ...string) *Executor {
	t.Helper()
	var entries []Entry
	for _, name := range hooks {
		command, known := commands[name]
		if !known {
			command = "echo " + name
		}
		timeout := 0
		if name == "spin" {
			timeout = 1
		}
		entries = append(entries, Entry{Type: "command", Name: name, Command: command, OnError: onError, Timeout: timeout})
	}
	executor, err := New(context.Background(), map[string][]Matcher{point: {{Matcher: matcher, Hooks: entries}}}, server...)
	must(t, err)
	t.Cleanup(func() { must(t, executor.Close()) })
	return executor
}

func event(workspace, point string) *Input {
	input := &Input{SessionID: "s", Cwd: workspace, HookEventName: point}
	if strings.HasSuffix(point, "_tool_use") {
		input.ToolName, input.ToolUseID, input.ToolInput = "shell", "u", map[string]any{"command": "rm -rf /"}
	}
	return input
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
