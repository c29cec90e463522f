package grant

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// A credential is deleted when its agent uses it. The queue of credentials has workers of its own, so that no other
// request waits for that. After a restart, the rule decides the same again from what still exists.

// use records which account uses the credential of a request, and whether its Secret was deleted.
type use struct {
	// account is the UID of the account that uses it, or "" if that is unknown.
	account string
	// asked is the newest heartbeat whose account was read.
	asked string
	// deleted is the UID of the Secret that was deleted. The cache may still have it.
	deleted types.UID
}

// noteUse remembers who uses the credential of a request, so that each heartbeat is read at most once for that. While the
// rights of its account are repaired, an earlier use still counts.
func (h *handler) noteUse(r *run) {
	h.using.Lock()
	defer h.using.Unlock()
	now := use{asked: r.in.HeartbeatAsked}
	if account := r.in.Account; account != nil && (r.out.InUse || r.in.UsedBy == string(account.UID)) {
		now.account, now.deleted = string(account.UID), h.useOf(r.key()).deleted
	}
	if now == (use{}) {
		h.used.Delete(r.key())
		return
	}
	h.used.Store(r.key(), now)
}

func (h *handler) useOf(key string) use {
	known, _ := h.used.Load(key)
	of, _ := known.(use)
	return of
}

// endDelay is the time between the first use of a credential and its deletion. Meanwhile other credentials may be used,
// which are then deleted with the same requests.
const endDelay = 2 * time.Second

// maxTogether is the maximum number of credentials that are deleted together.
const maxTogether = 32

// onCredential deletes a credential that is in use, and up to 31 others that are. It deletes Secrets last, so that after a
// failure a Secret still leads to the objects that remain.
func (h *handler) onCredential(ctx context.Context, secret *corev1.Secret) error {
	if secret == nil || !h.isEnding(secret) {
		return nil
	}
	h.ending.Lock() // or several workers would delete the same ones
	defer h.ending.Unlock()
	if !h.isEnding(secret) {
		return nil
	}
	together, err := h.endingWith(secret)
	if err != nil {
		return err
	}
	if len(together) > 1 {
		if err = h.deleteTogether(ctx, together); err == nil {
			return nil
		}
		if apierrors.IsForbidden(err) {
			h.warnForbidden()
		}
	}
	if err := h.deleteUsed(secret); err != nil {
		return fmt.Errorf("deleting used credential %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	return nil
}

// isEnding reports whether an agent uses a credential, and it was not deleted yet.
func (h *handler) isEnding(secret *corev1.Secret) bool {
	return secret.DeletionTimestamp == nil && slices.ContainsFunc(requestOf(secret), func(request types.NamespacedName) bool {
		of := h.useOf(request.String())
		return of.account != "" && of.deleted != secret.UID
	})
}

// endingWith returns this credential and those to delete together with it. If an earlier release created a part of this one,
// it returns nil: that part cannot be selected by its label.
func (h *handler) endingWith(secret *corev1.Secret) ([]*corev1.Secret, error) {
	all, err := h.app.CredentialSecrets.Cache().List(secret.Namespace, labels.Everything())
	if err != nil {
		return nil, err
	}
	together := []*corev1.Secret{secret}
	for _, other := range all {
		if len(together) < maxTogether && other.UID != secret.UID && h.isEnding(other) && h.isLabelled(other) {
			together = append(together, other)
		}
	}
	if !h.isLabelled(secret) {
		return nil, nil
	}
	return together, nil
}

// isLabelled reports whether a credential and the Role and RoleBinding that make it readable have the label of their request.
func (h *handler) isLabelled(secret *corev1.Secret) bool {
	answers := secret.Labels[fleet.LabelAnswers]
	for _, request := range requestOf(secret) {
		bindings, roles, err := h.app.CredentialAccessOf(request)
		if err != nil ||
			slices.ContainsFunc(bindings, func(binding *rbacv1.RoleBinding) bool { return binding.Labels[fleet.LabelAnswers] != answers }) ||
			slices.ContainsFunc(roles, func(role *rbacv1.Role) bool { return role.Labels[fleet.LabelAnswers] != answers }) {
			return false
		}
	}
	return answers != ""
}

// deleteTogether deletes several credentials and the right to read them, with three requests.
func (h *handler) deleteTogether(ctx context.Context, secrets []*corev1.Secret) error {
	var answers []string
	for _, secret := range secrets {
		answers = append(answers, secret.Labels[fleet.LabelAnswers])
	}
	these, err := labels.NewRequirement(fleet.LabelAnswers, selection.In, answers)
	if err != nil {
		return fmt.Errorf("selecting credentials: %w", err)
	}
	namespace, options := h.app.Namespaces.Registration, metav1.ListOptions{LabelSelector: these.String()}
	for _, remove := range []func(context.Context, metav1.DeleteOptions, metav1.ListOptions) error{
		h.app.Kube.RbacV1().RoleBindings(namespace).DeleteCollection,
		h.app.Kube.RbacV1().Roles(namespace).DeleteCollection,
		h.app.Kube.CoreV1().Secrets(namespace).DeleteCollection,
	} {
		if err := remove(ctx, metav1.DeleteOptions{}, options); err != nil {
			return err
		}
	}
	for _, secret := range secrets {
		h.noteDeleted(secret)
	}
	return nil
}

// deleteUsed deletes one credential and the right to read it.
func (h *handler) deleteUsed(secret *corev1.Secret) error {
	for _, request := range requestOf(secret) {
		if err := h.removeCredentialAccess(request); err != nil {
			return err
		}
	}
	err := utilerrors.FilterOut(h.app.CredentialSecrets.Delete(secret.Namespace, secret.Name, &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &secret.UID}}), apierrors.IsNotFound)
	if err == nil {
		h.noteDeleted(secret)
	}
	return err
}

// noteDeleted remembers that a credential was deleted: the cache may still have it. The request may be gone meanwhile.
func (h *handler) noteDeleted(secret *corev1.Secret) {
	h.using.Lock()
	defer h.using.Unlock()
	for _, request := range requestOf(secret) {
		of := h.useOf(request.String())
		if of.account == "" {
			continue
		}
		of.deleted = secret.UID
		h.used.Store(request.String(), of)
		h.app.Log.Debug("credential deleted, its agent uses it", "secret", secret.Namespace+"/"+secret.Name, "registration", request.String())
	}
}
