package bundle

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"

	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/queue"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/reconcile"
	rulesdelivery "github.com/fleet-hub/fleet/internal/rules/delivery"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Times for setting the owner of values Secrets. A new Secret gets its owner after ownersAfter, when no deliveries are
// pending; otherwise it is checked again after ownersAgain, at most until ownersMost has passed. Secrets that an
// earlier process left without an owner are searched once, ownersSweep after startup. ownersPage is the page size of
// that search.
const (
	ownersAfter = 5 * time.Second
	ownersAgain = time.Second
	ownersMost  = time.Minute
	ownersSweep = 30 * time.Second
	ownersPage  = 500
)

// owners sets the owner references of values Secrets to their BundleDeployments. A Secret is written before its
// BundleDeployment, when the owner has no UID yet. The reference is not urgent: it only lets the garbage collector
// delete the Secret together with its owner.
//
//	Secret, BundleDeployment created ─► later ─► owner set, or the Secret deleted if the BundleDeployment is gone
//	startup ─► all values Secrets listed, without their data ─► those without an owner
type owners struct {
	app   *hub.Context
	queue *queue.Queue
	// writing is the number of BundleDeployments that are being written.
	writing *atomic.Int32
	// telling reports whether status updates are pending that users wait for.
	telling func() bool

	mu sync.Mutex
	// unnamed is the time since when each Secret waits for its owner.
	unnamed map[types.NamespacedName]time.Time
}

func newOwners(ctx context.Context, a *hub.Context, writing *atomic.Int32, telling func() bool) (*owners, error) {
	secrets, err := metadata.NewForConfig(a.RESTConfig)
	if err != nil {
		return nil, fmt.Errorf("building the client of values Secrets: %w", err)
	}
	o := ownersOf(a, writing, telling)
	go o.run(ctx, secrets.Resource(corev1.SchemeGroupVersion.WithResource("secrets")), a.Begun, a.BundleDeployments.Informer().HasSynced)
	return o, nil
}

// ownersOf returns owners that set nothing before they run.
func ownersOf(a *hub.Context, writing *atomic.Int32, telling func() bool) *owners {
	o := &owners{app: a, writing: writing, telling: telling, unnamed: map[types.NamespacedName]time.Time{}}
	o.queue = queue.New(queue.Options{Name: "values-owner", Workers: 2, Log: a.Log}, o.handle)
	return o
}

// run sets owners until ctx ends. First it waits until the BundleDeployments are cached.
func (o *owners) run(ctx context.Context, secrets metadata.Getter, synced ...cache.InformerSynced) {
	sweep := queue.New(queue.Options{Name: "values-owner-sweep", Workers: 1, Log: o.app.Log}, func(ctx context.Context, _ types.NamespacedName) error {
		return o.sweep(ctx, secrets)
	})
	sweep.AddAfter(types.NamespacedName{}, ownersSweep)
	var queues sync.WaitGroup
	queues.Go(func() { o.queue.Run(ctx, synced...) })
	queues.Go(func() { sweep.Run(ctx, synced...) })
	queues.Wait()
}

// later schedules setting the owner of a new Secret.
func (o *owners) later(bd types.NamespacedName) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.unnamed[bd] = o.app.Clock()
	o.queue.AddAfter(bd, ownersAfter)
}

func (o *owners) done(bd types.NamespacedName) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.unnamed, bd)
}

// gone schedules the deletion of a Secret whose owner was deleted before the reference was set.
func (o *owners) gone(bd types.NamespacedName) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, waits := o.unnamed[bd]; waits {
		o.queue.AddAfter(bd, 0)
	}
}

// isUrgent reports whether a Secret has waited for longer than ownersMost.
func (o *owners) isUrgent(bd types.NamespacedName) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	since, waits := o.unnamed[bd]
	return waits && o.app.Clock().Sub(since) > ownersMost
}

func (o *owners) handle(ctx context.Context, key types.NamespacedName) error {
	if (o.writing.Load() > 0 || o.telling()) && !o.isUrgent(key) {
		o.queue.AddAfter(key, ownersAgain)
		return nil
	}
	bd, err := reconcile.Optional(o.app.BundleDeployments.Cache().Get(key.Namespace, key.Name))
	switch {
	case err != nil:
		return err
	case bd == nil:
		err = o.abandoned(ctx, key)
	case bd.Spec.ValuesHash != "":
		err = o.name(ctx, bd)
	}
	if err == nil {
		o.done(key)
	}
	return err
}

// name sets the owner reference in one request.
func (o *owners) name(ctx context.Context, bd *fleet.BundleDeployment) error {
	wanted := rulesdelivery.Values{}.Secret(bd)
	h := &handler{app: o.app}
	err := h.patchSecret(ctx, wanted, map[string]any{
		"type": wanted.Type, "metadata": map[string]any{"ownerReferences": wanted.OwnerReferences},
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsInvalid(err) { // a Secret of another type holds no values
		return fmt.Errorf("naming the owner of the values secret: %w", err)
	}
	return nil
}

// abandoned deletes a Secret whose BundleDeployment was deleted before the reference was set.
func (o *owners) abandoned(ctx context.Context, key types.NamespacedName) error {
	secrets := o.app.Kube.CoreV1().Secrets(key.Namespace)
	found, err := reconcile.Optional(secrets.Get(ctx, key.Name, metav1.GetOptions{}))
	if err != nil || found == nil || found.Type != fleet.SecretTypeBundleDeployment || len(found.OwnerReferences) > 0 {
		return err
	}
	live, err := reconcile.Optional(o.app.BundleDeployments.Get(key.Namespace, key.Name, metav1.GetOptions{}))
	if err != nil || live != nil {
		return errors.Join(err, o.nameIf(ctx, live))
	}
	err = secrets.Delete(ctx, key.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &found.UID, ResourceVersion: &found.ResourceVersion}})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // deleted, or in use again
	}
	return err
}

func (o *owners) nameIf(ctx context.Context, bd *fleet.BundleDeployment) error {
	if bd == nil {
		return nil
	}
	return o.name(ctx, bd)
}

// sweep finds values Secrets without an owner. The process that wrote them ended before it set the reference.
func (o *owners) sweep(ctx context.Context, secrets metadata.Getter) error {
	options := metav1.ListOptions{FieldSelector: "type=" + fleet.SecretTypeBundleDeployment, Limit: ownersPage}
	for {
		page, err := secrets.List(ctx, options)
		if err != nil {
			return fmt.Errorf("looking for values secrets without an owner: %w", err)
		}
		for i := range page.Items {
			if len(page.Items[i].OwnerReferences) == 0 {
				o.later(keyOf(&page.Items[i]))
			}
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return nil
		}
	}
}
