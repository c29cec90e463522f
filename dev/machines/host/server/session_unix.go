//go:build unix

package server

import "syscall"

// ownSession detaches a process from the host's terminal, session and group.
func ownSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
