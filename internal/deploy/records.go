package deploy

import (
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/rules/drift"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// record is what the agent remembers of a BundleDeployment from one look to the next. It belongs to whoever
// works on the BundleDeployment.
type record struct {
	uid types.UID
	// status is what was last found out, which the hub may not know yet.
	status *fleet.BundleDeploymentStatus
	// written is the hub's answer to the last report.
	written *fleet.BundleDeployment
	// reported is when that was.
	reported time.Time
	// tracking is what is known of the objects of the release, nil if it was not looked at yet.
	tracking *tracking
	// finished is true when nothing is left to do after the release was made.
	finished bool
	// marks are those the namespace was given then: the hub changes them without a new deployment.
	marks namespaceMarks
	// again is true if the release is to be made again though it is in place.
	again bool
	// repair is what was done about objects that are not as deployed.
	repair repair
	// surplus is true if copies may be downstream that are no longer wanted.
	surplus bool
	// copies is true if Secrets or ConfigMaps were copied downstream.
	copies bool
	// copied are the resource versions of the copies as they were left or last found right.
	copied map[copied]string
	// restoring is what came of putting copies back.
	restoring correction
	// failed is when the wanted state was last tried and failed for good; zero if this process did not see it.
	failed time.Time
	// correction is what came of correcting drift.
	correction correction
}

// namespaceMarks are the labels and annotations that a deployment gives to its namespace.
type namespaceMarks struct{ labels, annotations map[string]string }

func (m namespaceMarks) same(other namespaceMarks) bool {
	return maps.Equal(m.labels, other.labels) && maps.Equal(m.annotations, other.annotations)
}

func (m namespaceMarks) none() bool { return m.same(namespaceMarks{}) }

// tracking is a revision of a release and its objects.
type tracking struct {
	// release is the revision, as in status.release.
	release string
	set     set
	// refs are the objects, in the order of the manifest.
	refs []objectRef
	// extras are objects that left the release with this revision and may still be there.
	extras []objectRef
	// resources are what the kinds in refs and extras are served as.
	resources map[schema.GroupVersionKind]schema.GroupVersionResource
	// seen is what was last seen of them.
	seen map[objectRef]observation
	// rewrites is how often they were compared lately.
	rewrites map[objectRef]rewrites
	// first is what the API server answered to the deployment itself; nil once that was looked at.
	first *installed
	// rules say what is disregarded.
	rules drift.Rules
	// known is true while seen and extras are up to date.
	known bool
}

// sightings are the objects and what was seen of them, but for those that may be missing and are.
func (t *tracking) sightings() []sighting {
	found := make([]sighting, 0, len(t.refs))
	for _, ref := range t.refs {
		seen := t.seen[ref]
		if seen.inPlace() || !t.rules.AllowMissing(ref.GroupVersionKind, ref.Namespace, ref.Name) {
			found = append(found, sighting{objectRef: ref, observation: seen})
		}
	}
	return found
}

// watched are the resources in which a change would matter.
func (t *tracking) watched() map[schema.GroupVersionResource]bool {
	used := map[schema.GroupVersionResource]bool{}
	for _, ref := range slices.Concat(t.refs, t.extras) {
		used[t.resources[ref.GroupVersionKind]] = true
	}
	return used
}

// records are all of them, and who belongs to which set.
type records struct {
	mu     sync.Mutex
	byName map[string]*record
	// users of a set, by its hash: one BundleDeployment, or several of the agent's own.
	users map[string]map[string]bool
}

func newRecords() *records {
	return &records{byName: map[string]*record{}, users: map[string]map[string]bool{}}
}

// of returns the record of a BundleDeployment, a new one if it is new or was made anew.
func (r *records) of(bd *fleet.BundleDeployment, hash string) *record {
	r.mu.Lock()
	defer r.mu.Unlock()
	found := r.byName[bd.Name]
	if found == nil || found.uid != bd.UID {
		found = &record{uid: bd.UID}
		r.byName[bd.Name] = found
	}
	if r.users[hash] == nil {
		r.users[hash] = map[string]bool{}
	}
	r.users[hash][bd.Name] = true
	return found
}

// drop forgets a BundleDeployment and returns what was known of it, nil if nothing.
func (r *records) drop(name, hash string) *record {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.byName[name]
	delete(r.byName, name)
	delete(r.users[hash], name)
	if len(r.users[hash]) == 0 {
		delete(r.users, hash)
	}
	return known
}

// usersOf names the BundleDeployments of a set.
func (r *records) usersOf(hash string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.users[hash]))
}
