package handshake_test

import (
	"testing"
	"time"

	"github.com/fleet-hub/fleet/internal/handshake"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestUsed(t *testing.T) {
	before, after := at(-time.Hour), at(-time.Second)
	noted := func(note string) map[string]string {
		return map[string]string{fleet.AnnotationLastSeenAtGrant: note}
	}
	tests := map[string]struct {
		annotations map[string]string
		cluster     *fleet.Cluster
		want        bool
	}{
		"a first heartbeat":                              {noted(""), aCluster(clusterSeen(after)), true},
		"a later one than before the grant":              {noted(before.UTC().Format(time.RFC3339)), aCluster(clusterSeen(after)), true},
		"the one of before the grant":                    {noted(before.UTC().Format(time.RFC3339)), aCluster(clusterSeen(before)), false},
		"none yet":                                       {noted(""), aCluster(), false},
		"one that an import cleared":                     {noted(before.UTC().Format(time.RFC3339)), aCluster(), false},
		"nobody noted what was before":                   {nil, aCluster(clusterSeen(after)), false},
		"a Cluster that is gone was heard of by nobody":  {noted(""), nil, false},
		"an earlier one than before is another one, too": {noted(after.UTC().Format(time.RFC3339)), aCluster(clusterSeen(before)), true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			request := aRequest(func(r *fleet.ClusterRegistration) { r.Annotations = test.annotations })
			if got := handshake.Used(request, test.cluster); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}
