package recoveries

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/fleet-hub/fleet/internal/identity"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/reconcile"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

const (
	// maxBlocked is the maximum number of entries for one workspace. Each has about 70 bytes.
	maxBlocked = 4000
	// beforeKey is the key of the time up to which all tickets are blocked, because their entries were dropped or the
	// workspace was deleted.
	beforeKey = "before"
)

// Block makes the tickets of a deleted Cluster invalid: all that were signed for a Cluster of this name, with any key.
// A Cluster that is created again under the name gets newer tickets. latest is the time of the last ticket, or zero. It is
// later than now if the hub's clock was set back since.
func (r *Recoveries) Block(ctx context.Context, workspace, cluster string, latest time.Time) error {
	now := r.clock()
	if latest.Before(now) {
		latest = now
	}
	return r.block(ctx, workspace, entryOf(cluster), latest, now)
}

// BlockAll makes all tickets of a workspace invalid that is being deleted or gone. A workspace that is created again
// under the name may belong to another user, but its recovery token can be read with the key of the first one.
func (r *Recoveries) BlockAll(ctx context.Context, workspace string) error {
	now := r.clock()
	return r.block(ctx, workspace, beforeKey, now, now)
}

// block writes an entry with a time, which has whole seconds: many Clusters of one workspace cause few writes.
func (r *Recoveries) block(ctx context.Context, workspace, entry string, at, now time.Time) error {
	name := blockedName(workspace)
	r.blocking.Lock()
	defer r.blocking.Unlock()
	blocked := r.kube().CoreV1().ConfigMaps(r.system)
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		found, err := reconcile.Optional(blocked.Get(ctx, name, metav1.GetOptions{}))
		if err != nil {
			return err
		}
		if found == nil {
			_, err = blocked.Create(ctx, &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: r.system, Name: name, Labels: map[string]string{fleet.LabelManaged: "true"},
					Annotations: map[string]string{fleet.AnnotationClusterNamespace: workspace},
				},
				Data: withBlocked(nil, entry, at, now),
			}, metav1.CreateOptions{})
			return err
		}
		changed := found.DeepCopy()
		if changed.Data = withBlocked(found.Data, entry, at, now); maps.Equal(changed.Data, found.Data) {
			return nil
		}
		_, err = blocked.Update(ctx, changed, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("blocking the tickets of deleted Clusters in ConfigMap %s/%s: %w", r.system, name, err)
	}
	return nil
}

// IsBlocked reports whether the ticket's Cluster or workspace was deleted after the ticket was signed.
func (r *Recoveries) IsBlocked(ctx context.Context, ticket identity.Ticket) (bool, error) {
	name := blockedName(ticket.Workspace)
	found, err := reconcile.Optional(r.kube().CoreV1().ConfigMaps(r.system).Get(ctx, name, metav1.GetOptions{}))
	if err != nil {
		return false, fmt.Errorf("reading the blocked tickets from ConfigMap %s/%s: %w", r.system, name, err)
	}
	return found != nil && isBlocked(found.Data, ticket), nil
}

func blockedName(workspace string) string {
	return names.SafeConcat(names.DeletedClusters, workspace, names.KeyHash(workspace))
}

// entryOf returns the key of the entry of a Cluster: a hash of its name, so that all entries have the same size.
func entryOf(cluster string) string { return identity.Thumbprint(cluster) }

// isBlocked compares only times of the hub's clock, which may have been set back. An entry that cannot be read blocks.
func isBlocked(entries map[string]string, ticket identity.Ticket) bool {
	for _, key := range []string{beforeKey, entryOf(ticket.Cluster)} {
		text, exists := entries[key]
		if !exists {
			continue
		}
		if at, err := time.Parse(time.RFC3339, text); err != nil || !ticket.Time.After(at) {
			return true
		}
	}
	return false
}

// withBlocked returns the entries with one added or extended: an existing later time is kept. It drops entries whose tickets
// have expired. If there are still too many, it drops the oldest, and blocks all tickets that are as old as they are.
func withBlocked(entries map[string]string, entry string, until, now time.Time) map[string]string {
	kept := maps.Clone(entries)
	if kept == nil {
		kept = map[string]string{}
	}
	kept[entry] = max(kept[entry], until.UTC().Format(time.RFC3339))
	if before := kept[beforeKey]; entry == beforeKey { // it makes earlier ones needless
		maps.DeleteFunc(kept, func(key, at string) bool { return key != beforeKey && at <= before })
	}
	expired := now.Add(-identity.TicketLife).UTC().Format(time.RFC3339)
	maps.DeleteFunc(kept, func(_, at string) bool { return at < expired }) // RFC 3339 in UTC sorts by time
	if len(kept) <= maxBlocked {
		return kept
	}
	before := kept[beforeKey]
	delete(kept, beforeKey)
	oldest := slices.SortedFunc(maps.Keys(kept), func(a, b string) int { return cmp.Or(cmp.Compare(kept[a], kept[b]), cmp.Compare(a, b)) })
	for _, key := range oldest[:len(oldest)-maxBlocked*3/4] {
		before = max(before, kept[key])
		delete(kept, key)
	}
	kept[beforeKey] = before
	return kept
}
