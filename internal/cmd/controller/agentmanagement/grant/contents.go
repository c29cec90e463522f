package grant

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/grant"
)

// The controller contentreaders writes the right of an account to read Contents. A request waits for it as for its
// other rights.

// readsContents reports whether the caches contain the binding that lets an account read Contents.
func readsContents(a *hub.Context, account types.NamespacedName) (bool, error) {
	binding, err := reconcile.Optional(a.ClusterRoleBindings.Cache().Get(grant.ContentBinding(account)))
	return grant.ReadsContents(binding, account), err
}

// contentReaders returns the requests of the accounts that a ClusterRoleBinding lets read Contents.
func (h *handler) contentReaders(binding *rbacv1.ClusterRoleBinding) (requests []types.NamespacedName) {
	if !grant.IsContentBinding(binding.Name) {
		return nil
	}
	for _, subject := range binding.Subjects {
		account, err := h.app.ServiceAccounts.Cache().Get(subject.Namespace, subject.Name)
		if err != nil {
			continue // the request is enqueued when the account appears
		}
		if request, says := grant.RequestOf(account); says {
			requests = append(requests, request)
		}
	}
	return requests
}

// awaitContents enqueues the ClusterRoleBinding that a request waits for.
func (h *handler) awaitContents(in grant.Input) {
	if in.Account == nil {
		return // the binding is enqueued when the account appears
	}
	account := types.NamespacedName{Namespace: in.Account.Namespace, Name: in.Account.Name}
	if reads, err := readsContents(h.app, account); err == nil && !reads {
		reconcile.NudgeCluster(h.app.ClusterRoleBindings)(types.NamespacedName{Name: grant.ContentBinding(account)})
	}
}

// bindingsOf returns a function that reports whether an account can read Contents only through a request's own
// ClusterRoleBinding. Earlier releases created one per request. It stays until the account is in a shared one.
func bindingsOf(a *hub.Context) func(reconcile.Object) bool {
	return func(member reconcile.Object) bool {
		binding, ok := member.(*rbacv1.ClusterRoleBinding)
		return !ok || slices.ContainsFunc(binding.Subjects, func(subject rbacv1.Subject) bool {
			account, err := reconcile.Optional(a.ServiceAccounts.Cache().Get(subject.Namespace, subject.Name))
			if err != nil || account == nil {
				return err != nil // an account that is gone reads nothing
			}
			reads, err := readsContents(a, types.NamespacedName{Namespace: subject.Namespace, Name: subject.Name})
			return err != nil || !reads
		})
	}
}
