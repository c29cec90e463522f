package supervise

import "syscall"

// Tied makes the kernel kill a child when the thread that forked it ends, for the case that its parent is killed.
func Tied() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// attributesOf ties the child, and gives it the namespaces it asks for.
func attributesOf(c Command) (*syscall.SysProcAttr, error) {
	attributes := Tied()
	if c.Isolated {
		attributes.Cloneflags = syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS
	}
	return attributes, nil
}
