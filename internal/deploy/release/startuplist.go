package release

import (
	"context"
	"sync"
	"time"

	"github.com/fleet-hub/fleet/internal/deploy/placement"
)

// startupListLasts is how long the first list of releases is valid.
const startupListLasts = time.Minute

// startupList holds the newest revisions of all Helm releases from the first list after a start, so that a restarted agent
// does not have to read each release. It answers once per release, and not after this process may have written to the release.
type startupList struct {
	once   sync.Once
	listed chan struct{} // closed when newest is set; newest is empty if the list failed
	newest map[placement.Release]RevisionSecret
	at     time.Time

	claimed sync.Map // the keys are releases
}

func newStartupList() *startupList {
	return &startupList{listed: make(chan struct{})}
}

// set stores the first list and ignores later ones. The list must not be changed afterwards.
func (l *startupList) set(newest map[placement.Release]RevisionSecret, at time.Time) {
	l.once.Do(func() {
		l.newest, l.at = newest, at
		close(l.listed)
	})
}

// newestOf waits for the first list, which is a request with a timeout, and returns the newest revision of a
// release. valid is false once the entry was claimed or the list is a minute old.
func (l *startupList) newestOf(ctx context.Context, key placement.Release, now time.Time) (found RevisionSecret, valid bool) {
	select {
	case <-l.listed:
	case <-ctx.Done():
		return RevisionSecret{}, false
	}
	found, valid = l.newest[key]
	return found, l.claim(key) && valid && now.Sub(l.at) < startupListLasts
}

// claim invalidates the entry of a release and reports whether it was valid.
func (l *startupList) claim(key placement.Release) bool {
	_, claimed := l.claimed.LoadOrStore(key, true)
	return !claimed
}
