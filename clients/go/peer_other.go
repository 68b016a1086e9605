//go:build !linux

package hookjail

import "net"

// trusted checks nothing here: the standard library has no call for it, and the socket's directory keeps others out.
func trusted(*net.UnixConn) error { return nil }
