package grant

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/rules/grant"
)

// A credential is deleted when its agent uses it. The queue of credentials has workers of its own, so that no other
// request waits for that. After a restart, the rule decides the same again from what still exists.

// use is what is known of the use of a request's credential.
type use struct {
	// account is the UID of the account that uses it, or "" if that is unknown.
	account string
	// asked is the heartbeat whose account was read last.
	asked string
	// deleted is the UID of the Secret that was deleted. The cache may still have it.
	deleted types.UID
}

// noteUse remembers who uses the credential of a request, so that each heartbeat is read at most once for that.
func (h *handler) noteUse(r *round) {
	now := use{asked: r.in.HeartbeatAsked}
	if r.out.InUse {
		now.account, now.deleted = string(r.in.Account.UID), h.useOf(r.key()).deleted
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

// endAnswer removes the right to read the answer, or enqueues the credential with it.
func (h *handler) endAnswer(r *round, write grant.Write) error {
	if write == grant.RemoveReader {
		return h.removeReader(types.NamespacedName{Namespace: r.request.Namespace, Name: r.request.Name})
	}
	h.app.CredentialSecrets.EnqueueAfter(r.in.Credential.Namespace, r.in.Credential.Name, 0)
	return nil
}

// onCredential deletes a credential that is in use. It deletes the Secret last, so that after a failure the Secret still
// leads to the objects that remain.
func (h *handler) onCredential(secret *corev1.Secret) error {
	if secret == nil || secret.DeletionTimestamp != nil {
		return nil
	}
	for _, request := range requestOf(secret) {
		of := h.useOf(request.String())
		if of.account == "" || of.deleted == secret.UID {
			continue
		}
		err := h.removeReader(request)
		if err == nil {
			err = ignoreGone(h.app.CredentialSecrets.Delete(secret.Namespace, secret.Name, &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &secret.UID}}))
		}
		if err != nil {
			return fmt.Errorf("deleting the used credential of registration %s: %w", request, err)
		}
		of.deleted = secret.UID
		h.used.Store(request.String(), of)
		h.app.Log.Debug("credential deleted, its agent uses it", "secret", secret.Namespace+"/"+secret.Name, "registration", request.String())
	}
	return nil
}
