package leader

import (
	"context"
	"regexp"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/util/retry"
)

// Several leases are held as one. A replica acquires the first, which decides between replicas of this program,
// then the others, and works when it holds all. Other programs may hold any one of them.
//
//	first lease ─► second ─► last ─► work ─► last released ─► second ─► first

// leadAll acquires the first lease, and tries to acquire the others only while it holds the first. Otherwise two
// replicas that each hold some of the leases would wait for each other forever.
func leadAll(ctx context.Context, o Options, names []string, run func(context.Context) error) error {
	o.Name, o.step = names[0], len(names) > 1
	if !o.step {
		return lead(ctx, o, run)
	}
	next := o
	next.first = false
	return lead(ctx, o, func(ctx context.Context) error { return leadAll(ctx, next, names[1:], run) })
}

// release makes the lease free, unless another process has acquired it. client-go would do that as soon as it stops renewing,
// while the work may still run, and without a look at the holder.
func (o Options) release(ctx context.Context) {
	if o.Fence != nil {
		o.Fence.close(o.Name)
		o.Fence = nil // the request below does not renew the lease
	}
	client, err := coordinationv1.NewForConfig(electionConfig(o))
	if err == nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.RenewDeadline)
		defer cancel()
		lock := &resourcelock.LeaseLock{LeaseMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name}, Client: client}
		err = retry.RetryOnConflict(retry.DefaultRetry, func() error { // the API server may be executing the last renewal
			record, _, err := lock.Get(ctx)
			if err != nil || record.HolderIdentity != o.Identity {
				return err
			}
			record.HolderIdentity, record.LeaseDurationSeconds = "", 1
			return lock.Update(ctx, *record)
		})
	}
	if err != nil && !apierrors.IsNotFound(err) {
		o.Log.Warn("the lease could not be released, the next leader waits until it expires", "lease", o.Namespace+"/"+o.Name, "error", err)
	}
}

// ownIdentity matches the identities of withDefaults. Each belongs to one process. An identity of another
// program may belong to several processes with different leases, where one can end while the other works.
var ownIdentity = regexp.MustCompile(`_[a-z2-7]{26}$`)

// identitySeparator separates the name of a replica from the random part of its identity.
const identitySeparator = "_"

// EarlierProcesses returns the prefix of the identities of the processes that ran in this pod before this one, or "" if
// the pod's name does not begin with that of its Deployment. A pod of ours runs one process, and kubelet starts the next one only
// after it has ended. Outside a pod, a host name does not show that: two processes may run on one host, and with host
// networking, HOSTNAME is the name of the node, which the next pod on that node shares.
func EarlierProcesses(pod, deployment string) string {
	if !strings.HasPrefix(pod, deployment+"-") {
		return ""
	}
	return pod + identitySeparator
}

// predecessor is the replica that led before this one, as the first lease names it.
type predecessor struct {
	mu       sync.Mutex
	identity string
}

// compare records the holder of the first lease. An empty identity clears it: a process that released this lease also
// releases the others, and a process whose lease was deleted may not know that yet.
func (p *predecessor) saw(identity string) {
	if !ownIdentity.MatchString(identity) {
		identity = ""
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.identity = identity
}

// is reports whether identity is the predecessor's.
func (p *predecessor) is(identity string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return identity != "" && identity == p.identity
}

// inherited is the lock of a lease that another process may not have released. This process need not wait until the lease of
// an earlier process of its pod expires. If the predecessor's first lease has expired, it is gone, and the other leases need not
// expire either.
type inherited struct {
	resourcelock.Interface
	predecessor *predecessor
	ended       string // Options.Predecessors
	expiry      *expiry
	// first means that this is the lease that must expire.
	first bool
	// refused is called when a request that would acquire the lease fails.
	refused func(error)
	// renewed is called with the holder when another process has renewed the lease after a write of this one failed.
	renewed func(holder string)

	held   bool        // a write has succeeded
	failed bool        // the last write, and none has succeeded
	seen   metav1.Time // the last renewal
}

// Create creates the lease for this process.
func (l *inherited) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.attempted(ctx, l.Interface.Create(ctx, record))
}

// Update acquires or renews the lease.
func (l *inherited) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.attempted(ctx, l.Interface.Update(ctx, record))
}

// attempted reports an error of a request that would acquire the lease, unless another process has written first.
func (l *inherited) attempted(ctx context.Context, err error) error {
	l.held = l.held || err == nil
	if !l.held && ctx.Err() == nil && !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
		l.failed = true
		l.refused(err)
	}
	return err
}

// see notices that another process has renewed the lease that this one could not acquire.
func (l *inherited) see(record *resourcelock.LeaderElectionRecord) {
	if l.failed && record.HolderIdentity != "" && !record.RenewTime.Equal(&l.seen) {
		l.failed = false
		l.renewed(record.HolderIdentity)
	}
	l.seen = record.RenewTime
}

// Get reports as free a lease of an earlier process of this pod, one that a watch has seen expire, and every lease of the
// predecessor except the first one, which identifies the predecessor. Another process that acquires or renews it at the same time causes a conflict.
func (l *inherited) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if l.first && apierrors.IsNotFound(err) {
		l.predecessor.saw("")
	}
	if apierrors.IsForbidden(err) {
		return record, raw, l.attempted(ctx, err) // every write needs a read before it
	}
	if err != nil {
		return record, raw, err
	}
	if record.HolderIdentity == l.Identity() {
		return record, raw, nil
	}
	l.see(record)
	if l.first {
		l.predecessor.saw(record.HolderIdentity)
	}
	ended := l.ended != "" && strings.HasPrefix(record.HolderIdentity, l.ended)
	if ended || l.expiry.of(record) || !l.first && l.predecessor.is(record.HolderIdentity) {
		free := *record
		free.HolderIdentity = ""
		return &free, raw, nil
	}
	return record, raw, nil
}
