package inventory

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"github.com/fleet-hub/fleet/internal/deploy/placement"
)

// Inventory lists the releases of each BundleDeployment: those that this agent made, those named in a status, and
// those found in the cluster.
type Inventory struct {
	mu       sync.Mutex
	releases map[string]map[placement.Release]bool
	// named holds the revisions named in statuses. confined holds the releases whose objects must all be in the
	// release's namespace.
	named    map[placement.Release]int
	confined map[placement.Release]bool
	// foreign holds releases that belong to other owners, with the resource version at which they were checked.
	foreign map[placement.Release]string
}

// New returns an empty Inventory.
func New() *Inventory {
	return &Inventory{
		releases: map[string]map[placement.Release]bool{}, named: map[placement.Release]int{}, confined: map[placement.Release]bool{}, foreign: map[placement.Release]string{},
	}
}

// Name records the revision that a status names, and whether the option namespace confines the release. A revision counts as
// confined once it was said to be: the option may change before the next revision is made.
func (i *Inventory) Name(key placement.Release, revision int, confined bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.confined[key] = confined || i.confined[key] && i.named[key] == revision
	i.named[key] = revision
}

// Revision returns the recorded revision, 0 if the release is unknown.
func (i *Inventory) Revision(key placement.Release) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.named[key]
}

func (i *Inventory) Confinement(key placement.Release) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.confined[key] {
		return key.Namespace
	}
	return ""
}

func (i *Inventory) Add(name string, key placement.Release) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.releases[name] == nil {
		i.releases[name] = map[placement.Release]bool{}
	}
	i.releases[name][key] = true
}

func (i *Inventory) Remove(name string, key placement.Release) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.releases[name], key)
	delete(i.named, key)
	delete(i.confined, key)
	if len(i.releases[name]) == 0 {
		delete(i.releases, name)
	}
}

// Of returns the releases of a BundleDeployment in a stable order.
func (i *Inventory) Of(name string) []placement.Release {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.SortedFunc(maps.Keys(i.releases[name]), func(a, b placement.Release) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
}

// Except returns the releases of a BundleDeployment except one.
func (i *Inventory) Except(name string, key placement.Release) []placement.Release {
	return slices.DeleteFunc(i.Of(name), func(other placement.Release) bool { return other == key })
}

// Names returns the BundleDeployments that have releases.
func (i *Inventory) Names() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Sorted(maps.Keys(i.releases))
}

// Owns reports whether a release belongs to any BundleDeployment.
func (i *Inventory) Owns(key placement.Release) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, releases := range i.releases {
		if releases[key] {
			return true
		}
	}
	return false
}

// SetForeign records that a release belongs to another owner at a resource version.
func (i *Inventory) SetForeign(key placement.Release, version string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.foreign[key] = version
}

func (i *Inventory) IsForeign(key placement.Release, version string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	looked, known := i.foreign[key]
	return known && looked == version
}
