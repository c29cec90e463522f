package register

import (
	"context"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/rules/registering"
)

// observe combines the agent's three objects with the hub's earlier answers. It reads the objects, unless it is known
// that none has changed.
func (a *agent) observe(ctx context.Context) (registering.Input, error) {
	if !a.current {
		if err := a.look(ctx); err != nil {
			return registering.Input{}, err
		}
	}
	if a.isUnstored() { // the Secret has the token from before the renewal
		a.found.Access.Token = a.obtained
	}
	a.current = false
	a.noticeLoss()
	a.lookAtKept(ctx)
	return a.state(), nil
}

// look reads the agent's three objects. It discards answers about an object that was deleted or changed.
func (a *agent) look(ctx context.Context) error {
	f, err := a.store.Read(ctx, a.found.Config)
	if err != nil {
		return err
	}
	before := a.found
	a.found = f
	otherMode := before.Config.AgentTLSMode != f.Config.AgentTLSMode // discards the answers about both
	otherIdentity := otherMode || !f.HasIdentityOf(&before)
	otherBootstrap := otherMode || !f.HasBootstrapOf(&before)
	if otherBootstrap || !f.HasClientOf(&before) {
		a.requests.Reset() // the hub may accept the corrected request
		a.repeats.Reset()
	}
	// If another identity is offered, test immediately whether the stored one still works.
	if otherIdentity || otherBootstrap && f.BootstrapSecret != nil {
		a.answer = registering.LastAnswer{}
		a.probes.Reset()
	}
	if otherIdentity || otherBootstrap {
		a.moved = registering.LastAnswer{}
		a.moves.Reset()
	}
	if otherBootstrap {
		a.attempt, a.used, a.delivered = nil, false, a.now()
	}
	return nil
}

func (a *agent) state() registering.Input {
	f := a.found
	state := registering.Input{
		Now:                a.now(),
		Serving:            a.isServing(),
		Running:            a.running,
		StoredProblem:      f.IdentityErr,
		Bootstrap:          f.Bootstrap,
		BootstrapProblem:   f.BootstrapErr,
		ConfigProblem:      f.ConfigErr,
		SystemStore:        f.Config.AgentTLSMode == config.TLSModeSystemStore,
		AnswerAtNewAddress: a.moved,
		Recovery:           a.recoveryState(),
	}
	if f.Identity != nil {
		state.Stored = &registering.StoredIdentity{Server: f.Access.Server, CA: f.Access.CA, LastAnswer: a.answer}
	}
	if a.attempt != nil {
		state.Attempt = a.attempt.Attempt
	}
	return state
}
