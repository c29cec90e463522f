// Package orphans removes, at startup, the objects that lost their owner while no controller was running.
//
//	caches filled ─► owner not in the cache ─► nor on the server ─► delete rights ─► Secrets, Bundles ─► BundleDeployments
//
// If an owner is deleted later, the controller of the object handles that. The namespace of a Cluster that is gone is not
// deleted here: it shows package cluster that the tickets of the Cluster have to be blocked first.
package orphans

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
)

const (
	// timeout limits the sweep, because the controllers wait for it. The remaining orphans are removed by the next one.
	timeout = time.Minute
	// retryMin and retryMax limit the growing pauses before a sweep that failed is repeated.
	retryMin = time.Minute
	retryMax = time.Hour
	// atATime is the number of parallel requests.
	atATime = 16
)

// sweeper removes orphans, one stage of kinds after another.
type sweeper struct {
	log    *slog.Logger
	stages [][]kind
	owners owners
}

// Register runs the sweep after the caches are filled and before any controller starts. If it fails, it is repeated while
// the controllers work.
func Register(_ context.Context, a *hub.App) error {
	s := newSweeper(a)
	a.BeforeControllers(s.start)
	return nil
}

// newSweeper returns a sweeper for all kinds. Rights are removed first: an agent that is still running would take
// later deletions for an order to uninstall.
func newSweeper(a *hub.App) *sweeper {
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
		},
		owners: owners{
			clusterKind:      existence(a.Clusters),
			registrationKind: existence(a.ClusterRegistrations),
			tokenKind:        existence(a.ClusterRegistrationTokens),
			bundleKind:       existence(a.Bundles),
		},
	}
}

// start sweeps once, and repeats a sweep that failed in the background until one succeeds or ctx ends.
func (s *sweeper) start(ctx context.Context) {
	if s.sweep(ctx) {
		return
	}
	pauses := wait.Backoff{Duration: retryMin, Factor: 2, Steps: math.MaxInt32, Cap: retryMax}
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(pauses.Step()):
			}
			if s.sweep(ctx) {
				return
			}
		}
	}()
}

// sweep removes all orphans and logs their number in one line. It stops at the first error, because later stages must
// not run before earlier ones are complete, and reports whether there was none.
func (s *sweeper) sweep(ctx context.Context) bool {
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
		s.log.Warn("orphans swept in part, the rest will be retried", append(counts, "error", err)...)
	case total > 0:
		s.log.Info("orphans swept", counts...)
	default:
		s.log.Debug("no orphans")
	}
	return err == nil
}

// sweepKind removes the orphans of one kind, if they are unchanged, and returns how many it removed. Objects whose
// owner cannot be looked up stay, and cause an error.
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
				return nil // deleted or changed by another client
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

// asSeen returns options that delete an object only if it has not changed.
func asSeen(obj metav1.Object) *metav1.DeleteOptions {
	uid, version, background := obj.GetUID(), obj.GetResourceVersion(), metav1.DeletePropagationBackground
	return &metav1.DeleteOptions{
		Preconditions:     &metav1.Preconditions{UID: &uid, ResourceVersion: &version},
		PropagationPolicy: &background,
	}
}
