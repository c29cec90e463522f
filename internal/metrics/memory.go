package metrics

import (
	"io/fs"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fleet-hub/fleet/internal/footprint"
)

func memory() Definition {
	return Definition{
		Name: "fleet_memory_bytes", Type: Gauge, Labels: []string{"kind"},
		Help: "Bytes of memory by kind, absent where the system does not report it: resident (VmRSS, includes pages of the executable), anonymous (RssAnon, no files), peak (highest resident), working_set (of the container, as in kubectl top), container_peak (highest usage of the container, includes cached files)",
	}
}

// memoryFigures reads the memory of the process at each scrape.
type memoryFigures struct {
	definition Definition
	root       fs.FS
}

// Describe implements prometheus.Collector.
func (m memoryFigures) Describe(out chan<- *prometheus.Desc) { out <- m.definition.desc() }

// Collect implements prometheus.Collector. After an error, it sends the figures that could be read.
func (m memoryFigures) Collect(out chan<- prometheus.Metric) {
	read, _ := footprint.Read(m.root) // a kernel may report less
	for kind, bytes := range map[string]uint64{
		"resident": read.Resident, "anonymous": read.Anonymous, "peak": read.Peak,
		"working_set": read.WorkingSet, "container_peak": read.ContainerPeak,
	} {
		if bytes > 0 {
			out <- m.definition.now(float64(bytes), kind)
		}
	}
}
