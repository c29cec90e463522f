package deploy

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

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

const (
	// sealSecret is the Secret in the agent's namespace with the key of its seal.
	sealSecret = "fleet-agent-release-key"
	// sealKey is where the key is in it, sealKeySize its length in bytes.
	sealKey     = "key"
	sealKeySize = 32
)

// origin tells who stored a revision of a release.
type origin int

const (
	// originOther is any writer of Secrets in the namespace of the release.
	originOther origin = iota
	// originOlder is a writer from before this agent had a seal: an earlier agent, or Helm.
	originOlder
	// originAgent is this agent.
	originAgent
)

// seal marks the revisions that this agent stores. They are Secrets in the namespaces of bundles, where others may write
// Secrets, too, and what they say is done with the rights of the agent. A nil seal takes everything for the agent's.
type seal struct {
	secrets typedcorev1.SecretInterface
	// named is the revision of a release that the hub knows, 0 for none.
	named func(releaseKey) int

	mu    sync.Mutex
	key   []byte
	since metav1.Time
}

// origin tells who stored a revision. Of those without a seal, one that is older than the key counts as the agent's if
// the hub knows it, or a later one.
func (s *seal) origin(ctx context.Context, key releaseKey, number int, secret *corev1.Secret) (origin, error) {
	if s == nil {
		return originAgent, nil
	}
	made, since, err := s.load(ctx, false)
	if err != nil {
		return originOther, err
	}
	switch {
	case made != nil && hmac.Equal([]byte(secret.Annotations[fleet.AnnotationReleaseSeal]), []byte(markOf(made, secret))):
		return originAgent, nil
	case made != nil && !secret.CreationTimestamp.Before(&since):
		return originOther, nil
	case number <= s.named(key):
		return originAgent, nil
	}
	return originOlder, nil
}

// put marks a revision as the agent's.
func (s *seal) put(ctx context.Context, secret *corev1.Secret) error {
	if s == nil {
		return nil
	}
	made, _, err := s.load(ctx, true)
	if err != nil {
		return err
	}
	secret.Annotations = map[string]string{fleet.AnnotationReleaseSeal: markOf(made, secret)}
	return nil
}

// markOf covers what a revision is and where: it is good for no other Secret.
func markOf(key []byte, secret *corev1.Secret) string {
	mark := hmac.New(sha256.New, key)
	fmt.Fprintf(mark, "%s/%s\n", secret.Namespace, secret.Name)
	mark.Write(secret.Data[releaseDataKey])
	return hex.EncodeToString(mark.Sum(nil))
}

// load is the key and when it was made. Where there is none it makes one, or returns nil.
func (s *seal) load(ctx context.Context, create bool) ([]byte, metav1.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.key != nil {
		return s.key, s.since, nil
	}
	secret, err := s.secrets.Get(ctx, sealSecret, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		if !create {
			return nil, metav1.Time{}, nil
		}
		key := make([]byte, sealKeySize)
		_, _ = rand.Read(key) // cannot fail
		secret, err = s.secrets.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: sealSecret}, Data: map[string][]byte{sealKey: key},
		}, metav1.CreateOptions{})
	}
	if err != nil {
		return nil, metav1.Time{}, fmt.Errorf("reading Secret %s with the key for releases: %w", sealSecret, err)
	}
	if len(secret.Data[sealKey]) < sealKeySize {
		return nil, metav1.Time{}, fmt.Errorf("the Secret %s holds no key for releases: delete it, and the agent makes another one", sealSecret)
	}
	s.key, s.since = secret.Data[sealKey], secret.CreationTimestamp
	return s.key, s.since, nil
}
