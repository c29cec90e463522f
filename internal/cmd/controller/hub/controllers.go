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

// scopes are the four scopes: a cache holds one selection per kind, and Secrets need four.
type scopes struct{ main, values, recovery, bootstrap *scope }

// addScopes creates the scopes.
func (a *App) addScopes() (s scopes, err error) {
	clients, err := newClients(a.RESTConfig, a.undecodable)
	if err != nil {
		return s, err
	}
	managed := byLabel(fleet.LabelManaged, "true")
	all := kinds()
	secrets := []schema.GroupVersionKind{all["Secret"].gvk} // of each selection there are few at a time
	s.main = newScope(clients, scopeOptions{
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
	s.values = newScope(clients, scopeOptions{few: secrets, selections: map[schema.GroupVersionKind]func(*metav1.ListOptions){
		all["Secret"].gvk: byField("type", string(protocol.SecretTypeValues)),
	}})
	s.recovery = newScope(clients, scopeOptions{few: secrets, selections: map[schema.GroupVersionKind]func(*metav1.ListOptions){
		all["Secret"].gvk: func(o *metav1.ListOptions) {
			managed(o) // the hub's own agent has one with its private key
			byField("type", string(protocol.SecretTypeRecovery))(o)
		},
	}})
	s.bootstrap = newScope(clients, scopeOptions{few: secrets, selections: map[schema.GroupVersionKind]func(*metav1.ListOptions){
		all["Secret"].gvk: byLabel(fleet.LabelSetHash, names.SetHash(BootstrapSetID, names.Owner{})),
	}})
	a.scopes = []*scope{s.main, s.values, s.recovery, s.bootstrap}
	return s, nil
}

// addKinds creates the controllers of all kinds.
func (a *App) addKinds() error {
	s, err := a.addScopes()
	if err != nil {
		return err
	}
	a.Clusters = ours[*fleet.Cluster, *fleet.ClusterList](s.main, "Cluster")
	a.ClusterGroups = ours[*fleet.ClusterGroup, *fleet.ClusterGroupList](s.main, "ClusterGroup")
	a.ClusterRegistrations = ours[*fleet.ClusterRegistration, *fleet.ClusterRegistrationList](s.main, "ClusterRegistration")
	a.ClusterRegistrationTokens = ours[*fleet.ClusterRegistrationToken, *fleet.ClusterRegistrationTokenList](s.main, "ClusterRegistrationToken")
	a.Bundles = ours[*fleet.Bundle, *fleet.BundleList](s.main, "Bundle")
	a.BundleDeployments = ours[*fleet.BundleDeployment, *fleet.BundleDeploymentList](s.main, "BundleDeployment")
	a.BundleNamespaceMappings = ours[*fleet.BundleNamespaceMapping, *fleet.BundleNamespaceMappingList](s.main, "BundleNamespaceMapping")
	a.Contents = clusterScoped[*fleet.Content, *fleet.ContentList](s.main, "Content")
	a.AllNamespaces = clusterScoped[*corev1.Namespace, *corev1.NamespaceList](s.main, "Namespace")
	a.ServiceAccounts = namespaced[*corev1.ServiceAccount, *corev1.ServiceAccountList](s.main, "ServiceAccount")
	a.Roles = namespaced[*rbacv1.Role, *rbacv1.RoleList](s.main, "Role")
	a.RoleBindings = namespaced[*rbacv1.RoleBinding, *rbacv1.RoleBindingList](s.main, "RoleBinding")
	a.ClusterRoles = clusterScoped[*rbacv1.ClusterRole, *rbacv1.ClusterRoleList](s.main, "ClusterRole")
	a.ClusterRoleBindings = clusterScoped[*rbacv1.ClusterRoleBinding, *rbacv1.ClusterRoleBindingList](s.main, "ClusterRoleBinding")
	a.ConfigMaps = namespaced[*corev1.ConfigMap, *corev1.ConfigMapList](s.main, "ConfigMap")
	a.Deployments = namespaced[*appsv1.Deployment, *appsv1.DeploymentList](s.main, "Deployment")
	a.CredentialSecrets = namespaced[*corev1.Secret, *corev1.SecretList](s.main, "Secret")
	a.ValuesSecrets = namespaced[*corev1.Secret, *corev1.SecretList](s.values, "Secret")
	a.RecoverySecrets = namespaced[*corev1.Secret, *corev1.SecretList](s.recovery, "Secret")
	a.BootstrapSecrets = namespaced[*corev1.Secret, *corev1.SecretList](s.bootstrap, "Secret")
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
