// Package liveness knows of every Cluster whether its agent is heard of.
//
//	a Cluster changes ──► record: when lastSeen changed, by our clock ─┐
//	the next deadline ─────────────────────────────────────────────────┴─► judge all ─► OnChange
//
// There is one timer for all Clusters. A heartbeat costs a look at its record; deadlines only move away by it, so that
// all records are judged about once in two check-in intervals. What is known ends with the process: the next one gives
// every agent its whole time anew, except those that are marked as silent already.
package liveness

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/supervision"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Times between two judgements of all Clusters.
const (
	// least there is, whatever happens.
	least = 100 * time.Millisecond
	// pause there is while many agents return at once.
	pause = time.Second
)

// Options of New. All are required.
type Options struct {
	// Cluster reads a Cluster from the cache; nil if there is none.
	Cluster func(types.NamespacedName) *fleet.Cluster
	// Adopted says whether the Bundle of a Cluster's agent was applied.
	Adopted func(*fleet.Cluster) bool
	Config  func() config.Config
	// Clock should be monotonic.
	Clock func() time.Time
	Log   *slog.Logger
	// OnMany is called when so many agents fell silent at once that none of them is marked. It must not block.
	OnMany func(silent, heardOf int)
}

// Tracker is safe for concurrent use.
type Tracker struct {
	o Options

	mu       sync.Mutex // guards what follows
	records  map[types.NamespacedName]*record
	watchers []func(types.NamespacedName)
	late     []func(types.NamespacedName)
	many     bool // so many agents are late that none is marked
	running  bool
	timer    *time.Timer
	next     time.Time // when the timer ends
}

// New is a Tracker that knows nothing. It judges what it is asked about; deadlines count from Run on.
func New(o Options) *Tracker {
	return &Tracker{o: o, records: map[types.NamespacedName]*record{}}
}

// Watch observes the Clusters of an informer. To be called before it starts.
func (t *Tracker) Watch(clusters cache.SharedIndexInformer) error {
	return reconcile.Watch(clusters, func(c *fleet.Cluster) []types.NamespacedName {
		return []types.NamespacedName{{Namespace: c.Namespace, Name: c.Name}}
	}, t.observe)
}

// OnChange calls f with every Cluster whose agent has come to be silent or missing, or is heard of again. f must not
// block. To be called before Run.
func (t *Tracker) OnChange(f func(types.NamespacedName)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watchers = append(t.watchers, f)
}

// Stale says whether a Cluster's agent was heard of once and counts as gone now. While so many agents are silent at
// once that it is rather the hub's fault, those that were not stale before are not.
func (t *Tracker) Stale(cluster types.NamespacedName) bool {
	return t.stage(cluster) == supervision.ReportingSilent
}

// Of says how it is with a Cluster's agent, as far as this state of the Cluster knows.
func (t *Tracker) Of(cluster *fleet.Cluster) supervision.Reporting {
	stage := t.stage(types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name})
	expected := supervision.AgentExpected(cluster, t.o.Config().Bootstrap)
	unheard := stage == supervision.ReportingAwaited || stage == supervision.ReportingMissing
	switch heard := !cluster.Status.Agent.LastSeen.IsZero(); {
	case !expected:
		return supervision.ReportingUnexpected
	case heard && (unheard || stage == supervision.ReportingUnexpected):
		return supervision.ReportingHeard // the cache knows more than the caller, who will see it, too
	case !heard && !unheard:
		return supervision.ReportingAwaited // as above
	}
	return stage
}

// OnLate calls f with every Cluster whose agent is late without being marked as silent, because too many are at once.
// f must not block. To be called before Run.
func (t *Tracker) OnLate(f func(types.NamespacedName)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.late = append(t.late, f)
}

// Late reports whether the deadline of a Cluster's agent has passed. Unlike Stale it does so also while so many agents
// are silent that none of them is marked.
func (t *Tracker) Late(cluster types.NamespacedName) bool {
	t.observe(cluster)
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.records[cluster]
	return r != nil && (r.late || r.stage == supervision.ReportingSilent)
}

// stage looks at a Cluster and says how it is with its agent.
func (t *Tracker) stage(cluster types.NamespacedName) supervision.Reporting {
	t.observe(cluster)
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.records[cluster]; r != nil {
		return r.stage
	}
	return supervision.ReportingUnexpected
}

// Run judges when deadlines are over, until ctx ends.
func (t *Tracker) Run(ctx context.Context) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running = true
	t.timer = time.AfterFunc(0, t.Judge)
	context.AfterFunc(ctx, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.running = false
		t.timer.Stop()
	})
}

// tell calls the watchers; not to be called with the lock held.
func (t *Tracker) tell(clusters ...types.NamespacedName) {
	for _, cluster := range clusters {
		for _, watcher := range t.watchers {
			watcher(cluster)
		}
	}
}
