package kill_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/fleet-hub/fleet/e2e/framework/faults"
	"github.com/fleet-hub/fleet/e2e/framework/replica"
)

// step is an action of an agent, or on its objects, that gives the controllers work.
type step func(ctx context.Context) error

// story controls what happens to the replicas of a hub meanwhile.
type story struct {
	hub     *hub
	waiting []step
	killed  int
	frozen  int
	lost    int
	missed  int
	// late are the writes that frozen replicas have sent after they continued.
	late []string
}

// release runs some more steps.
func (s *story) release(ctx context.Context, steps int) error {
	steps = max(0, min(steps, len(s.waiting)))
	for _, next := range s.waiting[:steps] {
		if err := next(ctx); err != nil {
			return err
		}
	}
	s.waiting = s.waiting[steps:]
	return nil
}

// ending is a way in which the leading replica stops leading, after a write of a kind.
type ending struct {
	after kind
	how   func(*story, context.Context, kind) error
}

// tell runs the steps, one with each ending, and the remaining ones before the first ending.
func (s *story) tell(ctx context.Context, endings []ending, steps []step) error {
	if len(steps) < len(endings) {
		return fmt.Errorf("there are %d endings, and only %d steps", len(endings), len(steps))
	}
	s.waiting = steps
	if err := s.release(ctx, len(steps)-len(endings)); err != nil {
		return err
	}
	for i, end := range endings {
		err := end.how(s, ctx, end.after)
		if errors.Is(err, errMissed) {
			s.missed++
			continue
		}
		if err != nil {
			return fmt.Errorf("ending %d of %d, after %q: %w", i+1, len(endings), end.after, err)
		}
	}
	return nil
}

// await waits until the trap is sprung.
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

// errMissed means that the replica has ended by itself before it was caught. This happens on a busy machine when
// it could not renew its leases in time.
var errMissed = errors.New("a replica has ended by itself")

// catch runs one more step and waits for a write of a kind. It sets the trap first, because the write may follow
// at once.
func (s *story) catch(ctx context.Context, k kind, spring func(*slot)) (*slot, error) {
	gone := s.hub.gone()
	t := s.hub.writes.set(k, spring)
	if err := s.release(ctx, 1); err != nil {
		return nil, err
	}
	caught, err := t.await(ctx)
	switch {
	case err == nil || ctx.Err() != nil:
		return caught, err
	case !s.hub.writes.unset(t):
		return <-t.sprung, nil // at the same moment
	case s.hub.gone() > gone:
		return nil, fmt.Errorf("%w: %w", errMissed, err)
	}
	return nil, err
}

// killAfter kills the replica that sends the next write of a kind, before it gets the response. Another replica
// leads at once, and the dead one is replaced.
func (s *story) killAfter(ctx context.Context, k kind) error {
	var dead *replica.Replica
	_, err := s.catch(ctx, k, func(by *slot) {
		dead = by.current()
		dead.Kill()
	})
	if err != nil {
		return err
	}
	s.killed++
	return dead.Bury(ctx, s.hub.Hub.Kube)
}

// hasLed reports whether the replica in a writer's slot is the writer: every writer has logged that it leads. On
// a busy machine the writer may have lost its leases and ended since then, and the slot may have a successor.
func hasLed(r *replica.Replica) bool { return strings.Contains(r.Log(), "msg=leading ") }

// freezeAfter stops the replica that sends the next write of a kind, until another one leads. Then the frozen one
// continues where it was, and would be a second leader if it did not notice.
func (s *story) freezeAfter(ctx context.Context, k kind) error {
	var r *replica.Replica
	var frozen error
	var led bool
	caught, err := s.catch(ctx, k, func(by *slot) {
		r = by.current()
		frozen = r.Freeze()
		led = hasLed(r)
	})
	if err != nil {
		return err
	}
	if frozen != nil { // it has ended by itself, or should have
		return errors.Join(awaitLoss(r, frozen), s.awaitOtherLeader(ctx, r))
	}
	if err := s.awaitOtherLeader(ctx, r); err != nil {
		return err
	}
	if !led {
		return r.Thaw()
	}
	s.frozen++
	var mu sync.Mutex
	watched := caught.proxy.Add(faults.Rule{Match: faults.Match{Verb: "write", If: countsAsWrite}, Fault: faults.Before(func(about faults.Request) {
		mu.Lock()
		defer mu.Unlock()
		s.late = append(s.late, r.Name+" after "+string(k)+": "+about.String())
	})})
	defer watched.End()
	if err := r.Thaw(); err != nil {
		return err
	}
	return awaitLoss(r, nil)
}

// awaitLoss waits until a replica has ended because it has lost its lease, or may have. If it does not end, the
// error contains why.
func awaitLoss(r *replica.Replica, why error) error {
	select {
	case <-r.Ended():
	case <-time.After(patience):
		return errors.Join(fmt.Errorf("%s does not end, though it cannot lead any more", r.Name), why)
	}
	if code := r.ExitCode(); code != 1 || !strings.Contains(r.Log(), "lost the leader election lease") {
		return fmt.Errorf("%s ended with %d and says:\n%s", r.Name, code, r.Log())
	}
	return nil
}

// loseAfter rejects only lease renewals of the replica that sends the next write of a kind. The replica has to
// stop by itself before another one leads.
func (s *story) loseAfter(ctx context.Context, k kind) error {
	var r *replica.Replica
	var refused *faults.Active
	var led bool
	_, err := s.catch(ctx, k, func(by *slot) {
		r = by.current()
		refused = by.proxy.Add(faults.Rule{Match: faults.Match{Verb: "write", Resource: "leases"}, Fault: faults.Answer(http.StatusServiceUnavailable)})
		led = hasLed(r)
	})
	if err != nil {
		return err
	}
	defer refused.End()
	if led {
		if err := awaitLoss(r, nil); err != nil {
			return err
		}
		s.lost++
	}
	return s.awaitOtherLeader(ctx, r)
}

// awaitOtherLeader waits until another replica holds each lease that a frozen replica held.
func (s *story) awaitOtherLeader(ctx context.Context, frozen *replica.Replica) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		holders, err := replica.Holders(ctx, s.hub.Hub.Kube)
		if err != nil {
			return err
		}
		free := true
		for _, holder := range holders {
			free = free && holder != "" && !frozen.Is(holder)
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
