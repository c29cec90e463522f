package register

import (
	"context"
	"time"

	"github.com/fleet-hub/fleet/internal/handshake"
)

// askStored asks the hub about the stored identity as soon as that is due.
func (a *agent) askStored(ctx context.Context) {
	if !a.pause(ctx, a.asks.until(a.now())) {
		return
	}
	err := a.prove(ctx, a.found.access, a.found.identity.DeploymentNamespace)
	if ctx.Err() != nil {
		return // no answer, but because we left
	}
	a.asks.tried(a.now())
	before := a.verdict.Answer
	a.verdict = judge(a.verdict, answerOf(err), a.now())
	switch {
	case err == nil:
		a.asks.reset()
	case before != a.verdict.Answer:
		a.log.Warn("the hub does not accept the stored identity", "answer", a.verdict.Answer, "error", err)
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
func judge(v handshake.Verdict, answer handshake.Answer, now time.Time) handshake.Verdict {
	if v.Answer == answer {
		return v
	}
	return handshake.Verdict{Answer: answer, Since: now}
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
	a.proofs.tried(a.now())
	a.attempt.proof = judge(a.attempt.proof, answerOf(err), a.now())
	if err != nil {
		a.log.Warn("the hub does not accept the new credential yet", "answer", a.attempt.proof.Answer, "error", err)
	}
}
