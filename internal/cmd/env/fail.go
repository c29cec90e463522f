package env

import (
	"fmt"
	"io"
	"os"

	"github.com/fleet-hub/fleet/internal/cut"
)

// TerminationLog is the file from which the kubelet reads why a container has ended, unless its pod names another one. It exists
// in pods only.
const TerminationLog = "/dev/termination-log"

// maxTermination is the length of that text in bytes. The kubelet reads 4096 of a pod.
const maxTermination = 2048

// Fail reports the error that ends a process: it prints the error, and writes it into the termination log, so that
// `kubectl describe pod` shows it. Charts need no terminationMessagePolicy for that, which would replace the pods of all agents.
func Fail(out io.Writer, terminationLog, program string, err error) {
	fmt.Fprintf(out, "%s: %v\n", program, err)
	file, openErr := os.OpenFile(terminationLog, os.O_WRONLY|os.O_TRUNC, 0)
	if openErr != nil {
		return // not in a pod
	}
	_, _ = io.WriteString(file, cut.Text(err.Error(), maxTermination))
	_ = file.Close()
}
