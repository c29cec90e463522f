package grant

import "testing"

// As many Clusters as the limit allows are created, with few counts.
func TestTallies_LimitHoldsWithFewCounts(t *testing.T) {
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
			var all tallies
			clusters, counts := test.begin, 0
			for all.atMost("ws/token", test.limit, func() int { counts++; return clusters }) < test.limit {
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

func TestTallies_ClustersAreDeleted_RoomAtOnce(t *testing.T) {
	var all tallies
	if got := all.atMost("ws/token", 5, func() int { return 5 }); got != 5 {
		t.Fatalf("%d", got)
	}
	if got := all.atMost("ws/token", 5, func() int { return 4 }); got != 4 {
		t.Errorf("%d although one was deleted", got)
	}
	if got := all.atMost("ws/another", 5, func() int { return 0 }); got != 0 {
		t.Errorf("another token has %d", got)
	}
}
