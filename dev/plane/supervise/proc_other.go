//go:build !linux

package supervise

import (
	"errors"
	"syscall"
)

// Tied asks for nothing: only Linux can tie a child to its parent.
func Tied() *syscall.SysProcAttr { return nil }

// attributesOf asks for nothing: only Linux can isolate a child.
func attributesOf(c Command) (*syscall.SysProcAttr, error) {
	if c.Isolated {
		return nil, errors.New("only Linux has namespaces")
	}
	return Tied(), nil
}
