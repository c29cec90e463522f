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
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// isPending starts the probe of a new Cluster, as the controller of Clusters does, and reports whether the Cluster has
// to wait for it.
func isPending(t *testing.T, hub *hubtest.Hub, name string) bool {
	t.Helper()
	return hub.App.Probes.Start(hubtest.MustGet[*fleet.Cluster](t, hub, "ws", name))
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

func TestNewCluster_IsProbedOnce(t *testing.T) {
	hub, _ := start(t, newcomers(1)...)
	doors := newDoors(hub)
	for range 2 {
		if !isPending(t, hub, "new-0") {
			t.Error("it is not waited for")
		}
	}
	if err := hub.Handle("Cluster", "ws/new-0"); err != nil {
		t.Fatal(err)
	}
	doors.door("new-0") <- nil
	if diff := cmp.Diff([]string{"Cluster ws/new-0"}, hub.AwaitWoken()); diff != "" {
		t.Error(diff)
	}
	hubtest.ExpectRequests(t, hub, "get Secret ws/new-0")
	if isPending(t, hub, "new-0") {
		t.Error("it is waited for, though it has answered")
	}
	if err := hub.Handle("Cluster", "ws/new-0"); err != nil {
		t.Fatal(err)
	}
	hub.Sync()
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
	isPending(t, hub, "new-0")
	doors.door("new-0") <- foreign.ErrUnreachable
	hub.AwaitWoken()
	if isPending(t, hub, "new-0") {
		t.Error("it is waited for, though its turn has come")
	}
	hub.Requests()
	for range 2 { // a client ID comes first
		if err := hub.Handle("Cluster", "ws/new-0"); err != nil {
			t.Fatal(err)
		}
		hub.Sync()
	}
	hubtest.ExpectRequests(t, hub, "patch Cluster ws/new-0", "get Secret ws/new-0", "update Cluster/status ws/new-0") // no token
	if reason := importedReason(t, hub, "new-0"); reason != conditions.ReasonDownstreamUnreachable {
		t.Errorf("it says %s", reason)
	}
	woken := hub.Woken()
	if len(woken) != 1 || woken[0] == "Cluster ws/new-0" {
		t.Errorf("it is asked again at once: woken %v", woken)
	}
	if asked := len(doors.asked); asked != 1 {
		t.Errorf("it was asked %d times", asked)
	}
}

func TestClusterWithoutUsableKubeconfig_IsNotProbed(t *testing.T) {
	failing := errors.New("etcd is gone")
	tests := map[string]struct {
		change  func(*fleet.Cluster)
		secret  func(*corev1.Secret)
		config  func(*config.Config)
		fails   bool
		request []string // empty: it is not even queued
	}{
		"no kubeconfig":                 {change: func(c *fleet.Cluster) { c.Spec.KubeConfigSecret = "" }},
		"Secret in a refused namespace": {change: func(c *fleet.Cluster) { c.Spec.KubeConfigSecretNamespace = "kube-system" }, request: []string{"get Secret kube-system/kc"}},
		"missing Secret":                {change: func(c *fleet.Cluster) { c.Spec.KubeConfigSecret = "other" }, request: []string{"get Secret ws/other"}},
		"empty Secret":                  {secret: func(s *corev1.Secret) { s.Data = nil }, request: []string{"get Secret ws/kc"}},
		"unreadable Secret":             {fails: true, request: []string{"get Secret ws/kc"}},
		"the hub's own Cluster":         {change: func(c *fleet.Cluster) { c.Name = "local" }, config: func(c *config.Config) { c.Bootstrap.Namespace = "ws" }},
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
			hub.Woken()
			if started := hub.App.Probes.Start(c); started != (test.request != nil) {
				t.Errorf("started %v", started)
			} else if started {
				hub.AwaitWoken()
			}
			if hub.App.Probes.Start(c) {
				t.Error("it is waited for")
			}
			hubtest.ExpectRequests(t, hub, test.request...)
		})
	}
}

// The next one follows when one of them was reconciled or deleted.
func TestUnreachableNewClusters_AreProcessedAFewAtATime(t *testing.T) {
	const turns = 4
	const count = turns + 3
	hub, _ := start(t, newcomers(count)...)
	doors := newDoors(hub)
	var inTurn, done []string
	for n := range count {
		name := fmt.Sprintf("new-%d", n)
		isPending(t, hub, name)
		doors.door(name) <- foreign.ErrUnreachable
	}
	for len(done) < count {
		for len(inTurn) < min(turns, count-len(done)) {
			for _, woken := range hub.AwaitWoken() {
				if key := strings.TrimPrefix(woken, "Cluster "); !strings.Contains(key, " in ") { // or it is to be asked again
					inTurn = append(inTurn, key)
				}
			}
			hub.Told()
		}
		if len(inTurn) > turns {
			t.Fatalf("%v have their turn at once", inTurn)
		}
		next := inTurn[0]
		inTurn = inTurn[1:]
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

// Jobs of deleted Clusters may hang for long, for example at API servers that do not answer.
func TestRecreatedClustersWhoseJobsHang_EndTheirTurns(t *testing.T) {
	const turns = 4
	hub, _ := start(t, newcomers(turns+1)...)
	doors := newDoors(hub)
	handle := func(name string) {
		t.Helper()
		if err := hub.Handle("Cluster", "ws/"+name); err != nil {
			t.Fatal(err)
		}
	}
	woken := map[string]bool{}
	awaitWoken := func(name string) {
		t.Helper()
		for !woken["Cluster ws/"+name] {
			for _, key := range hub.AwaitWoken() {
				woken[key] = true
			}
		}
	}
	var old []*fleet.Cluster
	for n := range turns {
		c := hubtest.MustGet[*fleet.Cluster](t, hub, "ws", fmt.Sprintf("new-%d", n))
		c.Spec.ClientID = "client-" + c.Name // then it needs a token, for which a job probes
		hub.Put(c)
		handle(c.Name)
		<-doors.asked // and hangs
		old = append(old, c)
	}
	hub.App.Reach = func(context.Context, []byte, time.Duration, bool) error { return foreign.ErrUnreachable }
	for _, c := range old {
		hub.Remove(c)
		handle(c.Name)
		again := c.DeepCopy()
		again.UID, again.Spec.ClientID = types.UID("again-"+c.Name), ""
		hub.Put(again)
		isPending(t, hub, c.Name)
		awaitWoken(c.Name)
		handle(c.Name) // the job is still there
	}
	isPending(t, hub, fmt.Sprintf("new-%d", turns))
	awaitWoken(fmt.Sprintf("new-%d", turns))
}
