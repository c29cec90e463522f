package register

import (
	"context"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/fleet-hub/fleet/internal/identity"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/register/hubclient"
	"github.com/fleet-hub/fleet/internal/register/pace"
)

// A token that expires is renewed at a random point between renewFrom and renewUntil of its lifetime, in percent. The
// lifetime is known from the token; its age is measured by this process, so that no two clocks are compared. A token from
// before the start of the process may already have passed renewUntil, so it is renewed within startUntil percent more. The
// chance is the same at each moment after the start: an agent that is restarted often renews about once in startUntil percent
// of uptime, in time and at most ten times in a lifetime on average.
const (
	renewFrom  = 50
	renewUntil = 75
	startUntil = 10
)

// renewalDue returns the time to the next renewal. It never comes if the token in use does not expire.
func (a *agent) renewalDue() time.Duration {
	token := a.found.Access.Token
	of, expires := protocol.RenewalOf(token)
	if !expires {
		return math.MaxInt64
	}
	if a.renewal.token != token {
		a.renewal = renewal{token: token, due: a.now().Add(renewIn(of.Lifetime, a.obtained == token, a.Random))}
	}
	return max(a.renewal.due.Sub(a.now()), a.tokens.Until(a.now()))
}

// renewIn returns the time from now to the renewal of a token.
func renewIn(lifetime time.Duration, isNew bool, random io.Reader) time.Duration {
	from, until := renewFrom, renewUntil
	if !isNew {
		from, until = 0, startUntil
	}
	return lifetime/100*time.Duration(from) + lifetime/100*time.Duration(until-from)/65536*time.Duration(pace.FineChance(random))
}

// renew replaces the token in use by a new one of the same account, which the hub has accepted. The work continues with it
// and is not restarted. It does not wait until the token is stored. renew reports whether it succeeded.
func (a *agent) renew(ctx context.Context) bool {
	err := a.renewToken(ctx)
	if ctx.Err() != nil {
		return false
	}
	if a.tokens.Settle(a.now(), err); err != nil {
		a.log.Warn("renewing the agent's token failed, trying again", "error", err)
		return false
	}
	a.log.Info("token renewed")
	a.storeRenewed(ctx)
	return true
}

func (a *agent) renewToken(ctx context.Context) error {
	of, _ := protocol.RenewalOf(a.found.Access.Token)
	current, err := a.Connect(a.found.Access.Config())
	if err != nil {
		return err
	}
	token, err := hubclient.RequestToken(ctx, current, of, a.lifetimeWanted(ctx, of.Lifetime))
	if err != nil {
		return fmt.Errorf("requesting a token of account %s/%s: %w", of.Namespace, of.Account, err)
	}
	access := a.found.Access
	access.Token = token
	if err := a.prove(ctx, access, a.found.Identity.DeploymentNamespace); err != nil {
		return fmt.Errorf("testing the new token: %w", err)
	}
	a.found.Access, a.obtained, a.outdated = access, token, a.found.IdentityKey()
	a.serving.token.Store(&token)
	if a.OnRenew != nil {
		a.OnRenew(token)
	}
	return nil
}

// isUnstored reports whether the token in use is not stored yet. Until then, the stored one is used after a restart.
func (a *agent) isUnstored() bool {
	return a.found.Identity != nil && a.found.IdentityKey() == a.outdated
}

// storeRenewed stores the token in use. If that fails, attendUntilRenewal tries again.
func (a *agent) storeRenewed(ctx context.Context) {
	if a.write(ctx, a.found.Access, *a.found.Identity) == nil {
		a.serving.key = a.found.IdentityKey()
	}
}

// lifetimeWanted returns the lifetime of credentials in the hub document. It returns the current one if the agent accepts no
// document. What it has read is left to the refresh that follows.
func (a *agent) lifetimeWanted(ctx context.Context, current time.Duration) time.Duration {
	if a.kept.data.HubKey == "" {
		return current
	}
	text, err := a.readDocument(ctx, a.found.Access)
	if err != nil {
		return current
	}
	document, err := identity.VerifyDocument(a.kept.data.HubKey, text)
	if err != nil || document.Serial < a.kept.data.Serial {
		return current
	}
	a.renewal.document = text
	if document.Lifetime == 0 { // credentials do not expire
		return protocol.TokenLifetime
	}
	return document.Lifetime
}
