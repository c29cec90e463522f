package register

import (
	"context"
	"io"
	"time"

	"github.com/fleet-hub/fleet/internal/register/pace"
	"github.com/fleet-hub/fleet/internal/rules/registering"
)

const (
	// firstPause and longPause are the pauses between attempts at an operation that may succeed later.
	firstPause, longPause = time.Second, 15 * time.Second
	// A recovery request that the hub refuses or does not grant is repeated ever more slowly.
	firstRecoveryPause, longRecoveryPause = 10 * time.Second, 2 * time.Minute
	// What the hub has for a recovery is read about once a day, or sooner until there is something. A token that lasts a
	// day is renewed after 18 hours at the latest, so that each refresh belongs to a renewal.
	firstRefreshPause, longRefreshPause = 70 * time.Second, 18 * time.Hour
	// doubtPause is the minimum time between two tests that are caused by the hub's responses to other requests.
	doubtPause = 5 * time.Second
)

// retries are the times at which each operation is tried next.
type retries struct {
	looks, probes, moves, proofs, requests, renewals, writes, tokens, recoveries, keeps, refreshes, documents pace.Pace
}

func newRetries(random io.Reader) retries {
	of := func(first, long time.Duration) pace.Pace { return pace.New(first, long, random) }
	usual := of(firstPause, longPause)
	return retries{
		looks: usual, probes: usual, requests: usual, writes: usual,
		moves:      of(firstPause, time.Minute),             // no hub may run yet at the address in the bootstrap secret
		proofs:     of(100*time.Millisecond, 2*time.Second), // the rights of a new credential are being granted
		renewals:   of(firstPause, 10*time.Minute),          // requests that are invalid, or whose credentials do not work
		tokens:     of(5*time.Second, 10*time.Minute),       // a token lasts at least two minutes after its renewal is due
		recoveries: of(firstRecoveryPause, longRecoveryPause),
		keeps:      of(firstPause, time.Minute), // reads of the recovery Secret
		refreshes:  of(firstRefreshPause, longRefreshPause),
		documents:  of(firstRecoveryPause, 5*time.Minute),
	}
}

// pause waits for d. It returns early if one of the agent's Secrets or its configuration changes, or if the work
// ends. It reports whether d has passed.
func (a *agent) pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	var ended chan struct{} // a nil channel never fires: nothing is in use
	if a.serving != nil {
		ended = a.serving.done
	}
	select {
	case <-timer.C:
		return true
	case <-a.changed:
	case <-ended:
	case <-ctx.Done():
	}
	return false
}

// attend waits while the identity is in use. It returns when one of the agent's Secrets or its configuration
// changes, the hub rejects the identity, or the work ends. It reports whether d has passed.
func (a *agent) attend(ctx context.Context, d time.Duration) bool {
	due := time.NewTimer(d)
	defer due.Stop()
	for {
		select {
		case <-due.C:
			return true
		case <-a.rejected:
			a.answer = registering.LastAnswer{}
			a.probes.Spare(doubtPause)
		case <-a.changed:
			if !a.seen.Differ(&a.found) {
				continue
			}
		case <-a.serving.done:
		case <-ctx.Done():
		}
		return false
	}
}

// wake puts a change back into the channel for the next reader.
func (a *agent) wake() {
	select {
	case a.changed <- struct{}{}:
	default:
	}
}
