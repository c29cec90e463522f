//go:build !unix

package supervise

import "syscall"

func ownGroup() *syscall.SysProcAttr { return nil }

// KillOwnGroup does nothing, because this system has no process groups.
func KillOwnGroup() {}
