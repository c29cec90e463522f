package clusterimport

import (
	"fmt"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"

	"github.com/fleet-hub/fleet/internal/rules/grant"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// byCluster is the index of registrations by Cluster: "<workspace>/<cluster>".
const byCluster = "fleet.registrations-by-cluster"

func clusterOfRegistration(r *fleet.ClusterRegistration) ([]string, error) {
	if r.Status.ClusterName == "" {
		return nil, nil
	}
	return []string{r.Namespace + "/" + r.Status.ClusterName}, nil
}

// setAddressKnown sets the condition AddressKnown: whether the agent knows the hub's address. It is not set as long
// as that was never in doubt.
func (h *handler) setAddressKnown(cluster *fleet.Cluster) {
	registrations, err := h.registrations(cluster)
	if err != nil {
		return // only without the index, which Register adds
	}
	conf := h.app.Config.Get()
	condition := genericcondition.GenericCondition{Type: fleet.ConditionAddressKnown, Status: corev1.ConditionTrue}
	if grant.AddressUnknown(conf, cluster, registrations) {
		condition.Status, condition.Reason = corev1.ConditionFalse, fleet.ReasonHubAddressChanged
		condition.Message = fmt.Sprintf("the hub's URL or CA is another one than when the agent registered, and nothing can tell the agent once the old one is gone: run helm upgrade fleet-agent with the values of a new token, then annotate the Cluster with %s=%s", fleet.AnnotationHubAddress, grant.AddressHash(conf))
	} else if fleet.GetCondition(cluster.Status.Conditions, fleet.ConditionAddressKnown) == nil {
		return
	}
	fleet.SetCondition(&cluster.Status.Conditions, h.app.Clock(), condition)
}
