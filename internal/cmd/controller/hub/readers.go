package hub

import (
	"errors"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/grant"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// ReadersOf returns the RoleBindings and Roles that make the answer to a request readable, under each of their
// possible names. It leaves out those of a request with the same name in another workspace. If it returns an error,
// the result may be incomplete.
func (a *Context) ReadersOf(request types.NamespacedName) (bindings []*rbacv1.RoleBinding, roles []*rbacv1.Role, err error) {
	for _, name := range grant.ReaderNames(request.Namespace, request.Name) {
		binding, bindingErr := reconcile.Optional(a.RoleBindings.Cache().Get(a.Namespaces.Registration, name))
		role, roleErr := reconcile.Optional(a.Roles.Cache().Get(a.Namespaces.Registration, name))
		err = errors.Join(err, bindingErr, roleErr)
		if binding != nil && binding.Annotations[fleet.AnnotationClusterRegistrationNamespace] == request.Namespace {
			bindings = append(bindings, binding)
		}
		if role != nil && role.Annotations[fleet.AnnotationClusterRegistrationNamespace] == request.Namespace {
			roles = append(roles, role)
		}
	}
	return bindings, roles, err
}
