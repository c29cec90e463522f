package hub_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	"github.com/fleet-hub/fleet/internal/rules/supervision"
)

// A clock that is set makes no agent silent, however far. Only time that passes does.
func TestClockThatIsSet_MakesNoAgentSilent(t *testing.T) {
	for name, step := range map[string]time.Duration{"forward": 5 * time.Hour, "back": -5 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			hub := hubtest.New(t)
			everyMinute(hub)
			hub.Put(reporting("east"))
			hub.App.Liveness.Of(reporting("east"))
			hub.Step(step)
			if diff := cmp.Diff(map[supervision.Reporting]int{supervision.ReportingHeard: 1}, hub.App.Liveness.Counts()); diff != "" {
				t.Errorf("after the clock was set (-want +got):\n%s", diff)
			}
			hub.Pass(time.Hour)
			if diff := cmp.Diff(map[supervision.Reporting]int{supervision.ReportingSilent: 1}, hub.App.Liveness.Counts()); diff != "" {
				t.Errorf("an hour later (-want +got):\n%s", diff)
			}
		})
	}
}
