package machine

import (
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/fleet-hub/fleet/e2e/bench/figures"
)

// Description describes the machine. Load is the load average over the minute before the run.
type Description struct {
	Processors int     `json:"processors"`
	MemoryGiB  float64 `json:"memoryGiB"`
	Load       string  `json:"loadBefore"`
}

// Here describes this machine.
func Here() Description {
	d := Description{Processors: runtime.NumCPU()}
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		var kilobytes int64
		if _, err := fmt.Sscanf(string(text), "MemTotal: %d kB", &kilobytes); err == nil {
			d.MemoryGiB = figures.Round(float64(kilobytes)/(1<<20), 1)
		}
	}
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		d.Load, _, _ = strings.Cut(string(text), " ")
	}
	return d
}
