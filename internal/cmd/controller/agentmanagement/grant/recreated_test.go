package grant

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// otherToken is another token of the workspace.
func otherToken() *fleet.ClusterRegistrationToken {
	t2 := asked()
	t2.Name, t2.UID = "t2", "u-t2"
	return t2
}

// recreated is another request with the name, client ID and random part of ws/r1, by the holder of token t2.
func recreated(modifiers ...func(*fleet.ClusterRegistration)) *fleet.ClusterRegistration {
	return request(append([]func(*fleet.ClusterRegistration){withToken("t2"), func(r *fleet.ClusterRegistration) { r.UID = "u-other" }}, modifiers...)...)
}

// A request may be deleted and created again so fast that no event shows that it was gone, or while no controller runs.
func TestRecreatedRequest_GetsNothingOfTheEarlierOne(t *testing.T) {
	for name, restart := range map[string]bool{"faster than an event": false, "while no controller runs": true} {
		t.Run(name, func(t *testing.T) {
			hub := grantedHub(t, otherToken())
			hub.Put(cluster(pinnedTo(newKey(t)))) // its agent is at work
			if restart {
				hub = restarted(t, hub)
				hub.Put(otherToken())
			}
			hub.Remove(request())
			hub.Put(recreated())
			for range 3 {
				handle(t, hub)
				if reader := hubtest.Get[*rbacv1.RoleBinding](hub, registration, "r1-creds"); reader != nil && reader.Subjects[0].Name == names.ImportAccount("t2", "u-t2") {
					t.Fatal("the holder of another token may read the answer to the earlier request")
				}
				expectNothingHandedOut(t, hub)
				if hubtest.Get[*corev1.ServiceAccount](hub, clusterNamespace, account) != nil {
					t.Error("the account of the earlier request is still there")
				}
				catchUp(t, hub)
			}
			if got := reasonOf(t, hub, "r1"); got != conditions.ReasonTakeoverPending || current(t, hub).Status.Granted {
				t.Errorf("reason %q, granted %t", got, current(t, hub).Status.Granted)
			}
		})
	}
}

func TestRecreatedRequest_ThatIsRejected_EndsTheRightsOfTheEarlierOne(t *testing.T) {
	hub := grantedHub(t)
	hub.Remove(request())
	hub.Put(recreated(ofClient("")))
	deletion := "delete ServiceAccount " + clusterNamespace + "/" + account
	hub.Fail(deletion, errServer)
	if err := hub.Handle(kindRequest, "ws/r1"); !errors.Is(err, errServer) {
		t.Fatalf("error %v, want the server's", err)
	}
	hub.Fail(deletion, nil)
	handle(t, hub)
	if hubtest.Get[*corev1.ServiceAccount](hub, clusterNamespace, account) != nil {
		t.Error("the account of the earlier request is still there")
	}
	catchUp(t, hub)
	if got := reasonOf(t, hub, "r1"); got != conditions.ReasonClientIDMissing {
		t.Errorf("reason %q", got)
	}
	hub.Requests()
	handle(t, hub)
	expectRequests(t, hub) // once
}
