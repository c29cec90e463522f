//go:build unix

package machine

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// ErrRuns means that another process has the lock.
var ErrRuns = errors.New("already runs")

// TakeLock locks a file until the file is closed or this process ends. A record lock names its process, is not
// inherited by children, and ends with the process, however that ends. The error wraps ErrRuns if another process has
// it. No other code of this process may open the file, because closing it would release the lock.
func TakeLock(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening a lock: %w", err)
	}
	err = unix.FcntlFlock(file.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
	if err == nil {
		return file, nil
	}
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		err = ErrRuns
	}
	_ = file.Close() // err is the error to report
	return nil, fmt.Errorf("locking %s: %w", path, err)
}

// Process returns the ID of the machine's process, or 0 if it does not run. The kernel answers, so the ID never belongs
// to another process that got the same number later. The machine's process must not call it, because that would release
// its lock.
func (f Folder) Process() int { return holder(f.lock()) }

func holder(path string) int {
	file, err := os.Open(path)
	if err != nil {
		return 0 // no process has created it
	}
	defer func() { _ = file.Close() }() // the file is only asked about
	lock := unix.Flock_t{Type: unix.F_WRLCK}
	if err := unix.FcntlFlock(file.Fd(), unix.F_GETLK, &lock); err != nil || lock.Type == unix.F_UNLCK {
		return 0
	}
	return int(lock.Pid)
}
