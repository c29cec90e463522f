//go:build unix

package supervise

import "syscall"

func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// KillOwnGroup kills the caller's process group, including the caller, if the caller leads the group. The
// supervisor calls it last, to end also the children of its processes.
func KillOwnGroup() {
	if pid := syscall.Getpid(); syscall.Getpgrp() == pid {
		_ = syscall.Kill(-pid, syscall.SIGKILL) // it cannot fail: this process is in the group
	}
}
