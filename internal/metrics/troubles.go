package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

func troubles() Definition {
	return Definition{
		Name: "fleet_troubles", Type: Gauge, Labels: []string{"kind", "condition", "reason"},
		Help: "Objects with a condition that needs attention, by its reason (see conditions.md); no series if there are no such objects",
	}
}

// trouble is the key by which objects are counted. The number of series depends on the kinds, conditions and
// reasons, not on the number of objects.
type trouble struct{ kind, condition, reason string }

func (c fleetCollector) collectTroubles(out chan<- prometheus.Metric) {
	counts := map[trouble]int{}
	for _, err := range []error{
		count(counts, "Cluster", c.sources.Clusters, func(o *fleet.Cluster) conditionList { return o.Status.Conditions }),
		count(counts, "ClusterGroup", c.sources.ClusterGroups, func(o *fleet.ClusterGroup) conditionList { return o.Status.Conditions }),
		count(counts, "ClusterRegistration", c.sources.Registrations, func(o *fleet.ClusterRegistration) conditionList { return o.Status.Conditions }),
		count(counts, "ClusterRegistrationToken", c.sources.Tokens, func(o *fleet.ClusterRegistrationToken) conditionList { return o.Status.Conditions }),
		count(counts, "Bundle", c.sources.Bundles, func(o *fleet.Bundle) conditionList { return o.Status.Conditions }),
	} {
		if err != nil {
			out <- prometheus.NewInvalidMetric(troubles().desc(), err)
			return
		}
	}
	for t, n := range counts {
		out <- troubles().now(float64(n), t.kind, t.condition, t.reason)
	}
}

type conditionList = []genericcondition.GenericCondition

func count[T metav1.Object](counts map[trouble]int, kind string, list List[T], of func(T) conditionList) error {
	if list == nil {
		return nil
	}
	objects, err := list()
	for _, object := range objects {
		for _, condition := range of(object) {
			if conditions.IsTrouble(condition) {
				counts[trouble{kind, condition.Type, condition.Reason}]++
			}
		}
	}
	return err
}
