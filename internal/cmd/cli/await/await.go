// Package await waits until something on a cluster has happened.
//
//	condition, timeout ─► poll once a second ─► nil, or an error that names what was awaited and the next command
package await

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/fleet-hub/fleet/internal/cmd/cli/access"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/cmd/cli/output"
)

const (
	// interval is the time between two looks of Until.
	interval = time.Second
	// pollInterval is that of Poll, for what takes less than a second.
	pollInterval = 100 * time.Millisecond
	// lookTimeout limits the requests of one look. With the deadline of the wait, the last look would be cut off, and its error
	// would replace what is known.
	lookTimeout = 30 * time.Second
)

// Wait describes what to wait for.
type Wait struct {
	// For names it: "the first heartbeat of Cluster fleet-default/east".
	For string
	// Timeout limits the wait.
	Timeout time.Duration
	// Next are the commands to run if it does not happen in time.
	Next []string
	// Progress receives a line before the wait, unless it has happened already. It may be nil.
	Progress io.Writer
}

// Until waits until done returns true. An error of done ends the wait, unless it may pass. done may return a text about the
// current state, which becomes part of the error after the timeout.
func (w Wait) Until(ctx context.Context, done func(context.Context) (happened bool, state string, err error)) error {
	var last string
	started := false
	err := poll(ctx, interval, w.Timeout, func(look context.Context) (bool, error) {
		happened, state, err := done(look)
		if access.IsPassing(err) && ctx.Err() == nil {
			happened, state, err = false, stateAfter(err, last), nil
		}
		last = state
		if !happened && err == nil && !started && w.Progress != nil {
			fmt.Fprintf(w.Progress, "waiting up to %s for %s\n", w.Timeout, w.For)
			started = true
		}
		return happened, err
	})
	switch {
	case err == nil || !wait.Interrupted(err):
		return err
	case ctx.Err() != nil:
		return exit.Errorf(exit.Failed, "interrupted while waiting for %s", w.For).With(w.Next...)
	}
	failure := exit.Errorf(exit.Timeout, "waited %s for %s", w.Timeout, w.For).With(w.Next...)
	if last != "" {
		failure.Problems = append(failure.Problems, fmt.Errorf("%s", last))
	}
	return failure
}

// Poll waits until done returns true. An error of done ends the wait, unless it may pass. After the timeout, or if ctx ends,
// wait.Interrupted is true for the error.
func Poll(ctx context.Context, timeout time.Duration, done func(context.Context) (bool, error)) error {
	return poll(ctx, pollInterval, timeout, done)
}

func poll(ctx context.Context, interval, timeout time.Duration, done func(context.Context) (bool, error)) error {
	return wait.PollUntilContextTimeout(ctx, interval, timeout, true, func(context.Context) (bool, error) {
		look, cancel := context.WithTimeout(ctx, lookTimeout)
		defer cancel()
		happened, err := done(look)
		if err != nil && ctx.Err() != nil { // an interruption, whatever the request says
			return false, ctx.Err()
		}
		if access.IsPassing(err) {
			return false, nil
		}
		return happened, err
	})
}

// stateAfter returns the state to report after a request that failed. If a request was not answered in time, the last state says
// more.
func stateAfter(err error, last string) string {
	if errors.Is(err, context.DeadlineExceeded) && last != "" {
		return last
	}
	return output.Line(err.Error())
}
