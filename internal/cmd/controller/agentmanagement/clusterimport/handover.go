package clusterimport

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/agentchart"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/importing"
)

// handOver applies an agent that does not come once more, with the means to register. One that turns out to have
// registered keeps what it has, and gets none. An identity that the hub does not know stays, too: the agent asks
// whether it is good before it gives it up.
func (d *deployment) handOver(ctx context.Context) error {
	stored, err := d.findStored(ctx)
	switch {
	case err != nil:
		return err
	case d.isKnown(stored):
		return d.withoutBootstrap(ctx)
	}
	// With what others have written into it, which an apply leaves there, the agent could not begin.
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

// leave takes the agent away from the namespace where it was before it moved, unless it has become another hub's.
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

// ofAnotherHub says whether the agent of a namespace is another hub's.
func (d *deployment) ofAnotherHub(ctx context.Context, namespace string) (bool, error) {
	err := checkHub(ctx, d.downstream, namespace, d.hub)
	if another := (*anotherHubError)(nil); errors.As(err, &another) {
		return true, nil
	}
	return false, err
}

// kubeconfigFor is what leads to the cluster on which an outcome is carried out; nil if nothing does.
func kubeconfigFor(out importing.Outcome) []byte {
	switch {
	case out.Deploy != nil:
		return out.Deploy.Kubeconfig
	case out.Remove != nil:
		return out.Remove.Kubeconfig
	}
	return nil
}
