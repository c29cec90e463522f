package register

import (
	"cmp"
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/fleet-hub/fleet/internal/identity"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/register/hubclient"
	"github.com/fleet-hub/fleet/internal/register/pace"
	"github.com/fleet-hub/fleet/internal/rules/registering"
)

// keepToken stores a renewed token or renews the token in use, whichever is due. Run calls it before each step, and each wait ends
// when it is due: whatever the agent waits for, its token must not expire. After a renewal it reads what the hub has for a recovery.
func (a *agent) keepToken(ctx context.Context) {
	switch {
	case a.tokenDue() > 0:
	case a.isUnstored() && a.writes.Until(a.now()) <= 0:
		a.storeRenewed(ctx)
	case a.renew(ctx):
		a.refresh(ctx)
	}
}

// renew replaces the token in use by a new one of the same account, which the hub has accepted. The work continues with it
// and is not restarted. It does not wait until the token is stored. renew reports whether it succeeded.
func (a *agent) renew(ctx context.Context) bool {
	err := a.renewToken(ctx)
	if ctx.Err() != nil {
		return false
	}
	if a.renewals.Settle(a.now(), err); err != nil {
		of, _ := protocol.RenewalOf(a.found.Access.Token) // a short token must not expire during the pause
		a.renewals.Schedule(a.now().Add(min(a.renewals.Until(a.now()), pace.Jitter(of.Lifetime/20, a.Random))))
		a.log.Warn("renewing the agent's token failed, trying again", "error", err)
		if apierrors.IsUnauthorized(err) { // the token in use may have expired
			a.answer, a.current = registering.LastAnswer{}, false
		}
		return false
	}
	a.log.Info("token renewed")
	if a.writes.Until(a.now()) <= 0 {
		a.storeRenewed(ctx)
	}
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

// storeRenewed stores the token in use. If that fails, keepToken tries again.
func (a *agent) storeRenewed(ctx context.Context) {
	serves := a.isServing() // not if a hub document has moved the identity: then the work restarts at the new address
	if a.write(ctx, a.found.IdentitySecret, a.found.Access, *a.found.Identity) == nil && serves {
		a.serving.key = a.found.IdentityKey()
	}
}

// lifetimeWanted returns the lifetime of credentials in the hub document. It returns the current one if the agent accepts no
// document. What it has read is left to the refresh that follows.
func (a *agent) lifetimeWanted(ctx context.Context, current time.Duration) time.Duration {
	if a.kept.Data.HubKey == "" {
		return current
	}
	text, err := a.readDocument(ctx, a.found.Access)
	if err != nil {
		return current
	}
	document, err := identity.VerifyDocument(a.kept.Data.HubKey, text)
	if err != nil || document.Serial < a.kept.Data.Serial {
		return current
	}
	a.renewal.document = text
	return cmp.Or(document.Lifetime, protocol.TokenLifetime) // 0 means that credentials do not expire
}
