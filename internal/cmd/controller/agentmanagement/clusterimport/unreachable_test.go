package clusterimport

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/remote"
	"github.com/fleet-hub/fleet/internal/kube/foreign"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

func newTestHandler(hub *hubtest.Hub) *handler {
	return &handler{app: hub.App, records: newClusterRecords(hub.Now)}
}

// deadClusters are Clusters whose kubeconfigs lead to somebody who takes connections and says nothing.
func deadClusters(t *testing.T, count int) (objects []hubtest.Object) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	for n := range count {
		name := fmt.Sprintf("dead-%d", n)
		c := cluster(func(c *fleet.Cluster) {
			c.Name, c.UID, c.Spec.ClientID, c.Spec.KubeConfigSecret = name, types.UID(name), name, name
		})
		secret := kubeconfig()
		secret.Name = name
		secret.Data["value"] = []byte(strings.ReplaceAll(`{"apiVersion":"v1","kind":"Config","clusters":[{"name":"c","cluster":{"server":"https://ADDRESS"}}],
"contexts":[{"name":"x","context":{"cluster":"c","user":"u"}}],"users":[{"name":"u","user":{"token":"t"}}],"current-context":"x"}`, "ADDRESS", listener.Addr().String()))
		token := importToken()
		token.Name, token.Status.SecretName = "import-token-"+name, "import-token-"+name
		filled := values(t)
		filled.Name = token.Name
		objects = append(objects, c, secret, token, filled)
	}
	return objects
}

// Five hundred clusters that are not there are asked before the good one, which is done while all of them are
// still being waited for. Later, they say so.
func TestUnreachableClusters_DoNotBlockOthers(t *testing.T) {
	const dead = 500
	hub, _ := start(t, append(deadClusters(t, dead), cluster(), kubeconfig(), importToken(), values(t))...)
	reach, end := remote.Reacher(func(bool) foreign.Options { return foreign.Options{AnyAddress: true, Now: hub.Now()} }), make(chan struct{})
	asked := make(chan struct{}, dead)
	hub.App.Reach = func(ctx context.Context, kubeconfig []byte, _ time.Duration, _ bool) error {
		if string(kubeconfig) == "kubeconfig" {
			return nil
		}
		asked <- struct{}{}
		select {
		case <-end:
		case <-ctx.Done():
		}
		return reach(ctx, kubeconfig, 100*time.Millisecond, false)
	}
	for n := range dead {
		if err := hub.Handle("Cluster", fmt.Sprintf("ws/dead-%d", n)); err != nil {
			t.Fatal(err)
		}
	}
	for range dead {
		<-asked
	}
	t.Logf("%d goroutines", runtime.NumGoroutine())
	began := time.Now()
	handle(t, hub)
	eventually(t, hub, func() bool { return importedReason(t, hub, "c1") == "" })
	t.Logf("the good one was imported after %s", time.Since(began))
	for n := range dead {
		if reason := importedReason(t, hub, fmt.Sprintf("dead-%d", n)); reason != "(none)" {
			t.Fatalf("dead-%d is not waited for any more: %s", n, reason)
		}
	}
	close(end)
	eventually(t, hub, func() bool {
		for n := range dead {
			if importedReason(t, hub, fmt.Sprintf("dead-%d", n)) != conditions.ReasonDownstreamUnreachable {
				return false
			}
		}
		return true
	})
}

func importedReason(t *testing.T, hub *hubtest.Hub, name string) string {
	t.Helper()
	imported := conditions.Get(hubtest.MustGet[*fleet.Cluster](t, hub, "ws", name).Status.Conditions, conditions.Imported)
	if imported == nil {
		imported = &genericcondition.GenericCondition{Reason: "(none)", Status: corev1.ConditionUnknown}
	}
	return imported.Reason
}

// eventually asks whenever somebody was woken.
func eventually(t *testing.T, hub *hubtest.Hub, done func() bool) {
	t.Helper()
	for !done() {
		hub.AwaitWoken()
		hub.Told() // or whoever tells something waits for a listener
	}
}
