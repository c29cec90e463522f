package watch

import (
	"context"
	"errors"
	"fmt"

	"helm.sh/helm/v3/pkg/kube"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/fleet-hub/fleet/internal/deploy/manifest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// checkExtras checks which extras still exist. An extra that was deleted or belongs to another owner is not
// checked again.
func (o *Observer) checkExtras(ctx context.Context, t *Tracking) error {
	var still []manifest.Ref
	for _, ref := range t.extras {
		found, err := o.Metadata.Resource(t.resources[ref.GroupVersionKind]).Namespace(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("checking whether %s was deleted: %w", ref.Text(), err)
		}
		if isExtra(found, t.set.Hash) {
			still = append(still, ref)
		}
	}
	t.extras = still
	return nil
}

// isExtra reports whether an object should have been deleted with an earlier revision: it has the label of the
// set, and neither a label nor an annotation to keep it.
func isExtra(found *metav1.PartialObjectMetadata, hash string) bool {
	return found.Labels[fleet.LabelSetHash] == hash && found.Labels[fleet.LabelSetPrune] != "false" &&
		found.Annotations[kube.ResourcePolicyAnno] != kube.KeepPolicy
}

// DeleteExtras deletes objects that are no longer part of the release and still exist.
func (o *Observer) DeleteExtras(ctx context.Context, t *Tracking) error {
	var errs []error
	for _, ref := range t.extras {
		err := o.Metadata.Resource(t.resources[ref.GroupVersionKind]).Namespace(ref.Namespace).Delete(ctx, ref.Name, metav1.DeleteOptions{})
		if err := utilerrors.FilterOut(err, apierrors.IsNotFound); err != nil {
			errs = append(errs, fmt.Errorf("deleting %s: %w", ref.Text(), err))
		}
	}
	return errors.Join(errs...)
}
