//go:build linux

package inside

import (
	"os"
	"path/filepath"
	"strings"
	"time"
)

// keepEvery is the interval between two searches for new pod logs.
const keepEvery = 250 * time.Millisecond

// keepLogs gives the log of each container a second name, pods/<namespace>_<pod>_<container>_<restarts>.log.
// Kubelet removes a pod's logs together with the pod, but the logs of removed pods are often the ones to read.
func (n *node) keepLogs() {
	kept := filepath.Join(n.LogDir, "pods")
	if err := os.MkdirAll(kept, 0o755); err != nil {
		n.log.Error("keeping the logs of pods", "error", err)
		return
	}
	for range time.Tick(keepEvery) {
		logs, err := filepath.Glob(filepath.Join(n.LogDir, "var", "pods", "*", "*", "*.log"))
		if err != nil {
			n.log.Error("finding the logs of pods", "error", err)
			return
		}
		for _, log := range logs {
			_ = os.Link(log, filepath.Join(kept, keptName(log))) // the link exists already, or the log has been removed
		}
	}
}

// keptName returns the second name of the log <namespace>_<pod>_<uid>/<container>/<restarts>.log.
func keptName(log string) string {
	container := filepath.Dir(log)
	pod := filepath.Base(filepath.Dir(container))
	if i := strings.LastIndex(pod, "_"); i >= 0 {
		pod = pod[:i]
	}
	return strings.Join([]string{pod, filepath.Base(container), filepath.Base(log)}, "_")
}
