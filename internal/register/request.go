package register

import (
	"context"
	"fmt"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/kube"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/rules/registering"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// requestStep creates a ClusterRegistration when one is due.
func (a *agent) requestStep(ctx context.Context) {
	if a.attempt == nil {
		a.attempt = &attempt{}
	}
	a.attempt.request, a.attempt.credential, a.attempt.proof = nil, nil, registering.Verdict{}
	if !a.pause(ctx, max(a.requests.until(a.now()), a.renewals.until(a.now()))) {
		return
	}
	err := a.request(ctx)
	if ctx.Err() != nil {
		return
	}
	a.running = true
	if err != nil {
		a.requests.tried(a.now(), err)
		a.log.Error("Failed to register agent", "error", err)
		return
	}
	a.requests.reset()
	a.renewals.tried(a.now(), nil)
}

func (a *agent) request(ctx context.Context) error {
	bootstrap := *a.found.bootstrap
	random, err := randomToken(a.Random)
	if err != nil {
		return err
	}
	in := registering.RequestInput{Bootstrap: bootstrap, Config: a.found.config, Random: random, Pod: a.Pod}
	if in.Config.ClientID == "" {
		if in.SystemUID, err = a.systemUID(ctx); err != nil {
			return err
		}
	}
	if err := a.reach(ctx, bootstrap); err != nil {
		return err
	}
	asked := registering.NewRequest(in)
	if asked.Labels[fleet.LabelRegistrationToken] == "" {
		a.log.Warn("the name of the ClusterRegistrationToken is too long for a label, so the hub may not grant read access to the credential; use a token whose name has at most 63 characters",
			"token", bootstrap.TokenName)
	}
	metav1.SetMetaDataAnnotation(&asked.ObjectMeta, fleet.AnnotationAgentRenews, "true")
	if err := a.sign(ctx, asked, bootstrap.Token); err != nil {
		return err
	}
	made, err := a.attempt.hub.Register(ctx, asked)
	a.judgeToken(err)
	if err != nil {
		return fmt.Errorf("cannot create clusterregistration in namespace %s on %s: %w", bootstrap.ClusterNamespace, bootstrap.APIServerURL, err)
	}
	a.attempt.request = &registering.PendingRequest{
		Namespace: made.Namespace, Name: made.Name,
		ClientID: made.Spec.ClientID, ClientRandom: made.Spec.ClientRandom,
		TokenName: bootstrap.TokenName, MadeAt: a.now(),
	}
	a.proofs.reset()
	a.log.Info("registration requested", "registration", made.Namespace+"/"+made.Name, "hub", bootstrap.APIServerURL)
	return nil
}

// systemUID returns the UID of namespace kube-system. It stays the same for the lifetime of the cluster.
func (a *agent) systemUID(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	system, err := a.Local.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("reading the UID of namespace %s, this cluster's client ID: %w", metav1.NamespaceSystem, err)
	}
	return string(system.UID), nil
}

// reach creates the client for the import token. It determines the trusted CA again for each request, because a
// hub that was unreachable last time could not show its certificate.
func (a *agent) reach(ctx context.Context, bootstrap protocol.Bootstrap) error {
	access, err := a.trusting(ctx, Access{
		Server: bootstrap.APIServerURL, CA: bootstrap.APIServerCA,
		Token: bootstrap.Token, Namespace: bootstrap.ClusterNamespace,
	})
	if err != nil {
		return err
	}
	a.attempt.access = access
	a.attempt.hub, err = a.Connect(access.Config())
	return err
}

// trusting returns the access with the CA that applies in the TLS mode.
func (a *agent) trusting(ctx context.Context, access Access) (Access, error) {
	trusting, err := kube.WithTLSMode(ctx, access.Config(), tlsMode(a.found.config.AgentTLSMode))
	if err != nil {
		return Access{}, fmt.Errorf("reaching the hub at %s: %w", access.Server, err)
	}
	access.CA = trusting.CAData
	return access, nil
}

// judgeToken records the hub's answer about the import token. 403 counts as accepted: the token's rights may
// still be being created, and before the grant 403 is the expected answer. 404 counts as accepted, too.
func (a *agent) judgeToken(err error) {
	answer := answerOf(err)
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		answer = registering.Accepted
	}
	a.attempt.token = judge(a.attempt.token, answer, a.now())
}

// The random part of a request has 54 characters from an alphabet of 27.
const (
	randomAlphabet = "bcdfghjklmnpqrstvwxz2456789"
	randomLength   = 54
)

// randomToken chooses each character with equal probability. It discards bytes that would favor the first
// characters of the alphabet.
func randomToken(random io.Reader) (string, error) {
	const fair = 256 - 256%len(randomAlphabet)
	token := make([]byte, 0, randomLength)
	buffer := make([]byte, randomLength)
	for len(token) < randomLength {
		if _, err := io.ReadFull(random, buffer); err != nil {
			return "", fmt.Errorf("drawing a random token: %w", err)
		}
		for _, b := range buffer {
			if int(b) < fair && len(token) < randomLength {
				token = append(token, randomAlphabet[int(b)%len(randomAlphabet)])
			}
		}
	}
	return string(token), nil
}
