package observer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"

	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/internal/rules/requests"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// ErrRefused means that the hub has refused a ClusterRegistration. Its agent would wait for half an hour.
var ErrRefused = errors.New("the hub refuses a registration")

// maxMessage is the maximum length of a condition's message in an error.
const maxMessage = 500

// Observer records when each client registers, when its first heartbeat is accepted, and which registrations are refused.
type Observer struct {
	clock  func() time.Time
	hub    *client.Client
	cancel context.CancelFunc
	ended  sync.WaitGroup

	mu         sync.Mutex // guards the fields below
	registered map[string]time.Time
	beaten     map[string]time.Time
	refused    map[string]bool // by the name of the ClusterRegistration
	refusal    error           // the last one
	changed    chan struct{}   // closed and replaced at every event
}

// seen is the decoded part of a ClusterRegistration or Cluster.
type seen struct {
	Type   string
	Object struct {
		Metadata struct{ Namespace, Name string }
		Spec     struct{ ClientID string }
		Status   struct {
			Granted    bool
			Conditions []genericcondition.GenericCondition
			Agent      struct{ LastSeen string }
		}
	}
}

// refusal returns why a ClusterRegistration is refused, or nil if it is granted or waits for something.
func (s *seen) refusal() error {
	request := &fleet.ClusterRegistration{}
	request.Status.Granted, request.Status.Conditions = s.Object.Status.Granted, s.Object.Status.Conditions
	if request.Status.Granted || requests.InProgress(request) {
		return nil
	}
	said := conditions.Get(request.Status.Conditions, conditions.Granted)
	return fmt.Errorf("%w: ClusterRegistration %s/%s, %s: %.*q", ErrRefused, s.Object.Metadata.Namespace, s.Object.Metadata.Name, said.Reason, maxMessage, said.Message)
}

// Start watches a hub until the observer is stopped.
func Start(hub *client.Client, clock func() time.Time) *Observer {
	ctx, cancel := context.WithCancel(context.Background())
	o := &Observer{
		clock: clock, hub: hub, cancel: cancel,
		registered: map[string]time.Time{}, beaten: map[string]time.Time{}, refused: map[string]bool{}, changed: make(chan struct{}),
	}
	o.ended.Go(func() { o.follow(ctx, client.ClusterRegistrations) })
	o.ended.Go(func() { o.follow(ctx, client.Clusters) })
	return o
}

// Stop ends the watches.
func (o *Observer) Stop() {
	o.cancel()
	o.ended.Wait()
}

// follow watches one resource, and reopens the watch when it ends. Objects that are seen again keep their first
// time.
func (o *Observer) follow(ctx context.Context, resource string) {
	for ctx.Err() == nil {
		_ = o.watch(ctx, resource) // an unavailable hub is part of some scenarios
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
}

func (o *Observer) watch(ctx context.Context, resource string) (err error) {
	stream, err := o.hub.Fleet.Get().Resource(resource).Param("watch", "true").Stream(ctx)
	if err != nil {
		return fmt.Errorf("watching %s: %w", resource, err)
	}
	defer func() { err = errors.Join(err, stream.Close()) }()
	events := json.NewDecoder(stream)
	for {
		var event seen
		if err := events.Decode(&event); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return fmt.Errorf("watching %s: %w", resource, err)
		}
		o.see(resource, event)
	}
}

func (o *Observer) see(resource string, event seen) {
	o.mu.Lock()
	defer o.mu.Unlock()
	into := o.registered
	if resource == client.ClusterRegistrations {
		o.seeRefusal(event)
	}
	if resource == client.Clusters {
		into = o.beaten
		if event.Object.Status.Agent.LastSeen == "" {
			return
		}
	}
	id := event.Object.Spec.ClientID
	if _, known := into[id]; known || id == "" || event.Type == "DELETED" {
		return
	}
	into[id] = o.clock()
	o.announce()
}

func (o *Observer) announce() {
	close(o.changed)
	o.changed = make(chan struct{})
}

// seeRefusal records a ClusterRegistration that is refused, once.
func (o *Observer) seeRefusal(event seen) {
	name := event.Object.Metadata.Namespace + "/" + event.Object.Metadata.Name
	if o.refused[name] || event.Type == "DELETED" {
		return
	}
	if err := event.refusal(); err != nil {
		o.refused[name], o.refusal = true, err
		o.announce()
	}
}

// UnlessRefused returns a context that ends with ErrRefused as its cause as soon as the hub refuses another registration.
func (o *Observer) UnlessRefused(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	before, changed, _ := o.refusals()
	go func() {
		for {
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
			var count int
			var err error
			if count, changed, err = o.refusals(); count > before {
				cancel(err)
			}
		}
	}()
	return ctx, func() { cancel(nil) }
}

// refusals returns the number of refusals, a channel that is closed at the next event, and the last refusal.
func (o *Observer) refusals() (count int, changed <-chan struct{}, last error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.refused), o.changed, o.refusal
}

// Took waits for a client's ClusterRegistration and first accepted heartbeat, and returns the time between them.
func (o *Observer) Took(ctx context.Context, clientID string) (time.Duration, error) {
	for {
		o.mu.Lock()
		from, registered := o.registered[clientID]
		to, beaten := o.beaten[clientID]
		changed := o.changed
		o.mu.Unlock()
		if registered && beaten {
			return to.Sub(from), nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return 0, fmt.Errorf("waiting for the first heartbeat of %s: %w", clientID, context.Cause(ctx))
		}
	}
}

// Span returns the time from the first ClusterRegistration of these clients to the last of their first
// heartbeats.
func (o *Observer) Span(ctx context.Context, clientIDs []string) (time.Duration, error) {
	var first, last time.Time
	for _, id := range clientIDs {
		if _, err := o.Took(ctx, id); err != nil {
			return 0, err
		}
		o.mu.Lock()
		from, to := o.registered[id], o.beaten[id]
		o.mu.Unlock()
		if first.IsZero() || from.Before(first) {
			first = from
		}
		if to.After(last) {
			last = to
		}
	}
	return last.Sub(first), nil
}
