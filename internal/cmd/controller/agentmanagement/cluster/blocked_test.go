package cluster

import (
	"crypto/rand"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	"github.com/fleet-hub/fleet/internal/identity"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// tickets is the ConfigMap with the blocked tickets of workspace fleet-default.
var tickets = "ConfigMap cattle-fleet-system/" + names.SafeConcat(names.DeletedClusters, "fleet-default", names.KeyHash("fleet-default"))

func isBlocked(t *testing.T, hub *hubtest.Hub, thumbprint string) bool {
	t.Helper()
	blocked, err := hub.App.Recoveries.IsBlocked(t.Context(), identity.Ticket{Workspace: "fleet-default", Key: thumbprint, Time: hub.Now().Add(-time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	return blocked
}

func TestTicketsOfADeletedCluster_AreBlockedBeforeItIsGone(t *testing.T) {
	for name, annotation := range map[string]string{"pinned key": fleet.AnnotationAgentKey, "blocked key": fleet.AnnotationBlockedKey} {
		t.Run(name, func(t *testing.T) {
			going := oneCluster(deleted)
			going.Annotations = map[string]string{annotation: "k1"}
			hub := newHub(t, going)
			hub.Fail("create "+tickets, errors.New("no"))
			if err := hub.Handle("Cluster", key); err == nil {
				t.Error("want the server's error")
			}
			if left := hubtest.MustGet[*fleet.Cluster](t, hub, "fleet-default", "east"); !hasFinalizer(left) {
				t.Fatal("the Cluster is gone and its tickets are valid")
			}
			hub.Fail("create "+tickets, nil)
			hub.Requests()
			handle(t, hub)
			requests := hubtest.ExpectRequests(t, hub, "get "+tickets, "create "+tickets, "patch Cluster fleet-default/east")
			hubtest.ExpectOrder(t, requests, "create "+tickets, "patch Cluster fleet-default/east")
			if !isBlocked(t, hub, identity.Thumbprint("k1")) || isBlocked(t, hub, "another") {
				t.Error("other tickets are blocked")
			}
		})
	}
}

// The finalizer of the Cluster was removed while no controller ran. Only the Secret in its namespace shows its key.
func TestTicketsOfAGoneCluster_AreBlocked(t *testing.T) {
	hub := newHub(t, ours(), markedAccount())
	if err := hub.App.Recoveries.LoadKey(t.Context()); err != nil {
		t.Fatal(err)
	}
	agent, err := identity.NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ticket, err := hub.App.Recoveries.Key().SignTicket(identity.Ticket{Workspace: "fleet-default", Cluster: "east", ClientID: "c", Key: agent.Thumbprint(), Time: hub.Now()})
	if err != nil {
		t.Fatal(err)
	}
	hub.Put(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: east, Name: names.Recovery}, Type: protocol.SecretTypeRecovery,
		Data: protocol.Recovery{Token: "t", Ticket: ticket, HubKey: "k", WorkspaceKey: []byte("w")}.Encode(),
	})
	handle(t, hub)
	if !isBlocked(t, hub, agent.Thumbprint()) || hubtest.Get[*corev1.Namespace](hub, "", east) != nil {
		t.Error("the ticket is valid, or the namespace stays")
	}
}
