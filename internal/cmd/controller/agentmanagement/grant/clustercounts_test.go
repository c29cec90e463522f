package grant

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// As many Clusters as the limit allows are created, with few counts.
func TestClusterCounts_LimitHoldsWithFewCounts(t *testing.T) {
	tests := map[string]struct{ limit, begin, counts int }{
		"no Clusters yet":   {5000, 0, 20},
		"almost at limit":   {5000, 4990, 12},
		"at the limit":      {5000, 5000, 1},
		"beyond the limit":  {10, 50, 1},
		"one is the limit":  {1, 0, 2},
		"two are the limit": {2, 0, 3},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var all clusterCounts
			clusters, counts := test.begin, 0
			for all.estimate("ws/token", test.limit, func() int { counts++; return clusters }) < test.limit {
				if clusters++; clusters > test.limit {
					t.Fatal("more Clusters than the limit")
				}
			}
			if clusters != max(test.limit, test.begin) || counts > test.counts {
				t.Errorf("%d Clusters with %d counts", clusters, counts)
			}
		})
	}
}

func TestClusterCounts_ClustersAreDeleted_RoomAtOnce(t *testing.T) {
	var all clusterCounts
	if got := all.estimate("ws/token", 5, func() int { return 5 }); got != 5 {
		t.Fatalf("%d", got)
	}
	if got := all.estimate("ws/token", 5, func() int { return 4 }); got != 4 {
		t.Errorf("%d although one was deleted", got)
	}
	if got := all.estimate("ws/another", 5, func() int { return 0 }); got != 0 {
		t.Errorf("another token has %d", got)
	}
}

// Many workers create Clusters, and the cache has them only later.
func TestClusterCounts_ManyWorkers_LimitHolds(t *testing.T) {
	const limit = 50
	var (
		all             clusterCounts
		mu              sync.Mutex // guards the fields below
		created, cached []*fleet.Cluster
		workers         sync.WaitGroup
	)
	inCache := func() []*fleet.Cluster {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(cached)
	}
	create := func(request string) {
		mu.Lock()
		created = append(created, createdWith(request, "token"))
		if len(created)%7 == 0 {
			cached = slices.Clone(created[:len(created)-3])
		}
		mu.Unlock()
		for _, cluster := range inCache() {
			all.release(cluster.Name)
		}
	}
	for worker := range 8 {
		workers.Go(func() {
			for n := range 40 {
				request := fmt.Sprint(worker, "-", n)
				if all.reserve(request, reservation{"ws", "token", request}, limit, inCache) < limit {
					create(request)
				}
			}
		})
	}
	workers.Wait()
	if len(created) != limit {
		t.Errorf("%d Clusters created, want %d", len(created), limit)
	}
}
