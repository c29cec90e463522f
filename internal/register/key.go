package register

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/identity"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// The recovery Secret holds the key with which an agent proves who it is. It is in namespace kube-system, so that it
// survives the deletion of the agent's namespace, and with it the loss of everything else. If the agent may not write
// there, its own namespace has to do.

// errForeign means that a Secret with the name of the recovery Secret has another type. It is not touched.
var errForeign = errors.New("the Secret has another type")

// sign adds the agent's public key and a proof to a request, for the account of an import token. A token that names no
// account cannot be signed for. If the agent may store a key nowhere, the request is sent without one: the hub then
// decides by its token, as for agents of earlier releases.
func (a *agent) sign(ctx context.Context, request *fleet.ClusterRegistration, token string) error {
	account, err := protocol.ParseAccountToken(token)
	if err != nil {
		return nil //nolint:nilerr // no account token: the hub may use other tokens
	}
	key, err := a.recoveryKey(ctx)
	if apierrors.IsForbidden(err) || errors.Is(err, errForeign) {
		a.log.Warn("the agent's recovery key cannot be stored, so the request is not signed; if the hub has a key for this cluster, the request waits for: fleet confirm-takeover",
			"secret", names.RecoverySecret(a.Namespace), "error", err)
		return nil
	}
	if err != nil {
		return err
	}
	proof, err := key.Prove(identity.Claims{ClientID: request.Spec.ClientID, ClientRandom: request.Spec.ClientRandom, Account: account.AccountUID})
	if err != nil {
		return fmt.Errorf("signing the request: %w", err)
	}
	metav1.SetMetaDataAnnotation(&request.ObjectMeta, fleet.AnnotationAgentKey, key.Public())
	metav1.SetMetaDataAnnotation(&request.ObjectMeta, fleet.AnnotationAgentProof, proof)
	return nil
}

// recoveryKey returns the agent's key. If the agent has no key yet, it creates one.
func (a *agent) recoveryKey(ctx context.Context) (identity.Key, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	places := []string{metav1.NamespaceSystem, a.Namespace}
	for _, namespace := range places {
		key, err := a.readKey(ctx, namespace)
		if err == nil || !isElsewhere(err) {
			return key, err
		}
	}
	created, err := identity.NewKey(rand.Reader)
	if err != nil {
		return identity.Key{}, err
	}
	for _, namespace := range places {
		if err = a.createKey(ctx, namespace, created); err == nil || !isElsewhere(err) {
			break
		}
	}
	return created, err
}

// isElsewhere reports whether an error means that the key may be in another namespace. After any other error it is
// unknown whether there is a key, and a second one must not be created.
func isElsewhere(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || errors.Is(err, errForeign)
}

// readKey reads the key in a namespace. A damaged key cannot be recovered, so it is replaced.
func (a *agent) readKey(ctx context.Context, namespace string) (identity.Key, error) {
	name := names.RecoverySecret(a.Namespace)
	secret, err := a.Local.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return identity.Key{}, fmt.Errorf("reading Secret %s/%s: %w", namespace, name, err)
	}
	if secret.Type != protocol.SecretTypeRecovery {
		return identity.Key{}, fmt.Errorf("reading Secret %s/%s of type %s: %w", namespace, name, secret.Type, errForeign)
	}
	key, err := identity.ParseKey(secret.Data[protocol.RecoveryKeyKey])
	if err == nil {
		return key, nil
	}
	a.log.Warn("the agent's recovery key is damaged and is replaced; if the hub has pinned it, the next request waits for: fleet confirm-takeover",
		"secret", namespace+"/"+name, "error", err)
	return a.replaceKey(ctx, secret)
}

func (a *agent) replaceKey(ctx context.Context, damaged *corev1.Secret) (identity.Key, error) {
	key, err := identity.NewKey(rand.Reader)
	if err != nil {
		return identity.Key{}, err
	}
	changed := damaged.DeepCopy()
	if changed.Data, err = recoveryData(key); err != nil {
		return identity.Key{}, err
	}
	if _, err := a.Local.CoreV1().Secrets(damaged.Namespace).Update(ctx, changed, metav1.UpdateOptions{}); err != nil {
		return identity.Key{}, fmt.Errorf("replacing Secret %s/%s: %w", damaged.Namespace, damaged.Name, err)
	}
	return key, nil
}

func (a *agent) createKey(ctx context.Context, namespace string, key identity.Key) error {
	data, err := recoveryData(key)
	if err != nil {
		return err
	}
	name := names.RecoverySecret(a.Namespace)
	_, err = a.Local.CoreV1().Secrets(namespace).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Type: protocol.SecretTypeRecovery, Data: data,
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) { // a foreign Secret, or another replica was faster and its key is read next time
		return fmt.Errorf("creating Secret %s/%s: %w", namespace, name, errForeign)
	}
	if err != nil {
		return fmt.Errorf("creating Secret %s/%s: %w", namespace, name, err)
	}
	return nil
}

func recoveryData(key identity.Key) (map[string][]byte, error) {
	document, err := key.Encode()
	if err != nil {
		return nil, err
	}
	return map[string][]byte{protocol.RecoveryKeyKey: document}, nil
}
