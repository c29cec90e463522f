// Package kill_test tells what becomes of registrations when the controllers are killed in the middle of them.
package kill_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/format"

	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/e2e/framework/helm"
	"github.com/fleet-hub/fleet/e2e/framework/swarm"
	"github.com/fleet-hub/fleet/e2e/parity"
	"github.com/fleet-hub/fleet/internal/names"
	"github.com/fleet-hub/fleet/internal/plane"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

var (
	kills  = flag.Int("kills", 5, "how often the leading replica is killed after each kind of write")
	agents = flag.Int("agents", 100, "how many agents register")
)

// Hubs beside the one on which replicas are killed.
const (
	calm   = "calm"   // nothing happens to it
	harmed = "harmed" // its surroundings fail
)

// patience is how long a test waits for what should take a second or two.
const patience = 60 * time.Second

var control = plane.Share(plane.Options{Downstreams: []string{calm, harmed}, BeforeControllers: installCRDs})

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == program {
		os.Exit(beController())
	}
	os.Exit(control.Main(running{m}))
}

// running ends the shared hub before the control planes end.
type running struct{ tests *testing.M }

// Run is what a TestMain runs.
func (r running) Run() int {
	code := r.tests.Run()
	if shared != nil {
		_ = shared.stop() // the tests are over
	}
	return code
}

// shared is the hub that is harmed, once one was asked for.
var shared *hub

func harmedHub(t *testing.T) *hub {
	t.Helper()
	if shared == nil {
		h, err := newHub(t.Context(), control.Plane(t).Cluster(harmed), longLeases())
		if err != nil {
			t.Fatal(err)
		}
		shared = h
	}
	return shared
}

func installCRDs(ctx context.Context, c *plane.Cluster) error {
	return helm.Release{Config: c.Config(), Chart: "fleet-crd", Name: "fleet-crd", Namespace: names.SystemNamespace}.Install(ctx)
}

// hubOn is a hub on a cluster, until the test ends.
func hubOn(t *testing.T, cluster *plane.Cluster, times election) *hub {
	t.Helper()
	h, err := newHub(t.Context(), cluster, times)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.stop(); err != nil {
			t.Error(err)
		}
	})
	return h
}

func TestControllersAreKilledWhileAgentsRegister(t *testing.T) {
	p := control.Plane(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	undisturbed := hubOn(t, p.Cluster(calm), longLeases())
	began := time.Now()
	first := undisturbed.add(*agents)
	undisturbed.swarm.Start(ctx, first...)
	if err := undisturbed.swarm.Await(ctx, swarm.Settled, first...); err != nil {
		t.Fatal(err)
	}
	t.Logf("undisturbed, %d agents took %s, and %d writes:\n%s", *agents, time.Since(began).Round(time.Millisecond), undisturbed.writes.total(), undisturbed.writes)
	kinds := undisturbed.writes.kinds(*agents)
	t.Logf("%d kinds of writes of a grant", len(kinds))

	disturbed := hubOn(t, p.Hub, shortLeases())
	s := &story{hub: disturbed, waiting: disturbed.add(*agents)}
	began = time.Now()
	s.release(ctx, *agents-len(kinds)**kills)
	for round := range *kills {
		for i, k := range kinds {
			s.release(ctx, 1)
			var err error
			if (round+i)%*kills == *kills-1 {
				err = s.freezeAfter(ctx, k)
			} else {
				err = s.killAfter(ctx, k)
			}
			if err != nil {
				t.Fatalf("round %d, after %q: %v", round, k, err)
			}
		}
	}
	s.release(ctx, len(s.waiting))
	t.Logf("%d killed and %d frozen in %s, with %d replicas", s.killed, s.frozen, time.Since(began).Round(time.Millisecond), disturbed.started())
	if err := disturbed.swarm.Await(ctx, swarm.Settled, s.released...); err != nil {
		t.Fatal(err)
	}
	t.Logf("all agents had joined after %s, and %d writes:\n%s", time.Since(began).Round(time.Millisecond), disturbed.writes.total(), disturbed.writes)
	t.Logf("%d writes of replicas after they were frozen:\n%s", len(s.late), strings.Join(s.late, "\n"))

	expectRegisteredOnce(t, ctx, disturbed, s.released)
	expectSame(t, ctx, undisturbed, disturbed)
}

// add makes agents, the same ones on every hub.
func (h *hub) add(count int) (added []*swarm.Agent) {
	for i := range count {
		id := fmt.Sprintf("agent-%03d", i)
		added = append(added, h.swarm.Add(swarm.Settings{ClientID: id, Labels: map[string]string{"env": id}, Pod: "fleet-agent-" + id}))
	}
	return added
}

// expectRegisteredOnce looks at agents that have asked for an identity once.
func expectRegisteredOnce(t *testing.T, ctx context.Context, h *hub, all []*swarm.Agent) {
	t.Helper()
	g := NewWithT(t)
	var ids []string
	for _, a := range all {
		ids = append(ids, a.ClientID())
		state := a.State()
		g.Expect(state.Registrations).To(Equal(1), a.ClientID())
		g.Expect(state.Rejected).To(BeFalse(), a.ClientID())
		g.Expect(a.Credential().ClusterName).To(Equal(names.Cluster(a.ClientID())))
	}
	expectOneEach(t, ctx, h, ids...)
}

// expectOneEach waits until clients have one Cluster and one registration each, which is granted.
func expectOneEach(t *testing.T, ctx context.Context, h *hub, clientIDs ...string) {
	t.Helper()
	want := map[string][]string{}
	for _, id := range clientIDs {
		want[id] = []string{"cluster " + names.Cluster(id), "request of " + names.Cluster(id) + ", granted true"}
	}
	NewWithT(t).Eventually(func(g Gomega) {
		var clusters fleet.ClusterList
		var requests fleet.ClusterRegistrationList
		g.Expect(h.Hub.List(ctx, client.Clusters, "", &clusters)).To(Succeed())
		g.Expect(h.Hub.List(ctx, client.ClusterRegistrations, "", &requests)).To(Succeed())
		found := map[string][]string{}
		for _, c := range clusters.Items {
			found[c.Spec.ClientID] = append(found[c.Spec.ClientID], "cluster "+c.Name)
		}
		for _, r := range requests.Items {
			found[r.Spec.ClientID] = append(found[r.Spec.ClientID], fmt.Sprintf("request of %s, granted %v", r.Status.ClusterName, r.Status.Granted))
		}
		for id := range found {
			if want[id] == nil {
				delete(found, id) // another test's
			}
		}
		g.Expect(found).To(Equal(want))
	}).WithContext(ctx).WithTimeout(patience).Should(Succeed())
}

// expectSame waits until two hubs have the same, field by field.
func expectSame(t *testing.T, ctx context.Context, one, other *hub) {
	t.Helper()
	format.MaxLength = 20_000 // of a text that says what differs
	var report parity.Report
	NewWithT(t).Eventually(func(g Gomega) {
		left, err := one.snapshot(ctx)
		g.Expect(err).NotTo(HaveOccurred())
		right, err := other.snapshot(ctx)
		g.Expect(err).NotTo(HaveOccurred())
		report = parity.Judge(parity.Compare(left, right, nil), nil, nil)
		g.Expect(report.Diff()).To(BeEmpty())
	}).WithContext(ctx).WithTimeout(patience).WithPolling(time.Second).Should(Succeed())
	t.Logf("%d objects, %d fields, all the same", report.Objects, report.Fields)
}
