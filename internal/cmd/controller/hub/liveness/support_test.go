package liveness_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	cachetesting "k8s.io/client-go/tools/cache/testing"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/liveness"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/rules/supervision"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

const (
	workspace = "ws"
	interval  = 10 * time.Minute
)

// hub is a hub with Clusters, in the time of a synctest bubble.
type hub struct {
	t       *testing.T
	tracker *liveness.Tracker
	// standby is the tracker of another process, which observes the Clusters and does not run yet.
	standby *liveness.Tracker
	config  config.Config
	adopted bool
	// skew is how far the agents' clocks are ahead.
	skew time.Duration
	// spread is how long after the others an agent sends its heartbeats.
	spread map[string]time.Duration
	beats  []string
	end    context.CancelFunc
	uids   int

	mu      sync.Mutex
	objects map[types.NamespacedName]*fleet.Cluster
	reads   int
	told    []string
	since   time.Time
}

// begin returns a hub whose Clusters are imported and have just reported.
func begin(t *testing.T, names ...string) *hub {
	t.Helper()
	h := &hub{
		t: t, objects: map[types.NamespacedName]*fleet.Cluster{}, spread: map[string]time.Duration{},
		config: config.Config{AgentCheckinInterval: metav1.Duration{Duration: interval}},
	}
	for _, name := range names {
		h.store(h.made(name))
	}
	h.restart()
	return h
}

// restart starts another process. Its first judgements are not changes.
func (h *hub) restart() {
	h.t.Helper()
	if h.end != nil {
		h.end()
	}
	h.tracker = h.observer()
	h.run()
}

// observer returns the tracker of another process, which knows all Clusters.
func (h *hub) observer() *liveness.Tracker {
	tracker := liveness.New(liveness.Options{
		Cluster: h.read, Adopted: func(*fleet.Cluster) bool { return h.adopted }, Config: func() config.Config { return h.config },
		Clock: time.Now, Log: slog.New(slog.DiscardHandler), OnMany: h.many,
	})
	h.mu.Lock()
	names := h.names()
	h.mu.Unlock()
	for _, name := range names {
		tracker.Stale(key(name))
	}
	return tracker
}

// run starts the judgements. The first ones are not changes.
func (h *hub) run() {
	h.t.Helper()
	tracker := h.tracker
	tracker.OnChange(func(key types.NamespacedName) {
		cluster := h.cluster(nameOf(key))
		judged := string(tracker.Of(cluster)) // a watcher may ask
		if _, absent := tracker.Gone([]*fleet.Cluster{cluster}); len(absent) > 0 {
			judged += ", absent"
		}
		h.tell(nameOf(key) + " " + judged)
	})
	var ctx context.Context
	ctx, h.end = context.WithCancel(h.t.Context())
	tracker.Run(ctx)
	synctest.Wait()
	h.expect()
}

// takeOver ends the leader. The standby goes on.
func (h *hub) takeOver() {
	h.t.Helper()
	h.end()
	h.tracker, h.standby = h.standby, nil
	h.run()
}

// many tells in which other workspaces many agents are silent, and how many in all of them.
func (h *hub) many(many liveness.Many) {
	where := ""
	if diff := slices.Compare(many.Workspaces, []string{workspace}); diff != 0 {
		where = " in " + strings.Join(many.Workspaces, ", ")
	}
	h.tell(fmt.Sprintf("%d of %d%s", many.Agents.Late, many.Agents.Reported, where))
}

// key returns the key of "name", or of "workspace/name".
func key(name string) types.NamespacedName {
	if elsewhere, name, found := strings.Cut(name, "/"); found {
		return types.NamespacedName{Namespace: elsewhere, Name: name}
	}
	return types.NamespacedName{Namespace: workspace, Name: name}
}

func nameOf(key types.NamespacedName) string {
	if key.Namespace == workspace {
		return key.Name
	}
	return key.String()
}

func (h *hub) read(key types.NamespacedName) *fleet.Cluster {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reads++
	return h.objects[key]
}

func (h *hub) names() (names []string) {
	for key := range h.objects {
		names = append(names, nameOf(key))
	}
	sort.Strings(names)
	return names
}

func (h *hub) cluster(name string) *fleet.Cluster {
	h.mu.Lock()
	defer h.mu.Unlock()
	if found := h.objects[key(name)]; found != nil {
		return found.DeepCopy()
	}
	return &fleet.Cluster{}
}

// made returns a new Cluster.
func (h *hub) made(name string, modifiers ...func(*fleet.Cluster)) *fleet.Cluster {
	h.uids++
	cluster := &fleet.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: key(name).Namespace, Name: key(name).Name, UID: types.UID(fmt.Sprint(h.uids))},
		Spec:       fleet.ClusterSpec{KubeConfigSecret: "kubeconfig"},
		Status:     fleet.ClusterStatus{Agent: fleet.AgentStatus{LastSeen: h.says()}},
	}
	for _, modify := range modifiers {
		modify(cluster)
	}
	return cluster
}

// says returns the time of the agents' clocks.
func (h *hub) says() metav1.Time { return metav1.NewTime(time.Now().Add(h.skew).Truncate(time.Second)) }

func (h *hub) add(name string, modifiers ...func(*fleet.Cluster)) { h.put(h.made(name, modifiers...)) }

func (h *hub) change(name string, modifiers ...func(*fleet.Cluster)) {
	cluster := h.cluster(name)
	for _, modify := range modifiers {
		modify(cluster)
	}
	h.put(cluster)
}

func (h *hub) beaten(name string) *fleet.Cluster {
	cluster := h.cluster(name)
	cluster.Status.Agent.LastSeen = h.says()
	return cluster
}

// beat sends a heartbeat.
func (h *hub) beat(name string) { h.put(h.beaten(name)) }

// store has the cache know a Cluster, and put has the tracker hear of it.
func (h *hub) store(cluster *fleet.Cluster) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.objects[types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name}] = cluster
}

func (h *hub) put(cluster *fleet.Cluster) {
	h.store(cluster)
	for _, tracker := range []*liveness.Tracker{h.tracker, h.standby} {
		if tracker != nil {
			tracker.Stale(types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name}) // as the watch does
		}
	}
}

func (h *hub) remove(name string) {
	h.mu.Lock()
	delete(h.objects, key(name))
	h.mu.Unlock()
	h.tracker.Stale(key(name))
}

func unheard(c *fleet.Cluster) { c.Status.Agent.LastSeen = metav1.Time{} }

func imported(c *fleet.Cluster) {
	conditions.Set(&c.Status.Conditions, time.Now(), genericcondition.GenericCondition{Type: conditions.Imported, Status: "True"})
}

func installedByHand(c *fleet.Cluster) { c.Spec.KubeConfigSecret = "" }

func elsewhere(c *fleet.Cluster) {
	c.Labels = map[string]string{fleet.LabelClusterManagement: "somebody"}
}

// mark writes the tracker's stage into a Cluster's conditions.
func (h *hub) mark(name string) {
	h.change(name, func(c *fleet.Cluster) {
		conditions.Set(&c.Status.Conditions, time.Now(), *supervision.ReportingCondition(h.tracker.Of(c), c))
	})
}

func (h *hub) pass(d time.Duration) {
	h.t.Helper()
	<-time.After(d)
	synctest.Wait()
}

// beating names the agents that keep reporting in the following time.
func (h *hub) beating(names ...string) *hub {
	h.beats = names
	return h
}

// during advances the time. The agents in beating report once per interval.
func (h *hub) during(d time.Duration) {
	h.t.Helper()
	for passed := time.Duration(0); passed < d; passed += minute {
		h.pass(minute)
		for _, name := range h.beats {
			if time.Since(h.cluster(name).Status.Agent.LastSeen.Add(-h.skew)) >= interval+h.spread[name] {
				h.spread[name] = 0 // from then on it is
				h.beat(name)
			}
		}
	}
}

// forget drops what was told of a workspace's Clusters, and that many agents were silent there alone.
func (h *hub) forget(workspace string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.told = slices.DeleteFunc(h.told, func(told string) bool {
		return strings.Contains(told, " "+workspace+"/") || strings.HasSuffix(told, " in "+workspace)
	})
	if len(h.told) == 0 {
		h.told = nil
	}
}

func (h *hub) tell(what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.told = append(h.told, shortly(time.Since(h.since))+" "+what)
}

// shortly formats a duration in whole minutes, or in seconds below one minute.
func shortly(d time.Duration) string {
	if d < minute {
		return d.Truncate(time.Second).String()
	}
	return fmt.Sprintf("%dm", int(d.Minutes()))
}

// expect compares the changes since the last call, with the time of each.
func (h *hub) expect(want ...string) {
	h.t.Helper()
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	sort.Strings(h.told)
	if diff := cmp.Diff(want, h.told); diff != "" {
		h.t.Errorf("told (-want +got):\n%s", diff)
	}
	h.told, h.since = nil, time.Now()
}

func (h *hub) expectStale(want ...string) {
	h.t.Helper()
	h.mu.Lock()
	names := h.names()
	h.mu.Unlock()
	stale := slices.DeleteFunc(names, func(name string) bool { return !h.tracker.Stale(key(name)) })
	if diff := cmp.Diff(append([]string{}, want...), stale); diff != "" {
		h.t.Errorf("stale (-want +got):\n%s", diff)
	}
}

// The tracker observes the Clusters of an informer.
func TestWatch(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	defer end()
	told, known := make(chan string, 10), make(chan struct{})
	looked := sync.OnceFunc(func() { close(known) })
	source := cachetesting.NewFakeControllerSource()
	informer := cache.NewSharedIndexInformer(source, &fleet.Cluster{}, 0, cache.Indexers{})
	tracker := liveness.New(liveness.Options{
		Cluster: func(key types.NamespacedName) *fleet.Cluster {
			found, _, _ := informer.GetStore().GetByKey(key.String()) // a store does not fail
			cluster, _ := found.(*fleet.Cluster)
			return cluster
		},
		Adopted: func(*fleet.Cluster) bool {
			looked()
			return false
		},
		Config: func() config.Config { return config.Config{} },
		Clock:  time.Now, Log: slog.New(slog.DiscardHandler),
	})
	tracker.OnChange(func(key types.NamespacedName) { told <- key.Name })
	if err := tracker.Watch(informer); err != nil {
		t.Fatal(err)
	}
	go informer.Run(ctx.Done())
	cluster := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: workspace, Name: "east"}}
	source.Add(cluster)
	<-known
	heard := cluster.DeepCopy()
	heard.Status.Agent.LastSeen = metav1.Now()
	source.Modify(heard)
	select {
	case got := <-told:
		if got != "east" {
			t.Errorf("told of %s", got)
		}
	case <-time.After(time.Minute):
		t.Fatal("nothing is told")
	}
}
