package remote

import (
	"context"
	"sync"
	"time"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/fairqueue"
)

// Limits of the work on other clusters.
const (
	// probes is the number of probes at once, retries that of clusters that did not answer the last time in addition.
	probes, retries = 600, 400
	// workers is the number of clusters that are worked on at once, slowWorkers that of slow ones in addition. Two thirds of
	// them at most are for clusters of one workspace: its users may have servers that answer a probe at once and keep each of
	// the other requests waiting.
	workers, slowWorkers           = 30, 15
	perWorkspace, slowPerWorkspace = workers * 2 / 3, slowWorkers * 2 / 3
	// turns is the number of new, unreachable clusters whose objects on the hub are created at once.
	turns = 4
	// longestTurn limits such a turn. A Cluster that this process no longer reconciles must not keep it.
	longestTurn = time.Minute
	// firstConnect and laterConnect are the time limits for a connection at the first probe and at later ones. The
	// time limit for an answer is another one: see foreign.Reach.
	firstConnect, laterConnect = 5 * time.Second, 15 * time.Second
	// slowAnswer is the response time from which a cluster counts as slow.
	slowAnswer = 2 * time.Second
)

// ReachFunc checks whether the address in a kubeconfig accepts connections within connect. local is set for the hub's
// own Cluster.
type ReachFunc func(ctx context.Context, kubeconfig []byte, connect time.Duration, local bool) error

// Job describes work on another cluster.
type Job struct {
	// Workspace is the namespace of the Cluster.
	Workspace string
	// Kubeconfig returns the kubeconfig of the cluster. It returns nil if there is none: then there is nothing to
	// probe, and Do runs at once.
	Kubeconfig func(ctx context.Context) ([]byte, error)
	// Local is set for the hub's own Cluster.
	Local bool
	// Retry means that the cluster did not answer the last time. It gets more time to do so.
	Retry bool
	// ProbeOnly means that Do needs no worker, because it does nothing on the cluster.
	ProbeOnly bool
	// CanWait means that the job uses the workers for slow clusters.
	CanWait bool
	// Do is called once. err means that the kubeconfig could not be read, or that the cluster did not answer. If the
	// process is stopping, the context has ended; then Do may not be called at all.
	Do func(ctx context.Context, kubeconfig []byte, err error)
}

// Scheduler runs jobs. The caller makes sure that there is one job of a cluster at a time.
type Scheduler struct {
	clock func() time.Time
	reach ReachFunc

	probes, retries, workers, slowWorkers, turns *pool
}

// NewScheduler returns a Scheduler that does nothing before Run.
func NewScheduler(clock func() time.Time, reach ReachFunc) *Scheduler {
	return &Scheduler{
		clock: clock, reach: reach, probes: newPool(probes), retries: newPool(retries),
		workers: newSharedPool(workers, perWorkspace), slowWorkers: newSharedPool(slowWorkers, slowPerWorkspace), turns: newPool(turns),
	}
}

// Run runs jobs until ctx ends.
func (s *Scheduler) Run(ctx context.Context) {
	var running sync.WaitGroup
	for _, p := range []*pool{s.probes, s.retries, s.workers, s.slowWorkers, s.turns} {
		running.Go(func() { p.run(ctx) })
	}
	running.Wait()
}

// Submit queues a job.
func (s *Scheduler) Submit(j Job) {
	p := s.probes
	if j.Retry {
		p = s.retries
	}
	p.submit(&task{j.Workspace, func(ctx context.Context, release func()) { s.probe(ctx, release, j) }})
}

func (s *Scheduler) probe(ctx context.Context, release func(), j Job) {
	kubeconfig, err := j.Kubeconfig(ctx)
	if err != nil || len(kubeconfig) == 0 {
		release()
		j.Do(ctx, nil, err)
		return
	}
	connect, began := firstConnect, s.clock()
	if j.Retry {
		connect = laterConnect
	}
	if err = s.reach(ctx, kubeconfig, connect, j.Local); err != nil || j.ProbeOnly {
		release() // requests to the hub must not delay the next probe
		j.Do(ctx, kubeconfig, err)
		return
	}
	p := s.workers
	if j.CanWait || j.Retry || s.clock().Sub(began) > slowAnswer {
		p = s.slowWorkers
	}
	p.add(j.Workspace, func(ctx context.Context) { j.Do(ctx, kubeconfig, nil) })
}

// pool runs tasks: at most limit at a time, and at most share of one workspace.
type pool struct {
	limit int
	tasks *fairqueue.Queue[*task]
	// changed is signaled when a task was added or has ended.
	changed chan struct{}
}

// task is work that may call release when it needs its place in the pool no longer.
type task struct {
	workspace string
	do        func(ctx context.Context, release func())
}

func newPool(limit int) *pool { return newSharedPool(limit, limit) }

func newSharedPool(limit, share int) *pool {
	return &pool{limit: limit, tasks: fairqueue.New(share, func(t *task) string { return t.workspace }), changed: make(chan struct{}, 1)}
}

func (p *pool) add(workspace string, do func(context.Context)) {
	p.submit(&task{workspace, func(ctx context.Context, _ func()) { do(ctx) }})
}

func (p *pool) submit(t *task) {
	p.tasks.Push(t)
	p.signal()
}

func (p *pool) signal() {
	select {
	case p.changed <- struct{}{}:
	default: // run looks at everything that has changed
	}
}

func (p *pool) run(ctx context.Context) {
	running := make(chan struct{}, p.limit)
	for {
		for p.tasks.Len() > 0 {
			running <- struct{}{}
			next := p.tasks.Pop()
			go func() {
				release := sync.OnceFunc(func() { <-running; p.tasks.Done(next); p.signal() })
				defer release()
				next.do(ctx, release)
			}()
		}
		select {
		case <-ctx.Done():
			return
		case <-p.changed:
		}
	}
}
