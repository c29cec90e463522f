package manager

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	lassocache "github.com/rancher/lasso/pkg/cache"
	"github.com/rancher/lasso/pkg/client"
	"github.com/rancher/lasso/pkg/controller"
	"github.com/rancher/wrangler/v3/pkg/generic"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fleet-hub/fleet/dev/machines/api"
)

const (
	// workers is the number of objects of a kind that are reconciled in parallel.
	workers = 10
	// syncTimeout limits how long Start waits for the caches.
	syncTimeout = 30 * time.Second
	// retryMin and retryMax limit the delay between two attempts to reconcile an object.
	retryMin, retryMax = 100 * time.Millisecond, 30 * time.Second
)

// Kind is the client, the cache and the controller of a namespaced kind.
type Kind[T generic.RuntimeMetaObject, L runtime.Object] = generic.ControllerInterface[T, L]

// Context contains what the controllers share.
type Context struct {
	// Log receives one line per notable step.
	Log *slog.Logger
	// Clock returns the current time.
	Clock func() time.Time
	// Kube is a client without caches.
	Kube kubernetes.Interface

	// Clusters and Machines are the kinds of Cluster API's core.
	Clusters Kind[*clusterv1.Cluster, *clusterv1.ClusterList]
	Machines Kind[*clusterv1.Machine, *clusterv1.MachineList]
	// Secrets are the Secrets with the label clusterv1.ClusterNameLabel.
	Secrets Kind[*corev1.Secret, *corev1.SecretList]

	LabClusters      Kind[*api.LabCluster, *api.LabClusterList]
	LabMachines      Kind[*api.LabMachine, *api.LabMachineList]
	LabConfigs       Kind[*api.LabConfig, *api.LabConfigList]
	LabControlPlanes Kind[*api.LabControlPlane, *api.LabControlPlaneList]
	// LabMachineTemplates are those that LabControlPlanes refer to. Other templates are read by the core.
	LabMachineTemplates Kind[*api.LabMachineTemplate, *api.LabMachineTemplateList]

	caches      lassocache.SharedCacheFactory
	controllers controller.SharedControllerFactory
}

// New returns a Context. It sends no request.
func New(config *rest.Config, log *slog.Logger, clock func() time.Time) (*Context, error) {
	clients, err := newClients(config)
	if err != nil {
		return nil, fmt.Errorf("creating clients: %w", err)
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating the client: %w", err)
	}
	m := &Context{Log: log, Clock: clock, Kube: kube}
	m.caches = lassocache.NewSharedCachedFactory(clients, &lassocache.SharedCacheFactoryOptions{
		KindTweakList: map[schema.GroupVersionKind]lassocache.TweakListOptionsFunc{
			corev1.SchemeGroupVersion.WithKind("Secret"): func(o *metav1.ListOptions) { o.LabelSelector = clusterv1.ClusterNameLabel },
		},
	})
	m.controllers = controller.NewSharedControllerFactory(m.caches, &controller.SharedControllerFactoryOptions{
		DefaultWorkers: workers,
		// Each kind has its own limiter, so that objects with the same name do not share a backoff.
		KindRateLimiter:        rateLimiters(),
		SyncOnlyChangedObjects: true,
	})
	m.Clusters = kindOf[*clusterv1.Cluster, *clusterv1.ClusterList](m, clusterv1.GroupVersion, "Cluster", "clusters")
	m.Machines = kindOf[*clusterv1.Machine, *clusterv1.MachineList](m, clusterv1.GroupVersion, "Machine", "machines")
	m.Secrets = kindOf[*corev1.Secret, *corev1.SecretList](m, corev1.SchemeGroupVersion, "Secret", "secrets")
	m.LabClusters = kindOf[*api.LabCluster, *api.LabClusterList](m, api.GroupVersion(), "LabCluster", "labclusters")
	m.LabMachines = kindOf[*api.LabMachine, *api.LabMachineList](m, api.GroupVersion(), "LabMachine", "labmachines")
	m.LabMachineTemplates = kindOf[*api.LabMachineTemplate, *api.LabMachineTemplateList](m, api.GroupVersion(), "LabMachineTemplate", "labmachinetemplates")
	m.LabConfigs = kindOf[*api.LabConfig, *api.LabConfigList](m, api.GroupVersion(), "LabConfig", "labconfigs")
	m.LabControlPlanes = kindOf[*api.LabControlPlane, *api.LabControlPlaneList](m, api.GroupVersion(), "LabControlPlane", "labcontrolplanes")
	return m, nil
}

// Start syncs the caches and starts the controllers. They end with ctx. Call it once, after every Register.
func (m *Context) Start(ctx context.Context) error {
	if err := m.caches.Start(ctx); err != nil {
		return fmt.Errorf("starting the caches: %w", err)
	}
	limited, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	for gvk, synced := range m.caches.WaitForCacheSync(limited) {
		if !synced {
			return fmt.Errorf("listing %s takes longer than %s: check that its CRD exists and that the provider may list it", gvk.Kind, syncTimeout)
		}
	}
	if err := m.controllers.Start(ctx, workers); err != nil {
		return fmt.Errorf("starting the controllers: %w", err)
	}
	return nil
}

// newClients returns the clients of all kinds. The mapper is empty because kindOf names the resources.
func newClients(config *rest.Config) (client.SharedClientFactory, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, clusterv1.AddToScheme, api.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return client.NewSharedClientFactory(config, &client.SharedClientFactoryOptions{Scheme: scheme, Mapper: meta.NewDefaultRESTMapper(nil)})
}

func kindOf[T generic.RuntimeMetaObject, L runtime.Object](m *Context, group schema.GroupVersion, kind, resource string) Kind[T, L] {
	return generic.NewController[T, L](group.WithKind(kind), resource, true, m.controllers)
}

func rateLimiters() map[schema.GroupVersionKind]workqueue.RateLimiter { //nolint:staticcheck // lasso's options want this type
	limiters := map[schema.GroupVersionKind]workqueue.RateLimiter{} //nolint:staticcheck // as above
	for _, gvk := range []schema.GroupVersionKind{
		clusterv1.GroupVersion.WithKind("Cluster"), clusterv1.GroupVersion.WithKind("Machine"), corev1.SchemeGroupVersion.WithKind("Secret"),
		api.GroupVersion().WithKind("LabCluster"), api.GroupVersion().WithKind("LabMachine"), api.GroupVersion().WithKind("LabMachineTemplate"),
		api.GroupVersion().WithKind("LabConfig"), api.GroupVersion().WithKind("LabControlPlane"),
	} {
		limiters[gvk] = workqueue.NewTypedItemExponentialFailureRateLimiter[any](retryMin, retryMax)
	}
	return limiters
}
