package downstream

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/reconcile"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// copy brings one original beside a BundleDeployment. It says whether that changed anything.
func (h *handler) copy(ctx context.Context, bd *fleet.BundleDeployment, o original) (changed bool, err error) {
	read, err := h.read(ctx, o)
	if err != nil {
		return false, err
	}
	if h.done.has(bd.UID, o, read.version) {
		return false, nil
	}
	write := h.copyConfigMap
	if o.kind == kindSecret {
		write = h.copySecret
	}
	if changed, err = write(ctx, bd, o, read); err == nil {
		h.done.note(bd.UID, o, read.version)
	}
	return changed, err
}

func (h *handler) copySecret(ctx context.Context, bd *fleet.BundleDeployment, o original, read *payload) (changed bool, err error) {
	secrets := h.app.Kube.CoreV1().Secrets(bd.Namespace)
	found, err := reconcile.Optional(secrets.Get(ctx, o.key.Name, metav1.GetOptions{}))
	switch {
	case err != nil:
		return false, err
	case o.key.Name == bd.Name && bd.Spec.ValuesHash != "" || found != nil && found.Type == fleet.SecretTypeBundleDeployment:
		return false, errTaken
	case found == nil:
		_, err = secrets.Create(ctx, &corev1.Secret{ObjectMeta: metaOf(bd, o), Type: read.secretType, Data: read.data}, metav1.CreateOptions{})
		return err == nil, err
	}
	owners := withOwner(found.OwnerReferences, bd)
	changed = !equality.Semantic.DeepEqual(found.Data, read.data)
	if !changed && len(owners) == len(found.OwnerReferences) {
		return false, nil
	}
	found.Data, found.OwnerReferences = read.data, owners // its type stays: it cannot be changed
	_, err = secrets.Update(ctx, found, metav1.UpdateOptions{})
	return changed && err == nil, err
}

func (h *handler) copyConfigMap(ctx context.Context, bd *fleet.BundleDeployment, o original, read *payload) (changed bool, err error) {
	configMaps := h.app.Kube.CoreV1().ConfigMaps(bd.Namespace)
	found, err := reconcile.Optional(configMaps.Get(ctx, o.key.Name, metav1.GetOptions{}))
	if err != nil {
		return false, err
	}
	if found == nil {
		_, err = configMaps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metaOf(bd, o), Data: read.text, BinaryData: read.data}, metav1.CreateOptions{})
		return err == nil, err
	}
	owners := withOwner(found.OwnerReferences, bd)
	changed = !equality.Semantic.DeepEqual(found.Data, read.text) || !equality.Semantic.DeepEqual(found.BinaryData, read.data)
	if !changed && len(owners) == len(found.OwnerReferences) {
		return false, nil
	}
	found.Data, found.BinaryData, found.OwnerReferences = read.text, read.data, owners
	_, err = configMaps.Update(ctx, found, metav1.UpdateOptions{})
	return changed && err == nil, err
}

// metaOf is that of a new copy: it goes with its BundleDeployment.
func metaOf(bd *fleet.BundleDeployment, o original) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: bd.Namespace, Name: o.key.Name, OwnerReferences: withOwner(nil, bd)}
}

// withOwner adds a BundleDeployment to the owners of a copy. Two that want the same one share it, and it goes with the
// last of them.
func withOwner(owners []metav1.OwnerReference, bd *fleet.BundleDeployment) []metav1.OwnerReference {
	if isOwner(owners, bd) {
		return owners
	}
	return append(slices.Clip(owners), metav1.OwnerReference{
		APIVersion: fleet.SchemeGroupVersion.String(), Kind: "BundleDeployment", Name: bd.Name, UID: bd.UID,
	})
}
