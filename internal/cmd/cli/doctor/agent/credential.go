package agent

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/check"
	kubeconfigs "github.com/fleet-hub/fleet/internal/kube/kubeconfig"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

const (
	// bootstrapPatience is how long a registration may take.
	bootstrapPatience = 5 * time.Minute
	// expiryWarning is when a credential counts as one that expires soon.
	expiryWarning = 14 * 24 * time.Hour
	// maxKubeconfig and maxToken limit what is parsed, in bytes.
	maxKubeconfig = 256 << 10
	maxToken      = 16 << 10
)

// credentialChecks returns the checks of the agent's Secrets and its ConfigMap.
func credentialChecks() []check.Check[*Facts] {
	return []check.Check[*Facts]{
		{
			ID: "agent-settings", Needs: sources(sourcePlace, sourceSettings), Judge: checkSettings,
			About:     "ConfigMap `fleet-agent` can be read.",
			Otherwise: "The agent works with its defaults, and may lose its client ID. Upgrade the agent with valid values, or let the hub write the ConfigMap again.",
		},
		{
			ID: "agent-credential", Needs: sources(sourcePlace, sourceCredential, sourceBootstrap), Judge: checkCredential,
			About:     "Secret `fleet-agent` has a complete credential.",
			Otherwise: "The agent has no identity at the hub, and waits for a bootstrap secret. [recovery.md](recovery.md#when-an-identity-is-lost)",
		},
		{
			ID: "agent-credential-expiry", Needs: sources(sourceCredential), Judge: checkCredentialExpiry,
			About:     "The agent's token does not expire within 14 days.",
			Otherwise: "The hub gives tokens of 136 years. The API server of the hub limits that with `--service-account-max-token-expiration`. Let the agent register again before the token expires.",
		},
		{
			ID: "agent-bootstrap", Needs: sources(sourceCredential, sourceBootstrap), Judge: checkBootstrap,
			About:     "Secret `fleet-agent-bootstrap` is deleted after the registration.",
			Otherwise: "The agent deletes the Secret when it has registered. One that stays belongs to a registration that the hub does not grant, or to another hub, or no agent runs.",
		},
	}
}

// readCredential returns what the checks need of Secret fleet-agent, and its token.
func readCredential(secret *corev1.Secret) (c Credential, token string) {
	if secret == nil {
		return Credential{}, ""
	}
	c.Exists = true
	identity, err := protocol.ParseIdentity(secret.Data)
	if err != nil {
		c.Err = err
		return c, ""
	}
	c.Cluster = types.NamespacedName{Namespace: identity.ClusterNamespace, Name: identity.ClusterName}
	c.ClusterNamespace = identity.DeploymentNamespace
	if len(identity.Kubeconfig) > maxKubeconfig {
		c.Err = kubeconfigs.ErrKubeconfigMalformed
		return c, ""
	}
	cfg, err := kubeconfigs.Safe(identity.Kubeconfig)
	if err != nil {
		c.Err = err
		return c, ""
	}
	c.Server, c.CA = cfg.Host, cfg.CAData
	if cfg.BearerToken == "" || len(cfg.BearerToken) > maxToken {
		c.Err = fmt.Errorf("%w: it contains no token", kubeconfigs.ErrKubeconfigMalformed)
		return c, ""
	}
	if parsed, err := protocol.ParseAccountToken(cfg.BearerToken); err == nil {
		c.Account, c.Expires = parsed.AccountUID, parsed.Expires
	}
	if renewal, expires := protocol.RenewalOf(cfg.BearerToken); expires {
		c.Lifetime = renewal.Lifetime
	}
	return c, cfg.BearerToken
}

// readBootstrap returns what the checks need of Secret fleet-agent-bootstrap.
func readBootstrap(secret *corev1.Secret) Bootstrap {
	if secret == nil {
		return Bootstrap{}
	}
	b := Bootstrap{Exists: true, Since: lastChange(secret)}
	parsed, err := protocol.ParseBootstrap(secret.Data)
	if err != nil {
		b.Err = err
		return b
	}
	b.Server, b.CA, b.Workspace = parsed.APIServerURL, parsed.APIServerCA, parsed.ClusterNamespace
	return b
}

// lastChange returns when an object was written last.
func lastChange(secret *corev1.Secret) time.Time {
	last := secret.CreationTimestamp.Time
	for _, entry := range secret.ManagedFields {
		if entry.Time != nil && entry.Time.After(last) {
			last = entry.Time.Time
		}
	}
	return last
}

func checkSettings(f *Facts) []check.Row {
	target := check.Object{Kind: "ConfigMap", Namespace: f.Namespace, Name: names.Agent}
	switch {
	case f.Place == nil, !f.Settings.Exists && f.Deployment == nil:
		return nil // there is no agent
	case !f.Settings.Exists:
		return []check.Row{check.Warn(target, "the ConfigMap does not exist: the agent uses its defaults, and the cluster's UID as its client ID", f.repair())}
	case f.Settings.Err != nil:
		return []check.Row{check.Fail(target, f.Settings.Err.Error(), f.repair())}
	}
	return nil
}

func checkCredential(f *Facts) []check.Row {
	target := f.secret(names.Agent)
	switch {
	case f.Place == nil:
		return nil
	case !f.Credential.Exists && f.Bootstrap.Exists && f.Bootstrap.Err == nil:
		if age := f.Now.Sub(f.Bootstrap.Since); age > bootstrapPatience {
			return []check.Row{check.Fail(target, fmt.Sprintf("the agent has no credential %s after it got its bootstrap secret: its log says what it waits for",
				duration.HumanDuration(age)), f.logs())}
		}
		return []check.Row{check.Warn(target, "the agent is being registered and has no credential yet", f.logs())}
	case !f.Credential.Exists:
		return []check.Row{check.Fail(target, "the agent has neither a credential nor a usable bootstrap secret: it cannot reach the hub", f.repair())}
	case f.Credential.Err != nil:
		return []check.Row{check.Fail(target, "the credential cannot be used: "+f.Credential.Err.Error(), f.repair())}
	}
	return []check.Row{check.Ok(target, fmt.Sprintf("of Cluster %s at %s", f.Credential.Cluster, f.Credential.Server))}
}

// checkCredentialExpiry warns of a token that should have been renewed: agents renew it before 75 % of its lifetime.
func checkCredentialExpiry(f *Facts) []check.Row {
	expires, soon := f.Credential.Expires, expiryWarning
	if lifetime := f.Credential.Lifetime; lifetime > 0 {
		soon = min(soon, lifetime/5)
	}
	if !f.Credential.Usable() || expires.IsZero() {
		return nil
	}
	switch left := expires.Sub(f.Now); {
	case left <= 0:
		return []check.Row{check.Fail(f.secret(names.Agent), "the token expired on "+expires.UTC().Format(time.DateOnly), f.repair())}
	case left < soon:
		return []check.Row{check.Warn(f.secret(names.Agent), "the token expires in "+duration.HumanDuration(left), f.repair())}
	}
	return nil
}

func checkBootstrap(f *Facts) []check.Row {
	b, target := f.Bootstrap, f.secret(names.AgentBootstrap)
	if !b.Exists {
		return nil
	}
	drop := f.onCluster("kubectl", "delete", "secret", "-n", f.Namespace, names.AgentBootstrap)
	age := f.Now.Sub(b.Since)
	switch {
	case b.Err != nil && f.Credential.Usable():
		return []check.Row{check.Warn(target, "the bootstrap secret cannot be used: "+b.Err.Error(), drop)}
	case b.Err != nil:
		return []check.Row{check.Fail(target, "the bootstrap secret cannot be used: "+b.Err.Error(), f.repair())}
	case !f.Credential.Usable(), age < bootstrapPatience: // check agent-credential reports it
		return []check.Row{check.Ok(target, "written "+duration.HumanDuration(age)+" ago for "+b.Server)}
	case !sameServer(b.Server, f.Credential.Server):
		return []check.Row{check.Warn(target, fmt.Sprintf("the agent uses %s, and was told to move to %s %s ago: that hub does not answer or does not grant the registration",
			f.Credential.Server, b.Server, duration.HumanDuration(age)), f.logs())}
	}
	return []check.Row{check.Warn(target, fmt.Sprintf("the agent has a credential, and its bootstrap secret still exists after %s", duration.HumanDuration(age)), drop)}
}

// sameServer reports whether two addresses are equal, apart from a slash at the end.
func sameServer(a, b string) bool { return strings.TrimSuffix(a, "/") == strings.TrimSuffix(b, "/") }
