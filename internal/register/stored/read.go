package stored

import (
	"context"
	"fmt"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/kube"
	"github.com/fleet-hub/fleet/internal/kube/answers"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// Clients are the clients for the agent's own cluster.
type Clients interface {
	CoreV1() corev1client.CoreV1Interface
}

// Store reads, writes and watches the agent's objects.
type Store struct {
	// Local must not have a timeout, because watches use it.
	Local Clients
	// Namespace is the agent's namespace.
	Namespace string
	// Log receives the values of the configuration that are ignored. Required by Read.
	Log *slog.Logger
}

// Read reads the agent's three objects. last is the last valid configuration, which stays in use while the stored one is
// malformed.
//
// It reads the bootstrap secret before the identity. To force a new registration, a user deletes the identity
// first and then creates a bootstrap secret. In this order, the agent never sees the new bootstrap secret
// together with the old identity, and so never deletes it as unneeded.
func (s Store) Read(ctx context.Context, last config.Agent) (Objects, error) {
	ctx, cancel := context.WithTimeout(ctx, kube.RequestTimeout)
	defer cancel()
	bootstrap, err := s.secret(ctx, names.AgentBootstrap)
	if err != nil {
		return Objects{}, err
	}
	identity, err := s.secret(ctx, names.Agent)
	if err != nil {
		return Objects{}, err
	}
	settings, err := s.Local.CoreV1().ConfigMaps(s.Namespace).Get(ctx, names.Agent, metav1.GetOptions{})
	switch {
	case answers.IsDeleted(err):
		settings = nil
	case err != nil:
		return Objects{}, fmt.Errorf("reading ConfigMap %s/%s: %w", s.Namespace, names.Agent, err)
	}
	return s.understand(bootstrap, identity, settings, last), nil
}

// understand parses the objects. An object that does not exist is nil.
func (s Store) understand(bootstrap, identity *corev1.Secret, settings *corev1.ConfigMap, last config.Agent) Objects {
	f := Objects{BootstrapSecret: bootstrap, IdentitySecret: identity, versions: versions{}}
	if bootstrap != nil {
		f.versions.add(bootstrap)
		f.Bootstrap, f.BootstrapErr = parsed(parseBootstrap(bootstrap.Data))
	}
	if identity != nil {
		f.versions.add(identity)
		f.Identity, f.Access, f.IdentityErr = parseIdentity(identity.Data)
	}
	if settings != nil {
		f.versions.add(settings)
		f.Config, f.ConfigErr = s.parseConfig(settings)
	}
	if f.ConfigErr != nil {
		f.Config = last // keep the last valid configuration
	}
	if f.ConfigErr == nil && f.Bootstrap != nil {
		f.ConfigErr = checkTLSMode(f.Config.AgentTLSMode, *f.Bootstrap)
	}
	return f
}

// secret reads a Secret. It returns nil if the Secret does not exist.
func (s Store) secret(ctx context.Context, name string) (*corev1.Secret, error) {
	secret, err := s.Local.CoreV1().Secrets(s.Namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case answers.IsDeleted(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading Secret %s/%s: %w", s.Namespace, name, err)
	}
	return secret, nil
}

func (s Store) parseConfig(configMap *corev1.ConfigMap) (config.Agent, error) {
	parsed, warnings, err := config.ParseAgent(configMap.Data[names.ConfigKey])
	for _, warning := range warnings {
		s.Log.Debug("ignoring a value in the agent's configuration", "warning", warning)
	}
	return parsed, err
}
