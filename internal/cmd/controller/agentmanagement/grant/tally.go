package grant

import "sync"

// tallies estimates how many Clusters each token has created. Counting them takes as long as there are Clusters, and each
// new Cluster needs the number. Only this process creates such Clusters, so between two counts the number grows by one
// for each decision at most. The closer the limit, the more often they are counted; just below it, for each decision.
type tallies struct {
	mu  sync.Mutex
	all map[string]tally
}

// tally is a count and the number of decisions since.
type tally struct{ counted, since int }

// atMost returns a number that is not below the number of Clusters of a token. It is below the limit only if that number
// is, and it is exact if it is not.
func (t *tallies) atMost(token string, limit int, count func() int) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	now, known := t.all[token]
	if now.since++; !known || now.since > (limit-now.counted)/2 {
		now = tally{counted: count()}
	}
	if t.all == nil {
		t.all = map[string]tally{}
	}
	t.all[token] = now
	return now.counted + now.since
}
