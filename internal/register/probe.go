package register

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/identity"
	"github.com/fleet-hub/fleet/internal/kube"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/register/hubclient"
	"github.com/fleet-hub/fleet/internal/register/pace"
	"github.com/fleet-hub/fleet/internal/rules/registering"
)

// errAnotherHub means that the server at the address in the bootstrap secret is not proven to be the agent's hub.
var errAnotherHub = errors.New("the server there is not proven to be the agent's hub, so that the stored identity was not sent")

// probe tests the stored identity: at the stored address, at the address in the bootstrap secret, or at both. The
// test that is due first runs.
func (a *agent) probe(ctx context.Context, step registering.Outcome) {
	here, there := a.probes.Until(a.now()), a.moves.Until(a.now())
	if !step.ProbeNewAddress || step.ProbeStored && here <= there {
		a.probeStored(ctx, here)
		refused := a.moved.Answer == registering.Rejected || a.moved.Answer == registering.Untrusted
		if step.Stage == registering.Await && refused && a.answer.Answer == registering.Unanswered && a.documents.Until(a.now()) <= 0 {
			a.documents.Tried(a.now(), nil)
			a.moved, a.attempt = registering.LastAnswer{}, nil // the server at the new address may have just started
		}
		return
	}
	if a.pause(ctx, there) {
		a.probeNewAddress(ctx)
	}
}

// probeStored tests, after a pause, whether the hub accepts the stored identity.
func (a *agent) probeStored(ctx context.Context, after time.Duration) {
	if !a.pause(ctx, after) {
		return
	}
	// An identity without a CA was stored while the system's roots were enough.
	err := fmt.Errorf("using Secret %s: %w", names.Agent, kube.ErrNoCA)
	if a.found.Config.AgentTLSMode != config.TLSModeStrict || len(a.found.Access.CA) > 0 {
		err = a.prove(ctx, a.found.Access, a.found.Identity.DeploymentNamespace)
	}
	if ctx.Err() != nil {
		return // no answer: the context was canceled
	}
	a.probes.Settle(a.now(), err)
	before := a.answer.Answer
	a.answer = a.answer.With(hubclient.AnswerOf(err), a.now())
	if err != nil && before != a.answer.Answer {
		hubclient.LogRefusal(a.log, a.answer.Answer, err)
	}
}

// retestStored tests the stored identity while the agent requests another. It reports whether the answer has changed.
func (a *agent) retestStored(ctx context.Context, step registering.Outcome) bool {
	before := a.answer.Answer
	if step.ProbeStored && a.probes.Until(a.now()) <= 0 {
		a.probeStored(ctx, 0)
	}
	return a.answer.Answer != before
}

// probeNewAddress tests the stored identity at the address in the bootstrap secret.
func (a *agent) probeNewAddress(ctx context.Context) {
	there, serial, err := a.proveAtNewAddress(ctx)
	if ctx.Err() != nil {
		return
	}
	a.moves.Tried(a.now(), err)
	before, answer := a.moved.Answer, hubclient.AnswerOf(err)
	if errors.Is(err, errAnotherHub) {
		answer = registering.Rejected
	}
	a.newAddress, a.newAddressSerial, a.moved = there, serial, a.moved.With(answer, a.now())
	if err != nil && before != a.moved.Answer {
		hubclient.LogRefusal(a.log.With("hub", a.found.Bootstrap.APIServerURL, "secret", a.found.BootstrapSecret.Name), a.moved.Answer, err)
	}
}

// proveAtNewAddress returns the access to the address in the bootstrap secret with the stored identity, the serial of a hub
// document that names this address, and the answer to the identity. The identity is sent only to the agent's own hub. The token
// of the bootstrap secret is for that address anyway.
func (a *agent) proveAtNewAddress(ctx context.Context) (there hubclient.Access, serial int64, err error) {
	bootstrap := a.found.Bootstrap
	there, err = a.trusting(ctx, hubclient.Access{
		Server: bootstrap.APIServerURL, CA: bootstrap.APIServerCA, Token: bootstrap.Token, Namespace: a.found.Access.Namespace,
	}, false)
	if err == nil {
		serial, err = a.proveHub(ctx, there)
	}
	there.Token = a.found.Access.Token
	if err == nil {
		err = a.prove(ctx, there, a.found.Identity.DeploymentNamespace)
	}
	return there, serial, err
}

// proveHub returns no error if the agent's hub answers at another address: the hub document there is signed with the key of that
// hub. Agents of hubs without a document know no such key. Then errAnotherHub only prevents mistakes: another key has signed
// the import token. If the document names the address, its serial is returned, otherwise 0.
func (a *agent) proveHub(ctx context.Context, there hubclient.Access) (serial int64, err error) {
	kept := a.kept.Data
	if kept.HubKey == "" {
		own, other := protocol.SigningKeyOf(a.found.Access.Token), protocol.SigningKeyOf(there.Token)
		if own != "" && other != "" && own != other {
			return 0, fmt.Errorf("%w: its import token is signed with another key", errAnotherHub)
		}
		return 0, nil
	}
	text, err := a.readDocument(ctx, there)
	if apierrors.IsUnauthorized(err) { // the import token may have expired
		if text, err = a.FetchDocument(ctx, there.Server); err != nil {
			return 0, fmt.Errorf("%w: %w", errAnotherHub, err)
		}
	}
	if err != nil {
		return 0, err
	}
	document, err := identity.VerifyDocument(kept.HubKey, text)
	if err == nil {
		err = registering.ProveAddress(registering.DocumentInput{
			Document: document, Serial: kept.Serial, Server: a.found.Access.Server, CA: a.found.Access.CA,
		}, there.Server, there.CA)
	}
	if err != nil {
		return 0, fmt.Errorf("%w: %w", errAnotherHub, err)
	}
	if registering.IsNamed(document, there.Server, there.CA) {
		serial = document.Serial
	}
	return serial, nil
}

// prove asks a hub whether the identity has the rights of an agent.
func (a *agent) prove(ctx context.Context, access hubclient.Access, namespace string) error {
	hub, err := a.Connect(access.Config())
	if err != nil {
		return err
	}
	return hub.Prove(ctx, namespace)
}

// trusting returns the access with the CA that applies in the TLS mode. isKept means that the access has the CA that last
// worked. It is used as it is if the agent's configuration was lost.
func (a *agent) trusting(ctx context.Context, access hubclient.Access, isKept bool) (hubclient.Access, error) {
	if isKept && a.found.Config.AgentTLSMode == "" {
		return access, nil
	}
	trusting, err := kube.WithTLSMode(ctx, access.Config(), a.found.TLSMode())
	if err != nil {
		return hubclient.Access{}, fmt.Errorf("reaching the hub at %s: %w", access.Server, err)
	}
	access.CA = trusting.CAData
	return access, nil
}

// proveCredential asks the hub whether the credential it granted works.
func (a *agent) proveCredential(ctx context.Context, at *attempt) {
	if !a.pause(ctx, a.credentialTests.Until(a.now())) {
		return
	}
	err := a.prove(ctx, at.grantedAccess(), at.Credential.DeploymentNamespace)
	if ctx.Err() != nil {
		return
	}
	a.credentialTests.Tried(a.now(), err)
	at.CredentialAnswer = at.CredentialAnswer.With(hubclient.AnswerOf(err), a.now())
	if at.CredentialAnswer.Answer == registering.Unanswered { // the longer the hub is silent, the less often it is asked
		silent := pace.Jitter(min(a.now().Sub(at.CredentialAnswer.Since), longPause), a.Random)
		a.credentialTests.Schedule(a.now().Add(max(silent, a.credentialTests.Until(a.now()))))
	}
	if err != nil {
		a.log.Warn("the hub does not accept the new credential yet", "answer", at.CredentialAnswer.Answer, "error", err)
	}
}
