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
	// named are the revisions that statuses name, confined those releases that no object may be outside the namespace of.
	named    map[releaseKey]int
	confined map[releaseKey]bool
	// foreign are releases that were looked at and belong to somebody else, by the version looked at.
	foreign map[releaseKey]string
}

func newInventory() *inventory {
	return &inventory{
		releases: map[string]map[releaseKey]bool{}, named: map[releaseKey]int{}, confined: map[releaseKey]bool{}, foreign: map[releaseKey]string{},
	}
}

// name notes the revision of a release that a status names, and whether "namespace" confines it.
func (i *inventory) name(key releaseKey, revision int, confined bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.named[key], i.confined[key] = revision, i.confined[key] || confined
}

// revision is the one that was noted, 0 for none; confinement is the namespace that the release is confined to, if any.
func (i *inventory) revision(key releaseKey) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.named[key]
}

func (i *inventory) confinement(key releaseKey) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.confined[key] {
		return key.Namespace
	}
	return ""
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
	delete(i.named, key)
	delete(i.confined, key)
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
