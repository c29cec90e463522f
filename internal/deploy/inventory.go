package deploy

import (
	"cmp"
	"maps"
	"slices"
	"sync"
)

// inventory lists the releases of each BundleDeployment: those that this agent made, those named in a status, and
// those found in the cluster.
type inventory struct {
	mu       sync.Mutex
	releases map[string]map[releaseKey]bool
	// named holds the revisions named in statuses. confined holds the releases whose objects must all be in the
	// release's namespace.
	named    map[releaseKey]int
	confined map[releaseKey]bool
	// foreign holds releases that belong to other owners, with the resource version at which they were checked.
	foreign map[releaseKey]string
}

func newInventory() *inventory {
	return &inventory{
		releases: map[string]map[releaseKey]bool{}, named: map[releaseKey]int{}, confined: map[releaseKey]bool{}, foreign: map[releaseKey]string{},
	}
}

// name records the revision that a status names, and whether the option namespace confines the release.
func (i *inventory) name(key releaseKey, revision int, confined bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.named[key], i.confined[key] = revision, i.confined[key] || confined
}

// revision returns the recorded revision, 0 if the release is unknown.
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

// of returns the releases of a BundleDeployment in a stable order.
func (i *inventory) of(name string) []releaseKey {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.SortedFunc(maps.Keys(i.releases[name]), func(a, b releaseKey) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
}

// except returns the releases of a BundleDeployment except one.
func (i *inventory) except(name string, key releaseKey) []releaseKey {
	return slices.DeleteFunc(i.of(name), func(other releaseKey) bool { return other == key })
}

// names returns the BundleDeployments that have releases.
func (i *inventory) names() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Sorted(maps.Keys(i.releases))
}

// owns reports whether a release belongs to any BundleDeployment.
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

// setForeign records that a release belongs to another owner at a resource version.
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
