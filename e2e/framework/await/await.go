// Package await waits in tests for what nobody tells of, by asking again and again.
package await

import (
	"context"
	"testing"
	"time"
)

const pause = 10 * time.Millisecond

// Until asks until check says nil. After so long, which check learns from its context, it fails the test with what it
// was about and what check said last.
func Until(t testing.TB, what string, atMost time.Duration, check func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), atMost) // the test may be cleaning up
	defer cancel()
	again := time.NewTicker(pause)
	defer again.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			t.Fatalf("%s, after %s: %v", what, atMost, err)
		}
	}
}
