package recovery_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/fleet-hub/fleet/e2e/framework/faults"
)

// TestDisasters plays what can happen to a hub and its agents.
func TestDisasters(t *testing.T) {
	h, results := newHub(t), &table{}
	defer results.print(t)
	if err := h.createWorkloads(t.Context(), *count); err != nil {
		t.Fatal(err)
	}
	half, byHub := *count/2, *count/12
	early, imported := h.join(t, 0, half-byHub), h.importAgents(t, half-byHub, half)
	h.awaitRecoverable(t, h.agents)
	h.workloads.await(t, h.agents)
	if err := h.plane.Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	late := h.join(t, half, *count)
	h.awaitRecoverable(t, late)
	h.workloads.await(t, late)
	losing, keeping := early[:len(early)*3/4], early[len(early)*3/4:]
	for _, a := range keeping { // an agent reads the hub document soon after its start, and moves to the new address
		a.stop()
		a.start()
	}

	h.loseIdentities(t, results, losing, imported)
	h.awaitRecoverable(t, h.agents)
	restored := func(ctx context.Context) error { return errors.Join(h.plane.Restore(ctx), h.startControllers(ctx)) }
	h.play(t, results,
		disaster{name: "hub restored to before the last renewal", agents: slices.Concat(losing, imported), strike: restored},
		disaster{name: "hub restored to before the join", agents: late, strike: nothing}, // the same restore
	)

	h.awaitAddressKnown(t, keeping)
	h.play(t, results, disaster{
		name: "URL moved", agents: keeping, keepsIdentity: true,
		strike: func(context.Context) error { h.front.Impersonate(true); return nil },
	}, disaster{
		name: "CA replaced without overlap", agents: slices.Concat(losing, late), keepsIdentity: true, strike: nothing, // the same
	})
	h.play(t, results, disaster{
		name: "CA replaced with overlap", agents: h.agents, keepsIdentity: true,
		strike: func(context.Context) error { h.later.Impersonate(true); return nil },
	})
	replaced := func(ctx context.Context) error {
		return errors.Join(h.plane.Hub.ReplaceSigningKey(ctx), h.startControllers(ctx))
	}
	h.play(t, results, disaster{name: "signing key replaced", agents: h.agents, strike: replaced})
	h.play(t, results, disaster{name: "all at once", agents: h.agents, strike: func(ctx context.Context) error {
		err := each(h.agents[:half], func(a *agent) error { return a.dropIdentity(ctx) })
		h.later.Impersonate(false)
		return errors.Join(err, replaced(ctx))
	}})
	h.workloads.expectUpdate(t)
}

func nothing(context.Context) error { return nil }

// loseIdentities plays the losses of single agents at the same time.
func (h *hub) loseIdentities(t *testing.T, results *table, agents, imported []*agent) {
	t.Helper()
	third := len(agents) / 3
	deleted, revoked, expired := agents[:third], agents[third:2*third], agents[2*third:]
	h.play(t, results, disaster{
		name: "Secret fleet-agent deleted", agents: deleted,
		strike: func(ctx context.Context) error {
			return each(deleted, func(a *agent) error { return a.dropIdentity(ctx) })
		},
	}, disaster{
		name: "account deleted", agents: revoked,
		strike: func(ctx context.Context) error {
			return each(revoked, func(a *agent) error { return h.deleteAccount(ctx, a) })
		},
	}, disaster{
		name: "token expired during an outage", agents: expired,
		strike: func(ctx context.Context) error {
			outage := h.front.First(faults.Rule{Fault: faults.LostBefore()})
			defer outage.End()
			h.front.Cut()
			return each(expired, func(a *agent) error { return h.expire(ctx, a) })
		},
	}, disaster{
		name: "imported agent's namespace deleted", agents: imported,
		strike: func(ctx context.Context) error {
			return each(imported, func(a *agent) error { return h.deleteNamespace(ctx, a) })
		},
	})
}
