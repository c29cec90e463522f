package grant

import (
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/objects"
	"github.com/fleet-hub/fleet/internal/rules/requests"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

// lifetimeOf returns the lifetime of a request's credential, or 0 if it does not expire. Only an agent that announces
// that it renews its token gets one that expires. An agent that recovers always renews, and its proof does not cover the
// announcement. When the request is answered, the recorded lifetime counts: the agent needs its right to renew whatever the
// configuration becomes.
func lifetimeOf(in Input) time.Duration {
	if isAnswered(in) {
		recorded, err := time.ParseDuration(in.Request.Annotations[annotation.LifetimeAtGrant])
		if err != nil || recorded < protocol.MinTokenLifetime {
			return 0
		}
		return min(recorded, protocol.TokenLifetime)
	}
	renews := in.Request.Annotations[annotation.AgentRenews] == "true" || requests.IsRecovery(in.Request)
	if in.CredentialLifetime <= 0 || !renews {
		return 0
	}
	return min(max(in.CredentialLifetime, protocol.MinTokenLifetime), protocol.TokenLifetime)
}

// lifetimeText returns the lifetime to record.
func lifetimeText(in Input) string {
	if isAnswered(in) {
		return in.Request.Annotations[annotation.LifetimeAtGrant]
	}
	if lifetime := lifetimeOf(in); lifetime > 0 {
		return lifetime.String()
	}
	return ""
}

// renewalRights returns the right of an agent's account to create tokens for itself, and for no other account, if its
// credential expires.
func renewalRights(in Input, account types.NamespacedName) []runtime.Object {
	if lifetimeOf(in) == 0 {
		return nil
	}
	name := names.SafeConcat(account.Name, "renew")
	return []runtime.Object{
		objects.RoleOf(objects.Managed(account.Namespace, name), rbacv1.PolicyRule{
			APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, ResourceNames: []string{account.Name}, Verbs: []string{"create"},
		}),
		objects.BindingOf(objects.Managed(account.Namespace, name), "Role", name, objects.Subject(account.Namespace, account.Name)),
	}
}

// hasExpired reports whether a token of the account has expired.
func hasExpired(token, accountUID string, now time.Time) bool {
	parsed, err := protocol.ParseAccountToken(token)
	return err == nil && parsed.AccountUID == accountUID && !parsed.Expires.IsZero() && !parsed.Expires.After(now)
}
