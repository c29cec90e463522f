package downstream

import (
	"cmp"
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/index"
	"github.com/fleet-hub/fleet/internal/reconcile"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

// copy copies one original into the namespace of a BundleDeployment. If that changes anything, the agent has to be
// notified.
func (h *handler) copy(ctx context.Context, bd *fleet.BundleDeployment, o original) error {
	read, err := h.read(ctx, o)
	if err != nil {
		return err
	}
	if err := h.mayBeCopied(o, read); err != nil {
		if isRefusal(err) {
			return cmp.Or(h.withdraw(ctx, bd, o), err)
		}
		return err
	}
	if h.copied.has(bd.UID, o, read.version) {
		return nil
	}
	write := h.copyConfigMap
	if o.kind == kindSecret {
		write = h.copySecret
	}
	copied, err := write(ctx, bd, o, read)
	if err != nil {
		return err
	}
	h.copied.add(bd.UID, o, copyVersions{of: read.version, version: copied.GetResourceVersion()})
	return nil
}

// withdraw deletes the copy of a Secret that must not be copied. The copy was made by an earlier release, or before a
// Cluster referred to the Secret.
func (h *handler) withdraw(ctx context.Context, bd *fleet.BundleDeployment, o original) error {
	found, err := reconcile.Optional(h.app.Kube.CoreV1().Secrets(bd.Namespace).Get(ctx, o.key.Name, metav1.GetOptions{}))
	if err != nil || found == nil || !isOwner(found.OwnerReferences, bd) ||
		found.Type == fleet.SecretTypeBundleDeployment || found.Labels[fleet.LabelBundleInternalSecret] == "true" {
		return err
	}
	h.copied.forgetCopy(bd.UID, o)
	return h.release(ctx, bd, kindSecret, &metav1.PartialObjectMetadata{ObjectMeta: found.ObjectMeta})
}

// inTheWay returns an error if found prevents the copy of a Secret.
func inTheWay(bd *fleet.BundleDeployment, o original, found *corev1.Secret) error {
	switch {
	case o.key.Name == bd.Name && bd.Spec.ValuesHash != "" || found != nil && found.Type == fleet.SecretTypeBundleDeployment:
		return errTaken
	case found != nil && (isOwnType(found.Type) || found.Type == corev1.SecretTypeServiceAccountToken):
		return errOccupied
	}
	return nil
}

// copySecret creates or updates the copy of a Secret and returns it.
func (h *handler) copySecret(ctx context.Context, bd *fleet.BundleDeployment, o original, read *payload) (metav1.Object, error) {
	copied := &corev1.Secret{ObjectMeta: metaOf(bd, o), Type: read.secretType, Data: read.data}
	return writeCopy(ctx, h, bd, o, h.app.Kube.CoreV1().Secrets(bd.Namespace), copied, func(found *corev1.Secret) (same bool, err error) {
		if err := inTheWay(bd, o, found); err != nil || found == nil {
			return false, err
		}
		same = equality.Semantic.DeepEqual(found.Data, read.data)
		found.Data = read.data // the type stays, because it is immutable
		return same, nil
	})
}

// copyConfigMap creates or updates the copy of a ConfigMap and returns it.
func (h *handler) copyConfigMap(ctx context.Context, bd *fleet.BundleDeployment, o original, read *payload) (metav1.Object, error) {
	copied := &corev1.ConfigMap{ObjectMeta: metaOf(bd, o), Data: read.text, BinaryData: read.data}
	return writeCopy(ctx, h, bd, o, h.app.Kube.CoreV1().ConfigMaps(bd.Namespace), copied, func(found *corev1.ConfigMap) (same bool, err error) {
		if found == nil {
			return false, nil
		}
		same = equality.Semantic.DeepEqual(found.Data, read.text) && equality.Semantic.DeepEqual(found.BinaryData, read.data)
		found.Data, found.BinaryData = read.text, read.data
		return same, nil
	})
}

// writeCopy creates a copy, or updates the object of its name, and returns it. fill puts the data of the original into that
// object, which is nil if it does not exist, and reports whether it had them before.
func writeCopy[T object](ctx context.Context, h *handler, bd *fleet.BundleDeployment, o original, client writer[T], copied T, fill func(found T) (same bool, err error)) (metav1.Object, error) {
	var none T
	found, err := reconcile.Optional(client.Get(ctx, o.key.Name, metav1.GetOptions{}))
	if err != nil {
		return nil, err
	}
	same, err := fill(found)
	switch {
	case err != nil:
		return nil, err
	case found == none:
		created, err := client.Create(ctx, copied, metav1.CreateOptions{})
		return created, h.noteChange(err, bd, nil)
	}
	before := found.GetOwnerReferences()
	if err := h.mayShare(bd, o, before, same); err != nil {
		return nil, err
	}
	owners := withOwner(before, bd)
	if same = same && isNotedOf(found, o); same && len(owners) == len(before) {
		return found, nil
	}
	found.SetAnnotations(labels.Merge(found.GetAnnotations(), labels.Set{annotation.CopiedFrom: o.key.Namespace}))
	found.SetOwnerReferences(owners)
	updated, err := client.Update(ctx, found, metav1.UpdateOptions{})
	if same {
		return updated, err
	}
	return updated, h.noteChange(err, bd, before)
}

// isNotedOf reports whether a copy may say that it is of an original. Copies of earlier releases name no workspace.
func isNotedOf(found metav1.Object, o original) bool {
	workspace, noted := found.GetAnnotations()[annotation.CopiedFrom]
	return !noted || workspace == o.key.Namespace
}

// mayShare returns an error if an object with the name of a copy was not copied, or was copied for another workspace.
func (h *handler) mayShare(bd *fleet.BundleDeployment, o original, owners []metav1.OwnerReference, same bool) error {
	if !same && !index.IsCopy(owners) {
		return errOccupied
	}
	if workspace := h.workspaceOf(bd.Namespace, owners); workspace != "" && workspace != o.key.Namespace {
		return errAnothers
	}
	return nil
}

// workspaceOf returns the workspace of the first BundleDeployment that a copy was made for, or "" if none is left.
func (h *handler) workspaceOf(namespace string, owners []metav1.OwnerReference) string {
	for _, owner := range owners {
		first, err := h.app.BundleDeployments.Cache().Get(namespace, owner.Name)
		if err == nil && owner.Kind == index.KindDeployment && first.UID == owner.UID {
			return index.BundleOf(first).Namespace
		}
	}
	return ""
}

// noteChange marks a BundleDeployment, and those that share the copy with it, so that their agents are notified. It does
// nothing if the write was refused. It returns the error of the write.
func (h *handler) noteChange(err error, bd *fleet.BundleDeployment, owners []metav1.OwnerReference) error {
	if err != nil && !mayBeWritten(err) {
		return err
	}
	h.copied.setChanged(bd.UID)
	for _, owner := range owners {
		if owner.Kind == index.KindDeployment && owner.UID != bd.UID {
			h.copied.setChanged(owner.UID)
			h.queue.Add(types.NamespacedName{Namespace: bd.Namespace, Name: owner.Name})
		}
	}
	return err
}

// mayBeWritten reports whether the write may have succeeded despite the error. In that case the next try would find no
// difference.
func mayBeWritten(err error) bool {
	return apierrors.ReasonForError(err) == metav1.StatusReasonUnknown || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || apierrors.IsInternalError(err)
}

// metaOf returns the metadata of a new copy. The copy is deleted together with its BundleDeployment.
func metaOf(bd *fleet.BundleDeployment, o original) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: bd.Namespace, Name: o.key.Name, OwnerReferences: withOwner(nil, bd),
		Annotations: map[string]string{annotation.CopiedFrom: o.key.Namespace},
	}
}

// withOwner adds a BundleDeployment to the owners of a copy. BundleDeployments of a workspace that want the same copy share
// it. It is deleted together with the last of them.
func withOwner(owners []metav1.OwnerReference, bd *fleet.BundleDeployment) []metav1.OwnerReference {
	if isOwner(owners, bd) {
		return owners
	}
	return append(slices.Clip(owners), metav1.OwnerReference{
		APIVersion: fleet.SchemeGroupVersion.String(), Kind: index.KindDeployment, Name: bd.Name, UID: bd.UID,
	})
}
