//go:build unix

package hookjail

import (
	"os/exec"
	"syscall"
)

// inOwnSession has a command start in a session of its own: what a terminal sends to this process is for this process to deal with.
func inOwnSession(command *exec.Cmd) {
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
}
