package hookjail

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/hookjail/hookjail/clients/go/hookjailpb"
)

// The role of a process that this test starts of itself, and kills.
const parentRole = "HOOKJAIL_TEST_PARENT"

func TestMain(m *testing.M) {
	if config := os.Getenv(parentRole); config != "" {
		beParent(config)
	}
	os.Exit(m.Run())
}

// setup is a configuration of its own, with hooks that are allowed, and a file that only some profiles and requests let a hook read.
type setup struct {
	program, directory, config, socket string
}

func newSetup(t *testing.T) setup {
	t.Helper()
	program := os.Getenv("HOOKJAIL")
	if program == "" {
		t.Skip("HOOKJAIL names no built program")
	}
	// Not t.TempDir(), which a hook of a root daemon, with a uid of its own, cannot enter.
	directory, err := os.MkdirTemp("", "hookjail-go-")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(directory)) })
	s := setup{program, directory, filepath.Join(directory, "hookjail.toml"), filepath.Join(directory, "run/hookjail.sock")}
	must(t, os.Chmod(directory, 0o755))
	must(t, os.Mkdir(filepath.Join(directory, "tree"), 0o755))
	must(t, os.WriteFile(s.path("tree/notes"), []byte("kept\n"), 0o644))
	must(t, os.WriteFile(s.config, []byte(fmt.Sprintf(`
[server]
socket = "%[1]s/run/hookjail.sock"
admin_socket = "%[1]s/run/admin.sock"
[paths]
state = "%[1]s/state"
runtime = "%[1]s/run"
[profiles]
allow = ["strict"]
[hooks]
workspace_roots = ["%[1]s/tree"]
[[hook]]
name = "guard"
contract = "claude_code"
point = "PreToolUse"
matcher = "Bash"
profile = "strict"
command = ["%[1]s/guard.sh"]
[[hook]]
name = "nobody allowed this"
contract = "claude_code"
point = "PostToolUse"
profile = "strict"
command = ["/bin/true"]
`, directory)), 0o600))
	s.hook(t, "guard.sh", `read -r event
case $event in *"rm -rf"*" && "*) echo "not with rm -rf" >&2; exit 2 ;; esac`)
	return s
}

func (s setup) path(name string) string { return filepath.Join(s.directory, name) }

// hook writes a script and allows it under `strict`.
func (s setup) hook(t *testing.T, name, text string) []string {
	t.Helper()
	must(t, os.WriteFile(s.path(name), []byte("#!/bin/sh\n"+text+"\n"), 0o755))
	argv := []string{s.path(name)}
	s.run(t, append([]string{"allow", "--profile", "strict", "--"}, argv...)...)
	return argv
}

// spinning returns whether the hook spin.sh has been started. Hooks of a root daemon are copies, elsewhere in the directory.
func (s setup) spinning() bool { return exec.Command("pgrep", "-f", s.path(".*spin.sh$")).Run() == nil }

func (s setup) run(t *testing.T, arguments ...string) {
	t.Helper()
	output, err := exec.Command(s.program, append([]string{"--config", s.config}, arguments...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("hookjail %q: %v: %s", arguments, err, output)
	}
}

func (s setup) private(t *testing.T) *Client {
	t.Helper()
	client, err := Private(context.Background(), WithProgram(s.program), WithConfig(s.config))
	must(t, err)
	t.Cleanup(func() { must(t, client.Close()) })
	return client
}

// dial starts a daemon and connects to it.
func (s setup) dial(t *testing.T, address string) *Client {
	t.Helper()
	var log bytes.Buffer
	daemon := exec.Command(s.program, "--config", s.config, "serve")
	daemon.Stderr = &log
	must(t, daemon.Start())
	t.Cleanup(func() {
		must(t, daemon.Process.Signal(syscall.SIGTERM))
		if err := daemon.Wait(); err != nil {
			t.Errorf("the daemon ended: %v: %s", err, log.Bytes())
		}
	})
	var client *Client
	within(t, "the daemon listens", func() bool {
		var err error
		client, err = Dial(context.Background(), WithAddress(address))
		return err == nil
	})
	t.Cleanup(func() { must(t, client.Close()) })
	return client
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func within(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if holds() {
			return
		}
	}
	t.Fatalf("not within a minute: %s", what)
}

// Everything that a daemon and a private server must do alike.
func TestServers(t *testing.T) {
	for _, server := range []struct {
		name    string
		connect func(*testing.T, setup) *Client
	}{
		{"daemon", func(t *testing.T, s setup) *Client { return s.dial(t, s.socket) }},
		{"private", func(t *testing.T, s setup) *Client { return s.private(t) }},
	} {
		t.Run(server.name, func(t *testing.T) {
			s := newSetup(t)
			client := server.connect(t, s)
			for _, test := range []struct {
				name string
				run  func(*testing.T, setup, *Client)
			}{
				{"a hook that succeeds", aHookThatSucceeds},
				{"a hook that fails", aHookThatFails},
				{"a hook that exceeds its timeout", aHookThatExceedsItsTimeout},
				{"a refusal names its fix, and the fix helps", aRefusalNamesItsFixAndTheFixHelps},
				{"a stream is refused in the same type", aStreamIsRefusedInTheSameType},
				{"confinement denies a file that a workspace grants", confinementDeniesAFileThatAWorkspaceGrants},
				{"fifty calls at once", fiftyCallsAtOnce},
				{"a dispatch runs the configured hooks", aDispatchRunsTheConfiguredHooks},
				{"cancelling the context kills the hook", cancellingTheContextKillsTheHook},
				{"a deadline of the context is an error", aDeadlineOfTheContextIsAnError},
			} {
				t.Run(test.name, func(t *testing.T) { test.run(t, s, client) })
			}
		})
	}
}

func aHookThatSucceeds(t *testing.T, s setup, client *Client) {
	argv := s.hook(t, "push.sh", `read -r event; echo "read $event" >&2; printf '{"message": "again", "wake": true, "push_when": true}\n'`)
	result, err := client.Execute(context.Background(), Hook{
		Argv:     argv,
		Point:    "turn_end",
		Event:    map[string]string{"user_text": "a && b > c"},
		Contract: hookjailpb.Contract_CONTRACT_REYN,
		Mode:     "shell_push",
		Timeout:  20 * time.Second,
	})
	must(t, err)
	if result.ExitCode != 0 || result.TimedOut() || result.Kind != hookjailpb.OutcomeKind_OUTCOME_KIND_EXITED {
		t.Errorf("the hook ended as %v, code %d", result.Kind, result.ExitCode)
	}
	if push := result.Verdict.GetPush(); push.GetMessage() != "again" || !push.GetWake() {
		t.Errorf("the push is %v", push)
	}
	if !bytes.Contains(result.Stdout, []byte(`"again"`)) || !bytes.Contains(result.Stderr, []byte("a && b > c")) {
		t.Errorf("the hook printed %q and %q", result.Stdout, result.Stderr)
	}
	if result.Backend != "landlock" || result.Profile != "strict" || !result.Confirmed {
		t.Errorf("the hook was confined by %q under %q, confirmed: %v", result.Backend, result.Profile, result.Confirmed)
	}
	if result.Duration <= 0 || result.RunID == "" || result.Response.GetRequestId() == "" {
		t.Errorf("the hook took %v as run %q of request %q", result.Duration, result.RunID, result.Response.GetRequestId())
	}
}

func aHookThatFails(t *testing.T, s setup, client *Client) {
	argv := s.hook(t, "fail.sh", "echo broken >&2; exit 3")
	result, err := client.Execute(context.Background(), Hook{Argv: argv})
	must(t, err)
	if result.ExitCode != 3 || string(result.Stderr) != "broken\n" || !result.Verdict.GetFailed() {
		t.Errorf("code %d, stderr %q, failed: %v", result.ExitCode, result.Stderr, result.Verdict.GetFailed())
	}
}

func aHookThatExceedsItsTimeout(t *testing.T, s setup, client *Client) {
	argv := s.hook(t, "spin.sh", "while :; do :; done")
	result, err := client.Execute(context.Background(), Hook{Argv: argv, Timeout: 2 * time.Second})
	must(t, err)
	if !result.TimedOut() || result.ExitCode != -1 {
		t.Errorf("the hook ended as %v, code %d", result.Kind, result.ExitCode)
	}
}

func aRefusalNamesItsFixAndTheFixHelps(t *testing.T, s setup, client *Client) {
	hook := Hook{Argv: []string{"/bin/echo", "allowed now"}}
	_, err := client.Execute(context.Background(), hook)
	var refused *Refused
	if !errors.As(err, &refused) {
		t.Fatalf("no refusal: %v", err)
	}
	if refused.Reason != ConsentRequired || refused.Code != codes.PermissionDenied || refused.Metadata["request_id"] == "" {
		t.Errorf("refused as %s, %s, %v", refused.Reason, refused.Code, refused.Metadata)
	}
	if strings.Contains(err.Error(), "hookjail allow") {
		t.Errorf("the message, which a model may read, has the command: %v", err)
	}
	// With the program under test as `hookjail`, and its configuration.
	wrapper := s.path("bin/hookjail")
	must(t, os.Mkdir(filepath.Dir(wrapper), 0o755))
	must(t, os.WriteFile(wrapper, []byte(fmt.Sprintf("#!/bin/sh\nexec '%s' --config '%s' \"$@\"\n", s.program, s.config)), 0o755))
	fix := exec.Command("sh", "-c", refused.Fix())
	fix.Env = append(os.Environ(), "PATH="+filepath.Dir(wrapper)+":"+os.Getenv("PATH"))
	if output, err := fix.CombinedOutput(); err != nil {
		t.Fatalf("`%s`: %v: %s", refused.Fix(), err, output)
	}
	result, err := client.Execute(context.Background(), hook)
	must(t, err)
	if string(result.Stdout) != "allowed now\n" {
		t.Errorf("the hook printed %q", result.Stdout)
	}
}

func aStreamIsRefusedInTheSameType(t *testing.T, _ setup, client *Client) {
	stream, err := client.Hooks.ExecuteStream(context.Background(), &hookjailpb.ExecuteStreamRequest{
		Request: &hookjailpb.ExecuteRequest{Hook: &hookjailpb.Hook{Argv: []string{"/bin/true"}}, Profile: "no such profile"},
	})
	must(t, err)
	_, err = stream.Recv()
	var refused *Refused
	if !errors.As(err, &refused) || refused.Reason != ProfileUnknown {
		t.Errorf("no refusal: %v", err)
	}
}

func confinementDeniesAFileThatAWorkspaceGrants(t *testing.T, s setup, client *Client) {
	argv := s.hook(t, "read.sh", fmt.Sprintf("read -r line <'%s' && echo \"$line\"", s.path("tree/notes")))
	bare, err := exec.Command(argv[0]).Output()
	must(t, err)
	granted, err := client.Execute(context.Background(), Hook{Argv: argv, Workspace: s.path("tree")})
	must(t, err)
	if string(bare) != "kept\n" || granted.ExitCode != 0 || string(granted.Stdout) != "kept\n" {
		t.Fatalf("the controls failed: %q, and code %d, %q, %q", bare, granted.ExitCode, granted.Stdout, granted.Stderr)
	}
	denied, err := client.Execute(context.Background(), Hook{Argv: argv})
	must(t, err)
	if denied.ExitCode == 0 || len(denied.Stdout) > 0 || !bytes.Contains(denied.Stderr, []byte("Permission denied")) {
		t.Errorf("code %d, %q, %q", denied.ExitCode, denied.Stdout, denied.Stderr)
	}
}

func fiftyCallsAtOnce(t *testing.T, s setup, client *Client) {
	argv := s.hook(t, "echo.sh", `read -r event; echo "$event"`)
	var calls sync.WaitGroup
	for number := range 50 {
		calls.Add(1)
		go func() {
			defer calls.Done()
			event := fmt.Sprintf(`{"number":%d}`, number)
			result, err := client.Execute(context.Background(), Hook{Argv: argv, Event: json.RawMessage(event), Timeout: time.Minute})
			if err != nil || string(result.Stdout) != event+"\n" {
				t.Errorf("call %d: %v, %v", number, result, err)
			}
		}()
	}
	calls.Wait()
}

func aDispatchRunsTheConfiguredHooks(t *testing.T, s setup, client *Client) {
	call := func(point, command string, closed bool) *Answer {
		t.Helper()
		answer, err := client.Dispatch(context.Background(), Dispatch{
			Point:      point,
			Contract:   hookjailpb.Contract_CONTRACT_CLAUDE_CODE,
			Event:      map[string]any{"tool_name": "Bash", "tool_input": map[string]string{"command": command}},
			Timeout:    time.Minute,
			FailClosed: closed,
		})
		must(t, err)
		return answer
	}
	if denied := call("PreToolUse", "rm -rf / && true", false); denied.Decision != hookjailpb.Decision_DECISION_DENY ||
		denied.BlockedBy != "guard" || denied.Verdict.GetReason() != "not with rm -rf" {
		t.Errorf("not denied: %v", denied.Response)
	}
	if passed := call("PreToolUse", "true", false); passed.Decision != hookjailpb.Decision_DECISION_NONE || len(passed.Hooks) != 1 {
		t.Errorf("not passed: %v", passed.Response)
	}
	refused := call("PostToolUse", "true", true)
	if refused.Hooks[0].GetRefused().GetReason() != string(ConsentRequired) || refused.Decision != hookjailpb.Decision_DECISION_BLOCK {
		t.Errorf("not refused: %v", refused.Response)
	}
}

func cancellingTheContextKillsTheHook(t *testing.T, s setup, client *Client) {
	argv := s.hook(t, "spin.sh", "while :; do :; done")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	call := make(chan error)
	go func() {
		_, err := client.Execute(ctx, Hook{Argv: argv, SessionID: "canceled", Timeout: 5 * time.Minute})
		call <- err
	}()
	recorded := func() bool {
		records, err := hookjailpb.NewAuditServiceClient(client.Connection()).Query(context.Background(), &hookjailpb.QueryRequest{
			Filter: &hookjailpb.AuditFilter{SessionId: "canceled", End: "canceled"},
		})
		must(t, err)
		_, err = records.Recv()
		if err != io.EOF {
			must(t, err)
		}
		return err == nil
	}
	within(t, "the hook runs", s.spinning)
	cancel()
	if err := <-call; !errors.Is(err, context.Canceled) {
		t.Errorf("the call ended with: %v", err)
	}
	within(t, "its end is recorded", recorded)
	if s.spinning() {
		t.Error("the hook still runs")
	}
}

func aDeadlineOfTheContextIsAnError(t *testing.T, _ setup, client *Client) {
	ctx, cancel := context.WithTimeout(context.Background(), 0)
	defer cancel()
	if _, err := client.Execute(ctx, Hook{Argv: []string{"/bin/true"}}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the call ended with: %v", err)
	}
}

func TestNoDaemonIsSaidClearly(t *testing.T) {
	_, err := Dial(context.Background(), WithAddress(filepath.Join(t.TempDir(), "hookjail.sock")))
	var failed *CallError
	if !errors.As(err, &failed) || failed.Code != codes.Unavailable || !strings.Contains(err.Error(), "`hookjail serve`") {
		t.Errorf("the error is: %v", err)
	}
}

func TestAnOptionThatWouldBeLeftOutIsAnError(t *testing.T) {
	s := newSetup(t)
	s.dial(t, s.socket)
	dial, private := WithAddress(s.socket), WithProgram(s.program)
	for _, pair := range []struct {
		connect func(context.Context, ...Option) (*Client, error)
		choices []Option
		message string
	}{
		{Dial, []Option{dial, WithConfig(s.config)}, "option WithConfig is for Private; leave it out for Dial"},
		{Dial, []Option{dial, WithLog(io.Discard)}, "option WithLog is for Private; leave it out for Dial"},
		{Dial, []Option{dial, private}, "option WithProgram is for Private; leave it out for Dial"},
		{Private, []Option{private, WithConfig(s.config), dial}, "option WithAddress is for Dial; leave it out for Private"},
	} {
		client, err := pair.connect(context.Background(), pair.choices...)
		if err == nil {
			must(t, client.Close())
		}
		var failed *CallError
		if !errors.As(err, &failed) || failed.Code != codes.InvalidArgument || !strings.HasSuffix(err.Error(), pair.message) {
			t.Errorf("%s: the error is: %v", pair.message, err)
		}
	}
}

func TestAnAddressMayBeAPathOrAURL(t *testing.T) {
	for _, prefix := range []string{"", "unix:", "unix://"} {
		t.Run(prefix, func(t *testing.T) {
			s := newSetup(t)
			t.Setenv("HOOKJAIL_ADDR", prefix+s.socket)
			if _, err := s.dial(t, "").Hooks.ListHooks(context.Background(), &hookjailpb.ListHooksRequest{}); err != nil {
				t.Error(err)
			}
		})
	}
	if _, err := Dial(context.Background(), WithAddress("https://hooks.example.com:8443")); err == nil || !strings.Contains(err.Error(), "no Unix socket") {
		t.Errorf("the error is: %v", err)
	}
}

func TestAPrivateServerThatCannotStartSaysWhy(t *testing.T) {
	s := newSetup(t)
	must(t, os.WriteFile(s.config, []byte("unknown_key = 1\n"), 0o600))
	_, err := Private(context.Background(), WithProgram(s.program), WithConfig(s.config))
	var failed *CallError
	if !errors.As(err, &failed) || !strings.Contains(err.Error(), "unknown_key") {
		t.Errorf("the error is: %v", err)
	}
	_, err = Private(context.Background(), WithProgram(s.path("missing")))
	if !errors.As(err, &failed) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the error is: %v", err)
	}
}

func TestTheContextEndsAStartThatHangs(t *testing.T) {
	hanging := filepath.Join(t.TempDir(), "hookjail")
	must(t, os.WriteFile(hanging, []byte("#!/bin/sh\nread -r nothing\n"), 0o755))
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if _, err := Private(ctx, WithProgram(hanging)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the error is: %v", err)
	}
}

func TestAPrivateServerThatDiedIsNamed(t *testing.T) {
	s := newSetup(t)
	client := s.private(t)
	must(t, client.server.process.Process.Kill())
	<-client.server.done
	within(t, "the error names the server's end", func() bool {
		_, err := client.Execute(context.Background(), Hook{Argv: []string{"/bin/true"}})
		var failed *CallError
		if !errors.As(err, &failed) {
			t.Fatalf("not a CallError: %v", err)
		}
		return strings.Contains(err.Error(), "the private server has ended (signal: killed)")
	})
}

// beParent is a process with a private server in which a hook runs, until somebody kills it.
func beParent(config string) {
	client, err := Private(context.Background(), WithConfig(config))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("%d\n", client.server.process.Process.Pid)
	_, err = client.Execute(context.Background(), Hook{Argv: []string{filepath.Join(filepath.Dir(config), "spin.sh")}, Timeout: 5 * time.Minute})
	fmt.Fprintln(os.Stderr, "the hook ended:", err)
	os.Exit(1)
}

func TestAPrivateServerEndsWithItsParent(t *testing.T) {
	s := newSetup(t)
	s.hook(t, "spin.sh", "while :; do :; done")
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), parentRole+"="+s.config, "TMPDIR="+s.path("tree"))
	parent.Stderr = os.Stderr
	stdout, err := parent.StdoutPipe()
	must(t, err)
	must(t, parent.Start())
	t.Cleanup(func() { _ = parent.Process.Kill() })
	var server int
	_, err = fmt.Fscan(stdout, &server)
	must(t, err)
	within(t, "the hook runs", s.spinning)
	must(t, parent.Process.Kill())
	_, err = io.Copy(io.Discard, stdout)
	must(t, err)
	if err := parent.Wait(); err == nil {
		t.Fatal("the parent was not killed")
	}
	within(t, "the server has ended", func() bool { return !running(server) })
	sockets, err := filepath.Glob(s.path("tree/hookjail-*"))
	must(t, err)
	if len(sockets) > 0 {
		t.Errorf("left behind: %q", sockets)
	}
	if s.spinning() {
		t.Error("the hook still runs")
	}
}

// running returns whether a process is there and no zombie.
func running(pid int) bool {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(status), ") Z ")
}
