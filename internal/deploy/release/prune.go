package release

import (
	"slices"

	"helm.sh/helm/v3/pkg/release"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fleet-hub/fleet/internal/deploy/manifest"
)

// makeRoom prepares the history for the next revision. It returns how many revisions Helm may keep then: the wanted
// number, and in any case the failed revisions after the last good one. Only they list the objects that failed upgrades
// have created.
func (h *History) makeRoom(wanted int) (int, error) {
	err := h.deleteRepeated()
	return max(wanted, 2+min(len(leftovers(h.revisions)), mostFailed)), err
}

// deleteRepeated deletes the failed revisions after the last good one whose objects are all in later ones as well. Every
// retry of a deployment stores such a revision. Objects with other fields are not the same, because the next upgrade
// removes the fields that a failed one has set. With too many revisions only the names count: rather such fields stay than
// objects.
func (h *History) deleteRepeated() error {
	if err := h.deleteRepeatedBy(manifest.Content); err != nil || len(leftovers(h.revisions)) <= mostFailed {
		return err
	}
	return h.deleteRepeatedBy(manifest.Name)
}

// deleteRepeatedBy is deleteRepeated for objects that are the same if identify returns the same for them.
func (h *History) deleteRepeatedBy(identify func(*unstructured.Unstructured) string) error {
	seen := map[string]bool{}
	left := leftovers(h.revisions)
	for _, r := range slices.Backward(h.revisions) {
		if r != h.Last() && !slices.Contains(left, r.Version) {
			continue
		}
		objects, err := manifest.Parse([]byte(r.Manifest))
		if err != nil {
			continue // not known what it has
		}
		repeated := r != h.Last() && r.Info.Status == release.StatusFailed
		for _, object := range objects {
			id := identify(object)
			repeated = repeated && seen[id]
			seen[id] = true
		}
		if repeated {
			if _, err := h.Delete(SecretName(r.Name, r.Version)); err != nil {
				return err
			}
		}
	}
	return nil
}

// deleteFailed deletes failed revisions, the oldest first, while the history has more revisions than wanted. The last
// revision is deployed, so the objects of the others are gone. After an error, the next upgrade deletes the rest.
func (h *History) deleteFailed(wanted int) {
	for _, r := range h.revisions {
		if len(h.revisions) <= wanted {
			return
		}
		if r.Info.Status == release.StatusFailed && r.Version < h.Last().Version {
			if _, err := h.Delete(SecretName(r.Name, r.Version)); err != nil {
				return
			}
		}
	}
}
