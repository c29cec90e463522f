package agent

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/register/facts"
	"github.com/fleet-hub/fleet/internal/version"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// clusterFacts are what an agent has to say of east now.
func (s *site) clusterFacts() fleet.ClusterFacts {
	s.t.Helper()
	served, err := s.eastCore.Discovery().ServerVersion()
	s.must(err)
	found, err := s.eastCore.CoreV1().Nodes().List(s.t.Context(), metav1.ListOptions{})
	s.must(err)
	var all, ready int32
	for _, node := range found.Items {
		all++
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
				ready++
			}
		}
	}
	return fleet.ClusterFacts{
		KubernetesVersion: served.GitVersion, Platform: served.Platform, Nodes: &all, ReadyNodes: &ready, AgentVersion: version.Version,
	}
}

// setNode makes a node of east and says how it is.
func (s *site) setNode(name string, ready corev1.ConditionStatus, unschedulable bool) {
	s.t.Helper()
	nodes := s.eastCore.CoreV1().Nodes()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{Unschedulable: unschedulable}}
	node, err := nodes.Create(s.t.Context(), node, metav1.CreateOptions{})
	s.must(err)
	node.Status.Conditions = []corev1.NodeCondition{
		{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse}, {Type: corev1.NodeReady, Status: ready},
	}
	_, err = nodes.UpdateStatus(s.t.Context(), node, metav1.UpdateOptions{})
	s.must(err)
}

func TestHeartbeat_ReportsClusterFacts(t *testing.T) {
	s := newSite(t, "facts")
	nodes := s.eastCore.CoreV1().Nodes()
	t.Cleanup(func() {
		for _, name := range []string{"facts-1", "facts-2", "facts-3"} {
			_ = nodes.Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{}) // it may be gone
		}
	})
	s.setNode("facts-1", corev1.ConditionTrue, true)
	s.setNode("facts-2", corev1.ConditionFalse, false)
	token, values := s.token("t1")
	s.deliver(values)
	began := now()
	s.startPod(first)
	s.answer(token)
	s.heartbeat(began)
	if got := s.clusterFacts(); *got.Nodes < 2 || *got.ReadyNodes < 1 || *got.ReadyNodes >= *got.Nodes {
		t.Fatalf("%d of %d nodes are ready: there is nothing to see", *got.ReadyNodes, *got.Nodes)
	}
	// An API server that took its time lets the facts come with a later heartbeat.
	s.eventually("the facts", func(ctx context.Context) error {
		var cluster fleet.Cluster
		if err := s.fleet.Get().Namespace(s.workspace).Resource("clusters").Name("a").Do(ctx).Into(&cluster); err != nil {
			return err
		}
		if cluster.Status.Agent.Nodes == nil {
			return errors.New("they were not said")
		}
		if diff := cmp.Diff(s.clusterFacts(), cluster.Status.Agent.ClusterFacts); diff != "" {
			return fmt.Errorf("said (-want +got):\n%s", diff)
		}
		return nil
	})
}

func TestNodeChanges_UpdateTheCounts(t *testing.T) {
	s := newSite(t, "nodes")
	watcher, err := facts.New(facts.Options{Local: s.plane.Cluster(east).Config(), AgentVersion: version.Version})
	s.must(err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { watcher.Run(ctx); close(ended) }()
	t.Cleanup(func() { stop(); <-ended })
	expect := func() {
		t.Helper()
		s.eventually("the facts", func(context.Context) error {
			if diff := cmp.Diff(s.clusterFacts(), watcher.Facts()); diff != "" {
				return fmt.Errorf("(-want +got):\n%s", diff)
			}
			return nil
		})
	}
	expect()
	before := watcher.Facts()
	nodes := s.eastCore.CoreV1().Nodes()
	s.setNode("nodes-1", corev1.ConditionUnknown, false)
	s.setNode("nodes-2", corev1.ConditionTrue, false)
	expect()
	if got := watcher.Facts(); *got.Nodes != *before.Nodes+2 || *got.ReadyNodes != *before.ReadyNodes+1 {
		t.Errorf("%d of %d, before %d of %d", *got.ReadyNodes, *got.Nodes, *before.ReadyNodes, *before.Nodes)
	}
	for _, name := range []string{"nodes-1", "nodes-2"} {
		s.must(nodes.Delete(t.Context(), name, metav1.DeleteOptions{}))
	}
	expect()
}
