package bundle

import (
	"context"
	"errors"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/affected"
	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/index"
	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/outcomes"
	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/queue"
	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/values"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/kube"
	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/objects"
	"github.com/fleet-hub/fleet/internal/rules/targeting"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// The number of Bundles that are reconciled concurrently, in all and of one workspace: their templates may take minutes.
const workers, perWorkspace = 12, 8

type handler struct {
	app      *hub.App
	outcomes *outcomes.Store
	queue    *queue.Queue
	// values writes the values of BundleDeployments. source reads those of Bundles.
	values    *values.Store
	source    *values.Source
	mutations *mutations
	cache     *cache
	affected  *affected.Watcher
	slots     slots
}

// Register starts the controller that watches Bundles and everything that decides where they are deployed. It stores
// the outcome of each Bundle in the store of outcomes.
func Register(ctx context.Context, a *hub.App, outcomes *outcomes.Store) error {
	h := newHandler(a, outcomes)
	secrets, err := kube.NamesInformer(a.RESTConfig, corev1.SchemeGroupVersion.WithResource("secrets"), "type="+fleet.SecretTypeBundleValues)
	if err != nil {
		return err
	}
	if err := errors.Join(h.watch(), reconcile.WatchChanges(secrets, h.onValues)); err != nil {
		return err
	}
	if err := h.values.Guard(ctx, h.queue.Add); err != nil {
		return err
	}
	go secrets.RunWithContext(ctx)
	go h.queue.Run(ctx, a.MayReconcile, a.Bundles.Informer().HasSynced, a.BundleDeployments.Informer().HasSynced,
		a.Clusters.Informer().HasSynced, a.ClusterGroups.Informer().HasSynced, a.Contents.Informer().HasSynced,
		a.BundleNamespaceMappings.Informer().HasSynced, a.AllNamespaces.Informer().HasSynced)
	return nil
}

func newHandler(a *hub.App, outcomes *outcomes.Store) *handler {
	h := &handler{
		app: a, outcomes: outcomes, values: values.New(a), source: values.NewSource(a),
		mutations: newMutations(a.OwnClock), cache: newCache(), slots: newSlots(),
	}
	h.queue = queue.New(queue.Options{Name: "bundle", Workers: workers, PerWorkspace: perWorkspace, First: h.isChanged, Log: a.Log}, h.handle)
	h.affected = affected.New(a, h.cache.selection, func(key types.NamespacedName) { h.queue.AddPaced(key, 0) })
	return h
}

// isChanged reports whether a Bundle was changed since its last pass by any process.
func (h *handler) isChanged(key types.NamespacedName) bool {
	bundle, err := reconcile.Optional(h.app.Bundles.Cache().Get(key.Namespace, key.Name))
	return err == nil && (bundle == nil || bundle.DeletionTimestamp != nil || bundle.Status.ObservedGeneration != bundle.Generation)
}

func (h *handler) handle(ctx context.Context, key types.NamespacedName) error {
	bundle, err := reconcile.Optional(h.app.Bundles.Cache().Get(key.Namespace, key.Name))
	if err != nil {
		return err
	}
	if bundle == nil || !h.app.Owns(bundle) {
		h.outcomes.Forget(key)
		h.mutations.forget(key)
		h.cache.setWaiting(key, false)
		h.source.Forget(key)
		if bundle == nil {
			return h.deleteLeftovers(key)
		}
		return nil
	}
	if bundle.DeletionTimestamp != nil {
		return h.leave(bundle)
	}
	if bundle, err = h.prepare(bundle); err != nil {
		return h.reportUnprepared(bundle, err)
	}
	h.cache.setWaiting(key, true) // changes after this line may need another pass
	in, err := h.gather(ctx, bundle)
	if err != nil {
		return err
	}
	if wait := h.source.Wait(key, in.failure); wait > 0 {
		h.queue.AddAfter(key, wait) // or earlier, when its Secret appears
		return nil
	}
	return h.rollOut(ctx, in)
}

// prepare adds the finalizer, so that a deleted Bundle waits for its BundleDeployments, and removes an unused label.
func (h *handler) prepare(bundle *fleet.Bundle) (*fleet.Bundle, error) {
	return reconcile.Patch(h.app.Bundles, bundle, func(b *fleet.Bundle) {
		if !hasFinalizer(b) {
			b.Finalizers = append(b.Finalizers, fleet.FinalizerBundle)
		}
		delete(b.Labels, fleet.LabelCreatedByDisplayName)
	})
}

func hasFinalizer(bundle *fleet.Bundle) bool {
	return slices.Contains(bundle.Finalizers, fleet.FinalizerBundle)
}

// leave deletes the BundleDeployments of a deleted Bundle. It removes the finalizer when the last of them is gone.
// Each deleted BundleDeployment enqueues the Bundle. leave does not wait for BundleDeployments that the Bundle no
// longer reaches, because the finalizer of another tenant may block them.
func (h *handler) leave(bundle *fleet.Bundle) error {
	if !hasFinalizer(bundle) {
		return nil // the finalizer of another controller blocks it
	}
	remaining, err := h.remaining(bundle)
	if err != nil {
		return err
	}
	if err := h.deleteAll(remaining, nil); err != nil {
		return err
	}
	reach, err := index.ReachOf(h.app, bundle)
	if err != nil || len(index.Within(reach, remaining)) > 0 {
		return err
	}
	_, err = reconcile.Patch(h.app.Bundles, bundle, func(b *fleet.Bundle) {
		b.Finalizers = slices.DeleteFunc(b.Finalizers, func(f string) bool { return f == fleet.FinalizerBundle })
	})
	return err
}

// deleteLeftovers deletes the BundleDeployments of a Bundle whose finalizer was removed, as the search for orphans at startup does.
func (h *handler) deleteLeftovers(key types.NamespacedName) error {
	left, err := h.app.BundleDeployments.Cache().GetByIndex(index.DeploymentsByBundle, key.String())
	left = slices.DeleteFunc(left, func(bd *fleet.BundleDeployment) bool { return !objects.IsOurs(bd) || !h.app.Owns(bd) })
	if err != nil || len(left) == 0 {
		return err
	}
	// Do not rely on the cache before a deletion: the Bundle may exist although the cache does not have it yet.
	found, err := reconcile.Optional(h.app.Bundles.Get(key.Namespace, key.Name, metav1.GetOptions{}))
	if err != nil || found != nil {
		return err
	}
	h.app.Log.Info("bundle gone without its BundleDeployments, which are deleted", "bundle", key.String(), "bundledeployments", len(left))
	return h.deleteAll(left, nil)
}

// remaining returns the BundleDeployments of a Bundle. If the cache contains no such object, it
// asks the API server, because the cache may lack recently created objects.
func (h *handler) remaining(bundle *fleet.Bundle) ([]*fleet.BundleDeployment, error) {
	cached, err := h.deployments(bundle)
	if err != nil || len(cached) > 0 {
		return cached, err
	}
	return h.live(bundle)
}

// live returns the BundleDeployments of a Bundle from the API server.
func (h *handler) live(bundle *fleet.Bundle) ([]*fleet.BundleDeployment, error) {
	if targeting.CheckName(bundle.Name) != nil {
		return nil, nil //nolint:nilerr // no BundleDeployment has such a label, and the API server refuses the selector
	}
	list, err := h.app.BundleDeployments.List(metav1.NamespaceAll, metav1.ListOptions{
		LabelSelector: labels.SelectorFromSet(labels.Set{
			fleet.LabelBundleName: bundle.Name, fleet.LabelBundleNamespace: bundle.Namespace,
		}).String(),
	})
	if err != nil {
		return nil, err
	}
	var live []*fleet.BundleDeployment
	for i := range list.Items {
		if index.BundleOf(&list.Items[i]) == reconcile.KeyOf(bundle) {
			live = append(live, &list.Items[i])
		}
	}
	return live, nil
}

func (h *handler) deployments(bundle *fleet.Bundle) ([]*fleet.BundleDeployment, error) {
	return h.app.BundleDeployments.Cache().GetByIndex(index.DeploymentsByBundle, reconcile.KeyOf(bundle).String())
}

// deleteAll deletes those of these objects that may be deleted now, until isOver. A nil isOver never is.
func (h *handler) deleteAll(deployments []*fleet.BundleDeployment, isOver func() bool) error {
	deletable, err := index.Deletable(h.app, deployments)
	if err != nil {
		return err
	}
	return each(h.slots, atATime, deletable, func(bd *fleet.BundleDeployment) error {
		if isOver != nil && isOver() {
			return nil
		}
		return reconcile.Delete(h.app.BundleDeployments, bd)
	})
}

// Limits for concurrent requests. atATime applies to one Bundle. It is high, so that a change is sent to all clusters
// before the first status reports load the API server. allAtATime applies to all Bundles together. It is more than
// twice as high, so that hanging requests of two Bundles leave room for others.
const (
	atATime    = 100
	allAtATime = 256
)

// slots is a semaphore that all Bundles share. No Bundle has to wait until another one is complete.
type slots chan struct{}

func newSlots() slots { return make(slots, allAtATime) }

// each calls f for every item, with at most together calls at a time, and joins the errors.
func each[T any](s slots, together int, items []T, f func(T) error) error {
	failures, own := make([]error, len(items)), make(slots, together)
	var all sync.WaitGroup
	for i, item := range items {
		own <- struct{}{}
		s <- struct{}{}
		all.Go(func() {
			defer func() { <-s; <-own }()
			failures[i] = f(item)
		})
	}
	all.Wait()
	return errors.Join(failures...)
}
