package observer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/fleet-hub/fleet/e2e/framework/client"
)

// Observer records when each client registers, and when its first heartbeat is accepted.
type Observer struct {
	clock  func() time.Time
	hub    *client.Client
	cancel context.CancelFunc
	ended  sync.WaitGroup

	mu         sync.Mutex // guards the fields below
	registered map[string]time.Time
	beaten     map[string]time.Time
	changed    chan struct{} // closed and replaced at every event
}

// seen is the decoded part of a ClusterRegistration or Cluster.
type seen struct {
	Type   string
	Object struct {
		Spec   struct{ ClientID string }
		Status struct{ Agent struct{ LastSeen string } }
	}
}

// Start watches a hub until the observer is stopped.
func Start(hub *client.Client, clock func() time.Time) *Observer {
	ctx, cancel := context.WithCancel(context.Background())
	o := &Observer{
		clock: clock, hub: hub, cancel: cancel,
		registered: map[string]time.Time{}, beaten: map[string]time.Time{}, changed: make(chan struct{}),
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
	close(o.changed)
	o.changed = make(chan struct{})
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
