//go:build unix

package programs

import "syscall"

// inheritedPorts keeps the files that hold the machine's ports from its children: the ports belong to this process.
func inheritedPorts() {
	const first, most = 3, 3 + 64
	for descriptor := first; descriptor < most; descriptor++ {
		syscall.CloseOnExec(descriptor)
	}
}
