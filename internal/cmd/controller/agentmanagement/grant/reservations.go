package grant

import (
	"sync"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// reservations are the Clusters that requests may have created. The cache may lack Clusters that were just created, so each
// request reserves its Cluster before it creates it, and keeps the reservation until the cache has the Cluster.
type reservations struct {
	mu sync.Mutex
	// of maps a request, as "<workspace>/<name>", to its Cluster.
	of map[string]reservation
}

// reservation identifies a Cluster that a request creates with a token. The token is the value of grant.CreatedWith.
type reservation struct{ workspace, token, cluster string }

// reserve returns the number of Clusters of the wanted one's token, in the cache or reserved, without the wanted one: two
// requests of one client create the same Cluster. If the number is below the limit, the wanted Cluster is reserved.
func (r *reservations) reserve(request string, wanted reservation, limit int, cached func() []*fleet.Cluster) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	missing := map[string]bool{}
	for _, other := range r.of {
		if other.workspace == wanted.workspace && other.token == wanted.token && other.cluster != wanted.cluster {
			missing[other.cluster] = true
		}
	}
	existing := cached()
	for _, cluster := range existing {
		delete(missing, cluster.Name)
	}
	before := len(existing) + len(missing)
	if before < limit {
		if r.of == nil {
			r.of = map[string]reservation{}
		}
		r.of[request] = wanted
	}
	return before
}

// release ends the reservation of a request, if it has one.
func (r *reservations) release(request string) (was reservation, released bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	was, released = r.of[request]
	delete(r.of, request)
	return was, released
}
