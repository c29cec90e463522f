// Package contentreaders keeps the ClusterRoleBindings that let agents read Contents. Agents share them. When an
// account is added or deleted, its ClusterRoleBinding is computed again from all accounts that belong to it.
//
//	account of a request ─► the ClusterRoleBinding that it shares ─► grant continues
//
// With Env.AllReadContents there is one ClusterRoleBinding for all service accounts instead.
package contentreaders

import (
	"context"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/contentreaders"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// byBinding is the index of accounts of requests by the ClusterRoleBinding that they share.
const byBinding = "fleet.accounts-by-content-binding"

type handler struct {
	app      *hub.App
	bindings reconcile.Kind
	// decisions maps the name of a shared ClusterRoleBinding to its decisions.
	decisions sync.Map
}

// Register watches the accounts of requests and the ClusterRoleBindings that they share. A controller that does not
// find an account in its ClusterRoleBinding may enqueue the binding, as grant does before it hands out a token.
func Register(ctx context.Context, a *hub.App) error {
	h := &handler{app: a, bindings: reconcile.ClusterKind(a.ClusterRoleBindings)}
	a.ServiceAccounts.Cache().AddIndexer(byBinding, func(account *corev1.ServiceAccount) ([]string, error) {
		if _, says := contentreaders.RequestOf(account); !says {
			return nil, nil
		}
		return []string{contentreaders.Binding(reconcile.KeyOf(account))}, nil
	})
	a.ClusterRoleBindings.OnChange(hub.Lasting(ctx), "contentreaders", func(name string, binding *rbacv1.ClusterRoleBinding) (*rbacv1.ClusterRoleBinding, error) {
		return binding, h.onChange(name, binding)
	})
	return reconcile.Watch(a.ServiceAccounts.Informer(), func(account *corev1.ServiceAccount) []types.NamespacedName {
		if _, says := contentreaders.RequestOf(account); !says {
			return nil
		}
		return []types.NamespacedName{{Name: a.ContentBinding(reconcile.KeyOf(account))}}
	}, reconcile.EnqueueCluster(a.ClusterRoleBindings))
}

func (h *handler) onChange(name string, binding *rbacv1.ClusterRoleBinding) (err error) {
	switch {
	case !contentreaders.IsBinding(name):
		return nil
	case name == contentreaders.AllBinding:
		err = h.writeForAll(binding)
	case h.app.Env.AllReadContents:
		err = h.replace(binding)
	default:
		err = h.write(name, binding)
	}
	if err != nil {
		return fmt.Errorf("writing ClusterRoleBinding %s: %w", name, err)
	}
	return nil
}

// writeForAll writes the ClusterRoleBinding for all service accounts, which then replaces those of accounts. If it is
// not wanted, it is deleted when each account is in the binding that it shares, so that no agent loses its right.
func (h *handler) writeForAll(binding *rbacv1.ClusterRoleBinding) error {
	if h.app.Env.AllReadContents {
		h.enqueue(contentreaders.Bindings()...)
		return h.bindings.Ensure(contentreaders.DesiredForAll())
	}
	if binding == nil {
		return nil
	}
	for _, name := range contentreaders.Bindings() {
		complete, err := h.isComplete(name)
		if err != nil {
			return err
		}
		if !complete {
			h.enqueue(name) // its change enqueues this binding again
			return nil
		}
	}
	return h.bindings.Remove(binding)
}

// isComplete reports whether the cache has all accounts in a shared ClusterRoleBinding.
func (h *handler) isComplete(name string) (bool, error) {
	readers, err := h.readers(name)
	if err != nil || len(readers) == 0 {
		return err == nil, err
	}
	binding, err := reconcile.Optional(h.app.ClusterRoleBindings.Cache().Get(name))
	return !slices.ContainsFunc(readers, func(account types.NamespacedName) bool { return !contentreaders.Reads(binding, account) }), err
}

// replace deletes a shared ClusterRoleBinding when all service accounts may read Contents.
func (h *handler) replace(binding *rbacv1.ClusterRoleBinding) error {
	if binding == nil {
		return nil
	}
	all, err := reconcile.Optional(h.app.ClusterRoleBindings.Cache().Get(contentreaders.AllBinding))
	if err != nil || !contentreaders.Reads(all, types.NamespacedName{}) {
		h.enqueue(contentreaders.AllBinding) // its change enqueues this binding again
		return err
	}
	return h.bindings.Remove(binding)
}

// write writes a ClusterRoleBinding that accounts share.
func (h *handler) write(name string, binding *rbacv1.ClusterRoleBinding) error {
	if all, err := reconcile.Optional(h.app.ClusterRoleBindings.Cache().Get(contentreaders.AllBinding)); err != nil || all != nil {
		h.enqueue(contentreaders.AllBinding)
	}
	readers, err := h.readers(name)
	switch {
	case err != nil:
		return err
	case len(readers) > 0:
		return h.bindings.Ensure(contentreaders.Desired(name, readers))
	case binding != nil:
		return h.bindings.Remove(binding)
	}
	return nil
}

func (h *handler) enqueue(bindings ...string) {
	for _, name := range bindings {
		reconcile.EnqueueCluster(h.app.ClusterRoleBindings)(types.NamespacedName{Name: name})
	}
}

// readers returns the accounts that belong to a shared ClusterRoleBinding. It decides only about those whose objects have
// changed since the last time: a binding has hundreds, and most changes are of one.
func (h *handler) readers(name string) (readers []types.NamespacedName, err error) {
	accounts, err := h.app.ServiceAccounts.Cache().GetByIndex(byBinding, name)
	if err != nil {
		return nil, err
	}
	known, next := h.decided(name), make(decisions, len(accounts))
	for _, account := range accounts {
		is, err := h.decide(account, known[account])
		if err != nil {
			return nil, err
		}
		if next[account] = is; is.may {
			readers = append(readers, reconcile.KeyOf(account))
		}
	}
	h.decisions.Store(name, next)
	return readers, nil
}

// decisions are those about the accounts of a shared ClusterRoleBinding.
type decisions map[*corev1.ServiceAccount]decision

// decision states whether an account may read Contents, and from which versions of its request and Cluster that follows.
type decision struct {
	request, cluster string
	may              bool
}

func (h *handler) decided(name string) decisions {
	known, _ := h.decisions.Load(name)
	of, _ := known.(decisions)
	return of
}

func (h *handler) decide(account *corev1.ServiceAccount, known decision) (is decision, err error) {
	of, _ := contentreaders.RequestOf(account)
	request, err := reconcile.Optional(h.app.ClusterRegistrations.Cache().Get(of.Namespace, of.Name))
	if err != nil || request == nil {
		return decision{}, err
	}
	cluster, err := reconcile.Optional(h.app.Clusters.Cache().Get(of.Namespace, account.Annotations[fleet.AnnotationCluster]))
	if err != nil || cluster == nil {
		return decision{}, err
	}
	is.request, is.cluster = request.ResourceVersion, cluster.ResourceVersion
	if is.request == known.request && is.cluster == known.cluster {
		return known, nil
	}
	is.may = contentreaders.MayRead(account, request, cluster)
	return is, nil
}
