// Package kill_test checks that registrations survive when the controllers are killed in the middle of them.
package kill_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/format"

	"github.com/fleet-hub/fleet/dev/plane"
	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/e2e/framework/helm"
	"github.com/fleet-hub/fleet/e2e/framework/replica"
	"github.com/fleet-hub/fleet/e2e/framework/swarm"
	"github.com/fleet-hub/fleet/e2e/parity"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

var (
	rounds = flag.Int("rounds", 1, "how often the leading replica ends after each kind of write; with 2, it is killed once and frozen once, with 60 agents")
	agents = flag.Int("agents", 36, "how many agents register")
)

// Hubs in addition to the one whose environment fails. They run during one test.
const (
	calm      = "calm"      // has no failures
	disturbed = "disturbed" // its replicas are killed
)

// patience limits a wait for something that should take a second or two. The machine may be busy.
const patience = framework.Patience

// shortLeases returns times with which a test can wait until leases expire, and with which a replica on a busy machine
// still renews them in time.
func shortLeases() replica.Election {
	return replica.Election{LeaseDuration: 4 * time.Second, RenewDeadline: 3 * time.Second, RetryPeriod: 300 * time.Millisecond}
}

var control = plane.Share(plane.Options{Downstreams: []string{calm, disturbed}, Later: []string{calm, disturbed}, BeforeControllers: helm.CRDs})

func TestMain(m *testing.M) {
	if code, played := replica.Play(); played {
		os.Exit(code)
	}
	os.Exit(control.Main(running{m}))
}

// running stops the shared hub before the control planes stop.
type running struct{ tests *testing.M }

// Run runs the tests for TestMain.
func (r running) Run() int {
	code := r.tests.Run()
	if shared != nil {
		_ = shared.stop() // the tests have ended
	}
	return code
}

// shared is the hub for failures. The first test that needs it starts it.
var shared *hub

func harmedHub(t *testing.T) *hub {
	t.Helper()
	if shared == nil {
		h, err := newHub(t.Context(), control.Plane(t).Hub, replica.LongLeases())
		if err != nil {
			t.Fatal(err)
		}
		shared = h
	}
	return shared
}

// hubOn starts a cluster and a hub on it. Both end with the test.
func hubOn(t *testing.T, cluster *plane.Cluster, times replica.Election) *hub {
	t.Helper()
	if err := cluster.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	h, err := newHub(t.Context(), cluster, times)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(h.stop(), cluster.End()); err != nil {
			t.Error(err)
		}
	})
	return h
}

// phase is a change of agents, with one step per agent.
type phase struct {
	name string
	// steps returns the steps on a hub, in order. settled waits until all of them are processed.
	steps   func(*hub) []step
	settled func(*hub, *testing.T, context.Context)
}

// phases returns the phases in order. First the agents register. Then half of them register again, and their
// first registrations end with the first use of the second ones. At the same time the registrations of the other
// half are deleted.
func phases() []phase {
	half := *agents / 2
	return []phase{
		{
			name:    "agents register",
			steps:   func(h *hub) []step { return h.register(h.add(*agents)) },
			settled: func(h *hub, t *testing.T, ctx context.Context) { h.joined(t, ctx, h.added) },
		},
		{
			name:  "agents register again, and registrations are deleted",
			steps: func(h *hub) []step { return together(h.registerAgain(h.added[:half]), h.revoke(h.added[half:])) },
			settled: func(h *hub, t *testing.T, ctx context.Context) {
				h.joined(t, ctx, h.added[:half])
				h.revoked(t, ctx)
			},
		},
	}
}

// endings returns how the leading replica ends, one ending after another. After one kind of write it is killed, after
// the next kind it is frozen, and in the next round vice versa. After the last round it cannot renew its lease after
// every third kind.
func endings(kinds []kind) (all []ending) {
	for round := range *rounds + 1 {
		for i, k := range kinds {
			switch {
			case round == *rounds && i%3 == 0:
				all = append(all, ending{k, (*story).loseAfter})
			case round == *rounds:
			case (round+i)%2 == 1:
				all = append(all, ending{k, (*story).freezeAfter})
			default:
				all = append(all, ending{k, (*story).killAfter})
			}
		}
	}
	return all
}

func TestControllersKilledDuringRegistration_AgentsRegisterOnce(t *testing.T) {
	p := control.Plane(t)
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	undisturbed, killed := hubOn(t, p.Cluster(calm), replica.LongLeases()), hubOn(t, p.Cluster(disturbed), shortLeases())
	s := &story{hub: killed}
	var ofAGrant []kind
	for _, phase := range phases() {
		t.Logf("%s:", phase.name)
		began := time.Now()
		steps := phase.steps(undisturbed)
		for _, next := range steps {
			if err := next(ctx); err != nil {
				t.Fatal(err)
			}
		}
		phase.settled(undisturbed, t, ctx)
		undisturbed.awaitQuiet(t, ctx)
		t.Logf("undisturbed, %d steps took %s, and %d writes:\n%s", len(steps), time.Since(began).Round(time.Millisecond), undisturbed.writes.total(), undisturbed.writes)
		kinds := slices.DeleteFunc(undisturbed.writes.kinds(len(steps)/2), func(k kind) bool { return k != sharing && slices.Contains(ofAGrant, k) })
		if written := undisturbed.writes.forget(); ofAGrant == nil {
			ofAGrant = written
		}
		t.Logf("the replica that leads ends %d times after each of %d kinds of writes: %q", *rounds, len(kinds), kinds)

		began = time.Now()
		if err := s.tell(ctx, endings(kinds), phase.steps(killed)); err != nil {
			t.Fatal(err)
		}
		phase.settled(killed, t, ctx)
		t.Logf("disturbed, they took %s, and %d writes:\n%s", time.Since(began).Round(time.Millisecond), killed.writes.total(), killed.writes)
		killed.writes.forget()
		expectSame(t, ctx, undisturbed, killed)
	}
	t.Logf("%d killed, %d frozen, %d could not renew, and %d had ended by themselves, of %d replicas", s.killed, s.frozen, s.lost, s.missed, killed.started())
	t.Logf("%d writes of replicas after they were frozen:\n%s", len(s.late), strings.Join(s.late, "\n"))
}

// expectRegisteredOnce checks agents that have registered once.
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

// expectOneEach waits until each client has one Cluster and one granted registration.
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
				delete(found, id) // of another test
			}
		}
		g.Expect(found).To(Equal(want))
	}).WithContext(ctx).WithTimeout(patience).Should(Succeed())
}

// expectSame waits until two hubs have the same objects, field by field.
func expectSame(t *testing.T, ctx context.Context, one, other *hub) {
	t.Helper()
	format.MaxLength = 20_000 // for the text of the differences
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
