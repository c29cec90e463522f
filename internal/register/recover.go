package register

import (
	"context"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/identity"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/register/pace"
	"github.com/fleet-hub/fleet/internal/rules/registering"
)

// noticeLoss follows whether the agent has an identity. The identity is not lost if the hub does not answer. After an outage, the
// agents take their turns again.
func (a *agent) noticeLoss() {
	answer := a.verdict.Answer
	switch {
	case a.found.Identity != nil && answer == registering.Accepted:
		a.loss, a.recovering = loss{}, nil
		a.recoveries.Reset()
		a.documents.Reset()
	case a.found.Identity != nil && answer != registering.Rejected && answer != registering.Untrusted:
		a.loss = loss{}
	case a.loss.since.IsZero():
		a.loss = loss{since: a.now(), chance: pace.Chance(a.Random)}
		if a.found.Identity != nil {
			a.loss.since = a.verdict.Since
		}
	}
}

// lookAtKept reads the recovery Secret at start, so that the agent has a key, and while it has no working identity.
func (a *agent) lookAtKept(ctx context.Context) {
	if a.kept.key.Public() != "" && a.verdict.Answer == registering.Accepted || a.keeps.Until(a.now()) > 0 {
		return
	}
	err := a.loadKept(ctx)
	if err == nil {
		a.keeps.Reset()
		return
	}
	a.keeps.Tried(a.now(), err)
	if ctx.Err() == nil {
		a.log.Debug("the agent's recovery Secret cannot be used", "error", err)
	}
}

// recoveryState returns what the agent can recover with, or nil.
func (a *agent) recoveryState() *registering.Recovery {
	access, complete := a.kept.data.Access()
	canVerify := a.kept.data.HubKey != "" && access.APIServerURL != ""
	if a.kept.key.Public() == "" || !complete && !canVerify {
		return nil
	}
	state := &registering.Recovery{Server: access.APIServerURL, CanRequest: complete, CanVerify: canVerify, Since: a.loss.since, Chance: a.loss.chance}
	if a.recovering != nil {
		state.Attempt = a.recovering.Attempt
	}
	return state
}

// asTicket returns the client ID and the labels of the ticket, so that the hub finds or creates the same Cluster. If the
// hub's key was lost, the ticket cannot be read, and those of the configuration are used.
func (k kept) asTicket(settings config.Agent) (clientID string, labels map[string]string) {
	ticket, err := identity.VerifyTicket(k.data.HubKey, k.data.Ticket)
	if err != nil {
		return k.data.ClientID, settings.Labels
	}
	return ticket.ClientID, ticket.Labels
}

// hubKeyOf returns the hub's public key for the proof of a recovery request. A bootstrap secret may be from another hub.
func (a *agent) hubKeyOf(at *attempt) string {
	if !at.isRecovery {
		return ""
	}
	return a.kept.data.HubKey
}

// awaitTurn waits until the agent may request a recovery. Meanwhile and right before that, it tests whether the hub
// accepts the stored identity again.
func (a *agent) awaitTurn(ctx context.Context, step registering.Outcome) {
	if !step.AskAgain {
		a.pause(ctx, step.Pause)
		return
	}
	if a.pause(ctx, min(step.Pause, a.asks.Until(a.now()))) {
		a.askStored(ctx)
	}
}

// keepGranted stores what the hub gave together with the credential. A hub that gave nothing must not be left for an
// earlier one, so that what that one gave is removed.
func (a *agent) keepGranted(ctx context.Context, at *attempt) {
	data := protocol.Kept{}
	if at.granted.Token != "" {
		data = protocol.Kept{
			Recovery:     at.granted,
			APIServerURL: at.access.Server, APIServerCA: at.access.CA,
			ClusterNamespace:            at.bootstrap.ClusterNamespace,
			SystemRegistrationNamespace: at.bootstrap.SystemRegistrationNamespace,
			ClientID:                    at.Request.ClientID,
			Serial:                      a.kept.serialOf(at.granted.HubKey),
		}
		a.refreshDaily()
	}
	a.warnUnlessKept(a.keep(ctx, data))
}

// serialOf returns the serial of the last hub document, if it was signed with this key.
func (k kept) serialOf(hubKey string) int64 {
	if k.data.HubKey != hubKey {
		return 0
	}
	return k.data.Serial
}

func (a *agent) warnUnlessKept(err error) {
	if err != nil {
		a.log.Warn("storing what the agent needs to return after a loss failed; it is tried again at the next renewal", "secret", a.store().Name(), "error", err)
	}
}
