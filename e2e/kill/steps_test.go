package kill_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/e2e/framework/swarm"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// add adds agents, which are the same on every hub.
func (h *hub) add(count int) []*swarm.Agent {
	for i := range count {
		id := fmt.Sprintf("agent-%03d", i)
		h.added = append(h.added, h.swarm.Add(swarm.Settings{ClientID: id, Labels: map[string]string{"env": id}, Pod: "fleet-agent-" + id}))
	}
	return h.added
}

// register returns steps that start one agent each.
func (h *hub) register(agents []*swarm.Agent) (steps []step) {
	for _, a := range agents {
		steps = append(steps, func(ctx context.Context) error {
			h.swarm.Start(ctx, a)
			return nil
		})
	}
	return steps
}

// registerAgain replaces agents by agents without an identity and with the same token.
func (h *hub) registerAgain(agents []*swarm.Agent) (steps []step) {
	for i, a := range agents {
		steps = append(steps, func(ctx context.Context) error {
			a.Stop()
			settings := a.Settings()
			settings.Credential = nil
			agents[i] = h.swarm.Add(settings)
			h.swarm.Start(ctx, agents[i])
			return nil
		})
	}
	return steps
}

// together combines one step of each list.
func together(some, others []step) (steps []step) {
	for i := range min(len(some), len(others)) {
		steps = append(steps, func(ctx context.Context) error { return errors.Join(some[i](ctx), others[i](ctx)) })
	}
	return steps
}

// joined waits until agents have an identity and have registered once.
func (h *hub) joined(t *testing.T, ctx context.Context, agents []*swarm.Agent) {
	t.Helper()
	works := func(s swarm.State) bool { return swarm.Joined(s) && s.Watching } // there may be nothing to report
	if err := h.swarm.Await(ctx, works, agents...); err != nil {
		t.Fatal(err)
	}
	expectRegisteredOnce(t, ctx, h, agents)
}

// revoke stops agents and deletes their registrations.
func (h *hub) revoke(agents []*swarm.Agent) (steps []step) {
	for _, a := range agents {
		steps = append(steps, func(ctx context.Context) error {
			a.Stop()
			return h.Hub.Delete(ctx, client.ClusterRegistrations, framework.Workspace, a.State().Request)
		})
	}
	return steps
}

// revoked waits until the deleted objects are gone.
func (h *hub) revoked(t *testing.T, ctx context.Context) {
	t.Helper()
	NewWithT(t).Eventually(func(g Gomega) {
		var requests fleet.ClusterRegistrationList
		g.Expect(h.Hub.List(ctx, client.ClusterRegistrations, framework.Workspace, &requests)).To(Succeed())
		g.Expect(requests.Items).To(HaveEach(HaveField("DeletionTimestamp", BeNil())))
	}).WithContext(ctx).WithTimeout(patience).Should(Succeed())
}

// awaitQuiet waits until the controllers of an idle hub have nothing more to write.
func (h *hub) awaitQuiet(t *testing.T, ctx context.Context) {
	t.Helper()
	before := -1
	NewWithT(t).Eventually(func(g Gomega) {
		now := h.writes.total()
		defer func() { before = now }()
		g.Expect(now).To(Equal(before))
	}).WithContext(ctx).WithTimeout(patience).WithPolling(2 * time.Second).Should(Succeed())
}
