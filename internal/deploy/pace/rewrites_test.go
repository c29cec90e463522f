package pace

import (
	"testing"
	"time"

	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
)

func TestRewrites_SpaceComparisonsUntilQuiet(t *testing.T) {
	now := deploytest.Noon()
	var r Rewrites
	for i, want := range []time.Duration{0, 0, 0, 0, 0, 500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 8 * time.Second} {
		if got := r.Wait(now); got != want {
			t.Errorf("after %d comparisons it waits %s, want %s", i, got, want)
		}
		now = now.Add(r.Wait(now))
		if got := r.Wait(now); got != 0 {
			t.Errorf("after %d comparisons and the wait it waits %s more", i, got)
		}
		r = r.Compared(now)
	}
	for range 1000 {
		r = r.Compared(now)
	}
	if got := r.Wait(now); got != longestPace {
		t.Errorf("after very many comparisons it waits %s", got)
	}
	r = r.Compared(now.Add(quietTime + time.Second))
	if got := r.Wait(now.Add(quietTime + time.Second)); got != 0 {
		t.Errorf("after a quiet time it waits %s", got)
	}
}
