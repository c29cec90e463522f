package stored

import (
	"crypto/sha256"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/kube"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/register/hubclient"
)

// Objects are the agent's three objects, as one Read found them.
type Objects struct {
	BootstrapSecret *corev1.Secret // nil if it does not exist
	Bootstrap       *protocol.Bootstrap
	BootstrapErr    error

	IdentitySecret *corev1.Secret     // nil if it does not exist
	Identity       *protocol.Identity // nil if it is missing or cannot be parsed
	IdentityErr    error
	Access         hubclient.Access // of the identity

	Config    config.Agent
	ConfigErr error

	versions versions // of the objects that exist
}

// HasIdentityOf reports whether both have the same identity.
func (o *Objects) HasIdentityOf(other *Objects) bool { return sameIdentity(o.Identity, other.Identity) }

// HasBootstrapOf reports whether both have the same version of the bootstrap secret.
func (o *Objects) HasBootstrapOf(other *Objects) bool {
	return sameVersion(o.BootstrapSecret, other.BootstrapSecret)
}

// HasClientOf reports whether both configurations request the same client ID and labels.
func (o *Objects) HasClientOf(other *Objects) bool {
	return o.Config.ClientID == other.Config.ClientID && maps.Equal(o.Config.Labels, other.Config.Labels)
}

// IdentityKey returns a hash that is equal for equal identities and reveals no secret. There must be an identity.
func (o *Objects) IdentityKey() string { return identityKey(*o.Identity) }

// TLSMode returns the effective mode. The default is strict.
func (o *Objects) TLSMode() string { return tlsMode(o.Config.AgentTLSMode) }

// SetIdentity replaces the identity by the one that was written.
func (o *Objects) SetIdentity(written *corev1.Secret, identity protocol.Identity, access hubclient.Access) {
	o.IdentitySecret, o.Identity, o.Access, o.IdentityErr = written, &identity, access, nil
	o.versions.add(written)
}

// parseBootstrap parses a bootstrap secret. It also rejects a URL or CA that cannot be used for a connection.
func parseBootstrap(data map[string][]byte) (protocol.Bootstrap, error) {
	bootstrap, err := protocol.ParseBootstrap(data)
	if err != nil {
		return protocol.Bootstrap{}, err
	}
	if err := (hubclient.Access{Server: bootstrap.APIServerURL, CA: bootstrap.APIServerCA}).Check(); err != nil {
		return protocol.Bootstrap{}, fmt.Errorf("bootstrap secret: %w", err)
	}
	return bootstrap, nil
}

func tlsMode(mode string) string {
	if mode == "" {
		return config.TLSModeStrict
	}
	return mode
}

// checkTLSMode reports, without a connection, the errors that WithTLSMode would return for this mode.
func checkTLSMode(mode string, bootstrap protocol.Bootstrap) error {
	switch tlsMode(mode) {
	case config.TLSModeSystemStore:
		return nil
	case config.TLSModeStrict:
		if len(bootstrap.APIServerCA) == 0 {
			return fmt.Errorf("agentTLSMode: %w", kube.ErrNoCA)
		}
		return nil
	}
	return fmt.Errorf("agentTLSMode: %w: %q", kube.ErrUnknownTLSMode, mode)
}

func parseIdentity(data map[string][]byte) (*protocol.Identity, hubclient.Access, error) {
	identity, err := protocol.ParseIdentity(data)
	if err != nil {
		return nil, hubclient.Access{}, err
	}
	access, err := hubclient.ParseKubeconfig(identity.Kubeconfig)
	if err != nil {
		return nil, hubclient.Access{}, err
	}
	return &identity, access, nil
}

// parsed returns a pointer to value, or nil and err if err is set.
func parsed[T any](value T, err error) (*T, error) {
	if err != nil {
		return nil, err
	}
	return &value, nil
}

func sameVersion(a, b *corev1.Secret) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.UID == b.UID && a.ResourceVersion == b.ResourceVersion
}

func sameIdentity(a, b *protocol.Identity) bool {
	if a == nil || b == nil {
		return a == b
	}
	return identityKey(*a) == identityKey(*b)
}

// identityKey returns a hash that is equal for equal identities and reveals no secret.
func identityKey(identity protocol.Identity) string {
	hash := sha256.New()
	for _, part := range []string{string(identity.Kubeconfig), identity.DeploymentNamespace, identity.ClusterNamespace, identity.ClusterName} {
		fmt.Fprintf(hash, "%d:%s", len(part), part)
	}
	return string(hash.Sum(nil))
}
