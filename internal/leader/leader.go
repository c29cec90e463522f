package leader

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/fleet-hub/fleet/internal/kube"
)

// ErrLeaseLost is returned by Lead when the lease could not be renewed in time. Another replica may be leading
// already, and the caches of run are stale. Callers end the process.
var ErrLeaseLost = errors.New("lost the leader election lease")

// Defaults of the election.
const (
	DefaultLeaseDuration = 45 * time.Second
	DefaultRenewDeadline = 30 * time.Second
	DefaultRetryPeriod   = 2 * time.Second
)

// Options configures an election.
type Options struct {
	// Config is the client configuration for the API server with the Lease.
	Config *rest.Config
	// Namespace and Name identify the Lease.
	Namespace, Name string
	// Before contains the names of further Leases in that namespace. They are acquired before the Lease, in this
	// order, and released after it. A replica works only while it holds all of them. The first one decides between
	// replicas. It is usually empty.
	Before []string
	// Identity names this process in the lease. A random part is appended, so that two processes on one host never
	// have the same identity.
	Identity string
	// LeaseDuration, RenewDeadline and RetryPeriod are the times of the election. Zero means the default.
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
	// Fence is notified of every renewal. Nil disables it.
	Fence *Fence
	// Log receives the log lines. Nil disables logging.
	Log *slog.Logger
	// Predecessors is the prefix of the identities of processes that ended before this one began, from [EarlierProcesses]. A Lease
	// that one of them holds is acquired at once. Empty means that no identity shows that its process has ended.
	Predecessors string
	// OnStandby is called from another goroutine whenever another process is seen leading. It may be nil.
	OnStandby func()
	// OnBlocked is called with the name of a Lease at each attempt to acquire it that the API server refuses, unless another
	// process acquired it. OnStandby follows when another process renews the Lease. It may be nil.
	OnBlocked func(lease string, err error)
	// OnStateRestored is called on standby when the API server was restored from an older state, so that caches that are filled
	// already are invalid. The caller ends the process. It may be nil.
	OnStateRestored func()

	// predecessor is shared by the elections for several leases.
	predecessor *predecessor
	// first means that no lease is held yet.
	first bool
	// step means that another election follows.
	step bool
	// expiry is shared by the attempts of one election.
	expiry *expiry
	// restoreDetector is also shared.
	restoreDetector *restoreDetector
}

// Lead waits until this process holds the lease and then calls run. It acquires the lease immediately when the
// holder releases it, or when a lease that is not renewed has expired. The context of run ends when the lease is lost or ctx ends. The lease is released only
// after run has returned, so that two leaders never work at the same time. Lead returns run's error, nil if ctx
// ended first, ErrLeaseLost if the lease was lost first, or ErrStateRestored if the API server was restored from an
// older state. With several leases, losing one means losing all.
func Lead(ctx context.Context, o Options, run func(context.Context) error) error {
	o = o.withDefaults()
	return leadAll(ctx, o, append(slices.Clone(o.Before), o.Name), func(ctx context.Context) error { return o.restoreDetector.run(ctx, run) })
}

// lead implements Lead for one lease.
func lead(ctx context.Context, o Options, run func(context.Context) error) error {
	client, err := coordinationv1.NewForConfig(electionConfig(o))
	if err != nil {
		return fmt.Errorf("building the leader election client: %w", err)
	}
	watcher, err := coordinationv1.NewForConfig(kube.Watching(o.Config))
	if err != nil {
		return fmt.Errorf("building the client that watches the lease: %w", err)
	}
	election, cancelElection := context.WithCancel(context.WithoutCancel(ctx))
	defer cancelElection()
	work, cancelWork := context.WithCancel(ctx)
	term := &term{run: run, cancelWork: cancelWork, cancelElection: cancelElection, done: make(chan struct{})}
	stop := context.AfterFunc(ctx, term.end)
	defer stop()
	o.expiry = &expiry{}
	defer o.expiry.stop()
	held := false
	for again := true; again; {
		attempt := newAttempt(election, watcher.Leases(o.Namespace), o)
		elector, err := o.elector(client, attempt, func(lease context.Context) { term.serve(lease, work) })
		if err != nil {
			cancelWork()
			return fmt.Errorf("preparing the leader election: %w", err)
		}
		elector.Run(attempt.ctx)
		held = held || elector.IsLeader()
		again = attempt.ended() && election.Err() == nil
	}
	err = term.result(ctx)
	if held && term.over() {
		o.release(ctx)
	}
	return err
}

// elector returns an elector for one attempt.
func (o Options) elector(client coordinationv1.LeasesGetter, attempt *attempt, serve func(lease context.Context)) (*leaderelection.LeaderElector, error) {
	return leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &inherited{predecessor: o.predecessor, ended: o.Predecessors, expiry: o.expiry, first: o.first, renewed: o.sayStandingBy, refused: o.sayBlocked, Interface: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name},
			Client:     client,
			LockConfig: resourcelock.ResourceLockConfig{Identity: o.Identity},
		}},
		LeaseDuration:   o.LeaseDuration,
		RenewDeadline:   o.RenewDeadline,
		RetryPeriod:     o.RetryPeriod,
		ReleaseOnCancel: false,  // release does it, after the work
		Name:            o.Name, // used in the metrics of the election
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(lease context.Context) {
				if attempt.begin() {
					o.sayLeading()
					serve(lease)
				}
			},
			OnStoppedLeading: func() {},
			OnNewLeader: func(identity string) {
				if identity != "" && identity != o.Identity { // "" if the Lease was released
					o.sayStandingBy(identity)
					attempt.standBy()
				}
			},
		},
	})
}

func (o Options) withDefaults() Options {
	o.Identity += identitySeparator + strings.ToLower(rand.Text()) // must match ownIdentity
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
	o.restoreDetector = &restoreDetector{versions: map[string]string{}, noticed: o.OnStateRestored}
	o.predecessor, o.first = &predecessor{}, true
	return o
}

// electionConfig limits each request, so that a stuck request does not outlast the renew deadline. An overloaded API server
// may ask for a longer pause than the lease lasts.
func electionConfig(o Options) *rest.Config {
	cfg := kube.RetrySoon(o.Config)
	cfg.Timeout = o.RenewDeadline / 2
	cfg = o.restoreDetector.watch(cfg, o.Name)
	if o.Fence != nil {
		cfg = o.Fence.watch(cfg, o.Name, o.LeaseDuration)
	}
	return cfg
}

// Blocked describes a Lease that cannot be acquired, although no other process leads. process names this one, and effect says
// what it does not do meanwhile.
func Blocked(namespace, lease, process, effect string, err error) string {
	return fmt.Sprintf("Lease %[1]s/%[2]s cannot be acquired, so that %[3]s %[4]s: %[5]v. "+
		"Correct what the error names, such as a full etcd, an admission webhook or a missing right; %[3]s then continues by itself. "+
		`To test it, run: kubectl annotate --overwrite -n %[1]s leases.coordination.k8s.io %[2]s tested="$(date)"`, namespace, lease, process, effect, err)
}

// sayBlocked reports that the Lease cannot be acquired.
func (o Options) sayBlocked(err error) {
	if o.OnBlocked != nil {
		o.OnBlocked(o.Name, err)
	}
}

// sayLeading logs the start of leadership. It is called before the work, so that this line comes before the
// leader's other lines.
func (o Options) sayLeading() {
	if o.step {
		o.Log.Debug("lease taken", "lease", o.Namespace+"/"+o.Name, "identity", o.Identity)
		return
	}
	o.Log.Info("leading", "lease", o.Namespace+"/"+o.Name, "identity", o.Identity)
}

// sayStandingBy logs which other process leads.
func (o Options) sayStandingBy(leader string) {
	o.Log.Info("standing by", "lease", o.Namespace+"/"+o.Name, "leader", leader)
	if o.OnStandby != nil {
		o.OnStandby()
	}
}
