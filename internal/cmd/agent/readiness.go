package agent

import (
	"sync"

	"github.com/fleet-hub/fleet/internal/health"
	"github.com/fleet-hub/fleet/internal/rules/registering"
)

// readiness tells the truth about the agent: a replica that stands by is ready, for it is of use as it is; a
// leader is ready when it is registered and watches its BundleDeployments.
type readiness struct {
	state *health.State

	mu       sync.Mutex
	leads    bool
	using    bool
	watching bool
	reason   string
}

func (r *readiness) waiting() { r.state.SetReady(false, "waiting for the lease") }

// standby: another replica leads. A leader is told no more of it: the lease is no longer its business.
func (r *readiness) standby() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.leads {
		r.state.SetReady(true, "standing by")
	}
}

func (r *readiness) leading() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leads = true
	r.reason = "registering"
	r.say()
}

// stage follows the registration. With another identity what was watched before no longer counts.
func (r *readiness) stage(stage registering.Stage, reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	using := stage == registering.Use
	if using && !r.using {
		r.watching = false
	}
	r.using, r.reason = using, "registering: "+string(stage)
	if reason != "" {
		r.reason += ": " + reason
	}
	r.say()
}

// watches: the BundleDeployments of the identity in use are known and watched.
func (r *readiness) watches() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watching = true
	r.say()
}

func (r *readiness) say() {
	switch {
	case r.using && r.watching:
		r.state.SetReady(true, "registered and watching")
	case r.using:
		r.state.SetReady(false, "registered, not watching yet")
	default:
		r.state.SetReady(false, r.reason)
	}
}
