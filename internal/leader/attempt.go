package leader

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

// attempt is one try to acquire the lease. On standby, it ends when the lease becomes free or expires, so that the
// next attempt acquires it immediately. The elector alone would check again only after its retry period.
//
//	stand by ─► watch the Lease ─► free, or expired ─► end of this attempt ─► the next attempt acquires
type attempt struct {
	ctx    context.Context //nolint:containedctx // the lifetime of the attempt; the elector runs in it
	cancel context.CancelFunc
	leases coordinationv1client.LeaseInterface
	name   string
	// rewatchInterval is the minimum pause between two watches.
	rewatchInterval time.Duration
	// expiry is shared by all attempts.
	expiry *expiry

	watched sync.Once
	// state changes once: to leading or to over.
	state atomic.Int32
}

// States of an attempt.
const (
	waiting int32 = iota
	leading
	over
)

func newAttempt(ctx context.Context, leases coordinationv1client.LeaseInterface, o Options) *attempt {
	a := &attempt{leases: leases, name: o.Name, rewatchInterval: o.RetryPeriod, expiry: o.expiry}
	a.ctx, a.cancel = context.WithCancel(ctx)
	return a
}

// begin reports whether the work may start. It may not if the attempt was ended during the election. Then the next
// attempt finds that this process holds the lease, and goes on with it.
func (a *attempt) begin() bool { return a.state.CompareAndSwap(waiting, leading) }

// standBy is called when another process is seen leading.
func (a *attempt) standBy() { a.watched.Do(func() { go a.watch() }) }

// free ends the attempt, unless it leads already.
func (a *attempt) free() {
	if a.state.CompareAndSwap(waiting, over) {
		a.cancel()
	}
}

// ended reports whether the attempt was ended for the next one, and releases its resources.
func (a *attempt) ended() bool {
	a.cancel()
	return a.state.Load() == over
}

// watch watches the lease until the attempt ends. A failed watch is not an error, because the elector also polls
// the lease, only later.
func (a *attempt) watch() {
	pause := time.NewTicker(a.rewatchInterval)
	defer pause.Stop()
	for {
		watching, err := a.leases.Watch(a.ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, a.name).String()})
		if err == nil {
			a.follow(watching)
		}
		select {
		case <-pause.C:
		case <-a.ctx.Done():
			return
		}
	}
}

func (a *attempt) follow(watching watch.Interface) {
	defer watching.Stop()
	for event := range watching.ResultChan() {
		lease, ok := event.Object.(*coordinationv1.Lease)
		if !ok {
			return // the API server sent an error
		}
		if event.Type == watch.Deleted || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
			a.free()
			return
		}
		a.expiry.see(lease, a.free)
	}
}
