package supervise

import (
	"bytes"
	"os"
	"strings"
)

// Tail returns the last lines of a log, starting at an offset. With the log's size at the start of a process as
// offset, it returns only lines of this process. If the log cannot be read, it returns the error's text.
func Tail(log string, from int64) string {
	const lines, most = 15, 8 << 10
	content, err := os.ReadFile(log)
	if err != nil {
		return err.Error()
	}
	content = content[min(from, int64(len(content))):]
	content = bytes.TrimSpace(content[max(0, len(content)-most):])
	all := strings.Split(string(content), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
