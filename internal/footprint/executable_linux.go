package footprint

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// adviseCold is MADV_COLD: the kernel reclaims these pages first when it needs memory. Kernels before 5.4 do not
// support it.
const adviseCold = 20

// unmapExecutable drops the executable's pages from the process. Pages that are used are loaded again, a few at
// a time, from the page cache.
func unmapExecutable() (err error) {
	path, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return fmt.Errorf("finding the executable: %w", err)
	}
	smaps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return fmt.Errorf("opening the mappings: %w", err)
	}
	defer func() { err = errors.Join(err, smaps.Close()) }()
	mappings, err := clean(smaps, path)
	if err != nil {
		return err
	}
	for _, m := range mappings {
		_ = advise(m, adviseCold) // ignored by kernels without support
		if err := advise(m, syscall.MADV_DONTNEED); err != nil {
			return err
		}
	}
	return nil
}

func advise(m mapping, advice uintptr) error {
	if _, _, errno := syscall.Syscall(syscall.SYS_MADVISE, uintptr(m.Start), uintptr(m.End-m.Start), advice); errno != 0 {
		return fmt.Errorf("dropping pages of the executable: %w", errno)
	}
	return nil
}
