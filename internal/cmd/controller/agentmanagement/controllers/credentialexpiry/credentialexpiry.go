// Package credentialexpiry ends credentials: whatever an agent has not fetched within the life of a
// credential, it will not fetch any more.
//
//	credential Secret ─► older than its life ─► Secret, Role and RoleBinding deleted
package credentialexpiry

import (
	"context"
	"errors"
	"fmt"

	"github.com/rancher/wrangler/v3/pkg/generic"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/fleet-hub/fleet/internal/cmd/controller/agentmanagement/app"
	"github.com/fleet-hub/fleet/internal/handshake"
	"github.com/fleet-hub/fleet/internal/reconcile"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

type handler struct {
	app      *app.Context
	roles    generic.CacheInterface[*rbacv1.Role]
	bindings generic.CacheInterface[*rbacv1.RoleBinding]
}

// Register watches the Secrets of the registration namespace.
func Register(ctx context.Context, a *app.Context) error {
	h := &handler{app: a, roles: a.Roles.Cache(), bindings: a.RoleBindings.Cache()}
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
	if err := h.end(secret); err != nil {
		return fmt.Errorf("ending credential %s: %w", secret.Name, err)
	}
	return nil
}

// end deletes the Secret last: it is what tells of the others, should one of them stay.
func (h *handler) end(secret *corev1.Secret) error {
	if err := h.dropReader(secret); err != nil {
		return err
	}
	return ignoreGone(h.app.CredentialSecrets.Delete(secret.Namespace, secret.Name, &metav1.DeleteOptions{}))
}

// dropReader deletes the RoleBinding and the Role that made the Secret readable, unless they are those of a
// request of the same name in another workspace. A Secret that does not say which request it answered is another
// implementation's, and so are they.
func (h *handler) dropReader(secret *corev1.Secret) error {
	request, workspace := secret.Annotations[fleet.AnnotationClusterRegistration], secret.Annotations[fleet.AnnotationClusterRegistrationNamespace]
	if request == "" {
		return h.dropMembers(secret)
	}
	var failures []error
	for _, name := range handshake.ReaderNames(workspace, request) {
		binding, bindingErr := reconcile.Optional(h.bindings.Get(secret.Namespace, name))
		role, roleErr := reconcile.Optional(h.roles.Get(secret.Namespace, name))
		failures = append(failures, bindingErr, roleErr)
		if binding != nil && binding.Annotations[fleet.AnnotationClusterRegistrationNamespace] == workspace {
			failures = append(failures, ignoreGone(h.app.RoleBindings.Delete(binding.Namespace, binding.Name, &metav1.DeleteOptions{})))
		}
		if role != nil && role.Annotations[fleet.AnnotationClusterRegistrationNamespace] == workspace {
			failures = append(failures, ignoreGone(h.app.Roles.Delete(role.Namespace, role.Name, &metav1.DeleteOptions{})))
		}
	}
	return errors.Join(failures...)
}

// dropMembers deletes what is in the Secret's set and beside it.
func (h *handler) dropMembers(secret *corev1.Secret) error {
	hash := secret.Labels[fleet.LabelSetHash]
	if hash == "" {
		return nil
	}
	set := labels.Set{fleet.LabelSetHash: hash}.AsSelector()
	bindings, bindingErr := h.bindings.List(secret.Namespace, set)
	roles, roleErr := h.roles.List(secret.Namespace, set)
	failures := []error{bindingErr, roleErr}
	for _, binding := range bindings {
		failures = append(failures, ignoreGone(h.app.RoleBindings.Delete(binding.Namespace, binding.Name, &metav1.DeleteOptions{})))
	}
	for _, role := range roles {
		failures = append(failures, ignoreGone(h.app.Roles.Delete(role.Namespace, role.Name, &metav1.DeleteOptions{})))
	}
	return errors.Join(failures...)
}

func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
