package expiry

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/fleet-hub/fleet/e2e/bench/audit"
	"github.com/fleet-hub/fleet/e2e/framework/swarm"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

const (
	// leeway is how long after its expiry an API server still accepts a token.
	leeway = time.Minute
	// atOnce limits how many agents are prepared at the same time.
	atOnce = 16
)

// Hub is the hub as the scenario needs it.
type Hub interface {
	// SetLifetime sets agentCredential.lifetime.
	SetLifetime(ctx context.Context, lifetime time.Duration) error
	// DeleteAccount deletes an agent's account.
	DeleteAccount(ctx context.Context, namespace, name string) error
	// Pause stops the API server, and Resume returns when it is ready again.
	Pause() error
	Resume(ctx context.Context) error
	// Listen passes the events of the audit log to hear until done returns true. done gets the time of the last write,
	// initially now.
	Listen(ctx context.Context, hear func(audit.Event), done func(lastWrite time.Time) bool) error
	// Who returns the identity of a request's sender.
	Who(e audit.Event) audit.Identity
}

// Options configures Play.
type Options struct {
	Hub Hub
	// Identities are the agents, which have joined and are stopped. Values are those of their token.
	Identities []swarm.Identity
	Values     protocol.Values
	Times
	// Quiet is the time without writes that ends the count of recovery requests.
	Quiet time.Duration
	Clock func() time.Time
	Say   func(format string, args ...any)
}

// Result is what Play has measured: the figures, and the requests of renewals and of the return.
type Result struct {
	Figures
	Renewing, Returning audit.Counts
}

// scenario is a running scenario.
type scenario struct {
	Options
	local   *cluster
	agents  []*agent
	running sync.WaitGroup
	ended   chan error // of agents that ended by themselves
}

var errReturn = errors.New("some agents did not return to their Clusters")

// Play runs the scenario. Afterwards all agents are stopped.
func Play(ctx context.Context, o Options) (Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	s := &scenario{Options: o, local: newCluster(), ended: make(chan error, len(o.Identities))}
	defer s.running.Wait()
	defer cancel()
	all := Result{Figures: Figures{Agents: len(o.Identities), Lifetime: o.Lifetime.Seconds(), Outage: o.Outage.Seconds()}}
	if err := s.start(ctx); err != nil {
		return all, err
	}
	if err := s.countRenewals(ctx, &all); err != nil {
		return all, err
	}
	return all, s.returnFromOutage(ctx, &all)
}

// start prepares all agents and starts them.
func (s *scenario) start(ctx context.Context) error {
	s.Say("tokens last %s from now on; %d agents are restarted with such ones", s.Lifetime, len(s.Identities))
	if err := s.Hub.SetLifetime(ctx, s.Lifetime); err != nil {
		return err
	}
	for i, identity := range s.Identities {
		s.agents = append(s.agents, newAgent(fmt.Sprintf("agent-%05d", i), identity, s.Options, s.local))
	}
	err := s.each(func(a *agent) error {
		if err := a.shorten(ctx, s.Lifetime); err != nil {
			return err
		}
		return a.install(ctx)
	})
	if err != nil {
		return err
	}
	for _, a := range s.agents {
		s.running.Go(func() {
			if err := a.run(ctx); err != nil && ctx.Err() == nil {
				s.ended <- fmt.Errorf("agent %s has ended: %w", a.namespace, err)
			}
		})
	}
	return nil
}

// each does something for each agent, some at a time.
func (s *scenario) each(do func(*agent) error) error {
	var working sync.WaitGroup
	limit, failed := make(chan struct{}, atOnce), make([]error, len(s.agents))
	for i, a := range s.agents {
		limit <- struct{}{}
		working.Go(func() { failed[i] = do(a); <-limit })
	}
	working.Wait()
	return errors.Join(failed...)
}

// countRenewals counts requests while nothing but renewals and heartbeats happens.
func (s *scenario) countRenewals(ctx context.Context, all *Result) error {
	settled := s.Clock().Add(s.Settle)
	err := s.Hub.Listen(ctx, func(audit.Event) {}, func(time.Time) bool {
		return !s.Clock().Before(settled) && s.expectAlive(time.Time{}, nil) == nil
	})
	if err != nil {
		return errors.Join(err, s.expectAlive(time.Time{}, nil), s.endedEarly())
	}
	s.Say("renewals are counted for %s", s.RenewFor)
	all.Renewing = audit.Counts{}
	before := s.local.counted()
	if err := s.pass(ctx, s.RenewFor, func(e audit.Event) { all.Renewing.Add(s.Hub.Who(e), e) }); err != nil {
		return err
	}
	all.renewing(all.Renewing, s.local.counted()-before)
	return nil
}

// pass waits while it listens.
func (s *scenario) pass(ctx context.Context, d time.Duration, hear func(audit.Event)) error {
	until := s.Clock().Add(d)
	if err := s.Hub.Listen(ctx, hear, func(time.Time) bool { return !s.Clock().Before(until) }); err != nil {
		return fmt.Errorf("waiting: %w", err)
	}
	return s.endedEarly()
}

func (s *scenario) endedEarly() error {
	select {
	case err := <-s.ended:
		return err
	default:
		return nil
	}
}

// expectAlive returns an error unless the hub has accepted a heartbeat of each agent after a time, with another account
// than before, in its own namespace.
func (s *scenario) expectAlive(after time.Time, accounts []string) error {
	var missing, elsewhere []string
	for i, a := range s.agents {
		beat, account, home := a.last()
		switch {
		case !beat.After(after), accounts != nil && accounts[i] == account:
			missing = append(missing, a.namespace)
		case home != a.identity.Credential.DeploymentNamespace:
			elsewhere = append(elsewhere, a.namespace)
		}
	}
	if len(missing)+len(elsewhere) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %d of %d agents sent no heartbeat (%s), %d returned to another cluster (%s)", errReturn,
		len(missing), len(s.agents), first(missing), len(elsewhere), first(elsewhere))
}

// first returns the first names.
func first(of []string) string { return strings.Join(of[:min(3, len(of))], ", ") }

// returnFromOutage lets the tokens expire while the API server is gone, and times the agents' return.
func (s *scenario) returnFromOutage(ctx context.Context, all *Result) error {
	if all.Accounts = !s.expires(); all.Accounts {
		s.Say("the agents' accounts are deleted, because the outage is too short for tokens to expire")
		if err := s.each(func(a *agent) error { return s.deleteAccount(ctx, a) }); err != nil {
			return err
		}
	}
	s.Say("the API server is gone for %s", s.Outage)
	if err := s.Hub.Pause(); err != nil {
		return err
	}
	if err := s.pass(ctx, s.Outage, func(audit.Event) {}); err != nil {
		return err
	}
	accounts := make([]string, len(s.agents))
	for i, a := range s.agents {
		_, accounts[i], _ = a.last()
	}
	if err := s.Hub.Resume(ctx); err != nil {
		return err
	}
	back := s.Clock()
	s.Say("the API server is back")
	var recoveries []audit.Event
	all.Returning = audit.Counts{}
	err := s.Hub.Listen(ctx, func(e audit.Event) {
		all.Returning.Add(s.Hub.Who(e), e)
		if isRecovery(e, names.Recovery) {
			recoveries = append(recoveries, e)
		}
	}, func(lastWrite time.Time) bool {
		return s.expectAlive(back, accounts) == nil && s.Clock().Sub(lastWrite) >= s.Quiet
	})
	if err != nil {
		return errors.Join(err, s.expectAlive(back, accounts), s.endedEarly())
	}
	var beats []time.Time
	for _, a := range s.agents {
		beats = append(beats, a.returned())
	}
	all.returning(back, beats, recoveries)
	return s.endedEarly()
}

// deleteAccount deletes the account of an agent's token.
func (s *scenario) deleteAccount(ctx context.Context, a *agent) error {
	of, _ := protocol.RenewalOf(a.access.Token)
	return s.Hub.DeleteAccount(ctx, of.Namespace, of.Account)
}
