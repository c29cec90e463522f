package member

import (
	"cmp"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/check"
	"github.com/fleet-hub/fleet/internal/cmd/cli/remedy"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/rules/capi"
	clusterrules "github.com/fleet-hub/fleet/internal/rules/clusters"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// identityChecks returns the checks of the Cluster's registration, its account and its kubeconfig.
func identityChecks() []check.Check[*Facts] {
	return []check.Check[*Facts]{
		{ID: "cluster-client-id", Needs: sources(sourceSiblings), Judge: checkClientID},
		{ID: "cluster-requests", Needs: sources(SourceRegistrations), Judge: checkRequests},
		{ID: "cluster-registration", Needs: sources(SourceRegistrations), Judge: checkRegistration},
		{ID: "cluster-account", Needs: sources(SourceRegistrations, SourceAccounts), Judge: checkAccount},
		{ID: "cluster-kubeconfig", Needs: sources(SourceKubeconfig), Judge: checkKubeconfig},
	}
}

func checkClientID(f *Facts) []check.Row {
	first := clusterrules.FirstOf(f.Siblings)
	if len(f.Siblings) < 2 || first == nil {
		return nil
	}
	younger, cause := f.Cluster, fmt.Sprintf("Cluster %s/%s, which is older, has the same client ID: agents with this client ID belong to it", first.Namespace, first.Name)
	if first.Name == f.Cluster.Name {
		for _, sibling := range f.Siblings {
			if sibling.Name != f.Cluster.Name {
				younger, cause = sibling, fmt.Sprintf("the Cluster has the same client ID as Cluster %s/%s, which is older", first.Namespace, first.Name)
			}
		}
	}
	// The UID is unique.
	return []check.Row{check.Fail(check.OfFleet("Cluster", younger), cause,
		remedy.Patch("clusters", younger, map[string]any{"spec": map[string]any{"clientID": younger.UID}}))}
}

func checkRequests(f *Facts) (rows []check.Row) {
	for _, request := range f.Registrations {
		granted := conditions.Get(request.Status.Conditions, conditions.Granted)
		target, fix := check.OfFleet("ClusterRegistration", request), remedy.Describe("clusterregistrations", request.Namespace, request.Name)
		switch {
		case request.DeletionTimestamp != nil:
		case granted != nil && conditions.IsTrouble(*granted):
			rows = check.Group(rows, granted.Reason, check.Fail(target, granted.Reason+": "+granted.Message, cmp.Or(f.fixRequest(request, granted.Reason), fix)))
		case !request.Status.Granted && f.Now.Sub(request.CreationTimestamp.Time) > check.RequestPatience:
			rows = check.Group(rows, "waits", check.Fail(target, "the hub has not granted the request", fix))
		}
	}
	return rows
}

// fixRequest returns the command for a reason of a request.
func (f *Facts) fixRequest(request *fleet.ClusterRegistration, reason string) string {
	if reason == conditions.ReasonAccountReplaced {
		return f.Repair
	}
	bound := request.DeepCopy()
	bound.Status.ClusterName = f.Cluster.Name // the status of a request that is refused does not name it
	return remedy.OfRegistration(bound, reason)
}

func checkRegistration(f *Facts) []check.Row {
	switch {
	case len(f.Granted()) > 0:
		request := f.Granted()[0]
		return []check.Row{check.Ok(check.OfFleet("ClusterRegistration", request), "granted")}
	case f.Cluster.Status.Agent.LastSeen.IsZero(), f.Cluster.DeletionTimestamp != nil, clusterrules.ManagedElsewhere(f.Cluster):
		return nil // check cluster-heartbeat reports it
	}
	return []check.Row{check.Fail(f.Object(), "the agent has reported before, and the Cluster has no registration that was granted", f.Repair)}
}

func checkAccount(f *Facts) (rows []check.Row) {
	for _, request := range f.Granted() {
		if f.accountOf(request) == nil {
			rows = check.Group(rows, "", check.Fail(check.OfFleet("ClusterRegistration", request),
				fmt.Sprintf("the account of the registration does not exist in namespace %s: the agent's token is not valid", f.Namespace()), f.Repair))
		}
	}
	return rows
}

func checkKubeconfig(f *Facts) []check.Row {
	if !f.Imported() {
		return nil
	}
	secret, k := clusterrules.KubeconfigSecret(f.Cluster), f.Kubeconfig
	target := check.Object{Kind: "Secret", Namespace: secret.Namespace, Name: secret.Name}
	left := k.Expires.Sub(f.Now)
	switch {
	case !k.Exists:
		return []check.Row{check.Fail(target, fmt.Sprintf("the Secret, or its key %q, does not exist", protocol.KubeconfigValueKey), remedy.OfCluster(f.Cluster, conditions.ReasonKubeconfigMissing))}
	case k.Err != nil:
		return []check.Row{check.Fail(target, k.Err.Error(), check.KubeconfigFix(f.Cluster, k.Err))}
	case k.Expires.IsZero():
		return []check.Row{check.Ok(target, "the credential does not expire")}
	case left <= 0:
		return []check.Row{check.Fail(target, "the credential expired on "+k.Expires.UTC().Format(time.DateOnly), remedy.OfCluster(f.Cluster, conditions.ReasonKubeconfigExpired))}
	case left < check.CredentialWarning && !capi.HasProvidersKubeconfig(f.Cluster): // condition FollowsClusterAPI warns of that one
		return []check.Row{check.Warn(target, "the credential expires in "+duration.HumanDuration(left), remedy.OfCluster(f.Cluster, conditions.ReasonKubeconfigExpired))}
	}
	return []check.Row{check.Ok(target, "the credential expires on "+k.Expires.UTC().Format(time.DateOnly))}
}
