package hub

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/catchup"
	"github.com/fleet-hub/fleet/internal/kube"
	"github.com/fleet-hub/fleet/internal/reconcile"
)

// SyncTimeout limits how long Start waits for a kind that cannot be listed. It is also the interval of its log
// messages.
const SyncTimeout = 30 * time.Second

// BeforeControllers registers work that runs once, after the caches are synced and before any controller starts. Call it before
// Start. If the context ends, the process is stopping.
func (a *App) BeforeControllers(work func(context.Context)) { a.before = append(a.before, work) }

// MayReconcile reports whether the functions registered with BeforeControllers have returned. Controllers with their own queues wait for it as for their caches.
func (a *App) MayReconcile() bool { return a.mayReconcile.Load() }

// Lasting returns a context for registering handlers that does not end with ctx. Removing a handler would move the
// handlers after it while workers iterate over them. When ctx ends, the workers end anyway.
func Lasting(ctx context.Context) context.Context { return context.WithoutCancel(ctx) }

// Start fills the caches and runs the controllers until ctx ends.
func (a *App) Start(ctx context.Context) error {
	if err := a.Fill(ctx); err != nil {
		return err
	}
	return a.Work(ctx)
}

// Fill syncs the caches, which follow the hub until ctx ends. Nothing is reconciled or written, so a standby may do it.
// It returns when all caches are filled, or with an error that names the kinds that could not be listed within
// SyncTimeout. Call it once, after every Register.
func (a *App) Fill(ctx context.Context) error {
	go a.secrets.Run(ctx.Done())
	for _, s := range a.scopes {
		if err := s.caches.Start(ctx); err != nil {
			return fmt.Errorf("starting the caches: %w", err)
		}
	}
	// All caches sync before the first controller starts, because a handler may read any of them.
	if err := awaitSync(ctx, SyncTimeout, a.unsynced, a.stillFilling); err != nil {
		return err
	}
	for _, s := range a.scopes {
		if err := s.controllers.Start(ctx, 0); err != nil {
			return fmt.Errorf("starting the controllers: %w", err)
		}
	}
	return nil
}

// Work lets the controllers reconcile all objects until ctx ends. Call it once, after Fill, in the only process that may
// write.
func (a *App) Work(ctx context.Context) error {
	a.events.Run(ctx, a.Kube)
	a.prepareControllers(ctx)
	for _, s := range a.scopes {
		s.controllers.open()
	}
	return a.expose(ctx)
}

// TakeOver waits until the caches of a standby are current, and reads the configuration again, which it has not followed.
func (a *App) TakeOver(ctx context.Context) error {
	if err := catchup.Connect(ctx, a.RESTConfig, a.scopes[0].caches.ofTargets(), a.Log); err != nil {
		return err
	}
	loaded, err := loadConfig(ctx, a.Kube, a.Env.Namespace, a.Version, a.Log)
	if err == nil {
		a.Config.Set(loaded)
	}
	return err
}

func (a *App) prepareControllers(ctx context.Context) {
	for _, work := range a.before {
		work(ctx)
	}
	a.mayReconcile.Store(true)
}

func (a *App) unsynced() (kinds []pending) {
	for _, s := range a.scopes {
		kinds = append(kinds, s.caches.unsynced()...)
	}
	if !a.secrets.HasSynced() {
		kinds = append(kinds, pending{"Secret (metadata)", a.secretsFailure.Load()})
	}
	return kinds
}

func (a *App) stillFilling(kinds string) {
	a.Log.Info("waiting for caches to sync", "kinds", kinds)
}

// notKubeconfigs excludes Secrets of frequent types that never hold a kubeconfig.
const notKubeconfigs = "type!=helm.sh/release.v1,type!=kubernetes.io/service-account-token," +
	"type!=fleet.cattle.io/agent-credential,type!=fleet.cattle.io/cluster-registration-values," +
	"type!=fleet.cattle.io/agent-recovery,type!=fleet.cattle.io/hub-key," +
	"type!=fleet.cattle.io/bundle-deployment/v1alpha1,type!=fleet.cattle.io/bundle-values/v1alpha1"

// watchKubeconfigSecrets enqueues the Clusters that name a Secret when that Secret changes. It watches only names and
// versions: kubeconfigs are read on demand and never cached.
func (a *App) watchKubeconfigSecrets() error {
	secrets, err := kube.NamesInformer(a.RESTConfig, corev1.SchemeGroupVersion.WithResource("secrets"), notKubeconfigs)
	if err != nil {
		return err
	}
	err = secrets.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		a.secretsFailure.Store(&failure{err})
		cache.DefaultWatchErrorHandler(ctx, r, err)
	})
	if err != nil {
		return fmt.Errorf("preparing watch of Secret metadata: %w", err)
	}
	a.secrets = secrets
	return reconcile.Watch(a.secrets, a.clustersOf, reconcile.Enqueue(a.Clusters))
}

// OnSecret enqueues the keys that resolve returns when a Secret that may hold a kubeconfig is created, changed or
// deleted. These are all Secrets except those of a few types. Call it in a Register.
func (a *App) OnSecret(resolve func(types.NamespacedName) []types.NamespacedName, enqueue func(types.NamespacedName)) error {
	return reconcile.Watch(a.secrets, func(secret *metav1.PartialObjectMetadata) []types.NamespacedName {
		return resolve(types.NamespacedName{Namespace: secret.Namespace, Name: secret.Name})
	}, enqueue)
}

// SecretVersion returns the last watched resourceVersion of a Secret that may hold a kubeconfig. It returns "" if the
// Secret does not exist or was not seen yet.
func (a *App) SecretVersion(secret types.NamespacedName) string {
	found, _, err := a.secrets.GetStore().GetByKey(secret.String())
	seen, exists := found.(*metav1.PartialObjectMetadata)
	if err != nil || !exists {
		return ""
	}
	return seen.ResourceVersion
}

// clustersOf returns the Clusters that name a Secret.
func (a *App) clustersOf(secret *metav1.PartialObjectMetadata) []types.NamespacedName {
	key := types.NamespacedName{Namespace: secret.Namespace, Name: secret.Name}
	clusters, err := a.Clusters.Cache().GetByIndex(ClustersByKubeconfig, key.String())
	if err != nil {
		return nil // cannot happen: New adds the index
	}
	var keys []types.NamespacedName
	for _, cluster := range clusters {
		keys = append(keys, types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name})
	}
	return keys
}
