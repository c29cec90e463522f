package handshake_test

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/fleet-hub/fleet/internal/handshake"
	"github.com/fleet-hub/fleet/internal/names"
)

// accountOf is the account of a bearer token that works, nil for one that does not.
func (w *world) accountOf(bearer string) *corev1.ServiceAccount {
	parsed, err := handshake.ParseAccountToken(bearer)
	if err != nil || !parsed.Expires.IsZero() && !parsed.Expires.After(w.now) {
		return nil
	}
	for _, account := range list[corev1.ServiceAccount](w, onHub) {
		if string(account.UID) == parsed.AccountUID {
			return account
		}
	}
	return nil
}

// may is the API server's decision: whether a bearer token allows a verb on an object.
func (w *world) may(bearer, verb, resource, namespace, name string) bool {
	account := w.accountOf(bearer)
	if account == nil {
		return false
	}
	for _, binding := range list[rbacv1.RoleBinding](w, onHub) {
		if binding.Namespace != namespace || !slices.ContainsFunc(binding.Subjects, func(s rbacv1.Subject) bool {
			return s.Kind == "ServiceAccount" && s.Namespace == account.Namespace && s.Name == account.Name
		}) {
			continue
		}
		rules := clusterRole(binding.RoleRef.Name)
		if binding.RoleRef.Kind == "Role" {
			role := find[rbacv1.Role](w, onHub, namespace, binding.RoleRef.Name)
			if role == nil {
				continue
			}
			rules = role.Rules
		}
		if slices.ContainsFunc(rules, func(rule rbacv1.PolicyRule) bool {
			named := len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, name)
			return named && slices.Contains(rule.Verbs, verb) && slices.Contains(rule.Resources, resource)
		}) {
			return true
		}
	}
	return false
}

// clusterRole are the rules of the ClusterRoles that come with the hub, as far as a transcript needs them.
func clusterRole(name string) []rbacv1.PolicyRule {
	if name != names.BundleDeploymentRole {
		return nil
	}
	return []rbacv1.PolicyRule{{Resources: []string{"bundledeployments"}, Verbs: []string{"get", "list", "watch"}}}
}
