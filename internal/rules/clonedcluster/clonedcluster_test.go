package clonedcluster_test

import (
	"strings"
	"testing"
	"time"

	"github.com/fleet-hub/fleet/internal/rules/clonedcluster"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

// recovery is a recovery request of a pod.
func recovery(pod string, age time.Duration) *fleet.ClusterRegistration {
	return rulestest.ARequest(func(r *fleet.ClusterRegistration) {
		r.Annotations = map[string]string{annotation.AgentTicket: "ticket"}
		r.Spec.ClusterLabels = map[string]string{fleet.LabelCreatedByAgentPod: pod}
		r.CreationTimestamp = rulestest.At(-age)
	})
}

// entry is a recovery in the record of a Cluster.
func entry(pod string, age time.Duration) string {
	return pod + "=" + rulestest.Noon().Add(-age).Format(time.RFC3339)
}

func TestAlternatingAndRecord(t *testing.T) {
	a, b := entry("a", 3*time.Hour), entry("b", 2*time.Hour)
	both := a + "," + b
	join := func(r *fleet.ClusterRegistration) *fleet.ClusterRegistration { r.Annotations = nil; return r }
	tests := map[string]struct {
		recorded    string
		request     *fleet.ClusterRegistration
		alternating string
		record      string
	}{
		"first recovery is recorded":                       {"", recovery("a", time.Hour), "", entry("a", time.Hour)},
		"same pod again: nothing changes":                  {a, recovery("a", time.Hour), "", ""},
		"another pod is recorded after the first":          {a, recovery("b", time.Hour), "", a + "," + entry("b", time.Hour)},
		"first pod returns: both alternate":                {both, recovery("a", time.Hour), "a b", b + "," + entry("a", time.Hour)},
		"third pod: they do not alternate":                 {both, recovery("c", time.Hour), "", b + "," + entry("c", time.Hour)},
		"recoveries of the day before do not count":        {entry("a", 25*time.Hour) + "," + b, recovery("a", time.Hour), "", b + "," + entry("a", time.Hour)},
		"request that is older than the record":            {a, recovery("b", 4*time.Hour), "", ""},
		"request that is older than a day":                 {"", recovery("a", 25*time.Hour), "", ""},
		"pod without a valid name is not recorded":         {a, recovery("B,x=", time.Hour), "", ""},
		"request without a ticket is not recorded":         {a, join(recovery("b", time.Hour)), "", ""},
		"record that is not valid: only the request":       {"a=x,=,b", recovery("a", time.Hour), "", entry("a", time.Hour)},
		"record that is too long counts as none":           {both + strings.Repeat(",", 256), recovery("a", time.Hour), "", entry("a", time.Hour)},
		"only the last two entries of the record are read": {entry("c", 4*time.Hour) + "," + both, recovery("c", time.Hour), "", b + "," + entry("c", time.Hour)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			cluster := rulestest.ACluster(func(c *fleet.Cluster) { c.Annotations = map[string]string{annotation.RecoveredBy: test.recorded} })
			rulestest.ExpectEqual(t, "alternating pods", strings.Join(clonedcluster.Alternating(test.request, cluster, rulestest.Noon()), " "), test.alternating)
			rulestest.ExpectEqual(t, "record", clonedcluster.Record(test.request, cluster, rulestest.Noon()), test.record)
		})
	}
}
