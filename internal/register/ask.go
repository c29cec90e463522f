package register

import (
	"context"
	"fmt"
	"time"

	"github.com/fleet-hub/fleet/internal/kube"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/registering"
)

// ask asks about the stored identity, here or there or both, whatever is due first.
func (a *agent) ask(ctx context.Context, step registering.Outcome) {
	here, there := a.asks.until(a.now()), a.moves.until(a.now())
	switch {
	case !step.AskElsewhere, step.AskAgain && here <= there:
		if a.pause(ctx, here) {
			a.askStored(ctx)
		}
	case step.Stage == registering.Use && !step.AskAgain: // it works, and what the hub says to it is listened to
		due := time.NewTimer(there)
		defer due.Stop()
		if a.attend(ctx, due.C) {
			a.askElsewhere(ctx)
		}
	default:
		if a.pause(ctx, there) {
			a.askElsewhere(ctx)
		}
	}
}

// askStored asks the hub about the stored identity.
func (a *agent) askStored(ctx context.Context) {
	err := a.trusts()
	if err == nil {
		err = a.prove(ctx, a.found.access, a.found.identity.DeploymentNamespace)
	}
	if ctx.Err() != nil {
		return // no answer, but because we left
	}
	a.asks.tried(a.now(), err)
	before := a.verdict.Answer
	a.verdict = judge(a.verdict, answerOf(err), a.now())
	switch {
	case err == nil:
		a.asks.reset()
	case before != a.verdict.Answer:
		a.log.Warn("the hub does not accept the stored identity", "answer", a.verdict.Answer, "error", err)
	}
}

// trusts refuses a stored identity without a CA where only a CA may be trusted: one that was stored when the
// machine's roots were enough. A configuration that does not say so refuses nothing.
func (a *agent) trusts() error {
	if a.found.config.AgentTLSMode == kube.TLSModeStrict && len(a.found.access.CA) == 0 {
		return fmt.Errorf("using Secret %s: %w", names.Agent, kube.ErrNoCA)
	}
	return nil
}

// askElsewhere asks about the stored identity where the bootstrap secret says the hub is.
func (a *agent) askElsewhere(ctx context.Context) {
	bootstrap := a.found.bootstrap
	access := Access{
		Server: bootstrap.APIServerURL, CA: bootstrap.APIServerCA, Token: a.found.access.Token, Namespace: a.found.access.Namespace,
	}
	there, err := a.trusting(ctx, access)
	if err == nil {
		err = a.prove(ctx, there, a.found.identity.DeploymentNamespace)
	}
	if ctx.Err() != nil {
		return
	}
	a.moves.tried(a.now(), err)
	before := a.moved.Answer
	a.there, a.moved = there, judge(a.moved, answerOf(err), a.now())
	if err != nil && before != a.moved.Answer {
		a.log.Warn("the stored identity is not accepted where the bootstrap secret says the hub is", "hub", bootstrap.APIServerURL, "answer", a.moved.Answer, "error", err)
	}
}

// prove asks a hub whether an identity may do an agent's work.
func (a *agent) prove(ctx context.Context, access Access, namespace string) error {
	hub, err := a.Connect(access.Config())
	if err != nil {
		return err
	}
	return hub.Prove(ctx, namespace)
}

// judge notes an answer; the time stays where the answer is the same.
func judge(v registering.Verdict, answer registering.Answer, now time.Time) registering.Verdict {
	if v.Answer == answer {
		return v
	}
	return registering.Verdict{Answer: answer, Since: now}
}

// grantedAccess is how the granted identity reaches the hub: the way the import identity did.
func (a *agent) grantedAccess() Access {
	access := a.attempt.access
	access.Token = a.attempt.credential.Token
	access.Namespace = a.attempt.credential.DeploymentNamespace
	return access
}

// proveCredential asks the hub whether the credential it granted works.
func (a *agent) proveCredential(ctx context.Context) {
	if !a.pause(ctx, a.proofs.until(a.now())) {
		return
	}
	err := a.prove(ctx, a.grantedAccess(), a.attempt.credential.DeploymentNamespace)
	if ctx.Err() != nil {
		return
	}
	a.proofs.tried(a.now(), err)
	a.attempt.proof = judge(a.attempt.proof, answerOf(err), a.now())
	if err != nil {
		a.log.Warn("the hub does not accept the new credential yet", "answer", a.attempt.proof.Answer, "error", err)
	}
}
