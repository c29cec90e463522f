package rules_test

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// accountOf returns the account of a valid bearer token, or nil.
func (w *world) accountOf(bearer string) *corev1.ServiceAccount {
	parsed, err := protocol.ParseAccountToken(bearer)
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

// may stands in for RBAC: it reports whether a bearer token allows a verb on an object.
func (w *world) may(bearer, verb, resource, namespace, name string) bool {
	account := w.accountOf(bearer)
	if account == nil {
		return false
	}
	for _, binding := range list[rbacv1.RoleBinding](w, onHub) {
		if binding.Namespace != namespace || !isFor(binding.Subjects, account) {
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
		if allow(rules, verb, resource, name) {
			return true
		}
	}
	return slices.ContainsFunc(list[rbacv1.ClusterRoleBinding](w, onHub), func(binding *rbacv1.ClusterRoleBinding) bool {
		return isFor(binding.Subjects, account) && allow(clusterRole(binding.RoleRef.Name), verb, resource, name)
	})
}

func isFor(subjects []rbacv1.Subject, account *corev1.ServiceAccount) bool {
	return slices.Contains(subjects, rbacv1.Subject{Kind: "ServiceAccount", Namespace: account.Namespace, Name: account.Name})
}

func allow(rules []rbacv1.PolicyRule, verb, resource, name string) bool {
	return slices.ContainsFunc(rules, func(rule rbacv1.PolicyRule) bool {
		named := len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, name)
		return named && slices.Contains(rule.Verbs, verb) && slices.Contains(rule.Resources, resource)
	})
}

// clusterRole returns the rules of the hub's ClusterRoles, as far as a transcript needs them.
func clusterRole(name string) []rbacv1.PolicyRule {
	switch name {
	case names.BundleDeploymentRole:
		return []rbacv1.PolicyRule{{Resources: []string{"bundledeployments"}, Verbs: []string{"get", "list", "watch"}}}
	case names.ContentRole:
		return []rbacv1.PolicyRule{{Resources: []string{"contents"}, Verbs: []string{"get"}}}
	}
	return nil
}
