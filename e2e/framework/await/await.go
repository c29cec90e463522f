// Package await lets tests wait by polling, where no watch is possible.
package await

import (
	"context"
	"testing"
	"time"
)

// pause is a compromise: at 10 ms, the polling of some tests took more processor time than what they waited for.
const pause = 50 * time.Millisecond

// Until calls check until it returns nil. After atMost, which is also the deadline of check's context, it fails
// the test with what and the last error.
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
