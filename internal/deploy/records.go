package deploy

import (
	"slices"
	"sync"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// records holds what is known of each BundleDeployment, also of deleted ones that have left something.
type records struct {
	mu     sync.Mutex
	byName map[string]known
}

// known is what is known of one BundleDeployment.
type known struct {
	record *record // nil if it was deleted
	hash   string  // of the set that it uses; empty if it was deleted
	// restored means that the hub has an older version than before, because it was restored from a backup.
	restored bool
	// woken means that the next reconcile does not wait for the end of a pause.
	woken bool
	// leftCopies means that it may have left copies, because it was deleted, or created again.
	leftCopies bool
	// kept means that it was deleted and its objects stay, until they are removed or one of the name exists again.
	kept bool
}

func newRecords() *records { return &records{byName: map[string]known{}} }

// change changes what is known of a BundleDeployment, and returns the former state.
func (r *records) change(name string, change func(k *known)) known {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.byName[name]
	after := before
	if change(&after); after == (known{}) {
		delete(r.byName, name)
	} else {
		r.byName[name] = after
	}
	return before
}

// get returns what is known of a BundleDeployment.
func (r *records) get(name string) known {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byName[name]
}

// of returns the record of a BundleDeployment. It makes a new record if the BundleDeployment is new or was recreated.
func (r *records) of(bd *fleet.BundleDeployment, hash string) (found *record) {
	r.change(bd.Name, func(k *known) {
		if k.record == nil || k.record.uid != bd.UID {
			k.leftCopies = k.leftCopies || k.record != nil && k.record.copies.MayExist()
			k.record = &record{uid: bd.UID}
		}
		if k.restored {
			k.record.distrustHub()
		}
		k.hash, k.kept, k.restored = hash, false, false
		found = k.record
	})
	return found
}

// hubRestored records that the hub has an older version of a BundleDeployment than before.
func (r *records) hubRestored(name string) { r.change(name, func(k *known) { k.restored = true }) }

// wake records that the next reconcile of a BundleDeployment does not wait for the end of a pause.
func (r *records) wake(name string) { r.change(name, func(k *known) { k.woken = true }) }

// takeWoken returns whether wake was called since the last call.
func (r *records) takeWoken(name string) bool {
	return r.change(name, func(k *known) { k.woken = false }).woken
}

// deleted records whether the objects of a deleted BundleDeployment stay: because of its options, or of the next ones,
// which a paused BundleDeployment does not deploy.
func (r *records) deleted(bd *fleet.BundleDeployment) {
	keep := bd.Spec.Options.KeepResources || bd.Spec.StagedOptions.KeepResources
	r.change(bd.Name, func(k *known) { k.kept = k.kept || keep })
}

// removed forgets a deleted BundleDeployment after everything that it left was removed.
func (r *records) removed(name string) {
	r.change(name, func(k *known) { k.kept, k.restored = false, false })
}

// setLeftCopies records whether a BundleDeployment may have left copies.
func (r *records) setLeftCopies(name string, left bool) {
	r.change(name, func(k *known) { k.leftCopies = left })
}

// leftCopies returns the BundleDeployments that may have left copies.
func (r *records) leftCopies() []string { return r.those(func(k known) bool { return k.leftCopies }) }

// drop deletes the record of a BundleDeployment and returns it, or nil if there was none.
func (r *records) drop(name string) *record {
	return r.change(name, func(k *known) { k.record, k.hash = nil, "" }).record
}

// usersOf returns the BundleDeployments that use a set. An empty hash names no set.
func (r *records) usersOf(hash string) []string {
	return r.those(func(k known) bool { return hash != "" && k.hash == hash })
}

// those returns the sorted names of some BundleDeployments.
func (r *records) those(match func(known) bool) (names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, k := range r.byName {
		if match(k) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
