package grant_test

import (
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/rules/grant"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

func renews(in *grant.Input) { annotate(in, annotation.AgentRenews, "true") }

func lasts(lifetime time.Duration) func(*grant.Input) {
	return func(in *grant.Input) { in.CredentialLifetime = lifetime }
}

func grantedFor(lifetime string) func(*grant.Input) {
	return func(in *grant.Input) { annotate(in, annotation.LifetimeAtGrant, lifetime) }
}

// tokenRights returns the accounts for which an outcome grants the right to create tokens.
func tokenRights(t *testing.T, out grant.Outcome) (accounts []string) {
	t.Helper()
	for _, child := range out.Children {
		role, ok := child.(*rbacv1.Role)
		if !ok {
			continue
		}
		for _, rule := range role.Rules {
			if len(rule.Resources) == 1 && rule.Resources[0] == "serviceaccounts/token" {
				rulestest.ExpectEqual(t, "verbs", rule.Verbs, []string{"create"})
				rulestest.ExpectEqual(t, "namespace", role.Namespace, rulestest.ACluster().Status.Namespace)
				accounts = append(accounts, rule.ResourceNames...)
			}
		}
	}
	return accounts
}

func TestCredentialLifetime(t *testing.T) {
	type mod = func(*grant.Input)
	own, hub, mine := []string{"request-1-r1"}, agentKey(t), agentKey(t)
	fresh := []mod{with(), found(), asked, requestAccount, requestRights}
	answered := []mod{with(requestGranted, requestNoted("")), named(), found(), asked, requestAccount, requestRights}
	for name, test := range map[string]struct {
		given  []mod
		want   time.Duration
		rights []string
	}{
		"an agent that renews, a day":                    {append(fresh, renews, lasts(24*time.Hour)), 24 * time.Hour, own},
		"an agent that renews, less than the API allows": {append(fresh, renews, lasts(time.Minute)), protocol.MinTokenLifetime, own},
		"an agent that renews, more than the API allows": {append(fresh, renews, lasts(2*protocol.TokenLifetime)), protocol.TokenLifetime, own},
		"an agent that renews, no lifetime":              {append(fresh, renews), protocol.TokenLifetime, nil},
		"an agent that does not renew":                   {append(fresh, lasts(24*time.Hour)), protocol.TokenLifetime, nil},
		"an agent that claims a lifetime":                {append(fresh, grantedFor("1h")), protocol.TokenLifetime, nil},
		"an agent that claims another lifetime":          {append(fresh, renews, lasts(24*time.Hour), grantedFor("8760h")), 24 * time.Hour, own},
		"a recovery that does not announce the renewal":  {append(fresh, pinned(mine), knownTo(hub), recovering(t, hub, mine), lasts(24*time.Hour)), 24 * time.Hour, own},
		"granted for an hour, a day now":                 {append(answered, renews, grantedFor("1h"), lasts(24*time.Hour)), time.Hour, own},
		"granted for an hour, no lifetime now":           {append(answered, renews, grantedFor("1h")), time.Hour, own},
		"granted without a lifetime, a day now":          {append(answered, renews, lasts(24*time.Hour)), protocol.TokenLifetime, nil},
		"granted, the record was damaged":                {append(answered, renews, grantedFor("soon")), protocol.TokenLifetime, nil},
	} {
		t.Run(name, func(t *testing.T) {
			out := rulestest.Pure(t, grant.Decide, grantInput(test.given...))
			rulestest.ExpectEqual(t, "stage", out.Stage, grant.Minting)
			rulestest.ExpectEqual(t, "lifetime", out.Mint.Lifetime, test.want)
			rulestest.ExpectEqual(t, "renewed", out.Mint.Renewed, test.rights != nil)
			rulestest.ExpectEqual(t, "rights", tokenRights(t, out), test.rights)
		})
	}
}

// An answer that has expired is not given again if its agent uses the credential, which it has renewed.
func TestExpiredAnswer_IsGivenAgainOnlyIfUnused(t *testing.T) {
	expired := credential(rulestest.BoundJWT("account-1", rulestest.Noon().Add(-time.Second)))
	for name, test := range map[string]struct {
		seen time.Duration
		want grant.Stage
	}{
		"used":   {time.Minute, grant.Done},
		"unused": {0, grant.Minting},
	} {
		t.Run(name, func(t *testing.T) {
			in := grantInput(with(requestGranted, requestNoted("")), asked, requestAccount, requestRights, grantedFor("10m0s"), expired)
			in.Named = rulestest.ACluster()
			if test.seen > 0 {
				in.Named = rulestest.ACluster(rulestest.ClusterSeen(rulestest.At(-test.seen)))
			}
			in.Clusters = []*fleet.Cluster{in.Named}
			rulestest.ExpectEqual(t, "stage", rulestest.Pure(t, grant.Decide, in).Stage, test.want)
		})
	}
}
