package register

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/identity"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/register/hubclient"
	"github.com/fleet-hub/fleet/internal/rules/registering"
)

// refreshDocument reads the hub document over the verified connection. A hub without one, or one that does not show
// it, is no error.
func (a *agent) refreshDocument(ctx context.Context) error {
	if a.kept.Data.HubKey == "" {
		return nil
	}
	text := a.renewal.document
	a.renewal.document = ""
	if text == "" {
		var err error
		if text, err = a.readDocument(ctx, a.found.Access); err != nil || text == "" {
			return err
		}
	}
	return a.takeDocument(ctx, text, true)
}

// readDocument returns the hub document that a hub shows to an identity, or "" if it shows none.
func (a *agent) readDocument(ctx context.Context, at hubclient.Access) (string, error) {
	hub, err := a.Connect(at.Config())
	if err != nil {
		return "", err
	}
	text, err := hub.Document(ctx)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("reading the hub document: %w", err)
	}
	return text, nil
}

// consultDocument looks for another address, CA or recovery token in a hub document, when the hub rejects every token
// or is not trusted. Afterwards the recovery token and the bootstrap token are tried again.
func (a *agent) consultDocument(ctx context.Context, step registering.Outcome) {
	due := a.documents.Until(a.now())
	if probe := a.probes.Until(a.now()); step.ProbeStored && probe < due {
		a.probeStored(ctx, probe)
		return
	}
	if !a.pause(ctx, due) {
		return
	}
	before, answer := a.kept.Data, a.answer
	err := a.fetchDocument(ctx)
	if ctx.Err() != nil {
		return
	}
	if err == nil && a.answer == answer && reflect.DeepEqual(before.Encode(), a.kept.Data.Encode()) {
		err = errors.New("the hub document has no other address, CA or recovery token")
	}
	a.documents.Tried(a.now(), err)
	a.attempt, a.recovering = nil, nil
	if err != nil {
		a.log.Warn("the hub accepts neither the agent's credential nor its recovery token, trying again; to register the agent again, run on the hub: fleet repair CLUSTER -n WORKSPACE", "error", err)
	}
}

// fetchDocument reads the hub document without a credential, at each address that the agent knows.
func (a *agent) fetchDocument(ctx context.Context) error {
	servers := []string{a.kept.Data.APIServerURL}
	if stored := a.found.Access.Server; a.found.Identity != nil && stored != servers[0] {
		servers = append(servers, stored)
	}
	var failed []error
	for _, server := range servers {
		text, err := a.FetchDocument(ctx, server)
		if err == nil {
			err = a.takeDocument(ctx, text, false)
		}
		if err == nil {
			return nil
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// takeDocument stores what is new in a hub document: the recovery token and spread, and the address and the CA after a test. It
// accepts only the hub key that the agent has. works means that the hub accepts the agent at its current address.
func (a *agent) takeDocument(ctx context.Context, text string, works bool) error {
	data := a.kept.Data
	document, err := identity.VerifyDocument(data.HubKey, text)
	if err != nil {
		return err
	}
	current := a.currentAccess()
	test, err := registering.UseDocument(registering.DocumentInput{
		Document: document, Serial: data.Serial, Server: current.Server, CA: current.CA,
		SystemStore: a.found.Config.AgentTLSMode == config.TLSModeSystemStore, Works: works,
	})
	if err != nil {
		return err
	}
	if token, err := document.Token(data.WorkspaceKey); err == nil {
		if _, err := protocol.ParseAccountToken(token); err == nil {
			data.Token = token
		}
	}
	data.RecoverySpread = document.RecoverySpread
	var failed error
	if test {
		current, failed = a.moveTo(ctx, current, document)
	}
	if failed == nil {
		data.APIServerURL, data.APIServerCA, data.Serial = current.Server, current.CA, document.Serial
	}
	if reflect.DeepEqual(data.Encode(), a.kept.Data.Encode()) {
		return failed
	}
	return errors.Join(failed, a.keep(ctx, data))
}

// currentAccess returns the access of the stored identity, or else that of the recovery token.
func (a *agent) currentAccess() hubclient.Access {
	if a.found.Identity != nil {
		return a.found.Access
	}
	data := a.kept.Data
	return hubclient.Access{Server: data.APIServerURL, CA: data.APIServerCA, Token: data.Token, Namespace: data.ClusterNamespace}
}

// moveTo tests the address and the CA of a hub document. If the hub accepts the stored identity there, they are stored
// with it. A hub that answers, but rejects the identity, is the place for a recovery request.
func (a *agent) moveTo(ctx context.Context, from hubclient.Access, document identity.Document) (hubclient.Access, error) {
	to := from
	to.Server, to.CA = document.URL, document.CA
	there, err := a.trusting(ctx, to, true)
	if err != nil {
		return from, err
	}
	err = a.prove(ctx, there, from.Namespace)
	switch answer := hubclient.AnswerOf(err); {
	case answer == registering.Accepted && a.found.Identity != nil:
		if err := a.write(ctx, a.found.IdentitySecret, there, *a.found.Identity); err != nil {
			return from, err
		}
		a.log.Info("using the address and CA of the hub document from now on; the identity stays the same", "hub", there.Server)
		return there, nil
	case answer == registering.Accepted, answer == registering.Rejected:
		return there, nil
	}
	return from, fmt.Errorf("no hub that this CA verifies answers at the address of the hub document %s: %w", document.URL, err)
}
