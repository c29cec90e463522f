package register

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/identity"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/register/recovery"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

// loadKept reads the recovery Secret, and creates a missing one. If that fails, the agent works without it. It does
// not use data of an earlier hub that it could not replace.
func (a *agent) loadKept(ctx context.Context) error {
	key, data, err := a.keeper.Load(ctx)
	if err != nil {
		return err
	}
	if a.unkept != nil {
		data = *a.unkept
	}
	a.setKept(recovery.Kept{Key: key, Data: data})
	a.keepAgain(ctx)
	return nil
}

// setKept replaces what the agent knows. A recovery with other data starts over.
func (a *agent) setKept(now recovery.Kept) {
	before, _ := a.kept.Data.Access()
	after, _ := now.Data.Access()
	if before.Token != after.Token || before.APIServerURL != after.APIServerURL || string(before.APIServerCA) != string(after.APIServerCA) {
		a.recovering = nil
		a.recoveries.Reset()
	}
	a.kept = now
	a.reported.Store(&fleet.AgentStatus{RecoveryKey: now.Key.Public(), RecoveryTicket: now.Receipt(), HubSerial: now.Data.Serial})
}

// keep stores the data in the recovery Secret if it has changed.
func (a *agent) keep(ctx context.Context, data protocol.RecoveryData) error {
	if a.kept.Key.Public() == "" {
		if err := a.loadKept(ctx); err != nil {
			return err
		}
	}
	err := a.keeper.Save(context.WithoutCancel(ctx), a.kept.Key, data)
	if err == nil {
		a.unkept = nil
		a.setKept(recovery.Kept{Key: a.kept.Key, Data: data})
	}
	return err
}

// keepAgain tries again to store what the hub gave together with the identity.
func (a *agent) keepAgain(ctx context.Context) {
	if a.unkept != nil {
		a.warnUnlessKept(a.keep(ctx, *a.unkept))
	}
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
		a.log.Warn("the agent's recovery key cannot be stored, so the request is not signed; if the hub has a key for this cluster, the request waits until you run on the hub: fleet confirm-takeover CLUSTER REQUEST -n WORKSPACE",
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
	proof, err := a.kept.Key.Prove(claims)
	if err != nil {
		return fmt.Errorf("signing the request: %w", err)
	}
	metav1.SetMetaDataAnnotation(&request.ObjectMeta, annotation.AgentKey, a.kept.Key.Public())
	metav1.SetMetaDataAnnotation(&request.ObjectMeta, annotation.AgentProof, proof)
	return nil
}
