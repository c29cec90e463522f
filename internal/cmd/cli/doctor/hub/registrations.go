package hub

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/check"
	"github.com/fleet-hub/fleet/internal/cmd/cli/remedy"
	clusterrules "github.com/fleet-hub/fleet/internal/rules/clusters"
	tokenrule "github.com/fleet-hub/fleet/internal/rules/token"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// tokenLife is how long a token without an expiry lives after the fix.
const tokenLife = 24 * time.Hour

// registrationChecks returns the checks of requests and tokens.
func registrationChecks() []check.Check[*Facts] {
	return []check.Check[*Facts]{
		{ID: "hub-registrations", Needs: sources(SourceRequests), Judge: checkRegistrations},
		{ID: "hub-takeovers", Needs: sources(SourceRequests), Judge: checkTakeovers},
		{ID: "hub-tokens-expiry", Needs: sources(SourceTokens), Judge: checkTokensExpiry},
		{ID: "hub-tokens-expired", Needs: sources(SourceTokens), Judge: checkTokensExpired},
		{ID: "hub-tokens-values", Needs: sources(SourceTokens, SourceValues), Judge: checkTokensValues},
	}
}

func checkRegistrations(f *Facts) (rows []check.Row) {
	for _, request := range f.Registrations {
		granted := conditions.Get(request.Status.Conditions, conditions.Granted)
		fix := remedy.Describe("clusterregistrations", request.Namespace, request.Name)
		switch {
		case request.DeletionTimestamp != nil:
		case granted != nil && granted.Reason == conditions.ReasonTakeoverPending: // has a check of its own
		case granted != nil && conditions.IsTrouble(*granted):
			rows = check.Group(rows, granted.Reason, check.Fail(check.OfFleet("ClusterRegistration", request), granted.Reason+": "+granted.Message, cmp.Or(remedy.OfRegistration(f.bound(request), granted.Reason), fix)))
		case !request.Status.Granted && f.older(request, check.RequestPatience):
			cause := "the hub has not processed the request"
			if granted != nil && granted.Reason != "" {
				cause = "the request waits: " + granted.Reason + ": " + granted.Message
			}
			rows = check.Group(rows, "waits", check.Fail(check.OfFleet("ClusterRegistration", request), cause, fix))
		}
	}
	return rows
}

// bound returns a request with the name of its Cluster. The status of a request that the hub refuses does not name it.
func (f *Facts) bound(request *fleet.ClusterRegistration) *fleet.ClusterRegistration {
	if request.Status.ClusterName != "" || request.Spec.ClientID == "" {
		return request
	}
	cluster := clusterrules.FirstOf(slices.DeleteFunc(slices.Clone(f.Clusters), func(c *fleet.Cluster) bool {
		return c.Namespace != request.Namespace || c.Spec.ClientID != request.Spec.ClientID
	}))
	if cluster == nil {
		return request
	}
	request = request.DeepCopy()
	request.Status.ClusterName = cluster.Name
	return request
}

func checkTakeovers(f *Facts) (rows []check.Row) {
	for _, request := range f.Registrations {
		granted := conditions.Get(request.Status.Conditions, conditions.Granted)
		if request.DeletionTimestamp == nil && granted != nil && granted.Reason == conditions.ReasonTakeoverPending {
			rows = check.Group(rows, "", check.Warn(check.OfFleet("ClusterRegistration", request), fmt.Sprintf("an agent asks for Cluster %s/%s and did not prove that it is the agent of that Cluster: confirm the request only if you know who sent it",
				request.Namespace, request.Status.ClusterName), remedy.OfRegistration(request, conditions.ReasonTakeoverPending)))
		}
	}
	return rows
}

// isOfImport reports whether the hub has created a token to import a Cluster. The hub also deletes such a token.
func isOfImport(token *fleet.ClusterRegistrationToken) bool {
	return slices.ContainsFunc(token.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == "Cluster" })
}

func checkTokensExpiry(f *Facts) (rows []check.Row) {
	for _, token := range f.Tokens {
		if isOfImport(token) || tokenrule.Expiry(token) != nil || token.DeletionTimestamp != nil {
			continue
		}
		// The TTL counts from the creation of the token.
		ttl := (max(0, f.Now.Sub(token.CreationTimestamp.Time)) + tokenLife).Truncate(time.Hour) + time.Hour
		rows = check.Group(rows, "", check.Warn(check.OfFleet("ClusterRegistrationToken", token), "the token never expires: clients that have it can register clusters until it is revoked",
			remedy.Patch("clusterregistrationtokens", token, map[string]any{"spec": map[string]any{"ttl": fmt.Sprintf("%dh", int(ttl.Hours()))}})))
	}
	return rows
}

func checkTokensExpired(f *Facts) (rows []check.Row) {
	for _, token := range f.Tokens {
		if at := tokenrule.Expiry(token); at != nil && f.Now.Sub(*at) > check.CreationPatience {
			rows = check.Group(rows, "", check.Fail(check.OfFleet("ClusterRegistrationToken", token), "the token expired on "+at.UTC().Format(time.RFC3339)+", and the hub has not deleted it",
				remedy.Command("fleet", "token", "revoke", token.Name, "-n", token.Namespace)))
		}
	}
	return rows
}

func checkTokensValues(f *Facts) (rows []check.Row) {
	known := namesOf(f.Values)
	for _, token := range f.Tokens {
		ready := conditions.Get(token.Status.Conditions, conditions.Ready)
		missing := !known[types.NamespacedName{Namespace: token.Namespace, Name: token.Name}]
		switch {
		case token.DeletionTimestamp != nil:
		case ready != nil && conditions.IsTrouble(*ready):
			rows = check.Group(rows, ready.Reason, check.Fail(check.OfFleet("ClusterRegistrationToken", token), ready.Reason+": "+ready.Message, f.fixToken(token, ready.Reason)))
		case missing && f.older(token, check.CreationPatience):
			rows = check.Group(rows, "missing", check.Fail(check.OfFleet("ClusterRegistrationToken", token), fmt.Sprintf("Secret %s/%s with the values of the token does not exist", token.Namespace, token.Name),
				f.fixToken(token, "")))
		}
	}
	return rows
}

// fixToken returns the command for a token without usable values. Agents cannot use such a token, so it may be replaced.
func (f *Facts) fixToken(token *fleet.ClusterRegistrationToken, reason string) string {
	switch {
	case isOfImport(token):
		return remedy.Describe("clusterregistrationtokens", token.Namespace, token.Name)
	case reason == conditions.ReasonSecretNameTaken || reason == conditions.ReasonTokenNameTooLong || reason == conditions.ReasonNameTaken:
		return remedy.Command("fleet", "token", "revoke", token.Name, "-n", token.Namespace)
	}
	return cmp.Or(remedy.OfToken(token, reason), remedy.Command("kubectl", "logs", "-n", f.System, "deployment/fleet-controller"))
}

// secretObject returns a Secret.
func secretObject(namespace, name string) check.Object {
	return check.Object{Kind: "Secret", Group: corev1.GroupName, Namespace: namespace, Name: name}
}
