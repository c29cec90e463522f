package clusterimport

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/kube/foreign"
	"github.com/fleet-hub/fleet/internal/protocol"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// isAsked is what the controller of Clusters asks of a new one.
func isAsked(t *testing.T, hub *hubtest.Hub, name string) bool {
	t.Helper()
	waits, err := hub.App.IsAsked(hubtest.MustGet[*fleet.Cluster](t, hub, "ws", name))
	if err != nil {
		t.Fatal(err)
	}
	return waits
}

// doors let clusters answer, each when it is told.
type doors struct {
	mu    sync.Mutex
	of    map[string]chan error
	asked chan string
}

func newDoors(hub *hubtest.Hub) *doors {
	d := &doors{of: map[string]chan error{}, asked: make(chan string, 100)}
	hub.App.Reach = func(ctx context.Context, kubeconfig []byte, _ time.Duration, _ bool) error {
		d.asked <- string(kubeconfig)
		select {
		case err := <-d.door(string(kubeconfig)):
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return d
}

func (d *doors) door(kubeconfig string) chan error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.of[kubeconfig] == nil {
		d.of[kubeconfig] = make(chan error)
	}
	return d.of[kubeconfig]
}

// newcomers are Clusters without anything, each with a kubeconfig of its own.
func newcomers(count int) (objects []hubtest.Object) {
	for n := range count {
		name := fmt.Sprintf("new-%d", n)
		secret := kubeconfig()
		secret.Name, secret.Data[protocol.KubeconfigValueKey] = name, []byte(name)
		objects = append(objects, secret, cluster(func(c *fleet.Cluster) {
			c.Name, c.UID, c.Spec.ClientID, c.Spec.KubeConfigSecret = name, types.UID(name), "", name
		}))
	}
	return objects
}

func TestANewClusterThatAnswersIsAskedOnce(t *testing.T) {
	hub, _ := start(t, newcomers(1)...)
	doors := newDoors(hub)
	for range 2 {
		if !isAsked(t, hub, "new-0") {
			t.Error("it is not waited for")
		}
	}
	if err := hub.Handle("Cluster", "ws/new-0"); err != nil {
		t.Fatal(err)
	}
	hubtest.ExpectRequests(t, hub, "get Secret ws/new-0")
	doors.door("new-0") <- nil
	if diff := cmp.Diff([]string{"Cluster ws/new-0"}, hub.AwaitWoken()); diff != "" {
		t.Error(diff)
	}
	if isAsked(t, hub, "new-0") {
		t.Error("it is waited for, though it has answered")
	}
	if err := hub.Handle("Cluster", "ws/new-0"); err != nil {
		t.Fatal(err)
	}
	hubtest.ExpectRequests(t, hub, "patch Cluster ws/new-0", "get Secret ws/new-0", "create ClusterRegistrationToken ws/import-token-new-0")
	if asked := len(doors.asked); asked != 1 {
		t.Errorf("it was asked %d times", asked)
	}
}

func TestUnreachableNewCluster_ReportsItAndIsProbedAgain(t *testing.T) {
	hub, _ := start(t, newcomers(1)...)
	doors := newDoors(hub)
	isAsked(t, hub, "new-0")
	doors.door("new-0") <- foreign.ErrUnreachable
	hub.AwaitWoken()
	if reason := importedReason(t, hub, "new-0"); reason != fleet.ReasonDownstreamUnreachable {
		t.Errorf("it says %s", reason)
	}
	if isAsked(t, hub, "new-0") {
		t.Error("it is waited for, though its turn has come")
	}
	hub.Told()
	hub.Requests()
	hub.Sync()
	if err := hub.Handle("Cluster", "ws/new-0"); err != nil {
		t.Fatal(err)
	}
	hubtest.ExpectRequests(t, hub, "patch Cluster ws/new-0", "get Secret ws/new-0") // no token
	woken := hub.Woken()
	if len(woken) != 1 || woken[0] == "Cluster ws/new-0" {
		t.Errorf("it is asked again at once: woken %v", woken)
	}
	if asked := len(doors.asked); asked != 1 {
		t.Errorf("it was asked %d times", asked)
	}
}

func TestClustersWithoutAProbe(t *testing.T) {
	failing := errors.New("etcd is gone")
	tests := map[string]struct {
		change  func(*fleet.Cluster)
		secret  func(*corev1.Secret)
		config  func(*config.Config)
		fails   bool
		request []string
	}{
		"one whose agent comes by itself":   {change: func(c *fleet.Cluster) { c.Spec.KubeConfigSecret = "" }},
		"one that names a forbidden Secret": {change: func(c *fleet.Cluster) { c.Spec.KubeConfigSecretNamespace = "kube-system" }, request: []string{"get Secret kube-system/kc"}},
		"one whose Secret is not there":     {change: func(c *fleet.Cluster) { c.Spec.KubeConfigSecret = "other" }, request: []string{"get Secret ws/other"}},
		"one whose Secret is empty":         {secret: func(s *corev1.Secret) { s.Data = nil }, request: []string{"get Secret ws/kc"}},
		"one whose Secret cannot be read":   {fails: true, request: []string{"get Secret ws/kc"}},
		"the hub's own":                     {change: func(c *fleet.Cluster) { c.Name = "local" }, config: func(c *config.Config) { c.Bootstrap.Namespace = "ws" }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c, secret, running := cluster(), kubeconfig(), hubConfig()
			if test.change != nil {
				test.change(c)
			}
			if test.secret != nil {
				test.secret(secret)
			}
			if test.config != nil {
				test.config(&running)
			}
			hub, _ := start(t, c, secret)
			hub.App.Config.Set(running)
			hub.Requests()
			if test.fails {
				hub.Fail("get Secret ws/kc", failing)
			}
			waits, err := hub.App.IsAsked(c)
			if waits || test.fails != errors.Is(err, failing) {
				t.Errorf("waits %v, error %v", waits, err)
			}
			hubtest.ExpectRequests(t, hub, test.request...)
		})
	}
}

// Of many that are not there, a few at a time are given what every Cluster has; the next one follows when one of them
// was worked on, or is gone.
func TestThoseThatAreNotThereTakeTurns(t *testing.T) {
	const count = absentAtOnce + 3
	hub, _ := start(t, newcomers(count)...)
	doors := newDoors(hub)
	var turns, done []string
	for n := range count {
		name := fmt.Sprintf("new-%d", n)
		isAsked(t, hub, name)
		doors.door(name) <- foreign.ErrUnreachable
	}
	for len(done) < count {
		for len(turns) < min(absentAtOnce, count-len(done)) {
			for _, woken := range hub.AwaitWoken() {
				if key := strings.TrimPrefix(woken, "Cluster "); !strings.Contains(key, " in ") { // or it is to be asked again
					turns = append(turns, key)
				}
			}
			hub.Told()
		}
		if len(turns) > absentAtOnce {
			t.Fatalf("%v have their turn at once", turns)
		}
		next := turns[0]
		turns = turns[1:]
		if slices.Contains(done, next) {
			t.Fatalf("%s has a second turn", next)
		}
		done = append(done, next)
		if len(done)%2 == 0 {
			hub.Remove(hubtest.MustGet[*fleet.Cluster](t, hub, "ws", next[len("ws/"):]))
		}
		if err := hub.Handle("Cluster", next); err != nil {
			t.Fatal(err)
		}
	}
}

func TestArrivals(t *testing.T) {
	const key = "ws/c1"
	open := func(c <-chan struct{}) bool {
		select {
		case <-c:
			return false
		default:
			return true
		}
	}
	t.Run("what nobody knows is nobody's answer", func(t *testing.T) {
		a := newArrivals()
		if a.waits(key) || a.take(key, present) || a.take(key, absent) || open(a.becomes(key, "u", absent)) {
			t.Error("it is known")
		}
		a.worked(key)
		a.forget(key)
	})
	t.Run("an answer is told once", func(t *testing.T) {
		a := newArrivals()
		a.begin(key, "u")
		a.becomes(key, "u", present)
		if a.waits(key) || a.take(key, absent) || !a.take(key, present) || a.take(key, present) {
			t.Error("it is not")
		}
	})
	t.Run("another Cluster of the name is asked anew, and nobody waits for the first", func(t *testing.T) {
		a := newArrivals()
		a.begin(key, "u")
		turn := a.becomes(key, "u", absent)
		if begun, waits := a.begin(key, "v"); !begun || !waits || open(turn) {
			t.Errorf("begun %v, waits %v", begun, waits)
		}
		if open(a.becomes(key, "u", present)) || !a.waits(key) {
			t.Error("the answer of the first is taken for the second's")
		}
	})
	t.Run("a turn is over when the Cluster was worked on, or is gone", func(t *testing.T) {
		for _, end := range []func(*arrivals){func(a *arrivals) { a.worked(key) }, func(a *arrivals) { a.forget(key) }} {
			a := newArrivals()
			a.begin(key, "u")
			turn := a.becomes(key, "u", absent)
			if !open(turn) {
				t.Error("it is over at once")
			}
			end(a)
			if open(turn) {
				t.Error("it is not over")
			}
			a.worked(key) // once more
		}
	})
}
