//go:build !linux

package supervise

import (
	"errors"
	"syscall"
)

// Tied returns nil: only Linux can tie a child to its parent.
func Tied() *syscall.SysProcAttr { return nil }

// attributesOf returns an error for an isolated child, because isolating a process requires Linux.
func attributesOf(c Command) (*syscall.SysProcAttr, error) {
	if c.Isolated {
		return nil, errors.New("isolating a process requires Linux")
	}
	return Tied(), nil
}
