package check

import (
	"context"
	"errors"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/fleet-hub/fleet/internal/cmd/cli/access"
	"github.com/fleet-hub/fleet/internal/cmd/cli/remedy"
	"github.com/fleet-hub/fleet/internal/kube/foreign"
)

// workers is the number of sources that are read at once.
const workers = 6

// Right is a right that a reader needs.
type Right struct {
	Verb, Group, Resource string
	// Namespace is empty for all namespaces.
	Namespace string
}

// String returns the right in words, such as "list secrets in namespace a".
func (r Right) String() string {
	if r.Namespace == "" {
		return r.Verb + " " + r.resource()
	}
	return fmt.Sprintf("%s %s in namespace %s", r.Verb, r.resource(), r.Namespace)
}

func (r Right) resource() string {
	if r.Group == "" {
		return r.Resource
	}
	return r.Resource + "." + r.Group
}

// verify returns the command that shows whether the user has the right.
func (r Right) verify() string {
	words := []string{"kubectl", "auth", "can-i", r.Verb, r.resource()}
	if r.Namespace == "" {
		return remedy.Command(append(words, "-A")...)
	}
	return remedy.Command(append(words, "-n", r.Namespace)...)
}

// Reader reads the facts of a source.
type Reader struct {
	Source Source
	// Right is what Read needs.
	Right Right
	// After are sources that must be read before. If one of them is missing, this one is missing for the same reason.
	After []Source
	// Read reads the facts. It may store them only where no other reader does.
	Read func(ctx context.Context) error
}

// NewReader returns a reader that needs a right and no other source.
func NewReader(source Source, verb, group, resource, namespace string, read func(context.Context) error) Reader {
	return Reader{Source: source, Right: Right{Verb: verb, Group: group, Resource: resource, Namespace: namespace}, Read: read}
}

// Reason is why facts could not be read, and how to change that.
type Reason struct{ Cause, Fix string }

// Missing are the sources that could not be read.
type Missing map[Source]Reason

// Gather reads all sources, some at once, until ctx ends. It returns those that could not be read. A source may be read after
// sources that come before it in the list.
func Gather(ctx context.Context, readers []Reader) Missing {
	g := &gathering{missing: Missing{}, read: map[Source]chan struct{}{}, free: make(chan struct{}, workers)}
	for _, reader := range readers {
		g.read[reader.Source] = make(chan struct{})
	}
	for _, reader := range readers {
		g.running.Go(func() { g.run(ctx, reader) })
	}
	g.running.Wait()
	return g.missing
}

// gathering is one run of Gather.
type gathering struct {
	running sync.WaitGroup
	// free has room for the readers that may run at once.
	free chan struct{}
	// read is closed for each source that was read, or is missing.
	read map[Source]chan struct{}

	mu      sync.Mutex
	missing Missing
}

func (g *gathering) run(ctx context.Context, reader Reader) {
	defer close(g.read[reader.Source])
	for _, source := range reader.After {
		<-g.read[source]
		if why, found := g.why(source); found {
			g.miss(reader.Source, why)
			return
		}
	}
	g.free <- struct{}{}
	defer func() { <-g.free }()
	if err := reader.Read(ctx); err != nil {
		g.miss(reader.Source, reader.explain(ctx, err))
	}
}

func (g *gathering) why(source Source) (Reason, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	why, found := g.missing[source]
	return why, found
}

func (g *gathering) miss(source Source, why Reason) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.missing[source] = why
}

// explain returns why a source could not be read.
func (r Reader) explain(ctx context.Context, err error) Reason {
	switch {
	case ctx.Err() != nil:
		return Reason{fmt.Sprintf("there was no time to %s", r.Right), "run the command again with a longer --timeout"}
	case apierrors.IsForbidden(err):
		return Reason{fmt.Sprintf("you do not have the right to %s", r.Right), r.Right.verify()}
	case access.IsMissingKind(err):
		return Reason{fmt.Sprintf("the API server does not have the resource %s", r.Right.resource()), ""}
	case errors.Is(err, context.DeadlineExceeded):
		return Reason{fmt.Sprintf("the API server did not answer in time to the request to %s", r.Right), "run the command again"}
	}
	return Reason{fmt.Sprintf("the request to %s failed: %s", r.Right, foreign.Excerpt(err.Error(), maxCause/2)), "run the command again"}
}
