package grant

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Many workers create Clusters, and the cache has them only later.
func TestReservations_ManyWorkers_LimitHolds(t *testing.T) {
	const limit = 50
	var (
		all             reservations
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
