// Package bundle takes Bundles to their clusters.
//
//	Bundle, Clusters, ClusterGroups, mappings ─► Content ─► per cluster: values Secret ─► BundleDeployment
//	                                          └► ledger ─► status
//	Bundle deleted ─► BundleDeployments deleted ─► finalizer
//
// It writes only what differs, and asks the API server only where the cache cannot
// know: the values Secrets, which are not cached.
package bundle

import (
	"context"
	"errors"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/index"
	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/ledger"
	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/queue"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/kube"
	"github.com/fleet-hub/fleet/internal/reconcile"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// workers is how many Bundles are worked on at a time.
const workers = 8

type handler struct {
	app    *hub.Context
	ledger *ledger.Ledger
	queue  *queue.Queue
	memo   *memo
	sights *sights
	owners *owners
	// awaited are the Bundles whose values are on their way, or missing.
	awaited *awaited
	// waiting are the Bundles with targets that wait for others.
	waiting *flags
	slots   slots
}

// Register watches Bundles and what decides where they go. What targeting makes of
// them goes into the ledger. What nobody waits for is not done while telling says that there is something to tell.
func Register(ctx context.Context, a *hub.Context, outcomes *ledger.Ledger, telling func() bool) error {
	h := &handler{app: a, ledger: outcomes, memo: newMemo(), sights: newSights(a.Clock), waiting: newFlags(), awaited: newAwaited(), slots: newSlots()}
	h.queue = queue.New(queue.Options{Name: "bundle", Workers: workers, Log: a.Log}, h.handle)
	var err error
	if h.owners, err = newOwners(ctx, a, &outcomes.Writing, telling); err != nil {
		return err
	}
	values, err := kube.NamesInformer(a.RESTConfig, corev1.SchemeGroupVersion.WithResource("secrets"), "type="+fleet.SecretTypeBundleValues)
	if err != nil {
		return err
	}
	if err := errors.Join(h.watch(), queue.Watch(a.Bundles.Informer(), h.wakeCircle), queue.Watch(values, h.onValues)); err != nil {
		return err
	}
	if err := newGuard(h, a.RESTConfig).run(ctx, a.Begun, a.BundleDeployments.Informer().HasSynced); err != nil {
		return err
	}
	go values.RunWithContext(ctx)
	go h.queue.Run(ctx, a.Begun, a.Bundles.Informer().HasSynced, a.BundleDeployments.Informer().HasSynced,
		a.Clusters.Informer().HasSynced, a.ClusterGroups.Informer().HasSynced, a.Contents.Informer().HasSynced,
		a.BundleNamespaceMappings.Informer().HasSynced, a.AllNamespaces.Informer().HasSynced)
	return nil
}

func (h *handler) handle(ctx context.Context, key types.NamespacedName) error {
	bundle, err := reconcile.Optional(h.app.Bundles.Cache().Get(key.Namespace, key.Name))
	if err != nil {
		return err
	}
	if bundle == nil || !h.app.Owns(bundle) {
		h.ledger.Forget(key)
		h.sights.forget(key)
		h.waiting.set(key, false)
		h.awaited.end(key)
		return nil
	}
	if bundle.DeletionTimestamp != nil {
		return h.leave(bundle)
	}
	if bundle, err = h.prepare(bundle); err != nil {
		return h.tellUnprepared(bundle, err)
	}
	h.waiting.set(key, true) // what happens from now on may be missed
	in, err := h.gather(ctx, bundle)
	if err != nil || h.awaitsValues(in) {
		return err
	}
	return h.rollOut(ctx, in)
}

// prepare makes sure that the Bundle waits for its BundleDeployments when it is
// deleted, and drops a label that nobody uses any more.
func (h *handler) prepare(bundle *fleet.Bundle) (*fleet.Bundle, error) {
	return reconcile.Patch(h.app.Bundles, bundle, func(b *fleet.Bundle) {
		if !slices.Contains(b.Finalizers, fleet.FinalizerBundle) {
			b.Finalizers = append(b.Finalizers, fleet.FinalizerBundle)
		}
		delete(b.Labels, fleet.LabelCreatedByDisplayName)
	})
}

// leave deletes the BundleDeployments of a Bundle that is deleted, and lets the
// Bundle go when the last of them is gone. Each one's end brings us back here. Those
// beyond its reach are not waited for: another tenant's finalizer may hold them.
func (h *handler) leave(bundle *fleet.Bundle) error {
	if !slices.Contains(bundle.Finalizers, fleet.FinalizerBundle) {
		return nil // somebody else's finalizer holds it
	}
	remaining, err := h.remaining(bundle)
	if err != nil {
		return err
	}
	if err := h.deleteAll(remaining); err != nil {
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

// remaining are the BundleDeployments of a Bundle. Before there are none, the API
// server is asked: what was created a moment ago may not be in the cache.
func (h *handler) remaining(bundle *fleet.Bundle) ([]*fleet.BundleDeployment, error) {
	cached, err := h.deployments(bundle)
	if err != nil || len(cached) > 0 {
		return cached, err
	}
	return h.live(bundle)
}

// live are the BundleDeployments of a Bundle as the API server has them now.
func (h *handler) live(bundle *fleet.Bundle) ([]*fleet.BundleDeployment, error) {
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
		if index.BundleOf(&list.Items[i]) == keyOf(bundle) {
			live = append(live, &list.Items[i])
		}
	}
	return live, nil
}

func (h *handler) deployments(bundle *fleet.Bundle) ([]*fleet.BundleDeployment, error) {
	return h.app.BundleDeployments.Cache().GetByIndex(index.DeploymentsByBundle, keyOf(bundle).String())
}

// deleteAll deletes exactly these objects; one that is on its way is left alone.
func (h *handler) deleteAll(deployments []*fleet.BundleDeployment) error {
	return each(h.slots, atATime, deployments, func(bd *fleet.BundleDeployment) error {
		if bd.DeletionTimestamp != nil {
			return nil
		}
		err := h.app.BundleDeployments.Delete(bd.Namespace, bd.Name, &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &bd.UID}})
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return nil // gone, or another one of that name
		}
		return err
	})
}

// How many requests are under way together: for one Bundle so many that a change is on its way to all clusters before
// those that report already take the server's time; for all Bundles more than for two of them, so that requests which
// hang leave room.
const (
	atATime    = 100
	allAtATime = 256
)

// slots are what such requests take, in turn: no Bundle waits until another one is done.
type slots chan struct{}

func newSlots() slots { return make(slots, allAtATime) }

// each calls f for every item, so many at a time, and joins the errors.
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

func keyOf(o metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}
