package supervise

import "syscall"

// Tied returns attributes with which the kernel kills a child when the thread that forked it ends, for example
// when the parent is killed.
func Tied() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// attributesOf returns the attributes of a child with the namespaces that its command requests.
func attributesOf(c Command) (*syscall.SysProcAttr, error) {
	attributes := Tied()
	if c.Isolated {
		attributes.Cloneflags = syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS
	}
	return attributes, nil
}
