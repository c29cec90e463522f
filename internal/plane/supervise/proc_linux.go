package supervise

import "syscall"

// attributesOf makes the kernel kill the child when the thread that forked it ends, for the case that the
// supervisor itself is killed; and gives it the namespaces it asks for.
func attributesOf(c Command) (*syscall.SysProcAttr, error) {
	attributes := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if c.Isolated {
		attributes.Cloneflags = syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS
	}
	return attributes, nil
}
