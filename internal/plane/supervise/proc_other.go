//go:build !linux

package supervise

import "syscall"

// diesWithParent asks for nothing: only Linux can tie a child to its parent.
func diesWithParent() *syscall.SysProcAttr { return nil }
