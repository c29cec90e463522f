package handshake_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/handshake"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func clusterManaged(c *fleet.Cluster) {
	c.Labels = map[string]string{"fleet.cattle.io/cluster-management": "another"}
}

// Nothing is granted for a Cluster of another manager, however far the request is.
func TestGrant_ClusterOfAnotherManager(t *testing.T) {
	const elsewhere = handshake.GrantStage("ManagedElsewhere")
	type mod = func(*handshake.GrantInput)
	rights := func(more ...mod) handshake.GrantInput {
		return grantInput(append([]mod{found(clusterManaged), asked, requestAccount, requestRights}, more...)...)
	}
	statusSays := func(namespace string) mod {
		return found(clusterManaged, func(c *fleet.Cluster) { c.Status.Namespace = namespace })
	}
	old := later(handshake.RejectionLife)
	tests := map[string]struct {
		in      handshake.GrantInput
		want    handshake.GrantStage
		granted bool
	}{
		"new request: nothing is granted":                   {grantInput(found(clusterManaged), asked), elsewhere, false},
		"account and rights exist: no credential is made":   {rights(), elsewhere, false},
		"status names a namespace of another tenant":        {rights(statusSays("kube-system")), elsewhere, false},
		"status names no namespace":                         {rights(statusSays("")), elsewhere, false},
		"another agent is at work: no takeover waits":       {grantInput(found(clusterManaged, clusterSeen(at(-time.Minute))), asked), elsewhere, false},
		"granted before, its account is there: it stays":    {rights(with(requestGranted), named(clusterManaged)), elsewhere, true},
		"granted before, its account is elsewhere: it ends": {grantInput(with(requestGranted), named(clusterManaged), asked), elsewhere, false},
		"nothing granted for a day: the request is deleted": {grantInput(found(clusterManaged), asked, old), handshake.GrantAbandoned, false},
		"granted before, a day later: it stays":             {rights(with(requestGranted), named(clusterManaged), old), elsewhere, true},
		"the Cluster goes: what was granted goes with it":   {rights(with(requestGranted), named(clusterManaged, clusterGoing)), handshake.GrantLeaving, true},
		"the label is empty: no other manager":              {grantInput(found(func(c *fleet.Cluster) { c.Labels = map[string]string{"fleet.cattle.io/cluster-management": ""} }), asked), handshake.GrantAwaitingRights, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			out := pure(t, handshake.Grant, test.in)
			expectEqual(t, "stage", out.Stage, test.want)
			expectEqual(t, "granted", out.Granted, test.granted)
			if test.want == elsewhere && (out.Own != nil || len(out.Children)+len(out.Reader)+len(out.Superseded) > 0 || out.Mint != nil || out.CreateCluster != nil) {
				t.Errorf("something is granted: %+v", out)
			}
			if test.want == elsewhere && (out.Reason != "ClusterManagedElsewhere" || out.Message == "") {
				t.Errorf("reason %q, message %q", out.Reason, out.Message)
			}
		})
	}
}

// An account is made in the computed namespace, whatever the status says.
func TestRequestAccount_IsInTheComputedNamespace(t *testing.T) {
	cluster := aCluster(func(c *fleet.Cluster) { c.Status.Namespace = "kube-system" })
	got := handshake.RequestAccount(aRequest(), cluster)
	expectEqual(t, "account", got, types.NamespacedName{Namespace: aCluster().Status.Namespace, Name: "request-1-r1"})
}

func TestClaimOf(t *testing.T) {
	marked := func(workspace, cluster string) *corev1.Namespace {
		annotations := map[string]string{"fleet.cattle.io/cluster-namespace": workspace, "fleet.cattle.io/cluster": cluster, "other": "x"}
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Annotations: annotations}}
	}
	tests := map[string]struct {
		namespace *corev1.Namespace
		want      handshake.NamespaceClaim
	}{
		"no namespace":                  {nil, handshake.NamespaceUnclaimed},
		"without marks":                 {marked("", ""), handshake.NamespaceUnclaimed},
		"of this Cluster":               {marked("ws", "c"), handshake.NamespaceOwn},
		"of another Cluster":            {marked("ws", "d"), handshake.NamespaceOfAnother},
		"of a namesake elsewhere":       {marked("ws2", "c"), handshake.NamespaceOfAnother},
		"it does not say which Cluster": {marked("ws", ""), handshake.NamespaceOfAnother},
		"it does not say where that is": {marked("", "c"), handshake.NamespaceOfAnother},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			expectEqual(t, "claim", handshake.ClaimOf(test.namespace, types.NamespacedName{Namespace: "ws", Name: "c"}), test.want)
		})
	}
}
