package footprint

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// adviseCold is MADV_COLD: the kernel takes these pages first when it needs memory. Kernels before 5.4 do not know it.
const adviseCold = 20

// unmapExecutable takes the pages of the executable out of the process. Those that are used come back by themselves,
// a few at a time, from the system's cache of files.
func unmapExecutable() (err error) {
	path, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return fmt.Errorf("looking for the executable: %w", err)
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
		_ = advise(m, adviseCold) // helps where it is known
		if err := advise(m, syscall.MADV_DONTNEED); err != nil {
			return err
		}
	}
	return nil
}

func advise(m mapping, advice uintptr) error {
	if _, _, errno := syscall.Syscall(syscall.SYS_MADVISE, uintptr(m.Start), uintptr(m.End-m.Start), advice); errno != 0 {
		return fmt.Errorf("taking pages of the executable out of the process: %w", errno)
	}
	return nil
}
