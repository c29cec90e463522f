package register

import (
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// The hub's API server answers 429 for a minute.
func TestHubAnswers429_AgentKeepsItsIdentityAndItsRequest(t *testing.T) {
	busyFrom := func(w *world, start time.Duration) {
		w.later(start, "hub", "is busy", func() { w.busy = true })
		w.later(start+time.Minute, "hub", "has time", func() { w.busy = false })
	}
	tests := map[string]struct {
		file     string
		story    func(w *world)
		requests int
	}{
		"agent with an identity starts": {file: "busy-at-start", story: func(w *world) {
			w.accounts["account-0"] = true
			w.identitySecret("account-0")
			w.busy = true
			w.later(time.Minute, "hub", "has time", func() { w.busy = false })
			w.run(10 * time.Minute)
		}},
		"agent is running": {file: "busy-while-running", story: func(w *world) {
			w.accounts["account-0"] = true
			w.identitySecret("account-0")
			busyFrom(w, time.Minute)
			w.later(time.Minute+time.Second, "hub", "answers 429 to its work", func() { w.turnAway(http.StatusTooManyRequests, nil) })
			w.run(10 * time.Minute)
		}},
		"agent waits for its credential": {file: "busy-after-request", requests: 1, story: func(w *world) {
			w.grant = grantPlan{rights: 2 * time.Second, account: 2 * time.Second, credential: 3 * time.Second}
			w.bootstrapSecret("import-1")
			busyFrom(w, time.Second)
			w.run(10 * time.Minute)
			w.expectMissing(names.AgentBootstrap)
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, test.file, func(t *testing.T, w *world) {
				test.story(w)
				if len(w.requests) != test.requests {
					t.Errorf("%d requests, want %d", len(w.requests), test.requests)
				}
				if _, err := w.local.Tracker().Get(corev1.SchemeGroupVersion.WithResource("secrets"), agentNS, names.Agent); err != nil {
					t.Errorf("the identity: %v", err)
				}
			})
		})
	}
}
