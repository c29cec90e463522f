package requests_test

import (
	"testing"
	"time"

	"github.com/fleet-hub/fleet/internal/rules/requests"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

func TestUsed(t *testing.T) {
	before, after := rulestest.At(-time.Hour), rulestest.At(-time.Second)
	noted := func(note string) map[string]string {
		return map[string]string{annotation.LastSeenAtGrant: note}
	}
	tests := map[string]struct {
		annotations map[string]string
		cluster     *fleet.Cluster
		want        bool
	}{
		"a first heartbeat":                                                   {noted(""), rulestest.ACluster(rulestest.ClusterSeen(after)), true},
		"a later heartbeat than before the grant":                             {noted(before.UTC().Format(time.RFC3339)), rulestest.ACluster(rulestest.ClusterSeen(after)), true},
		"the heartbeat from before the grant":                                 {noted(before.UTC().Format(time.RFC3339)), rulestest.ACluster(rulestest.ClusterSeen(before)), false},
		"no heartbeat yet":                                                    {noted(""), rulestest.ACluster(), false},
		"a heartbeat that an import cleared":                                  {noted(before.UTC().Format(time.RFC3339)), rulestest.ACluster(), false},
		"no recorded heartbeat":                                               {nil, rulestest.ACluster(rulestest.ClusterSeen(after)), false},
		"a deleted Cluster":                                                   {noted(""), nil, false},
		"the same second, with another credential":                            {noted(before.UTC().Format(time.RFC3339) + " " + before.UTC().Format(time.RFC3339)), rulestest.ACluster(rulestest.ClusterSeen(before), rulestest.ClusterCredentialExpires(after)), true},
		"the heartbeat from before the grant, with its credential":            {noted(before.UTC().Format(time.RFC3339) + " " + after.UTC().Format(time.RFC3339)), rulestest.ACluster(rulestest.ClusterSeen(before), rulestest.ClusterCredentialExpires(after)), false},
		"the heartbeat from before the grant, recorded by an earlier release": {noted(before.UTC().Format(time.RFC3339)), rulestest.ACluster(rulestest.ClusterSeen(before), rulestest.ClusterCredentialExpires(after)), false},
		"an earlier heartbeat than before the grant":                          {noted(after.UTC().Format(time.RFC3339)), rulestest.ACluster(rulestest.ClusterSeen(before)), true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			request := rulestest.ARequest(func(r *fleet.ClusterRegistration) { r.Annotations = test.annotations })
			if got := requests.Used(request, test.cluster); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}
