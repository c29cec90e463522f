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
		"a first heartbeat":                               {noted(""), rulestest.ACluster(rulestest.ClusterSeen(after)), true},
		"a later one than before the grant":               {noted(before.UTC().Format(time.RFC3339)), rulestest.ACluster(rulestest.ClusterSeen(after)), true},
		"the one of before the grant":                     {noted(before.UTC().Format(time.RFC3339)), rulestest.ACluster(rulestest.ClusterSeen(before)), false},
		"none yet":                                        {noted(""), rulestest.ACluster(), false},
		"one that an import cleared":                      {noted(before.UTC().Format(time.RFC3339)), rulestest.ACluster(), false},
		"nobody noted what was before":                    {nil, rulestest.ACluster(rulestest.ClusterSeen(after)), false},
		"a Cluster that is gone was heard of by nobody":   {noted(""), nil, false},
		"one of the same second, with another credential": {noted(before.UTC().Format(time.RFC3339) + " " + before.UTC().Format(time.RFC3339)), rulestest.ACluster(rulestest.ClusterSeen(before), rulestest.ClusterCredentialExpires(after)), true},
		"one of before the grant, with its credential":    {noted(before.UTC().Format(time.RFC3339) + " " + after.UTC().Format(time.RFC3339)), rulestest.ACluster(rulestest.ClusterSeen(before), rulestest.ClusterCredentialExpires(after)), false},
		"one of before the grant, by an earlier release":  {noted(before.UTC().Format(time.RFC3339)), rulestest.ACluster(rulestest.ClusterSeen(before), rulestest.ClusterCredentialExpires(after)), false},
		"an earlier one than before is another one, too":  {noted(after.UTC().Format(time.RFC3339)), rulestest.ACluster(rulestest.ClusterSeen(before)), true},
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
