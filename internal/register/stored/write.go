package stored

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/kube"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

// writeAttempts limits how often a write is retried after a conflicting write.
const writeAttempts = 5

// Write writes the identity to Secret fleet-agent and returns the Secret. It creates the Secret or updates it in place, so
// an existing identity is never missing in between. An identity that was made from a stored one replaces only that version, seen:
// if the Secret was changed or deleted since, Write returns the API server's error. If seen is nil, it replaces any version.
func (s Store) Write(ctx context.Context, seen *corev1.Secret, identity protocol.Identity) (*corev1.Secret, error) {
	if seen != nil && seen.ResourceVersion == "" {
		seen = nil // the API server would replace any version
	}
	for attempt := 1; ; attempt++ {
		stored, err := s.writeOnce(ctx, seen, identity)
		if err == nil {
			return stored, nil
		}
		isLate := apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) || apierrors.IsNotFound(err)
		if !isLate || seen != nil || attempt == writeAttempts {
			return nil, fmt.Errorf("storing the identity in Secret %s/%s: %w", s.Namespace, names.Agent, err)
		}
	}
}

func (s Store) writeOnce(ctx context.Context, seen *corev1.Secret, identity protocol.Identity) (*corev1.Secret, error) {
	ctx, cancel := context.WithTimeout(ctx, kube.RequestTimeout)
	defer cancel()
	secrets := s.Local.CoreV1().Secrets(s.Namespace)
	var err error
	if seen == nil {
		seen, err = secrets.Get(ctx, names.Agent, metav1.GetOptions{})
	}
	if apierrors.IsNotFound(err) {
		return secrets.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: names.Agent, Annotations: map[string]string{annotation.Watched: "true"}},
			Type:       corev1.SecretTypeOpaque,
			Data:       identity.Encode(),
		}, metav1.CreateOptions{})
	}
	if err != nil {
		return nil, err
	}
	changed := seen.DeepCopy()
	if changed.Data == nil {
		changed.Data = map[string][]byte{}
	}
	maps.Copy(changed.Data, identity.Encode())
	metav1.SetMetaDataAnnotation(&changed.ObjectMeta, annotation.Watched, "true")
	return secrets.Update(ctx, changed, metav1.UpdateOptions{})
}

// DropBootstrap deletes the bootstrap secret that the agent read, but no newer version: a Secret that was
// replaced in the meantime has not been handled yet.
func (s Store) DropBootstrap(ctx context.Context, seen *corev1.Secret) error {
	ctx, cancel := context.WithTimeout(ctx, kube.RequestTimeout)
	defer cancel()
	err := s.Local.CoreV1().Secrets(seen.Namespace).Delete(ctx, seen.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &seen.UID, ResourceVersion: &seen.ResourceVersion},
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting Secret %s/%s: %w", seen.Namespace, seen.Name, err)
	}
	return nil
}
