package hub

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/workqueue"

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
