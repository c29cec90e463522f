package deploy

import (
	"cmp"
	"maps"
	"slices"
	"sync"
)

// inventory is which releases the agent has for which BundleDeployment: the ones it made, those named in a
// status, and those found in the cluster.
type inventory struct {
	mu       sync.Mutex
	releases map[string]map[releaseKey]bool
	// foreign are releases that were looked at and belong to somebody else, by the version looked at.
	foreign map[releaseKey]string
}

func newInventory() *inventory {
	return &inventory{releases: map[string]map[releaseKey]bool{}, foreign: map[releaseKey]string{}}
}

func (i *inventory) add(name string, key releaseKey) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.releases[name] == nil {
		i.releases[name] = map[releaseKey]bool{}
	}
	i.releases[name][key] = true
}

func (i *inventory) remove(name string, key releaseKey) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.releases[name], key)
	if len(i.releases[name]) == 0 {
		delete(i.releases, name)
	}
}

// of lists the releases of a BundleDeployment, in a stable order.
func (i *inventory) of(name string) []releaseKey {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.SortedFunc(maps.Keys(i.releases[name]), func(a, b releaseKey) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
}

// except lists the releases of a BundleDeployment but one.
func (i *inventory) except(name string, key releaseKey) []releaseKey {
	return slices.DeleteFunc(i.of(name), func(other releaseKey) bool { return other == key })
}

// names lists the BundleDeployments with releases.
func (i *inventory) names() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Sorted(maps.Keys(i.releases))
}

// owns tells whether a release is anybody's here.
func (i *inventory) owns(key releaseKey) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, releases := range i.releases {
		if releases[key] {
			return true
		}
	}
	return false
}

// setForeign remembers that a release is somebody else's at a version; isForeign recalls it.
func (i *inventory) setForeign(key releaseKey, version string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.foreign[key] = version
}

func (i *inventory) isForeign(key releaseKey, version string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	looked, known := i.foreign[key]
	return known && looked == version
}
