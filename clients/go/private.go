package hookjail

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
)

// The time that a server has to end its runs.
const stopTime = 15 * time.Second

// The end of a server's log that is kept for errors, bytes.
const logKept = 4096

// Private starts a hookjail server that serves this process's user alone, and connects to it. No daemon is needed, but consents
// are: this user's, or those of the configuration that [WithConfig] names.
//
// The server ends when the client is closed, and when this process ends for any reason: then nothing holds its stdin open.
// The context is for the start alone.
func Private(ctx context.Context, choices ...Option) (*Client, error) {
	o, err := apply("Private", choices)
	if err != nil {
		return nil, err
	}
	server, address, err := start(ctx, o)
	if err != nil {
		return nil, &CallError{Code: codes.Unavailable, Err: fmt.Errorf("cannot start a private server: %w", err)}
	}
	socket, err := socketOf(address)
	if err == nil {
		var client *Client
		if client, err = connect(ctx, socket, o, server); err == nil {
			return client, nil
		}
	}
	return nil, errors.Join(err, server.stop())
}

// server is a `hookjail serve --private` that this process started.
type server struct {
	process *exec.Cmd
	stdin   io.Closer
	log     *tail
	// Closed when the process has ended, with end as it was.
	done chan struct{}
	end  error
}

func start(ctx context.Context, o *options) (*server, string, error) {
	program, err := programOf(o.program)
	if err != nil {
		return nil, "", err
	}
	var arguments []string
	if o.config != "" {
		arguments = append(arguments, "--config", o.config)
	}
	s := &server{
		process: exec.Command(program, append(arguments, "serve", "--private")...),
		log:     &tail{also: o.log},
		done:    make(chan struct{}),
	}
	s.process.Stderr = s.log
	// The server listens at an address of its own; the variable is the clients'.
	s.process.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "HOOKJAIL_ADDR=")
	})
	inOwnSession(s.process)
	// A child of the server that keeps its stderr would otherwise delay Wait.
	s.process.WaitDelay = time.Second
	if s.stdin, err = s.process.StdinPipe(); err != nil {
		return nil, "", err
	}
	stdout, stdoutOfServer, err := os.Pipe()
	if err != nil {
		return nil, "", err
	}
	defer stdout.Close()
	s.process.Stdout = stdoutOfServer
	err = s.process.Start()
	stdoutOfServer.Close()
	if err != nil {
		return nil, "", err
	}
	go func() {
		s.end = s.process.Wait()
		close(s.done)
	}()

	// Reading ends with the line, with the server, or with the context, which closes the pipe.
	unhook := context.AfterFunc(ctx, func() { stdout.Close() })
	defer unhook()
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	var report struct {
		Address string `json:"address"`
	}
	if err == nil {
		err = json.Unmarshal(line, &report)
	}
	if err == nil && report.Address == "" {
		err = fmt.Errorf("`%s` names no address", strings.TrimSpace(string(line)))
	}
	if err == nil {
		return s, report.Address, nil
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	} else if errors.Is(err, io.EOF) {
		err = fmt.Errorf("`%s` did not start to listen", program)
	}
	return nil, "", errors.Join(err, s.stop(), s.ended())
}

// stop ends the server as the end of this process would, and waits for it.
func (s *server) stop() error {
	// Closed already where the server has ended.
	_ = s.stdin.Close()
	select {
	case <-s.done:
		return nil
	case <-time.After(stopTime):
	}
	err := s.process.Process.Kill()
	<-s.done
	return errors.Join(fmt.Errorf("the private server did not end within %s, and was killed", stopTime), err)
}

// ended returns how the server ended, with the end of its log; nil while it runs.
func (s *server) ended() error {
	select {
	case <-s.done:
		return fmt.Errorf("the private server has ended (%s); see the end of its log: %s", s.process.ProcessState, s.log)
	default:
		return nil
	}
}

func programOf(named string) (string, error) {
	for _, program := range []string{named, os.Getenv("HOOKJAIL")} {
		if program != "" {
			return program, nil
		}
	}
	program, err := exec.LookPath("hookjail")
	if err != nil {
		return "", fmt.Errorf("hookjail is not installed; name it by WithProgram or HOOKJAIL: %w", err)
	}
	return program, nil
}

// tail keeps the end of a written text.
type tail struct {
	also io.Writer
	mu   sync.Mutex
	kept []byte
}

func (t *tail) Write(text []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, text...)
	if over := len(t.kept) - logKept; over > 0 {
		t.kept = append([]byte(nil), t.kept[over:]...)
	}
	if t.also != nil {
		return t.also.Write(text)
	}
	return len(text), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.kept))
}
