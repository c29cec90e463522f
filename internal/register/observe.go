package register

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/kube"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/registering"
)

// found contains what one look read from the agent's namespace.
type found struct {
	bootstrapSecret *corev1.Secret // nil if there is none
	bootstrap       *protocol.Bootstrap
	bootstrapErr    error

	identitySecret *corev1.Secret     // nil if it does not exist
	identity       *protocol.Identity // nil if it is missing or cannot be parsed
	identityErr    error
	access         Access // of the identity

	config    config.Agent
	configErr error

	versions versions // of the objects that exist
}

// observe combines the agent's three objects with the hub's earlier answers. It reads the objects, unless it is known
// that none has changed.
func (a *agent) observe(ctx context.Context) (registering.Input, error) {
	if !a.current {
		if err := a.look(ctx); err != nil {
			return registering.Input{}, err
		}
	}
	a.current = false
	a.noticeLoss()
	a.lookAtKept(ctx)
	return a.state(), nil
}

// look reads the agent's three objects. It discards answers about an object that was deleted or changed.
func (a *agent) look(ctx context.Context) error {
	f, err := a.read(ctx)
	if err != nil {
		return err
	}
	before := a.found
	a.found = f
	otherIdentity := !sameIdentity(before.identity, f.identity)
	otherBootstrap := !sameVersion(before.bootstrapSecret, f.bootstrapSecret)
	otherMode := before.config.AgentTLSMode != f.config.AgentTLSMode
	if otherIdentity || otherMode {
		a.verdict = registering.Verdict{}
		a.asks.reset()
	}
	if otherIdentity || otherBootstrap || otherMode {
		a.moved = registering.Verdict{}
		a.moves.reset()
	}
	if otherBootstrap || otherMode {
		a.attempt, a.used = nil, false
		a.requests.reset()
		a.renewals.reset()
		a.retestIdentity(f) // another identity is offered: test immediately whether the stored one still works
	}
	return nil
}

// retestIdentity makes the next step test the stored identity again, if a bootstrap secret exists.
func (a *agent) retestIdentity(f found) {
	if f.bootstrapSecret != nil {
		a.verdict = registering.Verdict{}
		a.asks.reset()
	}
}

func (a *agent) state() registering.Input {
	f := a.found
	state := registering.Input{
		Now:              a.now(),
		Serving:          a.serving != nil && f.identity != nil && a.serving.key == identityKey(*f.identity),
		Running:          a.running,
		StoredProblem:    f.identityErr,
		Bootstrap:        f.bootstrap,
		BootstrapProblem: f.bootstrapErr,
		ConfigProblem:    f.configErr,
		SystemStore:      f.config.AgentTLSMode == kube.TLSModeSystemStore,
		Moved:            a.moved,
		Recovery:         a.recoveryState(),
	}
	if f.identity != nil {
		state.Stored = &registering.StoredIdentity{Server: f.access.Server, CA: f.access.CA, Verdict: a.verdict}
	}
	if a.attempt != nil {
		state.Attempt = a.attempt.Attempt
	}
	return state
}

// read reads the bootstrap secret before the identity. To force a new registration, a user deletes the identity
// first and then creates a bootstrap secret. In this order, the agent never sees the new bootstrap secret
// together with the old identity, and so never deletes it as unneeded.
func (a *agent) read(ctx context.Context) (found, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	type answer struct {
		config *corev1.ConfigMap
		err    error
	}
	configured := make(chan answer, 1)
	go func() {
		configMap, err := a.Local.CoreV1().ConfigMaps(a.Namespace).Get(ctx, names.Agent, metav1.GetOptions{})
		configured <- answer{configMap, err}
	}()
	bootstrap, err := a.secret(ctx, names.AgentBootstrap)
	if err != nil {
		return found{}, err
	}
	identity, err := a.secret(ctx, names.Agent)
	if err != nil {
		return found{}, err
	}
	settings := <-configured
	if settings.err != nil && !apierrors.IsNotFound(settings.err) {
		return found{}, fmt.Errorf("reading ConfigMap %s/%s: %w", a.Namespace, names.Agent, settings.err)
	}
	if settings.err != nil {
		settings.config = nil
	}
	return a.understand(bootstrap, identity, settings.config), nil
}

// understand parses the objects. An object that does not exist is nil.
func (a *agent) understand(bootstrap, identity *corev1.Secret, settings *corev1.ConfigMap) found {
	f := found{bootstrapSecret: bootstrap, identitySecret: identity, versions: versions{}}
	if bootstrap != nil {
		f.versions.add(bootstrap)
		f.bootstrap, f.bootstrapErr = parsed(parseBootstrap(bootstrap.Data))
	}
	if identity != nil {
		f.versions.add(identity)
		f.identity, f.access, f.identityErr = parseIdentity(identity.Data)
	}
	if settings != nil {
		f.versions.add(settings)
		f.config, f.configErr = a.parseConfig(settings)
	}
	if f.configErr != nil {
		f.config = a.found.config // keep the last valid configuration
	}
	if f.configErr == nil && f.bootstrap != nil {
		f.configErr = checkTLSMode(f.config.AgentTLSMode, *f.bootstrap)
	}
	return f
}

// secret reads a Secret. It returns nil if the Secret does not exist.
func (a *agent) secret(ctx context.Context, name string) (*corev1.Secret, error) {
	secret, err := a.Local.CoreV1().Secrets(a.Namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading Secret %s/%s: %w", a.Namespace, name, err)
	}
	return secret, nil
}

func (a *agent) parseConfig(configMap *corev1.ConfigMap) (config.Agent, error) {
	parsed, warnings, err := config.ParseAgent(configMap.Data[names.ConfigKey])
	for _, warning := range warnings {
		a.log.Debug("ignoring a value in the agent's configuration", "warning", warning)
	}
	return parsed, err
}
