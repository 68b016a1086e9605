// Package hookjail runs the hooks of agent runtimes through hookjail: confined, on time, and recorded.
//
// [Dial] connects to the daemon of this user or of root; [Private] starts a server of its own, which ends with this process.
// [Client.Execute] runs one command, [Client.Dispatch] every hook that is due at a lifecycle point. Every end of a hook,
// including a failure, is a result. A refusal of hookjail is a [*Refused], a call without an answer a [*CallError]. Neither
// may be read as "allow".
package hookjail

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/hookjail/hookjail/clients/go/hookjailpb"
)

const systemSocket = "/run/hookjail/hookjail.sock"

// Client calls one hookjail server. Many goroutines may use a client at once.
type Client struct {
	// Hooks calls the service itself, for calls without a function in this package. Its errors are those of this package.
	Hooks hookjailpb.HookServiceClient

	connection *grpc.ClientConn
	server     *server
}

// An Option changes how [Dial] or [Private] connects. Passing it to the wrong function is a [*CallError].
type Option func(*options)

type options struct {
	address string
	config  string
	program string
	log     io.Writer
	grpc    []grpc.DialOption
}

// WithAddress names the daemon's socket for [Dial]: a path, or a path after "unix:". The default is HOOKJAIL_ADDR, else the
// first that exists of this user's socket and the system's, as for the command line.
func WithAddress(address string) Option { return func(o *options) { o.address = address } }

// WithConfig names the configuration of a [Private] server; the default is this user's.
func WithConfig(file string) Option { return func(o *options) { o.config = file } }

// WithProgram names the hookjail program that [Private] starts. The default is HOOKJAIL, else hookjail on the PATH.
func WithProgram(program string) Option { return func(o *options) { o.program = program } }

// WithLog also writes a [Private] server's log to w. Errors contain the end of the log in any case.
func WithLog(w io.Writer) Option { return func(o *options) { o.log = w } }

// WithDialOptions adds options of gRPC, for example a stats handler that sends the trace context.
func WithDialOptions(more ...grpc.DialOption) Option {
	return func(o *options) { o.grpc = append(o.grpc, more...) }
}

// Dial connects to a running daemon. A [*CallError] reports that none answers.
//
// Only daemons of this user and of root are trusted: another user's would get the events, and answer for the hooks.
func Dial(ctx context.Context, choices ...Option) (*Client, error) {
	o, err := apply("Dial", choices)
	if err != nil {
		return nil, err
	}
	socket, err := socketOf(o.address)
	if err != nil {
		return nil, &CallError{Code: codes.InvalidArgument, Err: err}
	}
	return connect(ctx, socket, o, nil)
}

// Close ends the connection, and a [Private] server with all that runs in it.
func (c *Client) Close() error {
	err := c.connection.Close()
	if c.server != nil {
		err = errors.Join(err, c.server.stop())
	}
	return err
}

// Connection returns the connection, for hookjail's other services: consent, audit, sandbox. Errors of calls on it are those
// of this package.
func (c *Client) Connection() grpc.ClientConnInterface { return c.connection }

// apply returns the options of a function of this package, and an error for one that the function would ignore.
func apply(function string, choices []Option) (*options, error) {
	o := new(options)
	for _, choose := range choices {
		choose(o)
	}
	for _, option := range []struct {
		name, function string
		isSet          bool
	}{
		{"WithAddress", "Dial", o.address != ""},
		{"WithConfig", "Private", o.config != ""},
		{"WithLog", "Private", o.log != nil},
		{"WithProgram", "Private", o.program != ""},
	} {
		if option.isSet && option.function != function {
			err := fmt.Errorf("option %s is for %s; leave it out for %s", option.name, option.function, function)
			return nil, &CallError{Code: codes.InvalidArgument, Err: err}
		}
	}
	return o, nil
}

// connect makes the client of a socket, and one connection to check that a daemon listens.
func connect(ctx context.Context, socket string, o *options, server *server) (*Client, error) {
	dial := func(ctx context.Context, _ string) (net.Conn, error) {
		connection, err := dialTrusted(ctx, socket)
		if err != nil && server != nil {
			err = errors.Join(err, server.ended())
		}
		return connection, err
	}
	tried, err := dial(ctx, "")
	if err != nil {
		hint := ""
		if server == nil && (errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED)) {
			hint = "; start one with `hookjail serve`, or use Private"
		}
		return nil, &CallError{Code: codes.Unavailable, Err: fmt.Errorf("cannot reach the daemon at `%s`: %w%s", socket, err, hint)}
	}
	if err := tried.Close(); err != nil {
		return nil, &CallError{Code: codes.Unavailable, Err: err}
	}
	// The dialer connects, so the target is a fixed name: hookjail refuses a socket's path as the authority, which gRPC would send.
	connection, err := grpc.NewClient("passthrough:///localhost", append([]grpc.DialOption{
		grpc.WithAuthority("localhost"),
		grpc.WithContextDialer(dial),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithChainUnaryInterceptor(unaryErrors),
		grpc.WithChainStreamInterceptor(streamErrors),
	}, o.grpc...)...)
	if err != nil {
		return nil, &CallError{Code: codes.InvalidArgument, Err: err}
	}
	return &Client{Hooks: hookjailpb.NewHookServiceClient(connection), connection: connection, server: server}, nil
}

// dialTrusted connects to a socket that this user's own daemon or root's listens on.
func dialTrusted(ctx context.Context, socket string) (net.Conn, error) {
	connection, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, err
	}
	if err := trusted(connection.(*net.UnixConn)); err != nil {
		return nil, errors.Join(err, connection.Close())
	}
	return connection, nil
}

// socketOf returns the socket that an address names, or that hookjail's own command line would use.
func socketOf(address string) (string, error) {
	if address == "" {
		address = os.Getenv("HOOKJAIL_ADDR")
	}
	if strings.HasPrefix(address, "https://") || strings.HasPrefix(address, "http://") {
		return "", fmt.Errorf("`%s` is no Unix socket; use hookjailpb with your own connection over the network", address)
	}
	if address != "" {
		return strings.TrimPrefix(strings.TrimPrefix(address, "unix://"), "unix:"), nil
	}
	sockets := usualSockets()
	for _, socket := range sockets {
		if _, err := os.Stat(socket); err == nil {
			return socket, nil
		}
	}
	return sockets[0], nil
}

// usualSockets returns the default sockets of daemons: this user's, then the system's. Root has only the latter.
func usualSockets() []string {
	if os.Geteuid() == 0 {
		return []string{systemSocket}
	}
	directory := ""
	if runtime := absolute("XDG_RUNTIME_DIR"); runtime != "" {
		directory = filepath.Join(runtime, "hookjail")
	} else if usual := filepath.Join("/run/user", strconv.Itoa(os.Geteuid())); isOwn(usual) {
		directory = filepath.Join(usual, "hookjail")
	} else if state := absolute("XDG_STATE_HOME"); state != "" {
		directory = filepath.Join(state, "hookjail/run")
	} else if home := absolute("HOME"); home != "" {
		directory = filepath.Join(home, ".local/state/hookjail/run")
	} else {
		return []string{systemSocket}
	}
	return []string{filepath.Join(directory, "hookjail.sock"), systemSocket}
}

// absolute returns the value of a variable that must be an absolute path, empty where it is none.
func absolute(variable string) string {
	if value := os.Getenv(variable); filepath.IsAbs(value) {
		return value
	}
	return ""
}

// isOwn returns whether a directory is this user's, and no other user can write it.
func isOwn(path string) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.IsDir() || info.Mode().Perm()&0o022 != 0 {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}
