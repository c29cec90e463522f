package cluster

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	"github.com/fleet-hub/fleet/internal/identity"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// tickets is the ConfigMap with the blocked tickets of workspace fleet-default.
var tickets = "ConfigMap cattle-fleet-system/" + names.SafeConcat(names.DeletedClusters, "fleet-default", names.KeyHash("fleet-default"))

// isBlocked reports whether a ticket of a Cluster is blocked that was signed an hour ago for any key.
func isBlocked(t *testing.T, hub *hubtest.Hub, cluster string) bool {
	t.Helper()
	blocked, err := hub.App.Recoveries.IsBlocked(t.Context(), identity.Ticket{Workspace: "fleet-default", Cluster: cluster, Key: "k", Time: hub.Now().Add(-time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	return blocked
}

// Also those of a Cluster without a key: its agent may hold a ticket although it never reported its key.
func TestTicketsOfADeletedCluster_AreBlockedBeforeItIsGone(t *testing.T) {
	for name, annotations := range map[string]map[string]string{
		"pinned key": {annotation.AgentKey: "k1"}, "blocked key": {annotation.BlockedKey: "k1"}, "no key": nil,
	} {
		t.Run(name, func(t *testing.T) {
			going := oneCluster(deleted)
			going.Annotations = annotations
			hub := newHub(t, going)
			hub.Fail("create "+tickets, apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "tickets", errors.New("exceeded quota")))
			if err := hub.Handle("Cluster", key); err == nil {
				t.Error("want the server's error")
			}
			left := hubtest.MustGet[*fleet.Cluster](t, hub, "fleet-default", "east")
			if !hasFinalizer(left) {
				t.Fatal("the Cluster is gone and its tickets are valid")
			}
			if told := conditions.Get(left.Status.Conditions, conditions.Processed); told == nil || !strings.Contains(told.Message, "exceeded quota") {
				t.Errorf("the Cluster does not tell why it stays: %v", told)
			}
			hub.Follow()
			hub.Fail("create "+tickets, nil)
			hub.Requests()
			handle(t, hub)
			requests := hubtest.ExpectRequests(t, hub, "get "+tickets, "create "+tickets, "patch Cluster fleet-default/east")
			hubtest.ExpectOrder(t, requests, "create "+tickets, "patch Cluster fleet-default/east")
			if !isBlocked(t, hub, "east") || isBlocked(t, hub, "west") {
				t.Error("other tickets are blocked")
			}
		})
	}
}

// The finalizer of the Cluster was removed while no controller ran. Neither a key of the hub nor the Secret with the
// ticket is needed.
func TestTicketsOfAGoneCluster_AreBlocked(t *testing.T) {
	hub := newHub(t, ours(), markedAccount())
	handle(t, hub)
	if !isBlocked(t, hub, "east") || hubtest.Get[*corev1.Namespace](hub, "", east) != nil {
		t.Error("the ticket is valid, or the namespace stays")
	}
}

// A user deleted the namespace and removed the finalizer of the Cluster. When the namespace is gone, nothing shows that there
// was a Cluster. The events of the namespace's objects cost nothing more.
func TestTicketsOfAGoneCluster_AreBlockedBeforeItsNamespaceIsGone(t *testing.T) {
	hub := newHub(t, ours(terminating), markedAccount(), markedDeployment(fleet.FinalizerBundleDeployment))
	hub.Fail("create "+tickets, apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "tickets", errors.New("exceeded quota")))
	if err := hub.Handle("Cluster", key); err == nil {
		t.Error("want the server's error")
	}
	if left := hubtest.MustGet[*fleet.BundleDeployment](t, hub, east, "b"); len(left.Finalizers) == 0 {
		t.Error("the namespace can end although the tickets are valid")
	}
	hub.Fail("create "+tickets, nil)
	hub.Requests()
	handle(t, hub)
	hubtest.ExpectRequests(t, hub, "get Cluster "+key, "get "+tickets, "get "+tickets, "create "+tickets, "patch BundleDeployment "+east+"/b")
	if !isBlocked(t, hub, "east") {
		t.Error("the ticket is valid")
	}
	hub.Requests()
	hub.Sync()
	handle(t, hub)
	hubtest.ExpectRequests(t, hub)
}

func TestNamespaceThatIsBeingDeleted_BlocksNoTicketsOfOthers(t *testing.T) {
	for name, prepare := range map[string]func(*hubtest.Hub){
		"a user created the namespace": func(hub *hubtest.Hub) { hub.Put(ours(terminating, unlabelled)) },
		"the Cluster exists":           func(hub *hubtest.Hub) { hub.Put(ours(terminating)); hub.Have(oneCluster(fresh)) },
	} {
		t.Run(name, func(t *testing.T) {
			hub := newHub(t, markedDeployment(fleet.FinalizerBundleDeployment))
			prepare(hub)
			handle(t, hub)
			if isBlocked(t, hub, "east") {
				t.Error("the ticket is blocked")
			}
			if left := hubtest.MustGet[*fleet.BundleDeployment](t, hub, east, "b"); len(left.Finalizers) > 0 {
				t.Errorf("it is still held by %v", left.Finalizers)
			}
		})
	}
}

// Otherwise a user who removes the finalizer of the Cluster then would leave its tickets valid.
func TestTicketsOfADeletedCluster_AreBlockedBeforeItsNamespaceIsDeleted(t *testing.T) {
	hub := newHub(t, oneCluster(deleted), ours())
	hub.Fail("create "+tickets, apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "tickets", errors.New("exceeded quota")))
	if err := hub.Handle("Cluster", key); err == nil {
		t.Error("want the server's error")
	}
	hubtest.MustGet[*corev1.Namespace](t, hub, "", east)
	hub.Follow()
	hub.Fail("create "+tickets, nil)
	hub.Requests()
	handle(t, hub)
	requests := hubtest.ExpectRequests(t, hub, "get "+tickets, "get "+tickets, "create "+tickets, "delete Namespace "+east)
	hubtest.ExpectOrder(t, requests, "create "+tickets, "delete Namespace "+east)
}

func TestClusterOfADeletedWorkspace_BlocksAllTickets(t *testing.T) {
	leaving := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "fleet-default", DeletionTimestamp: &metav1.Time{Time: time.Unix(1, 0)}, Finalizers: []string{"kubernetes"}}}
	hub := newHub(t, oneCluster(deleted), leaving)
	handle(t, hub)
	hubtest.ExpectRequests(t, hub, "get "+tickets, "create "+tickets, "patch Cluster fleet-default/east")
	if !isBlocked(t, hub, "east") || !isBlocked(t, hub, "west") {
		t.Error("tickets of the deleted workspace are valid")
	}
}

// The hub's clock was ahead when it signed the ticket. The agent reports the time of its ticket. A time that no replaced ticket
// can have would only keep tickets of the next Cluster with the name from counting.
func TestTicketFromTheFuture_IsBlockedIfTheAgentReportsIt(t *testing.T) {
	for name, test := range map[string]struct {
		ahead    time.Duration
		reported string
		leaves   bool
		want     bool
	}{
		"one day ahead":                    {24 * time.Hour, "hash", false, true},
		"one day ahead, workspace deleted": {24 * time.Hour, "hash", true, true},
		"one day ahead, not reported":      {24 * time.Hour, "", false, false},
		"too far ahead to be the last one": {31 * 24 * time.Hour, "hash", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			going := oneCluster(deleted)
			hub := newHub(t)
			signed := hub.Now().Add(test.ahead)
			if test.reported != "" {
				going.Status.Agent.RecoveryTicket = signed.UTC().Format(time.RFC3339) + "/" + test.reported
			}
			hub.Put(going)
			if test.leaves {
				hub.Put(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "fleet-default", DeletionTimestamp: &metav1.Time{Time: time.Unix(1, 0)}, Finalizers: []string{"kubernetes"}}})
			}
			handle(t, hub)
			got, err := hub.App.Recoveries.IsBlocked(t.Context(), identity.Ticket{Workspace: "fleet-default", Cluster: "east", Key: "k", Time: signed})
			if err != nil || got != test.want {
				t.Errorf("blocked %t, %v", got, err)
			}
			if after, err := hub.App.Recoveries.IsBlocked(t.Context(), identity.Ticket{Workspace: "fleet-default", Cluster: "east", Key: "k", Time: signed.Add(time.Second)}); err != nil || after {
				t.Errorf("a later ticket is blocked: %t, %v", after, err)
			}
		})
	}
}
