package hub

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/liveness"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/metrics"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/supervision"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// reasonManySilent is the reason of the Event that explains why silent agents are not marked.
const reasonManySilent = "ManyAgentsSilent"

// addLiveness prepares the observation of heartbeats, which starts when the caches are synced.
func (a *App) addLiveness() error {
	a.Liveness = liveness.New(liveness.Options{
		Cluster: a.cachedCluster, Adopted: a.agentAdopted, Config: a.Config.Get, Clock: a.OwnClock, Log: a.Log, OnMany: a.manySilent,
	})
	a.BeforeControllers(a.Liveness.Run)
	a.Config.OnChange(func(_, _ config.Config) { a.Liveness.DecideAll() })
	return a.Liveness.Watch(a.Clusters.Informer())
}

// cachedCluster returns a Cluster from the cache, or nil.
func (a *App) cachedCluster(key types.NamespacedName) *fleet.Cluster {
	found, err := reconcile.Optional(a.Clusters.Cache().Get(key.Namespace, key.Name))
	if err != nil {
		return nil // a cache returns no other errors
	}
	return found
}

// agentAdopted reports whether a Cluster's agent has applied the Bundle that manages it.
func (a *App) agentAdopted(cluster *fleet.Cluster) bool {
	applied, err := a.BundleDeployments.Cache().Get(cluster.Status.Namespace, names.AgentBundle(cluster.Name))
	return err == nil && applied.Status.AppliedDeploymentID != ""
}

// manySilent records an Event for the operator on the controllers' ConfigMap. Shards observe the same and record
// nothing.
func (a *App) manySilent(many liveness.Many) {
	if a.Env.Shard != "" {
		return
	}
	about, err := a.ConfigMaps.Cache().Get(a.Namespaces.System, names.ControllerConfig)
	if err != nil {
		about = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespaces.System, Name: names.ControllerConfig}} // it need not exist
	}
	a.Recorder.Eventf(about, corev1.EventTypeWarning, reasonManySilent,
		"%d of %d agents in %s stopped reporting at the same time. Their Clusters keep their state for now, because the cause is probably the hub or its network. Check that agents can reach the hub at its apiServerURL.",
		many.Agents.Late, many.Agents.Reported, someOf(many.Workspaces))
}

// maxWorkspaces is how many workspaces a message names.
const maxWorkspaces = 3

// someOf names the first workspaces of a list.
func someOf(workspaces []string) string {
	switch named := workspaces[:min(maxWorkspaces, len(workspaces))]; {
	case len(workspaces) == 1:
		return "workspace " + workspaces[0]
	case len(workspaces) > len(named):
		return fmt.Sprintf("workspaces %s and %d more", strings.Join(named, ", "), len(workspaces)-len(named))
	default:
		return "workspaces " + strings.Join(named, ", ")
	}
}

// heartbeats returns the data for the metrics.
func (a *App) heartbeats() metrics.Heartbeats {
	counts := a.Liveness.Counts()
	return metrics.Heartbeats{
		Fresh: counts[supervision.ReportingHeard], Stale: counts[supervision.ReportingSilent],
		Never: counts[supervision.ReportingAwaited] + counts[supervision.ReportingMissing],
	}
}
