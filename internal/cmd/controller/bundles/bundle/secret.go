package bundle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/index"
	"github.com/fleet-hub/fleet/internal/reconcile"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// errSecretTaken means that the values cannot be written, because a Secret of another type has that name.
var errSecretTaken = errors.New("the cluster's namespace has a Secret of the Bundle's name that is not Fleet's; remove that Secret, or give the Bundle another name")

// createSecret creates the values Secret of a new BundleDeployment. A Secret that exists already is left from an
// earlier BundleDeployment or an earlier try.
func (h *handler) createSecret(ctx context.Context, wanted *corev1.Secret) error {
	_, err := h.app.Kube.CoreV1().Secrets(wanted.Namespace).Create(ctx, wanted, metav1.CreateOptions{})
	switch {
	case apierrors.IsAlreadyExists(err):
		return h.checkSecret(ctx, wanted)
	case err != nil:
		return fmt.Errorf("creating the values secret: %w", err)
	default:
		return nil
	}
}

// changeSecret replaces the values in an existing Secret in one request. If the Secret is missing or of another type,
// checkSecret handles it.
func (h *handler) changeSecret(ctx context.Context, wanted *corev1.Secret) error {
	data := map[string][]byte{}
	for key, value := range wanted.Data {
		data[key] = append([]byte{}, value...) // an empty value must not become null, which would delete the key
	}
	err := h.patchSecret(ctx, wanted, map[string]any{
		"type": wanted.Type, "data": data, "metadata": map[string]any{"ownerReferences": wanted.OwnerReferences},
	})
	if apierrors.IsNotFound(err) || apierrors.IsInvalid(err) {
		return h.checkSecret(ctx, wanted)
	}
	if err != nil {
		return fmt.Errorf("changing the values secret: %w", err)
	}
	return nil
}

// setOwner writes the owner reference of a values Secret. A Secret that is missing by now is restored by the guard.
func (h *handler) setOwner(ctx context.Context, wanted *corev1.Secret) error {
	err := h.patchSecret(ctx, wanted, map[string]any{"metadata": map[string]any{"ownerReferences": wanted.OwnerReferences}})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("setting the owner of the values secret: %w", err)
	}
	return nil
}

// deleteAbandoned deletes a values Secret without an owner whose BundleDeployment does not exist: the process that
// wrote it ended before it created the BundleDeployment.
func (h *handler) deleteAbandoned(ctx context.Context, key types.NamespacedName) error {
	secrets := h.app.Kube.CoreV1().Secrets(key.Namespace)
	found, err := reconcile.Optional(secrets.Get(ctx, key.Name, metav1.GetOptions{}))
	if err != nil || found == nil || found.Type != fleet.SecretTypeBundleDeployment || len(found.OwnerReferences) > 0 {
		return err
	}
	live, err := reconcile.Optional(h.app.BundleDeployments.Get(key.Namespace, key.Name, metav1.GetOptions{}))
	if err != nil || live != nil {
		return err // the cache reports the BundleDeployment, and the next write sets the owner
	}
	err = secrets.Delete(ctx, key.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &found.UID, ResourceVersion: &found.ResourceVersion}})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // deleted, or in use again
	}
	return err
}

// checkSecret reads a values Secret whose state is unknown and creates, replaces or updates it as needed.
func (h *handler) checkSecret(ctx context.Context, wanted *corev1.Secret) error {
	secrets := h.app.Kube.CoreV1().Secrets(wanted.Namespace)
	found, err := reconcile.Optional(secrets.Get(ctx, wanted.Name, metav1.GetOptions{}))
	if err != nil {
		return fmt.Errorf("reading the values secret: %w", err)
	}
	if found != nil && found.Type != wanted.Type {
		if !isCopy(found) {
			return errSecretTaken
		}
		// The type of a Secret is immutable, and the agent does not accept this one.
		if err := secrets.Delete(ctx, found.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &found.UID}}); err != nil {
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

func (h *handler) patchSecret(ctx context.Context, wanted *corev1.Secret, change map[string]any) error {
	patch, err := json.Marshal(change)
	if err != nil {
		return fmt.Errorf("encoding a patch of the values secret: %w", err)
	}
	_, err = h.app.Kube.CoreV1().Secrets(wanted.Namespace).Patch(ctx, wanted.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// isCopy reports whether a Secret was copied for a BundleDeployment.
func isCopy(secret *corev1.Secret) bool {
	return slices.ContainsFunc(secret.OwnerReferences, func(owner metav1.OwnerReference) bool {
		return owner.Kind == "BundleDeployment" && strings.HasPrefix(owner.APIVersion, fleet.SchemeGroupVersion.Group+"/")
	})
}

// deleteSecret deletes values that are no longer used. A Secret of that name with another type holds no values and
// stays.
func (h *handler) deleteSecret(ctx context.Context, bd *fleet.BundleDeployment) error {
	secrets := h.app.Kube.CoreV1().Secrets(bd.Namespace)
	found, err := reconcile.Optional(secrets.Get(ctx, bd.Name, metav1.GetOptions{}))
	if err == nil && found != nil && found.Type == fleet.SecretTypeBundleDeployment {
		err = secrets.Delete(ctx, bd.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &found.UID}})
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting the values secret: %w", err)
	}
	h.memo.trust(bd.UID)
	return nil
}

// recheckValues enqueues the Bundle of a BundleDeployment whose agent reports invalid values, so that its Secret is
// compared. The Secret may have been changed or deleted.
func (h *handler) recheckValues(older, newer *fleet.BundleDeployment) {
	if !blamesValues(newer) || older != nil && blamesValues(older) {
		return
	}
	h.memo.doubt(newer.UID)
	h.queue.Add(index.BundleOf(newer))
}

func blamesValues(bd *fleet.BundleDeployment) bool {
	deployed := fleet.GetCondition(bd.Status.Conditions, fleet.ConditionDeployed)
	return bd.Spec.ValuesHash != "" && deployed != nil && deployed.Reason == fleet.ReasonHelmValuesInvalid
}
