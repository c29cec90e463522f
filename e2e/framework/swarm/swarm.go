// Package swarm plays agents towards a hub, as many as wanted in one process: each has its own connection
// and speaks the wire protocol, none has a cluster behind it. Stories and `make bench` use it; the product does
// not.
//
//	Settings ─► ClusterRegistration ─► credential ─► proof ─► heartbeats
//	                                                     └──► BundleDeployments ─► "deployed and ready"
//
// An agent sends what the project's own agent sends, in as many requests, and decodes only what it needs.
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

// Options are what all agents of a swarm share.
type Options struct {
	// Values are what a token hands out: where the hub is, what signs its certificate, and the right to ask.
	// Settings may name others.
	Values protocol.Values
	// AtOnce is how many agents may be between their ClusterRegistration and their first accepted heartbeat
	// at a time. Zero or less: all.
	AtOnce int
	// Resources is how many objects an agent says a Bundle has made. Zero: DefaultResources; less: none.
	Resources int
	// Clock says what time it is. Nil: the machine's.
	Clock func() time.Time
}

// DefaultResources is as many as the agent's own Bundle has.
const DefaultResources = 8

// Swarm is a number of agents.
type Swarm struct {
	options Options
	slots   chan struct{} // nil: no limit
	counts  counts
	running sync.WaitGroup

	mu     sync.Mutex
	agents []*Agent
	pools  map[string]*x509.CertPool // by CA, PEM: parsed once, not by each agent
}

// New is a swarm without agents.
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

// Add makes an agent that does nothing until it is started.
func (s *Swarm) Add(settings Settings) *Agent {
	settings = settings.withDefaults(s.options)
	a := &Agent{swarm: s, settings: settings, reported: versions{}, changed: make(chan struct{})}
	a.credential = settings.Credential
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

// transport is one agent's connection: HTTP/2 as that of every Kubernetes client, checked when nothing has come
// for half a minute.
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

// pool is nil, the system's, without a CA.
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

// Agents are those added so far.
func (s *Swarm) Agents() []*Agent {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*Agent(nil), s.agents...)
}

// Start starts agents; they go on until ctx ends or they are stopped. Which registers first is left to chance.
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

// Wait returns when every agent started has ended.
func (s *Swarm) Wait() { s.running.Wait() }

// Await returns when done holds for each of these agents, or with the error of ctx.
func (s *Swarm) Await(ctx context.Context, done func(State) bool, agents ...*Agent) error {
	for _, a := range agents {
		if err := a.Await(ctx, done); err != nil {
			return err
		}
	}
	return nil
}

// Requests are those sent so far, by what they were.
func (s *Swarm) Requests() map[Request]int { return s.counts.all() }

// slot waits until one more agent may register; false means that ctx has ended.
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
