package hookjail

import (
	"fmt"
	"net"
	"os"
	"syscall"
)

// trusted returns an error unless the process that listens on a socket is this user's or root's.
func trusted(connection *net.UnixConn) error {
	raw, err := connection.SyscallConn()
	if err != nil {
		return err
	}
	var peer *syscall.Ucred
	var problem error
	if err := raw.Control(func(fd uintptr) {
		peer, problem = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	}); err != nil {
		return err
	}
	if problem != nil {
		return problem
	}
	return accepted(int(peer.Uid), os.Geteuid())
}

func accepted(server, ownUID int) error {
	if server == ownUID || server == 0 {
		return nil
	}
	return fmt.Errorf("uid %d listens there, and uid %d trusts only its own daemon or root's", server, ownUID)
}
