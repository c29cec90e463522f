package await_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fleet-hub/fleet/e2e/framework/await"
)

// told records how a test fails instead of failing it.
type told struct {
	testing.TB
	said string
}

func (t *told) Helper() {}

func (t *told) Fatalf(format string, args ...any) {
	t.said = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func TestUntil_PollsUntilTheCheckSucceeds(t *testing.T) {
	tests := map[string]struct {
		// after is the time after which check returns nil.
		after  time.Duration
		asked  int
		took   time.Duration
		failed string
	}{
		"check succeeds: called once":             {after: 0, asked: 1, took: 0},
		"check succeeds later: polled until then": {after: 135 * time.Millisecond, asked: 4, took: 150 * time.Millisecond},
		"check never succeeds: the test fails":    {after: time.Hour, asked: 21, took: 1005 * time.Millisecond, failed: "it comes, after 1.005s: not yet"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, asked, played := time.Now(), 0, &told{TB: t}
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					await.Until(played, "it comes", 1005*time.Millisecond, func(ctx context.Context) error {
						if asked++; ctx.Err() != nil || time.Since(began) < test.after {
							return errors.New("not yet")
						}
						return nil
					})
				}()
				<-ended
				if took := time.Since(began); asked != test.asked || took != test.took || played.said != test.failed {
					t.Errorf("called check %d times in %s, failed with %q", asked, took, played.said)
				}
			})
		})
	}
}
