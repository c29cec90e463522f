// Package swarm simulates many agents of a hub in one process. Each has its own connection and speaks the wire
// protocol, but has no cluster. Stories and `make bench` use it; the product does not.
//
//	Settings ─► ClusterRegistration ─► credential ─► proof ─► heartbeats
//	                                                     └──► BundleDeployments ─► "deployed and ready"
//
// An agent sends the same requests as the project's agent, and decodes only what it needs.
package swarm

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/fleet-hub/fleet/internal/protocol"
)

// Options configures all agents of a swarm.
type Options struct {
	// Values are a token's values: the hub's URL, its CA, and the credential to register. Settings may override
	// them.
	Values protocol.Values
	// AtOnce limits how many agents may be between their ClusterRegistration and their first accepted heartbeat
	// at the same time. Zero or less means no limit.
	AtOnce int
	// Resources is the number of objects that an agent reports for a Bundle. Zero means DefaultResources, less
	// means none.
	Resources int
	// Clock returns the current time. Nil means the machine's clock.
	Clock func() time.Time
}

// DefaultResources is the number of objects of the agent's own Bundle.
const DefaultResources = 8

// Swarm is a set of agents.
type Swarm struct {
	options Options
	slots   chan struct{} // nil means no limit
	counts  counts
	running sync.WaitGroup

	mu     sync.Mutex
	agents []*Agent
	pools  map[string]*x509.CertPool // by CA in PEM, so that each CA is parsed only once
}

// New returns a swarm without agents.
func New(options Options) *Swarm {
	if options.Clock == nil {
		options.Clock = time.Now //nolint:forbidigo // this is where the clock is made
	}
	if options.Resources == 0 {
		options.Resources = DefaultResources
	}
	s := &Swarm{options: options, pools: map[string]*x509.CertPool{}}
	if options.AtOnce > 0 {
		s.slots = make(chan struct{}, options.AtOnce)
	}
	return s
}

// Add adds an agent. It does nothing until it is started.
func (s *Swarm) Add(settings Settings) *Agent {
	settings = settings.withDefaults(s.options)
	a := &Agent{swarm: s, settings: settings, reported: versions{}, changed: make(chan struct{})}
	a.credential = settings.Credential
	if settings.Restored != nil {
		a.key, a.recovery = settings.Restored.Key, settings.Restored.Recovery
	}
	a.transport = s.transport(*settings.Values)
	var wire http.RoundTripper = a.transport
	if settings.Wrap != nil {
		wire = settings.Wrap(wire)
	}
	a.hub = hub{url: settings.Values.APIServerURL, client: &http.Client{Transport: wire}, counts: &s.counts}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.agents = append(s.agents, a)
	return a
}

// transport returns one agent's connection: HTTP/2 like that of every Kubernetes client, with a ping after half a
// minute without data.
func (s *Swarm) transport(values protocol.Values) *http.Transport {
	return &http.Transport{
		DialContext:         (&net.Dialer{Timeout: requestTimeout, KeepAlive: 30 * time.Second}).DialContext,
		TLSClientConfig:     &tls.Config{RootCAs: s.pool(values.APIServerCA), MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout: requestTimeout,
		ForceAttemptHTTP2:   true,
		HTTP2:               &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
		DisableCompression:  true,
	}
}

// pool returns the CA's pool. Without a CA it returns nil, the system's pool.
func (s *Swarm) pool(ca string) *x509.CertPool {
	if ca == "" {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	pool := s.pools[ca]
	if pool == nil {
		pool = x509.NewCertPool()
		pool.AppendCertsFromPEM([]byte(ca))
		s.pools[ca] = pool
	}
	return pool
}

// Agents returns the agents added so far.
func (s *Swarm) Agents() []*Agent {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*Agent(nil), s.agents...)
}

// Start starts agents in random order. They run until ctx ends or they are stopped.
func (s *Swarm) Start(ctx context.Context, agents ...*Agent) {
	for _, a := range agents {
		ctx, stop := context.WithCancel(ctx)
		ended := make(chan struct{})
		a.mu.Lock()
		a.stop, a.ended = stop, ended
		a.mu.Unlock()
		s.running.Go(func() {
			defer close(ended)
			defer a.transport.CloseIdleConnections()
			defer stop()
			a.run(ctx)
		})
	}
}

// Wait returns when all started agents have ended.
func (s *Swarm) Wait() { s.running.Wait() }

// Await returns nil when done returns true for each of these agents, or an error when ctx ends.
func (s *Swarm) Await(ctx context.Context, done func(State) bool, agents ...*Agent) error {
	for _, a := range agents {
		if err := a.Await(ctx, done); err != nil {
			return err
		}
	}
	return nil
}

// Requests returns how many requests of each kind were sent.
func (s *Swarm) Requests() map[Request]int { return s.counts.all() }

// slot waits until one more agent may register. ok is false if ctx has ended.
func (s *Swarm) slot(ctx context.Context) (free func(), ok bool) {
	if s.slots == nil {
		return func() {}, ctx.Err() == nil
	}
	select {
	case s.slots <- struct{}{}:
		return sync.OnceFunc(func() { <-s.slots }), true
	case <-ctx.Done():
		return nil, false
	}
}
