package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/e2e/bench/audit"
	"github.com/fleet-hub/fleet/e2e/bench/expiry"
	"github.com/fleet-hub/fleet/e2e/bench/figures"
	"github.com/fleet-hub/fleet/e2e/framework/swarm"
)

// errNoIdentity means that an agent has no identity to continue with.
var errNoIdentity = errors.New("the agent has no identity with a key")

// expired are the figures of agents whose tokens expire, and the requests for each of their renewals, and for each agent
// that returns.
type expired struct {
	expiry.Figures
	Renewing  figures.Costs `json:"renewing"`
	Returning figures.Costs `json:"returning"`
}

// expire lets the tokens of all agents expire while the API server is gone. Afterwards the agents have ended.
func (b *bench) expire(ctx context.Context) (expired, error) {
	var identities []swarm.Identity
	for _, a := range b.agents {
		a.Stop()
		identity, ok := a.Identity()
		if !ok {
			return expired{}, fmt.Errorf("agent %s: %w", a.ClientID(), errNoIdentity)
		}
		identities = append(identities, identity)
	}
	b.agents = nil
	if err := b.Skip(); err != nil { // skip earlier requests
		return expired{}, err
	}
	result, err := expiry.Play(ctx, expiry.Options{
		Hub: expiringHub{b}, Identities: identities, Values: b.AgentValues[0], Times: b.expiry, Quiet: b.quiet, Clock: b.Clock, Say: b.Say,
	})
	return expired{
		Figures: result.Figures, Renewing: figures.CostsOf(result.Renewing.Only(isOurs), result.Renewals), Returning: figures.CostsOf(result.Returning.Only(isOurs), len(identities)),
	}, err
}

// isOurs reports whether requests are of agents, or of the controller because of them. What the API server does after its
// start hardly depends on the agents.
func isOurs(kind audit.Kind) bool {
	return slices.Contains([]audit.Identity{audit.Controller, audit.Proof, audit.Import, audit.Request}, kind.Identity)
}

// expiringHub is the hub for package expiry.
type expiringHub struct{ *bench }

// SetLifetime implements expiry.Hub.
func (h expiringHub) SetLifetime(ctx context.Context, lifetime time.Duration) error {
	values := map[string]any{"agentCredential": map[string]any{"lifetime": lifetime.String()}}
	for key, value := range h.hubValues() {
		values[key] = value
	}
	if err := h.World.InstallHub(ctx, values); err != nil {
		return err
	}
	_, err := h.UntilQuiet(ctx)
	return err
}

// DeleteAccount implements expiry.Hub.
func (h expiringHub) DeleteAccount(ctx context.Context, namespace, name string) error {
	return h.World.Hub.Kube.CoreV1().ServiceAccounts(namespace).Delete(ctx, name, metav1.DeleteOptions{})
}

// Pause implements expiry.Hub.
func (h expiringHub) Pause() error { return h.World.Plane.Hub.Pause() }

// Resume implements expiry.Hub.
func (h expiringHub) Resume(ctx context.Context) error { return h.World.Plane.Hub.Resume(ctx) }

// Who implements expiry.Hub.
func (h expiringHub) Who(e audit.Event) audit.Identity { return h.Whose.Who(e) }
