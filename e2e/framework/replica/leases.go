package replica

import (
	"context"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// Holders returns the holder identities of the hub's leases, by lease name.
func Holders(ctx context.Context, hub kubernetes.Interface) (map[string]string, error) {
	list, err := hub.CoordinationV1().Leases(names.SystemNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	holders := map[string]string{}
	for _, lease := range list.Items {
		if lease.Spec.HolderIdentity != nil {
			holders[lease.Name] = *lease.Spec.HolderIdentity
		}
	}
	return holders, nil
}

// Is reports whether an identity is this replica's.
func (r *Replica) Is(identity string) bool { return strings.HasPrefix(identity, r.Name+"_") }

// Bury releases the leases of a dead replica, so that others need not wait until they expire.
func (r *Replica) Bury(ctx context.Context, hub kubernetes.Interface) error {
	holders, err := Holders(ctx, hub)
	if err != nil {
		return err
	}
	leases := hub.CoordinationV1().Leases(names.SystemNamespace)
	for lease, holder := range holders {
		if !r.Is(holder) {
			continue
		}
		if _, err := leases.Patch(ctx, lease, types.MergePatchType, []byte(`{"spec":{"holderIdentity":""}}`), metav1.PatchOptions{}); err != nil {
			return err
		}
	}
	return nil
}
