package register

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/fleet-hub/fleet/internal/identity"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/register/pace"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// refresh reads what the hub has for a recovery of this agent. A hub that has nothing is asked ever more rarely.
func (a *agent) refresh(ctx context.Context) {
	a.keepAgain(ctx)
	err, unread := a.refreshRecovery(ctx), a.refreshDocument(ctx)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		a.log.Debug("reading what the agent needs to return after a loss failed", "error", err)
	}
	if unread != nil {
		a.log.Warn("the hub document cannot be used, trying again", "error", unread)
	}
	if err = errors.Join(err, unread); err != nil {
		a.refreshes.Tried(a.now(), err)
		return
	}
	a.refreshDaily()
}

// refreshDaily makes the next refresh due in a day. A token that lasts a day is renewed before that, and each renewal refreshes.
func (a *agent) refreshDaily() {
	a.refreshes.Reset()
	a.refreshes.Schedule(a.now().Add(pace.Spread(longRefreshPause, a.Random)))
}

// refreshRecovery merges the Secret with the hub's answer to the agent's key into the recovery Secret. Only here and
// with a credential, a new key of the hub is accepted: the hub's certificate was verified.
func (a *agent) refreshRecovery(ctx context.Context) error {
	namespace := a.found.Identity.DeploymentNamespace
	hub, err := a.Connect(a.found.Access.Config())
	if err != nil {
		return err
	}
	secret, err := hub.Credential(ctx, namespace, names.Recovery)
	if err != nil && (!apierrors.IsNotFound(err) || a.kept.Receipt() == "") {
		return fmt.Errorf("reading Secret %s/%s: %w", namespace, names.Recovery, err)
	}
	given, all := a.kept.Data.Recovery, a.kept.Data // if the hub has nothing newer
	if err == nil {
		if secret.Type != protocol.SecretTypeRecovery {
			err = fmt.Errorf("its type is %q, not %q. To delete it, run on the hub: kubectl delete secret -n %s %s", secret.Type, protocol.SecretTypeRecovery, namespace, names.Recovery)
			a.log.Warn("a Secret on the hub has the name of the hub's recovery data, so that the agent may not return by itself after a loss", "secret", namespace+"/"+names.Recovery, "error", err)
			return err
		}
		if given, err = protocol.ParseRecovery(secret.Data); err != nil {
			return err
		}
		all = protocol.ParseRecoveryData(secret.Data)
	}
	err = a.keep(ctx, a.merged(given, all))
	a.warnUnlessKept(err)
	return err
}

// merged returns the data of the recovery Secret with what the hub gave. The address and the CA are those in use.
func (a *agent) merged(given protocol.Recovery, all protocol.RecoveryData) protocol.RecoveryData {
	access, data := a.found.Access, a.kept.Data
	data.Serial, data.RecoverySpread = a.kept.DocumentOf(given.HubKey)
	data.Recovery = given
	data.APIServerURL, data.APIServerCA = access.Server, access.CA
	data.ClusterNamespace = a.found.Identity.ClusterNamespace
	data.SystemRegistrationNamespace = cmp.Or(
		all.SystemRegistrationNamespace, data.SystemRegistrationNamespace, names.RegistrationNamespace(names.SystemNamespace))
	if ticket, err := identity.VerifyTicket(given.HubKey, given.Ticket); err == nil {
		data.ClientID = ticket.ClientID
	}
	return data
}

// keepGranted stores what the hub gave together with the credential. A hub that gave nothing must not be left for an
// earlier one, so that what that one gave is removed.
func (a *agent) keepGranted(ctx context.Context, at *attempt) {
	data := protocol.RecoveryData{}
	if at.granted.Token != "" {
		data = protocol.RecoveryData{
			Recovery:     at.granted,
			APIServerURL: at.access.Server, APIServerCA: at.access.CA,
			ClusterNamespace:            at.bootstrap.ClusterNamespace,
			SystemRegistrationNamespace: at.bootstrap.SystemRegistrationNamespace,
			ClientID:                    at.Request.ClientID,
		}
		data.Serial, data.RecoverySpread = a.kept.DocumentOf(at.granted.HubKey)
		a.refreshDaily()
	}
	err := a.keep(ctx, data)
	a.warnUnlessKept(err)
	if err != nil {
		a.unkept, a.kept.Data = &data, data
		a.reported.Store(&fleet.AgentStatus{RecoveryKey: a.kept.Key.Public()}) // what another hub gave counts no longer
		a.refreshes.Reset()                                                    // the first refresh stores it
	}
}

func (a *agent) warnUnlessKept(err error) {
	if err != nil {
		a.log.Warn("storing what the agent needs to return after a loss failed, trying again", "secret", a.keeper.Name(), "error", err)
	}
}
