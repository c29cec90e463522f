package register

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/fleet-hub/fleet/internal/kube"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/register/pace"
	"github.com/fleet-hub/fleet/internal/rules/registering"
)

// watchFor limits one watch for a credential, so that a connection that broke unnoticed does not block for longer.
const watchFor = 30 * time.Second

// fetchCredential polls for the credential of the pending request. It returns when the credential exists, the
// request has expired, the token is in doubt, the answer to the stored identity changes, or one of the agent's Secrets.
func (a *agent) fetchCredential(ctx context.Context, step registering.Outcome) {
	at := a.attemptOf(step)
	request := *at.Request
	namespace, name := at.bootstrap.SystemRegistrationNamespace, names.CredentialSecret(request.ClientID, request.ClientRandom)
	mayWatch := true
	if !a.pause(ctx, registering.SoonestPoll-a.now().Sub(request.MadeAt)) { // no hub grants a request faster
		return
	}
	for {
		secret, err := at.hub.Credential(ctx, namespace, name)
		if apierrors.IsNotFound(err) && mayWatch { // not 403: readable, so it exists soon
			secret, err = a.watchCredential(ctx, at, namespace, name)
			mayWatch = !apierrors.IsForbidden(err)
		}
		if ctx.Err() != nil {
			return
		}
		a.recordTokenAnswer(at, err)
		if err == nil && a.takeCredential(at, secret) {
			return
		}
		age := a.now().Sub(request.MadeAt)
		if age >= registering.CredentialPatience {
			a.log.Warn("the hub has not granted the registration in time, creating another request", "registration", request.Namespace+"/"+request.Name, "error", err)
			return
		}
		if at.TokenAnswer.Answer == registering.Rejected || at.TokenAnswer.Answer == registering.Untrusted {
			a.log.Error("Failed to register agent", "registration", request.Namespace+"/"+request.Name, "error", err)
			a.pause(ctx, registering.LatestPoll)
			return
		}
		if !a.waitToPoll(ctx, step, at, err) {
			return
		}
	}
}

// waitToPoll waits before the next poll. Once a minute, it tests the stored identity and logs that the request is not granted and
// where the reason is shown, because only the hub knows it. It returns false if the agent has to decide again.
func (a *agent) waitToPoll(ctx context.Context, step registering.Outcome, at *attempt, err error) bool {
	request := *at.Request
	if a.now().Sub(at.reminded) >= time.Minute {
		at.reminded = a.now()
		a.log.Warn("the hub has not granted the registration yet; see condition Granted of the ClusterRegistration on the hub",
			"registration", request.Namespace+"/"+request.Name, "error", err)
		if a.retestStored(ctx, step) {
			return false
		}
	}
	age := a.now().Sub(request.MadeAt)
	return a.pause(ctx, max(pace.Jitter(registering.PollPause(age), a.Random), pace.Spread(kube.RetryAfter(err), a.Random)))
}

// watchCredential waits for the Secret to appear and returns it. Otherwise it returns the hub's error, or
// NotFound if the time is over or one of the agent's Secrets has changed.
func (a *agent) watchCredential(ctx context.Context, at *attempt, namespace, name string) (*corev1.Secret, error) {
	none := apierrors.NewNotFound(corev1.Resource("secrets"), name)
	ctx, cancel := context.WithTimeout(ctx, watchFor)
	defer cancel()
	watching, err := at.hub.WatchCredential(ctx, namespace, name)
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

// takeCredential keeps the credential, and what the hub gives for a recovery, and returns true if it is complete.
func (a *agent) takeCredential(at *attempt, secret *corev1.Secret) bool {
	data, err := a.kept.Decrypted(secret.Data)
	var credential protocol.Credential
	if err == nil {
		credential, err = protocol.ParseCredential(data)
	}
	if err != nil {
		if !at.warned { // log it only once
			a.log.Warn("the credential is incomplete, waiting for an update", "secret", secret.Namespace+"/"+secret.Name, "error", err)
		}
		at.warned = true
		return false
	}
	at.Credential = &credential
	if at.granted, err = protocol.ParseRecovery(data); err != nil {
		at.granted = protocol.Recovery{} // a hub that gives nothing for a recovery, or an agent without a key
	}
	a.log.Debug("credential received", "cluster", credential.ClusterNamespace+"/"+credential.ClusterName)
	return true
}
