package controller

import (
	"context"
	"errors"

	"github.com/fleet-hub/fleet/internal/cmd/controller/agentmanagement"
)

// standby fills the caches while the election runs, so that a replica that takes over can work at once. It writes
// nothing.
type standby struct {
	// election ends with the process, or when the caches cannot be filled. It does not end with the lease: otherwise the
	// loss of the lease would look like the end of the process.
	election context.Context //nolint:containedctx // the lifetime of the election
	end      context.CancelCauseFunc
	// caches also ends with the lease.
	caches    context.Context //nolint:containedctx // the lifetime of the caches
	endCaches context.CancelFunc
	// filled is closed when the caches are filled or could not be. prepared and err are set before.
	filled   chan struct{}
	prepared *agentmanagement.Prepared
	err      error
}

func newStandby(ctx context.Context, options agentmanagement.Options) *standby {
	s := &standby{filled: make(chan struct{})}
	s.election, s.end = context.WithCancelCause(ctx)
	s.caches, s.endCaches = context.WithCancel(s.election)
	go func() {
		defer close(s.filled)
		if s.prepared, s.err = agentmanagement.Prepare(s.caches, options); s.err != nil {
			s.end(s.err) // a replica that could not take over leaves the election
			return
		}
		options.Log.Info("caches filled")
	}()
	return s
}

// work works until ctx ends, which is the time of the lease. Caches that were filled after the lease was acquired are compared with
// the API server, too: the first of them may have been listed before, and a watch delayed since then.
func (s *standby) work(ctx context.Context) error {
	stop := context.AfterFunc(ctx, s.endCaches)
	defer stop()
	<-s.filled // ends with ctx at the latest
	if s.err != nil {
		return s.err
	}
	return s.prepared.TakeOver(ctx)
}

// result returns why the election ended: what kept the caches from being filled, or the election's own result.
func (s *standby) result(election error) error {
	s.end(nil) // has no effect if the caches have ended it
	<-s.filled
	if cause := context.Cause(s.election); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return election
}
