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
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// errNoWorkspace means that a Cluster's namespace is not in the cache yet, so that the Bundle would have no owner.
var errNoWorkspace = errors.New("the workspace is not known yet")

// takenDelay is the time after which a Cluster is reconciled again if another Bundle has the name of its agent's
// Bundle.
const takenDelay = 15 * time.Second

type handler struct {
	app       *hub.App
	set       *reconcile.Set
	manifests *manifests
}

// Register watches Clusters, their agents' Bundles and the configuration. All Bundles of a workspace are one set, as
// in Rancher Fleet, but each is written and removed separately: a change of one Cluster costs one request.
func Register(ctx context.Context, a *hub.App) error {
	h := &handler{app: a, manifests: newManifests()}
	// Users own the other fields of the spec: for example, they can pause an agent.
	h.set = reconcile.NewSet(names.AgentBundleSet, reconcile.KindOf(a.Bundles).
		Owning("spec.defaultNamespace", "spec.helm", "spec.resources", "spec.targets").
		Dropping(fleet.AnnotationSetApplied))
	a.Clusters.OnChange(hub.Lasting(ctx), "manage-agent", h.onChange)
	a.Config.OnChange(h.onConfig)
	return watchBundles(a.Bundles.Informer(), reconcile.Enqueue(a.Clusters))
}

// onConfig enqueues every Cluster, because most of an agent's settings come from the hub's configuration.
func (h *handler) onConfig(_, _ config.Config) {
	clusters, err := h.app.Clusters.Cache().List("", labels.Everything())
	if err != nil {
		return // the cache has not started; its start enqueues every Cluster
	}
	for _, cluster := range clusters {
		reconcile.Enqueue(h.app.Clusters)(types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name})
	}
}

func (h *handler) onChange(key string, cluster *fleet.Cluster) (*fleet.Cluster, error) {
	name := reconcile.ParseKey(key)
	if cluster == nil {
		return nil, h.remove(name)
	}
	in, err := h.gather(cluster)
	if err != nil {
		return cluster, fmt.Errorf("reading the objects of the agent of Cluster %s: %w", name, err)
	}
	cluster, err = h.act(in, decide(in))
	if err != nil {
		return cluster, fmt.Errorf("managing the agent of Cluster %s: %w", name, err)
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
		return in, errNoWorkspace // the caches are still being filled
	}
	in.requests, err = h.app.ClusterRegistrations.Cache().GetByIndex(hub.RequestsByCluster, cluster.Namespace+"/"+cluster.Name)
	if err != nil {
		return in, err
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
			out.reason, out.message = conditions.ReasonSettingsInvalid, err.Error() // the Bundle stays as it is
			break
		}
		err = h.apply(in, bundle(in.cluster, out.values.Namespace, manifest))
		if taken := (*reconcile.TakenError)(nil); errors.As(err, &taken) {
			h.app.Clusters.EnqueueAfter(in.cluster.Namespace, in.cluster.Name, takenDelay) // its deletion causes no event
			out.reason, out.message = conditions.ReasonNameTaken, taken.Error()
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

// remove deletes the Bundle of a Cluster's agent. The agent then forgets its release and stays as it is.
func (h *handler) remove(cluster types.NamespacedName) error {
	owner := reconcile.GoneOwner(corev1.SchemeGroupVersion.WithKind("Namespace"), "", cluster.Namespace)
	return h.set.RemoveOne(owner, &fleet.Bundle{ObjectMeta: bundleMeta(cluster.Namespace, cluster.Name)})
}

// report writes why an agent that should be managed is not, and later that it is again. A Cluster without such a
// problem has no condition. The condition is removed if the agent is not to be managed by a Bundle. Clusters of other
// managers and Clusters that are being deleted are not written.
func (h *handler) report(cluster *fleet.Cluster, out outcome) (*fleet.Cluster, error) {
	previous := conditions.Get(cluster.Status.Conditions, conditions.AgentManaged)
	if previous == nil && out.reason == "" || cluster.DeletionTimestamp != nil || cluster.Labels[fleet.LabelClusterManagement] != "" {
		return cluster, nil
	}
	return hub.Report(h.app, h.app.Clusters, cluster, func(c *fleet.Cluster) {
		list, condition := &c.Status.Conditions, genericcondition.GenericCondition{Type: conditions.AgentManaged}
		switch {
		case out.reason != "":
			condition.Status, condition.Reason, condition.Message = corev1.ConditionFalse, out.reason, out.message
			conditions.Set(list, h.app.Clock(), condition)
		case out.stage == managed:
			condition.Status = corev1.ConditionTrue
			conditions.Set(list, h.app.Clock(), condition)
		default:
			conditions.Remove(list, conditions.AgentManaged)
		}
	})
}
