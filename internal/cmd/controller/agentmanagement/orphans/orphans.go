// Package orphans removes, once at the start, what has lost its owner while no controller was there to notice.
//
//	caches are full ─► whose owner is not in them ─► nor on the server ─► rights ─► Secrets, Bundles ─► namespaces
//
// Whoever loses its owner later is seen by the controller it belongs to.
package orphans

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
)

const (
	// timeout bounds the sweep: the controllers wait for it. What it has not reached is removed at the next start.
	timeout = time.Minute
	// atATime is how many requests are under way together.
	atATime = 16
)

// sweeper removes orphans, one stage of kinds after the other.
type sweeper struct {
	log    *slog.Logger
	stages [][]kind
	owners owners
}

// Register lets the sweep run when the caches are full and before any controller works.
func Register(_ context.Context, a *hub.Context) error {
	s := newSweeper(a)
	a.First(s.sweep)
	return nil
}

// newSweeper knows all kinds. Rights come first, so that no agent that is still at work takes what is removed after
// them for an order to uninstall; namespaces come last.
func newSweeper(a *hub.Context) *sweeper {
	return &sweeper{
		log: a.Log,
		stages: [][]kind{
			{
				clusterWide("clusterrolebindings", a.ClusterRoleBindings, ownersOfRight),
				namespaced("rolebindings", a.RoleBindings, ownersOfRight),
				namespaced("serviceaccounts", a.ServiceAccounts, ownersOfRight),
			},
			{
				namespaced("roles", a.Roles, ownersOfRight),
				namespaced("credentials", a.CredentialSecrets, ownersOfRight),
				namespaced("values", a.ValuesSecrets, ownersOfRight),
				namespaced("bundles", a.Bundles, ownersOfBundle),
			},
			{namespaced("bundledeployments", a.BundleDeployments, ownersOfDeployment)},
			{clusterWide("namespaces", a.AllNamespaces, ownersOfNamespace)},
		},
		owners: owners{
			clusterKind:      existence(a.Clusters),
			registrationKind: existence(a.ClusterRegistrations),
			tokenKind:        existence(a.ClusterRegistrationTokens),
			bundleKind:       existence(a.Bundles),
		},
	}
}

// sweep removes all orphans there are, and tells of them in one line. It ends early where something went wrong: what
// comes later must not go before it.
func (s *sweeper) sweep(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	census := newCensus(s.owners)
	total, counts := 0, []any{}
	var err error
	for i := 0; i < len(s.stages) && err == nil; i++ {
		for _, k := range s.stages[i] {
			var removed int
			if removed, err = sweepKind(ctx, k, census); removed > 0 {
				total, counts = total+removed, append(counts, k.name, removed)
			}
			if err != nil {
				break
			}
		}
	}
	counts = append([]any{"total", total}, counts...)
	switch {
	case err != nil:
		s.log.Warn("orphans swept in part, the rest stays for now", append(counts, "error", err)...)
	case total > 0:
		s.log.Info("orphans swept", counts...)
	default:
		s.log.Debug("no orphans")
	}
}

// sweepKind removes the orphans of one kind, exactly as they were seen, and counts those that went by its own hand.
// What cannot be judged stays, and is an error.
func sweepKind(ctx context.Context, k kind, c *census) (int, error) {
	candidates, err := k.list()
	if err != nil {
		return 0, fmt.Errorf("listing %s: %w", k.name, err)
	}
	var removed atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atATime)
	for _, one := range candidates {
		if !orphaned(one.owners, c.exists) {
			continue
		}
		group.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			err := k.remove(one.obj.GetNamespace(), one.obj.GetName(), asSeen(one.obj))
			if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
				return nil // gone by itself, or no longer what it was
			}
			if err != nil {
				return fmt.Errorf("removing one of the %s: %w", k.name, err)
			}
			removed.Add(1)
			return nil
		})
	}
	err = group.Wait()
	if err == nil {
		err = c.err
	}
	return int(removed.Load()), err
}

// asSeen deletes an object only if nobody has changed it since.
func asSeen(obj metav1.Object) *metav1.DeleteOptions {
	uid, version, background := obj.GetUID(), obj.GetResourceVersion(), metav1.DeletePropagationBackground
	return &metav1.DeleteOptions{
		Preconditions:     &metav1.Preconditions{UID: &uid, ResourceVersion: &version},
		PropagationPolicy: &background,
	}
}
