package swarm

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/fleet-hub/fleet/internal/identity"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/register/heartbeat"
)

// Settings configures one agent.
type Settings struct {
	// ClientID is the cluster's identity.
	ClientID string
	// Labels are the labels that the agent requests for its Cluster.
	Labels map[string]string
	// Pod is the host name of the agent's pod. The default is "fleet-agent-0".
	Pod string
	// Checkin is the interval between two heartbeats. Each interval varies randomly by a tenth. Zero means an
	// agent's default.
	Checkin time.Duration
	// Poll makes the agent behave like agents of Rancher Fleet: it polls for its credential every two seconds
	// instead of watching, it lists BundleDeployments before it watches them, and its heartbeats do not contain
	// its identity.
	Poll bool
	// RegisterAgain makes the agent request a new identity when the hub has rejected the current one for long
	// enough, as if an admin had given its cluster a bootstrap secret. Without it the agent keeps trying the old
	// identity.
	RegisterAgain bool
	// Keyed gives the agent a recovery key: it signs its requests and announces that it renews its token, like agents since
	// there are such keys. It does not renew the token or recover.
	Keyed bool
	// Credential is an existing identity, as after a restart. Nil means that the agent registers.
	Credential *protocol.Credential
	// Restored is an existing identity with its key, as after a restart. It replaces Keyed and Credential.
	Restored *Identity
	// Values are the values of another token than the swarm's. Nil means the swarm's token.
	Values *protocol.Values
	// Wrap wraps the agent's transport, to inject faults. Nil wraps nothing.
	Wrap func(http.RoundTripper) http.RoundTripper
}

func (s Settings) withDefaults(o Options) Settings {
	if s.Pod == "" {
		s.Pod = "fleet-agent-0"
	}
	if s.Checkin <= 0 {
		s.Checkin = heartbeat.DefaultInterval
	}
	if s.Restored != nil {
		s.Keyed, s.Credential = true, &s.Restored.Credential
	}
	if s.Values == nil {
		s.Values = &o.Values
	}
	return s
}

// State is the progress of an agent. A time is zero until its event has happened. After a new registration the
// times are those of the new identity.
type State struct {
	// Registrations is the number of ClusterRegistrations that it has created. Request is the name of the last
	// one.
	Registrations int
	Request       string
	// Requested, Granted, Proven and Beaten are the times at which it created the ClusterRegistration, received
	// the credential, verified the credential, and had its first heartbeat accepted.
	Requested, Granted, Proven, Beaten time.Time
	// Beats is the number of accepted heartbeats of all identities. LastBeat is the time of the last one.
	Beats    int
	LastBeat time.Time
	// Watching means that a watch on its BundleDeployments is open, since WatchingSince. Watches counts the
	// watches.
	Watching      bool
	WatchingSince time.Time
	Watches       int
	// Reports is the number of BundleDeployments that it has reported as deployed and ready.
	Reports int
	// Rejected means that the hub has rejected its identity for registering.RejectionPatience.
	Rejected bool
	// Failures is the number of failed requests. Problem is the error of the last one.
	Failures int
	Problem  string
}

// Agent is one simulated agent.
type Agent struct {
	swarm     *Swarm
	settings  Settings
	transport *http.Transport
	hub       hub
	reported  versions // used only by the watch
	// doubtedSince is the time since when the hub has rejected the identity, or zero. It is used only by the
	// watch.
	doubtedSince time.Time

	mu         sync.Mutex // guards the fields below
	state      State
	credential *protocol.Credential
	key        identity.Key      // the zero value before the first request
	recovery   protocol.Recovery // the zero value if the hub gave none
	changed    chan struct{}     // closed and replaced at every change of state
	stop       context.CancelFunc
	ended      chan struct{}
}

// ClientID returns the agent's client ID.
func (a *Agent) ClientID() string { return a.settings.ClientID }

// Settings returns the agent's settings with defaults.
func (a *Agent) Settings() Settings { return a.settings }

// State returns the agent's current state.
func (a *Agent) State() State {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.state
}

// Credential returns the agent's identity, or nil.
func (a *Agent) Credential() *protocol.Credential {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.credential
}

// Stop stops a started agent, as the end of its pod does. The agent keeps its identity.
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

// Await returns nil when done returns true for the state. If ctx ends before, the error contains the state.
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
			return fmt.Errorf("waiting for agent %s in state %+v: %w", a.settings.ClientID, state, context.Cause(ctx))
		}
	}
}

// Joined reports whether the agent's first heartbeat with its current identity was accepted.
func Joined(s State) bool { return !s.Beaten.IsZero() }

// Settled reports whether an agent has joined, is watching, and has reported its own Bundle.
func Settled(s State) bool { return Joined(s) && s.Watching && s.Reports > 0 }

func (a *Agent) update(change func(*State)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change(&a.state)
	close(a.changed)
	a.changed = make(chan struct{})
}

// failed records a failed request, unless the agent is stopping.
func (a *Agent) failed(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	a.update(func(s *State) { s.Failures, s.Problem = s.Failures+1, err.Error() })
}

// run registers and works with the identity. When the identity is lost, it registers again.
func (a *Agent) run(ctx context.Context) {
	for ctx.Err() == nil {
		free, ok := a.swarm.slot(ctx)
		if !ok {
			return
		}
		if a.Credential() == nil && !a.join(ctx) {
			free()
			continue // registering failed; join has already waited, so try again
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
