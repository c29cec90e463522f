package register

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/kube"
	"github.com/fleet-hub/fleet/internal/register/hubclient"
	"github.com/fleet-hub/fleet/internal/rules/registering"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

// requestStep creates a ClusterRegistration when one is due.
func (a *agent) requestStep(ctx context.Context, step registering.Outcome) {
	at := a.attemptOf(step)
	at.Request, at.Credential, at.CredentialAnswer = nil, nil, registering.LastAnswer{}
	due := a.recoveries.Until(a.now())
	if !step.Recovery {
		due = max(a.requests.Until(a.now()), a.repeats.Until(a.now()), a.missingConfig())
	}
	if !a.pause(ctx, due) || a.retestStored(ctx, step) {
		return
	}
	err := a.request(ctx, at)
	if ctx.Err() != nil {
		return
	}
	a.running = true
	if err != nil {
		a.log.Error("Failed to register agent", "error", err)
	}
	switch {
	case step.Recovery: // also after a request that the hub accepted, because it may not grant it
		a.recoveries.Tried(a.now(), err)
	case apierrors.IsInvalid(err): // the same request is refused again, until the agent's values or the hub's policy change
		a.repeats.Tried(a.now(), err)
	case err != nil:
		a.requests.Tried(a.now(), err)
	default:
		a.requests.Reset()
		a.repeats.Tried(a.now(), nil)
	}
}

// missingConfig returns how long the agent still waits for the configuration that the chart delivers after a bootstrap secret.
// With the client ID of the configuration before, it could register as a Cluster that was deleted.
func (a *agent) missingConfig() time.Duration {
	wanted, known := a.found.BootstrapSecret.Annotations[annotation.BootstrapClientID]
	if !known || wanted == a.found.Config.ClientID {
		return 0
	}
	return a.delivered.Add(bootstrapGrace).Sub(a.now())
}

// attemptOf returns the attempt that a step continues, or a new one.
func (a *agent) attemptOf(step registering.Outcome) *attempt {
	if step.Recovery {
		if a.recovering == nil {
			access, _ := a.kept.Data.Access()
			a.recovering = &attempt{bootstrap: access, isRecovery: true}
		}
		return a.recovering
	}
	if a.attempt == nil {
		a.attempt = &attempt{}
	}
	a.attempt.bootstrap = *a.found.Bootstrap
	return a.attempt
}

func (a *agent) request(ctx context.Context, at *attempt) error {
	asked, err := a.newRequest(ctx, at)
	if err != nil {
		return err
	}
	if err := a.reach(ctx, at); err != nil {
		if at.isRecovery && hubclient.AnswerOf(err) == registering.Untrusted {
			a.recordTokenAnswer(at, err)
		}
		return err
	}
	hubKey := "" // a bootstrap secret may be from another hub
	if at.isRecovery {
		hubKey = a.kept.Data.HubKey
	}
	if err := a.sign(ctx, asked, at.bootstrap.Token, hubKey); err != nil {
		return err
	}
	made, err := at.hub.Register(ctx, asked)
	a.recordTokenAnswer(at, err)
	if err != nil {
		return fmt.Errorf("cannot create clusterregistration in namespace %s on %s: %w", at.bootstrap.ClusterNamespace, at.bootstrap.APIServerURL, err)
	}
	at.Request = &registering.PendingRequest{
		Namespace: made.Namespace, Name: made.Name,
		ClientID: made.Spec.ClientID, ClientRandom: made.Spec.ClientRandom,
		MadeAt: a.now(),
	}
	at.reminded = at.Request.MadeAt
	a.credentialTests.Reset()
	if at.isRecovery {
		a.log.Info("recovery requested", "registration", made.Namespace+"/"+made.Name, "hub", at.bootstrap.APIServerURL)
		return nil
	}
	a.log.Info("registration requested", "registration", made.Namespace+"/"+made.Name, "hub", at.bootstrap.APIServerURL)
	return nil
}

// newRequest returns the ClusterRegistration of an attempt, without a proof.
func (a *agent) newRequest(ctx context.Context, at *attempt) (*fleet.ClusterRegistration, error) {
	random, err := registering.NewClientRandom(a.Random)
	if err != nil {
		return nil, err
	}
	in := registering.RequestInput{Bootstrap: at.bootstrap, Config: a.found.Config, Random: random, Pod: a.Pod}
	if at.isRecovery {
		in.Ticket = a.kept.Data.Ticket
		in.Config.ClientID, in.Config.Labels = a.kept.AsTicket(in.Config)
	}
	if in.Config.ClientID == "" {
		if in.SystemUID, err = a.systemUID(ctx); err != nil {
			return nil, err
		}
	}
	asked := registering.NewRequest(in)
	if asked.Labels[fleet.LabelRegistrationToken] == "" && !at.isRecovery {
		a.log.Warn("the name of the ClusterRegistrationToken is too long for a label, so the hub may not grant read access to the credential; use a token whose name has at most 63 characters",
			"token", at.bootstrap.TokenName)
	}
	metav1.SetMetaDataAnnotation(&asked.ObjectMeta, annotation.AgentRenews, "true")
	return asked, nil
}

// systemUID returns the UID of namespace kube-system. It stays the same for the lifetime of the cluster.
func (a *agent) systemUID(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, kube.RequestTimeout)
	defer cancel()
	system, err := a.Local.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("reading the UID of namespace %s, this cluster's client ID: %w", metav1.NamespaceSystem, err)
	}
	return string(system.UID), nil
}

// reach creates the client for the token of an attempt. It determines the trusted CA again for each request, because a
// hub that was unreachable last time could not show its certificate.
func (a *agent) reach(ctx context.Context, at *attempt) error {
	access, err := a.trusting(ctx, hubclient.Access{
		Server: at.bootstrap.APIServerURL, CA: at.bootstrap.APIServerCA,
		Token: at.bootstrap.Token, Namespace: at.bootstrap.ClusterNamespace,
	}, at.isRecovery)
	if err != nil {
		return err
	}
	at.access = access
	at.hub, err = a.Connect(access.Config())
	return err
}

// recordTokenAnswer records the hub's answer about the import token. 403 counts as accepted: the token's rights may
// still be being created, and before the grant 403 is the expected answer. 404 counts as accepted, too.
func (a *agent) recordTokenAnswer(at *attempt, err error) {
	answer := hubclient.AnswerOf(err)
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		answer = registering.Accepted
	}
	at.TokenAnswer = at.TokenAnswer.With(answer, a.now())
}
