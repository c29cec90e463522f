package clusterimport

import (
	"errors"
	"fmt"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"

	"github.com/fleet-hub/fleet/internal/cmd/controller/agentmanagement/clusterimport/install"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/hubaddress"
	"github.com/fleet-hub/fleet/internal/rules/importing"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// report writes the conditions of a Cluster for which nothing has to be done downstream.
func (h *handler) report(cluster *fleet.Cluster, out importing.Outcome) (*fleet.Cluster, error) {
	return hub.Report(h.app, h.app.Clusters, cluster, func(c *fleet.Cluster) {
		if out.Stage == importing.Noted {
			setSettings(&c.Status, out.Done)
		}
		h.setConditions(c, out.Reason, out.Message)
		h.setAddressKnown(c)
	})
}

// reportRun writes what a run downstream has achieved, or why it failed.
func (h *handler) reportRun(cluster *fleet.Cluster, out importing.Outcome, err error) (*fleet.Cluster, error) {
	if err != nil {
		reason, message := obstacle(err, h.app.Namespaces.System, importing.AgentNamespace(cluster, h.app.Namespaces))
		return hub.Report(h.app, h.app.Clusters, h.latest(cluster), func(c *fleet.Cluster) {
			if errors.Is(err, install.ErrNoIdentity) {
				c.Status.AgentDeployedGeneration = nil // causes a new registration
			}
			h.setConditions(c, reason, message)
		})
	}
	if out.Deploy != nil {
		if cluster, err = h.notePullSecrets(cluster, out.Done.PullSecrets); err != nil {
			return cluster, err
		}
	}
	return hub.Report(h.app, h.app.Clusters, cluster, func(c *fleet.Cluster) {
		setStatus(&c.Status, out)
		h.setConditions(c, "", "")
	})
}

// latest returns the cached Cluster if it is newer. A run may have taken so long that a write to the older version
// would be refused.
func (h *handler) latest(cluster *fleet.Cluster) *fleet.Cluster {
	found, err := h.app.Clusters.Cache().Get(cluster.Namespace, cluster.Name)
	if err != nil || found.UID != cluster.UID || reconcile.Newer(cluster, found) {
		return cluster
	}
	return found
}

// notePullSecrets records the versions of the copied pull secrets in an annotation, and removes it if none are
// copied.
func (h *handler) notePullSecrets(cluster *fleet.Cluster, versions string) (*fleet.Cluster, error) {
	if cluster.Annotations[annotation.PullSecrets] == versions {
		return cluster, nil
	}
	return reconcile.Patch(h.app.Clusters, cluster, func(c *fleet.Cluster) {
		if versions == "" {
			delete(c.Annotations, annotation.PullSecrets)
			return
		}
		if c.Annotations == nil {
			c.Annotations = map[string]string{}
		}
		c.Annotations[annotation.PullSecrets] = versions
	})
}

func setStatus(status *fleet.ClusterStatus, out importing.Outcome) {
	done := out.Done
	status.AgentDeployedGeneration, status.AgentConfigChanged = done.AgentDeployedGeneration, false
	if out.Remove != nil {
		status.Agent = fleet.AgentStatus{}
		return
	}
	status.AgentMigrated, status.CattleNamespaceMigrated, status.AgentNamespaceMigrated = true, true, true
	status.APIServerURL, status.APIServerCAHash = done.APIServerURL, done.APIServerCAHash
	status.AgentTLSMode, status.GarbageCollectionInterval = done.AgentTLSMode, done.GarbageCollectionInterval
	setSettings(status, done)
}

// setSettings records which settings the agent has, or is about to get with its Bundle.
func setSettings(status *fleet.ClusterStatus, done importing.Status) {
	status.AgentEnvVarsHash, status.AgentAffinityHash = done.AgentEnvVarsHash, done.AgentAffinityHash
	status.AgentResourcesHash, status.AgentTolerationsHash = done.AgentResourcesHash, done.AgentTolerationsHash
	status.AgentSchedulingCustomizationHash = done.AgentSchedulingCustomizationHash
	status.AgentPrivateRepoURL, status.AgentHostNetwork = done.AgentPrivateRepoURL, done.AgentHostNetwork
}

// setConditions reports that the import is done, or why it is not. In both cases the settings were compared.
func (h *handler) setConditions(cluster *fleet.Cluster, reason, message string) {
	imported := genericcondition.GenericCondition{Type: conditions.Imported, Status: corev1.ConditionTrue}
	if reason != "" {
		imported.Status, imported.Reason, imported.Message = corev1.ConditionFalse, reason, message
	}
	conditions.Set(&cluster.Status.Conditions, h.app.Clock(), imported)
	conditions.Set(&cluster.Status.Conditions, h.app.Clock(), genericcondition.GenericCondition{Type: conditions.Reconciled, Status: corev1.ConditionTrue})
}

// setAddressKnown sets the condition AddressKnown: whether the agent knows the hub's address. For an agent that reads no
// hub document, it is not set as long as that was never in doubt.
func (h *handler) setAddressKnown(cluster *fleet.Cluster) {
	registrations, err := h.registrations(cluster)
	if err != nil {
		return // only without the index, which Register adds
	}
	conf, published := h.app.Config.Get(), h.app.PublishedAddress()
	condition := genericcondition.GenericCondition{Type: conditions.AddressKnown, Status: corev1.ConditionTrue}
	reads := hubaddress.ReadsDocument(cluster) && published.Hash != ""
	if hubaddress.IsUnknown(conf, cluster, registrations, published) {
		condition.Status, condition.Reason, condition.Message = corev1.ConditionFalse, conditions.ReasonHubAddressChanged, addressUnknown(cluster, conf, reads)
	} else if !reads && conditions.Get(cluster.Status.Conditions, conditions.AddressKnown) == nil {
		return
	}
	conditions.Set(&cluster.Status.Conditions, h.app.Clock(), condition)
}

func addressUnknown(cluster *fleet.Cluster, conf config.Config, readsDocument bool) string {
	if readsDocument {
		return "the agent does not have the hub's current URL and CA yet: keep the old ones until this condition is True; the agent reads them when it renews its credential, or when it cannot connect"
	}
	return fmt.Sprintf("the hub's URL or CA has changed since this agent registered, and the agent cannot learn it by itself. Keep the old ones, and run: fleet repair %s -n %s. If the agent then reports and this condition stays False, run: kubectl annotate --overwrite clusters.fleet.cattle.io -n %s %s %s=%s",
		cluster.Name, cluster.Namespace, cluster.Namespace, cluster.Name, annotation.HubAddress, hubaddress.Hash(conf))
}
