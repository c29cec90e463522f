// Package contentreaders keeps the ClusterRoleBindings that let agents read Contents. Agents share them. When an
// account is added or deleted, its ClusterRoleBinding is computed again from all accounts that belong to it.
//
//	account of a request ─► the ClusterRoleBinding that it shares ─► grant continues
package contentreaders

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/grant"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// byBinding is the index of accounts of requests by the ClusterRoleBinding that they share.
const byBinding = "fleet.accounts-by-content-binding"

type handler struct {
	app      *hub.Context
	bindings reconcile.Kind
}

// Register watches the accounts of requests and the ClusterRoleBindings that they share. A controller that does not
// find an account in its ClusterRoleBinding may enqueue the binding, as grant does before it hands out a token.
func Register(ctx context.Context, a *hub.Context) error {
	h := &handler{app: a, bindings: reconcile.ClusterKind(a.ClusterRoleBindings)}
	a.ServiceAccounts.Cache().AddIndexer(byBinding, func(account *corev1.ServiceAccount) ([]string, error) {
		if _, says := grant.RequestOf(account); !says {
			return nil, nil
		}
		return []string{bindingOf(account).Name}, nil
	})
	a.ClusterRoleBindings.OnChange(hub.Lasting(ctx), "contentreaders", func(name string, binding *rbacv1.ClusterRoleBinding) (*rbacv1.ClusterRoleBinding, error) {
		return binding, h.onChange(name, binding)
	})
	return reconcile.Watch(a.ServiceAccounts.Informer(), func(account *corev1.ServiceAccount) []types.NamespacedName {
		if _, says := grant.RequestOf(account); !says {
			return nil
		}
		return []types.NamespacedName{bindingOf(account)}
	}, reconcile.EnqueueCluster(a.ClusterRoleBindings))
}

func bindingOf(account *corev1.ServiceAccount) types.NamespacedName {
	return types.NamespacedName{Name: grant.ContentBinding(reconcile.KeyOf(account))}
}

func (h *handler) onChange(name string, binding *rbacv1.ClusterRoleBinding) error {
	if !grant.IsContentBinding(name) {
		return nil
	}
	readers, err := h.readers(name)
	switch {
	case err != nil:
	case len(readers) > 0:
		err = h.bindings.Ensure(grant.ContentReaders(name, readers))
	case binding != nil:
		err = h.bindings.Remove(binding)
	}
	if err != nil {
		return fmt.Errorf("writing ClusterRoleBinding %s: %w", name, err)
	}
	return nil
}

// readers returns the accounts that belong to a shared ClusterRoleBinding.
func (h *handler) readers(name string) (readers []types.NamespacedName, err error) {
	accounts, err := h.app.ServiceAccounts.Cache().GetByIndex(byBinding, name)
	if err != nil {
		return nil, err
	}
	for _, account := range accounts {
		may, err := h.may(account)
		if err != nil {
			return nil, err
		}
		if may {
			readers = append(readers, reconcile.KeyOf(account))
		}
	}
	return readers, nil
}

func (h *handler) may(account *corev1.ServiceAccount) (bool, error) {
	of, _ := grant.RequestOf(account)
	request, err := reconcile.Optional(h.app.ClusterRegistrations.Cache().Get(of.Namespace, of.Name))
	if err != nil || request == nil {
		return false, err
	}
	cluster, err := reconcile.Optional(h.app.Clusters.Cache().Get(of.Namespace, account.Annotations[fleet.AnnotationCluster]))
	return grant.MayReadContents(account, request, cluster), err
}
