package agentchart

import (
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// Names of objects that only customised agents have.
const (
	PriorityClass    = "fleet-agent-priority-class"
	DisruptionBudget = "fleet-agent-pod-disruption-budget"
)

// networkPolicy is the name of the agent's NetworkPolicy.
const networkPolicy = "default-allow-all"

// Objects returns all objects that an agent may have in a namespace, in the order of their deletion. The PriorityClass is
// shared by all agents of a cluster.
func Objects(namespace string) []runtime.Object {
	here := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: namespace, Name: name} }
	everywhere := func(parts ...string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: names.SafeConcat(parts...)}
	}
	return []runtime.Object{
		&rbacv1.ClusterRole{ObjectMeta: everywhere(namespace, names.Agent, "role")},
		&rbacv1.ClusterRoleBinding{ObjectMeta: everywhere(namespace, names.Agent, "role", "binding")},
		&schedulingv1.PriorityClass{ObjectMeta: everywhere(PriorityClass)},
		&corev1.Secret{ObjectMeta: here(names.Agent)},
		&corev1.Secret{ObjectMeta: here(names.AgentBootstrap)},
		&corev1.Secret{ObjectMeta: here(names.RecoverySecret(namespace))},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: names.RecoverySecret(namespace)}},
		&corev1.ConfigMap{ObjectMeta: here(names.Agent)},
		&corev1.ServiceAccount{ObjectMeta: here(names.Agent)},
		&networkingv1.NetworkPolicy{ObjectMeta: here(networkPolicy)},
		&appsv1.Deployment{ObjectMeta: here(names.Agent)},
		&appsv1.StatefulSet{ObjectMeta: here(names.Agent)},
		&policyv1.PodDisruptionBudget{ObjectMeta: here(DisruptionBudget)},
		&corev1.Secret{ObjectMeta: here(names.ReleaseKey)}, // an agent that comes back would take later releases for forged ones
		&coordinationv1.Lease{ObjectMeta: here(names.Agent)},
	}
}
