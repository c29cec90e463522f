package status

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/state"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func (h *handler) onCluster(_ context.Context, key types.NamespacedName) error {
	cluster, err := reconcile.Optional(h.app.Clusters.Cache().Get(key.Namespace, key.Name))
	if err != nil || cluster == nil || cluster.DeletionTimestamp != nil || cluster.Status.Namespace == "" {
		return err // without a namespace there is nothing to sum up, and the Cluster changes when it gets one
	}
	deployments, err := h.app.BundleDeployments.Cache().List(cluster.Status.Namespace, labels.Everything())
	if err != nil {
		return err
	}
	now := h.app.Clock()
	_, err = reconcile.PatchStatus(h.app.Clusters, cluster, func(c *fleet.Cluster) { tellCluster(&c.Status, deployments, now) })
	return err
}

// tellCluster fills in what the status of a Cluster says of its deployments.
func tellCluster(status *fleet.ClusterStatus, deployments []*fleet.BundleDeployment, now time.Time) {
	var entries []state.Entry
	var counts []fleet.ResourceCounts
	for _, bd := range deployments {
		entries = append(entries, state.EntryOf(bd.Name, bd))
		counts = append(counts, bd.Status.ResourceCounts)
	}
	status.Summary = state.Summarize(entries)
	status.ResourceCounts = state.SumCounts(counts...)
	status.ReadyGitRepos, status.DesiredReadyGitRepos = readySources(deployments, fleet.LabelRepoName)
	status.ReadyHelmOps, status.DesiredReadyHelmOps = readySources(deployments, fleet.LabelHelmOpName)
	status.Display = fleet.ClusterDisplay{ReadyBundles: state.ReadyText(status.Summary), State: state.WorstState(status.Summary)}
	if status.Agent.LastSeen.IsZero() {
		status.Display.State = state.WaitCheckIn
	}
	fleet.SetCondition(&status.Conditions, now, state.ReadyCondition(status.Summary, state.KindBundle))
}

// readySources counts what the deployments come from, by the label that names it,
// and how many of these have all their deployments ready.
func readySources(deployments []*fleet.BundleDeployment, label string) (ready, all int) {
	sources := map[string]bool{}
	for _, bd := range deployments {
		name := bd.Labels[label]
		if name == "" {
			continue
		}
		so, known := sources[name]
		sources[name] = state.Of(bd) == fleet.Ready && (so || !known)
	}
	for _, isReady := range sources {
		if isReady {
			ready++
		}
	}
	return ready, len(sources)
}
