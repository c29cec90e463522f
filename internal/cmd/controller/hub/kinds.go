package hub

import (
	"fmt"
	"time"

	"github.com/rancher/wrangler/v3/pkg/generic"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/workqueue"

	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// kind describes how a kind is served.
type kind struct {
	gvk        schema.GroupVersionKind
	resource   string
	namespaced bool
}

func fleetKind(name, resource string, namespaced bool) kind {
	return kind{gvk: fleet.SchemeGroupVersion.WithKind(name), resource: resource, namespaced: namespaced}
}

// kinds returns the kinds that the hub uses. They need no discovery.
func kinds() map[string]kind {
	list := []kind{
		fleetKind("Cluster", "clusters", true),
		fleetKind("ClusterGroup", "clustergroups", true),
		fleetKind("ClusterRegistration", "clusterregistrations", true),
		fleetKind("ClusterRegistrationToken", "clusterregistrationtokens", true),
		fleetKind("Bundle", "bundles", true),
		fleetKind("BundleDeployment", "bundledeployments", true),
		fleetKind("BundleNamespaceMapping", "bundlenamespacemappings", true),
		fleetKind("Content", "contents", false),
		{corev1.SchemeGroupVersion.WithKind("Namespace"), "namespaces", false},
		{corev1.SchemeGroupVersion.WithKind("ServiceAccount"), "serviceaccounts", true},
		{corev1.SchemeGroupVersion.WithKind("ConfigMap"), "configmaps", true},
		{corev1.SchemeGroupVersion.WithKind("Secret"), "secrets", true},
		{appsv1.SchemeGroupVersion.WithKind("Deployment"), "deployments", true},
		{rbacv1.SchemeGroupVersion.WithKind("Role"), "roles", true},
		{rbacv1.SchemeGroupVersion.WithKind("RoleBinding"), "rolebindings", true},
		{rbacv1.SchemeGroupVersion.WithKind("ClusterRole"), "clusterroles", false},
		{rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"), "clusterrolebindings", false},
	}
	byName := map[string]kind{}
	for _, k := range list {
		byName[k.gvk.Kind] = k
	}
	return byName
}

// staticMapper maps kinds from the table, so that a missing CRD does not cause repeated discovery.
func staticMapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, k := range kinds() {
		scope := meta.RESTScope(meta.RESTScopeRoot)
		if k.namespaced {
			scope = meta.RESTScopeNamespace
		}
		resource := k.gvk.GroupVersion().WithResource(k.resource)
		mapper.AddSpecific(k.gvk, resource, resource, scope)
	}
	return mapper
}

// newScheme returns a scheme with all kinds of the table.
func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientscheme.AddToScheme, fleet.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("registering types: %w", err)
		}
	}
	return scheme, nil
}

// Rate limits of failing keys. Each kind has its own limiter, so that objects with the same name do not share a
// backoff. Most failures of Clusters are caused by other machines and take long to resolve.
const (
	retryMin, retryMax               = 5 * time.Millisecond, 60 * time.Second
	clusterRetryMin, clusterRetryMax = time.Second, 5 * time.Minute
)

func rateLimiters() map[schema.GroupVersionKind]workqueue.RateLimiter { //nolint:staticcheck // lasso's options want this type
	limiters := map[schema.GroupVersionKind]workqueue.RateLimiter{} //nolint:staticcheck // as above
	for name, k := range kinds() {
		least, most := retryMin, retryMax
		if name == "Cluster" {
			least, most = clusterRetryMin, clusterRetryMax
		}
		limiters[k.gvk] = workqueue.NewTypedItemExponentialFailureRateLimiter[any](least, most)
	}
	return limiters
}

// addScopes creates the three scopes: a cache holds one selection per kind, and Secrets need three.
func (a *Context) addScopes() (main, values, bootstrap *scope, err error) {
	clients, err := newClients(a.RESTConfig, a.undecodable)
	if err != nil {
		return nil, nil, nil, err
	}
	managed := byLabel(fleet.LabelManaged, "true")
	all := kinds()
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
	})
	values = newScope(clients, scopeOptions{selections: map[schema.GroupVersionKind]func(*metav1.ListOptions){
		all["Secret"].gvk: byField("type", string(protocol.SecretTypeValues)),
	}})
	bootstrap = newScope(clients, scopeOptions{selections: map[schema.GroupVersionKind]func(*metav1.ListOptions){
		all["Secret"].gvk: byLabel(fleet.LabelSetHash, names.SetHash(BootstrapSetID, names.Owner{})),
	}})
	a.scopes = []*scope{main, values, bootstrap}
	return main, values, bootstrap, nil
}

// addKinds creates the controllers of all kinds.
func (a *Context) addKinds() error {
	main, values, bootstrap, err := a.addScopes()
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
	a.BootstrapSecrets = namespaced[*corev1.Secret, *corev1.SecretList](bootstrap, "Secret")
	return nil
}

func namespaced[T generic.RuntimeMetaObject, L runtime.Object](s *scope, name string) *generic.Controller[T, L] {
	k := kinds()[name]
	return generic.NewController[T, L](k.gvk, k.resource, true, s.controllers)
}

// ours is namespaced for a kind of our group.
func ours[T generic.RuntimeMetaObject, L runtime.Object](s *scope, name string) completeOnly[T, L] {
	return completeOnly[T, L]{namespaced[T, L](s, name), s.caches.undecodable}
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
