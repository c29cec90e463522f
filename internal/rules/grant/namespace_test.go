package grant_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/rules/clusters"
	"github.com/fleet-hub/fleet/internal/rules/grant"
	"github.com/fleet-hub/fleet/internal/rules/requests"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

func clusterManaged(c *fleet.Cluster) {
	c.Labels = map[string]string{"fleet.cattle.io/cluster-management": "another"}
}

// Nothing is granted for a Cluster of another manager, however far the request is.
func TestGrant_ClusterOfAnotherManager(t *testing.T) {
	const elsewhere = grant.Stage("ManagedElsewhere")
	type mod = func(*grant.Input)
	rights := func(more ...mod) grant.Input {
		return grantInput(append([]mod{found(clusterManaged), asked, requestAccount, requestRights}, more...)...)
	}
	statusSays := func(namespace string) mod {
		return found(clusterManaged, func(c *fleet.Cluster) { c.Status.Namespace = namespace })
	}
	old := later(grant.RejectionLife)
	tests := map[string]struct {
		in      grant.Input
		want    grant.Stage
		granted bool
	}{
		"new request: nothing is granted":                   {grantInput(found(clusterManaged), asked), elsewhere, false},
		"account and rights exist: no credential is made":   {rights(), elsewhere, false},
		"status names a namespace of another tenant":        {rights(statusSays("kube-system")), elsewhere, false},
		"status names no namespace":                         {rights(statusSays("")), elsewhere, false},
		"another agent is at work: no takeover waits":       {grantInput(found(clusterManaged, rulestest.ClusterSeen(rulestest.At(-time.Minute))), asked), elsewhere, false},
		"granted before, its account is there: it stays":    {rights(with(requestGranted), named(clusterManaged)), elsewhere, true},
		"granted before, its account is elsewhere: it ends": {grantInput(with(requestGranted), named(clusterManaged), asked), elsewhere, false},
		"nothing granted for a day: the request is deleted": {grantInput(found(clusterManaged), asked, old), grant.Abandoned, false},
		"granted before, a day later: it stays":             {rights(with(requestGranted), named(clusterManaged), old), elsewhere, true},
		"the Cluster goes: what was granted goes with it":   {rights(with(requestGranted), named(clusterManaged, rulestest.ClusterGoing)), grant.Leaving, true},
		"the label is empty: no other manager":              {grantInput(found(func(c *fleet.Cluster) { c.Labels = map[string]string{"fleet.cattle.io/cluster-management": ""} }), asked), grant.AwaitingRights, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			out := rulestest.Pure(t, grant.Decide, test.in)
			rulestest.ExpectEqual(t, "stage", out.Stage, test.want)
			rulestest.ExpectEqual(t, "granted", out.Granted, test.granted)
			if test.want == elsewhere && (out.Own != nil || len(out.Children)+len(out.CredentialAccess)+len(out.Superseded) > 0 || out.Mint != nil || out.CreateCluster != nil) {
				t.Errorf("something is granted: %+v", out)
			}
			if test.want == elsewhere && (out.Reason != "ClusterManagedElsewhere" || out.Message == "") {
				t.Errorf("reason %q, message %q", out.Reason, out.Message)
			}
		})
	}
}

// A request whose Cluster's namespace is taken is not kept for ever. What was granted before stays.
func TestGrant_NamespaceTaken(t *testing.T) {
	taken := func(in *grant.Input) { in.NamespaceTaken = true }
	ends := rulestest.At(-30 * time.Second).Add(grant.CredentialLife)
	tests := map[string]struct {
		in    grant.Input
		stage grant.Stage
		ends  time.Time
	}{
		"new request: it waits and ends":         {grantInput(found(), asked, taken), grant.AwaitingNamespace, ends},
		"after its time: the request is deleted": {grantInput(found(), asked, taken, later(grant.CredentialLife)), grant.Abandoned, time.Time{}},
		"granted before: it stays":               {grantInput(with(requestGranted), named(), asked, taken, later(grant.CredentialLife)), grant.AwaitingNamespace, time.Time{}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			out := rulestest.Pure(t, grant.Decide, test.in)
			rulestest.ExpectEqual(t, "stage", out.Stage, test.stage)
			rulestest.ExpectEqual(t, "end", out.Ends, test.ends)
		})
	}
}

func TestInProgress_RequestThatCannotBeGrantedHoldsNoPlace(t *testing.T) {
	for reason, want := range map[string]bool{
		"": true, conditions.ReasonAwaitingRights: true, conditions.ReasonTooManyRequests: true, conditions.ReasonTakeoverPending: false,
		conditions.ReasonNamespaceTaken: false, conditions.ReasonNameTaken: false, conditions.ReasonClusterManagedElsewhere: false,
	} {
		rulestest.ExpectEqual(t, "in progress with reason "+reason, requests.InProgress(aRequest(requestSaid(reason))), want)
	}
}

// An account is made in the computed namespace, whatever the status says.
func TestRequestAccount_IsInTheComputedNamespace(t *testing.T) {
	cluster := rulestest.ACluster(func(c *fleet.Cluster) { c.Status.Namespace = "kube-system" })
	got := grant.RequestAccount(aRequest(), cluster)
	rulestest.ExpectEqual(t, "account", got, types.NamespacedName{Namespace: rulestest.ACluster().Status.Namespace, Name: "request-1-r1"})
}

func TestClaimOf(t *testing.T) {
	marked := func(workspace, cluster string) *corev1.Namespace {
		annotations := map[string]string{"fleet.cattle.io/cluster-namespace": workspace, "fleet.cattle.io/cluster": cluster, "other": "x"}
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Annotations: annotations}}
	}
	tests := map[string]struct {
		namespace *corev1.Namespace
		want      clusters.NamespaceClaim
	}{
		"no namespace":       {nil, clusters.NamespaceUnclaimed},
		"without marks":      {marked("", ""), clusters.NamespaceUnclaimed},
		"of this Cluster":    {marked("ws", "c"), clusters.NamespaceOwn},
		"of another Cluster": {marked("ws", "d"), clusters.NamespaceOfAnother},
		"of a Cluster of the same name in another workspace": {marked("ws2", "c"), clusters.NamespaceOfAnother},
		"the Cluster is missing":                             {marked("ws", ""), clusters.NamespaceOfAnother},
		"the workspace is missing":                           {marked("", "c"), clusters.NamespaceOfAnother},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			rulestest.ExpectEqual(t, "claim", clusters.ClaimOf(test.namespace, types.NamespacedName{Namespace: "ws", Name: "c"}), test.want)
		})
	}
}
