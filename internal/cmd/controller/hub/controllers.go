package hub

import (
	"github.com/rancher/wrangler/v3/pkg/generic"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/undecodable"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// addScopes creates the four scopes: a cache holds one selection per kind, and Secrets need four.
func (a *App) addScopes() (main, values, recovery, bootstrap *scope, err error) {
	clients, err := newClients(a.RESTConfig, a.undecodable)
	if err != nil {
		return nil, nil, nil, nil, err
	}
	managed := byLabel(fleet.LabelManaged, "true")
	all := kinds()
	secrets := []schema.GroupVersionKind{all["Secret"].gvk} // of each selection there are few at a time
	main = newScope(clients, scopeOptions{
		undecodable: a.undecodable,
		namespaces: map[schema.GroupVersionKind]string{
			all["Secret"].gvk:     a.Namespaces.Registration,
			all["ConfigMap"].gvk:  a.Namespaces.System,
			all["Deployment"].gvk: a.Namespaces.System,
		},
		selections: map[schema.GroupVersionKind]func(*metav1.ListOptions){
			all["ServiceAccount"].gvk:     managed,
			all["Role"].gvk:               managed,
			all["RoleBinding"].gvk:        managed,
			all["ClusterRoleBinding"].gvk: managed,
			all["ClusterRole"].gvk:        byLabel(fleet.LabelSetHash, names.SetHash(DataSetID, names.Owner{})),
			all["ConfigMap"].gvk:          byField("metadata.name", names.ControllerConfig),
			all["Deployment"].gvk:         byField("metadata.name", names.ControllerConfig),
			all["Secret"].gvk:             byField("type", string(protocol.SecretTypeCredential)),
		},
		few: append(secrets, all["BundleNamespaceMapping"].gvk, all["ClusterGroup"].gvk, all["ClusterRegistrationToken"].gvk,
			all["ClusterRole"].gvk, all["ClusterRoleBinding"].gvk, all["ConfigMap"].gvk, all["Deployment"].gvk),
	})
	values = newScope(clients, scopeOptions{few: secrets, selections: map[schema.GroupVersionKind]func(*metav1.ListOptions){
		all["Secret"].gvk: byField("type", string(protocol.SecretTypeValues)),
	}})
	recovery = newScope(clients, scopeOptions{few: secrets, selections: map[schema.GroupVersionKind]func(*metav1.ListOptions){
		all["Secret"].gvk: func(o *metav1.ListOptions) {
			managed(o) // the hub's own agent has one with its private key
			byField("type", string(protocol.SecretTypeRecovery))(o)
		},
	}})
	bootstrap = newScope(clients, scopeOptions{few: secrets, selections: map[schema.GroupVersionKind]func(*metav1.ListOptions){
		all["Secret"].gvk: byLabel(fleet.LabelSetHash, names.SetHash(BootstrapSetID, names.Owner{})),
	}})
	a.scopes = []*scope{main, values, recovery, bootstrap}
	return main, values, recovery, bootstrap, nil
}

// addKinds creates the controllers of all kinds.
func (a *App) addKinds() error {
	main, values, recovery, bootstrap, err := a.addScopes()
	if err != nil {
		return err
	}
	a.Clusters = ours[*fleet.Cluster, *fleet.ClusterList](main, "Cluster")
	a.ClusterGroups = ours[*fleet.ClusterGroup, *fleet.ClusterGroupList](main, "ClusterGroup")
	a.ClusterRegistrations = ours[*fleet.ClusterRegistration, *fleet.ClusterRegistrationList](main, "ClusterRegistration")
	a.ClusterRegistrationTokens = ours[*fleet.ClusterRegistrationToken, *fleet.ClusterRegistrationTokenList](main, "ClusterRegistrationToken")
	a.Bundles = ours[*fleet.Bundle, *fleet.BundleList](main, "Bundle")
	a.BundleDeployments = ours[*fleet.BundleDeployment, *fleet.BundleDeploymentList](main, "BundleDeployment")
	a.BundleNamespaceMappings = ours[*fleet.BundleNamespaceMapping, *fleet.BundleNamespaceMappingList](main, "BundleNamespaceMapping")
	a.Contents = clusterScoped[*fleet.Content, *fleet.ContentList](main, "Content")
	a.AllNamespaces = clusterScoped[*corev1.Namespace, *corev1.NamespaceList](main, "Namespace")
	a.ServiceAccounts = namespaced[*corev1.ServiceAccount, *corev1.ServiceAccountList](main, "ServiceAccount")
	a.Roles = namespaced[*rbacv1.Role, *rbacv1.RoleList](main, "Role")
	a.RoleBindings = namespaced[*rbacv1.RoleBinding, *rbacv1.RoleBindingList](main, "RoleBinding")
	a.ClusterRoles = clusterScoped[*rbacv1.ClusterRole, *rbacv1.ClusterRoleList](main, "ClusterRole")
	a.ClusterRoleBindings = clusterScoped[*rbacv1.ClusterRoleBinding, *rbacv1.ClusterRoleBindingList](main, "ClusterRoleBinding")
	a.ConfigMaps = namespaced[*corev1.ConfigMap, *corev1.ConfigMapList](main, "ConfigMap")
	a.Deployments = namespaced[*appsv1.Deployment, *appsv1.DeploymentList](main, "Deployment")
	a.CredentialSecrets = namespaced[*corev1.Secret, *corev1.SecretList](main, "Secret")
	a.ValuesSecrets = namespaced[*corev1.Secret, *corev1.SecretList](values, "Secret")
	a.RecoverySecrets = namespaced[*corev1.Secret, *corev1.SecretList](recovery, "Secret")
	a.BootstrapSecrets = namespaced[*corev1.Secret, *corev1.SecretList](bootstrap, "Secret")
	return nil
}

func namespaced[T generic.RuntimeMetaObject, L runtime.Object](s *scope, name string) *generic.Controller[T, L] {
	k := kinds()[name]
	return generic.NewController[T, L](k.gvk, k.resource, true, s.controllers)
}

// ours is namespaced for a kind of our group.
func ours[T generic.RuntimeMetaObject, L runtime.Object](s *scope, name string) generic.ControllerInterface[T, L] {
	return undecodable.Guard(namespaced[T, L](s, name), s.caches.undecodable)
}

func clusterScoped[T generic.RuntimeMetaObject, L runtime.Object](s *scope, name string) *generic.NonNamespacedController[T, L] {
	k := kinds()[name]
	return generic.NewNonNamespacedController[T, L](k.gvk, k.resource, s.controllers)
}

func byLabel(key, value string) func(*metav1.ListOptions) {
	return func(o *metav1.ListOptions) { o.LabelSelector = key + "=" + value }
}

func byField(field, value string) func(*metav1.ListOptions) {
	return func(o *metav1.ListOptions) { o.FieldSelector = field + "=" + value }
}
