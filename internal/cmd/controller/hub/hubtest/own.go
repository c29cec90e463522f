package hubtest

import (
	"context"

	"github.com/rancher/wrangler/v3/pkg/generic"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/clusteruids"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// addOwnKinds adds the kinds of the objects that the hub keeps for itself and for its Clusters' namespaces.
func (h *Hub) addOwnKinds() {
	a, fl, core := h.App, fleet.SchemeGroupVersion, corev1.SchemeGroupVersion
	inSet := func(id string) func(Object) bool {
		hash := names.SetHash(id, names.Owner{})
		return func(obj Object) bool { return obj.GetLabels()[fleet.LabelSetHash] == hash }
	}
	controllersOwn := func(obj Object) bool {
		return obj.GetNamespace() == a.Namespaces.System && obj.GetName() == names.ControllerConfig
	}
	a.BundleDeployments = newKind[*fleet.BundleDeployment, *fleet.BundleDeploymentList](h, fl, "BundleDeployment", nil)
	a.ClusterGroups = newKind[*fleet.ClusterGroup, *fleet.ClusterGroupList](h, fl, "ClusterGroup", nil)
	a.Bundles = newKind[*fleet.Bundle, *fleet.BundleList](h, fl, "Bundle", nil)
	contents := newKind[*fleet.Content, *fleet.ContentList](h, fl, "Content", nil)
	a.Contents = clusterKind[*fleet.Content, *fleet.ContentList]{kind: contents}
	a.ConfigMaps = newKind[*corev1.ConfigMap, *corev1.ConfigMapList](h, core, "ConfigMap", controllersOwn)
	a.Deployments = newKind[*appsv1.Deployment, *appsv1.DeploymentList](h, appsv1.SchemeGroupVersion, "Deployment", controllersOwn)
	a.BootstrapSecrets = newKind[*corev1.Secret, *corev1.SecretList](h, core, "Secret", inSet(hub.BootstrapSetID))
	namespaces := newKind[*corev1.Namespace, *corev1.NamespaceList](h, core, "Namespace", nil)
	a.AllNamespaces = clusterKind[*corev1.Namespace, *corev1.NamespaceList]{kind: namespaces}
	clusteruids.AddIndex(a.AllNamespaces)
	roles := newKind[*rbacv1.ClusterRole, *rbacv1.ClusterRoleList](h, rbacv1.SchemeGroupVersion, "ClusterRole", inSet(hub.DataSetID))
	a.ClusterRoles = clusterKind[*rbacv1.ClusterRole, *rbacv1.ClusterRoleList]{kind: roles}
}

// OnChange stores the handler for Hub.Handle.
func (c clusterKind[T, L]) OnChange(ctx context.Context, name string, sync generic.ObjectHandler[T]) {
	c.kind.OnChange(ctx, name, sync)
}
