package clusterimport

import (
	"math/rand/v2"
	"sync"
	"time"

	supervisionrule "github.com/fleet-hub/fleet/internal/rules/supervision"
)

// supervision is what is remembered of agents that are not heard of. A process that has just started knows
// nothing, and looks at each soon: what it has to know it finds there.
type supervision struct {
	clock func() time.Time

	mu     sync.Mutex
	agents map[string]*attention
}

// attention is what one agent gets.
type attention struct {
	// of is what was looked at; what has changed meanwhile is looked at at once.
	of string
	// since is when the agent was deployed, if that was seen, or when it was noticed first.
	since    time.Time
	deployed bool
	// quiet is when it was deployed or given the last of its fresh tokens.
	quiet  time.Time
	tokens int
	looks  int
	next   time.Time
	repair supervisionrule.Repair
}

func newSupervision(clock func() time.Time) *supervision {
	return &supervision{clock: clock, agents: map[string]*attention{}}
}

// of is the agent's attention, made where there is none; the lock is held. The first look at an agent whose
// deployment was not seen is soon, and not at the same time as at all others.
func (s *supervision) of(cluster string) *attention {
	found := s.agents[cluster]
	if found == nil {
		now := s.clock()
		found = &attention{since: now, quiet: now, next: now.Add(spread(supervisionrule.FirstLook))}
		s.agents[cluster] = found
	}
	return found
}

// spread is a random part of d.
func spread(d time.Duration) time.Duration {
	return time.Duration(rand.Int64N(int64(d) + 1)) //nolint:gosec // a spread, not a secret
}

// due says how long it is until an agent is to be looked at. Something else than what was looked at before is, at once.
func (s *supervision) due(cluster, of string) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.of(cluster)
	if found.of != "" && found.of != of {
		found.next = s.clock()
	}
	found.of = of
	return found.next.Sub(s.clock())
}

// deployed notes that an agent was applied, and whether it was given the means to register.
func (s *supervision) deployed(cluster string, anew, identity bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if anew {
		delete(s.agents, cluster)
	}
	found := s.of(cluster)
	if now := s.clock(); anew {
		found.since, found.deployed, found.quiet = now, true, now
		found.next = now.Add(supervisionrule.FirstLook + spread(supervisionrule.FirstLook/4))
	}
	if identity && !anew {
		found.quiet = s.clock()
	}
	found.repair = supervisionrule.RepairNone
}

// looked notes what a look has led to, and when the next one is due.
func (s *supervision) looked(cluster string, heard bool, out supervisionrule.Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.of(cluster)
	pause := supervisionrule.NextLook(found.looks+1, heard)
	found.looks++
	found.next = s.clock().Add(pause + spread(pause/4))
	if out.Repair != supervisionrule.RepairNone && found.repair != supervisionrule.RepairIdentity {
		found.repair = out.Repair
	}
	if out.FreshToken {
		found.tokens++
		found.quiet = s.clock()
	}
}

// want notes that an agent needs a repair, which the next import does.
func (s *supervision) want(cluster string, repair supervisionrule.Repair) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of(cluster).repair = repair
}

// wanted is the repair that an agent needs.
func (s *supervision) wanted(cluster string) supervisionrule.Repair {
	s.mu.Lock()
	defer s.mu.Unlock()
	if found := s.agents[cluster]; found != nil {
		return found.repair
	}
	return supervisionrule.RepairNone
}

// known is what is remembered of an agent.
func (s *supervision) known(cluster string) attention {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *s.of(cluster)
}

// forget is for an agent that is heard of, and for a Cluster that is gone.
func (s *supervision) forget(cluster string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.agents, cluster)
}
