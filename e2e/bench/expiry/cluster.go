package expiry

import (
	"strconv"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// cluster is the agents' own cluster, in memory. Each agent has a namespace.
type cluster struct {
	*fake.Clientset

	mu       sync.Mutex
	requests int
	versions int
}

func newCluster() *cluster {
	c := &cluster{Clientset: fake.NewClientset()}
	c.PrependReactor("*", "*", c.see)
	return c
}

// see counts a request, and gives a written object a version like an API server.
func (c *cluster) see(action clienttesting.Action) (bool, runtime.Object, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests++
	if write, isWrite := action.(clienttesting.UpdateAction); isWrite {
		if object, isObject := write.GetObject().(metav1.Object); isObject {
			c.versions++
			object.SetResourceVersion(strconv.Itoa(c.versions))
		}
	}
	return false, nil, nil
}

// counted returns how many requests the agents have sent, watches apart. The fake's own record of them is dropped.
func (c *cluster) counted() int {
	c.ClearActions()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requests
}
