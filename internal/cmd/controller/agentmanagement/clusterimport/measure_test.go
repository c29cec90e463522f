package clusterimport

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	"github.com/fleet-hub/fleet/internal/metrics/metricstest"
	"github.com/fleet-hub/fleet/internal/rules/importing"
)

func TestMeasure(t *testing.T) {
	deploy, remove := importing.Outcome{Deploy: &importing.AgentDeployment{}}, importing.Outcome{Remove: &importing.AgentRemoval{}}
	imported := func(seconds string) []string {
		return []string{
			`fleet_imports_total{outcome="succeeded"} 1`,
			`fleet_registration_stage_duration_seconds_count{stage="import"} 1`,
			`fleet_registration_stage_duration_seconds_sum{stage="import"} ` + seconds,
		}
	}
	failed := []string{`fleet_imports_total{outcome="failed"} 1`}
	tests := map[string]struct {
		out    importing.Outcome
		took   time.Duration
		err    error
		want   []string
		events []string
	}{
		"quick import: counted":             {deploy, time.Second, nil, imported("1"), nil},
		"slow import: counted, Event":       {deploy, 7500 * time.Millisecond, nil, imported("7.5"), []string{"Normal AgentDeployed agent deployed after 7.5s"}},
		"failed import: counted, condition": {deploy, time.Minute, errors.New("no"), failed, nil},
		"removal: not counted":              {remove, time.Minute, nil, nil, nil},
		"failed removal: counted":           {remove, time.Minute, errors.New("no"), failed, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			hub := hubtest.New(t)
			h := &handler{app: hub.App}
			h.measure(cluster(), test.out, test.took, test.err)
			if diff := cmp.Diff(test.want, metricstest.Counted(t, hub.App.Metrics)); diff != "" {
				t.Errorf("counted (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.events, hub.Told()); diff != "" {
				t.Errorf("Events (-want +got):\n%s", diff)
			}
		})
	}
}
