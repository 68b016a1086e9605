//go:build !linux

package hookjail

import "net"

// trusted asks nothing here: the standard library has no call for it, and the socket's directory is what keeps others out.
func trusted(*net.UnixConn) error { return nil }
