package recoveries

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"

	"github.com/fleet-hub/fleet/internal/identity"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/reconcile"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// prunePage is the number of ConfigMaps that are read at a time. Each has up to 300 KiB.
const prunePage = 20

// Prune deletes the ConfigMaps with blocked tickets that have all expired.
func (r *Recoveries) Prune(ctx context.Context) error {
	expired := r.clock().Add(-identity.TicketLife).UTC().Format(time.RFC3339)
	var failures []error
	pages := pager.New(pager.SimplePageFunc(func(options metav1.ListOptions) (runtime.Object, error) {
		return r.kube().CoreV1().ConfigMaps(r.system).List(ctx, options)
	}))
	pages.PageSize = prunePage
	err := pages.EachListItem(ctx, metav1.ListOptions{LabelSelector: fleet.LabelManaged + "=true"}, func(object runtime.Object) error {
		if one, is := object.(*corev1.ConfigMap); is && strings.HasPrefix(one.Name, names.DeletedClusters) && latest(one) < expired {
			failures = append(failures, r.drop(ctx, one))
		}
		return nil
	})
	if err != nil {
		failures = append(failures, fmt.Errorf("listing the blocked tickets in namespace %s: %w", r.system, err))
	}
	return errors.Join(failures...)
}

// latest returns the time of the last deletion. RFC 3339 in UTC sorts by time.
func latest(blocked *corev1.ConfigMap) (at string) {
	for _, each := range blocked.Data {
		at = max(at, each)
	}
	return at
}

// drop deletes a ConfigMap, unless it was written since it was read.
func (r *Recoveries) drop(ctx context.Context, one *corev1.ConfigMap) error {
	err := r.kube().CoreV1().ConfigMaps(r.system).Delete(ctx, one.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &one.UID, ResourceVersion: &one.ResourceVersion},
	})
	if err := reconcile.IgnoreGone(err); err != nil {
		return fmt.Errorf("deleting the blocked tickets in ConfigMap %s/%s: %w", r.system, one.Name, err)
	}
	return nil
}
