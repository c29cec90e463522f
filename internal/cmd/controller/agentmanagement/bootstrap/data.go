package bootstrap

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/clusters"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// registerData keeps the objects that every hub has. It runs in the queue of ClusterRoles under the name of one of
// them.
func registerData(ctx context.Context, a *hub.App) error {
	set := reconcile.NewSet(hub.DataSetID,
		reconcile.ClusterKind(a.ClusterRoles).Adopting(reconcile.Any),                // agents must have these rules and no others
		reconcile.ClusterKind(a.AllNamespaces).NeverPruned().Adopting(reconcile.Any), // they only get our marks
	)
	a.ClusterRoles.OnChange(hub.Lasting(ctx), "bootstrap-data", func(key string, role *rbacv1.ClusterRole) (*rbacv1.ClusterRole, error) {
		if key != names.ContentRole {
			return role, nil // this one key reconciles the whole set
		}
		return role, set.Apply(reconcile.Owner{}, data(a.Namespaces)...)
	})
	one := types.NamespacedName{Name: names.ContentRole}
	wake := func(types.NamespacedName) { reconcile.EnqueueCluster(a.ClusterRoles)(one) }
	wake(one)
	return set.Watch(wake)
}

// data returns the objects that every hub has: the roles that let agents read their objects, and the hub's
// namespaces.
func data(namespaces clusters.Namespaces) []runtime.Object {
	group := fleet.SchemeGroupVersion.Group
	return []runtime.Object{
		clusterRole(names.BundleDeploymentRole,
			rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{"bundledeployments"}, Verbs: []string{"get", "list", "watch"}},
			rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{"bundledeployments/status"}, Verbs: []string{"update", "patch"}},
			rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets", "configmaps"}, Verbs: []string{"get"}},
		),
		clusterRole(names.ContentRole,
			rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{"contents"}, Verbs: []string{"get"}},
		),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespaces.System}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespaces.Registration}},
	}
}

func clusterRole(name string, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
}
