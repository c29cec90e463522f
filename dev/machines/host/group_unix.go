//go:build unix

package host

import "syscall"

// ownGroup keeps Ctrl-C on a terminal from the host, so that it can clean up after an interrupted caller.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
