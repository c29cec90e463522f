package clusterimport

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/agentchart"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// handOver applies an agent that does not report, together with a bootstrap Secret so that it can register. An agent
// that has registered in the meantime keeps its identity and gets no bootstrap Secret. An identity that the hub does
// not know stays as well: the agent checks it before it gives it up.
func (d *deployment) handOver(ctx context.Context) error {
	stored, err := d.findStored(ctx)
	switch {
	case err != nil:
		return err
	case d.isKnown(stored):
		return d.withoutBootstrap(ctx)
	}
	// An apply keeps foreign fields in the bootstrap Secret, and with that the agent could not start.
	means := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: d.Values.Namespace, Name: names.AgentBootstrap}}
	if err := d.downstream.Remove(ctx, means); err != nil {
		return err
	}
	return d.apply(ctx)
}

func (d *deployment) withoutBootstrap(ctx context.Context) error {
	values := d.Values
	values.Bootstrap = nil
	rendered, err := agentchart.Render(values)
	if err != nil {
		return fmt.Errorf("%w: %w", errSettings, err)
	}
	d.rendered = withHub(rendered, d.hub)
	return d.apply(ctx)
}

// leave removes the agent from the namespace in which it was before it moved, unless the agent there now belongs to
// another hub.
func (d *deployment) leave(ctx context.Context) error {
	if d.LeaveNamespace == "" {
		return nil
	}
	if another, err := d.ofAnotherHub(ctx, d.LeaveNamespace); err != nil || another {
		return err
	}
	if err := d.downstream.Remove(ctx, agentResources(d.LeaveNamespace)...); err != nil {
		return err
	}
	// The set is named after spec.agentNamespace, which is empty for an agent in the hub's system namespace.
	return errors.Join(
		d.removePullSecrets(ctx, d.LeaveNamespace, names.AgentSetID(d.LeaveNamespace), d.LeftPullSecrets),
		d.removePullSecrets(ctx, d.LeaveNamespace, names.AgentSetID(""), d.LeftPullSecrets))
}

// ofAnotherHub reports whether the agent in a namespace belongs to another hub.
func (d *deployment) ofAnotherHub(ctx context.Context, namespace string) (bool, error) {
	err := checkHub(ctx, d.downstream, namespace, d.hub)
	if another := (*anotherHubError)(nil); errors.As(err, &another) {
		return true, nil
	}
	return false, err
}
