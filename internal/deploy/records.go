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

// record is the agent's state of one BundleDeployment between two reconciles. Only the worker that reconciles the
// BundleDeployment uses it.
type record struct {
	uid types.UID
	// status is the last computed status. The hub may not have it yet.
	status *fleet.BundleDeploymentStatus
	// written is the BundleDeployment that the hub returned for the last report.
	written *fleet.BundleDeployment
	// reported is the time of the last report.
	reported time.Time
	// tracking describes the objects of the release; nil until they are first checked.
	tracking *tracking
	// finished is true when nothing is left to do after the deployment of the release.
	finished bool
	// marks are the labels and annotations that the namespace had then. The hub changes them without a new deployment.
	marks namespaceMarks
	// again is true if the release has to be deployed again although its revision is in place.
	again bool
	// repair records the repair of objects that differ from the deployed state.
	repair repair
	// surplus is true if the downstream cluster may have copies that are no longer wanted.
	surplus bool
	// copies is true if Secrets or ConfigMaps were copied downstream.
	copies bool
	// copied maps each copy to the resource version at which it was written or last found correct.
	copied map[copied]string
	// restoring records the restoration of copies.
	restoring correction
	// failed is the time at which the wanted state was last tried and failed permanently; zero if another process saw
	// the failure.
	failed time.Time
	// correction records the correction of drift.
	correction correction
}

// namespaceMarks holds the labels and annotations that a deployment sets on its namespace.
type namespaceMarks struct{ labels, annotations map[string]string }

func (m namespaceMarks) same(other namespaceMarks) bool {
	return maps.Equal(m.labels, other.labels) && maps.Equal(m.annotations, other.annotations)
}

func (m namespaceMarks) none() bool { return m.same(namespaceMarks{}) }

// tracking describes a revision of a release and the last observed state of its objects.
type tracking struct {
	// release is the revision, in the format of status.release.
	release string
	set     set
	// refs are the objects of the revision, in the order of the manifest.
	refs []objectRef
	// extras are the objects that are not in this revision any longer and may still exist.
	extras []objectRef
	// resources maps the kinds in refs and extras to the resources that serve them.
	resources map[schema.GroupVersionKind]schema.GroupVersionResource
	// seen is the last observed state of the objects.
	seen map[objectRef]observation
	// rewrites counts how often each object was compared lately.
	rewrites map[objectRef]rewrites
	// first holds the answers of the API server to the deployment itself; nil once they were processed.
	first *installed
	// rules are the differences to ignore.
	rules drift.Rules
	// known is true while seen and extras are up to date.
	known bool
}

// sightings returns the objects with their last observed state. It leaves out objects that are missing and may be
// missing.
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

// watched returns the resources in which a change matters to this release.
func (t *tracking) watched() map[schema.GroupVersionResource]bool {
	used := map[schema.GroupVersionResource]bool{}
	for _, ref := range slices.Concat(t.refs, t.extras) {
		used[t.resources[ref.GroupVersionKind]] = true
	}
	return used
}

// records holds the record of each BundleDeployment, and which BundleDeployments use which set.
type records struct {
	mu     sync.Mutex
	byName map[string]*record
	// users are the BundleDeployments of each set, by its hash: one, or several if they are the agent's own.
	users map[string]map[string]bool
}

func newRecords() *records {
	return &records{byName: map[string]*record{}, users: map[string]map[string]bool{}}
}

// of returns the record of a BundleDeployment. It makes a new record if the BundleDeployment is new or was recreated.
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

// drop deletes the record of a BundleDeployment and returns it, or nil if there was none.
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

// usersOf returns the names of the BundleDeployments that use a set.
func (r *records) usersOf(hash string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.users[hash]))
}
