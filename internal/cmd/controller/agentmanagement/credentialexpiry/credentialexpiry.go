// Package credentialexpiry deletes credentials that have reached the end of their life. Their agents have fetched
// them, or no longer wait for them.
//
//	credential Secret ─► older than its life ─► Secret, Role and RoleBinding deleted
package credentialexpiry

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/grant"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

type handler struct{ app *hub.App }

// Register watches the Secrets of the registration namespace.
func Register(ctx context.Context, a *hub.App) error {
	h := &handler{app: a}
	a.CredentialSecrets.OnChange(hub.Lasting(ctx), "credential-expiry", func(_ string, secret *corev1.Secret) (*corev1.Secret, error) {
		return secret, h.onChange(secret)
	})
	return nil
}

func (h *handler) onChange(secret *corev1.Secret) error {
	if secret == nil || secret.DeletionTimestamp != nil || secret.Labels[fleet.LabelCluster] == "" {
		return nil // gone, or not the credential of a registration
	}
	expiry := secret.CreationTimestamp.Add(grant.CredentialLife)
	if left := expiry.Sub(h.app.Clock()); left > 0 {
		h.app.CredentialSecrets.EnqueueAfter(secret.Namespace, secret.Name, left)
		return nil
	}
	h.app.Log.Info("credential expired", "secret", secret.Namespace+"/"+secret.Name, "cluster", secret.Labels[fleet.LabelCluster])
	if err := h.end(secret); err != nil {
		return fmt.Errorf("ending credential %s: %w", secret.Name, err)
	}
	return nil
}

// end deletes the Secret last, so that after a failure the Secret still leads to the objects that remain.
func (h *handler) end(secret *corev1.Secret) error {
	if err := h.dropReader(secret); err != nil {
		return err
	}
	return reconcile.Delete(h.app.CredentialSecrets, secret)
}

// dropReader deletes the RoleBinding and the Role that made the Secret readable. It keeps those of a request of the
// same name in another workspace. If the Secret does not name the request that it answers, Rancher Fleet created it
// and them.
func (h *handler) dropReader(secret *corev1.Secret) error {
	request := types.NamespacedName{
		Namespace: secret.Annotations[fleet.AnnotationClusterRegistrationNamespace], Name: secret.Annotations[fleet.AnnotationClusterRegistration],
	}
	if request.Name == "" {
		return h.dropMembers(secret)
	}
	bindings, roles, err := h.app.CredentialAccessOf(request)
	return errors.Join(err, h.drop(bindings, roles))
}

// dropMembers deletes the Roles and RoleBindings of the Secret's set.
func (h *handler) dropMembers(secret *corev1.Secret) error {
	hash := secret.Labels[fleet.LabelSetHash]
	if hash == "" {
		return nil
	}
	set := labels.Set{fleet.LabelSetHash: hash}.AsSelector()
	bindings, bindingErr := h.app.RoleBindings.Cache().List(secret.Namespace, set)
	roles, roleErr := h.app.Roles.Cache().List(secret.Namespace, set)
	return errors.Join(bindingErr, roleErr, h.drop(bindings, roles))
}

func (h *handler) drop(bindings []*rbacv1.RoleBinding, roles []*rbacv1.Role) error {
	var failures []error
	for _, binding := range bindings {
		failures = append(failures, reconcile.Delete(h.app.RoleBindings, binding))
	}
	for _, role := range roles {
		failures = append(failures, reconcile.Delete(h.app.Roles, role))
	}
	return errors.Join(failures...)
}
