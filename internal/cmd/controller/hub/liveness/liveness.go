// Package liveness tracks for each Cluster whether its agent reports.
//
//	a Cluster changes ──► record: when lastSeen changed, by our clock ─┐
//	the next deadline ─────────────────────────────────────────────────┴─► judge all ─► On
//
// All Clusters share one timer. A heartbeat only updates its record and moves the deadline, so that all records are
// judged about once in two check-in intervals. The records end with the process. The next process gives every agent a
// whole interval again, except those that are already marked as silent.
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

// Pauses between two judgements of all Clusters.
const (
	// least is the minimum pause.
	least = 100 * time.Millisecond
	// pause is the pause while many agents return at once.
	pause = time.Second
)

// Options are the options of New. All are required.
type Options struct {
	// Cluster reads a Cluster from the cache. It returns nil if the Cluster does not exist.
	Cluster func(types.NamespacedName) *fleet.Cluster
	// Adopted reports whether the Bundle of a Cluster's agent was applied.
	Adopted func(*fleet.Cluster) bool
	Config  func() config.Config
	// Clock should be monotonic.
	Clock func() time.Time
	Log   *slog.Logger
	// OnMany is called when so many agents became silent at once that none of them is marked. It must not block.
	OnMany func(Many)
}

// Many describes workspaces in which so many agents became silent at once that none of them is marked.
type Many struct {
	// Workspaces are sorted.
	Workspaces []string
	// Agents are those of all these workspaces together.
	Agents supervision.Reports
}

// Tracker tracks all agents. It is safe for concurrent use.
type Tracker struct {
	o Options

	mu       sync.Mutex // guards the fields below
	records  map[types.NamespacedName]*record
	watchers []func(types.NamespacedName)
	late     []func(types.NamespacedName)
	// withheld are the workspaces in which so many agents are late that none is marked.
	withheld   map[string]bool
	heartbeats supervision.Heartbeats
	running    bool
	timer      *time.Timer
	next       time.Time // when the timer fires
}

// New returns an empty Tracker. It judges Clusters on request. Deadlines count once Run is called.
func New(o Options) *Tracker {
	return &Tracker{o: o, records: map[types.NamespacedName]*record{}}
}

// Watch observes the Clusters of an informer. Call it before the informer starts.
func (t *Tracker) Watch(clusters cache.SharedIndexInformer) error {
	return reconcile.Watch(clusters, func(c *fleet.Cluster) []types.NamespacedName {
		return []types.NamespacedName{{Namespace: c.Namespace, Name: c.Name}}
	}, t.observe)
}

// OnChange calls f with each Cluster whose agent becomes silent, missing or absent, or reports again. f must not block. Call
// it before Run.
func (t *Tracker) OnChange(f func(types.NamespacedName)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watchers = append(t.watchers, f)
}

// Stale reports whether a Cluster's agent has reported before and now counts as gone. While so many agents are silent
// at once that the hub is probably the cause, no other agent becomes stale for a while.
func (t *Tracker) Stale(cluster types.NamespacedName) bool {
	return t.stage(cluster) == supervision.ReportingSilent
}

// Gone returns the Clusters whose agents are stale, and those whose agents have never reported although there was time
// for that.
func (t *Tracker) Gone(clusters []*fleet.Cluster) (stale, absent map[types.NamespacedName]bool) {
	stale, absent = map[types.NamespacedName]bool{}, map[types.NamespacedName]bool{}
	for _, cluster := range clusters {
		key := types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name}
		if t.Stale(key) {
			stale[key] = true
		}
		if t.isAbsent(key) {
			absent[key] = true
		}
	}
	return stale, absent
}

// isAbsent returns the last outcome for a Cluster.
func (t *Tracker) isAbsent(cluster types.NamespacedName) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.records[cluster]
	return r != nil && r.absent
}

// Of returns the stage of a Cluster's agent, consistent with this version of the Cluster.
func (t *Tracker) Of(cluster *fleet.Cluster) supervision.Reporting {
	stage := t.stage(types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name})
	expected := supervision.AgentExpected(cluster, t.o.Config().Bootstrap)
	unheard := stage == supervision.ReportingAwaited || stage == supervision.ReportingMissing
	switch heard := !cluster.Status.Agent.LastSeen.IsZero(); {
	case !expected:
		return supervision.ReportingUnexpected
	case heard && (unheard || stage == supervision.ReportingUnexpected):
		return supervision.ReportingHeard // the cache is newer than the caller's Cluster, and the caller will be enqueued for it
	case !heard && !unheard:
		return supervision.ReportingAwaited // as above
	}
	return stage
}

// OnLate calls f with each Cluster whose agent is late but not marked as silent because too many are. f must not
// block. Call it before Run.
func (t *Tracker) OnLate(f func(types.NamespacedName)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.late = append(t.late, f)
}

// Late reports whether the deadline of a Cluster's agent has passed. Unlike Stale, it also does so while too many
// agents are silent to mark any of them.
func (t *Tracker) Late(cluster types.NamespacedName) bool {
	t.observe(cluster)
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.records[cluster]
	return r != nil && (r.late || r.stage == supervision.ReportingSilent)
}

// stage observes a Cluster and returns the stage of its agent.
func (t *Tracker) stage(cluster types.NamespacedName) supervision.Reporting {
	t.observe(cluster)
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.records[cluster]; r != nil {
		return r.stage
	}
	return supervision.ReportingUnexpected
}

// Run judges all Clusters when deadlines pass, until ctx ends.
func (t *Tracker) Run(ctx context.Context) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running = true
	t.timer = time.AfterFunc(0, t.DecideAll)
	context.AfterFunc(ctx, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.running = false
		t.timer.Stop()
	})
}

// notify calls the watchers. The caller must not hold the lock.
func (t *Tracker) notify(clusters ...types.NamespacedName) {
	for _, cluster := range clusters {
		for _, watcher := range t.watchers {
			watcher(cluster)
		}
	}
}
