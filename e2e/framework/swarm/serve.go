package swarm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/registering"
)

// errIdentityLost ends the work with an identity.
var errIdentityLost = errors.New("the hub rejects the identity")

// lastBeatPause is the longest pause after a failed heartbeat.
const lastBeatPause = time.Minute

// serve works with one identity until ctx ends, or until the identity is lost and the agent may register again.
// It calls joined at the first heartbeat.
func (a *Agent) serve(ctx context.Context, joined func()) {
	ctx, lost := context.WithCancelCause(ctx)
	defer lost(nil)
	credential := a.Credential()
	var parts sync.WaitGroup
	parts.Go(func() { a.beat(ctx, credential, joined) })
	parts.Go(func() {
		if err := a.follow(ctx, credential); err != nil {
			lost(err)
		}
	})
	parts.Wait()
	if errors.Is(context.Cause(ctx), errIdentityLost) {
		a.setCredential(nil)
		a.update(func(s *State) { s.Beaten, s.Watching = time.Time{}, false })
	}
}

// beat sends heartbeats until ctx ends.
func (a *Agent) beat(ctx context.Context, c *protocol.Credential, joined func()) {
	for failed := 0; ; {
		if !a.nextSecond(ctx) {
			return
		}
		err := a.beatOnce(ctx, c)
		if err != nil {
			a.failed(ctx, err)
			failed++
		} else {
			failed = 0
			joined()
		}
		if !wait(ctx, jitter(beatPause(a.settings.Checkin, failed))) {
			return
		}
	}
}

// nextSecond waits until a heartbeat has a later second than the last one. The hub detects the first use of an
// identity by the second.
func (a *Agent) nextSecond(ctx context.Context) bool {
	now, last := a.now(), a.State().LastBeat
	if !now.Truncate(time.Second).Equal(last.Truncate(time.Second)) {
		return ctx.Err() == nil
	}
	return wait(ctx, now.Truncate(time.Second).Add(time.Second).Sub(now))
}

func (a *Agent) beatOnce(ctx context.Context, c *protocol.Credential) error {
	now := a.now()
	body, err := json.Marshal([]any{map[string]any{
		"op": "add", "path": "/status/agent",
		"value": a.status(c, metav1.NewTime(now), names.SystemNamespace),
	}})
	if err != nil {
		return fmt.Errorf("encoding the heartbeat: %w", err)
	}
	path := fleetAPI + "namespaces/" + c.ClusterNamespace + "/clusters/" + c.ClusterName + "/status"
	if speaker := protocol.HeartbeatManager(c.Token); speaker != "" && !a.settings.Poll {
		path += "?fieldManager=" + url.QueryEscape(speaker)
	}
	err = a.hub.do(ctx, call{
		as: granted, token: c.Token, verb: "patch", resource: "clusters/status", path: path, body: body, mediaType: "application/json-patch+json",
	}, nil)
	if err != nil {
		return fmt.Errorf("sending a heartbeat: %w", err)
	}
	accepted := a.now()
	a.update(func(s *State) {
		s.Beats++
		s.LastBeat = accepted
		if s.Beaten.IsZero() {
			s.Beaten = accepted
		}
	})
	return nil
}

// beatPause returns the pause before the next heartbeat after this many consecutive failures.
func beatPause(interval time.Duration, failed int) time.Duration {
	if failed == 0 {
		return interval
	}
	return min(firstPause<<min(failed-1, 10), lastBeatPause, interval)
}

// judge decides whether the hub rejects the identity or has another problem. It verifies the identity once more.
// The hub must reject it for as long as an agent without a bootstrap secret waits. It returns errIdentityLost if
// the agent may register again.
func (a *Agent) judge(ctx context.Context, c *protocol.Credential, err error) error {
	if !isRejection(err) || !isRejection(a.prove(ctx, c)) {
		a.doubtedSince = time.Time{}
		return nil
	}
	if a.doubtedSince.IsZero() {
		a.doubtedSince = a.now()
	}
	if a.now().Sub(a.doubtedSince) < registering.RejectionPatience {
		return nil
	}
	a.update(func(s *State) { s.Rejected = true })
	if a.settings.RegisterAgain {
		a.doubtedSince = time.Time{}
		return errIdentityLost
	}
	return nil
}

func isRejection(err error) bool { return apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err) }

// jitter returns d, at random up to a tenth longer or shorter.
func jitter(d time.Duration) time.Duration {
	return d - d/10 + time.Duration(rand.Float64()*float64(d)/5)
}

// wait waits for d. It returns false if ctx ends before.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
