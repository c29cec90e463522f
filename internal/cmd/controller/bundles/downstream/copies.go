package downstream

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

// copyRecords tracks which copies each BundleDeployment has. All of it can be recomputed.
type copyRecords struct {
	mu     sync.Mutex
	copies map[types.UID]map[original]copyVersions
	// compared are the BundleDeployments whose annotation was compared with their copies in this process.
	compared map[types.UID]bool
	// searches are the BundleDeployments that may have copies which they no longer name.
	searches map[types.UID]bool
	// changed are the BundleDeployments whose copies have changed and whose agents have to be notified.
	changed map[types.UID]bool
}

func newCopyRecords() *copyRecords {
	return &copyRecords{
		copies: map[types.UID]map[original]copyVersions{}, compared: map[types.UID]bool{},
		searches: map[types.UID]bool{}, changed: map[types.UID]bool{},
	}
}

func (r *copyRecords) has(bd types.UID, o original, version string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.copies[bd][o].of == version
}

func (r *copyRecords) add(bd types.UID, o original, copied copyVersions) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.copies[bd] == nil {
		r.copies[bd] = map[original]copyVersions{}
	}
	r.copies[bd][o] = copied
}

// versions returns the versions of a BundleDeployment's copies.
func (r *copyRecords) versions(bd types.UID) copies {
	r.mu.Lock()
	defer r.mu.Unlock()
	found := copies{}
	for o, copied := range r.copies[bd] {
		found[o.kind+"/"+o.key.Name] = copied
	}
	return found
}

// compare reports whether this is the first comparison for the BundleDeployment in this process.
func (r *copyRecords) compare(bd types.UID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	was := r.compared[bd]
	r.compared[bd] = true
	return !was
}

func (r *copyRecords) forget(bd types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.copies, bd)
	delete(r.compared, bd)
	delete(r.searches, bd)
	delete(r.changed, bd)
}

// setChanged records that an agent has to be notified of a changed copy.
func (r *copyRecords) setChanged(bd types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changed[bd] = true
}

// takeChanged reports whether the agent has to be notified, and clears the mark. If the notification fails, the caller
// calls setChanged again.
func (r *copyRecords) takeChanged(bd types.UID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	was := r.changed[bd]
	delete(r.changed, bd)
	return was
}

// search schedules a search for copies that a BundleDeployment does not name.
func (r *copyRecords) search(bd types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.searches[bd] = true
}

// takeSearch reports whether a search is scheduled, and clears the mark.
func (r *copyRecords) takeSearch(bd types.UID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	was := r.searches[bd]
	delete(r.searches, bd)
	return was
}

// forgetCopy forgets the copy of one original.
func (r *copyRecords) forgetCopy(bd types.UID, o original) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.copies[bd], o)
}

// isStale reports whether a BundleDeployment's copy with this kind and name has another version than the one that was noted,
// and forgets it then. version is "" if there is no such object.
func (r *copyRecords) isStale(bd types.UID, kind, name, version string) (stale bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for o, copied := range r.copies[bd] {
		if o.kind == kind && o.key.Name == name && copied.version != version {
			delete(r.copies[bd], o)
			stale = true
		}
	}
	return stale
}

// copyVersions holds the resource versions of a copy and of its original at that time.
type copyVersions struct{ of, version string }

// copies are the copies of a BundleDeployment, by "<kind>/<name>".
type copies map[string]copyVersions

// String returns the value of annotation.CopiesTold.
func (c copies) String() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(c)) {
		parts = append(parts, name+"="+c[name].of+"/"+c[name].version)
	}
	return strings.Join(parts, " ")
}

// parseCopies parses annotation.CopiesTold. It ignores invalid parts.
func parseCopies(annotation string) copies {
	known := copies{}
	for part := range strings.FieldsSeq(annotation) {
		name, versions, _ := strings.Cut(part, "=")
		if of, version, ok := strings.Cut(versions, "/"); ok {
			known[name] = copyVersions{of, version}
		}
	}
	return known
}

// isUnreported reports whether a copy has changed without the agent being notified, because the process that wrote the copy
// ended before. If only the version of the original or of the copy has changed, the data is the same: only the
// original or the owners were written. Copies that Rancher Fleet has made are not recorded; they count as known.
func isUnreported(bd *fleet.BundleDeployment, there copies) bool {
	value, noted := bd.Annotations[annotation.CopiesTold]
	if bd.Spec.DownstreamResourcesGeneration > 0 && !noted {
		return false
	}
	known := parseCopies(value)
	for name, copied := range there {
		if known[name].of != copied.of && known[name].version != copied.version {
			return true
		}
	}
	return false
}
