package clusterimport

import (
	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"

	"github.com/fleet-hub/fleet/internal/cmd/controller/agentmanagement/app"
	"github.com/fleet-hub/fleet/internal/handshake"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// report writes the conditions of a Cluster for which nothing is to be done downstream.
func (h *handler) report(cluster *fleet.Cluster, out handshake.ImportOutcome) (*fleet.Cluster, error) {
	return app.Report(h.app, h.app.Clusters, cluster, func(c *fleet.Cluster) {
		h.setConditions(c, out.Reason, out.Message)
	})
}

// reportRun writes what a run downstream has achieved, or why it has not.
func (h *handler) reportRun(cluster *fleet.Cluster, out handshake.ImportOutcome, err error) (*fleet.Cluster, error) {
	if err != nil {
		reason, message := obstacle(err)
		return app.Report(h.app, h.app.Clusters, cluster, func(c *fleet.Cluster) { h.setConditions(c, reason, message) })
	}
	return app.Report(h.app, h.app.Clusters, cluster, func(c *fleet.Cluster) {
		setStatus(&c.Status, out)
		h.setConditions(c, "", "")
	})
}

func setStatus(status *fleet.ClusterStatus, out handshake.ImportOutcome) {
	done := out.Done
	status.AgentDeployedGeneration, status.AgentConfigChanged = done.AgentDeployedGeneration, false
	if out.Remove != nil {
		status.Agent = fleet.AgentStatus{}
		return
	}
	status.AgentMigrated, status.CattleNamespaceMigrated, status.AgentNamespaceMigrated = true, true, true
	status.APIServerURL, status.APIServerCAHash = done.APIServerURL, done.APIServerCAHash
	status.AgentTLSMode, status.GarbageCollectionInterval = done.AgentTLSMode, done.GarbageCollectionInterval
	status.AgentEnvVarsHash, status.AgentAffinityHash = done.AgentEnvVarsHash, done.AgentAffinityHash
	status.AgentResourcesHash, status.AgentTolerationsHash = done.AgentResourcesHash, done.AgentTolerationsHash
	status.AgentSchedulingCustomizationHash = done.AgentSchedulingCustomizationHash
	status.AgentPrivateRepoURL, status.AgentHostNetwork = done.AgentPrivateRepoURL, done.AgentHostNetwork
}

// setConditions says that the import is done, or why it is not; the settings were compared either way.
func (h *handler) setConditions(cluster *fleet.Cluster, reason, message string) {
	imported := genericcondition.GenericCondition{Type: fleet.ConditionImported, Status: corev1.ConditionTrue}
	if reason != "" {
		imported.Status, imported.Reason, imported.Message = corev1.ConditionFalse, reason, message
	}
	fleet.SetCondition(&cluster.Status.Conditions, h.app.Clock(), imported)
	fleet.SetCondition(&cluster.Status.Conditions, h.app.Clock(), genericcondition.GenericCondition{Type: fleet.ConditionReconciled, Status: corev1.ConditionTrue})
}
