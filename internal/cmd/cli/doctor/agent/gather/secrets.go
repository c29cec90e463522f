package gather

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/agent"
	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/check"
	kubeconfigs "github.com/fleet-hub/fleet/internal/kube/kubeconfig"
	"github.com/fleet-hub/fleet/internal/protocol"
)

// readCredential returns what the checks need of Secret fleet-agent, and its token.
func readCredential(secret *corev1.Secret) (c agent.Credential, token string) {
	if secret == nil {
		return agent.Credential{}, ""
	}
	c.Exists = true
	identity, err := protocol.ParseIdentity(secret.Data)
	if err != nil {
		c.Err = err
		return c, ""
	}
	c.Cluster = types.NamespacedName{Namespace: identity.ClusterNamespace, Name: identity.ClusterName}
	c.ClusterNamespace = identity.DeploymentNamespace
	if len(identity.Kubeconfig) > check.MaxKubeconfig {
		c.Err = kubeconfigs.ErrKubeconfigMalformed
		return c, ""
	}
	cfg, err := kubeconfigs.Safe(identity.Kubeconfig)
	if err != nil {
		c.Err = err
		return c, ""
	}
	c.Server, c.CA = cfg.Host, cfg.CAData
	if cfg.BearerToken == "" || len(cfg.BearerToken) > check.MaxToken {
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
func readBootstrap(secret *corev1.Secret) agent.Bootstrap {
	if secret == nil {
		return agent.Bootstrap{}
	}
	b := agent.Bootstrap{Exists: true, Since: lastChange(secret)}
	parsed, err := protocol.ParseBootstrap(secret.Data)
	if err != nil {
		b.Err = err
		return b
	}
	b.Server, b.Workspace = parsed.APIServerURL, parsed.ClusterNamespace
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
