package register

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/identity"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/register/recovery"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

// loadKept reads the recovery Secret, and creates a missing one. If that fails, the agent works without it.
func (a *agent) loadKept(ctx context.Context) error {
	key, data, err := a.keeper.Load(ctx)
	if err == nil {
		a.setKept(kept{key, data})
	}
	return err
}

// setKept replaces what the agent knows. A recovery with other data starts over.
func (a *agent) setKept(now kept) {
	before, _ := a.kept.data.Access()
	after, _ := now.data.Access()
	if before.Token != after.Token || before.APIServerURL != after.APIServerURL || string(before.APIServerCA) != string(after.APIServerCA) {
		a.recovering = nil
		a.recoveries.Reset()
	}
	a.kept = now
	a.reported.Store(&fleet.AgentStatus{RecoveryKey: now.key.Public(), RecoveryTicket: now.receipt(), HubSerial: now.data.Serial})
}

// receipt returns the receipt of the recovery data, or "" if a recovery with them is not possible.
func (k kept) receipt() string {
	ticket, err := identity.VerifyTicket(k.data.HubKey, k.data.Ticket)
	if _, isComplete := k.data.Access(); err != nil || !isComplete {
		return ""
	}
	return identity.Receipt(k.data.HubKey, k.data.Token, k.data.WorkspaceKey, ticket)
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

// documentOf returns the serial and the recovery spread of the last hub document, if it was signed with this key.
func (k kept) documentOf(hubKey string) (serial int64, spread time.Duration) {
	if k.data.HubKey != hubKey {
		return 0, 0
	}
	return k.data.Serial, k.data.RecoverySpread
}

// keep stores the data in the recovery Secret if it has changed.
func (a *agent) keep(ctx context.Context, data protocol.RecoveryData) error {
	if a.kept.key.Public() == "" {
		if err := a.loadKept(ctx); err != nil {
			return err
		}
	}
	err := a.keeper.Save(context.WithoutCancel(ctx), a.kept.key, data)
	if err == nil {
		a.setKept(kept{a.kept.key, data})
	}
	return err
}

// sign adds the agent's public key and a proof to a request, for the account of the token that it is made with. A token
// that names no account cannot be signed for. hub is the hub's public key if it is known. If the agent may store a key
// nowhere, the request is sent without one: the hub then decides by its token, as for agents of earlier releases.
func (a *agent) sign(ctx context.Context, request *fleet.ClusterRegistration, token, hub string) error {
	account, err := protocol.ParseAccountToken(token)
	if err != nil {
		return nil //nolint:nilerr // no account token: the hub may use other tokens
	}
	err = a.loadKept(ctx)
	if recovery.IsUnstorable(err) {
		a.log.Warn("the agent's recovery key cannot be stored, so the request is not signed; if the hub has a key for this cluster, the request waits for: fleet confirm-takeover",
			"secret", names.RecoverySecret(a.Namespace), "error", err)
		return nil
	}
	if err != nil {
		return err
	}
	claims := identity.Claims{ClientID: request.Spec.ClientID, ClientRandom: request.Spec.ClientRandom, Account: account.AccountUID}
	if hub != "" {
		claims.Hub = identity.Thumbprint(hub)
	}
	proof, err := a.kept.key.Prove(claims)
	if err != nil {
		return fmt.Errorf("signing the request: %w", err)
	}
	metav1.SetMetaDataAnnotation(&request.ObjectMeta, annotation.AgentKey, a.kept.key.Public())
	metav1.SetMetaDataAnnotation(&request.ObjectMeta, annotation.AgentProof, proof)
	return nil
}
