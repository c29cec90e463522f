package swarm

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/register/heartbeat"
)

// Settings are what is particular about one agent.
type Settings struct {
	// ClientID is the cluster's identity.
	ClientID string
	// Labels are proposed for the Cluster.
	Labels map[string]string
	// Pod is the host name of the agent's pod; empty: "fleet-agent-0".
	Pod string
	// Checkin is the time between two heartbeats, each a tenth longer or shorter by chance. Zero: what an agent
	// does without a setting.
	Checkin time.Duration
	// Poll has the agent ask for its credential every two seconds without ever watching it, read BundleDeployments by a
	// list before it watches them, and not say whose heartbeats are, as agents of the other implementation do.
	Poll bool
	// RegisterAgain has the agent ask for a new identity when the hub has kept rejecting the one it has, as if
	// somebody then gave its cluster a bootstrap secret. Without it the agent goes on asking whether it is accepted
	// again.
	RegisterAgain bool
	// Credential is an identity the agent already has, as after a restart. Nil: it registers.
	Credential *protocol.Credential
	// Values are those of another token than the swarm's. Nil: the swarm's.
	Values *protocol.Values
	// Wrap is put around the agent's connection: faults. Nil: nothing is.
	Wrap func(http.RoundTripper) http.RoundTripper
}

func (s Settings) withDefaults(o Options) Settings {
	if s.Pod == "" {
		s.Pod = "fleet-agent-0"
	}
	if s.Checkin <= 0 {
		s.Checkin = heartbeat.DefaultInterval
	}
	if s.Values == nil {
		s.Values = &o.Values
	}
	return s
}

// State is how far an agent is. Times are zero until what they tell of has happened; with a new identity they are
// those of the new one.
type State struct {
	// Registrations is how many ClusterRegistrations it has made; Request is the last one's name.
	Registrations int
	Request       string
	// Requested, Granted, Proven and Beaten are when it sent the ClusterRegistration, received the credential, had
	// it accepted, and had its first heartbeat accepted.
	Requested, Granted, Proven, Beaten time.Time
	// Beats counts accepted heartbeats over all identities, LastBeat is when the last one was.
	Beats    int
	LastBeat time.Time
	// Watching means that a watch on its BundleDeployments is open, since WatchingSince; Watches counts those opened.
	Watching      bool
	WatchingSince time.Time
	Watches       int
	// Reports counts BundleDeployments it has said to be deployed and ready.
	Reports int
	// Rejected means that the hub has not accepted its identity for handshake.RejectionPatience.
	Rejected bool
	// Failures counts requests that failed, Problem is what the last one said.
	Failures int
	Problem  string
}

// Agent plays one agent.
type Agent struct {
	swarm     *Swarm
	settings  Settings
	transport *http.Transport
	hub       hub
	reported  versions // only the watch uses it
	// doubtedSince is when the hub began to reject the identity, zero while it does not. Only the watch uses it.
	doubtedSince time.Time

	mu         sync.Mutex // guards what follows
	state      State
	credential *protocol.Credential
	changed    chan struct{} // closed and made anew with every change of state
	stop       context.CancelFunc
	ended      chan struct{}
}

// ClientID is the agent's.
func (a *Agent) ClientID() string { return a.settings.ClientID }

// Settings are what the agent was added with, defaults filled in.
func (a *Agent) Settings() Settings { return a.settings }

// State is how far it is now.
func (a *Agent) State() State {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.state
}

// Credential is its identity, nil without one.
func (a *Agent) Credential() *protocol.Credential {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.credential
}

// Stop ends an agent that was started, as an end of its pod does: its identity stays.
func (a *Agent) Stop() {
	a.mu.Lock()
	stop, ended := a.stop, a.ended
	a.mu.Unlock()
	if stop == nil {
		return
	}
	stop()
	<-ended
}

// Await returns when done holds, or with the error of ctx and how far the agent is.
func (a *Agent) Await(ctx context.Context, done func(State) bool) error {
	for {
		a.mu.Lock()
		state, changed := a.state, a.changed
		a.mu.Unlock()
		if done(state) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("waiting for agent %s, which is at %+v: %w", a.settings.ClientID, state, context.Cause(ctx))
		}
	}
}

// Joined holds for an agent whose first heartbeat with its present identity was accepted.
func Joined(s State) bool { return !s.Beaten.IsZero() }

// Settled holds for an agent that has joined, watches, and has reported its own Bundle.
func Settled(s State) bool { return Joined(s) && s.Watching && s.Reports > 0 }

func (a *Agent) update(change func(*State)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change(&a.state)
	close(a.changed)
	a.changed = make(chan struct{})
}

// failed notes a request that did not go well, unless the agent was ending.
func (a *Agent) failed(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	a.update(func(s *State) { s.Failures, s.Problem = s.Failures+1, err.Error() })
}

// run gets an identity and works with it, and with the next should it be lost.
func (a *Agent) run(ctx context.Context) {
	for ctx.Err() == nil {
		free, ok := a.swarm.slot(ctx)
		if !ok {
			return
		}
		if a.Credential() == nil && !a.join(ctx) {
			free()
			continue // no identity came of it: asked again, with a pause behind it
		}
		a.serve(ctx, free)
		free()
	}
}

func (a *Agent) setCredential(c *protocol.Credential) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.credential = c
}
