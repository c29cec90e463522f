package deploy

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/fleet-hub/fleet/internal/deploy/placement"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// locate finds the revision named in a status in Helm's history, and reports whether it exists and is the last
// one. It reads the history once. After that it trusts the result as long as all objects exist.
func (d *deployer) locate(ctx context.Context, bd *fleet.BundleDeployment, r *record, named string) (bool, error) {
	key, number, ok := placement.ParseRelease(named)
	if !ok {
		r.untrack()
		return false, nil
	}
	tracked := r.tracking != nil && r.tracking.Release == named
	if tracked && !r.tracking.AnyMissing() {
		return true, nil
	}
	secret, err := d.reader.Get(ctx, key, number)
	switch {
	case apierrors.IsNotFound(err):
		r.untrack()
		return false, nil
	case err != nil:
		return false, fmt.Errorf("reading release %s: %w", named, err)
	case tracked:
		return true, nil
	}
	if last, err := d.reader.IsLast(ctx, key, number); !last || err != nil {
		return false, err // an operation failed or was interrupted: its result has to be repaired
	}
	made, err := d.reader.Recall(ctx, key, number, secret)
	if err != nil || made == nil {
		return false, err
	}
	return true, d.track(ctx, bd, r, named, made)
}
