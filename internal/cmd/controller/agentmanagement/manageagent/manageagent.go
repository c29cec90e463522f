// Package manageagent gives every Cluster whose agent has been heard of a Bundle with that very agent, so that the
// agent takes its own Deployment over and follows the hub's settings from then on.
//
//	Cluster ─► settings ─► agent.yaml ─► Bundle fleet-agent-<cluster> ─► (delivery) ─► the agent adopts itself
//
// Until its first heartbeat an agent's objects belong to the import, or to the admin who installed it. The Bundle
// holds the same Deployment, so that the change of hands restarts nothing.
package manageagent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/importing"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// errNoWorkspace means that a Cluster's namespace is not in the cache: nobody could own its Bundle.
var errNoWorkspace = errors.New("the workspace is not known yet")

// takenDelay is when a Cluster is looked at again whose agent's Bundle has a name that another Bundle has.
const takenDelay = 15 * time.Second

type handler struct {
	app       *hub.Context
	set       *reconcile.Set
	manifests *manifests
}

// Register watches Clusters, their agents' Bundles and the configuration. All Bundles of a workspace are one set, as
// the other implementation has it, but each is written and removed by itself: a change of one Cluster costs one
// request.
func Register(ctx context.Context, a *hub.Context) error {
	h := &handler{app: a, manifests: newManifests()}
	// The rest of the spec is the user's: an agent can be paused, for one.
	h.set = reconcile.NewSet(names.AgentBundleSet, reconcile.KindOf(a.Bundles).
		Owning("spec.defaultNamespace", "spec.helm", "spec.resources", "spec.targets").
		Dropping(fleet.AnnotationSetApplied))
	a.Clusters.OnChange(hub.Lasting(ctx), "manage-agent", h.onChange)
	a.Config.OnChange(h.onConfig)
	return watchBundles(a.Bundles.Informer(), reconcile.Nudge(a.Clusters))
}

// onConfig wakes every Cluster: most of an agent's settings are the hub's.
func (h *handler) onConfig(_, _ config.Config) {
	clusters, err := h.app.Clusters.Cache().List("", labels.Everything())
	if err != nil {
		return // only a cache that has not started; its start looks at every Cluster
	}
	for _, cluster := range clusters {
		reconcile.Nudge(h.app.Clusters)(types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name})
	}
}

func (h *handler) onChange(key string, cluster *fleet.Cluster) (*fleet.Cluster, error) {
	name := reconcile.KeyOf(key)
	if cluster == nil {
		return nil, h.remove(name)
	}
	in, err := h.gather(cluster)
	if err != nil {
		return cluster, fmt.Errorf("looking at the agent of cluster %s: %w", name, err)
	}
	cluster, err = h.act(in, decide(in))
	if err != nil {
		return cluster, fmt.Errorf("agent of cluster %s: %w", name, err)
	}
	return cluster, nil
}

func (h *handler) gather(cluster *fleet.Cluster) (input, error) {
	in := input{cluster: cluster, config: h.app.Config.Get(), defaults: h.app.AgentDefaults(), namespaces: h.app.Namespaces}
	var err error
	if in.workspace, err = reconcile.Optional(h.app.AllNamespaces.Cache().Get(cluster.Namespace)); err != nil {
		return in, err
	}
	if in.workspace == nil && cluster.DeletionTimestamp == nil {
		return in, errNoWorkspace // the caches fill one by one
	}
	in.bundle, err = reconcile.Optional(h.app.Bundles.Cache().Get(cluster.Namespace, names.AgentBundle(cluster.Name)))
	return in, err
}

func (h *handler) act(in input, out outcome) (*fleet.Cluster, error) {
	switch {
	case out.remove:
		if err := h.remove(types.NamespacedName{Namespace: in.cluster.Namespace, Name: in.cluster.Name}); err != nil {
			return in.cluster, err
		}
	case out.stage == managed:
		manifest, err := h.manifests.of(out.values)
		if err != nil {
			out.reason, out.message = fleet.ReasonSettingsInvalid, err.Error() // the Bundle stays as it is
			break
		}
		err = h.apply(in, bundle(in.cluster, out.values.Namespace, manifest))
		if taken := (*reconcile.TakenError)(nil); errors.As(err, &taken) {
			h.app.Clusters.EnqueueAfter(in.cluster.Namespace, in.cluster.Name, takenDelay) // its end wakes no Cluster
			out.reason, out.message = fleet.ReasonNameTaken, taken.Error()
		} else if err != nil {
			return in.cluster, err
		}
	}
	return h.report(in.cluster, out)
}

func (h *handler) apply(in input, wanted *fleet.Bundle) error {
	owner := reconcile.OwnerOf(corev1.SchemeGroupVersion.WithKind("Namespace"), in.workspace)
	if err := h.set.ApplyOne(owner, wanted); err != nil {
		return err
	}
	switch {
	case importing.AppliedElsewhere(in.bundle):
		h.app.Log.Info("agent taken over", "cluster", in.cluster.Namespace+"/"+in.cluster.Name, "bundle", wanted.Name)
	case in.bundle == nil:
		h.app.Log.Info("agent managed", "cluster", in.cluster.Namespace+"/"+in.cluster.Name, "bundle", wanted.Name)
	}
	return nil
}

// remove takes the Bundle of a Cluster's agent away. The agent forgets its release then and stays as it is.
func (h *handler) remove(cluster types.NamespacedName) error {
	owner := reconcile.GoneOwner(corev1.SchemeGroupVersion.WithKind("Namespace"), "", cluster.Namespace)
	return h.set.RemoveOne(owner, &fleet.Bundle{ObjectMeta: bundleMeta(cluster.Namespace, cluster.Name)})
}

// report says why an agent is not managed that should be, and that it is again. A Cluster without such trouble has no
// condition, and one whose agent is not managed by a Bundle for now, or never, loses it. Other managers' Clusters and
// those that go are not written to.
func (h *handler) report(cluster *fleet.Cluster, out outcome) (*fleet.Cluster, error) {
	previous := fleet.GetCondition(cluster.Status.Conditions, fleet.ConditionAgentManaged)
	if previous == nil && out.reason == "" || cluster.DeletionTimestamp != nil || cluster.Labels[fleet.LabelClusterManagement] != "" {
		return cluster, nil
	}
	return hub.Report(h.app, h.app.Clusters, cluster, func(c *fleet.Cluster) {
		conditions, condition := &c.Status.Conditions, genericcondition.GenericCondition{Type: fleet.ConditionAgentManaged}
		switch {
		case out.reason != "":
			condition.Status, condition.Reason, condition.Message = corev1.ConditionFalse, out.reason, out.message
			fleet.SetCondition(conditions, h.app.Clock(), condition)
		case out.stage == managed:
			condition.Status = corev1.ConditionTrue
			fleet.SetCondition(conditions, h.app.Clock(), condition)
		default:
			fleet.RemoveCondition(conditions, fleet.ConditionAgentManaged)
		}
	})
}
