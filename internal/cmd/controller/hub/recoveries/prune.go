package recoveries

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"

	"github.com/fleet-hub/fleet/internal/identity"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/reconcile"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

const (
	// maxWorkspaces is the maximum number of ConfigMaps with blocked tickets, not counting those of workspaces that exist.
	maxWorkspaces = 1000
	// prunePage is the number of ConfigMaps that are read at a time. Each has up to 300 KiB.
	prunePage = 20
)

// record is what Prune needs of a ConfigMap with blocked tickets.
type record struct {
	meta      metav1.ObjectMeta
	workspace string // "" if it is unknown
	latest    string // the time of the last deletion, in RFC 3339
}

// Prune deletes the ConfigMaps whose tickets have all expired. If too many remain, it merges the oldest ones of workspaces
// that are gone: from then on, all tickets are invalid that are as old as they are, and whose workspace was created since.
func (r *Recoveries) Prune(ctx context.Context, exists func(workspace string) bool) error {
	found, err := r.records(ctx)
	if err != nil {
		return err
	}
	expired := r.clock().Add(-identity.TicketLife).UTC().Format(time.RFC3339)
	var failures []error
	kept := slices.DeleteFunc(found, func(one record) bool {
		if one.latest >= expired { // RFC 3339 in UTC sorts by time
			return false
		}
		failures = append(failures, r.drop(ctx, one))
		return true
	})
	gone := slices.DeleteFunc(slices.Clone(kept), func(one record) bool { return one.workspace == "" || exists(one.workspace) })
	if len(gone) > maxWorkspaces {
		failures = append(failures, r.merge(ctx, gone))
	}
	return errors.Join(failures...)
}

// merge merges the oldest of these ConfigMaps.
func (r *Recoveries) merge(ctx context.Context, gone []record) error {
	slices.SortFunc(gone, func(a, b record) int {
		return cmp.Or(cmp.Compare(a.latest, b.latest), cmp.Compare(a.meta.Name, b.meta.Name))
	})
	gone = gone[:len(gone)-maxWorkspaces*3/4]
	if err := r.write(ctx, names.DeletedClusters, "", func(entries map[string]string) map[string]string {
		return map[string]string{beforeKey: max(entries[beforeKey], gone[len(gone)-1].latest)}
	}); err != nil {
		return err
	}
	var failures []error
	for _, one := range gone {
		failures = append(failures, r.drop(ctx, one))
	}
	return errors.Join(failures...)
}

// records reads all ConfigMaps with blocked tickets.
func (r *Recoveries) records(ctx context.Context) (found []record, err error) {
	pages := pager.New(pager.SimplePageFunc(func(options metav1.ListOptions) (runtime.Object, error) {
		return r.kube().CoreV1().ConfigMaps(r.system).List(ctx, options)
	}))
	pages.PageSize = prunePage
	err = pages.EachListItem(ctx, metav1.ListOptions{LabelSelector: fleet.LabelManaged + "=true"}, func(object runtime.Object) error {
		if one, is := object.(*corev1.ConfigMap); is && strings.HasPrefix(one.Name, names.DeletedClusters) {
			latest := ""
			for _, at := range one.Data {
				latest = max(latest, at)
			}
			found = append(found, record{one.ObjectMeta, one.Annotations[fleet.AnnotationClusterNamespace], latest})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing the blocked tickets in namespace %s: %w", r.system, err)
	}
	return found, nil
}

// drop deletes a ConfigMap, unless it was written since it was read.
func (r *Recoveries) drop(ctx context.Context, one record) error {
	err := r.kube().CoreV1().ConfigMaps(r.system).Delete(ctx, one.meta.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &one.meta.UID, ResourceVersion: &one.meta.ResourceVersion},
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting the blocked tickets in ConfigMap %s/%s: %w", r.system, one.meta.Name, err)
	}
	return nil
}

// isMerged reports whether a ticket may be of a workspace that was deleted and whose ConfigMap was merged. A workspace
// that was created before the last of these deletions is another one.
func (r *Recoveries) isMerged(ctx context.Context, ticket identity.Ticket) (bool, error) {
	merged, err := r.entries(ctx, names.DeletedClusters)
	if err != nil || !isBlocked(merged, ticket) {
		return false, err
	}
	workspace, err := reconcile.Optional(r.kube().CoreV1().Namespaces().Get(ctx, ticket.Workspace, metav1.GetOptions{}))
	if err != nil {
		return false, fmt.Errorf("reading Namespace %s: %w", ticket.Workspace, err)
	}
	return workspace == nil || !isBlocked(merged, identity.Ticket{Time: workspace.CreationTimestamp.Time}), nil
}
