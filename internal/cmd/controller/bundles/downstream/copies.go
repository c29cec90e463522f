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

// done tracks which copies each BundleDeployment has. All of it can be recomputed.
type done struct {
	mu     sync.Mutex
	copies map[types.UID]map[original]made
	// compared are the BundleDeployments whose annotation was compared with their copies in this process.
	compared map[types.UID]bool
	// searches are the BundleDeployments that may have copies which they no longer name.
	searches map[types.UID]bool
	// changed are the BundleDeployments whose copies have changed and whose agents have to be notified.
	changed map[types.UID]bool
}

func newDone() *done {
	return &done{
		copies: map[types.UID]map[original]made{}, compared: map[types.UID]bool{},
		searches: map[types.UID]bool{}, changed: map[types.UID]bool{},
	}
}

func (d *done) has(bd types.UID, o original, version string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.copies[bd][o].of == version
}

func (d *done) note(bd types.UID, o original, copied made) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.copies[bd] == nil {
		d.copies[bd] = map[original]made{}
	}
	d.copies[bd][o] = copied
}

// versions returns the versions of a BundleDeployment's copies.
func (d *done) versions(bd types.UID) copies {
	d.mu.Lock()
	defer d.mu.Unlock()
	found := copies{}
	for o, copied := range d.copies[bd] {
		found[o.kind+"/"+o.key.Name] = copied
	}
	return found
}

// compare reports whether this is the first comparison for the BundleDeployment in this process.
func (d *done) compare(bd types.UID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	was := d.compared[bd]
	d.compared[bd] = true
	return !was
}

func (d *done) forget(bd types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.copies, bd)
	delete(d.compared, bd)
	delete(d.searches, bd)
	delete(d.changed, bd)
}

// setChanged records that an agent has to be notified of a changed copy.
func (d *done) setChanged(bd types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.changed[bd] = true
}

// takeChanged reports whether the agent has to be notified, and clears the mark. If the notification fails, the caller
// calls setChanged again.
func (d *done) takeChanged(bd types.UID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	was := d.changed[bd]
	delete(d.changed, bd)
	return was
}

// search schedules a search for copies that a BundleDeployment does not name.
func (d *done) search(bd types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.searches[bd] = true
}

// takeSearch reports whether a search is scheduled, and clears the mark.
func (d *done) takeSearch(bd types.UID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	was := d.searches[bd]
	delete(d.searches, bd)
	return was
}

// forgetCopy forgets the copy of one original.
func (d *done) forgetCopy(bd types.UID, o original) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.copies[bd], o)
}

// isStale reports whether a BundleDeployment's copy with this kind and name has another version than the one that was noted,
// and forgets it then. version is "" if there is no such object.
func (d *done) isStale(bd types.UID, kind, name, version string) (stale bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for o, copied := range d.copies[bd] {
		if o.kind == kind && o.key.Name == name && copied.version != version {
			delete(d.copies[bd], o)
			stale = true
		}
	}
	return stale
}

// made holds the resource versions of a copy and of its original at that time.
type made struct{ of, version string }

// copies are the copies of a BundleDeployment, by "<kind>/<name>".
type copies map[string]made

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
			known[name] = made{of, version}
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
