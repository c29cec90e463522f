package agent

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleet-hub/fleet/internal/health"
	"github.com/fleet-hub/fleet/internal/rules/registering"
)

func TestReadiness(t *testing.T) {
	type answer struct {
		Ready  bool
		Reason string
	}
	stage := func(s registering.Stage, reason string) func(*readiness) {
		return func(r *readiness) { r.stage(s, reason) }
	}
	use := stage(registering.Use, "")
	tests := map[string]struct {
		events []func(*readiness)
		want   answer
	}{
		"start: not ready": {want: answer{false, "starting"}},
		"before the election: not ready": {
			events: []func(*readiness){(*readiness).waiting},
			want:   answer{false, "waiting for the lease"},
		},
		"standby: ready": {
			events: []func(*readiness){(*readiness).waiting, (*readiness).standby},
			want:   answer{true, "standing by"},
		},
		"takes over: not ready until registered": {
			events: []func(*readiness){(*readiness).waiting, (*readiness).standby, (*readiness).leading},
			want:   answer{false, "registering"},
		},
		"leader, standby event arrives late: not ready": {
			events: []func(*readiness){(*readiness).leading, (*readiness).standby},
			want:   answer{false, "registering"},
		},
		"waits: reports the reason": {
			events: []func(*readiness){(*readiness).leading, stage(registering.Await, "GrantedCredential")},
			want:   answer{false, "registering: Await: GrantedCredential"},
		},
		"registered, not watching: not ready": {
			events: []func(*readiness){(*readiness).leading, use},
			want:   answer{false, "registered, not watching yet"},
		},
		"registered and watching: ready": {
			events: []func(*readiness){(*readiness).leading, use, (*readiness).watches},
			want:   answer{true, "registered and watching"},
		},
		"identity lost: reports the reason": {
			events: []func(*readiness){(*readiness).leading, use, (*readiness).watches, stage(registering.AwaitBootstrap, "no bootstrap secret")},
			want:   answer{false, "registering: AwaitBootstrap: no bootstrap secret"},
		},
		"watch of the old identity is synced: not ready": {
			events: []func(*readiness){(*readiness).leading, use, stage(registering.AwaitBootstrap, "x"), (*readiness).watches},
			want:   answer{false, "registering: AwaitBootstrap: x"},
		},
		"new identity: former watches do not count": {
			events: []func(*readiness){(*readiness).leading, use, (*readiness).watches, stage(registering.Request, ""), use},
			want:   answer{false, "registered, not watching yet"},
		},
		"new identity is watching: ready": {
			events: []func(*readiness){(*readiness).leading, use, (*readiness).watches, stage(registering.Request, ""), use, (*readiness).watches},
			want:   answer{true, "registered and watching"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := &readiness{state: &health.State{}}
			for _, event := range test.events {
				event(r)
			}
			var got answer
			got.Ready, got.Reason = r.state.Ready()
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("readyz (-want +got):\n%s", diff)
			}
		})
	}
}
