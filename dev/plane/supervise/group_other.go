//go:build !unix

package supervise

import "syscall"

func ownGroup() *syscall.SysProcAttr { return nil }

// KillOwnGroup does nothing: there are no process groups here.
func KillOwnGroup() {}
