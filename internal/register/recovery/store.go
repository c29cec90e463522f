package recovery

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/fleet-hub/fleet/internal/identity"
	"github.com/fleet-hub/fleet/internal/kube"
	"github.com/fleet-hub/fleet/internal/kube/answers"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// ErrForeign means that a Secret with the name of the recovery Secret has another type.
var ErrForeign = errors.New("the Secret has another type")

// Store reads and writes the recovery Secret of one agent.
type Store struct {
	// Local is a client for the agent's own cluster.
	Local interface {
		CoreV1() corev1client.CoreV1Interface
	}
	// Namespace is the agent's namespace.
	Namespace string
	// Log receives a warning if a damaged key is replaced.
	Log *slog.Logger
}

// IsUnstorable reports whether an error of Load or Save means that the agent may store its key nowhere.
func IsUnstorable(err error) bool {
	return apierrors.IsForbidden(err) || errors.Is(err, errDenied) || errors.Is(err, ErrForeign)
}

// errDenied means that admission has denied an object.
var errDenied = errors.New("denied by admission")

// isDenied reports whether admission may have denied a write. Policies use code 422, and webhooks without a code 400.
func isDenied(err error) bool { return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) }

// Load returns the agent's key and the valid values beside it. Load creates a missing key.
func (s Store) Load(ctx context.Context) (identity.Key, protocol.RecoveryData, error) {
	ctx, cancel := context.WithTimeout(ctx, kube.RequestTimeout)
	defer cancel()
	for _, namespace := range s.namespaces() {
		secret, err := s.read(ctx, namespace)
		if err == nil {
			key, err := s.key(ctx, secret)
			return key, protocol.ParseRecoveryData(secret.Data), err
		}
		if !isElsewhere(err) {
			return identity.Key{}, protocol.RecoveryData{}, err
		}
	}
	created, err := identity.NewKey(rand.Reader)
	if err != nil {
		return identity.Key{}, protocol.RecoveryData{}, err
	}
	return created, protocol.RecoveryData{}, s.create(ctx, created, protocol.RecoveryData{})
}

// Save writes the values beside the agent's key, if they have changed. If the Secret was deleted or its key was
// damaged, Save restores the key. If the Secret has another key by now, Save keeps that one.
func (s Store) Save(ctx context.Context, key identity.Key, kept protocol.RecoveryData) error {
	ctx, cancel := context.WithTimeout(ctx, kube.RequestTimeout)
	defer cancel()
	for _, namespace := range s.namespaces() {
		secret, err := s.read(ctx, namespace)
		if err == nil {
			return s.update(ctx, secret, key, kept)
		}
		if !isElsewhere(err) {
			return err
		}
	}
	return s.create(ctx, key, kept)
}

// Name returns the name of the Secret.
func (s Store) Name() string { return names.RecoverySecret(s.Namespace) }

func (s Store) namespaces() []string { return []string{metav1.NamespaceSystem, s.Namespace} }

// isElsewhere reports whether an error means that the key may be in another namespace. After any other error it is
// unknown whether there is a key, and a second one must not be created.
func isElsewhere(err error) bool {
	return answers.IsDeleted(err) || apierrors.IsForbidden(err) || errors.Is(err, errDenied) || errors.Is(err, ErrForeign)
}

func (s Store) read(ctx context.Context, namespace string) (*corev1.Secret, error) {
	secret, err := s.Local.CoreV1().Secrets(namespace).Get(ctx, s.Name(), metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading Secret %s/%s: %w", namespace, s.Name(), err)
	}
	if secret.Type == corev1.SecretTypeOpaque && len(secret.Data) == 0 {
		return nil, s.discard(ctx, secret)
	}
	if secret.Type != protocol.SecretTypeRecovery {
		return nil, fmt.Errorf("reading Secret %s/%s of type %s: %w", namespace, s.Name(), secret.Type, ErrForeign)
	}
	return secret, nil
}

// discard deletes an empty Secret, and returns an error as if there was none. helm template prints the hooks of the agent's chart,
// among them this Secret, and kubectl applies them. The type of a Secret cannot be changed.
func (s Store) discard(ctx context.Context, secret *corev1.Secret) error {
	found := metav1.Preconditions{UID: &secret.UID, ResourceVersion: &secret.ResourceVersion}
	err := s.Local.CoreV1().Secrets(secret.Namespace).Delete(ctx, secret.Name, metav1.DeleteOptions{Preconditions: &found})
	if isDenied(err) {
		return fmt.Errorf("deleting the empty Secret %s/%s: %w: %w", secret.Namespace, secret.Name, errDenied, err)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting the empty Secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	return apierrors.NewNotFound(corev1.Resource("secrets"), secret.Name)
}

// key returns the key in the Secret. A damaged key cannot be recovered, so it is replaced. The other values stay.
func (s Store) key(ctx context.Context, secret *corev1.Secret) (identity.Key, error) {
	key, err := identity.ParseKey(secret.Data[protocol.RecoveryKeyKey])
	if err == nil {
		return key, nil
	}
	s.Log.Warn("the agent's recovery key is damaged and is replaced; if the hub has recorded it, the next request waits until you run on the hub: fleet confirm-takeover CLUSTER REQUEST -n WORKSPACE",
		"secret", secret.Namespace+"/"+secret.Name, "error", err)
	if key, err = identity.NewKey(rand.Reader); err != nil {
		return identity.Key{}, err
	}
	return key, s.update(ctx, secret, key, protocol.ParseRecoveryData(secret.Data))
}

func (s Store) update(ctx context.Context, secret *corev1.Secret, key identity.Key, kept protocol.RecoveryData) error {
	changed := secret.DeepCopy()
	if changed.Data == nil {
		changed.Data = map[string][]byte{}
	}
	kept.Replace(changed.Data)
	if _, err := identity.ParseKey(changed.Data[protocol.RecoveryKeyKey]); err != nil {
		document, err := key.Encode()
		if err != nil {
			return err
		}
		changed.Data[protocol.RecoveryKeyKey] = document
	}
	if reflect.DeepEqual(secret.Data, changed.Data) {
		return nil
	}
	if _, err := s.Local.CoreV1().Secrets(secret.Namespace).Update(ctx, changed, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("updating Secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	return nil
}

// create stores the key in the first namespace in which the agent may do so.
func (s Store) create(ctx context.Context, key identity.Key, kept protocol.RecoveryData) error {
	document, err := key.Encode()
	if err != nil {
		return err
	}
	data := map[string][]byte{protocol.RecoveryKeyKey: document}
	maps.Copy(data, kept.Encode())
	for _, namespace := range s.namespaces() {
		if err = s.createIn(ctx, namespace, data); err == nil || !isElsewhere(err) {
			return err
		}
	}
	return err
}

func (s Store) createIn(ctx context.Context, namespace string, data map[string][]byte) error {
	_, err := s.Local.CoreV1().Secrets(namespace).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: s.Name()}, Type: protocol.SecretTypeRecovery, Data: data,
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) { // a foreign Secret, or another replica was faster and its key is read next time
		return fmt.Errorf("creating Secret %s/%s: %w", namespace, s.Name(), ErrForeign)
	}
	if isDenied(err) {
		return fmt.Errorf("creating Secret %s/%s: %w: %w", namespace, s.Name(), errDenied, err)
	}
	if err != nil {
		return fmt.Errorf("creating Secret %s/%s: %w", namespace, s.Name(), err)
	}
	return nil
}
