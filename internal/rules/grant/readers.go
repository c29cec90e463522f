package grant

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/clusters"
	"github.com/fleet-hub/fleet/internal/rules/objects"
	"github.com/fleet-hub/fleet/internal/rules/requests"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

// accessAccounts returns the accounts that may read the answer to a request.
func accessAccounts(in Input) (accounts []rbacv1.Subject) {
	if requests.IsRecovery(in.Request) {
		return []rbacv1.Subject{objects.Subject(in.Request.Namespace, names.Recovery)}
	}
	for _, token := range accessTokens(in) {
		accounts = append(accounts, accountOf(token))
	}
	return accounts
}

// accessTokens returns the tokens whose accounts may read the answer: the token that the request names, or else the token
// of the Cluster's import. Old agents send no label and so name no token. Without an import their token may be any of
// the workspace. Then the name of the Secret, which cannot be guessed, protects it. A token for another client ID is
// never among them.
func accessTokens(in Input) []*fleet.ClusterRegistrationToken {
	return slices.DeleteFunc(candidates(in), func(t *fleet.ClusterRegistrationToken) bool { return requests.IsForAnother(t, in.Request) })
}

func candidates(in Input) []*fleet.ClusterRegistrationToken {
	switch {
	case in.NamedToken != nil:
		return []*fleet.ClusterRegistrationToken{in.NamedToken}
	case in.Imported != nil:
		return []*fleet.ClusterRegistrationToken{in.Imported}
	case in.Request.Labels[fleet.LabelRegistrationToken] != "":
		return nil
	}
	all := slices.DeleteFunc(slices.Clone(in.Tokens), func(t *fleet.ClusterRegistrationToken) bool { return t.DeletionTimestamp != nil })
	slices.SortFunc(all, func(a, b *fleet.ClusterRegistrationToken) int { return strings.Compare(a.Name, b.Name) })
	return all
}

func accountOf(token *fleet.ClusterRegistrationToken) rbacv1.Subject {
	return objects.Subject(token.Namespace, names.ImportAccount(token.Name, string(token.UID)))
}

// credentialAccess returns the Role and RoleBinding that let the import account of the request read its credential, and only
// that. It returns nil if the request names no token that exists and no import created it: no account can read the
// answer.
func credentialAccess(in Input, cluster *fleet.Cluster) []runtime.Object {
	accounts := accessAccounts(in)
	if len(accounts) == 0 {
		return nil
	}
	name := CredentialAccessName(SharedName(in))
	meta := func() metav1.ObjectMeta {
		return answerMeta(in.Namespaces.Registration, name, cluster.Name, in.Request)
	}
	binding := objects.BindingOf(meta(), "Role", name, accounts[0])
	binding.Subjects = append(binding.Subjects, accounts[1:]...)
	return []runtime.Object{
		// watch in addition to get: our agents learn about the credential as soon as it is written
		objects.RoleOf(meta(), rbacv1.PolicyRule{
			APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "watch"},
			ResourceNames: []string{names.CredentialSecret(in.Request.Spec.ClientID, in.Request.Spec.ClientRandom)},
		}),
		binding,
	}
}

// unreadable reports whether no account may read an answer and no agent uses it. It does not matter if the token is
// deleted after the agent has joined. For requests that Rancher Fleet granted, the use is unknown.
func unreadable(in Input, cluster *fleet.Cluster) bool {
	before, noted := in.Request.Annotations[annotation.LastSeenAtGrant]
	return len(accessAccounts(in)) == 0 && noted && clusters.IsHeartbeat(before, cluster)
}

// Most objects of a request are in its workspace or in its Cluster's namespace. The Role and RoleBinding that make
// its answer readable are in one namespace for all workspaces, and are named after the request. Two requests of the
// same name, by chance or on purpose, would overwrite each other's objects for ever. So only the older one uses the
// plain name.

// SharedName returns the name of a request's objects in the namespace that all workspaces share.
func SharedName(in Input) string {
	for _, other := range in.Namesakes {
		if requests.Precedes(other, in.Request) {
			return names.Namesake(in.Request.Namespace, in.Request.Name)
		}
	}
	return in.Request.Name
}

// CredentialAccessName returns the name of the Role and the RoleBinding that make one credential readable. shared is the
// request's SharedName.
func CredentialAccessName(shared string) string { return names.SafeConcat(shared, "creds") }

// CredentialAccessNames returns all names that a request's Role and RoleBinding may have. Their annotations show which request
// they belong to.
func CredentialAccessNames(workspace, request string) []string {
	return []string{CredentialAccessName(request), CredentialAccessName(names.Namesake(workspace, request))}
}
