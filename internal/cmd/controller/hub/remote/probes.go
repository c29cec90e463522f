package remote

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Options of Probes.
type Options struct {
	// Kubeconfig returns the kubeconfig of a Cluster. It returns nil if the Cluster may use none.
	Kubeconfig func(ctx context.Context, cluster *fleet.Cluster) ([]byte, error)
	// IsLocal reports whether a Cluster is the hub's own, which is not probed.
	IsLocal func(*fleet.Cluster) bool
	// Enqueue reconciles a Cluster.
	Enqueue func(namespace, name string)
}

// Probes holds the new Clusters that this process has probed.
type Probes struct {
	Options

	scheduler *Scheduler
	mu        sync.Mutex
	known     map[string]*newCluster
}

type state int

const (
	// pending means that the probe has not finished, or that an unreachable cluster waits for its turn.
	pending state = iota
	// probed means that the result was not used yet.
	probed
	// used means that the result was used, or that there was nothing to probe.
	used
)

type newCluster struct {
	uid   types.UID
	state state
	err   error
	// reconciled ends the turn of an unreachable cluster. It is closed when the Cluster was reconciled, or is gone.
	reconciled context.CancelFunc
}

func (c *newCluster) endTurn() {
	if c != nil && c.reconciled != nil {
		c.reconciled()
	}
}

// NewProbes returns Probes that use a scheduler.
func NewProbes(scheduler *Scheduler, o Options) *Probes {
	return &Probes{Options: o, scheduler: scheduler, known: map[string]*newCluster{}}
}

func keyOf(cluster *fleet.Cluster) string { return cluster.Namespace + "/" + cluster.Name }

// Start reports whether a new Cluster must not be reconciled yet. The first call starts the probe. Its end enqueues the
// Cluster.
func (p *Probes) Start(cluster *fleet.Cluster) (isPending bool) {
	if cluster.Spec.KubeConfigSecret == "" || p.IsLocal(cluster) {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	found := p.known[keyOf(cluster)]
	if found != nil && found.uid == cluster.UID {
		return found.state == pending
	}
	found.endTurn() // another Cluster of the same name
	p.known[keyOf(cluster)] = &newCluster{uid: cluster.UID}
	p.scheduler.Submit(Job{
		Workspace:  cluster.Namespace,
		Kubeconfig: func(ctx context.Context) ([]byte, error) { return p.Kubeconfig(ctx, cluster) },
		ProbeOnly:  true,
		Do:         func(ctx context.Context, kubeconfig []byte, err error) { p.probed(ctx, cluster, kubeconfig, err) },
	})
	return true
}

// probed records the result of a probe. An unreachable cluster first waits for its turn, which lasts until the Cluster
// was reconciled.
func (p *Probes) probed(ctx context.Context, cluster *fleet.Cluster, kubeconfig []byte, err error) {
	switch {
	case ctx.Err() != nil:
		return // the process is stopping
	case kubeconfig == nil:
		p.finish(ctx, cluster, used, nil) // the import reports what is missing or cannot be read
	case err == nil:
		p.finish(ctx, cluster, probed, nil)
	default:
		p.scheduler.turns.add(cluster.Namespace, func(ctx context.Context) { <-p.finish(ctx, cluster, probed, err).Done() })
	}
}

// finish sets the state of a Cluster and enqueues it. The returned context ends when the Cluster was reconciled, at the
// latest after longestTurn.
func (p *Probes) finish(ctx context.Context, cluster *fleet.Cluster, became state, err error) context.Context {
	turn, end := context.WithTimeout(ctx, longestTurn)
	p.mu.Lock()
	found := p.known[keyOf(cluster)]
	if found == nil || found.uid != cluster.UID {
		end() // it was deleted in the meantime
	} else {
		found.state, found.err, found.reconciled = became, err, end
	}
	p.mu.Unlock()
	p.Enqueue(cluster.Namespace, cluster.Name)
	return turn
}

// IsPending reports whether the Cluster "<namespace>/<name>" must not be reconciled yet.
func (p *Probes) IsPending(cluster string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	found := p.known[cluster]
	return found != nil && found.state == pending
}

// Result returns the result of a Cluster's probe: an error if the cluster did not answer. It does so only once.
func (p *Probes) Result(cluster string) (wasProbed bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	found := p.known[cluster]
	if found == nil || found.state != probed {
		return false, nil
	}
	found.state = used
	return true, found.err
}

// Reconciled records that a Cluster was reconciled.
func (p *Probes) Reconciled(cluster string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known[cluster].endTurn()
}

// Forget removes a Cluster that is gone.
func (p *Probes) Forget(cluster string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known[cluster].endTurn()
	delete(p.known, cluster)
}
