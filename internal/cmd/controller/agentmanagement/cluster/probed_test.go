package cluster

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Nothing is created for a new Cluster before its probe has ended. A Cluster for which something was created is not
// probed.
func TestNewCluster_IsProbedFirst(t *testing.T) {
	const probed = "get Secret fleet-default/kubeconfig"
	created := []string{"patch Cluster fleet-default/east", "create Namespace " + east, "update Cluster/status fleet-default/east"}
	imported := func(c *fleet.Cluster) { c.Spec.KubeConfigSecret = "kubeconfig" }
	tests := map[string]struct {
		cluster  *fleet.Cluster
		pending  bool
		requests []string
	}{
		"new: it is probed, and then reconciled":       {cluster: oneCluster(fresh, imported), pending: true, requests: append([]string{probed}, created...)},
		"its agent registers itself: it is not probed": {cluster: oneCluster(fresh), requests: created},
		"it has its finalizer: it is not probed":       {cluster: oneCluster(placed(""), imported), requests: created[1:]},
		"it has its namespace: it is not probed":       {cluster: oneCluster(fresh, placed(east), imported), requests: created},
		"it is being deleted: it is not probed":        {cluster: oneCluster(fresh, deleted, imported)},
		"it has another manager: it is not probed":     {cluster: oneCluster(fresh, managed, imported)},
		"another manager deletes it: it is not probed": {cluster: oneCluster(deleted, released, imported)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			hub := newHub(t, test.cluster, &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: "kubeconfig"}, Data: map[string][]byte{"value": []byte("k")},
			})
			answers := make(chan struct{})
			hub.App.Reach = func(context.Context, []byte, time.Duration, bool) error { <-answers; return nil }
			go hub.App.Remote.Run(t.Context())
			hub.Woken()
			for range 2 {
				if err := hub.Handle("Cluster", key); err != nil {
					t.Fatal(err)
				}
				if test.pending {
					continue
				}
				break
			}
			if test.pending {
				if hubtest.Get[*corev1.Namespace](hub, "", east) != nil {
					t.Error("its namespace was created before its probe has ended")
				}
				close(answers)
				hub.AwaitWoken()
				if err := hub.Handle("Cluster", key); err != nil {
					t.Fatal(err)
				}
			}
			hubtest.ExpectRequests(t, hub, test.requests...)
		})
	}
}
