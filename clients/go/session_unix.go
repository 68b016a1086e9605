//go:build unix

package hookjail

import (
	"os/exec"
	"syscall"
)

// inOwnSession starts a command in a session of its own: this process alone handles signals of its terminal.
func inOwnSession(command *exec.Cmd) {
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
}
