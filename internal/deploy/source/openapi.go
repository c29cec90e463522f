package source

import (
	"sync"
	"time"

	"sigs.k8s.io/kustomize/kyaml/openapi"
)

// schemas separates the builds with a custom schema from all others: kustomize keeps its schema in global variables, and also
// uses a custom one for later builds.
var schemas = newSchemaGuard() //nolint:gochecknoglobals // it guards global variables

// schemaGuard lets builds with the built-in schema run at the same time, and a build with a custom schema alone. Unlike with
// a sync.RWMutex, a waiting build does not stop others from starting: one endless build would stop all.
type schemaGuard struct {
	// downloads limits all downloads of a build with a custom schema together, because other builds wait for it.
	downloads time.Duration

	mu      sync.Mutex
	changed *sync.Cond
	// shared counts the builds with the built-in schema.
	shared int
	// alone is the time when the downloads of the build with a custom schema have to end; zero while no such build runs.
	alone time.Time
	// parsed means that the built-in schema is. Kustomize reads it without a lock, and parses it when it is first needed.
	parsed bool
}

func newSchemaGuard() *schemaGuard {
	g := &schemaGuard{downloads: time.Minute}
	g.changed = sync.NewCond(&g.mu)
	return g
}

// enter waits until a build may run, and returns the function to call when it has ended.
func (g *schemaGuard) enter(custom bool) (leave func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for !g.alone.IsZero() || custom && g.shared > 0 {
		g.changed.Wait()
	}
	if custom {
		openapi.ResetOpenAPI()
		g.parsed, g.alone = false, time.Now().Add(g.downloads) //nolint:forbidigo // the clock of connections
		return g.unlockExclusive
	}
	if !g.parsed {
		openapi.ResetOpenAPI()
		openapi.Schema()
		g.parsed = true
	}
	g.shared++
	return g.unlockShared
}

func (g *schemaGuard) unlockExclusive() {
	g.mu.Lock()
	defer g.mu.Unlock()
	openapi.ResetOpenAPI()
	g.alone = time.Time{}
	g.changed.Broadcast()
}

func (g *schemaGuard) unlockShared() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shared--
	g.changed.Broadcast()
}

// deadline returns when a download has to end that may otherwise last until the given time.
func (g *schemaGuard) deadline(latest time.Time) time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.alone.IsZero() && g.alone.Before(latest) {
		return g.alone
	}
	return latest
}
