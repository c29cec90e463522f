package metrics

import (
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fleet-hub/fleet/internal/metrics/metricstest"
)

func TestMemoryFigures(t *testing.T) {
	const status = "VmHWM:\t 3 kB\nVmRSS:\t 2 kB\nRssAnon:\t 1 kB\n"
	tests := map[string]struct {
		files map[string]string
		want  []string
	}{
		"in a container: all kinds": {
			map[string]string{
				"proc/self/status": status, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.current": "9000",
				"sys/fs/cgroup/memory.peak": "10000", "sys/fs/cgroup/memory.stat": "inactive_file 1000\n",
			},
			[]string{
				`fleet_memory_bytes{kind="anonymous"} 1024`, `fleet_memory_bytes{kind="container_peak"} 10000`,
				`fleet_memory_bytes{kind="peak"} 3072`, `fleet_memory_bytes{kind="resident"} 2048`, `fleet_memory_bytes{kind="working_set"} 8000`,
			},
		},
		"without a container: those of the process": {
			map[string]string{"proc/self/status": status},
			[]string{`fleet_memory_bytes{kind="anonymous"} 1024`, `fleet_memory_bytes{kind="peak"} 3072`, `fleet_memory_bytes{kind="resident"} 2048`},
		},
		"without /proc: none": {nil, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			root := fstest.MapFS{}
			for name, text := range test.files {
				root[name] = &fstest.MapFile{Data: []byte(text)}
			}
			registry := prometheus.NewRegistry()
			registry.MustRegister(memoryFigures{memory(), root})
			if diff := cmp.Diff(test.want, lines(metricstest.Scrape(t, registry), "fleet_memory_bytes")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
