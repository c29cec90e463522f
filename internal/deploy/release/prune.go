package release

import (
	"slices"

	"helm.sh/helm/v3/pkg/release"

	"github.com/fleet-hub/fleet/internal/deploy/manifest"
)

// makeRoom prepares the history for the next revision. It returns how many revisions Helm may keep then: the wanted
// number, and in any case the failed revisions after the last good one. Only they list the objects that failed upgrades
// have created.
func (h *History) makeRoom(wanted int) (int, error) {
	err := h.deleteRepeated()
	return max(wanted, 2+min(len(leftovers(h.revisions)), mostFailed)), err
}

// deleteRepeated deletes the failed revisions after the last good one whose objects are all in later ones as well.
// Every retry of a deployment stores such a revision.
func (h *History) deleteRepeated() error {
	seen := map[manifest.Ref]bool{}
	left := leftovers(h.revisions)
	for _, r := range slices.Backward(h.revisions) {
		if r != h.Last() && !slices.Contains(left, r.Version) {
			continue
		}
		refs, err := refsIn(r.Manifest)
		if err != nil {
			continue // not known what it has
		}
		repeated := r != h.Last() && r.Info.Status == release.StatusFailed
		for _, ref := range refs {
			repeated = repeated && seen[ref]
			seen[ref] = true
		}
		if repeated {
			if _, err := h.Delete(SecretName(r.Name, r.Version)); err != nil {
				return err
			}
		}
	}
	return nil
}

// refsIn returns the objects of a manifest as it names them.
func refsIn(text string) ([]manifest.Ref, error) {
	objects, err := manifest.Parse([]byte(text))
	if err != nil {
		return nil, err
	}
	refs := make([]manifest.Ref, 0, len(objects))
	for _, object := range objects {
		refs = append(refs, manifest.Ref{GroupVersionKind: object.GroupVersionKind(), Namespace: object.GetNamespace(), Name: object.GetName()})
	}
	return refs, nil
}

// deleteFailed deletes failed revisions, the oldest first, while the history has more revisions than wanted. The last
// revision is deployed, so the objects of the others are gone. After an error, the next upgrade deletes the rest.
func (h *History) deleteFailed(wanted int) {
	for _, r := range h.revisions {
		if len(h.revisions) <= wanted {
			return
		}
		if r.Info.Status != release.StatusFailed || r.Version >= h.Last().Version {
			continue
		}
		if _, err := h.Delete(SecretName(r.Name, r.Version)); err != nil {
			return
		}
	}
}
