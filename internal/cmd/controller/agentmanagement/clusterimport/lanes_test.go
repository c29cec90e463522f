package clusterimport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	ctrl "github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	"github.com/fleet-hub/fleet/internal/kube/foreign"
	"github.com/fleet-hub/fleet/internal/rules/importing"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func newTestHandler(hub *hubtest.Hub) *handler {
	return &handler{app: hub.App, addresses: newAddresses(), arrivals: newArrivals(), jobs: newJobs(hub.Now), lanes: newLanes(), supervision: newSupervision(hub.Now)}
}

func TestAJobWaitsForItsTurn(t *testing.T) {
	hub, _ := start(t)
	h := newTestHandler(hub)
	for range parallel {
		h.lanes.parallel <- struct{}{}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.approach(ctx, "ws/c1", []byte("kubeconfig"), false); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	<-h.lanes.parallel
	leave, err := h.approach(t.Context(), "ws/c1", []byte("kubeconfig"), false)
	if err != nil || len(h.lanes.parallel) != parallel {
		t.Fatalf("error %v, %d turns taken", err, len(h.lanes.parallel))
	}
	leave()
	if len(h.lanes.parallel) != parallel-1 || len(h.lanes.asking) != 0 {
		t.Errorf("%d turns are taken, %d asked", len(h.lanes.parallel), len(h.lanes.asking))
	}
	hubtest.ExpectRequests(t, hub)
}

func TestWithoutAKubeconfig_NeedsNoSlot(t *testing.T) {
	hub, _ := start(t)
	h := newTestHandler(hub)
	h.lanes = lanes{} // in which nobody ever gets a turn
	if _, err := h.run(t.Context(), cluster(), importing.Outcome{Remove: &importing.AgentRemoval{}}); err != nil {
		t.Error(err)
	}
}

// Who is not there, or slow, shares some of the slots, and only those.
func TestWhichWayAClusterGoes(t *testing.T) {
	tests := map[string]struct {
		prepare func(*hubtest.Hub, *handler)
		reach   error
		takes   time.Duration
		canWait bool
		connect time.Duration
		slow    bool
		fails   bool
	}{
		"the first time":                    {connect: firstConnect},
		"one that takes its time to answer": {connect: firstConnect, takes: 10 * time.Second, slow: true},
		"one that answers well enough":      {connect: firstConnect, takes: time.Second},
		"one that is not there":             {connect: firstConnect, reach: foreign.ErrUnreachable, fails: true},
		"what can wait":                     {connect: firstConnect, canWait: true, slow: true},
		"one that was not there the last time": {connect: laterConnect, slow: true, prepare: func(_ *hubtest.Hub, h *handler) {
			h.jobs.begin("ws/c1", "x")
			h.jobs.failed("ws/c1", foreign.ErrUnreachable)
		}},
		"one that had another trouble": {connect: firstConnect, prepare: func(_ *hubtest.Hub, h *handler) { h.jobs.begin("ws/c1", "x"); h.jobs.failed("ws/c1", errServer) }},
		"one that was looked at and was not there": {connect: laterConnect, slow: true, prepare: func(_ *hubtest.Hub, h *handler) {
			h.jobs.begin("ws/c1", "x")
			h.jobs.ended("ws/c1", "", foreign.ErrUnreachable)
		}},
		"one that has come back": {connect: firstConnect, prepare: func(_ *hubtest.Hub, h *handler) {
			h.jobs.begin("ws/c1", "x")
			h.jobs.failed("ws/c1", foreign.ErrUnreachable)
			h.jobs.succeeded("ws/c1", "1")
		}},
		"one whose kubeconfig is another one": {connect: firstConnect, prepare: func(_ *hubtest.Hub, h *handler) {
			h.jobs.begin("ws/c1", "x")
			h.jobs.failed("ws/c1", foreign.ErrUnreachable)
			h.jobs.begin("ws/c1", "y")
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			hub, _ := start(t)
			h := newTestHandler(hub)
			if test.prepare != nil {
				test.prepare(hub, h)
			}
			var asked []time.Duration
			hub.App.Reach = func(_ context.Context, _ []byte, connect time.Duration, _ bool) error {
				asked = append(asked, connect)
				if again := connect == laterConnect; len(h.lanes.askingAgain) == 1 != again || len(h.lanes.asking) != 1 {
					t.Errorf("while it is asked, the lanes have %d and %d", len(h.lanes.askingAgain), len(h.lanes.asking))
				}
				hub.Pass(test.takes)
				return test.reach
			}
			leave, err := h.approach(t.Context(), "ws/c1", []byte("kubeconfig"), test.canWait)
			if (err != nil) != test.fails || !errors.Is(err, test.reach) {
				t.Fatalf("error %v", err)
			}
			if len(asked) != 1 || asked[0] != test.connect {
				t.Errorf("asked with the patience %v", asked)
			}
			if err != nil {
				return
			}
			if (len(h.lanes.patient) == 1) != test.slow || len(h.lanes.parallel) != 1 {
				t.Errorf("%d turns for slow ones, %d in all", len(h.lanes.patient), len(h.lanes.parallel))
			}
			leave()
			if len(h.lanes.patient)+len(h.lanes.parallel)+len(h.lanes.asking)+len(h.lanes.askingAgain) != 0 {
				t.Error("a turn is not given back")
			}
		})
	}
}

func TestSlowClustersLeaveRoom(t *testing.T) {
	hub, _ := start(t)
	h := newTestHandler(hub)
	for range patient {
		if _, err := h.approach(t.Context(), "ws/slow", []byte("k"), true); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.approach(ctx, "ws/slow", []byte("k"), true); !errors.Is(err, context.Canceled) {
		t.Errorf("one too many slow ones: %v", err)
	}
	if len(h.lanes.parallel) != patient {
		t.Errorf("whoever waits with the slow ones has a turn of the others: %d", len(h.lanes.parallel))
	}
	for range parallel - patient {
		if _, err := h.approach(t.Context(), "ws/good", []byte("k"), false); err != nil {
			t.Fatal(err)
		}
	}
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
	reach, end := ctrl.Reacher(func(bool) foreign.Options { return foreign.Options{AnyAddress: true, Now: hub.Now()} }), make(chan struct{})
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
			if importedReason(t, hub, fmt.Sprintf("dead-%d", n)) != fleet.ReasonDownstreamUnreachable {
				return false
			}
		}
		return true
	})
}

func importedReason(t *testing.T, hub *hubtest.Hub, name string) string {
	t.Helper()
	imported := fleet.GetCondition(hubtest.MustGet[*fleet.Cluster](t, hub, "ws", name).Status.Conditions, fleet.ConditionImported)
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
