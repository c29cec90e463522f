package supervise

import "syscall"

// diesWithParent makes the kernel kill the child when the thread that forked it ends, for the case
// that the supervisor itself is killed.
func diesWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
