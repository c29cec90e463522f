package kill_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/fleet-hub/fleet/e2e/framework/faults"
	"github.com/fleet-hub/fleet/e2e/framework/swarm"
)

// story is what happens to the replicas of a hub while agents register.
type story struct {
	hub      *hub
	waiting  []*swarm.Agent
	released []*swarm.Agent
	killed   int
	frozen   int
	// late are the writes that frozen replicas have sent when they were thawed.
	late []string
}

// release lets some more agents register.
func (s *story) release(ctx context.Context, agents int) {
	agents = max(0, min(agents, len(s.waiting)))
	s.hub.swarm.Start(ctx, s.waiting[:agents]...)
	s.released = append(s.released, s.waiting[:agents]...)
	s.waiting = s.waiting[agents:]
}

// sprung waits until a trap has caught somebody.
func (t *trap) await(ctx context.Context) (*slot, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case s := <-t.sprung:
		return s, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for somebody to %s: %w", t.kind, ctx.Err())
	}
}

// killAfter kills the replica that does the next write of a kind, before it learns that it was done. Another one leads
// at once, and the dead one is replaced.
func (s *story) killAfter(ctx context.Context, k kind) error {
	var dead *replica
	_, err := s.hub.writes.set(k, func(by *slot) {
		dead = by.replica()
		dead.kill()
	}).await(ctx)
	if err != nil {
		return err
	}
	s.killed++
	return s.hub.bury(ctx, dead)
}

// freezeAfter stops the replica that does the next write of a kind, until another one leads. Then it goes on where it
// was, as a second leader would, were it not to notice.
func (s *story) freezeAfter(ctx context.Context, k kind) error {
	var r *replica
	var frozen error
	caught, err := s.hub.writes.set(k, func(by *slot) {
		r = by.replica()
		frozen = r.freeze()
	}).await(ctx)
	if err != nil || frozen != nil {
		return errors.Join(err, frozen)
	}
	s.frozen++
	if err := s.awaitOtherLeader(ctx, r); err != nil {
		return err
	}
	var mu sync.Mutex
	watched := caught.proxy.Add(faults.Rule{Match: faults.Match{Verb: "write", If: countsAsWrite}, Fault: faults.Before(func(about faults.Request) {
		mu.Lock()
		defer mu.Unlock()
		s.late = append(s.late, r.name+" after "+string(k)+": "+about.String())
	})})
	defer watched.End()
	if err := r.thaw(); err != nil {
		return err
	}
	select {
	case <-r.done:
	case <-time.After(patience):
		return fmt.Errorf("%s does not end, though another one leads", r.name)
	}
	if code := r.cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(r.log.String(), "lost the leader election lease") {
		return fmt.Errorf("%s ended with %d and says:\n%s", r.name, code, r.log)
	}
	return nil
}

// awaitOtherLeader waits until each lease that a frozen replica holds is another's.
func (s *story) awaitOtherLeader(ctx context.Context, frozen *replica) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		holders, err := s.hub.leases(ctx)
		if err != nil {
			return err
		}
		free := true
		for _, holder := range holders {
			free = free && holder != "" && !strings.HasPrefix(holder, frozen.name+"_")
		}
		if free && len(holders) > 0 {
			return nil
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return fmt.Errorf("nobody else leads: %v: %w", holders, ctx.Err())
		}
	}
}
