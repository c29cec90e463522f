package hub

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/fleet-hub/fleet/internal/events"
	"github.com/fleet-hub/fleet/internal/kube"
	"github.com/fleet-hub/fleet/internal/reconcile"
)

// SyncTimeout bounds how long Start waits for a kind that cannot be listed, and is how often it says what it waits for.
const SyncTimeout = 30 * time.Second

// First lets work run once, when the caches are full and before any controller works, all of which wait for it. To be
// called before Start. A context that ends means that the process is told to.
func (a *Context) First(work func(context.Context)) { a.first = append(a.first, work) }

// Begun says whether that is done. Controllers with a queue of their own wait for it as they do for their caches.
func (a *Context) Begun() bool { return a.begun.Load() }

// Lasting is the context to register a handler of a kind with: one that does not end with ctx. A handler that is taken
// away moves those after it, while workers are still going through them; and when ctx ends they all end anyway.
func Lasting(ctx context.Context) context.Context { return context.WithoutCancel(ctx) }

// Start fills the caches and lets the controllers work until ctx ends. It returns when all of them do, or with an
// error that names the kinds that could not be listed within SyncTimeout. To be called once, after every Register.
func (a *Context) Start(ctx context.Context) error {
	a.events.Run(ctx, events.To(a.Kube))
	go a.secrets.Run(ctx.Done())
	for _, s := range a.scopes {
		if err := s.caches.Start(ctx); err != nil {
			return fmt.Errorf("starting the caches: %w", err)
		}
	}
	// All caches fill before the first controller works: a handler may read any of them.
	if err := awaitSync(ctx, SyncTimeout, a.unsynced, a.stillFilling); err != nil {
		return err
	}
	a.begin(ctx)
	for _, s := range a.scopes {
		if err := s.controllers.Start(ctx, 0); err != nil {
			return fmt.Errorf("starting the controllers: %w", err)
		}
	}
	return a.expose(ctx)
}

func (a *Context) begin(ctx context.Context) {
	for _, work := range a.first {
		work(ctx)
	}
	a.begun.Store(true)
}

func (a *Context) unsynced() (kinds []pending) {
	for _, s := range a.scopes {
		kinds = append(kinds, s.caches.unsynced()...)
	}
	if !a.secrets.HasSynced() {
		kinds = append(kinds, pending{"Secret (metadata)", a.secretsFailure.Load()})
	}
	return kinds
}

func (a *Context) stillFilling(kinds string) {
	a.Log.Info("the caches are still filling", "kinds", kinds)
}

// notKubeconfigs leaves out the Secrets that are many and never hold a kubeconfig.
const notKubeconfigs = "type!=helm.sh/release.v1,type!=kubernetes.io/service-account-token," +
	"type!=fleet.cattle.io/agent-credential,type!=fleet.cattle.io/cluster-registration-values," +
	"type!=fleet.cattle.io/bundle-deployment/v1alpha1,type!=fleet.cattle.io/bundle-values/v1alpha1"

// watchKubeconfigSecrets wakes the Clusters that name a Secret when it changes. It watches names and versions
// only: a kubeconfig is read when it is needed and never kept.
func (a *Context) watchKubeconfigSecrets() error {
	secrets, err := kube.NamesInformer(a.RESTConfig, corev1.SchemeGroupVersion.WithResource("secrets"), notKubeconfigs)
	if err != nil {
		return err
	}
	err = secrets.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		a.secretsFailure.Store(&failure{err})
		cache.DefaultWatchErrorHandler(ctx, r, err)
	})
	if err != nil {
		return fmt.Errorf("preparing the watch of the names of Secrets: %w", err)
	}
	a.secrets = secrets
	return reconcile.Watch(a.secrets, a.clustersOf, reconcile.Nudge(a.Clusters))
}

// OnSecret wakes whoever resolve names when a Secret appears, changes or goes that may hold a kubeconfig, which is
// any but those of a few types. To be called in a Register.
func (a *Context) OnSecret(resolve func(types.NamespacedName) []types.NamespacedName, nudge func(types.NamespacedName)) error {
	return reconcile.Watch(a.secrets, func(secret *metav1.PartialObjectMetadata) []types.NamespacedName {
		return resolve(types.NamespacedName{Namespace: secret.Namespace, Name: secret.Name})
	}, nudge)
}

// SecretVersion is the resourceVersion of a Secret that may hold a kubeconfig, as last watched; empty if there is
// none, or if it was not seen yet.
func (a *Context) SecretVersion(secret types.NamespacedName) string {
	found, exists, err := a.secrets.GetStore().GetByKey(secret.String())
	if err != nil || !exists {
		return ""
	}
	seen, ok := found.(*metav1.PartialObjectMetadata)
	if !ok {
		return ""
	}
	return seen.ResourceVersion
}

// clustersOf finds the Clusters that name a Secret.
func (a *Context) clustersOf(secret *metav1.PartialObjectMetadata) []types.NamespacedName {
	key := types.NamespacedName{Namespace: secret.Namespace, Name: secret.Name}
	clusters, err := a.Clusters.Cache().GetByIndex(ClustersByKubeconfig, key.String())
	if err != nil {
		return nil // only without the index, which New adds
	}
	var keys []types.NamespacedName
	for _, cluster := range clusters {
		keys = append(keys, types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name})
	}
	return keys
}
