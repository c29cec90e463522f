package register

import (
	"context"
	"time"

	"github.com/fleet-hub/fleet/internal/rules/registering"
)

// The pauses between attempts at an operation that may succeed later.
const (
	firstPause = time.Second
	longPause  = 15 * time.Second
	// A new credential is tested again quickly, because its rights are being granted.
	firstProofPause = 100 * time.Millisecond
	longProofPause  = 2 * time.Second
	// longRenewalPause is the longest pause between two requests that the hub accepted but whose credentials do not
	// work, or that the hub refused as invalid.
	longRenewalPause = 10 * time.Minute
	// longMovePause is the longest pause between two tests at the address in the bootstrap secret, where no hub may
	// run yet.
	longMovePause = time.Minute
	// A token expires a quarter of its lifetime after its renewal is due at the latest, which is at least two minutes.
	firstTokenPause = 5 * time.Second
	longTokenPause  = 10 * time.Minute
	// A recovery request that the hub refuses or does not grant is repeated ever more slowly.
	firstRecoveryPause = 10 * time.Second
	longRecoveryPause  = 2 * time.Minute
	longDocumentPause  = 5 * time.Minute
	// longKeepPause is the longest pause between two attempts to read the recovery Secret.
	longKeepPause = time.Minute
	// What the hub has for a recovery is read about once a day, or sooner until there is something. A token that lasts a
	// day is renewed after 18 hours at the latest, so that each refresh belongs to a renewal.
	firstRefreshPause = 70 * time.Second
	longRefreshPause  = 18 * time.Hour
	// doubtPause is the minimum time between two tests that are caused by the hub's responses to other requests.
	doubtPause = 5 * time.Second
)

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
// changes, the hub rejects the identity, the work ends, or due fires (nil never fires). It reports whether due
// fired.
func (a *agent) attend(ctx context.Context, due <-chan time.Time) bool {
	for {
		select {
		case <-due:
			return true
		case <-a.rejected:
			a.verdict = registering.Verdict{}
			a.asks.Spare(doubtPause)
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
