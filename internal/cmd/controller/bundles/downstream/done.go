package downstream

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// done is which copies a BundleDeployment is known to have. It can be lost.
type done struct {
	mu     sync.Mutex
	copies map[types.UID]map[original]made
	// compared are those of which the agent has been told in this process, or was found to know.
	compared map[types.UID]bool
	// doubted may have copies that they name no more.
	doubted map[types.UID]bool
	// owed have copies that changed, of which their agents have not been told.
	owed map[types.UID]bool
}

func newDone() *done {
	return &done{
		copies: map[types.UID]map[original]made{}, compared: map[types.UID]bool{},
		doubted: map[types.UID]bool{}, owed: map[types.UID]bool{},
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

// versions are those of a BundleDeployment's copies.
func (d *done) versions(bd types.UID) copies {
	d.mu.Lock()
	defer d.mu.Unlock()
	found := copies{}
	for o, copied := range d.copies[bd] {
		found[o.kind+"/"+o.key.Name] = copied
	}
	return found
}

// compare says whether it has not been asked before if the agent knows of the copies.
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
	delete(d.doubted, bd)
	delete(d.owed, bd)
}

// owe notes that an agent is to be told of another copy.
func (d *done) owe(bd types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.owed[bd] = true
}

// takeOwed says whether the agent is to be told. Where that fails, it is owed again.
func (d *done) takeOwed(bd types.UID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	was := d.owed[bd]
	delete(d.owed, bd)
	return was
}

// doubt has the copies of a BundleDeployment looked at that it does not name.
func (d *done) doubt(bd types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.doubted[bd] = true
}

// takeDoubt says whether there was a doubt, and ends it.
func (d *done) takeDoubt(bd types.UID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	was := d.doubted[bd]
	delete(d.doubted, bd)
	return was
}

// lost forgets the copies of one original.
func (d *done) lost(bd types.UID, o original) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.copies[bd], o)
}
