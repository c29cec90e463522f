// Package credentialexpiry ends credentials: whatever an agent has not fetched within the life of a
// credential, it will not fetch any more.
//
//	credential Secret ─► older than its life ─► Secret, Role and RoleBinding deleted
package credentialexpiry

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/cmd/controller/agentmanagement/app"
	"github.com/fleet-hub/fleet/internal/handshake"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

type handler struct{ app *app.Context }

// Register watches the Secrets of the registration namespace.
func Register(ctx context.Context, a *app.Context) error {
	h := &handler{app: a}
	a.CredentialSecrets.OnChange(ctx, "credential-expiry", func(_ string, secret *corev1.Secret) (*corev1.Secret, error) {
		return secret, h.onChange(secret)
	})
	return nil
}

func (h *handler) onChange(secret *corev1.Secret) error {
	if secret == nil || secret.DeletionTimestamp != nil || secret.Labels[fleet.LabelCluster] == "" {
		return nil // gone, or not one of a registration
	}
	expiry := secret.CreationTimestamp.Add(handshake.CredentialLife)
	if left := expiry.Sub(h.app.Clock()); left > 0 {
		h.app.CredentialSecrets.EnqueueAfter(secret.Namespace, secret.Name, left)
		return nil
	}
	h.app.Log.Info("credential expired", "secret", secret.Namespace+"/"+secret.Name, "cluster", secret.Labels[fleet.LabelCluster])
	var readerErr error
	if reader := readerOf(secret); reader != "" {
		readerErr = errors.Join(
			ignoreGone(h.app.RoleBindings.Delete(secret.Namespace, reader, &metav1.DeleteOptions{})),
			ignoreGone(h.app.Roles.Delete(secret.Namespace, reader, &metav1.DeleteOptions{})),
		)
	}
	err := errors.Join(readerErr, ignoreGone(h.app.CredentialSecrets.Delete(secret.Namespace, secret.Name, &metav1.DeleteOptions{})))
	if err != nil {
		return fmt.Errorf("ending credential %s: %w", secret.Name, err)
	}
	return nil
}

// readerOf is the name of the Role and RoleBinding that made the Secret readable, empty for a Secret
// that does not say which request it answered.
func readerOf(secret *corev1.Secret) string {
	if request := secret.Annotations[fleet.AnnotationClusterRegistration]; request != "" {
		return handshake.ReaderName(request)
	}
	return ""
}

func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
