package release

import (
	"context"

	"github.com/fleet-hub/fleet/internal/deploy/placement"
	"github.com/fleet-hub/fleet/internal/deploy/release/objects"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// IsTaken reports whether objects of a release now belong to one of the other releases of its BundleDeployment. An
// operation under another name takes them over before it succeeds or fails.
func (r *Releaser) IsTaken(ctx context.Context, key placement.Release, others []placement.Release) (bool, error) {
	if len(others) == 0 {
		return false, nil
	}
	h, err := r.History(ctx, key)
	if err != nil {
		return false, err
	}
	return r.isTaken(h, others)
}

func (r *Releaser) isTaken(h *History, others []placement.Release) (bool, error) {
	if len(others) == 0 || h.Last() == nil {
		return false, nil
	}
	return objects.New(r.Agent, h.Key, r.Stopped).IsTaken(h.Last().Manifest, others)
}

// manifestsOf returns the manifests of other releases of the BundleDeployment with these annotations, without
// revisions that other writers stored.
func (r *Releaser) manifestsOf(ctx context.Context, others []placement.Release, marks map[string]string) ([]string, error) {
	var found []string
	for _, key := range others {
		h, err := r.History(ctx, key)
		if err != nil {
			return nil, err
		}
		for _, revision := range h.revisions {
			theirs := AnnotationsOf(revision)
			if !h.isForeign(revision) && theirs[fleet.AnnotationBundleID] == marks[fleet.AnnotationBundleID] &&
				theirs[fleet.AnnotationAgentNamespace] == marks[fleet.AnnotationAgentNamespace] {
				found = append(found, revision.Manifest)
			}
		}
	}
	return found, nil
}
