// Package health serves the probes, the metrics and, if asked to, the profiles of a process.
//
//	State ◄─ SetReady ─ the process          Start ─► GET /healthz /readyz (one address), /metrics (another), Profiles (a third)
package health

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Limits of the servers. Clients are not authenticated, so requests must be cheap.
const (
	readTimeout  = 5 * time.Second
	writeTimeout = 30 * time.Second
	idleTimeout  = 2 * time.Minute // longer than the pause between two scrapes or probes
	headerLimit  = 16 << 10        // bytes
	scrapes      = 2               // concurrent scrapes; further ones get an error
)

// State is the readiness of the process. The zero value is not ready, with reason "starting".
type State struct {
	mu     sync.Mutex
	ready  bool
	reason string
}

// SetReady sets whether the process is ready, with a short reason. A standby replica is ready.
func (s *State) SetReady(ready bool, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready, s.reason = ready, reason
}

// Ready returns the values of the last SetReady.
func (s *State) Ready() (ready bool, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reason == "" {
		return s.ready, "starting"
	}
	return s.ready, s.reason
}

// Options configures Start.
type Options struct {
	// HealthAddress is the address of /healthz and /readyz, for example ":8081". Empty or "0" turns them off.
	HealthAddress string
	// MetricsAddress is the address of /metrics. Empty or "0" turns it off.
	MetricsAddress string
	// ProfilesAddress is the address of Profiles. Empty turns them off.
	ProfilesAddress string
	Profiles        http.Handler
	// State is the readiness that /readyz returns. Required.
	State *State
	// Gatherer provides the metrics. Nil means the default registry.
	Gatherer prometheus.Gatherer
	// Log receives errors of the servers. Nil disables logging.
	Log *slog.Logger
}

// Addresses contains the addresses of the servers, including a port chosen by the system. It is empty for a
// server that is turned off.
type Addresses struct{ Health, Metrics, Profiles string }

// Start serves until ctx ends. It returns an error if it cannot listen on an address.
func Start(ctx context.Context, o Options) (Addresses, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Gatherer == nil {
		o.Gatherer = prometheus.DefaultGatherer
	}
	var listening Addresses
	var err error
	if listening.Health, err = serve(ctx, "health", o.HealthAddress, healthHandler(o.State), o.Log); err != nil {
		return listening, err
	}
	metrics := http.NewServeMux()
	metrics.Handle("GET /metrics", promhttp.HandlerFor(o.Gatherer, promhttp.HandlerOpts{
		// Export the other metrics if some cannot be collected. Limit concurrent scrapes, because a scrape of a large
		// hub is expensive.
		ErrorHandling: promhttp.ContinueOnError, ErrorLog: failures{o.Log}, MaxRequestsInFlight: scrapes,
	}))
	if listening.Metrics, err = serve(ctx, "metrics", o.MetricsAddress, metrics, o.Log); err != nil {
		return listening, err
	}
	listening.Profiles, err = serve(ctx, "profiles", o.ProfilesAddress, o.Profiles, o.Log)
	return listening, err
}

func healthHandler(state *State) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("ok\n")) // the client has disconnected
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		ready, reason := state.Ready()
		if !ready {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = w.Write([]byte(reason + "\n")) // as above
	})
	return mux
}

// serve listens before it returns, so that a port in use fails the start and not a later probe.
func serve(ctx context.Context, name, address string, handler http.Handler, log *slog.Logger) (string, error) {
	if address == "" || address == "0" {
		return "", nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return "", fmt.Errorf("listening for %s: %w", name, err)
	}
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: readTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: headerLimit,
		ErrorLog: slog.NewLogLogger(log.With("server", name).Handler(), slog.LevelDebug),
	}
	context.AfterFunc(ctx, func() { _ = server.Close() }) // the process ends; open requests may be cut off
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("server ended", "server", name, "error", err)
		}
	}()
	return listener.Addr().String(), nil
}

// failures logs metrics that could not be collected.
type failures struct{ log *slog.Logger }

// Println implements the error logger of promhttp.
func (f failures) Println(v ...any) {
	f.log.Warn("collecting the metrics failed", "error", fmt.Sprint(v...))
}
