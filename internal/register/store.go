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

// store writes the identity to Secret fleet-agent. It creates the Secret or updates it in place, so an existing
// identity is never missing in between.
func store(ctx context.Context, local LocalClients, namespace string, identity protocol.Identity) error {
	var err error
	for range storeAttempts {
		if err = storeOnce(ctx, local, namespace, identity); !apierrors.IsAlreadyExists(err) && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("storing the identity in Secret %s/%s: %w", namespace, names.Agent, err)
	}
	return nil
}

func storeOnce(ctx context.Context, local LocalClients, namespace string, identity protocol.Identity) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	secrets := local.CoreV1().Secrets(namespace)
	existing, err := secrets.Get(ctx, names.Agent, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = secrets.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: names.Agent, Annotations: map[string]string{fleet.AnnotationWatched: "true"}},
			Type:       corev1.SecretTypeOpaque,
			Data:       identity.Encode(),
		}, metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	changed := existing.DeepCopy()
	if changed.Data == nil {
		changed.Data = map[string][]byte{}
	}
	maps.Copy(changed.Data, identity.Encode())
	metav1.SetMetaDataAnnotation(&changed.ObjectMeta, fleet.AnnotationWatched, "true")
	_, err = secrets.Update(ctx, changed, metav1.UpdateOptions{})
	return err
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
