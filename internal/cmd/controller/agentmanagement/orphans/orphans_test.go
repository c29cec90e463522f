package orphans

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

var errServer = errors.New("the server is upset")

// sweepOf sweeps a hub, and returns what was logged at Info and above.
func sweepOf(ctx context.Context, hub *hubtest.Hub) string {
	var log bytes.Buffer
	hub.App.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	newSweeper(hub.App).sweep(ctx)
	return log.String()
}

func expectLog(t *testing.T, got, want string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}

const registrationNamespace = "cattle-fleet-clusters-system"

// left are the objects of one cluster of which only those are left that have nobody.
func left() []hubtest.Object {
	account := &corev1.ServiceAccount{ObjectMeta: metadata(names.ClusterNamespace("ws", "c"), "r1-u1")}
	credential := &corev1.Secret{ObjectMeta: metadata(registrationNamespace, "c-1"), Type: protocol.SecretTypeCredential}
	values := &corev1.Secret{ObjectMeta: metadata("ws", "t1"), Type: protocol.SecretTypeValues}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metadata("", "r1-content")}
	reader := &rbacv1.RoleBinding{ObjectMeta: metadata(registrationNamespace, "r1-creds")}
	for _, obj := range []metav1.Object{account, binding} {
		ofRequest("ws", "r1")(obj)
	}
	for _, obj := range []metav1.Object{credential, reader} {
		answering("ws", "r1")(obj)
	}
	ofToken("ws", "t1")(values)
	return []hubtest.Object{account, credential, values, binding, reader, role(ofRequest("ws", "r1")), agentBundle(), deployment(), clusterNamespace("ws", "c")}
}

func cluster() *fleet.Cluster {
	return &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "c"}}
}

func request() *fleet.ClusterRegistration {
	return &fleet.ClusterRegistration{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "r1"}}
}

func token() *fleet.ClusterRegistrationToken {
	return &fleet.ClusterRegistrationToken{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "t1"}}
}

func bundle() *fleet.Bundle {
	return &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "b"}}
}

// The controller of the Cluster deletes its namespace, after it has blocked the tickets of the Cluster.
func TestOrphans_RightsAreDeletedFirstAndNamespacesStay(t *testing.T) {
	hub := hubtest.New(t)
	hub.Put(left()...)
	log := sweepOf(t.Context(), hub)
	east := names.ClusterNamespace("ws", "c")
	expectLog(t, log, "level=INFO msg=\"orphans swept\" total=8 clusterrolebindings=1 rolebindings=1 serviceaccounts=1 roles=1 credentials=1 values=1 bundles=1 bundledeployments=1\n")
	requests := hubtest.ExpectRequests(t, hub,
		"get ClusterRegistration ws/r1", "get ClusterRegistrationToken ws/t1", "get Cluster ws/c", "get Bundle ws/b",
		"delete ClusterRoleBinding r1-content", "delete RoleBinding "+registrationNamespace+"/r1-creds", "delete ServiceAccount "+east+"/r1-u1",
		"delete Role ws/role", "delete Secret "+registrationNamespace+"/c-1", "delete Secret ws/t1", "delete Bundle ws/fleet-agent-c",
		"delete BundleDeployment "+east+"/b",
	)
	hubtest.ExpectOrder(t, requests, "delete ClusterRoleBinding r1-content", "delete ServiceAccount "+east+"/r1-u1",
		"delete Bundle ws/fleet-agent-c", "delete BundleDeployment "+east+"/b")

	hub.Sync()
	expectLog(t, sweepOf(t.Context(), hub), "")
	hubtest.ExpectRequests(t, hub)
}

func TestObjectsWithOwners_Stay(t *testing.T) {
	hub := hubtest.New(t)
	hub.Put(append(left(), cluster(), request(), token(), bundle())...)
	expectLog(t, sweepOf(t.Context(), hub), "")
	hubtest.ExpectRequests(t, hub) // the caches know it all
}

func TestOwnerMissingInTheCache_KeepsTheObject(t *testing.T) {
	hub := hubtest.New(t)
	hub.Put(left()...)
	hub.Have(cluster(), request(), token(), bundle())
	expectLog(t, sweepOf(t.Context(), hub), "")
	hubtest.ExpectRequests(t, hub, "get ClusterRegistration ws/r1", "get ClusterRegistrationToken ws/t1", "get Cluster ws/c", "get Bundle ws/b")
}

func TestOwnerBeingDeleted_KeepsTheObject(t *testing.T) {
	leaving := cluster()
	leaving.DeletionTimestamp = &metav1.Time{Time: hubtest.New(t).Now()}
	hub := hubtest.New(t)
	hub.Put(append(left(), leaving, request(), token(), bundle())...)
	expectLog(t, sweepOf(t.Context(), hub), "")
}

func TestOwnerThatCannotBeLookedUp_KeepsTheObject(t *testing.T) {
	resource := schema.GroupResource{Group: "fleet.cattle.io", Resource: "clusterregistrations"}
	tests := map[string]struct {
		err  error
		want string
	}{
		"the server fails":     {errServer, "the server is upset"},
		"reading is forbidden": {apierrors.NewForbidden(resource, "r1", errServer), `clusterregistrations.fleet.cattle.io \"r1\" is forbidden: the server is upset`},
		"the server does not know the kind": {
			apierrors.NewGenericServerResponse(404, "get", resource, "r1", "404 page not found", 0, true),
			"the server could not find the requested resource (get clusterregistrations.fleet.cattle.io r1)",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			hub := hubtest.New(t)
			hub.Put(left()...)
			hub.Fail("get ClusterRegistration ws/r1", test.err)
			expectLog(t, sweepOf(t.Context(), hub), `level=WARN msg="orphans swept in part, the rest will be retried" total=0 error="looking for the ClusterRegistration ws/r1: `+test.want+"\"\n")
			hubtest.ExpectRequests(t, hub, "get ClusterRegistration ws/r1")
		})
	}
}

func TestFailedDeletionOfRights_KeepsTheRest(t *testing.T) {
	hub := hubtest.New(t)
	hub.Put(left()...)
	account := "ServiceAccount " + names.ClusterNamespace("ws", "c") + "/r1-u1"
	hub.Fail("delete "+account, errServer)
	expectLog(t, sweepOf(t.Context(), hub), `level=WARN msg="orphans swept in part, the rest will be retried" total=2 clusterrolebindings=1 rolebindings=1 error="removing one of the serviceaccounts: the server is upset"`+"\n")
	if hubtest.Get[*fleet.BundleDeployment](hub, names.ClusterNamespace("ws", "c"), "b") == nil {
		t.Error("the BundleDeployment is deleted before the agent's account")
	}
	hub.Fail("delete "+account, nil)
	hub.Sync()
	expectLog(t, sweepOf(t.Context(), hub), "level=INFO msg=\"orphans swept\" total=6 serviceaccounts=1 roles=1 credentials=1 values=1 bundles=1 bundledeployments=1\n")
}

func TestSweepThatFails_IsRepeated(t *testing.T) {
	hub := hubtest.New(t)
	hub.Put(left()...)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		pass := func(duration time.Duration) {
			<-time.After(duration)
			synctest.Wait()
		}
		hub.Fail("get ClusterRegistration ws/r1", errServer)
		newSweeper(hub.App).start(ctx)
		hubtest.ExpectRequests(t, hub, "get ClusterRegistration ws/r1")
		pass(retryMin)
		hubtest.ExpectRequests(t, hub, "get ClusterRegistration ws/r1")
		hub.Fail("get ClusterRegistration ws/r1", nil)
		pass(2 * retryMin)
		if hubtest.Get[*fleet.BundleDeployment](hub, names.ClusterNamespace("ws", "c"), "b") != nil {
			t.Error("orphans stay until the next start")
		}
		hub.Requests()
		pass(2 * retryMax)
		hubtest.ExpectRequests(t, hub) // nothing is left to do
	})
}

func TestObjectChangedSince_Stays(t *testing.T) {
	hub := hubtest.New(t)
	seen := role(ofRequest("ws", "r1"))
	seen.UID = "u1"
	hub.Put(seen)
	hub.Before("delete Role ws/role", func() {
		adopted := role(ofRequest("ws", "r2"))
		adopted.UID = "u1"
		hub.Have(adopted)
	})
	expectLog(t, sweepOf(t.Context(), hub), "")
	if hubtest.Get[*rbacv1.Role](hub, "ws", "role") == nil {
		t.Error("somebody else's Role is gone")
	}
}

func TestObjectDeletedByOthers_IsNotCounted(t *testing.T) {
	hub := hubtest.New(t)
	hub.Put(left()...)
	gone := role()
	hub.Before("delete Role ws/role", func() { hub.Remove(gone) })
	expectLog(t, sweepOf(t.Context(), hub), "level=INFO msg=\"orphans swept\" total=7 clusterrolebindings=1 rolebindings=1 serviceaccounts=1 credentials=1 values=1 bundles=1 bundledeployments=1\n")
}

func TestSweep_StopsWithTheProcess(t *testing.T) {
	hub := hubtest.New(t)
	hub.Put(left()...)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	expectLog(t, sweepOf(ctx, hub), `level=WARN msg="orphans swept in part, the rest will be retried" total=0 error="context canceled"`+"\n")
	hubtest.ExpectRequests(t, hub, "get ClusterRegistration ws/r1")
}

// TestObjectsOfRancherFleet_AreDeletedWithTheirOwner deletes one owner on a recorded hub and expects the deletion of
// exactly its objects.
func TestObjectsOfRancherFleet_AreDeletedWithTheirOwner(t *testing.T) {
	const west, westNamespace = "cluster-3f8a81b9896a", "cluster-fleet-default-cluster-3f8a81b9896a-c330adc823da"
	const account, swarm = westNamespace + "/request-pvwtt-789af420-89ab-4b93-8745-8b84267b8d74", "swarm-ffc23186-d4e6-468d-b409-323578d126f4"
	tests := map[string]struct {
		gone hubtest.Object
		want []string
	}{
		"all owners exist": {&fleet.Cluster{}, nil},
		"a registration is deleted": {
			&fleet.ClusterRegistration{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: "request-pvwtt"}},
			[]string{
				"get ClusterRegistration fleet-default/request-pvwtt", "delete ClusterRoleBinding request-pvwtt-content",
				"delete RoleBinding fleet-default/request-pvwtt", "delete RoleBinding " + westNamespace + "/request-pvwtt",
				"delete RoleBinding " + registrationNamespace + "/request-pvwtt-creds", "delete ServiceAccount " + account,
				"delete Role fleet-default/request-pvwtt", "delete Role " + registrationNamespace + "/request-pvwtt-creds",
				"delete Secret " + registrationNamespace + "/c-40fc3c1869b8b4f993dd574c33cd29b01f352d4c0cae3b255bd69df90ff66",
			},
		},
		"a Cluster is deleted": {
			&fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: west}},
			[]string{
				"get Cluster fleet-default/" + west, "delete ServiceAccount " + account, "delete Bundle fleet-default/fleet-agent-" + west,
				"delete BundleDeployment " + westNamespace + "/fleet-agent-" + west, "delete BundleDeployment " + westNamespace + "/hello",
			},
		},
		"a Bundle is deleted": {
			&fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: "raw"}},
			[]string{"get Bundle fleet-default/raw", "delete BundleDeployment cluster-fleet-default-east-0f0350029557/raw"},
		},
		"a token is deleted": {
			&fleet.ClusterRegistrationToken{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: "swarm"}},
			[]string{
				"get ClusterRegistrationToken fleet-default/swarm", "delete RoleBinding fleet-default/" + swarm + "-to-role",
				"delete ServiceAccount fleet-default/" + swarm, "delete Role fleet-default/" + swarm + "-role", "delete Secret fleet-default/swarm",
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			hub := hubtest.New(t)
			hub.Put(recorded(t)...)
			hub.Remove(test.gone)
			sweepOf(t.Context(), hub)
			hubtest.ExpectRequests(t, hub, test.want...)
		})
	}
}
