package downstream

import (
	"errors"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/index"
	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/targeting"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// errForged means that the hub has not made a BundleDeployment, or would no longer make it. Only the log says which of
// the two: the Event would reveal to a tenant which Bundles and Clusters others have.
var errForged = errors.New("the BundleDeployment is not one that the hub makes")

// messageForged is the Event message for such a BundleDeployment. Its namespace and name are appended.
const messageForged = "its downstreamResources are not copied, because the hub has not made this BundleDeployment " +
	"for a Cluster that its Bundle may go to; if you did not mean to create it, remove it: kubectl delete bundledeployments.fleet.cattle.io -n "

// claim holds the Bundle and the Cluster that a BundleDeployment names as its own.
type claim struct {
	bundle, cluster types.NamespacedName
	// inNamespace requests a retry when any object in its namespace changes: one of them may have blocked the name of a copy.
	inNamespace bool
}

func claimOf(bd *fleet.BundleDeployment) claim {
	return claim{bundle: index.ClaimedBy(bd), cluster: index.ClusterOf(bd)}
}

// requestedOriginals returns the originals that the Bundle wants copied for the Cluster of a BundleDeployment. Tenants may create
// BundleDeployments. So a BundleDeployment counts only in the namespace of a Cluster that its Bundle may go to, and
// only for what the Bundle asks for. Otherwise the error is errForged.
func (h *handler) requestedOriginals(bd *fleet.BundleDeployment) (map[original]bool, error) {
	if index.BundleOf(bd) == (types.NamespacedName{}) {
		return nil, errForged
	}
	of := claimOf(bd)
	bundle, err := reconcile.Optional(h.app.Bundles.Cache().Get(of.bundle.Namespace, of.bundle.Name))
	if err != nil {
		return nil, err
	}
	cluster, err := reconcile.Optional(h.app.Clusters.Cache().Get(of.cluster.Namespace, of.cluster.Name))
	if err != nil {
		return nil, err
	}
	if bundle == nil || cluster == nil {
		return nil, errForged
	}
	reach, err := index.ReachOf(h.app, bundle)
	if err != nil {
		return nil, err
	}
	if !reach.Knows(cluster.Namespace) {
		return nil, errForged
	}
	return h.requestedBy(bundle, cluster)
}

func (h *handler) requestedBy(bundle *fleet.Bundle, cluster *fleet.Cluster) (map[original]bool, error) {
	requested := map[original]bool{}
	selection, err := targeting.NewSelection(bundle)
	if err != nil {
		return requested, nil //nolint:nilerr // the Bundle's status reports it; existing copies stay unchanged
	}
	groups, err := h.app.GroupsIn(cluster.Namespace)
	if err != nil {
		return nil, err
	}
	for _, resource := range selection.DownstreamResources(cluster, groups) {
		if kind, known := kindOf(resource.Kind); known {
			requested[original{kind, types.NamespacedName{Namespace: bundle.Namespace, Name: resource.Name}}] = true
		}
	}
	return requested, nil
}

// refuse reports a BundleDeployment that the hub has not made.
func (h *handler) refuse(bd *fleet.BundleDeployment) {
	h.refusals.add(reconcile.KeyOf(bd), claimOf(bd))
	h.report(bd, "")
	if len(bd.Spec.Options.DownstreamResources) == 0 {
		return
	}
	h.app.Log.Info("downstream resources of a forged BundleDeployment not copied", "bundledeployment", reconcile.KeyOf(bd).String(),
		"bundle", index.ClaimedBy(bd).String(), "cluster", index.ClusterOf(bd).String())
	h.app.Recorder.Event(bd, corev1.EventTypeWarning, conditions.ReasonBundleDeploymentForged, messageForged+bd.Namespace+" "+bd.Name)
}

// refusals tracks BundleDeployments whose resources could not all be copied, to retry when another object changes.
type refusals struct {
	mu     sync.Mutex
	claims map[types.NamespacedName]claim
}

func newRefusals() *refusals { return &refusals{claims: map[types.NamespacedName]claim{}} }

func (r *refusals) add(bd types.NamespacedName, of claim) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.claims[bd] = of
}

func (r *refusals) forget(bd types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.claims, bd)
}

// those returns the BundleDeployments that a change concerns.
func (r *refusals) those(concern func(bd types.NamespacedName, of claim) bool) (found []types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for bd, of := range r.claims {
		if concern(bd, of) {
			found = append(found, bd)
		}
	}
	return found
}
