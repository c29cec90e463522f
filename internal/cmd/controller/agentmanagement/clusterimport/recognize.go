package clusterimport

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/identities"
	"github.com/fleet-hub/fleet/internal/reconcile"
	capirule "github.com/fleet-hub/fleet/internal/rules/capi"
	"github.com/fleet-hub/fleet/internal/rules/clusters"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// errHubItself means that a Cluster has a kubeconfig of the hub's own cluster and must not have its agent there.
var errHubItself = errors.New("the kubeconfig leads to the hub's own cluster")

// importedTwiceError means that a Cluster must not have an agent, because the cluster is another Cluster already.
type importedTwiceError struct{ cluster, other *fleet.Cluster }

func (e *importedTwiceError) Error() string {
	if !capirule.IsMarked(e.cluster) {
		return capirule.AgentTakenMessage(e.other)
	}
	return capirule.ImportedTwiceMessage(e.cluster.Namespace, e.other)
}

// recognize finds out which cluster a kubeconfig leads to, and records it. It returns an error if this Cluster must not
// have its agent there. Users may import a cluster twice, with two agents in namespaces of their own. The Cluster that
// the hub created for Cluster API gives way if it comes second. If it comes first, its agent stays.
func (h *handler) recognize(ctx context.Context, cluster *fleet.Cluster, downstream hub.Downstream) error {
	bootstrap := h.app.Config.Get().Bootstrap
	if clusters.IsLocal(cluster, bootstrap) {
		return nil
	}
	own, err := h.app.Identities.Own(ctx)
	if err != nil {
		return err
	}
	uid, err := identities.Read(ctx, downstream)
	forClusterAPI := capirule.IsMarked(cluster)
	switch {
	case err != nil:
		return err
	case uid == own && (forClusterAPI || !clusters.InBootstrapWorkspace(cluster, bootstrap)):
		return errHubItself
	case !forClusterAPI:
		return h.recognizeUsers(cluster, uid)
	}
	other, err := h.app.Identities.Claim(cluster, uid)
	if err != nil {
		return err
	}
	if other != nil {
		h.app.Log.Warn("cluster of Cluster API is registered already", "cluster", reconcile.KeyOf(cluster).String(), "other", reconcile.KeyOf(other).String())
		return &importedTwiceError{cluster, other}
	}
	return h.app.Identities.Persist(cluster)
}

// recognizeUsers records which cluster a user imports, unless its agent would replace the agent that the hub installed for
// Cluster API: an importer that does not know of the other one would take the workloads away.
func (h *handler) recognizeUsers(cluster *fleet.Cluster, uid types.UID) error {
	holders, err := h.app.Identities.Holders(uid)
	if err != nil {
		return err
	}
	if other := capirule.AgentTakenBy(cluster, holders); other != nil {
		return &importedTwiceError{cluster, other}
	}
	h.app.Identities.Note(cluster, uid)
	return h.app.Identities.Persist(cluster)
}
