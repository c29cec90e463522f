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

// turn is one attempt to acquire the lease. On standby, it ends when the lease becomes free or expires, so that the
// next turn acquires it immediately. The elector alone would check again only after its retry period.
//
//	stand by ─► watch the Lease ─► free, or expired ─► end of this turn ─► the next turn acquires
type turn struct {
	ctx    context.Context //nolint:containedctx // the lifetime of the turn; the elector runs in it
	cancel context.CancelFunc
	leases coordinationv1client.LeaseInterface
	name   string
	// watchInterval is the minimum time between two watches.
	watchInterval time.Duration
	// expiry is shared by all turns.
	expiry *expiry

	watched sync.Once
	// state changes once: to leading or to over.
	state atomic.Int32
}

// States of a turn.
const (
	waiting int32 = iota
	leading
	over
)

func newTurn(ctx context.Context, leases coordinationv1client.LeaseInterface, o Options) *turn {
	t := &turn{leases: leases, name: o.Name, watchInterval: o.RetryPeriod, expiry: o.expiry}
	t.ctx, t.cancel = context.WithCancel(ctx)
	return t
}

// begin reports whether the work may start. It may not if the turn was ended during the election. Then the
// elector releases the lease, and the next turn acquires it.
func (t *turn) begin() bool { return t.state.CompareAndSwap(waiting, leading) }

// standBy is called when another process is seen leading.
func (t *turn) standBy() { t.watched.Do(func() { go t.watch() }) }

// free ends the turn, unless it leads already.
func (t *turn) free() {
	if t.state.CompareAndSwap(waiting, over) {
		t.cancel()
	}
}

// ended reports whether the turn was ended for the next one, and releases its resources.
func (t *turn) ended() bool {
	t.cancel()
	return t.state.Load() == over
}

// watch watches the lease until the turn ends. A failed watch is not an error, because the elector also polls
// the lease, only later.
func (t *turn) watch() {
	pause := time.NewTicker(t.watchInterval)
	defer pause.Stop()
	for {
		watching, err := t.leases.Watch(t.ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, t.name).String()})
		if err == nil {
			t.follow(watching)
		}
		select {
		case <-pause.C:
		case <-t.ctx.Done():
			return
		}
	}
}

func (t *turn) follow(watching watch.Interface) {
	defer watching.Stop()
	for event := range watching.ResultChan() {
		lease, ok := event.Object.(*coordinationv1.Lease)
		if !ok {
			return // the API server sent an error
		}
		if event.Type == watch.Deleted || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
			t.free()
			return
		}
		t.expiry.see(lease, t.free)
	}
}
