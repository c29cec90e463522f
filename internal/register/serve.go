package register

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/register/hubclient"
	"github.com/fleet-hub/fleet/internal/register/pace"
	"github.com/fleet-hub/fleet/internal/rules/registering"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

var (
	// errEnded means that the callback returned although its context was not canceled.
	errEnded = errors.New("the agent's work ended by itself")
	// errStuck means that the callback did not return after its context was canceled. A process that holds the lease
	// and does nothing would keep other replicas from working.
	errStuck = errors.New("the agent's work did not end after its context was canceled")
)

// serveStep stores a new identity, makes sure that the current identity is in use, deletes the bootstrap secret,
// and waits for the next event. About once a day without renewals, it reads what the hub has for a recovery.
func (a *agent) serveStep(ctx context.Context, step registering.Outcome) {
	if step.Store && !a.storeCredential(ctx, a.attemptOf(step)) || step.Rewrite && !a.storeMove(ctx) {
		return
	}
	if a.serve(ctx); a.stuck {
		return
	}
	if step.DropBootstrap && !a.clearBootstrap(ctx) {
		return
	}
	if step.ProbeStored || step.ProbeNewAddress {
		a.probe(ctx, step)
		return
	}
	a.current = a.found.BootstrapSecret == nil // one that was just deleted is gone at the next look
	if a.pause(ctx, a.refreshes.Until(a.now())) {
		a.refresh(ctx)
	}
}

// storeCredential stores the proven credential as the identity, in place of any other. A shutdown waits for this write, because the
// hub hands out a credential only once.
func (a *agent) storeCredential(ctx context.Context, at *attempt) bool {
	granted := *at.Credential
	if a.write(ctx, nil, at.grantedAccess(), protocol.Identity{
		DeploymentNamespace: granted.DeploymentNamespace,
		ClusterNamespace:    granted.ClusterNamespace,
		ClusterName:         granted.ClusterName,
	}) != nil {
		return false
	}
	a.obtained, a.used = granted.Token, true
	if at.isRecovery {
		a.recovering = nil // so that the next loss does not end with the same credential
	}
	a.log.Info("registered", "cluster", granted.ClusterNamespace+"/"+granted.ClusterName)
	a.keepGranted(ctx, at)
	return true
}

// serve starts using the stored identity, unless it is in use already.
func (a *agent) serve(ctx context.Context) {
	identity := *a.found.Identity
	key, collects := a.found.IdentityKey(), a.collects()
	if a.serving != nil && a.serving.key == key && a.serving.collects == collects {
		return
	}
	if a.serving != nil {
		a.log.Info("restarting with the changed identity or interval", "garbageCollectionInterval", collects.String())
	}
	if a.stopServing(); a.stuck {
		return
	}
	access, token := a.found.Access, &atomic.Pointer[string]{}
	token.Store(&access.Token)
	session := Session{
		Hub:                 hubclient.SignalRejections(hubclient.UseToken(access.Config(), token), a.rejected),
		Token:               func() string { return *token.Load() },
		Status:              func() fleet.AgentStatus { return a.heartbeatStatus(*token.Load()) },
		ClusterNamespace:    identity.ClusterNamespace,
		ClusterName:         identity.ClusterName,
		DeploymentNamespace: identity.DeploymentNamespace,
		Config:              a.found.Config,
	}
	ctx, cancel := context.WithCancel(ctx)
	started := &serving{key: key, collects: collects, token: token, cancel: cancel, done: make(chan struct{})}
	a.serving, a.running = started, true
	if !a.refreshes.IsScheduled() { // the hub's data may have changed while no agent was running
		a.refreshes.Schedule(a.now().Add(pace.Jitter(firstRefreshPause, a.Random)))
	}
	go func() {
		defer close(started.done)
		started.err = a.use(ctx, session)
	}()
}

// heartbeatStatus returns what the heartbeats report of an identity with this token.
func (a *agent) heartbeatStatus(token string) fleet.AgentStatus {
	status := *a.reported.Load()
	if expires := protocol.ExpiryOf(token); !expires.IsZero() {
		status.CredentialExpires = &metav1.Time{Time: expires}
	}
	return status
}

// collects returns the configured interval. While the configuration cannot be read, it returns the interval in use.
func (a *agent) collects() time.Duration {
	if a.found.ConfigErr != nil && a.serving != nil {
		return a.serving.collects
	}
	return a.found.Config.GarbageCollectionInterval.Duration
}

// leaving is the maximum time in which use must return after its context is canceled.
const leaving = 2 * time.Minute

// stopServing cancels use and waits until it returns. If it does not return in time, Run ends.
func (a *agent) stopServing() {
	if a.serving == nil {
		return
	}
	a.serving.cancel()
	patience := time.NewTimer(leaving)
	defer patience.Stop()
	select {
	case <-a.serving.done:
	case <-patience.C:
		a.stuck = true
	}
	a.serving = nil
}

// outcome returns why the work ended without being canceled. It hides a context.Canceled of some part, so that
// callers do not take it for a requested shutdown.
func (s *serving) outcome() error {
	switch {
	case s.err == nil:
		return errEnded
	case errors.Is(s.err, context.Canceled):
		return fmt.Errorf("%w: %v", errEnded, s.err) //nolint:errorlint // errors.Is(err, context.Canceled) must be false
	}
	return fmt.Errorf("working for the hub: %w", s.err)
}

// isServing reports whether the stored identity, as last read, is in use.
func (a *agent) isServing() bool {
	return a.serving != nil && a.found.Identity != nil && a.serving.key == a.found.IdentityKey()
}

// ended reports whether use has returned.
func (a *agent) ended() bool {
	if a.serving == nil {
		return false
	}
	select {
	case <-a.serving.done:
		return true
	default:
		return false
	}
}
