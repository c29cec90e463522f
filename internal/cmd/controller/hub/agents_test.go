package hub

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleet-hub/fleet/internal/cmd/env"
	"github.com/fleet-hub/fleet/internal/rules/importing"
)

func TestAgentDefaults(t *testing.T) {
	settings := env.AgentSettings{Replicas: 2, LeaseDuration: "30s", RenewDeadline: "25s", RetryPeriod: "10s", DisableSecurityContext: true, ErrorMapping: "[]"}
	quiet := importing.AgentDefaults{Replicas: 2, LeaseDuration: "30s", RenewDeadline: "25s", RetryPeriod: "10s", DisableSecurityContext: true, ErrorMapping: "[]"}
	loud := quiet
	loud.Debug, loud.DebugLevel = true, 9
	tests := map[string]struct {
		propagate bool
		want      importing.AgentDefaults
	}{
		"debug settings are not propagated":        {false, quiet},
		"debug settings are propagated if allowed": {true, loud},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			agent := settings
			agent.PropagateDebug = test.propagate
			got := (&App{Env: env.Controller{Debug: true, DebugLevel: 9, Agent: agent}}).AgentDefaults()
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
