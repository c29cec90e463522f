package grant

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/grant"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// madeAt is when ws/r1 was made.
var madeAt = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// elsewhere is a request of the name r1 in another workspace, and what is there of it, so much later than ws/r1.
func elsewhere(later time.Duration) []hubtest.Object {
	r, c, token := request(), cluster(), asked()
	r.Namespace, r.UID, r.Spec.ClientRandom = "ws2", "u-r1-2", "random 2"
	r.CreationTimestamp = metav1.NewTime(madeAt.Add(later))
	c.Namespace, c.UID, c.Status.Namespace, token.Namespace = "ws2", "u-c1-2", "cluster-ws2-c1", "ws2"
	return []hubtest.Object{r, c, token}
}

// shared are the names under which ws/r1 and ws2/r1 have what lets them read their answers.
func shared(t *testing.T, hub *hubtest.Hub) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, workspace := range []string{"ws", "ws2"} {
		for _, name := range []string{"r1", names.Namesake(workspace, "r1")} {
			role := hubtest.Get[*rbacv1.Role](hub, registration, grant.CredentialAccessName(name))
			if role != nil && role.Annotations[fleet.AnnotationClusterRegistrationNamespace] == workspace {
				found[workspace] += name + " "
			}
		}
	}
	return found
}

func TestSameRequestNameInTwoWorkspaces_OlderKeepsTheName(t *testing.T) {
	own := names.Namesake
	tests := map[string]struct {
		later time.Duration
		want  map[string]string
	}{
		"the first is older: it keeps the name":           {time.Minute, map[string]string{"ws": "r1 ", "ws2": own("ws2", "r1") + " "}},
		"the second is older: it keeps the name":          {-time.Minute, map[string]string{"ws": own("ws", "r1") + " ", "ws2": "r1 "}},
		"same second: the first workspace keeps the name": {0, map[string]string{"ws": "r1 ", "ws2": own("ws2", "r1") + " "}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			first := request()
			first.CreationTimestamp = metav1.NewTime(madeAt)
			hub := start(t, append(elsewhere(test.later), first, cluster(), asked())...)
			both := func() {
				for _, key := range []string{"ws/r1", "ws2/r1"} {
					if err := hub.Handle(kindRequest, key); err != nil {
						t.Fatal(err)
					}
				}
				catchUp(t, hub)
			}
			both()
			both()
			both()
			if diff := cmp.Diff(test.want, shared(t, hub)); diff != "" {
				t.Errorf("names (-want +got):\n%s", diff)
			}
			hub.Requests()
			both()
			expectRequests(t, hub) // neither takes anything from the other
		})
	}
}

// TestOlderRequestOfTheName_AppearsAndIsDeleted starts with a cache that does not contain the older request of the
// same name.
func TestOlderRequestOfTheName_AppearsAndIsDeleted(t *testing.T) {
	first := request()
	first.CreationTimestamp = metav1.NewTime(madeAt)
	hub := start(t, first, cluster(), asked())
	settle(t, hub, 3)
	if diff := cmp.Diff(map[string]string{"ws": "r1 "}, shared(t, hub)); diff != "" {
		t.Fatalf("alone (-want +got):\n%s", diff)
	}
	hub.Put(elsewhere(-24 * time.Hour)...)
	round := func() {
		for _, key := range []string{"ws2/r1", "ws/r1"} {
			if err := hub.Handle(kindRequest, key); err != nil {
				t.Fatal(err)
			}
		}
		catchUp(t, hub)
	}
	for range 3 {
		round()
	}
	if diff := cmp.Diff(map[string]string{"ws": names.Namesake("ws", "r1") + " ", "ws2": "r1 "}, shared(t, hub)); diff != "" {
		t.Errorf("with an older one (-want +got):\n%s", diff)
	}
	if err := hub.App.ClusterRegistrations.Delete("ws2", "r1", nil); err != nil {
		t.Fatal(err)
	}
	catchUp(t, hub)
	for range 3 {
		round()
	}
	// The other name goes with the credential.
	if diff := cmp.Diff("r1 "+names.Namesake("ws", "r1")+" ", shared(t, hub)["ws"]); diff != "" {
		t.Errorf("when it is gone (-want +got):\n%s", diff)
	}
	if !current(t, hub).Status.Granted {
		t.Error("not granted any more")
	}
}
