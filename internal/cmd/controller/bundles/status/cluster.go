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
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

func (h *handler) onCluster(_ context.Context, key types.NamespacedName) error {
	cluster, err := reconcile.Optional(h.app.Clusters.Cache().Get(key.Namespace, key.Name))
	if err != nil || cluster == nil || cluster.DeletionTimestamp != nil || !h.app.Owns(cluster) {
		return err
	}
	taken, err := h.app.NamespaceTaken(cluster)
	if err != nil {
		return err
	}
	in := clusterInput{withoutNamespace: taken || cluster.Status.Namespace == "", reporting: h.app.Liveness.Of(cluster), now: h.app.Clock()}
	if in.withoutNamespace && cluster.Status.Agent.LastSeen.IsZero() {
		return nil // the namespace triggers an update
	}
	if wait := untilJoined(cluster, h.app.Clock()); wait > 0 {
		h.clusters.AddAfter(key, wait) // or earlier, when its agent reports
		return nil
	}
	if !in.withoutNamespace {
		if in.deployments, err = h.app.BundleDeployments.Cache().List(cluster.Status.Namespace, labels.Everything()); err != nil {
			return err
		}
	}
	_, err = hub.Report(h.app, h.app.Clusters, cluster, func(c *fleet.Cluster) { setClusterStatus(c, in) })
	return err
}

// untilJoined returns how long the status of a new Cluster waits for the agent's first report. Most agents report
// before it ends. A clock difference between hubs makes the wait shorter, never longer.
func untilJoined(cluster *fleet.Cluster, now time.Time) time.Duration {
	age := now.Sub(cluster.CreationTimestamp.Time)
	if !cluster.Status.Agent.LastSeen.IsZero() || age < 0 {
		return 0
	}
	return joining - age
}

// clusterInput is the input for the status of a Cluster.
type clusterInput struct {
	// withoutNamespace means that the Cluster has no namespace, or that it belongs to another Cluster. The sums stay as they are.
	withoutNamespace bool
	// deployments are the Cluster's BundleDeployments.
	deployments []*fleet.BundleDeployment
	// reporting is the state of the agent's reports.
	reporting supervision.Reporting
	now       time.Time
}

// setClusterStatus fills in the status of a Cluster. The last report of an agent that has stopped reporting is kept, but
// the Cluster is not ready.
func setClusterStatus(cluster *fleet.Cluster, in clusterInput) {
	status := &cluster.Status
	if !in.withoutNamespace {
		sumUp(status, in.deployments)
	}
	status.Display = fleet.ClusterDisplay{ReadyBundles: state.ReadyText(status.Summary), State: state.WorstState(status.Summary)}
	ready := state.ReadyCondition(status.Summary, state.KindBundle)
	if in.reporting == supervision.ReportingSilent {
		ready.Status, ready.Reason, ready.Message = corev1.ConditionFalse, conditions.ReasonAgentNotReporting, supervision.SilentMessage
	}
	if in.reporting == supervision.ReportingSilent || status.Agent.LastSeen.IsZero() {
		status.Display.State = state.WaitCheckIn
	}
	conditions.Set(&status.Conditions, in.now, ready)
	setReporting(cluster, in)
}

// sumUp fills in the sums of the BundleDeployments.
func sumUp(status *fleet.ClusterStatus, deployments []*fleet.BundleDeployment) {
	var entries []state.Entry
	var counts []fleet.ResourceCounts
	for _, bd := range deployments {
		entries = append(entries, state.EntryOf(bd.Name, bd, bd.Spec.DeploymentID))
		counts = append(counts, bd.Status.ResourceCounts)
	}
	status.Summary = state.Summarize(entries)
	status.ResourceCounts = state.SumCounts(counts...)
	status.ReadyGitRepos, status.DesiredReadyGitRepos = readySources(deployments, fleet.LabelRepoName)
	status.ReadyHelmOps, status.DesiredReadyHelmOps = readySources(deployments, fleet.LabelHelmOpName)
}

// setReporting sets the AgentReporting condition, or removes it if the Cluster has no agent that should report.
func setReporting(cluster *fleet.Cluster, in clusterInput) {
	list := &cluster.Status.Conditions
	if reporting := supervision.ReportingCondition(in.reporting, cluster); reporting != nil {
		conditions.Set(list, in.now, *reporting)
		return
	}
	conditions.Remove(list, conditions.AgentReporting)
}

// readySources counts the sources of the deployments, by the label that names a source, and the sources whose
// deployments are all ready.
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
