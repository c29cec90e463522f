package grant

import (
	"errors"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/reconcile"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// readers are the kinds of the objects that make credentials readable. These objects are not children of requests:
// they are deleted with the credential.
type readers struct{ roles, bindings reconcile.Kind }

// letRead writes the Role and RoleBinding that make one credential readable.
func (r readers) letRead(reader []runtime.Object) error {
	for _, object := range reader {
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
		failures = append(failures, ignoreGone(h.app.CredentialSecrets.Delete(secret.Namespace, secret.Name, &metav1.DeleteOptions{})))
	}
	return errors.Join(append(failures, h.dropReader(request))...)
}

// dropReader deletes the Role and RoleBinding that made the request's credential readable. It keeps those of a
// request with the same name in another workspace.
func (h *handler) dropReader(request types.NamespacedName) error {
	bindings, roles, err := h.app.ReadersOf(request)
	failures := []error{err}
	for _, binding := range bindings {
		failures = append(failures, h.readers.bindings.Remove(binding))
	}
	for _, role := range roles {
		failures = append(failures, h.readers.roles.Remove(role))
	}
	return errors.Join(failures...)
}

func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
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
