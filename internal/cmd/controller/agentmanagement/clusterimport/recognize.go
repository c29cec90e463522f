package clusterimport

import (
	"context"
	"errors"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/identities"
	"github.com/fleet-hub/fleet/internal/reconcile"
	capirule "github.com/fleet-hub/fleet/internal/rules/capi"
	"github.com/fleet-hub/fleet/internal/rules/clusters"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// errHubItself means that a Cluster has a kubeconfig of the hub's own cluster and must not have its agent there.
var errHubItself = errors.New("the kubeconfig leads to the hub's own cluster")

// importedTwiceError means that the hub created a Cluster for a cluster that is another Cluster already.
type importedTwiceError struct{ cluster, other *fleet.Cluster }

func (e *importedTwiceError) Error() string {
	return capirule.ImportedTwiceMessage(e.cluster.Namespace, e.other)
}

// recognize finds out which cluster a kubeconfig leads to, and records it. It returns an error if this Cluster must not
// have its agent there. Users may import a cluster twice, with two agents in namespaces of their own. The Cluster that
// the hub created for Cluster API gives way.
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
		h.app.Identities.Note(cluster, uid)
		return h.app.Identities.Persist(cluster)
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
