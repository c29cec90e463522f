package swarm

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/registering"
)

const (
	// watchFor limits one watch for a credential, as in the project's agent.
	watchFor = 30 * time.Second
	// steadyPoll is the interval at which Rancher Fleet's agent polls for its credential.
	steadyPoll = 2 * time.Second
)

// Pauses after a failure. Each one doubles, from the first to the last.
const (
	firstPause = time.Second
	lastPause  = 15 * time.Second
)

// join creates a ClusterRegistration, waits for its credential and verifies it. If that fails, it waits for the
// pause before the next attempt and returns false.
func (a *Agent) join(ctx context.Context) bool {
	credential, err := a.register(ctx)
	if err == nil {
		err = a.prove(ctx, credential)
	}
	if err != nil {
		a.failed(ctx, err)
		wait(ctx, jitter(min(firstPause<<min(a.State().Registrations, 4), lastPause)))
		return false
	}
	a.setCredential(credential)
	now := a.now()
	a.update(func(s *State) { s.Proven, s.Rejected = now, false })
	return true
}

func (a *Agent) now() time.Time { return a.swarm.options.Clock() }

func (a *Agent) register(ctx context.Context) (*protocol.Credential, error) {
	values := a.settings.Values
	random, err := clientRandom()
	if err != nil {
		return nil, err
	}
	request := registering.NewRequest(registering.RequestInput{
		Bootstrap: protocol.Bootstrap{ClusterNamespace: values.ClusterNamespace, TokenName: values.TokenName},
		Config:    config.Agent{ClientID: a.settings.ClientID, Labels: a.settings.Labels},
		Random:    random, Pod: a.settings.Pod,
	})
	if err := a.sign(request, values.Token); err != nil {
		return nil, err
	}
	body, err := json.Marshal(request)
	if err != nil {
		return nil, fmt.Errorf("encoding the registration: %w", err)
	}
	asked := a.now()
	var made object
	if err := a.hub.do(ctx, call{
		as: importing, token: values.Token, verb: "create", resource: "clusterregistrations", body: body,
		path: fleetAPI + "namespaces/" + values.ClusterNamespace + "/clusterregistrations",
	}, &made); err != nil {
		return nil, fmt.Errorf("creating the ClusterRegistration: %w", err)
	}
	a.update(func(s *State) {
		s.Registrations++
		s.Request, s.Requested = made.Metadata.Name, asked
		s.Granted, s.Proven, s.Beaten = time.Time{}, time.Time{}, time.Time{}
	})
	credential, err := a.fetchCredential(ctx, names.CredentialSecret(a.settings.ClientID, random))
	if err != nil {
		return nil, err
	}
	granted := a.now()
	a.update(func(s *State) { s.Granted = granted })
	return credential, nil
}

// fetchCredential reads the credential repeatedly until it exists or the timeout is over.
func (a *Agent) fetchCredential(ctx context.Context, name string) (*protocol.Credential, error) {
	values, began := a.settings.Values, a.now()
	read := call{as: importing, token: values.Token, verb: "get", resource: "secrets",
		path: "/api/v1/namespaces/" + values.SystemRegistrationNamespace + "/secrets/" + name}
	if !a.settings.Poll && !wait(ctx, registering.SoonestPoll) {
		return nil, context.Cause(ctx)
	}
	for {
		secret := &corev1.Secret{}
		err := a.hub.do(ctx, read, secret)
		if apierrors.IsNotFound(err) && !a.settings.Poll { // 404 and not 403: the agent may read the Secret, which will exist soon
			secret, err = a.watchCredential(ctx, name)
		}
		if err == nil {
			if credential, err := protocol.ParseCredential(secret.Data); err == nil {
				a.keep(secret.Data)
				return &credential, nil
			}
		}
		age := a.now().Sub(began)
		if apierrors.IsUnauthorized(err) && !a.settings.Poll || age >= registering.CredentialPatience {
			return nil, fmt.Errorf("waiting for the credential: %w", err)
		}
		if !wait(ctx, a.pollPause(age)) {
			return nil, context.Cause(ctx)
		}
	}
}

// pollPause returns the pause before the next read, for the age of the registration.
func (a *Agent) pollPause(age time.Duration) time.Duration {
	if a.settings.Poll {
		return steadyPoll
	}
	return registering.PollPause(age)
}

// watchCredential waits for the Secret with a watch.
func (a *Agent) watchCredential(ctx context.Context, name string) (*corev1.Secret, error) {
	ctx, cancel := context.WithTimeout(ctx, watchFor)
	defer cancel()
	values := a.settings.Values
	var found *corev1.Secret
	err := a.hub.watch(ctx, call{
		as: importing, token: values.Token, verb: "watch", resource: "secrets",
		path: "/api/v1/namespaces/" + values.SystemRegistrationNamespace + "/secrets?watch=true&fieldSelector=metadata.name%3D" + name,
	}, func(e event) error {
		if e.Type != "ADDED" && e.Type != "MODIFIED" {
			return nil
		}
		found = &corev1.Secret{}
		if err := json.Unmarshal(e.Object, found); err != nil {
			return fmt.Errorf("reading the credential: %w", err)
		}
		return io.EOF
	})
	if found == nil && err == nil {
		err = apierrors.NewNotFound(corev1.Resource("secrets"), name)
	}
	if found != nil {
		err = nil
	}
	return found, err
}

// prove verifies the credential with a request that only the agent's identity may send.
func (a *Agent) prove(ctx context.Context, c *protocol.Credential) error {
	err := a.hub.do(ctx, call{
		as: granted, token: c.Token, verb: "list", resource: "bundledeployments",
		path: fleetAPI + "namespaces/" + c.DeploymentNamespace + "/bundledeployments?limit=1&resourceVersion=0",
	}, nil)
	if err != nil {
		return fmt.Errorf("verifying the credential: %w", err)
	}
	return nil
}

// tokenAlphabet and tokenLength define an agent's client random.
const (
	tokenAlphabet = "bcdfghjklmnpqrstvwxz2456789"
	tokenLength   = 54
)

// clientRandom returns a random string. It is not exactly uniform, which is good enough for a simulated agent.
func clientRandom() (string, error) {
	random := make([]byte, tokenLength)
	if _, err := rand.Read(random); err != nil {
		return "", fmt.Errorf("reading randomness: %w", err)
	}
	for i, b := range random {
		random[i] = tokenAlphabet[int(b)%len(tokenAlphabet)]
	}
	return string(random), nil
}
