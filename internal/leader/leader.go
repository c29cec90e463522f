package leader

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
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

// Defaults of the election.
const (
	DefaultLeaseDuration = 45 * time.Second
	DefaultRenewDeadline = 30 * time.Second
	DefaultRetryPeriod   = 2 * time.Second
)

// Options describe one election.
type Options struct {
	// Config reaches the API server that keeps the lease.
	Config *rest.Config
	// Namespace and Name are the Lease's.
	Namespace, Name string
	// Before are the names of further Leases of that namespace, which are taken before that one, in this order, and
	// given back after it. Nobody works without holding all of them; the first decides between replicas. Mostly empty.
	Before []string
	// Identity names this process in the lease; a random part is appended, so that two processes on one
	// host never take each other for themselves. Empty: the host's name.
	Identity string
	// LeaseDuration, RenewDeadline and RetryPeriod are the election's times. Zero: the defaults.
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
	// Fence is told of every renewal. Nil: nobody is told.
	Fence *Fence
	// Log is told who leads. Nil: nobody is told.
	Log *slog.Logger
	// OnStandby is called, from another goroutine, whenever another process is seen leading. May be nil.
	OnStandby func()

	// predecessor is shared by the elections for several leases; step says that another one follows.
	predecessor *predecessor
	step        bool
	// rewinds is shared, too.
	rewinds *rewinds
}

// Lead waits until this process holds the lease, which it takes at once when its holder gives it back, and then
// calls run with a context that ends when the lease is lost or ctx ends. The lease is released only after run
// has returned, so that the next leader never works beside this one. Lead returns run's error; nil when ctx
// ended first; ErrLeaseLost when the lease went first; ErrRewound when the API server was restored from an older state.
// Of several leases, losing one is losing all.
func Lead(ctx context.Context, o Options, run func(context.Context) error) error {
	o = o.withDefaults()
	return leadAll(ctx, o, append(slices.Clone(o.Before), o.Name), func(ctx context.Context) error { return o.rewinds.during(ctx, run) })
}

// lead is Lead for one lease.
func lead(ctx context.Context, o Options, run func(context.Context) error) error {
	client, err := kubernetes.NewForConfig(electionConfig(o))
	if err != nil {
		return fmt.Errorf("building the leader election client: %w", err)
	}
	watcher, err := kubernetes.NewForConfig(unbounded(o.Config))
	if err != nil {
		return fmt.Errorf("building the client that watches the lease: %w", err)
	}
	election, cancelElection := context.WithCancel(context.WithoutCancel(ctx))
	defer cancelElection()
	work, cancelWork := context.WithCancel(ctx)
	term := &term{run: run, cancelWork: cancelWork, cancelElection: cancelElection, done: make(chan struct{})}
	stop := context.AfterFunc(ctx, term.end)
	defer stop()
	for again := true; again; {
		turn := newTurn(election, watcher.CoordinationV1().Leases(o.Namespace), o)
		elector, err := o.elector(client, turn, func(lease context.Context) { term.serve(lease, work) })
		if err != nil {
			cancelWork()
			return fmt.Errorf("preparing the leader election: %w", err)
		}
		elector.Run(turn.ctx)
		again = turn.ended() && election.Err() == nil
	}
	return term.result(ctx)
}

// elector tries for the lease during one turn.
func (o Options) elector(client kubernetes.Interface, turn *turn, serve func(lease context.Context)) (*leaderelection.LeaderElector, error) {
	return leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: inherited{predecessor: o.predecessor, first: o.Name == o.predecessor.decides, Interface: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name},
			Client:     client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: o.Identity},
		}},
		LeaseDuration:   o.LeaseDuration,
		RenewDeadline:   o.RenewDeadline,
		RetryPeriod:     o.RetryPeriod,
		ReleaseOnCancel: true,
		Name:            o.Name, // in the metrics of the election
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(lease context.Context) {
				if turn.begin() {
					o.sayLeading()
					serve(lease)
				}
			},
			OnStoppedLeading: func() {},
			OnNewLeader: func(identity string) {
				if identity != o.Identity {
					o.sayStandingBy(identity)
					o.predecessor.saw(o.Name, identity)
					turn.standBy()
				}
			},
		},
	})
}

func (o Options) withDefaults() Options {
	if o.Identity == "" {
		o.Identity, _ = os.Hostname() // without a host name the random part alone is unique
	}
	o.Identity += "_" + strings.ToLower(rand.Text()) // ownIdentity knows the form
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
	o.rewinds = &rewinds{versions: map[string]string{}}
	o.predecessor = &predecessor{decides: append(slices.Clone(o.Before), o.Name)[0]}
	return o
}

// electionConfig bounds each request so that a stuck one cannot outlast the renew deadline.
func electionConfig(o Options) *rest.Config {
	cfg := rest.CopyConfig(o.Config)
	cfg.Timeout = o.RenewDeadline / 2
	cfg = o.rewinds.watch(cfg, o.Name)
	if o.Fence != nil {
		cfg = o.Fence.watch(cfg, o.Name, o.LeaseDuration)
	}
	return cfg
}

// unbounded is cfg for a watch, which lasts.
func unbounded(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.Timeout = 0
	return cfg
}

// sayLeading comes before the work: the log never shows what a leader did before it shows who leads.
func (o Options) sayLeading() {
	if o.step {
		o.Log.Debug("lease taken", "lease", o.Namespace+"/"+o.Name, "identity", o.Identity)
		return
	}
	o.Log.Info("leading", "lease", o.Namespace+"/"+o.Name, "identity", o.Identity)
}

// sayStandingBy tells who leads instead of this process.
func (o Options) sayStandingBy(leader string) {
	o.Log.Info("standing by", "lease", o.Namespace+"/"+o.Name, "leader", leader)
	if o.OnStandby != nil {
		o.OnStandby()
	}
}
