//go:build !unix

package host

import "syscall"

func ownGroup() *syscall.SysProcAttr { return nil }
