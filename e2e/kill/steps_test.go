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

// add makes agents, the same ones on every hub.
func (h *hub) add(count int) []*swarm.Agent {
	for i := range count {
		id := fmt.Sprintf("agent-%03d", i)
		h.added = append(h.added, h.swarm.Add(swarm.Settings{ClientID: id, Labels: map[string]string{"env": id}, Pod: "fleet-agent-" + id}))
	}
	return h.added
}

// register starts agents, one with each step.
func (h *hub) register(agents []*swarm.Agent) (steps []step) {
	for _, a := range agents {
		steps = append(steps, func(ctx context.Context) error {
			h.swarm.Start(ctx, a)
			return nil
		})
	}
	return steps
}

// registerAgain replaces agents by some that have lost their identity, and have the same token.
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

// together takes a step of each kind at once.
func together(some, others []step) (steps []step) {
	for i := range min(len(some), len(others)) {
		steps = append(steps, func(ctx context.Context) error { return errors.Join(some[i](ctx), others[i](ctx)) })
	}
	return steps
}

// joined waits until agents have an identity, and have asked for it once.
func (h *hub) joined(t *testing.T, ctx context.Context, agents []*swarm.Agent) {
	t.Helper()
	works := func(s swarm.State) bool { return swarm.Joined(s) && s.Watching } // there may be nothing to report
	if err := h.swarm.Await(ctx, works, agents...); err != nil {
		t.Fatal(err)
	}
	expectRegisteredOnce(t, ctx, h, agents)
}

// revoke ends agents, and deletes what they had asked for.
func (h *hub) revoke(agents []*swarm.Agent) (steps []step) {
	for _, a := range agents {
		steps = append(steps, func(ctx context.Context) error {
			a.Stop()
			return h.Hub.Delete(ctx, client.ClusterRegistrations, framework.Workspace, a.State().Request)
		})
	}
	return steps
}

// revoked waits until what was deleted is gone.
func (h *hub) revoked(t *testing.T, ctx context.Context) {
	t.Helper()
	NewWithT(t).Eventually(func(g Gomega) {
		var requests fleet.ClusterRegistrationList
		g.Expect(h.Hub.List(ctx, client.ClusterRegistrations, framework.Workspace, &requests)).To(Succeed())
		g.Expect(requests.Items).To(HaveEach(HaveField("DeletionTimestamp", BeNil())))
	}).WithContext(ctx).WithTimeout(patience).Should(Succeed())
}

// awaitQuiet waits until the controllers of a hub to which nothing happens have nothing to write any more.
func (h *hub) awaitQuiet(t *testing.T, ctx context.Context) {
	t.Helper()
	before := -1
	NewWithT(t).Eventually(func(g Gomega) {
		now := h.writes.total()
		defer func() { before = now }()
		g.Expect(now).To(Equal(before))
	}).WithContext(ctx).WithTimeout(patience).WithPolling(2 * time.Second).Should(Succeed())
}
