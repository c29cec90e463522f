package kill_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/dev/plane"
	"github.com/fleet-hub/fleet/e2e/framework/faults"
	"github.com/fleet-hub/fleet/e2e/framework/replica"
	"github.com/fleet-hub/fleet/e2e/framework/swarm"
	"github.com/fleet-hub/fleet/internal/cmd/controller"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// After a restore no replica may work with caches that contain later states. The leader detects the restore by
// its leases, which are older than it remembers. If the leases were not renewed after the snapshot, they do not
// show it. Then the caches are filled again because the API server was unavailable.
func TestRestoredHub_ControllersDropTheirCaches(t *testing.T) {
	p, g, h := control.Plane(t), NewWithT(t), harmedHub(t)
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
	defer cancel()
	older := h.join(ctx, "before-the-snapshot")
	defer older.Stop()
	g.Expect(older.Await(ctx, swarm.Settled)).To(Succeed())
	renewsAgain := h.on(faults.Match{Verb: "write", Resource: "leases"}, faults.Answer(http.StatusServiceUnavailable))
	defer func() { g.Expect(renewsAgain()).To(Succeed()) }()
	g.Expect(p.Snapshot(ctx)).To(Succeed())
	newer := h.join(ctx, "after-the-snapshot")
	defer newer.Stop()
	g.Expect(newer.Await(ctx, swarm.Settled)).To(Succeed())

	t.Log("to before something that its leases do not know of")
	g.Expect(h.restore(ctx, p)).To(Succeed())
	g.Expect(newer.Await(ctx, func(s swarm.State) bool { return swarm.Settled(s) && s.Registrations > 1 })).To(Succeed())
	expectOneEach(t, ctx, h, "before-the-snapshot", "after-the-snapshot")
	newer.Stop()

	t.Log("to before its leases were renewed")
	g.Expect(renewsAgain()).To(Succeed())
	h.awaitRenewal(t, ctx)
	leader := h.leader(t, ctx)
	g.Expect(h.restore(ctx, p)).To(Succeed())
	g.Eventually(leader.Ended()).WithContext(ctx).WithTimeout(patience).Should(BeClosed(), leader.Name+" knows what has not happened, and goes on")
	g.Expect(leader.Log()).To(Or(
		ContainSubstring("the API server was restored from an older state"),
		ContainSubstring("lost the leader election lease"), // another replica was faster
	))
	latest := h.join(ctx, "after-the-restore")
	defer latest.Stop()
	g.Expect(latest.Await(ctx, swarm.Settled)).To(Succeed())
	g.Expect(older.Await(ctx, swarm.Settled)).To(Succeed())
	g.Expect(older.State().Registrations).To(Equal(1), "the no of an API server that has just started is no answer")
	expectOneEach(t, ctx, h, "before-the-snapshot", "after-the-restore")
}

// restore resets the hub to the last snapshot. Meanwhile it refuses the replicas' connections, as a host without
// a listener does. A replica without other information would continue afterwards where it was.
func (h *hub) restore(ctx context.Context, p *plane.Plane) error {
	for _, s := range h.slots {
		s.wire.Refuse()
	}
	failed := []error{p.Restore(ctx)}
	for _, s := range h.slots {
		failed = append(failed, s.wire.Heal())
	}
	return errors.Join(failed...)
}

// awaitRenewal waits until each lease was renewed once.
func (h *hub) awaitRenewal(t *testing.T, ctx context.Context) {
	t.Helper()
	versions := func(g Gomega) map[string]string {
		leases, err := h.Hub.Kube.CoordinationV1().Leases(names.SystemNamespace).List(ctx, metav1.ListOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		found := map[string]string{}
		for _, lease := range leases.Items {
			found[lease.Name] = lease.ResourceVersion
		}
		return found
	}
	g := NewWithT(t)
	before := versions(g)
	g.Expect(before).NotTo(BeEmpty())
	g.Eventually(func(g Gomega) {
		for lease, version := range versions(g) {
			g.Expect(version).NotTo(Equal(before[lease]), lease)
		}
	}).WithContext(ctx).WithTimeout(patience).Should(Succeed())
}

// leader waits until a replica holds the lease, and returns it.
func (h *hub) leader(t *testing.T, ctx context.Context) (found *replica.Replica) {
	t.Helper()
	NewWithT(t).Eventually(func(g Gomega) {
		holders, err := replica.Holders(ctx, h.Hub.Kube)
		g.Expect(err).NotTo(HaveOccurred())
		for _, s := range h.slots {
			if r := s.current(); r.Is(holders[controller.Lease]) {
				found = r
			}
		}
		g.Expect(found).NotTo(BeNil(), "%v", holders)
	}).WithContext(ctx).WithTimeout(patience).Should(Succeed())
	return found
}
