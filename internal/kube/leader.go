package kube

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// ErrLeaseLost is returned by Lead when the lease could not be renewed in time: another replica may be
// leading already, and whatever run has cached is stale. Callers end the process.
var ErrLeaseLost = errors.New("lost the leader election lease")

// Defaults of the election, from registration.md §12.
const (
	DefaultLeaseDuration = 45 * time.Second
	DefaultRenewDeadline = 30 * time.Second
	DefaultRetryPeriod   = 2 * time.Second
)

// stopGrace bounds how long the lease is held on to after the context has ended while run winds up.
const stopGrace = 15 * time.Second

// LeaderOptions describe one election.
type LeaderOptions struct {
	// Config reaches the API server that keeps the lease.
	Config *rest.Config
	// Namespace and Name are the Lease's.
	Namespace, Name string
	// Identity names this process in the lease; a random part is appended, so that two processes on one
	// host never take each other for themselves. Empty: the host's name.
	Identity string
	// LeaseDuration, RenewDeadline and RetryPeriod are the election's times. Zero: the defaults.
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
	// Log is told who leads. Nil: nobody is told.
	Log *slog.Logger
	// OnStandby is called, from another goroutine, whenever another process is seen leading. May be nil.
	OnStandby func()
}

// Lead waits until this process holds the lease and then calls run with a context that ends when the
// lease is lost or ctx ends. The lease is released only after run has returned, so that the next leader
// never works beside this one. Lead returns run's error; nil when ctx ended first; ErrLeaseLost when the
// lease went first.
func Lead(ctx context.Context, o LeaderOptions, run func(context.Context) error) error {
	o = o.withDefaults()
	client, err := kubernetes.NewForConfig(electionConfig(o))
	if err != nil {
		return fmt.Errorf("building the leader election client: %w", err)
	}
	election, cancelElection := context.WithCancel(context.WithoutCancel(ctx))
	defer cancelElection()
	work, cancelWork := context.WithCancel(ctx)
	term := &term{run: run, cancelWork: cancelWork, cancelElection: cancelElection, done: make(chan struct{})}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name},
			Client:     client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: o.Identity},
		},
		LeaseDuration:   o.LeaseDuration,
		RenewDeadline:   o.RenewDeadline,
		RetryPeriod:     o.RetryPeriod,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(lease context.Context) { term.serve(lease, work) },
			OnStoppedLeading: func() {},
			OnNewLeader:      o.announce,
		},
	})
	if err != nil {
		cancelWork()
		return fmt.Errorf("preparing the leader election: %w", err)
	}
	stop := context.AfterFunc(ctx, term.end)
	defer stop()
	elector.Run(election)
	return term.result(ctx)
}

func (o LeaderOptions) withDefaults() LeaderOptions {
	if o.Identity == "" {
		o.Identity, _ = os.Hostname() // without a host name the random part alone is unique
	}
	o.Identity += "_" + strings.ToLower(rand.Text())
	if o.LeaseDuration == 0 {
		o.LeaseDuration = DefaultLeaseDuration
	}
	if o.RenewDeadline == 0 {
		o.RenewDeadline = DefaultRenewDeadline
	}
	if o.RetryPeriod == 0 {
		o.RetryPeriod = DefaultRetryPeriod
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// electionConfig bounds each request so that a stuck one cannot outlast the renew deadline.
func electionConfig(o LeaderOptions) *rest.Config {
	cfg := rest.CopyConfig(o.Config)
	cfg.Timeout = o.RenewDeadline / 2
	return cfg
}

func (o LeaderOptions) announce(identity string) {
	if identity == o.Identity {
		o.Log.Info("leading", "lease", o.Namespace+"/"+o.Name, "identity", identity)
		return
	}
	o.Log.Info("standing by", "lease", o.Namespace+"/"+o.Name, "leader", identity)
	if o.OnStandby != nil {
		o.OnStandby()
	}
}

// term is one time in office: at most one, since Lead returns at its end.
type term struct {
	run            func(context.Context) error
	cancelWork     context.CancelFunc
	cancelElection context.CancelFunc

	mu      sync.Mutex
	started bool
	ending  bool

	// done is closed when run has returned; err and lost are set before.
	done chan struct{}
	err  error
	lost bool
}

// serve runs the work and ends the election after it. The elector calls it in a goroutine of its own,
// with a context that ends when the lease is lost.
func (t *term) serve(lease, work context.Context) {
	t.mu.Lock()
	if t.ending {
		t.mu.Unlock()
		return // elected in the moment of leaving
	}
	t.started = true
	t.mu.Unlock()
	stop := context.AfterFunc(lease, t.cancelWork)
	defer stop()
	t.err = t.run(work)
	t.lost = lease.Err() != nil
	close(t.done)
	t.cancelElection()
}

// end is called when the caller's context has ended: the work is told by its own context and ends the
// election when it returns; without work the election ends at once.
func (t *term) end() {
	if !t.leave() || !t.finished() {
		t.cancelElection()
	}
}

// result says how the term ended. The elector has returned, so the lease is lost or released.
func (t *term) result(ctx context.Context) error {
	t.cancelWork()
	started := t.leave()
	switch {
	case !started && ctx.Err() != nil:
		return nil //nolint:nilerr // the caller asked for the end
	case !started:
		return ErrLeaseLost
	case !t.finished():
		return fmt.Errorf("%w, and the work did not end within %s", ErrLeaseLost, stopGrace)
	case t.lost && ctx.Err() == nil:
		return errors.Join(ErrLeaseLost, unlessCanceled(t.err))
	default:
		return unlessCanceled(t.err)
	}
}

// leave forbids work that has not begun and says whether any has.
func (t *term) leave() (started bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ending = true
	return t.started
}

// finished waits for the work's end, but not longer than stopGrace.
func (t *term) finished() bool {
	timer := time.NewTimer(stopGrace)
	defer timer.Stop()
	select {
	case <-t.done:
		return true
	case <-timer.C:
		return false
	}
}

// unlessCanceled drops the error that only repeats that the context ended.
func unlessCanceled(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
