package deploy

import (
	"maps"
	"slices"
	"sync"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// records holds the record of each BundleDeployment, and which BundleDeployments use which set.
type records struct {
	mu     sync.Mutex
	byName map[string]*record
	// users are the BundleDeployments of each set, by its hash: one, or several if they are the agent's own.
	users map[string]map[string]bool
	// restored are the BundleDeployments with an older version than before, because the hub was restored from a backup.
	restored map[string]bool
	// woken are the BundleDeployments whose next reconcile does not wait for the end of a pause.
	woken map[string]bool
	// copied are BundleDeployments that may have left copies: those that were deleted, or created again.
	copied map[string]bool
	// kept are deleted BundleDeployments whose objects stay, until they are removed or one of the name exists again.
	kept map[string]bool
}

func newRecords() *records {
	return &records{
		byName: map[string]*record{}, users: map[string]map[string]bool{}, restored: map[string]bool{}, copied: map[string]bool{}, kept: map[string]bool{}, woken: map[string]bool{},
	}
}

// of returns the record of a BundleDeployment. It makes a new record if the BundleDeployment is new or was recreated.
func (r *records) of(bd *fleet.BundleDeployment, hash string) *record {
	r.mu.Lock()
	defer r.mu.Unlock()
	found := r.byName[bd.Name]
	if found == nil || found.uid != bd.UID {
		if found != nil && found.copies.MayExist() {
			r.copied[bd.Name] = true
		}
		found = &record{uid: bd.UID}
		r.byName[bd.Name] = found
	}
	delete(r.kept, bd.Name)
	if r.restored[bd.Name] {
		delete(r.restored, bd.Name)
		found.distrustHub()
	}
	if r.users[hash] == nil {
		r.users[hash] = map[string]bool{}
	}
	r.users[hash][bd.Name] = true
	return found
}

// hubRestored records that the hub has an older version of a BundleDeployment than before.
func (r *records) hubRestored(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.restored[name] = true
}

// wake records that the next reconcile of a BundleDeployment does not wait for the end of a pause.
func (r *records) wake(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.woken[name] = true
}

// takeWoken returns whether wake was called since the last call.
func (r *records) takeWoken(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	woken := r.woken[name]
	delete(r.woken, name)
	return woken
}

// deleted records whether the objects of a deleted BundleDeployment stay: because of its options, or of the next ones,
// which a paused BundleDeployment does not deploy.
func (r *records) deleted(bd *fleet.BundleDeployment) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if bd.Spec.Options.KeepResources || bd.Spec.StagedOptions.KeepResources {
		r.kept[bd.Name] = true
	}
}

// keeps reports whether the objects of a deleted BundleDeployment stay.
func (r *records) keeps(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.kept[name]
}

// removed forgets a deleted BundleDeployment after everything that it left was removed.
func (r *records) removed(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.kept, name)
	delete(r.restored, name)
}

// setLeftCopies records whether a BundleDeployment may have left copies.
func (r *records) setLeftCopies(name string, left bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if delete(r.copied, name); left {
		r.copied[name] = true
	}
}

// hasLeftCopies reports whether a BundleDeployment may have left copies.
func (r *records) hasLeftCopies(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.copied[name]
}

// leftCopies returns the BundleDeployments that may have left copies.
func (r *records) leftCopies() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.copied))
}

// drop deletes the record of a BundleDeployment and returns it, or nil if there was none.
func (r *records) drop(name, hash string) *record {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.byName[name]
	delete(r.byName, name)
	if delete(r.users[hash], name); len(r.users[hash]) == 0 {
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
