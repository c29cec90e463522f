package clusterimport

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/agentmanagement/clusterimport/install"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/clusteruids"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/reconcile"
	capirule "github.com/fleet-hub/fleet/internal/rules/capi"
	"github.com/fleet-hub/fleet/internal/rules/clusters"
	"github.com/fleet-hub/fleet/internal/rules/importing"
	supervisionrule "github.com/fleet-hub/fleet/internal/rules/supervision"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// errHubItself means that a Cluster has a kubeconfig of the hub's own cluster and must not have its agent there.
var errHubItself = errors.New("the kubeconfig points to the hub's own cluster")

// importedTwiceError means that a Cluster must not have an agent, because the cluster is another Cluster already.
type importedTwiceError struct{ message string }

func (e *importedTwiceError) Error() string { return e.message }

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
	uid, err := clusteruids.Read(ctx, downstream)
	forClusterAPI := capirule.IsMarked(cluster)
	switch {
	case err != nil:
		return err
	case uid == own && (forClusterAPI || !clusters.InBootstrapWorkspace(cluster, bootstrap)):
		return errHubItself
	case !forClusterAPI:
		return h.recognizeUsers(cluster, uid)
	}
	return h.recognizeForClusterAPI(cluster, uid)
}

// recognizeForClusterAPI records which cluster a Cluster for Cluster API is. It returns an error if the cluster is another Cluster
// already, or if this Cluster was kept for an earlier cluster with the name.
func (h *handler) recognizeForClusterAPI(cluster *fleet.Cluster, uid types.UID) error {
	recorded, err := h.app.Identities.Of(cluster)
	if err != nil {
		return err
	}
	if message := capirule.KeptForAnother(cluster, recorded, uid); message != "" {
		return &blockedError{conditions.ReasonNameTaken, message}
	}
	other, err := h.joinedAs(cluster, uid)
	if err == nil && other == nil {
		other, err = h.app.Identities.Claim(cluster, uid)
	}
	if err != nil {
		return err
	}
	if other != nil {
		h.app.Log.Warn("cluster of Cluster API is registered already", "cluster", reconcile.KeyOf(cluster).String(), "other", reconcile.KeyOf(other).String())
		return &importedTwiceError{capirule.ImportedTwiceMessage(cluster.Namespace, other)}
	}
	return h.app.Identities.Persist(cluster)
}

// joinedAs returns another Cluster of the workspace as which the cluster has joined by itself, or nil: its agent uses the UID as
// client ID. Identities does not record such a cluster. A Cluster that is recorded for this UID already keeps its agent.
func (h *handler) joinedAs(cluster *fleet.Cluster, uid types.UID) (*fleet.Cluster, error) {
	if recorded, err := h.app.Identities.Of(cluster); err != nil || recorded == uid {
		return nil, err
	}
	joined, err := h.app.Clusters.Cache().GetByIndex(hub.ClustersByClientID, cluster.Namespace+"/"+string(uid))
	for _, other := range joined {
		if other.UID != cluster.UID && other.DeletionTimestamp == nil {
			return other, err
		}
	}
	return nil, err
}

// recognizeUsers records which cluster a user imports. It returns an error if its agent would replace the agent that the hub
// installed for Cluster API. Otherwise a second import would remove the workloads of the first one without notice.
func (h *handler) recognizeUsers(cluster *fleet.Cluster, uid types.UID) error {
	holders, err := h.app.Identities.Holders(uid)
	if err != nil {
		return err
	}
	if other := capirule.AgentTakenBy(cluster, holders); other != nil {
		return &importedTwiceError{capirule.AgentTakenMessage(other)}
	}
	h.app.Identities.Note(cluster, uid)
	return h.app.Identities.Persist(cluster)
}

// checkOwner returns a function that returns an error for an agent of another Cluster of this hub. An import that comes later takes
// the agent over. The earlier Cluster then leaves the agent alone, or each would take it from the other.
func (h *handler) checkOwner(cluster *fleet.Cluster) func(install.Owner) error {
	return func(owner install.Owner) error {
		keys := []types.NamespacedName{{Namespace: owner.Workspace, Name: owner.Cluster}}
		if owner.ImportToken != "" {
			keys = h.clustersOf(owner.Workspace, owner.ImportToken)
		}
		for _, key := range keys {
			other, err := reconcile.Optional(h.app.Clusters.Cache().Get(key.Namespace, key.Name))
			if err != nil {
				return err
			}
			if other == nil || other.UID == cluster.UID || other.DeletionTimestamp != nil {
				continue
			}
			owns, err := h.owns(other, owner)
			if err != nil {
				return err
			}
			if owns && capirule.IsMarked(cluster) {
				return h.giveWay(cluster, other)
			}
			if owns {
				return &importedTwiceError{importing.AgentOfAnotherMessage(cluster, other)}
			}
		}
		return nil
	}
}

// giveWay returns the error for a Cluster of Cluster API whose cluster has the agent of another one. It records that the other one is
// this cluster, or the hub would delete this Cluster and create it again.
func (h *handler) giveWay(cluster, other *fleet.Cluster) error {
	uid, err := h.app.Identities.Of(cluster)
	if err != nil {
		return err
	}
	if uid != "" {
		h.app.Identities.Note(other, uid)
		if err := h.app.Identities.Persist(other); err != nil {
			return err
		}
	}
	return &importedTwiceError{capirule.ImportedTwiceMessage(cluster.Namespace, other)}
}

// owns reports whether an agent has a live account of a Cluster, or is about to get one with its import token. The names alone prove
// nothing, and would tell whether a Cluster of another workspace exists.
func (h *handler) owns(cluster *fleet.Cluster, owner install.Owner) (bool, error) {
	if owner.ImportToken != "" {
		bearer, err := h.importBearer(cluster)
		return bearer != "" && bearer == owner.Bearer, err
	}
	live, err := h.liveAccounts(cluster)
	return supervisionrule.KnowsIdentity(owner.Bearer, live), err
}

// importBearer returns the bearer token of the import token of a Cluster, or an empty string.
func (h *handler) importBearer(cluster *fleet.Cluster) (string, error) {
	values, err := reconcile.Optional(h.app.ValuesSecrets.Cache().Get(cluster.Namespace, names.ImportToken(cluster.Name)))
	if err != nil || values == nil {
		return "", err
	}
	parsed, err := protocol.ParseValues(values.Data[protocol.ValuesKey])
	if err != nil {
		return "", nil //nolint:nilerr // the token reports it
	}
	return parsed.Token, nil
}
