package grant

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// createdWith is a Cluster that a token has created.
func createdWith(name, token string) *fleet.Cluster {
	return &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ws", Name: name, Annotations: map[string]string{annotation.CreatedWithToken: token},
	}}
}

func TestATokenWithTooManyClusters_CreatesNoMore(t *testing.T) {
	hub := start(t, asked(), createdWith("a", "u-t1"), createdWith("b", "u-t1"), createdWith("c", "u-t2"), createdWith("d", "unknown"))
	hub.App.Env.MaxClustersPerToken = 2
	first, second := numbered(hub, 0, ofClient("x")), numbered(hub, 1, ofClient("y"))
	put(t, hub, second, first)
	if got := made(hub.Requests(), "create Cluster "); got != 0 {
		t.Errorf("%d Clusters created", got)
	}
	for _, name := range []string{"n0000", "n0001"} {
		if got := reasonOf(t, hub, name); got != conditions.ReasonTooManyClusters {
			t.Errorf("reason of %s: %q", name, got)
		}
	}
	hub.Sync()

	h := &handler{app: hub.App}
	gone := createdWith("a", "u-t1")
	if got := h.lackingClusters(gone); len(got) > 0 {
		t.Errorf("woken %v though there is no room", got)
	}
	hub.Remove(gone)
	want := []types.NamespacedName{{Namespace: "ws", Name: "n0000"}}
	if diff := cmp.Diff(want, h.lackingClusters(gone)); diff != "" {
		t.Errorf("woken (-want +got):\n%s", diff)
	}
	look(t, hub, first)
	if got := made(hub.Requests(), "create Cluster "); got != 1 {
		t.Errorf("%d Clusters created, want 1", got)
	}
	hub.Sync()
	hub.Pass(41 * time.Minute)
	look(t, hub, second)
	if got := made(hub.Requests(), "delete ClusterRegistration ws/n0001"); got != 1 {
		t.Error("nobody waits for the second one, and it is still there")
	}
}

func TestAClusterThatIsThere_CountsForNoToken(t *testing.T) {
	hub := start(t, asked(), createdWith("a", "u-t1"), cluster(), request())
	hub.App.Env.MaxClustersPerToken = 1
	settle(t, hub, 2)
	if !current(t, hub).Status.Granted {
		t.Errorf("not granted: %+v", current(t, hub).Status)
	}
}

// The cache does not have the Clusters yet that this process has just created.
func TestRequestsThatComeTogether_CreateNoMoreThanTheLimit(t *testing.T) {
	hub := start(t, asked(), createdWith("a", "u-t1"))
	hub.App.Env.MaxClustersPerToken = 3
	var all []*fleet.ClusterRegistration
	for n := range 5 {
		all = append(all, numbered(hub, n, ofClient(fmt.Sprint("client-", n))))
	}
	put(t, hub, all...)
	look(t, hub, all...)
	if got := made(hub.Requests(), "create Cluster "); got != 2 {
		t.Errorf("%d Clusters created, want 2", got)
	}
	hub.Sync()
	look(t, hub, all...)
	if got := made(hub.Requests(), "create Cluster "); got != 0 {
		t.Errorf("%d more Clusters created when the cache has the first ones", got)
	}
	for n, one := range all {
		if got := reasonOf(t, hub, one.Name); (got == conditions.ReasonTooManyClusters) != (n >= 2) {
			t.Errorf("reason of %s: %q", one.Name, got)
		}
	}
}

func TestTwoRequestsOfOneClient_CountForOneCluster(t *testing.T) {
	hub := start(t, asked())
	hub.App.Env.MaxClustersPerToken = 1
	put(t, hub, numbered(hub, 0), numbered(hub, 1))
	if got := reasonOf(t, hub, "n0001"); got == conditions.ReasonTooManyClusters {
		t.Errorf("reason %q", got)
	}
}

func TestClusterThatCannotBeCreated_LeavesItsPlaceToAnother(t *testing.T) {
	hub := start(t, asked())
	hub.App.Env.MaxClustersPerToken = 1
	first, second := numbered(hub, 0, ofClient("x")), numbered(hub, 1, ofClient("y"))
	hub.Fail("create Cluster ws/"+names.Cluster("x"), errServer)
	hub.Put(first)
	if err := hub.Handle(kindRequest, "ws/"+first.Name); !errors.Is(err, errServer) {
		t.Fatalf("error %v, want the server's", err)
	}
	put(t, hub, second)
	hub.Sync()
	if got := reasonOf(t, hub, second.Name); got != conditions.ReasonTooManyClusters {
		t.Fatalf("reason %q although the first one may still create its Cluster", got)
	}
	hub.Remove(first)
	hub.Woken()
	look(t, hub, first)
	hubtest.ExpectWoken(t, hub, kindRequest+" ws/"+second.Name)
	hub.Requests()
	look(t, hub, second)
	if got := made(hub.Requests(), "create Cluster "); got != 1 {
		t.Errorf("%d Clusters created, want 1", got)
	}
}
