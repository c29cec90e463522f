package agent

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/cmd/env"
	"github.com/fleet-hub/fleet/internal/health"
	"github.com/fleet-hub/fleet/internal/leader"
	"github.com/fleet-hub/fleet/internal/metrics"
	"github.com/fleet-hub/fleet/internal/register"
	"github.com/fleet-hub/fleet/internal/register/facts"
	"github.com/fleet-hub/fleet/internal/rules/registering"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// written passes the lines of a log on.
type written chan string

func (w written) Write(line []byte) (int, error) {
	w <- string(bytes.Clone(line))
	return len(line), nil
}

func TestFrozenLeader_SendsNoHeartbeat(t *testing.T) {
	tests := map[string]struct {
		elect bool
		want  string // in the log
	}{
		"lease expired while frozen: refuses": {elect: true, want: "refusing to write because Lease fleet-agent was not renewed in time"},
		"no election: sends":                  {want: "first heartbeat accepted"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var passed, beats, leases atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				w.Header().Set("Content-Type", "application/json")
				switch {
				case r.Method == http.MethodPatch:
					beats.Add(1)
					body = []byte(`{"apiVersion":"fleet.cattle.io/v1alpha1","kind":"Cluster"}`)
				case r.Method != http.MethodPost || leases.Add(1) > 1: // the lease can be taken, but not renewed
					w.WriteHeader(http.StatusNotFound)
					body = []byte(`{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"NotFound","code":404}`)
				}
				_, _ = w.Write(body)
			}))
			defer server.Close()
			config := &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
			clock := func() time.Time { return time.Now().Add(time.Duration(passed.Load())) }
			log := make(written, 1000)
			p := &process{
				options: env.Agent{Namespace: namespace, LeaderElect: test.elect, Identity: "a", CheckinInterval: time.Hour},
				own:     config, log: slog.New(slog.NewTextHandler(log, nil)), clock: clock, fence: leader.NewFence(clock),
				ready: &readiness{state: &health.State{}}, metrics: metrics.NewAgent(clock),
			}
			var err error
			if p.facts, err = facts.New(facts.Options{Local: config}); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			done := make(chan error, 1)
			go func() {
				done <- p.lead(ctx, func(ctx context.Context) error {
					passed.Store(int64(time.Hour)) // as if the process had been frozen
					return p.serve(ctx, register.Session{
						Hub: config, ClusterNamespace: "fleet-default", ClusterName: "c", DeploymentNamespace: "cluster-ns",
						Status: func() fleet.AgentStatus { return fleet.AgentStatus{} },
					})
				})
			}()
			for found := false; !found; {
				select {
				case line := <-log:
					found = strings.Contains(line, test.want) || strings.Contains(line, "first heartbeat accepted")
				case err := <-done:
					t.Fatalf("the agent ended: %v", err)
				}
			}
			if sent := beats.Load() > 0; sent == test.elect {
				t.Errorf("%d heartbeats", beats.Load())
			}
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

// The first thing that the registration writes is the Secret with the agent's recovery key.
func TestFrozenLeader_WritesNoSecret(t *testing.T) {
	for name, elect := range map[string]bool{"lease expired while frozen: refuses": true, "no election: writes": false} {
		t.Run(name, func(t *testing.T) {
			var passed, secrets, leases atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				w.Header().Set("Content-Type", "application/json")
				switch {
				case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/secrets"):
					secrets.Add(1)
				case r.Method != http.MethodPost || leases.Add(1) > 1: // the lease can be taken, but not renewed
					w.WriteHeader(http.StatusNotFound)
					body = []byte(`{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"NotFound","code":404}`)
				}
				_, _ = w.Write(body)
			}))
			defer server.Close()
			clock := func() time.Time { return time.Now().Add(time.Duration(passed.Load())) }
			p := &process{
				options: env.Agent{Namespace: namespace, LeaderElect: elect, Identity: "a"},
				own:     &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}},
				log:     slog.New(slog.DiscardHandler), clock: clock, fence: leader.NewFence(clock),
				ready: &readiness{state: &health.State{}}, metrics: metrics.NewAgent(clock),
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err := p.lead(ctx, func(ctx context.Context) error {
				passed.Store(int64(time.Hour)) // as if the process had been frozen
				return p.work(ctx)
			})
			if !errors.Is(err, registering.ErrNoIdentity) {
				t.Fatalf("error %v, want %v: nothing was registered", err, registering.ErrNoIdentity)
			}
			if written := secrets.Load() > 0; written == elect {
				t.Errorf("%d writes of Secrets", secrets.Load())
			}
		})
	}
}
