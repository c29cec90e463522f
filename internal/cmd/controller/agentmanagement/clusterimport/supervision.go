package clusterimport

import (
	"math/rand/v2"
	"sync"
	"time"

	supervisionrule "github.com/fleet-hub/fleet/internal/rules/supervision"
)

// supervision remembers silent agents. After a restart it is empty, and each agent is checked soon: everything else
// that a check needs is found then.
type supervision struct {
	clock func() time.Time

	mu     sync.Mutex
	agents map[string]*attention
}

// attention is what is remembered of one agent.
type attention struct {
	// of identifies the state that was checked. If it changes, the agent is checked at once.
	of string
	// since is when this process deployed the agent, or else when it first noticed the agent.
	since    time.Time
	deployed bool
	// quiet is when the agent was deployed or got its last fresh token.
	quiet  time.Time
	tokens int
	looks  int
	next   time.Time
	repair supervisionrule.Repair
}

func newSupervision(clock func() time.Time) *supervision {
	return &supervision{clock: clock, agents: map[string]*attention{}}
}

// of returns the agent's attention and creates it if necessary. The caller holds the lock. If this process did not
// deploy the agent, the first check is soon, at a random time so that not all agents are checked at once.
func (s *supervision) of(cluster string) *attention {
	found := s.agents[cluster]
	if found == nil {
		now := s.clock()
		found = &attention{since: now, quiet: now, next: now.Add(spread(supervisionrule.FirstLook))}
		s.agents[cluster] = found
	}
	return found
}

// spread returns a random part of d.
func spread(d time.Duration) time.Duration {
	return time.Duration(rand.Int64N(int64(d) + 1)) //nolint:gosec // a spread, not a secret
}

// due returns the time until the next check of an agent. It returns at most 0 if something has changed since the last
// one.
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

// deployed records that an agent was applied, and whether it got a bootstrap Secret.
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

// looked records the result of a check and when the next one is due.
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

// want records that an agent needs a repair, which the next import does.
func (s *supervision) want(cluster string, repair supervisionrule.Repair) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of(cluster).repair = repair
}

// wanted returns the repair that an agent needs.
func (s *supervision) wanted(cluster string) supervisionrule.Repair {
	s.mu.Lock()
	defer s.mu.Unlock()
	if found := s.agents[cluster]; found != nil {
		return found.repair
	}
	return supervisionrule.RepairNone
}

// known returns what is remembered of an agent.
func (s *supervision) known(cluster string) attention {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *s.of(cluster)
}

// forget removes an agent that reports again, or whose Cluster is gone.
func (s *supervision) forget(cluster string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.agents, cluster)
}
