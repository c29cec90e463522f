//go:build unix

package supervise

import "syscall"

func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// KillOwnGroup kills the process group of the caller, and the caller with it, if the caller leads
// it. It is the supervisor's last act: what its processes started dies too.
func KillOwnGroup() {
	if pid := syscall.Getpid(); syscall.Getpgrp() == pid {
		_ = syscall.Kill(-pid, syscall.SIGKILL) // it cannot fail: this process is in the group
	}
}
