package cluster

import (
	"errors"
	"testing"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Nothing is made for a new Cluster whose answer is awaited, and nobody asks about one for which something was made.
func TestANewClusterIsAskedFirst(t *testing.T) {
	failure := errors.New("etcd is gone")
	made := []string{"patch Cluster fleet-default/east", "create Namespace " + east, "update Cluster/status fleet-default/east"}
	tests := map[string]struct {
		cluster  *fleet.Cluster
		waits    bool
		err      error
		asked    int
		requests []string
	}{
		"it has yet to answer":                {cluster: oneCluster(fresh), waits: true, asked: 1},
		"it has answered, or is not asked":    {cluster: oneCluster(fresh), asked: 1, requests: made},
		"whether it has cannot be said":       {cluster: oneCluster(fresh), err: failure, asked: 1},
		"it has its finalizer":                {cluster: oneCluster(placed("")), waits: true, requests: made[1:]},
		"it has its namespace":                {cluster: oneCluster(fresh, placed(east)), waits: true, requests: made},
		"it goes":                             {cluster: oneCluster(fresh, deleted), waits: true},
		"somebody else looks after it":        {cluster: oneCluster(fresh, managed), waits: true},
		"it goes, and somebody else holds it": {cluster: oneCluster(deleted, released), waits: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			hub := newHub(t, test.cluster)
			asked := 0
			hub.App.IsAsked = func(c *fleet.Cluster) (bool, error) {
				asked++
				if c.Name != "east" {
					t.Errorf("asked about %s", c.Name)
				}
				return test.waits, test.err
			}
			if err := hub.Handle("Cluster", key); !errors.Is(err, test.err) {
				t.Errorf("error %v", err)
			}
			if asked != test.asked {
				t.Errorf("asked %d times", asked)
			}
			hubtest.ExpectRequests(t, hub, test.requests...)
		})
	}
}
