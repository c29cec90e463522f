package register

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// storeAttempts limits how often a write is retried after a conflicting write.
const storeAttempts = 5

// store writes the identity to Secret fleet-agent and returns the Secret. It creates the Secret or updates it in place, so
// an existing identity is never missing in between. seen is the Secret as last read, or nil. It is not read again before
// it is updated, because the API server refuses to update an old version.
func store(ctx context.Context, local LocalClients, namespace string, seen *corev1.Secret, identity protocol.Identity) (*corev1.Secret, error) {
	if seen != nil && seen.ResourceVersion == "" {
		seen = nil // the API server would replace any version
	}
	for attempt := 1; ; attempt++ {
		stored, err := storeOnce(ctx, local, namespace, seen, identity)
		if err == nil {
			return stored, nil
		}
		isLate := apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) || apierrors.IsNotFound(err)
		if !isLate || attempt == storeAttempts {
			return nil, fmt.Errorf("storing the identity in Secret %s/%s: %w", namespace, names.Agent, err)
		}
		seen = nil
	}
}

func storeOnce(ctx context.Context, local LocalClients, namespace string, seen *corev1.Secret, identity protocol.Identity) (*corev1.Secret, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	secrets := local.CoreV1().Secrets(namespace)
	var err error
	if seen == nil {
		seen, err = secrets.Get(ctx, names.Agent, metav1.GetOptions{})
	}
	if apierrors.IsNotFound(err) {
		return secrets.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: names.Agent, Annotations: map[string]string{fleet.AnnotationWatched: "true"}},
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
	metav1.SetMetaDataAnnotation(&changed.ObjectMeta, fleet.AnnotationWatched, "true")
	return secrets.Update(ctx, changed, metav1.UpdateOptions{})
}

// dropBootstrap deletes the bootstrap secret that the agent read, but no newer version: a Secret that was
// replaced in the meantime has not been handled yet.
func dropBootstrap(ctx context.Context, local LocalClients, seen *corev1.Secret) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	err := local.CoreV1().Secrets(seen.Namespace).Delete(ctx, seen.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &seen.UID, ResourceVersion: &seen.ResourceVersion},
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting Secret %s/%s: %w", seen.Namespace, seen.Name, err)
	}
	return nil
}
