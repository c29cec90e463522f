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

// When the owners of values Secrets are named: a while after the Secret, when nothing waits to be delivered; and of
// what an earlier process has left, once, some time after the beginning. Where there is always something else to do they
// are named all the same.
const (
	ownersAfter = 5 * time.Second
	ownersAgain = time.Second
	ownersMost  = time.Minute
	ownersSweep = 30 * time.Second
	ownersPage  = 500
)

// owners name the BundleDeployment that owns a values Secret. The Secret is written first, when its owner has no UID
// yet. Nobody waits for the name: it lets the Secret go with its owner.
//
//	Secret, BundleDeployment created ─► later ─► owner named, or the Secret taken away if the BundleDeployment is gone
//	a process begins ─► all values Secrets listed, without their data ─► those without an owner
type owners struct {
	app   *hub.Context
	queue *queue.Queue
	// writing is how many BundleDeployments are being written just now.
	writing *atomic.Int32
	// telling says whether there is something to tell that people wait for.
	telling func() bool

	mu sync.Mutex
	// unnamed says since when each is to be named.
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

// ownersOf are ready, and name nobody before they run.
func ownersOf(a *hub.Context, writing *atomic.Int32, telling func() bool) *owners {
	o := &owners{app: a, writing: writing, telling: telling, unnamed: map[types.NamespacedName]time.Time{}}
	o.queue = queue.New(queue.Options{Name: "values-owner", Workers: 2, Log: a.Log}, o.handle)
	return o
}

// run names owners until ctx ends; first it waits until the BundleDeployments are known.
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

// later has the owner of a new Secret named.
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

// gone has a Secret whose owner was never named taken away with it.
func (o *owners) gone(bd types.NamespacedName) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, waits := o.unnamed[bd]; waits {
		o.queue.AddAfter(bd, 0)
	}
}

// isUrgent says whether one has waited long enough for quiet.
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

// name writes the owner down, in one request.
func (o *owners) name(ctx context.Context, bd *fleet.BundleDeployment) error {
	wanted := rulesdelivery.Values{}.Secret(bd)
	h := &handler{app: o.app}
	err := h.patchSecret(ctx, wanted, map[string]any{
		"type": wanted.Type, "metadata": map[string]any{"ownerReferences": wanted.OwnerReferences},
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsInvalid(err) { // of another type, it holds no values
		return fmt.Errorf("naming the owner of the values secret: %w", err)
	}
	return nil
}

// abandoned deletes a Secret whose BundleDeployment went before it was named.
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
		return nil // gone, or in use again
	}
	return err
}

func (o *owners) nameIf(ctx context.Context, bd *fleet.BundleDeployment) error {
	if bd == nil {
		return nil
	}
	return o.name(ctx, bd)
}

// sweep finds values Secrets that have no owner, because the process that wrote them ended before it named it.
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
