package release

import (
	"context"
	"sync"
	"time"

	"github.com/fleet-hub/fleet/internal/deploy/placement"
)

// beginningLasts is how long the first list of releases is valid.
const beginningLasts = time.Minute

// beginning holds the newest revisions of all Helm releases from the first list after a start, so that a restarted
// agent does not have to read each release. It answers once per release, and not after this process may have
// written to the release.
type beginning struct {
	once   sync.Once
	listed chan struct{} // closed when newest is set; newest is empty if the list failed
	newest map[placement.Release]RevisionSecret
	at     time.Time

	mu    sync.Mutex
	spent map[placement.Release]bool
}

func newBeginning() *beginning {
	return &beginning{listed: make(chan struct{}), spent: map[placement.Release]bool{}}
}

// know stores the first list and ignores later ones. The list must not be changed afterwards.
func (b *beginning) know(newest map[placement.Release]RevisionSecret, at time.Time) {
	b.once.Do(func() {
		b.newest, b.at = newest, at
		close(b.listed)
	})
}

// newestOf waits for the first list, which is a request with a timeout, and returns the newest revision of a
// release.
func (b *beginning) newestOf(ctx context.Context, key placement.Release, now time.Time) (found RevisionSecret, valid bool) {
	select {
	case <-b.listed:
	case <-ctx.Done():
		return RevisionSecret{}, false
	}
	found, valid = b.newest[key]
	return found, b.spend(key) && valid && now.Sub(b.at) < beginningLasts
}

// spend invalidates the entry of a release and reports whether it was valid.
func (b *beginning) spend(key placement.Release) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	counted := !b.spent[key]
	b.spent[key] = true
	return counted
}
