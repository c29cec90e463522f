package deploy

import (
	"testing"
	"time"
)

func TestRewrites_SpaceComparisonsUntilQuiet(t *testing.T) {
	now := noon
	var r rewrites
	for i, want := range []time.Duration{0, 0, 0, 0, 0, 500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 8 * time.Second} {
		if got := r.wait(now); got != want {
			t.Errorf("after %d comparisons it waits %s, want %s", i, got, want)
		}
		now = now.Add(r.wait(now))
		if got := r.wait(now); got != 0 {
			t.Errorf("after %d comparisons and the wait it waits %s more", i, got)
		}
		r = r.compared(now)
	}
	for range 1000 {
		r = r.compared(now)
	}
	if got := r.wait(now); got != longestPace {
		t.Errorf("after very many comparisons it waits %s", got)
	}
	r = r.compared(now.Add(quietTime + time.Second))
	if got := r.wait(now.Add(quietTime + time.Second)); got != 0 {
		t.Errorf("after a quiet time it waits %s", got)
	}
}
