package install

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/agentchart"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/clusteruids"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/importing"
)

// ErrOtherCluster means that the local Cluster's kubeconfig points to a cluster other than the hub's.
var ErrOtherCluster = errors.New("the kubeconfig of the local Cluster points to another cluster")

// ErrSettings means that the chart refuses the agent's settings.
var ErrSettings = errors.New("the agent's settings cannot be used")

// Agent is an agent and the cluster on which to install it.
type Agent struct {
	*importing.AgentDeployment

	Downstream hub.Downstream
	Rendered   []runtime.Object
	// Sources are the pull secrets on the hub.
	Sources []*corev1.Secret
	Trust   TrustFunc
	Hub     types.UID // the UID of this hub
	// CheckOwner returns an error if an agent that is not this Cluster's belongs to another Cluster of the hub.
	CheckOwner func(Owner) error
	// GivesWay means that an agent of another Cluster stays, although this one has to register.
	GivesWay bool
	// Reset clears the agent's status on the hub. It is called before the identity of the agent is removed.
	Reset func() error
}

// Install applies the agent, unless the agent there is another hub's. It reinstalls an agent that has to register
// again, and upgrades any other.
func (d *Agent) Install(ctx context.Context) error {
	if err := CheckHub(ctx, d.Downstream, d.Values.Namespace, d.Hub); err != nil {
		return err
	}
	switch {
	case d.NewRegistration:
		return d.reinstall(ctx)
	case d.Values.Bootstrap != nil:
		return d.applyWithBootstrap(ctx)
	}
	return d.upgrade(ctx)
}

// reinstall deploys an agent that has to register. It removes the agent's identity before it delivers the bootstrap
// Secret for another one.
func (d *Agent) reinstall(ctx context.Context) error {
	if err := d.giveWay(ctx); err != nil {
		return err
	}
	// Remove the old agent while the status still contains its namespace. A retry would not know it.
	if err := d.Leave(ctx); err != nil {
		return err
	}
	unwatched, err := d.keptByAnother(ctx)
	if err != nil {
		return err
	}
	if err := d.Reset(); err != nil {
		return err
	}
	// An apply keeps foreign fields in the bootstrap Secret, and with that the agent could not start. Old releases of Rancher
	// Fleet run their agent as a StatefulSet, whose pods would use the identity of the new agent.
	old := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: d.Values.Namespace, Name: names.Agent}}
	if err := d.Downstream.Remove(ctx, append(secretsOf(d.Values.Namespace), old)...); err != nil {
		return err
	}
	if err := d.removeLeftovers(ctx); err != nil {
		return err
	}
	if err := d.Apply(ctx); err != nil {
		return err
	}
	return d.restart(ctx, unwatched)
}

// giveWay returns an error if the agent of another Cluster has to stay. It may have joined by itself, in the default system namespace.
func (d *Agent) giveWay(ctx context.Context) error {
	if !d.GivesWay {
		return nil
	}
	if err := d.checkOwner(ctx); err != nil || !d.Leftovers {
		return err
	}
	found, err := d.meansIn(ctx, names.SystemNamespace)
	if err != nil {
		return err
	}
	return checkOwner(found.stored, found.bootstrap, d.CheckOwner)
}

// upgrade changes an agent that keeps its identity. Without an identity of this Cluster, the agent belongs to
// another Cluster, which keeps it, or has lost its identity, and the next run reinstalls it.
func (d *Agent) upgrade(ctx context.Context) error {
	found, err := d.findIdentity(ctx)
	switch {
	case err != nil:
		return err
	case !found.any():
		return cmp.Or(d.checkOwner(ctx), ErrNoIdentity)
	case d.InspectOnly:
		return nil
	}
	unwatched, err := d.readdress(ctx, found)
	if err != nil {
		return err
	}
	if err := d.Apply(ctx); err != nil {
		return err
	}
	return d.restart(ctx, unwatched)
}

// applyWithBootstrap applies an agent that does not report, together with a bootstrap Secret so that it can register.
// An agent that has registered in the meantime keeps its identity and gets no bootstrap Secret. An identity that the hub does
// not know stays as well: the agent checks it before it gives it up.
func (d *Agent) applyWithBootstrap(ctx context.Context) error {
	stored, err := d.findStored(ctx)
	switch {
	case err != nil:
		return err
	case d.isKnown(stored):
		return d.withoutBootstrap(ctx)
	}
	if err := d.checkOwner(ctx); err != nil {
		return err
	}
	// An apply keeps foreign fields in the bootstrap Secret, and with that the agent could not start.
	means := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: d.Values.Namespace, Name: names.AgentBootstrap}}
	if err := d.Downstream.Remove(ctx, means); err != nil {
		return err
	}
	return d.Apply(ctx)
}

func (d *Agent) withoutBootstrap(ctx context.Context) error {
	values := d.Values
	values.Bootstrap = nil
	rendered, err := agentchart.Render(values)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrSettings, err)
	}
	d.Rendered = WithHub(rendered, d.Hub)
	return d.Apply(ctx)
}

// Leave removes the agent from the namespace in which it was before it moved, unless the agent there now belongs to
// another hub.
func (d *Agent) Leave(ctx context.Context) error {
	if d.LeaveNamespace == "" {
		return nil
	}
	if another, err := d.ofAnotherHub(ctx, d.LeaveNamespace); err != nil || another {
		return err
	}
	if err := d.Downstream.Remove(ctx, agentchart.Objects(d.LeaveNamespace)...); err != nil {
		return err
	}
	// The hub's system namespace may have been another one when the Secrets were copied.
	errs := []error{
		d.removePullSecrets(ctx, d.LeaveNamespace, names.AgentSetID(d.LeaveNamespace), d.LeftPullSecrets),
		d.removePullSecrets(ctx, d.LeaveNamespace, names.AgentSetID(""), d.LeftPullSecrets),
	}
	for _, setID := range d.LeaveSetIDs {
		errs = append(errs, removeMarked(ctx, d.Downstream, setID, agentchart.SharedClass()))
	}
	return errors.Join(errs...)
}

// ofAnotherHub reports whether the agent in a namespace belongs to another hub.
func (d *Agent) ofAnotherHub(ctx context.Context, namespace string) (bool, error) {
	err := CheckHub(ctx, d.Downstream, namespace, d.Hub)
	if another := (*AnotherHubError)(nil); errors.As(err, &another) {
		return true, nil
	}
	return false, err
}

// secretsOf returns the Secrets with the agent's identity and with its bootstrap token.
func secretsOf(namespace string) []runtime.Object {
	return []runtime.Object{
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: names.Agent}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: names.AgentBootstrap}},
	}
}

// Remove removes an agent if the cluster is the hub's own. A setting of the hub must not remove anything elsewhere.
func Remove(ctx context.Context, downstream hub.Downstream, agent *importing.AgentRemoval, own types.UID) error {
	uid, err := clusteruids.Read(ctx, downstream)
	switch {
	case err != nil:
		return err
	case uid == "" || uid != own:
		return ErrOtherCluster
	}
	if err := downstream.Remove(ctx, agentchart.Objects(agent.Namespace)...); err != nil {
		return err
	}
	var errs []error
	for _, setID := range agent.SetIDs {
		errs = append(errs, removeMarked(ctx, downstream, setID, agentchart.SharedClass()))
	}
	return errors.Join(errs...)
}
