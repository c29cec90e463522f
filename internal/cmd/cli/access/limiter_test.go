package access

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/flowcontrol"
)

// late is a context whose deadline has passed, but whose timer has not fired yet.
type late struct{ context.Context } //nolint:containedctx // it is a context itself

func (late) Deadline() (time.Time, bool) { return time.Unix(0, 0), true }

func TestRequestAtTheEndOfAWait_IsNotAnErrorOfItsOwn(t *testing.T) {
	l := limiter{flowcontrol.NewTokenBucketRateLimiter(requestsPerSecond, requestsAtOnce)}
	if err := l.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	err := l.Wait(late{t.Context()})
	if !errors.Is(err, context.DeadlineExceeded) || !wait.Interrupted(Explain("reading Cluster a/b", err)) {
		t.Errorf("%v", err)
	}
}
