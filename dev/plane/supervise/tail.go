package supervise

import (
	"bytes"
	"os"
	"strings"
)

// Tail is the last lines of a log from a position on: what its process wrote, if that is where the log ended when
// it was started. A log that cannot be read is told in its place.
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
