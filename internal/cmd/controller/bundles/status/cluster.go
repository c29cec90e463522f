package status

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/state"
	"github.com/fleet-hub/fleet/internal/rules/supervision"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func (h *handler) onCluster(_ context.Context, key types.NamespacedName) error {
	cluster, err := reconcile.Optional(h.app.Clusters.Cache().Get(key.Namespace, key.Name))
	if err != nil || cluster == nil || cluster.DeletionTimestamp != nil || cluster.Status.Namespace == "" || !h.app.Owns(cluster) {
		return err // without a namespace there is nothing to sum up, and the Cluster changes when it gets one
	}
	if taken, err := h.app.NamespaceTaken(cluster); taken || err != nil {
		return err // what is there is of another Cluster
	}
	if wait := untilJoined(cluster, h.app.Clock()); wait > 0 {
		h.clusters.AddAfter(key, wait) // or as soon as its agent is heard of
		return nil
	}
	deployments, err := h.app.BundleDeployments.Cache().List(cluster.Status.Namespace, labels.Everything())
	if err != nil {
		return err
	}
	in := clusterInput{deployments: deployments, reporting: h.app.Liveness.Of(cluster), now: h.app.Clock()}
	_, err = hub.Report(h.app, h.app.Clusters, cluster, func(c *fleet.Cluster) { tellCluster(c, in) })
	return err
}

// untilJoined is how long nothing is told of a Cluster that was made just now: most are heard of before it is over.
// Clocks of hubs that differ make it shorter, never longer.
func untilJoined(cluster *fleet.Cluster, now time.Time) time.Duration {
	age := now.Sub(cluster.CreationTimestamp.Time)
	if !cluster.Status.Agent.LastSeen.IsZero() || age < 0 {
		return 0
	}
	return joining - age
}

// clusterInput is what the status of a Cluster is made of.
type clusterInput struct {
	// deployments are the Cluster's.
	deployments []*fleet.BundleDeployment
	// reporting says whether its agent is heard of.
	reporting supervision.Reporting
	now       time.Time
}

// tellCluster fills in what the status of a Cluster says of its deployments and its agent. What a silent agent has
// reported last is shown as it was, but not as ready.
func tellCluster(cluster *fleet.Cluster, in clusterInput) {
	var entries []state.Entry
	var counts []fleet.ResourceCounts
	for _, bd := range in.deployments {
		entries = append(entries, state.EntryOf(bd.Name, bd))
		counts = append(counts, bd.Status.ResourceCounts)
	}
	status := &cluster.Status
	status.Summary = state.Summarize(entries)
	status.ResourceCounts = state.SumCounts(counts...)
	status.ReadyGitRepos, status.DesiredReadyGitRepos = readySources(in.deployments, fleet.LabelRepoName)
	status.ReadyHelmOps, status.DesiredReadyHelmOps = readySources(in.deployments, fleet.LabelHelmOpName)
	status.Display = fleet.ClusterDisplay{ReadyBundles: state.ReadyText(status.Summary), State: state.WorstState(status.Summary)}
	ready := state.ReadyCondition(status.Summary, state.KindBundle)
	if in.reporting == supervision.ReportingSilent {
		ready.Status, ready.Reason, ready.Message = corev1.ConditionFalse, fleet.ReasonAgentNotReporting, supervision.SilentMessage
	}
	if in.reporting == supervision.ReportingSilent || status.Agent.LastSeen.IsZero() {
		status.Display.State = state.WaitCheckIn
	}
	fleet.SetCondition(&status.Conditions, in.now, ready)
	tellReporting(cluster, in)
}

// tellReporting says whether the agent is heard of, if there is one to be heard of.
func tellReporting(cluster *fleet.Cluster, in clusterInput) {
	conditions := &cluster.Status.Conditions
	if reporting := supervision.ReportingCondition(in.reporting, cluster); reporting != nil {
		fleet.SetCondition(conditions, in.now, *reporting)
		return
	}
	fleet.RemoveCondition(conditions, fleet.ConditionAgentReporting)
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
