package check

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/fleet-hub/fleet/internal/cmd/cli/access"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
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
type Reason struct {
	Cause, Fix string
	// Code is the exit code for the skipped checks. It is Done if the user lacks a right or the API server lacks the resource.
	Code exit.Code
}

// Missing are the sources that could not be read.
type Missing map[Source]Reason

// Gather reads all sources until ctx ends: first those that need no other, some at once, then the others in their order. It returns
// those that could not be read.
func Gather(ctx context.Context, readers []Reader) Missing {
	var mu sync.Mutex
	missing := Missing{}
	read := func(reader Reader) {
		if err := reader.Read(ctx); err != nil {
			mu.Lock()
			defer mu.Unlock()
			missing[reader.Source] = reader.explain(ctx, err)
		}
	}
	var group errgroup.Group
	group.SetLimit(workers)
	for _, reader := range readers {
		if len(reader.After) == 0 {
			group.Go(func() error {
				read(reader)
				return nil
			})
		}
	}
	_ = group.Wait() // missing has the errors
	for _, reader := range readers {
		absent := slices.IndexFunc(reader.After, func(s Source) bool { _, found := missing[s]; return found })
		switch {
		case len(reader.After) == 0: // read before
		case absent >= 0:
			missing[reader.Source] = missing[reader.After[absent]]
		default:
			read(reader)
		}
	}
	return missing
}

// explain returns why a source could not be read.
func (r Reader) explain(ctx context.Context, err error) Reason {
	switch {
	case errors.Is(ctx.Err(), context.Canceled): // the user interrupted the command
		return Reason{fmt.Sprintf("interrupted: the request to %s was not answered", r.Right), "run the command again", exit.Failed}
	case ctx.Err() != nil:
		return Reason{fmt.Sprintf("there was no time to %s", r.Right), "run the command again with a longer --timeout", exit.Timeout}
	case apierrors.IsForbidden(err):
		return Reason{fmt.Sprintf("you do not have the right to %s", r.Right), r.Right.verify(), exit.Done}
	case access.IsMissingKind(err):
		return Reason{fmt.Sprintf("the API server does not have the resource %s", r.Right.resource()), "", exit.Done}
	case errors.Is(err, context.DeadlineExceeded):
		return Reason{fmt.Sprintf("the API server did not answer in time to the request to %s", r.Right), "run the command again", exit.Timeout}
	}
	return Reason{fmt.Sprintf("the request to %s failed: %s", r.Right, foreign.Excerpt(err.Error(), maxCause/2)), "run the command again", exit.Failed}
}
