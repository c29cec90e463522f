package capi

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	capirule "github.com/fleet-hub/fleet/internal/rules/capi"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// classed is a Cluster that the hub created, of a ClusterClass.
func classed(name, class string) *fleet.Cluster {
	return capirule.NewCluster(capiCluster(func(c *capirule.Cluster) {
		c.Name, c.Labels = name, map[string]string{fleet.LabelCAPIClass: class}
	}))
}

// decideGroup reconciles a ClusterGroup and compares the requests.
func (b *bench) decideGroup(class string, want ...string) {
	b.t.Helper()
	if err := b.groups.reconcile(types.NamespacedName{Namespace: ws, Name: class}); err != nil {
		b.t.Fatal(err)
	}
	hubtest.ExpectRequests(b.t, b.Hub, want...)
	b.Sync()
}

func TestAClusterClass_HasAClusterGroupWhileItIsUsed(t *testing.T) {
	b := newBench(t)
	b.decideGroup("small")
	b.Put(classed("east", "small"), classed("west", "small"))
	b.decideGroup("small", "create ClusterGroup team-a/small")
	b.decideGroup("small")
	group := hubtest.MustGet[*fleet.ClusterGroup](t, b.Hub, ws, "small")
	if selector := metav1.FormatLabelSelector(group.Spec.Selector); selector != "fleet.cattle.io/capi-class=small" {
		t.Errorf("selector %s", selector)
	}
	group.Spec.Selector = nil
	b.Put(group)
	b.decideGroup("small", "patch ClusterGroup team-a/small")
	b.Remove(classed("east", ""))
	b.decideGroup("small")
	b.Remove(classed("west", ""))
	b.decideGroup("small", "delete ClusterGroup team-a/small")
	b.decideGroup("small")
}

func TestAClusterGroupOfAUser_StaysAndIsReported(t *testing.T) {
	b := newBench(t)
	users := &fleet.ClusterGroup{ObjectMeta: metav1.ObjectMeta{Namespace: ws, Name: "small"}}
	b.Put(users, kubeconfigSecret())
	b.have(capiCluster(func(c *capirule.Cluster) { c.Labels[fleet.LabelCAPIClass] = "small" }))
	b.expect("get Secret team-a/east-kubeconfig", "create Cluster team-a/east")
	b.expect("update Cluster/status team-a/east")
	if reason := b.reason(); reason != conditions.ReasonNameTaken {
		t.Errorf("reason %q", reason)
	}
	b.decideGroup("small")
	b.Remove(users)
	b.decideGroup("small", "create ClusterGroup team-a/small")
	b.expect("update Cluster/status team-a/east")
	if reason := b.reason(); reason != "" {
		t.Errorf("reason %q", reason)
	}
}

func TestFailuresOfClusterGroups_AreReturned(t *testing.T) {
	for request, prepare := range map[string]func(*bench){
		"create ClusterGroup team-a/small": func(b *bench) { b.Put(classed("east", "small")) },
		"delete ClusterGroup team-a/small": func(b *bench) { b.Put(capirule.NewGroup(ws, "small")) },
		"patch ClusterGroup team-a/small": func(b *bench) {
			group := capirule.NewGroup(ws, "small")
			group.Spec.Selector = nil
			b.Put(classed("east", "small"), group)
		},
	} {
		b := newBench(t)
		prepare(b)
		b.Fail(request, errServer)
		if err := b.groups.reconcile(types.NamespacedName{Namespace: ws, Name: "small"}); !errors.Is(err, errServer) {
			t.Errorf("%s: error %v", request, err)
		}
	}
}

// Statuses of Clusters change all the time, and concern no ClusterGroup.
func TestChanges_EnqueueClusterClassesOnlyIfTheyConcernThem(t *testing.T) {
	b := newBench(t)
	clusters := func(before, after *fleet.Cluster) { b.groups.onChange(keyOfCluster(before), keyOfCluster(after)) }
	all := func(before, after *fleet.ClusterGroup) { b.groups.onChange(keyOfGroup(before), keyOfGroup(after)) }
	drain := func() (keys []string) {
		for b.groups.queue.Len() > 0 {
			key, _ := b.groups.queue.Get()
			keys = append(keys, key.Name)
			b.groups.queue.Done(key)
		}
		return keys
	}
	expect := func(what string, want int) {
		t.Helper()
		if got := drain(); len(got) != want {
			t.Errorf("%s: enqueued %v", what, got)
		}
	}
	small, beating, large := classed("east", "small"), classed("east", "small"), classed("east", "large")
	beating.Status.Agent.LastSeen = metav1.Now()
	clusters(nil, small)
	expect("a Cluster", 1)
	clusters(small, beating)
	expect("its heartbeat", 0)
	clusters(small, large)
	expect("another class", 2)
	clusters(large, nil)
	expect("its end", 1)
	clusters(nil, &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: ws, Name: "own", Labels: map[string]string{fleet.LabelCAPIClass: "small"}}})
	expect("a Cluster of a user", 0)

	group, counted := capirule.NewGroup(ws, "small"), capirule.NewGroup(ws, "small")
	counted.Status.ClusterCount = 7
	all(group, counted)
	expect("the status of a ClusterGroup", 0)
	all(group, nil)
	expect("its end", 1)

	b.Put(group, small, large)
	b.groups.enqueueAll()
	expect("all", 2)
	b.watch.store = nil
	b.groups.enqueueAll()
	expect("without a watch", 0)
}
