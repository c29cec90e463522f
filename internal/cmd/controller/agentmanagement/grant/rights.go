package grant

import (
	"errors"
	"fmt"
	"slices"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/contentreaders"
	"github.com/fleet-hub/fleet/internal/rules/grant"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// writeRights writes the account's rights and, at the same time, the right to read the answer. If nothing has changed
// since the rights were last found to be correct, as with most heartbeats, it does not compare them again.
func (h *handler) writeRights(r *run) error {
	if len(r.out.Children) == 0 {
		return h.access.write(r.out.CredentialAccess)
	}
	owner := reconcile.OwnerOf(gvk(), r.request)
	found, err := h.stateOf(owner, r.in)
	if err != nil {
		return err
	}
	awaited := r.out.Stage == grant.AwaitingRights
	if awaited {
		h.correct.Delete(r.key()) // once they exist, older ones may be deleted
	}
	if before, known := h.correct.Load(r.key()); known && before == found {
		return h.access.write(r.out.CredentialAccess)
	}
	err = atOnce(func() error { return h.access.write(r.out.CredentialAccess) }, func() error { return h.set.Apply(owner, r.out.Children...) })
	if err != nil {
		return fmt.Errorf("writing the rights of registration %s: %w", r.key(), err)
	}
	if awaited {
		h.awaitContents(r.in)
		return nil
	}
	h.correct.Store(r.key(), found)
	return nil
}

// rightsState identifies a state of a request's rights in the caches, and of the values that they are derived from.
type rightsState struct {
	versions           uint64
	cluster, namespace string
	credential         bool
}

func (h *handler) stateOf(owner reconcile.Owner, in grant.Input) (rightsState, error) {
	cluster := grant.ClusterOf(in)
	versions, err := h.set.Versions(owner)
	return rightsState{versions, cluster.Name, cluster.Status.Namespace, in.Credential != nil}, err
}

// credentialAccess holds the kinds of the objects that make credentials readable. These objects are not children of requests:
// they are deleted with the credential.
type credentialAccess struct{ roles, bindings reconcile.Kind }

// write creates or corrects the Role and RoleBinding that make one credential readable.
func (r credentialAccess) write(access []runtime.Object) error {
	for _, object := range access {
		var err error
		switch wanted := object.(type) {
		case *rbacv1.Role:
			err = r.roles.Ensure(wanted)
		case *rbacv1.RoleBinding:
			err = r.bindings.Ensure(wanted)
		default:
			err = fmt.Errorf("making a credential readable: unsupported object type %T", object)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// revoke deletes all rights of a request, its credential, and the right to read the credential.
func (h *handler) revoke(owner reconcile.Owner, namespace, name string) error {
	if err := h.set.Apply(owner); err != nil {
		return fmt.Errorf("revoking the rights of registration %s/%s: %w", namespace, name, err)
	}
	request := types.NamespacedName{Namespace: namespace, Name: name}
	secrets, err := h.credentialsOf(request)
	if err != nil {
		return err
	}
	var failures []error
	for _, secret := range secrets {
		failures = append(failures, utilerrors.FilterOut(h.app.CredentialSecrets.Delete(secret.Namespace, secret.Name, &metav1.DeleteOptions{}), apierrors.IsNotFound))
	}
	return errors.Join(append(failures, h.removeCredentialAccess(request))...)
}

// removeCredentialAccess deletes the Role and RoleBinding that made the request's credential readable. It keeps those of a
// request with the same name in another workspace.
func (h *handler) removeCredentialAccess(request types.NamespacedName) error {
	bindings, roles, err := h.app.CredentialAccessOf(request)
	failures := []error{err}
	for _, binding := range bindings {
		failures = append(failures, h.access.bindings.Remove(binding))
	}
	for _, role := range roles {
		failures = append(failures, h.access.roles.Remove(role))
	}
	return errors.Join(failures...)
}

// requestOf returns the request that an object in the registration namespace was made for.
func requestOf[T metav1.Object](object T) []types.NamespacedName {
	annotations := object.GetAnnotations()
	name := annotations[fleet.AnnotationClusterRegistration]
	if name == "" || annotations[fleet.AnnotationCluster] != "" { // an account is a child, and is watched as one
		return nil
	}
	return []types.NamespacedName{{Namespace: annotations[fleet.AnnotationClusterRegistrationNamespace], Name: name}}
}

// isCredentialAccess reports whether a hub created a Role or RoleBinding to make a credential readable. Ours name the request.
// Those of Rancher Fleet are in the request's set.
func isCredentialAccess(object reconcile.Object) bool {
	return object.GetLabels()[fleet.LabelManaged] == "true" &&
		(len(requestOf(object)) > 0 || object.GetAnnotations()[fleet.AnnotationSetID] == grant.SetID)
}

// keepsWhileCredentialExists returns a function that reports whether a Role or RoleBinding makes a credential readable
// that still exists. Only those of Rancher Fleet are members of a request's set. Without them, an agent that has not
// fetched its credential yet would wait for half an hour. They are deleted with the credential.
func keepsWhileCredentialExists(a *hub.App) func(reconcile.Object) bool {
	secrets := a.CredentialSecrets.Cache()
	return func(member reconcile.Object) bool {
		if member.GetNamespace() != a.Namespaces.Registration {
			return false
		}
		set := labels.Set{fleet.LabelSetHash: member.GetLabels()[fleet.LabelSetHash]}
		found, err := secrets.List(a.Namespaces.Registration, set.AsSelector())
		return err != nil || len(found) > 0
	}
}

// The controller contentreaders writes the right of an account to read Contents. A request waits for it as for its
// other rights.

// readsContents reports whether the caches contain the binding that lets an account read Contents.
func readsContents(a *hub.App, account types.NamespacedName) (bool, error) {
	binding, err := reconcile.Optional(a.ClusterRoleBindings.Cache().Get(a.ContentBinding(account)))
	return contentreaders.Reads(binding, account), err
}

// contentReaders returns the accounts that a ClusterRoleBinding lets read Contents, and for the binding of all accounts
// the empty name.
func contentReaders(binding *rbacv1.ClusterRoleBinding) (accounts []types.NamespacedName) {
	if !contentreaders.IsBinding(binding.Name) {
		return nil
	}
	if binding.Name == contentreaders.AllBinding {
		return []types.NamespacedName{{}}
	}
	for _, subject := range binding.Subjects {
		accounts = append(accounts, types.NamespacedName{Namespace: subject.Namespace, Name: subject.Name})
	}
	return accounts
}

// enqueueRequestOfReader enqueues the request of an account that may read Contents from now on.
func (h *handler) enqueueRequestOfReader(key types.NamespacedName) {
	if key.Name == "" {
		h.enqueue(h.allRequests())
		return
	}
	account, err := h.app.ServiceAccounts.Cache().Get(key.Namespace, key.Name)
	if err != nil {
		return // the request is enqueued when the account appears
	}
	if request, says := contentreaders.RequestOf(account); says {
		h.enqueue([]types.NamespacedName{request})
	}
}

// allRequests returns the requests that may wait for the right of all accounts.
func (h *handler) allRequests() (waiting []types.NamespacedName) {
	all, err := h.app.ClusterRegistrations.Cache().List("", labels.Everything())
	if err != nil {
		return nil // the cache has not started; then each request is enqueued when it appears
	}
	for _, request := range all {
		if !request.Status.Granted {
			waiting = append(waiting, types.NamespacedName{Namespace: request.Namespace, Name: request.Name})
		}
	}
	return waiting
}

// contentsDelay is the time until the ClusterRoleBinding that a request waits for is computed again. The account has
// enqueued it already. It computes all accounts that share it, and a request waits at each change of its rights.
const contentsDelay = 100 * time.Millisecond

// awaitContents enqueues the ClusterRoleBinding that a request waits for.
func (h *handler) awaitContents(in grant.Input) {
	if in.Account == nil {
		return // the binding is enqueued when the account appears
	}
	account := types.NamespacedName{Namespace: in.Account.Namespace, Name: in.Account.Name}
	if reads, err := readsContents(h.app, account); err == nil && !reads {
		h.app.ClusterRoleBindings.EnqueueAfter(h.app.ContentBinding(account), contentsDelay)
	}
}

// bindingsOf returns a function that reports whether an account can read Contents only through a request's own
// ClusterRoleBinding. Earlier releases created one per request. It stays until the account is in a shared one.
func bindingsOf(a *hub.App) func(reconcile.Object) bool {
	return func(member reconcile.Object) bool {
		binding, ok := member.(*rbacv1.ClusterRoleBinding)
		return !ok || slices.ContainsFunc(binding.Subjects, func(subject rbacv1.Subject) bool {
			account, err := reconcile.Optional(a.ServiceAccounts.Cache().Get(subject.Namespace, subject.Name))
			if err != nil || account == nil {
				return err != nil // an account that is gone reads nothing
			}
			reads, err := readsContents(a, types.NamespacedName{Namespace: subject.Namespace, Name: subject.Name})
			return err != nil || !reads
		})
	}
}
