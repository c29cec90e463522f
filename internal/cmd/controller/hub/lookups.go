package hub

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fleet-hub/fleet/internal/reconcile"
	clusterrule "github.com/fleet-hub/fleet/internal/rules/clusters"
	"github.com/fleet-hub/fleet/internal/rules/contentreaders"
	"github.com/fleet-hub/fleet/internal/rules/grant"
	"github.com/fleet-hub/fleet/internal/rules/importing"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Owns reports whether this process reconciles an object. A shard owns the objects with its label. The other process
// owns the objects without the label or with an empty one. Every process sees all objects. No process owns an object
// that was decoded incompletely, until it is corrected.
func (a *App) Owns(object metav1.Object) bool {
	return object.GetLabels()[fleet.LabelShardRef] == a.Env.Shard && len(a.undecodable.Fields(object)) == 0
}

// IsDeletingNamespace reports whether a namespace is being deleted: nothing can be created in it, and its content is deleted. It
// returns false for a namespace that is not in the cache.
func (a *App) IsDeletingNamespace(namespace string) bool {
	found, err := a.AllNamespaces.Cache().Get(namespace)
	return err == nil && found.DeletionTimestamp != nil
}

// fixedLength is the length of `cluster-`, the two separators and the hash in the name of a Cluster's namespace. A name that
// was not shortened has the workspace and the name of the Cluster in addition.
const fixedLength = len("cluster---") + 12

// NamespaceTaken reports whether the computed namespace of a Cluster was made for another Cluster. Two Clusters can
// only have the same name of a namespace if that name was cut, so only long names need a lookup.
func (a *App) NamespaceTaken(cluster *fleet.Cluster) (bool, error) {
	if len(cluster.Namespace)+len(cluster.Name)+fixedLength <= validation.DNS1123LabelMaxLength {
		return false, nil
	}
	name := clusterrule.NamespaceOf(cluster)
	namespace, err := reconcile.Optional(a.AllNamespaces.Cache().Get(name))
	if err != nil {
		return false, fmt.Errorf("getting namespace %s: %w", name, err)
	}
	return clusterrule.ClaimOf(namespace, types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name}) == clusterrule.NamespaceOfAnother, nil
}

// CredentialAccessOf returns the RoleBindings and Roles that make the answer to a request readable, under each of their
// possible names. It leaves out those of a request with the same name in another workspace. If it returns an error,
// the result may be incomplete.
func (a *App) CredentialAccessOf(request types.NamespacedName) (bindings []*rbacv1.RoleBinding, roles []*rbacv1.Role, err error) {
	for _, name := range grant.CredentialAccessNames(request.Namespace, request.Name) {
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

// ContentBinding returns the name of the ClusterRoleBinding that lets an account read Contents on this hub.
func (a *App) ContentBinding(account types.NamespacedName) string {
	if a.Env.AllReadContents {
		return contentreaders.AllBinding
	}
	return contentreaders.Binding(account)
}

// IsPullSecret reports whether a Secret is copied to agents, so that they can pull their image.
func (a *App) IsPullSecret(secret types.NamespacedName) bool {
	return secret.Namespace == a.Namespaces.System && slices.ContainsFunc(a.Config.Get().ImagePullSecrets,
		func(reference corev1.LocalObjectReference) bool { return reference.Name == secret.Name })
}

// AgentDefaults returns the agent settings from the controllers' environment. Both the import and the agent's Bundle
// use them, so that they deploy the same agent.
func (a *App) AgentDefaults() importing.AgentDefaults {
	e := a.Env
	d := importing.AgentDefaults{
		Replicas: e.Agent.Replicas, LeaseDuration: e.Agent.LeaseDuration, RetryPeriod: e.Agent.RetryPeriod, RenewDeadline: e.Agent.RenewDeadline,
		DisableSecurityContext: e.Agent.DisableSecurityContext, ErrorMapping: e.Agent.ErrorMapping,
	}
	if e.Agent.PropagateDebug {
		d.Debug, d.DebugLevel = e.Debug, e.DebugLevel
	}
	return d
}
