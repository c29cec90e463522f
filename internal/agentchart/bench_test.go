package agentchart_test

import (
	"testing"

	"github.com/fleet-hub/fleet/charts"
	"github.com/fleet-hub/fleet/internal/agentchart"
)

func BenchmarkManifest(b *testing.B) {
	for b.Loop() {
		if _, err := agentchart.Manifest(settings()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLoad measures what each Render would cost in addition if the chart were parsed each time.
func BenchmarkLoad(b *testing.B) {
	for b.Loop() {
		if _, err := agentchart.Load(charts.FS, "fleet-agent"); err != nil {
			b.Fatal(err)
		}
	}
}
