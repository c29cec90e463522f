package values

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/index"
	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/queue"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/delivery"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// ErrTaken means that the values cannot be written, because a Secret of another type has that name.
var ErrTaken = errors.New("a Secret of the BundleDeployment's name exists and was not created by Fleet")

// Store writes values Secrets. It is safe for concurrent use.
type Store struct {
	app *hub.App

	mu sync.Mutex
	// unverified are the BundleDeployments whose Secret may not hold the values of their hash.
	unverified map[types.UID]bool
	// abandoned are the Secrets that may be of no use.
	abandoned *queue.Queue
}

// New returns a Store that takes all Secrets for verified.
func New(a *hub.App) *Store {
	s := &Store{app: a, unverified: map[types.UID]bool{}}
	s.abandoned = queue.New(queue.Options{Name: "values-abandoned", Workers: 2, Log: a.Log}, s.deleteAbandoned)
	return s
}

// Holds reports whether the Secret of a BundleDeployment is known to hold the values of its hash.
func (s *Store) Holds(uid types.UID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.unverified[uid]
}

// MarkUnverified has the Secret of a BundleDeployment compared before the next write.
func (s *Store) MarkUnverified(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unverified[uid] = true
}

// Gone forgets a BundleDeployment that was deleted. If its Secret is unverified, it may have no owner yet, so garbage
// collection would not delete it.
func (s *Store) Gone(bd *fleet.BundleDeployment) {
	if bd.Spec.ValuesHash != "" && !s.Holds(bd.UID) {
		s.abandoned.AddAfter(reconcile.KeyOf(bd), abandonedDelay)
	}
	s.Forget(bd.UID)
}

// Forget removes the mark of MarkUnverified: the Secret was written, or the BundleDeployment is gone.
func (s *Store) Forget(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.unverified, uid)
}

// CheckReported marks the Secret of a BundleDeployment unverified if its agent has begun to report invalid values. The
// Secret may have been changed or deleted. It returns whether it did so.
func (s *Store) CheckReported(older, newer *fleet.BundleDeployment) bool {
	if !reportsInvalid(newer) || older != nil && reportsInvalid(older) {
		return false
	}
	s.MarkUnverified(newer.UID)
	return true
}

func reportsInvalid(bd *fleet.BundleDeployment) bool {
	deployed := conditions.Get(bd.Status.Conditions, conditions.Deployed)
	return bd.Spec.ValuesHash != "" && deployed != nil && deployed.Reason == conditions.ReasonHelmValuesInvalid
}

// Write writes the values of an existing BundleDeployment. Call it before the BundleDeployment gets their hash, and
// Finish afterwards. If the BundleDeployment has that hash already, the values were written before.
func (s *Store) Write(ctx context.Context, existing *fleet.BundleDeployment, values delivery.Values) error {
	switch secret := values.Secret(existing); {
	case values.Empty():
		return nil
	case !s.Holds(existing.UID):
		return s.check(ctx, secret)
	case existing.Spec.ValuesHash == values.Hash():
		return nil
	case existing.Spec.ValuesHash == "":
		s.MarkUnverified(existing.UID)
		return s.Create(ctx, secret)
	default:
		s.MarkUnverified(existing.UID) // until the BundleDeployment has the same hash
		return s.change(ctx, secret)
	}
}

// Finish ends a Write after the BundleDeployment has the hash of the values. It deletes values that are no longer used.
// A Secret of that name with another type holds no values and stays. If Finish fails, the Secret is deleted later.
// existing is the BundleDeployment before the write.
func (s *Store) Finish(ctx context.Context, existing *fleet.BundleDeployment, values delivery.Values) error {
	s.Forget(existing.UID)
	if !values.Empty() || existing.Spec.ValuesHash == "" {
		return nil
	}
	err := s.deleteUnused(ctx, existing)
	if err != nil {
		s.abandoned.AddAfter(reconcile.KeyOf(existing), abandonedDelay)
	}
	return err
}

func (s *Store) deleteUnused(ctx context.Context, existing *fleet.BundleDeployment) error {
	secrets := s.app.Kube.CoreV1().Secrets(existing.Namespace)
	found, err := reconcile.Optional(secrets.Get(ctx, existing.Name, metav1.GetOptions{}))
	if err == nil && found != nil && found.Type == fleet.SecretTypeBundleDeployment {
		err = secrets.Delete(ctx, existing.Name, *reconcile.Exactly(found))
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting the values secret: %w", err)
	}
	return nil
}

// SetOwner makes a new BundleDeployment the owner of the Secret that was created before it. A Secret that is missing by
// now, or was replaced by one of another type, is left to the guard. If SetOwner fails, the next write compares the
// Secret.
func (s *Store) SetOwner(ctx context.Context, created *fleet.BundleDeployment) error {
	wanted := delivery.Values{}.Secret(created)
	err := s.patch(ctx, wanted, map[string]any{
		"type": wanted.Type, "metadata": map[string]any{"ownerReferences": wanted.OwnerReferences},
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsInvalid(err) {
		s.MarkUnverified(created.UID)
		return fmt.Errorf("setting the owner of the values secret: %w", err)
	}
	return nil
}

// fewSecrets is the number of values Secrets up to which they are read one by one, readsAtOnce at a time. To list them, the API
// server reads every Secret of the hub. pageSize is the page size of the list.
const (
	fewSecrets  = 200
	readsAtOnce = 16
	pageSize    = 250
)

// Read returns the values in the Secrets of these BundleDeployments, by namespace. All of them have the given name. If
// there are many, Read lists the Secrets of that name in all namespaces.
func (s *Store) Read(ctx context.Context, name string, of []*fleet.BundleDeployment) (map[string]*delivery.Values, error) {
	found := map[string]*delivery.Values{}
	if len(of) > fewSecrets {
		return found, s.readAll(ctx, name, found)
	}
	var mu sync.Mutex // guards found
	reads, ctx := errgroup.WithContext(ctx)
	reads.SetLimit(readsAtOnce)
	for _, bd := range of {
		reads.Go(func() error {
			secret, err := reconcile.Optional(s.app.Kube.CoreV1().Secrets(bd.Namespace).Get(ctx, bd.Name, metav1.GetOptions{}))
			if err != nil {
				return fmt.Errorf("reading the values of %s: %w", reconcile.KeyOf(bd), err)
			}
			if secret != nil {
				values := delivery.ReadValues(secret)
				mu.Lock()
				defer mu.Unlock()
				found[bd.Namespace] = &values
			}
			return nil
		})
	}
	return found, reads.Wait()
}

func (s *Store) readAll(ctx context.Context, name string, found map[string]*delivery.Values) error {
	options := metav1.ListOptions{FieldSelector: "metadata.name=" + name + ",type=" + fleet.SecretTypeBundleDeployment, Limit: pageSize}
	for {
		page, err := s.app.Kube.CoreV1().Secrets(metav1.NamespaceAll).List(ctx, options)
		if err != nil {
			return fmt.Errorf("reading the values of all clusters: %w", err)
		}
		for i := range page.Items {
			values := delivery.ReadValues(&page.Items[i])
			found[page.Items[i].Namespace] = &values
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return nil
		}
	}
}

// Create creates the values Secret of a new BundleDeployment. A Secret that exists already is left from an
// earlier BundleDeployment or an earlier try.
func (s *Store) Create(ctx context.Context, wanted *corev1.Secret) error {
	_, err := s.app.Kube.CoreV1().Secrets(wanted.Namespace).Create(ctx, wanted, metav1.CreateOptions{})
	switch {
	case apierrors.IsAlreadyExists(err):
		return s.check(ctx, wanted)
	case err != nil:
		return fmt.Errorf("creating the values secret: %w", err)
	default:
		return nil
	}
}

// change replaces the values in an existing Secret in one request. If the Secret is missing or of another type,
// check handles it.
func (s *Store) change(ctx context.Context, wanted *corev1.Secret) error {
	data := map[string][]byte{}
	for key, value := range wanted.Data {
		data[key] = append([]byte{}, value...) // an empty value must not become null, which would delete the key
	}
	err := s.patch(ctx, wanted, map[string]any{
		"type": wanted.Type, "data": data, "metadata": map[string]any{"ownerReferences": wanted.OwnerReferences},
	})
	if apierrors.IsNotFound(err) || apierrors.IsInvalid(err) {
		return s.check(ctx, wanted)
	}
	if err != nil {
		return fmt.Errorf("changing the values secret: %w", err)
	}
	return nil
}

// check reads a values Secret whose state is unknown and creates, replaces or updates it as needed.
func (s *Store) check(ctx context.Context, wanted *corev1.Secret) error {
	secrets := s.app.Kube.CoreV1().Secrets(wanted.Namespace)
	found, err := reconcile.Optional(secrets.Get(ctx, wanted.Name, metav1.GetOptions{}))
	if err != nil {
		return fmt.Errorf("reading the values secret: %w", err)
	}
	if found != nil && found.Type != wanted.Type {
		if !index.IsCopy(found.OwnerReferences) {
			return ErrTaken
		}
		// The type of a Secret is immutable, and the agent does not accept this one.
		if err := secrets.Delete(ctx, found.Name, *reconcile.Exactly(found)); err != nil {
			return fmt.Errorf("replacing the values secret: %w", err)
		}
		found = nil
	}
	if found == nil {
		if _, err := secrets.Create(ctx, wanted, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating the values secret: %w", err)
		}
		return nil
	}
	if equality.Semantic.DeepEqual(found.Data, wanted.Data) && equality.Semantic.DeepEqual(found.OwnerReferences, wanted.OwnerReferences) {
		return nil
	}
	found = found.DeepCopy()
	found.Data, found.OwnerReferences = wanted.Data, wanted.OwnerReferences
	if _, err := secrets.Update(ctx, found, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("updating the values secret: %w", err)
	}
	return nil
}

func (s *Store) patch(ctx context.Context, wanted *corev1.Secret, change map[string]any) error {
	patch, err := json.Marshal(change)
	if err != nil {
		return fmt.Errorf("encoding a patch of the values secret: %w", err)
	}
	_, err = s.app.Kube.CoreV1().Secrets(wanted.Namespace).Patch(ctx, wanted.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// deleteAbandoned deletes a values Secret that no agent reads, because the process that wrote or replaced it ended too
// early: it has no owner and its BundleDeployment does not exist, or its BundleDeployment refers to no Secret.
func (s *Store) deleteAbandoned(ctx context.Context, key types.NamespacedName) error {
	secrets := s.app.Kube.CoreV1().Secrets(key.Namespace)
	found, err := reconcile.Optional(secrets.Get(ctx, key.Name, metav1.GetOptions{}))
	if err != nil || found == nil || found.Type != fleet.SecretTypeBundleDeployment {
		return err
	}
	live, err := reconcile.Optional(s.app.BundleDeployments.Get(key.Namespace, key.Name, metav1.GetOptions{}))
	if err != nil || !s.isUnused(found, live) {
		return err
	}
	return reconcile.IgnoreGone(secrets.Delete(ctx, key.Name, metav1.DeleteOptions{ // or in use again
		Preconditions: &metav1.Preconditions{UID: &found.UID, ResourceVersion: &found.ResourceVersion},
	}))
}

// isUnused reports whether no agent reads a values Secret. owner is its BundleDeployment, or nil.
func (s *Store) isUnused(secret *corev1.Secret, owner *fleet.BundleDeployment) bool {
	switch {
	case owner == nil:
		return len(secret.OwnerReferences) == 0 // otherwise the garbage collector deletes it
	case owner.Spec.ValuesHash != "":
		s.MarkUnverified(owner.UID) // the next write sets the owner
		return false
	default:
		return s.Holds(owner.UID) // otherwise it is being written
	}
}
