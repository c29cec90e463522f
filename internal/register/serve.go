package register

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/fleet-hub/fleet/internal/kube"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/rules/registering"
)

// serving is one identity in use.
type serving struct {
	key string
	// collects is how often the work looks for what nobody asks for any more: all of the configuration that matters
	// to it. With another interval it is begun anew.
	collects time.Duration
	cancel   context.CancelFunc
	done     chan struct{} // closed when use has returned
	err      error         // what it returned
}

// serveStep writes a new identity, sees that the identity at hand is in use, clears up, and waits for
// something to happen.
func (a *agent) serveStep(ctx context.Context, step registering.Outcome) {
	if step.Store && !a.storeCredential(ctx) || step.Rewrite && !a.storeMove(ctx) {
		return
	}
	if a.serve(ctx); a.stuck {
		return
	}
	if step.DropBootstrap && !a.clearBootstrap(ctx) {
		return
	}
	if step.AskAgain || step.AskElsewhere {
		a.ask(ctx, step)
		return
	}
	a.attend(ctx, nil)
}

// storeCredential makes the proven credential the stored identity. Leaving waits for the write: the hub
// hands a credential out once.
func (a *agent) storeCredential(ctx context.Context) bool {
	granted := *a.attempt.credential
	err := a.write(ctx, a.grantedAccess(), protocol.Identity{
		DeploymentNamespace: granted.DeploymentNamespace,
		ClusterNamespace:    granted.ClusterNamespace,
		ClusterName:         granted.ClusterName,
	})
	if err != nil {
		if ctx.Err() == nil && !errors.Is(err, errInterrupted) {
			a.log.Error("Failed to register agent", "error", err)
		}
		return false
	}
	a.log.Info("registered", "cluster", granted.ClusterNamespace+"/"+granted.ClusterName)
	return true
}

// storeMove writes the stored kubeconfig anew, by the access at which the identity was proven.
func (a *agent) storeMove(ctx context.Context) bool {
	if err := a.write(ctx, a.there, *a.found.identity); err != nil {
		if ctx.Err() == nil && !errors.Is(err, errInterrupted) {
			a.log.Error("the hub's new address could not be stored, trying again", "error", err)
		}
		return false
	}
	a.log.Info("the hub is reached as the bootstrap secret says from now on; the identity stays", "hub", a.there.Server)
	return true
}

// errInterrupted means that nothing was written, for there is something to look at first. The write is still due.
var errInterrupted = errors.New("something has changed, looking again before the identity is stored")

// write makes an identity with this access the stored one.
func (a *agent) write(ctx context.Context, access Access, identity protocol.Identity) error {
	if !a.pause(ctx, a.writes.until(a.now())) {
		return errInterrupted
	}
	var err error
	if identity.Kubeconfig, err = access.Kubeconfig(); err == nil {
		err = store(context.WithoutCancel(ctx), a.Local, a.Namespace, identity)
	}
	if err != nil {
		a.writes.tried(a.now(), err)
		return err
	}
	a.writes.reset()
	a.found.identity, a.found.access, a.found.identityErr = &identity, access, nil
	a.verdict = registering.Verdict{Answer: registering.Accepted, Since: a.now()}
	a.moved, a.used = registering.Verdict{}, true
	return nil
}

// serve puts the stored identity to use, if it is not in use already.
func (a *agent) serve(ctx context.Context) {
	identity := *a.found.identity
	key, collects := identityKey(identity), a.collects()
	if a.serving != nil && a.serving.key == key && a.serving.collects == collects {
		return
	}
	if a.serving != nil {
		a.log.Info("starting over with what changed", "garbageCollectionInterval", collects.String())
	}
	if a.stopServing(); a.stuck {
		return
	}
	hub := a.found.access.Config()
	hub.Wrap(func(next http.RoundTripper) http.RoundTripper { return listener{next: next, doubted: a.doubted} })
	session := Session{
		Hub:                 hub,
		ClusterNamespace:    identity.ClusterNamespace,
		ClusterName:         identity.ClusterName,
		DeploymentNamespace: identity.DeploymentNamespace,
		Config:              a.found.config,
	}
	ctx, cancel := context.WithCancel(ctx)
	started := &serving{key: key, collects: collects, cancel: cancel, done: make(chan struct{})}
	a.serving, a.running = started, true
	go func() {
		defer close(started.done)
		started.err = a.use(ctx, session)
	}()
}

// collects is the configured interval. A configuration that cannot be read leaves the one that is in use.
func (a *agent) collects() time.Duration {
	if a.found.configErr != nil && a.serving != nil {
		return a.serving.collects
	}
	return a.found.config.GarbageCollectionInterval.Duration
}

// leaving is how long what uses an identity may take to end.
const leaving = 2 * time.Minute

// stopServing takes the identity out of use and waits until it is. Work that does not end is the end of Run.
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

// outcome is why the work ended, though nobody had asked it to. That a part of it was canceled is no reason to take
// it for the end that somebody asked for.
func (s *serving) outcome() error {
	switch {
	case s.err == nil:
		return errEnded
	case errors.Is(s.err, context.Canceled):
		return fmt.Errorf("%w: %v", errEnded, s.err) //nolint:errorlint // whoever asks whether it was canceled is told no
	}
	return fmt.Errorf("working for the hub: %w", s.err)
}

// ended says whether what was put to use has returned.
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

// clearBootstrap deletes the bootstrap secret of the last look, if there was one.
func (a *agent) clearBootstrap(ctx context.Context) bool {
	seen := a.found.bootstrapSecret
	if seen == nil {
		return true
	}
	if !a.pause(ctx, max(a.writes.until(a.now()), a.settling())) {
		return false
	}
	if err := dropBootstrap(ctx, a.Local, seen); err != nil {
		a.writes.tried(a.now(), err)
		a.log.Warn("the bootstrap secret is not needed any more and could not be deleted, trying again", "error", err)
		return false
	}
	a.writes.reset()
	a.log.Info("bootstrap secret deleted", "secret", seen.Namespace+"/"+seen.Name, "used", a.used)
	a.used = false
	return true
}

// settled is how long a bootstrap secret is kept that may be of use in a moment: the chart delivers it before the
// configuration, and that may say that only a CA is trusted from now on, or that none is needed any more.
const settled = 5 * time.Second

// settling is settled where the bootstrap secret has a CA, and the identity has none because none is needed; and where
// the configuration at hand leaves nothing to be done with it.
func (a *agent) settling() time.Duration {
	f := a.found
	if a.used || f.bootstrap == nil {
		return 0
	}
	needless := f.config.AgentTLSMode == kube.TLSModeSystemStore && len(f.access.CA) == 0 && len(f.bootstrap.APIServerCA) > 0
	if needless || f.configErr != nil {
		return settled
	}
	return 0
}

// attend waits while the identity is in use: for a change of our Secrets or the configuration, for the hub to turn
// the identity away, for the work to end, for the time that is due (nil: none is). It says whether it was the time.
func (a *agent) attend(ctx context.Context, due <-chan time.Time) bool {
	select {
	case <-due:
		return true
	case <-a.doubted:
		a.verdict = registering.Verdict{}
		a.asks.spare(doubtPause)
	case <-a.changed:
	case <-a.serving.done:
	case <-ctx.Done():
	}
	return false
}

// listener watches what the hub answers to an identity in use.
type listener struct {
	next    http.RoundTripper
	doubted chan<- struct{}
}

// RoundTrip passes the request on and raises a doubt where the answer is one that would count against the
// identity. Whether it does is not decided here: another right may be missing than those an agent needs.
func (l listener) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := l.next.RoundTrip(request)
	turnedAway := err == nil && (response.StatusCode == http.StatusUnauthorized || response.StatusCode == http.StatusForbidden)
	if turnedAway || isUntrusted(err) {
		select {
		case l.doubted <- struct{}{}:
		default: // there is one waiting already
		}
	}
	return response, err
}
