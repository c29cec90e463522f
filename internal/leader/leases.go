package leader

import (
	"context"
	"regexp"
	"sync"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// Several leases are held like one: who wants to lead takes the first, which decides between replicas of this
// program, then the others, and works when it has all. Other programs may hold any of them by themselves.
//
//	first lease ─► second ─► last ─► work ─► last given back ─► second ─► first

// leadAll takes the first of some leases, and tries for the others only while it holds that one: two replicas that
// each had some of them would wait for one another for ever.
func leadAll(ctx context.Context, o Options, names []string, run func(context.Context) error) error {
	o.Name, o.step = names[0], len(names) > 1
	if !o.step {
		return lead(ctx, o, run)
	}
	return lead(ctx, o, func(ctx context.Context) error { return leadAll(ctx, o, names[1:], run) })
}

// ownIdentity is the form of the identities that withDefaults makes. Each is of one process; those of other programs
// may be of several, on several leases, of which one can end while the other works.
var ownIdentity = regexp.MustCompile(`_[a-z2-7]{26}$`)

// predecessor is the replica that led before this one.
type predecessor struct {
	// decides is the lease by which it is known.
	decides string

	mu       sync.Mutex
	identity string
}

// saw notes who holds a lease; nobody, if identity is empty: one that gave it back gives back the others itself, and
// one whose lease was deleted may not know yet.
func (p *predecessor) saw(lease, identity string) {
	if lease != p.decides {
		return
	}
	if !ownIdentity.MatchString(identity) {
		identity = ""
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.identity = identity
}

// is says whether this is the predecessor.
func (p *predecessor) is(identity string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return identity != "" && identity == p.identity
}

// inherited is the lock of a lease that a predecessor may have left behind: one that ends without giving its leases
// back is gone when its first lease has run out, and then the others are waited for no longer.
type inherited struct {
	resourcelock.Interface
	predecessor *predecessor
	// first says that this is the lease that has to run out.
	first bool
}

// Get shows a lease of the predecessor as free.
func (l inherited) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err != nil || l.first || !l.predecessor.is(record.HolderIdentity) {
		return record, raw, err
	}
	free := *record
	free.HolderIdentity = ""
	return &free, raw, nil
}
