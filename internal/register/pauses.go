package register

import (
	"context"
	"io"
	"math"
	"time"

	"github.com/fleet-hub/fleet/internal/protocol"
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
	looks, probes, moves, credentialTests, requests, repeats, writes, deletions, renewals, recoveries, keptLoads, refreshes, documents pace.Pace
}

func newRetries(random io.Reader) retries {
	of := func(first, long time.Duration) pace.Pace { return pace.New(first, long, random) }
	usual := of(firstPause, longPause)
	return retries{
		looks: usual, probes: usual, requests: usual, writes: usual, deletions: usual,
		moves:           of(firstPause, time.Minute),             // no hub may run yet at the address in the bootstrap secret
		credentialTests: of(100*time.Millisecond, 2*time.Second), // the rights of a new credential are being granted
		repeats:         of(firstPause, 10*time.Minute),          // requests that are invalid, or whose credentials do not work
		renewals:        of(5*time.Second, 10*time.Minute),       // shorter for a short token, see renew
		recoveries:      of(firstRecoveryPause, longRecoveryPause),
		keptLoads:       of(firstPause, time.Minute), // reads of the recovery Secret
		refreshes:       of(firstRefreshPause, longRefreshPause),
		documents:       of(firstRecoveryPause, 5*time.Minute), // also new tries of a rejected bootstrap secret
	}
}

// isAttending reports whether an identity is in use that the hub accepts.
func (a *agent) isAttending() bool {
	return a.serving != nil && a.answer.Answer == registering.Accepted
}

// pause waits for d and reports whether it has passed. It returns early for a change, for a token that is due, and if the work ends.
func (a *agent) pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	wait := min(d, a.tokenDue())
	timer := time.NewTimer(wait)
	defer timer.Stop()
	var ended, rejected chan struct{} // a nil channel never fires
	if a.serving != nil {
		ended = a.serving.done
	}
	if a.isAttending() {
		rejected = a.rejected
	}
	for {
		select {
		case <-timer.C:
			return wait == d
		case <-rejected:
			a.answer, a.current = registering.LastAnswer{}, false
			a.probes.Spare(doubtPause)
		case <-a.changed:
			if !a.seen.Differ(&a.found) {
				continue
			}
			a.current = false
		case <-ended:
		case <-ctx.Done():
		}
		return false
	}
}

// tokenDue returns the time until keepToken has something to do. Only an identity that the hub accepts can renew its token.
func (a *agent) tokenDue() time.Duration {
	switch {
	case !a.isAttending():
		return math.MaxInt64
	case a.isUnstored():
		return min(a.renewalDue(), a.writes.Until(a.now()))
	}
	return a.renewalDue()
}

// renewalDue returns the time to the next renewal. It never comes if the token in use does not expire.
func (a *agent) renewalDue() time.Duration {
	token := a.found.Access.Token
	of, expires := protocol.RenewalOf(token)
	if !expires {
		return math.MaxInt64
	}
	if a.renewal.token != token {
		left := protocol.ExpiryOf(token).Sub(a.now())
		a.renewal = renewal{token: token, due: a.now().Add(registering.RenewIn(of.Lifetime, left, a.obtained == token, pace.FineChance(a.Random)))}
	}
	return max(a.renewal.due.Sub(a.now()), a.renewals.Until(a.now()))
}

// isUnstored reports whether the token in use is not stored yet. Until then, the stored one is used after a restart.
func (a *agent) isUnstored() bool {
	return a.found.Identity != nil && a.found.IdentityKey() == a.outdated
}

// wake puts a change back into the channel for the next reader.
func (a *agent) wake() {
	select {
	case a.changed <- struct{}{}:
	default:
	}
}
