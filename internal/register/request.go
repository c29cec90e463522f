package register

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/kube"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/rules/registering"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// requestStep makes a ClusterRegistration as soon as one is due.
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
		a.log.Warn("the request cannot name its ClusterRegistrationToken, and the hub may let nobody read the answer: use a token whose name has at most 63 characters",
			"token", bootstrap.TokenName)
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

// systemUID is the UID of namespace kube-system: the same as long as the cluster lives.
func (a *agent) systemUID(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	system, err := a.Local.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("reading the UID of namespace %s, this cluster's client ID: %w", metav1.NamespaceSystem, err)
	}
	return string(system.UID), nil
}

// reach makes the client for the import token. Which CA is trusted is found out anew for each request: a
// hub that was not there for the last one could not show its certificate.
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

// trusting is the access with the CA that the TLS mode leaves it.
func (a *agent) trusting(ctx context.Context, access Access) (Access, error) {
	trusting, err := kube.WithTLSMode(ctx, access.Config(), tlsMode(a.found.config.AgentTLSMode))
	if err != nil {
		return Access{}, fmt.Errorf("reaching the hub at %s: %w", access.Server, err)
	}
	access.CA = trusting.CAData
	return access, nil
}

// judgeToken notes what the hub's answer says of the import token. 403 says nothing: its rights may be on
// their way, and before the grant it is the answer to expect.
func (a *agent) judgeToken(err error) {
	answer := answerOf(err)
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		answer = registering.Accepted
	}
	a.attempt.token = judge(a.attempt.token, answer, a.now())
}
