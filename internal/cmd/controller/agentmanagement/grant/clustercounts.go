package grant

import (
	"sync"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// clusterCounts estimates how many Clusters each token has created. Counting them takes as long as there are Clusters, and each
// new Cluster needs the number. Only this process creates such Clusters, so between two counts the number grows by one
// for each decision at most. The closer the limit, the more often they are counted; just below it, for each decision.
//
// The cache may lack Clusters that were just created. So each request reserves its Cluster before it creates it, and keeps
// the reservation until the cache has the Cluster. A count includes the reservations.
type clusterCounts struct {
	mu  sync.Mutex
	all map[string]tokenCount
	// reserved maps a request, as "<workspace>/<name>", to the Cluster that it may have created.
	reserved map[string]reservation
}

// tokenCount is a count and the number of decisions since.
type tokenCount struct{ counted, since int }

// reservation identifies a Cluster that a request creates with a token. The token is the value of grant.CreatedWith.
type reservation struct{ workspace, token, cluster string }

// reserve returns the same number as estimate, without the wanted Cluster itself. If it is below the limit, the Cluster is
// reserved.
func (t *clusterCounts) reserve(request string, wanted reservation, limit int, cached func() []*fleet.Cluster) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.estimate(wanted.workspace+"/"+wanted.token, limit, func() int { return t.countOthers(wanted, cached()) })
	if before < limit {
		if t.reserved == nil {
			t.reserved = map[string]reservation{}
		}
		t.reserved[request] = wanted
	}
	return before
}

// countOthers returns the number of Clusters of a token, in the cache or reserved, without the wanted one. Two requests of
// one client create the same Cluster.
func (t *clusterCounts) countOthers(wanted reservation, cached []*fleet.Cluster) int {
	missing := map[string]bool{}
	for _, other := range t.reserved {
		if other.workspace == wanted.workspace && other.token == wanted.token && other.cluster != wanted.cluster {
			missing[other.cluster] = true
		}
	}
	for _, cluster := range cached {
		delete(missing, cluster.Name)
	}
	return len(cached) + len(missing)
}

// release ends the reservation of a request, if it has one.
func (t *clusterCounts) release(request string) (was reservation, released bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	was, released = t.reserved[request]
	delete(t.reserved, request)
	return was, released
}

// estimate returns an upper bound of the number of Clusters of a token. A result at or above the limit is exact. The caller
// holds the lock.
func (t *clusterCounts) estimate(token string, limit int, count func() int) int {
	now, known := t.all[token]
	if now.since++; !known || now.since > (limit-now.counted)/2 {
		now = tokenCount{counted: count()}
	}
	if t.all == nil {
		t.all = map[string]tokenCount{}
	}
	t.all[token] = now
	return now.counted + now.since
}
