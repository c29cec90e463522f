// Package health answers whether the process lives and whether it is of use, and serves its metrics.
//
//	State ◄─ SetReady ─ the process          Start ─► GET /healthz /readyz (one address), /metrics (another)
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

// Limits of the servers. Whoever reaches them is not asked who they are, so they may not cost much.
const (
	readTimeout  = 5 * time.Second
	writeTimeout = 30 * time.Second
	idleTimeout  = 2 * time.Minute // longer than the pause between two scrapes or probes
	headerLimit  = 16 << 10        // bytes
	scrapes      = 3               // at a time; further ones are told to come back
)

// State is what the process knows about its own usefulness. The zero value is not ready, and says "starting".
type State struct {
	mu     sync.Mutex
	ready  bool
	reason string
}

// SetReady says whether the process is of use now, and in a few words why, or why not. A replica that only
// stands by is ready.
func (s *State) SetReady(ready bool, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready, s.reason = ready, reason
}

// Ready returns what SetReady was told last.
func (s *State) Ready() (ready bool, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reason == "" {
		return s.ready, "starting"
	}
	return s.ready, s.reason
}

// Options of Start.
type Options struct {
	// HealthAddress is where /healthz and /readyz are served, ":8081" for example. Empty or "0": nowhere.
	HealthAddress string
	// MetricsAddress is where /metrics is served. Empty or "0": nowhere.
	MetricsAddress string
	// State answers /readyz. Required.
	State *State
	// Gatherer has the metrics. Nil: the default registry's.
	Gatherer prometheus.Gatherer
	// Log is told of servers that die. Nil: nobody is told.
	Log *slog.Logger
}

// Addresses are where the servers listen, with the port the system chose if it was asked to; empty for a
// server that was not wanted.
type Addresses struct{ Health, Metrics string }

// Start serves until ctx ends. An address that cannot be had is an error at once.
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
		// What cannot be had does not hide the rest; and a scrape of a large hub is some work.
		ErrorHandling: promhttp.ContinueOnError, ErrorLog: failures{o.Log}, MaxRequestsInFlight: scrapes,
	}))
	if listening.Metrics, err = serve(ctx, "metrics", o.MetricsAddress, metrics, o.Log); err != nil {
		return listening, err
	}
	return listening, nil
}

func healthHandler(state *State) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("ok\n")) // whoever asks has gone: nothing to do about it
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

// serve listens before it returns, so that a taken port fails the start and not a probe later.
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
	context.AfterFunc(ctx, func() { _ = server.Close() }) // the process is ending; probes may break off
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("server ended", "server", name, "error", err)
		}
	}()
	return listener.Addr().String(), nil
}

// failures tells of what could not be scraped.
type failures struct{ log *slog.Logger }

// Println is how promhttp tells.
func (f failures) Println(v ...any) { f.log.Warn("scraping the metrics", "error", fmt.Sprint(v...)) }
