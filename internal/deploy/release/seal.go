package release

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/fleet-hub/fleet/internal/deploy/placement"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

const (
	// sealKey is the field of Secret names.ReleaseKey that contains the key. sealKeySize is the length of the key in bytes.
	sealKey     = "key"
	sealKeySize = 32
)

// origin identifies the writer of a revision of a release.
type origin int

const (
	// originOther is any other writer of Secrets in the namespace of the release.
	originOther origin = iota
	// originOlder is a writer from before this agent had a key: an earlier agent, or Helm.
	originOlder
	// originAgent is this agent.
	originAgent
)

// Seal marks the revisions that this agent stores. Revisions are Secrets in the namespaces of bundles, where others may write
// Secrets as well, and the agent executes what they say with its own rights. A nil seal trusts every revision.
type Seal struct {
	secrets typedcorev1.SecretInterface
	named   func(placement.Release) int

	mu    sync.Mutex
	key   []byte
	since metav1.Time
}

// NewSeal returns a seal whose key is in a Secret of the agent's namespace. named returns the revision of a release
// that the hub knows, 0 if it knows none.
func NewSeal(secrets typedcorev1.SecretInterface, named func(placement.Release) int) *Seal {
	return &Seal{secrets: secrets, named: named}
}

// origin determines the writer of a revision. An unsealed revision that is older than the key counts as the agent's if its
// number is not higher than that of the revision which the hub knows.
func (s *Seal) origin(ctx context.Context, key placement.Release, number int, secret *corev1.Secret) (origin, error) {
	if s == nil {
		return originAgent, nil
	}
	made, since, err := s.load(ctx, false)
	if err != nil {
		return originOther, err
	}
	switch {
	case made != nil && hmac.Equal([]byte(secret.Annotations[annotation.ReleaseSeal]), []byte(markOf(made, secret))):
		return originAgent, nil
	case made != nil && !secret.CreationTimestamp.Before(&since):
		return originOther, nil
	case number <= s.named(key):
		return originAgent, nil
	}
	return originOlder, nil
}

// put seals a revision.
func (s *Seal) put(ctx context.Context, secret *corev1.Secret) error {
	if s == nil {
		return nil
	}
	made, _, err := s.load(ctx, true)
	if err != nil {
		return err
	}
	secret.Annotations = map[string]string{annotation.ReleaseSeal: markOf(made, secret)}
	return nil
}

// markOf returns the seal of a Secret: an HMAC of its namespace, its name and the release, so that no other one can have it.
func markOf(key []byte, secret *corev1.Secret) string {
	mark := hmac.New(sha256.New, key)
	fmt.Fprintf(mark, "%s/%s\n", secret.Namespace, secret.Name)
	mark.Write(secret.Data[releaseDataKey])
	return hex.EncodeToString(mark.Sum(nil))
}

// load returns the key and its creation time. A missing key is created if create is true. Otherwise load returns nil.
func (s *Seal) load(ctx context.Context, create bool) ([]byte, metav1.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.key != nil {
		return s.key, s.since, nil
	}
	secret, err := s.secrets.Get(ctx, names.ReleaseKey, metav1.GetOptions{})
	// helm template prints the hooks of the agent's chart, among them an empty Secret, and kubectl applies them.
	if apierrors.IsNotFound(err) || err == nil && len(secret.Data) == 0 {
		if !create {
			return nil, metav1.Time{}, nil
		}
		made := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: names.ReleaseKey}, Data: map[string][]byte{sealKey: make([]byte, sealKeySize)}}
		_, _ = rand.Read(made.Data[sealKey]) // crypto/rand never returns an error
		if err != nil {
			secret, err = s.secrets.Create(ctx, made, metav1.CreateOptions{})
		} else {
			secret.Data = made.Data
			secret, err = s.secrets.Update(ctx, secret, metav1.UpdateOptions{})
		}
	}
	if err != nil {
		return nil, metav1.Time{}, fmt.Errorf("reading Secret %s with the release key: %w", names.ReleaseKey, err)
	}
	if len(secret.Data[sealKey]) < sealKeySize {
		return nil, metav1.Time{}, fmt.Errorf("reading Secret %s: it contains no valid release key: delete it, and the agent creates a new one", names.ReleaseKey)
	}
	s.key, s.since = secret.Data[sealKey], secret.CreationTimestamp
	return s.key, s.since, nil
}
