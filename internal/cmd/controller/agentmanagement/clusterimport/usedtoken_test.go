package clusterimport

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/grant"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

const endsToken = "delete ClusterRegistrationToken ws/" + tokenName

// reportedWith is a hub on which ws/c1 has registered with its import token, and an account has sent its heartbeat.
func reportedWith(t *testing.T, speaker string) *hubtest.Hub {
	t.Helper()
	hub, _ := imported(t, func(c *fleet.Cluster) {
		c.ManagedFields = []metav1.ManagedFieldsEntry{{
			Manager: speaker, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:agent":{"f:lastSeen":{}}}}`),
		}}
	})
	token := importToken()
	token.OwnerReferences = []metav1.OwnerReference{{APIVersion: "fleet.cattle.io/v1alpha1", Kind: "Cluster", Name: "c1", UID: "u-c1"}}
	request := &fleet.ClusterRegistration{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ws", Name: "request-1", UID: "u-r", Labels: map[string]string{fleet.LabelRegistrationToken: tokenName},
			Annotations: map[string]string{annotation.TokenUIDAtGrant: "u-t", annotation.LastSeenAtGrant: ""},
		},
		Spec:   fleet.ClusterRegistrationSpec{ClientID: "client"},
		Status: fleet.ClusterRegistrationStatus{ClusterName: "c1", Granted: true},
	}
	account := grant.RequestAccount(request, cluster())
	hub.Put(token, request, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
		Namespace: account.Namespace, Name: names.RequestAccount("request-1", "u-r"), UID: types.UID("u-account"), Labels: map[string]string{fleet.LabelManaged: "true"},
	}})
	hub.Sync()
	hub.Woken()
	hub.Requests()
	return hub
}

func TestUsedImportToken_IsDeleted(t *testing.T) {
	hub := reportedWith(t, "fleet-agent:u-account")
	handle(t, hub)
	hubtest.ExpectRequests(t, hub, readCluster, readSecret, endsToken)
	hub.Sync()
	handle(t, hub)
	expectSome(t, hub, readSecret)
	expectImported(t, hub, "")
	expectNoWork(t, hub)
}

func TestImportToken_StaysWhileAnotherAccountReports(t *testing.T) {
	for name, speaker := range map[string]string{"account of an earlier registration": "fleet-agent:u-before", "unknown account": "fleet-agent"} {
		t.Run(name, func(t *testing.T) {
			hub := reportedWith(t, speaker)
			handle(t, hub)
			hubtest.ExpectRequests(t, hub, readCluster, readSecret)
		})
	}
}

func TestUsedImportToken_ThatCannotBeDeletedIsTriedAgain(t *testing.T) {
	hub := reportedWith(t, "fleet-agent:u-account")
	hub.Fail(endsToken, errServer)
	if err := hub.Handle("Cluster", "ws/c1"); !errors.Is(err, errServer) {
		t.Errorf("error %v, want the server's", err)
	}
	hub.Fail(endsToken, nil)
	hub.Requests()
	handle(t, hub)
	hubtest.ExpectRequests(t, hub, readCluster, readSecret, endsToken)
}
