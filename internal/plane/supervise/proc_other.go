//go:build !linux

package supervise

import (
	"errors"
	"syscall"
)

// attributesOf asks for nothing: only Linux can tie a child to its parent, or isolate it.
func attributesOf(c Command) (*syscall.SysProcAttr, error) {
	if c.Isolated {
		return nil, errors.New("only Linux has namespaces")
	}
	return nil, nil
}
