//go:build !unix

package machine

import (
	"errors"
	"os"
)

// ErrRuns means that another process has the lock.
var ErrRuns = errors.New("already runs")

// TakeLock returns an error, because machines require Unix.
func TakeLock(string) (*os.File, error) { return nil, errors.New("machines require Unix") }

// Process returns 0, because machines require Unix.
func (f Folder) Process() int { return 0 }
