package deploy

import (
	"context"
	"sync"
	"time"
)

// beginningLasts is how long the releases count as they were found when the agent began.
const beginningLasts = time.Minute

// beginning are the newest revisions of Helm's releases as the first look at all of them found them: an agent that was
// restarted need not ask for each what one list has said of all. It is good for one answer about each release, and none
// once this process may have written to it.
type beginning struct {
	once   sync.Once
	listed chan struct{} // closed when what follows is known; nothing is, if the list could not be had
	newest map[releaseKey]revisionSecret
	at     time.Time

	mu    sync.Mutex
	spent map[releaseKey]bool
}

func newBeginning() *beginning {
	return &beginning{listed: make(chan struct{}), spent: map[releaseKey]bool{}}
}

// know takes what the first list said; later ones are nothing to it. Nobody changes newest any more.
func (b *beginning) know(newest map[releaseKey]revisionSecret, at time.Time) {
	b.once.Do(func() {
		b.newest, b.at = newest, at
		close(b.listed)
	})
}

// newestOf waits for the first list, which is a bounded request, and says what it had of a release, if that still counts.
func (b *beginning) newestOf(ctx context.Context, key releaseKey, now time.Time) (found revisionSecret, counts bool) {
	select {
	case <-b.listed:
	case <-ctx.Done():
		return revisionSecret{}, false
	}
	found, counts = b.newest[key]
	return found, b.spend(key) && counts && now.Sub(b.at) < beginningLasts
}

// spend has a release count no longer as it was, and reports whether it did until now.
func (b *beginning) spend(key releaseKey) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	counted := !b.spent[key]
	b.spent[key] = true
	return counted
}
