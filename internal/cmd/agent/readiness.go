package agent

import (
	"sync"

	"github.com/fleet-hub/fleet/internal/health"
	"github.com/fleet-hub/fleet/internal/rules/registering"
)

// readiness reports the state of the agent. A standby replica is ready while another one leads. A leader is ready when it is
// registered and watches its BundleDeployments.
type readiness struct {
	state *health.State

	mu       sync.Mutex
	leads    bool
	using    bool
	watching bool
	reason   string
}

func (r *readiness) waiting() { r.state.SetReady(false, "waiting for the lease") }

// standby records that another replica leads. A leader ignores it.
func (r *readiness) standby() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.leads {
		r.state.SetReady(true, "standing by")
	}
}

// blocked records why no replica leads. A leader ignores it. It reports whether the reason is another one than before.
func (r *readiness) blocked(reason string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, before := r.state.Ready(); r.leads || before == reason {
		return false
	}
	r.state.SetReady(false, reason)
	return true
}

func (r *readiness) leading() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leads = true
	r.reason = "registering"
	r.publish()
}

// stage follows the registration. With another identity, the previous watches no longer count.
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
	r.publish()
}

// watches records that the BundleDeployments of the current identity are known and watched.
func (r *readiness) watches() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watching = true
	r.publish()
}

// publish sets the readiness that the probe answers with.
func (r *readiness) publish() {
	switch {
	case r.using && r.watching:
		r.state.SetReady(true, "registered and watching")
	case r.using:
		r.state.SetReady(false, "registered, not watching yet")
	default:
		r.state.SetReady(false, r.reason)
	}
}
