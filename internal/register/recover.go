package register

import (
	"context"

	"github.com/fleet-hub/fleet/internal/register/pace"
	"github.com/fleet-hub/fleet/internal/rules/registering"
)

// noticeLoss records since when the agent has had no identity that the hub accepts. While the hub does not answer, the time of
// the loss is cleared, so that agents spread their recovery requests again after the outage.
func (a *agent) noticeLoss() {
	answer := a.answer.Answer
	switch {
	case a.found.Identity != nil && answer == registering.Accepted:
		a.loss, a.recovering = loss{}, nil
		a.recoveries.Reset()
		a.documents.Reset()
	case a.found.Identity != nil && answer != registering.Rejected && answer != registering.Untrusted:
		a.loss = loss{}
	case a.loss.since.IsZero():
		a.loss = loss{since: a.now(), chance: pace.FineChance(a.Random)}
		if a.found.Identity != nil {
			a.loss.since = a.answer.Since
		}
	}
}

// lookAtKept reads the recovery Secret at start, so that the agent has a key, and while it has no working identity. While an
// identity is in use, a missing Secret must not replace what the agent knows: the next refresh restores it.
func (a *agent) lookAtKept(ctx context.Context) {
	if a.kept.Key.Public() != "" && (a.serving != nil || a.answer.Answer == registering.Accepted) || a.keptLoads.Until(a.now()) > 0 {
		return
	}
	err := a.loadKept(ctx)
	a.keptLoads.Settle(a.now(), err)
	if err != nil && ctx.Err() == nil {
		a.log.Debug("the agent's recovery Secret cannot be used", "error", err)
	}
}

// recoveryState returns what the agent can recover with, or nil.
func (a *agent) recoveryState() *registering.Recovery {
	access, complete := a.kept.Data.Access()
	canVerify := a.kept.Data.HubKey != "" && access.APIServerURL != ""
	if a.kept.Key.Public() == "" || !complete && !canVerify {
		return nil
	}
	state := &registering.Recovery{
		Server: access.APIServerURL, CanRequest: complete, CanVerify: canVerify,
		Since: a.loss.since, Chance: a.loss.chance, Spread: a.kept.Data.RecoverySpread,
	}
	if a.recovering != nil {
		state.Attempt = a.recovering.Attempt
	}
	return state
}

// awaitTurn waits until the agent may request a recovery. Meanwhile and right before that, it tests whether the hub
// accepts the stored identity again.
func (a *agent) awaitTurn(ctx context.Context, step registering.Outcome) {
	if !step.ProbeStored {
		a.pause(ctx, step.Pause)
		return
	}
	a.probeStored(ctx, min(step.Pause, max(step.ProbePause, a.probes.Until(a.now()))))
}
