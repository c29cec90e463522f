package register

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/fleet-hub/fleet/internal/handshake"
	"github.com/fleet-hub/fleet/internal/kube"
	"github.com/fleet-hub/fleet/internal/names"
)

// Poll says how often a credential is asked for where it cannot be watched: every Fast for the first FastFor,
// then ever slower down to every Slow.
type Poll struct{ Fast, FastFor, Slow time.Duration }

func (p Poll) withDefaults() Poll {
	if p == (Poll{}) {
		return Poll{Fast: 100 * time.Millisecond, FastFor: 30 * time.Second, Slow: 2 * time.Second}
	}
	return p
}

// interval is the pause before the next question, when the request is as old as this.
func (p Poll) interval(age time.Duration) time.Duration {
	if age < p.FastFor {
		return p.Fast
	}
	return min(p.Slow, p.Fast+(age-p.FastFor)/10)
}

// watchFor bounds one watch for a credential: a connection that died unnoticed costs no more.
const watchFor = 30 * time.Second

// requestStep makes a ClusterRegistration as soon as one is due.
func (a *agent) requestStep(ctx context.Context) {
	if a.attempt == nil {
		a.attempt = &attempt{}
	}
	a.attempt.request, a.attempt.credential, a.attempt.proof = nil, nil, handshake.Verdict{}
	if !a.pause(ctx, a.requests.until(a.now())) {
		return
	}
	err := a.request(ctx)
	if ctx.Err() != nil {
		return
	}
	a.requests.tried(a.now())
	a.running = true
	if err != nil {
		a.log.Error("Failed to register agent", "error", err)
	}
}

func (a *agent) request(ctx context.Context) error {
	bootstrap := *a.found.bootstrap
	random, err := randomToken(a.Random)
	if err != nil {
		return err
	}
	in := handshake.RequestInput{Bootstrap: bootstrap, Config: a.found.config, Random: random, Pod: a.Pod}
	if in.Config.ClientID == "" {
		if in.SystemUID, err = a.systemUID(ctx); err != nil {
			return err
		}
	}
	if err := a.reach(ctx, bootstrap); err != nil {
		return err
	}
	made, err := a.attempt.hub.Register(ctx, handshake.AgentRequest(in))
	a.judgeToken(err)
	if err != nil {
		return fmt.Errorf("cannot create clusterregistration in namespace %s on %s: %w", bootstrap.ClusterNamespace, bootstrap.APIServerURL, err)
	}
	a.attempt.request = &handshake.PendingRequest{
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
func (a *agent) reach(ctx context.Context, bootstrap handshake.Bootstrap) error {
	access := Access{
		Server: bootstrap.APIServerURL, CA: bootstrap.APIServerCA,
		Token: bootstrap.Token, Namespace: bootstrap.ClusterNamespace,
	}
	trusting, err := kube.WithTLSMode(ctx, access.Config(), tlsMode(a.found.config.AgentTLSMode))
	if err != nil {
		return fmt.Errorf("reaching the hub at %s: %w", access.Server, err)
	}
	access.CA = trusting.CAData
	a.attempt.access = access
	a.attempt.hub, err = a.Connect(access.Config())
	return err
}

// judgeToken notes what the hub's answer says of the import token. 403 says nothing: its rights may be on
// their way, and before the grant it is the answer to expect.
func (a *agent) judgeToken(err error) {
	answer := answerOf(err)
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		answer = handshake.Accepted
	}
	a.attempt.token = judge(a.attempt.token, answer, a.now())
}

// fetchCredential asks for the pending request's credential until it is there, its time is over, the token
// is in doubt, or a Secret of ours changes.
func (a *agent) fetchCredential(ctx context.Context) {
	request := *a.attempt.request
	namespace, name := a.found.bootstrap.SystemRegistrationNamespace, names.CredentialSecret(request.ClientID, request.ClientRandom)
	mayWatch := true
	for {
		secret, err := a.attempt.hub.Credential(ctx, namespace, name)
		if apierrors.IsNotFound(err) && mayWatch { // 404 and not 403: we may read it, it is a matter of moments
			secret, err = a.watchCredential(ctx, namespace, name)
			mayWatch = !apierrors.IsForbidden(err)
		}
		if ctx.Err() != nil {
			return
		}
		a.judgeToken(err)
		if err == nil && a.takeCredential(secret) {
			return
		}
		age := a.now().Sub(request.MadeAt)
		if age >= handshake.CredentialPatience || a.attempt.token.Answer == handshake.Rejected || a.attempt.token.Answer == handshake.Untrusted {
			a.log.Warn("no credential was granted yet", "registration", request.Namespace+"/"+request.Name, "error", err)
			a.pause(ctx, a.Poll.withDefaults().Slow)
			return
		}
		if !a.pause(ctx, a.Poll.withDefaults().interval(age)) {
			return
		}
	}
}

// watchCredential waits for the Secret to appear. Without one the error is the hub's, or NotFound when the
// time is over or one of our Secrets has changed.
func (a *agent) watchCredential(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	none := apierrors.NewNotFound(corev1.Resource("secrets"), name)
	ctx, cancel := context.WithTimeout(ctx, watchFor)
	defer cancel()
	watching, err := a.attempt.hub.WatchCredential(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	defer watching.Stop()
	for {
		select {
		case event, open := <-watching.ResultChan():
			switch {
			case !open:
				return nil, none
			case event.Type == watch.Error:
				return nil, apierrors.FromObject(event.Object)
			}
			if secret, ok := event.Object.(*corev1.Secret); ok && secret.Name == name && event.Type != watch.Deleted {
				return secret, nil
			}
		case <-a.changed:
			a.wake()
			return nil, none
		case <-ctx.Done():
			return nil, none
		}
	}
}

// wake gives a change back that somebody else has to see.
func (a *agent) wake() {
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

// takeCredential keeps a credential that is whole.
func (a *agent) takeCredential(secret *corev1.Secret) bool {
	credential, err := handshake.ParseCredential(secret.Data)
	if err != nil {
		a.log.Warn("the credential is not whole, waiting for a better one", "secret", secret.Namespace+"/"+secret.Name, "error", err)
		return false
	}
	a.attempt.credential = &credential
	a.log.Debug("credential received", "cluster", credential.ClusterNamespace+"/"+credential.ClusterName)
	return true
}

// grantedAccess is how the granted identity reaches the hub: the way the import identity did.
func (a *agent) grantedAccess() Access {
	access := a.attempt.access
	access.Token = a.attempt.credential.Token
	access.Namespace = a.attempt.credential.DeploymentNamespace
	return access
}

// proveCredential asks the hub whether the credential it granted works.
func (a *agent) proveCredential(ctx context.Context) {
	if !a.pause(ctx, a.proofs.until(a.now())) {
		return
	}
	err := a.prove(ctx, a.grantedAccess(), a.attempt.credential.DeploymentNamespace)
	if ctx.Err() != nil {
		return
	}
	a.proofs.tried(a.now())
	a.attempt.proof = judge(a.attempt.proof, answerOf(err), a.now())
	if err != nil {
		a.log.Warn("the hub does not accept the new credential yet", "answer", a.attempt.proof.Answer, "error", err)
	}
}
