package capi

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/remote"
	capirule "github.com/fleet-hub/fleet/internal/rules/capi"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// crowd is a bench whose jobs run beside each other, and each of whose kubeconfigs leads to a cluster of its own.
type crowd struct {
	*bench

	jobs sync.WaitGroup
	mu   sync.Mutex
	// probed and asked count the requests to each cluster.
	probed, asked map[string]int
}

// member is the cluster to which a kubeconfig leads.
type member struct {
	hub.Downstream

	c    *crowd
	name string
}

func (m member) NamespaceUID(context.Context, string) (types.UID, error) {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	m.c.asked[m.name]++
	return types.UID("system-" + m.name), nil
}

func (member) Close() {}

func newCrowd(t *testing.T) *crowd {
	t.Helper()
	c := &crowd{bench: newBench(t), probed: map[string]int{}, asked: map[string]int{}}
	c.App.Dial = func(_ context.Context, kubeconfig []byte, _ string, _ bool) (hub.Downstream, error) {
		return member{c: c, name: string(kubeconfig)}, nil
	}
	c.submit = func(job remote.Job) {
		c.jobs.Go(func() {
			kubeconfig, err := job.Kubeconfig(t.Context())
			c.mu.Lock()
			c.probed[string(kubeconfig)]++
			c.mu.Unlock()
			job.Do(t.Context(), kubeconfig, err)
		})
	}
	return c
}

// round reconciles all keys in the queue at the same time, waits for their jobs, and fills the caches.
func (c *crowd) round() (requests []string) {
	c.t.Helper()
	var workers sync.WaitGroup
	for range c.queue.Len() {
		key, _ := c.queue.Get()
		workers.Go(func() {
			if err := c.reconcile(c.t.Context(), key); err != nil {
				c.t.Error(err)
			}
			c.queue.Done(key)
		})
	}
	workers.Wait()
	c.jobs.Wait()
	requests = c.Requests()
	c.Sync()
	return requests
}

// At most six requests per cluster more than an import: three on the hub, a probe, the UID, and the import's record of it.
func TestManyClustersAtOnce_AreRegisteredOnceEachWithFewRequests(t *testing.T) {
	const many, budget, recorded = 200, 6, 1
	c := newCrowd(t)
	perCluster := map[string]int{}
	for i := range many {
		name := fmt.Sprintf("c%03d", i)
		c.Put(kubeconfigSecret(func(s *corev1.Secret) {
			s.Name, s.Labels["cluster.x-k8s.io/cluster-name"], s.Data["value"] = name+"-kubeconfig", name, []byte(name)
		}))
		c.have(capiCluster(func(cluster *capirule.Cluster) { cluster.Name, cluster.UID = name, types.UID("capi-"+name) }))
	}
	rounds := 0
	for ; rounds < 10; rounds++ {
		requests := c.round()
		for _, request := range requests {
			name, _, _ := strings.Cut(request[strings.LastIndex(request, "/")+1:], "-kubeconfig")
			perCluster[name]++
		}
		if len(requests) == 0 && rounds > 3 {
			break
		}
		c.enqueueAll() // as events of the caches would
	}
	list, err := c.App.Clusters.Cache().List(ws, labels.Everything())
	if err != nil || len(list) != many {
		t.Fatalf("%d Clusters, error %v", len(list), err)
	}
	for _, cluster := range list {
		sum := perCluster[cluster.Name] + c.probed[cluster.Name] + c.asked[cluster.Name] + recorded
		if sum > budget || c.asked[cluster.Name] != 1 || !capirule.IsMarked(cluster) {
			t.Errorf("%s: %d requests, asked %d times", cluster.Name, sum, c.asked[cluster.Name])
		}
		if condition := conditions.Get(cluster.Status.Conditions, conditions.FollowsClusterAPI); condition == nil || condition.Status != corev1.ConditionTrue {
			t.Errorf("%s: condition %v", cluster.Name, condition)
		}
	}
	if rounds == 10 {
		t.Error("the requests do not end")
	}
}

// A name that leaves no room for that of the Secret has no kubeconfig.
func TestALongName_IsReported(t *testing.T) {
	b := newBench(t)
	long := strings.Repeat("x", 253)
	c := capiCluster(func(c *capirule.Cluster) { c.Name = long })
	b.have(c)
	if err := b.reconcile(t.Context(), types.NamespacedName{Namespace: ws, Name: long}); err != nil {
		t.Fatal(err)
	}
	b.expectTold(conditions.ReasonKubeconfigMissing)
}

// The longest name for which there can be a Secret is registered like any other.
func TestTheLongestNameWithASecret_IsRegistered(t *testing.T) {
	b := newBench(t)
	long := strings.Repeat("x", 253-len("-kubeconfig"))
	b.Put(kubeconfigSecret(func(s *corev1.Secret) {
		s.Name, s.Labels["cluster.x-k8s.io/cluster-name"] = long+"-kubeconfig", long
	}))
	b.have(capiCluster(func(c *capirule.Cluster) { c.Name = long }))
	for range 2 {
		if err := b.reconcile(t.Context(), types.NamespacedName{Namespace: ws, Name: long}); err != nil {
			t.Fatal(err)
		}
	}
	b.Sync()
	if _, err := b.App.Clusters.Cache().Get(ws, long); err != nil {
		t.Error(err)
	}
}

func TestBadSecrets_AreReportedAndNeverUsed(t *testing.T) {
	for name, spoil := range map[string]func(*corev1.Secret){
		"another type":     func(s *corev1.Secret) { s.Type = "Opaque" },
		"another cluster":  func(s *corev1.Secret) { s.Labels["cluster.x-k8s.io/cluster-name"] = "west" },
		"without a label":  func(s *corev1.Secret) { s.Labels = nil },
		"another owner":    func(s *corev1.Secret) { s.OwnerReferences[0].Name = "other" },
		"without an owner": func(s *corev1.Secret) { s.OwnerReferences = nil },
		"empty":            func(s *corev1.Secret) { s.Data = nil },
		"an empty value":   func(s *corev1.Secret) { s.Data["value"] = nil },
		"another key":      func(s *corev1.Secret) { s.Data = map[string][]byte{"kubeconfig": []byte("x")} },
		"it is being deleted": func(s *corev1.Secret) {
			now := metav1.Now()
			s.DeletionTimestamp, s.Finalizers = &now, []string{"x/y"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.Put(kubeconfigSecret(spoil))
			b.have(capiCluster())
			b.expect(getSecret)
			b.expectTold(conditions.ReasonKubeconfigMissing)
			b.expectAsked(0)
		})
	}
}
