// Package recovery_test plays disasters on a hub with many agents, and measures how soon the agents return, and whether
// a person had to do something or a workload was restarted.
//
//	agents of one downstream cluster, each in a namespace of its own ─► front (faults.Proxy) ─► hub ◄─ controllers
//	  └─► a workload of each: ConfigMap, Deployment, pod
//
// The agents register, send heartbeats and deploy with the code of the real agent. Some of them are installed by the hub.
package recovery_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"text/tabwriter"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/fleet-hub/fleet/dev/plane"
	"github.com/fleet-hub/fleet/e2e/framework/helm"
	"github.com/fleet-hub/fleet/e2e/framework/replica"
)

var count = flag.Int("agents", 24, "how many agents there are, at least 12")

// patience limits the wait for the return of the agents from one disaster.
const patience = 5 * time.Minute

// The hub and the cluster of the agents have control planes of their own, because only the hub is restored.
var (
	hubs  = plane.Share(plane.Options{BeforeControllers: helm.HubCRDs})
	wests = plane.Share(plane.Options{})
)

func TestMain(m *testing.M) {
	if code, played := replica.Play(); played {
		os.Exit(code)
	}
	klog.SetSlogLogger(slog.New(slog.DiscardHandler)) // the agents' client-go reports each rejected watch
	os.Exit(hubs.Main(also{m}))
}

// also runs the tests with the second plane.
type also struct{ tests *testing.M }

// Run runs the tests.
func (a also) Run() int { return wests.Main(a.tests) }

// row is one line of the table.
type row struct {
	disaster                                string
	agents, steps, registrations, restarted int
	took                                    time.Duration
}

// table collects what the disasters have cost.
type table struct{ rows []row }

func (a *table) print(t *testing.T) {
	t.Helper()
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "disaster\tagents\tseconds until the last returned\thuman steps\tregistrations\trestarted workloads")
	for _, r := range a.rows {
		fmt.Fprintf(w, "%s\t%d\t%.0f\t%d\t%d\t%d\n", r.disaster, r.agents, r.took.Seconds(), r.steps, r.registrations, r.restarted)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + text.String())
}

// person counts the writes of a person.
type person struct {
	next  http.RoundTripper
	steps *atomic.Int64
}

// RoundTrip sends the request.
func (p person) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodGet {
		p.steps.Add(1)
	}
	return p.next.RoundTrip(request)
}

// counted returns the access of a person, whose writes are counted.
func (h *hub) counted(access *rest.Config) *rest.Config {
	access = rest.CopyConfig(access)
	access.Wrap(func(next http.RoundTripper) http.RoundTripper { return person{next: next, steps: &h.steps} })
	return access
}

// disaster happens to some agents and is measured.
type disaster struct {
	name   string
	agents []*agent
	// strike causes it.
	strike func(context.Context) error
	// keepsIdentity means that the agents return with the same token.
	keepsIdentity bool
}

// play causes disasters at the same time, and waits until all their agents have returned.
func (h *hub) play(t *testing.T, into *table, disasters ...disaster) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	before := make([]map[*agent]string, len(disasters))
	for i, d := range disasters {
		before[i] = map[*agent]string{}
		for _, a := range d.agents {
			before[i][a] = a.token()
		}
	}
	began, requests := time.Now(), h.registrations.Load()
	for _, d := range disasters {
		if err := d.strike(ctx); err != nil {
			t.Fatalf("%s: %v", d.name, err)
		}
	}
	struck, steps := time.Now(), h.steps.Load()
	for i, d := range disasters {
		var last time.Time
		for _, a := range d.agents {
			at, err := a.awaitReturn(ctx, struck, before[i][a], d.keepsIdentity)
			if err != nil {
				t.Fatalf("%s: %v", d.name, err)
			}
			if at.After(last) {
				last = at
			}
		}
		into.rows = append(into.rows, row{disaster: d.name, agents: len(d.agents), took: last.Sub(began)})
	}
	h.expectSameClusters(t)
	rows := into.rows[len(into.rows)-len(disasters):]
	made := int(h.registrations.Load() - requests)
	for i, d := range disasters { // requests of disasters at the same time are told apart by their agents
		rows[i].steps, rows[i].restarted = int(h.steps.Load()-steps), h.workloads.restarted(t, d.agents)
		if rows[i].registrations = made; len(disasters) > 1 {
			rows[i].registrations = h.registeredBy(d.agents)
		}
		if rows[i].steps > 0 {
			t.Errorf("%s: %d writes of a person followed", d.name, rows[i].steps)
		}
	}
}
