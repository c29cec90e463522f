package downstream

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/index"
	"github.com/fleet-hub/fleet/internal/reconcile"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// namesPage is the page size for listing names.
const namesPage = 500

// prune deletes the copies that a BundleDeployment owns but no longer names. release describes what stays. Copies have
// no label, because agents copy labels too; they are found by their owner references. If a copy has other owners, only
// the reference is removed.
func (h *handler) prune(ctx context.Context, bd *fleet.BundleDeployment) error {
	if !h.copied.takeSearch(bd.UID) {
		return nil
	}
	wanted := namedBy(bd)
	var failed error
	for _, kind := range []string{kindSecret, kindConfigMap} {
		found, err := h.copiesOf(ctx, bd, kind)
		failed = errors.Join(failed, err)
		for i := range found {
			one := original{kind, types.NamespacedName{Namespace: index.BundleOf(bd).Namespace, Name: found[i].Name}}
			if !wanted[one] {
				h.copied.forgetCopy(bd.UID, one)
				failed = errors.Join(failed, h.release(ctx, bd, kind, &found[i]))
			}
		}
	}
	if failed != nil {
		h.copied.search(bd.UID)
		return fmt.Errorf("deleting copies in namespace %s: %w", bd.Namespace, failed)
	}
	return nil
}

// namedBy returns the originals that a BundleDeployment wants copied now or after its promotion.
func namedBy(bd *fleet.BundleDeployment) map[original]bool {
	named := map[original]bool{}
	for _, resource := range slices.Concat(bd.Spec.Options.DownstreamResources, bd.Spec.StagedOptions.DownstreamResources) {
		if one, known := originalOf(bd, resource); known {
			named[one] = true
		}
	}
	return named
}

// copiesOf returns the objects of a kind that a BundleDeployment owns, except for the Secrets that Fleet creates for
// itself.
func (h *handler) copiesOf(ctx context.Context, bd *fleet.BundleDeployment, kind string) (owned []metav1.PartialObjectMetadata, err error) {
	options := metav1.ListOptions{Limit: namesPage, LabelSelector: fleet.LabelBundleInternalSecret + "!=true"}
	resource := "configmaps"
	if kind == kindSecret {
		resource, options.FieldSelector = "secrets", "type!="+fleet.SecretTypeBundleDeployment
	}
	names := h.names.Resource(corev1.SchemeGroupVersion.WithResource(resource)).Namespace(bd.Namespace)
	for {
		page, err := names.List(ctx, options)
		if err != nil {
			return nil, err
		}
		for _, one := range page.Items {
			if isOwner(one.OwnerReferences, bd) {
				owned = append(owned, one)
			}
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return owned, nil
		}
	}
}

func isOwner(owners []metav1.OwnerReference, bd *fleet.BundleDeployment) bool {
	return slices.ContainsFunc(owners, func(owner metav1.OwnerReference) bool { return owner.UID == bd.UID })
}

// release removes a BundleDeployment from the owners of a copy, or deletes the copy if it has no other owners. It
// fails if the copy was written since it was found.
func (h *handler) release(ctx context.Context, bd *fleet.BundleDeployment, kind string, found *metav1.PartialObjectMetadata) error {
	others := slices.DeleteFunc(slices.Clone(found.OwnerReferences), func(owner metav1.OwnerReference) bool { return owner.UID == bd.UID })
	var err error
	if core := h.app.Kube.CoreV1(); kind == kindSecret {
		err = leave(ctx, core.Secrets(bd.Namespace), found, others)
	} else {
		err = leave(ctx, core.ConfigMaps(bd.Namespace), found, others)
	}
	return utilerrors.FilterOut(err, apierrors.IsNotFound)
}

// object is a Secret or a ConfigMap.
type object interface {
	comparable
	metav1.Object
}

// writer is the client for one kind of copies.
type writer[T object] interface {
	Create(ctx context.Context, object T, options metav1.CreateOptions) (T, error)
	Get(ctx context.Context, name string, options metav1.GetOptions) (T, error)
	Update(ctx context.Context, object T, options metav1.UpdateOptions) (T, error)
	Delete(ctx context.Context, name string, options metav1.DeleteOptions) error
}

// leave sets the remaining owners of a copy. Without owners it deletes the copy.
func leave[T object](ctx context.Context, client writer[T], found *metav1.PartialObjectMetadata, owners []metav1.OwnerReference) error {
	if len(owners) == 0 {
		return client.Delete(ctx, found.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &found.UID, ResourceVersion: &found.ResourceVersion}})
	}
	var none T
	live, err := reconcile.Optional(client.Get(ctx, found.Name, metav1.GetOptions{}))
	if err != nil || live == none {
		return err
	}
	live.SetOwnerReferences(owners)
	live.SetResourceVersion(found.ResourceVersion)
	_, err = client.Update(ctx, live, metav1.UpdateOptions{})
	return err
}
